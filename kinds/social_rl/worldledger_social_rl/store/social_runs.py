"""Recorded social-RL runs into the log: a run is a world, appended whole or not at all.

Which world a run becomes follows from the experiment, the folder's name and what its meta data say it is, so a second
run of an import adds nothing, and after a kill the same command goes on where it was. A run that has grown since is
appended to its world; see `worldledger_social_rl.rules.growing`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import tzinfo
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from worldledger_service.store.ahead import ahead
from worldledger_service.store.bulk import MovedOnError
from worldledger_service.store.importing import FATAL, check_experiment, in_thread, resumable
from worldledger_service.store.worlds_at_once import SealedWorld, WorldsAtOnce

from worldledger.canonical import canonical_json
from worldledger.errors import InvalidEffectError, InvalidRunError, SimulationError, WorldExistsError
from worldledger.genesis import NewWorld
from worldledger.slugs import labelled, slug
from worldledger_social_rl.rules.growing import OtherRunError, Recorded, may_be_one
from worldledger_social_rl.rules.recording import RecordedRun
from worldledger_social_rl.store.run_folders import LARGE, ReadRun, RunFolder, RunFolders, read_folders
from worldledger_social_rl.store.run_notices import RunNotice, odd_in, problem_of, refusals
from worldledger_social_rl.store.run_worlds import effects_in_thread

if TYPE_CHECKING:
    from worldledger_service.store.store import Store

_RULESET: Final = "social_rl"
_PROFILE: Final = "worldledger-social-rl-run/1"
#: Characters of a folder's name, and digits of the digest, that go into a world's name.
_NAME: Final = 48
_DIGITS: Final = 12
#: Effects after which a transaction has enough of small runs; and so it has of bytes when a run would be large.
_EFFECTS: Final = 5000

#: The worlds of recorded social-RL runs, by the folder that each was recorded in: $1 experiment, null for none.
_RECORDED_RUNS: Final = """
select world_id, config ->> 'digest' as digest, config -> 'recording' ->> 'folder' as folder,
       (config -> 'recording' -> 'identity')::text as identity
from worlds
where ruleset = 'social_rl' and (experiment = $1 or (experiment is null and $1::text is null))
  and config -> 'recording' ->> 'folder' is not null
