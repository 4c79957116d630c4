"""The turns of simulations and the reasoning of agents in them: one row for each turn, and for each statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from worldledger_projections.base import (
    WORLD,
    AppendingWorld,
    Changes,
    Column,
    Projection,
    Row,
    WorldProjection,
    moment,
    needed,
    take_effect,
)

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND
from worldledger.world import state_text
from worldledger_simulation.rules.words import (
    AGENT_ADDED,
    AGENT_REMOVED,
    AGENT_STATE_CHANGED,
    GLOBAL_STATE_CHANGED,
    REASONING_RECORDED,
    SIMULATION_STARTED,
    TURN,
    TURN_ENDED,
    TURN_STARTED,
    read_agent,
    read_reasoning,
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
        if not take_effect(self._ruleset, self._state, effect):
            return False
        if effect["kind"] in (SIMULATION_STARTED, AGENT_ADDED):
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
        WORLD,
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
    inherited_by = ("ended_seq", "last_seq")
    needs_state = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the turns' fold, starting from the present turn."""
        return _World(world_id, rows, needed(fold))


# -- the reasoning of agents in simulations: one row for each statement -----------------------------------


class _Reasoned(AppendingWorld):
    def __init__(self, world_id: str, fold: Fold) -> None:
        super().__init__(world_id)
        self._course = Course(fold)

    def apply(self, effect: Effect) -> None:
        if self._course.take(effect) and effect["kind"] == REASONING_RECORDED:
            payload = effect["payload"]
            content = read_reasoning(payload)
            text = state_text(content).decode()
            self._rows.append(
                (
                    self._world_id,
                    effect["global_seq"],
                    self._course.turn,
                    read_agent(payload, effect["source_id"]),
                    content if type(content) is str else text,
                    text,
                    payload.get("model"),
                    payload.get("token_count"),
                    effect["sim_time"],
                    moment(effect["wall_time"]),
                )
            )


class Reasoning(Projection):
    """One row for each ReasoningRecorded that the fold of a simulation can read, by an agent that was there."""

    name = "reasoning"
    version = 2
    comment = "What agents of simulations said of their reasons."
    columns = (
        WORLD,
        Column("global_seq", "bigint", "The effect that tells of it."),
        Column("turn", "bigint", "The turn in which it was recorded; 0 is before the first."),
        Column("agent_id", "text", "The agent whose reasoning it is."),
        Column("reasoning", "text", "The reasoning: a text as it is, anything else as JSON text."),
        Column("content", "json", "The same as JSON: a string, an object or a list."),
        Column("model", "text", "The model that reasoned; null where that is not told.", True),
        Column("token_count", "bigint", "How many tokens it took; null where that is not told.", True),
        Column("sim_time", "double precision", "The sim_time of the effect, in seconds."),
        Column("recorded_at", "timestamptz", "The wall_time of the effect."),
    )
    key = ("world_id", "global_seq")
    rulesets = frozenset({"simulation"})
    indexes = (("agent_id", "world_id", "turn"),)
    published = MappingProxyType({"sim_time": "sim_time_s"})
    kinds = KINDS | {REASONING_RECORDED}
    inherited_by = ("global_seq",)
    needs_state = True
    append_only = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the reasoning's fold, starting from the state's turn and agents."""
        return _Reasoned(world_id, needed(fold))
