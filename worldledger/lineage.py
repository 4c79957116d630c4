"""Lineage: a fork goes on from the state of its parent, and its history is one line with its ancestors'.

A fork is a world whose genesis has ``fork_of``: an effect of another world, its parent, by checksum. The fork's log has
none of the parent's effects. The fold of a fork begins with the parent's state at that effect; the genesis changes only
what is counted in the world's own seqs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from worldledger.effects import Effect
from worldledger.errors import InvalidConfigError
from worldledger.genesis import ForkPoint, NewWorld, check_origin
from worldledger.time_authority import CLIENT, FORK_OF, TIME_ZERO, WALL, Silence, TimeAuthority, is_time
from worldledger.world import WorldState


def fork_point(payload: Mapping[str, Any]) -> ForkPoint | None:
    """Return where a genesis with this payload begins, None if it is not that of a fork.

    Raises ValueError if it cannot be read.
    """
    said = payload.get(FORK_OF)
    if said is None:
        return None
    try:
        point = ForkPoint.model_validate(said)
        check_origin(point, f"$.payload.{FORK_OF}")
    except ValidationError as error:
        raise ValueError(f"$.payload.{FORK_OF}: {error.errors(include_url=False)[0]['msg']}") from None
    except InvalidConfigError as error:
        raise ValueError(error.message) from None
    return point


class Origin(NamedTuple):
    """What a parent's own log says of the place where a fork goes on.

    ``world`` is what the parent's genesis creates, ``sim_time`` the time of the effect at the fork point, ``authority``
    the authority over sim_time after it.
    """

    world: NewWorld
    sim_time: float
    authority: TimeAuthority


def origin_problem(genesis: Mapping[str, Any], fork: NewWorld, origin: Origin) -> str | None:
    """Explain what a fork's genesis says of its parent that the parent's log refutes; None if nothing.

    ``fork`` is the world that the genesis creates (`worldledger.genesis.recorded_genesis`). Compared are the ruleset
    and the order, ``depth``, ``sim_time``, and the time authority with its offset and its silence. That the clock takes
    over from clients is allowed: it does if a fork has a config of its own. Source: docs/reference/effects.md, "World".
    """
    parent, point, theirs = origin.world, fork.fork_of, origin.authority
    own = TimeAuthority.of_genesis(genesis["payload"])
    depth = 1 if parent.fork_of is None else parent.fork_of.depth + 1
    said: list[tuple[str, Any, Any]] = [
        ("$.payload.ruleset", fork.ruleset, parent.ruleset),
        ("$.payload.order", fork.order, parent.order),
        (f"$.payload.{FORK_OF}.depth", None if point is None else point.depth, depth),
        ("$.sim_time", genesis.get("sim_time"), origin.sim_time),
    ]
    if (own.name, theirs.name) != (WALL, CLIENT):
        said.append(("$.payload.time_authority", own.name, theirs.name))
    if own.name != WALL:
        silence, silence_there = (None if each.silence is None else each.silence.reason for each in (own, theirs))
        said.append((f"$.payload.{FORK_OF}.time_offset", own.offset, theirs.offset))
        said.append((f"$.payload.{FORK_OF}.silence", silence, silence_there))
    for path, mine, its in said:
        if mine != its:
            return f"{path}: {mine!r} in the fork, by the log of its parent it is {its!r}"
    return None


#: The one member of ``source_metadata`` of what the making of a fork writes by itself, so that it can go on:
#: registrations that give agents the fork's own noise, and what its kind writes (`Ruleset.going_on`).
GOING_ON: Final = "going_on"


def with_own_noise(spec: Mapping[str, Any], ancestors: Collection[str], world_uuid: str) -> dict[str, Any]:
    """Return an agent's stored policy as that of a fork: what draws an ancestor's noise draws the fork's own.

    ``ancestors`` are the uuids of the ancestors; a key of the user's own stays.
    """
    config = spec["config"]
    if config.get("noise_key") not in ancestors:
        return dict(spec)
    return {**spec, "config": {**config, "noise_key": world_uuid}}


def go_on(state: WorldState, genesis: Effect, point: ForkPoint) -> None:
    """Make the parent's state at the fork point that of the fork, whose genesis this is. In place.

    Each registration counts as that of the genesis, which also has the silence of the time authority. Raises ValueError
    if the state is not the one at the fork point.
    """
    metadata = state.metadata
    if metadata.get("last_effect_seq") != point.global_seq:
        raise ValueError(
            f"a fork goes on from the state of world {point.world_id} at seq {point.global_seq}, which is not here"
        )
    own = genesis["global_seq"]
    metadata["agents"] = {name: {**known, "registered_seq": own} for name, known in metadata["agents"].items()}
    metadata.pop("leases", None)  # whoever runs an agent of the parent does not run the fork's
    silent = metadata.get("time_authority_silent")
    if silent is not None:
        metadata["time_authority_silent"] = Silence(silent["authority"], None, silent["reason"], own)._asdict()
    zero = genesis["payload"].get(TIME_ZERO)
    if "time_offset" in metadata and metadata.get("time_authority") == WALL and is_time(zero):
        metadata["time_offset"] = 0.0 - zero
