"""Agents in forks: they go on from what they saw in the parent."""

from __future__ import annotations

from typing import Any

from worldledger_service.store.forking import NewFork

from worldledger.effects import EffectDraft
from worldledger.observation import ObservationPolicy, PolicyConfig

from .conftest import Opening


def _draft(kind: str, **payload: Any) -> EffectDraft:
    return {"kind": kind, "payload": payload, "schema_version": "1.0.0", "source_id": "setup"}


async def test_an_agent_remembers_in_a_fork_what_it_saw_in_the_parent(opening: Opening) -> None:
    """What is out of sight stays in its view across the fork point, live and from the log alone; parent: asks back."""
    world = await opening()
    await world.register_agent("ann", ObservationPolicy(PolicyConfig(remove_operations=False)))
    await world.broadcast_event(_draft("EntityCreated", entity_id="bob", entity_data={"hp": 3}))
    await world.broadcast_event(_draft("EntityRemoved", entity_id="bob"))
    name = await world.fork(NewFork(world_id=f"{opening.world_id}-fork"))
    assert await world.fork(NewFork(world_id=f"{opening.world_id}-fork")) == name
    other = Opening(opening.url, name, opening._stack)
    fork = await other()
    view = await fork.view("ann")
    assert view.visible_entities == {"bob": {"hp": 3}}
    assert view.view_seq == 1
    assert (await fork.view("ann", at="parent:3")).visible_entities == {"bob": {"hp": 3}}
    assert (await fork.view("ann", at="parent:2")).visible_entities == {}
    handle = await fork.agent("ann")
    await fork.broadcast_event(_draft("EntityCreated", entity_id="cy", entity_data={}))
    assert (await handle.next_observation())["patches"]
    assert (await fork.view("ann")).visible_entities == {"bob": {"hp": 3}, "cy": {}}
