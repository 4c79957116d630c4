"""The process that takes the snapshots of a world that is imported: ``python -m worldledger_service.snapshot_worker``.

`worldledger_service.store.import_snapshots` starts it, and says what goes in by stdin and out by stdout. The database
is neither read nor written. Until the importing process says that nothing is imported any more, it leaves the
processors to that and to the database as long as what waits can be folded in a few seconds. It ends when its parent
does. After an error, which is told again when the
world is folded from the database, the exit code is 1.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Final

from worldledger.errors import SimulationError
from worldledger.folding import Fold
from worldledger.rulesets import load_ruleset
from worldledger_service.running import relax_gc
from worldledger_service.store.import_snapshots import END, GO, HELD_BYTES, HOLD, SEGMENT, read_frames, record
from worldledger_service.store.snapshots import Base, Forward

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from worldledger.chain import StoredEffect
    from worldledger_service.store.import_snapshots import Order

#: Seconds of folding that are put off until the import's end, as measured beside the import, which slows the folding;
#: and bytes of effects that wait for it at most.
LATER_SECONDS: Final = 3.5
_MOST_BYTES: Final = 512 * 1024 * 1024
#: Segments that wait here at most, for each is an open file; others wait in the socket, or with the importing process.
_MOST_SEGMENTS: Final = 500
#: Effects that are folded at once.
_AT_ONCE: Final = 500


class Backlog:
    """The segments that were handed over and are not folded yet."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._segments: deque[BinaryIO] = deque()
        self._bytes = 0
        #: whether all segments have come, and whether they are to wait
        self._is_over = False
        self._is_held = True
        #: seconds of the processor that folding a byte takes: a guess, until there is one that was measured
        self._cost = LATER_SECONDS / HELD_BYTES

    def __iter__(self) -> Iterator[BinaryIO]:
        """Return each segment when it is due: if folding all that wait would take too long, or they need not wait.

        Raises EOFError where the importing process ends before the last one.
        """
        while True:
            while len(self._segments) < _MOST_SEGMENTS and self._receive(wait=not self._is_due):
                pass
            if not self._segments:
                return
            with self._segments.popleft() as segment:
                size = os.fstat(segment.fileno()).st_size
                start = time.process_time()
                yield segment
                self._cost = (time.process_time() - start) / max(size, 1)
                self._bytes -= size

    @property
    def _is_due(self) -> bool:
        """Whether something is to be done now: no segment will come, none needs to wait, or there are too many."""
        if not self._segments:
            return self._is_over
        return not self._is_held or self._bytes > _MOST_BYTES or self._bytes * self._cost >= LATER_SECONDS

    def _receive(self, *, wait: bool) -> bool:
        """Take in what comes next, if anything has come or it is to be waited for; return whether to ask again."""
        self._link.setblocking(wait)
        try:
            word, descriptors, *_ = socket.recv_fds(self._link, 1, 1)
        except BlockingIOError:
            return False
        if word == SEGMENT and descriptors:
            segment = os.fdopen(descriptors[0], "rb")
            self._bytes += segment.seek(0, os.SEEK_END)
            segment.seek(0)
            self._segments.append(segment)
            return True
        if word == END:
            self._is_over = True
        elif word in {GO, HOLD}:
            self._is_held = word == HOLD
        else:
            raise EOFError
        return True


def work(order: Order, link: socket.socket, stdout: BinaryIO) -> None:
    """Take the snapshots. Raises what the fold raises, and EOFError where the importing process has ended."""
    parent = os.getppid()
    fold = Fold(order["world_id"], load_ruleset(order["ruleset"]))
    forward = Forward(Base(fold, b"", 0), order["every"])
    for segment in Backlog(link):
        for rows in _joined(read_frames(segment, fold.seq)):
            stdout.writelines(record(taken) for taken in forward.feed(rows))
        stdout.flush()
        if os.getppid() != parent:
            raise EOFError


def _joined(frames: Iterable[list[StoredEffect]]) -> Iterator[list[StoredEffect]]:
    """Return the effects in longer lists, which are folded faster."""
    rows: list[StoredEffect] = []
    for each in frames:
        rows += each
        if len(rows) >= _AT_ONCE:
            yield rows
            rows = []
    yield rows


def main() -> None:
    """Work, and exit."""
    relax_gc()
    failed = True
    with suppress(OSError, EOFError, SimulationError), socket.socket(fileno=0) as link:
        work(json.loads(sys.argv[1]), link, sys.stdout.buffer)
        failed = False
    sys.exit(failed)


if __name__ == "__main__":
    main()
