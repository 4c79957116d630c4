"""Two orchestrators of one world, each on a store of its own, as in two processes: what they share is the log."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from worldledger.errors import IllegalEffectError, SimulationError, StaleContextError, TooManyAgentsError
from worldledger.intents import Accepted

from .conftest import Opening
from .helpers import ALL, created, custom, effects, head_of, kept, message, near, read_until, refused, speak, whole
from .stories import AGENTS, register_all, story


async def both(opening: Opening, **how: Any) -> tuple[Orchestrator, Orchestrator]:
    """Open the world twice."""
    return await opening(**how), await opening(**how)


async def test_both_open_a_world_that_is_not_there(opening: Opening) -> None:
    """One of them makes it, with its configuration, and the other finds it; who says nothing takes what is there."""
    config = OrchestratorConfig(staleness_threshold=7)
    one, two = await asyncio.gather(opening(config=config), opening(config=config))
    assert len(await effects(one)) == 0
    third = await opening()
    assert third.config == config
    own = await opening(config=OrchestratorConfig(staleness_threshold=9))
    assert own.config.staleness_threshold == 9
    await one.broadcast_event(message())
    await two.reached(2)


async def test_intents_race(opening: Opening) -> None:
    """Of two agents in two processes who want the same thing one gets it, and the log says so to everybody."""
    one, two = await both(opening, config=OrchestratorConfig(staleness_threshold=1000))
    await one.register_agent("a", ALL)
    await two.register_agent("b", ALL)
    context = await head_of(one)
    results = await asyncio.gather(
        *(
            world.submit_intent(
                whole(name, context, **custom("EntityCreated", {"entity_id": f"e{n}", "entity_data": {}}))
            )
            for n in range(20)
            for world, name in ((one, "a"), (two, "b"))
        ),
        return_exceptions=True,
    )
    assert Counter(type(result) for result in results) == {Accepted: 20, IllegalEffectError: 20}
    head = await head_of(one)
    await two.reached(head)
    seen = await one.view("a", at_seq=head)
    assert sorted(seen.visible_entities) == sorted(f"e{n}" for n in range(20))
    assert (await two.view("b", at_seq=head)).visible_entities == seen.visible_entities
    assert await two.event_log.validate_integrity()


async def test_each_follows_the_other(opening: Opening) -> None:
    """Readers in either process get every effect of both, in the order of the log, and come to the same views."""
    one, two = await both(opening)
    await register_all(one)
    handles = [await world.agent(name) for world in (one, two) for name in AGENTS]
    drafts = story(40, seed=11)
    for n, each in enumerate(drafts):
        await (one, two)[n % 2].broadcast_event(each)
    head = await head_of(one)
    await two.reached(head)
    for name in AGENTS:
        found = []
        for handle in handles:
            if handle.agent_id == name:
                latest = (await handle.view()).view_seq
                found.append((handle.initial_view, await read_until(handle, latest)))
        (begun, deltas), (_, same) = found
        assert deltas == same
        assert kept(begun, deltas) == await one.view(name) == await two.view(name)


async def test_an_agent_lives_in_both(opening: Opening) -> None:
    """Registered through one it acts through the other at once; a req_id is one effect over both."""
    one, two = await both(opening)
    a = await one.register_agent("a", near(5.0))
    there = await two.agent("a")
    assert there.initial_view == a.initial_view
    intent = whole("a", a.view_seq)
    results = await asyncio.gather(one.submit_intent(intent), two.submit_intent(intent))
    assert results[0] == results[1]
    assert sorted(result.replayed for result in results) == [False, True]
    for handle in (a, there):
        assert (await handle.next_observation())["view_seq"] == results[0].global_seq
    await one.register_agent("b", ALL)
    assert not (await two.submit_intent(whole("b", await head_of(one)))).replayed


async def test_staleness_is_what_each_process_has_shown(opening: Opening) -> None:
    """An agent that has seen through one process what came through another is judged by that."""
    one, two = await both(opening)
    a = await one.register_agent("a", ALL)
    await two.agent("a")
    for n in range(10):
        receipt = await (one, two)[n % 2].broadcast_event(created(f"e{n}"))
        for world in (one, two):
            await world.reached(receipt.global_seq)
            error = await refused(world.submit_intent(whole("a", receipt.global_seq - 1)))
            assert isinstance(error, StaleContextError)
            assert error.expected_seq == receipt.global_seq
    await two.submit_intent(whole("a", receipt.global_seq))
    assert a.view_seq < receipt.global_seq


async def test_the_bound_on_agents_holds_over_both(opening: Opening) -> None:
    """However many register at the same moment, no more than ``max_agents`` are; those may register anew."""
    one, two = await both(opening, config=OrchestratorConfig(max_agents=3))
    results = await asyncio.gather(
        *((one, two)[n % 2].register_agent(f"a{n}", ALL) for n in range(8)), return_exceptions=True
    )
    errors = [result for result in results if isinstance(result, SimulationError)]
    assert [type(error) for error in errors] == [TooManyAgentsError] * 5
    assert errors[0].details == {"world_id": one.world_id, "limit": 3}
    await head_of(one)
    (name, *_) = await one.agents()
    await two.register_agent(name, near(1.0))
    assert len(await one.agents()) == 3


@pytest.mark.parametrize("count", [2, 3])
async def test_wake_ups_suffice(opening: Opening, count: int) -> None:
    """Processes that do not look at the heads by themselves hear of each other's commits all the same."""
    worlds = [await opening(poll_interval=3600.0) for _ in range(count)]
    await worlds[0].register_agent("a", ALL)
    for n, world in enumerate(worlds):
        others = [each for each in worlds if each is not world]
        # Who follows says so when it begins to; what is committed before that has come through is told with the next.
        while True:
            receipt = await world.broadcast_event(message(f"from {n}"))
            heard = [await each.reached(receipt.global_seq, 0.5) for each in others]
            if all(heard):
                break
    readers = [await world.agent("a") for world in worlds]
    receipt = await worlds[0].broadcast_event(message("to all"))
    for reader in readers:
        found = await read_until(reader, receipt.global_seq)
        assert found[-1]["events"][0]["payload"] == {"text": "to all"}
    await readers[-1].submit_intent(speak())
