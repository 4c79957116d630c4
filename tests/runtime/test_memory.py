"""Memory: what a world takes in this process, and what is let go."""

from __future__ import annotations

from worldledger_service.runtime import MemoryStats, OrchestratorConfig

from .conftest import Opening
from .helpers import ALL, created, near, speak


async def test_what_is_kept_is_counted(opening: Opening) -> None:
    """Entities, views, observations, tokens and answers, and roughly how many bytes they take."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=100))
    assert world.memory_stats() == MemoryStats(0, 0, 0, 0, 0, 0, 0, 0)
    for name, x in (("a", 0), ("x", 1), ("y", 99)):
        await world.broadcast_event(created(name, x, 0))
    a, b = await world.register_agent("a", near(5.0)), await world.register_agent("b", ALL)
    world.issue_cancel_token("b", "r")
    await world.broadcast_event(created("z", 2, 0))
    reader = await world.subscribe("b", view_seq=b.view_seq)
    accepted = await a.submit_intent(speak())
    await world.reached(accepted.global_seq)
    stats = world.memory_stats()
    assert stats._replace(estimated_bytes=0) == MemoryStats(
        entities=4,
        attached_agents=2,
        seen_entities=3 + 4,
        queued_deltas=2 + 2 + 2,
        kept_deltas=2 + 2,
        live_tokens=1,
        remembered_requests=1,
        estimated_bytes=0,
    )
    assert stats.estimated_bytes > 10_000
    reader.close()
    assert world.memory_stats().queued_deltas == 4


async def test_old_views_are_let_go(opening: Opening) -> None:
    """Those of agents that nobody needs, beyond the size of the cache, whatever handles are named."""
    world = await opening()
    handles = [await world.register_agent(f"a{n}", ALL) for n in range(6)]
    world._attachments._most = 2
    assert world.memory.evict_old_views(world.agent_handles) == 0
    for handle in handles[1:]:
        handle.close()
    assert world.memory.evict_old_views() == 4
    assert [each.agent_id for each in world._attachments] == ["a0", "a5"]
    assert world.memory.evict_old_views() == 0
    assert world.memory_stats().attached_agents == 2


async def test_requests_and_tokens_are_bounded(opening: Opening) -> None:
    """As the configuration says."""
    memory = {"max_remembered_requests": 3, "max_tokens": 2}
    world = await opening(config=OrchestratorConfig.model_validate({"memory": memory, "staleness_threshold": 100}))
    a = await world.register_agent("a", ALL)
    for n in range(6):
        await a.submit_intent(speak())
        a.issue_cancel_token(f"r-{n}")
    stats = world.memory_stats()
    assert (stats.remembered_requests, stats.live_tokens) == (3, 2)
