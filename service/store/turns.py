"""Turns of simulations: where in the log each begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.store import statements
from worldledger.errors import MomentNotFoundError
from worldledger.rulesets.simulation import RULESET
from worldledger.rulesets.simulation.words import TURN_ENDED, TURN_STARTED

if TYPE_CHECKING:
    from service.store.reader import Reader
    from service.store.records import WorldRecord


class TurnAt(NamedTuple):
    """Where a turn stands in a world's log.

    ``first_seq`` is the effect that started it (of what a simulation begins with, SimulationStarted), ``ended_seq`` the
    one that ended it, if there is one yet, and ``last_seq`` the last before the next turn: the head, while there is
    none.
    """

    turn: int
    first_seq: int
    ended_seq: int | None
    last_seq: int


class Turns:
    """Finds the turns of worlds."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def at(self, world: WorldRecord, turn: int) -> TurnAt:
        """Give where a turn stands. Raises MomentNotFoundError for one that the world does not have."""
        head = world.head_seq
        if world.ruleset != RULESET.name:
            raise self._none(world, turn, f"worlds of {world.ruleset} have none")
        rows = await self._reader.fetch(statements.TURN_STARTED, world.world_id, head, str(turn))
        if not rows:
            raise await self._missing(world, turn)
        first: int = rows[0]["global_seq"]
        following = await self._first(world, first, head, TURN_STARTED)
        last = head if following is None else following - 1
        return TurnAt(turn, first, await self._first(world, first, last, TURN_ENDED), last)

    async def _first(self, world: WorldRecord, after: int, until: int, kind: str) -> int | None:
        rows = await self._reader.fetch(statements.FIRST_OF_KIND, world.world_id, after, until, kind)
        return rows[0]["global_seq"] if rows else None

    async def _missing(self, world: WorldRecord, turn: int) -> MomentNotFoundError:
        rows = await self._reader.fetch(statements.LAST_TURN, world.world_id, world.head_seq)
        return self._none(world, turn, f"its last is {rows[0]['turn']}" if rows else "it has not begun")

    def _none(self, world: WorldRecord, turn: int, why: str) -> MomentNotFoundError:
        what = f"world {world.world_id!r} has no turn {turn}; {why}"
        return MomentNotFoundError(what, world_id=world.world_id, turn=turn, head_seq=world.head_seq)
