"""How worlds stand, in a line each, for lists and titles: what their kinds say of rows of their projections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from worldledger.kinds import parts
from worldledger_service.store.reader import Row, ViewMissingError, fetch_views

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord


class Outcomes(NamedTuple):
    """How the worlds of a kind stand: `Kind.outcomes` names one.

    - ``statement``: SQL over the schema projections that returns a row with ``world_id`` for each world of the names in
      ``$1``, a ``text[]``. Worlds without a row have no outcome.
    - ``line``: what a row says, in one short line.
    """

    statement: str
    line: Callable[[Row], str]


async def outcomes(reader: Reader, worlds: Iterable[WorldRecord]) -> dict[str, str]:
    """Return how worlds stand, by name, as far as their projections have come: one query for each kind.

    Worlds are left out of which their kind has nothing to say, or whose projection is missing at the moment. Raises
    InvalidKindError if the part of an installed kind cannot be loaded; StoreUnavailableError.
    """
    names: dict[str, list[str]] = {}
    for world in worlds:
        names.setdefault(world.ruleset, []).append(world.world_id)
    found: dict[str, str] = {}
    for kind, told in parts("outcomes").items():
        if kind in names:
            with suppress(ViewMissingError):
                rows = await fetch_views(reader, told.statement, names[kind])
                found |= {row["world_id"]: told.line(row) for row in rows}
    return found
