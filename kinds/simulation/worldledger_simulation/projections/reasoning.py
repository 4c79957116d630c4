"""The reasoning of agents in simulations: one row for each statement."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from worldledger_projections.base import AppendingWorld, Column, Projection, Row, WorldProjection, moment

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.world import state_text
from worldledger_simulation.projections.turns import KINDS, Course
from worldledger_simulation.rules.words import REASONING_RECORDED, read_agent, read_reasoning


class _World(AppendingWorld):
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
    version = 1
    comment = "What agents of simulations said of their reasons."
    columns = (
        Column("world_id", "text", "The name of the world."),
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
    needs_state = True
    append_only = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the reasoning's fold, starting from the state's turn and agents."""
        if fold is None:
            raise ValueError("reasoning is followed from the world's state on")
        return _World(world_id, fold)
