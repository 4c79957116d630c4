"""Feeding: one batch of effects, read once, folded in memory, and written in one transaction.

A batch takes what is due in some worlds for some builds. Builds that stand at the same seq of a world share the
reading. What one projection cannot digest is set aside for that projection in that world
(`worldledger_projections.poison`); all else goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from worldledger.chain import StoredEffect
from worldledger.ports import Span
from worldledger_projections import feeding_statements
from worldledger_projections.beginnings import Beginnings
from worldledger_projections.counters import Counters
from worldledger_projections.folds import Folds, Group, Key, Target, fold, moves_state
from worldledger_projections.lanes import Choice, Lane, choose
from worldledger_projections.outages import is_datas_fault
from worldledger_projections.poison import Isolation, contiguous, missing
from worldledger_projections.tables import Table
from worldledger_projections.writing import CursorsMovedError, Writer, Written, columns

if TYPE_CHECKING:
    from worldledger.ports import LogReader
    from worldledger_projections.outages import Pool

#: The effects that targets are to fold, by target.
_Rows = dict[Key, list[StoredEffect]]


class Feeder:
    """Feeds batches for one runner."""

    def __init__(
        self,
        pool: Pool,
        log: LogReader,
        *,
        beginnings: Beginnings,
        writer: Writer,
        folds: Folds,
        counters: Counters,
        batch: int,
    ) -> None:
        self._pool = pool
        self._log = log
        self._beginnings = beginnings
        self._isolation = Isolation(beginnings, writer)
        self._writer = writer
        self._folds = folds
        self._counters = counters
        self._batch = batch

    async def feed(self, lane: Lane, tables: Mapping[str, Table], tokens: Mapping[str, int]) -> bool:
        """Feed one batch to the builds of ``tables``; return whether more is due, and this one got anywhere.

        While more is due the batch is still being written when this returns, and the next one is read and folded
        meanwhile. ``tokens`` are the builds' leases. Raises LeasesLostError, or what the database says, of this batch
        or the one before; then nothing of it was written, and what was folded is forgotten.
        """
        if lane.after == "":
            await lane.settle()  # a new round: what is being written would be found to be due
            lane.progressed = False
        due = await self._pool.fetch(feeding_statements.DUE, list(tables), lane.after, lane.worlds)
        if not due:
            lane.after = ""
            await lane.settle()
            return lane.progressed
        choice = choose(due, tables, lane.worlds, self._batch)
        lane.go_on(choice)
        await self._throw_away(choice)
        rows = await self._read(choice.spans)
        targets = [target for _, together in choice.spans for target in together]
        await self._fold(choice.spans, rows)
        given = [await self._careful(target, rows) for target in targets if target.poison or target.key in rows]
        await lane.settle()
        lane.progressed = lane.progressed or choice.thrown_away > 0
        lane.writing = asyncio.get_running_loop().create_task(self._finish(lane, given, rows, tokens))
        if lane.after == "":
            await lane.settle()
            more = len(given) < len(targets) or any(target.behind for target in given)
            return more and lane.progressed
        return True

    async def _throw_away(self, choice: Choice) -> None:
        if choice.past:
            await self._pool.execute(feeding_statements.NOT_DUE, *columns(choice.past, 3))
        if choice.parked:
            await self._pool.execute(feeding_statements.NOT_DUE_WHILE_PARKED, *columns(choice.parked, 2))

    async def _read(self, spans: Sequence[tuple[Span, list[Target]]]) -> _Rows:
        """Read what the targets are to fold; one whose next effect is missing from the log is poisoned."""
        if not spans:
            return {}
        found = await self._log.gather([span for span, _ in spans], limit=self._batch)
        # A span may have come back empty because the batch was full. The first such is asked for by itself: if it
        # stays empty the log lacks what its head promises, which only tampering can bring about.
        empty = next((n for n, rows in enumerate(found) if not rows), None)
        if empty is not None:
            found[empty] = (await self._log.gather([spans[empty][0]], limit=1))[0]
        read: _Rows = {}
        for n, ((span, together), rows) in enumerate(zip(spans, found, strict=True)):
            good = contiguous(rows, span.after_seq)
            for target in together:
                if good:
                    read[target.key] = good
                elif rows or n == empty:
                    target.reached, target.poison = target.seq, missing(span, rows)
        return read

    async def _fold(self, spans: Sequence[tuple[Span, list[Target]]], rows: _Rows) -> None:
        ready = [(together, rows[together[0].key]) for _, together in spans if together[0].key in rows]
        for together, _ in ready:
            for target in together:
                target.held = self._folds.take(target.key, target.seq)
        await self._beginnings.load([target for together, _ in ready for target in together if target.held is None])
        groups = []
        for together, effects in ready:
            upcasting = self._beginnings.upcasting(together[0].ruleset)
            sound = [target for target in together if target.poison is None]
            alone = [target for target in sound if moves_state(target.table.projection)]
            sharing = [target for target in sound if target not in alone]
            groups += [Group(effects, [target], upcasting) for target in alone]
            if sharing:
                groups.append(Group(effects, sharing, upcasting))
        await asyncio.to_thread(fold, groups)

    async def _careful(self, target: Target, rows: _Rows) -> Target:
        """Return the target, folded once more where the first time failed or could not begin."""
        if not target.failed and not (target.poison and target.key in rows):
            return target
        return await self._isolation.again(target, rows[target.key])

    async def _write(self, targets: list[Target], rows: _Rows, tokens: Mapping[str, int]) -> list[Target]:
        """Write targets, without those that somebody else has moved; return what was written.

        Where the database refuses rows, those that it refuses are found by halves.
        """
        while targets:
            written = await asyncio.to_thread(Written, targets, copying=self._writer.copying)
            try:
                await self._writer.write(written, tokens)
            except CursorsMovedError as moved:
                self._counters.conflicts += 1
                targets = [target for target in targets if target.key not in moved.keys]
            except Exception as error:
                if not is_datas_fault(error):
                    raise
                if len(targets) == 1:
                    return await self._isolation.write(targets[0], rows.get(targets[0].key, []), tokens)
                half = len(targets) // 2
                return [
                    *await self._write(targets[:half], rows, tokens),
                    *await self._write(targets[half:], rows, tokens),
                ]
            else:
                for target in targets:
                    if target.poison is None:
                        self._folds.put(target.key, target.keep())
                break
        return targets

    async def _finish(self, lane: Lane, targets: list[Target], rows: _Rows, tokens: Mapping[str, int]) -> None:
        written = await self._write(targets, rows, tokens)
        counters = self._counters
        if written:
            lane.progressed = True
            counters.batches += 1
        for target in written:
            counters.effects += target.reached - target.seq
            counters.rows += len(target.changes.upserts) + len(target.changes.deletes)
            counters.parked += target.poison is not None
