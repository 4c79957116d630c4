"""A lake's folder: one export at a time, its files made aside and put in their places together."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Final

from pydantic import ValidationError

from worldledger.errors import SimulationError
from worldledger_service.arrow.lake.manifest import NAME, Manifest, Part
from worldledger_service.arrow.lake.partitions import LONGEST
from worldledger_service.arrow.lake.publishing import Publication, finish, write_manifest

_LOCK: Final = ".lock"
_ASIDE: Final = ".new"
_PART: Final = re.compile(r"part-\d+(-\d+)?\.parquet\Z")


class LakeFolder:
    """The folder of a lake while an export holds its lock."""

    def __init__(self, place: Path, manifest: Manifest) -> None:
        self.place = place
        #: what the lake has; views of which a file is damaged are without their files
        self.manifest = manifest
        self._written = manifest
        self._numbers = count()
        self._made: dict[str, Path] = {}
        self._publication: Publication | None = None
        #: most bytes of a name: the file system's, within reason
        self.longest = max(100, min(LONGEST, os.pathconf(place, "PC_NAME_MAX")))

    @property
    def is_settled(self) -> bool:
        """Whether all that the manifest names is in its place."""
        return not self._written.moves and (self._publication is None or self._publication.is_settled)

    def aside(self, path: str) -> Path:
        """Return where a file is to be written that will be at a path of the lake."""
        made = self.place / _ASIDE / f"{next(self._numbers)}.parquet"
        self._made[path] = made
        return made

    def forget(self, path: str) -> None:
        """Leave out a file that was to be at a path."""
        self._made.pop(path, None)

    def publish(self, manifest: Manifest) -> None:
        """Make the lake what a manifest says: the files that were made get their places, others go, or all stays.

        Raises OSError where all stays, SimulationError where it is left to the next export to go on.
        """
        self._publication = Publication(self.place, self.place / _ASIDE, self._written, manifest, self._made)
        self._publication.carry_out()
        self.manifest = self._written = manifest

    def mend(self) -> None:
        """Put right what an export has left behind that did not come to its end."""
        self._check()
        moves = self._written.moves
        self._remove_unknown({*moves.values(), *(part.path for part in self._written.parts())})
        if moves:
            self._written = finish(self.place, self._written)
            self.manifest = self.manifest.moved(moves).model_copy(update={"moves": {}})
        rmtree(self.place / _ASIDE, ignore_errors=True)
        (self.place / _ASIDE).mkdir(exist_ok=True)

    def _remove_unknown(self, known: set[str]) -> None:
        for found in self.place.glob("*/**/part-*.parquet"):
            if _PART.match(found.name) and found.relative_to(self.place).as_posix() not in known:
                found.unlink()

    def _check(self) -> None:
        """Raise SimulationError where a file of effects is not there as it was written.

        A view is written anew, for the database has it still.
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
    """Lend a lake's folder, which is made if it is not there.

    Raises SimulationError where another export is writing it, where the folder holds something else, or where it
    cannot be written.
    """
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _locked(place):
            manifest = _read_manifest(place, now)
            folder = LakeFolder(place, manifest)
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
    write_manifest(place, manifest)  # so that the folder is known to be one, whatever happens next
    return manifest
