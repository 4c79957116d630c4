"""The table ``requests`` against the log: its rows follow from the effects, and are compared with them.

The rows are read in the order of the log, by a sort that the database makes on disk where it must, and beside the
effects. Requests that wait for their rows lie in a file. So nothing has to fit into memory.
"""

from __future__ import annotations

import asyncio
import marshal
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from worldledger.chain import Finding
from worldledger.repeats import Repeats, hash_keys
from worldledger.requests import LoggedRequest
from worldledger_service.store import statements

if TYPE_CHECKING:
    import asyncpg

    from worldledger_service.store.reader import Reader

_ROWS: Final = 2000
#: Batches of requests that wait in memory; those that come after them wait in a file.
_BATCHES_KEPT: Final = 16
#: Seconds for the sort of the largest tables.
_SORT_SECONDS: Final = 3600.0


class Difference(NamedTuple):
    """A row that is wrong, or too much, and the request that has none, or a wrong one."""

    row: asyncpg.Record | None
    request: LoggedRequest | None


class _Waiting:
    """Batches of requests, first in, first out."""

    def __init__(self) -> None:
        self._kept: deque[list[LoggedRequest]] = deque()
        self._file = TemporaryFile()  # noqa: SIM115 - closed by `close`
        #: the bytes of each batch in the file, and where the first stands, and where the last ends
        self._sizes: deque[int] = deque()
        self._start = self._end = 0
        self._is_over = False
        self._changed = asyncio.Event()

    def put(self, requests: list[LoggedRequest]) -> None:
        if not self._sizes and len(self._kept) < _BATCHES_KEPT:
            self._kept.append(requests)
        else:
            text = marshal.dumps([tuple(request) for request in requests])
            self._file.seek(self._end)
            self._end += self._file.write(text)
            self._sizes.append(len(text))
        self._changed.set()

    def end(self) -> None:
        """Say that no more will be put in."""
        self._is_over = True
        self._changed.set()

    async def get(self) -> list[LoggedRequest]:
        """Return the next batch, as soon as it is there; an empty one at the end."""
        while not self._kept and not self._sizes:
            if self._is_over:
                return []
            self._changed.clear()
            await self._changed.wait()
        if self._kept:
            return self._kept.popleft()
        self._file.seek(self._start)
        size = self._sizes.popleft()
        self._start += size
        text = self._file.read(size)
        if not self._sizes:
            self._start = self._end = 0
        return [LoggedRequest(*each) for each in marshal.loads(text)]  # noqa: S302 - a file of our own

    def close(self) -> None:
        self._file.close()


