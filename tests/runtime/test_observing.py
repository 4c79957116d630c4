"""Observing: what a reader holds is the agent's view at every seq, whatever comes in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from tests.waiting import wait_for
from worldledger.errors import MomentNotFoundError, UnknownAgentError

from .conftest import Opening
from .helpers import (
    ALL,
    as_folded,
    created,
    draft,
    effects,
    head_of,
    kept,
    message,
    moved,
    near,
    patched,
    read_until,
    refused,
    removed,
    speak,
)
from .stories import AGENTS, POLICIES, register_all, story

# -- deltas ------------------------------------------------------------------------------------------------


async def test_deltas_lead_to_the_view_at_each_seq(world: Orchestrator) -> None:
    """An initial view and the deltas since, applied by jsonpatch, are what the policy makes of the state there."""
    await register_all(world)
    for each in story(30):
        await world.broadcast_event(each)
    head = await head_of(world)
    for name in AGENTS:
        handle = world.agent_handles[name]
        view = handle.initial_view
        assert view == await as_folded(world, name, POLICIES[name], handle.view_seq)
        seqs = [view.view_seq]
        while (await world.view(name)).view_seq > view.view_seq:
            view = patched(view, await handle.next_observation())
            seqs.append(view.view_seq)
            assert view == await world.view(name, at_seq=view.view_seq)
            if name != "remembering":
                assert view == await as_folded(world, name, POLICIES[name], view.view_seq)
        assert seqs == sorted(set(seqs))
        assert seqs[-1] <= head
        assert view == await world.view(name)
        assert view == await world.view(name, at_seq=head)


async def test_a_view_that_was_given_out_stays_as_it_is(world: Orchestrator) -> None:
    """What happens later does not reach into views and deltas that somebody holds."""
    await world.broadcast_event(created("x", 1, 1, hp=1))
    handle = await world.register_agent("a", ALL)
    first = handle.initial_view
    assert first is not None
    text = first.model_dump_json()
    await world.broadcast_event(moved("x", 2, 2))
    delta = await handle.next_observation()
    second = await world.view("a")
    await world.broadcast_event(removed("x"))
    assert first.model_dump_json() == text
    assert patched(first, delta) == second
    delta["patches"].clear()  # a copy of the caller's own
    assert (await world.view("a")).visible_entities == {}


async def test_a_view_comes_before_what_follows_it(world: Orchestrator) -> None:
    """Events that change nothing come as deltas without patches; system effects and what is hidden do not come."""
    await world.broadcast_event(created("a", 0, 0))
    await world.broadcast_event(created("far", 99, 99))
    handle = await world.register_agent("a", near(5.0))
    await world.register_agent("b", ALL)
    await world.broadcast_event(draft("Waved", {"agent_id": "far"}))
    receipt = await world.broadcast_event(draft("Waved", {"agent_id": "a", "n": 1}))
    delta = await handle.next_observation()
    assert delta["view_seq"] == receipt.global_seq
    assert delta["patches"] == []
    assert [(event["kind"], event["payload"]) for event in delta["events"]] == [("Waved", {"agent_id": "a", "n": 1})]


# -- coming back -------------------------------------------------------------------------------------------


async def test_a_reader_comes_back_with_any_view(world: Orchestrator) -> None:
    """From whichever seq a reader goes on, it comes to the same view, and nothing is told twice."""
    await register_all(world)
    for each in story(30, seed=5):
        await world.broadcast_event(each)
    head = await head_of(world)
    for name in AGENTS:
        first = (await world.agents())[name]["registered_seq"]
        latest = await world.view(name)
        seqs = [delta["view_seq"] for delta in await read_until(world.agent_handles[name], latest.view_seq)]
        for seq in range(first, head + 1):
            async with await world.subscribe(name, view_seq=seq) as subscription:
                assert subscription.view is None
                assert subscription.view_seq == seq
                found = subscription.get_due()
                assert [delta["view_seq"] for delta in found] == [each for each in seqs if each > seq]
                before = await world.view(name, at_seq=seq)
                assert kept(before, found).context_digest == latest.context_digest


async def test_a_view_seq_must_be_one_of_the_log(world: Orchestrator) -> None:
    """One beyond the head is refused; before its registration an agent has no view, and so the first delta has all."""
    handle = await world.register_agent("a", ALL)
    error = await refused(world.subscribe("a", view_seq=99))
    assert isinstance(error, MomentNotFoundError)
    assert isinstance(await refused(world.agent("a", view_seq=99)), MomentNotFoundError)
    assert isinstance(await refused(world.view("a", at_seq=0)), MomentNotFoundError)
    assert isinstance(await refused(world.view("a", at_seq=1)), UnknownAgentError)
    assert isinstance(await refused(world.subscribe("nobody")), UnknownAgentError)
    async with await world.subscribe("a", view_seq=0) as subscription:
        assert subscription.view_seq == 0
        (delta,) = subscription.get_due()
        assert delta["view_seq"] == handle.view_seq == (await world.agents())["a"]["registered_seq"]


async def test_an_agent_goes_on_where_it_acknowledged(opening: Opening) -> None:
    """After a restart it begins with the acknowledged view, and what came after it is told, also what was queued."""
    async with opening.until() as world:
        handle = await world.register_agent("a", ALL)
        receipts = [await world.broadcast_event(created(f"e{n}", n, n)) for n in range(5)]
        for _ in range(3):
            await handle.next_observation()
        assert handle.get_view_seq() == receipts[2].global_seq
        world.acknowledge("a", receipts[1].global_seq)
        world.acknowledge("a", 10_000)  # what it cannot have seen
        handle.close()
    async with opening.until() as world:
        receipts.append(await world.broadcast_event(created("e5", 5, 5)))
        handle = await world.agent("a")
        assert handle.view_seq == receipts[2].global_seq
        assert handle.initial_view == await as_folded(world, "a", ALL, receipts[2].global_seq)
        found = await read_until(handle, receipts[-1].global_seq)
        assert [delta["view_seq"] for delta in found] == [receipt.global_seq for receipt in receipts[3:]]
        assert kept(handle.initial_view, found) == await world.view("a")
        # The last one is acknowledged by asking for the next, or by closing the handle; until then it is told again.
        again = await world.agent("a")
        assert again.view_seq == receipts[-2].global_seq
        await again.next_observation()
        again.close()
        assert (await world.agent("a")).view_seq == receipts[-1].global_seq


async def test_what_is_remembered_outlives_the_process(opening: Opening) -> None:
    """An agent whose policy has no remove operations still knows after a restart what it saw before."""
    policy = POLICIES["remembering"]
    async with opening.until() as world:
        handle = await world.register_agent("a", policy)
        for each in (created("a", 0, 0), created("x", 1, 1), moved("x", 50, 50), created("y", 70, 70), removed("x")):
            await world.broadcast_event(each)
        view = kept(handle.initial_view, await read_until(handle, (await world.view("a")).view_seq))
        assert view.visible_entities["x"]["position"] == [1.0, 1.0, 0.0]
        handle.close()
    async with opening.until() as world:
        again = await world.agent("a")
        assert again.initial_view == view
        receipt = await world.broadcast_event(moved("a", 70, 70))
        view = kept(view, await read_until(again, receipt.global_seq))
        assert sorted(view.visible_entities) == ["a", "x", "y"]
        assert view == await world.view("a") == await world.view("a", at_seq=receipt.global_seq)


# -- policies ----------------------------------------------------------------------------------------------


async def test_a_policy_is_registered_anew(opening: Opening) -> None:
    """The view changes with the registration, by a delta that follows the one before, in every process."""
    world, other = await opening(), await opening()
    await world.broadcast_event(created("a", 0, 0))
    await world.broadcast_event(created("x", 50, 50))
    handle = await world.register_agent("a", near(10.0))
    there = await other.agent("a")
    view = handle.initial_view
    assert view is not None
    assert sorted(view.visible_entities) == ["a"]
    again = await world.register_agent("a", ALL)
    assert again.view_seq == handle.view_seq
    seq = (await effects(world, "AgentRegistered"))[-1]["global_seq"]
    for reader in (again, there):
        (delta,) = await read_until(reader, seq)
        after = patched(view, delta)
        assert sorted(after.visible_entities) == ["a", "x"]
        assert after == await reader.view()
    assert (await world.agents())["a"]["registered_seq"] < seq


async def test_the_same_registration_writes_nothing(opening: Opening) -> None:
    """Also where it comes from several sides at the same moment, or from a process that is behind."""
    world, other = await opening(), await opening()
    await asyncio.gather(*(here.register_agent("a", near(1.0)) for here in (world, other) for _ in range(3)))
    assert len(await effects(world, "AgentRegistered")) == 1
    await other.register_agent("a", near(2.0))
    await world.register_agent("a", near(1.0))
    assert len(await effects(world, "AgentRegistered")) == 3
    await world.register_agent("a", near(1.0), ["submit_intent"], weight=2)
    assert (await world.agents())["a"]["permissions"] == ["submit_intent"]
    assert (await world.agents())["a"]["weight"] == 2


# -- digests -----------------------------------------------------------------------------------------------


async def test_digests_prove_what_was_shown(opening: Opening) -> None:
    """Every ViewDigest is that of the agent's view at its seq, as the log alone gives it, and is written once."""
    config = OrchestratorConfig(view_digest_every=10)
    world, other = await opening(config=config), await opening()
    await register_all(world)
    for name in AGENTS:
        await other.agent(name)
    for each in story(80, seed=10):
        await world.broadcast_event(each)
    await other.reached(await head_of(world))
    await world.flush()
    await other.flush()
    found = await effects(world, "ViewDigest")
    assert {digest["payload"]["agent_id"] for digest in found} == set(AGENTS)
    said = [(digest["payload"]["agent_id"], digest["payload"]["at_seq"]) for digest in found]
    assert len(said) == len(set(said))
    for digest in found:
        agent_id, at_seq = digest["payload"]["agent_id"], digest["payload"]["at_seq"]
        assert (await world.view(agent_id, at_seq=at_seq)).context_digest == digest["payload"]["digest"]
    for name in AGENTS:
        places = [seq // 10 for agent_id, seq in said if agent_id == name]
        assert places == sorted(set(places))


async def test_no_digests_where_none_are_wanted(opening: Opening) -> None:
    """``view_digest_every`` 0 turns them off."""
    world = await opening(config=OrchestratorConfig(view_digest_every=0))
    handle = await world.register_agent("a", ALL)
    for n in range(5):
        await world.broadcast_event(created(f"e{n}"))
    await handle.submit_intent(speak(context_seq=await head_of(world)))
    await world.flush()
    assert not await effects(world, "ViewDigest")


# -- events ------------------------------------------------------------------------------------------------


async def test_events_of_the_past(world: Orchestrator) -> None:
    """Events are those that the agent could see, by kind and stretch, and never from before its registration."""
    await world.broadcast_event(message("before", "C"))
    await world.broadcast_event(created("a", 0, 0))
    await world.broadcast_event(created("B", 100, 0))
    await world.register_agent("a", near(5.0))
    await world.broadcast_event(message("too far"))
    await world.broadcast_event(moved("B", 1, 0))
    near_by = await world.broadcast_event(message("near"))
    await world.broadcast_event(draft("Waved", {}, "B"))
    events, after = await world.observed_events("a")
    assert [event["kind"] for event in events] == ["MessageEmitted", "Waved"]
    assert after == await head_of(world)
    events, _ = await world.observed_events("a", kinds=["MessageEmitted"])
    assert [event["payload"] for event in events] == [{"text": "near"}]
    events, after = await world.observed_events("a", until_seq=near_by.global_seq - 1)
    assert (events, after) == ([], near_by.global_seq - 1)
    # A place that another process has given, and that this one has not come to, is not gone back from.
    assert await world.observed_events("a", after_seq=after + 500) == ([], after + 500)
    assert isinstance(await refused(world.observed_events("nobody")), UnknownAgentError)


async def test_what_this_process_writes_is_not_read_back(world: Orchestrator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who follow a world take its effects as they were written, and read only what others write."""
    await world.register_agent("a", ALL)
    await world.broadcast_event(message())
    head = await head_of(world)
    await wait_for(lambda: world._follower.seq == head, "all of it is followed")

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("read back")

    monkeypatch.setattr(world._follower._store.reader, "batches", never)
    for number in range(5):
        receipt = await world.broadcast_event(message(str(number)))
        await wait_for(lambda: world._follower.seq >= receipt.global_seq, "it is followed")  # noqa: B023
    assert world._follower.error is None
