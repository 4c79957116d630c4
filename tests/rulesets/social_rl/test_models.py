"""The models at work, and files of rounds (docs/reference/social-rl.md, "From Python")."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from worldledger_social_rl.documents import (
    SCHEMA_VERSION,
    AgentFeedback,
    ContextFrame,
    PolicyAdaptation,
    PolicyState,
    RoundResult,
    SocialRLMessage,
    create_experiment_meta,
    load_round_result,
    save_round_result,
    validate_round_result,
)
from worldledger_social_rl.rules.errors import InvalidRunError

from tests.cases import cases
from tests.rulesets.social_rl.documents import ALICE, a_round, policy_state
from worldledger.errors import FileRefusedError


def _example() -> RoundResult:
    """Make a round with the models, as a caller does."""
    # Create messages
    msg = SocialRLMessage(
        agent_id="Worker+Alice",
        content="I understand the task...",
        round_number=1,
        turn_number=1,
        timestamp=time.time(),
        prar_cue_used="[REFLECT] ...",
    )

    # Create feedback
    feedback = AgentFeedback(
        agent_id="Worker+Alice", round_number=1, engagement=0.8, theoretical_alignment=0.7, contribution_value=0.6
    )

    # Create round result with metadata
    return RoundResult(
        round_number=1,
        messages=[msg],
        feedback={"Worker+Alice": feedback},
        meta=create_experiment_meta(
            experiment_id="social_rl_2025-11-23_175825",
            prar_run_id="2025-11-23_baseline_full_qwen",
            framework="Alienation vs Non-Domination",
            framework_option="A",
            model="Qwen/Qwen2.5-7B-Instruct",
        ),
    )


def test_the_usage_example_runs(tmp_path: Path) -> None:
    """A round is made, saved, validated and loaded again, and is the same."""
    result = _example()
    path = tmp_path / "round1_social_rl.json"
    save_round_result(result, path)
    data = json.loads(path.read_text())
    validate_round_result(data)
    assert load_round_result(str(path)) == result
    assert data["messages"][0].keys() == {
        *("agent_id", "content", "round_number", "turn_number", "timestamp"),
        *("prar_cue_used", "feedback_snapshot", "validation_metadata"),
    }
    assert data["feedback"][ALICE].keys() == AgentFeedback.model_fields.keys()
    assert data["meta"]["social_rl_version"] == SCHEMA_VERSION == "0.2.0"
    assert datetime.fromisoformat(data["meta"]["timestamp"]).utcoffset() is not None
    assert (data["meta"]["performer_temperature"], data["meta"]["coach_temperature"]) == (0.7, 0.1)


def test_documents_are_read_and_written_as_they_are() -> None:
    """What the models write of the examples are the examples."""
    for value in (a_round(), a_round(2, messages=[], feedback={}, policy_adaptations=[])):
        assert RoundResult.from_value(value).to_value() == value
    assert PolicyState.from_value(policy_state()).to_value() == policy_state()


def test_extended_fields_are_written_where_they_say_something(tmp_path: Path) -> None:
    """A context frame, a role and the internal flag stand in the file only if they were given."""
    said: dict[str, Any] = {
        "agent_id": "Coach+C",
        "content": "…",
        "round_number": 1,
        "turn_number": 1,
        "timestamp": 1.5,
    }
    message = SocialRLMessage(**said, context_frame=ContextFrame(prar_cue="x"), role="system", internal=True)
    value = message.to_value()
    assert (value["context_frame"]["prar_cue"], value["role"], value["internal"]) == ("x", "system", True)
    assert not {"context_frame", "role", "internal"} & SocialRLMessage(**said).to_value().keys()
    adaptation = PolicyAdaptation(
        agent_id=ALICE, adaptation_type="adjust_intensity", cue="c", reason="r", round_number=1, intensity=0.5
    )
    result = RoundResult(round_number=1, messages=[message], policy_adaptations=[adaptation], round_config={"a": 1})
    path = tmp_path / "r.json"
    save_round_result(result, path)
    assert load_round_result(path) == result


def test_validation_names_every_path() -> None:
    """It raises a ValueError that tells of everything that is wrong at once."""
    wrong = a_round()
    wrong["messages"][1]["turn_number"] = 0
    wrong["feedback"][ALICE]["engagement"] = 1.5
    del wrong["round_number"]
    with pytest.raises(ValueError, match=r"\$\.round_number: round_number is missing") as caught:
        validate_round_result(wrong)
    assert isinstance(caught.value, InvalidRunError)
    paths = [problem["path"] for problem in caught.value.problems]
    assert paths == ["$.round_number", "$.messages[1].turn_number", '$.feedback["Worker+Alice"].engagement']
    values: list[Any] = [None, [], "round"]
    for value in values:
        with pytest.raises(ValueError, match=r"\$: a round is an object"):
            validate_round_result(value)


@cases(
    "model, wrong",
    [
        (SocialRLMessage, {"agent_id": ALICE, "content": "", "round_number": 1, "turn_number": 1, "timestamp": "now"}),
        (AgentFeedback, {"agent_id": ALICE, "round_number": 1, "engagement": 2}),
        (RoundResult, {"round_number": 1, "messages": [], "mood": "good"}),
        (RoundResult, {"round_number": 1, "messages": [], "duration_seconds": float("nan")}),
    ],
)
def test_models_are_strict(model: Any, wrong: dict[str, Any]) -> None:
    """A value of another type, out of range, or of an unknown field makes no model."""
    with pytest.raises(ValidationError):
        model(**wrong)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"round_number": 1, "messages": [', r"\$: not JSON: .* line 1 column"),
        (b'{"round_number": 1, "messages": [], "duration_seconds": NaN}', r"\$\.duration_seconds: not a finite number"),
        (b'{"round_number": 1, "round_number": 2, "messages": []}', "the key 'round_number' stands twice"),
        (b'{"messages": "\xff"}', "not UTF-8"),
        (b'{"messages": []}', r"\$\.round_number: round_number is missing"),
    ],
)
def test_a_file_that_is_no_round_is_refused_with_its_name(tmp_path: Path, data: bytes, said: str) -> None:
    """Truncated JSON, NaN, keys that stand twice, and what is not allowed."""
    path = tmp_path / "round1_social_rl.json"
    path.write_bytes(data)
    with pytest.raises(InvalidRunError, match=said) as caught:
        load_round_result(path)
    assert {problem["file"] for problem in caught.value.problems} == {str(path)}


def test_files_that_cannot_be_reached_are_refused(tmp_path: Path) -> None:
    """Whether they are to be read or written; what could not be read back is not written."""
    missing = tmp_path / "no" / "round1_social_rl.json"
    for path in (missing, "a\0b"):
        with pytest.raises(FileRefusedError, match="cannot be read"):
            load_round_result(path)
        with pytest.raises(FileRefusedError, match="cannot be written"):
            save_round_result(_example(), path)
    wrong = _example()
    wrong.messages[0].round_number = 2
    kept = tmp_path / "kept.json"
    kept.write_text("before")
    with pytest.raises(InvalidRunError, match=r"\$\.messages\[0\]\.round_number: this is of round 1, not 2"):
        save_round_result(wrong, kept)
    assert kept.read_text() == "before"
