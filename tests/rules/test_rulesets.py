"""Rulesets are found by name among the installed entry points, a third party's too."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from worldledger import rulesets
from worldledger.drafts import CheckedDraft, check_draft
from worldledger.errors import IllegalEffectError, RecoveryAction, UnknownRulesetError
from worldledger.rulesets import Ruleset, known_rulesets, load_ruleset
from worldledger.rulesets.base import Check
from worldledger.world import WorldState

_MODULE = """
from worldledger.rulesets import Ruleset

class Go(Ruleset):
    name = "go"
    version = 7

RULESET = Go()
NOT_ONE = object()
"""


def _forget() -> None:
    rulesets._offered.cache_clear()
    load_ruleset.cache_clear()


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Install a package of somebody else's that offers rulesets, good and bad; return its module's name."""
    module = "somebodys_rules"
    info = tmp_path / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[worldledger.rulesets]\n"
        f"go = {module}:RULESET\n"
        f"not-one = {module}:NOT_ONE\n"
        f"no-name = {module}:MISSING\n"
        "no-module = no_such_module_anywhere:RULESET\n"
    )
    (tmp_path / f"{module}.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    _forget()
    yield module
    sys.modules.pop(module, None)
    _forget()


def test_the_projects_own_rulesets_are_registered() -> None:
    """Simulation and sandbox are there by name, each saying its own name and version."""
    assert {"simulation", "sandbox"} <= set(known_rulesets())
    for name in ("simulation", "sandbox"):
        ruleset = load_ruleset(name)
        assert (ruleset.name, ruleset.version >= 1) == (name, True)
        assert load_ruleset(name) is ruleset


def test_a_third_partys_ruleset_is_found(third_party: str) -> None:
    """A ruleset that an installed package names in its entry points is found beside our own."""
    assert {"go", "sandbox"} <= set(known_rulesets())
    ruleset = load_ruleset("go")
    assert (type(ruleset).__module__, ruleset.version) == (third_party, 7)


@cases("name", ["", "Sandbox", "go", "sandbox ", "../sandbox"])
def test_an_unknown_ruleset_is_a_clear_error(name: str) -> None:
    """A name that nobody offers is an error that lists the names there are."""
    with pytest.raises(UnknownRulesetError) as caught:
        load_ruleset(name)
    assert repr(name) in str(caught.value)
    assert "sandbox, " in str(caught.value)
    assert set(caught.value.details["known"]) >= {"simulation", "sandbox"}
    assert caught.value.recovery is RecoveryAction.MODIFY_INTENT


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize(
    ("name", "what"), [("not-one", "no Ruleset"), ("no-name", "MISSING"), ("no-module", "no_such_module_anywhere")]
)
def test_a_ruleset_that_cannot_be_loaded_is_a_clear_error(name: str, what: str) -> None:
    """An entry point that leads nowhere, or to something else, is an error that names it."""
    with pytest.raises(UnknownRulesetError) as caught:
        load_ruleset(name)
    assert repr(name) in str(caught.value)
    assert what in str(caught.value)


def _draft(kind: str) -> CheckedDraft:
    return check_draft({"kind": kind, "payload": {"n": 1}, "source_id": "a", "schema_version": "1.0.0"})


def test_the_base_takes_any_config_and_passes_drafts_on() -> None:
    """A ruleset without rules of its own takes any config, begins empty and writes drafts as they came."""
    draft = _draft("Said")
    ruleset = Ruleset()
    ruleset.check_config({"anything": 1})
    assert ruleset.decide(draft, None) is draft
    state = WorldState.initial()
    ruleset.begin(state, {"anything": 1})
    assert state == WorldState.initial()
    assert not ruleset.upcasting.kinds


def test_what_a_ruleset_refuses_is_recorded_where_it_says_so() -> None:
    """Refused intents are part of a run's history, and of no sandbox's unless it asks for them."""
    assert [load_ruleset(name).records_rejections for name in ("social_rl", "sandbox")] == [True, False]
    assert Ruleset().records_rejections is False


def test_the_base_asks_the_check_of_the_kind() -> None:
    """A check is handed the draft, its payload read and the state; what it raises refuses the draft."""
    asked: list[tuple[CheckedDraft, dict[str, Any], WorldState | None]] = []

    def check(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> None:
        asked.append((draft, payload, state))
        raise IllegalEffectError("not today", "$.payload.n", rule="never")

    class _Strict(Ruleset):
        checks: Mapping[str, Check] = {"Said": check}

    state = WorldState.initial()
    draft, other = _draft("Said"), _draft("Sung")
    with pytest.raises(IllegalEffectError, match=r"\$\.payload\.n: not today") as caught:
        _Strict().decide(draft, state)
    assert caught.value.details == {"rule": "never", "path": "$.payload.n"}
    assert asked == [(draft, {"n": 1}, state)]
    assert asked[0][2] is state
    assert _Strict().decide(other, None) is other
    assert len(asked) == 1
