"""A lake's folder: one export at a time, whose new files appear together, whatever interrupts it.

A publication has three steps. Whatever needs disk space is written before the first.

1. The manifest is replaced by that of the new lake. It names the new files at their temporary places, in a folder that
no
   glob finds, and lists their final places in ``moves``. With this step the lake is the new one.
2. Each file gets its place, by a rename of a second link to it. A new version of a view replaces the file before it in
   one step, so that a glob finds one version of it at any time; files that are no longer named are removed.
3. The manifest is replaced by one that names the files in their places.

A kill before the first step leaves the lake as it was. After a kill later on, the next export does what is missing
(``LakeFolder.mend``). An error at any step is undone.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EEXIST, EMLINK, ENOSYS, ENOTSUP, EOPNOTSUPP, EPERM
from itertools import count
from pathlib import Path
from shutil import copyfile, rmtree
from typing import Final, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worldledger.errors import SimulationError

# -- the manifest of a lake: its worlds, how far they have come, their files, and reading it --------------


#: The name of the manifest's format, with its version.
FORMAT: Final = "worldledger-lake/1"
NAME: Final = "manifest.json"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Choice(_Model):
    """The content of a lake: the worlds of each of these, later ones included, and whether it has the views."""

    everything: bool = False
    experiments: list[str] = Field(default_factory=list)
    worlds: list[str] = Field(default_factory=list)
    #: None: with the views, unless an earlier choice was without
    views: bool | None = None

    def also(self, other: Choice) -> Choice:
        """Return the choice of the worlds of both; of all worlds, if neither names any."""
        experiments = sorted({*self.experiments, *other.experiments})
        worlds = sorted({*self.worlds, *other.worlds})
        return Choice(
            everything=self.everything or other.everything or not (experiments or worlds),
            experiments=experiments,
            worlds=worlds,
            views=self.views if other.views is None else other.views,
        )

    def includes(self, world_id: str, experiment: str | None) -> bool:
        """Return whether a world is chosen."""
        return self.everything or world_id in self.worlds or experiment in self.experiments


class Part(_Model):
    """A file: its path in the folder, the number of rows, its length."""

    path: str
    rows: int
    bytes: int


_P = TypeVar("_P", bound=Part)


class EffectsPart(Part):
    """A file of effects, from first_seq to last_seq."""

    first_seq: int
    last_seq: int


class LakeWorld(_Model):
    """A world of the lake: its identity, and its last effect in the lake.

    ``checksum`` is that effect's, 64 hex digits: `worldledger verify WORLD --head LAST_SEQ:CHECKSUM` tells whether the
    log still passes there. ``first_seq`` is 1 unless the world was first exported with --since.
    """

    world_uuid: str
    experiment: str | None
    first_seq: int
    last_seq: int
    checksum: str
    parts: list[EffectsPart]


class LakeView(_Model):
    """A view of the lake. Its files are made again whenever ``source``, the digest of their sources, changes."""

    source: str
    parts: list[Part]


class Manifest(_Model):
    """The content of a lake. ``exports`` counts the exports that have changed it.

    ``moves`` is there only while an export moves its files to their places, or if it was killed then: it maps each file
    that is elsewhere to its place.
    """

    format: Literal["worldledger-lake/1"] = FORMAT
    written_at: str
    exports: int = 0
    choice: Choice = Field(default_factory=Choice)
    worlds: dict[str, LakeWorld] = Field(default_factory=dict)
    views: dict[str, LakeView] = Field(default_factory=dict)
    moves: dict[str, str] = Field(default_factory=dict)

    def parts(self) -> Iterator[Part]:
        """Return every file."""
        for world in self.worlds.values():
            yield from world.parts
        for view in self.views.values():
            yield from view.parts

    def moved(self, paths: Mapping[str, str]) -> Manifest:
        """Return it with other paths for the files at these."""

        def there(parts: list[_P]) -> list[_P]:
            return [part.model_copy(update={"path": paths.get(part.path, part.path)}) for part in parts]

        worlds = {name: world.model_copy(update={"parts": there(world.parts)}) for name, world in self.worlds.items()}
        views = {name: view.model_copy(update={"parts": there(view.parts)}) for name, view in self.views.items()}
        return self.model_copy(update={"worlds": worlds, "views": views})

    def document(self) -> bytes:
        """Return it in its written form."""
        return self.model_dump_json(indent=1, exclude=None if self.moves else {"moves"}).encode() + b"\n"


_LOCK: Final = ".lock"
_ASIDE: Final = ".new"
_PART: Final = re.compile(r"part-\d+(-\d+)?\.parquet\Z")
#: Errors of a file system without links.
_NO_LINKS: Final = {EPERM, ENOTSUP, EOPNOTSUPP, ENOSYS, EMLINK}


class _Step(NamedTuple):
    """A change at a path: ``new`` is renamed to it, or (None) it is removed. ``old`` is a link to the former file."""

    path: Path
    new: Path | None
    old: Path | None

    def check(self) -> None:
        """Raise FileExistsError if another file is in the way, or the file system takes two names for one."""
        if self.old is None and self.path.exists():
            raise FileExistsError(EEXIST, os.strerror(EEXIST), str(self.path))


class LakeFolder:
    """The folder of a lake while an export holds its lock."""

    def __init__(self, place: Path, manifest: Manifest) -> None:
        self.place = place
        #: the content of the lake; views with a damaged file are without their files
        self.manifest = manifest
        #: whether the manifest on disk names files in their final places, so that the temporary ones can be removed
        self.is_settled = not manifest.moves
        self._written = manifest
        self._aside = place / _ASIDE
        self._numbers = count()
        self._made: dict[str, Path] = {}

    def aside(self, path: str) -> Path:
        """Return the temporary path of a file for a path of the lake."""
        made = self._aside / f"{next(self._numbers)}.parquet"
        self._made[path] = made
        return made

    def forget(self, path: str) -> None:
        """Discard a file for a path."""
        self._made.pop(path, None)

    # -- a publication -------------------------------------------------------------------------------------

    def publish(self, manifest: Manifest) -> None:
        """Make the lake what a manifest says: new files get their places, and others are removed.

        An error is raised after everything has been undone. Raises SimulationError if it cannot be undone: then the
        next export does what is missing.
        """
        steps = self._steps(manifest)
        moves = {self._made[path].relative_to(self.place).as_posix(): path for path in self._made}
        between = manifest.moved({path: made for made, path in moves.items()}).model_copy(update={"moves": moves})
        before = (self.place / NAME).read_bytes()
        for name, document in {"before": before, "between": between.document(), "after": manifest.document()}.items():
            _write(self._aside / f"{name}.json", document)
        os.sync()  # once, instead of for each of perhaps thousands of files
        done: list[_Step] = []
        self.is_settled = False
        try:
            self._name("between")
            for step in steps:
                step.check()
                done.append(step)
                step.path.parent.mkdir(parents=True, exist_ok=True)
                _put(step.path, step.new)
            os.sync()
            self._name("after")
        except BaseException as error:
            self._undo(done, before, error)
            raise
        self.is_settled = True
        self.manifest = self._written = manifest
        self._prune(step for step in steps if step.new is None)

    def _steps(self, after: Manifest) -> list[_Step]:
        """Return the steps, view by view: rows are removed before they are written again, empty files after that."""
        had = {part.path: part for part in self._written.parts()}
        named = {part.path for part in after.parts()}
        self._made = {path: made for path, made in self._made.items() if path in named}
        order = [(path, 0 if part.rows else 2) for path, part in had.items() if path not in named]
        order += [(path, 1) for path in self._made]
        order.sort(key=lambda item: (item[0].partition("/")[0], item[1]))
        steps = []
        for number, (path, _) in enumerate(order):
            place, made = self.place / path, self._made.get(path)
            old = _twin(place, self._aside / f"{number}.old") if path in had and place.exists() else None
            steps.append(_Step(place, None if made is None else _twin(made, made.with_suffix(".put")), old))
        return steps

    def _name(self, manifest: str) -> None:
        (self._aside / f"{manifest}.json").replace(self.place / NAME)
        _sync_folder(self.place)

    def _undo(self, done: list[_Step], before: bytes, why: BaseException) -> None:
        try:
            if (self.place / NAME).read_bytes() != before:
                for step in reversed(done):
                    _put(step.path, step.old)
                self._prune(done)
                os.sync()
                self._name("before")
            self.is_settled = True
        except OSError as error:
            what = f"{self.place}: the export cannot be ended ({why}), nor be undone ({error.strerror or error})"
            raise SimulationError(f"{what}; the next export ends it", file=str(self.place)) from why

    def _prune(self, steps: Iterable[_Step]) -> None:
        """Remove empty folders."""
        for step in steps:
            for folder in step.path.relative_to(self.place).parents[:-1]:
                with suppress(OSError):  # it is not empty
                    (self.place / folder).rmdir()

    # -- after a kill --------------------------------------------------------------------------------------

    def mend(self) -> None:
        """Repair what an interrupted export has left behind."""
        self._check()
        moves = self._written.moves
        known = {*moves.values(), *(part.path for part in self._written.parts())}
        for found in self.place.glob("*/**/part-*.parquet"):
            if _PART.match(found.name) and found.relative_to(self.place).as_posix() not in known:
                found.unlink()
        if moves:
            for name, path in moves.items():
                made, place = self.place / name, self.place / path
                if made.exists():  # _check ensures files of effects; missing ones of views are written again
                    place.parent.mkdir(parents=True, exist_ok=True)
                    _put(place, _twin(made, made.with_suffix(".put")))
            os.sync()
            self._written = self._written.moved(moves).model_copy(update={"moves": {}})
            self.manifest = self.manifest.moved(moves).model_copy(update={"moves": {}})
            _write_manifest(self.place, self._written)
            self.is_settled = True
        rmtree(self._aside, ignore_errors=True)
        self._aside.mkdir(exist_ok=True)

    def _check(self) -> None:
        """Raise SimulationError if a file of effects is not there as it was written.

        A view is written again, because the database still has it.
        """
        for world in self.manifest.worlds.values():
            for part in world.parts:
                if what := self._damage(part):
                    path = self.place / part.path
                    what = f"{path} {what}: the lake is damaged; export into a new folder"
                    raise SimulationError(what, file=str(path))
        views = {
            name: view.model_copy(update={"parts": []}) if any(map(self._damage, view.parts)) else view
            for name, view in self.manifest.views.items()
        }
        self.manifest = self.manifest.model_copy(update={"views": views})

    def _damage(self, part: Part) -> str | None:
        try:
            size = (self.place / part.path).stat().st_size
        except FileNotFoundError:
            return "is missing"
        return None if size == part.bytes else f"has {size} bytes, not {part.bytes}"


@contextmanager
def opened(place: Path, now: str) -> Iterator[LakeFolder]:
    """Lend a lake's folder, which is created if it is missing.

    Raises SimulationError if another export is writing it, if the folder holds something else, or if it cannot be
    written.
    """
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _locked(place):
            folder = LakeFolder(place, _read_manifest(place, now))
            try:
                folder.mend()
                yield folder
            finally:
                if folder.is_settled:
                    rmtree(place / _ASIDE, ignore_errors=True)
    except OSError as error:
        what = f"{error.filename or place}: cannot be written ({error.strerror or error})"
        raise SimulationError(f"{what}; the lake is as it was", file=str(place)) from error


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    fd = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SimulationError(f"{place}: another export is just writing this lake", file=str(place)) from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(fd)


def _read_manifest(place: Path, now: str) -> Manifest:
    path = place / NAME
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        if others := sorted({found.name for found in place.iterdir()} - {_LOCK, _ASIDE, f"{NAME}.new"}):
            what = f"{place}: no lake ({others[0]} is there, {NAME} is not); name a new or empty folder"
            raise SimulationError(what, file=str(place)) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise SimulationError(f"{path}: no manifest of a lake ({where}: {first['msg']})", file=str(path)) from None
    manifest = Manifest(written_at=now)
    _write_manifest(place, manifest)  # so that the folder is known to be a lake, whatever happens next
    return manifest


# -- single files ------------------------------------------------------------------------------------------


def _put(path: Path, twin: Path | None) -> None:
    """Rename a file to a path, in one step; None: remove the present file."""
    if twin is None:
        path.unlink(missing_ok=True)
    else:
        twin.replace(path)


def _twin(path: Path, twin: Path) -> Path:
    """Link a file to another path, or copy it if there are no links; return that path."""
    twin.unlink(missing_ok=True)
    try:
        twin.hardlink_to(path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        copyfile(path, twin)
    return twin


def _write_manifest(place: Path, manifest: Manifest) -> None:
    made = place / f"{NAME}.new"
    _write(made, manifest.document())
    made.replace(place / NAME)
    _sync_folder(place)


def _write(path: Path, document: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(document)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(place: Path) -> None:
    with suppress(OSError):  # folders cannot be synchronised everywhere
        fd = os.open(place, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
