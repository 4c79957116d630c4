"""Ticks that can be repeated: intents are held until the next tick, which decides all of them in one order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import pytest_asyncio
from worldledger_service.runtime import Orchestrator, OrchestratorConfig
from worldledger_service.store.holding import TickReceipt

from worldledger.errors import (
    AuthoritySilentError,
    BackpressureError,
    IntentConflictError,
    InvalidEffectError,
    InvalidIntentError,
    PermissionDeniedError,
    QuotaExceededError,
    RequestConflictError,
    SimTimeOrderError,
    SimulationError,
    StaleContextError,
    StoreUnavailableError,
    TimeAuthorityError,
    UnknownAgentError,
)
from worldledger.intents import Accepted, Held
from worldledger.latency import FixedLatency
from worldledger.observation import ObservationPolicy, PolicyConfig

from .helpers import ALL, created, draft, move, near, whole

if TYPE_CHECKING:
    from .conftest import Opening

#: Nothing but intents and ticks is written, and a context is never too old.
PLAIN = OrchestratorConfig(staleness_threshold=1_000_000, view_digest_every=0)


@pytest_asyncio.fixture(loop_scope="session")
async def world(opening: Opening) -> Orchestrator:
    """Return a world that is ordered by ticks, whose time the adapter unity sets, with two agents."""
    return await ticking(opening)


async def ticking(opening: Opening, config: OrchestratorConfig = PLAIN, **how: Any) -> Orchestrator:
    """Open a world that is ordered by ticks, with two agents."""
    world = await opening(config=config, order="tick", **{"time_authority": "unity", **how})
    for agent_id in ("A", "B"):
        await world.register_agent(agent_id, ALL)
    return world


async def effects(world: Orchestrator) -> list[dict[str, Any]]:
    """Return what the world's log has after its agents were registered, but for views' digests."""
    entries = await world.event_log.get_entries_since(0)
    kinds = {"WorldCreated", "AgentRegistered", "ViewDigest"}
    return [dict(entry.effect) for entry in entries if entry.effect["kind"] not in kinds]


async def requests(world: Orchestrator) -> list[str]:
    """Return the req_ids of the world's effects in their order, "tick" for a tick."""
    return ["tick" if effect["kind"] == "WorldTimeSet" else str(effect["req_id"]) for effect in await effects(world)]


async def hold(world: Orchestrator, agent_id: str, req_id: str, **fields: Any) -> Held:
    """Hold an intent to speak."""
    answer = await world.hold_intent(whole(agent_id, 0, req_id=req_id, **fields))
    assert isinstance(answer, Held)
    return answer


async def tick(world: Orchestrator, adapter: str, sim_time: float) -> TickReceipt:
    """Close a tick."""
    closed = await world.tick(adapter, sim_time)
    assert isinstance(closed, TickReceipt)
    return closed


async def until_held(world: Orchestrator, count: int) -> None:
    """Wait until so many intents are held."""
    store = world._observing._store
    while True:
        rows = await store.reader.fetch(
            "select count(*) from held_intents where world_id = $1 and outcome is null", world.world_id
        )
        if rows[0][0] == count:
            return
        await asyncio.sleep(0.01)


# -- holding -------------------------------------------------------------------------------------------------


async def test_an_intent_is_held_until_the_tick(world: Orchestrator) -> None:
    """What is held is no effect; the next tick writes it before its own effect, which has the tick's number."""
    held = await hold(world, "A", "r1")
    assert held == Held("A", "r1", tick=1, order=1, replayed=False)
    assert await effects(world) == []
    closed = await tick(world, "unity", 2.5)
    first, second = await effects(world)
    assert (first["req_id"], first["source_id"], first["sim_time"]) == ("r1", "A", 0.0)
    assert first["source_metadata"] == {"intent": "Speak", "context_seq": 0, "tick": 1, "order": 1}
    assert (second["kind"], second["sim_time"], second["payload"]["tick"]) == ("WorldTimeSet", 2.5, 1)
    assert (closed.global_seq, closed.tick, closed.accepted, closed.refused) == (second["global_seq"], 1, 1, 0)
    assert (await hold(world, "A", "r2")).tick == 2
    assert await world.event_log.validate_integrity()


