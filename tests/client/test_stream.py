"""The order of what comes over a link, when some of it was too large to be sent or a connection was lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import wait_for
from worldledger.client.link import DeltaQueue, Missing, Stream
from worldledger.deltas import ObservationDelta, View
from worldledger.errors import SimulationError, StoreUnavailableError, UnknownAgentError
from worldledger.patches import diff

from .helpers import after, soon


def history(count: int) -> list[View]:
    """Return the views of an agent in a world where each effect adds, changes or removes something."""
    views = []
    for seq in range(1, count + 1):
        seen: dict[str, Any] = {f"e{n}": {"n": n, "at": seq if n == seq % 5 else n} for n in range(seq % 7)}
        views.append(View.of("alice", seq, seen, {"e0": ["e1"]} if seq % 3 == 0 and seq % 7 > 1 else {}))
    return views


def delta_between(old: View, new: View) -> ObservationDelta:
    """Return the delta from one view to the next."""
    parts = ("visible_entities", "visible_relationships")
    before, now = ({name: getattr(view, name) for name in parts} for view in (old, new))
    return ObservationDelta(
        view_seq=new.view_seq,
        patches=diff(before, now),
        context_digest=new.context_digest,
        schema_version="1.0.0",
        events=[],
    )


class Service:
    """Gives views, some of them after errors, and only when it is let."""

    def __init__(self, views: list[View], *errors: SimulationError) -> None:
        self.views = views
        self.errors = list(errors)
        self.asked: list[int] = []
        self.let = asyncio.Event()
        self.let.set()
        self.failed: list[SimulationError] = []

    async def view_at(self, seq: int) -> View:
        """Return a view."""
        self.asked.append(seq)
        await self.let.wait()
        if self.errors:
            raise self.errors.pop(0)
        return self.views[seq - 1]

    def stream(self, queue: DeltaQueue | None, view_seq: int | None = None) -> Stream:
        """Make a stream."""
        return Stream(view_seq, view_at=self.view_at, receive=queue, failed=self.failed.append)


def item(views: list[View], seq: int, *, large: bool) -> ObservationDelta | Missing:
    """Return the observation of a seq, as it is sent."""
    return Missing(seq) if large else delta_between(views[seq - 2], views[seq - 1])


@given(
    large=st.lists(st.booleans(), min_size=3, max_size=30),
    pauses=st.lists(st.integers(0, 3), min_size=30, max_size=30),
    cuts=st.sets(st.integers(2, 31), max_size=4),
)
def test_whatever_is_too_large_and_whenever_it_is_cut_the_views_follow(
    large: list[bool], pauses: list[int], cuts: set[int]
) -> None:
    """What is given always leads from view to view, each seq once, and comes to the last one."""

    async def run() -> None:
        views = history(len(large) + 1)
        service, queue = Service(views), DeltaQueue(1000)
        stream = service.stream(queue, 1)
        stream.greeted(1)
        assert await stream.begun is None
        seq = 2
        while seq <= len(views):
            if seq in cuts:
                cuts.discard(seq)
                service.let.set() if seq % 2 else service.let.clear()
                stream.cut()
                service.let.set()
                assert stream.view_seq is not None
                seq = stream.view_seq + 1  # the service goes on from where the next connection says
                stream.greeted(stream.view_seq)
                continue
            stream.take(item(views, seq, large=large[seq - 2]))
            for _ in range(pauses[seq - 2]):
                await asyncio.sleep(0)
            seq += 1
        await wait_for(lambda: stream.view_seq == len(views))
        view = views[0]
        for delta in queue.get_due():
            assert delta["view_seq"] > view.view_seq
            view = after(view, delta)
            assert view == views[view.view_seq - 1]
        assert view == views[-1]

    asyncio.run(run())


async def test_an_observation_that_was_too_large_is_the_whole_view() -> None:
    """It says how many events may be missing; what came after it waits, and comes after it."""
    views = history(6)
    service, queue = Service(views), DeltaQueue(100)
    stream = service.stream(queue, 1)
    stream.greeted(1)
    service.let.clear()
    stream.take(Missing(4))
    stream.take(item(views, 5, large=False))
    stream.take(item(views, 6, large=False))
    await wait_for(lambda: service.asked == [4])
    assert queue.get_due() == []
    service.let.set()
    first = await soon(queue.get())
    assert (first["view_seq"], first["collapsed"], first["events_dropped"]) == (4, 3, 3)
    assert after(views[0], first, *queue.get_due()) == views[5]


async def test_of_several_that_are_too_large_the_last_is_fetched() -> None:
    """While a view is fetched, a later one makes what came in between needless."""
    views = history(6)
    service, queue = Service(views), DeltaQueue(100)
    stream = service.stream(queue, 1)
    stream.greeted(1)
    service.let.clear()
    for seq, large in ((2, True), (3, False), (4, True), (5, True), (6, False)):
        stream.take(item(views, seq, large=large))
    await wait_for(lambda: service.asked == [2])
    service.let.set()
    await wait_for(lambda: stream.view_seq == 6)
    assert service.asked == [2, 5]
    assert [delta["view_seq"] for delta in queue.get_due()] == [2, 5, 6]


async def test_what_waits_for_a_view_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If too much comes meanwhile, a later view is fetched instead."""
    monkeypatch.setattr("worldledger.client.link._MOST_HELD", 3)
    views = history(12)
    service, queue = Service(views), DeltaQueue(100)
    stream = service.stream(queue, 1)
    stream.greeted(1)
    service.let.clear()
    for seq in range(2, 13):
        stream.take(item(views, seq, large=seq == 2))
        assert len(stream._held) <= 3
    service.let.set()
    await wait_for(lambda: stream.view_seq == 12)
    assert after(views[0], *queue.get_due()) == views[-1]


