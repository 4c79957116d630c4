"""Moments of a world, as tests of units ask for them."""

from __future__ import annotations

from worldledger_service.store import Store

from worldledger.errors import MomentNotFoundError
from worldledger.moments import parse_moment


async def seqs(store: Store, world_id: str, *moments: str) -> list[int | str]:
    """Return the seq of each moment, or why there is none."""
    world = await store.world(world_id)
    found: list[int | str] = []
    for moment in moments:
        try:
            found.append((await store.states.place_at(world, parse_moment(moment)))[1])
        except MomentNotFoundError as error:
            found.append(error.message.partition("; ")[2])
    return found
