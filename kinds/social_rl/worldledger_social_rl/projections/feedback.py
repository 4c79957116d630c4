"""Feedback in social-RL runs: one row for each vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from worldledger_projections.base import AppendingWorld, Column, Projection, Row, WorldProjection
from worldledger_projections.moments import moment

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger_social_rl.projections.course import (
    ROUND_KINDS,
    RULESETS,
    Course,
    json_of,
    number_of,
    role_of,
    whole_of,
)
from worldledger_social_rl.rules.words import FEEDBACK_RECORDED, object_of


class _World(AppendingWorld):
    def __init__(self, world_id: str, fold: Fold | None) -> None:
        super().__init__(world_id)
        self._course = Course(fold)

    def apply(self, effect: Effect) -> None:
        if effect["kind"] != FEEDBACK_RECORDED:
            self._course.take(effect)
            return
        payload = effect["payload"]
        get = payload.get
        agent_id: Any = get("agent_id")
        entity = self._course.state.entities.get(agent_id) if type(agent_id) is str else None
        before = object_of(None if entity is None else entity["feedback"])
        if not self._course.take(effect):
            return
        self._rows.append(
            (
                self._world_id,
                effect["global_seq"],
                self._course.round_number,
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
                moment(effect["wall_time"]),
            )
        )


class Feedback(Projection):
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
    key = ("world_id", "global_seq")
    rulesets = RULESETS
    indexes = (("agent_id", "world_id"),)
    kinds = ROUND_KINDS | {FEEDBACK_RECORDED}
    needs_state = True
    append_only = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the feedback's fold from the running round and each agent's feedback on."""
        return _World(world_id, fold)
