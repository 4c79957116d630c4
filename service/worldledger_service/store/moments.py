"""Where the units of worlds (steps, turns, rounds, half-moves) begin and end in their logs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from worldledger.canonical import MAX_INT
from worldledger.effects import is_system_kind
from worldledger.errors import MomentNotFoundError
from worldledger.moments import STEP, Unit
from worldledger.rulesets import load_ruleset
from worldledger_service.store import statements

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord


#: The number of a unit, as a payload has it.
_WHOLE: Final = re.compile(r"[0-9]{1,15}\Z")


class UnitAt(NamedTuple):
    """The place of a unit in a world's log: its first effect, and the last one before the next unit, or the head.

    If the number 0 is what lies before the first unit, its ``first_seq`` is 1.
    """

    first_seq: int
    last_seq: int


class NoUnit(NamedTuple):
    """A world does not have a unit of some number: the ``last`` number that it has, None for none."""

    last: int | str | None


class Units:
    """Finds the units of worlds."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def at(self, world: WorldRecord, name: str, number: int) -> UnitAt:
        """Return the place of a unit. Raises MomentNotFoundError for one that the world does not have."""
        found = await self.find(world, name, number)
        if isinstance(found, NoUnit):
            raise no_unit(world, name, number, found.last)
        return found

    async def find(self, world: WorldRecord, name: str, number: int, *, is_oldest: bool = True) -> UnitAt | NoUnit:
        """Return the place of a unit in one log, or the last one there. Raises MomentNotFoundError for an unknown name.

        What lies before the first unit of a history is in its oldest log only.
        """
        unit = load_ruleset(world.ruleset).units.get(name)
        if unit is None:
            if name == STEP:
                return await self._step(world, number)
            raise self._unknown(world, name, number)
        last: int | str | None = None
        if isinstance(unit.number, str):
            rows = await self._reader.fetch(
                statements.UNIT_BEGINS_LAST if unit.restarts else statements.UNIT_BEGINS,
                world.world_id,
                world.head_seq,
                [*unit.kinds],
                unit.number,
                str(number),
            )
            if rows:
                first: int = rows[0]["global_seq"]
                return UnitAt(first, await self._before_next(world, unit, first))
            last = await self._last(world, unit, unit.number)
        else:
            first = 0
            async for seq, last in self._numbered(world, unit):
                if first and last != number:
                    return UnitAt(first, seq - 1)
                if not first and last == number:
                    first = seq
            if first:
                return UnitAt(first, world.head_seq)
        if number == 0 and unit.has_zero and is_oldest:
            return UnitAt(1, await self._before_next(world, unit, 0))
        return NoUnit(last)

    async def beginnings(self, world: WorldRecord, name: str) -> list[tuple[int, int]]:
        """Return the number and the first effect of each unit of a world, in order; what lies before has the number 0.

        Its ruleset must declare the unit.
        """
        unit = load_ruleset(world.ruleset).units[name]
        found = [(0, 1)]
        if isinstance(unit.number, str):
            rows = await self._reader.fetch(
                statements.UNIT_BEGINNINGS, world.world_id, world.head_seq, [*unit.kinds], unit.number
            )
            numbered = [(row["global_seq"], row["number"]) for row in rows]
            each = [(int(number), seq) for seq, number in numbered if number is not None and _WHOLE.match(number)]
        else:
            each = [(number, seq) async for seq, number in self._numbered(world, unit)]
        for number, seq in each:
            if number != found[-1][0]:
                found.append((number, seq))
        return found

    async def first_end(self, world: WorldRecord, name: str) -> int:
        """Return the last effect of a fork that belongs to the unit that was under way at its fork point."""
        return await self._before_next(world, load_ruleset(world.ruleset).units[name], 0)

    async def steps(self, world: WorldRecord) -> int:
        """Return the number of steps in a world whose ruleset declares none."""
        return await self._count(world, await self._system(world))

    async def kinds(self, world: WorldRecord) -> list[str]:
        """Return the kinds of a world's effects, sorted."""
        rows = await self._reader.fetch(statements.KINDS_OF_WORLD, world.world_id, world.head_seq)
        return [row["kind"] for row in rows]

    async def _step(self, world: WorldRecord, number: int) -> UnitAt | NoUnit:
        """Return the place of a step in a world whose ruleset declares none: an effect that is not of a system kind."""
        system = await self._system(world)
        first, following = [await self._nth(world, system, each) for each in (number, number + 1)]
        if first > world.head_seq:
            return NoUnit(await self._count(world, system))
        return UnitAt(max(first, 1), min(following - 1, world.head_seq))

    async def _system(self, world: WorldRecord) -> list[str]:
        return [kind for kind in await self.kinds(world) if is_system_kind(kind)]

    async def _count(self, world: WorldRecord, system: list[str]) -> int:
        ((own,),) = await self._reader.fetch(statements.NOT_OF_KINDS, world.world_id, world.head_seq, system)
        return int(own)

    async def _nth(self, world: WorldRecord, system: list[str], number: int) -> int:
        if not 0 < number <= world.head_seq:
            return 0 if number <= 0 else MAX_INT
        ((found,),) = await self._reader.fetch(statements.NTH_NOT_OF_KINDS, world.world_id, number, system)
        return int(found)

    async def _before_next(self, world: WorldRecord, unit: Unit, after: int) -> int:
        """Return the last effect before the first one after ``after`` that begins a unit."""
        rows = await self._reader.fetch(statements.FIRST_OF_KINDS, world.world_id, after, world.head_seq, [*unit.kinds])
        return rows[0]["global_seq"] - 1 if rows else world.head_seq

    async def _last(self, world: WorldRecord, unit: Unit, member: str) -> str | None:
        rows = await self._reader.fetch(statements.LAST_UNIT, world.world_id, world.head_seq, [*unit.kinds], member)
        return rows[0]["number"] if rows else None

    async def _numbered(self, world: WorldRecord, unit: Unit) -> AsyncIterator[tuple[int, int]]:
        """Yield the effects that begin units of a world, each with its number."""
        assert not isinstance(unit.number, str)  # noqa: S101 - the other case is a query
        (kind,) = unit.kinds if len(unit.kinds) == 1 else (None,)
        async for batch in self._reader.batches(world.world_id, until_seq=world.head_seq, kind=kind):
            for row in batch:
                if row.kind in unit.kinds and (number := unit.number(orjson.loads(row.text)["payload"])) is not None:
                    yield row.global_seq, number

    def _unknown(self, world: WorldRecord, name: str, number: int) -> MomentNotFoundError:
        units = sorted({STEP, *load_ruleset(world.ruleset).units})
        near = get_close_matches(name, units, 1)
        meant = f"; did you mean {near[0]}:{number}?" if near else f", only {', '.join(units)}"
        return _missing(world, name, number, f"worlds of {world.ruleset} have no such unit{meant}")


def no_unit(world: WorldRecord, name: str, number: int, last: int | str | None) -> MomentNotFoundError:
    """Make the error for a unit that is not in a world's history; ``last`` is the last number there."""
    return _missing(world, name, number, "it has not begun" if last is None else f"its last is {last}")


def _missing(world: WorldRecord, unit: str, number: int, why: str) -> MomentNotFoundError:
    what = f"world {world.world_id!r} has no {unit} {number}; {why}"
    return MomentNotFoundError(what, world_id=world.world_id, head_seq=world.head_seq, **{unit: number})
