"""Turns of simulations: where in the log each begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from worldledger_service.store import statements

if TYPE_CHECKING:
    from worldledger_service.store.moments import Units
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord


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

    def __init__(self, reader: Reader, units: Units) -> None:
        self._reader = reader
        self._units = units

    async def at(self, world: WorldRecord, turn: int) -> TurnAt:
        """Return where a turn stands. Raises MomentNotFoundError for one that the world does not have."""
        from worldledger_simulation.rules.words import TURN, TURN_ENDED  # noqa: PLC0415 - slow to load, for simulations

        first, last = await self._units.at(world, TURN, turn)
        rows = await self._reader.fetch(statements.FIRST_OF_KINDS, world.world_id, first, last, [TURN_ENDED])
        return TurnAt(turn, first, rows[0]["global_seq"] if rows else None, last)
