"""Whether what a query reads is up to date: the projections that it names, and how far they are behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from worldledger_service.database.analytics.asking import ask, words

if TYPE_CHECKING:
    from worldledger_projections.base import Projection

    from worldledger_service.database.engine import Connection, Pool, PooledConnection

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
