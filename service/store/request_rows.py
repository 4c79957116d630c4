"""The table ``requests`` against the log: its rows follow from the effects, and are compared with them.

`RequestSums` tells whether all is well: one digest over what the effects say, and one over the rows, which are read
beside the effects. `RequestTrail` tells what differs: what the effects say is kept, packed, in a file while a world is
read; then the rows are read once. Both read the rows in the order of the log, by a sort that the database makes on disk
where it must. So nothing has to fit into memory.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from service.store import statements
from worldledger.chain import Finding
from worldledger.repeats import KEY_BYTES, key_of
from worldledger.requests import LoggedRequest

if TYPE_CHECKING:
    import asyncpg

    from service.store.reader import Reader

_RECORD: Final = struct.Struct(f">{KEY_BYTES}s32sqq")
#: first_seq, last_seq, the characters of source_id and req_id, body_sha256; before both texts.
_SUMMED: Final = struct.Struct(">qqii32s")
_KEPT_BYTES: Final = 4 * 1024 * 1024
_ROWS: Final = 2000
#: Seconds for the sort of the largest tables.
_SORT_SECONDS: Final = 3600.0


class PackedRequest(NamedTuple):
    """A request as it is kept: its source_id and req_id are those of its first effect."""

    key: bytes
    body_sha256: bytes
    first_seq: int
    last_seq: int


class Difference(NamedTuple):
    """A row that is wrong, or too much, and the request that has none, or a wrong one."""

    row: asyncpg.Record | None
    request: PackedRequest | None


class RequestSums:
    """Whether the rows of a world's requests are those that follow from its effects, and no request comes again.

    The arguments are those of `RequestTrail`.
    """

    def __init__(self, after_seq: int = 0, skipped: tuple[str, str] | None = None) -> None:
        self._after_seq = after_seq
        self._skipped = skipped
        self._logged = sha256()
        self._rows: asyncio.Task[bytes] | None = None

    def add(self, requests: Sequence[LoggedRequest]) -> None:
        """Take the next requests."""
        whole = _whole(requests, self._after_seq, self._skipped)
        self._logged.update(b"".join([_record(*request) for request in whole]))

    def read(self, reader: Reader, world_id: str, until_seq: int) -> None:
        """Begin to read the rows up to the effect ``until_seq``."""
        self._rows = asyncio.create_task(self._sum(reader, world_id, until_seq))

    async def agree(self) -> bool:
        """Tell whether the rows are what was taken; they are read to their end first."""
        return self._rows is not None and await self._rows == self._logged.digest()

    async def close(self) -> None:
        """Read no further."""
        if self._rows is not None:
            self._rows.cancel()
            await asyncio.gather(self._rows, return_exceptions=True)

    async def _sum(self, reader: Reader, world_id: str, until_seq: int) -> bytes:
        """Return the digest of the rows; of none if one can be no request's, or a request has two."""
        summed = sha256()
        async with reader.sorting, reader.connection() as connection, connection.transaction(readonly=True):
            if await connection.fetchval(statements.REQUEST_HAS_TWO_ROWS, world_id, timeout=_SORT_SECONDS):
                return b""
            cursor = await connection.cursor(
                statements.REQUEST_RECORDS, world_id, self._after_seq or None, until_seq, timeout=_SORT_SECONDS
            )
            while rows := await cursor.fetch(_ROWS, timeout=_SORT_SECONDS):
                records = [row[0] for row in rows]
                if None in records:
                    return b""
                summed.update(b"".join(records))
        return summed.digest()


