"""Reading the log: batches of bounded size, single effects, heads; and the views that projections have made of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from worldledger.chain import Finding, StoredEffect, Verdict
from worldledger.errors import EffectNotFoundError, SchemaVersionError
from worldledger.protocols import Span, WorldHead
from worldledger_service.database.address import describe
from worldledger_service.database.engine import connect_pool
from worldledger_service.database.failures import explained, has_state
from worldledger_service.database.odd_rows import fetch_told
from worldledger_service.store import statements
from worldledger_service.store.outages import Outages, is_worth_retrying, unanswered
from worldledger_service.store.verification import verify_world

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.settings import Settings


#: Larger than any global_seq.
END = 2**62
#: The character that PostgreSQL cannot store in a text, so that no stored text equals one with it.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MOST_ROWS = 1000
#: As `statements.GATHER` says.
_MOST_GATHERED = 10_000


class BulkWrites:
    """The number of bulk writes in this process, for work that is to wait until they are over."""

    def __init__(self) -> None:
        #: called when the first one begins, and when the last one has ended
        self.watchers: list[Callable[[], None]] = []
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one until the end of the block."""
        self._count += 1
        if self._count == 1:
            self._idle.clear()
            self._tell()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._idle.set()
                self._tell()

    def _tell(self) -> None:
        for watcher in self.watchers:
            watcher()

    @property
    def under_way(self) -> bool:
        """True if there is any."""
        return self._count > 0

    async def idle(self) -> None:
        """Wait until there is none."""
        await self._idle.wait()


