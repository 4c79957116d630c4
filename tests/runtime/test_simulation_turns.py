"""Turns of simulations with agents: what they may do when, requests that come again, and who is first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import orjson
import pytest
import pytest_asyncio
from worldledger_service.runtime import Orchestrator

from tests.api.helpers import serving
from tests.rulesets.simulation.playing import setting, trade
from tests.store.exports import exported
from tests.waiting import wait_for
from worldledger.client import Client
from worldledger.config import OrchestratorConfig
from worldledger.drafts import REQUEST_DIGEST
from worldledger.effects import Effect
from worldledger.errors import (
    FileRefusedError,
    IllegalEffectError,
    InvalidEffectError,
    RequestConflictError,
    SimulationError,
)
from worldledger.intents import Accepted

from .helpers import custom, effects, head_of, refused, speak, whole
from .simulating import Reader, changing, create, opened, restore, said, text_of, views_at


@pytest_asyncio.fixture(loop_scope="session")
async def world(database_url: str, world_id: str) -> AsyncIterator[Orchestrator]:
    """Return a simulation, open in this process; anybody may act as often as it likes."""
    orchestrator = OrchestratorConfig(staleness_threshold=1_000_000, view_digest_every=0)
    await create(database_url, world_id, trade(engine={}, simulation={"name": "turns"}), orchestrator=orchestrator)
    async with opened(database_url, world_id) as found:
        yield found


@pytest.fixture
def fresh_url(make_database: Callable[..., str]) -> str:
    """Return the address of an empty database, to import into."""
    return make_database()


def _rule(error: SimulationError) -> Any:
    assert isinstance(error, IllegalEffectError), error
    return error.details["rule"]


async def _last(world: Orchestrator) -> Effect:
    return (await effects(world))[-1]


# -- intents -------------------------------------------------------------------------------------------------


async def _play(submit: Callable[[dict[str, Any]], Awaitable[Accepted]], world: Orchestrator) -> None:
    """Have Ann act through somebody's door: before a turn, in it, after it, paused, too often, not her own."""

    async def act(intent: dict[str, Any]) -> Any:
        try:
            return await submit({**whole("Ann", await head_of(world)), **intent})
        except IllegalEffectError as error:
            return error.details["rule"]

    async def refuses(intent: dict[str, Any], because: str | None = None) -> Any:
        before = await head_of(world)
        state = world.world_state.entities.copy()
        rule = await act(intent)
        assert world.world_state.entities == state
        found = await effects(world)
        assert [effect["kind"] for effect in found[before - 1 :]] == ["IntentRejected"]
        (rejected,) = found[before - 1 :]
        payload = rejected["payload"]
        assert (payload["agent_id"], payload["rule"], payload["code"]) == ("Ann", because or rule, "illegal_effect")
        assert payload["payload"] == intent["payload"]
        return rule

    assert await refuses(changing("/gold", 1)) == "turn_closed"
    await world.broadcast_event(said("TurnStarted"))
    accepted = await act(changing("/gold", "7"))
    effect = await _last(world)
    assert (effect["global_seq"], effect["uuid"], effect["source_id"]) == (accepted.global_seq, str(accepted), "Ann")
    assert effect["payload"]["patch"] == [{"op": "replace", "path": "/gold", "value": 7.0}]
    assert effect["payload"]["kind"] == "AgentStateChanged"
    await world.reached(accepted.global_seq, 30.0)  # the service may be ahead
    assert world.world_state.entities["Ann"]["gold"] == 7.0
    assert await refuses(changing("/gold", 101)) == "variables"
    assert await refuses(custom("AgentStateChanged", {"agent_id": "Bob", "patch": []})) == "not_yours"
    assert await refuses(custom("GlobalStateChanged", {"patch": []})) == "not_for_agents"
    assert await refuses(custom("TurnEnded")) == "not_for_agents"
    assert await refuses(custom("AgentStateChanged", {"patch": [{"op": "remove", "path": "/x"}]})) == "patch"
    await world.broadcast_event(said("AgentPaused", agent_id="Ann"))
    assert await refuses(changing("/gold", 2), "paused") == "hidden"  # no agent is shown who is paused
    thought = await act(custom("ReasoningRecorded", {"reasoning": "secret", "model": "m"}))
    assert isinstance(thought, Accepted)
    await world.broadcast_event(said("AgentResumed", agent_id="Ann"))
    assert isinstance(await act(changing("/gold", 3)), Accepted)
    await world.broadcast_event(said("TurnEnded"))
    assert await refuses(changing("/gold", 4)) == "turn_closed"
    await world.broadcast_event(said("AgentRemoved", agent_id="Ann"))
    assert await refuses(changing("/gold", 5)) == "unknown_agent"


