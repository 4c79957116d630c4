"""The turns of simulations: one row for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from worldledger_projections.base import Changes, Column, Projection, Row, WorldProjection, moment

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger_simulation.projections.course import TURN_KINDS, Course
from worldledger_simulation.rules.words import (
    AGENT_STATE_CHANGED,
    GLOBAL_STATE_CHANGED,
    SIMULATION_STARTED,
    TURN_ENDED,
    TURN_STARTED,
)


@dataclass(slots=True)
class _Turn:
    """A row: fields in the order of the columns."""

    world_id: str
    turn: int
    started_seq: int
    ended_seq: int | None
    last_seq: int | None
    started_sim_time: float
    ended_sim_time: float | None
    started_at: datetime
    ended_at: datetime | None
    changes: int


_row_of: Final[Callable[[_Turn], Row]] = attrgetter(*(field.name for field in fields(_Turn)))


class _World(WorldProjection):
    """``_turn`` is the present turn; ``_rows`` are the changed rows, by turn."""

    def __init__(self, world_id: str, rows: Sequence[Row], fold: Fold) -> None:
        self._world_id = world_id
        self._course = Course(fold)
        self._turn = _Turn(*rows[0]) if rows else None
        self._rows: dict[int, _Turn] = {}

    def apply(self, effect: Effect) -> None:
        kind = effect["kind"]
        if kind in TURN_KINDS:
            if self._course.take(effect):
                self._take(kind, effect)
        elif self._turn is not None:
            self._turn.changes += 1
            self._rows[self._turn.turn] = self._turn

    def _take(self, kind: str, effect: Effect) -> None:
        turn = self._turn
        if kind in (SIMULATION_STARTED, TURN_STARTED):
            seq, sim_time, now = effect["global_seq"], effect["sim_time"], moment(effect["wall_time"])
            if turn is not None:
                turn.last_seq = seq - 1
                self._rows[turn.turn] = turn
            turn = _Turn(self._world_id, self._course.turn, seq, None, None, sim_time, None, now, None, 0)
            self._turn = turn
        elif kind == TURN_ENDED and turn is not None:
            turn.ended_seq, turn.ended_sim_time = effect["global_seq"], effect["sim_time"]
            turn.ended_at = moment(effect["wall_time"])
        if turn is not None:
            self._rows[turn.turn] = turn

    def take_changes(self) -> Changes:
        rows, self._rows = self._rows, {}
        return Changes(upserts=[_row_of(turn) for turn in rows.values()])


class Turns(Projection):
    """One row for each turn of a simulation; the first is its beginning, before a turn was started.

    A turn's values are those before the next turn starts: the state at ``last_seq``.
    """

    name = "turns"
    version = 1
    comment = "The turns of simulations."
    columns = (
        Column("world_id", "text", "The name of the world."),
        Column("turn", "bigint", "The number of the turn; the first is the one that the simulation began with: 0."),
        Column("started_seq", "bigint", "The effect that started it."),
        Column("ended_seq", "bigint", "The TurnEnded; null without one, as for the turn that it began with.", True),
        Column("last_seq", "bigint", "The last effect before the next turn; null for the present turn.", True),
        Column("started_sim_time", "double precision", "The sim_time of the effect that started it, in seconds."),
        Column("ended_sim_time", "double precision", "The sim_time of the TurnEnded; null without one.", True),
        Column("started_at", "timestamptz", "The wall_time of the effect that started it."),
        Column("ended_at", "timestamptz", "The wall_time of the TurnEnded; null without one.", True),
        Column("changes", "bigint", "How many of its effects are an AgentStateChanged or a GlobalStateChanged."),
    )
    key = ("world_id", "turn")
    published = MappingProxyType({"started_sim_time": "started_sim_time_s", "ended_sim_time": "ended_sim_time_s"})
    rulesets = frozenset({"simulation"})
    kinds = TURN_KINDS | {AGENT_STATE_CHANGED, GLOBAL_STATE_CHANGED}
    needs_rows = True
    newest_by = "turn"
    needs_state = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the turns' fold, starting from the present turn."""
        if fold is None:
            raise ValueError("turns are followed from the world's state on")
        return _World(world_id, rows, fold)
