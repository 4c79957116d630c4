"""MessageFacade: emitting, handlers, waiting, and messages of the past; in process and over the wire."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.waiting import wait_for
from worldledger.aio import CircuitBreaker, QueueClosedError
from worldledger.client import MessageFacade, RLFacade, World
from worldledger.deltas import ObservedEvent
from worldledger.errors import UnknownAgentError
from worldledger.observation import ObservationPolicy, PolicyConfig

from .conftest import OpenWorld
from .helpers import soon, speak, waits_for


class Ears:
    """A handler that keeps what it hears, and fails on what it is told to."""

    def __init__(self, *failing: str) -> None:
        self.heard: list[str] = []
        self.failing = set(failing)

    def __call__(self, event: ObservedEvent) -> None:
        """Hear."""
        text: str = event["payload"]["text"]
        if text in self.failing:
            raise RuntimeError(text)
        self.heard.append(text)

    async def slowly(self, event: ObservedEvent) -> None:
        """Hear, letting others go first."""
        await asyncio.sleep(0)
        self(event)


async def test_messages_reach_their_handlers_in_order(world: World) -> None:
    """Handlers, plain or async, get the messages of their kinds in order; others get none of theirs."""
    await world.register_agent("alice", ObservationPolicy())
    async with MessageFacade(world) as facade:
        one, several, every = Ears(), Ears(), Ears()
        await facade.subscribe("alice", "Note", one)
        await facade.subscribe("alice", ["Note", "Chat"], several.slowly)
        await facade.subscribe("alice", None, every)
        for n in range(5):
            for kind in ("Note", "Chat", "Noise"):
                receipt = await facade.emit(kind, {"text": f"{kind}{n}"}, "bob")
        assert receipt.global_seq == 17
        await wait_for(lambda: len(every.heard) == 15 and len(several.heard) == 10)
        assert one.heard == [f"Note{n}" for n in range(5)]
        assert several.heard == [f"{kind}{n}" for n in range(5) for kind in ("Note", "Chat")]
        assert every.heard == [f"{kind}{n}" for n in range(5) for kind in ("Note", "Chat", "Noise")]


async def test_a_message_is_emitted_once(world: World) -> None:
    """The same req_id is one message; source, kind, payload and version are the effect's."""
    await world.register_agent("alice", ObservationPolicy())
    async with MessageFacade(world) as facade:
        first = await facade.emit("Note", {"text": "x"}, "bob", schema_version="2.1.0", req_id="n1")
        again = await facade.emit("Note", {"text": "x"}, "bob", schema_version="2.1.0", req_id="n1")
        assert (again.global_seq, again.uuid, again.replayed) == (first.global_seq, first.uuid, True)
    (entry,) = await world.event_log.get_entries_since(first.global_seq - 1)
    assert (entry.effect["kind"], entry.effect["source_id"], entry.checksum) == ("Note", "bob", first.checksum)
    assert entry.effect["schema_version"] == "2.1.0"


