"""Recorded games into the log: a game is a world, appended whole or not at all.

Which world a game becomes follows from the experiment and the game alone, so a second run adds nothing, and after a
kill the same command goes on where it was.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from worldledger_service.store.ahead import ahead
from worldledger_service.store.importing import FATAL, check_experiment, in_thread, resumable, write_once

from worldledger.errors import FileRefusedError, SimulationError
from worldledger.genesis import NewWorld
from worldledger.names import labelled
from worldledger_chess.rules.pgn import BrokenGame, RecordedGame, read_games

if TYPE_CHECKING:
    from worldledger_service.store.store import Store


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


async def import_games(
    store: Store,
    paths: Iterable[Path],
    *,
    experiment: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    notice: Callable[[Notice], None] | None = None,
    summary: Summary | None = None,
    strict: bool = False,
) -> Summary:
    """Import the games of PGN files, and of all ``*.pgn`` in folders and their subfolders, in the order of names.

    What cannot be taken (a file that is unreadable or none, a broken game) is refused and told, by ``notice`` at once
    and in the summary; everything else goes in. The next game is read while one is being written; no more than two
    are held. ``strict`` refuses a game about which anything is odd. A ``summary`` that is given is kept up to date, so
    that it can be read when the import was stopped. Raises InvalidConfigError for an experiment that cannot be a label,
    StoreUnavailableError when the database goes away, with what is in by then.
    """
    check_experiment(experiment)
    run = GamesImport(store, experiment, progress, notice, Summary() if summary is None else summary, strict=strict)
    with resumable(lambda: run.summary.imported):
        for file in run.find(paths):
            await run.file(file)
    return run.summary


class GamesImport:
    """One run over many files."""

    def __init__(
        self,
        store: Store,
        experiment: str | None,
        progress: Callable[[Progress], None] | None,
        notice: Callable[[Notice], None] | None,
        summary: Summary,
        *,
        strict: bool,
    ) -> None:
        self._store = store
        self._experiment = experiment
        self._progress = progress
        self._notice = notice
        self._strict = strict
        self._done = self._total = self._games = 0
        self.summary = summary

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

    async def file(self, path: Path) -> None:
        """Import the games of one file."""
        self.summary.files += 1
        name = str(path)
        size = 0
        try:
            if not _is_regular(path):  # opening a pipe would wait for whoever writes it
                self._tell(Notice(name, "not a regular file: give files and folders", refused=True))
                return
            with path.open("rb") as stream:
                self.summary.read += 1
                size = os.fstat(stream.fileno()).st_size
                async with ahead(in_thread(read_games(stream, name=name, strict=self._strict))) as games:
                    async for game in games:
                        await self._game(game, name)
                        self._advance(_position(stream), 1)
        except FileRefusedError as error:
            self._tell(Notice(name, error.reason, line=error.details.get("line"), refused=True))
        except OSError as error:
            self._tell(Notice(name, f"the file cannot be read ({error.strerror or error})", refused=True))
        self._done += size
        self._advance(0, 0)

    async def _game(self, game: RecordedGame | BrokenGame, file: str) -> None:
        error: SimulationError | None = None
        if isinstance(game, RecordedGame):
            try:
                await self._write(game, file)
            except FATAL:
                raise
            except SimulationError as refusal:
                error = refusal
        self._told(game, error, file)

    def _told(self, game: RecordedGame | BrokenGame, error: SimulationError | None, file: str) -> None:
        """Tell why a game was refused, or what was odd about one that was not."""
        if isinstance(game, BrokenGame) or error is not None:
            why = game.reason if isinstance(game, BrokenGame) else str(error)
            self._tell(Notice(file, why, line=game.line, game=game.index, refused=True))
            return
        for warning in game.warnings:
            self._tell(Notice(file, warning, line=game.line, game=game.index))

    async def _write(self, game: RecordedGame, file: str) -> None:
        world = world_of_game(game, experiment=self._experiment, file=file)
        if await write_once(self._store, world, game.drafts):
            self.summary.imported += 1
            self.summary.effects += game.effects + 1
        else:
            self.summary.already += 1

    def _tell(self, notice: Notice) -> None:
        if notice.refused:
            self.summary.refused.append(notice)
        if self._notice is not None:
            self._notice(notice)

    def _advance(self, position: int, games: int) -> None:
        self._games += games
        if self._progress is not None:
            self._progress(Progress(min(self._done + position, self._total), self._total, self._games))


def _is_regular(path: Path) -> bool:
    return stat.S_ISREG(path.stat().st_mode)


def _position(stream: BinaryIO) -> int:
    return stream.tell() if stream.seekable() else 0
