"""Sightings: what makes an intent or a generation stale, counted alike wherever and whenever it is asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from worldledger_service.runtime import ObservationPolicy, Orchestrator, OrchestratorConfig
from worldledger_service.runtime.replays import Replay

from worldledger.errors import StaleContextError
from worldledger.intents import Accepted
from worldledger.observation import FixedLatency
from worldledger.policies import register_policy
from worldledger.world import WorldState

from .conftest import Opening
from .helpers import ALL, created, draft, effects, head_of, message, move, moved, near, refused, removed, speak, whole


async def expected(world: Orchestrator, context_seq: int, **fields: Any) -> int | None:
    """Return the oldest context that passes, or None where this one does."""
    agent_id = fields.pop("agent_id", "a")
    try:
        await world.submit_intent(whole(agent_id, context_seq, **fields))
    except StaleContextError as error:
        return error.expected_seq
    return None


# -- the runs that came to nothing -------------------------------------------------------------------------


async def test_thirty_who_generate_and_one_event(opening: Opening) -> None:
    """With a threshold of 10 one visible event cancels nobody, however many seqs the generations themselves take."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=10))
    handles = [await world.register_agent(f"a{n}", ALL) for n in range(30)]
    tokens = [handle.issue_cancel_token("thinking") for handle in handles]
    await world.flush()
    await world.broadcast_event(message())
    await head_of(world)
    assert not any(token.cancelled for token in tokens)


async def live(world: Orchestrator, handles: list[Any], step: Any, rounds: int = 15) -> list[Any]:
    """Have agents look, and act one after another upon what they saw; return what became of it."""
    results: list[Any] = []
    for n in range(rounds):
        await asyncio.gather(*(handle.view() for handle in handles))
        results += await asyncio.gather(
            *(handle.submit_intent(step(handle.agent_id, n)) for handle in handles), return_exceptions=True
        )
    return results


async def test_twenty_agents_whom_nothing_interrupts(opening: Opening) -> None:
    """With a threshold of null 300 of 300 intents are accepted, and each is recorded with what it was made from."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=None))
    handles = [await world.register_agent(f"a{n}", ALL) for n in range(20)]
    results = await live(world, handles, lambda agent_id, n: speak(f"{agent_id} {n}"))
    assert sum(isinstance(result, Accepted) for result in results) == 300
    contexts = [effect["source_metadata"]["context_seq"] for effect in await effects(world, "Speak")]
    assert None not in contexts
    assert len(set(contexts)) >= 15


async def test_twenty_agents_in_places_of_their_own(opening: Opening) -> None:
    """With only_conflict, where each moves in its own place and all see everything, at least 285 of 300 pass."""
    world = await opening(config=OrchestratorConfig(interrupt_policy="only_conflict"))
    for n in range(20):
        await world.broadcast_event(created(f"a{n}", 100.0 * n, 0))
    handles = [await world.register_agent(f"a{n}", ALL) for n in range(20)]
    results = await live(world, handles, lambda agent_id, n: move(100.0 * int(agent_id[1:]) + n, 1.0))
    assert sum(isinstance(result, Accepted) for result in results) >= 285


async def test_under_always_they_do_interrupt_each_other(world: Orchestrator) -> None:
    """The default: of those who look together and act one after another, all but the first are refused."""
    handles = [await world.register_agent(f"a{n}", ALL) for n in range(5)]
    assert isinstance(await handles[0].submit_intent(speak()), Accepted)
    for handle in handles[1:]:
        assert isinstance(await refused(handle.submit_intent(speak())), StaleContextError)


# -- only what concerns it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("intent", "counts"),
    [
        (speak(), False),
        (speak(about=["y", "x"]), True),
        (speak(about=["y"]), False),
        ({"kind": "Interact", "payload": {"target_id": "x"}}, True),
        ({"kind": "Interact", "payload": {"target_id": "y"}}, False),
        ({"kind": "Custom", "payload": {"kind": "Took", "entity_id": "x"}}, True),
        ({"kind": "Custom", "payload": {"kind": "Took", "text": "x"}}, False),
    ],
)
async def test_only_what_concerns_it(opening: Opening, intent: dict[str, Any], counts: bool) -> None:
    """Under only_conflict a change of x makes stale what names x by its payload or by about, and nothing else."""
    world = await opening(config=OrchestratorConfig(interrupt_policy="only_conflict"))
    for name in ("x", "y"):
        await world.broadcast_event(created(name, 1, 1))
    a = await world.register_agent("a", ALL)
    about = [*intent.get("about", ()), *(value for key, value in intent["payload"].items() if key.endswith("_id"))]
    token = a.issue_cancel_token("thinking", about=about)
    receipt = await world.broadcast_event(moved("x", 2, 2))
    assert (await expected(world, a.view_seq, **intent)) == (receipt.global_seq if counts else None)
    assert token.cancelled is counts
    if counts:
        assert token.details["interrupt_policy"] == "only_conflict"


async def test_what_is_addressed_to_the_agent_concerns_it(opening: Opening) -> None:
    """An event that names the agent, and what changes it, interrupts it whatever it is about to do."""
    world = await opening(config=OrchestratorConfig(interrupt_policy="only_conflict"))
    await world.broadcast_event(created("a", 0, 0))
    a = await world.register_agent("a", ALL)
    for effect in (draft("Called", {"target_id": "a"}, "b"), moved("a", 5, 5)):
        context = (await a.view()).view_seq
        receipt = await world.broadcast_event(effect)
        assert await expected(world, context) == receipt.global_seq
    context = (await a.view()).view_seq
    await world.broadcast_event(draft("Called", {"target_id": "c"}, "b"))
    assert await expected(world, context) is None


async def test_only_what_is_shown_decides(opening: Opening) -> None:
    """A name that the agent's policy hides in an event does not tell it that the event was about it."""
    world = await opening(config=OrchestratorConfig(interrupt_policy="only_conflict"))
    a = await world.register_agent("a", near(1e9, field_visibility={"target_id": False}))
    await world.broadcast_event(draft("Called", {"target_id": "x"}, "b"))
    assert await expected(world, a.view_seq, about=["x"]) is None
    receipt = await world.broadcast_event(draft("Called", {"entity_id": "x"}, "b"))
    assert await expected(world, a.view_seq, about=["x"]) == receipt.global_seq


