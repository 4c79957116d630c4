"""A conversation with an interruption: A generates, B interrupts, A regenerates, C sees both in order."""

from __future__ import annotations

from worldledger_service.runtime import Orchestrator

from worldledger.observation import ObservationPolicy, PolicyConfig

from .conftest import Opening
from .helpers import effects, speak


async def converse(world: Orchestrator) -> None:
    """Play the conversation to its end."""
    policy = ObservationPolicy(PolicyConfig(distance_limit=50.0))
    agent_a = await world.register_agent("A", policy)
    agent_b = await world.register_agent("B", policy)
    agent_c = await world.register_agent("C", policy)

    cancel_token = world.issue_cancel_token("A", "req_1")
    assert world.generation("A", "req_1") is cancel_token
    draft = {
        "kind": "MessageEmitted",
        "payload": {"text": "Wait, I have something important!"},
        "source_id": "B",
        "schema_version": "1.0.0",
    }
    receipt = await world.broadcast_event(draft)  # type: ignore[arg-type]

    assert cancel_token.cancelled
    assert cancel_token.reason is not None
    assert cancel_token.reason.startswith("stale_due_to")
    assert cancel_token.reason == f"stale_due_to_effect_{receipt.global_seq}"

    heard = await agent_a.next_observation()
    assert [event["payload"] for event in heard["events"]] == [{"text": "Wait, I have something important!"}]
    again = world.issue_cancel_token("A", "req_1")
    accepted = await agent_a.submit_intent(speak("I am listening.", req_id="req_1"))
    assert not again.cancelled

    delta_1 = await agent_c.next_observation()
    delta_2 = await agent_c.next_observation()
    assert delta_1["view_seq"] < delta_2["view_seq"]
    assert (delta_1["view_seq"], delta_2["view_seq"]) == (receipt.global_seq, accepted.global_seq)
    assert [event["source_id"] for delta in (delta_1, delta_2) for event in delta["events"]] == ["B", "A"]
    assert agent_b.get_view_seq() < delta_1["view_seq"]


async def test_conversation_with_interruption(world: Orchestrator) -> None:
    """A's generation is cancelled by what B says; A regenerates with the same req_id, and C sees both in order."""
    await converse(world)
    await world.flush()
    told = [(each["kind"], each["payload"]) for each in await effects(world) if each["kind"].startswith("Generation")]
    kinds = [kind for kind, _ in told]
    assert sorted(kinds) == ["GenerationCancelled", "GenerationFinished", "GenerationStarted", "GenerationStarted"]
    ids = {payload["generation_id"] for _, payload in told}
    assert len(ids) == 2
    cancelled = next(payload for kind, payload in told if kind == "GenerationCancelled")
    assert cancelled["reason"].startswith("stale_due_to")
    assert cancelled["latency_ms"] >= 0.0
    assert await world.event_log.validate_integrity()


async def test_the_conversation_outlives_the_process(opening: Opening) -> None:
    """After a restart the agents are there, with their views where they acknowledged, and the log is whole."""
    async with opening.until() as world:
        await converse(world)
        seen = (await world.view("C")).context_digest
    async with opening.until() as world:
        assert list(await world.agents()) == ["A", "B", "C"]
        agent_c = await world.agent("C")
        # Asking for the second message acknowledged the first; closing the handle, the second.
        assert agent_c.initial_view is not None
        assert agent_c.initial_view.context_digest == seen
        agent_b = await world.agent("B")
        heard = [await agent_b.next_observation() for _ in range(2)]
        assert [event["source_id"] for delta in heard for event in delta["events"]] == ["B", "A"]
