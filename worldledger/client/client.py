"""The client: worlds of a service, from any program that can reach it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import httpx2

from worldledger.client.frames import Frame
from worldledger.client.transport import Transport, moment_params, path_of
from worldledger.client.world import RemoteWorld
from worldledger.errors import QueryRefusedError
from worldledger.moments import AUTO
from worldledger.names import unique_names

# -- questions in SQL to a service, and its answers as rows, Arrow or dataframes --------------------------


#: The form of a query's name: SQL has spaces.
_NAME: Final = re.compile(r"[\w-]+\Z")
_IS_CUT: Final = b"worldledger.is_cut"


class Question(Frame):
    """A question; each awaited method asks anew. Without ``max_rows`` the answer is complete, or an error."""

    def __init__(
        self,
        transport: Transport,
        query: str,
        params: Mapping[str, Any] | Sequence[Any] | None,
        max_rows: int | None,
    ) -> None:
        body: dict[str, Any] = {"name" if _NAME.match(query) else "query": query, "params": params or {}}
        if max_rows is not None:
            body["max_rows"] = max_rows
        super().__init__(transport, "POST", "/v1/sql", body=body)
        self._max_rows = max_rows

    async def rows(self) -> list[dict[str, Any]]:
        """Return the answer as rows of JSON values, by column. This needs no Arrow.

        If several columns have one name, the second is called ``name_2``. Raises QueryRefusedError for an invalid
        question, QueryTimeoutError for one that takes too long, and UnknownQueryError.
        """
        answer = (await self._transport.call("POST", "/v1/sql", body=self._body)).value
        if answer["is_cut"]:
            self._refuse_cut(len(answer["rows"]))
        names = unique_names(column["name"] for column in answer["columns"])
        return [dict(zip(names, row, strict=True)) for row in answer["rows"]]

    def _told(self, metadata: Mapping[bytes, bytes]) -> None:
        if _IS_CUT in metadata:
            self._refuse_cut(None)

    def _refuse_cut(self, rows: int | None) -> None:
        if self._max_rows is None:
            many = "more rows than the service gives" if rows is None else f"more than the {rows} rows that are given"
            raise QueryRefusedError(f"the answer has {many}: ask for less, or give max_rows to have its beginning")


class Client(RemoteWorld):
    """One world of the service at ``url``: an async context manager, to be used on one event loop.

    ``url`` begins with http:// or https:// and names a host; any other raises ValueError.

    ``timeout``: seconds that an answer over HTTP may take. ``patience``: seconds for which a call retries a service
    that cannot be reached, or says that it gets too many requests, before it raises ServiceUnavailableError or
    RateLimitedError; calls over an agent's own connection wait for it without limit. ``max_queued``: most observations
    that wait for a reader before they are collapsed.
    """

    def __init__(
        self,
        url: str,
        world_id: str = "default",
        *,
        timeout: float = 60.0,
        patience: float = 10.0,
        max_queued: int = 1000,
    ) -> None:
        super().__init__(Transport(url, timeout=timeout, patience=patience), world_id, max_queued=max_queued)
        self._worlds: dict[str, RemoteWorld] = {}

    @property
    def url(self) -> str:
        """The service's address."""
        return self._transport.url

    def world(self, world_id: str) -> RemoteWorld:
        """Return another world of the service, over the same connections; the same object for the same name."""
        if world_id == self.world_id:
            return self
        if world_id not in self._worlds:
            self._worlds[world_id] = RemoteWorld(self._transport, world_id, max_queued=self._max_queued)
        return self._worlds[world_id]

    def effects(
        self,
        *,
        world: str | None = None,
        experiment: str | None = None,
        kind: str | None = None,
        source_id: str | None = None,
        after_seq: int = 0,
        until_seq: int | None = None,
    ) -> Frame:
        """Return effects of the service's worlds as a table: all of them, unless something narrows them down.

        They are ordered by world_id and global_seq, without gaps; a world's part ends at its head of the moment when
        the table is asked for. ``after_seq`` and ``until_seq`` need ``world``. Nothing is read before a method of the
        Frame is awaited: ``await client.effects(world="town").to_polars()``. The columns are in
        docs/how-to-dataframes.md; ``payload`` is the stored JSON text.
        """
        params = {
            "world": world,
            "experiment": experiment,
            "kind": kind,
            "source_id": source_id,
            "after_seq": after_seq or None,
            "until_seq": until_seq,
        }
        given = {name: value for name, value in params.items() if value is not None}
        return Frame(self._transport, "GET", "/v1/effects", params=given)

    def sql(
        self, query: str, params: Mapping[str, Any] | Sequence[Any] | None = None, *, max_rows: int | None = None
    ) -> Question:
        """Ask a question in SQL over the schema ``analytics``, or one of the cookbook by its name.

        ``params`` has the values of ``:name``, or those of ``$1``, ``$2`` … Nothing is asked before a method of the
        Question is awaited: ``await client.sql("select count(*) from effects").rows()``. ``max_rows``: return at most
        this many rows, instead of an error if there are more than the service allows.
        """
        return Question(self._transport, query, params, max_rows)

    async def compare(
        self,
        *worlds: str,
        by: str = AUTO,
        ignore: Sequence[str] = (),
        view: str | None = None,
        group: str | None = None,
    ) -> dict[str, Any]:
        """Return where runs part, two by two, and their measures side by side: the object of ``GET /v1/compare``.

        ``worlds`` are 2 to 20 of one kind, ``by`` what their effects are aligned by, ``ignore`` paths that make no
        difference (``payload.clock``), ``view`` an agent whose views of two worlds to compare, ``group`` what measures
        are grouped by (docs/how-to-compare.md). Raises NotComparableError, WorldNotFoundError or UnknownAgentError.
        """
        params: dict[str, Any] = {"world": [*worlds], "by": by, "ignore": [*ignore], "view": view, "group": group}
        given = {name: value for name, value in params.items() if value not in (None, [])}
        found: dict[str, Any] = (await self._transport.call("GET", "/v1/compare", params=given)).value
        return found

    async def compare_moments(self, a: str, b: str, *, agent: str | None = None, truth: bool = False) -> dict[str, Any]:
        """Return where the states at two moments differ, each ``WORLD@MOMENT``, or what an agent saw at each.

        With ``truth`` it is both. Raises WorldNotFoundError, MomentNotFoundError or UnknownAgentError.
        """
        params: dict[str, Any] = {"a": a, "b": b, **({} if agent is None else {"agent": agent})}
        if truth:
            params["truth"] = "true"
        found: dict[str, Any] = (await self._transport.call("GET", "/v1/compare/moments", params=params)).value
        return found

    async def report(self, world: str, *, at: str = "head") -> str:
        """Return the report of a world up to a moment: a page of HTML that needs nothing else.

        It is what ``worldledger report WORLD --at MOMENT`` writes (docs/how-to-report.md). Raises WorldNotFoundError,
        MomentNotFoundError, ExtraMissingError where the service cannot draw, and ServiceUnavailableError.
        """
        path, params = path_of("v1", "worlds", world, "report"), moment_params(None, at)
        async with self._transport.stream("GET", path, accept="text/html", params=params) as response:
            try:
                return (await response.aread()).decode()
            except httpx2.TransportError as error:
                raise self._transport.cut_off(error) from error

    async def queries(self) -> list[dict[str, Any]]:
        """Return the named queries: name, title, description, parameters, sql."""
        found: list[dict[str, Any]] = (await self._transport.call("GET", "/v1/queries")).value["queries"]
        return found

    async def close(self) -> None:
        """Close all connections; generations that are live are cancelled, handles and subscriptions end."""
        for world in (self, *self._worlds.values()):
            await world.shut()
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