async def test_submit_returns_when_the_tick_is_closed(world: Orchestrator) -> None:
    """submit_intent waits for the tick that decides the intent, and gives its effect."""
    submitting = asyncio.create_task(world.submit_intent(whole("A", 0, req_id="r1")))
    await until_held(world, 1)
    await hold(world, "B", "r2")
    assert (submitting.done(), world.waiting) == (False, 1)
    await tick(world, "unity", 1.0)
    accepted = await submitting
    first = (await effects(world))[0]
    assert (str(accepted), accepted.global_seq, accepted.req_id) == (first["uuid"], first["global_seq"], "r1")
    assert world.waiting == 0


async def test_the_order_is_that_of_the_fields(world: Orchestrator) -> None:
    """Effects come by priority, agent, order and req_id, whatever order their intents came in: r10 not before r2."""
    await hold(world, "B", "r1")
    await hold(world, "A", "r2", order=2)
    await hold(world, "A", "r10", order=10)
    await hold(world, "A", "x", order=2)
    await hold(world, "A", "r1", order=1)
    await hold(world, "B", "late", priority=5)
    await hold(world, "A", "last", priority=-1)
    await tick(world, "unity", 1.0)
    assert await requests(world) == ["late", "r1", "r2", "x", "r10", "r1", "last", "tick"]


async def test_the_order_is_counted_within_the_tick(world: Orchestrator) -> None:
    """An intent without an order has its count among the agent's own of the tick; stated ones do not count."""
    counted = [(await hold(world, "A", f"r{number}")).order for number in range(1, 12)]
    assert counted == list(range(1, 12))
    assert (await hold(world, "B", "r1")).order == 1
    assert (await hold(world, "A", "stated", order=-3)).order == -3
    assert (await hold(world, "A", "r12")).order == 12
    await tick(world, "unity", 1.0)
    assert await requests(world) == ["stated", *(f"r{number}" for number in range(1, 13)), "r1", "tick"]
    assert (await hold(world, "A", "r13")).order == 1


async def test_the_same_request_is_held_once(world: Orchestrator) -> None:
    """The same request again is answered as it was; with another body it is refused, held or decided."""
    first = await hold(world, "A", "r1")
    assert await hold(world, "A", "r1") == first._replace(replayed=True)
    with pytest.raises(RequestConflictError):
        await world.hold_intent(whole("A", 0, req_id="r1", payload={"text": "else"}))
    await tick(world, "unity", 1.0)
    again = await world.hold_intent(whole("A", 0, req_id="r1"))
    assert isinstance(again, Accepted)
    assert (again.replayed, again.global_seq) == (True, (await effects(world))[0]["global_seq"])
    assert str(await world.submit_intent(whole("A", 0, req_id="r1"))) == str(again)
    with pytest.raises(RequestConflictError):
        await world.submit_intent(whole("A", 0, req_id="r1", payload={"text": "else"}))
    await tick(world, "unity", 2.0)
    assert await requests(world) == ["r1", "tick", "tick"]


async def test_what_cannot_be_held_is_refused_at_once(world: Orchestrator) -> None:
    """Wrong shapes, unknown agents and thresholds beyond the maximum are refused without waiting for a tick."""
    with pytest.raises(UnknownAgentError):
        await world.submit_intent(whole("nobody", 0))
    with pytest.raises(InvalidIntentError, match=r"\$\.order: order is an integer"):
        await world.hold_intent(whole("A", 0, order="first"))
    with pytest.raises(InvalidIntentError, match="max_staleness_threshold"):
        await world.set_staleness(max_staleness_threshold=1_000_000)
        await world.hold_intent(whole("A", 0, staleness_threshold=None))
    assert (await tick(world, "unity", 1.0)).refused == 0


async def test_so_many_may_be_held(opening: Opening) -> None:
    """No more are held than max_pending of the world and max_pending_per_agent; a tick makes room."""
    config = PLAIN.model_copy(update={"max_pending": 3, "max_pending_per_agent": 2})
    world = await ticking(opening, config)
    await hold(world, "A", "r1")
    await hold(world, "A", "r2")
    with pytest.raises(BackpressureError):
        await hold(world, "A", "r3")
    await hold(world, "B", "r1")
    with pytest.raises(BackpressureError):
        await hold(world, "B", "r2")
    await tick(world, "unity", 1.0)
    await hold(world, "B", "r2")


