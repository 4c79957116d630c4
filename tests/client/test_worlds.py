"""What a world offers its agents is the same in process and over the wire."""

from __future__ import annotations

import asyncio

import pytest

from worldledger.aio import QueueClosedError
from worldledger.client import Client, World
from worldledger.config import OrchestratorConfig
from worldledger.errors import (
    IntentConflictError,
    InvalidEffectError,
    InvalidIntentError,
    MomentNotFoundError,
    PermissionDeniedError,
    RequestConflictError,
    SimTimeOrderError,
    SimulationError,
    StaleContextError,
    TimeAuthorityError,
    TimeAuthorityHeldError,
    UnknownAgentError,
    UnknownGenerationError,
)
from worldledger.intents import Accepted
from worldledger.observation import ObservationPolicy, PolicyConfig, View
from worldledger.time_authority import Silence

from .helpers import after, emitted, entity, same_view, soon, speak, texts


async def test_an_agent_observes_what_it_and_others_do(world: World) -> None:
    """Deltas come in order, lead from the initial view to the world's own, and carry the events."""
    alice = await world.register_agent("alice", ObservationPolicy())
    bob = await world.register_agent("bob", ObservationPolicy())
    assert alice.initial_view is not None
    view = alice.initial_view
    await world.broadcast_event(entity("lamp", lit=False))
    view = after(view, await soon(alice.next_observation()))
    assert view.visible_entities["lamp"]["lit"] is False
    await soon(bob.next_observation())
    accepted = await bob.submit_intent(speak("hello"))
    assert isinstance(accepted, Accepted)
    assert not accepted.replayed
    delta = await soon(alice.next_observation())
    assert (delta["view_seq"], texts(delta)) == (accepted.global_seq, ["hello"])
    assert alice.get_view_seq() == alice.view_seq == accepted.global_seq
    assert await same_view(world, after(view, delta))
    assert (await alice.view()).view_seq == accepted.global_seq
    (entry,) = await world.event_log.get_entries_since(accepted.global_seq - 1, limit=1)
    assert (entry.effect["uuid"], entry.effect["source_id"], entry.req_id) == (accepted, "bob", accepted.req_id)


async def test_the_same_request_is_one_effect(world: World) -> None:
    """The same req_id again gives the first answer; with another body it is refused."""
    alice = await world.register_agent("alice", ObservationPolicy())
    first = await alice.submit_intent(speak("once", req_id="r1"))
    again = await alice.submit_intent(speak("once", req_id="r1"))
    assert (again, again.global_seq, again.replayed) == (first, first.global_seq, True)
    with pytest.raises(RequestConflictError):
        await alice.submit_intent(speak("twice", req_id="r1"))


async def test_refusals_are_the_same_errors(world: World) -> None:
    """Every refusal is of its own class, with its attributes, recovery and details."""
    alice = await world.register_agent("alice", ObservationPolicy(), ["submit_intent", "intent:move"])
    await world.broadcast_event(entity("alice", position=[0.0, 0.0, 0.0]))
    at = (await soon(alice.next_observation()))["view_seq"]
    with pytest.raises(StaleContextError) as stale:
        await alice.submit_intent({"kind": "Move", "payload": {"to": [1, 1]}, "req_id": "late", "context_seq": at - 1})
    assert (stale.value.req_id, stale.value.expected_seq, stale.value.actual_seq) == ("late", at, at - 1)
    assert stale.value.recovery.value == "regenerate"
    with pytest.raises(PermissionDeniedError) as denied:
        await alice.submit_intent(speak("may I?"))
    assert (denied.value.agent_id, denied.value.permission) == ("alice", "intent:speak")
    with pytest.raises(IntentConflictError) as conflict:
        await alice.submit_intent({"kind": "Move", "payload": {"to": [1, 1], "from": [5, 5]}, "req_id": "lost"})
    assert conflict.value.intent["req_id"] == "lost"
    assert [each["kind"] for each in conflict.value.details["conflicting_effects"]] == []
    with pytest.raises(InvalidIntentError) as invalid:
        await alice.submit_intent({"kind": "Move", "payload": {"to": "there"}})
    assert invalid.value.path == "$.payload.to"
    with pytest.raises(InvalidIntentError, match="whole number of sightings"):
        await alice.submit_intent({"kind": "Move", "payload": {"to": [1, 1]}, "staleness_threshold": -1})
    with pytest.raises(UnknownAgentError) as unknown:
        await world.submit_intent(speak("boo", agent_id="nobody", req_id="x", context_seq=0))
    assert (unknown.value.agent_id, unknown.value.world_id) == ("nobody", world.world_id)
    for refused in (stale, denied, conflict, invalid, unknown):
        assert isinstance(refused.value, SimulationError)
        assert refused.value.code == type(refused.value).code


