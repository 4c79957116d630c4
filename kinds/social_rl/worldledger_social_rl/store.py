"""Social-RL runs in the store: importing recorded ones, and finding their rounds.

A run is a world, appended whole or not at all. Which world follows from the experiment, the folder's name and what its
meta data say it is, so a second run of an import adds nothing, and after a kill the same command goes on where it was.
A run that has grown since is appended to its world; see `worldledger_social_rl.rules.recording`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import tzinfo
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import orjson
from worldledger_service.store.bulk import MovedOnError, SealedWorld, claim
from worldledger_service.store.importing import FATAL, check_experiment, in_thread, resumable
from worldledger_service.store.prefetch import prefetch

from worldledger.canonical import canonical_json, child
from worldledger.chain import Finding, StoredEffect
from worldledger.drafts import CheckedDraft, check_draft
from worldledger.errors import (
    EffectTooLargeError,
    InvalidEffectError,
    MomentNotFoundError,
    SimulationError,
    WorldExistsError,
)
from worldledger.genesis import NewWorld
from worldledger.names import labelled, slug
from worldledger_social_rl.rules import RULESET, words
from worldledger_social_rl.rules.errors import InvalidRunError
from worldledger_social_rl.rules.recording import (
    META_FILE,
    OtherRunError,
    Recorded,
    RecordedRun,
    RunFile,
    may_be_one,
    parse_file,
    read_run,
    write_run,
)

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord
    from worldledger_service.store.store import Store

    from worldledger.effects import Effect, EffectDraft
    from worldledger_social_rl.rules.recording import Notice


# -- what people are told of runs: what was odd, and why they are refused, each with its place ------------

#: What of some payloads is a whole document, or all that is at its place.
_WHOLE: Final = {
    words.EXPERIMENT_STARTED: ("meta",),
    words.ARTIFACT_RECORDED: ("content",),
    words.ROUND_SYNTHESISED: ("synthesis",),
}
#: What follows a member's name in a path.
_MEMBER: Final = re.compile(r"\Z|[.\[]")
#: Most problems of one run that are told.
_MOST_TOLD: Final = 20
_FEEDBACK: Final = re.compile(r"\$\.feedback\.[^.\[]+")
_PART: Final = re.compile(r"\[(?:[0-9]+|\"(?:[^\"\\]|\\.)*\")\]")


@dataclass(frozen=True)
class RunNotice:
    """What people should know about a run, or one of its files: that it was refused, or what was odd about it.

    ``path`` is the JSON path in the file, where it is about a part of it; ``count`` how many such places there are, of
    which this is the first.
    """

    file: str
    text: str
    path: str | None = None
    count: int = 1
    refused: bool = False

    def __str__(self) -> str:
        place = self.file if self.path is None else f"{self.file}: {self.path}"
        more = f" (and {self.count - 1} more like it)" if self.count > 1 else ""
        return f"{place}: {self.text}{more}"


def odd_in(folder: Path, run: RecordedRun) -> list[RunNotice]:
    """Return what was odd about a run, what says the same of each agent's feedback in a file as one."""
    found: dict[tuple[str, str, str], Notice] = {}
    for notice in run.notices:
        rule = notice["message"].partition(", not ")[0]
        key = (notice["file"], _PART.sub("[*]", _FEEDBACK.sub("$.feedback[*]", notice["path"])), rule)
        first = found.setdefault(key, {**notice, "count": 0})
        first["count"] += notice["count"]
    return [_notice(folder, notice, count=notice["count"]) for notice in (*found.values(), *run.remarks)]


def refusals(folder: Path, problems: Sequence[Mapping[str, Any]]) -> list[RunNotice]:
    """Return why a run is refused, problem by problem; of very many the first."""
    told = [_notice(folder, problem, refused=True) for problem in problems[:_MOST_TOLD]]
    if len(problems) > len(told):
        told.append(RunNotice(str(folder), f"and {len(problems) - len(told)} more problems", refused=True))
    return told


