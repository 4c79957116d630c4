"""Messages of social-RL runs: one row for each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from worldledger_projections.base import EARLIEST, LATEST, Column, Row, moment

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
from worldledger_social_rl.rules.words import MESSAGE_EMITTED, is_internal


def _emitted(timestamp: Any) -> datetime | None:
    """Return the moment of a timestamp; None for one that is none, or is beyond what a column holds."""
    seconds = number_of(timestamp)
    found = None if seconds is None else moment(seconds)
    return found if found is None or EARLIEST < found < LATEST else None


class Messages(OfAgents):
    """One row for each MessageEmitted that says whose it is; values of other types than the documents' are null."""

    name = "messages"
    version = 3
    comment = "Messages of social-RL runs."
    columns = (
        Column("world_id", "text", "The name of the world."),
        Column("global_seq", "bigint", "The effect that tells of it."),
        Column("round_number", "bigint", "The round in which it was sent; 0 is before the first."),
        Column("turn_number", "bigint", "The turn within the round; null where that is not told.", True),
        Column("agent_id", "text", "The agent that sent it."),
        Column(
            "agent_role",
            "text",
            "The role in its id, or else its `role` as recorded; null where neither tells one.",
            True,
        ),
        Column("content", "text", "What it says; null where that is no text.", True),
        Column("prar_cue_used", "text", "The PRAR cue that was injected; null without one.", True),
        Column("is_internal", "boolean", "Whether it is for coaches only."),
        Column("role", "text", "The message's role: assistant, system, user; null where that is not told.", True),
        Column("feedback_snapshot", "json", "The agent's feedback at that time; null without any.", True),
        Column("validation_metadata", "json", "What the coach's validation came to; null without any.", True),
        Column("context_frame", "json", "What was injected into the agent's context; null without any.", True),
        Column("emitted_at", "timestamptz", "When it was sent, as recorded; null where that is not told.", True),
        Column("recorded_at", "timestamptz", "The wall_time of the effect."),
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
