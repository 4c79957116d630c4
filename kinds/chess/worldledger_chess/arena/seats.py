"""Seats: which games are in memory. One that leaves it is read from its log again when somebody asks for it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import structlog
from worldledger_service.runtime.guarding import reading
from worldledger_service.runtime.joining import join

from worldledger.errors import SimulationError, StoreUnavailableError
from worldledger.rulesets import load_ruleset
from worldledger_chess.arena.errors import NoSuchGameError
from worldledger_chess.arena.table import Table
from worldledger_chess.rules import RULESET as CHESS

if TYPE_CHECKING:
    from worldledger_service.store import Store

    from worldledger_chess.arena.feed import Feed
    from worldledger_chess.arena.settling import Settling

log = structlog.get_logger("worldledger.arena")


class Seats:
    """The games in memory, at most ``most`` of them as long as others can leave; ``on_change`` is told of each.

    ``clock`` gives epoch seconds, those of ``wall_time``.
    """

    def __init__(
        self,
        store: Store,
        feed: Feed,
        settling: Settling,
        *,
        most: int,
        clock: Callable[[], float],
        on_change: Callable[[Table], None],
    ) -> None:
        self._store = store
        self._feed = feed
        self._settling = settling
        self._most = most
        self._clock = clock
        self._on_change = on_change
        #: the least recently asked for first
        self._tables: OrderedDict[str, Table] = OrderedDict()
        self._seating: dict[str, asyncio.Task[Table]] = {}
        self._closed = False

    def __iter__(self) -> Iterator[Table]:
        return iter(list(self._tables.values()))

    def known(self, game_id: str) -> Table | None:
        """Return a game's table if it is in memory."""
        return self._tables.get(game_id)

    async def take(self, game_id: str) -> Table:
        """Return a game's table; where it is not in memory, its log is read, and what is due in it is done.

        Raises WorldNotFoundError, NoSuchGameError, InvalidNameError, StoreUnavailableError, TamperedError, FoldError.
        """
        while True:
            table = self._tables.get(game_id)
            if table is not None:
                if table.error is None:
                    table.asked_at = self._clock()
                    self._tables.move_to_end(game_id)
                    return table
                self._leave(table)  # its log was damaged when it was read; look again
            if self._closed:
                raise StoreUnavailableError("the arena is closing")
            task = self._seating.get(game_id)
            if task is None:
                task = self._seating[game_id] = asyncio.get_running_loop().create_task(self._load(game_id))
                task.add_done_callback(lambda done: self._seated(game_id, done))
            await reading(self._store.outages, join(task))  # and it may have left memory again since

    def retire(self, seconds: float) -> None:
        """Have games leave memory that have ended, and that nobody has asked for, or watched, for so many seconds."""
        before = self._clock() - seconds
        for table in self:
            if not (table.record.in_progress or table.needed) and max(table.asked_at, table.record.last_at) <= before:
                self._leave(table)

    async def close(self) -> None:
        """Have all of them leave memory; whoever waits is told that the arena is closing."""
        self._closed = True
        tasks = list(self._seating.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for table in self._tables.values():
            table.end(StoreUnavailableError("the arena is closing"))
        self._tables.clear()

    def _seated(self, game_id: str, task: asyncio.Task[Table]) -> None:
        del self._seating[game_id]
        if not task.cancelled():
            task.exception()  # asyncio is not to complain where nobody awaits it

    async def _load(self, game_id: str) -> Table:
        world = await self._store.world(game_id)
        if world.ruleset != CHESS.name:
            what = f"the world {game_id!r} is one of {world.ruleset}: there is no game of chess in it"
            raise NoSuchGameError(what, game_id=game_id)
        table = await self._feed.load(game_id, load_ruleset(world.ruleset))
        if not table.record.started:
            self._let_go(table)
            raise NoSuchGameError(f"no game has begun in the world {game_id!r}", game_id=game_id)
        try:
            self._on_change(table)
            await self._settling.settle(table)
        except SimulationError as error:
            log.warning("what is due in a game is done later", game_id=game_id, error=error.message)
        except asyncio.CancelledError:
            self._let_go(table)
            raise
        self._tables[game_id] = table
        with table.in_use():
            self._make_room()
        return table

    def _make_room(self) -> None:
        """Have games leave memory: the ended ones first, then those that nobody here plays or watches."""
        surplus = len(self._tables) - self._most
        if surplus <= 0:
            return
        idle = [table for table in self._tables.values() if not table.needed]
        idle.sort(key=lambda table: (table.record.in_progress, table.record.last_at))
        for table in idle[:surplus]:
            self._leave(table)

    def _leave(self, table: Table) -> None:
        del self._tables[table.game_id]
        self._let_go(table)

    def _let_go(self, table: Table) -> None:
        self._feed.let_go(table)
        table.end(StoreUnavailableError("the game has left memory"))
