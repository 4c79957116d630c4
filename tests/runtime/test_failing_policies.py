"""Policies that fail: their agents are let go and told why, and nobody else notices."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs
from worldledger_service.runtime import ObservationPolicy, Orchestrator, OrchestratorConfig, QueueClosedError

from worldledger.deltas import ObservationDelta, View
from worldledger.errors import PolicyFailedError
from worldledger.policies import register_policy
from worldledger.world import WorldState

from .conftest import Opening
from .helpers import ALL, created, kept, message, patched, read_until, refused, removed, settle, start, whole


@register_policy("test-afraid")
class Afraid(ObservationPolicy):
    """Sees everything as long as there is no ghost."""

    def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
        """Fail where there is one."""
        if "ghost" in world_state.entities:
            raise ZeroDivisionError
        return super().filter_world_state(world_state, agent_id)


@register_policy("test-lists")
class Lists(ObservationPolicy):
    """Tells of what changes by operations within a list, which cannot be put together."""

    def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
        """Show the names as a list."""
        names = sorted(world_state.entities)
        return View.of(agent_id, world_state.metadata["last_effect_seq"], {"names": names}, {})

    def calculate_observation_delta(self, old_view: View, new_view: View) -> ObservationDelta:
        """Put new names to where they belong."""
        before, after = old_view.visible_entities["names"], new_view.visible_entities["names"]
        patches: list[dict[str, Any]] = [
            {"op": "add", "path": f"/visible_entities/names/{place}", "value": name}
            for place, name in enumerate(after)
            if name not in before
        ]
        return ObservationDelta(
            view_seq=new_view.view_seq,
            patches=patches,
            context_digest=new_view.context_digest,
            schema_version="1.0.0",
            events=[],
        )


async def test_one_whose_first_policy_failed_is_brought_what_it_sees_now(world: Orchestrator) -> None:
    """What it saw at first nobody can tell; who brings nothing is given the view that it has."""
    await world.broadcast_event(created("ghost"))
    assert isinstance(await refused(world.register_agent("a", Afraid())), PolicyFailedError)
    handle = await world.register_agent("a", ALL)
    await world.broadcast_event(created("x"))
    nothing = View.of("a", 0, {}, {})
    for begin in (0, 1, 2):
        async with await world.subscribe("a", view_seq=begin) as subscription:
            assert kept(nothing, subscription.get_due()) == await world.view("a")
    handle.close()


async def test_an_agent_whose_policy_fails_is_let_go(opening: Opening) -> None:
    """Its readers and its generations end, and it comes back with another policy; others have seen everything."""
    world, other = await opening(), await opening()
    a = await world.register_agent("a", Afraid())
    b = await world.register_agent("b", ALL)
    await other.agent("a")
    token = world.issue_cancel_token("a", "r")
    waiting = start(a.next_observation())
    await settle()
    with capture_logs() as said:
        receipt = await world.broadcast_event(created("ghost"))
        await other.reached(receipt.global_seq)
    with pytest.raises(QueueClosedError):
        await waiting
    assert token.reason == "policy_failed"
    assert [line["agent_id"] for line in said if line["log_level"] == "warning"] == ["a", "a"]
    assert kept(b.initial_view, await read_until(b, receipt.global_seq)) == await world.view("b")
    for here in (world, other):
        uses: list[Coroutine[Any, Any, Any]] = [
            here.agent("a"),
            here.view("a"),
            here.subscribe("a"),
            here.submit_intent(whole("a", receipt.global_seq)),
        ]
        for use in uses:
            error = await refused(use)
            assert isinstance(error, PolicyFailedError)
            assert "ZeroDivisionError" in error.message
        with pytest.raises(PolicyFailedError):
            here.issue_cancel_token("a", "r-2")
        assert len(here._attachments) == (1 if here is world else 0)
    # The views of others and of the past can be had all the same.
    assert (await world.view("a", at_seq=receipt.global_seq - 1)).visible_entities == {}
    again = await world.register_agent("a", ALL)
    assert again.initial_view is not None
    assert again.initial_view.visible_entities == {"ghost": {}}
    receipt = await world.broadcast_event(created("x"))
    assert (await again.next_observation())["view_seq"] == receipt.global_seq
    await other.reached(receipt.global_seq)
    await other.agent("a")


async def test_it_comes_back_when_what_it_failed_at_is_over(opening: Opening) -> None:
    """It is brought to where the world is now, by a whole view where it brings a view of its own."""
    world = await opening()
    a = await world.register_agent("a", Afraid())
    await world.broadcast_event(created("x"))
    await a.next_observation()
    with capture_logs():
        await world.broadcast_event(created("ghost"))
    await world.broadcast_event(removed("ghost"))
    again = await world.agent("a")
    assert again.initial_view is not None
    assert sorted(again.initial_view.visible_entities) == ["x"]
    async with await world.subscribe("a", view_seq=a.view_seq) as reader:
        receipt = await world.broadcast_event(created("y"))
        deltas = await read_until(reader, receipt.global_seq)
        assert [delta.get("events_dropped") for delta in deltas][-1] is None
        begun = await world.view("a", at_seq=a.view_seq)
        assert kept(begun, deltas) == await world.view("a", at_seq=receipt.global_seq)


@pytest.mark.parametrize("most", [1, 3])
async def test_deltas_that_cannot_be_put_together(opening: Opening, most: int) -> None:
    """A reader that does not keep up with them is sent the whole view instead; the world goes on."""
    world = await opening(config=OrchestratorConfig(max_queued_deltas=most))
    a = await world.register_agent("a", Lists())
    for n in range(10):
        await world.broadcast_event(created(f"e{9 - n}"))
    slow = await world.subscribe("a", view_seq=a.view_seq)
    await world.broadcast_event(message("hello", "zoe"))
    view = await world.view("a")
    for reader in (a._subscription, slow):
        found = reader.get_due()
        assert kept(a.initial_view, found).visible_entities == view.visible_entities
        assert sum(delta.get("collapsed", 1) for delta in found) == 11
    assert not world.broken
    receipt = await world.broadcast_event(created("a"))
    assert patched(view, await a.next_observation()) == await world.view("a", at_seq=receipt.global_seq)
    slow.close()
    await asyncio.sleep(0)
