"""Snapshots of a world that is being imported, taken beside the import by a process of its own.

Folding in the importing process would slow the import down, and folding afterwards takes as long as the import. So a
process of its own (`worldledger_service.snapshot_worker`) is handed the effects as they go into the database. It is
started when an import has become large; a small one is folded afterwards, in less time than a process takes to start.
Its snapshots are written to the database once the import is committed; where that fails there are none. What the
process has not taken, because it died, is taken as for any world that lacks snapshots.

- **stdin**: a line of JSON, `Order`, and the world's effects from the first on, in frames (`frame`).
- **stdout**, an unnamed file: the snapshots that were due (`record`).
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from struct import Struct, iter_unpack
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
#: Bytes that wait for the process in memory. If it falls behind further, the rest waits in an unnamed file.
_BEHIND_BYTES: Final = 32 * 1024 * 1024
#: Rows that are taken from the import at once.
_ROWS: Final = 32
#: Bytes that are written at once, and that the pipe holds where the system lets it.
_PIECE_BYTES: Final = 64 * 1024
_PIPE_BYTES: Final = 1024 * 1024

#: Before a frame: how many effects it has, and the bytes of their texts.
_FRAME: Final = Struct(">IQ")
#: Before a snapshot: its global_seq, its checksum, the state's digest, and the bytes of the state's text.
_RECORD: Final = Struct(">Q32s32sQ")
_CHECKSUM_BYTES: Final = 32

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
        #: what waits for the process, or for there to be one: pieces, the bytes of all of them, those of the first that
        #: are written already, and the frames of the next piece with their bytes
        self._waiting: deque[bytes] = deque([json.dumps(self._order).encode() + b"\n"])
        self._waiting_bytes = len(self._waiting[0])
        self._written = 0
        #: what follows these, from one offset to another
        self._spool: BinaryIO | None = None
        self._spooled = self._spooled_to = 0
        self._frames: list[bytes] = []
        self._frames_bytes = 0
        self._seq = 0
        #: whether the process is to be handed what comes
        self._feeding = True
        self._process: subprocess.Popen[bytes] | None = None
        self._taken: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self.give_up()

    @property
    def begun(self) -> bool:
        """Whether there is a process that takes snapshots."""
        return self._process is not None

    def through(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Return the rows as they are, and hand them to the process on the way. It never waits for that."""
        rows = iter(rows)
        while some := list(islice(rows, _ROWS)):
            if self._feeding:
                self._hand_over(some)
            yield from some

    def _hand_over(self, rows: Sequence[Row]) -> None:
        self._frames.append(frame(rows))
        self._frames_bytes += len(self._frames[-1])
        if self._frames_bytes < _PIECE_BYTES:
            return
        self._cut()
        self._seq = rows[-1][1]
        if self._process is not None:
            self._write()
        elif self._waiting_bytes >= _LARGE_BYTES:
            self._begin()

    def _cut(self) -> None:
        """Make a piece of the frames."""
        piece = b"".join(self._frames)
        self._frames.clear()
        self._frames_bytes = 0
        if self._waiting_bytes < _BEHIND_BYTES and self._spooled == self._spooled_to:
            self._waiting.append(piece)
            self._waiting_bytes += len(piece)
            return
        try:
            if self._spool is None:
                self._spool = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by `give_up`
            if self._spooled == self._spooled_to:
                self._spooled = self._spooled_to = 0
            self._spool.seek(self._spooled_to)
            if self._spool.write(piece) == len(piece):
                self._spooled_to += len(piece)
            else:
                self._feeding = False
        except OSError as error:  # what it cannot be handed is folded afterwards
            log.warning("a process beside an import is handed no more", error=str(error))
            self._feeding = False

    def _begin(self) -> None:
        """Start the process, unless snapshots are so far apart that none is due yet: few are then, if any."""
        if self._seq < self._order["every"]:
            self.give_up()
            return
        try:
            self._taken = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `give_up`
            # A process group of its own: what is typed at the terminal is not for it. Not a session: Linux may share
            # the processors among sessions without looking at their niceness.
            self._process = subprocess.Popen(  # noqa: S603 - a constant
                _COMMAND, stdin=subprocess.PIPE, stdout=self._taken, bufsize=0, process_group=0
            )
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICENESS)
            pipe = self._pipe()
            os.set_blocking(pipe, False)
            if (size := getattr(fcntl, "F_SETPIPE_SZ", None)) is not None:
                with suppress(OSError):  # it may have a limit
                    fcntl.fcntl(pipe, size, _PIPE_BYTES)
        except OSError as error:
            log.warning("no snapshots are taken beside an import", error=str(error))
            self.give_up()
            return
        self._write()

    def _pipe(self) -> int:
        assert self._process is not None  # noqa: S101 - for the type checker
        assert self._process.stdin is not None  # noqa: S101
        return self._process.stdin.fileno()

    def _write(self) -> None:
        """Write as much of what waits as the pipe takes; if that blocks, all of it."""
        try:
            while self._waiting or self._unspool():
                piece = self._waiting[0]
                self._written += os.write(self._pipe(), memoryview(piece)[self._written :])
                if self._written < len(piece):
                    continue
                self._waiting.popleft()
                self._waiting_bytes -= len(piece)
                self._written = 0
        except BlockingIOError:
            return
        except OSError:  # the process has ended
            self._feeding = False
            self._forget()

    def _unspool(self) -> bool:
        """Have the next piece of the file wait; return False if there is none."""
        if self._spool is None or self._spooled == self._spooled_to:
            return False
        self._spool.seek(self._spooled)
        piece = self._spool.read(min(_PIPE_BYTES, self._spooled_to - self._spooled))
        self._spooled += len(piece)
        self._waiting.append(piece)
        self._waiting_bytes += len(piece)
        return True

    def _forget(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
        self._frames.clear()
        self._spooled = self._spooled_to
        if self._spool is not None:
            self._spool.close()

    def give_up(self) -> None:
        """End the process, and keep nothing of what it has taken."""
        self._feeding = False
        self._forget()
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        if self._taken is not None:
            self._taken.close()

    async def finish(self, most: int) -> Iterator[Taken]:
        """Return the snapshots, ascending, now that the import is committed: at most so many, thinned as ever.

        Call `give_up` when they are written, or not wanted any more.
        """
        process = self._process
        if process is None:
            return iter(())
        self._feeding = False
        ending = asyncio.ensure_future(asyncio.to_thread(self._end, process))
        try:
            code = await asyncio.shield(ending)
        except asyncio.CancelledError:
            process.kill()
            await ending  # nothing holds the thread up any more
            raise
        if code != 0:
            log.warning("taking snapshots beside an import ended early", world_id=self._order["world_id"], code=code)
        taken = self._taken
        assert taken is not None  # noqa: S101 - for the type checker: there is one where there is a process
        return (_snapshot_at(taken, place) for place in thinned(_places(taken), most))

    def hurry(self) -> None:
        """Have `finish` return what is there already."""
        if self._process is not None:
            self._process.kill()

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """Hand over what waits; return how the process has ended."""
        assert process.stdin is not None  # noqa: S101 - for the type checker
        self._cut()
        os.set_blocking(process.stdin.fileno(), True)
        self._write()
        process.stdin.close()
        return process.wait()


def frame(rows: Sequence[Row]) -> bytes:
    """Return rows of the log as the process is handed them: their texts, a line each, and their checksums."""
    texts = "\n".join([row[2] for row in rows]).encode()
    return b"".join([_FRAME.pack(len(rows), len(texts)), texts, *[row[3] for row in rows]])


def read_frames(stream: BinaryIO) -> Iterator[list[StoredEffect]]:
    """Return the effects of each whole frame."""
    seq = 0
    while len(head := stream.read(_FRAME.size)) == _FRAME.size:
        count, size = _FRAME.unpack(head)
        body = stream.read(size + count * _CHECKSUM_BYTES)
        if len(body) < size + count * _CHECKSUM_BYTES:
            return
        texts = body[:size].split(b"\n")
        checksums = iter_unpack(f"{_CHECKSUM_BYTES}s", body[size:])
        yield [
            StoredEffect(seq, text, checksum, "", "", 0.0)
            for seq, text, (checksum,) in zip(range(seq + 1, seq + count + 1), texts, checksums, strict=True)
        ]
        seq += count


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
