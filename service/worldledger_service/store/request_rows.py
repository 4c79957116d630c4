"""The table ``requests`` against the log: its rows follow from the effects, and are compared with them.

`RequestsDigest` tells whether they are the same, from one digest of each side. Many rows are first read as they are
stored: they were written in the order of the log, as a rule. Where that differs, and where there are few, they are read
in the order of the log, by a sort that the database makes on disk where it must. `RequestRows` tells where they differ;
there requests that wait for their rows lie in a file. So nothing has to fit into memory.
"""

from __future__ import annotations

import asyncio
import marshal
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from hashlib import sha256
from struct import Struct
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from worldledger.chain import Finding
from worldledger.log_rules import LoggedRequest
from worldledger_service.store import statements

if TYPE_CHECKING:
    import asyncpg

    from worldledger_service.store.reader import Reader

_ROWS: Final = 2000
#: Batches of requests that wait in memory; those that come after them wait in a file.
_BATCHES_KEPT: Final = 16
#: Most effects whose requests are sorted without a try as they are stored: the sort of so few costs next to nothing.
_FEW: Final = 20_000
#: Seconds for the sort of the largest tables.
_SORT_SECONDS: Final = 3600.0

# PostgreSQL's binary format of COPY: a header, for each row the number of its columns and before each column its
# length, and at the end -1 instead of a number of columns.
_COPY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_ROW: Final = (5).to_bytes(2)
_COPY_END: Final = b"\xff\xff"
_DIGEST_LENGTH: Final = (32).to_bytes(4)
_SEQS_AND_LENGTH: Final = Struct(">iqiqi").pack


class NamedRequest(NamedTuple):
    """A `LoggedRequest`, and the names of its values."""

    source_id: str
    req_id: str
    body_sha256: bytes
    first_seq: int
    last_seq: int


class Difference(NamedTuple):
    """A row that is wrong, or too much, and the request that has none, or a wrong one."""

    row: asyncpg.Record | None
    request: NamedRequest | None


class _Waiting:
    """Batches of requests, first in, first out; all are put in before the first is taken out."""

    def __init__(self) -> None:
        self._kept: deque[Sequence[LoggedRequest]] = deque()
        self._file = TemporaryFile()  # noqa: SIM115 - closed by `close`
        #: the bytes of each batch in the file, and where the first stands
        self._sizes: deque[int] = deque()
        self._start = 0

    def put(self, requests: Sequence[LoggedRequest]) -> None:
        if not self._sizes and len(self._kept) < _BATCHES_KEPT:
            self._kept.append(requests)
        else:
            self._sizes.append(self._file.write(marshal.dumps([*requests])))

    def get(self) -> Sequence[NamedRequest]:
        """Return the next batch, an empty one at the end."""
        requests: Sequence[LoggedRequest] = []
        if self._kept:
            requests = self._kept.popleft()
        elif self._sizes:
            self._file.seek(self._start)
            text = self._file.read(self._sizes.popleft())
            self._start += len(text)
            requests = marshal.loads(text)  # noqa: S302 - a file of our own
        return [NamedRequest(*request) for request in requests]

    def close(self) -> None:
        self._file.close()


def copied(requests: Sequence[LoggedRequest]) -> bytes:
    """Return the rows of requests as `statements.COPY_OF_REQUESTS` has them, without a header or an end."""
    before: dict[str, bytes] = {}
    parts: list[bytes] = []
    for source_id, req_id, body_sha256, first_seq, last_seq in requests:
        source = before.get(source_id)
        if source is None:
            text = source_id.encode()
            source = before[source_id] = _COPY_ROW + len(text).to_bytes(4) + text + _DIGEST_LENGTH
        text = req_id.encode()
        parts += (source, body_sha256, _SEQS_AND_LENGTH(8, first_seq, 8, last_seq, len(text)), text)
    return b"".join(parts)


class _Extent:
    """Which requests of a world are looked at: of the effects after ``after_seq`` up to ``until_seq``.

    ``skipped`` is the request (source_id, req_id) of the effect ``after_seq``, before the first one that is looked at:
    what is left of it is not compared.
    """

    def __init__(
        self, reader: Reader, world_id: str, until_seq: int, after_seq: int = 0, skipped: tuple[str, str] | None = None
    ) -> None:
        self.reader = reader
        self._world_id = world_id
        self.until_seq = until_seq
        self._after_seq = after_seq
        self._skipped = skipped

    @property
    def arguments(self) -> tuple[str, int | None, int]:
        """The arguments of the statements that read the rows."""
        return self._world_id, self._after_seq or None, self.until_seq

    def compared(self, requests: Sequence[LoggedRequest]) -> Sequence[LoggedRequest]:
        """Return those that are compared of the next requests of the log."""
        if requests and requests[0][3] == self._after_seq + 1 and requests[0][:2] == self._skipped:
            return requests[1:]
        return requests


