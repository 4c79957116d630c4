"""The pipeline: its stages in order, each by itself, and nothing written before all of them have passed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest_asyncio
from structlog.testing import capture_logs
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from tests.waiting import wait_for
from worldledger.chain import StoredEffect
from worldledger.effects import Intent
from worldledger.errors import (
    BackpressureError,
    DeadlineExceededError,
    IllegalEffectError,
    IntentRefusedError,
    InvalidIntentError,
    PermissionDeniedError,
    QuotaExceededError,
    RecoveryAction,
    ReservedKindError,
    SimulationError,
    StaleContextError,
    UnknownAgentError,
    ValidatorError,
)
from worldledger.intents import Accepted
from worldledger.world import WorldState

from .conftest import Opening
from .helpers import ALL, created, custom, effects, head_of, message, move, refused, settle, speak, start, whole


class Verdicts:
    """A validator that says what an intent's payload tells it to."""

    def __init__(self) -> None:
        self.asked = 0

    def validate_intent(self, intent: Intent, world_state: WorldState) -> bool:
        """Refuse by the word, or by how much there is of something."""
        self.asked += 1
        payload: dict[str, Any] = intent["payload"]
        what: Any = payload.get("verdict")
        if what == "raise":
            raise ZeroDivisionError
        if what == "own error":
            raise PermissionDeniedError(intent["agent_id"], "moderator's leave")
        if what == "spoil":
            payload.clear()  # a copy of its own
        if what == "only one":
            return not any(entity.get("message_count") for entity in world_state.entities.values())
        return bool(what != "no")


@pytest_asyncio.fixture(loop_scope="session")
async def strict(opening: Opening) -> Orchestrator:
    """Return a world in which everything is scarce: no budget, no room, and a validator."""
    config = OrchestratorConfig(
        token_budget=10,
        tokens_per_s=1e-9,
        backpressure_policy="drop_newest",
        max_in_flight=1,
        max_pending=1,
    )
    return await opening(config=config, validator=Verdicts())


async def test_an_intent_fails_at_the_first_stage_that_refuses_it(strict: Orchestrator) -> None:
    """With everything wrong about it, the errors come in the order of the stages while it is mended bit by bit."""
    world = strict
    a = await world.register_agent("a", ALL, permissions=[])
    b = await world.register_agent("b", ALL)
    await world.broadcast_event(message())
    head = await head_of(world)
    await b.next_observation()
    bad = whole(
        "nobody", a.view_seq, **custom("EntityRemoved", {"entity_id": "x", "token_count": 99, "verdict": "no"}), mood=1
    )
    turn = world._admission.scheduler.turn("somebody")
    await turn.__aenter__()
    waiting = start(b.submit_intent(speak()))
    await settle()

    async def then(expected: type[SimulationError], **mended: Any) -> None:
        error = await refused(world.submit_intent(bad))
        assert type(error) is expected, error
        bad.update(mended)

    payload = bad["payload"]
    await then(InvalidIntentError)
    del bad["mood"]
    await then(UnknownAgentError, agent_id="a")
    await then(StaleContextError, context_seq=head)
    await then(QuotaExceededError, payload=payload | {"token_count": 10})
    await then(BackpressureError)
    assert len(await effects(world)) == head - 1
    await turn.__aexit__(None, None, None)
    await waiting
    bad["context_seq"] = await head_of(world)
    await then(PermissionDeniedError)
    await world.register_agent("a", ALL, permissions=["submit_intent", "intent:custom"])
    await then(IntentRefusedError, payload=payload | {"token_count": 10, "verdict": "yes"})
    error = await refused(world.submit_intent(bad))
    assert isinstance(error, IllegalEffectError)
    assert error.details["rule"] == "unknown_entity"
    await world.broadcast_event(created("x"))
    bad["context_seq"] = await head_of(world)
    accepted = await world.submit_intent(bad)
    kinds = [each["kind"] for each in await effects(world)]
    assert kinds[-1] == "EntityRemoved"
    assert len(kinds) == accepted.global_seq - 1
    assert kinds.count("Speak") == 1


