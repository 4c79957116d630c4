"""The one way in which somebody's query is run, from the command line as over HTTP.

It runs in a read-only transaction that is always rolled back, as the guest, inside of functions that it cannot get out
of (`worldledger_service.database.analytics.views`), for a bounded time of the database and up to a bounded number of
rows. Rows are fetched in batches of bounded size, so that any number of them can be streamed.

Parsing a query runs nothing of it; so its columns are known before anything happens.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from math import isinf, isnan
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import asyncpg
import orjson

from worldledger.aio import to_its_end
from worldledger.errors import (
    QueryRefusedError,
    QueryTimeoutError,
    SchemaVersionError,
    SimulationError,
    StoreUnavailableError,
)
from worldledger.near import near
from worldledger_service.database.analytics.views import VIEWS
from worldledger_service.database.failures import FOREIGN, what_to_do

if TYPE_CHECKING:
    from worldledger_projections.base import Projection

    from worldledger_service.database.engine import Connection, Pool, PooledConnection


# -- parameters of a query: found in its text, and put into it as literals of the types that the query wants
#
# ``:name`` stands for a parameter with a name, ``$1`` for one by its number. Only the names that are given are looked
# for, and never in strings, quoted names, comments or behind another colon, so that ``value::text`` and ``a[1:n]``
# stay what they are.
#
# The values go in as literals and not beside the query: it is run inside of a function, which cannot hand on any
# number of values of any types, and PostgreSQL plans it knowing them.


Params: TypeAlias = Mapping[str, Any] | Sequence[Any]

#: Longest query, in characters; its parameters may be as long again.
MAX_QUERY: Final = 1_000_000

_TOKEN: Final = re.compile(
    r"""
      --[^\n]*
    | (?P<comment>/\*)
    | [eE]'(?:[^'\\]|\\.|'')*'?
    | '(?:[^']|'')*'?
    | "(?:[^"]|"")*"?
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | \$(?P<number>\d+)
    | (?P<word>[^\W\d][\w$]*)
    | ::
    | :(?P<name>[^\W\d]\w*)
    | \d+
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


class Marked(NamedTuple):
    """A place of a query where a parameter stands: its name or number, and where its mark begins and ends."""

    key: str
    start: int
    end: int


class Placed(NamedTuple):
    """A query with its parameters in it, and from where to where each of them stands."""

    text: str
    marks: Sequence[Marked]
    places: Sequence[tuple[int, int]]

    def position(self, place: int) -> tuple[int, str | None]:
        """Return the place of the original query for one of this text (from 0 on), and the parameter that it is in."""
        shift = 0
        for mark, (start, end) in zip(self.marks, self.places, strict=True):
            if place < start:
                break
            if place < end:
                return mark.start, mark.key
            shift = mark.end - end
        return place + shift, None


def find(query: str, params: Params) -> list[Marked]:
    """Find the places of the parameters. Raises QueryRefusedError for one that has no place, or no value."""
    named = isinstance(params, Mapping)
    marks = []
    for found in _tokens(query):
        key = found["name"] if named else found["number"]
        if key is not None and (not named or key in params):
            marks.append(Marked(key, found.start(), found.end()))
    used = {mark.key for mark in marks}
    known = set(params) if isinstance(params, Mapping) else {str(n) for n in range(1, len(params) + 1)}
    sign = ":" if named else "$"
    for key in sorted(known - used):
        raise QueryRefusedError(f"the query has no parameter {sign}{key}", parameter=key)
    for key in sorted(used - known):
        raise QueryRefusedError(f"the parameter {sign}{key} has no value", parameter=key)
    return marks


def words(query: str) -> set[str]:
    """Return the words of a query that may name something: those that stand in no string and no comment."""
    return {found["word"].lower() for found in _tokens(query) if found["word"]}


def numbered(query: str, marks: Sequence[Marked]) -> Placed:
    """Return the query with ``$1``, ``$2`` … for its parameters, in the order in which they come first."""
    keys = list(dict.fromkeys(mark.key for mark in marks))
    return _placed(query, marks, [f"${keys.index(mark.key) + 1}" for mark in marks])


def filled(query: str, marks: Sequence[Marked], params: Params, types: Mapping[str, str]) -> Placed:
    """Return the query with the parameters' values, each as a literal of its type (as SQL names it)."""
    literals = []
    for mark in marks:
        value = params[mark.key] if isinstance(params, Mapping) else params[int(mark.key) - 1]
        literals.append(f"({literal(value, mark.key, types[mark.key])}::{types[mark.key]})")
    return _placed(query, marks, literals)


