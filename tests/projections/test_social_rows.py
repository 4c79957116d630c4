"""Messages, feedback and adaptations of social-RL runs: one row for each that the fold can read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
from hypothesis import given, settings
from worldledger_projections.base import Projection
from worldledger_social_rl.projections.agents import Feedback, Messages, PolicyAdaptations
from worldledger_social_rl.rules import RULESET

from tests.projections.playing import CUTS, Cuts, at, dicts, play, the_row
from tests.projections.social_logs import draft, social, social_logs, started
from tests.rulesets.social_rl.documents import ALICE, adaptation, context_frame, feedback, message
from worldledger.effects import Effect
from worldledger.folding import Fold

MESSAGES, FEEDBACK, ADAPTATIONS = Messages(), Feedback(), PolicyAdaptations()


def _row(projection: Projection, kind: str, payload: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return the_row(projection, play(projection, social(started(2), draft(kind, payload, **fields)), RULESET))


def test_a_message_s_row_says_what_was_said() -> None:
    """Every field of a message, in its own type."""
    payload = message(
        internal=True, role="system", context_frame=context_frame(), feedback_snapshot={"b": 1, "a": 0.5}, turn_number=3
    )
    row = _row(MESSAGES, "MessageEmitted", payload)
    assert orjson.loads(row.pop("context_frame")) == context_frame()
    assert row == {
        "world_id": "w",
        "global_seq": 3,
        "round_number": 2,
        "turn_number": 3,
        "agent_id": ALICE,
        "agent_role": "Worker",
        "content": "...",
        "prar_cue_used": payload["prar_cue_used"],
        "is_internal": True,
        "role": "system",
        "feedback_snapshot": '{"a":0.5,"b":1}',
        "validation_metadata": None,
        "emitted_at": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "recorded_at": at(3),
    }


def test_what_is_of_another_type_is_null_in_a_row() -> None:
    """The effect stands in the log; a time that no column holds is none."""
    odd = {"agent_id": "CES_Urban", "content": 5, "turn_number": "1", "timestamp": 1e300, "extra": {"internal": "no"}}
    row = _row(MESSAGES, "MessageEmitted", odd)
    assert (row["agent_id"], row["agent_role"], row["is_internal"]) == ("CES_Urban", None, True)
    assert {row[name] for name in ("content", "turn_number", "emitted_at", "prar_cue_used", "context_frame")} == {None}
    row = _row(FEEDBACK, "FeedbackRecorded", {"agent_id": ALICE, "engagement": "high", "concepts_embodied": 1})
    assert {row[name] for name in ("engagement", "concepts_embodied", "analyst_mentions")} == {None}
    row = _row(ADAPTATIONS, "PolicyAdapted", {"agent_id": ALICE, "cue": 1, "extra": {"deltas": [1]}})
    assert {row[name] for name in ("cue", "intensity", "engagement_delta", "caused_by")} == {None}


def test_feedback_s_row_has_what_the_agent_had_before() -> None:
    """Nothing for its first feedback; nothing of other agents."""
    log = social(
        started(1),
        draft("FeedbackRecorded", feedback(engagement=0.25, theoretical_alignment=1)),
        draft("FeedbackRecorded", feedback("Owner+Marta", engagement=0.5)),
        started(2),
        draft("FeedbackRecorded", feedback(engagement=0.75)),
    )
    for cuts in ([], [(1, True)] * 6):
        first, other, second = dicts(FEEDBACK, play(FEEDBACK, log, RULESET, cuts))
        assert (first["previous_engagement"], other["previous_engagement"]) == (None, None)
        assert (second["previous_engagement"], second["previous_alignment"]) == (0.25, 1.0)
    assert second == {
        "world_id": "w",
        "global_seq": 6,
        "round_number": 2,
        "agent_id": ALICE,
        "agent_role": "Worker",
        "engagement": 0.75,
        "theoretical_alignment": 0.72,
        "contribution_value": 0.65,
        "direct_references": 3,
        "response_received": 2,
        "concepts_embodied": '["alienation","labor"]',
        "analyst_mentions": 1,
        "synthesis_inclusion": 0.5,
        "previous_engagement": 0.25,
        "previous_alignment": 1.0,
        "recorded_at": at(6),
    }


def test_an_adaptation_s_row_says_what_and_why() -> None:
    """As documented, with the effect that caused it; or as it was found, with the deltas."""
    row = _row(ADAPTATIONS, "PolicyAdapted", adaptation(intensity=0.5), caused_by=1)
    assert row == {
        "world_id": "w",
        "global_seq": 3,
        "round_number": 2,
        "agent_id": ALICE,
        "agent_role": "Worker",
        "adaptation_type": "activate_cue",
        "cue": "emphasize_non_domination",
        "intensity": 0.5,
        "reason": "engagement low, alignment below threshold",
        "feedback_trigger": '{"alignment":0.4,"engagement":0.3}',
        "engagement_delta": None,
        "alignment_delta": None,
        "contribution_delta": None,
        "caused_by": 1,
        "recorded_at": at(3),
    }
    deltas = {"engagement_delta": 0.5, "alignment_delta": -1, "contribution_delta": 0.0}
    row = _row(ADAPTATIONS, "PolicyAdapted", {"agent_id": ALICE, "extra": {"deltas": deltas, "round": 2}})
    assert {name: row[name] for name in deltas} == deltas
    assert (row["adaptation_type"], row["reason"]) == (None, None)


def test_an_agent_whose_id_has_no_role_has_the_recorded_one() -> None:
    """Its `role`, as runs are found; that of a message in a conversation with a model is none."""
    told = {"agent_id": "CES_Urban", "extra": {"role": "Worker"}}
    for projection, kind in (
        (MESSAGES, "MessageEmitted"),
        (FEEDBACK, "FeedbackRecorded"),
        (ADAPTATIONS, "PolicyAdapted"),
    ):
        assert _row(projection, kind, told)["agent_role"] == "Worker"
        assert _row(projection, kind, {**told, "agent_id": "Owner+Ann"})["agent_role"] == "Owner"
    for role, agent_role in (("Owner", "Owner"), ("assistant", None)):
        assert _row(MESSAGES, "MessageEmitted", {"agent_id": "CES_Urban", "role": role})["agent_role"] == agent_role


@settings(max_examples=60)
@given(social_logs(), CUTS)
def test_rows_are_what_the_fold_takes_wherever_batches_end(log: list[Effect], cuts: Cuts) -> None:
    """What the fold does not count as malformed has a row, in the round that the state has."""
    folded = Fold("w", RULESET)
    wanted: dict[str, list[tuple[int, int, Any]]] = {}
    for effect in log:
        malformed = folded.state.metadata["malformed_effects"]
        before = folded.state.entities.get(str(effect["payload"].get("agent_id")), {}).get("feedback") or {}
        folded.apply(effect)
        if folded.state.metadata["malformed_effects"] == malformed:
            fact: Any = effect["payload"].get("agent_id")
            if effect["kind"] == "FeedbackRecorded":
                number = before.get("engagement")
                fact = (fact, number if type(number) in {int, float} else None)
            number = folded.state.metadata["social_rl"]["round_number"]
            wanted.setdefault(effect["kind"], []).append((effect["global_seq"], number, fact))
    for projection, kind in ((MESSAGES, "MessageEmitted"), (ADAPTATIONS, "PolicyAdapted")):
        rows = dicts(projection, play(projection, log, RULESET, cuts))
        found = [(row["global_seq"], row["round_number"], row["agent_id"]) for row in rows]
        assert found == wanted.get(kind, [])
    rows = dicts(FEEDBACK, play(FEEDBACK, log, RULESET, cuts))
    assert [
        (row["global_seq"], row["round_number"], (row["agent_id"], row["previous_engagement"])) for row in rows
    ] == wanted.get("FeedbackRecorded", [])