class RequestRows:
    """Compares the requests that follow from a world's effects, in their order, with its rows up to ``until_seq``.

    ``skipped`` is the request (source_id, req_id) of the effect ``after_seq``, before the first one that is looked at:
    what is left of it is not compared. ``use`` is told the requests instead of this one's own look for those that come
    again.
    """

    def __init__(
        self,
        reader: Reader,
        world_id: str,
        until_seq: int,
        after_seq: int = 0,
        skipped: tuple[str, str] | None = None,
        use: Callable[[Sequence[LoggedRequest]], object] | None = None,
    ) -> None:
        self._reader = reader
        self._world_id = world_id
        self._until_seq = until_seq
        self._after_seq = after_seq
        self._skipped = skipped
        self._heard: list[LoggedRequest] = []
        self._waiting = _Waiting()
        self._seen = Repeats(TemporaryFile)
        self._use = use or (lambda requests: self.used([each[:2] for each in requests], [each[3] for each in requests]))
        self._first: asyncio.Task[Difference | None] | None = None

    def hear(self, requests: Sequence[LoggedRequest]) -> None:
        """Hold the next requests until `take`; this alone may be called in another thread."""
        self._heard += requests

    def take(self) -> None:
        """Take the requests that were heard."""
        requests, self._heard = self._heard, []
        if requests and requests[0].first_seq == self._after_seq + 1 and requests[0][:2] == self._skipped:
            del requests[0]
        if requests:
            if self._first is not None:
                self._use(requests)
            self._waiting.put(requests)

    def used(self, names: list[tuple[str, str]], seqs: list[int]) -> None:
        """Take note of requests (source_id, req_id) and the global_seq of each, wherever in the log they were found."""
        self._seen.add(hash_keys(names), seqs)

    def end(self) -> None:
        """Take what was heard last: there are no more requests."""
        self.take()
        self._waiting.end()

    def begin(self) -> None:
        """Begin to read the rows beside the effects, up to the first difference."""
        self._first = asyncio.create_task(self._first_difference())

    async def agree(self) -> bool:
        """Tell whether the rows are what was taken, and no request was taken twice; the rows are read to their end."""
        assert self._first is not None  # noqa: S101 - it was begun
        return await self._first is None and await asyncio.to_thread(self._seen.first) is None

    async def problem(self) -> Finding | None:
        """Return the first difference as a finding; None where there is none."""
        difference = await (self._first or self._first_difference())
        return None if difference is None else self._finding(*difference)

    async def aclose(self) -> None:
        """Read no further, and give the files back."""
        try:
            if self._first is not None:
                self._first.cancel()
                await asyncio.gather(self._first, return_exceptions=True)
        finally:  # also where a database that is silent lets nobody wait so long
            self._waiting.close()
            self._seen.close()

    async def differences(self) -> AsyncGenerator[Difference]:
        """Return all differences, in the order of the log."""
        async with aclosing(self._rows()) as chunks:
            rows = _Rows(chunks)
            await rows.peek()  # so that the sort begins now
            while requests := await self._waiting.get():
                if await rows.next(len(requests)) == requests:
                    rows.drop(len(requests))
                    continue
                for request in requests:
                    while (row := await rows.peek()) is not None and self._is_astray(row, request):
                        yield Difference(rows.drop(), None)
                    if row is None or row["first_seq"] != request.first_seq:
                        yield Difference(None, request)
                    elif rows.drop() != request:
                        yield Difference(row, request)
            while await rows.peek() is not None:
                yield Difference(rows.drop(), None)

    async def _first_difference(self) -> Difference | None:
        async with aclosing(self.differences()) as differences:
            return await anext(differences, None)

    def _is_beyond(self, row: asyncpg.Record) -> bool:
        return row["last_seq"] is not None and row["last_seq"] > self._until_seq

    def _is_astray(self, row: asyncpg.Record, request: LoggedRequest) -> bool:
        """Tell whether a row is that of no request from this one on."""
        first_seq = row["first_seq"]
        if self._is_beyond(row) or first_seq is None or first_seq < request.first_seq:
            return True
        return bool(first_seq == request.first_seq and row[:2] != request[:2])

    def _finding(self, row: asyncpg.Record | None, request: LoggedRequest | None) -> Finding:
        if request is None:
            assert row is not None  # noqa: S101 - either is there
            seq = max(row["first_seq"] or 1, 1)
            named = f"req_id {row['req_id']!r} of {row['source_id']!r} (seq {row['first_seq']} to {row['last_seq']})"
            where = "beyond the head" if self._is_beyond(row) else "not in the log there"
            what = f"has a row for {named}, which is {where}"
        else:
            seq = request.first_seq
            asked = f"req_id {request.req_id!r} of {request.source_id!r}"
            if row is None:
                what = f"has no row for {asked}"
            elif row["last_seq"] != request.last_seq:
                what = f"says of {asked} that its last_seq is {row['last_seq']}, not {request.last_seq}"
            else:
                what = f"has another body_sha256 for {asked} than its effects"
        mended = f"`worldledger db repair requests {self._world_id}` makes its rows from the log"
        return Finding(self._world_id, seq, f"the table requests {what}; {mended}")

    async def _rows(self) -> AsyncGenerator[list[asyncpg.Record]]:
        """Return the rows; where there are few, no connection is kept while they are compared."""
        reader = self._reader
        async with reader.sorting, reader.connection() as connection, connection.transaction(readonly=True):
            await connection.execute(statements.FOR_COMPARING)
            cursor = await connection.cursor(
                statements.REQUESTS_IN_ORDER,
                self._world_id,
                self._after_seq or None,
                self._until_seq,
                timeout=_SORT_SECONDS,
            )
            while len(rows := await cursor.fetch(_ROWS, timeout=_SORT_SECONDS)) == _ROWS:
                yield rows
        yield rows


class _Rows:
    """Rows that come in chunks, as one list of which only the next ones are held."""

    def __init__(self, chunks: AsyncGenerator[list[asyncpg.Record]]) -> None:
        self._chunks = chunks
        self._held: list[Any] = []  # a row equals a tuple of the same values, which its type does not say

    async def next(self, count: int) -> list[Any]:
        """Return the next rows, fewer at the end."""
        while len(self._held) < count and (chunk := await anext(self._chunks, None)) is not None:
            self._held += chunk
        return self._held[:count]

    async def peek(self) -> Any:
        """Return the next row; None at the end."""
        return next(iter(await self.next(1)), None)

    def drop(self, count: int = 1) -> Any:
        """Take the next rows away, and return the first of them."""
        first = self._held[0]
        del self._held[:count]
        return first