async def test_what_an_intent_becomes(world: Orchestrator) -> None:
    """Its effect has the agent as its source and tells of the intent; the answer is the effect's uuid and place."""
    a = await world.register_agent("a", ALL)
    b = await world.register_agent("b", ALL)
    for intent, kind in (
        (speak("hi", priority=3, req_id="r-1", schema_version="2.1.0"), "Speak"),
        (move(1, 2, start=(5, 5)), "Move"),
        ({"kind": "Interact", "payload": {"target_id": "b"}}, "Interact"),
        (custom("Waved", {"n": 1}), "Waved"),
    ):
        context = (await a.view()).view_seq
        accepted = await a.submit_intent({**intent, "context_seq": context})
        effect = (await effects(world))[-1]
        assert isinstance(accepted, Accepted)
        assert (accepted, accepted.global_seq) == (effect["uuid"], effect["global_seq"])
        assert (accepted.req_id, accepted.replayed) == (effect["req_id"], False)
        assert (effect["kind"], effect["source_id"]) == (kind, "a")
        assert effect["source_metadata"] == {"intent": intent["kind"], "context_seq": context}
        assert effect["priority"] == intent.get("priority", 0)
        assert effect["schema_version"] == intent.get("schema_version", "1.0.0")
        await world.reached(accepted.global_seq)
    assert (await world.view("b")).visible_entities["a"]["position"] == [1.0, 2.0, 0.0]
    assert b.view_seq < a.view_seq + 4


async def test_shapes_are_refused_by_path(world: Orchestrator) -> None:
    """Nothing is taken for something else; kinds of the service are not for agents."""
    a = await world.register_agent("a", ALL)
    for intent, path in (
        (speak(kind="Shout"), "$.kind"),
        (speak(context_seq="1"), "$.context_seq"),
        (speak(req_id=""), "$.req_id"),
        ({"kind": "Speak", "payload": {}}, "$.payload.text"),
        (move(1), "$.payload.to"),
        (move(1, float("nan")), "$.payload.to[1]"),
    ):
        error = await refused(a.submit_intent(intent))
        assert isinstance(error, InvalidIntentError)
        assert error.path == path
    assert isinstance(await refused(a.submit_intent(custom("AgentRegistered"))), ReservedKindError)
    assert len(await effects(world)) == 1


# -- quota, turns, deadline --------------------------------------------------------------------------------


async def test_quota_is_charged_once(opening: Opening) -> None:
    """However often a request is sent; what is refused has cost too, and what found no room has not."""
    config = OrchestratorConfig(
        intents_per_s=1e-9, intents_burst=3, backpressure_policy="drop_newest", max_in_flight=1, max_pending=1
    )
    world = await opening(config=config, validator=Verdicts())
    a = await world.register_agent("a", ALL)

    def left() -> int:
        (status,) = world.quotas.status("a")
        return status.remaining

    first = whole("a", a.view_seq)
    await asyncio.gather(*(world.submit_intent(first) for _ in range(5)))
    assert left() == 2
    await world.submit_intent(first)
    assert left() == 2
    await a.next_observation()
    no = speak(req_id="no") | {"payload": {"text": "", "verdict": "no"}}
    for _ in range(3):
        assert isinstance(await refused(a.submit_intent(no)), IntentRefusedError)
        assert left() == 1
    async with world._admission.scheduler.turn("somebody"):
        waiting = start(world.submit_intent(whole("a", a.view_seq)))
        await settle()
        assert left() == 0
        error = await refused(a.submit_intent(speak(req_id="late")))
        assert isinstance(error, QuotaExceededError)
        assert error.recovery is RecoveryAction.DEFER
        waiting.cancel()
        await asyncio.wait([waiting])
    assert left() == 0
    assert isinstance(await refused(a.submit_intent(speak(req_id="late"))), QuotaExceededError)


async def test_what_finds_no_room_is_not_charged(strict: Orchestrator) -> None:
    """An agent does not pay for what others have caused."""
    a = await strict.register_agent("a", ALL)
    b = await strict.register_agent("b", ALL)
    async with strict._admission.scheduler.turn("somebody"):
        waiting = start(b.submit_intent(speak()))
        await settle()
        error = await refused(a.submit_intent({"kind": "Speak", "payload": {"text": "", "token_count": 7}}))
        assert isinstance(error, BackpressureError)
    await waiting
    (status,) = strict.quotas.status("a")
    assert status.remaining == 10


