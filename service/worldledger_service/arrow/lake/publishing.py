"""How new files come into a lake: all or none of them, whatever comes between, and without rows seen twice.

1. The manifest is replaced by that of the new lake. It names the new files where they were made, in a folder that no
   glob finds, and says in ``moves`` where they belong. With this step the lake is the new one.
2. Each file gets its place by a further link. A view that is written anew takes the place of the file before it in one
   step, so that a glob finds one version of it at any time; what is no longer named goes.
3. The manifest is replaced by one that names the files in their places.

Who is killed before the first step leaves the lake as it was; after it, the next export does what lacks (``finish``).
After an error what was done is undone. What takes space on the disk is written before the first step.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from errno import EEXIST, EMLINK, ENOSYS, ENOTSUP, EOPNOTSUPP, EPERM
from pathlib import Path
from shutil import copyfile
from typing import Final, NamedTuple

from worldledger.errors import SimulationError
from worldledger_service.arrow.lake.manifest import NAME, Manifest

#: What a file system says that has no links.
_NO_LINKS: Final = {EPERM, ENOTSUP, EOPNOTSUPP, ENOSYS, EMLINK}


class _Step(NamedTuple):
    """What happens to a path: a file that was made comes there, or (None) it goes; ``kept`` has what was there."""

    path: Path
    made: Path | None
    kept: Path
    is_new: bool


class Publication:
    """One lake becoming another. ``made`` has the new files by their paths, all of them in the folder ``aside``."""

    def __init__(self, place: Path, aside: Path, before: Manifest, after: Manifest, made: Mapping[str, Path]) -> None:
        self._place = place
        self._aside = aside
        self._after = after
        named = {part.path for part in after.parts()}
        self._made = {path: found for path, found in made.items() if path in named}
        self._steps = self._ordered(before, named)
        #: the steps that were begun, each with whether there was a file
        self._done: list[tuple[_Step, bool]] = []
        self._folders: list[Path] = []
        #: whether the manifest in the folder names files in their places, so that ``aside`` can be removed
        self.is_settled = True

    def _ordered(self, before: Manifest, named: set[str]) -> list[_Step]:
        """Return what is to be done, view by view: rows go before they come again, columns of no rows after that."""
        had = {part.path: part for part in before.parts()}
        steps = [(path, 1, _Step(self._place / path, self._made[path], Path(), path not in had)) for path in self._made]
        steps += [
            (path, 0 if part.rows else 2, _Step(self._place / path, None, Path(), is_new=False))
            for path, part in had.items()
            if path not in named
        ]
        steps.sort(key=lambda step: (step[0].partition("/")[0], step[1]))
        return [step._replace(kept=self._aside / f"{number}.old") for number, (_, _, step) in enumerate(steps)]

    def carry_out(self) -> None:
        """Make the lake the new one, or raise what went wrong after all has been undone.

        Raises SimulationError where it could not be undone: then the next export is to do what lacks.
        """
        moves = {found.relative_to(self._place).as_posix(): path for path, found in self._made.items()}
        between = self._after.moved({path: found for found, path in moves.items()}).model_copy(update={"moves": moves})
        before = (self._place / NAME).read_bytes()
        documents = {"before": before, "between": between.document(), "after": self._after.document()}
        for name, document in documents.items():
            _write(self._aside / f"{name}.json", document)
        os.sync()  # once, instead of for each of what may be thousands of files
        try:
            self.is_settled = False
            self._name("between")
            for step in self._steps:
                self._do(step)
            os.sync()
            self._name("after")
            self.is_settled = True
        except BaseException as error:
            self._undo(before, error)
            raise
        for step in self._steps:
            if step.made is None:
                with suppress(OSError):  # where there are further files
                    step.path.parent.rmdir()

    def _name(self, manifest: str) -> None:
        (self._aside / f"{manifest}.json").replace(self._place / NAME)
        _sync_folder(self._place)

    def _do(self, step: _Step) -> None:
        is_there = step.path.exists()
        if step.is_new and is_there:  # somebody else's, or the file system takes another name for this one
            raise FileExistsError(EEXIST, os.strerror(EEXIST), str(step.path))
        self._make_folder(step.path.parent)
        self._done.append((step, is_there))
        if is_there:
            _twin(step.path, step.kept)
        if step.made is None:
            step.path.unlink(missing_ok=True)
        else:
            _put(step.made, step.path)

    def _make_folder(self, folder: Path) -> None:
        lacking = []
        while not folder.exists():
            lacking.append(folder)
            folder = folder.parent
        for found in reversed(lacking):
            found.mkdir()
            self._folders.append(found)

    def _undo(self, before: bytes, why: BaseException) -> None:
        try:
            if (self._place / NAME).read_bytes() == before:  # nothing has begun
                self.is_settled = True
                return
            for step, was_there in reversed(self._done):
                if not was_there:
                    step.path.unlink(missing_ok=True)
                elif step.kept.exists():
                    step.kept.replace(step.path)
            for folder in reversed(self._folders):
                with suppress(OSError):
                    folder.rmdir()
            os.sync()
            self._name("before")
            self.is_settled = True
        except OSError as error:
            what = f"{self._place}: the export cannot be ended ({why}), nor be undone ({error.strerror or error})"
            raise SimulationError(f"{what}; the next export ends it", file=str(self._place)) from why


def finish(place: Path, between: Manifest) -> Manifest:
    """Do what a publication had no time to do; return the lake's manifest as it is then."""
    for found, path in between.moves.items():
        if (place / found).exists():  # the folder has seen to it that only those of views, which come again, lack
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            _put(place / found, place / path)
    os.sync()
    after = between.moved(between.moves).model_copy(update={"moves": {}})
    write_manifest(place, after)
    return after


def write_manifest(place: Path, manifest: Manifest) -> None:
    """Replace a lake's manifest."""
    made = place / f"{NAME}.new"
    _write(made, manifest.document())
    made.replace(place / NAME)
    _sync_folder(place)


def _put(made: Path, path: Path) -> None:
    """Return a file a second place, in one step; what is there is replaced."""
    twin = made.with_suffix(".put")
    twin.unlink(missing_ok=True)
    _twin(made, twin)
    twin.replace(path)


def _twin(path: Path, twin: Path) -> None:
    """Have a file at another path, too: as a link or, where there are none, as a copy."""
    try:
        twin.hardlink_to(path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        copy = twin.with_suffix(".copy")
        copyfile(path, copy)
        copy.replace(twin)


def _write(path: Path, document: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(document)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(place: Path) -> None:
    with suppress(OSError):  # where folders cannot be synchronised
        fd = os.open(place, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
