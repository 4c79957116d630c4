"""The whole report: what an experiment contains decides what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from worldledger_projections.registry import known

from worldledger.errors import SimulationError
from worldledger.kinds import installed
from worldledger_service.report import experiment, queries
from worldledger_service.report.blocks import KindSection, Report
from worldledger_service.report.snapshot import Snapshot, snapshot
from worldledger_service.report.wording import counted, listed
from worldledger_service.store.reader import storable

if TYPE_CHECKING:
    from asyncpg import Record

#: About how many questions there are, for who shows progress.
QUESTIONS: Final = 34
_NAMED: Final = 3


@cache
def sections_of_kinds() -> Mapping[str, KindSection]:
    """Return what installed kinds have to say of their worlds, by ruleset. Raises InvalidKindError."""
    return {kind.name: kind.load("report") for kind in installed().values() if kind.report is not None}


async def make_report(url: str, name: str, *, asked: Callable[[int], object] = lambda number: None) -> Report:
    """Read everything that there is to say of an experiment, at one moment.

    ``asked`` is told the number of each question. Raises SimulationError for an experiment that is not there, naming
    those that are spelt alike, and for one of which the projections have nothing yet; StoreUnavailableError or
    SchemaVersionError for a database that cannot be asked.
    """
    views = sorted({view for section in sections_of_kinds().values() for view in section.views})
    async with snapshot(url, views, asked=asked) as (opened, there):
        read_at = await opened.value(queries.NOW)
        rulesets = await opened.rows(queries.RULESETS, name) if storable(name) else []
        if not rulesets:
            raise await _unknown(opened, name)
        behind, todo = await _behind(opened, name, rulesets, there)
        sections = [await experiment.worlds(opened, name, rulesets), await experiment.effects(opened, name)]
        for ruleset, (make, read) in sections_of_kinds().items():
            if there.issuperset(read) and any(row["ruleset"] == ruleset for row in rulesets):
                sections.append(await make(opened, name))
        facts = await experiment.facts(opened, name, rulesets)
    return Report(name, read_at, version("worldledger"), facts, [*sections[2:], *sections[:2]], behind, todo)


async def _unknown(opened: Snapshot, name: str) -> SimulationError:
    there = [row["experiment"] for row in await opened.rows(queries.EXPERIMENTS)]
    if not there:
        what = "there are no experiments; `worldledger import … --experiment NAME` and `world create` make some"
        return SimulationError(f"there is no experiment {name!r}: {what}", experiment=name)
    folded = {other.casefold(): other for other in reversed(there)}
    close = [folded[other] for other in get_close_matches(name.casefold(), folded, _NAMED)]
    meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else "; see `worldledger worlds`"
    return SimulationError(f"there is no experiment {name!r}{meant}", experiment=name, close=close)


# -- what projections lack -----------------------------------------------------------------------------------


async def _behind(
    opened: Snapshot, name: str, rulesets: list[Record], there: frozenset[str]
) -> tuple[list[str], list[str]]:
    """Say what the projections lack, and which commands change that.

    Raises SimulationError where they have nothing of the experiment yet.
    """
    worlds = {row["ruleset"]: row["worlds"] for row in rulesets if row["ruleset"] in sections_of_kinds()}
    needed = dict(_needed(worlds))
    missing = [view for view in needed if view not in there]
    read = [view for view in needed if view in there]
    rows = await opened.rows(queries.BEHIND, name, read, [_rulesets_of(view) for view in read])
    unread = {row["projection"] for row in rows if row["unread"] == needed[row["projection"]]}
    paused = [row["projection"] for row in rows if row["is_paused"]]
    todo = [f"worldledger projections resume {' '.join(paused)}"] if paused else []
    if missing or len(paused) < len(rows):
        todo.append("worldledger project --once")
    if needed and {*missing, *unread} == set(needed):
        commands = " and ".join(f"`{command}`" for command in todo)
        what = f"the projections have read nothing of {name!r} yet: run {commands} first"
        raise SimulationError(what, experiment=name)
    found = [f"{listed(missing)}: not made yet"] if missing else []
    for row in rows:
        text = f"{row['projection']}: {counted(row['effects'], 'effect')} behind in {counted(row['worlds'], 'world')}"
        if row["parked"]:
            text += f", {row['parked']:,} of them parked"
        found.append(f"{text} (paused)" if row["is_paused"] else text)
    return found, todo


def _needed(worlds: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Return the projections that are read, each with the number of worlds that it reads of the experiment."""
    for ruleset, count in worlds.items():
        for view in sections_of_kinds()[ruleset].views:
            if view in known():
                yield view, count


def _rulesets_of(projection: str) -> str | None:
    rulesets = known()[projection].rulesets
    return None if rulesets is None else " ".join(sorted(rulesets))
