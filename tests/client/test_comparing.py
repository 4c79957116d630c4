"""Runs and moments side by side, by the client."""

from __future__ import annotations

import pytest

from worldledger.client import Client
from worldledger.errors import NotComparableError, UnknownAgentError, WorldNotFoundError

from .helpers import entity


async def test_the_client_compares_runs_and_moments(client: Client) -> None:
    """Two worlds of a service are compared; what cannot be compared is the error that the service raised."""
    other = client.world(f"{client.world_id}-other")
    await other.create_world()
    for world, lit in ((client, True), (other, False)):
        await world.broadcast_event(entity("gate", open=1))
        await world.broadcast_event(entity("lamp", lit=lit))
    names = client.world_id, other.world_id
    found = await client.compare(*names)
    divergence = found["pairs"][0]["divergence"]
    assert (divergence["number"], [field["path"] for field in divergence["fields"]]) == (
        2,
        ["$.payload.entity_data.lit"],
    )
    found = await client.compare(*names, by="seq", ignore=["payload.entity_data.lit", "entities.lamp.lit"])
    assert (found["pairs"][0]["equal"], found["by"]) == (True, "seq")
    there = await client.compare_moments(f"{names[0]}@2", f"{names[1]}@2")
    assert there["states"]["equal"] is True
    head = await client.compare_moments(*names)
    assert [each["path"] for each in head["states"]["differences"]] == ["$.entities.lamp.lit"]
    with pytest.raises(NotComparableError):
        await client.compare(*names, by="turn")
    with pytest.raises(WorldNotFoundError):
        await client.compare(names[0], "nowhere")
    with pytest.raises(UnknownAgentError):
        await client.compare_moments(*names, agent="alice", truth=True)