async def test_arrival_holds_nothing(opening: Opening) -> None:
    """In a world that is ordered by arrival no intent is held, no tick is closed, and the genesis says no order."""
    world = await opening(time_authority="unity")
    await world.register_agent("A", ALL)
    with pytest.raises(InvalidIntentError, match="ordered by arrival"):
        await world.hold_intent(whole("A", 0))
    with pytest.raises(InvalidEffectError, match="no ticks to close"):
        await world.close_tick("unity")
    assert not world.holds_intents
    await world.submit_intent(whole("A", 2, order=7))
    await world.tick("unity", 1.0)
    genesis, *_, tick_ = await world.event_log.get_entries_since(0)
    assert "order" not in genesis.effect["payload"]
    assert "tick" not in tick_.effect["payload"]


# -- judging -------------------------------------------------------------------------------------------------


async def test_each_is_judged_by_the_state_that_it_follows(world: Orchestrator) -> None:
    """Of two that want to move from one place, the later in the order finds the first one's move done."""
    await world.broadcast_event(created("A", 0.0, 0.0, 0.0))
    first = whole("A", 0, req_id="go", order=2, **move(1.0, 0.0, 0.0, start=(0.0, 0.0, 0.0)))
    second = whole("A", 0, req_id="back", order=1, **move(5.0, 0.0, 0.0, start=(0.0, 0.0, 0.0)))
    going = asyncio.create_task(world.submit_intent(first))
    await world.hold_intent(second)
    await until_held(world, 2)
    closed = await tick(world, "unity", 1.0)
    assert (closed.accepted, closed.refused) == (1, 1)
    with pytest.raises(IntentConflictError, match="stands at"):
        await going
    assert world.world_state.spatial_index["A"] == (5.0, 0.0, 0.0)


async def test_refusals_are_told_and_recorded(opening: Opening) -> None:
    """A refusal is told to the one who waits and to the one who asks again; the log has it before the tick's effect."""
    config = PLAIN.model_copy(update={"record_rejections": True})
    world = await ticking(opening, config)
    await world.register_agent("mute", ALL, ["submit_intent"])
    waiting = asyncio.create_task(world.submit_intent(whole("mute", 0, req_id="r1")))
    await hold(world, "A", "r1")
    await until_held(world, 2)
    closed = await tick(world, "unity", 1.0)
    assert (closed.accepted, closed.refused) == (1, 1)
    with pytest.raises(PermissionDeniedError) as told:
        await waiting
    assert told.value.permission == "intent:speak"
    assert [effect["kind"] for effect in await effects(world)] == ["Speak", "IntentRejected", "WorldTimeSet"]
    rejected = (await effects(world))[1]
    assert (rejected["payload"]["agent_id"], rejected["payload"]["code"]) == ("mute", "permission_denied")
    with pytest.raises(PermissionDeniedError):
        await world.hold_intent(whole("mute", 0, req_id="r1"))


async def test_a_refused_request_is_not_used_up(world: Orchestrator) -> None:
    """From another context, with another body, or after two more ticks, a refused request is held anew."""
    await world.register_agent("mute", ALL, ["submit_intent"])
    refused = whole("mute", 0, req_id="r1")
    await world.hold_intent(refused)
    await tick(world, "unity", 1.0)
    with pytest.raises(PermissionDeniedError):
        await world.hold_intent(refused)
    await world.register_agent("mute", ALL)
    await tick(world, "unity", 2.0)
    with pytest.raises(PermissionDeniedError):
        await world.hold_intent(refused)
    assert isinstance(await world.hold_intent(refused | {"context_seq": 3}), Held)
    await tick(world, "unity", 3.0)
    assert (await requests(world))[-2:] == ["r1", "tick"]


async def test_refusals_are_forgotten(world: Orchestrator) -> None:
    """A refusal is told until the end of the tick after the next; then the request is held anew."""
    await world.register_agent("mute", ALL, ["submit_intent"])
    refused = whole("mute", 0, req_id="r1")
    await world.hold_intent(refused)
    for time in (1.0, 2.0):
        await tick(world, "unity", time)
        with pytest.raises(PermissionDeniedError):
            await world.hold_intent(refused)
    await tick(world, "unity", 3.0)
    assert isinstance(await world.hold_intent(refused), Held)


