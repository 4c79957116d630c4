"""Recorded social-RL runs into the log: a run is a world, appended whole or not at all.

Source: seeds/social_rl.md. Which world a run becomes follows from the experiment, the folder's name and what is in its
files, so a second run of an import adds nothing, and after a kill the same command goes on where it was.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from service.store.ahead import ahead
from service.store.importing import FATAL, check_experiment, in_thread, require_same, resumable
from service.store.run_folders import LARGE, ReadRun, RunFolder, RunFolders, read_folders
from service.store.run_notices import RunNotice, odd_in, problem_of, refusals
from service.store.worlds_at_once import SealedWorld, WorldsAtOnce
from worldledger.errors import InvalidEffectError, SimulationError, WorldExistsError
from worldledger.genesis import NewWorld
from worldledger.rulesets.social_rl.recording import RecordedRun
from worldledger.slugs import labelled, slug

if TYPE_CHECKING:
    from service.store.store import Store

_RULESET: Final = "social_rl"
#: Characters of a folder's name, and digits of the digest, that go into a world's name.
_NAME: Final = 48
_DIGITS: Final = 12
#: Effects after which a transaction has enough of small runs; and so it has of bytes when a run would be large.
_EFFECTS: Final = 5000


@dataclass
class RunSummary:
    """What an import did: how many of the runs that were found are new, were there already, and were refused.

    ``rounds``, ``messages`` and ``effects`` are those of the new ones; ``worlds`` has the name of each run's world that
    is there now. ``paths_refused`` are folders and files in which there is no run.
    """

    runs: int = 0
    imported: int = 0
    already: int = 0
    refused: int = 0
    paths_refused: int = 0
    rounds: int = 0
    messages: int = 0
    effects: int = 0
    worlds: list[str] = field(default_factory=list)
    notices: list[RunNotice] = field(default_factory=list)


@dataclass(frozen=True)
class RunProgress:
    """How far an import is: bytes of all files, and runs looked at."""

    done: int
    total: int
    runs: int


def world_of_run(run: RecordedRun, *, folder: str, experiment: str | None, strict: bool) -> NewWorld:
    """Give the world that a recorded run becomes; ``folder`` is the name of its folder.

    It is called ``[experiment-]folder-`` and 12 hex digits of the run's digest. The config keeps the whole digest, and
    whether the run was taken as it was found: then so is what is written to the world later.
    """
    name = f"{slug(folder, _NAME) or 'run'}-{run.digest[:_DIGITS]}"
    return NewWorld(
        world_id=labelled(name, experiment),
        ruleset=_RULESET,
        experiment=experiment,
        time_authority="client",
        config={"strict": strict, "digest": run.digest, "recording": {"folder": folder}},
    )


async def import_runs(
    store: Store,
    paths: Iterable[Path],
    *,
    max_effect_bytes: int,
    experiment: str | None = None,
    strict: bool = False,
    progress: Callable[[RunProgress], None] | None = None,
    notice: Callable[[RunNotice], None] | None = None,
    summary: RunSummary | None = None,
) -> RunSummary:
    """Import the runs in folders and their subfolders, in the order of names.

    Leniently a run is taken as it was found, and what is not as the seed says is told; strictly it is refused for that.
    A run that cannot be taken is told with its problems, by ``notice`` at once and in the summary, and the others go
    in. Runs are read while others are being written, small ones many by one transaction, a large one by itself; an
    import that is stopped may have to do the last few dozens again. A ``summary`` that is given is kept up to date, for
    whoever stops the import. Raises InvalidConfigError for an experiment that cannot be a label, StoreUnavailableError
    when the database goes away, with what is in by then.
    """
    check_experiment(experiment)
    worlds = WorldsAtOnce(store.reader, max_effect_bytes=max_effect_bytes, written=store.imported)
    summary = RunSummary() if summary is None else summary
    work = _Import(store, worlds, experiment, strict, progress, notice, summary)
    with resumable(lambda: summary.imported):
        await work.run(paths)
    return summary


class _Import:
    """One import of many runs."""

    def __init__(
        self,
        store: Store,
        worlds: WorldsAtOnce,
        experiment: str | None,
        strict: bool,
        progress: Callable[[RunProgress], None] | None,
        notice: Callable[[RunNotice], None] | None,
        summary: RunSummary,
    ) -> None:
        self._store = store
        self._worlds = worlds
        self._experiment = experiment
        self._strict = strict
        self._progress = progress
        self._notice = notice
        self._large_written = asyncio.Event()
        self._done = self._total = 0
        self.summary = summary

    async def run(self, paths: Iterable[Path]) -> None:
        folders = RunFolders(self._refuse_path, lambda path, what: self._tell(RunNotice(path, what))).find(paths)
        self._total = sum(found.size for found in folders)
        async with ahead(self._batches(folders)) as batches:
            async for batch in batches:
                errors = await self._write(batch)
                for read, world, error in zip(batch, map(self._world, batch), errors, strict=True):
                    self._conclude(read, await self._problems(read, world, error))
                self._large_written.set()

    async def _batches(self, folders: Iterable[RunFolder]) -> AsyncIterator[list[ReadRun]]:
        """Give the runs as they are to be written: small ones together; large ones alone, none read meanwhile."""
        batch: list[ReadRun] = []
        effects = size = 0
        async for read in in_thread(read_folders(folders, strict=self._strict)):
            if batch and (_is_large(read) or effects >= _EFFECTS or size >= LARGE):
                yield batch
                batch, effects, size = [], 0, 0
            batch.append(read)
            effects += len(read.drafts or ())
            size += read.found.size
            if _is_large(read):
                self._large_written.clear()
                yield batch
                batch, effects, size = [], 0, 0
                await self._large_written.wait()
        if batch:
            yield batch

    async def _write(self, batch: Sequence[ReadRun]) -> list[SimulationError | None]:
        """Write runs; give for each the error by which the log refuses it, if it does."""
        if _is_large(batch[0]):
            return [await self._write_large(batch[0])]
        sealed = [self._sealed(read) for read in batch]
        made = iter(await self._worlds.write([each for each in sealed if isinstance(each, SealedWorld)]))
        return [next(made) if isinstance(each, SealedWorld) else each for each in sealed]

    def _sealed(self, read: ReadRun) -> SealedWorld | SimulationError | None:
        """Give a run's world as it is to be written, or why the log refuses it; None where there is no run."""
        world = self._world(read)
        if world is None:
            return None
        try:
            return self._worlds.seal(world, read.drafts or ())
        except FATAL:
            raise
        except SimulationError as error:
            return error

    async def _write_large(self, read: ReadRun) -> SimulationError | None:
        world = self._world(read)
        if read.run is None or world is None:
            return None
        try:
            await self._store.import_world(world, read.run.drafts)
        except FATAL:
            raise
        except SimulationError as error:
            return error
        return None

    def _world(self, read: ReadRun) -> NewWorld | None:
        if read.run is None:
            return None
        folder = os.fsencode(read.found.folder.resolve().name).decode(errors="replace")
        return world_of_run(read.run, folder=folder, experiment=self._experiment, strict=self._strict)

    async def _problems(
        self, read: ReadRun, world: NewWorld | None, error: SimulationError | None
    ) -> Sequence[Mapping[str, Any]]:
        """Count a run that was written, or was there; give the problems of one that is refused."""
        run, summary = read.run, self.summary
        if run is None or world is None:
            return read.problems
        if isinstance(error, WorldExistsError):
            try:
                await require_same(self._store, world)
            except WorldExistsError as other:
                return [{"path": "$", "message": other.message}]
            summary.already += 1
        elif isinstance(error, InvalidEffectError):
            return [problem_of(run.drafts, error)]
        elif error is not None:
            return [{"path": "$", "message": error.message}]
        else:
            summary.imported += 1
            summary.rounds += run.rounds
            summary.messages += run.messages
            summary.effects += len(run.drafts) + 1
        summary.worlds.append(world.world_id)
        return ()

    def _conclude(self, read: ReadRun, problems: Sequence[Mapping[str, Any]]) -> None:
        """Tell what there is to tell of a run that is in, or is refused for these problems."""
        self.summary.runs += 1
        told: Sequence[RunNotice] = ()
        if problems:
            self.summary.refused += 1
            told = refusals(read.found.folder, problems)
        elif read.run is not None:
            told = [*read.remarks, *odd_in(read.found.folder, read.run)]
        for notice in told:
            self._tell(notice)
        self._done += read.found.size
        if self._progress is not None:
            self._progress(RunProgress(self._done, self._total, self.summary.runs))

    def _refuse_path(self, path: str, why: str) -> None:
        self.summary.paths_refused += 1
        self._tell(RunNotice(path, why, refused=True))

    def _tell(self, notice: RunNotice) -> None:
        self.summary.notices.append(notice)
        if self._notice is not None:
            self._notice(notice)


def _is_large(read: ReadRun) -> bool:
    return read.run is not None and read.drafts is None