async def test_intents_by_the_orchestrator(world: Orchestrator) -> None:
    """Each rule is told by its name and recorded, and a refused intent changes nothing."""
    await _play(world.submit_intent, world)


async def test_intents_over_http(world: Orchestrator, database_url: str) -> None:
    """Over HTTP it is the same, rule by rule."""
    async with serving(database_url) as served, Client(served.url, world.world_id) as client:
        await _play(client.submit_intent, world)


async def test_actions_are_counted_in_the_log(database_url: str, world_id: str) -> None:
    """How often an agent has acted is known after a restart, too; another process counts the same."""
    await create(database_url, world_id, trade())
    async with opened(database_url, world_id) as world:
        await world.broadcast_event(said("TurnStarted"))
        await world.submit_intent({**whole("Ann", 0), **changing("/gold", 1)})
    async with opened(database_url, world_id) as world, opened(database_url, world_id) as other:
        await other.submit_intent({**whole("Ann", 0), **changing("/gold", 2)})
        error = await refused(world.submit_intent({**whole("Ann", 0), **changing("/gold", 3)}))
        assert _rule(error) == "actions_per_turn"
        results = await asyncio.gather(
            *(each.submit_intent({**whole("Bob", 0), **changing("/gold", 3)}) for each in (world, other) * 3),
            return_exceptions=True,
        )
        assert sum(isinstance(result, Accepted) for result in results) == 2
        assert {_rule(result) for result in results if isinstance(result, SimulationError)} == {"actions_per_turn"}
        await head_of(world)
        assert world.world_state.metadata["simulation"]["acted"] == {"Ann": 2, "Bob": 2}


async def test_several_intents_are_judged_one_after_the_other(world: Orchestrator) -> None:
    """Of a list that is atomic, each is judged by what the earlier ones have made; one that fails takes all with it."""
    await world.broadcast_event(said("TurnStarted"))
    add = {"op": "add", "path": "/past/-", "value": "x"}

    def several(count: int) -> list[dict[str, Any]]:
        return [{**whole("Ann", 0), **custom("AgentStateChanged", {"patch": [add]})} for _ in range(count)]

    await world.submit_intents(several(2), atomic=True)
    error = await refused(world.submit_intents(several(2), atomic=True))
    assert (_rule(error), error.details["index"]) == ("variables", 1)
    await head_of(world)
    assert world.world_state.entities["Ann"]["past"] == ["x"] * 2


# -- the engine ----------------------------------------------------------------------------------------------


async def test_what_is_refused_leaves_no_trace(world: Orchestrator) -> None:
    """A draft that is refused, be it one of several, writes nothing: the world's head is what it was."""
    head = await head_of(world)
    for drafts in (
        [said("TurnEnded")],
        [said("TurnStarted"), said("TurnStarted")],
        [said("TurnStarted"), said("AgentStateChanged", agent_id="Ann", patch=setting("/gold", -1))],
        [said("AgentAdded", agent_id="Eve"), said("AgentAdded", agent_id="Eve")],
        [said("SimulationStarted", turn=0, agents={}, global_state={})],
    ):
        error = await refused(world.event_log.append_all(drafts))
        assert isinstance(error, IllegalEffectError)
        assert error.details.get("index") == (None if len(drafts) == 1 else 1)
    assert await head_of(world) == head
    state = world.world_state
    assert (state.metadata["turn"], state.metadata["malformed_effects"]) == (0, 0)


async def test_a_whole_turn_in_one_request(world: Orchestrator) -> None:
    """An engine may post a turn at once: each draft is judged, and written anew, by what the others before it made."""
    drafts = [
        said("TurnStarted"),
        said("AgentAdded", agent_id="Eve", state={"gold": "5"}),
        said("AgentStateChanged", agent_id="Eve", patch=[{"op": "replace", "path": "/gold", "value": 6}]),
        said("GlobalStateChanged", patch=setting("/price", 3)),
        said("TurnEnded"),
        said("TurnStarted"),
    ]
    log = world.event_log
    first = await log.append_request(drafts, source_id="engine", req_id="turn-1")
    again = await log.append_request(drafts, source_id="engine", req_id="turn-1")
    assert [each.global_seq for each in again] == [each.global_seq for each in first]
    assert all(each.replayed for each in again)
    written = (await effects(world))[-6:]
    assert written[0]["payload"] == {"turn": 1}
    assert written[1]["payload"]["state"]["gold"] == 5.0
    assert written[2]["payload"]["patch"] == [{"op": "replace", "path": "/gold", "value": 6.0}]
    assert [written[place]["payload"] for place in (4, 5)] == [{"turn": 1}, {"turn": 2}]
    drafts[3] = said("GlobalStateChanged", patch=setting("/price", 4))
    error = await refused(log.append_request(drafts, source_id="engine", req_id="turn-1"))
    assert isinstance(error, RequestConflictError)