async def test_the_first_view_may_be_too_large_too() -> None:
    """Then it is fetched, and the observations begin with it."""
    views = history(3)
    service, queue = Service(views), DeltaQueue(100)
    stream = service.stream(queue)
    stream.greeted(2)
    stream.take(Missing(2))
    stream.take(item(views, 3, large=False))
    assert await soon(stream.begun) == views[1]
    assert stream.began_at == 2
    assert after(views[1], *queue.get_due()) == views[2]


async def test_a_view_that_cannot_be_fetched_now_is_asked_for_again() -> None:
    """An outage is waited out; a refusal ends the stream."""
    views = history(3)
    service, queue = Service(views, StoreUnavailableError("away"), StoreUnavailableError("still")), DeltaQueue(100)
    stream = service.stream(queue, 1)
    stream.greeted(1)
    stream.take(Missing(2))
    assert (await soon(queue.get()))["view_seq"] == 2
    assert service.asked == [2, 2, 2]
    service.errors.append(UnknownAgentError("alice", "town"))
    stream.take(Missing(3))
    await wait_for(lambda: bool(service.failed))
    assert isinstance(service.failed[0], UnknownAgentError)


async def test_what_is_sent_again_is_given_once() -> None:
    """After a connection was lost, observations that were given already are passed over."""
    views = history(4)
    service, queue = Service(views), DeltaQueue(100)
    stream = service.stream(queue, 1)
    stream.greeted(1)
    stream.take(item(views, 2, large=False))
    stream.cut()
    stream.greeted(1)
    for seq in (2, 3, 4):
        stream.take(item(views, seq, large=False))
    assert [delta["view_seq"] for delta in queue.get_due()] == [2, 3, 4]


async def test_without_a_reader_nothing_is_fetched() -> None:
    """A link that only has generations knows where the agent is, and no more."""
    service = Service(history(9))
    stream = service.stream(None)
    stream.greeted(3)
    stream.take(Missing(3))
    assert await soon(stream.begun) is None
    stream.take(Missing(7))
    assert (stream.view_seq, service.asked) == (7, [])


async def test_whoever_waits_for_the_beginning_is_told_of_the_end() -> None:
    """An error ends the wait for the first view, and the queue."""
    queue = DeltaQueue(2)
    stream = Service([]).stream(queue)
    stream.end(UnknownAgentError("alice", "town"))
    with pytest.raises(UnknownAgentError):
        await stream.begun
    with pytest.raises(UnknownAgentError):
        await queue.get()
    with pytest.raises(UnknownAgentError):
        queue.get_due()


async def test_a_reader_that_does_not_keep_up_holds_a_bounded_number() -> None:
    """The older half becomes one delta, which leads to the same view."""
    views = history(200)
    queue = DeltaQueue(10)
    for seq in range(2, 201):
        delta = item(views, seq, large=False)
        assert not isinstance(delta, Missing)
        queue.put(delta)
        assert len(queue) <= 10
    assert after(views[0], *queue.get_due()) == views[-1]
