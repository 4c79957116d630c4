"""The status of projections. Its cost grows with what is due, not with the number of worlds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import orjson
from worldledger_projections.base import Projection
from worldledger_projections.tables import Table

from worldledger_service.projecting import statements
from worldledger_service.projecting.runner import reading

if TYPE_CHECKING:
    from asyncpg import Record


#: The advice about a projection that is in the database, but not in the program.
NAMED: Final = "one of your own is named by --projection MODULE:CLASS or WORLDLEDGER_OWN_PROJECTIONS"


@dataclass(frozen=True, slots=True)
class BuildStatus:
    """One build of a projection.

    - ``worlds_behind``, ``effects_behind``, ``seconds_behind``: in how many worlds effects are due, how many, and for
      how long the first of them has been (None if nothing is due, or it was not noted yet). Worlds that are set aside
      are not counted: they are ``parked``, or ``skipped`` because their kind is not installed. A build that is
      ``scanning`` has not visited every world yet.
    - ``effects_done`` of ``effects_total``: the progress of a build; it may exceed the total, which was counted at the
      beginning.
    - ``holder``: the holder of the lease, which may have died.
    - ``held_back``: why a build is not written, or does not take over though it has caught up; as far as is known.
    """

    build: str
    version: int
    paused: bool
    scanning: bool
    worlds_behind: int
    effects_behind: int
    seconds_behind: float | None
    parked: int
    skipped: int
    effects_total: int | None
    effects_done: int
    started_at: datetime
    finished_at: datetime | None
    holder: str | None
    check_report: dict[str, Any] | None
    held_back: str | None

    @property
    def set_aside(self) -> int:
        """The number of worlds that are parked or skipped."""
        return self.parked + self.skipped


@dataclass(frozen=True, slots=True)
class ProjectionStatus:
    """One projection: ``version`` is this program's, None if it has none of that name; ``note`` is for operators."""

    name: str
    version: int | None
    live: BuildStatus | None
    building: BuildStatus | None
    note: str | None


@dataclass(frozen=True, slots=True)
class ParkedWorld:
    """A world that a build has set aside: the effect, and the error."""

    projection: str
    build: str
    world_id: str
    global_seq: int
    kind: str | None
    error: str
    attempts: int
    parked_at: datetime


@dataclass(frozen=True, slots=True)
class MissingKind:
    """A ruleset that is not installed, and the number of worlds that are skipped for want of it."""

    ruleset: str
    worlds: int
    error: str


async def status_of(
    pool: Any, projections: Mapping[str, Projection], builds: Iterable[Any], held_back: Mapping[str, str]
) -> list[ProjectionStatus]:
    """Return the status of every projection of this program, and of those that only the database knows."""
    tables = [Table(projections[build.projection], build.name) for build in builds if build.projection in projections]
    rows = await pool.fetch(statements.STATUS, *reading(tables))
    lives = {row["projection"]: row for row in rows if row["status"] == "live"}
    found: dict[str, dict[str, BuildStatus]] = {name: {} for name in projections}
    for row in rows:
        why = held_back.get(row["build"])
        live = lives.get(row["projection"])
        if why is None and row["status"] == "building" and live is not None:
            if row["parked"] and not live["parked"]:
                why = f"{row['parked']} worlds are parked in it: retry them, or cancel the build"
            elif row["skipped"] and not live["skipped"]:
                why = f"{row['skipped']} worlds are skipped in it: install their kind, or cancel the build"
        found.setdefault(row["projection"], {})[row["status"]] = _build(row, why)
    return [_projection(name, projections.get(name), of_name) for name, of_name in sorted(found.items())]


def _build(row: Record, held_back: str | None) -> BuildStatus:
    return BuildStatus(
        build=row["build"],
        version=row["version"],
        paused=row["paused"],
        scanning=row["scanning"],
        worlds_behind=row["worlds"],
        effects_behind=row["effects"],
        seconds_behind=row["seconds"],
        parked=row["parked"],
        skipped=row["skipped"],
        effects_total=row["effects_total"],
        effects_done=row["effects_done"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        holder=row["holder"],
        check_report=_report(row["check_report"]),
        held_back=held_back,
    )


def _report(text: str | None) -> dict[str, Any] | None:
    """Return what the last check found; None if it cannot be read, which another check replaces."""
    try:
        report = None if text is None else orjson.loads(text)
    except ValueError:
        return None
    return report if isinstance(report, dict) else None


def _projection(name: str, projection: Projection | None, builds: Mapping[str, BuildStatus]) -> ProjectionStatus:
    live = builds.get("live")
    newest = max((build.version for build in builds.values()), default=0)
    note = None
    if projection is None:
        note = f"this program does not have it; {NAMED}"
    elif newest > projection.version:
        note = f"a newer program feeds it: version {newest}, this program has {projection.version}"
    elif live is None:
        note = "it has no live build yet: no runner has been started"
    elif live.version < projection.version:
        note = f"version {live.version} is live until version {projection.version} has caught up"
    return ProjectionStatus(
        name=name,
        version=None if projection is None else projection.version,
        live=live,
        building=builds.get("building"),
        note=note,
    )