def _notice(folder: Path, problem: Mapping[str, Any], *, count: int = 1, refused: bool = False) -> RunNotice:
    file = str(folder / problem["file"]) if problem.get("file") else str(folder)
    path = None if problem["path"] == "$" else problem["path"]
    return RunNotice(file, problem["message"], path, count, refused)


def problem_of(drafts: Sequence[EffectDraft], error: InvalidEffectError) -> dict[str, Any]:
    """Say where in the files that is of which a draft was made that the log refuses."""
    file, path = place_of(drafts[: (error.index or 0) + 1])
    what = error.reason
    if isinstance(error, EffectTooLargeError):
        what = f"{what}; WORLDLEDGER_MAX_EFFECT_BYTES may be set to more"
    else:
        path = in_document(drafts[error.index or 0], path, error.path)
    return {"file": file, "path": path, "message": what}


def in_document(draft: EffectDraft, place: str, path: str) -> str:
    """Return where in a document that is of which a path in a draft tells; the draft was made of what is at ``place``.

    What a payload keeps beside the schema's fields, or in their stead, stands in the document itself.
    """
    kind, payload = draft["kind"], draft["payload"]
    inside = path.removeprefix("$.payload").removeprefix("$.kind").removeprefix("$")
    for name in (words.EXTRA, words.RAW, *_WHOLE.get(kind, ())):
        if _MEMBER.match(rest := inside.removeprefix(f".{name}")) and rest != inside:
            return place + rest
    if inside == ".agent_id" and (words.RAW in payload or "agent_id" in payload.get(words.ABSENT, ())):
        return place
    return place + inside


def place_of(drafts: Sequence[EffectDraft]) -> tuple[str, str]:
    """Return the file and the JSON path of which the last of a run's first drafts was made."""
    kind, payload = drafts[-1]["kind"], drafts[-1]["payload"]
    if kind == words.EXPERIMENT_STARTED:
        return META_FILE, "$"
    if kind in {words.ARTIFACT_RECORDED, words.POLICY_STATE_RECORDED}:
        return payload["name"], "$"
    begin = max(index for index, draft in enumerate(drafts) if draft["kind"] == words.ROUND_STARTED)
    head = drafts[begin]["payload"]
    nth = sum(draft["kind"] == kind for draft in drafts[begin:]) - 1
    path = {
        words.MESSAGE_EMITTED: f"$.messages[{nth}]",
        words.FEEDBACK_RECORDED: child("$.feedback", str(payload.get("agent_id"))),
        words.POLICY_ADAPTED: f"$.policy_adaptations[{nth}]",
        words.ROUND_SYNTHESISED: "$.synthesis",
    }.get(kind, "$")
    return head.get(words.NAME) or words.file_of_round(head["round_number"]), path


# -- folders of runs: finding them, and reading the files in them -----------------------------------------
#
# Source: docs/reference/social-rl.md, "Runs that were recorded": a run is a folder with files
# ``roundN_social_rl.json``.

#: Most bytes of JSON in the files of one run: all of it is held at once, at several times that.
MOST_BYTES: Final = 256 * 1024 * 1024
#: Bytes from which on a run is large: its effects are not held together with others.
LARGE: Final = 4 * 1024 * 1024
_ROUND: Final = re.compile(r"round[0-9]+_social_rl\.json\Z")
_META: Final = "meta.json"
#: Most names in one remark.
_NAMED: Final = 5
_FOLDER: Final = "a folder, which has the name of a round's file"
#: What is made of the elements of a round's lists.
_ELEMENTS: Final = frozenset({words.MESSAGE_EMITTED, words.FEEDBACK_RECORDED, words.POLICY_ADAPTED})


