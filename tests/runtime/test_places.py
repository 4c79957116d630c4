"""Places in a world that lives: what happens out of sight interrupts nobody, and what is private is heard by two."""

from __future__ import annotations

from worldledger_service.runtime import Orchestrator

from .helpers import ALL, created, draft, head_of, near, read_until, speak


async def test_an_explosion_far_away_cancels_no_generation(world: Orchestrator) -> None:
    """Nor one that hits an entity far away; one nearby does."""
    await world.broadcast_event(created("a", 0, 0))
    await world.broadcast_event(created("far", 1000, 0))
    a = await world.register_agent("a", near(50.0))
    token = world.issue_cancel_token("a", "r")
    await world.broadcast_event(draft("Explosion", {"position": [1000.0, 0.0, 0.0]}))
    await world.broadcast_event(draft("Explosion", {"target_id": "far"}))
    assert not token.cancelled
    await a.submit_intent(speak(req_id="r"))
    await world.broadcast_event(draft("Explosion", {"position": [1.0, 0.0]}))
    events, _ = await world.observed_events("a", kinds=["Explosion"])
    assert [event["payload"] for event in events] == [{"position": [1.0, 0.0]}]


async def test_a_private_message_is_heard_by_two(world: Orchestrator) -> None:
    """Who is not addressed is neither told nor interrupted, and sees no trace of it, now or later."""
    await world.broadcast_event(created("a"))
    a, b, c = [await world.register_agent(name, ALL) for name in "abc"]
    token = world.issue_cancel_token("c", "r")
    before = await world.view("c")
    payload = {"text": "psst", "private": True, "target_id": "b"}
    said = await a.submit_intent({"kind": "Speak", "payload": payload})
    await head_of(world)
    for handle in (a, b):
        (delta,) = await read_until(handle, said.global_seq)
        assert [event["payload"]["text"] for event in delta["events"]] == ["psst"]
    assert not token.cancelled
    assert await world.view("c") == before
    assert await world.observed_events("c", kinds=["Speak"]) == ([], said.global_seq)
    await c.submit_intent(speak(req_id="r"))
