"""``worldledger sql``: queries in SQL, one's own or from the cookbook."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Protocol, TypeAlias, cast

import typer

from worldledger.errors import (
    QueryRefusedError,
    QueryTimeoutError,
    SimulationError,
    StoreUnavailableError,
    UnknownQueryError,
)
from worldledger.names import unique_names
from worldledger.near import meant, near
from worldledger_service.cli.connect import database, target
from worldledger_service.cli.files import written_whole
from worldledger_service.cli.options import DatabaseUrl, Force, Home, Quiet
from worldledger_service.cli.output import (
    cut,
    fitted,
    plain,
    put,
    put_bytes,
    put_rows,
    put_text,
    say,
    screen_width,
    width,
)
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger_service.database.analytics.asking import Cells, Column, Row
    from worldledger_service.database.analytics.cookbook import NamedQuery
    from worldledger_service.database.engine import Connection


# -- formats of answers --------------------------------------------------------------------------------------

Format: TypeAlias = Literal["table", "csv", "json", "parquet"]
Write: TypeAlias = Callable[[bytes], object]

#: Values that are quoted in a CSV file: the empty text, those with special characters, and psql's end of data.
_QUOTED: Final = re.compile(r'\A\Z|[",\r\n]|\A\\\.\Z')
#: How a cell begins that a spreadsheet takes for a formula: some pass over space, or read the wide forms of East Asian
#: texts (here as escapes) as the plain ones. Source: OWASP, "CSV Injection".
_FORMULA: Final = re.compile("[\\t\\r\\n]|[\\s\ufeff]*[-=+@\uff1d\uff0b\uff0d\uff20]")
#: Longest cell of a table that is shown whole.
_WIDEST: Final = 80
_NUMBERS: Final = frozenset({"smallint", "integer", "bigint", "real", "double precision", "numeric"})
_DOUBLES: Final = frozenset({"real", "double precision"})
#: Digits of a double behind the point, in a table.
_DIGITS: Final = 6
#: Rows of a row group.
_GROUP: Final = 122_880


class Writer(Protocol):
    """Writes an answer: its columns, then rows, then the end; nothing more after ``give_up``."""

    def begin(self, columns: Sequence[Column]) -> None:
        """Take the columns."""

    def rows(self, rows: Sequence[Row]) -> None:
        """Write rows, or keep them."""

    def end(self) -> None:
        """Write what is left."""

    def give_up(self) -> None:
        """Write nothing more."""


class _Lines:
    """A writer of lines, which holds no resources."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def end(self) -> None:
        pass

    def give_up(self) -> None:
        pass


class _Table(_Lines):
    """Aligned columns, as psql shows them, doubles to six digits behind the point; all rows are held until the end.

    Where they are wider than the ``screen``, long cells are cut.
    """

    def __init__(self, write: Write, screen: int | None = None) -> None:
        super().__init__(write)
        self._screen = screen
        self._rows: list[list[str]] = []

    def begin(self, columns: Sequence[Column]) -> None:
        self._right = [column.type in _NUMBERS for column in columns]
        self._doubles = [column.type in _DOUBLES for column in columns]
        self._rows.append([plain(column.name) for column in columns])

    def rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            cells = zip(row, self._doubles, strict=True)
            self._rows.append([_rounded(cell or "") if is_double else _shown(cell or "") for cell, is_double in cells])

    def end(self) -> None:
        sizes = [max(map(width, cells)) for cells in zip(*self._rows, strict=True)]
        if self._screen is not None:
            sizes = fitted(sizes, self._screen - 2, len(" | "))
            self._rows = [[cut(*cell) for cell in zip(cells, sizes, strict=True)] for cells in self._rows]
        head, *rest = self._rows
        lines = [" | ".join(_padded(cell, size, centre=True) for cell, size in zip(head, sizes, strict=True))]
        lines.append("-+-".join("-" * size for size in sizes))
        for row in rest:
            cells = zip(row, sizes, self._right, strict=True)
            lines.append(" | ".join(_padded(cell, size, right=right) for cell, size, right in cells))
        text = "".join(f" {line}".rstrip() + "\n" for line in [lines[0], *lines[2:]])
        first, _, others = text.partition("\n")
        self._write(f"{first}\n-{lines[1]}-\n{others}".encode(errors="backslashreplace"))