@dataclass(frozen=True)
class RunFolder:
    """A run's folder: its JSON files, how many bytes they have, and the names of what has no place in a log.

    ``odd`` are folders in it that have the name of a round.
    """

    folder: Path
    files: Sequence[Path]
    size: int
    left: Sequence[str]
    odd: Sequence[str] = ()

    @property
    def remark(self) -> str | None:
        """Say what is left out, if anything."""
        if not self.left:
            return None
        more = f" and {len(self.left) - _NAMED} more" if len(self.left) > _NAMED else ""
        return f"only JSON files are kept, not {', '.join(self.left[:_NAMED])}{more}"


class RunFolders:
    """Finds runs in folders and their subfolders, in the order of names, each once; loops of links do no harm.

    ``refuse`` is told a path and why, of what cannot be read and of paths without a run; ``note`` of folders in which
    a run was begun at most.
    """

    def __init__(self, refuse: Callable[[str, str], object], note: Callable[[str, str], object]) -> None:
        self._tell = refuse
        self._note = note
        self._refused = 0
        self._seen: set[tuple[int, int]] = set()

    def find(self, paths: Iterable[Path]) -> list[RunFolder]:
        """Return the runs of these paths."""
        found: list[RunFolder] = []
        for path in paths:
            before = len(found), self._refused
            try:
                at = path.stat()
            except OSError as error:
                self._refuse(path, f"cannot be read ({error.strerror or error})")
                continue
            if not stat.S_ISDIR(at.st_mode):
                self._refuse(path, "not a folder: give the folder of a run, or one with such folders in it")
            elif (at.st_dev, at.st_ino) not in self._seen:
                found += self._walk(path)
                if (len(found), self._refused) == before:
                    self._refuse(path, "no file roundN_social_rl.json in this folder, or below it")
        return found

    def _refuse(self, path: Path, why: str) -> None:
        self._refused += 1
        self._tell(str(path), why)

    def _walk(self, top: Path) -> Iterator[RunFolder]:
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            try:
                at = folder.stat()
                if (at.st_dev, at.st_ino) in self._seen:
                    continue
                self._seen.add((at.st_dev, at.st_ino))
                with os.scandir(folder) as entries:
                    inside = sorted((entry.name, entry.is_dir()) for entry in entries)
            except OSError as error:
                self._refuse(folder, f"the folder cannot be read ({error.strerror or error})")
                continue
            waiting += [folder / name for name, is_folder in reversed(inside) if is_folder]
            names = [name for name, is_folder in inside if not is_folder]
            odd = [name for name, is_folder in inside if is_folder and words.kind_of_file(name) == words.ROUND_STARTED]
            if any(map(_ROUND.match, names)):
                yield _run(folder, names, odd)
            elif odd:
                self._refuse(folder / odd[0], f"{_FOLDER}; no file roundN_social_rl.json is beside it")
            elif _META in names:
                self._note(str(folder), f"has a {_META} and no file roundN_social_rl.json; it is left out")


def _run(folder: Path, names: Sequence[str], odd: Sequence[str]) -> RunFolder:
    kept = [name for name in names if name.endswith(".json") and not name.startswith(".")]
    size = 0
    for name in kept:
        try:
            size += (folder / name).stat().st_size
        except OSError:  # it will be told when it is opened
            continue
    return RunFolder(folder, [folder / name for name in kept], size, [name for name in names if name not in kept], odd)


class ReadRun(NamedTuple):
    """A folder, and the run in it, or else the problems that it is refused for; and what was odd about its files.

    ``drafts`` are the run's, checked; None where they are too many to be held twice.
    """

    found: RunFolder
    run: RecordedRun | None
    drafts: Sequence[CheckedDraft] | None = None
    problems: Sequence[Mapping[str, Any]] = ()
    remarks: Sequence[RunNotice] = ()


