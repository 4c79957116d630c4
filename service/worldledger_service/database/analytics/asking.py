"""The one way in which somebody's query is run, from the command line as over HTTP.

It runs in a read-only transaction that is always rolled back, as the guest, inside of functions that it cannot get out
of (`worldledger_service.database.analytics.schema`), for a bounded time of the database and up to a bounded number of
rows. Rows are fetched in batches of bounded size, so that any number of them can be streamed.

Parsing a query runs nothing of it; so its columns are known before anything happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import asyncpg

from worldledger.errors import QueryRefusedError, QueryTimeoutError, SchemaVersionError
from worldledger_service.database.analytics import parameters, refusals
from worldledger_service.database.analytics.parameters import Marked, Params, Placed
from worldledger_service.database.failures import FOREIGN

if TYPE_CHECKING:
    from worldledger_service.database.engine import Connection, Pool, PooledConnection

T = TypeVar("T")
#: What a cell is given as: the driver's value for its type; PostgreSQL's text; the text of its JSON; or (``plain``) a
#: bool, int, float, bytes or text, moments as microseconds and dates as days since 1970 (infinite ones are None).
Cells: TypeAlias = Literal["values", "text", "json", "plain"]
Row: TypeAlias = tuple[Any, ...]

#: Rows of the first batch, of any, and about how many characters of text one batch holds.
_ROWS: Final = (50, 2000)
_CHARACTERS: Final = 2_000_000
#: Seconds for which a query may be left alone between two batches.
IDLE_S: Final = 60.0
#: What one query may write to disk while it sorts and gathers, where the user of the address may say so.
_TEMPORARY: Final = "4GB"

#: Whether there is what runs a query, and what holds for the transaction: $1, $2 the timeouts, in milliseconds.
#: Questions sort more than the service does, so they have more room for it than PostgreSQL's usual 4 MB.
_SETTINGS: Final = """
select to_regprocedure('analytics.open_query(text)') is not null,
       set_config('search_path', 'analytics, pg_temp', true),
       set_config('statement_timeout', $1, true),
       set_config('idle_in_transaction_session_timeout', $2, true),
       set_config('jit', 'off', true),
       set_config('work_mem', greatest(pg_size_bytes(current_setting('work_mem')), 33554432) / 1024 || 'kB', true),
       set_config('datestyle', 'ISO, MDY', true),
       set_config('intervalstyle', 'iso_8601', true),
       set_config('bytea_output', 'hex', true),
       set_config('timezone', 'UTC', true),
       set_config('extra_float_digits', '1', true)
"""
_BOUND_FILES: Final = f"""
select set_config('role', 'none', true), set_config('temp_file_limit', '{_TEMPORARY}', true),
       set_config('role', before, true)
