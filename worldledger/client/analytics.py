"""Questions in SQL to a service, and its answers as rows, Arrow or dataframes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from worldledger.client.frames import Frame
from worldledger.client.transport import Transport
from worldledger.columns import unique_names
from worldledger.errors import QueryRefusedError

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