class Reader:
    """Reads effects as they are stored. It is the LogReader of projections."""

    def __init__(self, pool: asyncpg.Pool, settings: Settings, url: str, outages: Outages) -> None:
        self._pool = pool
        self._url = url
        self._outages = outages
        self._settings = settings
        #: the bulk writes of this process
        self.bulk = BulkWrites()
        #: held while a long sort has a connection: only one at a time, so that others are left for short queries
        self.sorting = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, settings: Settings) -> AsyncIterator[Reader]:
        """Connect as the service's role, for a process that only reads; raise StoreUnavailableError if that fails.

        It loads much less than a store does, and does not look at the schema.
        """
        outages = Outages(url, patience=settings.outage_patience)
        pool = await connect_pool(url, max_size=settings.pool_size, command_timeout=settings.command_timeout)
        try:
            yield cls(pool, settings, url, outages)
        finally:
            await outages.watchdog.close()
            await pool.close()

    @property
    def place(self) -> str:
        """The name of this database, for messages: never with a password."""
        return describe(self._url)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[PooledConnection]:
        """Lend a connection; the database's errors are raised as this project's."""
        with explained(self._url), self._outages.watchdog.asked():
            async with self._pool.acquire(timeout=self._settings.command_timeout) as connection:
                yield connection
            self._outages.answered()

    async def fetch(self, statement: str, *arguments: Any) -> list[asyncpg.Record]:
        """Read rows. A pooled connection that turns out to be dead is replaced, once: reading twice is harmless."""
        for last in (False, True):
            with explained(self._url), self._outages.watchdog.asked():
                async with self._pool.acquire(timeout=self._settings.command_timeout) as connection:
                    try:
                        rows = await fetch_told(connection, statement, *arguments)
                    except Exception as error:
                        if has_state(error, _UNREAD):
                            await _name_unreadable(connection, arguments, error)
                        if last or not is_worth_retrying(error):
                            raise
                        with suppress(asyncpg.InterfaceError):  # the pool may have noticed, and taken it back
                            connection.terminate()
                        continue
                self._outages.answered()
                return rows
        raise AssertionError  # the second round returns or raises

    async def _patiently(self, statement: str, *arguments: Any) -> list[asyncpg.Record]:
        """Read rows, unless the database becomes silent: then StoreUnavailableError is raised."""
        return await self._outages.watchdog.run(self.fetch(statement, *arguments), lambda _: unanswered())

    async def batches(
        self,
        world_id: str,
        *,
        after_seq: int = 0,
        until_seq: int | None = None,
        kind: str | None = None,
        source_id: str | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[list[StoredEffect], None]:
        """Yield rows with after_seq < global_seq <= until_seq, ascending, with optional filters.

        A batch holds at most 1,000 rows and about ``read_batch_bytes`` stored bytes, and no connection is held
        between batches, so a slow consumer costs the database nothing. ``limit`` is the most rows in all.
        """
        rows = self.records(
            world_id, after_seq=after_seq, until_seq=until_seq, kind=kind, source_id=source_id, limit=limit
        )
        async with aclosing(rows):
            async for batch in rows:
                yield [StoredEffect(*row) for row in batch]

    async def records(
        self,
        world_id: str,
        *,
        after_seq: int = 0,
        until_seq: int | None = None,
        kind: str | None = None,
        source_id: str | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[list[Any], None]:
        """Yield the same rows as `batches`, as the driver returns them: not tuples, but like a `StoredRow`."""
        statement, filters = _batch_statement(kind, source_id)
        if not all(map(storable, (world_id, *filters))):
            return
        until = END if until_seq is None else min(until_seq, END)
        left = END if limit is None else limit
        position = max(after_seq, 0)
        while left > 0 and position < until:
            most = min(left, _MOST_ROWS)
            rows = await self._patiently(
                statement, world_id, position, until, most, self._settings.read_batch_bytes, *filters
            )
            if not rows:
                return
            yield rows
            position = rows[-1][0]
            left -= len(rows)

    async def gather(self, spans: Sequence[Span], *, limit: int) -> list[list[StoredEffect]]:
        """Return the first rows of each span, in one query; see `worldledger.protocols.LogReader`.

        At most ``limit`` rows and about ``read_batch_bytes`` stored bytes are returned in all.
        """
        limit = min(limit, _MOST_GATHERED)
        worlds: list[str] = []
        after: list[int] = []
        until: list[int] = []
        for span in spans:
            if limit <= 0:
                break
            # The log has no gaps, so the numbers of rows are known in advance.
            last = min(span.until_seq, span.after_seq + limit)
            worlds.append(span.world_id)
            after.append(span.after_seq)
            until.append(last)
            limit -= max(last - span.after_seq, 0)
        found: list[list[StoredEffect]] = [[] for _ in spans]
        if worlds:
            rows = await self.fetch(statements.GATHER, worlds, after, until, self._settings.read_batch_bytes)
            for row in rows:
                found[row[0] - 1].append(StoredEffect(*row[1:]))
        return found

    async def world_heads(self, *, after: str = "", limit: int = 1000) -> list[WorldHead]:
        """Return worlds by name, those after ``after``, with their present heads."""
        return [WorldHead(*row) for row in await self.fetch(statements.WORLD_HEADS, after, limit)]

    async def effect(self, world_id: str, global_seq: int) -> StoredEffect:
        """Return one stored effect. Raises EffectNotFoundError, which names the head."""
        if 0 < global_seq < END and storable(world_id):
            for row in await self.fetch(statements.EFFECT_AT, world_id, global_seq):
                return StoredEffect(*row)
        head = (await self.head_seqs([world_id])).get(world_id)
        raise EffectNotFoundError(
            f"world {world_id!r} has no effect {global_seq}; its head is {head}",
            world_id=world_id,
            global_seq=global_seq,
            head_seq=head,
        )

    async def head_seqs(self, world_ids: list[str]) -> dict[str, int]:
        """Return the present head_seq of each of these worlds that exists."""
        known = await self.fetch(statements.HEADS, [*filter(storable, world_ids)])
        return {row["world_id"]: row["head_seq"] for row in known}

    async def kind_counts(self, world_id: str, *, after_seq: int, until_seq: int) -> dict[str, int]:
        """Return how many effects of each kind there are in a part of a world's log."""
        rows = await self.fetch(statements.KIND_COUNTS, world_id, after_seq, until_seq)
        return {row["kind"]: row["count"] for row in rows}

    async def last_of_kinds(self, world_id: str, kinds: Sequence[str], *, until_seq: int) -> bytes | None:
        """Return the stored text of a world's last effect of these kinds up to a seq; None if there is none."""
        rows = await self.fetch(statements.LAST_OF_KINDS, world_id, until_seq, [*kinds])
        return rows[0]["text"] if rows else None

    def on(self, connection: PooledConnection) -> Reader:
        """Return the same reader on one connection, inside its transaction."""
        return ReaderOn(self._pool, self._settings, self._url, self._outages, connection)

    async def verify(self, world_id: str) -> Verdict:
        """Verify one world; see `worldledger_service.store.verification.verify_world`."""
        return await verify_world(self, world_id)


class ReaderOn(Reader):
    """The same reader on one connection, inside its transaction."""

    def __init__(
        self, pool: asyncpg.Pool, settings: Settings, url: str, outages: Outages, connection: PooledConnection
    ) -> None:
        super().__init__(pool, settings, url, outages)
        self._connection = connection

    async def fetch(self, statement: str, *arguments: Any) -> list[asyncpg.Record]:
        """Read rows on the connection; errors are left to the holder of the transaction."""
        rows = await self._connection.fetch(statement, *arguments)
        self._outages.answered()
        return rows

    async def _patiently(self, statement: str, *arguments: Any) -> list[asyncpg.Record]:
        """Read rows on the connection, which could not be replaced while it reads."""
        return await self.fetch(statement, *arguments)


#: SQLSTATEs of texts that PostgreSQL has stored as JSON and cannot read.
_UNREAD: Final = ("22P02", "22P05")


async def _name_unreadable(
    connection: PooledConnection | asyncpg.Connection, arguments: Sequence[Any], error: BaseException
) -> None:
    """Raise TamperedError if a statement about one world (its first argument) came upon a text that nobody can read."""
    if arguments and isinstance(arguments[0], str):
        seq = await connection.fetchval(statements.UNREADABLE_EFFECT, arguments[0])
        if seq is not None:
            what = f"PostgreSQL cannot read the stored text ({error.args[0]})"
            raise Finding(arguments[0], seq, what).error() from error


def storable(text: str) -> bool:
    """Return whether PostgreSQL can store a text; a query with any other would be an error."""
    return _UNSTORABLE.search(text) is None


def _batch_statement(kind: str | None, source_id: str | None) -> tuple[str, list[Any]]:
    if kind is not None and source_id is not None:
        return statements.BATCH_OF_KIND_AND_SOURCE, [kind, source_id]
    if kind is not None:
        return statements.BATCH_OF_KIND, [kind]
    if source_id is not None:
        return statements.BATCH_OF_SOURCE, [source_id]
    return statements.BATCH, []


# -- reading the results of projections: the views of the schema ``projections`` --------------------------
#
# The views come and go with the builds below them. Rows have the columns that the view has at the moment: while a new
# version of a projection is being built, the old one can still be read.


Row = Mapping[str, Any]

#: PostgreSQL's codes for a missing view, or column of one, and for one replaced during the query.
_MISSING: Final = frozenset({"42P01", "42703", "3F000"})


class ViewMissingError(Exception):
    """A view is missing, or not as it should be: its projection is being rebuilt."""


async def fetch_views(reader: Reader, statement: str, *arguments: Any) -> list[Row]:
    """Return the rows of a statement over views. Raises ViewMissingError or StoreUnavailableError."""
    try:
        return [*map(dict, await reader.fetch(statement, *arguments))]
    except SchemaVersionError as error:
        if error.details.get("sqlstate") in _MISSING:
            raise ViewMissingError(error.message) from error
        raise
