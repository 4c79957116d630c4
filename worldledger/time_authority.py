"""A world's time authority: what sets its sim_time, where its own zero lies, and whether it is silent.

Source: docs/reference/effects.md, "Times". ``sim_time = the authority's own time + offset``. The wall clock's own time
is wall_time, in epoch seconds; an adapter's and a client's is the time that they state. Pure: everything follows from
the log, from the genesis first and then these kinds:

- ``WorldTimeAuthoritySet {authority, offset}``: sets the authority from here on
- ``WorldTimeSet {adapter, time}``: a tick, with the time as the adapter stated it
- ``WorldTimeAuthoritySilent {authority, last_tick_seq, reason}``: the adapter has fallen silent; its next tick ends
  that
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard

from worldledger.canonical import MAX_INT
from worldledger.effects import SERVICE_SOURCE
from worldledger.errors import InvalidEffectError

#: The member of a genesis with the zero of a world under the wall clock: epoch seconds.
TIME_ZERO: Final = "time_zero"
#: The member of a genesis that says where a fork begins.
FORK_OF: Final = "fork_of"
#: What can say who sets sim_time, as a JSON Schema.
AUTHORITY_PATTERN: Final = "^[a-z][a-z0-9_-]{0,62}$"
_AUTHORITY: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}\Z")

TIME_AUTHORITY_KIND: Final = "WorldTimeAuthoritySet"
TIME_SET_KIND: Final = "WorldTimeSet"
TIME_SILENT_KIND: Final = "WorldTimeAuthoritySilent"
#: The kinds that change the authority.
TIME_KINDS: Final = frozenset({TIME_AUTHORITY_KIND, TIME_SET_KIND, TIME_SILENT_KIND})

#: Why an authority is silent: the connection of its last tick (or of its takeover) has ended, or no tick came for too
#: long.
SilenceReason: TypeAlias = Literal["disconnected", "no_tick"]

#: The default authority of worlds: the wall clock.
WALL: Final = "wall"
#: The authority under which any draft may state a time.
CLIENT: Final = "client"


def is_time(value: Any) -> TypeGuard[float]:
    """Return whether a value can be a number of seconds: finite, and an integer only as far as JSON readers agree."""
    return math.isfinite(value) if type(value) is float else type(value) is int and abs(value) <= MAX_INT


def is_authority(name: str) -> bool:
    """Return whether a value can name the authority over sim_time: ``wall``, ``client`` or an adapter's name."""
    return _AUTHORITY.match(name) is not None and name != SERVICE_SOURCE


class Silence(NamedTuple):
    """The silence of an adapter with the authority.

    ``last_tick_seq`` is its last tick, None if none came since it took over; ``global_seq`` is the effect that says so.
    """

    authority: str
    last_tick_seq: int | None
    reason: str
    global_seq: int

    @classmethod
    def of(cls, payload: Mapping[str, Any], global_seq: int) -> Silence:
        """Return the content of a stored ``WorldTimeAuthoritySilent``. Raises ValueError if it is invalid."""
        authority, last_tick_seq = payload.get("authority"), payload.get("last_tick_seq")
        reason = payload.get("reason")
        if not isinstance(authority, str) or not is_authority(authority) or not isinstance(reason, str):
            raise ValueError("authority is an adapter's name, reason a text")
        if last_tick_seq is not None and type(last_tick_seq) is not int:
            raise ValueError("last_tick_seq is a global_seq or null")
        return cls(authority, last_tick_seq, reason, global_seq)


