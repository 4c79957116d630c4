"""Several intents at once: each by itself, or all or none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig
from worldledger_service.runtime.admission import Admission

from tests.waiting import calls_by_turn, wait_for
from worldledger.errors import SimulationError, StaleContextError
from worldledger.intents import Accepted

from .conftest import Opening
from .helpers import ALL, created, custom, effects, head_of, message, move, near, refused, speak, whole


async def two(world: Orchestrator) -> int:
    """Register two agents; return the context for both."""
    await world.register_agent("a", ALL)
    await world.register_agent("b", ALL, permissions=["submit_intent", "intent:speak"])
    return await head_of(world)


async def test_each_by_itself(opening: Opening) -> None:
    """Each gets its answer or its error in its place; those that are right are written in their order."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=3))
    await two(world)
    for _ in range(5):
        await world.broadcast_event(message())
    context = await head_of(world)
    results = await world.submit_intents(
        [
            whole("a", context, **speak("1")),
            whole("b", context, **move(1, 2)),
            whole("nobody", context),
            {**whole("a", context), "kind": "Shout"},
            whole("a", context - 4),
            whole("b", context, **speak("2")),
        ]
    )
    codes = [None if isinstance(result, Accepted) else result.code for result in results]
    assert codes == [None, "permission_denied", "unknown_agent", "invalid_intent", "stale_context", None]
    assert all("index" not in result.details for result in results if isinstance(result, SimulationError))
    assert [effect["payload"]["text"] for effect in await effects(world, "Speak")] == ["1", "2"]
    assert await world.submit_intents([]) == await world.submit_intents([], atomic=True) == []


async def test_a_long_list_lets_others_in_between(opening: Opening) -> None:
    """Few of its intents are begun in one turn of the event loop, in their order; one that is cut off leaves none."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=3))
    context = await two(world)
    intents = [whole("a", context, **speak(str(number))) for number in range(200)]
    with calls_by_turn(Admission, "one") as calls:
        results = await world.submit_intents(intents)
    assert all(isinstance(result, Accepted) for result in results)
    assert [effect["payload"]["text"] for effect in await effects(world, "Speak")] == [str(n) for n in range(200)]
    assert calls.total() == 200
    assert max(calls.values()) <= 2 * 32
    head = await head_of(world)
    more = [whole("b", head, **speak("cut off")) for _ in range(200)]
    cut = asyncio.create_task(world.submit_intents(more))
    await asyncio.sleep(0)
    cut.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut
    written = await head_of(world) - head
    assert written <= 32
    assert await world.submit_intents([whole("a", await head_of(world))])
    assert await head_of(world) == head + written + 1


async def test_all_together(world: Orchestrator) -> None:
    """An atomic list is one unit of the log, each judged by what those before it leave behind."""
    context = await two(world)
    intents = [
        whole("a", context, **custom("EntityCreated", {"entity_id": "x", "entity_data": {}})),
        whole("b", context, **speak("I saw that")),
        whole("a", context, **custom("EntityRemoved", {"entity_id": "x"})),
        whole("a", context, **custom("EntityCreated", {"entity_id": "x", "entity_data": {}})),
        whole("a", context, **move(1, 1)),
        whole("a", context, **move(2, 2, start=(1, 1))),
    ]
    results = await world.submit_intents(intents, atomic=True)
    assert all(isinstance(result, Accepted) and not result.replayed for result in results)
    assert [result.global_seq for result in results if isinstance(result, Accepted)] == list(
        range(context + 1, context + 7)
    )
    again = await world.submit_intents(intents, atomic=True)
    assert again == results
    assert all(isinstance(result, Accepted) and result.replayed for result in again)
    # Some of them are known, the others are made.
    more = [*intents[:2], whole("b", await head_of(world))]
    mixed = await world.submit_intents([{**each, "context_seq": await head_of(world)} for each in more], atomic=True)
    assert [result.replayed for result in mixed if isinstance(result, Accepted)] == [True, True, False]
    assert await head_of(world) == context + 7


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "invalid_intent": ("a", {"kind": "Speak", "payload": {"text": 1}}),
    "reserved_kind": ("a", custom("AgentRegistered")),
    "unknown_agent": ("nobody", speak()),
    "stale_context": ("a", {"context_seq": 1}),
    "permission_denied": ("b", move(1, 1)),
    "intent_conflict": ("a", move(1, 1, start=(9, 9))),
    "illegal_effect": ("a", custom("EntityRemoved", {"entity_id": "x"})),
    "quota_exceeded": ("a", {"payload": {"text": "", "token_count": 99}}),
    "request_conflict": ("a", {**speak("another"), "req_id": "used"}),
}


@pytest.mark.parametrize("code", WRONG)
async def test_one_refusal_refuses_all(opening: Opening, code: str) -> None:
    """Whatever is wrong with one of them, its index is told, nothing is written, and nobody is charged for that."""
    world = await opening(config=OrchestratorConfig(token_budget=10, tokens_per_s=1e-9))
    await two(world)
    await world.broadcast_event(created("a", 0, 0))
    await world.submit_intent(whole("a", await head_of(world), req_id="used"))
    context = await head_of(world)
    agent_id, fields = WRONG[code]
    good: list[dict[str, Any]] = [whole("a", context, payload={"text": "", "token_count": 1}) for _ in range(2)]
    wrong = {**whole(agent_id, context), **fields}
    error = await refused(world.submit_intents([*good, wrong, whole("b", context)], atomic=True))
    assert error.code == code
    assert error.details["index"] == 2
    assert await head_of(world) == context
    (status,) = world.quotas.status("a")
    assert status.remaining == (8 if code not in {"quota_exceeded", "unknown_agent", "stale_context"} else 10) + (
        2 if code in {"invalid_intent", "reserved_kind"} else 0
    )
    results = await world.submit_intents(good, atomic=True)
    assert len(results) == 2
    (status,) = world.quotas.status("a")
    assert status.remaining == 8


async def test_one_request_with_two_bodies_in_one_list(world: Orchestrator) -> None:
    """The list is refused; with one body it is one effect, answered twice."""
    context = await two(world)
    one = whole("a", context)
    error = await refused(world.submit_intents([one, {**one, **speak("another")}], atomic=True))
    assert (error.code, error.details["index"]) == ("request_conflict", 1)
    assert await head_of(world) == context
    first, second = await world.submit_intents([one, one], atomic=True)
    assert first == second
    assert isinstance(second, Accepted)
    assert second.replayed
    assert await head_of(world) == context + 1


async def test_lists_from_all_sides(opening: Opening) -> None:
    """Atomic lists of two processes on one world are whole in the log, whatever comes between."""
    config = OrchestratorConfig(staleness_threshold=10_000)
    worlds = [await opening(config=config) for _ in range(2)]
    context = await two(worlds[0])
    await worlds[1].agent("a")

    async def submit(n: int) -> list[Accepted | SimulationError]:
        texts = [f"{n}-{part}" for part in range(4)]
        lists = [whole("a", context, **speak(text)) for text in texts]
        return await worlds[n % 2].submit_intents(lists, atomic=True)

    results = await asyncio.gather(*(submit(n) for n in range(24)))
    for result in results:
        seqs = [each.global_seq for each in result if isinstance(each, Accepted)]
        assert seqs == list(range(seqs[0], seqs[0] + 4))
    assert len(await effects(worlds[0], "Speak")) == 96


async def test_a_list_ends_the_generations_that_led_to_it(world: Orchestrator) -> None:
    """As single intents do."""
    context = await two(world)
    tokens = [world.issue_cancel_token(name, "r") for name in "ab"]
    await world.submit_intents([whole(name, context, req_id="r") for name in "ab"], atomic=True)
    await head_of(world)
    await world.flush()
    assert not any(token.cancelled for token in tokens)
    assert len(await effects(world, "GenerationFinished")) == 2
    await world.broadcast_event(message())


async def test_what_was_accepted_before_is_no_reason_to_refuse_a_list(opening: Opening) -> None:
    """In an atomic list a request of an old view that was accepted is answered as then, and new ones are written."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=3))
    context = await two(world)
    first = whole("a", context, **speak("1", req_id="r1"))
    accepted = await world.submit_intent(first)
    for _ in range(5):
        await world.broadcast_event(message())
    new = whole("a", await head_of(world), **speak("2", req_id="r2"))
    again, fresh = await world.submit_intents([first, new], atomic=True)
    assert isinstance(again, Accepted)
    assert isinstance(fresh, Accepted)
    assert (again, again.global_seq, again.replayed) == (accepted, accepted.global_seq, True)
    assert not fresh.replayed
    assert [effect["payload"]["text"] for effect in await effects(world, "Speak")] == ["1", "2"]


