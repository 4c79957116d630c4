"""Snapshots of large imports: taken beside them, by a process of its own that is handed the effects on the way."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, BinaryIO

import psutil
import pytest
from worldledger_service import snapshot_worker
from worldledger_service.snapshot_worker import Backlog
from worldledger_service.store import Store, import_snapshots
from worldledger_service.store.import_snapshots import (
    END,
    GO,
    HOLD,
    SEGMENT,
    ImportSnapshots,
    frame,
    read_frames,
    record,
    thinned,
)
from worldledger_service.store.snapshots import Taken

from worldledger.chain import StoredEffect
from worldledger.effects import EffectDraft
from worldledger.errors import WorldNotFoundError
from worldledger.folding import Fold
from worldledger.genesis import NewWorld

from .exports import checked, export_of, texts
from .helpers import assert_sound
from .states import moved, replayed, snapshots

Opener = Callable[..., Awaitable[Store]]
COUNT = 3000
#: The process as it is.
COMMAND = import_snapshots._COMMAND
#: The process, which puts nothing off.
WORKER = """
from worldledger_service import snapshot_worker

snapshot_worker.LATER_SECONDS = 0.0
snapshot_worker.main()
"""


@pytest.fixture
def outputs() -> list[BinaryIO]:
    """Return what the processes have written, in the order of their start."""
    return []


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch, outputs: list[BinaryIO]) -> list[psutil.Process]:
    """Have imports count as large early on, and processes begin early; return those that are started."""
    started: list[psutil.Process] = []
    popen = subprocess.Popen

    class Started(popen):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(psutil.Process(self.pid))
            outputs.append(options["stdout"])

    monkeypatch.setattr(import_snapshots, "_LARGE_BYTES", 200_000)
    monkeypatch.setattr(import_snapshots, "HELD_BYTES", 200_000)
    monkeypatch.setattr(import_snapshots, "_MEMORY_BYTES", 20_000)
    monkeypatch.setattr(import_snapshots, "_SEGMENT_BYTES", 50_000)
    monkeypatch.setattr(import_snapshots, "_COMMAND", (sys.executable, "-c", WORKER))
    monkeypatch.setattr(subprocess, "Popen", Started)
    return started


def drafts(at: int = COUNT, do: Callable[[], object] = lambda: None) -> Iterator[EffectDraft]:
    """Return as many movements; do something before one of them."""
    for n in range(COUNT):
        if n == at:
            do()
        yield moved(n)


def suspend(workers: list[psutil.Process]) -> None:
    """Have processes do nothing for a while."""
    for worker in workers:
        worker.suspend()


async def done(store: Store) -> None:
    """Wait until nothing is to be done for imported worlds."""
    await asyncio.gather(*store._snapshotter._imported.values())


async def check(store: Store, world_id: str, head: int) -> None:
    """Look at what stands in the database: the usual snapshots, each of the state that a replay comes to."""
    found = await snapshots(store, world_id)
    assert [each.global_seq for each in found] == list(range(500, head + 1, 500))
    for each in (found[0], found[-1]):
        assert each.state_digest == (await replayed(store, world_id, each.global_seq)).state.digest()
    await assert_sound(store, world_id)


async def test_a_large_import_is_folded_elsewhere(
    open_store: Opener, world_id: str, workers: list[psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing a world, or an export: its snapshots are there soon after, and this process has not folded it."""
    folded: list[int] = []
    feed = Fold.feed

    def counting(self: Fold, rows: Sequence[StoredEffect]) -> None:
        folded.append(len(rows))
        feed(self, rows)

    store = await open_store(snapshot_every=500)
    groups: list[int] = []
    monkeypatch.setattr(Fold, "feed", counting)
    first = drafts(2000, lambda: groups.append(os.getpgid(workers[0].pid)))
    await store.import_world(NewWorld(world_id=world_id), first)
    lines = texts(COUNT, f"{world_id}-log")
    stream = io.BytesIO(export_of(lines, f"{world_id}-log"))
    found = checked(stream)
    assert await store.import_log(stream, found, name="log")
    assert not await store.import_log(stream, found, name="log")  # the very same is there
    assert (await store.states.state_at(world_id, COUNT + 1)).global_seq == COUNT + 1  # which waits for them
    await done(store)
    assert folded == [1]  # what came after the last snapshot
    monkeypatch.undo()
    await check(store, world_id, COUNT + 1)
    await check(store, f"{world_id}-log", COUNT)
    assert len(workers) == 2
    assert groups == [workers[0].pid]  # Ctrl-C at the terminal is not for it
    assert not any(worker.is_running() for worker in workers)


