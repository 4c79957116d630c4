"""Bulk writing by COPY: whole worlds at once, or very many effects for one world, in one transaction."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

import asyncpg

from worldledger.aio import until_done
from worldledger.canonical import canonical_json
from worldledger.chain import Chain
from worldledger.drafts import CheckedDraft, PlainDrafts, check_draft, effect_text
from worldledger.errors import (
    InvalidEffectError,
    SimulationError,
    StoreUnavailableError,
    TamperedError,
    WorldExistsError,
)
from worldledger.genesis import NewWorld, genesis_draft
from worldledger.rulesets import load_ruleset
from worldledger.time_authority import CLIENT, TimeAuthority
from worldledger_service.database.engine import transaction
from worldledger_service.store import statements
from worldledger_service.store.identity import Uuids
from worldledger_service.store.outages import leaves_doubt
from worldledger_service.store.records import Head
from worldledger_service.store.sealing import MOST_RECENT_BYTES, Sealer
from worldledger_service.store.tampering import beyond_the_head
from worldledger_service.store.units import conflict

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.store.import_snapshots import ImportSnapshots
    from worldledger_service.store.reader import Reader


# -- COPY that always ends, and says why, whatever happens to the server -----------------------------------------
#
# asyncpg's own COPY does not always return. It waits for room in its buffer, which a broken connection never gives; and
# an error of the caller's iterable is sent to the server as a request to cancel, which is never answered if the server
# had ended the COPY before. So here rows are sent in pieces of bounded size, an error of the iterable is kept until its
# piece has ended in order, and the end of the connection ends the COPY.

#: Most rows in one COPY.
_ROWS: Final = 20_000
#: Seconds without any progress of a COPY after which the server counts as gone.
_STALL_SECONDS: Final = 600.0
#: asyncpg's limit, which is one for the whole COPY; ours counts.
_NO_LIMIT_SECONDS: Final = 30 * 86_400.0
#: Seconds for a COPY to notice that its connection has ended.
_NOTICE: Final = 5.0


@asynccontextmanager
async def bulk_transaction(reader: Reader) -> AsyncIterator[PooledConnection]:
    """Lend a connection in a transaction for a bulk write, which is kept completely or not at all.

    If the connection is lost, StoreUnavailableError says whether anything was kept.
    """
    connected = committing = False
    try:
        with reader.bulk.one():
            async with reader.connection() as connection, transaction(connection):
                connected = True
                yield connection
                committing = True
    except StoreUnavailableError as error:
        cause = error.__cause__
        if not connected or cause is None or not leaves_doubt(cause):
            raise
        details = {**error.details, "outcome": "unknown"} if committing else error.details
        what = "whether this write was kept is not known" if committing else "nothing of this write was kept"
        said = cause.__cause__ if isinstance(cause.__cause__, asyncpg.PostgresError) else cause
        why = str(said) or "it does not answer"
        raise StoreUnavailableError(f"the connection to {reader.place} was lost ({why}): {what}", **details) from cause


async def copy_rows(
    connection: PooledConnection, table: str, rows: Iterable[tuple[Any, ...]], columns: tuple[str, ...]
) -> None:
    """Copy rows into a table in bounded memory. Call it in a transaction: some rows may be copied before an error.

    Raises the server's error, ConnectionDoesNotExistError, or the iterable's own error. Cancelling ends the connection,
    so that the server need not be waited for.
    """
    iterator = iter(rows)
    # The loop, which would report the connection's end, does not run between two rows.
    ended: Callable[[], bool] = connection._transport.is_closing  # type: ignore[attr-defined]  # noqa: SLF001
    while True:
        piece = _Piece(iterator, ended)
        await _copy(connection, table, piece, columns)
        if piece.error is not None:
            raise piece.error
        if piece.last:
            return


class _Piece:
    """The next rows of an iterator. Its error, or the connection's end, ends the piece and is kept."""

    def __init__(self, rows: Iterator[tuple[Any, ...]], ended: Callable[[], bool]) -> None:
        self._rows = rows
        self._ended = ended
        self.count = 0
        self.last = False
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        try:
            for row in self._rows:
                self.count += 1
                yield row
                if self.count == _ROWS or self._ended():
                    return
        except Exception as error:  # noqa: BLE001 - it is raised when the COPY has ended
            self.error = error
        else:
            self.last = True


