"""Folding worlds anew, from their first effect, into some table: for a check, or to replace the rows of one world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from worldledger.chain import StoredEffect
from worldledger.ports import Span
from worldledger_projections.beginnings import Beginnings
from worldledger_projections.errors import ProjectionFailedError
from worldledger_projections.folds import Group, Poison, Target, carefully, fold
from worldledger_projections.poison import contiguous, missing
from worldledger_projections.tables import Table, arrays

if TYPE_CHECKING:
    from worldledger.ports import LogReader
    from worldledger_projections.outages import Connection

#: Effects that are read and folded at a time.
_BATCH: Final = 5000


@dataclass(slots=True)
class Whole:
    """A world that is to be folded from its first effect to ``until``."""

    world_id: str
    ruleset: str
    until: int


class Refolding:
    """Folds worlds anew."""

    def __init__(self, log: LogReader, beginnings: Beginnings) -> None:
        self._log = log
        self._beginnings = beginnings

    async def fill(
        self,
        connection: Connection,
        table: Table,
        into: str,
        worlds: Sequence[Whole],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Write the rows of worlds into the table ``into``, which has none of theirs, in memory of bounded size.

        Raises ProjectionFailedError for the first effect that cannot be digested, and what the database says.
        ``progress`` is told how many effects were folded, now and then.
        """
        upsert, delete = table.upsert_into(into), table.delete_from(into)
        left = [Target(table, world.world_id, world.ruleset, 0, world.until, fresh=True) for world in worlds]
        await self._beginnings.load(left)
        for target in left:
            if target.poison is not None:
                raise failed(target, target.poison)
        while left := [target for target in left if target.reached < target.head]:
            spans = [Span(target.world_id, target.reached, target.head) for target in left]
            read = await self._log.gather(spans, limit=_BATCH)
            groups = [
                Group(self._sound(target, span, rows), [target], self._beginnings.upcasting(target.ruleset))
                for target, span, rows in zip(left, spans, read, strict=True)
                if rows
            ]
            if not groups:
                raise failed(left[0], missing(spans[0], []))
            await asyncio.to_thread(fold, groups)
            for rows, (target,), _ in groups:
                if target.failed:
                    raise await self._which(target, rows)
            targets = [target for _, (target,), _ in groups]
            for piece in arrays([key for target in targets for key in target.changes.deletes]):
                await connection.execute(delete, *piece)
            for piece in arrays([row for target in targets for row in target.changes.upserts]):
                await connection.execute(upsert, *piece)
            if progress is not None:
                progress(sum(len(rows) for rows, _, _ in groups))

    @staticmethod
    def _sound(target: Target, span: Span, rows: list[StoredEffect]) -> list[StoredEffect]:
        good = contiguous(rows, span.after_seq)
        if not good:
            raise failed(target, missing(span, rows))
        return good

    async def _which(self, target: Target, rows: list[StoredEffect]) -> ProjectionFailedError:
        """Name the effect at which folding failed, among the last that were read."""
        rest = target.anew()
        await self._beginnings.load([rest])
        poison = Poison(rows[0].global_seq, rows[0].kind, "it failed, but not when it was tried again")
        async for batch in self._log.batches(target.world_id, until_seq=rows[-1].global_seq):
            await asyncio.to_thread(carefully, rest, batch, self._beginnings.upcasting(target.ruleset))
            if rest.poison is not None:
                poison = rest.poison
                break
        return failed(target, poison)


def failed(target: Target, poison: Poison) -> ProjectionFailedError:
    """Make the error that names what could not be digested."""
    projection = target.table.projection.name
    return ProjectionFailedError(
        f"projection {projection} cannot digest world {target.world_id}, seq {poison.global_seq}: {poison.error}",
        projection=projection,
        world_id=target.world_id,
        global_seq=poison.global_seq,
        kind=poison.kind,
    )