def read_folders(folders: Iterable[RunFolder], *, strict: bool, timezone: tzinfo | None = None) -> Iterator[ReadRun]:
    """Read runs, one after the other; see `read_run` for ``strict`` and ``timezone``."""
    for found in folders:
        remarks = [] if found.remark is None else [RunNotice(str(found.folder), found.remark)]
        try:
            run = _read(found, remarks, strict=strict, timezone=timezone)
        except InvalidRunError as error:
            yield ReadRun(found, None, problems=error.problems)
            continue
        try:
            drafts = list(_checked(run.drafts)) if found.size < LARGE else None
        except InvalidEffectError as error:
            yield ReadRun(found, None, problems=[problem_of(run.drafts, error)])
        else:
            yield ReadRun(found, run, drafts, remarks=remarks)


def _read(found: RunFolder, remarks: list[RunNotice], *, strict: bool, timezone: tzinfo | None) -> RecordedRun:
    if found.size > MOST_BYTES:
        what = f"the run has {found.size} bytes of JSON; at most {MOST_BYTES}"
        raise InvalidRunError([{"path": "$", "message": what}])
    files: list[RunFile] = []
    problems: list[Mapping[str, Any]] = []
    for name in found.odd:
        if strict:
            problems.append({"file": name, "path": "$", "message": _FOLDER})
        else:
            remarks.append(RunNotice(str(found.folder / name), f"{_FOLDER}; it is left out"))
    if strict:
        problems += [
            {"file": name, "path": "$", "message": words.MISNAMED} for name in found.left if words.kind_of_file(name)
        ]
    for path in found.files:
        try:
            file, remark = read_file(path)
        except InvalidRunError as error:
            problems += error.problems
        else:
            files.append(file)
            if remark is not None and strict:
                problems.append({"file": path.name, "path": "$", "message": remark})
            elif remark is not None:
                remarks.append(RunNotice(str(path), remark))
    if problems:
        raise InvalidRunError(problems)
    return read_run(files, strict=strict, timezone=timezone)


def _checked(drafts: Iterable[EffectDraft]) -> Iterator[CheckedDraft]:
    """Check the drafts of a run as `check_draft` does, twice as fast where it was done already.

    That a file holds nothing but what a log can is known; what was an element of its lists lies no deeper in an effect.
    Raises InvalidEffectError naming the draft.
    """
    sources: set[str] = set()
    for index, draft in enumerate(drafts):
        kind, source_id = draft["kind"], draft["source_id"]
        if kind in _ELEMENTS and source_id in sources:
            payload, sim_time = canonical_json(draft["payload"]), draft["sim_time"]
            version, caused_by = draft["schema_version"], draft.get("caused_by")
            yield CheckedDraft(kind, payload, source_id, version, sim_time, 0, None, caused_by, None)
            continue
        try:
            yield check_draft(draft)
        except InvalidEffectError as error:
            raise error.at(index) from None
        sources.add(source_id)


def read_file(path: Path) -> tuple[RunFile, str | None]:
    """Return a file of a run, and a remark if there was something odd about its text, which was passed over.

    Raises InvalidRunError for what cannot be read, and as `parse_file` does.
    """
    try:
        data = _bytes(path)
    except OSError as error:
        what = f"cannot be read ({error.strerror or error})"
        raise InvalidRunError([{"file": path.name, "path": "$", "message": what}]) from None
    remark = None
    if data.startswith(BOM_UTF8):
        remark = words.MARKED
        data = data.removeprefix(BOM_UTF8)
    return parse_file(path.name, data), remark


