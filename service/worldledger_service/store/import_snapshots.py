"""Snapshots of a world that is being imported, taken by a separate process, most of them after the import's end.

Folding in the importing process would slow the import down, and folding everything afterwards takes half as long as the
import. So the effects are copied while they go into the database, and a separate process
(`worldledger_service.snapshot_worker`) folds the copies. During the import, which needs the processors itself, it folds
only as much as would take too long afterwards; the same holds for other imports that follow (`Backlogs`). A small
import is folded by the importing process, in less time than a process takes to start. The snapshots are written to the
database once the import is committed; if it fails there are none. Snapshots that the process has not taken, because it
died, are taken as for any world that lacks them.

- **Segments**: unnamed files of the world's effects from the first on, in frames (`frame`).
- **stdin** of the process, a socket: a byte `SEGMENT` with the descriptor of each segment, and `END` after the last;
  then `GO` when what waits is to be folded, and `HOLD` when it is to wait again.
- **stdout**, an unnamed file: the snapshots that were due (`record`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import ENOSPC
from functools import partial
from io import BytesIO
from itertools import islice, repeat
from operator import itemgetter
from struct import Struct
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final, Self

import structlog
from typing_extensions import TypedDict

from worldledger.chain import StoredEffect
from worldledger_service.store.snapshots import Taken

if TYPE_CHECKING:
    from worldledger_service.store.bulk import Row
    from worldledger_service.store.reader import BulkWrites

_COMMAND: Final = (sys.executable, "-m", "worldledger_service.snapshot_worker")
#: The niceness of the process, compared with the import and the database (see nice(2)). With 19 a busy machine leaves
#: it almost no time, so that everything is still to be done when the import is over.
_NICENESS: Final = 5
#: Bytes of effects from which on an import is large. Reading back and folding fewer takes less than a second.
_LARGE_BYTES: Final = 16 * 1024 * 1024
#: Bytes beyond which the process is started before the import's end. Folding this many takes about a second.
HELD_BYTES: Final = 96 * 1024 * 1024
#: Bytes that are collected in memory before they are written to a segment together, and bytes of one segment. Writing
#: to a file costs the import less than keeping everything in memory, whose pages the system would clear first; mostly
#: no disk is involved. More bytes in memory would displace the import's data from the processor's caches: 1 MiB costs
#: it a tenth.
_MEMORY_BYTES: Final = 128 * 1024
_SEGMENT_BYTES: Final = 8 * 1024 * 1024
#: Rows that are taken from the import at once, which make a frame.
_ROWS: Final = 64

#: Bytes of ended imports that wait, while others run, at most.
_MOST_WAITING_BYTES: Final = 512 * 1024 * 1024
#: Seconds without an import after which those that wait are folded: the next one may begin at once.
_QUIET_SECONDS: Final = 0.25

#: Messages to the process: here is a segment; that was the last; fold what waits; let it wait.
SEGMENT: Final = b"s"
END: Final = b"e"
GO: Final = b"g"
HOLD: Final = b"h"

#: Header of a frame: its number of effects, and the bytes of their texts.
_FRAME: Final = Struct(">IQ")
#: Header of a snapshot: its global_seq, its checksum, the state's digest, and the bytes of the state's text.
_RECORD: Final = Struct(">Q32s32sQ")
_CHECKSUM_BYTES: Final = 32

#: The exit status of a process that `hurry` ended.
_KILLED: Final = -signal.SIGKILL

#: Of a row.
_TEXT: Final = itemgetter(2)
_CHECKSUM: Final = itemgetter(3)

log = structlog.get_logger("worldledger.store")


class Order(TypedDict):
    """The task of the process: the world, its ruleset, and the effects between two snapshots."""

    world_id: str
    ruleset: str
    every: int


class ImportSnapshots:
    """The snapshots of one world, from the beginning of its import until they are written.

    A block with it discards them if it ends with an error.
    """

    def __init__(self, world_id: str, ruleset: str, every: int) -> None:
        self._order = Order(world_id=world_id, ruleset=ruleset, every=every)
        #: the bytes for the last segment, the segments that the process has not received yet, whether the last of them
        #: is being filled, and the bytes of all segments so far
        self._next = BytesIO()
        self._segments: deque[BinaryIO] = deque()
        self._is_open = False
        self._bytes = 0
        self._seq = 0
        #: whether effects are copied for the process
        self._keeping = True
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._taken: BinaryIO | None = None
        #: whether what waits is to be folded now, and whether the process listens for that, having received the rest
        self._goes = asyncio.Event()
        self._listens = False

    @property
    def world_id(self) -> str:
        """The world that is imported."""
        return self._order["world_id"]

    @property
    def size(self) -> int:
        """Bytes of the files of effects."""
        return self._bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self.give_up()

    @property
    def is_large(self) -> bool:
        """True if a separate process takes the snapshots, or is to."""
        return self._process is not None or (self._keeping and self._bytes + self._next.tell() >= _LARGE_BYTES)

    def through(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows as they are, and copy them for the process on the way. It is never waited for."""
        rows = iter(rows)
        while some := list(islice(rows, _ROWS)):
            if self._keeping:
                self._keep(some)
            yield from some

    def _keep(self, rows: Sequence[Row]) -> None:
        self._seq = rows[-1][1]
        self._next.writelines(frame(rows))
        if self._next.tell() < _MEMORY_BYTES:
            return
        try:
            if self._write() >= _SEGMENT_BYTES:
                self._is_open = False
                if self._bytes > HELD_BYTES:
                    self._hand_over()
        except OSError as error:  # without copies, they are folded afterwards
            self._fail(error)

    def _write(self) -> int:
        """Write the collected bytes to the last segment; return its size."""
        if not self._is_open:
            self._segments.append(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - closed when sent, or by `_forget`
            self._is_open = True
        size = self._next.tell()
        with self._next.getbuffer()[:size] as some:
            if self._segments[-1].write(some) < size:
                raise OSError(ENOSPC, os.strerror(ENOSPC))
        self._next.seek(0)  # its memory is reused
        self._bytes += size
        return self._segments[-1].tell()

    def _hand_over(self) -> None:
        if self._process is None:
            self._begin()
        self._send()

    def _begin(self) -> None:
        """Start the process, unless snapshots are so far apart that none is due yet: then there are few, if any."""
        if self._seq < self._order["every"]:
            self.give_up()
            return
        self._link, theirs = socket.socketpair()
        with theirs:
            self._taken = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `give_up`
            # A process group of its own: keys typed at the terminal are not for it. Not a session: Linux may share the
            # processors among sessions without considering niceness.
            self._process = subprocess.Popen(  # noqa: S603 - a constant, and an argument that is no command
                [*_COMMAND, json.dumps(self._order)],
                stdin=theirs.fileno(),
                stdout=self._taken,
                bufsize=0,
                process_group=0,
            )
        os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICENESS)
        self._link.setblocking(False)

    def _send(self) -> None:
        """Send the process as many segments as the socket takes; if that blocks, all of them."""
        try:
            while self._segments and self._link is not None:
                socket.send_fds(self._link, [SEGMENT], [self._segments[0].fileno()])
                self._segments.popleft().close()
        except BlockingIOError:
            return

    def _fail(self, error: OSError) -> None:
        log.warning("the snapshots of an import are not all taken beside it", error=str(error))
        self._keeping = False
        self._forget()

    def _forget(self) -> None:
        """Drop waiting segments."""
        for segment in self._segments:
            segment.close()
        self._segments.clear()
        self._next = BytesIO()

    def give_up(self) -> None:
        """Kill the process, and discard its snapshots."""
        self._keeping = False
        self._forget()
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        if self._link is not None:
            self._link.close()
        if self._taken is not None:
            self._taken.close()

    async def finish(self, most: int) -> Iterator[Taken]:
        """Return the snapshots, ascending, after the import was committed: at most this many, thinned as usual.

        What waits is folded when `go` allows it. Call `give_up` when they are written, or not wanted any more.
        """
        if self._process is None and self.is_large:
            await self._goes.wait()
            try:
                if self._keeping:
                    self._begin()
            except OSError as error:
                self._fail(error)
        process = self._process
        if process is None:
            return iter(())
        ending = asyncio.ensure_future(self._end(process))
        try:
            code = await asyncio.shield(ending)
        except asyncio.CancelledError:
            process.kill()
            await ending  # the thread is no longer blocked
            raise
        if code not in {0, _KILLED}:
            log.warning("taking the snapshots of an import ended early", world_id=self._order["world_id"], code=code)
        taken = self._taken
        assert taken is not None  # noqa: S101 - for the type checker: there is one where there is a process
        return (_snapshot_at(taken, place) for place in thinned(_places(taken), most))

    def go(self, *, now: bool) -> None:
        """Have what waits after the import folded now, or wait again."""
        if now == self._goes.is_set():
            return
        if now:
            self._goes.set()
        else:
            self._goes.clear()
        self._tell()

    def hurry(self) -> None:
        """Let `finish` return the snapshots so far."""
        if self._process is None:
            self._keeping = False
        else:
            self._process.kill()
        self.go(now=True)

    async def _end(self, process: subprocess.Popen[bytes]) -> int:
        """Send the rest; return the process's exit status."""
        await asyncio.to_thread(self._send_rest)
        self._listens = True
        self._tell()
        return await asyncio.to_thread(process.wait)

    def _tell(self) -> None:
        if self._listens and self._link is not None:
            with suppress(OSError):  # the process has ended
                self._link.send(GO if self._goes.is_set() else HOLD)

    def _send_rest(self) -> None:
        assert self._link is not None  # noqa: S101 - for the type checker
        self._link.setblocking(True)
        try:
            if self._keeping:
                self._keeping = False
                self._write()
                self._send()
            self._link.send(END)
        except OSError as error:  # the process has ended
            self._fail(error)


