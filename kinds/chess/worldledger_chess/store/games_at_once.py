"""Recorded games into the log, thousands of them: read by somebody else, and written many by one transaction.

What becomes of a game, and what people are told, is as in `worldledger_chess.store.recordings`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from worldledger_service.store.bulk import SealedWorld, WorldsAtOnce
from worldledger_service.store.importing import FATAL, check_experiment, require_same, resumable

from worldledger.errors import SimulationError, WorldExistsError
from worldledger_chess.rules.pgn import BrokenGame, RecordedGame
from worldledger_chess.store.recordings import GamesImport, Notice, Progress, Summary, world_of_game

if TYPE_CHECKING:
    from worldledger_service.store.store import Store

    from worldledger.genesis import NewWorld

#: Most games (and ends of files) of one transaction, and effects after which it has enough.
_ENTRIES: Final = 500
_EFFECTS: Final = 10_000
#: Transactions that are under way at the same time.
_TRANSACTIONS: Final = 2


class Read(NamedTuple):
    """A game as it was read, its drafts checked: of which file (by its number), and how far the reader is in it."""

    file: int
    game: RecordedGame | BrokenGame
    position: int


class FileEnd(NamedTuple):
    """The end of a file: its size, whether it could be read, and why (with a line) no more of it can be taken."""

    file: int
    size: int
    read: bool
    refused: tuple[str, int | None] | None


#: Gives the games of files in their order, each file with its end.
Reading: TypeAlias = Callable[[Sequence[Path]], AbstractAsyncContextManager[AsyncIterator[Read | FileEnd]]]


async def import_many(
    store: Store,
    paths: Iterable[Path],
    *,
    reading: Reading | None,
    max_effect_bytes: int,
    experiment: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    notice: Callable[[Notice], None] | None = None,
    summary: Summary | None = None,
    strict: bool = False,
) -> Summary:
    """Import games as `recordings.import_games` does, read by ``reading``; without that one by one.

    ``strict`` is for games that are read one by one; ``reading`` has its own.

    Raises as that does, and as ``reading`` does. An import that is stopped may have to do the last few dozens again.
    """
    check_experiment(experiment)
    worlds = WorldsAtOnce(store.reader, max_effect_bytes=max_effect_bytes, written=store.imported)
    run = _Many(store, worlds, experiment, progress, notice, Summary() if summary is None else summary, strict=strict)
    with resumable(lambda: run.summary.imported):
        await run.files(run.find(paths), reading)
    return run.summary


class _Entry(NamedTuple):
    """What was read, the name of its file, and the world that is to be made of it, or why there will be none."""

    item: Read | FileEnd
    name: str
    sealed: SealedWorld | SimulationError | None


class _Many(GamesImport):
    """One run over many games."""

    def __init__(
        self,
        store: Store,
        worlds: WorldsAtOnce,
        experiment: str | None,
        progress: Callable[[Progress], None] | None,
        notice: Callable[[Notice], None] | None,
        summary: Summary,
        *,
        strict: bool,
    ) -> None:
        super().__init__(store, experiment, progress, notice, summary, strict=strict)
        self._worlds = worlds
        self._waiting: list[_Entry] = []
        self._writing: deque[tuple[list[_Entry], asyncio.Task[list[SimulationError | None]]]] = deque()

    async def files(self, files: Sequence[Path], reading: Reading | None) -> None:
        """Import the games of files."""
        if reading is None:
            for file in files:
                await self.file(file)
            return
        effects = 0
        try:
            async with reading(files) as items:
                async for item in items:
                    self._waiting.append(self._entry(item, str(files[item.file])))
                    effects += item.game.effects if isinstance(item, Read) else 0
                    if effects >= _EFFECTS or len(self._waiting) >= _ENTRIES:
                        effects = 0
                        await self._write_on()
                    await asyncio.sleep(0)  # what is being written goes on meanwhile
                await self._write_on()
                while self._writing:
                    await self._tell_written()
        finally:
            for _, writing in self._writing:
                writing.cancel()
            await asyncio.gather(*(writing for _, writing in self._writing), return_exceptions=True)

    def _entry(self, item: Read | FileEnd, name: str) -> _Entry:
        if isinstance(item, FileEnd) or isinstance(item.game, BrokenGame):
            return _Entry(item, name, None)
        world = world_of_game(item.game, experiment=self._experiment, file=name)
        try:
            return _Entry(item, name, self._worlds.seal(world, item.game.checked))
        except FATAL:
            raise
        except SimulationError as error:
            return _Entry(item, name, error)

    async def _write_on(self) -> None:
        """Begin to write what waits, beside what was begun before: of two transactions one waits for the disk."""
        while len(self._writing) >= _TRANSACTIONS:
            await self._tell_written()
        entries, self._waiting = self._waiting, []
        sealed = [entry.sealed for entry in entries if isinstance(entry.sealed, SealedWorld)]
        self._writing.append((entries, asyncio.create_task(self._worlds.write(sealed))))

    async def _tell_written(self) -> None:
        """Wait for what was begun first; tell of these games, and of their files, in order."""
        entries, writing = self._writing[0]
        refusals = iter(await writing)
        self._writing.popleft()
        for item, name, sealed in entries:
            if isinstance(item, FileEnd):
                self._end(item, name)
                continue
            error = sealed if isinstance(sealed, SimulationError) else None
            if isinstance(sealed, SealedWorld):
                error = await self._made(item, sealed.world, next(refusals))
            self._told(item.game, error, name)
            self._advance(item.position, 1)

    async def _made(self, item: Read, world: NewWorld, refusal: SimulationError | None) -> SimulationError | None:
        """Count a game that was written, or is there already; return the error of one that is refused."""
        if refusal is None:
            self.summary.imported += 1
            self.summary.effects += item.game.effects + 1
            return None
        if not isinstance(refusal, WorldExistsError):
            return refusal
        try:
            await require_same(self._store, world)
        except WorldExistsError as other:
            return other
        self.summary.already += 1
        return None

    def _end(self, end: FileEnd, name: str) -> None:
        self.summary.files += 1
        self.summary.read += end.read
        if end.refused is not None:
            why, line = end.refused
            self._tell(Notice(name, why, line=line, refused=True))
        self._done += end.size
        self._advance(0, 0)