async def test_what_others_do_makes_the_rest_of_a_list_stale(opening: Opening) -> None:
    """What came out of the list itself does not, though both agents have seen it; what somebody else says does."""
    world = await opening(config=OrchestratorConfig.model_validate({"staleness_threshold": 0, "max_in_flight": 1}))
    await two(world)
    await world.register_agent("far", near(1.0))
    context = await head_of(world)
    names = ["a", "b", "far"]
    listed = [whole(names[n % 3], context, **speak(str(n))) for n in range(120)]
    submitting = asyncio.create_task(world.submit_intents(listed))
    await wait_for(lambda: world._follower.seq > context + 40, "some of them were seen")
    said = (await world.broadcast_event(message())).global_seq
    results = await submitting
    accepted = [result.global_seq for result in results if isinstance(result, Accepted)]
    refusals = [result for result in results if not isinstance(result, Accepted)]
    assert len(accepted) > 40
    assert refusals
    assert {result.code for result in refusals} == {"stale_context"}
    assert {result.expected_seq for result in refusals if isinstance(result, StaleContextError)} == {said}
    texts = [effect["payload"]["text"] for effect in await effects(world, "Speak")]
    assert texts == [str(n) for n in range(120) if isinstance(results[n], Accepted)]
    assert await world.submit_intents([whole("a", said)])


async def test_a_list_longer_than_what_is_kept_of_views(opening: Opening) -> None:
    """However many effects come out of a list, it does not make itself stale."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=0))
    context = await two(world)
    results = await world.submit_intents([whole("a", context, **speak(str(n))) for n in range(1000)])
    assert {str(result) for result in results if not isinstance(result, Accepted)} == set()
