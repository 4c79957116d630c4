"""Whatever comes between while a lake is published, readers see one lake, and the next export the old or new one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import pytest
from worldledger_service.arrow.lake.folder import EffectsPart, LakeView, LakeWorld, Manifest, Part, opened

from worldledger.errors import SimulationError

NOW: Final = "2026-01-01T00:00:00+00:00"
#: What a lake is made of: paths with their bytes.
Lake = dict[str, bytes]
BEFORE: Final[Lake] = {
    "effects/experiment=e/world=a/part-1-3.parquet": b"123",
    "games/part-0.parquet": b"old",
    "move/part-1.parquet": b"moved",
    "speak/part-1.parquet": b"said",
    "speak/part-2.parquet": b"and said",
    "lines/part-1.parquet": b"",
    "dropped/part-1.parquet": b"here",
}
#: A view written anew in its place, one with a further file, one of which one file becomes of two, one that goes, …
AFTER: Final[Lake] = {
    "effects/experiment=e/world=a/part-1-3.parquet": b"123",
    "effects/experiment=e/world=a/part-4-7.parquet": b"4567",
    "effects/experiment=f/world=b/part-1-1.parquet": b"1",
    "games/part-0.parquet": b"renewed",
    "move/part-1.parquet": b"moved",
    "move/part-2.parquet": b"moved again",
    "speak/part-3.parquet": b"said other things",
    "lines/part-2.parquet": b"line",
    "fresh/part-0.parquet": b"fresh",
}


class _KilledError(BaseException):
    """The process has ended: nothing it does after that has an effect."""


class _Disk:
    """Counts what is done to the disk, and fails at one time, or from one on; from there it looks before each.

    It looks no more once ``looks`` is false: what is done then is done to a lake that is whole.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, look: Callable[[], None]) -> None:
        self._look = look
        self.done = 0
        self.looks = True
        self.has_failed = False
        self.fails_at: range = range(0)
        self.failure: BaseException = _KilledError()
        for name in ("replace", "unlink", "hardlink_to", "mkdir", "rmdir", "open"):
            monkeypatch.setattr(Path, name, self._watched(getattr(Path, name)))
        for name in ("sync", "fsync"):
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))
        monkeypatch.setattr("worldledger_service.arrow.lake.folder.rmtree", self._watched(rmtree))

    def _watched(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def done(*args: Any, **more: Any) -> Any:
            if do.__name__ == "open" and args[1:] != ("wb",):
                return do(*args, **more)
            self.done += 1
            if self.looks and (self.done in self.fails_at or self.has_failed):
                self._look()
            if self.done in self.fails_at:
                self.has_failed = True
                if not (more.get("ignore_errors") and isinstance(self.failure, OSError)):
                    raise self.failure
            return do(*args, **more)

        return done


def _manifest(lake: Lake) -> Manifest:
    worlds: dict[str, LakeWorld] = {}
    views: dict[str, LakeView] = {}
    for path, found in lake.items():
        said = {"path": path, "rows": len(found), "bytes": len(found)}
        first, *_, name = path.split("/")
        if first != "effects":
            views.setdefault(first, LakeView(source="", parts=[])).parts.append(Part(**said))
            continue
        last = int(name.removesuffix(".parquet").split("-")[2])
        fresh = LakeWorld(world_uuid="", experiment="e", first_seq=1, last_seq=last, checksum="", parts=[])
        world = worlds.setdefault(path.split("/")[2], fresh)
        world.parts.append(EffectsPart(**said, first_seq=1, last_seq=last))
    return Manifest(written_at=NOW, worlds=worlds, views=views)


def _publish(place: Path, lake: Lake) -> None:
    with opened(place, NOW) as folder:
        had = _named(place)
        for path, found in lake.items():
            if had.get(path) != found:
                with open(folder.aside(path), "xb") as stream:  # noqa: PTH123 - not one of the steps that are watched
                    stream.write(found)
        folder.publish(_manifest(lake))


def _told(lake: Path) -> str | None:
    """Publish the new lake; return what an error says."""
    try:
        _publish(lake, AFTER)
    except SimulationError as error:
        return error.message
    return None


@lru_cache
def _parts(manifest: bytes) -> list[tuple[str, str, int]]:
    """Return the files that a manifest names: where each is, where it is to be, and its size."""
    read = Manifest.model_validate_json(manifest)
    return [(part.path, read.moves.get(part.path, part.path), part.bytes) for part in read.parts()]


def _bytes(path: str) -> bytes:
    with open(path, "rb") as stream:  # noqa: PTH123 - readers look thousands of times
        return stream.read()


def _named(place: Path) -> Lake:
    """Return the lake as the manifest names it; each file must be there as the manifest has it."""
    parts = _parts(_bytes(f"{place}/manifest.json"))
    found = {at: _bytes(f"{place}/{path}") for path, at, _ in parts}
    assert [len(one) for one in found.values()] == [size for *_, size in parts]
    return found


def _seen(place: Path) -> Lake:
    """Return the lake as the globs effects/**/*.parquet and [!.]*/*.parquet find it."""
    found: Lake = {}
    for folder, folders, names in os.walk(place):
        inside = folder[len(str(place)) + 1 :]
        if not inside:
            folders[:] = [name for name in folders if not name.startswith(".")]
        elif inside.startswith("effects") or "/" not in inside:
            found |= {f"{inside}/{name}": _bytes(f"{folder}/{name}") for name in names if name.endswith(".parquet")}
    return found


def _check_readers(place: Path) -> None:
    """Fail where the manifest names what is not there, or globs find a view's rows twice."""
    assert _named(place) in (BEFORE, AFTER)
    seen = _seen(place)
    assert seen.items() <= BEFORE.items() | AFTER.items()
    assert {path for path in BEFORE if path.startswith(("effects", "games", "move"))} <= set(seen)
    assert not ("speak/part-3.parquet" in seen and {"speak/part-1.parquet", "speak/part-2.parquet"} & set(seen))


def _leftovers(place: Path, lake: Lake) -> set[str]:
    """Return what is there beside a lake; folders, too."""
    kept = {"manifest.json", ".lock", *lake}
    kept |= {parent.as_posix() for path in lake for parent in Path(path).parents}
    return {path.relative_to(place).as_posix() for path in place.rglob("*")} - kept


@pytest.fixture(params=["links", "copies"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return what the file system has."""
    return str(request.param)


@pytest.fixture
def every(kind: str, thorough: bool) -> int:
    """Return how far steps at which the disk fails are apart."""
    return 1 if thorough else {"links": 2, "copies": 4}[kind]


@pytest.fixture
def place(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a lake's place, on a file system that has links and on one that has none."""

    def none(self: Path, *_: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(self))

    monkeypatch.setattr(os, "sync", lambda: None)  # they would take nearly all of the time
    monkeypatch.setattr(os, "fsync", lambda _: None)
    if kind == "copies":
        monkeypatch.setattr(Path, "hardlink_to", none)
    return tmp_path


def _tries(
    place: Path, monkeypatch: pytest.MonkeyPatch, every: int, fails: Callable[[int], range]
) -> Iterator[tuple[Path, _Disk]]:
    """Return a lake and a disk that fails at an early step, and another that does at a later one, until none fails."""
    step, has_failed = 0, True
    while has_failed:
        step += every
        lake = place / str(step)
        _publish(lake, BEFORE)
        with monkeypatch.context() as patched:
            disk = _Disk(patched, lambda lake=lake: _check_readers(lake))  # type: ignore[misc]
            disk.fails_at = fails(step)
            yield lake, disk
            has_failed = disk.has_failed
    assert step > 40


def test_readers_see_one_lake_while_another_is_published(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each step of it, whatever is published upon what."""
    looks: list[Lake] = []

    def look() -> None:
        _check_readers(place)
        looks.append(_named(place))

    _publish(place, BEFORE)
    disk = _Disk(monkeypatch, look)
    disk.has_failed = True  # from now on it looks
    for lake in (AFTER, AFTER):
        _publish(place, lake)
        assert _named(place) == lake
    assert looks[0] == BEFORE
    assert looks[-1] == AFTER
    assert disk.done > 40


def test_a_kill_at_any_step_is_made_up_for(place: Path, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no time rows are seen twice or lack by the manifest; the next export has one of the two lakes, and it only."""
    found = []
    for lake, disk in _tries(place, monkeypatch, every, lambda step: range(step, 1000)):
        with suppress(_KilledError):
            _publish(lake, AFTER)
        _check_readers(lake)
        named = _named(lake)
        disk.fails_at = range(0)
        with opened(lake, NOW):
            pass
        assert _seen(lake) == _named(lake) == named
        assert Manifest.model_validate_json((lake / "manifest.json").read_bytes()) == _manifest(named)
        assert _leftovers(lake, named) <= {"dropped"}
        disk.looks = False
        _publish(lake, AFTER)
        assert _seen(lake) == _named(lake) == AFTER
        found.append(named == AFTER)
    assert found == sorted(found)
    assert {*found} == {False, True}


def test_an_error_at_any_step_is_undone(place: Path, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake is as it was, as the message says, with nothing beside it; the next export is not concerned."""
    failed = 0
    for lake, disk in _tries(place, monkeypatch, every, lambda step: range(step, step + 1)):
        disk.failure = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a file")
        if (said := _told(lake)) is not None:
            assert said == "a file: cannot be written (No space left on device); the lake is as it was"
            failed += 1
            assert _seen(lake) == _named(lake) == BEFORE
            assert _leftovers(lake, BEFORE) <= {".new", "manifest.json.new"}
        disk.fails_at, disk.looks = range(0), False
        _publish(lake, AFTER)
        assert _seen(lake) == _named(lake) == AFTER
        assert _leftovers(lake, AFTER) <= {"dropped"}
    assert failed * every > 30


def test_a_disk_that_stays_broken_is_told_of(place: Path, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be undone either, the message says so, readers see one lake, and the next export ends it."""
    told = []
    for lake, disk in _tries(place, monkeypatch, every, lambda step: range(step, 1000)):
        disk.failure = OSError(errno.EIO, os.strerror(errno.EIO), "a file")
        told.append((_told(lake) or "done").rpartition("; ")[2])
        disk.fails_at = range(0)
        with opened(lake, NOW):
            pass
        assert _seen(lake) == _named(lake) == (BEFORE if told[-1] == "the lake is as it was" else AFTER)
    assert {*told} == {"the lake is as it was", "the next export ends it", "done"}


def test_a_first_export_that_fails_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a lake without anything has published is gone, and its folders."""
    long = {**AFTER, f"effects/experiment={'x' * 300}/world=z/part-1-1.parquet": b"1"}
    with pytest.raises(SimulationError, match=r"File name too long.*; the lake is as it was"):
        _publish(tmp_path, long)
    assert (_seen(tmp_path), _named(tmp_path), _leftovers(tmp_path, {})) == ({}, {}, set())
    monkeypatch.setattr(os, "sync", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        _publish(tmp_path, AFTER)
    assert (_seen(tmp_path), _named(tmp_path), _leftovers(tmp_path, {})) == ({}, {}, set())


def test_what_is_somebody_elses_is_not_replaced(tmp_path: Path) -> None:
    """A file that the lake did not write, or that it wrote under a name that is the same there, stays."""
    _publish(tmp_path, BEFORE)
    with opened(tmp_path, NOW) as folder:
        folder.aside("fresh/part-0.parquet").write_bytes(b"fresh")
        (tmp_path / "fresh").mkdir()
        (tmp_path / "fresh" / "part-0.parquet").write_bytes(b"mine")
        with pytest.raises(FileExistsError):
            folder.publish(_manifest({**BEFORE, "fresh/part-0.parquet": b"fresh"}))
        assert (tmp_path / "fresh" / "part-0.parquet").read_bytes() == b"mine"
    assert _named(tmp_path) == BEFORE