async def test_staleness_is_judged_as_of_the_tick_before(opening: Opening) -> None:
    """What was shown since the tick before makes nothing stale; what was shown before it does, at holding."""
    world = await ticking(opening, OrchestratorConfig(view_digest_every=0))
    context = world.world_state.metadata["agents"]["B"]["registered_seq"]
    await world.broadcast_event(draft("Noise", {"text": "!"}))
    assert isinstance(await world.hold_intent(whole("A", context, req_id="r1")), Held)
    await tick(world, "unity", 1.0)
    with pytest.raises(StaleContextError):
        await world.hold_intent(whole("A", context, req_id="r2"))
    assert isinstance(await world.hold_intent(whole("A", context, req_id="r1")), Accepted)


async def contexts(world: Orchestrator) -> dict[str, int | None]:
    """Return the context that the log has of each intent, by its req_id."""
    made = [effect for effect in await effects(world) if "intent" in effect.get("source_metadata", ())]
    return {str(effect["req_id"]): effect["source_metadata"]["context_seq"] for effect in made}


async def test_a_context_beyond_the_view_is_that_view(opening: Opening) -> None:
    """A context beyond the agent's latest view is recorded as that view as of holding, alike in every process."""
    one = await ticking(opening)
    await one.register_agent("near", near(10.0))
    await one.broadcast_event(created("near", 0.0, 0.0, 0.0))
    await tick(one, "unity", 1.0)
    shown = (await one.broadcast_event(created("apple", 1.0, 0.0, 0.0))).global_seq
    for number in range(150):
        far = (await one.broadcast_event(created(f"far{number}", 900.0, 0.0, 0.0))).global_seq
    other = await opening(config=PLAIN)
    assert (await one.view("near")).view_seq == shown
    expected: dict[str, int] = {}
    for name, each in (("one", one), ("other", other)):
        for context_seq in (9999, far, shown + 1, shown, shown - 1):
            req_id = f"{name} {context_seq}"
            await each.hold_intent(whole("near", context_seq, req_id=req_id))
            expected[req_id] = min(context_seq, shown)
    await tick(one, "unity", 2.0)
    assert await contexts(one) == expected


async def test_a_context_that_is_not_due_is_the_view_that_is(opening: Opening) -> None:
    """What an agent cannot know yet is no context, in any process: its intent is recorded with the view that is due."""
    world = await ticking(opening)
    other = await opening(config=PLAIN)
    late = await world.register_agent("late", ObservationPolicy(PolicyConfig(latency_model=FixedLatency(1e6))))
    await world.broadcast_event(draft("Noise", {"text": "?"}))
    await tick(world, "unity", 1.0)
    loud = await world.broadcast_event(draft("Noise", {"text": "!"}))
    for name, each in (("one", world), ("other", other)):
        await each.hold_intent(whole("late", loud.global_seq, req_id=name))
        await each.hold_intent(whole("late", 9999, req_id=f"{name} beyond"))
    await tick(world, "unity", 2.0)
    names = ("one", "one beyond", "other", "other beyond")
    assert await contexts(world) == dict.fromkeys(names, late.view_seq)


async def test_a_context_beyond_the_view_is_not_stale(opening: Opening) -> None:
    """A context later than the tick before has nothing after it that counts, be it far beyond the agent's view."""
    world = await ticking(opening, OrchestratorConfig(view_digest_every=0))
    view_seq = (await world.view("A")).view_seq
    noise = await world.broadcast_event(draft("Noise", {"text": "?"}))
    await tick(world, "unity", 1.0)
    with pytest.raises(StaleContextError) as told:
        await world.hold_intent(whole("A", view_seq, req_id="r1"))
    assert (told.value.expected_seq, told.value.actual_seq) == (noise.global_seq, view_seq)
    await world.broadcast_event(draft("Noise", {"text": "!"}))
    assert isinstance(await world.hold_intent(whole("A", 9999, req_id="r1")), Held)


