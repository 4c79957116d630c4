"""RLFacade: observe, step, and steps that are cancelled; in process and over the wire."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import wait_for
from worldledger.aio import QueueClosedError
from worldledger.client import RLFacade, StepCancelledError, World
from worldledger.deltas import ObservationDelta
from worldledger.errors import (
    PermissionDeniedError,
    RecoveryAction,
    SimulationError,
    StaleContextError,
    UnknownAgentError,
)
from worldledger.observation import FixedLatency, ObservationPolicy, PolicyConfig

from .helpers import after, emitted, entity, kinds, same_view, soon, speak, texts, waits_for


async def test_a_step_gives_its_effect_and_what_came_of_it(world: World) -> None:
    """The effect is the intent's, the delta leads to a view that has it, and deltas follow each other."""
    await world.register_agent("alice", ObservationPolicy())
    await world.broadcast_event(entity("alice", position=[0, 0, 0]))
    async with RLFacade(world) as facade:
        view = await facade.view("alice")
        effect, delta = await soon(facade.step("alice", {"kind": "Move", "payload": {"to": [1, 2]}}))
        assert (effect["kind"], effect["source_id"], effect["payload"]["to"]) == ("Move", "alice", [1.0, 2.0, 0.0])
        assert delta["view_seq"] == effect["global_seq"]
        view = after(view, delta)
        assert view.visible_entities["alice"]["position"] == [1.0, 2.0, 0.0]
        receipt = await world.broadcast_event(emitted("news"))
        delta = await soon(facade.observe("alice"))
        assert (delta["view_seq"], texts(delta)) == (receipt.global_seq, ["news"])
        view = after(view, delta)
        assert await facade.view("alice") == view
        assert await same_view(world, view)


async def test_a_step_brings_what_came_before_it(world: World) -> None:
    """Where a step may be made from an old view, its one delta stands for everything since then."""
    await world.register_agent("alice", ObservationPolicy())
    async with RLFacade(world) as facade:
        view = await facade.view("alice")
        receipts = [await world.broadcast_event(entity(f"lamp{n}", lit=False)) for n in range(3)]
        seen = receipts[-1].global_seq
        effect, delta = await soon(facade.step("alice", speak("hello", context_seq=seen)))
        assert delta["view_seq"] == effect["global_seq"]
        assert delta["collapsed"] == 4
        assert texts(delta) == ["hello"]
        assert {"lamp0", "lamp1", "lamp2"} <= after(view, delta).visible_entities.keys()


async def test_a_stale_step_is_refused_and_the_next_one_goes_on(world: World) -> None:
    """A step from an old view raises the world's own refusal; after observing, the same request is taken."""
    await world.register_agent("alice", ObservationPolicy())
    async with RLFacade(world) as facade:
        await facade.view("alice")
        news = await world.broadcast_event(emitted("news"))
        await wait_for(lambda: _has_come(facade, "alice", news.global_seq))
        with pytest.raises(StaleContextError) as stale:
            await facade.step("alice", speak("old", req_id="r1"))
        assert stale.value.req_id == "r1"
        await soon(facade.observe("alice"))
        effect, _ = await soon(facade.step("alice", speak("new", req_id="r1")))
        assert effect["payload"]["text"] == "new"


def _has_come(facade: RLFacade, agent_id: str, seq: int) -> bool:
    pump = facade._seen[agent_id].result().pump
    return pump is not None and pump.view_seq >= seq


async def test_a_step_made_twice_is_one_effect(world: World) -> None:
    """A repeated step gives the first effect, and a delta that leaves the view as it is."""
    await world.register_agent("alice", ObservationPolicy())
    async with RLFacade(world) as facade:
        view = await facade.view("alice")
        first, delta = await soon(facade.step("alice", speak("once", req_id="r1")))
        view = after(view, delta)
        again, nothing = await soon(facade.step("alice", speak("once", req_id="r1")))
        assert again == first
        assert nothing["patches"] == []
        assert after(view, nothing) == view
    async with RLFacade(world) as late:
        again, nothing = await soon(late.step("alice", speak("once", req_id="r1")))
        assert again == first
        assert after(view, nothing) == view


async def test_one_who_observes_and_one_who_steps_do_not_take_each_other_s(world: World) -> None:
    """What a waiting observe() was given is not given again by the step that caused it."""
    await world.register_agent("alice", ObservationPolicy())
    async with RLFacade(world) as facade:
        view = await facade.view("alice")
        observing = asyncio.create_task(facade.observe("alice"))
        await waits_for(observing)
        effect, nothing = await soon(facade.step("alice", speak("hello")))
        delta = await soon(observing)
        assert (delta["view_seq"], nothing["patches"], nothing["events"]) == (effect["global_seq"], [], [])
        assert await same_view(world, after(view, delta, nothing))


