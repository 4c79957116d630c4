"""Lineage: a fork goes on from the state of its parent, and its history is one line with its ancestors'.

A fork is a world whose genesis has ``fork_of``: an effect of another world, its parent, by checksum. The fork's log has
none of the parent's effects. The fold of a fork begins with the parent's state at that effect; the genesis changes only
what is counted in the world's own seqs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic import ValidationError

from worldledger.effects import Effect
from worldledger.errors import InvalidConfigError
from worldledger.genesis import FORK_OF, TIME_ZERO, ForkPoint, check_origin, is_time
from worldledger.time_authority import WALL, Silence
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