@pytest.mark.parametrize("between", [True, False])
async def test_a_refusal_is_the_same_in_every_process(opening: Opening, between: bool) -> None:
    """A request from a context beyond the view that was refused is refused alike by all, whatever came since."""
    one = await ticking(opening)
    other = await opening(config=PLAIN)
    await one.register_agent("mute", ALL, ["submit_intent"])
    refused = whole("mute", 9999, req_id="r1")
    await one.hold_intent(refused)
    assert (await tick(one, "unity", 1.0)).refused == 1
    if between:
        await one.broadcast_event(draft("Noise", {"text": "!"}))
    for each in (other, one, other):
        with pytest.raises(PermissionDeniedError):
            await each.hold_intent(refused)
    assert isinstance(await other.hold_intent(refused | {"context_seq": 9998}), Held)


async def test_a_refusal_without_a_context_is_told_again(opening: Opening) -> None:
    """A refused request that named none is told its refusal again in all processes; not so from a new generation."""
    one = await ticking(opening)
    other = await opening(config=PLAIN)
    mute = await one.register_agent("mute", ALL, ["submit_intent"])
    one.issue_cancel_token("mute", "r1", mute.view_seq)
    refused = whole("mute", 0, req_id="r1") | {"context_seq": None}
    assert isinstance(await one.hold_intent(refused), Held)
    await tick(one, "unity", 1.0)
    for each in (one, other):
        with pytest.raises(PermissionDeniedError):
            await each.hold_intent(refused)
    noise = await one.broadcast_event(draft("Noise", {"text": "!"}))
    one.issue_cancel_token("mute", "r1", noise.global_seq)
    assert isinstance(await one.hold_intent(refused), Held)


async def test_quotas_are_those_of_one_tick(opening: Opening) -> None:
    """Of an agent's intents of a tick the first in the order pass its quota; the next tick begins with all of it."""
    config = PLAIN.model_copy(update={"intents_per_s": 2.0, "token_budget": 100})
    world = await ticking(opening, config)
    for order in (3, 1, 2):
        await hold(world, "A", f"r{order}", order=order)
    await hold(world, "B", "much", order=2, payload={"text": "", "token_count": 60})
    await hold(world, "B", "some", order=1, payload={"text": "", "token_count": 60})
    closed = await tick(world, "unity", 0.001)
    assert (closed.accepted, closed.refused) == (3, 2)
    assert await requests(world) == ["r1", "r2", "some", "tick"]
    with pytest.raises(QuotaExceededError) as told:
        await hold(world, "A", "r3", order=3)
    assert (told.value.quota_type, told.value.limit) == ("intents", 2)
    for order in (4, 5):
        await hold(world, "A", f"r{order}")
    assert (await tick(world, "unity", 0.002)).accepted == 2


async def test_a_validator_that_fails_fails_for_its_own_intent(opening: Opening) -> None:
    """A validator that raises refuses the one intent; the others of the tick are written."""

    class Failing:
        def validate_intent(self, intent: Any, world_state: Any) -> bool:
            if intent["req_id"] == "bad":
                raise ZeroDivisionError("oh")
            return True

    world = await ticking(opening, validator=Failing())
    for req_id in ("a", "bad", "c"):
        await hold(world, "A", req_id)
    closed = await tick(world, "unity", 1.0)
    assert (closed.accepted, closed.refused) == (2, 1)
    with pytest.raises(SimulationError, match="validator failed on 'bad'"):
        await hold(world, "A", "bad")


# -- lists ---------------------------------------------------------------------------------------------------


def several(*req_ids: str, agent_id: str = "A", **fields: Any) -> list[dict[str, Any]]:
    """Make a list of intents."""
    return [whole(agent_id, 0, req_id=req_id, **fields) for req_id in req_ids]


async def test_a_list_keeps_its_order(world: Orchestrator) -> None:
    """A list stands together, in its inner order, at the place of the first of its members in the whole order."""
    await hold(world, "A", "a2", order=2)
    mixed = [whole("B", 0, req_id="b"), whole("A", 0, req_id="a1", order=1), whole("A", 0, req_id="a9", order=9)]
    held = await world.hold_intents(mixed)
    assert all(isinstance(each, Held) for each in held)
    await tick(world, "unity", 1.0)
    assert await requests(world) == ["b", "a1", "a9", "a2", "tick"]