from (select current_setting('role') as before) r
where has_parameter_privilege(session_user, 'temp_file_limit', 'set')
"""
#: $1 a number between -1 and 1 that nobody knows.
_CLEAN: Final = "select pg_advisory_unlock_all(), setseed($1)"
_RANDOM: Final = SystemRandom()
_TYPES: Final = """
select format_type(t.oid, null) as shown, format('%I.%I', n.nspname, t.typname) as exact, t.typtype = 'p' as is_pseudo
from unnest($1::oid[]) with ordinality as wanted (oid, place)
join pg_catalog.pg_type t on t.oid = wanted.oid join pg_catalog.pg_namespace n on n.oid = t.typnamespace
order by wanted.place
"""
#: The exact types of a statement's columns: the driver is told of a domain only the type that its values are sent as.
#: Before PostgreSQL 16 the database does not tell, and such a column is refused.
_EXACT: Final = "select result_types::oid[] from pg_catalog.pg_prepared_statements where name = $1"
_CELL: Final = {"values": "{}", "text": "{}::text", "json": "to_json({})::text"}
_AS_IT_IS: Final = frozenset(
    {
        "boolean",
        "smallint",
        "integer",
        "bigint",
        "oid",
        "real",
        "double precision",
        "bytea",
        "text",
        "character varying",
    }
)
_MOMENT: Final = "case when isfinite({0}) then (extract(epoch from {0}) * 1000000)::bigint end"
_PLAIN: Final = {
    **dict.fromkeys(_AS_IT_IS, "{}"),
    **dict.fromkeys((f"{kind}[]" for kind in _AS_IT_IS), "{}"),
    "numeric": "{}::double precision",
    "timestamp with time zone": _MOMENT,
    "timestamp without time zone": _MOMENT,
    "date": "case when isfinite({0}) then {0} - date '1970-01-01' end",
}


class Column(NamedTuple):
    """A column of an answer: its name, which another may have too, and its type as SQL shows it."""

    name: str
    type: str


class Answer:
    """The answer to a query that is open.

    ``rows`` counts those that were given; ``is_cut`` tells, once all of them were, that there are more.
    """

    def __init__(self, columns: Sequence[Column], asking: _Asking, fetching: Any, most: int | None) -> None:
        self.columns = tuple(columns)
        self.rows = 0
        self.is_cut = False
        self._asking = asking
        self._fetching = fetching
        self._most = most

    async def batches(self) -> AsyncGenerator[list[Row]]:
        """Return the rows, in batches. Raises QueryRefusedError, QueryTimeoutError or StoreUnavailableError."""
        size, largest = _ROWS
        while True:
            left = None if self._most is None else self._most - self.rows
            wanted = size if left is None else min(size, left + 1)
            records = await self._asking.run(partial(self._fetching.fetch, wanted))
            found = [tuple(record.values()) for record in records]
            if left is not None and len(found) > left:
                self.is_cut = True
                del found[left:]
            self.rows += len(found)
            if found:
                yield found
            if self.is_cut or len(records) < wanted:
                return
            characters = sum(len(cell) for row in found for cell in row if isinstance(cell, str | bytes))
            size = min(max(_CHARACTERS * len(found) // max(characters, 1), 1), 4 * size, largest)


@asynccontextmanager
async def ask(
    source: Pool | Connection | PooledConnection,
    query: str,
    params: Params = (),
    *,
    timeout_s: float,
    most: int | None = None,
    cells: Cells = "values",
    idle_s: float = IDLE_S,
) -> AsyncIterator[Answer]:
    """Run a query while the block is open.

    Args:
        source: a connection, which must not be in a transaction, or a pool to take one from. Its role may be the
            service's or the reader's.
        query: one SELECT, WITH, VALUES, TABLE, EXPLAIN or SHOW; names without a schema are those of ``analytics``.
        params: by name (``:name`` in the query) or by number (``$1``).
        timeout_s: seconds of the database's time for all of it.
        most: rows at most; `Answer.is_cut` tells whether there were more.
        cells: what cells are given as; None for null in any case.
        idle_s: seconds for which whoever takes the rows may fall silent; then the query is gone.

    Raises:
        QueryRefusedError: it is no question, or goes wrong; the details say where.
        QueryTimeoutError: it did not end in its time.
        SchemaVersionError: the database has no schema ``analytics``.
        StoreUnavailableError: the database is away, or refuses for a reason of its own.
    """
    parameters.check_text(query, "the query")
    marks = parameters.find(query, params)
    async with _borrowed(source) as connection:
        asking = _Asking(connection, query, timeout_s)
        try:
            await asking.begin(idle_s)
            placed = await asking.place(marks, params) if marks else Placed(query, (), ())
            columns, fetching = await asking.open(placed, cells)
            yield Answer(columns, asking, fetching, most)
        finally:
            await asking.end()


@asynccontextmanager
async def _borrowed(source: Pool | Connection | PooledConnection) -> AsyncIterator[Connection | PooledConnection]:
    if isinstance(source, asyncpg.Pool):
        async with source.acquire() as connection:
            yield connection
    else:
        yield source


class _Asking:
    """One query on one connection, and the time that it has left."""

    def __init__(self, connection: Connection | PooledConnection, query: str, timeout_s: float) -> None:
        self._connection = connection
        self._query = query
        self._timeout_s = self._left = timeout_s
        self._transaction = connection.transaction(readonly=True)
        self._placed: Placed | None = None

    async def run(self, work: Callable[..., Awaitable[T]]) -> T:
        """Await something of the database, within the time that is left, and explain what goes wrong."""
        clock = asyncio.get_running_loop().time
        before = clock()
        try:
            return await work(timeout=max(self._left, 0.001))
        except (TimeoutError, asyncpg.QueryCanceledError):
            raise QueryTimeoutError(self._timeout_s) from None
        except asyncpg.PostgresError as error:
            raise refusals.explained(error, self._query, self._placed) from error
        except FOREIGN as error:
            raise refusals.lost(error) from error
        finally:
            self._left -= clock() - before

    async def begin(self, idle_s: float) -> None:
        """Begin the transaction with all that bounds the query."""
        timeout, idle = (str(max(int(seconds * 1000), 1)) for seconds in (self._timeout_s, idle_s))
        await self.run(lambda timeout: self._transaction.start())
        await self.run(partial(self._connection.execute, _BOUND_FILES))
        if not await self.run(partial(self._connection.fetchval, _SETTINGS, timeout, idle)):
            raise SchemaVersionError("the database has no schema analytics: run `worldledger db upgrade`")

    async def place(self, marks: Sequence[Marked], params: Params) -> Placed:
        """Put the parameters' values into the query, as the types that it wants."""
        self._placed = parameters.numbered(self._query, marks)
        statement = await self.run(partial(self._connection.prepare, self._placed.text))
        oids = [kind.oid for kind in statement.get_parameters()]
        keys = dict.fromkeys(mark.key for mark in marks)
        types = dict(zip(keys, [row["shown"] for row in await self._types(oids)], strict=True))
        self._placed = parameters.filled(self._query, marks, params, types)
        return self._placed

    async def open(self, placed: Placed, cells: Cells) -> tuple[list[Column], Any]:
        """Open the query; return its columns, and the statement that fetches so many rows of it."""
        asked = await self.run(partial(self._connection.prepare, placed.text))
        attributes = asked.get_attributes()
        if not attributes:
            is_empty = refusals.BEGINS_AS_A_QUESTION.match(placed.text)
            raise QueryRefusedError(refusals.NO_COLUMNS if is_empty else refusals.ONLY_QUESTIONS)
        oids = [attribute.type.oid for attribute in attributes]
        types = exact = await self._types(oids)
        if self._connection.get_server_version().major >= 16:
            known = await self.run(partial(self._connection.fetchval, _EXACT, asked.get_name()))
            exact = types if known == oids else await self._types(known)
        for number, (attribute, row) in enumerate(zip(attributes, types, strict=True), 1):
            if row["is_pseudo"] and row["shown"] not in {"record", "record[]"}:
                what = f"column {number} ({attribute.name}) is of the type {row['shown']}, which has no values"
                raise QueryRefusedError(f"{what}: leave it out, or cast it to text")
        await self.run(partial(self._connection.fetchval, "select analytics.open_query($1)", placed.text))
        shown = ", ".join(_cell(cells, row["shown"]).format(f"c{n}") for n, row in enumerate(types, 1))
        defined = ", ".join(f"c{n} {row['exact']}" for n, row in enumerate(exact, 1))
        statement = f"select {shown} from analytics.fetch_query($1) as t ({defined})"
        fetching = await self.run(partial(self._connection.prepare, statement))
        columns = [Column(found.name, row["shown"]) for found, row in zip(attributes, types, strict=True)]
        return columns, fetching

    async def end(self) -> None:
        """Undo everything. A rollback leaves two things: locks of the session, and the seed of its random numbers."""
        with suppress(*FOREIGN):
            await self._transaction.rollback()
            await self._connection.execute(_CLEAN, _RANDOM.uniform(-1, 1))

    async def _types(self, oids: list[int]) -> list[asyncpg.Record]:
        return await self.run(partial(self._connection.fetch, _TYPES, oids))


def _cell(cells: Cells, kind: str) -> str:
    return _PLAIN.get(kind, "{}::text") if cells == "plain" else _CELL[cells]