async def test_who_waits_goes_by_priority(opening: Opening) -> None:
    """Of those that wait the highest priority has the next turn, and so the next place in the log."""
    world = await opening(config=OrchestratorConfig(max_in_flight=1, default_priority=2, staleness_threshold=100))
    for name in "abcd":
        await world.register_agent(name, ALL)
    head = await head_of(world)
    more: dict[str, dict[str, Any]] = {"a": {"priority": 1}, "b": {}, "c": {"priority": 3}, "d": {"priority": -1}}
    async with world._admission.scheduler.turn("somebody"):
        waiting = [start(world.submit_intent(whole(name, head, **fields))) for name, fields in more.items()]
        await wait_for(lambda: world.waiting == 4, "all wait")
        assert world.in_use
    await asyncio.gather(*waiting)
    found = await effects(world, "Speak")
    assert [(effect["source_id"], effect["priority"]) for effect in found] == [("c", 3), ("b", 2), ("a", 1), ("d", -1)]


async def test_an_intent_that_waits_too_long_is_let_go(opening: Opening) -> None:
    """After its deadline it is not written, though there is room by then; a request that was accepted is answered."""
    world = await opening(config=OrchestratorConfig(max_in_flight=1, deadline_ms=20.0, staleness_threshold=100))
    a = await world.register_agent("a", ALL)
    known = whole("a", a.view_seq)
    first = await world.submit_intent(known)
    other = await opening(config=world.config)
    async with world._admission.scheduler.turn("somebody"), other._admission.scheduler.turn("somebody"):
        error = await refused(a.submit_intent(speak(req_id="late")))
        assert isinstance(error, DeadlineExceededError)
        assert (error.req_id, error.deadline_ms) == ("late", 20.0)
        assert await world.submit_intent(known) == first  # from memory
        assert await other.submit_intent(known) == first  # from the log
    assert len(await effects(world, "Speak")) == 1


# -- permissions and validation ----------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="session")
async def watched(opening: Opening) -> Orchestrator:
    """Return a world with a validator of its own, in which nothing is stale soon."""
    return await opening(config=OrchestratorConfig(staleness_threshold=100), validator=Verdicts())


async def test_permissions(world: Orchestrator) -> None:
    """An agent needs the one for intents and the one for the kind; the error names the first that is missing."""
    for permissions, lacking in (
        ([], "submit_intent"),
        (["intent:speak"], "submit_intent"),
        (["submit_intent", "intent:move"], "intent:speak"),
    ):
        a = await world.register_agent("a", ALL, permissions=permissions)
        error = await refused(a.submit_intent(speak()))
        assert isinstance(error, PermissionDeniedError)
        assert (error.permission, error.recovery) == (lacking, RecoveryAction.ABORT)
    assert not await effects(world, "Speak", "IntentRejected")
    a = await world.register_agent("a", ALL)
    await a.submit_intent(speak())


async def test_a_permission_is_taken_away_while_an_intent_waits(opening: Opening) -> None:
    """What counts is what the agent may do when its turn has come, as the log has it, also from another process."""
    world, other = await opening(config=OrchestratorConfig(max_in_flight=1)), await opening()
    a = await world.register_agent("a", ALL)
    async with world._admission.scheduler.turn("somebody"):
        waiting = start(a.submit_intent(speak()))
        await settle()
        await other.register_agent("a", ALL, permissions=["submit_intent"])
    error = await refused(asyncio.wait_for(waiting, 120))
    assert isinstance(error, PermissionDeniedError)
    assert error.permission == "intent:speak"


