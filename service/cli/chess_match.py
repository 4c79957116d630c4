"""A match: games between players of this process, each a world, one after another or several at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from service.arena import Arena, ArenaSettings, NewGame
from service.runtime.worlds import Worlds
from service.store.watch import HeadWatcher
from worldledger.errors import SimulationError
from worldledger.rulesets.chess import RULESET as CHESS

if TYPE_CHECKING:
    from service.arena import GameEnd, LiveGame
    from service.settings import Settings
    from service.store import Store
    from service.store.live_games import LiveGameRow

#: Seconds between two looks whether anybody plays, and looks without anybody after which that is a fault.
_LOOK: Final = 1.0
_PATIENCE: Final = 5


@dataclass
class Entry:
    """A game of a match that has begun: its number, how it was set up, its world, and how far it has come.

    ``rejected`` counts attempts that were none or not legal, ``failed`` those where a player gave no move at all.
    """

    number: int
    setup: NewGame
    game: LiveGame
    plies: int = 0
    rejected: int = 0
    failed: int = 0

    @property
    def world_id(self) -> str:
        """The name of its world."""
        return self.game.game_id

    @property
    def end(self) -> GameEnd | None:
        """How it has ended; None while it goes on."""
        return self.game.ended


class _OwnGames(Arena):
    """An arena that looks after its own games only: others' may name any program, which must not be run here."""

    async def _found(self, row: LiveGameRow) -> None:
        """Leave a game to whoever has begun it, or to a service."""


@asynccontextmanager
async def own_arena(store: Store, url: str, settings: Settings) -> AsyncIterator[Arena]:
    """Lend an arena whose games may have programs as players; at the end none of these is left."""
    async with HeadWatcher.over(store, interval=settings.poll_interval, url=url) as watcher, AsyncExitStack() as stack:
        worlds = Worlds(store, watcher)
        stack.push_async_callback(worlds.close)
        yield await stack.enter_async_context(_OwnGames(store, watcher, worlds, ArenaSettings(allow_programs=True)))


def check_setups(setups: Sequence[NewGame]) -> None:
    """Raise InvalidConfigError if games cannot be made in this way."""
    for setup in setups:
        CHESS.check_config({"live": setup.to_value()})


class Match:
    """Plays games in an arena. ``entries`` has those that have begun; ``on_move`` and ``on_end`` are told of them."""

    def __init__(
        self, arena: Arena, *, on_move: Callable[[Entry], object], on_end: Callable[[Entry], object], entries: list[Entry]
    ) -> None:
        self._arena = arena
        self._on_move = on_move
        self._on_end = on_end
        self._entries = entries

    async def play(self, setups: Sequence[NewGame], *, at_once: int) -> None:
        """Play games to their ends, the first ones first. Raises what a game cannot go on for."""
        waiting = iter(enumerate(setups, 1))
        tasks = [asyncio.create_task(self._play_all(waiting)) for _ in range(min(at_once, len(setups)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _play_all(self, waiting: Iterator[tuple[int, NewGame]]) -> None:
        for number, setup in waiting:
            entry = await self._begin(number, setup)
            watching = asyncio.create_task(self._watch(entry))
            try:
                await self._until_ended(entry, watching)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            self._on_end(entry)

    async def _begin(self, number: int, setup: NewGame) -> Entry:
        """Make a game; should this be stopped meanwhile, the game is known all the same if it was made."""

        async def make() -> Entry:
            entry = Entry(number, setup, await self._arena.create(setup))
            self._entries.append(entry)
            return entry

        making = asyncio.create_task(make())
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.gather(making, return_exceptions=True)
            raise

    async def _watch(self, entry: Entry) -> None:
        async with aclosing(entry.game.watch()) as events:
            async for event in events:
                if event.type == "move_made":
                    entry.plies += 1
                elif event.type == "move_rejected":
                    entry.rejected += 1
                    entry.failed += event.data["reason"] == "player_failed"
                self._on_move(entry)

    async def _until_ended(self, entry: Entry, watching: asyncio.Task[None]) -> None:
        """Wait for the end; raise SimulationError where nobody plays any more, which the arena has said why."""
        alone = 0
        while alone < _PATIENCE:
            await asyncio.wait({watching}, timeout=_LOOK)
            if watching.done():
                return watching.result()
            alone = 0 if self._arena.driven else alone + 1
        raise SimulationError(f"the game {entry.world_id} is played no longer", game_id=entry.world_id)