async def test_a_step_may_be_cancelled(world: World) -> None:
    """Whoever awaits a cancelled step is told so; its generation is cancelled, and the agent may step again."""
    await world.register_agent("alice", ObservationPolicy(PolicyConfig(latency_model=FixedLatency(0.0))))
    async with RLFacade(world) as facade:
        assert not await facade.cancel_agent_step("alice")
        view = await facade.view("alice")
        stepping = asyncio.create_task(facade.step("alice", speak("never mind", req_id="r1")))
        while (token := world.generation("alice", "r1")) is None:
            await asyncio.sleep(0)
        assert await facade.cancel_agent_step("alice", "r1")
        with pytest.raises(StepCancelledError) as cancelled:
            await soon(stepping)
        assert (cancelled.value.agent_id, cancelled.value.req_id) == ("alice", "r1")
        assert cancelled.value.reason == token.reason == "user_requested"
        assert cancelled.value.recovery is RecoveryAction.REGENERATE
        assert not await facade.cancel_agent_step("alice", "r1")
        # Whether the intent had gone in is for the log to say; either way the views follow each other.
        again = await _until_taken(facade, "next")
        assert await same_view(world, after(view, *again))


async def _until_taken(facade: RLFacade, text: str) -> list[ObservationDelta]:
    deltas: list[ObservationDelta] = []
    while True:
        try:
            _, delta = await soon(facade.step("alice", speak(text)))
        except StaleContextError:
            deltas.append(await soon(facade.observe("alice")))
        else:
            return [*deltas, delta]


async def test_a_step_may_be_cancelled_from_elsewhere(world: World) -> None:
    """A step is a generation of its req_id, which others cancel through the world."""
    await world.register_agent("alice", ObservationPolicy())
    async with RLFacade(world) as facade, RLFacade(world) as other:
        await facade.view("alice")
        stepping = asyncio.create_task(facade.step("alice", speak("never mind", req_id="r1")))
        while world.generation("alice", "r1") is None:
            await asyncio.sleep(0)
        assert await other.cancel_agent_step("alice", "r1")
        with pytest.raises(StepCancelledError):
            await soon(stepping)


async def test_a_refused_step_leaves_no_generation(world: World) -> None:
    """A step that the world refuses raises its error, and nothing of it is live any more."""
    await world.register_agent("alice", ObservationPolicy(), ["submit_intent"])
    async with RLFacade(world) as facade:
        with pytest.raises(PermissionDeniedError):
            await facade.step("alice", speak("may I?", req_id="r1"))
        token = world.generation("alice", "r1")
        assert token is not None
        assert token.reason == "refused: permission_denied"
        with pytest.raises(UnknownAgentError):
            await facade.step("nobody", speak("boo"))
        with pytest.raises(UnknownAgentError):
            await facade.observe("nobody")


async def test_a_closed_facade_ends_its_waiters(world: World) -> None:
    """Closing a facade ends those who wait in it; another one goes on, and so does a new use."""
    await world.register_agent("alice", ObservationPolicy())
    facade, other = RLFacade(world), RLFacade(world)
    await other.view("alice")
    observing = asyncio.create_task(facade.observe("alice"))
    await waits_for(observing)
    facade.close()
    facade.close()
    with pytest.raises(QueueClosedError):
        await soon(observing)
    await world.broadcast_event(emitted("news"))
    assert texts(await soon(other.observe("alice"))) == ["news"]
    other.close()


async def test_one_who_does_not_ask_for_long_gets_one_delta(world: World) -> None:
    """Deltas that nobody asked for collapse into one that leads to the same view."""
    await world.register_agent("alice", ObservationPolicy())
    async with RLFacade(world, max_queued=2) as facade:
        view = await facade.view("alice")
        for n in range(6):
            last = await world.broadcast_event(entity(f"lamp{n}", lit=False))
        pump = facade._seen["alice"].result().pump
        assert pump is not None
        while pump.view_seq < last.global_seq:  # over the wire they come a little later
            await asyncio.sleep(0.005)
        deltas = [await soon(facade.observe("alice"))]
        while deltas[-1]["view_seq"] < last.global_seq:
            deltas.append(await soon(facade.observe("alice")))
        assert len(deltas) <= 3
        assert sum(delta.get("collapsed", 1) for delta in deltas) == 6
        assert await same_view(world, after(view, *deltas))


async def test_steps_are_generations_in_the_log(world: World) -> None:
    """The log tells of each step: its generation began, and ended with the intent."""
    await world.register_agent("alice", ObservationPolicy())
    async with RLFacade(world) as facade:
        await soon(facade.step("alice", speak("hello", req_id="r1")))
    found = await kinds(world, until="GenerationFinished")
    assert sorted(found[2:]) == ["GenerationFinished", "GenerationStarted", "Speak"]


def test_the_error_of_a_cancelled_step_is_one_of_ours() -> None:
    """Its details name agent, request and reason."""
    error = StepCancelledError("alice", "r1", "enough")
    assert isinstance(error, SimulationError)
    assert error.details == {"agent_id": "alice", "req_id": "r1", "reason": "enough"}
