"""The turns of simulations: one row for each; and their course, which other projections follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from worldledger_projections.base import Changes, Column, Projection, Row, WorldProjection, moment

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND
from worldledger.rulesets.base import MalformedEffectError
from worldledger_simulation.rules.words import (
    AGENT_ADDED,
    AGENT_REMOVED,
    AGENT_STATE_CHANGED,
    GLOBAL_STATE_CHANGED,
    SIMULATION_STARTED,
    TURN,
    TURN_ENDED,
    TURN_STARTED,
)

# -- a simulation's turns and its present agents, as its effects tell them, for projections ---------------
#
# These are the handlers of the fold itself, applied to a state without values, so that projections and states agree on
# which effects count, and which do not because they cannot be read. Values cost most of a fold and are left out.


#: The kinds that decide which turn it is.
TURN_KINDS: Final = frozenset({GENESIS_KIND, SIMULATION_STARTED, TURN_STARTED, TURN_ENDED})
#: The kinds that also decide which agents are there.
KINDS: Final = TURN_KINDS | {AGENT_ADDED, AGENT_REMOVED}

#: Stands for an entity.
_NO_VALUES: Final[dict[str, Any]] = {}


class Course:
    """A simulation, from a state on. It takes over the fold that it is made from."""

    def __init__(self, fold: Fold) -> None:
        self._ruleset = fold.ruleset
        self._state = fold.state
        self._forget_values()

    @property
    def turn(self) -> int:
        """The last turn that was started; 0 before the first one."""
        turn: int = self._state.metadata.get(TURN, 0)
        return turn

    def take(self, effect: Effect) -> bool:
        """Fold an effect of those kinds, or ReasoningRecorded; return whether it counts.

        A projection that passes only the `TURN_KINDS` knows the turn, but not the agents.
        """
        kind = effect["kind"]
        if kind == GENESIS_KIND:
            self._ruleset.begin(self._state, effect["payload"]["config"])
            return True
        try:
            self._ruleset.handlers[kind](self._state, effect)
        except MalformedEffectError:
            return False
        if kind in (SIMULATION_STARTED, AGENT_ADDED):
            self._forget_values()
        return True

    def _forget_values(self) -> None:
        self._state.entities = dict.fromkeys(self._state.entities, _NO_VALUES)


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
