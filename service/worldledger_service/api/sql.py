"""Questions in SQL over HTTP: the schema ``analytics``, read only, in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Depends
from pydantic import BeforeValidator, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from worldledger.errors import OverloadedError, QueryRefusedError
from worldledger_service.api.context import Services, services
from worldledger_service.api.openapi import Body, Shape, json_of, problems
from worldledger_service.api.parameters import once
from worldledger_service.api.problems import encode
from worldledger_service.api.reading import ARROW, accepts_arrow, begun, until_stopped
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.api.streaming import Stream
from worldledger_service.arrow.pool import needed
from worldledger_service.database.analytics import cookbook
from worldledger_service.database.analytics.asking import MAX_QUERY, Answer, Cells, ask
from worldledger_service.database.engine import connect_pool
from worldledger_service.database.guards import READER_ROLE
from worldledger_service.runtime.guarding import guarded

if TYPE_CHECKING:
    from worldledger_service.database.engine import Pool, PooledConnection


# -- shapes ------------------------------------------------------------------------------------------------


def _whole(value: Any) -> Any:
    """Return 3.0 as 3: to JSON Schema it is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class SqlQuestion(Body):
    """A question: either ``query`` or ``name``."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "query": "select kind, count(*) from effects where world_id = :world group by kind",
                    "params": {"world": "town"},
                },
                {"name": "effects-by-kind", "params": {"experiment": "trial"}},
            ],
            "oneOf": [
                {"required": ["query"], "properties": {"query": {"type": "string"}, "name": {"type": "null"}}},
                {"required": ["name"], "properties": {"name": {"type": "string"}, "query": {"type": "null"}}},
            ],
        },
    )

    query: Annotated[str, Field(json_schema_extra={"maxLength": MAX_QUERY})] | None = Field(
        default=None,
        description="One SELECT, WITH, VALUES, TABLE, EXPLAIN or SHOW over the schema `analytics`.",
    )
    name: str | None = Field(default=None, description="A query of the cookbook: see `GET /v1/queries`.")
    params: dict[str, Any] | list[Any] = Field(
        default_factory=dict, description="The values of `:name`, or a list of those of `$1`, `$2` …"
    )
    max_rows: Annotated[int, Field(ge=0), BeforeValidator(_whole)] | None = Field(
        default=None, description="Most rows to give; at most the setting `sql_max_rows`."
    )


class SqlColumn(Shape):
    """A column of an answer."""

    name: str
    type: str = Field(description="Its type as PostgreSQL names it.")


class SqlAnswer(Shape):
    """An answer: each row has a value for each column, in their order."""

    columns: list[SqlColumn]
    rows: list[list[Any]]
    is_cut: bool = Field(description="Whether there are more rows than were given.")


class QueryParameter(Shape):
    """A parameter of a query of the cookbook."""

    name: str
    type: str
    is_required: bool
    default: str | None
    description: str


class NamedQuery(Shape):
    """A query of the cookbook."""

    name: str
    title: str
    description: str
    parameters: list[QueryParameter]
    sql: str


class QueryList(Shape):
    """The queries that can be asked by name."""

    queries: list[NamedQuery]


# -- routes -------------------------------------------------------------------------------------------------


class _QueryRoute(ReadingRoute):
    """One whose body is a query."""

    @staticmethod
    def refused(reason: str, path: str) -> QueryRefusedError:
        """Make the error for a body."""
        return QueryRefusedError(reason, path=path)


router = APIRouter(route_class=_QueryRoute, tags=["analytics"], dependencies=[Depends(once)])

#: Where questions are asked.
PATH: Final = "/v1/sql"
#: Metadata of the last batch of an Arrow stream if there are more rows than were sent.
IS_CUT: Final = "worldledger.is_cut"
#: Bytes of an answer that are waited for before it begins: what goes wrong until then is answered with a problem.
_AT_LEAST: Final = 1024 * 1024


class _Question(NamedTuple):
    query: str
    params: Mapping[str, Any] | Sequence[Any]
    most: int


@router.post(
    PATH,
    operation_id="ask_in_sql",
    summary="Ask a question in SQL",
    response_class=Response,
    responses={
        200: {
            "description": "The rows, in the order of the query.",
            "content": {
                **json_of(SqlAnswer)["content"],
                ARROW: {"schema": {"type": "string", "format": "binary", "description": "An Arrow IPC stream."}},
            },
        },
        **problems(404, 413, 415, 422, 501, 503, 504),
    },
)
async def ask_in_sql(request: Request, body: SqlQuestion) -> Response:
    """Run one SELECT over the schema `analytics`, or a query of the cookbook by its name, and give its rows.

    It is read-only, and bounded by the settings `sql_timeout` and `sql_max_rows`. As JSON, `is_cut` says whether there
    are more rows than were given; with `Accept: application/vnd.apache.arrow.stream` the answer is an Arrow IPC
    stream, whose last batch then has the metadata `worldledger.is_cut`. If something goes wrong on the way the
    connection is cut.
    """
    found = services(request)
    question = _question(body, found.settings.sql_max_rows)
    as_arrow = accepts_arrow(request)
    outages = found.store.outages
    with outages.watchdog.asked():
        source = await guarded(outages, begun((_arrow if as_arrow else _json)(found, question), 1, _AT_LEAST))
    headers = {"Cache-Control": "no-store", "Vary": "Accept"}
    return Stream(until_stopped(source, found.stopping), ARROW if as_arrow else "application/json", headers)


@router.get(
    "/v1/queries",
    operation_id="list_queries",
    summary="The cookbook: queries with names",
    response_class=Response,
    responses={200: {**json_of(QueryList), "description": "All of them, by name."}, **problems()},
)
async def list_queries(request: Request) -> Response:
    """Return the queries that `POST /v1/sql` takes by name, with their parameters and their SQL."""
    listed = [
        {
            "name": query.name,
            "title": query.title,
            "description": query.description,
            "parameters": [
                {
                    "name": parameter.name,
                    "type": parameter.type,
                    "is_required": parameter.is_required,
                    "default": parameter.default,
                    "description": parameter.description,
                }
                for parameter in query.parameters
            ],
            "sql": query.sql,
        }
        for query in cookbook.queries().values()
    ]
    return Response(encode({"queries": listed}), 200, {}, "application/json")


def _question(body: SqlQuestion, bound: int) -> _Question:
    """Return what is to be asked. Raises QueryRefusedError, whose path says where it is wrong, or UnknownQueryError."""
    query, params = body.query, body.params
    if (query is None) == (body.name is None):
        raise QueryRefusedError("give either query, a SELECT, or name, one of GET /v1/queries", path="$")
    if body.name is not None:
        named = cookbook.find(body.name)
        if not isinstance(params, dict):
            raise QueryRefusedError("the parameters of a query with a name have names", path="$.params")
        query, params = named.sql, named.arguments(params)
    return _Question(str(query), params, bound if body.max_rows is None else min(body.max_rows, bound))


@asynccontextmanager
async def _asked(found: Services, question: _Question, cells: Cells) -> AsyncIterator[Answer]:
    """Ask a question over a connection of the reader's; see `ask`."""
    query, params, most = question
    async with found.sql.connection() as connection:
        timeout_s = found.settings.sql_timeout
        async with ask(connection, query, params, timeout_s=timeout_s, most=most, cells=cells) as answer:
            yield answer