# -- requests that come again --------------------------------------------------------------------------------


async def test_a_rewritten_request_is_the_same_again_everywhere(
    world: Orchestrator, database_url: str, fresh_url: str
) -> None:
    """Here, in another process and in a database that it was imported into, a request that comes again is answered."""
    await world.broadcast_event(said("TurnStarted", note=1))
    wanted = {**whole("Ann", 0, req_id="r1"), **changing("/gold", "7")}
    other = {**wanted, **changing("/gold", 7.0)}  # what was written is not what was asked
    turn: Any = {**said("TurnEnded"), "req_id": "t1"}
    told: Any = {**turn, "payload": {"turn": 1}}  # nor is it here
    several = [said("TurnStarted"), said("AgentAdded", agent_id="Eve", state={"gold": 1})]
    first = await world.submit_intent(wanted)
    (ended,) = await world.event_log.append_all([turn])
    begun = await world.event_log.append_request(several, source_id="engine", req_id="s1")

    async def comes_again(there: Orchestrator) -> None:
        head = await head_of(there)
        for _ in range(2):
            again = await there.submit_intent(wanted)
            assert (str(again), again.global_seq, again.replayed) == (str(first), first.global_seq, True)
            (receipt,) = await there.event_log.append_all([turn])
            assert (receipt.uuid, receipt.replayed) == (ended.uuid, True)
            receipts = await there.event_log.append_request(several, source_id="engine", req_id="s1")
            assert [each.uuid for each in receipts] == [each.uuid for each in begun]
        assert isinstance(await refused(there.submit_intent(other)), RequestConflictError)
        assert isinstance(await refused(there.event_log.append_all([told])), RequestConflictError)
        assert await head_of(there) == head

    await comes_again(world)
    async with opened(database_url, world.world_id) as there:
        await comes_again(there)
    await restore(fresh_url, await exported(world._follower._store, world.world_id))
    async with opened(fresh_url, world.world_id) as there:
        await comes_again(there)


async def test_the_first_of_two_that_ask_the_same_at_once(world: Orchestrator, database_url: str) -> None:
    """Asked in two processes at the same time, a request that is written anew makes one effect."""
    await world.broadcast_event(said("TurnStarted"))
    async with opened(database_url, world.world_id) as other:
        for n in range(8):
            wanted = {**whole("Ann", 0, req_id=f"r{n}"), **changing("/gold", str(n))}
            one, two = await asyncio.gather(world.submit_intent(wanted), other.submit_intent(wanted))
            assert str(one) == str(two)
            assert sorted([one.replayed, two.replayed]) == [False, True]
        await head_of(world)
        assert world.world_state.metadata["simulation"]["acted"] == {"Ann": 8}


async def test_nobody_forges_what_was_asked(world: Orchestrator, fresh_url: str) -> None:
    """A draft may not bring the digest of a request; one that an import brings is no harm to others' requests."""
    draft: Any = {**said("TurnStarted"), "req_id": "r", "source_metadata": {REQUEST_DIGEST: "0" * 64}}
    error = await refused(world.event_log.append_all([draft]))
    assert isinstance(error, InvalidEffectError)
    assert error.path == f"$.source_metadata.{REQUEST_DIGEST}"
    await world.broadcast_event({**said("TurnStarted"), "req_id": "r"})
    data = await exported(world._follower._store, world.world_id)
    said_there = (await _last(world))["source_metadata"][REQUEST_DIGEST]
    with pytest.raises(FileRefusedError):  # the chain tells that a line was changed
        await restore(fresh_url, data.replace(said_there.encode(), b"f" * 64))


# -- who is first --------------------------------------------------------------------------------------------


