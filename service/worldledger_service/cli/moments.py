"""Moments of a world on the command line; `worldledger.moments` says how they are written."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from worldledger.errors import MomentNotFoundError
from worldledger.moments import (
    HEAD,
    Moment,
    UnreadableMomentError,
    moment_rule,
    parse_moment,
    parse_number,
    parse_place,
    parse_wall_time,
)

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord

T = TypeVar("T")

__all__ = [
    "HEAD",
    "At",
    "AtSeq",
    "AtSimTime",
    "AtTurn",
    "AtWallTime",
    "Moment",
    "first_place_from",
    "first_seq_from",
    "moment_rule",
    "named_place",
    "named_places",
    "one_moment",
    "place_of",
    "read_moment",
    "read_number",
    "read_wall_time",
    "seq_of",
    "shown_duration",
    "shown_wall_time",
]

At = Annotated[
    str | None,
    typer.Option("--at", metavar="MOMENT", help=f"At this moment: {moment_rule()}.", show_default="head"),
]


def _older(*names: str, metavar: str) -> Any:
    """Return an option of earlier versions, which `--at` has replaced."""
    return typer.Option(*names, metavar=metavar, hidden=True)


AtSeq = Annotated[int | None, _older("--at-seq", metavar="N")]
AtSimTime = Annotated[str | None, _older("--at-sim-time", metavar="T")]
AtWallTime = Annotated[str | None, _older("--at-wall-time", metavar="ISO8601")]
AtTurn = Annotated[int | None, _older("--turn", "--at-turn", metavar="T")]


def read_moment(text: str, name: str) -> Moment:
    """Read a moment; ``name`` is the argument's. Raises BadParameter."""
    return _read(parse_moment, text, name)


def read_number(text: str, name: str) -> float:
    """Read a finite number. Raises BadParameter."""
    return _read(parse_number, text, name)


def read_wall_time(text: str, name: str) -> float:
    """Read an ISO 8601 time with its offset from UTC; return epoch seconds. Raises BadParameter."""
    return _read(parse_wall_time, text, name)


def _read(parse: Callable[[str], T], text: str, name: str) -> T:
    try:
        return parse(text)
    except UnreadableMomentError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{name}'") from None


def one_moment(
    at: str | None,
    *,
    seq: int | None = None,
    sim_time: str | None = None,
    wall_time: str | None = None,
    **units: int | None,
) -> Moment:
    """Return the moment that `--at` or one of the older options names: without any, the head.

    Raises BadParameter if it is no moment, or if more than one option is given.
    """
    given = [
        *([] if at is None else [read_moment(at, "--at")]),
        *([] if seq is None else [Moment(seq=seq)]),
        *([] if sim_time is None else [Moment(sim_time=read_number(sim_time, "--at-sim-time"))]),
        *([] if wall_time is None else [Moment(wall_time=read_wall_time(wall_time, "--at-wall-time"))]),
        *(Moment(unit=(name, number)) for name, number in units.items() if number is not None),
    ]
    if len(given) > 1:
        raise typer.BadParameter("one moment, please: --at names it")
    return given[0] if given else HEAD


def named_place(text: str, moment: Moment = HEAD) -> tuple[str, Moment]:
    """Return the world and the moment of ``WORLD@MOMENT``; of a world alone the ``moment`` that options have named.

    Raises BadParameter if it is no moment, or if options have named another one.
    """
    world, own = _read(parse_place, text, text)
    if own is not None and moment != HEAD:
        raise typer.BadParameter(f"one moment, please: {text!r} names one, and so does an option")
    return world, moment if own is None else own


def named_places(a: str, b: str, moment: Moment = HEAD) -> tuple[tuple[str, Moment], tuple[str, Moment]]:
    """Return two places, each WORLD or WORLD@MOMENT. Raises BadParameter, also if an option names a moment."""
    if moment != HEAD:
        raise typer.BadParameter("two moments are written WORLD@MOMENT WORLD@MOMENT, without an option")
    return named_place(a), named_place(b)