async def _json(found: Services, question: _Question) -> AsyncGenerator[bytes, None]:
    async with _asked(found, question, "json") as answer:
        shown = [{"name": name, "type": kind} for name, kind in answer.columns]
        yield b'{"columns":' + encode(shown) + b',"rows":['
        before = ""
        async for rows in answer.batches():
            lines = ",".join([f"[{','.join(['null' if cell is None else cell for cell in row])}]" for row in rows])
            yield f"{before}{lines}".encode()
            before = ","
        yield b'],"is_cut":%b}' % (b"true" if answer.is_cut else b"false")


async def _arrow(found: Services, question: _Question) -> AsyncGenerator[bytes, None]:
    with needed():
        from worldledger_service.arrow.ipc import (  # noqa: PLC0415 - large, and not always installed
            Encoder,
            batch_of,
            schema_of,
        )

    async with _asked(found, question, "plain") as answer:
        schema = schema_of(answer.columns)
        encoder = Encoder(schema)
        yield encoder.taken()
        async for rows in answer.batches():
            yield encoder.batch(batch_of(schema, rows))
        if answer.is_cut:
            yield encoder.batch(batch_of(schema, []), {IS_CUT: "true"})
        yield encoder.end()


# -- the connections that questions are asked on: few, and none that the log needs -------------------------

#: Most questions at once, and the seconds for which a further one waits.
MOST: Final = 4
_PATIENCE: Final = 5.0


class SqlPool:
    """Lends connections under the reader's role; the first one is opened on demand."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opening = asyncio.Lock()
        self._pool: Pool | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[PooledConnection]:
        """Lend one. Raises OverloadedError where all are in use, StoreUnavailableError where the database is away."""
        async with self._opening:
            if self._pool is None:
                self._pool = await connect_pool(
                    self._url, role=READER_ROLE, max_size=MOST, command_timeout=None, application_name="worldledger sql"
                )
        try:
            connection = await self._pool.acquire(timeout=_PATIENCE)
        except TimeoutError:
            raise OverloadedError(f"{MOST} questions are being answered, the most at once: try again") from None
        try:
            yield connection
        finally:
            await self._pool.release(connection)

    async def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            await self._pool.close()