# -- the same everywhere -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "policy"),
    [
        (0, "only_conflict"),
        (3, "always"),
        pytest.param(0, "always", marks=pytest.mark.thorough),
        pytest.param(3, "only_conflict", marks=pytest.mark.thorough),
    ],
)
async def test_the_verdict_is_the_same_in_every_process(
    opening: Opening, monkeypatch: pytest.MonkeyPatch, threshold: int, policy: str
) -> None:
    """Of every context: where the agent lives, in a process that has just begun, and beyond what is kept in memory."""
    monkeypatch.setattr("worldledger_service.runtime.attachments._KEPT", 4)
    monkeypatch.setattr("worldledger_service.runtime.sightings._KEPT", 4)
    monkeypatch.setattr("worldledger_service.runtime.sightings._FIRST", 5)
    config = OrchestratorConfig.model_validate({"staleness_threshold": threshold, "interrupt_policy": policy})
    world = await opening(config=config)
    await world.broadcast_event(created("a", 0, 0))
    await world.broadcast_event(created("x", 1, 1))
    await world.broadcast_event(created("far", 900, 0))
    a = await world.register_agent("a", near(50.0))
    seen = []
    for n in range(24):
        await world.broadcast_event(moved("far", 900, n))
        if n % 3 == 0:
            seen.append((await world.broadcast_event(moved("x", 1, n))).global_seq)
        if n % 4 == 0:
            await world.submit_intent(whole("a", await head_of(world)))
    head = await head_of(world)
    oldest = seen[-threshold - 1]
    wrong = speak(about=["x"])
    for context in sorted({*range(a.view_seq, head + 1, 8), oldest - 1, oldest, head}):
        wanted = None if context >= oldest else oldest
        async with opening.until(config=config) as other:
            for here in (world, other):
                assert await expected(here, context, **wrong) == wanted, context
                token = here.issue_cancel_token("a", f"g-{context}", context, about=["x"])
                if wanted is not None:
                    await asyncio.wait_for(token.wait_cancelled(), 60)
                    assert token.reason == f"stale_due_to_effect_{seen[-1]}"
                await here.flush()
            assert not other.issue_cancel_token("a", "now").cancelled


