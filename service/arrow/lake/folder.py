"""A lake's folder: one export at a time, its files made aside and put in their places together, the manifest last."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Final
from urllib.parse import quote

from pydantic import ValidationError

from service.arrow.lake.manifest import NAME, Manifest
from worldledger.errors import SimulationError

#: How Hive names the partition of rows that have no value.
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
_LOCK: Final = ".lock"
_ASIDE: Final = ".new"
_PART: Final = re.compile(r"part-\d+(-\d+)?\.parquet\Z")


class LakeFolder:
    """The folder of a lake while an export holds its lock."""

    def __init__(self, place: Path, manifest: Manifest) -> None:
        self.place = place
        self.manifest = manifest
        self._made: dict[str, Path] = {}

    def aside(self, path: str) -> Path:
        """Give where a file is to be written that will be at a path of the lake."""
        made = self.place / _ASIDE / f"{len(self._made)}.parquet"
        self._made[path] = made
        return made

    def publish(self, manifest: Manifest) -> None:
        """Put the files that were made in their places, then the manifest, and remove what it does not name any more.

        Whoever is killed in between leaves files that the manifest does not name; the next export removes them.
        """
        parts = {part.path for part in manifest.parts()}
        for path, made in self._made.items():
            if path in parts:
                place = self.place / path
                place.parent.mkdir(parents=True, exist_ok=True)
                made.replace(place)
        os.sync()  # once, instead of for each of what may be thousands of files
        _write_manifest(self.place, manifest)
        for part in self.manifest.parts():
            if part.path not in parts:
                (self.place / part.path).unlink(missing_ok=True)
        self.manifest = manifest

    def tidy(self) -> None:
        """Remove what an export that did not come to its end has left behind."""
        rmtree(self.place / _ASIDE, ignore_errors=True)
        known = {part.path for part in self.manifest.parts()}
        for found in self.place.glob("*/**/part-*.parquet"):
            if _PART.match(found.name) and found.relative_to(self.place).as_posix() not in known:
                found.unlink()
        (self.place / _ASIDE).mkdir()

    def check(self) -> None:
        """Raise SimulationError where a file that the manifest names is not there as it was written."""
        for part in self.manifest.parts():
            try:
                size = (self.place / part.path).stat().st_size
            except FileNotFoundError:
                size = -1
            if size != part.bytes:
                what = "is missing" if size < 0 else f"has {size} bytes, not {part.bytes}"
                raise SimulationError(
                    f"{self.place / part.path} {what}: the lake is damaged; export into a new folder",
                    file=str(self.place / part.path),
                )


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
                folder.tidy()
                folder.check()
                yield folder
            finally:
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
    _write_manifest(place, manifest)  # so that the folder is known to be one, whatever happens next
    return manifest


def _write_manifest(place: Path, manifest: Manifest) -> None:
    made = place / f"{NAME}.new"
    with made.open("wb") as stream:
        stream.write(manifest.model_dump_json(indent=1).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
    made.replace(place / NAME)
    with suppress(OSError):  # where folders cannot be synchronised
        fd = os.open(place, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def partition(name: str, value: str | None) -> str:
    """Give the folder of a partition: ``experiment=first%20try``.

    DuckDB takes ``null``, in any case, and Hive's name for no value to be no value, unless a character is escaped.
    polars and pyarrow take the latter so also then.
    """
    if value is None:
        return f"{name}={NO_VALUE}"
    escaped = quote(value, safe="")
    if escaped == NO_VALUE or escaped.lower() == "null":
        escaped = f"%{ord(escaped[0]):02X}{escaped[1:]}"
    return f"{name}={escaped}"