class Backlogs:
    """The ended imports of this process whose snapshots are not all taken yet: decides which ones are taken now.

    While another import runs they wait, except for worlds whose state is asked for, and for the oldest ones if the
    files of all would be too large. ``bulk`` are the imports that run.
    """

    def __init__(self, bulk: BulkWrites) -> None:
        self._bulk = bulk
        self._ended: list[ImportSnapshots] = []
        self._wanted: set[str] = set()
        self._quiet = False
        self._timer: asyncio.TimerHandle | None = None
        bulk.watchers.append(self._look)

    @contextmanager
    def one(self, snapshots: ImportSnapshots) -> Iterator[None]:
        """Have the snapshots of an ended import taken when it is their turn, until the end of the block."""
        self._ended.append(snapshots)
        self._look()
        try:
            yield
        finally:
            self._ended.remove(snapshots)
            self._wanted.discard(snapshots.world_id)
            self._direct()

    def want(self, *world_ids: str) -> None:
        """Have the snapshots of these worlds taken now, before all others."""
        self._wanted.update({each.world_id for each in self._ended}.intersection(world_ids))
        self._direct()

    def want_all(self) -> None:
        """Have all of them taken now."""
        self.want(*[each.world_id for each in self._ended])

    def _look(self) -> None:
        """Have all wait while an import runs, and until there has been none for a moment."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._quiet = False
        if self._ended:
            if not self._bulk.under_way:
                self._timer = asyncio.get_running_loop().call_later(_QUIET_SECONDS, self._rest)
            self._direct()

    def _rest(self) -> None:
        self._timer = None
        self._quiet = True
        self._direct()

    def _direct(self) -> None:
        room = _MOST_WAITING_BYTES
        for each in reversed(self._ended):
            room -= each.size
            each.go(now=each.world_id in self._wanted if self._wanted else self._quiet or room < 0)


def frame(rows: Sequence[Row]) -> Iterable[bytes]:
    """Return rows of the log in the form for the process: their texts, one a line, and their checksums."""
    texts = "\n".join(map(_TEXT, rows)).encode()
    return _FRAME.pack(len(rows), len(texts)), texts, b"".join(map(_CHECKSUM, rows))


def read_frames(stream: BinaryIO, seq: int) -> Iterator[list[StoredEffect]]:
    """Yield the effects of each complete frame; the first ones follow the effect ``seq``."""
    while len(head := stream.read(_FRAME.size)) == _FRAME.size:
        count, size = _FRAME.unpack(head)
        texts, checksums = stream.read(size), stream.read(count * _CHECKSUM_BYTES)
        if len(checksums) < count * _CHECKSUM_BYTES:
            return
        each = [checksums[at : at + _CHECKSUM_BYTES] for at in range(0, len(checksums), _CHECKSUM_BYTES)]
        rows = zip(range(seq + 1, seq + count + 1), texts.split(b"\n"), each, *_EMPTY, strict=False)
        yield list(map(_effect, rows))
        seq += count


#: Makes an effect from a tuple, in a fraction of the time of its class.
_effect: Final = partial(tuple.__new__, StoredEffect)
#: Columns that the fold does not read.
_EMPTY: Final = (repeat(""), repeat(""), repeat(0.0))


def record(taken: Taken) -> bytes:
    """Return a snapshot as the process writes it."""
    digest = bytes.fromhex(taken.digest)
    return _RECORD.pack(taken.global_seq, taken.checksum, digest, len(taken.text)) + taken.text


def _places(stream: BinaryIO) -> list[int]:
    """Yield the place of each complete snapshot in a file."""
    places = []
    end = stream.seek(0, os.SEEK_END)
    place = stream.seek(0)
    while len(head := stream.read(_RECORD.size)) == _RECORD.size:
        following = place + _RECORD.size + _RECORD.unpack(head)[3]
        if following > end:
            break
        places.append(place)
        place = stream.seek(following)
    return places


def _snapshot_at(stream: BinaryIO, place: int) -> Taken:
    stream.seek(place)
    seq, checksum, digest, size = _RECORD.unpack(stream.read(_RECORD.size))
    return Taken(seq, checksum, stream.read(size), digest.hex())


def thinned(places: list[int], most: int) -> list[int]:
    """Return the rest of ascending snapshots after thinning them as `statements.THIN_SNAPSHOTS` does."""
    while len(places) > most:
        half = len(places) // 2
        places = places[1:half:2] + places[half:]
    return places