def _shown(cell: str) -> str:
    return cut(plain(cell), _WIDEST)


def _rounded(cell: str) -> str:
    """Return a double's text for people, rounded; one that would be rounded to nothing is returned as it is."""
    if len(cell.partition(".")[2]) <= _DIGITS or "e" in cell or abs(float(cell)) < 0.1**_DIGITS:
        return cell
    return f"{float(cell):.{_DIGITS}f}".rstrip("0").rstrip(".")


def _padded(cell: str, size: int, *, right: bool = False, centre: bool = False) -> str:
    room = size - width(cell)
    left = room if right else room // 2 if centre else 0
    return " " * left + cell + " " * (room - left)


class _Csv(_Lines):
    """Comma-separated values (RFC 4180, lines end in LF): a header, then PostgreSQL's texts.

    Null is empty and the empty text ``""``, as COPY writes them; the csv module of Python 3.11 cannot. A text that
    a spreadsheet would take for a formula has an apostrophe before it, unless ``escape`` is False.
    """

    def __init__(self, write: Write, *, escape: bool = True) -> None:
        super().__init__(write)
        self._escape = escape

    def begin(self, columns: Sequence[Column]) -> None:
        self._texts = [self._escape] * len(columns)
        self.rows([tuple(column.name for column in columns)])
        self._texts = [self._escape and column.type not in _NUMBERS for column in columns]

    def rows(self, rows: Sequence[Row]) -> None:
        self._write("".join(",".join(map(_field, row, self._texts)) + "\n" for row in rows).encode())


def _field(cell: str | None, is_text: bool) -> str:
    if is_text and cell and _FORMULA.match(cell):
        cell = f"'{cell}"
    if cell is None or not _QUOTED.search(cell):
        return cell or ""
    doubled = cell.replace('"', '""')
    return f'"{doubled}"'


class _Json(_Lines):
    """A list of objects, one a line; a repeated column name gets a number."""

    def __init__(self, write: Write) -> None:
        super().__init__(write)
        self._before = "[\n"

    def begin(self, columns: Sequence[Column]) -> None:
        names = unique_names(column.name for column in columns)
        self._keys = [json.dumps(name, ensure_ascii=False) for name in names]

    def rows(self, rows: Sequence[Row]) -> None:
        pieces: list[str] = []
        for row in rows:
            cells = zip(self._keys, row, strict=True)
            pieces.append(self._before + "{" + ",".join(f"{key}:{cell or 'null'}" for key, cell in cells) + "}")
            self._before = ",\n"
        self._write("".join(pieces).encode())

    def end(self) -> None:
        self._write(b"[]\n" if self._before == "[\n" else b"\n]\n")


class _Parquet:
    """A Parquet file: zstd, row groups of about 120,000 rows."""

    def __init__(self, write: Write) -> None:
        from worldledger_service.arrow.pool import needed  # noqa: PLC0415

        with needed():
            import pyarrow as pa  # noqa: PLC0415 - large, and not always installed
            import pyarrow.parquet as pq  # noqa: PLC0415

            from worldledger_service.arrow import ipc  # noqa: PLC0415
        self._pa, self._pq, self._answers = pa, pq, ipc
        self._sink = _Sink(write)
        self._waiting: list[Any] = []
        self._count = 0
        self._writer: Any = None

    def begin(self, columns: Sequence[Column]) -> None:
        self._schema = self._answers.schema_of(columns)
        self._writer = self._pq.ParquetWriter(
            self._pa.PythonFile(self._sink, mode="w"), self._schema, compression="zstd"
        )

    def rows(self, rows: Sequence[Row]) -> None:
        self._waiting.append(self._answers.batch_of(self._schema, rows))
        self._count += len(rows)
        if self._count >= _GROUP:
            self._flush()

    def end(self) -> None:
        self._flush()
        self._writer.close()

    def give_up(self) -> None:
        self._sink.give_up()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(self._pa.Table.from_batches(self._waiting, self._schema), row_group_size=_GROUP)
        self._waiting, self._count = [], 0


