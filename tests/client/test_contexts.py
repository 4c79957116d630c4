"""Contexts and settings of staleness as programs meet them: in process and over the wire alike."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.helpers import emitted, soon, speak
from tests.waiting import wait_for
from worldledger.client import MessageFacade, RLFacade, World
from worldledger.errors import InvalidEffectError, InvalidIntentError, MomentNotFoundError, StaleContextError
from worldledger.intents import Accepted
from worldledger.moments import UnreadableMomentError
from worldledger.observation import ObservationPolicy


async def recorded(world: World, accepted: Accepted) -> Any:
    """Return the context that the log tells of an intent."""
    (entry,) = await world.event_log.get_entries_since(accepted.global_seq - 1, limit=1)
    return entry.effect["source_metadata"]["context_seq"]


async def test_a_handle_s_context(world: World) -> None:
    """Views and observations move it on, views of the past do not, and intents and generations are made from it."""
    alice = await world.register_agent("alice", ObservationPolicy())
    first = alice.context_seq
    receipt = await world.broadcast_event(emitted("news"))
    past = await alice.view(at_seq=receipt.global_seq)
    assert past == await alice.view(at=f"seq:{receipt.global_seq}") == await alice.view(at="step:1")
    for moment in ({"at": "yesterday"}, {"at": "1", "at_seq": 1}):
        with pytest.raises(UnreadableMomentError):
            await alice.view(**moment)
    with pytest.raises(MomentNotFoundError, match="no turn 1"):
        await alice.view(at="turn:1")
    assert alice.context_seq == first
    with pytest.raises(StaleContextError) as caught:
        await soon(alice.submit_intent(speak("what?")))
    assert (caught.value.expected_seq, caught.value.actual_seq) == (receipt.global_seq, first)
    assert (caught.value.details["setting"], caught.value.details["staleness_threshold"]) == ("world", 0)
    await alice.view(at="head")
    assert alice.context_seq == receipt.global_seq
    assert await recorded(world, await soon(alice.submit_intent(speak("so!")))) == receipt.global_seq
    token = alice.issue_cancel_token("g", staleness_threshold=5, about=["bob"])
    assert token.context_seq == receipt.global_seq
    await world.broadcast_event(emitted("more"))
    await alice.view()
    assert alice.issue_cancel_token("g") is token
    accepted = await soon(alice.submit_intent(speak("at last", req_id="g")))
    assert await recorded(world, accepted) == receipt.global_seq


async def test_settings(world: World) -> None:
    """Of the agent, the intent, the generation and the world; what is beyond the maximum is refused."""
    alice = await world.register_agent("alice", ObservationPolicy(), staleness_threshold=1)
    bob = await world.register_agent("bob", ObservationPolicy(), interrupt_policy="only_conflict")
    agents = await world.agents()
    assert agents["alice"]["staleness_threshold"] == 1
    assert agents["bob"]["interrupt_policy"] == "only_conflict"
    token = alice.issue_cancel_token("g", staleness_threshold=0)
    receipt = await world.broadcast_event(emitted("news"))
    await soon(token.wait_cancelled())
    assert token.reason == f"stale_due_to_effect_{receipt.global_seq}"
    assert token.details == {"setting": "generation", "staleness_threshold": 0, "interrupt_policy": "always"}
    assert isinstance(await soon(alice.submit_intent(speak("1"))), Accepted)
    assert isinstance(await soon(bob.submit_intent(speak("2"))), Accepted)
    await world.set_staleness(max_staleness_threshold=1)
    for refused in (
        world.set_staleness(staleness_threshold=2),
        world.register_agent("carol", staleness_threshold=None),
    ):
        with pytest.raises(InvalidEffectError, match="max_staleness_threshold, 1"):
            await refused
    with pytest.raises(InvalidIntentError, match="max_staleness_threshold, 1"):
        await soon(alice.submit_intent(speak("3", staleness_threshold=None)))


async def test_without_a_handle_an_intent_names_its_context(world: World) -> None:
    """Also where the agent has a connection; only a threshold of null does without."""
    await world.register_agent("alice", ObservationPolicy())
    bare = {**speak("hi"), "agent_id": "alice", "req_id": "r"}
    with pytest.raises(InvalidIntentError, match="staleness_threshold is 0"):
        await soon(world.submit_intent(bare))
    accepted = await soon(world.submit_intent({**bare, "staleness_threshold": None}))
    assert await recorded(world, accepted) is None


async def test_the_context_of_steps(world: World) -> None:
    """A step is made from the newest that the facade has given, by observing, by looking or by a step."""
    await world.register_agent("alice", ObservationPolicy())
    async with RLFacade(world) as facade:
        began = (await facade.view("alice")).view_seq
        effect, _ = await soon(facade.step("alice", speak("one")))
        assert effect["source_metadata"]["context_seq"] == began
        receipt = await world.broadcast_event(emitted("news"))
        await soon(facade.observe("alice"))
        effect, _ = await soon(facade.step("alice", speak("two", about=["bob"])))
        assert effect["source_metadata"] == {"intent": "Speak", "context_seq": receipt.global_seq, "about": ["bob"]}


async def test_the_context_of_messages(world: World) -> None:
    """Who lives by messages acts upon the newest that was handed to it; before the first it has to name one."""
    await world.register_agent("alice", ObservationPolicy())
    async with MessageFacade(world) as facade:
        heard: list[str] = []
        assert facade.context_seq("alice") is None
        with pytest.raises(InvalidIntentError):
            await soon(facade.submit_intent("alice", speak("who is there?")))
        await facade.subscribe("alice", None, lambda event: heard.append(event["payload"]["text"]))
        receipt = await facade.emit("MessageEmitted", {"text": "hello"}, "bob")
        await wait_for(lambda: heard == ["hello"])
        assert facade.context_seq("alice") == receipt.global_seq
        accepted = await soon(facade.submit_intent("alice", speak("hello, bob")))
        assert await recorded(world, accepted) == receipt.global_seq
        (last,) = (await facade.get_messages("alice", "Speak"))[-1:]
        assert facade.context_seq("alice") == last["global_seq"] == accepted.global_seq