def check_text(text: str, what: str) -> None:
    """Raise QueryRefusedError for a text that PostgreSQL cannot be sent."""
    if _UNSTORABLE.search(text):
        raise QueryRefusedError(f"{what} has a NUL or half of a surrogate pair in it, which PostgreSQL cannot hold")
    if len(text) > MAX_QUERY:
        raise QueryRefusedError(f"{what} has {len(text):,} characters; at most {MAX_QUERY:,} are taken")


def literal(value: Any, key: str, kind: str) -> str:
    """Return a value as SQL, in the form in which it is cast to a type."""
    text = _text(value, key, kind)
    if text is None:
        return "null"
    check_text(text, f"the parameter {key}")
    quoted = text.replace("'", "''")
    return f" E'{quoted.replace(chr(92), chr(92) * 2)}'" if "\\" in quoted else f"'{quoted}'"


def _text(value: Any, key: str, kind: str) -> str | None:
    match value:
        case None:
            return None
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if isnan(value) or isinf(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case int() | float() | Decimal():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return f"\\x{value.hex()}"
        case list() | tuple() if kind.endswith("[]"):
            return "{" + ",".join(_element(item, key, kind) for item in value) + "}"
        case list() | tuple() | dict():
            try:
                return orjson.dumps(value).decode()
            except TypeError as error:
                raise QueryRefusedError(f"the parameter {key} is no JSON: {error}", parameter=key) from None
        case _:
            what = f"the parameter {key} is a {type(value).__name__}, which is no value of SQL"
            raise QueryRefusedError(what, parameter=key)


def _element(value: Any, key: str, kind: str) -> str:
    if isinstance(value, list | tuple) and not kind.startswith("json"):
        return _text(value, key, kind) or ""
    text = _text(value, key, kind.removesuffix("[]"))
    return "NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _placed(query: str, marks: Sequence[Marked], texts: Sequence[str]) -> Placed:
    pieces: list[str] = []
    places: list[tuple[int, int]] = []
    done = length = 0
    for mark, text in zip(marks, texts, strict=True):
        pieces += [query[done : mark.start], text]
        length += mark.start - done
        places.append((length, length + len(text)))
        length += len(text)
        done = mark.end
    return Placed("".join([*pieces, query[done:]]), marks, places)


def _tokens(query: str) -> Iterator[re.Match[str]]:
    """Return the tokens of a query, comments (which may stand in each other) and dollar-quoted strings left out."""
    place = 0
    while place < len(query):
        found = _TOKEN.match(query, place)
        if found is None:  # cannot be: the last alternative takes any character
            return
        place = found.end()
        if found["comment"]:
            place = _end_of_comment(query, place)
        elif found["dollar"]:
            end = query.find(found["dollar"], place)
            place = len(query) if end < 0 else end + len(found["dollar"])
        else:
            yield found


def _end_of_comment(query: str, place: int) -> int:
    depth = 1
    while depth:
        found = _COMMENT.search(query, place)
        if found is None:
            return len(query)
        depth += 1 if found[0] == "/*" else -1
        place = found.end()
    return place


# -- from what PostgreSQL says of a query to what helps: where it goes wrong, and what to do about it -----


#: What is the query's own fault, by class of SQLSTATE, where it is not among those below.
#: Source: PostgreSQL documentation, appendix A.
_OF_THE_QUERY: Final = frozenset(
    {"0A", "20", "21", "22", "25", "26", "2F", "34", "38", "39", "3F", "42", "44", "54", "55", "P0", "HV", "10"}
)
_UNDEFINED: Final = frozenset({"42P01", "3F000"})
_SILENT: Final = "25P03"
_WRITES: Final = "25006"
_NO_CURSOR: Final = ("34000", "42P11")
_TOO_MUCH: Final = {
    "53200": "the server ran out of memory for it: ask for less at once",
    "53400": "it needs more temporary space than a query may have: ask for less at once",
    "54001": "it is nested too deeply",
}
ONLY_QUESTIONS: Final = (
    "only questions can be asked: SELECT, WITH, VALUES, TABLE, EXPLAIN and SHOW; one of them at a time"
)
#: What may be a question, but has no columns: ``select from games``.
NO_COLUMNS: Final = "the query gives no columns: name some after SELECT, or *"
BEGINS_AS_A_QUESTION: Final = re.compile(
    r"(?:[\s(]|--[^\n]*\n|/\*.*?\*/)*(?:select|table|with)\b", re.IGNORECASE | re.DOTALL
)
WRITES: Final = "a query may read, and changes nothing"
_OTHER_TYPES: Final = "structure of query does not match function result type"
_WHERE: Final = "`worldledger sql --tables` lists the views that can be asked"
_NAMED: Final = re.compile(r'(?:relation|table|view) "?(?:\w+\.)?(\w+)"?')


def explained(error: asyncpg.PostgresError, query: str, placed: Placed | None = None) -> SimulationError:
    """Return the error of a query that the database refuses, or of a database that fails.

    ``placed`` is the text that was sent, if that is another than the query.
    """
    state = error.sqlstate or ""
    said = str(error.args[0]) if error.args else type(error).__name__
    if state in _TOO_MUCH:
        return QueryRefusedError(f"the query cannot be run: {_TOO_MUCH[state]}", sqlstate=state)
    if state == _SILENT:
        return StoreUnavailableError("nobody took the rows of the query for too long: it is over", sqlstate=state)
    if state[:2] not in _OF_THE_QUERY:
        what = f"the database could not run the query ({said}): {what_to_do(state)}"
        return StoreUnavailableError(what, sqlstate=state)
    details = {"sqlstate": state, "hint": getattr(error, "hint", None), **_where(error, query, placed)}
    if state == _WRITES or said.startswith(("cannot insert into", "cannot update", "cannot delete from")):
        said, details["hint"] = WRITES, None
    elif state in _NO_CURSOR or "multiple commands" in said:
        said = ONLY_QUESTIONS
    elif said == _OTHER_TYPES:
        said = "a column is of a domain, whose values PostgreSQL tells apart from version 16 on: cast it to text"
    elif said.startswith("permission denied for") or state in _UNDEFINED:
        details["hint"] = _elsewhere(said) or details["hint"] or _WHERE
    elif said == 'syntax error at or near ":"':
        details["hint"] = "a parameter needs a value: --param NAME=VALUE, or params over HTTP"
    parameter = details.get("parameter")
    return QueryRefusedError(f"the parameter {parameter}: {said}" if parameter else said, **details)


def _where(error: asyncpg.PostgresError, query: str, placed: Placed | None) -> dict[str, int | str | None]:
    position = getattr(error, "position", None)
    if position is None:
        return {}
    place, parameter = int(position) - 1, None
    if placed is not None:
        place, parameter = placed.position(place)
    before = query[:place]
    return {
        "position": place + 1,
        "line": before.count("\n") + 1,
        "column": place - (before.rfind("\n") + 1) + 1,
        "parameter": parameter,
    }


def _elsewhere(said: str) -> str | None:
    """Say where to ask instead, if something of that name can be asked."""
    from worldledger_projections.base import ANALYTICS  # noqa: PLC0415 - as below
    from worldledger_projections.registry import known  # noqa: PLC0415 - all rulesets; needed for a message only
    from worldledger_projections.tables import further_views  # noqa: PLC0415 - as above

    found = _NAMED.search(said)
    if found is None:
        return None
    name = found[1]
    views = {view.name for view in VIEWS}
    if name in views:
        return f"ask analytics.{name} instead"
    projections = known().values()
    published = {view.name for each in projections for view in further_views(each) if view.schema == ANALYTICS}
    if name in published:
        if said.startswith("permission"):
            return f"ask analytics.{name} instead"
        return f"analytics.{name} is there once somebody feeds the projections: run `worldledger project`"
    alike = near(name, sorted(views | published))
    return f"did you mean {' or '.join(alike)}? {_WHERE}" if alike else None


def lost(error: Exception) -> SimulationError:
    """Return the error of a connection that is no more."""
    return StoreUnavailableError(f"the connection of the query was lost ({error}): try again")


T = TypeVar("T")
#: What a cell is given as: the driver's value for its type; PostgreSQL's text; the text of its JSON; or (``plain``) a
#: bool, int, float, bytes or text, moments as microseconds and dates as days since 1970 (infinite ones are None).
Cells: TypeAlias = Literal["values", "text", "json", "plain"]
Row: TypeAlias = tuple[Any, ...]

#: Rows of the first batch, of any, and about how many characters of text one batch holds.
_ROWS: Final = (50, 2000)
_CHARACTERS: Final = 2_000_000
#: Seconds that undoing a question may take once nobody waits for it any more.
_UNDOING_S: Final = 1.0
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
    check_text(query, "the query")
    marks = find(query, params)
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
            raise explained(error, self._query, self._placed) from error
        except FOREIGN as error:
            raise lost(error) from error
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
        self._placed = numbered(self._query, marks)
        statement = await self.run(partial(self._connection.prepare, self._placed.text))
        oids = [kind.oid for kind in statement.get_parameters()]
        keys = dict.fromkeys(mark.key for mark in marks)
        types = dict(zip(keys, [row["shown"] for row in await self._types(oids)], strict=True))
        self._placed = filled(self._query, marks, params, types)
        return self._placed

    async def open(self, placed: Placed, cells: Cells) -> tuple[list[Column], Any]:
        """Open the query; return its columns, and the statement that fetches so many rows of it."""
        asked = await self.run(partial(self._connection.prepare, placed.text))
        attributes = asked.get_attributes()
        if not attributes:
            is_empty = BEGINS_AS_A_QUESTION.match(placed.text)
            raise QueryRefusedError(NO_COLUMNS if is_empty else ONLY_QUESTIONS)
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
        """Undo everything, also where the caller is cancelled: the connection is used again."""
        await to_its_end(self._undo(), _UNDOING_S)

    async def _undo(self) -> None:
        # A rollback leaves two things: locks of the session, and the seed of its random numbers.
        with suppress(*FOREIGN):
            await self._transaction.rollback()
            await self._connection.execute(_CLEAN, _RANDOM.uniform(-1, 1))

    async def _types(self, oids: list[int]) -> list[asyncpg.Record]:
        return await self.run(partial(self._connection.fetch, _TYPES, oids))


def _cell(cells: Cells, kind: str) -> str:
    return _PLAIN.get(kind, "{}::text") if cells == "plain" else _CELL[cells]


# -- whether what a query reads is up to date: the projections that it names, and how far they are behind


_BUILDS: Final = """
select projection, is_scanning, is_paused from projections where status = 'live' and projection = any(:names)
"""
#: The runners' work is bounded, and so is what can be behind; one row for each projection and ruleset.
_BACKLOG: Final = """
select b.projection, b.ruleset, count(*), sum(b.effects_behind)::bigint, bool_or(b.is_parked)
from projection_backlog b join projections p using (build)
where p.status = 'live' and b.projection = any(:names)
group by b.projection, b.ruleset
"""
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True)
class Lag:
    """A projection that does not hold all of the log: in how many worlds, and how many effects it has still to read."""

    projection: str
    worlds: int
    effects: int
    is_scanning: bool = False
    is_parked: bool = False
    is_paused: bool = False

    def __str__(self) -> str:
        behind = f"{_counted(self.effects, 'effect')} behind in {_counted(self.worlds, 'world')}"
        what = "is being filled" if self.is_scanning else f"is {behind}"
        why = " (paused)" if self.is_paused else " (some of them set aside: see `worldledger projections status`)"
        return f"the projection {self.projection} {what}{why if self.is_parked or self.is_paused else ''}"

    @property
    def todo(self) -> str:
        """What brings it up to date."""
        if self.is_paused:
            return f"run `worldledger projections resume {self.projection}`"
        return "run `worldledger project --once`, or wait for the service"


