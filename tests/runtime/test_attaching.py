"""Attaching: agents come and go while effects arrive, and nothing is lost or told twice."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig, QueueClosedError

from tests.waiting import wait_for
from worldledger.deltas import View

from .conftest import Opening
from .helpers import ALL, created, head_of, kept, read_until, settle, start
from .stories import AGENTS, POLICIES, register_all, story

# -- who is attached ---------------------------------------------------------------------------------------


async def test_agents_that_nobody_needs_go_and_come_back(opening: Opening) -> None:
    """With room for two, ten agents are served by turns, and each goes on rightly where it comes back."""
    world = await opening(config=OrchestratorConfig.model_validate({"memory": {"view_cache_size": 2}}))
    views: dict[str, View] = {}
    for n in range(10):
        handle = await world.register_agent(f"a{n}", POLICIES["remembering" if n % 2 else "near"])
        assert handle.initial_view is not None
        views[f"a{n}"] = handle.initial_view
        handle.close()
    for each in story(30, seed=8):
        await world.broadcast_event(each)
    head = await head_of(world)
    for _ in range(2):
        for name, view in views.items():
            handle = await world.agent(name)
            assert len(world._attachments) <= 2
            latest = await world.view(name)
            found = await read_until(handle, latest.view_seq) if latest.view_seq > handle.view_seq else []
            views[name] = kept(view, found)
            assert views[name].context_digest == (await world.view(name, at_seq=head)).context_digest
            handle.close()


async def test_agents_attached_at_once_are_all_fed(opening: Opening) -> None:
    """Where there is room for one only, those who come at the same moment are served all the same."""
    world = await opening(config=OrchestratorConfig.model_validate({"memory": {"view_cache_size": 1}}))
    for n in range(6):
        (await world.register_agent(f"a{n}", ALL)).close()
    handles = await asyncio.gather(*(world.agent(f"a{n}") for n in range(6)))
    receipt = await world.broadcast_event(created("x"))
    for handle in handles:
        assert (await handle.next_observation())["view_seq"] == receipt.global_seq
        assert (await world.view(handle.agent_id)).visible_entities == {"x": {}}
    for handle in handles:
        handle.close()
    await world.register_agent("last", ALL)
    assert len(world._attachments) == 1


async def test_one_agent_attached_many_times_at_once(world: Orchestrator) -> None:
    """Of handles that are opened at the same moment one stays open; subscriptions all do."""
    (await world.register_agent("a", ALL)).close()
    world._attachments.close()
    handles, subscriptions = await asyncio.gather(
        asyncio.gather(*(world.agent("a") for _ in range(4))),
        asyncio.gather(*(world.subscribe("a") for _ in range(4))),
    )
    receipt = await world.broadcast_event(created("x"))
    for subscription in subscriptions:
        (delta,) = subscription.get_due()
        assert kept(subscription.view, [delta]) == await world.view("a")
        subscription.close()
    (last,) = [handle for handle in handles if handle is world.agent_handles["a"]]
    assert (await last.next_observation())["view_seq"] == receipt.global_seq
    for handle in handles:
        if handle is not last:
            with pytest.raises(QueueClosedError):
                await handle.next_observation()


async def test_a_new_handle_closes_the_one_before(world: Orchestrator) -> None:
    """Who waits on it is told; what it had not given out goes to the new one."""
    first = await world.register_agent("a", ALL)
    waiting = start(first.next_observation())
    await settle()
    second = await world.register_agent("a", ALL)
    with pytest.raises(QueueClosedError):
        await waiting
    first.close()
    assert world.agent_handles == {"a": second}
    receipt = await world.broadcast_event(created("x"))
    assert (await second.next_observation())["view_seq"] == receipt.global_seq
    second.close()
    second.close()
    assert world.agent_handles == {}


async def test_a_cancelled_wait_loses_nothing(world: Orchestrator) -> None:
    """An observation that comes as the one who waits for it is cancelled is there for the next one who asks."""
    handle = await world.register_agent("a", ALL)
    receipts = []
    for n in range(10):
        waiting = start(handle.next_observation())
        await settle()
        receipts.append(await world.broadcast_event(created(f"e{n}")))
        waiting.cancel()
        await asyncio.wait([waiting])
        if not waiting.cancelled():
            receipts.pop()
    found = await read_until(handle, receipts[-1].global_seq) if receipts else []
    assert [delta["view_seq"] for delta in found] == [receipt.global_seq for receipt in receipts]


@pytest.mark.parametrize("kept_here", [0, 3, pytest.param(256, marks=pytest.mark.thorough)])
async def test_nothing_is_lost_or_told_twice_while_effects_arrive(
    opening: Opening, monkeypatch: pytest.MonkeyPatch, kept_here: int, thorough: bool
) -> None:
    """Readers that come in the middle of a stream of effects, from wherever, all end with the same view."""
    monkeypatch.setattr("worldledger_service.runtime.attachments._KEPT", kept_here)
    world, other = await opening(), await opening()
    await register_all(world)
    drafts = story(150 if thorough else 25, seed=9)
    random = Random(1)
    await other.reached(await head_of(world))
    last = world._follower.seq + len(drafts)

    async def write() -> None:
        for n, each in enumerate(drafts):
            await (world, other)[n % 2].broadcast_event(each)

    async def read(here: Orchestrator, name: str) -> list[tuple[Any, Any]]:
        made = []
        first = (await here.agents())[name]["registered_seq"]
        while here._follower.seq < last:
            seq = random.choice([None, first, random.randrange(first, here._follower.seq + 1)])
            made.append((seq, await here.subscribe(name, view_seq=seq)))
            await here.reached(min(here._follower.seq + random.randrange(1, 9), last))
        return made

    results = await asyncio.gather(write(), *(read(here, name) for here in (world, other) for name in AGENTS))
    head = await head_of(world)
    await other.reached(head)
    for made, name in zip(results[1:], AGENTS * 2, strict=True):
        assert made
        final = await world.view(name, at_seq=head)
        for seq, subscription in made:
            begun = subscription.view if seq is None else await world.view(name, at_seq=seq)
            assert kept(begun, subscription.get_due()).context_digest == final.context_digest
            subscription.close()


async def test_readers_that_give_up_leave_nothing(opening: Opening) -> None:
    """However far they have come when they are cancelled, nobody is kept for them, and the next ones are served."""
    world = await opening(config=OrchestratorConfig.model_validate({"memory": {"view_cache_size": 2}}))
    names = [f"a{n}" for n in range(5)]
    for n, name in enumerate(names):
        (await world.register_agent(name, POLICIES[AGENTS[n]])).close()
    random = Random(2)
    drafts = story(60, seed=12)

    async def come_and_go(name: str) -> None:
        for step in range(25):
            seq = random.choice([None, min(2 + step, world._follower.seq)])
            work: list[Any] = [world.subscribe(name, view_seq=seq), world.agent(name), world.view(name)]
            coming = start(work.pop(random.randrange(3)))
            for left in work:
                left.close()
            for _ in range(random.randrange(12)):
                await asyncio.sleep(random.choice([0, 0, 0.0005]))
            coming.cancel()
            await asyncio.wait([coming])
            if not coming.cancelled() and hasattr(found := coming.result(), "close"):
                found.close()

    async def write() -> None:
        for each in drafts:
            await world.broadcast_event(each)

    await asyncio.gather(write(), *map(come_and_go, names))
    await world.flush()
    # an agent that somebody gave up while it was being attached is attached all the same, a little later
    await wait_for(lambda: not world.in_use, "nobody needs the world")
    assert not world._attachments._holds
    assert all(not each.subscriptions for each in world._attachments)
    world.memory.evict_old_views()
    assert len(world._attachments) <= 2
    assert sorted(world._follower.views.attached) == sorted(each.agent_id for each in world._attachments)
    head = await head_of(world)
    for name in names:
        handle = await world.agent(name)
        latest = (await world.view(name)).view_seq
        found = await read_until(handle, latest) if latest > handle.view_seq else []
        view = kept(handle.initial_view, found)
        assert view.context_digest == (await world.view(name, at_seq=head)).context_digest
        handle.close()
