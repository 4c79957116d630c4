"""Runs and moments side by side, and reports, by the client."""

from __future__ import annotations

import pytest

from worldledger.client import Client
from worldledger.errors import MomentNotFoundError, NotComparableError, UnknownAgentError, WorldNotFoundError
from worldledger.moments import UnreadableMomentError

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


async def test_the_client_has_reports_of_worlds(client: Client) -> None:
    """A page up to the head or a moment; an unknown world or moment is the error that the service raised."""
    await client.broadcast_event(entity("gate", open=1))
    page = await client.report(client.world_id)
    assert page.startswith("<!DOCTYPE html>")
    assert "up to seq 2: 2 effects" in page
    assert "up to seq 1: 1 effect," in await client.report(client.world_id, at="seq:1")
    with pytest.raises(WorldNotFoundError):
        await client.report("nowhere")
    with pytest.raises(MomentNotFoundError):
        await client.report(client.world_id, at="99")
    with pytest.raises(UnreadableMomentError):
        await client.report(client.world_id, at="noon")