async def test_a_list_of_intents_is_answered_one_by_one_or_as_a_whole(world: World) -> None:
    """Each intent of a list gets its answer or its error; an atomic one is refused whole, and names the index."""
    await world.register_agent("alice", ObservationPolicy())
    at = (await world.view("alice")).view_seq
    good = speak("one", agent_id="alice", req_id="1", context_seq=at)
    bad = speak("two", agent_id="nobody", req_id="2", context_seq=at)
    with pytest.raises(SimulationError) as refused:
        await world.submit_intents([good, bad], atomic=True)
    assert isinstance(refused.value, UnknownAgentError)
    first, second = await world.submit_intents([good, bad])
    assert isinstance(first, Accepted)
    assert isinstance(second, UnknownAgentError)
    assert await world.submit_intents([]) == []


async def test_who_is_registered_is_told(world: World) -> None:
    """Registrations are told with policy, permissions, weight and seq; the same again changes nothing."""
    policy = ObservationPolicy(PolicyConfig(distance_limit=50.0))
    for _ in range(2):
        handle = await world.register_agent("alice", policy, {"submit_intent"}, weight=3)
        handle.close()
    known = (await world.agents())["alice"]
    assert (known["permissions"], known["weight"], known["registered_seq"]) == (["submit_intent"], 3, 2)
    assert known["policy"]["config"]["distance_limit"] == 50.0
    with pytest.raises(UnknownAgentError):
        await world.agent("nobody")


async def test_one_handle_of_an_agent_is_open_at_a_time(world: World) -> None:
    """Another handle of the agent ends the one before; it goes on after the view that it is given."""
    first = await world.register_agent("alice", ObservationPolicy())
    begun = first.view_seq
    await world.broadcast_event(emitted("one"))
    await world.broadcast_event(emitted("two"))
    waiting = asyncio.create_task(first.next_observation())
    assert texts(await soon(waiting)) == ["one"]
    second = await world.agent("alice", view_seq=begun)
    with pytest.raises(QueueClosedError):
        await soon(first.next_observation())
    assert second.initial_view is not None
    assert second.initial_view.view_seq == second.view_seq == begun
    assert [texts(await soon(second.next_observation())) for _ in range(2)] == [["one"], ["two"]]
    second.close()
    with pytest.raises(MomentNotFoundError):
        await world.agent("alice", view_seq=10_000)


async def test_an_agent_goes_on_where_it_acknowledged(world: World) -> None:
    """A handle that names no view goes on after the last observation that was asked beyond."""
    first = await world.register_agent("alice", ObservationPolicy())
    for text in ("one", "two", "three"):
        await world.broadcast_event(emitted(text))
    assert [texts(await soon(first.next_observation())) for _ in range(2)] == [["one"], ["two"]]
    first.close()
    second = await world.agent("alice")
    assert texts(await soon(second.next_observation())) == ["three"]


async def test_one_who_brings_nothing_is_brought_the_first_view(world: World) -> None:
    """Observations from before the agent was registered begin with all of its first view."""
    await world.broadcast_event(entity("lamp", lit=False))
    handle = await world.register_agent("alice", ObservationPolicy())
    await world.broadcast_event(entity("door", open=False))
    nothing = View.of("alice", 0, {}, {})
    for begin in (0, 1):
        subscription = await world.subscribe("alice", view_seq=begin)
        assert (subscription.view, subscription.view_seq) == (None, begin)
        view = after(nothing, await soon(subscription.get()))
        assert view == handle.initial_view
        assert set(after(view, await soon(subscription.get())).visible_entities) == {"lamp", "door"}
        subscription.close()
    early = await world.agent("alice", view_seq=1)
    assert early.initial_view == handle.initial_view