class RequestTrail:
    """The requests that follow from a world's effects, in their order, in little memory.

    ``skipped`` is the request (source_id, req_id) of the effect ``after_seq``, before the first one that is looked at:
    what is left of it is not compared.
    """

    def __init__(self, after_seq: int = 0, skipped: tuple[str, str] | None = None) -> None:
        self._after_seq = after_seq
        self._skipped = skipped
        self._file = SpooledTemporaryFile(max_size=_KEPT_BYTES)  # noqa: SIM115 - closed by `close`

    def add(self, requests: Sequence[LoggedRequest]) -> None:
        """Keep the next requests."""
        whole = _whole(requests, self._after_seq, self._skipped)
        self._file.write(b"".join([_RECORD.pack(request.key(), *request[2:]) for request in whole]))

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    async def problem(self, reader: Reader, world_id: str, until_seq: int) -> Finding | None:
        """Return the first difference up to the effect ``until_seq``; None where there is none."""
        async with aclosing(self.differences(reader, world_id, until_seq)) as differences:
            first = await anext(differences, None)
        if first is None:
            return None
        row, request = first
        if request is None:
            assert row is not None  # noqa: S101 - either is there
            where = "beyond the head" if row["is_beyond"] else "not in the log there"
            what = f"the table requests has {_named(row)}, which is {where}"
            return Finding(world_id, max(row["first_seq"] or 1, 1), f"{what}; {_mended(world_id)}")
        effect = orjson.loads((await reader.effect(world_id, request.first_seq)).text)
        asked = f"req_id {effect['req_id']!r} of {effect['source_id']!r}"
        if row is None:
            what = f"the table requests has no row for {asked}"
        elif row["last_seq"] != request.last_seq:
            what = f"the table requests says of {asked} that its last_seq is {row['last_seq']}, not {request.last_seq}"
        else:
            what = f"the table requests has another body_sha256 for {asked} than its effects"
        return Finding(world_id, request.first_seq, f"{what}; {_mended(world_id)}")

    async def differences(self, reader: Reader, world_id: str, until_seq: int) -> AsyncGenerator[Difference]:
        """Give all differences up to the effect ``until_seq``, in the order of the log."""
        self._file.seek(0)
        async with aclosing(self._rows(reader, world_id, until_seq)) as chunks:
            async for rows in chunks:
                place = self._file.tell()
                packed = [_packed(row) for row in rows]
                if self._file.read(_RECORD.size * len(rows)) == b"".join(packed):
                    continue
                self._file.seek(place)
                for row, record in zip(rows, packed, strict=True):
                    for difference in self._merge(row, record):
                        yield difference
        while (request := self._next()) is not None:
            yield Difference(None, request)

    def _merge(self, row: asyncpg.Record, record: bytes) -> list[Difference]:
        """Compare a row with the next requests; those before it have none."""
        found: list[Difference] = []
        while True:
            place = self._file.tell()
            request = None if row["is_beyond"] or row["first_seq"] is None else self._next()
            if request is not None and request.first_seq < row["first_seq"]:
                found.append(Difference(None, request))
                continue
            if request is not None and record == _RECORD.pack(*request):
                return found
            if request is not None and (row["first_seq"] < request.first_seq or record[:KEY_BYTES] != request.key):
                self._file.seek(place)
                request = None
            return [*found, Difference(row, request)]

    def _next(self) -> PackedRequest | None:
        record = self._file.read(_RECORD.size)
        return PackedRequest(*_RECORD.unpack(record)) if record else None

    async def _rows(self, reader: Reader, world_id: str, until_seq: int) -> AsyncGenerator[list[asyncpg.Record]]:
        async with reader.connection() as connection, connection.transaction(readonly=True):
            cursor = await connection.cursor(
                statements.REQUESTS_IN_ORDER, world_id, self._after_seq or None, until_seq, timeout=_SORT_SECONDS
            )
            while rows := await cursor.fetch(_ROWS, timeout=_SORT_SECONDS):
                yield rows


def _record(source_id: str, req_id: str, body_sha256: bytes, first_seq: int, last_seq: int) -> bytes:
    """Write a request as `statements.REQUEST_RECORDS` writes a row; some in a row are equal only if all of them are."""
    return _SUMMED.pack(first_seq, last_seq, len(source_id), len(req_id), body_sha256) + (source_id + req_id).encode()


def _whole(
    requests: Sequence[LoggedRequest], after_seq: int, skipped: tuple[str, str] | None
) -> Sequence[LoggedRequest]:
    """Leave out what is left of the request that began before the first effect that is looked at."""
    first = requests[0]
    return requests[1:] if first.first_seq == after_seq + 1 and first[:2] == skipped else requests


def _packed(row: asyncpg.Record) -> bytes:
    """Pack a row as requests are; one that no request can have is packed as what is no request."""
    source_id, req_id, body_sha256, first_seq, last_seq, is_beyond = row
    if is_beyond or None in {source_id, req_id, first_seq, last_seq} or len(body_sha256 or b"") != 32:
        return b"-"
    return _RECORD.pack(key_of(source_id, req_id), body_sha256, first_seq, last_seq)


def _mended(world_id: str) -> str:
    return f"`worldledger db repair requests {world_id}` makes its rows from the log"


def _named(row: asyncpg.Record) -> str:
    return f"a row for req_id {row['req_id']!r} of {row['source_id']!r} (seq {row['first_seq']} to {row['last_seq']})"