class RequestsDigest:
    """Tells whether the requests that follow from a world's effects, in their order, are its rows, byte for byte.

    Requests that occur twice are not looked for here; see `each_has_one_row`.
    """

    def __init__(
        self, reader: Reader, world_id: str, until_seq: int, after_seq: int = 0, skipped: tuple[str, str] | None = None
    ) -> None:
        self._extent = _Extent(reader, world_id, until_seq, after_seq, skipped)
        self._is_tried_as_stored = until_seq - after_seq > _FEW
        self._log = sha256(_COPY_HEADER)
        self._rows = asyncio.create_task(self._digest_of_rows(as_stored=self._is_tried_as_stored))

    def hear(self, requests: Sequence[LoggedRequest]) -> None:
        """Take the next requests."""
        self._log.update(copied(self._extent.compared(requests)))

    async def agree(self) -> bool:
        """Tell whether the rows are what was heard; all of it was."""
        self._log.update(_COPY_END)
        if await self._rows == self._log.digest():
            return True
        return self._is_tried_as_stored and await self._digest_of_rows(as_stored=False) == self._log.digest()

    async def aclose(self) -> None:
        """Read no further."""
        self._rows.cancel()
        await asyncio.gather(self._rows, return_exceptions=True)

    async def _digest_of_rows(self, *, as_stored: bool) -> bytes:
        digest = sha256()

        async def take(chunk: bytes) -> None:
            digest.update(chunk)

        copy = statements.COPY_OF_REQUESTS
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._extent.reader.sorting)
            connection = await stack.enter_async_context(self._extent.reader.connection())
            if as_stored:
                copy = statements.COPY_OF_STORED_REQUESTS
                await stack.enter_async_context(connection.transaction(readonly=True))
                await connection.execute(statements.FOR_STORED_ORDER)
            await connection.copy_from_query(
                copy, *self._extent.arguments, output=take, format="binary", timeout=_SORT_SECONDS
            )
        return digest.digest()


async def each_has_one_row(reader: Reader, world_id: str, after_seq: int = 0) -> bool:
    """Tell whether no request of a world's effects after ``after_seq`` has two rows."""
    async with reader.sorting, reader.connection() as connection:
        found = await connection.fetchval(
            statements.ANY_REQUEST_TWICE, world_id, after_seq or None, timeout=_SORT_SECONDS
        )
    return not found


class RequestRows:
    """Compares the requests that follow from a world's effects, in their order, with its rows up to ``until_seq``.

    For ``skipped`` see `_Extent`.
    """

    def __init__(
        self, reader: Reader, world_id: str, until_seq: int, after_seq: int = 0, skipped: tuple[str, str] | None = None
    ) -> None:
        self._extent = _Extent(reader, world_id, until_seq, after_seq, skipped)
        self._world_id = world_id
        self._waiting = _Waiting()

    def hear(self, requests: Sequence[LoggedRequest]) -> None:
        """Take the next requests."""
        compared = self._extent.compared(requests)
        if compared:
            self._waiting.put(compared)

    async def problem(self) -> Finding | None:
        """Return the first difference as a finding; None where there is none."""
        async with aclosing(self.differences()) as differences:
            difference = await anext(differences, None)
        return None if difference is None else self._finding(*difference)

    def close(self) -> None:
        """Give the file back."""
        self._waiting.close()

    async def differences(self) -> AsyncGenerator[Difference]:
        """Return all differences, in the order of the log."""
        async with aclosing(self._rows()) as chunks:
            rows = _Rows(chunks)
            while requests := self._waiting.get():
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

    def _is_beyond(self, row: asyncpg.Record) -> bool:
        return row["last_seq"] is not None and row["last_seq"] > self._extent.until_seq

    def _is_astray(self, row: asyncpg.Record, request: NamedRequest) -> bool:
        """Tell whether a row is that of no request from this one on."""
        first_seq = row["first_seq"]
        if self._is_beyond(row) or first_seq is None or first_seq < request.first_seq:
            return True
        return bool(first_seq == request.first_seq and row[:2] != request[:2])

    def _finding(self, row: asyncpg.Record | None, request: NamedRequest | None) -> Finding:
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
        reader = self._extent.reader
        async with reader.sorting, reader.connection() as connection, connection.transaction(readonly=True):
            await connection.execute(statements.FOR_COMPARING)
            cursor = await connection.cursor(
                statements.REQUESTS_IN_ORDER, *self._extent.arguments, timeout=_SORT_SECONDS
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
