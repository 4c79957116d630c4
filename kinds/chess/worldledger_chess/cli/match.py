"""A match: games between players of this process, each a world, one after another or several at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from worldledger_service.runtime.worlds import Worlds
from worldledger_service.store.watch import HeadWatcher

from worldledger.errors import SimulationError
from worldledger_chess.arena import Arena, ArenaSettings, NewGame

if TYPE_CHECKING:
    from worldledger_service.settings import Settings
    from worldledger_service.store import Store

    from worldledger_chess.arena import GameEnd, LiveGame

#: Seconds between two looks whether anybody plays, and looks without anybody after which that is a fault.
_LOOK: Final = 1.0
_PATIENCE: Final = 5


@dataclass
class Entry:
    """A game of a match that has begun: its number, how it was set up, its world, and how far it has come.

    ``rejected`` counts attempts that were not taken, ``failed`` those of them where a player gave no move at all.
    """

    number: int
    setup: NewGame
    game: LiveGame | None
    world_id: str
    plies: int = 0
    rejected: int = 0
    failed: int = 0
    _end: GameEnd | None = None

    @property
    def end(self) -> GameEnd | None:
        """How it has ended; None while it goes on."""
        return self._end if self.game is None else self.game.ended

    def close(self) -> None:
        """Keep how far it has come, and no more of the game."""
        if self.game is not None:
            self.plies = len(self.game.board.move_stack)
            self._end, self.game = self.game.ended, None


@asynccontextmanager
async def own_arena(store: Store, url: str, settings: Settings) -> AsyncIterator[Arena]:
    """Lend an arena whose games may have programs as players; at the end none of these is left."""
    async with HeadWatcher.over(store, interval=settings.poll_interval, url=url) as watcher, AsyncExitStack() as stack:
        worlds = Worlds(store, watcher)
        stack.push_async_callback(worlds.close)
        # Others' games may name any program, which must not be run here.
        own = ArenaSettings(allow_programs=True, adopt=False)
        yield await stack.enter_async_context(Arena(store, watcher, worlds, own))


class Match:
    """Plays games in an arena.

    ``entries`` gets each that begins; ``on_move`` and ``on_end`` are told of each that has gone on, or ended.
    """

    def __init__(
        self,
        arena: Arena,
        entries: list[Entry],
        *,
        on_move: Callable[[Entry], object],
        on_end: Callable[[Entry], object],
    ) -> None:
        self._arena = arena
        self._entries = entries
        self._on_move = on_move
        self._on_end = on_end

    async def play(self, setups: Iterable[NewGame], *, at_once: int) -> None:
        """Play games to their ends, the first ones first. Raises SimulationError where one cannot go on."""
        waiting = iter(enumerate(setups, 1))
        tasks = [asyncio.create_task(self._play_all(waiting)) for _ in range(at_once)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _play_all(self, waiting: Iterator[tuple[int, NewGame]]) -> None:
        for number, setup in waiting:
            entry = await self._begin(number, setup)
            assert entry.game is not None  # noqa: S101 - it has just begun
            watching = asyncio.create_task(self._watch(entry, entry.game))
            try:
                await self._until_ended(entry, watching)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
                entry.close()
                if entry.end is not None:
                    self._on_end(entry)

    async def _begin(self, number: int, setup: NewGame) -> Entry:
        """Make a game; should this be stopped meanwhile, the game is known all the same if it was made."""

        async def make() -> Entry:
            game = await self._arena.create(setup)
            entry = Entry(number, setup, game, game.game_id)
            self._entries.append(entry)
            return entry

        making = asyncio.create_task(make())
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.gather(making, return_exceptions=True)
            raise

    async def _watch(self, entry: Entry, game: LiveGame) -> None:
        async with aclosing(game.watch()) as events:
            async for event in events:
                if event.type == "move_made":
                    entry.plies += 1
                elif event.type == "move_rejected":
                    entry.rejected += 1
                    entry.failed += event.data["reason"] == "player_failed"
                self._on_move(entry)

    async def _until_ended(self, entry: Entry, watching: asyncio.Task[None]) -> None:
        """Wait for the end. Raises SimulationError where nobody plays any more; the arena has said why."""
        alone = 0
        while alone < _PATIENCE:
            await asyncio.wait({watching}, timeout=_LOOK)
            if watching.done():
                watching.result()
                return
            alone = 0 if self._arena.driven else alone + 1
        raise SimulationError(f"the game {entry.world_id} is played no longer", game_id=entry.world_id)