def _bytes(path: Path) -> bytes:
    """Read a regular file, and no other: a pipe would wait for whoever writes it. Raises OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return stream.read()


# -- the effects of a run's world for code that reads them one by one, in a thread ------------------------


@asynccontextmanager
async def effects_in_thread(
    reader: Reader, world: WorldRecord, progress: Callable[[int], None] | None = None
) -> AsyncIterator[Iterator[Effect]]:
    """Lend a world's effects up to the head of its record, to be read in a thread; at most two batches are held.

    ``progress`` is told the last seq of each batch. The iterator raises TamperedError for a text that is no effect.
    """
    loop = asyncio.get_running_loop()
    async with prefetch(reader.batches(world.world_id, until_seq=world.head_seq)) as batches:

        async def following() -> list[StoredEffect] | None:
            return await anext(batches, None)

        def effects() -> Iterator[Effect]:
            while (batch := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not None:
                for row in batch:
                    effect = orjson.loads(row.text)
                    if not isinstance(effect, dict):
                        raise Finding(world.world_id, row.global_seq, "the stored text is not an effect").error()
                    yield cast("Effect", effect)
                if progress is not None:
                    progress(batch[-1].global_seq)

        yield effects()


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

#: Those of some folders, whose names are as `world_of_run` makes them: $1 experiment, $2 folders, $3 the beginnings of
#: the names, up to the hex digits. The primary key finds them; only their configs are parsed.
_FIRST_IMPORTS: Final = """
select w.world_id, f.folder from unnest($2::text[], $3::text[]) as f (folder, prefix)
join worlds w on w.world_id >= f.prefix and w.world_id < f.prefix || 'g'
where w.ruleset = 'social_rl' and w.experiment is not distinct from $1
  and w.config -> 'recording' ->> 'folder' = f.folder
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
    summary = RunSummary() if summary is None else summary
    work = _Import(store, experiment, strict, timezone, progress, notice, summary)
    with resumable(lambda: summary.imported + summary.grown):
        await work.run(paths)
    return summary


class _Import:
    """One import of many runs."""

    def __init__(
        self,
        store: Store,
        experiment: str | None,
        strict: bool,
        timezone: tzinfo | None,
        progress: Callable[[RunProgress], None] | None,
        notice: Callable[[RunNotice], None] | None,
        summary: RunSummary,
    ) -> None:
        self._store = store
        self._worlds = store.worlds_at_once()
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
        async with prefetch(self._batches(folders)) as batches:
            async for batch in batches:
                for part in _without_namesakes(batch):
                    await self._take(part)
                self._large_written.set()

    async def _take(self, batch: Sequence[ReadRun]) -> None:
        """Write what is new of runs, and tell of them in order."""
        known: list[Sequence[Mapping[str, Any]] | None] = [None] * len(batch)
        errors = None
        while errors is None:
            known = [await self._known(read) if told is None else told for read, told in zip(batch, known, strict=True)]
            fresh = [read for read, told in zip(batch, known, strict=True) if told is None]
            try:
                errors = iter(await self._write(fresh) if fresh else ())
            except _MadeMeanwhileError:
                await self._look_up()
        for read, told in zip(batch, known, strict=True):
            self._conclude(read, self._problems(read, self._world(read), next(errors)) if told is None else told)

    # -- what is there already ---------------------------------------------------------------------------------

    async def _look_up(self) -> None:
        """Find the worlds of the experiment's runs, by the names of their folders."""
        self._there.clear()
        for row in await self._store.reader.fetch(_RECORDED_RUNS, self._experiment):
            identity = None if row["identity"] is None else orjson.loads(row["identity"])
            self._there.setdefault(row["folder"], []).append(_There(row["world_id"], row["digest"], identity))

    async def _guard(self, connection: PooledConnection, worlds: Sequence[NewWorld]) -> None:
        """Claim the folders of new runs, and raise _MadeMeanwhileError if there are worlds of them that are not known.

        The world's name alone does not prevent two worlds of one run: it depends on the meta data, which may differ
        between two states of the run.
        """
        folders = [world.config["recording"]["folder"] for world in worlds]
        await claim(connection, (f"social_rl:{orjson.dumps([self._experiment, name]).decode()}" for name in folders))
        prefixes = [world.world_id[:-_DIGITS] for world in worlds]
        for row in await connection.fetch(_FIRST_IMPORTS, self._experiment, folders, prefixes):
            if row["world_id"] not in {there.world_id for there in self._there.get(row["folder"], ())}:
                raise _MadeMeanwhileError

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
        made = iter(await self._worlds.write([each for each in sealed if isinstance(each, SealedWorld)], self._guard))
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
            await self._store.import_world(world, read.run.drafts, guard=self._guard)
        except FATAL:
            raise
        except SimulationError as error:
            return error
        return None

    def _world(self, read: ReadRun) -> NewWorld | None:
        if read.run is None:
            return None
        return world_of_run(read.run, folder=_folder(read), experiment=self._experiment, strict=self._strict)

    def _problems(
        self, read: ReadRun, world: NewWorld | None, error: SimulationError | None
    ) -> Sequence[Mapping[str, Any]]:
        """Count a run that was written; return the problems of one that is refused."""
        run = read.run
        if run is None or world is None:
            return read.problems
        if isinstance(error, WorldExistsError):
            what = f"its world would be {world.world_id}, and another world has that name"
            return [{"path": "$", "message": what}]
        if isinstance(error, InvalidEffectError):
            return [problem_of(run.drafts, error)]
        if error is not None:
            return [{"path": "$", "message": error.message}]
        self.summary.imported += 1
        self._count(run.rounds, run.messages, len(run.drafts) + 1, world.world_id)
        made = _There(world.world_id, run.digest, run.identity)
        self._there.setdefault(_folder(read), []).append(made)
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