async def test_a_list_that_is_not_ordered(world: Orchestrator) -> None:
    """A list that asks for it is ordered as if its members had come one by one."""
    await hold(world, "A", "a2", order=2)
    mixed = [whole("B", 0, req_id="b"), whole("A", 0, req_id="a3", order=3), whole("A", 0, req_id="a1", order=1)]
    await world.hold_intents(mixed, ordered=False)
    await tick(world, "unity", 1.0)
    assert await requests(world) == ["a1", "a2", "a3", "b", "tick"]


async def test_an_atomic_list_is_decided_whole(world: Orchestrator) -> None:
    """An atomic list is written whole or not at all, also where it fails in the middle; others are untouched by it."""
    await world.broadcast_event(created("A", 0.0, 0.0, 0.0))
    step = {"start": (0.0, 0.0, 0.0)}
    bad = [
        whole("A", 0, req_id="x1", order=1, **move(1.0, 0.0, 0.0, **step)),
        whole("A", 0, req_id="x2", order=2, **move(2.0, 0.0, 0.0, **step)),
    ]
    good = [
        whole("A", 0, req_id="y1", order=3, **move(3.0, 0.0, 0.0, **step)),
        whole("A", 0, req_id="y2", order=4, **move(4.0, 0.0, 0.0, start=(3.0, 0.0, 0.0))),
    ]
    failing = asyncio.create_task(world.submit_intents(bad, atomic=True))
    passing = asyncio.create_task(world.submit_intents(good, atomic=True))
    after = asyncio.create_task(world.submit_intent(whole("B", 0, req_id="z", order=1)))
    await hold(world, "B", "z2", order=2)
    await until_held(world, 6)
    closed = await tick(world, "unity", 1.0)
    assert (closed.accepted, closed.refused) == (4, 2)
    with pytest.raises(IntentConflictError) as told:
        await failing
    assert told.value.details["index"] == 1
    assert [each.req_id for each in await passing if isinstance(each, Accepted)] == ["y1", "y2"]
    assert (await after).req_id == "z"
    assert (await requests(world))[1:] == ["y1", "y2", "z", "z2", "tick"]
    assert world.world_state.spatial_index["A"] == (4.0, 0.0, 0.0)
    assert await world.event_log.validate_integrity()


async def test_a_list_answers_each(world: Orchestrator) -> None:
    """Of a list that is not atomic each has an answer of its own, those refused at once among them."""
    await world.register_agent("mute", ALL, ["submit_intent"])
    values = [*several("r1"), {"kind": "Speak"}, *several("r2", agent_id="mute"), *several("r3", agent_id="nobody")]
    submitting = asyncio.create_task(world.submit_intents(values))
    await hold(world, "B", "r1")
    await until_held(world, 3)
    await tick(world, "unity", 1.0)
    first, second, third, fourth = await submitting
    assert isinstance(first, Accepted)
    assert isinstance(second, InvalidIntentError)
    assert isinstance(third, PermissionDeniedError)
    assert isinstance(fourth, UnknownAgentError)


async def test_an_atomic_list_is_held_whole(opening: Opening) -> None:
    """Where one of an atomic list cannot be held none is, and the refusal names it."""
    world = await ticking(opening, PLAIN.model_copy(update={"max_pending_per_agent": 2}))
    with pytest.raises(BackpressureError) as full:
        await world.hold_intents(several("r1", "r2", "r3"), atomic=True)
    assert full.value.details["index"] == 2
    with pytest.raises(InvalidIntentError) as wrong:
        await world.hold_intents([*several("r1"), {"kind": "Speak"}], atomic=True)
    assert wrong.value.index == 1
    with pytest.raises(UnknownAgentError):
        await world.hold_intents([*several("r1"), *several("r2", agent_id="nobody")], atomic=True)
    assert (await tick(world, "unity", 1.0)).accepted == 0


# -- ticks ---------------------------------------------------------------------------------------------------