async def test_a_validator_refuses(watched: Orchestrator) -> None:
    """By giving False, or by an error of its own, which then is the answer."""
    a = await watched.register_agent("a", ALL)
    error = await refused(a.submit_intent({"kind": "Speak", "payload": {"text": "", "verdict": "no"}, "req_id": "r"}))
    assert isinstance(error, IntentRefusedError)
    assert error.recovery is RecoveryAction.MODIFY_INTENT
    assert error.details["req_id"] == "r"
    error = await refused(a.submit_intent({"kind": "Speak", "payload": {"text": "", "verdict": "own error"}}))
    assert isinstance(error, PermissionDeniedError)
    assert error.permission == "moderator's leave"
    assert not await effects(watched, "Speak")
    await a.submit_intent({"kind": "Speak", "payload": {"text": "", "verdict": "spoil"}})
    (effect,) = await effects(watched, "Speak")
    assert effect["payload"] == {"text": "", "verdict": "spoil"}


async def test_a_validator_that_fails_fails_for_its_intent_only(watched: Orchestrator) -> None:
    """The caller is told that nothing was written, the log of the service why; others in the same group are written."""
    a = await watched.register_agent("a", ALL)
    with capture_logs() as said:
        results = await watched.submit_intents(
            [
                whole("a", a.view_seq, payload={"text": "", "verdict": what})
                for what in ("yes", "raise", "yes", "raise", "yes")
            ]
        )
    errors = [result for result in results if isinstance(result, SimulationError)]
    assert [type(error) for error in errors] == [ValidatorError] * 2
    assert "ZeroDivisionError" not in errors[0].message  # what it says may be hidden from the agent
    assert any(line["log_level"] == "error" and line.get("exc_info") for line in said)
    assert len(await effects(watched, "Speak")) == 3


async def test_each_is_judged_by_what_the_one_before_leaves_behind(opening: Opening) -> None:
    """Of twenty at once, over two processes, each of which is right only as the first, one is accepted."""
    worlds = [await opening(validator=Verdicts()) for _ in range(2)]
    a = await worlds[0].register_agent("a", ALL)
    await worlds[1].agent("a")
    results = await asyncio.gather(
        *(
            worlds[n % 2].submit_intent(whole("a", a.view_seq, payload={"text": "", "verdict": "only one"}))
            for n in range(20)
        ),
        return_exceptions=True,
    )
    kinds = sorted(type(result).__name__ for result in results)
    assert kinds[0] == "Accepted"
    assert set(kinds[1:]) <= {"IntentRefusedError", "StaleContextError"}
    assert len(await effects(worlds[0], "Speak")) == 1


async def test_a_coroutine_is_no_validator(opening: Opening) -> None:
    """A validator that would have to be awaited lets nothing through by accident."""

    class Asynchronous:
        def validate_intent(self, intent: Intent, world_state: WorldState) -> asyncio.Future[bool]:
            return asyncio.get_running_loop().create_future()

    world = await opening(validator=Asynchronous())
    a = await world.register_agent("a", ALL)
    with capture_logs():
        error = await refused(a.submit_intent(speak()))
    assert isinstance(error, ValidatorError)
    assert not await effects(world, "Speak")


async def test_one_that_need_not_wait_passes_none_that_waited(opening: Opening) -> None:
    """What comes just as the views have caught up is written behind the agent's intents that waited for that."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=None))
    a = await world.register_agent("a", ALL)
    follower = world._follower
    follow, take, fold_known = follower._tail.next, follower._take, follower.fold_known
    may_follow, has_taken = asyncio.Event(), asyncio.Event()
    texts = iter("234")

    async def follow_later(timeout: float | None = None) -> list[StoredEffect]:
        await may_follow.wait()
        return await follow(timeout)

    def take_and_tell(rows: list[StoredEffect]) -> None:
        take(rows)
        has_taken.set()  # runs on before those that wait in `reached` do

    async def arrive(timeout: float) -> None:
        if next(texts) == "4":
            await has_taken.wait()
        await fold_known(timeout)

    follower._tail.next = follow_later  # type: ignore[method-assign]
    await world.broadcast_event(message("0"))  # ends the call of `next` that is under way
    await head_of(world)
    await world.event_log.append(message("1"))
    follower._take, follower.fold_known = take_and_tell, arrive  # type: ignore[method-assign]
    submitted = [start(a.submit_intent(speak(text))) for text in "234"]
    await settle()
    may_follow.set()
    await asyncio.gather(*submitted)
    assert [each["payload"]["text"] for each in await effects(world, "Speak")] == ["2", "3", "4"]