async def test_a_handler_that_fails_harms_nobody(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """An error is logged; the handler is given the next message, and others hear everything."""
    await world.register_agent("alice", ObservationPolicy())
    caplog.set_level(logging.ERROR, "worldledger.client")
    async with MessageFacade(world) as facade:
        bad, good = Ears("1", "2"), Ears()
        failing = await facade.subscribe("alice", "Note", bad)
        await facade.subscribe("alice", "Note", good)
        for n in range(4):
            await facade.emit("Note", {"text": str(n)}, "bob")
        await wait_for(lambda: bad.heard == ["0", "3"] and good.heard == ["0", "1", "2", "3"])
        assert (failing.handled, failing.failed, failing.left_out) == (2, 2, 0)
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


async def test_a_handler_that_fails_again_and_again_is_left_alone(world: World) -> None:
    """After some failures in a row messages pass it by, until its breaker lets it try again."""
    await world.register_agent("alice", ObservationPolicy())
    now = 0.0
    async with MessageFacade(world, breaker=lambda: CircuitBreaker(2, 30.0, clock=lambda: now)) as facade:
        bad = Ears("0", "1")
        subscription = await facade.subscribe("alice", "Note", bad)
        for n in range(4):
            await facade.emit("Note", {"text": str(n)}, "bob")
        await wait_for(lambda: subscription.left_out == 2)
        assert (subscription.failed, subscription.handled, subscription.breaker.state) == (2, 0, "OPEN")
        now = 31.0
        await facade.emit("Note", {"text": "4"}, "bob")
        await wait_for(lambda: bad.heard == ["4"])
        assert subscription.breaker.state == "CLOSED"


async def test_a_closed_subscription_hears_nothing_more(world: World) -> None:
    """After close() a handler is not called, and the others of its agent go on."""
    await world.register_agent("alice", ObservationPolicy())
    async with MessageFacade(world) as facade:
        gone, there = Ears(), Ears()
        subscription = await facade.subscribe("alice", None, gone)
        await facade.subscribe("alice", None, there)
        subscription.close()
        subscription.close()
        assert not subscription.active
        await facade.emit("Note", {"text": "x"}, "bob")
        await wait_for(lambda: there.heard == ["x"])
        assert gone.heard == []


async def test_a_handler_may_close_its_own_subscription(world: World) -> None:
    """Closing from within lets the handler come to its end, and nothing follows."""
    await world.register_agent("alice", ObservationPolicy())
    async with MessageFacade(world) as facade:
        done: list[str] = []
        there = Ears()

        async def once(event: ObservedEvent) -> None:
            subscription.close()
            await asyncio.sleep(0)
            done.append(event["payload"]["text"])

        subscription = await facade.subscribe("alice", None, once)
        await facade.subscribe("alice", None, there)
        for text in ("first", "second"):
            await facade.emit("Note", {"text": text}, "bob")
        await wait_for(lambda: there.heard == ["first", "second"])
        assert done == ["first"]


async def test_a_message_is_waited_for(world: World) -> None:
    """The next message of a kind is given to whoever waits for it; or one that came since a seq."""
    alice = await world.register_agent("alice", ObservationPolicy())
    async with MessageFacade(world) as facade:
        with pytest.raises(TimeoutError):
            await facade.wait_for_message("alice", "Note", timeout=0.0)
        waiting = asyncio.create_task(facade.wait_for_message("alice", ["Note"], timeout=30.0))
        while not waiting.done():  # until it waits, messages are of the past for it
            await facade.emit("Note", {"text": "hello"}, "bob")
            await asyncio.sleep(0.01)
        assert waiting.result()["payload"] == {"text": "hello"}
        past = await soon(facade.wait_for_message("alice", "Note", after_seq=alice.view_seq))
        assert past["global_seq"] == alice.view_seq + 1
        with pytest.raises(UnknownAgentError):
            await facade.wait_for_message("nobody", timeout=30.0)


async def test_messages_of_the_past_are_given(world: World) -> None:
    """Messages are read from the log, of some kinds or all, after a seq, up to a limit."""
    await world.register_agent("alice", ObservationPolicy())
    bob = await world.register_agent("bob", ObservationPolicy())
    async with MessageFacade(world) as facade:
        await bob.submit_intent(speak("hello"))
        for n in range(5):
            await facade.emit("Note", {"text": str(n)}, "carol")
        notes = await facade.get_messages("alice", "Note", limit=3)
        assert _texts(notes) == ["0", "1", "2"]
        assert _texts(await facade.get_messages("alice", "Note", after_seq=notes[-1]["global_seq"])) == ["3", "4"]
        assert _texts(await facade.get_messages("alice")) == ["hello", "0", "1", "2", "3", "4"]
        assert await facade.get_messages("alice", "Never") == []
        with pytest.raises(UnknownAgentError):
            await facade.get_messages("nobody")


async def test_a_subscription_may_begin_in_the_past(world: World) -> None:
    """With after_seq a handler first hears what came since then, then what comes, each once."""
    await world.register_agent("alice", ObservationPolicy())
    async with MessageFacade(world) as facade:
        seqs = [(await facade.emit("Note", {"text": str(n)}, "bob")).global_seq for n in range(250)]
        ears = Ears()
        subscription = await facade.subscribe("alice", "Note", ears.slowly, after_seq=seqs[9])
        for n in range(250, 260):
            await facade.emit("Note", {"text": str(n)}, "bob")
        await wait_for(lambda: len(ears.heard) >= 250)
        assert ears.heard == [str(n) for n in range(10, 260)]
        assert subscription.position == seqs[-1] + 10


async def test_no_message_is_lost_on_a_slow_handler(world: World) -> None:
    """What does not fit into a handler's queue is read from the log: all come, in order, each once."""
    await world.register_agent("alice", ObservationPolicy())
    async with MessageFacade(world) as facade:
        ears = Ears()
        gate = asyncio.Event()

        async def slow(event: ObservedEvent) -> None:
            await gate.wait()
            ears(event)

        subscription = await facade.subscribe("alice", "Note", slow)
        subscription._most = 5
        for n in range(150):
            await facade.emit("Note", {"text": str(n)}, "bob")
        gate.set()
        await wait_for(lambda: len(ears.heard) >= 150)
        await facade.emit("Note", {"text": "150"}, "bob")
        await wait_for(lambda: len(ears.heard) >= 151)
        assert ears.heard == [str(n) for n in range(151)]


async def test_an_agent_hears_what_its_policy_lets_it(world: World) -> None:
    """Messages are an agent's observations: fields that it may not see are left out."""
    await world.register_agent("alice", ObservationPolicy(PolicyConfig(field_visibility={"secret": False})))
    async with MessageFacade(world) as facade:
        heard: list[dict[str, Any]] = []
        await facade.subscribe("alice", "Note", lambda event: heard.append(event["payload"]))
        await facade.emit("Note", {"text": "x", "secret": 42}, "bob")
        await wait_for(lambda: bool(heard))
        assert heard == [{"text": "x"}]
        assert [each["payload"] for each in await facade.get_messages("alice")] == heard


async def test_a_world_that_is_closed_ends_whoever_lives_in_it(open_world: OpenWorld) -> None:
    """Facades over a closed world do not hang: subscriptions end after what they have, waiters are told."""
    ears = Ears()
    async with open_world() as world:
        await world.register_agent("alice", ObservationPolicy())
        messages, steps = MessageFacade(world), RLFacade(world)
        subscription = await messages.subscribe("alice", None, ears)
        await messages.emit("Note", {"text": "x"}, "bob")
        await wait_for(lambda: ears.heard == ["x"])
        await steps.view("alice")
        observing = asyncio.create_task(steps.observe("alice"))
        waiting = asyncio.create_task(messages.wait_for_message("alice"))
        await waits_for(observing)
        await waits_for(waiting)
    for task in (observing, waiting):
        with pytest.raises(QueueClosedError):
            await soon(task)
    await soon(asyncio.shield(subscription.ended))
    assert not subscription.active
    messages.close()
    steps.close()


def _texts(events: list[ObservedEvent]) -> list[str]:
    return [event["payload"]["text"] for event in events]
