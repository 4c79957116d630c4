"""Idempotency: one req_id is one effect, whoever asks again, whenever, and in whichever process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from tests.store.proxy import Proxy
from tests.waiting import wait_for
from worldledger.errors import RequestConflictError, SimulationError
from worldledger.intents import Accepted

from .conftest import Opening
from .helpers import ALL, effects, head_of, message, move, refused, settle, speak, start, whole

#: One intent per agent and hour, more or less.
SCARCE = OrchestratorConfig(intents_per_s=1e-9, intents_burst=1)


async def test_a_request_is_answered_as_it_was_the_first_time(opening: Opening) -> None:
    """Though its context is stale by now and its agent over quota; in this process, in another, and after a restart."""
    async with opening.until(config=SCARCE) as world:
        a = await world.register_agent("a", ALL)
        intent = whole("a", a.view_seq)
        first = await world.submit_intent(intent)
        assert not first.replayed
        await world.broadcast_event(message())
        assert (await refused(world.submit_intent(whole("a", a.view_seq)))).code == "stale_context"
        again = await world.submit_intent(intent)
        other = await opening(config=SCARCE)
        there = await other.submit_intent(intent)
    world = await opening(config=SCARCE)
    after = await world.submit_intent(intent)
    fresh = await world.submit_intent(whole("a", await head_of(world)))  # the replay has not been charged for
    assert fresh.global_seq > first.global_seq
    late = await world.submit_intent({**intent, "context_seq": await head_of(world)})
    for replay in (again, there, after, late):
        assert (replay, replay.global_seq, replay.req_id) == (first, first.global_seq, first.req_id)
        assert replay.replayed
    assert len(await effects(world, "Speak")) == 2


async def test_also_where_it_may_not_be_made_any_more(opening: Opening) -> None:
    """An accepted request is answered though its agent has lost the permission since, here and elsewhere."""
    world = await opening(config=OrchestratorConfig.model_validate({"memory": {"max_remembered_requests": 1}}))
    a = await world.register_agent("a", ALL)
    intent = whole("a", a.view_seq)
    first = await world.submit_intent(intent)
    await world.register_agent("a", ALL, permissions=[])
    again = await world.submit_intent({**intent, "context_seq": await head_of(world)})
    assert (again, again.replayed) == (first, True)
    world._admission.requests._answers.clear()
    again = await world.submit_intent({**intent, "context_seq": await head_of(world)})
    assert (again, again.replayed) == (first, True)


async def test_another_body_is_another_request(opening: Opening) -> None:
    """A req_id that comes back with another body is refused, from memory, in flight, in another process, when stale."""
    world, other = await opening(), await opening()
    a = await world.register_agent("a", ALL)
    b = await world.register_agent("b", ALL)
    context = await head_of(world)
    intent = whole("a", context)
    first = await world.submit_intent(intent)
    bodies: list[dict[str, Any]] = [
        speak("something else"),
        move(1, 2),
        {"priority": 1},
        {"schema_version": "2.0.0"},
    ]
    for body in bodies:
        for here in (world, other):
            error = await refused(here.submit_intent({**intent, **body}))
            assert isinstance(error, RequestConflictError), error
            assert error.details["req_id"] == intent["req_id"]
    assert error.details["global_seq"] == first.global_seq
    # Another agent's request of the same name is its own.
    await b.next_observation()
    assert not (await b.submit_intent(speak(req_id=intent["req_id"]))).replayed
    async with world._admission.scheduler.turn("somebody"):
        context = await head_of(world)
        both = [start(world.submit_intent(whole("a", context, req_id="r", **speak(text)))) for text in ("one", "two")]
        results = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Accepted", "RequestConflictError"]
    assert a.view_seq < first.global_seq


async def test_duplicates_at_once_are_one_effect(opening: Opening) -> None:
    """Of many at the same moment, over two processes, one is made and the others are told of it."""
    config = OrchestratorConfig(staleness_threshold=100)
    worlds = [await opening(config=config), await opening(config=config)]
    a = await worlds[0].register_agent("a", ALL)
    await worlds[1].agent("a")
    intents = [whole("a", a.view_seq) for _ in range(5)]
    results = await asyncio.gather(
        *(worlds[n % 2].submit_intent(intents[n % 5]) for n in range(60)), return_exceptions=True
    )
    found = await effects(worlds[0], "Speak")
    made = {str(effect["req_id"]): effect["uuid"] for effect in found}
    assert len(found) == len(made) == 5
    for n, result in enumerate(results):
        assert isinstance(result, Accepted)
        assert result == made[intents[n % 5]["req_id"]]
    assert sum(isinstance(result, Accepted) and not result.replayed for result in results) == 5


async def test_a_refusal_does_not_use_a_request_up(world: Orchestrator) -> None:
    """What was refused may be sent again under its req_id, also with another body."""
    a = await world.register_agent("a", ALL, permissions=["submit_intent", "intent:move"])
    assert (await refused(a.submit_intent(speak(req_id="r")))).code == "permission_denied"
    a = await world.register_agent("a", ALL)
    accepted = await a.submit_intent(speak("now", req_id="r"))
    assert not accepted.replayed


# -- callers that go away ----------------------------------------------------------------------------------


async def test_a_caller_that_goes_away_while_it_waits_leaves_nothing(opening: Opening) -> None:
    """Neither an effect nor a place in line; if others wait for the same request, one of them makes it."""
    world = await opening(config=OrchestratorConfig(max_in_flight=1))
    a = await world.register_agent("a", ALL)
    alone, shared = whole("a", a.view_seq), whole("a", a.view_seq)
    async with world._admission.scheduler.turn("somebody"):
        gone = start(world.submit_intent(alone))
        makers = [start(world.submit_intent(shared)) for _ in range(3)]
        await wait_for(lambda: world.waiting == 2, "they wait")
        gone.cancel()
        makers[0].cancel()
        await asyncio.wait([gone, makers[0]])
        await settle()
        assert world.waiting == 1
    assert gone.cancelled()
    assert makers[0].cancelled()
    one, two = await asyncio.gather(*makers[1:])
    assert one == two
    assert (one.replayed, two.replayed) == (False, True)
    assert [effect["req_id"] for effect in await effects(world, "Speak")] == [shared["req_id"]]
    assert not world.in_use or await _idle(world)


async def _idle(world: Orchestrator) -> bool:
    """Wait until nobody needs the world but the handles."""
    for handle in list(world.agent_handles.values()):
        handle.close()
    await wait_for(lambda: not world.in_use, "nobody needs the world")
    return True


@pytest.mark.parametrize("what", ["lose_request", "lose_answer"])
async def test_a_caller_that_goes_away_in_the_middle_of_the_write(
    opening: Opening, database_url: str, what: str
) -> None:
    """Whether its effect was written or not, the same request again is made once."""
    async with Proxy(database_url).running() as proxy:
        world = await opening(url=proxy.url)
        a = await world.register_agent("a", ALL)
        await a.submit_intent(speak())
        await a.next_observation()
        intent = whole("a", a.view_seq, **speak("needle-in-a-haystack"))
        rule = getattr(proxy, what)(b"needle-in-a-haystack")
        submitting = start(world.submit_intent(intent))
        await asyncio.wait_for(rule.done.wait(), 30)
        submitting.cancel()
        await asyncio.wait([submitting])
        accepted = await world.submit_intent(intent)
        assert (await effects(world, "Speak"))[1:] == [
            each for each in await effects(world) if each["uuid"] == accepted
        ]
        await world.reached(accepted.global_seq)
        assert (await world.view("a")).view_seq == accepted.global_seq


async def test_callers_go_away_at_every_step(world: Orchestrator) -> None:
    """However far a submission has come when its caller goes, it is written once or not at all, and others go on."""
    a = await world.register_agent("a", ALL)
    b = await world.register_agent("b", ALL)
    intents: list[dict[str, Any]] = []
    for steps in range(40):
        intent = whole("a", await head_of(world))
        intents.append(intent)
        submitting = start(world.submit_intent(intent))
        for _ in range(steps % 20):
            await asyncio.sleep(0 if steps < 20 else 0.0002)
        submitting.cancel()
        other = start(world.submit_intent(whole("b", await head_of(world))))
        await asyncio.wait([submitting, other])
        if (error := other.exception()) is not None:
            assert isinstance(error, SimulationError)
            assert error.code == "stale_context"
    for intent in intents:
        await world.submit_intent({**intent, "context_seq": await head_of(world)})
    made = [effect["req_id"] for effect in await effects(world, "Speak") if effect["source_id"] == "a"]
    assert sorted(map(str, made)) == sorted(intent["req_id"] for intent in intents)
    assert (world.waiting, world._admission.scheduler.in_flight, world._admission.requests.in_flight) == (0, 0, 0)
    assert a.agent_id != b.agent_id
    assert await world.event_log.validate_integrity()