async def lag_of(
    source: Pool | Connection | PooledConnection, query: str, projections: Mapping[str, Projection]
) -> list[Lag]:
    """Return those of the projections that a query names and that do not hold all of the log; none where all do.

    A projection that has no view yet is not among them: the query itself says so.
    """
    names = _named(projections, words(query))
    if not names:
        return []
    found: list[Lag] = []
    builds = {row[0]: row for row in await _rows(source, _BUILDS, names)}
    behind: dict[str, list[tuple[int, int, bool]]] = {}
    for projection, ruleset, worlds, effects, is_parked in await _rows(source, _BACKLOG, names):
        rulesets = projections[projection].rulesets
        if rulesets is None or ruleset in rulesets:
            behind.setdefault(projection, []).append((worlds, effects, is_parked))
    for name, (_, is_scanning, is_paused) in builds.items():
        parts = behind.get(name, [])
        if parts or is_scanning:
            worlds, effects = sum(part[0] for part in parts), sum(part[1] for part in parts)
            found.append(Lag(name, worlds, effects, is_scanning, any(part[2] for part in parts), is_paused))
    return found


def _named(projections: Mapping[str, Projection], named: Iterable[str]) -> list[str]:
    """Return the projections of which a query names the view, or one that is made upon it."""
    asked = {*named}
    found: set[str] = set()
    for name, projection in projections.items():
        for view in projection.views:
            if view.name in asked:
                found |= {name, *view.upon}
        if name in asked:
            found |= {name, *(upon for view in projection.views for upon in view.upon)}
    return sorted(found & projections.keys())


async def _rows(source: Pool | Connection | PooledConnection, query: str, names: list[str]) -> list[tuple[Any, ...]]:
    async with ask(source, query, {"names": names}, timeout_s=_TIMEOUT_S) as answer:
        return [row async for batch in answer.batches() for row in batch]


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