async def test_several_read_an_agent_s_observations(world: World) -> None:
    """Each subscription begins where it is asked to, and they do not take anything from each other."""
    handle = await world.register_agent("alice", ObservationPolicy())
    begun = handle.view_seq
    await world.broadcast_event(emitted("one"))
    old, new = await world.subscribe("alice", view_seq=begun), await world.subscribe("alice")
    assert old.view is None
    assert new.view is not None
    assert (old.view_seq, new.view_seq) == (begun, new.view.view_seq)
    await world.broadcast_event(emitted("two"))
    assert [texts(await soon(old.get())) for _ in range(2)] == [["one"], ["two"]]
    assert texts(await soon(new.get())) == ["two"]
    assert texts(await soon(handle.next_observation())) == ["one"]
    assert new.get_due() == []
    new.close()
    with pytest.raises(QueueClosedError):
        await new.get()
    old.close()


async def test_past_events_are_told_from_the_log(world: World) -> None:
    """Events of the past come in pages, of the kinds that are asked for."""
    await world.register_agent("alice", ObservationPolicy())
    for n in range(5):
        await world.broadcast_event(emitted(str(n)))
    await world.broadcast_event({**emitted("else"), "kind": "Noise"})
    events, seq = await world.observed_events("alice", limit=3)
    assert [event["payload"]["text"] for event in events] == ["0", "1", "2"]
    rest, _ = await world.observed_events("alice", after_seq=seq, kinds=["MessageEmitted", "Noise"])
    assert [event["payload"]["text"] for event in rest] == ["3", "4", "else"]
    some, _ = await world.observed_events("alice", until_seq=seq + 1, kinds=["MessageEmitted"])
    assert [event["payload"]["text"] for event in some] == ["0", "1", "2", "3"]
    assert (await world.observed_events("alice", kinds=["Never"]))[0] == []


# -- interruption ------------------------------------------------------------------------------------------


async def test_a_conversation_with_an_interruption(world: World) -> None:
    """A generates, B interrupts, A is cancelled, and C receives both messages in order."""
    agent_a = await world.register_agent("A", ObservationPolicy())
    await world.register_agent("B", ObservationPolicy())
    agent_c = await world.register_agent("C", ObservationPolicy())
    token = world.issue_cancel_token("A", "req_1")
    assert not token.cancelled
    receipt = await world.broadcast_event(emitted("Wait, I have something important!"))
    await soon(token.wait_cancelled())
    assert token.reason == f"stale_due_to_effect_{receipt.global_seq}"
    assert world.generation("A", "req_1") is token
    assert texts(await soon(agent_a.next_observation())) == ["Wait, I have something important!"]
    await agent_a.submit_intent(speak("Go on!", req_id="req_1"))
    delta_1, delta_2 = await soon(agent_c.next_observation()), await soon(agent_c.next_observation())
    assert delta_1["view_seq"] < delta_2["view_seq"]
    assert [*texts(delta_1), *texts(delta_2)] == ["Wait, I have something important!", "Go on!"]


async def test_a_token_is_live_until_its_intent_is_accepted(world: World) -> None:
    """An accepted intent ends the generation of its req_id: what comes later does not cancel its token."""
    alice = await world.register_agent("alice", ObservationPolicy())
    token = alice.issue_cancel_token("r1")
    await alice.submit_intent(speak("done", req_id="r1"))
    await soon(alice.next_observation())
    assert not await world.finish_generation("alice", "r1")
    again = alice.issue_cancel_token("r2")
    assert await world.finish_generation("alice", "r2")
    await world.broadcast_event(emitted("later"))
    await soon(alice.next_observation())
    assert not again.cancelled
    assert not token.cancelled


async def test_a_generation_is_cancelled_by_hand(world: World) -> None:
    """A generation is cancelled through the handle, or from elsewhere; one that nobody has begun is not known."""
    alice = await world.register_agent("alice", ObservationPolicy())
    token = alice.issue_cancel_token("r1")
    assert alice.issue_cancel_token("r1") is token
    with pytest.raises(RequestConflictError):
        alice.issue_cancel_token("r1", alice.view_seq - 1)
    await alice.cancel("r1")
    assert token.reason == "user_requested"
    other = world.issue_cancel_token("alice", "r2")
    await world.cancel_generation("alice", "r2", "enough")
    assert other.reason == "enough"
    with pytest.raises(UnknownGenerationError):
        await world.cancel_generation("alice", "never")
    assert not await world.finish_generation("alice", "never")