class _MadeMeanwhileError(Exception):
    """Another import has made a world of the same folder since the look-up. It never leaves the import."""


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


# -- rounds of social-RL worlds: where in the log each begins and ends, and what it is as a document ------
#
# Source: docs/reference/social-rl.md, "Round".


#: Most stored bytes of a round that is put together in memory.
_MOST_ROUND_BYTES: Final = 64 * 1024 * 1024

#: What may stand between a round's effects, and is a file of its own.
_OTHER_FILES: Final = frozenset({words.EXPERIMENT_STARTED, words.POLICY_STATE_RECORDED, words.ARTIFACT_RECORDED})

#: Rounds, each with the effects from its RoundStarted to the last before the next one: $1 world_id, $2 after the
#: global_seq of a RoundStarted, $3 the head, $4 limit, $5 the round's number as text (null: every one). Where a number
#: stands twice, only an import has brought it; the later one counts (an export has both).
_ROUNDS: Final = """
select s.global_seq as first_seq, s.number, s.sim_time as started_sim_time, s.wall_time as started_wall_time,
       e.ended_seq, e.duration_seconds, coalesce(n.following - 1, $3) as last_seq,
       c.messages, c.agents, c.feedback, c.adaptations
from (
    select global_seq, effect -> 'payload' ->> 'round_number' as number, sim_time,
           (effect ->> 'wall_time')::float8 as wall_time
    from effects
    where world_id = $1 and kind = 'RoundStarted' and global_seq > $2 and global_seq <= $3
      and ($5::text is null or effect -> 'payload' ->> 'round_number' = $5)
    order by world_id {order}, kind {order}, global_seq {order} limit $4) s
left join lateral (
    select global_seq as following from effects
    where world_id = $1 and kind = 'RoundStarted' and global_seq > s.global_seq and global_seq <= $3
    order by world_id, kind, global_seq limit 1) n on true
left join lateral (
    select global_seq as ended_seq, (effect -> 'payload' -> 'duration_seconds')::text as duration_seconds from effects
    where world_id = $1 and kind = 'RoundEnded' and global_seq > s.global_seq
      and global_seq < coalesce(n.following, $3 + 1)
    order by world_id, kind, global_seq limit 1) e on true
cross join lateral (
    select count(*) filter (where kind = 'MessageEmitted') as messages,
           count(distinct source_id) filter (where kind = 'MessageEmitted') as agents,
           count(*) filter (where kind = 'FeedbackRecorded') as feedback,
           count(*) filter (where kind = 'PolicyAdapted') as adaptations
    from effects where world_id = $1 and global_seq >= s.global_seq and global_seq < coalesce(n.following, $3 + 1)) c
order by first_seq
"""
PAGE: Final = _ROUNDS.format(order="asc")
NUMBERED: Final = _ROUNDS.format(order="desc")

