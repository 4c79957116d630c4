"""Snapshots of a world that is being imported, taken by a process of its own, most of them after the import's end.

Folding in the importing process would slow the import down, and folding everything afterwards takes half as long as the
import. So the effects are kept as they go into the database, and a process of its own
(`worldledger_service.snapshot_worker`) folds them. Beside the import, which needs the processors itself, it folds only
what would take it too long afterwards. A small import is folded by the importing process, in less time than a process
takes to start. The snapshots are written to the database once the import is committed; where that fails there are
none. What the process has not taken, because it died, is taken as for any world that lacks snapshots.

- **Segments**: unnamed files of the world's effects from the first on, in frames (`frame`).
- **stdin** of the process, a socket: a byte `SEGMENT` with the descriptor of each segment, and `END` after the last.
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

_COMMAND: Final = (sys.executable, "-m", "worldledger_service.snapshot_worker")
#: How much the process stands back behind the import and the database (see nice(2)). With 19 a busy machine leaves it
#: next to nothing, so that all is still to be done when the import is over.
_NICENESS: Final = 5
#: Bytes of effects from which an import is large. Reading back and folding so many takes less than a second.
_LARGE_BYTES: Final = 16 * 1024 * 1024
#: Bytes beyond which the process is started before the import's end. Folding so many takes about a second.
HELD_BYTES: Final = 96 * 1024 * 1024
#: Bytes that are kept in memory before they go into a segment together, and of one segment. What a file takes costs the
#: import less than keeping it in memory, whose pages the system would clear first; mostly no disk ever sees it. More
#: bytes in memory would drive what the import works with out of the processor's caches: 1 MiB costs it a tenth.
_MEMORY_BYTES: Final = 128 * 1024
_SEGMENT_BYTES: Final = 8 * 1024 * 1024
#: Rows that are taken from the import at once, which make a frame.
_ROWS: Final = 64

#: What the process is told: here is a segment; that was the last.
SEGMENT: Final = b"s"
END: Final = b"e"

#: Before a frame: how many effects it has, and the bytes of their texts.
_FRAME: Final = Struct(">IQ")
#: Before a snapshot: its global_seq, its checksum, the state's digest, and the bytes of the state's text.
_RECORD: Final = Struct(">Q32s32sQ")
_CHECKSUM_BYTES: Final = 32

#: How a process ends that `hurry` ended.
_KILLED: Final = -signal.SIGKILL

#: Of a row.
_TEXT: Final = itemgetter(2)
_CHECKSUM: Final = itemgetter(3)

log = structlog.get_logger("worldledger.store")


class Order(TypedDict):
    """What the process is to do: the world, its ruleset, and the effects between two snapshots."""

    world_id: str
    ruleset: str
    every: int


class ImportSnapshots:
    """The snapshots of one world, while it is imported and until they are written.

    A block with it gives them up where it ends with an error.
    """

    def __init__(self, world_id: str, ruleset: str, every: int) -> None:
        self._order = Order(world_id=world_id, ruleset=ruleset, every=every)
        #: what goes into the last segment next, the segments that the process has not been handed yet, whether the last
        #: of them is being filled, and the bytes of all segments there were
        self._next = BytesIO()
        self._segments: deque[BinaryIO] = deque()
        self._is_open = False
        self._bytes = 0
        self._seq = 0
        #: whether what comes is kept for the process
        self._keeping = True
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._taken: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self.give_up()

    @property
    def is_large(self) -> bool:
        """Whether a process takes the snapshots, or is to."""
        return self._process is not None or (self._keeping and self._bytes + self._next.tell() >= _LARGE_BYTES)

    def through(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Return the rows as they are, and keep them for the process on the way. It is never waited for."""
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
        except OSError as error:  # what cannot be kept is folded afterwards
            self._fail(error)

    def _write(self) -> int:
        """Write what is in memory into the last segment; return the bytes that it has then."""
        if not self._is_open:
            self._segments.append(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - closed when sent, or by `_forget`
            self._is_open = True
        size = self._next.tell()
        with self._next.getbuffer()[:size] as some:
            if self._segments[-1].write(some) < size:
                raise OSError(ENOSPC, os.strerror(ENOSPC))
        self._next.seek(0)  # its memory is used again
        self._bytes += size
        return self._segments[-1].tell()

    def _hand_over(self) -> None:
        if self._process is None:
            self._begin()
        self._send()

    def _begin(self) -> None:
        """Start the process, unless snapshots are so far apart that none is due yet: few are then, if any."""
        if self._seq < self._order["every"]:
            self.give_up()
            return
        self._link, theirs = socket.socketpair()
        with theirs:
            self._taken = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `give_up`
            # A process group of its own: what is typed at the terminal is not for it. Not a session: Linux may share
            # the processors among sessions without looking at their niceness.
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
        """Forget what waits."""
        for segment in self._segments:
            segment.close()
        self._segments.clear()
        self._next = BytesIO()

    def give_up(self) -> None:
        """End the process, and keep nothing of what it has taken."""
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
        """Return the snapshots, ascending, now that the import is committed: at most so many, thinned as ever.

        Call `give_up` when they are written, or not wanted any more.
        """
        if self._process is None and self.is_large:
            try:
                self._begin()
            except OSError as error:
                self._fail(error)
        process = self._process
        if process is None:
            return iter(())
        ending = asyncio.ensure_future(asyncio.to_thread(self._end, process))
        try:
            code = await asyncio.shield(ending)
        except asyncio.CancelledError:
            process.kill()
            await ending  # nothing holds the thread up any more
            raise
        if code not in {0, _KILLED}:
            log.warning("taking the snapshots of an import ended early", world_id=self._order["world_id"], code=code)
        taken = self._taken
        assert taken is not None  # noqa: S101 - for the type checker: there is one where there is a process
        return (_snapshot_at(taken, place) for place in thinned(_places(taken), most))

    def hurry(self) -> None:
        """Have `finish` return what is there already."""
        if self._process is not None:
            self._process.kill()

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """Hand over what waits; return how the process has ended."""
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
        return process.wait()


def frame(rows: Sequence[Row]) -> Iterable[bytes]:
    """Return rows of the log as the process is handed them: their texts, a line each, and their checksums."""
    texts = "\n".join(map(_TEXT, rows)).encode()
    return _FRAME.pack(len(rows), len(texts)), texts, b"".join(map(_CHECKSUM, rows))


def read_frames(stream: BinaryIO, seq: int) -> Iterator[list[StoredEffect]]:
    """Return the effects of each whole frame, the first of which follow the effect ``seq``."""
    while len(head := stream.read(_FRAME.size)) == _FRAME.size:
        count, size = _FRAME.unpack(head)
        texts, checksums = stream.read(size), stream.read(count * _CHECKSUM_BYTES)
        if len(checksums) < count * _CHECKSUM_BYTES:
            return
        each = [checksums[at : at + _CHECKSUM_BYTES] for at in range(0, len(checksums), _CHECKSUM_BYTES)]
        rows = zip(range(seq + 1, seq + count + 1), texts.split(b"\n"), each, *_EMPTY, strict=False)
        yield list(map(_effect, rows))
        seq += count


#: Makes an effect of a tuple, in a fraction of the time that its class takes.
_effect: Final = partial(tuple.__new__, StoredEffect)
#: What the fold does not look at.
_EMPTY: Final = (repeat(""), repeat(""), repeat(0.0))


def record(taken: Taken) -> bytes:
    """Return a snapshot as the process writes it."""
    digest = bytes.fromhex(taken.digest)
    return _RECORD.pack(taken.global_seq, taken.checksum, digest, len(taken.text)) + taken.text


def _places(stream: BinaryIO) -> list[int]:
    """Return where each whole snapshot of a file stands."""
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
    """Return what is left of ascending snapshots, as `statements.THIN_SNAPSHOTS` thins them."""
    while len(places) > most:
        half = len(places) // 2
        places = places[1:half:2] + places[half:]
    return places
