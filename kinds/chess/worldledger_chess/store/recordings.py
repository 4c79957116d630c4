"""Recorded games into the log: a game is a world, appended whole or not at all.

Which world a game becomes follows from the experiment and the game alone, so a second run adds nothing, and after a
kill the same command goes on where it was. Games are read here, or by somebody else (processes, say), and then many are
written by one transaction.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from worldledger_service.store.bulk import SealedWorld
from worldledger_service.store.importing import FATAL, check_experiment, in_thread, require_same, resumable
from worldledger_service.store.prefetch import prefetch

from worldledger.errors import SimulationError, WorldExistsError
from worldledger.genesis import NewWorld
from worldledger.names import labelled
from worldledger_chess.rules.pgn import BrokenGame, RecordedGame
from worldledger_chess.store.reading import games_of

if TYPE_CHECKING:
    from worldledger_service.store.store import Store

#: Most games (and ends of files) of one transaction, and effects after which it has enough.
_ENTRIES: Final = 500
_EFFECTS: Final = 10_000
#: Transactions that are under way at the same time.
_TRANSACTIONS: Final = 2


@dataclass(frozen=True)
class Notice:
    """What people should know about a file or one of its games: that it was refused, or what was odd about it."""

    file: str
    text: str
    line: int | None = None
    game: int | None = None
    refused: bool = False

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.text}" if self.game is None else f"{place}: game {self.game}: {self.text}"


@dataclass
class Summary:
    """What an import did: how many games are new, how many were there already, and what was refused.

    ``read`` are those of the ``files`` that could be opened.
    """

    files: int = 0
    read: int = 0
    imported: int = 0
    already: int = 0
    effects: int = 0
    refused: list[Notice] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """How far an import is: bytes of all files, and games looked at."""

    done: int
    total: int
    games: int


def world_of_game(game: RecordedGame, *, experiment: str | None, file: str) -> NewWorld:
    """Return the world that a recorded game becomes.

    Its name is ``[experiment-]white-vs-black-date-`` and 12 hex digits of the game's digest. The config keeps the
    whole digest, and where the recording was found (the file's name without its folder).
    """
    name = os.fsencode(Path(file).name).decode(errors="replace")
    return NewWorld(
        world_id=labelled(game.name, experiment),
        ruleset="chess",
        experiment=experiment,
        time_authority="client",
        config={"digest": game.digest, "recording": {"file": name, "game": game.index, "line": game.line}},
    )


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


async def import_games(
    store: Store,
    paths: Iterable[Path],
    *,
    reading: Reading | None = None,
    experiment: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    notice: Callable[[Notice], None] | None = None,
    summary: Summary | None = None,
    strict: bool = False,
) -> Summary:
    """Import the games of PGN files, and of all ``*.pgn`` in folders and their subfolders, in the order of names.

    What cannot be taken (a file that is unreadable or none, a broken game) is refused and told, by ``notice`` at once
    and in the summary; everything else goes in. Without ``reading`` games are read here, and written one by one, the
    next one read meanwhile; ``strict`` then refuses a game about which anything is odd. A ``summary`` that is given is
    kept up to date, so that it can be read when the import was stopped, which may have to do the last few dozens again.
    Raises InvalidConfigError for an experiment that cannot be a label, StoreUnavailableError when the database goes
    away, with what is in by then, and as ``reading`` does.
    """
    check_experiment(experiment)
    run = _Import(store, experiment, progress, notice, Summary() if summary is None else summary)
    with resumable(lambda: run.summary.imported):
        await run.files(run.find(paths), reading, strict=strict)
    return run.summary


@asynccontextmanager
async def _read_here(files: Sequence[Path], strict: bool) -> AsyncIterator[AsyncIterator[Read | FileEnd]]:
    """Lend the games of files, read in a thread, each while the one before is being written."""
    found = (item for number, file in enumerate(files) for item in games_of(number, str(file), strict=strict))
    async with prefetch(in_thread(found)) as items:
        yield (FileEnd(*fields) if is_end else Read(*fields) async for is_end, fields in items)


class _Entry(NamedTuple):
    """What was read, the name of its file, and the world that is to be made of it, or why there will be none."""

    item: Read | FileEnd
    name: str
    sealed: SealedWorld | SimulationError | None


class _Import:
    """One run over many files."""

    def __init__(
        self,
        store: Store,
        experiment: str | None,
        progress: Callable[[Progress], None] | None,
        notice: Callable[[Notice], None] | None,
        summary: Summary,
    ) -> None:
        self._store = store
        self._experiment = experiment
        self._progress = progress
        self._notice = notice
        self._done = self._total = self._games = 0
        self.summary = summary
        self._worlds = store.worlds_at_once()
        self._waiting: list[_Entry] = []
        self._writing: deque[tuple[list[_Entry], asyncio.Task[list[SimulationError | None]]]] = deque()

    def find(self, paths: Iterable[Path]) -> list[Path]:
        """Return each file once."""
        found: dict[str, Path] = {}
        for path in paths:
            for file in self._files(path):
                found.setdefault(os.path.realpath(file), file)
        for file in found.values():
            with suppress(OSError):  # it will be told when it is opened
                self._total += file.stat().st_size
        return list(found.values())

    def _files(self, path: Path) -> Iterator[Path]:
        if not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises where the way to it may not be searched
            yield path
            return
        empty = True
        for folder, folders, names in os.walk(path, onerror=self._refuse_folder):
            folders.sort()
            for name in sorted(names):
                if name.lower().endswith(".pgn"):
                    empty = False
                    yield Path(folder, name)
        if empty:
            self._tell(Notice(str(path), "no file named *.pgn in this folder", refused=True))

    def _refuse_folder(self, error: OSError) -> None:
        self._tell(Notice(str(error.filename), f"the folder cannot be read ({error.strerror})", refused=True))

    async def files(self, files: Sequence[Path], reading: Reading | None, *, strict: bool) -> None:
        """Import the games of files."""
        most = 1 if reading is None else _ENTRIES
        effects = 0
        try:
            async with _read_here(files, strict) if reading is None else reading(files) as items:
                async for item in items:
                    self._waiting.append(self._entry(item, str(files[item.file])))
                    effects += item.game.effects if isinstance(item, Read) else 0
                    if effects >= _EFFECTS or len(self._waiting) >= most:
                        effects = 0
                        await self._write_on(1 if reading is None else _TRANSACTIONS)
                    await asyncio.sleep(0)  # what is being written goes on meanwhile
                await self._write_on(_TRANSACTIONS)
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

    async def _write_on(self, most: int) -> None:
        """Begin to write what waits, beside what was begun before: of two transactions one waits for the disk."""
        while len(self._writing) >= most:
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

    def _told(self, game: RecordedGame | BrokenGame, error: SimulationError | None, file: str) -> None:
        """Tell why a game was refused, or what was odd about one that was not."""
        if isinstance(game, BrokenGame) or error is not None:
            why = game.reason if isinstance(game, BrokenGame) else str(error)
            self._tell(Notice(file, why, line=game.line, game=game.index, refused=True))
            return
        for warning in game.warnings:
            self._tell(Notice(file, warning, line=game.line, game=game.index))

    def _tell(self, notice: Notice) -> None:
        if notice.refused:
            self.summary.refused.append(notice)
        if self._notice is not None:
            self._notice(notice)

    def _advance(self, position: int, games: int) -> None:
        self._games += games
        if self._progress is not None:
            self._progress(Progress(min(self._done + position, self._total), self._total, self._games))
