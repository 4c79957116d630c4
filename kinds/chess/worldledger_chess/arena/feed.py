"""Feeding: the games in memory follow their logs, whichever process writes them.

One task for each game waits for its head to move. Effects that this process has just written itself are taken as they
were written (`worldledger_service.store.echoes`); all others are read by one query for all games.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import structlog
from worldledger_service.runtime.guarding import reading

from worldledger.aio import Backoff
from worldledger.errors import FoldError, SimulationError, StoreUnavailableError
from worldledger.protocols import Span
from worldledger_chess.arena.record import Record
from worldledger_chess.arena.table import Table

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.echoes import Echo
    from worldledger_service.store.watch import HeadWatcher

    from worldledger.chain import StoredEffect
    from worldledger.rulesets.base import Ruleset

#: Most effects that are read by one query, and most that are taken before the event loop runs other tasks.
_MOST_ROWS: Final = 5000
_ROWS_AT_ONCE: Final = 50
#: Seconds between two attempts while the database is away.
_PAUSE_SECONDS: Final = (0.05, 2.0)

log = structlog.get_logger("worldledger.arena")


class Feed:
    """Loads games, and keeps them up to date with their logs; ``on_change`` is called with each that has changed."""

    def __init__(self, store: Store, watcher: HeadWatcher, on_change: Callable[[Table], None]) -> None:
        self._store = store
        self._watcher = watcher
        self._on_change = on_change
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._echoes: dict[str, Echo] = {}
        self._wanted: dict[Table, asyncio.Future[None]] = {}
        self._pump: asyncio.Task[None] | None = None

    async def load(self, game_id: str, ruleset: Ruleset) -> Table:
        """Load a game up to its head, and follow it from then on. Raises as reads, TamperedError, FoldError."""
        record = Record(game_id, ruleset)
        async with aclosing(self._store.reader.batches(game_id)) as batches:
            async for batch in batches:
                await _take(record, batch)
        table = Table(record)
        self._echoes[game_id] = self._store.echoes.follow(game_id)
        self._tasks[game_id] = asyncio.get_running_loop().create_task(self._follow(table))
        return table

    def let_go(self, table: Table) -> asyncio.Task[None]:
        """Stop following a game; return the task to wait for."""
        task = self._tasks.pop(table.game_id)
        task.cancel()
        del self._echoes[table.game_id]
        self._store.echoes.leave(table.game_id)
        return task

    async def catch_up(self, table: Table) -> None:
        """Wait until a game has all effects that are in the log now. Raises StoreUnavailableError."""
        await reading(self._store.outages, self._catch_up(table))

    async def _catch_up(self, table: Table) -> None:
        heads = await self._store.reader.head_seqs([table.game_id])
        head = heads.get(table.game_id, 0)
        self._watcher.moved(table.game_id, head)
        with table.in_use():
            await table.reached(head)

    async def close(self) -> None:
        """Stop following all games."""
        tasks = [*self._tasks.values()]
        if self._pump is not None:
            tasks.append(self._pump)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        for game_id in self._echoes:
            self._store.echoes.leave(game_id)
        self._echoes.clear()

    async def _follow(self, table: Table) -> None:
        backoff = Backoff(*_PAUSE_SECONDS)
        while table.error is None:
            seq = table.record.seq
            try:
                await self._watcher.wait_beyond(table.game_id, seq)
                await self._read(table)
                backoff.reset()
                if table.record.seq == seq:  # the head names effects that are not there
                    await asyncio.sleep(_PAUSE_SECONDS[0])
            except StoreUnavailableError as error:
                log.debug("following a game waits for the database", game_id=table.game_id, error=error.message)
                await backoff.wait()
            except SimulationError as error:
                log.warning("a game is no longer followed", game_id=table.game_id, error=error.message)
                table.end(error)
            except Exception as error:
                log.exception("following a game failed", game_id=table.game_id)
                what = f"game {table.game_id}: following it failed: {error}"
                table.end(FoldError(what, world_id=table.game_id))

    async def _read(self, table: Table) -> None:
        """Read on for a game, together with the others that wait for it."""
        loop = asyncio.get_running_loop()
        future = self._wanted[table] = loop.create_future()
        if self._pump is None:
            self._pump = loop.create_task(self._run())
        await future

    async def _run(self) -> None:
        """Read until nothing is wanted."""
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                try:
                    await self._read_all(wanted)
                except BaseException as error:
                    for future in wanted.values():
                        if not future.done():
                            future.set_exception(_told(error))
                    if not isinstance(error, Exception):
                        raise
        finally:
            self._pump = None

    async def _read_all(self, wanted: dict[Table, asyncio.Future[None]]) -> None:
        tables = [table for table, future in wanted.items() if not future.done()]
        spans = [Span(table.game_id, table.record.seq, self._watcher.known_head(table.game_id)) for table in tables]
        found = [self._echoed(span) for span in spans]
        missing = [number for number, rows in enumerate(found) if not rows]
        if missing:
            read = await self._store.reader.gather([spans[number] for number in missing], limit=_MOST_ROWS)
            for number, rows in zip(missing, read, strict=True):
                found[number] = rows
        for table, rows in zip(tables, found, strict=True):
            future = wanted[table]
            try:
                await _take(table.record, rows)
            except Exception as error:  # noqa: BLE001 - the others are not to hear of it; `_follow` says what it is
                if not future.done():
                    future.set_exception(error)
                continue
            if rows:
                self._on_change(table)
                table.stir()
            if not future.done():
                future.set_result(None)

    def _echoed(self, span: Span) -> list[StoredEffect]:
        """Return the first effects of a span if this process has just written them itself."""
        echo = self._echoes.get(span.world_id)
        return [] if echo is None else echo.after(span.after_seq, span.until_seq)


async def _take(record: Record, rows: list[StoredEffect]) -> None:
    """Feed rows to a record, and let other tasks run in between."""
    for count, row in enumerate(rows, 1):
        record.apply(row)
        if count % _ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)


def _told(error: BaseException) -> Exception:
    """Return the error for callers that wait for a reading that ended with this one."""
    return error if isinstance(error, Exception) else StoreUnavailableError("the arena is closing")