async def place_of(store: Store, world: WorldRecord, moment: Moment) -> tuple[WorldRecord, int]:
    """Return the place of a moment: the last effect at or before a time, or of a unit, in the world's history.

    A moment from before the fork point of a fork lies in an ancestor's log. Raises MomentNotFoundError.
    """
    try:
        return await store.states.place_at(world, moment)
    except MomentNotFoundError as error:
        if moment.wall_time is None:
            raise
        what = f"world {world.world_id!r} has no effect at or before {shown_wall_time(moment.wall_time)}"
        raise MomentNotFoundError(what, **error.details) from None


def shown_end(world: WorldRecord, found: WorldRecord, seq: int) -> str:
    """Return how a seq lies to the end of the log in which a moment of a world was found: "the head", "head 12".

    For a world's history an ancestor's log ends at the fork point.
    """
    end = "head" if found.world_id == world.world_id else "fork point"
    return f"the {end}" if seq == found.head_seq else f"{end} {found.head_seq}"


async def seq_of(store: Store, world: WorldRecord, moment: Moment) -> int:
    """Return the seq of a moment in a world's own log. Raises MomentNotFoundError for a moment of an ancestor's."""
    return _own(world, *await place_of(store, world, moment))


def _own(world: WorldRecord, found: WorldRecord, seq: int) -> int:
    if found.world_id != world.world_id:
        what = f"that moment lies before world {world.world_id!r} was forked: name its parent, {found.world_id!r}"
        raise MomentNotFoundError(what, world_id=world.world_id, parent=found.world_id, global_seq=seq)
    return seq


async def first_seq_from(store: Store, world: WorldRecord, moment: Moment) -> int:
    """Return as `first_place_from`, in a world's own log: its first effect for a time before the fork point.

    Raises MomentNotFoundError also for another moment of an ancestor's.
    """
    found, seq = await first_place_from(store, world, moment)
    is_time = moment.sim_time is not None or moment.wall_time is not None
    return 1 if is_time and found.world_id != world.world_id else _own(world, found, seq)


async def first_place_from(store: Store, world: WorldRecord, moment: Moment) -> tuple[WorldRecord, int]:
    """Return the first effect that is not before a moment: for a time the first at or after it, for a unit its first.

    What lies before the fork point of a fork is in an ancestor's log. Raises MomentNotFoundError where every effect
    lies before the moment.
    """
    if moment.sim_time is None and moment.wall_time is None:
        if moment.unit is not None:
            return await store.states.first_of_unit(world, moment)
        return await place_of(store, world, moment)
    line = await store.states.line(world)
    try:
        found, seq = await place_of(store, world, _just_before(moment))
    except MomentNotFoundError:  # all come later
        return line[0], 1
    at = [record.world_id for record in line].index(found.world_id)
    if seq < line[at].head_seq:
        return found, seq + 1
    if at + 1 < len(line):
        return line[at + 1], 1
    said = shown_wall_time(moment.wall_time) if moment.sim_time is None else f"sim_time {moment.sim_time}"
    what = f"world {world.world_id!r} has no effect at or after {said}"
    raise MomentNotFoundError(what, world_id=world.world_id, head_seq=world.head_seq)


def _just_before(moment: Moment) -> Moment:
    """Return the last moment before a time; wall times count in microseconds."""
    if moment.sim_time is not None:
        return moment._replace(sim_time=math.nextafter(moment.sim_time, -math.inf))
    return moment._replace(wall_time=None if moment.wall_time is None else moment.wall_time - 1e-6)


def shown_wall_time(epoch: Any) -> str:
    """Return a wall_time in UTC, in the notation of moments; a value that is no calendar time is returned as it is."""
    try:
        moment = datetime.fromtimestamp(epoch, UTC)
    except (ValueError, OverflowError, OSError, TypeError):
        return str(epoch)
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def shown_duration(seconds: float) -> str:
    """Return a duration in its two largest units: 2 min 5 s, 3 h 20 min, 4 d 2 h."""
    if not seconds < 100 * 365 * 86400:
        return "more than a hundred years"
    whole = round(seconds)
    for size, unit, smaller, its_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            many, rest = divmod(whole, size)
            return f"{many} {unit}" + (f" {rest // smaller} {its_unit}" if rest // smaller else "")
    return f"{whole} s"
