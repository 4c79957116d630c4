"""What agents of social-RL runs say and are told: one row for each message, feedback vector and policy adaptation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from worldledger_projections.base import EARLIEST, LATEST, WORLD, Column, Row, moment

from worldledger.causes import inherited_cause
from worldledger.effects import Effect
from worldledger_social_rl.projections.course import (
    ROUND_KINDS,
    OfAgents,
    json_of,
    number_of,
    role_of,
    text_of,
    whole_of,
)
from worldledger_social_rl.rules.words import (
    EXTRA,
    FEEDBACK_RECORDED,
    MESSAGE_EMITTED,
    POLICY_ADAPTED,
    is_internal,
    object_of,
)

_SEQ: Final = Column("global_seq", "bigint", "The effect that tells of it.")
_ROLE: Final = Column(
    "agent_role", "text", "The role in its id, or else its `role` as recorded; null where neither tells one.", True
)
_RECORDED: Final = Column("recorded_at", "timestamptz", "The wall_time of the effect.")


def _emitted(timestamp: Any) -> datetime | None:
    """Return the moment of a timestamp; None for one that is none, or is beyond what a column holds."""
    seconds = number_of(timestamp)
    found = None if seconds is None else moment(seconds)
    return found if found is None or EARLIEST < found < LATEST else None


class Messages(OfAgents):
    """One row for each MessageEmitted that says whose it is; values of other types than the documents' are null."""

    name = "messages"
    version = 4
    comment = "Messages of social-RL runs."
    columns = (
        WORLD,
        _SEQ,
        Column("round_number", "bigint", "The round in which it was sent; 0 is before the first."),
        Column("turn_number", "bigint", "The turn within the round; null where that is not told.", True),
        Column("agent_id", "text", "The agent that sent it."),
        _ROLE,
        Column("content", "text", "What it says; null where that is no text.", True),
        Column("prar_cue_used", "text", "The PRAR cue that was injected; null without one.", True),
        Column("is_internal", "boolean", "Whether it is for coaches only."),
        Column("role", "text", "The message's role: assistant, system, user; null where that is not told.", True),
        Column("feedback_snapshot", "json", "The agent's feedback at that time; null without any.", True),
        Column("validation_metadata", "json", "What the coach's validation came to; null without any.", True),
        Column("context_frame", "json", "What was injected into the agent's context; null without any.", True),
        Column("emitted_at", "timestamptz", "When it was sent, as recorded; null where that is not told.", True),
        _RECORDED,
    )
    effect_kind = MESSAGE_EMITTED
    kinds = ROUND_KINDS | {MESSAGE_EMITTED}

    @staticmethod
    def row(effect: Effect, before: Mapping[str, Any]) -> Row:
        """Return what a message says."""
        payload = effect["payload"]
        get = payload.get
        agent_id: str = payload["agent_id"]
        return (
            whole_of(get("turn_number")),
            agent_id,
            role_of(agent_id, payload),
            text_of(get("content")),
            text_of(get("prar_cue_used")),
            is_internal(payload),
            text_of(get("role")),
            json_of(get("feedback_snapshot")),
            json_of(get("validation_metadata")),
            json_of(get("context_frame")),
            _emitted(get("timestamp")),
        )


# -- feedback in social-RL runs: one row for each vector --------------------------------------------------


