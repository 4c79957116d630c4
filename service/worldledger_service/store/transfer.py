"""Export and import of whole worlds: the stored bytes out to a file, and a file's own bytes in again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import UUID

import asyncpg
import orjson

from worldledger.chain import ORIGIN, Chain, Finding, Position
from worldledger.errors import FileRefusedError, WorldExistsError
from worldledger.exports import CheckedExport, ExportWriter, Trailer, read_lines
from worldledger.genesis import genesis_problem
from worldledger.log_rules import Requests
from worldledger_service.store import statements
from worldledger_service.store.bulk import bulk_transaction, copy_rows
from worldledger_service.store.prefetch import prefetch
from worldledger_service.store.records import NO_HEAD, SEVERAL_ROWS, Head
from worldledger_service.store.tampering import beyond_the_head

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.store.bulk import Row
    from worldledger_service.store.import_snapshots import ImportSnapshots
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord

#: Called with the number of effects so far.
Progress = Callable[[int], None]

#: Effects in one COPY. A transaction has several, so that the collected requests do not grow with the file.
_CHUNK = 20_000


async def export_world(
    reader: Reader, world: WorldRecord, write: Callable[[bytes], object], progress: Progress | None = None
) -> Trailer:
    """Write a world's log up to the head that its record names, in the format of `worldledger.exports`.

    ``write`` is called with pieces of a few MiB at most. Effects that are appended meanwhile are left out. Raises
    TamperedError if the log does not hold, by everything that `verify` checks in effects and genesis: such a log is not
    exported. Duplicates are only found after the last effect.
    """
    head = world.head.position
    if head.global_seq < 1 or not head.checksum:
        what = f"the row in heads says seq {head.global_seq} and has {'a' if head.checksum else 'no'} checksum"
        raise Finding(world.world_id, max(head.global_seq, 1), what).error()
    written = 0
    with closing(ExportWriter(world.world_id, head, TemporaryFile)) as writer:
        async with prefetch(reader.batches(world.world_id, until_seq=head.global_seq)) as batches:
            async for batch in batches:
                lines = writer.lines(batch)
                problem = None if written else genesis_problem(batch[0].text, world.genesis_columns())
                if problem is not None:
                    raise Finding(world.world_id, 1, problem).error()
                write(lines)
                written += len(batch)
                if progress is not None:
                    progress(written)
        trailer = await asyncio.to_thread(writer.trailer)
    write(trailer.line() + b"\n")
    return trailer


async def import_export(
    reader: Reader,
    stream: BinaryIO,
    checked: CheckedExport,
    *,
    name: str,
    progress: Progress | None = None,
    snapshots: ImportSnapshots | None = None,
    is_prefix: bool = False,
    cut: Callable[[], object] = lambda: None,
) -> bool:
    """Restore a world from an export that `check_exports` has checked; ``stream`` is the same file.

    Everything is written in one transaction: the effects as the bytes of the file, the world's row from the genesis,
    the requests from the effects' req_ids. Returns False, and writes nothing, if the very same log exists already.
    Raises WorldExistsError if another log of that name exists, saying how they differ, and FileRefusedError if the file
    is no longer the checked one. ``snapshots`` get the effects; see `Store.import_log`.

    With ``is_prefix`` the log is an ancestor's up to a fork point: it is there already, too, if the world goes on
    behind it; if it is new, the world is marked as a beginning alone, to which nothing is appended. Such a world is
    extended by a longer log, and whole with one that is no prefix. ``cut`` is called if the beginning ended within a
    request, of which the table ``requests`` then has a part only.
    """
    world_id, head = checked.world.world_id, checked.trailer.head
    stream.seek(checked.start)
    async with bulk_transaction(reader) as connection:
        if await _insert_world(connection, checked):
            if is_prefix:
                await connection.execute(statements.INSERT_PREFIX, world_id)
            await _Restorer(connection, stream, checked, name, progress, snapshots).run()
            return True
    if is_prefix:
        rows = await reader.fetch(statements.CHECKSUM_AT, world_id, head.global_seq)
        if rows and rows[0]["checksum"] == head.checksum:
            return False
    async with bulk_transaction(reader) as connection:
        here = await connection.fetchrow(statements.LOCK_HEAD, world_id)
        if here is not None and await connection.fetchval(statements.IS_PREFIX, world_id):
            restorer = _Restorer(connection, stream, checked, name, progress, None)
            if await restorer.extend(Head.of(world_id, here).position):
                if not is_prefix:
                    await connection.execute(statements.DELETE_PREFIX, world_id)
                if restorer.is_cut:
                    cut()
                return True
    await _compare(reader, stream, checked, name)
    return False


async def _insert_world(connection: PooledConnection, checked: CheckedExport) -> bool:
    world = checked.world
    inserted = await connection.fetchval(
        statements.INSERT_WORLD_OF_GENESIS,
        world.world_id,
        UUID(checked.trailer.world_uuid),
        world.ruleset,
        checked.ruleset_version,
        checked.genesis.decode(),
        world.experiment,
        world.time_authority,
    )
    return inserted is not None


class _Restorer:
    """Copies a checked file into the log, inside the caller's transaction."""

    def __init__(
        self,
        connection: PooledConnection,
        stream: BinaryIO,
        checked: CheckedExport,
        name: str,
        progress: Progress | None,
        snapshots: ImportSnapshots | None,
    ) -> None:
        self._connection = connection
        self._snapshots = snapshots
        self._stream = stream
        self._checked = checked
        self._name = name
        self._progress = progress
        self._world_id = checked.world.world_id
        self._position = ORIGIN
        self._asked = Requests()
        #: whether the log went on within a request that it had ended with
        self.is_cut = False
        self._begun: tuple[str, str | None, int] | None = None

    async def run(self) -> None:
        """Write the effects of a world that is new."""
        await self._write(_effect_lines(self._stream, self._checked, self._name))
        await self._connection.execute(
            statements.INSERT_HEAD, self._world_id, *self._position, self._checked.sim_time, self._checked.wall_time
        )

    async def extend(self, head: Position) -> bool:
        """Write the effects behind the head of a world; return False if the file does not go through that head."""
        checked, count = self._checked, head.global_seq
        self._stream.seek(checked.start)
        lines = _effect_lines(self._stream, checked, self._name)
        last = await asyncio.to_thread(_follow, lines, count)
        if last is None or last[0] != head.checksum:
            return False
        if count == checked.trailer.count:
            return True
        self._position = head
        self._begun = (last[1]["source_id"], last[1]["req_id"], count + 1)
        await self._write(lines)
        await self._connection.execute(
            statements.SET_HEAD, self._world_id, *self._position, checked.sim_time, checked.wall_time, count
        )
        return True

    async def _write(self, lines: Iterator[bytes]) -> None:
        checked = self._checked
        while self._position.global_seq < checked.trailer.count:
            rows = self._rows(islice(lines, _CHUNK))
            if self._snapshots is not None:
                rows = self._snapshots.through(rows)
            with beyond_the_head(self._world_id, self._position.global_seq):
                await copy_rows(self._connection, "effects", rows, statements.EFFECT_COLUMNS)
            await self._copy_requests()
            if self._progress is not None:
                self._progress(self._position.global_seq)
        await self._copy_requests(is_over=True)
        if self._position != checked.trailer.head:
            raise self._changed()

    def _rows(self, lines: Iterator[bytes]) -> Iterator[Row]:
        """Yield the rows of the lines, chained again: the result must be the trailer's checksum."""
        seq, checksum = self._position
        chain = Chain(checksum)
        for line in lines:
            text = line.removesuffix(b"\n")
            seq += 1
            checksum = chain.append(text)
            try:
                effect = orjson.loads(text)
                if effect["req_id"] is not None:
                    self._asked.take_one(effect, text, seq)
                yield (
                    self._world_id,
                    seq,
                    text.decode(),
                    checksum,
                    effect["kind"],
                    effect["source_id"],
                    effect["sim_time"],
                )
            except (ValueError, TypeError, KeyError):
                raise self._changed() from None
        if seq == self._position.global_seq:
            raise self._changed()  # fewer lines than before
        self._position = Position(seq, checksum)

    # -- requests --------------------------------------------------------------------------------------------

    async def _copy_requests(self, *, is_over: bool = False) -> None:
        ended = self._asked.ended(is_over=is_over)
        if ended and (*ended[0][:2], ended[0][3]) == self._begun:
            self.is_cut = True
            del ended[0]
        rows = [(self._world_id, *request) for request in ended]
        if not rows:
            return
        try:
            await copy_rows(self._connection, "requests", rows, statements.REQUEST_COLUMNS)
        except asyncpg.UniqueViolationError:  # the checked file has no request twice
            raise self._changed() from None

    def _changed(self) -> FileRefusedError:
        return FileRefusedError("the file was changed while it was being imported; nothing was kept", file=self._name)