#: The last round that was begun: $1 world_id, $2 the head.
LAST: Final = """
select effect -> 'payload' ->> 'round_number' as number from effects
where world_id = $1 and kind = 'RoundStarted' and global_seq <= $2
order by world_id desc, kind desc, global_seq desc limit 1
"""


class RoundAt(NamedTuple):
    """Where a round stands in a world's log, and how much there is in it.

    ``round_number`` is None where an import has brought a round without one. ``ended_seq`` is the effect that ended it,
    if there is one yet, and ``last_seq`` the last before the next round: the head, while there is none.
    ``duration_seconds`` is what its end says; times are of its first effect. ``agents`` are those that have spoken.
    """

    round_number: int | None
    first_seq: int
    ended_seq: int | None
    last_seq: int
    started_sim_time: float
    started_wall_time: float
    duration_seconds: float | None
    messages: int
    agents: int
    feedback: int
    adaptations: int


class Rounds:
    """Finds the rounds of worlds."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def page(self, world: WorldRecord, *, after: int, limit: int) -> list[RoundAt]:
        """Return the rounds that begin after a seq, ascending."""
        rows = await self._reader.fetch(PAGE, world.world_id, after, world.head_seq, limit, None)
        return [_round(row) for row in rows]

    async def at(self, world: WorldRecord, number: int) -> RoundAt:
        """Return where a round stands. Raises MomentNotFoundError for one that the world does not have."""
        if world.ruleset != RULESET.name:
            raise missing(world, number, f"worlds of {world.ruleset} have no rounds")
        rows = await self._reader.fetch(NUMBERED, world.world_id, 0, world.head_seq, 1, str(number))
        if rows:
            return _round(rows[0])
        last = await self._reader.fetch(LAST, world.world_id, world.head_seq)
        raise missing(world, number, f"its last is {last[0]['number']}" if last else "none has begun")

    async def document(self, world: WorldRecord, at: RoundAt) -> dict[str, Any]:
        """Return a round as its document has it, as far as it has come.

        Raises MomentNotFoundError where the log's is none, or has too many bytes.
        """
        effects: list[Effect] = []
        size = 0
        async for batch in self._reader.batches(world.world_id, after_seq=at.first_seq - 1, until_seq=at.last_seq):
            size += sum(len(row.text) for row in batch)
            if size > _MOST_ROUND_BYTES:
                why = f"that is read at once: it has more than {_MOST_ROUND_BYTES} bytes; read its effects"
                raise missing(world, at.round_number, f"{why} {at.first_seq} to {at.last_seq}")
            effects += [cast("Effect", orjson.loads(row.text)) for row in batch if row.kind not in _OTHER_FILES]
        (file,) = write_run(effects)
        return cast("dict[str, Any]", file.value)


def missing(world: WorldRecord, number: int | None, why: str) -> MomentNotFoundError:
    """Make the error for a round that a world does not have."""
    what = f"world {world.world_id!r} has no round {number}; {why}"
    return MomentNotFoundError(what, world_id=world.world_id, round_number=number, head_seq=world.head_seq)


def _round(row: Any) -> RoundAt:
    number, duration = row["number"], row["duration_seconds"]
    seconds = None if duration is None else orjson.loads(duration)
    return RoundAt(
        int(number) if number is not None and number.isdecimal() else None,
        row["first_seq"],
        row["ended_seq"],
        row["last_seq"],
        row["started_sim_time"],
        row["started_wall_time"],
        float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None,
        row["messages"],
        row["agents"],
        row["feedback"],
        row["adaptations"],
    )