class Feedback(OfAgents):
    """One row for each FeedbackRecorded that says whose it is; values of other types than the documents' are null."""

    name = "feedback"
    version = 4
    comment = "Feedback on agents in social-RL runs."
    columns = (
        WORLD,
        _SEQ,
        Column("round_number", "bigint", "The round in which it was given; 0 is before the first."),
        Column("agent_id", "text", "The agent whose feedback it is."),
        _ROLE,
        Column("engagement", "double precision", "Participation, 0 to 1; null where that is not told.", True),
        Column("theoretical_alignment", "double precision", "Framework adherence, 0 to 1; null: not told.", True),
        Column("contribution_value", "double precision", "Substantive contribution, 0 to 1; null: not told.", True),
        Column("direct_references", "bigint", "How often others referred to it; null: not told.", True),
        Column("response_received", "bigint", "How many responses it had; null: not told.", True),
        Column("concepts_embodied", "json", "The concepts that it expressed, a list; null: not told.", True),
        Column("analyst_mentions", "bigint", "How often the analyst mentioned it; null: not told.", True),
        Column("synthesis_inclusion", "double precision", "Inclusion in the synthesis, 0 to 1; null: not told.", True),
        Column("previous_engagement", "double precision", "The agent's engagement before; null: none.", True),
        Column("previous_alignment", "double precision", "Its theoretical_alignment before; null: none.", True),
        _RECORDED,
    )
    effect_kind = FEEDBACK_RECORDED
    kinds = ROUND_KINDS | {FEEDBACK_RECORDED}

    @staticmethod
    def row(effect: Effect, before: Mapping[str, Any]) -> Row:
        """Return what a feedback vector says."""
        payload = effect["payload"]
        get = payload.get
        agent_id: str = payload["agent_id"]
        return (
            agent_id,
            role_of(agent_id, payload),
            number_of(get("engagement")),
            number_of(get("theoretical_alignment")),
            number_of(get("contribution_value")),
            whole_of(get("direct_references")),
            whole_of(get("response_received")),
            json_of(get("concepts_embodied")),
            whole_of(get("analyst_mentions")),
            number_of(get("synthesis_inclusion")),
            number_of(before.get("engagement")),
            number_of(before.get("theoretical_alignment")),
        )


# -- policy adaptations in social-RL runs: one row for each -----------------------------------------------


class PolicyAdaptations(OfAgents):
    """One row for each PolicyAdapted that says whose it is; values of other types than the documents' are null."""

    name = "policy_adaptations"
    version = 4
    comment = "Adaptations of agents' policies in social-RL runs."
    columns = (
        WORLD,
        _SEQ,
        Column("round_number", "bigint", "The round in which it was made; 0 is before the first."),
        Column("agent_id", "text", "The agent whose policy was adapted."),
        _ROLE,
        Column("adaptation_type", "text", "activate_cue, deactivate_cue, adjust_intensity; null: not told.", True),
        Column("cue", "text", "The cue; null where none is told.", True),
        Column("intensity", "double precision", "The cue's intensity from then on, 0 to 1; null: not told.", True),
        Column("reason", "text", "Why, in words; null where that is not told.", True),
        Column("feedback_trigger", "json", "The feedback values that triggered it; null: not told.", True),
        Column("engagement_delta", "double precision", "As found in older runs, else null.", True),
        Column("alignment_delta", "double precision", "As found in older runs, else null.", True),
        Column("contribution_delta", "double precision", "As found in older runs, else null.", True),
        Column("caused_by", "bigint", "The effect with the feedback that caused it; null: not told.", True),
        _RECORDED,
    )
    effect_kind = POLICY_ADAPTED
    kinds = ROUND_KINDS | {POLICY_ADAPTED}

    @staticmethod
    def row(effect: Effect, before: Mapping[str, Any]) -> Row:
        """Return what an adaptation says."""
        payload = effect["payload"]
        agent_id: str = payload["agent_id"]
        deltas = object_of(object_of(payload.get(EXTRA)).get("deltas"))
        return (
            agent_id,
            role_of(agent_id, payload),
            text_of(payload.get("adaptation_type")),
            text_of(payload.get("cue")),
            number_of(payload.get("intensity")),
            text_of(payload.get("reason")),
            json_of(payload.get("feedback_trigger")),
            number_of(deltas.get("engagement_delta")),
            number_of(deltas.get("alignment_delta")),
            number_of(deltas.get("contribution_delta")),
            effect.get("caused_by") if inherited_cause(effect) is None else None,
        )
