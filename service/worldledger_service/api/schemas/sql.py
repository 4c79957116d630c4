"""The shapes of questions in SQL and of their answers."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from worldledger_service.api.schemas.base import Shape


class SqlQuestion(Shape):
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

    query: str | None = Field(
        default=None, description="One SELECT, WITH, VALUES, TABLE, EXPLAIN or SHOW over the schema `analytics`."
    )
    name: str | None = Field(default=None, description="A query of the cookbook: see `GET /v1/queries`.")
    params: dict[str, Any] | list[Any] = Field(
        default_factory=dict, description="The values of `:name`, or a list of those of `$1`, `$2` …"
    )
    max_rows: int | None = Field(
        default=None, ge=0, description="Most rows to give; at most the setting `sql_max_rows`."
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
