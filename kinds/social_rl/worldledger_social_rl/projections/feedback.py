"""Feedback in social-RL runs: one row for each vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldledger_projections.base import Column, Row

from worldledger.effects import Effect
from worldledger_social_rl.projections.course import (
    ROUND_KINDS,
    OfAgents,
    json_of,
    number_of,
    role_of,
    whole_of,
)
from worldledger_social_rl.rules.words import FEEDBACK_RECORDED


class Feedback(OfAgents):
    """One row for each FeedbackRecorded that says whose it is; values of other types than the documents' are null."""

    name = "feedback"
    version = 3
    comment = "Feedback on agents in social-RL runs."
    columns = (
        Column("world_id", "text", "The name of the world."),
        Column("global_seq", "bigint", "The effect that tells of it."),
        Column("round_number", "bigint", "The round in which it was given; 0 is before the first."),
        Column("agent_id", "text", "The agent whose feedback it is."),
        Column(
            "agent_role",
            "text",
            "The role in its id, or else its `role` as recorded; null where neither tells one.",
            True,
        ),
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
        Column("recorded_at", "timestamptz", "The wall_time of the effect."),
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