async def test_who_may_tick(world: Orchestrator) -> None:
    """A tick that is refused leaves what is held as it is: a foreign adapter, or a time that is not later."""
    await hold(world, "A", "r1")
    with pytest.raises(TimeAuthorityError):
        await world.tick("unreal", 1.0)
    with pytest.raises(TimeAuthorityError):
        await world.close_tick("anybody")
    await tick(world, "unity", 0.0)
    await hold(world, "A", "r2")
    with pytest.raises(SimTimeOrderError):
        await tick(world, "unity", -1.0)
    with pytest.raises(SimTimeOrderError, match="not later"):
        await tick(world, "unity", 0.0)
    await world.close_tick("unity")
    assert await requests(world) == ["r1", "tick", "r2", "tick"]
    assert [e["payload"]["tick"] for e in await effects(world) if e["kind"] == "WorldTimeSet"] == [1, 2]


@pytest.mark.parametrize("authority", ["wall", "client"])
async def test_ticks_without_an_adapter(opening: Opening, authority: str) -> None:
    """Where no adapter has the authority, anybody closes ticks; sim_time is the wall clock's, or stands."""
    world = await ticking(opening, time_authority=authority)
    await hold(world, "A", "r1")
    closed = await world.close_tick("referee")
    assert (closed.tick, closed.accepted) == (1, 1)
    last = (await effects(world))[-1]
    assert (last["kind"], last["source_id"], last["payload"]["tick"]) == ("WorldTimeSet", "referee", 1)


async def test_the_authority_is_handed_over(opening: Opening) -> None:
    """A new authority's first tick may be at the time of the last tick; what is held is decided by it."""
    world = await ticking(opening)
    await tick(world, "unity", 3.0)
    await hold(world, "A", "r1")
    await world.set_sim_time_authority("client")
    closed = await tick(world, "client", 3.0)
    assert (closed.tick, closed.accepted) == (2, 1)


async def test_an_effect_in_between_is_judged_in(world: Orchestrator) -> None:
    """What the operator writes between two ticks is in the state by which the held intents are judged."""
    await world.hold_intent(whole("A", 0, req_id="go", **move(1.0, 0.0, 0.0, start=(0.0, 0.0, 0.0))))
    await world.broadcast_event(created("A", 7.0, 0.0, 0.0))
    assert (await tick(world, "unity", 1.0)).refused == 1


# -- processes -----------------------------------------------------------------------------------------------


async def test_another_process_closes(opening: Opening) -> None:
    """An intent that one process holds is decided by the tick of another, and those who wait for it are told."""
    one = await ticking(opening)
    await one.register_agent("mute", ALL, ["submit_intent"])
    other = await opening(config=PLAIN)
    accepted = asyncio.create_task(one.submit_intent(whole("A", 0, req_id="r1")))
    refused = asyncio.create_task(one.submit_intent(whole("mute", 0, req_id="r1")))
    assert (await hold(other, "B", "r1")).tick == 1
    await until_held(other, 3)
    await tick(other, "unity", 1.0)
    assert (await accepted).req_id == "r1"
    with pytest.raises(PermissionDeniedError):
        await refused
    assert await hold(one, "A", "r2") == Held("A", "r2", 2, 1)


async def test_two_close_at_once(opening: Opening) -> None:
    """Of two processes that tick at once to one time, one closes the tick, the other is refused; nothing is twice."""
    one = await ticking(opening)
    other = await opening(config=PLAIN)
    for time in range(1, 6):
        for number in range(10):
            await hold(one if number % 2 else other, "A", f"t{time}-{number}")
        ticks = [tick(each, "unity", float(time)) for each in (one, other, one, other)]
        results = await asyncio.gather(*ticks, return_exceptions=True)
        assert sum(isinstance(each, SimTimeOrderError) for each in results) == 3
    told = await requests(one)
    assert sorted(told) == sorted({each for each in told if each != "tick"}) + ["tick"] * 5
    assert [e["payload"]["tick"] for e in await effects(one) if e["kind"] == "WorldTimeSet"] == [1, 2, 3, 4, 5]


async def test_those_who_wait_are_told_when_the_world_is_closed(opening: Opening) -> None:
    """Whoever waits when its process lets the world go is told so; the intent stays held, and another decides it."""
    async with opening.until(config=PLAIN, order="tick", time_authority="unity") as world:
        await world.register_agent("A", ALL)
        waiting = asyncio.create_task(world.submit_intent(whole("A", 0, req_id="r1")))
        await until_held(world, 1)
    with pytest.raises(StoreUnavailableError, match="its tick decides it"):
        await waiting
    again = await opening(config=PLAIN)
    assert (await tick(again, "unity", 1.0)).accepted == 1