class _Sink(io.RawIOBase):
    """A stream that can only be written; it counts its bytes."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._length = 0

    def writable(self) -> bool:
        return True

    def give_up(self) -> None:
        self._write = len

    def write(self, data: Any) -> int:
        self._write(bytes(data))
        self._length += len(data)
        return len(data)

    def tell(self) -> int:
        return self._length


class _Form(NamedTuple):
    writer: Callable[[Write], Writer]
    cells: Cells


FORMATS: Final[dict[str, _Form]] = {
    "table": _Form(_Table, "text"),
    "csv": _Form(_Csv, "text"),
    "json": _Form(_Json, "json"),
    "parquet": _Form(_Parquet, "plain"),
}


def format_of(form: str | None, output: str) -> Format:
    """Return the format that was given, or else that of the file's name. Raises SimulationError."""
    if form is None:
        form = output.rpartition(".")[2] if "." in output else "table"
        form = form if form in FORMATS else "table"
    if form not in FORMATS:
        raise SimulationError(f"--format {form}: there are {', '.join(FORMATS)}")
    if form == "parquet" and output == "-" and sys.stdout.isatty():
        raise SimulationError("a Parquet file is nothing for a terminal: name a file with -o")
    return cast("Format", form)


@contextmanager
def written(form: Format, output: str, *, escape: bool = True, force: bool = False) -> Iterator[Writer]:
    """Yield the writer of an answer; a file appears at the end of the block, whole, or not at all.

    ``escape`` marks texts in CSV that a spreadsheet would take for formulas.
    """
    with written_whole(output, force=force) as write:
        writer: Writer
        if form == "csv":
            writer = _Csv(write, escape=escape)
        elif form == "table" and output == "-":
            writer = _Table(write, screen_width())
        else:
            writer = FORMATS[form].writer(write)
        try:
            yield writer
        except BaseException:
            writer.give_up()
            raise


#: A name of a query of the cookbook, not a query.
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
#: Words with which statements begin: one of them alone is a query, which the database refuses with its reason.
#: Source: PostgreSQL documentation, "SQL Commands".
_STATEMENT: Final = re.compile(
    r"(abort|alter|analyze|begin|call|checkpoint|close|cluster|comment|commit|copy|create|deallocate|declare|delete"
    r"|discard|do|drop|end|execute|explain|fetch|grant|import|insert|listen|load|lock|merge|move|notify|prepare"
    r"|reassign|refresh|reindex|release|reset|revoke|rollback|savepoint|security|select|set|show|start|table"
    r"|truncate|unlisten|update|vacuum|values|with)\Z"
)
#: Default limit of the rows of a table: more belong in a file.
_ROWS: Final = 1000
#: A timeout in seconds that stands for none.
_NO_LIMIT: Final = 2_000_000.0
_LINE: Final = 100