async def test_what_was_looked_for_is_known(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sightings of before an agent came here are worked out from the log once, however many intents ask."""
    async with opening.until() as world:
        a = await world.register_agent("a", ALL)
        seen = (await world.broadcast_event(message())).global_seq
        await world._follower._store.bulk_append(world.world_id, [draft("SimTick", {}, "a") for _ in range(50)])
        await head_of(world)
        await a.view()
        a.close()
        world.acknowledge("a", await head_of(world))
    world = await opening()
    replays = []
    begin = Replay.begin.__func__  # type: ignore[attr-defined]

    async def counted(*args: Any, **kwargs: Any) -> Replay:
        replays.append(args)
        found: Replay = await begin(Replay, *args, **kwargs)
        return found

    await world.view("a")
    monkeypatch.setattr(Replay, "begin", counted)
    results = await asyncio.gather(*(expected(world, a.view_seq) for _ in range(20)))
    assert set(results) == {seen}
    many = len(replays)
    assert many <= 2
    assert await expected(world, a.view_seq) == seen
    assert len(replays) == many


async def test_what_is_kept_of_them_is_bounded(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much an agent sees, so many sightings are kept of it; for a threshold more of them are looked for."""
    monkeypatch.setattr("worldledger_service.runtime.sightings._KEPT", 10)
    world = await opening()
    a = await world.register_agent("a", ALL)
    seqs = [(await world.broadcast_event(message(str(n)))).global_seq for n in range(30)]
    (attachment,) = world._attachments
    assert len(attachment.sightings) == 10
    assert await expected(world, a.view_seq, staleness_threshold=20) == seqs[-21]
    assert len(attachment.sightings) == 21
    assert await expected(world, seqs[-21], staleness_threshold=20) is None


async def test_what_is_on_its_way_counts_when_it_is_due(opening: Opening) -> None:
    """An agent with a latency is not interrupted by what it cannot know yet, nor is it in a process that has begun."""
    world = await opening()
    a = await world.register_agent("a", near(1e9, latency_model=FixedLatency(seconds=3600.0)))
    token = a.issue_cancel_token("thinking")
    await world.broadcast_event(message())
    for here in (world, await opening()):
        assert await expected(here, a.view_seq) is None
    assert not token.cancelled


@register_policy("test-timid")
class Timid(ObservationPolicy):
    """Sees everything as long as there is no ghost."""

    def sees_entity(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Fail at one."""
        if entity_id == "ghost":
            raise ZeroDivisionError
        return super().sees_entity(world_state, agent_id, entity_id)


async def test_a_policy_that_has_failed_in_between(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an agent saw before its policy failed makes nothing stale; what it has seen since does, everywhere."""
    monkeypatch.setattr("worldledger_service.runtime.sightings._FIRST", 3)
    world = await opening()
    a = await world.register_agent("a", Timid())
    await world.broadcast_event(created("x", 1, 1))
    with capture_logs():
        await world.broadcast_event(created("ghost"))
    await world.broadcast_event(removed("ghost"))
    for here in (world, await opening()):
        assert await expected(here, a.view_seq) is None
    receipt = await world.broadcast_event(moved("x", 2, 2))
    for here in (world, await opening()):
        assert await expected(here, a.view_seq) == receipt.global_seq


async def test_a_generation_in_a_list_is_not_stopped_by_the_list(opening: Opening) -> None:
    """What comes out of a list stops no generation that leads to another intent of it."""
    world = await opening(config=OrchestratorConfig(max_in_flight=1))
    handles = [await world.register_agent(name, ALL) for name in "ab"]
    tokens = [handle.issue_cancel_token("r") for handle in handles]
    results = await world.submit_intents([whole(name, handles[0].view_seq, req_id="r") for name in "ab"])
    assert all(isinstance(result, Accepted) for result in results)
    assert not any(token.cancelled for token in tokens)


async def test_a_stale_list_names_those_that_are(world: Orchestrator) -> None:
    """In an atomic list each intent is judged by its own context and threshold."""
    a = await world.register_agent("a", ALL)
    await world.broadcast_event(message())
    intents = [whole("a", a.view_seq, staleness_threshold=1), whole("a", a.view_seq)]
    error = await refused(world.submit_intents(intents, atomic=True))
    assert isinstance(error, StaleContextError)
    assert error.details["index"] == 1
    assert await world.submit_intents([intents[0]], atomic=True)
