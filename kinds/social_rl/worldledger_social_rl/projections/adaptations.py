"""Policy adaptations in social-RL runs: one row for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldledger_projections.base import Column, Row

from worldledger.effects import Effect
from worldledger_social_rl.projections.course import ROUND_KINDS, OfAgents, json_of, number_of, role_of, text_of
from worldledger_social_rl.rules.words import EXTRA, POLICY_ADAPTED, object_of


class PolicyAdaptations(OfAgents):
    """One row for each PolicyAdapted that says whose it is; values of other types than the documents' are null."""

    name = "policy_adaptations"
    version = 3
    comment = "Adaptations of agents' policies in social-RL runs."
    columns = (
        Column("world_id", "text", "The name of the world."),
        Column("global_seq", "bigint", "The effect that tells of it."),
        Column("round_number", "bigint", "The round in which it was made; 0 is before the first."),
        Column("agent_id", "text", "The agent whose policy was adapted."),
        Column(
            "agent_role",
            "text",
            "The role in its id, or else its `role` as recorded; null where neither tells one.",
            True,
        ),
        Column("adaptation_type", "text", "activate_cue, deactivate_cue, adjust_intensity; null: not told.", True),
        Column("cue", "text", "The cue; null where none is told.", True),
        Column("intensity", "double precision", "The cue's intensity from then on, 0 to 1; null: not told.", True),
        Column("reason", "text", "Why, in words; null where that is not told.", True),
        Column("feedback_trigger", "json", "The feedback values that triggered it; null: not told.", True),
        Column("engagement_delta", "double precision", "As found in older runs, else null.", True),
        Column("alignment_delta", "double precision", "As found in older runs, else null.", True),
        Column("contribution_delta", "double precision", "As found in older runs, else null.", True),
        Column("caused_by", "bigint", "The effect with the feedback that caused it; null: not told.", True),
        Column("recorded_at", "timestamptz", "The wall_time of the effect."),
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
            effect.get("caused_by"),
        )