def query(
    ctx: typer.Context,
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY", help="A query in SQL, - to read one from stdin, or the name of a query of the cookbook."
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List the cookbook's queries; with a NAME, show that one.")
    ] = False,
    tables: Annotated[
        bool, typer.Option("--tables", help="List the views that can be asked; with a NAME, show its columns.")
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="|".join(FORMATS),
            help="Format of the rows; by default what the ending of the file says, else a table.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="File to write the rows to; - is stdout."),
    ] = "-",
    force: Force = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=0,
            help=f"At most this many rows. Without it, a table shows {_ROWS:,}, other formats have all.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.0, help="Give up after this many seconds; 0: no limit.")
    ] = 60.0,
    no_escape: Annotated[
        bool,
        typer.Option(
            "--no-escape",
            help="Write texts in CSV as they are, also those that begin with = + - @ and that a spreadsheet would take "
            "for formulas; else they get an apostrophe.",
        ),
    ] = False,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="A value for :NAME of the query; can be repeated."),
    ] = None,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Query the log, and what is computed from it, in SQL.

    Queries read the views of the schema analytics, which --tables lists; the schema's name may be left out. Nothing
    can be changed.

    A query may have parameters (:name). Where projections that it reads are behind the log, a line on stderr says so.

    Examples:
        worldledger sql "select kind, count(*) from effects group by kind order by 2 desc"
        worldledger sql --list
        worldledger sql --tables effects
        worldledger sql effects-by-kind --param experiment=first
        worldledger sql "table effects" -o effects.parquet
        worldledger sql - --format csv < question.sql
    """
    if listed:
        _list(query, form)
        return
    if tables:
        with database(target(ctx, database_url, home)) as url:
            run_blocking(_list_views(url, query, format_of(form, output), output, force=force))
        return
    if query is None:
        raise SimulationError('what is the question? worldledger sql "select …", or a name of `worldledger sql --list`')
    chosen = format_of(form, output)
    if limit is None and chosen == "table":
        limit = _ROWS
    given = dict(_read_param(text) for text in param or [])
    text, params = _question(query, given)
    where = target(ctx, database_url, home)
    with database(where) as url:
        asked = _ask(
            url,
            text,
            params,
            chosen,
            output,
            limit,
            timeout or _NO_LIMIT,
            own=where.settings.own_projections,
            escape=not no_escape,
            force=force,
            quiet=quiet,
        )
        run_blocking(asked)


async def _ask(
    url: str,
    text: str,
    params: dict[str, Any],
    form: Format,
    output: str,
    limit: int | None,
    timeout_s: float,
    *,
    own: str = "",
    escape: bool = True,
    force: bool,
    quiet: bool,
) -> None:
    from worldledger_service.database.analytics.asking import ask  # noqa: PLC0415 - slow to load; `--help` needs none of it

    connection = await _connected(url)
    try:
        if not quiet:
            await _tell_of_lag(connection, text, own)
        cells = FORMATS[form].cells
        with written(form, output, escape=escape, force=force) as writer:
            async with ask(
                connection, text, params, timeout_s=timeout_s, most=limit, cells=cells, idle_s=_NO_LIMIT
            ) as answer:
                writer.begin(answer.columns)
                async with aclosing(answer.batches()) as batches:
                    async for rows in batches:
                        writer.rows(rows)
                writer.end()
        if answer.is_cut:
            more = "--limit N for more, --format csv for all" if form == "table" else "--limit says so"
            say(f"there are more rows; these are the first {limit:,}: {more}")
        elif not quiet and not answer.rows and form == "table":
            say("there are no rows")
    except QueryRefusedError as error:
        raise SimulationError("\n".join(_told(error, text))) from error
    except QueryTimeoutError as error:
        raise SimulationError(f"{error.message}: --timeout {timeout_s * 4:g}, say") from error
    finally:
        await connection.close()


async def _connected(url: str) -> Connection:
    """Connect as a reader; a user without the reader's role connects as the service."""
    from worldledger_service.database.engine import connect_one  # noqa: PLC0415
    from worldledger_service.database.guards import READER_ROLE, SERVICE_ROLE  # noqa: PLC0415

    try:
        return await connect_one(url, role=READER_ROLE)
    except StoreUnavailableError as error:
        if error.details.get("sqlstate") != "42501":
            raise
        return await connect_one(url, role=SERVICE_ROLE)


async def _tell_of_lag(connection: Connection, text: str, own: str) -> None:
    """Report the query's projections that are behind the log, and what to do about it."""
    from worldledger_projections.registry import known  # noqa: PLC0415 - all rulesets; slow to load

    from worldledger_service.database.analytics.asking import lag_of  # noqa: PLC0415

    for lag in await lag_of(connection, text, known(own)):
        say(f"{lag}: {lag.todo}")


# -- questions ---------------------------------------------------------------------------------------------