async def test_the_open_tick_is_found_in_the_log(opening: Opening) -> None:
    """Where the row of the open tick is lost, as in a world whose log was brought here, the log says which it is."""
    world = await ticking(opening)
    await tick(world, "unity", 1.0)
    await tick(world, "unity", 2.0)
    await world._observing._store.reader.fetch("delete from open_ticks where world_id = $1", world.world_id)
    with pytest.raises(SimTimeOrderError, match="not later"):
        await tick(world, "unity", 2.0)
    assert (await hold(world, "A", "r1")).tick == 3


async def test_a_wrong_row_of_the_open_tick_comes_into_no_log(opening: Opening) -> None:
    """Where the row of the open tick says something else than the log, the log's number is the next, and is kept."""
    world = await ticking(opening)
    reader = world._observing._store.reader
    await tick(world, "unity", 1.0)
    wrong = "update open_ticks set tick = $2, after_seq = 7, sim_time = null, source_id = 'B' where world_id = $1"
    for number, time in ((2**63 - 1, 2.0), (-1, 3.0), (1, 4.0)):
        await reader.fetch(wrong, world.world_id, number)
        with pytest.raises(SimTimeOrderError, match="not later"):
            await tick(world, "unity", time - 1.0)
        await tick(world, "unity", time)
    assert [e["payload"]["tick"] for e in await effects(world) if e["kind"] == "WorldTimeSet"] == [1, 2, 3, 4]
    assert (await hold(world, "A", "r1")).tick == 5


#: What somebody has made of the row of A's intent r1.
CHANGED = (
    "intent = '{}'",
    "intent = '[1]'",
    r"""intent = '{"kind":"\ud800"}'""",
    "intent = (select h.intent from held_intents h where h.world_id = $1 and h.agent_id = 'B')",
    "req_id = 'r2'",
    "place = 9223372036854775807",
    "tick = -9223372036854775808",
)


@pytest.mark.parametrize("change", CHANGED)
async def test_a_held_intent_that_was_changed_is_refused_alone(opening: Opening, change: str) -> None:
    """A row that is no intent of its agent any more is refused by its tick, which decides all the others."""
    world = await ticking(opening)
    await hold(world, "A", "r1")
    await hold(world, "B", "r1")
    reader = world._observing._store.reader
    await reader.fetch(f"update held_intents set {change} where world_id = $1 and agent_id = 'A'", world.world_id)
    closed = await tick(world, "unity", 1.0)
    assert (closed.accepted, closed.refused) == (1, 1)
    assert [e["source_id"] for e in await effects(world) if e["kind"] != "WorldTimeSet"] == ["B"]
    assert (await tick(world, "unity", 2.0)).refused == 0


async def test_what_is_held_is_in_no_export(world: Orchestrator) -> None:
    """The log, which is what is exported, has nothing of what is held."""
    await hold(world, "A", "secret")
    text = orjson.dumps([entry.model_dump() for entry in await world.event_log.get_entries_since(0)])
    assert b"secret" not in text


async def test_a_silent_authority_keeps_nobody_waiting(opening: Opening) -> None:
    """Those who wait for the tick, or submit while it is silent, are told; what they submitted stays held."""
    one, two = await ticking(opening), await opening(config=PLAIN)
    closed = await tick(one, "unity", 1.0)
    waits = [
        asyncio.create_task(world.submit_intent(whole(name, 0, req_id="r1")))
        for world, name in ((one, "A"), (two, "B"))
    ]
    await until_held(one, 2)
    two.authority_disconnected("unity", closed.global_seq)
    told = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(each) for each in told] == [AuthoritySilentError] * 2
    with pytest.raises(AuthoritySilentError):
        await one.submit_intent(whole("A", 0, req_id="r2"))
    again = await tick(two, "unity", 2.0)
    assert (again.accepted, again.refused) == (3, 0)
    await one.reached(again.global_seq)
    assert (await one.submit_intent(whole("A", 0, req_id="r1"))).replayed