async def test_two_engines_start_one_turn(world: Orchestrator, database_url: str) -> None:
    """Whoever is first starts the turn, the other is told that it is open; so it is with the end, turn by turn."""
    async with opened(database_url, world.world_id) as other:
        for turn in range(1, 7):
            for kind, rules in (("TurnStarted", {"turn_open"}), ("TurnEnded", {"turn_closed"})):
                payload: dict[str, Any] = {"turn": turn} if turn % 2 else {}
                results = await asyncio.gather(
                    *(each.event_log.append_all([said(kind, **payload)]) for each in (world, other) * 2),
                    return_exceptions=True,
                )
                refusals = [result for result in results if isinstance(result, SimulationError)]
                assert len(refusals) == 3
                assert {_rule(error) for error in refusals} == rules
        found = await effects(world, "TurnStarted", "TurnEnded")
        assert [(each["kind"], each["payload"]["turn"]) for each in found] == [
            (kind, turn) for turn in range(1, 7) for kind in ("TurnStarted", "TurnEnded")
        ]


async def test_intents_race_with_the_end_of_the_turn(world: Orchestrator, database_url: str) -> None:
    """An intent that comes with the end of the turn is in the turn or refused, never both, in whichever process."""
    accepted: list[Accepted] = []
    late = 0
    async with opened(database_url, world.world_id) as other:
        for turn in range(1, 9):
            await world.event_log.append_all([said("TurnStarted")])
            intents = [
                each.submit_intent({**whole(name, 0), **changing("/gold", turn)})
                for each in (world, other)
                for name in ("Ann", "Bob", "Café")
            ]
            ending = world.event_log.append_all([said("TurnEnded")])
            *results, _ = await asyncio.gather(*intents, ending, return_exceptions=True)
            for result in results:
                if isinstance(result, Accepted):
                    accepted.append(result)
                else:
                    assert isinstance(result, SimulationError)
                    assert _rule(result) == "turn_closed"
                    late += 1
        found = await effects(world)
        is_open, counted = False, 0
        for effect in found:
            if effect["kind"] in ("TurnStarted", "TurnEnded"):
                is_open = effect["kind"] == "TurnStarted"
            elif effect["kind"] == "AgentStateChanged":
                assert is_open
                counted += 1
        assert counted == len(accepted)
        assert counted + late == 48
        rejected = [effect for effect in found if effect["kind"] == "IntentRejected"]
        assert len(rejected) == late
        assert world.world_state.metadata["malformed_effects"] == 0


def _has_seen(reader: Reader) -> bool:
    return len(reader.seen) > 1


async def test_an_agent_that_comes_while_turns_begin(world: Orchestrator, database_url: str) -> None:
    """Whoever attaches while turns go on sees what it would have seen all along."""
    await world.register_agent("Ann")
    first = Reader(world.agent_handles["Ann"])

    async def turns() -> None:
        for turn in range(1, 13):
            await world.event_log.append_all([said("TurnStarted")])
            await world.event_log.append_all([said("GlobalStateChanged", patch=setting("/price", turn + 1))])
            await world.event_log.append_all([said("TurnEnded")])

    async def comers() -> list[Reader]:
        readers = []
        for _ in range(4):
            async with opened(database_url, world.world_id) as there:
                reader = Reader(await there.agent("Ann"))
                await there.submit_intent({**whole("Ann", 0), **speak()})
                await wait_for(partial(_has_seen, reader), "something is seen")
                await reader.read_until(there._follower.seq)
                readers.append(reader)
        return readers

    _, readers = await asyncio.gather(turns(), comers())
    head = await head_of(world)
    await first.read_until(head)
    told = (await views_at(world, ["Ann"], head))["Ann"]
    for reader in (first, *readers):
        assert {seq: told[seq] for seq in reader.seen} == reader.seen
    assert text_of(await world.view("Ann")) == told[head]
    assert len(first.seen) > 20


async def test_what_agents_think_is_in_the_log_alone(world: Orchestrator) -> None:
    """Reasoning is in no view, no event, no answer about events and no state; the log has it."""
    await world.register_agent("Bob")
    readers = [Reader(await world.agent(name)) for name in ("Ann", "Bob")]
    await world.broadcast_event(said("TurnStarted"))
    await world.submit_intent({**whole("Ann", 0), **custom("ReasoningRecorded", {"reasoning": "secret thoughts"})})
    await world.broadcast_event(said("ReasoningRecorded", agent_id="Bob", reasoning=["secret thoughts"]))
    await world.broadcast_event(said("TurnEnded"))
    head = await head_of(world)
    for reader in readers:
        await reader.read_until(head)
        told, _ = await world.observed_events(reader.handle.agent_id)
        assert [event["kind"] for event in told] == ["TurnStarted", "TurnEnded"]
        assert [event["kind"] for event in reader.events] == ["TurnStarted", "TurnEnded"]
        assert b"secret" not in orjson.dumps([told, reader.events, reader.document])
    assert b"secret" not in world.world_state.text()
    assert len(await effects(world, "ReasoningRecorded")) == 2