def _follow(lines: Iterator[bytes], count: int) -> tuple[bytes, dict[str, Any]] | None:
    """Read so many lines; return the checksum of the last and its effect, None if there are fewer."""
    chain, seq, checksum, text = Chain(ORIGIN.checksum), 0, b"", b""
    for seq, line in enumerate(islice(lines, count), 1):  # noqa: B007 - the last one counts
        text = line.removesuffix(b"\n")
        checksum = chain.append(text)
    return (checksum, orjson.loads(text)) if count and seq == count else None


def _effect_lines(stream: BinaryIO, checked: CheckedExport, name: str) -> Iterator[bytes]:
    try:
        yield from islice(read_lines(stream, limit=checked.longest), checked.trailer.count)
    except OSError as error:  # it would otherwise be taken for the database's
        raise FileRefusedError(f"cannot be read any more ({error.strerror or error})", file=name) from error


async def _compare(reader: Reader, stream: BinaryIO, checked: CheckedExport, name: str) -> None:
    """Raise WorldExistsError, saying where the logs differ, unless the very same log exists."""
    world_id = checked.world.world_id
    async with reader.connection() as connection:
        rows = await connection.fetch(statements.HEAD, world_id)
    if len(rows) != 1:
        raise Finding(world_id, 1, SEVERAL_ROWS if rows else NO_HEAD).error()
    head = Head.of(world_id, rows[0])
    if head.position == checked.trailer.head:
        return
    stream.seek(checked.start)
    here, there = head.seq, checked.trailer.count
    same = await _common(reader, world_id, _effect_lines(stream, checked, name))
    if same < min(here, there):
        how = f"differs from seq {same + 1} on" if same else "is another one from its genesis on"
    elif here > there:
        how = f"has the whole file and goes on, to seq {here}; the file ends at seq {there}"
    elif here < there:
        how = f"ends at seq {here}, where the file goes on to seq {there}; import it into another database"
    else:
        how = "has another head; run `worldledger verify`"
    raise WorldExistsError(
        f"a world named {world_id!r} is already there, and its log {how}; nothing was imported",
        world_id=world_id,
        head_seq=here,
        global_seq=same + 1,
    )


async def _common(reader: Reader, world_id: str, lines: Iterator[bytes]) -> int:
    """Return the seq up to which a world's log and the lines are the same."""
    seq = 0
    async with prefetch(reader.batches(world_id)) as batches:
        async for batch in batches:
            for row in batch:
                line = next(lines, None)
                if line is None or row.text != line.removesuffix(b"\n"):
                    return seq
                seq = row.global_seq
    return seq
