"""The schema_version of drafts and intents: semantic (semver.org), but for what was recorded elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import cases
from worldledger.drafts import check_draft
from worldledger.errors import InvalidEffectError, InvalidIntentError
from worldledger.intents import check_intent

GOOD = ["0.0.0", "1.0.0", "10.20.30", "1.2.3-alpha", "1.0.0-alpha.1.x-y", "1.0.0-0a", "1.0.0+build.007", "2.0.0-rc.1+5"]
BAD = ["1", "1.0", "v1.0.0", "1.0.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0-a..b", "1.0.0+", " 1.0.0", "1.0.0\n"]
BAD += ["1.0.x", "\u0661.0.0", "latest"]


def draft(version: str) -> dict[str, Any]:
    """Make a draft of this schema_version."""
    return {"kind": "Said", "payload": {}, "source_id": "a", "schema_version": version}


def intent(version: str) -> dict[str, Any]:
    """Make an intent of this schema_version."""
    given = {"agent_id": "a", "req_id": "r", "context_seq": 0, "schema_version": version}
    return {"kind": "Speak", "payload": {"text": "hi"}, **given}


@cases("version", GOOD)
def test_semantic_versions_are_taken(version: str) -> None:
    """MAJOR.MINOR.PATCH, and perhaps a pre-release and a build."""
    assert check_draft(draft(version)).schema_version == version
    assert check_intent(intent(version)).schema_version == version


@cases("version", BAD)
def test_other_versions_are_refused_with_an_example(version: str) -> None:
    """Anything else is refused with the path and an example of what is wanted, also when it comes again."""
    check_draft(draft(version), recorded=True)
    for _ in range(2):
        with pytest.raises(InvalidEffectError) as refused:
            check_draft(draft(version))
        assert refused.value.path == "$.schema_version"
        assert 'such as "1.0.0"' in refused.value.reason
        with pytest.raises(InvalidIntentError) as not_taken:
            check_intent(intent(version))
        assert not_taken.value.path == "$.schema_version"
        assert 'such as "1.0.0"' in not_taken.value.reason


@cases("version", BAD)
def test_what_was_recorded_has_any_version(version: str) -> None:
    """Recorded drafts keep the versions that they have."""
    assert check_draft(draft(version), recorded=True).schema_version == version