order by world_id
"""


@dataclass
class RunSummary:
    """What an import did: how many of the runs that were found are new, were there already, and were refused.

    ``grown`` are those that were there in part. ``rounds``, ``messages`` and ``effects`` are what was written, and
    ``worlds`` has the name of each run's world that is there now. ``paths_refused`` are folders and files in which
    there is no run.
    """

    runs: int = 0
    imported: int = 0
    grown: int = 0
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
    """Return the world that a recorded run becomes; ``folder`` is the name of its folder.

    It is called ``[experiment-]folder-`` and 12 hex digits of a digest over the folder's name and what the meta data
    say that tells the run from others: it stays the same while the run grows. The config keeps the digest of all the
    files, and whether the run was taken as it was found: then so is what is written to the world later.
    """
    digest = sha256(canonical_json([_PROFILE, folder, run.identity])).hexdigest()
    name = f"{slug(folder, _NAME) or 'run'}-{digest[:_DIGITS]}"
    recording: dict[str, Any] = {"folder": folder, "identity": run.identity}
    return NewWorld(
        world_id=labelled(name, experiment),
        ruleset=_RULESET,
        experiment=experiment,
        time_authority="client",
        config={"strict": strict, "digest": run.digest, "recording": recording},
    )


async def import_runs(
    store: Store,
    paths: Iterable[Path],
    *,
    max_effect_bytes: int,
    experiment: str | None = None,
    strict: bool = False,
    timezone: tzinfo | None = None,
    progress: Callable[[RunProgress], None] | None = None,
    notice: Callable[[RunNotice], None] | None = None,
    summary: RunSummary | None = None,
) -> RunSummary:
    """Import the runs in folders and their subfolders, in the order of names.

    A run that has grown since it was imported is appended to its world. ``timezone`` is that of times without an offset
    from UTC in meta data. Leniently a run is taken as it was found, and what is not as documented is told; strictly
    it is refused for that. A run that cannot be taken is told with its problems, by ``notice`` at once and in the
    summary, and the others go in. Runs are read while others are being written, small ones many by one transaction, a
    large one by itself; an import that is stopped may have to do the last few dozens again. A ``summary`` that is given
    is kept up to date, so that it can be read when the import was stopped. Raises InvalidConfigError for an experiment
    that cannot be a label, StoreUnavailableError when the database goes away, with what is in by then.
    """
    check_experiment(experiment)
    worlds = WorldsAtOnce(store.reader, max_effect_bytes=max_effect_bytes, written=store.imported)
    summary = RunSummary() if summary is None else summary
    work = _Import(store, worlds, experiment, strict, timezone, progress, notice, summary)
    with resumable(lambda: summary.imported + summary.grown):
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
        timezone: tzinfo | None,
        progress: Callable[[RunProgress], None] | None,
        notice: Callable[[RunNotice], None] | None,
        summary: RunSummary,
    ) -> None:
        self._store = store
        self._worlds = worlds
        self._experiment = experiment
        self._strict = strict
        self._timezone = timezone
        self._there: dict[str, list[_There]] = {}
        self._progress = progress
        self._notice = notice
        self._large_written = asyncio.Event()
        self._done = self._total = 0
        self.summary = summary

    async def run(self, paths: Iterable[Path]) -> None:
        folders = RunFolders(self._refuse_path, lambda path, what: self._tell(RunNotice(path, what))).find(paths)
        self._total = sum(found.size for found in folders)
        if folders:
            await self._look_up()
        async with ahead(self._batches(folders)) as batches:
            async for batch in batches:
                for part in _without_namesakes(batch):
                    await self._take(part)
                self._large_written.set()

    async def _take(self, batch: Sequence[ReadRun]) -> None:
        """Write what is new of runs, and tell of them in order."""
        known = [await self._known(read) for read in batch]
        fresh = [read for read, problems in zip(batch, known, strict=True) if problems is None]
        errors = iter(await self._write(fresh) if fresh else ())
        for read, told in zip(batch, known, strict=True):
            problems = await self._problems(read, self._world(read), next(errors)) if told is None else told
            self._conclude(read, problems)

    # -- what is there already ---------------------------------------------------------------------------------

    async def _look_up(self) -> None:
        """Find the worlds of the experiment's runs, by the names of their folders."""
        for row in await self._store.reader.fetch(_RECORDED_RUNS, self._experiment):
            identity = None if row["identity"] is None else orjson.loads(row["identity"])
            self._there.setdefault(row["folder"], []).append(_There(row["world_id"], row["digest"], identity))

    async def _known(self, read: ReadRun) -> Sequence[Mapping[str, Any]] | None:
        """Count a run that is there, and append what is new of it; return the problems, None for a run that is new."""
        run = read.run
        if run is None:
            return None
        candidates = [there for there in self._there.get(_folder(read), ()) if there.may_be(run)]
        same = next((there for there in candidates if there.digest == run.digest), None)
        if same is not None:
            return self._already(same.world_id)
        for there in candidates:
            with suppress(OtherRunError):
                return await self._grow(run, there.world_id)
        return None

    def _already(self, world_id: str) -> Sequence[Mapping[str, Any]]:
        self.summary.already += 1
        self.summary.worlds.append(world_id)
        return ()

    async def _grow(self, run: RecordedRun, world_id: str) -> Sequence[Mapping[str, Any]]:
        """Append what is new of a run, all or nothing, whoever else does so meanwhile; return the problems.

        Raises OtherRunError where the world is another run's.
        """
        while True:
            world = await self._store.world(world_id)
            recorded = Recorded(run)
            try:
                async with effects_in_thread(self._store.reader, world) as effects:
                    await asyncio.to_thread(recorded.read, effects)
                growth = recorded.growth(world_id)
                if not growth.drafts:
                    return self._already(world_id)
                await self._store.bulk_append(world_id, growth.drafts, after_seq=world.head_seq, recorded=True)
            except MovedOnError:
                continue
            except InvalidRunError as error:
                return error.problems
            except InvalidEffectError as error:
                return [problem_of(growth.drafts, error)]
            except FATAL:
                raise
            except SimulationError as error:
                return [{"path": "$", "message": error.message}]
            self.summary.grown += 1
            self._count(growth.rounds, growth.messages, len(growth.drafts), world_id)
            return ()

    def _count(self, rounds: int, messages: int, effects: int, world_id: str) -> None:
        self.summary.rounds += rounds
        self.summary.messages += messages
        self.summary.effects += effects
        self.summary.worlds.append(world_id)

    # -- what is new -------------------------------------------------------------------------------------------

    async def _batches(self, folders: Iterable[RunFolder]) -> AsyncIterator[list[ReadRun]]:
        """Return the runs as they are to be written: small ones together; large ones alone, none read meanwhile."""
        batch: list[ReadRun] = []
        effects = size = 0
        async for read in in_thread(read_folders(folders, strict=self._strict, timezone=self._timezone)):
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
        """Return a run's world as it is to be written, or why the log refuses it; None where there is no run."""
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
        return world_of_run(read.run, folder=_folder(read), experiment=self._experiment, strict=self._strict)

    async def _problems(
        self, read: ReadRun, world: NewWorld | None, error: SimulationError | None
    ) -> Sequence[Mapping[str, Any]]:
        """Count a run that was written, or was there; return the problems of one that is refused."""
        run = read.run
        if run is None or world is None:
            return read.problems
        if isinstance(error, WorldExistsError):
            return await self._made_meanwhile(read, run, world)
        if isinstance(error, InvalidEffectError):
            return [problem_of(run.drafts, error)]
        if error is not None:
            return [{"path": "$", "message": error.message}]
        self.summary.imported += 1
        self._count(run.rounds, run.messages, len(run.drafts) + 1, world.world_id)
        made = _There(world.world_id, run.digest, run.identity)
        self._there.setdefault(_folder(read), []).append(made)
        return ()

    async def _made_meanwhile(self, read: ReadRun, run: RecordedRun, world: NewWorld) -> Sequence[Mapping[str, Any]]:
        """Take a run whose world's name was taken since: by another import, or by another folder of this one."""
        there = await self._store.world(world.world_id)
        recording = there.config.get("recording")
        is_same = there.ruleset == _RULESET and there.experiment == world.experiment
        if is_same and isinstance(recording, dict) and recording.get("folder") == _folder(read):
            if there.config.get("digest") == run.digest:
                return self._already(world.world_id)
            with suppress(OtherRunError):
                return await self._grow(run, world.world_id)
        what = f"its world would be {world.world_id}, and another world has that name"
        return [{"path": "$", "message": what}]

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


@dataclass(frozen=True)
class _There:
    """A run's world that is there: the digest of what it was made of, and its identity where its genesis tells it."""

    world_id: str
    digest: str | None
    identity: Mapping[str, Any] | None

    def may_be(self, run: RecordedRun) -> bool:
        """Tell whether it can be this run's."""
        return may_be_one(self.identity or {}, run.identity)


def _without_namesakes(batch: Sequence[ReadRun]) -> Iterator[list[ReadRun]]:
    """Part runs so that none is together with one of a folder of the same name: it may be the same run, grown."""
    part: list[ReadRun] = []
    names: set[str] = set()
    for read in batch:
        if _folder(read) in names:
            yield part
            part, names = [], set()
        part.append(read)
        names.add(_folder(read))
    if part:
        yield part


def _folder(read: ReadRun) -> str:
    return os.fsencode(read.found.folder.resolve().name).decode(errors="replace")


def _is_large(read: ReadRun) -> bool:
    return read.run is not None and read.drafts is None
