"""``worldledger sql``: questions in SQL, of one's own or from the cookbook."""

from __future__ import annotations

import json
import re
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from worldledger.errors import (
    QueryRefusedError,
    QueryTimeoutError,
    SimulationError,
    StoreUnavailableError,
    UnknownQueryError,
)
from worldledger.near import meant, near
from worldledger_service.cli.connect import database, target
from worldledger_service.cli.options import DatabaseUrl, Force, Home, Quiet, examples
from worldledger_service.cli.output import put, put_bytes, say
from worldledger_service.cli.rows import put_rows
from worldledger_service.cli.sql_formats import FORMATS, Format, format_of, written
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger_service.database.analytics.cookbook import NamedQuery
    from worldledger_service.database.engine import Connection

EXAMPLES = examples(
    'worldledger sql "select kind, count(*) from effects group by kind order by 2 desc"',
    "worldledger sql --list",
    "worldledger sql --tables effects",
    "worldledger sql effects-by-kind --param experiment=first",
    'worldledger sql "table effects" -o effects.parquet',
    "worldledger sql - --format csv < question.sql",
)

#: What is no query but the name of one.
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
#: Words with which statements begin: one of them alone is a query, which the database refuses with its reason.
#: Source: PostgreSQL documentation, "SQL Commands".
_STATEMENT: Final = re.compile(
    r"(abort|alter|analyze|begin|call|checkpoint|close|cluster|comment|commit|copy|create|deallocate|declare|delete"
    r"|discard|do|drop|end|execute|explain|fetch|grant|import|insert|listen|load|lock|merge|move|notify|prepare"
    r"|reassign|refresh|reindex|release|reset|revoke|rollback|savepoint|security|select|set|show|start|table"
    r"|truncate|unlisten|update|vacuum|values|with)\Z"
)
#: Rows of a table, where nothing is said: who wants more wants a file.
_ROWS: Final = 1000
#: As long as nobody waits.
_NO_LIMIT: Final = 2_000_000.0
_LINE: Final = 100


def command(
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
    """Connect as a reader; who works for the service and is none asks as the service does."""
    from worldledger_service.database.engine import connect_one  # noqa: PLC0415
    from worldledger_service.database.guards import READER_ROLE, SERVICE_ROLE  # noqa: PLC0415

    try:
        return await connect_one(url, role=READER_ROLE)
    except StoreUnavailableError as error:
        if error.details.get("sqlstate") != "42501":
            raise
        return await connect_one(url, role=SERVICE_ROLE)


async def _tell_of_lag(connection: Connection, text: str, own: str) -> None:
    """Say which projections of those that the query names do not hold all of the log, and what to do about it."""
    from worldledger_projections.registry import known  # noqa: PLC0415 - all rulesets; slow to load

    from worldledger_service.database.analytics.lag import lag_of  # noqa: PLC0415

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
    """Return what is wrong, the line of the query in which it is, a caret under the place, and what helps."""
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
    put(f"{query.title}. {query.description}")
    for parameter in query.parameters:
        default = "" if parameter.is_required else f", default {parameter.default or 'null'}"
        put(f"  --param {parameter.name}=… ({parameter.type}{default}): {parameter.description}")
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
