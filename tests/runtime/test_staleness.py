"""Staleness: an intent is refused where its agent may know more by now than what it was made from."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from tests.waiting import wait_for
from worldledger.chain import StoredEffect
from worldledger.errors import RecoveryAction, StaleContextError
from worldledger.observation import ObservationPolicy

from .conftest import Opening
from .helpers import ALL, created, draft, effects, head_of, message, moved, near, refused, settle, speak, start, whole


async def test_the_latest_view_is_not_stale(world: Orchestrator) -> None:
    """With a threshold of 0 an intent must know all that others did; the error names both seqs and the setting."""
    a = await world.register_agent("a", ALL)
    receipt = await world.broadcast_event(message("hello", "b"))
    error = await refused(a.submit_intent(speak(req_id="r")))
    assert isinstance(error, StaleContextError)
    assert error.recovery is RecoveryAction.REGENERATE
    assert (error.req_id, error.expected_seq, error.actual_seq) == ("r", receipt.global_seq, a.view_seq)
    named = {"setting": "world", "staleness_threshold": 0, "interrupt_policy": "always"}
    assert {name: error.details[name] for name in named} == named
    assert "the world's staleness_threshold is 0, interrupt_policy always" in error.message
    assert not await effects(world, "Speak")
    await a.next_observation()
    assert not (await a.submit_intent(speak(req_id="r"))).replayed


async def test_own_effects_are_no_news(world: Orchestrator) -> None:
    """What an agent did itself makes neither its next intent stale nor any of its generations."""
    a = await world.register_agent("a", ALL)
    token = a.issue_cancel_token("thinking")
    for number in range(3):
        accepted = await a.submit_intent(speak(str(number)))
        await world.reached(accepted.global_seq)
    assert a.view_seq < accepted.global_seq
    assert token.cancelled_at is None
    receipt = await world.broadcast_event(message())
    assert token.reason == f"stale_due_to_effect_{receipt.global_seq}"
    assert isinstance(await refused(a.submit_intent(speak())), StaleContextError)


async def test_nor_is_what_the_service_writes(world: Orchestrator) -> None:
    """An effect of a system kind that changes what the agent sees is a delta, and no sighting."""
    await world.broadcast_event(created("x", 100, 0))
    await world.broadcast_event(created("a", 0, 0))
    a = await world.register_agent("a", near(10.0))
    await world.register_agent("a", ALL)
    assert (await world.view("a")).view_seq > a.view_seq
    assert not (await world.submit_intent(whole("a", a.view_seq))).replayed


@pytest.mark.parametrize("threshold", [1, 5])
async def test_a_threshold_allows_for_some_sightings(opening: Opening, threshold: int) -> None:
    """Sightings count, not seqs, and of others' effects only; expected_seq is the oldest context that passes."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=threshold))
    await world.broadcast_event(created("a", 0, 0))
    await world.broadcast_event(created("far", 100, 0))
    a = await world.register_agent("a", near(10.0))
    said = []
    for _ in range(threshold):
        said.append((await world.broadcast_event(message("hello", "a-friend"))).global_seq)
        await world.broadcast_event(moved("far", 90, len(said)))  # which the agent does not see
        await a.submit_intent(speak())
    said.append((await world.broadcast_event(message("hello", "a-friend"))).global_seq)
    error = await refused(world.submit_intent(whole("a", a.view_seq)))
    assert isinstance(error, StaleContextError)
    assert error.expected_seq == said[0]
    assert error.details["staleness_threshold"] == threshold
    assert isinstance(await refused(world.submit_intent(whole("a", said[0] - 1))), StaleContextError)
    assert await world.submit_intent(whole("a", said[0]))


async def test_what_an_agent_cannot_see_makes_nothing_stale(world: Orchestrator) -> None:
    """Effects out of sight, and those of the service, leave an agent's view where it is."""
    await world.broadcast_event(created("a", 0, 0))
    await world.broadcast_event(created("far", 100, 0))
    a = await world.register_agent("a", near(10.0))
    await world.register_agent("b", ALL)
    await world.broadcast_event(message("unheard", "far"))
    world.issue_cancel_token("b", "r")
    await world.flush()
    await world.broadcast_event(moved("far", 90, 0))
    assert await head_of(world) > a.view_seq
    await a.submit_intent(speak())
    await world.broadcast_event(moved("far", 5, 0))
    assert isinstance(await refused(a.submit_intent(speak())), StaleContextError)


async def test_an_intent_that_has_waited_is_looked_at_again(opening: Opening) -> None:
    """What comes while it waits for its turn makes it stale, also if there is no room for its agent meanwhile."""
    memory = {"view_cache_size": 1}
    world = await opening(config=OrchestratorConfig.model_validate({"max_in_flight": 1, "memory": memory}))
    a = await world.register_agent("a", ALL)
    a.close()
    async with world._admission.scheduler.turn("somebody"):
        waiting = [start(world.submit_intent(whole("a", a.view_seq))) for _ in range(2)]
        await wait_for(lambda: world.waiting == 2, "both wait")
        for name in ("b", "c"):
            (await world.register_agent(name, ALL)).close()
        receipt = await world.broadcast_event(message())
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, StaleContextError)
        assert result.expected_seq == receipt.global_seq
    assert not await effects(world, "Speak")
    await wait_for(lambda: not world.in_use, "nobody needs the world")


async def test_intents_from_one_view_are_judged_by_what_the_agent_knows(world: Orchestrator) -> None:
    """Of intents that are submitted together none has seen another's effect, so none makes another stale."""
    a = await world.register_agent("a", ALL)
    results = await world.submit_intents([whole("a", a.view_seq) for _ in range(5)])
    assert [type(result).__name__ for result in results] == ["Accepted"] * 5


