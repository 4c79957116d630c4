"""Rounds of social-RL runs: one row for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import fsum
from operator import attrgetter
from typing import Final

from worldledger_projections.base import WORLD, Changes, Column, Projection, Row, WorldProjection, moment

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger_social_rl.projections.course import ROUND_KINDS, RULESETS, Course, json_of, number_of, text_of
from worldledger_social_rl.rules.words import (
    FEEDBACK_RECORDED,
    MESSAGE_EMITTED,
    POLICY_ADAPTED,
    ROUND_ENDED,
    ROUND_STARTED,
    ROUND_SYNTHESISED,
    is_internal,
)

_COLUMNS: Final = (
    WORLD,
    Column("round_number", "bigint", "The number of the round."),
    Column("is_ended", "boolean", "Whether it is over."),
    Column("messages", "bigint", "How many messages were sent, those for coaches only included."),
    Column("internal_messages", "bigint", "How many of them are for coaches only."),
    Column("agents", "bigint", "How many agents said something to all, or had feedback or an adaptation."),
    Column("adaptations", "bigint", "How many policy adaptations there were."),
    Column("mean_engagement", "double precision", "Mean of the agents' engagement; null without feedback.", True),
    Column("mean_alignment", "double precision", "Mean of theoretical_alignment; null without feedback.", True),
    Column("mean_contribution", "double precision", "Mean of contribution_value; null without feedback.", True),
    Column("synthesis", "text", "What the round came to; null where that is not told.", True),
    Column("duration_s", "double precision", "How long it took, in seconds, as recorded; null: not told.", True),
    Column("round_config", "json", "Scenario, rules and tasks, as recorded; null without any.", True),
    Column("started_seq", "bigint", "The effect that started it."),
    Column("ended_seq", "bigint", "The effect that ended it; null while it runs.", True),
    Column("started_at", "timestamptz", "The wall_time of the effect that started it."),
)
_MEANS: Final = {
    "mean_engagement": "engagement",
    "mean_alignment": "theoretical_alignment",
    "mean_contribution": "contribution_value",
}


@dataclass(slots=True)
class _Round:
    """A row: fields in the order of the columns."""

    world_id: str
    round_number: int
    is_ended: bool
    messages: int
    internal_messages: int
    agents: int
    adaptations: int
    mean_engagement: float | None
    mean_alignment: float | None
    mean_contribution: float | None
    synthesis: str | None
    duration_s: float | None
    round_config: str | None
    started_seq: int
    ended_seq: int | None
    started_at: datetime


_row_of: Final[Callable[[_Round], Row]] = attrgetter(*(column.name for column in _COLUMNS))


class _World(WorldProjection):
    """``_round`` is the last round that was started; means and agents are filled in from the state when it is written.

    ``_rows`` are the rounds that have changed, by number.
    """

    def __init__(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> None:
        self._world_id = world_id
        self._course = Course(fold)
        self._round = _Round(*rows[0]) if rows else None
        self._changed = False
        self._rows: dict[int, Row] = {}

    def apply(self, effect: Effect) -> None:
        kind = effect["kind"]
        if kind == ROUND_STARTED:
            self._finish()
        if not self._course.take(effect):
            return
        if kind == ROUND_STARTED:
            self._round = self._started(effect)
        elif self._round is not None:
            self._add(self._round, kind, effect)
        self._changed = self._round is not None

    def _started(self, effect: Effect) -> _Round:
        head = (self._world_id, self._course.round_number, False, 0, 0, 0, 0, None, None, None, None, None)
        config = json_of(effect["payload"].get("round_config"))
        return _Round(*head, config, effect["global_seq"], None, moment(effect["wall_time"]))

    @staticmethod
    def _add(row: _Round, kind: str, effect: Effect) -> None:
        payload = effect["payload"]
        if kind == MESSAGE_EMITTED:
            row.messages += 1
            row.internal_messages += is_internal(payload)
        elif kind == POLICY_ADAPTED:
            row.adaptations += 1
        elif kind == ROUND_SYNTHESISED:
            row.synthesis = text_of(payload.get("synthesis"))
        elif kind == ROUND_ENDED:
            row.is_ended, row.ended_seq = True, effect["global_seq"]
            row.duration_s = number_of(payload.get("duration_seconds"))

    def _finish(self) -> None:
        """Put the round as it is now among the rows, if it has changed."""
        row = self._round
        if row is None or not self._changed:
            return
        self._changed = False
        entities = self._course.state.entities.values()
        row.agents = sum(entity["last_round"] == row.round_number for entity in entities)
        vectors = [entity["feedback"] for entity in entities if entity["feedback_round"] == row.round_number]
        for column, metric in _MEANS.items():
            values = [number for vector in vectors if (number := number_of(vector.get(metric))) is not None]
            setattr(row, column, _mean(values))
        self._rows[row.round_number] = _row_of(row)

    def take_changes(self) -> Changes:
        self._finish()
        rows, self._rows = self._rows, {}
        return Changes(upserts=list(rows.values()))


class Rounds(Projection):
    """One row for each round that was started; what comes between two rounds counts for the one before.

    ``agents`` and the means are over the agents: of one that has feedback twice in a round the last counts.
    """

    name = "rounds"
    version = 3
    comment = "Rounds of social-RL runs."
    columns = _COLUMNS
    key = ("world_id", "round_number")
    rulesets = RULESETS
    kinds = ROUND_KINDS | {MESSAGE_EMITTED, FEEDBACK_RECORDED, POLICY_ADAPTED, ROUND_SYNTHESISED, ROUND_ENDED}
    needs_rows = True
    newest_by = "round_number"
    inherited_by = ("ended_seq",)
    needs_state = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the rounds' fold from the last round on."""
        return _World(world_id, rows, fold)


def _mean(values: Sequence[float]) -> float | None:
    try:
        return fsum(values) / len(values) if values else None
    except OverflowError:  # their sum is no double, though their mean is one
        return fsum(value / len(values) for value in values)
