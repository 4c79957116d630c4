"""Latency: every delta in its time, none before the one before it, and what is not due makes nothing stale."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from worldledger_service.runtime import LatencyModel, ObservationPolicy, Orchestrator, PolicyConfig, QueueClosedError
from worldledger_service.runtime.attachments import Attachment, Attachments, Subscription

from tests.aio.virtual import loop, settle, virtual
from worldledger.deltas import ObservationDelta
from worldledger.latency import DistanceLatency, FixedLatency
from worldledger.views import Sighting, Views

from .conftest import Opening
from .helpers import ALL, created, effects, kept, message, moved, read_until, speak

#: Longer than any test takes.
NEVER_S = 1e6


def lagging(model: LatencyModel, **config: Any) -> ObservationPolicy:
    """Return a policy that sees everything, later."""
    return ObservationPolicy(PolicyConfig(latency_model=model, **config))


def delta(seq: int) -> ObservationDelta:
    """Make a delta that changes nothing."""
    return ObservationDelta(view_seq=seq, patches=[], context_digest="", schema_version="1.0.0", events=[])


class Delivery:
    """One agent, attached, and when (by the loop's clock) it got to know what."""

    def __init__(self, *, most: int = 100, cached: int = 10) -> None:
        self.told: list[tuple[float, int]] = []
        self.gone: list[str] = []
        self.attachments = Attachments(
            cached,
            arrived=lambda attachment, _: self.told.append((loop().time(), attachment.view_seq)),
            let_go=lambda attachment: self.gone.append(attachment.agent_id),
        )
        self.attachment = self.attachments.add(Attachment("a", 1))
        self._most = most
        self.told.clear()

    def subscribe(self) -> Subscription:
        """Return a reader."""
        made = Subscription(
            "a", 1, None, most=self._most, source=_no_views, on_close=self.attachment.subscriptions.discard
        )
        self.attachment.subscriptions.add(made)
        return made

    def deliver(self, *delays: float) -> None:
        """Hand over deltas, each so many seconds after it was made."""
        for delay in delays:
            self.attachments.deliver(Sighting("a", delta(self.attachment.made_seq + 1), delay), 100)


def _no_views() -> Views:
    """Return the views of a world in which the agent has the usual policy."""
    return cast("Views", SimpleNamespace(policy=lambda _: ALL))


async def read(subscription: Subscription, count: int) -> list[tuple[float, int]]:
    """Read deltas; give when each came."""
    return [((await subscription.get())["view_seq"], loop().time())[::-1] for _ in range(count)]


# -- by the loop's clock -----------------------------------------------------------------------------------


@virtual
async def test_each_delta_comes_in_its_time_and_its_turn() -> None:
    """A delta whose own delay is shorter waits for the one before it."""
    delivery = Delivery()
    reader = delivery.subscribe()
    delivery.deliver(0.0, 5.0, 0.0, 2.0, 7.0)
    assert delivery.attachment.view_seq == 2
    assert (delivery.attachment.made_seq, delivery.attachment.in_use) == (6, True)
    assert await read(reader, 5) == [(0.0, 2), (5.0, 3), (5.0, 4), (5.0, 5), (7.0, 6)]
    await settle()
    assert delivery.told == [(0.0, 2), (5.0, 3), (5.0, 4), (5.0, 5), (7.0, 6)]
    assert delivery.attachment.view_seq == 6


@virtual
async def test_later_deltas_are_due_by_their_own_moment() -> None:
    """A delay counts from the moment of the effect."""
    delivery = Delivery()
    reader = delivery.subscribe()
    delivery.deliver(3.0)
    loop().advance(2.0)
    delivery.deliver(3.0, 0.5)
    assert await read(reader, 3) == [(3.0, 2), (5.0, 3), (5.0, 4)]


@virtual
async def test_collapsed_deltas_come_with_the_last_of_them() -> None:
    """What is collapsed is never given before its time."""
    delivery = Delivery(most=4)
    reader = delivery.subscribe()
    delivery.deliver(1.0, 2.0, 3.0, 4.0, 5.0)
    assert len(reader) == 4
    assert await read(reader, 4) == [(2.0, 3), (3.0, 4), (4.0, 5), (5.0, 6)]


@virtual
async def test_an_agent_stays_until_it_knows_everything() -> None:
    """An agent with deltas that are not due is not let go; afterwards it may be."""
    delivery = Delivery(cached=1)
    delivery.deliver(4.0)
    delivery.attachments.add(Attachment("b", 1))
    assert (delivery.gone, delivery.attachments.in_use) == (["b"], True)
    await asyncio.sleep(4.0)
    assert delivery.told[-1] == (4.0, 2)
    assert not delivery.attachments.in_use
    delivery.attachments.add(Attachment("c", 1))
    assert delivery.gone == ["b", "a"]


@virtual
async def test_held_agents_stay_also_those_that_are_not_here_yet() -> None:
    """Who is held before it is attached is not let go by another one's coming."""
    delivery = Delivery(cached=1)
    with delivery.attachments.held("b"), delivery.attachments.held("b"):
        delivery.attachments.hold("a", 1)
        delivery.attachments.add(Attachment("b", 1))
        assert (len(delivery.attachments), delivery.gone) == (2, [])
        delivery.attachments.hold("a", -1)
        delivery.attachments.add(Attachment("c", 1))
        assert delivery.gone == ["a", "c"]
    delivery.attachments.add(Attachment("d", 1))
    assert delivery.gone == ["a", "c", "b"]


@virtual
async def test_an_agent_that_comes_back_is_told_of_what_is_still_to_come() -> None:
    """The deltas that it has missed count as they become due, however many of them are kept."""
    delivery = Delivery()
    back = Attachment("b", 1)
    for seq in range(2, 400):
        back.keep(delta(seq), 0.0 if seq < 200 else float(seq))
    delivery.attachments.add(back)
    assert (back.view_seq, back.made_seq) == (199, 399)
    await loop_until(lambda: back.view_seq == 399)
    assert delivery.told[-1] == (399.0, 399)
    assert all(at == seq for at, seq in delivery.told if seq >= 200)
    assert not back.in_use


@virtual
async def test_who_was_let_go_is_told_nothing() -> None:
    """Dropping an agent closes its readers; what was to come does not come."""
    delivery = Delivery()
    reader = delivery.subscribe()
    delivery.deliver(2.0)
    delivery.attachments.drop("a")
    delivery.attachments.drop("a")
    delivery.deliver(0.0)
    with pytest.raises(QueueClosedError):
        await reader.get()
    loop().advance(3.0)
    await settle()
    assert delivery.told == []


async def loop_until(condition: Callable[[], bool]) -> None:
    """Let the virtual time pass until something is so."""
    while not condition():
        await asyncio.sleep(1.0)


# -- in a world --------------------------------------------------------------------------------------------


async def test_what_is_on_its_way_is_not_known_yet(world: Orchestrator) -> None:
    """A view, a context and a reader have what is due; an agent's own effects are known to it at once."""
    a = await world.register_agent("a", lagging(FixedLatency(NEVER_S)))
    b = await world.register_agent("b", lagging(FixedLatency(NEVER_S)))
    receipt = await world.broadcast_event(message("hello", "b"))
    assert (await b.next_observation())["view_seq"] == receipt.global_seq
    assert (await world.view("b")).view_seq == receipt.global_seq
    assert (await a.view()).view_seq == a.view_seq
    assert (await a.view()).visible_entities == {}
    assert (await world.observed_events("a"))[0] == []
    assert len((await world.observed_events("b"))[0]) == 1
    reader = await world.subscribe("a")
    assert reader.view == a.initial_view
    assert (len(reader), reader.get_due()) == (1, [])
    token = a.issue_cancel_token("r")
    assert not token.cancelled
    # It acts by what it knows. Its own effect follows the other, so that it does not see that either before its time.
    accepted = await a.submit_intent(speak())
    await world.reached(accepted.global_seq)
    assert (len(reader), reader.get_due()) == (2, [])
    assert (await a.view()).view_seq == a.view_seq
    assert not token.cancelled
    reader.close()


async def test_order_is_kept_where_deltas_are_made_anew(
    world: Orchestrator, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deltas from a replay come in their order too, though a later one has the shorter delay."""
    monkeypatch.setattr("worldledger_service.runtime.attachments._KEPT", 0)
    other = await opening()
    first = await world.register_agent("a", lagging(FixedLatency(0.2)))
    await world.broadcast_event(message("hello", "b"))
    own = await world.broadcast_event(message("hi", "a"))
    for here in (world, other):
        await here.reached(own.global_seq)
        reader = await here.subscribe("a", view_seq=first.view_seq)
        found = await read_until(reader, own.global_seq)
        assert [event["source_id"] for each in found for event in each["events"]] == ["b", "a"]
        assert kept(first.initial_view, found) == await here.view("a", at_seq=own.global_seq)
        reader.close()


async def test_delays_outlive_the_process(opening: Opening) -> None:
    """What was on its way when a process ended is on its way still."""
    async with opening.until() as world:
        handle = await world.register_agent("a", lagging(FixedLatency(NEVER_S)))
        await world.broadcast_event(message("hello", "b"))
        handle.close()
    world = await opening()
    handle = await world.agent("a")
    assert handle.view_seq == (await world.view("a")).view_seq
    assert len(handle._subscription) == 1
    assert handle._subscription.get_due() == []
    await handle.submit_intent(speak())


async def test_what_is_farther_away_comes_later(world: Orchestrator) -> None:
    """The distance is that between source and agent; a near message waits for a far one before it."""
    for name, x in (("a", 0.0), ("near", 1e-7), ("far", 1000.0)):
        await world.broadcast_event(created(name, x, 0))
    a = await world.register_agent("a", lagging(DistanceLatency(1000.0)))
    near_by = await world.broadcast_event(message("here", "near"))
    assert (await a.next_observation())["view_seq"] == near_by.global_seq
    await world.broadcast_event(message("there", "far"))
    await world.broadcast_event(message("here", "near"))
    await world.broadcast_event(moved("x", 1, 1))
    assert (await a.view()).view_seq == near_by.global_seq
    assert len(a._subscription) == 2 + len(await effects(world, "Move"))