async def _copy(connection: PooledConnection, table: str, piece: _Piece, columns: tuple[str, ...]) -> None:
    loop = asyncio.get_running_loop()
    lost: asyncio.Future[None] = loop.create_future()
    protocol = connection._protocol  # type: ignore[attr-defined]  # noqa: SLF001 - there is no other way to wake it

    def on_end(_: object) -> None:
        if not lost.done():
            lost.set_result(None)

    connection.add_termination_listener(on_end)
    copying = loop.create_task(
        connection.copy_records_to_table(table, records=piece, columns=columns, timeout=_NO_LIMIT_SECONDS)
    )
    ends: list[asyncio.Future[Any]] = [copying, lost]
    try:
        while not copying.done() and not lost.done():
            before = piece.count
            done, _ = await asyncio.wait(ends, timeout=_STALL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not done and piece.count == before:
                await _give_up(connection, copying)
                raise TimeoutError
        if not copying.done():
            protocol.resume_writing()
            await asyncio.wait({copying}, timeout=_NOTICE)
    except asyncio.CancelledError:
        await _give_up(connection, copying)
        raise
    finally:
        with suppress(asyncpg.InterfaceError):  # the pool has taken the connection back
            connection.remove_termination_listener(on_end)
        copying.cancel()
    if not lost.done():
        await copying
        return
    await asyncio.wait({copying})
    error = None if copying.cancelled() else copying.exception()
    if not isinstance(error, asyncpg.PostgresError):
        raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation") from error
    raise error


async def _give_up(connection: PooledConnection, copying: asyncio.Task[Any]) -> None:
    """End a COPY together with its connection."""
    copying.cancel()
    await until_done([copying], _NOTICE)
    with suppress(asyncpg.InterfaceError):
        connection.terminate()
    if copying.done() and not copying.cancelled():
        copying.exception()


Row = tuple[str, int, str, bytes, str, str, float]
#: Number of effects between two reports of progress.
_STEP = 1000


class MovedOnError(Exception):
    """The world's head is not the one that the caller has read up to: it must read on. It never leaves the store."""


class _CallersError(Exception):
    """Carries an error of the caller's own iterable past the code that explains the database's errors."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def callers_errors_as_they_are() -> Iterator[None]:
    """Raise the error of the caller's iterable of drafts as it is, because it is not the database's."""
    try:
        yield
    except _CallersError as carried:
        raise carried.error from carried.error.__cause__


# -- what may be created by one transaction at a time --------------------------------------------------------------

#: $1 names in order. Another transaction that inserts the same name waits for the end of this one, which leaves no row.
#: It is no advisory lock because those are taken away from everybody, for the readers' sake (`database.readers`).
_INSERT_CLAIMS: Final = "insert into projection_leases (name) select unnest($1::text[]) on conflict do nothing"
_DELETE_CLAIMS: Final = "delete from projection_leases where name = any($1::text[])"


async def claim(connection: PooledConnection, names: Iterable[str]) -> None:
    """Wait until no other transaction has claimed one of these names, and claim them until this one ends.

    Call it once in a transaction, before it writes anything; then claims cause no deadlock. The end of a killed process
    ends its transaction, and its claims with it.
    """
    claimed = sorted({f"claim:{name}" for name in names})
    await connection.execute(_INSERT_CLAIMS, claimed, timeout=_NO_LIMIT_SECONDS)
    await connection.execute(_DELETE_CLAIMS, claimed)


#: Called first in the transaction that creates worlds; an error of it is raised, and none of them is created.
Guard: TypeAlias = "Callable[[PooledConnection, Sequence[NewWorld]], Awaitable[None]]"


# -- one world, with very many effects -----------------------------------------------------------------------------


def _from_caller(drafts: Iterable[Any]) -> Iterator[Any]:
    try:
        yield from drafts
    except Exception as error:
        raise _CallersError(error) from error


class BulkWriter:
    """Streams drafts into COPY after a world's locked head, and moves the head at the end.

    The order is the given one; nothing is sorted. Memory is bounded for any number of drafts. Requests are collected on
    the way; one that the world already has makes the whole write fail. ``wall_time`` is that of the effects, by default
    the clock's. ``snapshots`` get the effects of an imported world. One of the drafts may be very many in columns, all
    checked: ``PlainDrafts``.

    ``system``, ``default_priority`` and ``recorded``: see `check_draft`.
    """

    def __init__(
        self,
        connection: PooledConnection,
        sealer: Sealer,
        head: Head,
        *,
        system: bool = False,
        default_priority: int = 0,
        recorded: bool = False,
        wall_time: float | None = None,
        snapshots: ImportSnapshots | None = None,
    ) -> None:
        self._connection = connection
        self._sealer = sealer
        self._check = partial(check_draft, system=system, default_priority=default_priority, recorded=recorded)
        self._wall_time = wall_time
        self._snapshots = snapshots
        self.head = head
        #: the texts and checksums that were written, if the next snapshot needs them and they are not too many
        self.recent: tuple[list[str], list[bytes]] | None = None if sealer.recent is None else ([], [])
        self._requests: list[tuple[str, str, str, bytes, int, int]] = []

    async def write(self, drafts: Iterable[Any], progress: Callable[[int], None] | None = None) -> Head:
        """Write the drafts inside the caller's transaction and return the new head."""
        before = self.head
        rows = self._rows(drafts, progress)
        if self.recent is not None:
            rows = self._collected(rows, *self.recent)
        if self._snapshots is not None:
            rows = self._snapshots.through(rows)
        with beyond_the_head(self._sealer.world_id, before.seq):
            await copy_rows(self._connection, "effects", rows, statements.EFFECT_COLUMNS)
        if self.head == before:
            return before  # there were no drafts
        await self._write_requests()
        if before.seq:
            await self._connection.execute(statements.SET_HEAD, self._sealer.world_id, *self.head, before.seq)
        else:
            await self._connection.execute(statements.INSERT_HEAD, self._sealer.world_id, *self.head)
        return self.head

    def _collected(self, rows: Iterator[Row], texts: list[str], checksums: list[bytes]) -> Iterator[Row]:
        """Keep the texts and checksums of rows, as long as they are not too many."""
        room = MOST_RECENT_BYTES
        for row in rows:
            if room > 0:
                room -= len(row[2])
                texts.append(row[2])
                checksums.append(row[3])
            elif self.recent is not None:
                self.recent = None
                texts.clear()
                checksums.clear()
            yield row

    async def _write_requests(self) -> None:
        if not self._requests:
            return
        try:
            async with transaction(self._connection):  # a savepoint, so that the row at fault can be found
                await copy_rows(self._connection, "requests", self._requests, statements.REQUEST_COLUMNS)
        except asyncpg.UniqueViolationError:
            keys = [(source_id, req_id) for _, source_id, req_id, *_ in self._requests]
            known = await self._connection.fetchrow(
                statements.KNOWN_REQUESTS, self._sealer.world_id, *map(list, zip(*keys, strict=True))
            )
            twice = next((key for key, times in Counter(keys).items() if times > 1), None)
            if known is not None:
                raise conflict(known["req_id"], global_seq=known["first_seq"]) from None
            raise conflict(twice[1] if twice else "of this import") from None

    def _rows(self, drafts: Iterable[Any], progress: Callable[[int], None] | None) -> Iterator[Row]:
        sealer = self._sealer
        world_id = sealer.world_id
        wall_time = sealer.now(self.head) if self._wall_time is None else self._wall_time
        seq, checksum, sim_time, _ = self.head
        links = Chain(checksum)
        index = told = 0
        check = self._check
        for given in _from_caller(drafts):
            if type(given) is PlainDrafts:
                plain = sealer.plain_effects(given, seq + 1, sim_time=sim_time, wall_time=wall_time, index=index)
                for text, kind, source_id, sim_time in plain:
                    seq += 1
                    checksum = links.append(text)
                    yield world_id, seq, text.decode(), checksum, kind, source_id, sim_time
                index += len(given)
            else:
                try:
                    draft = check(given)
                except InvalidEffectError as error:
                    raise error.at(index) from None
                seq += 1
                text, _uuid, sim_time = sealer.effect(draft, seq, sim_time=sim_time, wall_time=wall_time, index=index)
                checksum = links.append(text)
                if draft.req_id is not None:
                    self._requests.append((world_id, draft.source_id, draft.req_id, draft.body_digest(), seq, seq))
                yield world_id, seq, text.decode(), checksum, draft.kind, draft.source_id, sim_time
                index += 1
            if progress is not None and index >= told + _STEP:
                progress(index - told)
                told = index
        if progress is not None:
            progress(index - told)
        if index:
            self.head = Head(seq, checksum, sim_time, wall_time)


# -- many worlds in one transaction; otherwise commits dominate an import of thousands of recordings ---------------

#: $1 world_id, $2 world_uuid, $3 ruleset, $4 ruleset_version, $5 config, $6 experiment, $7 time_authority: arrays.
#: In the order of names, so that two processes that create the same worlds never deadlock.
_INSERT_WORLDS: Final = """
insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, experiment, time_authority)
select world_id, world_uuid, ruleset, ruleset_version, config::json, experiment, time_authority
from unnest($1::text[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[])
    as w (world_id, world_uuid, ruleset, ruleset_version, config, experiment, time_authority)
order by world_id
on conflict (world_id) do nothing returning world_id
"""

#: $1 world_id, $2 head_seq, $3 head_checksum, $4 sim_time, $5 wall_time: arrays.
_INSERT_HEADS: Final = """
insert into heads (world_id, head_seq, head_checksum, sim_time, wall_time)
select * from unnest($1::text[], $2::bigint[], $3::bytea[], $4::float8[], $5::float8[])
"""

#: An effect's canonical bytes, kind, source and sim_time.
_Effect: TypeAlias = tuple[bytes, str, str, float]


@dataclass(frozen=True)
class SealedWorld:
    """A world to create, with the rows of its log; ``head`` is where they end."""

    world: NewWorld
    world_uuid: str
    ruleset_version: int
    rows: list[Row]
    head: Head


class WorldsAtOnce:
    """Creates worlds with their first effects, many at once; the result is that of `Store.import_world` for each."""

    def __init__(
        self,
        reader: Reader,
        *,
        max_effect_bytes: int,
        clock: Callable[[], float] = time.time,
        new_uuid: Callable[[], str] | None = None,
        written: Callable[[str, int], object] | None = None,
    ) -> None:
        """``written`` is called with the name and the head of each written world."""
        self._reader = reader
        self._written = written
        self._max_effect_bytes = max_effect_bytes
        self._clock = clock
        self._new_uuid = new_uuid or Uuids()

    def seal(self, given: NewWorld, drafts: Sequence[CheckedDraft] | PlainDrafts) -> SealedWorld:
        """Return a world with its first drafts, which have no req_id, ready to be written.

        Raises as `Store.import_world`, except for WorldExistsError.
        """
        ruleset = load_ruleset(given.ruleset)
        world = given.checked()
        world_uuid = self._new_uuid()
        world = world.model_copy(update={"config": ruleset.check_config(world.config)}).checked()
        wall_time = max(self._clock(), 0.0)
        genesis = genesis_draft(world, world_uuid=world_uuid, ruleset_version=ruleset.version, wall_time=wall_time)
        opening = ruleset.opening(world.config, world_uuid=world_uuid, checkpoint=world.checkpoint)
        sealer = Sealer(
            world.world_id,
            TimeAuthority.of_genesis(genesis["payload"]),
            clock=self._clock,
            new_uuid=self._new_uuid,
            max_effect_bytes=self._max_effect_bytes,
            ruleset=ruleset,
        )
        first = [check_draft(draft, system=True) for draft in (genesis, *opening)]
        rows: list[Row] = []
        world_id, sim_time, links = world.world_id, 0.0, Chain()
        begun = [*self._first(sealer, first, wall_time)]
        others = self._others(sealer, len(begun), drafts, sim_time=begun[-1][3], wall_time=wall_time)
        for seq, (text, kind, source_id, sim_time) in enumerate(chain(begun, others), 1):
            rows.append((world_id, seq, text.decode(), links.append(text), kind, source_id, sim_time))
        head = Head(len(rows), links.checksum, sim_time, wall_time)
        return SealedWorld(world, world_uuid, ruleset.version, rows, head)

    @staticmethod
    def _first(sealer: Sealer, drafts: Sequence[CheckedDraft], wall_time: float) -> Iterator[_Effect]:
        """Return the text, kind, source and time of the effects that the service itself writes first."""
        sim_time = 0.0
        for seq, draft in enumerate(drafts, 1):
            text, _, sim_time = sealer.effect(draft, seq, sim_time=sim_time, wall_time=wall_time)
            yield text, draft.kind, draft.source_id, sim_time

    def _others(
        self,
        sealer: Sealer,
        begun: int,
        drafts: Sequence[CheckedDraft] | PlainDrafts,
        *,
        sim_time: float,
        wall_time: float,
    ) -> Iterator[_Effect]:
        """Return the same for the drafts, which follow; those of recordings in a part of the sealer's time."""
        if isinstance(drafts, PlainDrafts):
            yield from sealer.plain_effects(drafts, begun + 1, sim_time=sim_time, wall_time=wall_time)
            return
        world_id, new_uuid = sealer.world_id, self._new_uuid
        # A draft may state a time, which stays for those that do not.
        is_simple = sealer.authority.name == CLIENT
        for at, draft in enumerate(drafts):
            before, seq, text = sim_time, begun + at + 1, b""
            if is_simple and draft.caused_by is None:
                sim_time = before if draft.sim_time is None else draft.sim_time
                text = effect_text(
                    draft, world_id=world_id, global_seq=seq, uuid=new_uuid(), sim_time=sim_time, wall_time=wall_time
                )
            if not text or sim_time < before or len(text) > self._max_effect_bytes:
                text, _, sim_time = sealer.effect(draft, seq, sim_time=before, wall_time=wall_time, index=at)
            yield text, draft.kind, draft.source_id, sim_time

    async def write(self, worlds: Sequence[SealedWorld], guard: Guard | None = None) -> list[SimulationError | None]:
        """Write worlds in one transaction, after ``guard``; each is written completely or not at all.

        Returns for each None, or why it was not created: WorldExistsError, TamperedError. Raises StoreUnavailableError,
        and then none of them was created, unless its ``outcome`` is unknown.
        """
        new: dict[str, SealedWorld] = {}
        for sealed in worlds:
            new.setdefault(sealed.world.world_id, sealed)
        try:
            made = await self._write(list(new.values()), guard)
        except TamperedError as error:
            if len(worlds) == 1:
                return [error]
            return [(await self.write([sealed], guard))[0] for sealed in worlds]  # one by one, to find the one at fault
        return [
            None if sealed.world.world_id in made and new[sealed.world.world_id] is sealed else _exists(sealed.world)
            for sealed in worlds
        ]

    async def _write(self, sealed: Sequence[SealedWorld], guard: Guard | None) -> set[str]:
        """Write the worlds in one transaction, except for those with a taken name; return the names of the others."""
        if not sealed:
            return set()
        async with bulk_transaction(self._reader) as connection:
            if guard is not None:
                await guard(connection, [each.world for each in sealed])
            inserted = await connection.fetch(
                _INSERT_WORLDS,
                [each.world.world_id for each in sealed],
                [UUID(each.world_uuid) for each in sealed],
                [each.world.ruleset for each in sealed],
                [each.ruleset_version for each in sealed],
                [canonical_json(each.world.config).decode() for each in sealed],
                [each.world.experiment for each in sealed],
                [each.world.time_authority for each in sealed],
            )
            made = {row["world_id"] for row in inserted}
            new = [each for each in sealed if each.world.world_id in made]
            if new:
                with beyond_the_head(new[0].world.world_id, 0):
                    rows = (row for each in new for row in each.rows)
                    await copy_rows(connection, "effects", rows, statements.EFFECT_COLUMNS)
                heads = [each.head for each in new]
                names = [each.world.world_id for each in new]
                await connection.execute(_INSERT_HEADS, names, *(list(column) for column in zip(*heads, strict=True)))
        if self._written is not None:
            for each in new:
                self._written(each.world.world_id, each.head.seq)
        return made


def _exists(world: NewWorld) -> WorldExistsError:
    return WorldExistsError(f"a world named {world.world_id!r} is already there", world_id=world.world_id)
