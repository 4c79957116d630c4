"""Slow readers: what they miss collapses, and leads to the same view."""

from __future__ import annotations

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from .conftest import Opening
from .helpers import ALL, created, draft, kept, patched
from .stories import AGENTS, POLICIES, related, story

# -- slow readers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AGENTS)
async def test_what_a_slow_reader_missed_collapses(opening: Opening, name: str) -> None:
    """A reader that does not read holds few deltas, which lead to the same view and say what they stand for."""
    world = await opening(config=OrchestratorConfig(max_queued_deltas=4))
    for other in AGENTS:
        await world.broadcast_event(created(other, 0, 0))
    await world.broadcast_event(related(name, "all"))
    await world.register_agent(name, POLICIES[name])
    slow = await world.subscribe(name)
    told = 0
    for each in story(80, seed=6, there=AGENTS):
        before = (await world.view(name)).view_seq
        await world.broadcast_event(each)
        told += (await world.view(name)).view_seq > before
        assert len(slow) <= 4
    found = slow.get_due()
    assert sum(delta.get("collapsed", 1) for delta in found) == told > 10
    view = kept(slow.view, found)
    assert view == await world.view(name)
    slow.close()


async def test_events_that_a_slow_reader_missed_are_counted(opening: Opening) -> None:
    """Of collapsed events the newest are kept and the others counted; the log still has them all."""
    world = await opening(config=OrchestratorConfig(max_queued_deltas=2))
    await world.register_agent("a", ALL)
    slow = await world.subscribe("a")
    for n in range(250):
        await world.broadcast_event(draft("Waved", {"n": n}))
    found = slow.get_due()
    events = [event["payload"]["n"] for delta in found for event in delta["events"]]
    dropped = sum(delta.get("events_dropped", 0) for delta in found)
    assert len(events) + dropped == 250
    assert events == list(range(dropped, 250))
    past: list[int] = []
    after = 0
    while len(past) < 250:
        page, after = await world.observed_events("a", after_seq=after, limit=33)
        past += [event["payload"]["n"] for event in page]
    assert past == list(range(250))
    assert await world.observed_events("a", after_seq=after) == ([], after)
    slow.close()


async def test_who_is_too_far_behind_is_sent_the_whole_view(
    world: Orchestrator, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a bound missed deltas are not made one by one: one turns any view into the present one."""
    monkeypatch.setattr("worldledger_service.runtime.observing._FAR", 20)
    monkeypatch.setattr("worldledger_service.runtime.attachments._KEPT", 5)
    handle = await world.register_agent("a", POLICIES["remembering"])
    handle.close()
    receipts = [await world.broadcast_event(each) for each in story(60, seed=7)]
    for here in (world, await opening()):  # attached already, and far away itself
        await here.reached(receipts[-1].global_seq)
        again = await here.agent("a")
        assert again.view_seq == handle.view_seq
        delta = await again.next_observation()
        assert delta["events_dropped"] == delta["collapsed"] == len(receipts)
        assert [each["op"] for each in delta["patches"]] == ["replace", "replace"]
        view = patched(again.initial_view, delta)  # type: ignore[arg-type]
        assert view == await here.view("a")
        receipt = await here.broadcast_event(created(f"new-{delta['view_seq']}"))
        receipts.append(receipt)
        assert patched(view, await again.next_observation()) == await here.view("a", at_seq=receipt.global_seq)
        again.orchestrator._attachments.get("a").acknowledged = handle.view_seq  # type: ignore[union-attr]
        again._subscription.close()
