"""Folders of social-RL runs: finding them, and reading the files in them.

Source: docs/reference/social-rl.md, "Runs that were recorded": a run is a folder with files ``roundN_social_rl.json``.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from worldledger.canonical import canonical_json
from worldledger.drafts import CheckedDraft, check_draft
from worldledger.errors import InvalidEffectError, InvalidRunError
from worldledger_social_rl.rules import words
from worldledger_social_rl.rules.recording import RecordedRun, RunFile, parse_file, read_run
from worldledger_social_rl.store.run_notices import RunNotice, problem_of

if TYPE_CHECKING:
    from worldledger.effects import EffectDraft

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