# -- contexts of the future --------------------------------------------------------------------------------


async def test_a_context_beyond_the_last_view_means_that_view(world: Orchestrator) -> None:
    """Nobody can have seen what has not happened, and nobody is told how far the log goes; what comes next counts."""
    await world.broadcast_event(created("a", 0, 0))
    await world.broadcast_event(created("far", 100, 0))
    a = await world.register_agent("a", near(10.0))
    await world.broadcast_event(moved("far", 90, 0))
    for context in (await head_of(world), 10**9):
        accepted = await world.submit_intent(whole("a", context))
        effect = (await world.event_log.get_entries_since(accepted.global_seq - 1, limit=1))[0].effect
        assert effect["source_metadata"]["context_seq"] == a.view_seq
        await a.next_observation()
    token = world.issue_cancel_token("a", "r", 10**9)
    assert token.context_seq == a.view_seq
    assert world.issue_cancel_token("a", "r", 10**9) is token
    receipt = await world.broadcast_event(message("hello", "a-friend"))
    assert token.reason == f"stale_due_to_effect_{receipt.global_seq}"


async def test_a_context_that_another_process_has_shown_is_waited_for(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that observes through one process may act through another that is a little behind."""
    world, other = await opening(), await opening()
    a = await world.register_agent("a", ALL)
    await other.agent("a")
    held = asyncio.Event()
    read = other._follower._tail._read

    async def later(head: int) -> list[StoredEffect]:
        await held.wait()
        return await read(head)

    monkeypatch.setattr(other._follower._tail, "_read", later)
    await world.broadcast_event(created("x"))  # the follower may be waiting in its own way already
    await world.broadcast_event(created("y"))
    await a.next_observation()
    await a.next_observation()
    submitting = start(other.submit_intent(whole("a", a.view_seq)))
    await settle()
    assert not submitting.done()
    held.set()
    assert (await submitting).global_seq == a.view_seq + 1


# -- agents that were not here -----------------------------------------------------------------------------


async def one_seen(opening: Opening, policy: ObservationPolicy = ALL) -> tuple[int, int]:
    """Have an agent see one effect, and the head move on without it; return that seq and the head."""
    async with opening.until() as world:
        a = await world.register_agent("a", policy)
        await world.register_agent("b", ALL)
        seen = await world.broadcast_event(message())
        await a.next_observation()
        world.issue_cancel_token("b", "r")
    async with opening.until() as world:
        return seen.global_seq, await head_of(world)


async def test_the_head_is_not_the_view_of_an_agent_that_was_not_here(opening: Opening) -> None:
    """After a restart an intent is judged by what the agent has seen last, however far the head has moved since."""
    seen, head = await one_seen(opening)
    assert head > seen
    world = await opening()
    error = await refused(world.submit_intent(whole("a", seen - 1)))
    assert isinstance(error, StaleContextError)
    assert error.expected_seq == seen
    assert (await world.submit_intent(whole("a", seen))).global_seq == head + 1


async def test_nor_is_it_that_of_a_generation(opening: Opening) -> None:
    """A token for an agent that was not here is live at once, and stays so if its context is the latest view."""
    seen, head = await one_seen(opening)
    world = await opening()
    token = world.issue_cancel_token("a", "r-1", seen)
    assert not token.cancelled
    stale = world.issue_cancel_token("a", "r-2", seen - 1)
    await asyncio.wait_for(stale.wait_cancelled(), 30)
    assert stale.reason == f"stale_due_to_effect_{seen}"
    assert not token.cancelled
    assert world.issue_cancel_token("a", "r-3").context_seq == seen
    accepted = await world.submit_intent(whole("a", seen, req_id="r-1"))
    assert accepted.global_seq > head
    assert not token.cancelled


async def test_a_hurried_token_costs_no_observation(opening: Opening) -> None:
    """The first handle after it goes on where the agent acknowledged, and all is told that came since."""
    async with opening.until() as world:
        a = await world.register_agent("a", near(10.0, remove_operations=False))
        for each in (created("a", 0, 0), created("x", 1, 1), moved("x", 50, 50)):
            await world.broadcast_event(each)
        first = a.view_seq
    async with opening.until() as world:
        token = world.issue_cancel_token("a", "r")
        receipt = await world.broadcast_event(moved("x", 60, 60))
        assert token.reason is None
        hello = await world.broadcast_event(draft("Waved", {"agent_id": "a"}))
        assert token.cancelled
        again = await world.agent("a")
        assert again.view_seq == first
        found = [await again.next_observation() for _ in range(3)]
        assert found[-1]["view_seq"] == hello.global_seq > receipt.global_seq
        assert sorted((await world.view("a")).visible_entities) == ["a", "x"]


async def test_many_missed_observations_are_known_all_the_same(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that comes back is judged by the last of what it has missed, though not all of it is kept."""
    monkeypatch.setattr("worldledger_service.runtime.attachments._KEPT", 5)
    async with opening.until() as world:
        a = await world.register_agent("a", ALL)
        for n in range(20):
            last = await world.broadcast_event(created(f"e{n}"))
    world = await opening()
    error: Any = await refused(world.submit_intent(whole("a", a.view_seq)))
    assert (error.code, error.expected_seq) == ("stale_context", last.global_seq)
    assert (await world.view("a")).view_seq == last.global_seq
    await world.submit_intent(whole("a", last.global_seq))


async def test_what_was_acknowledged_before_counts(world: Orchestrator) -> None:
    """An intent that comes right after an append was answered is judged with it, be it folded here yet or not."""
    a = await world.register_agent("a", ALL)
    for number in range(20):
        await world.event_log.append(message(f"news {number}", "b"))
        assert isinstance(await refused(a.submit_intent(speak())), StaleContextError)
        await a.next_observation()
