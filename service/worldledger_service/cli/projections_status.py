"""``worldledger projections status``: how far the projections are behind the logs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from worldledger_service.cli.connect import own, target
from worldledger_service.cli.feeding import Feeding, every_name, with_projections
from worldledger_service.cli.moments import shown_duration
from worldledger_service.cli.options import DatabaseUrl, Home, Json, OwnProjections, examples
from worldledger_service.cli.output import json_list, plain, put
from worldledger_service.cli.rows import put_rows

if TYPE_CHECKING:
    from worldledger_service.projecting.engine import BuildStatus, ParkedWorld, ProjectionStatus

EXAMPLES = examples(
    "worldledger projections status",
    "worldledger projections status entities world_summaries",
    "worldledger projections status --json | jq '.[] | select(.live.parked > 0)'",
)

_HEADER: Final = ("PROJECTION", "VERSION", "STATE", "BEHIND", "PARKED", "LAST CHECK")
#: Parked worlds of one projection that are shown.
_PARKED: Final = 100


def command(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Only these projections.", show_default=False)
    ] = None,
    as_json: Json = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Show how each projection stands: which version people read, how far it is behind, and what is being built.

    BEHIND are the effects that are in the logs and not yet in the projection. PARKED are worlds that it has set
    aside because of an effect that it could not digest; they are listed below, each with what is the matter.
    """
    where = target(ctx, database_url, home, own_projections=own(projection))
    with_projections(where, every_name(where), lambda feeding: _show(feeding, names or [], as_json=as_json))


async def _show(feeding: Feeding, wanted: list[str], *, as_json: bool) -> None:
    every = await feeding.do(feeding.engine.status())
    there = {status.name for status in every}
    for name in wanted:
        if name not in there:
            feeding.engine.check(name)
    found = [status for status in every if not wanted or status.name in wanted]
    parked = {status.name: await feeding.do(feeding.engine.parked(status.name, _PARKED)) for status in found}
    if as_json:
        with json_list() as item:
            for status in found:
                item(_object(status, parked.get(status.name, [])))
        return
    put_rows(_HEADER, [_row(status) for status in found])
    for status in found:
        for line in (*_remarks(status), *map(_parked, parked.get(status.name, []))):
            put(f"{status.name}: {line}")


def _row(status: ProjectionStatus) -> tuple[str, ...]:
    live, building = status.live, status.building
    version = str(live.version) if live is not None else "-"
    if building is not None and (live is None or building.version != live.version):
        version += f", then {building.version}"
    return (
        status.name,
        version,
        _state(live, building),
        "-" if live is None else _behind(live),
        "-" if live is None else str(live.parked),
        "-" if live is None else _checked(live),
    )


def _state(live: BuildStatus | None, building: BuildStatus | None) -> str:
    if live is None:
        return "never built"
    state = "paused" if live.paused else f"filling {percent(live)}" if live.scanning else "live"
    if building is None:
        return state
    return f"{state}, rebuilding {percent(building)}" + (" (paused)" if building.paused else "")


def percent(build: BuildStatus) -> str:
    """Tell how far a build has come; there may be more to read than there was when it began."""
    if not build.effects_total:
        return f"{build.effects_done} effects"
    return f"{min(100 * build.effects_done // build.effects_total, 100)} %"


def _behind(build: BuildStatus) -> str:
    if not build.effects_behind:
        return "0"
    since = "" if build.seconds_behind is None else f", since {shown_duration(build.seconds_behind)}"
    worlds = "1 world" if build.worlds_behind == 1 else f"{build.worlds_behind} worlds"
    return f"{build.effects_behind} in {worlds}{since}"


def _checked(build: BuildStatus) -> str:
    report = build.check_report
    if report is None:
        return "-"
    when = report.get("checked_at")
    at = datetime.fromisoformat(when).astimezone().strftime("%Y-%m-%d %H:%M") if isinstance(when, str) else ""
    return f"{'verified' if report.get('verified') else 'DIFFERS'} {at}".rstrip()


def _remarks(status: ProjectionStatus) -> list[str]:
    held_back = status.building.held_back if status.building is not None else None
    paused = None
    if status.live is not None and status.live.paused:
        paused = f"it is paused: `worldledger projections resume {status.name}` lets it go on"
    return [plain(remark) for remark in (paused, status.note, held_back) if remark is not None]


def _parked(world: ParkedWorld) -> str:
    times = "once" if world.attempts == 1 else f"{world.attempts} times"
    kind = f" ({world.kind})" if world.kind else ""
    return f"world {world.world_id} is parked at seq {world.global_seq}{kind}, tried {times}: {world.error}"


def _object(status: ProjectionStatus, parked: list[ParkedWorld]) -> dict[str, Any]:
    return {**_plain(asdict(status)), "parked_worlds": [_plain(asdict(world)) for world in parked]}


def _plain(value: Any) -> Any:
    """Return a value that JSON has."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value.isoformat() if isinstance(value, datetime) else value
