"""Keeping collapsed deltas within the world's limit on patches."""

from __future__ import annotations

from worldledger.client.protocol import World
from worldledger.collapsing import replacing
from worldledger.deltas import ObservationDelta


async def fitted(world: World, agent_id: str, delta: ObservationDelta) -> ObservationDelta:
    """Return a delta as it is, or one with the whole view if it has more operations than the world's ``max_patch_ops``.

    Only a delta that stands for several can have that many. Its events stay. Raises as `World.view`.
    """
    if "collapsed" not in delta or len(delta.patches) <= (await world.orchestrator_config()).max_patch_ops:
        return delta
    view = await world.view(agent_id, at_seq=delta.view_seq)
    return ObservationDelta(delta, patches=replacing(view.visible_entities, view.visible_relationships))
