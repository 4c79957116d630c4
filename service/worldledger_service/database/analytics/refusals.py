"""From what PostgreSQL says of somebody's query to what helps them: where it goes wrong, and what to do about it."""

from __future__ import annotations

import re
from typing import Final

import asyncpg

from worldledger.errors import QueryRefusedError, SimulationError, StoreUnavailableError
from worldledger.near import near
from worldledger_service.database.analytics.parameters import Placed
from worldledger_service.database.analytics.views import VIEWS

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
        return StoreUnavailableError(f"the database could not run the query ({said}): try again", sqlstate=state)
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

    found = _NAMED.search(said)
    if found is None:
        return None
    name = found[1]
    views = {view.name for view in VIEWS}
    if name in views:
        return f"ask analytics.{name} instead"
    projections = known().values()
    published = {each.name for each in projections if each.published is not None}
    published |= {view.name for each in projections for view in each.views if view.schema == ANALYTICS}
    if name in published:
        if said.startswith("permission"):
            return f"ask analytics.{name} instead"
        return f"analytics.{name} is there once somebody feeds the projections: run `worldledger project`"
    alike = near(name, sorted(views | published))
    return f"did you mean {' or '.join(alike)}? {_WHERE}" if alike else None


def lost(error: Exception) -> SimulationError:
    """Return the error of a connection that is no more."""
    return StoreUnavailableError(f"the connection of the query was lost ({error}): try again")
