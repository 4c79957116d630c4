"""Moments of a world as people write them: ``1200``, ``head``, ``turn:5``, ``sim:12.5``, ``wall:2026-01-31T12:00Z``."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from worldledger.errors import MomentNotFoundError

if TYPE_CHECKING:
    from service.store import Store, WorldRecord

#: What a moment may be, for messages and help.
MOMENT_RULE = "a seq such as 1200, head, turn:N, sim:SECONDS or wall:ISO8601"

_SEQ = re.compile(r"[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


class Moment(NamedTuple):
    """A seq, a sim_time, a wall_time in epoch seconds, or a simulation's turn; where none is given, the head."""

    seq: int | None = None
    sim_time: float | None = None
    wall_time: float | None = None
    turn: int | None = None


HEAD = Moment()


def read_moment(text: str, name: str) -> Moment:
    """Read a moment; ``name`` is the argument's. Raises BadParameter."""
    if text == "head":
        return HEAD
    if _SEQ.fullmatch(text):
        return Moment(seq=int(text))
    kind, _, rest = text.partition(":")
    if kind == "sim":
        return Moment(sim_time=read_number(rest, name))
    if kind == "turn" and _SEQ.fullmatch(rest):
        return Moment(turn=int(rest))
    if kind == "wall":
        return Moment(wall_time=read_wall_time(rest, name))
    raise typer.BadParameter(f"{text!r} is no moment: give {MOMENT_RULE}", param_hint=f"'{name}'")


def read_number(text: str, name: str) -> float:
    """Read a finite number. Raises BadParameter."""
    if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    raise typer.BadParameter(f"{text!r} is no number that a time can be", param_hint=f"'{name}'")


def read_wall_time(text: str, name: str) -> float:
    """Read an ISO 8601 time with its offset from UTC; give epoch seconds. Raises BadParameter."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.timestamp()
    except (ValueError, OverflowError):
        what = f"{text!r} is no ISO 8601 time, such as 2026-01-31T12:00:00Z"
    else:
        what = f"{text!r} does not say in which time zone: end it with Z (UTC) or an offset such as +02:00"
    raise typer.BadParameter(what, param_hint=f"'{name}'")


async def seq_of(store: Store, world: WorldRecord, moment: Moment) -> int:
    """Give the seq of a moment: the last effect at or before a time, or of a turn. Raises MomentNotFoundError."""
    try:
        return await store.states.seq_at(world, **moment._asdict())
    except MomentNotFoundError as error:
        if moment.wall_time is None:
            raise
        what = f"world {world.world_id!r} has no effect at or before {shown_wall_time(moment.wall_time)}"
        raise MomentNotFoundError(what, **error.details) from None


async def first_seq_from(store: Store, world: WorldRecord, moment: Moment) -> int:
    """Give the first effect that is not before a moment: for a time the first one at or after it, for a turn its first.

    Raises MomentNotFoundError where every effect lies before it.
    """
    if moment.seq is not None or moment == HEAD:
        return await seq_of(store, world, moment)
    if moment.turn is not None:
        return (await store.states.turns.at(world, moment.turn)).first_seq
    try:
        first = await seq_of(store, world, _just_before(moment)) + 1
    except MomentNotFoundError:  # all come later
        return 1
    if first > world.head_seq:
        said = shown_wall_time(moment.wall_time) if moment.sim_time is None else f"sim_time {moment.sim_time}"
        what = f"world {world.world_id!r} has no effect at or after {said}"
        raise MomentNotFoundError(what, world_id=world.world_id, head_seq=world.head_seq)
    return first


def _just_before(moment: Moment) -> Moment:
    """Give the last moment before a time; of the wall clock's a microsecond is the smallest part that counts."""
    if moment.sim_time is not None:
        return Moment(sim_time=math.nextafter(moment.sim_time, -math.inf))
    return Moment(wall_time=None if moment.wall_time is None else moment.wall_time - 1e-6)


def shown_wall_time(epoch: Any) -> str:
    """Show a wall_time in UTC, so that it can be given as a moment; what no calendar has is shown as it is."""
    try:
        moment = datetime.fromtimestamp(epoch, UTC)
    except (ValueError, OverflowError, OSError, TypeError):
        return str(epoch)
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def shown_duration(seconds: float) -> str:
    """Show a duration in its two largest units: 2 min 5 s, 3 h 20 min, 4 d 2 h."""
    if not seconds < 100 * 365 * 86400:
        return "more than a hundred years"
    whole = round(seconds)
    for size, unit, smaller, its_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            many, rest = divmod(whole, size)
            return f"{many} {unit}" + (f" {rest // smaller} {its_unit}" if rest // smaller else "")
    return f"{whole} s"