class TimeAuthority(NamedTuple):
    """The authority over sim_time (``wall``, ``client`` or an adapter's name), and what is added to its own time.

    ``since_seq`` is the effect that named it, ``last_tick_seq`` the last tick since then, ``silence`` is set while it
    is silent.
    """

    name: str
    offset: float = 0.0
    since_seq: int = 1
    last_tick_seq: int | None = None
    silence: Silence | None = None

    @classmethod
    def of_genesis(cls, payload: Mapping[str, Any]) -> TimeAuthority:
        """Return the authority that a genesis names.

        Under the wall clock a world's seconds count from ``time_zero``; a genesis without it counts from 1970. A fork
        has the offset and the silence of its parent's authority.
        """
        name, zero, fork_of = payload.get("time_authority"), payload.get(TIME_ZERO), payload.get(FORK_OF)
        if not isinstance(name, str):
            return cls(WALL)
        if name == WALL:
            return cls(name, 0.0 - zero if is_time(zero) else 0.0)
        if not isinstance(fork_of, Mapping):
            return cls(name)
        offset, reason = fork_of.get("time_offset", 0.0), fork_of.get("silence")
        silence = Silence(name, None, reason, 1) if isinstance(reason, str) else None
        return cls(name, float(offset) if is_time(offset) else 0.0, silence=silence)

    @classmethod
    def of_setting(cls, payload: Mapping[str, Any], global_seq: int) -> TimeAuthority:
        """Return the authority that a stored ``WorldTimeAuthoritySet`` names; without ``offset`` it is 0.

        Raises ValueError if it is invalid.
        """
        name, offset = payload.get("authority"), payload.get("offset", 0.0)
        if not isinstance(name, str) or not is_authority(name):
            raise ValueError("authority is 'wall', 'client' or an adapter's name")
        if not is_time(offset):
            raise ValueError("offset is a finite number of seconds")
        return cls(name, float(offset), global_seq)

    def after(self, kind: str, payload: Mapping[str, Any], global_seq: int) -> TimeAuthority:
        """Return the authority after an effect of one of TIME_KINDS. Raises ValueError for one that cannot be read."""
        if kind == TIME_AUTHORITY_KIND:
            return self.of_setting(payload, global_seq)
        if kind == TIME_SET_KIND:
            return self._replace(last_tick_seq=global_seq, silence=None)
        silence = Silence.of(payload, global_seq)
        return self._replace(silence=silence) if silence.authority == self.name else self

    @property
    def silence_id(self) -> str:
        """The req_id that makes the effect about its silence since its last tick unique."""
        heard = self.since_seq if self.last_tick_seq is None else self.last_tick_seq
        return f"silent:{self.name}:{heard}"

    def holds_against(self, name: str) -> bool:
        """Return whether it is an adapter, not silent, that another adapter of this name cannot simply replace."""
        return self.is_adapter and self.silence is None and name not in {self.name, WALL, CLIENT}

    def allows(self, source_id: str) -> bool:
        """Return whether a draft of this source may state a time."""
        return self.name == CLIENT or (self.name != WALL and self.name == source_id)

    def sim_time(self, own: float) -> float:
        """Return the world's sim_time at a time of the authority's own."""
        return own + self.offset

    def own_time(self, sim_time: float) -> float:
        """Return the least own time at which the world's sim_time is not before this one."""
        own = sim_time - self.offset
        while own + self.offset < sim_time:
            own = math.nextafter(own, math.inf)
        return own

    @property
    def is_adapter(self) -> bool:
        """True if it is an adapter, which ticks."""
        return self.name not in {WALL, CLIENT}


def hand_over(name: str, zero: float | None, *, sim_time: float, wall_time: float) -> TimeAuthority:
    """Return the authority that takes over after an effect with these times.

    ``zero`` is the world's sim_time at which the authority's own 0.0 lies: for an adapter by default the world's
    present time, for ``client``, whose drafts state the world's own times, 0.0. The wall clock continues from the
    world's time, and has no zero of its own.
    """
    if name == WALL:
        return TimeAuthority(name, sim_time - wall_time)
    if zero is None:
        zero = 0.0 if name == CLIENT else sim_time
    return TimeAuthority(name, float(zero))


def check_zero(authority: str, zero: Any) -> float | None:
    """Return an authority's zero if it can have this one; raise InvalidEffectError if not."""
    if zero is None:
        return None
    if not is_time(zero):
        raise InvalidEffectError("zero is a finite number of seconds of the world's own time", "$.zero")
    if authority == WALL:
        raise InvalidEffectError("the wall clock goes on from where the world stands; leave zero out", "$.zero")
    return float(zero) + 0.0  # never -0.0, which no effect may have