def _question(query: str, given: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the text of a query and the values of its parameters."""
    if _NAME.match(query) and not _STATEMENT.match(query):
        named = _named(query)
        return named.sql, named.arguments(given)
    return (sys.stdin.read() if query == "-" else query), given


def _named(name: str) -> NamedQuery:
    """Return the cookbook's query of that name. Raises SimulationError with names that are like it."""
    from worldledger_service.database.analytics.cookbook import find  # noqa: PLC0415

    try:
        return find(name)
    except UnknownQueryError as error:
        guess = meant(near(name, error.details["known"])) or ": `worldledger sql --list` has all"
        raise SimulationError(f"there is no query {name!r}{guess}") from error


def _read_param(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise SimulationError(f"--param {text}: a parameter is NAME=VALUE")
    return name, value


def _told(error: QueryRefusedError, text: str) -> list[str]:
    """Return the error's message, the query's line with a caret under the place, and a hint."""
    lines = [error.message]
    number, column = error.details.get("line"), error.details.get("column")
    if number is not None and column is not None:
        line = text.split("\n")[number - 1].replace("\t", " ")
        start = max(0, column - 1 - _LINE // 2)
        lines += [f"  {line[start : start + _LINE]}", f"  {' ' * (column - 1 - start)}^"]
    if "hint" in error.details:
        lines.append(error.details["hint"])
    return lines


# -- the views ---------------------------------------------------------------------------------------------

_VIEWS: Final = """
select relname as view, obj_description(oid, 'pg_class') as "what it has" from pg_class
where relnamespace = 'analytics'::regnamespace and relkind = 'v' order by relname
"""
_COLUMNS: Final = """
select attname as column, format_type(atttypid, atttypmod) as type, col_description(attrelid, attnum) as "what it is"
from pg_attribute where attrelid = format('analytics.%I', :name::text)::regclass and attnum > 0 order by attnum
"""


async def _list_views(url: str, name: str | None, form: Format, output: str, *, force: bool) -> None:
    """List the views of the schema analytics, or the columns of one. Raises SimulationError for an unknown one."""
    if name is not None:
        connection = await _connected(url)
        try:
            known = [row["view"] for row in await connection.fetch(_VIEWS)]
        finally:
            await connection.close()
        if name not in known:
            guess = meant(near(name, known)) or ": `worldledger sql --tables` has all"
            raise SimulationError(f"there is no view {name!r}{guess}")
    text, params = (_VIEWS, {}) if name is None else (_COLUMNS, {"name": name})
    await _ask(url, text, params, form, output, None, _NO_LIMIT, force=force, quiet=True)


# -- the cookbook ------------------------------------------------------------------------------------------


def _list(name: str | None, form: str | None) -> None:
    from worldledger_service.database.analytics.cookbook import queries  # noqa: PLC0415

    found = list(queries().values()) if name is None else [_named(name)]
    if form == "json":
        put_bytes(json.dumps([_described(query) for query in found], ensure_ascii=False, indent=1).encode() + b"\n")
    elif name is None:
        rows = [(query.name, query.title, ", ".join(map(_short, query.parameters))) for query in found]
        put_rows(("QUERY", "WHAT IT TELLS", "PARAMETERS"), rows)
    else:
        _show(found[0])


def _show(query: NamedQuery) -> None:
    put_text(f"{query.title}. {query.description}")
    for parameter in query.parameters:
        default = "" if parameter.is_required else f", default {parameter.default or 'null'}"
        put_text(f"  --param {parameter.name}=… ({parameter.type}{default}): {parameter.description}")
    put("")
    for line in query.sql.strip().split("\n"):
        put(line)


def _short(parameter: Any) -> str:
    return parameter.name if parameter.is_required else f"[{parameter.name}]"


def _described(query: NamedQuery) -> dict[str, Any]:
    return {
        "name": query.name,
        "title": query.title,
        "description": query.description,
        "parameters": [vars(parameter) for parameter in query.parameters],
        "sql": query.sql.strip(),
    }