async def test_a_generation_is_cancelled_if_a_view_makes_it_stale(world: World) -> None:
    """cancel_if_stale goes by what was shown up to a view, and says so also of what is cancelled already."""
    alice = await world.register_agent("alice", ObservationPolicy())
    token = alice.issue_cancel_token("r1")
    assert not await world.cancel_if_stale("alice", "r1", alice.view_seq)
    assert not await world.cancel_if_stale("alice", "r1", alice.view_seq + 99)  # nothing of it has happened
    receipt = await world.broadcast_event(emitted("news"))
    await soon(alice.next_observation())
    assert not await world.cancel_if_stale("alice", "r1", receipt.global_seq - 1)
    for _ in range(2):
        assert await soon(world.cancel_if_stale("alice", "r1", receipt.global_seq))
    assert token.reason == f"stale_due_to_effect_{receipt.global_seq}"
    alice.issue_cancel_token("r2").cancel("enough")
    assert not await world.cancel_if_stale("alice", "r2", receipt.global_seq)
    assert not await world.cancel_if_stale("alice", "never", 99)


async def test_what_was_made_from_an_old_view_is_cancelled_at_once(world: World) -> None:
    """A generation that begins from a view which is stale already is told to stop."""
    alice = await world.register_agent("alice", ObservationPolicy())
    await world.broadcast_event(emitted("news"))
    token = alice.issue_cancel_token("r1")
    await soon(token.wait_cancelled())
    assert (token.reason or "").startswith("stale_due_to")


# -- time --------------------------------------------------------------------------------------------------


async def test_an_adapter_moves_the_time(world: World) -> None:
    """Under an authority only its adapter moves sim_time, and only on; ticks follow the authority that was set."""
    world.set_sim_time_authority("unity", zero=1000)
    receipt = await world.tick("unity", 4_000.0)
    assert (await world.event_log.get_entries_since(receipt.global_seq - 1))[0].sim_time == 5_000.0
    with pytest.raises(TimeAuthorityError):
        await world.tick("unreal", 6_000.0)
    with pytest.raises(SimTimeOrderError):
        await world.tick("unity", 1.0)
    with pytest.raises(SimulationError, match="adapter's name"):
        await world.set_sim_time_authority("Not A Name")
    with pytest.raises(InvalidEffectError, match="leave zero out"):
        await world.set_sim_time_authority("none", zero=1.0)
    await world.set_sim_time_authority("none")
    await world.set_sim_time_authority("unreal")  # its zero lies where the world stands
    receipt = await world.tick("unreal", 0.5)
    before, after = (await world.event_log.get_entries_since(receipt.global_seq - 2))[:2]
    assert after.sim_time == before.sim_time + 0.5 < 7_000.0


async def test_an_adapter_does_not_take_over_from_one_that_is_heard(world: World) -> None:
    """Unless it is forced to, as an operator does; who has the authority can be asked for."""
    await world.set_sim_time_authority("unity", zero=50.0)
    with pytest.raises(TimeAuthorityHeldError):
        await world.set_sim_time_authority("unreal", force=False)
    receipt = await world.tick("unity", 1.0)
    found = await world.time_authority()
    assert (found.name, found.offset, found.last_tick_seq, found.silence) == ("unity", 50.0, receipt.global_seq, None)
    await world.set_sim_time_authority("unreal")


async def test_an_authority_that_falls_silent_is_told(service: str, world_id: str) -> None:
    """The service tells it to each client once, which calls those that asked; then another adapter may take over."""
    async with Client(service, world_id) as world:
        await world.create_world(orchestrator=OrchestratorConfig(authority_silence_s=0.05))
        await world.register_agent("alice", ObservationPolicy())
        await world.register_agent("bob", ObservationPolicy())
        told: asyncio.Queue[Silence] = asyncio.Queue()
        remove = world.on_authority_silent(told.put_nowait)
        await world.set_sim_time_authority("unity")
        tick = await world.tick("unity", 1.0)
        silence = await soon(told.get())
        if silence.last_tick_seq is None:  # it was silent before the tick
            silence = await soon(told.get())
        assert (silence.authority, silence.last_tick_seq, silence.reason) == ("unity", tick.global_seq, "no_tick")
        assert (await world.time_authority()).silence == silence
        await world.set_sim_time_authority("unreal", force=False)
        assert told.empty() or told.get_nowait().authority == "unreal"
        remove()