async def test_a_small_import_starts_no_process(
    open_store: Opener, world_id: str, workers: list[psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is folded afterwards; so is one whose snapshots are so far apart that none is due when it has become large."""
    for name in ("_LARGE_BYTES", "HELD_BYTES"):
        monkeypatch.setattr(import_snapshots, name, 10_000_000)
    store = await open_store(snapshot_every=500)
    await store.import_world(NewWorld(world_id=world_id), drafts())
    await done(store)
    await check(store, world_id, COUNT + 1)
    for name in ("_LARGE_BYTES", "HELD_BYTES"):
        monkeypatch.setattr(import_snapshots, name, 200_000)
    rare = NewWorld(world_id=f"{world_id}-rare", snapshot_every=COUNT)
    await store.import_world(rare, drafts())
    await done(store)
    assert [each.global_seq for each in await snapshots(store, rare.world_id)] == [COUNT]
    assert workers == []


async def test_an_import_that_fails_leaves_nothing(
    open_store: Opener, world_id: str, workers: list[psutil.Process]
) -> None:
    """No world, no snapshots and no process, be it the drafts' fault or that the import is cancelled, as by Ctrl-C."""
    store = await open_store(snapshot_every=500)

    def fail() -> None:
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        await store.import_world(NewWorld(world_id=world_id), drafts(2500, fail))
    tasks: list[asyncio.Task[object]] = []
    cancelled = drafts(2500, lambda: [task.cancel() for task in tasks])
    task = asyncio.create_task(store.import_world(NewWorld(world_id=world_id), cancelled))
    tasks.append(task)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(workers) == 2
    assert not any(worker.is_running() for worker in workers)
    with pytest.raises(WorldNotFoundError):
        await store.world(world_id)
    assert await store.reader.fetch("select 1 from snapshots where world_id = $1", world_id) == []


async def test_a_process_that_dies_does_no_harm(
    open_store: Opener, world_id: str, workers: list[psutil.Process]
) -> None:
    """The import goes on as if there had been none, and what it has not taken is taken afterwards."""
    store = await open_store(snapshot_every=500)

    def die() -> None:
        workers[0].kill()
        workers[0].wait()

    dying = drafts(2000, die)
    await store.import_world(NewWorld(world_id=world_id), dying)
    await done(store)
    await check(store, world_id, COUNT + 1)
    assert len(workers) == 1


async def test_a_process_that_dies_after_the_import_does_no_harm(
    open_store: Opener, world_id: str, workers: list[psutil.Process]
) -> None:
    """What it had put off until then is folded by this process."""
    store = await open_store(snapshot_every=500)
    await store.import_world(NewWorld(world_id=world_id), drafts(1000, lambda: suspend(workers)))
    workers[0].kill()
    await done(store)
    await check(store, world_id, COUNT + 1)
    assert len(workers) == 1


async def test_folding_is_put_off_until_the_import_has_ended(
    open_store: Opener,
    world_id: str,
    workers: list[psutil.Process],
    outputs: list[BinaryIO],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of what can be folded soon afterwards nothing is folded beside the import; then all of it is, elsewhere."""
    monkeypatch.setattr(import_snapshots, "_COMMAND", COMMAND)
    store = await open_store(snapshot_every=500)
    before: list[int] = []
    folded: list[int] = []
    feed = Fold.feed

    def counting(self: Fold, rows: Sequence[StoredEffect]) -> None:
        folded.append(len(rows))
        feed(self, rows)

    monkeypatch.setattr(Fold, "feed", counting)
    late = drafts(COUNT - 1, lambda: before.append(os.fstat(outputs[0].fileno()).st_size))
    await store.import_world(NewWorld(world_id=world_id), late)
    await done(store)
    assert (before, folded, len(workers)) == ([0], [], 1)
    monkeypatch.undo()
    await check(store, world_id, COUNT + 1)


async def test_folding_waits_while_another_import_runs(
    open_store: Opener, world_id: str, workers: list[psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process starts while other imports run, and one that runs waits; when there are none, all is folded."""
    monkeypatch.setattr(import_snapshots, "_COMMAND", COMMAND)
    store = await open_store(snapshot_every=500)
    names = [f"{world_id}-{n}" for n in range(3)]
    told: list[tuple[str, bool]] = []
    go = ImportSnapshots.go

    def telling(self: ImportSnapshots, *, now: bool) -> None:
        told.append((self.world_id, now))
        go(self, now=now)

    monkeypatch.setattr(ImportSnapshots, "go", telling)
    with store.reader.bulk.one():
        await store.import_world(NewWorld(world_id=names[0]), drafts())  # its process has begun beside it
        monkeypatch.setattr(import_snapshots, "HELD_BYTES", 10_000_000)
        await store.import_world(NewWorld(world_id=names[1]), drafts())
        await store.import_world(NewWorld(world_id=names[2]), drafts())
        while len(store.states.backlogs._ended) < 3:
            await asyncio.sleep(0)
        assert len(workers) == 1
        assert not any(now for _, now in told)
        for name in names:
            assert await snapshots(store, name) == []
    await done(store)
    assert {name for name, now in told if now} == {*names}
    for name in names:
        await check(store, name, COUNT + 1)
    assert len(workers) == 3


async def test_a_state_that_is_asked_for_does_not_wait_for_other_imports(
    open_store: Opener, world_id: str, workers: list[psutil.Process]
) -> None:
    """Its world is folded at once; so are the oldest ones, if what waits would take too many bytes."""
    store = await open_store(snapshot_every=500)
    asked, other = f"{world_id}-asked", f"{world_id}-other"
    with store.reader.bulk.one():
        for name in (asked, other):
            await store.import_world(NewWorld(world_id=name), drafts())
        assert (await store.states.state_at(asked, COUNT + 1)).global_seq == COUNT + 1
        assert len(await snapshots(store, asked)) == COUNT // 500
    await done(store)
    await check(store, other, COUNT + 1)


async def test_files_that_wait_have_a_limit(
    open_store: Opener, world_id: str, workers: list[psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest are folded beside other imports as soon as the files of all would be too large."""
    monkeypatch.setattr(import_snapshots, "HELD_BYTES", 10_000_000)
    monkeypatch.setattr(import_snapshots, "_MOST_WAITING_BYTES", 2_000_000)
    store = await open_store(snapshot_every=500)
    names = [f"{world_id}-{n}" for n in range(3)]
    with store.reader.bulk.one():
        for name in names:
            await store.import_world(NewWorld(world_id=name), drafts())
        await asyncio.gather(store._snapshotter._imported[names[0]])
        assert len(await snapshots(store, names[0])) == COUNT // 500
        assert await snapshots(store, names[2]) == []
    await done(store)
    await check(store, names[2], COUNT + 1)


async def test_an_import_that_ends_early_starts_the_process_then(
    open_store: Opener, world_id: str, workers: list[psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until there is one, what comes is kept in unnamed files, nearly all of it."""
    monkeypatch.setattr(import_snapshots, "HELD_BYTES", 10_000_000)
    store = await open_store(snapshot_every=500)
    made: list[BinaryIO] = []
    make = tempfile.TemporaryFile

    def making(**options: Any) -> BinaryIO:
        made.append(make(**options))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", making)
    kept: list[int] = []

    def look() -> None:
        kept.extend(os.fstat(file.fileno()).st_size for file in made)
        assert {os.fstat(file.fileno()).st_nlink for file in made} == {0}
        assert workers == []

    await store.import_world(NewWorld(world_id=world_id), drafts(COUNT - 1, look))
    await done(store)
    assert len(workers) == 1
    assert max(kept) < 100_000 < 10 * 100_000 * 0.8 < sum(kept)
    assert all(file.closed for file in made)
    await check(store, world_id, COUNT + 1)


async def test_a_process_that_falls_behind_is_not_waited_for(
    open_store: Opener, world_id: str, workers: list[psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes all of the snapshots when it has time, also of what was more than its socket takes."""
    made = socket.socketpair

    def narrow() -> tuple[socket.socket, socket.socket]:
        pair = made()
        pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        return pair

    monkeypatch.setattr(socket, "socketpair", narrow)
    store = await open_store(snapshot_every=500)
    folded: list[int] = []
    feed = Fold.feed

    def counting(self: Fold, rows: Sequence[StoredEffect]) -> None:
        folded.append(len(rows))
        feed(self, rows)

    monkeypatch.setattr(Fold, "feed", counting)
    slow = drafts(1000, lambda: suspend(workers))
    await store.import_world(NewWorld(world_id=world_id), slow)
    assert folded == []
    workers[0].resume()
    await done(store)
    assert folded == []
    monkeypatch.undo()
    await check(store, world_id, COUNT + 1)


async def test_where_nothing_can_be_kept_all_is_folded_afterwards(
    open_store: Opener, world_id: str, workers: list[psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk harms neither the import nor its snapshots."""

    def full(*_: object, **__: object) -> BinaryIO:
        raise OSError(errno.ENOSPC, "no space left on device")

    store = await open_store(snapshot_every=500)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    await store.import_world(NewWorld(world_id=world_id), drafts())
    await done(store)
    await check(store, world_id, COUNT + 1)
    assert workers == []


class Link:
    """A socket by which segments of 100 bytes come, and other words when they are waited for; it counts those."""

    def __init__(self, count: int, *words: bytes) -> None:
        self._count = count
        self._words = iter(words)
        self._blocking = True
        self.waited = 0

    def setblocking(self, blocking: bool) -> None:
        """Have what is asked for next be waited for, or not."""
        self._blocking = blocking

    def recvmsg(self, _size: int, _ancillary: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, None]:
        """Return the next of what comes."""
        if self._count:
            self._count -= 1
            with tempfile.TemporaryFile(buffering=0) as segment:
                segment.write(bytes(100))
                descriptor = array("i", [os.dup(segment.fileno())])
            return SEGMENT, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptor.tobytes())], 0, None
        if not self._blocking:
            raise BlockingIOError
        self.waited += 1
        return next(self._words), [], 0, None


@pytest.mark.parametrize(("seconds", "later"), [(0.0, 5), (0.9, 3), (2.0, 1), (5.0, 0)])
def test_as_much_is_put_off_as_can_be_folded_soon(seconds: float, later: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the last segment has cost; never more than so many bytes, which is where the first one comes from.

    It waits until it is told to go, also after the end of the import.
    """
    now = [0.0]
    monkeypatch.setattr(snapshot_worker, "_MOST_BYTES", 550)
    monkeypatch.setattr(time, "process_time", lambda: now[0])
    for words in ((END, GO), (END, HOLD, GO), (GO, END)):
        link = Link(6, *words)
        waited: list[int] = []
        for _ in Backlog(link):  # type: ignore[arg-type]
            waited.append(link.waited)
            now[0] += seconds
        assert waited == [0] * (6 - later) + [words.index(GO) + 1] * later


async def test_a_store_that_closes_ends_the_process(
    open_store: Opener,
    world_id: str,
    workers: list[psutil.Process],
    outputs: list[BinaryIO],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is waited for only so long. What it has taken by then is kept, the rest when a state is asked for."""
    monkeypatch.setattr("worldledger_service.store.snapshotter._CLOSE_SECONDS", 0.0)
    store = await open_store(snapshot_every=500)

    def hold() -> None:
        while not os.fstat(outputs[0].fileno()).st_size:
            select.select([], [], [], 0.01)
        suspend(workers)

    await store.import_world(NewWorld(world_id=world_id), drafts(2500, hold))
    await store._snapshotter.close()
    assert not workers[0].is_running()
    found = [each.global_seq for each in await snapshots(store, world_id)]
    assert found == list(range(500, 500 * len(found) + 1, 500)) != []
    await store.states.state_at(world_id, COUNT + 1)
    await check(store, world_id, COUNT + 1)


def test_the_process_ends_with_its_parent() -> None:
    """However the importing process ends, by SIGKILL even."""
    program = (
        "import time\n"
        "from worldledger_service.store import import_snapshots\n"
        "import_snapshots._MEMORY_BYTES = import_snapshots._SEGMENT_BYTES = import_snapshots.HELD_BYTES = 1\n"
        "snapshots = import_snapshots.ImportSnapshots('w', 'sandbox', 2)\n"
        "list(snapshots.through(('w', seq, '{}', bytes(32)) for seq in range(1, 9)))\n"
        "print(snapshots._process.pid, flush=True)\n"
        "time.sleep(3600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    worker.wait(timeout=60)


async def test_what_was_written_in_part_is_left_out(workers: list[psutil.Process]) -> None:
    """No frame and no snapshot counts that the end of a process has cut off; what is no effect ends the process."""
    rows = [("w", seq, "{}", bytes(32), "", "", 0.0) for seq in range(1, 4)]
    whole = b"".join(frame(rows))
    assert [row.global_seq for each in read_frames(io.BytesIO(whole + whole[:-1]), 0) for row in each] == [1, 2, 3]
    taken = record(Taken(7, bytes(32), b"{}", "0" * 64))
    assert import_snapshots._places(io.BytesIO(taken + taken[:-1])) == [0]
    taking = ImportSnapshots("w", "sandbox", 2)
    list(taking.through([("w", seq, "{}" * 9000, bytes(32), "", "", 0.0) for seq in range(1, 65)]))
    assert taking.is_large
    assert list(await taking.finish(10)) == []
    taking.give_up()


def test_snapshots_are_thinned_as_the_database_thins_them() -> None:
    """Every second one of the older half goes, until there are no more than may be."""
    assert thinned([*range(10)], 10) == [*range(10)]
    assert thinned([*range(11)], 10) == [1, 3, 5, 6, 7, 8, 9, 10]
    assert thinned([*range(12)], 5) == [6, 8, 9, 10, 11]
