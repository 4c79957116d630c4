"""A service that is killed in the middle of turns: the turn stays open, and all goes on as uninterrupted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from worldledger_service.runtime import Orchestrator
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.replaying import check_replay
from worldledger_simulation.rules import RULESET

from tests.conftest import NEVER
from tests.rulesets.simulation.playing import Play, trade
from worldledger.client import Client
from worldledger.config import OrchestratorConfig
from worldledger.deltas import PARTS, View
from worldledger.effects import EffectDraft
from worldledger.errors import IllegalEffectError
from worldledger.views import Views
from worldledger.world import state_text

from .living import PATIENT, Mind, Service, Two, judged, living, right, serving

pytestmark = pytest.mark.slow

_WORLD: Final = "market"
#: Turns that two services start and end at once.
_TURNS: Final = 5
_CONFIG: Final = trade(simulation={"name": "market"}, engine={"actions_per_turn": 1})
_SERVED: Final = OrchestratorConfig(staleness_threshold=PATIENT, view_digest_every=2)


def _engine(kind: str, turn: int, **payload: Any) -> EffectDraft:
    """Make a draft of the engine's, under a req_id, so that it may come again."""
    made: Any = {"kind": kind, "payload": payload, "source_id": "engine", "schema_version": "1.0.0"}
    return {**made, "req_id": f"{kind}-{turn}"}  # type: ignore[typeddict-item]


def _deed(name: str, turn: int) -> dict[str, Any]:
    """Make what an agent does in a turn: values that are written otherwise than they are sent."""
    patch = [
        {"op": "replace", "path": "/gold", "value": str(turn)},
        {"op": "add", "path": "/bag/food", "value": turn},
        {"op": "replace", "path": "/place", "value": [turn, f"{turn}"]},
    ]
    payload = {"kind": "AgentStateChanged", "patch": patch}
    return {"agent_id": name, "req_id": f"{name}-{turn}", "kind": "Custom", "payload": payload, "context_seq": 0}


def _uninterrupted(world_uuid: str, turns: int) -> Play:
    """Play the same without a service."""
    play = Play(_CONFIG, world_uuid=world_uuid)
    for turn in range(1, turns + 1):
        play.post("TurnStarted")
        for name in ("Ann", "Bob"):
            play.post("AgentStateChanged", name, **_deed(name, turn)["payload"])
        play.post("TurnEnded")
    return play


def _shown(view: View) -> bytes:
    return state_text([getattr(view, part) for part in PARTS]) + view.context_digest.encode()


async def _here(database_url: str) -> tuple[dict[str, Any], str]:
    """Return what the log says of the simulation, and the world's uuid."""
    settings = Settings(pool_size=2, snapshot_every=NEVER)
    async with Store.open(database_url, settings) as store:
        world = await store.world(_WORLD)
        state = (await store.states.state_at(_WORLD, world.head_seq)).state
        return {"turn": state.metadata["turn"], **state.metadata["simulation"]}, world.world_uuid


async def _send(world: Client, draft: EffectDraft) -> None:
    await world.broadcast_event(draft)


async def test_a_turn_outlives_the_service(database_url: str, tmp_path: Path, thorough: bool) -> None:
    """Killed between or amid two intents of a turn: it is open, who has acted is known, all ends as uninterrupted."""
    turns = 6 if thorough else 3
    async with serving(database_url, tmp_path) as service, living(service, _WORLD) as world:
        await world.create_world(ruleset="simulation", config=_CONFIG, orchestrator=_SERVED)
        minds = {name: Mind(await world.agent(name)) for name in ("Ann", "Bob")}
        for mind in minds.values():
            mind.read()
        for turn in range(1, turns + 1):
            await _send(world, _engine("TurnStarted", turn))
            await minds["Ann"].act(_deed("Ann", turn))
            if turn % 3 == 1:  # between the two
                await service.kill()
                found, _ = await _here(database_url)
                assert (found["turn"], found["open"], found["acted"]) == (turn, True, {"Ann": 1})
                await service.start()
                await _comes_again(service, turn)
                await minds["Bob"].act(_deed("Bob", turn))
            elif turn % 3 == 2:  # amid the second
                acting = asyncio.ensure_future(minds["Bob"].act(_deed("Bob", turn)))
                await asyncio.sleep(0)
                await service.kill()
                await service.start()
                await acting
            else:
                await minds["Bob"].act(_deed("Bob", turn))
            found, _ = await _here(database_url)
            assert (found["turn"], found["open"], found["acted"]) == (turn, True, {"Ann": 1, "Bob": 1})
            await _send(world, _engine("TurnEnded", turn))
        async with Client(service.url, _WORLD) as last:
            head = (await last.broadcast_event(_engine("Rang", 0))).global_seq
        for mind in minds.values():
            await mind.come_to(head)
    accepted = [each for mind in minds.values() for each in mind.accepted.values()]
    log = await judged(database_url, _WORLD, accepted)
    await right(database_url, _WORLD, *minds.values())
    _, world_uuid = await _here(database_url)
    play = _uninterrupted(world_uuid, turns)
    kinds = [
        (each["kind"], each["payload"])
        for each in log
        if each["kind"] not in {"WorldCreated", "ViewDigest", "IntentRejected", "Rang"}
    ]
    assert kinds == [(each["kind"], each["payload"]) for each in play.log[1:]]
    views = Views(play.fold)
    for name, mind in minds.items():
        assert _shown(mind.view) == _shown(views.attach(name))
    async with Store.open(database_url, Settings(pool_size=2)) as store:
        verdict = await check_replay(store.reader, await store.world(_WORLD), RULESET)
    assert verdict.agreed, verdict.finding


async def _comes_again(service: Service, turn: int) -> None:
    """Asked again by another client, what was asked before the kill is answered and makes nothing; more is refused."""
    async with Client(service.url, _WORLD, patience=60.0) as client:
        head = (await client.submit_intent(_deed("Ann", turn))).global_seq
        again = await client.submit_intent(_deed("Ann", turn))
        assert (again.global_seq, again.replayed) == (head, True)
        receipt = await client.broadcast_event(_engine("TurnStarted", turn))
        assert receipt.global_seq < head
        with pytest.raises(IllegalEffectError) as caught:
            await client.submit_intent({**_deed("Ann", turn), "req_id": f"Ann-{turn}-more"})
        assert caught.value.details["rule"] == "actions_per_turn"


# -- two processes -------------------------------------------------------------------------------------------


@pytest.mark.group("two services")
async def test_two_services_turn_by_turn(two: Two) -> None:
    """Two processes start and end each turn at once, agents act by both: one turn each time, and each intent once."""
    config = trade(simulation={"name": "market"}, engine={})
    async with living(two.one, _WORLD) as a, living(two.two, _WORLD) as b:
        await a.create_world(ruleset="simulation", config=config, orchestrator=_SERVED)
        minds = [Mind(await each.agent(name)) for each in (a, b) for name in ("Ann", "Bob")]
        for mind in minds:
            mind.read()
        accepted = late = 0
        for turn in range(1, _TURNS + 1):
            started = [each.broadcast_event(_unkeyed("TurnStarted")) for each in (a, b)]
            assert await _winners(started, "turn_open") == 1
            deeds = [{**_deed(mind.agent_id, turn), "req_id": f"{turn}-{n}"} for n, mind in enumerate(minds)]
            acting = [mind.handle.submit_intent(deed) for mind, deed in zip(minds, deeds, strict=True)]
            ended = [each.broadcast_event(_unkeyed("TurnEnded")) for each in (b, a)]
            *results, ends = await asyncio.gather(*acting, _winners(ended, "turn_closed"), return_exceptions=True)
            assert ends == 1
            for result in results:
                if isinstance(result, IllegalEffectError):
                    assert result.details["rule"] == "turn_closed"
                    late += 1
                else:
                    assert not isinstance(result, BaseException), result
                    accepted += 1
        end = await a.broadcast_event(_unkeyed("Rang"))
        for mind in minds:
            await mind.come_to(end.global_seq)
    log = await judged(two.url, _WORLD, [])
    turns = [(each["kind"], each["payload"]["turn"]) for each in log if each["kind"] in {"TurnStarted", "TurnEnded"}]
    assert turns == [(kind, turn) for turn in range(1, _TURNS + 1) for kind in ("TurnStarted", "TurnEnded")]
    is_open = False
    for effect in log:
        if effect["kind"] in {"TurnStarted", "TurnEnded"}:
            is_open = effect["kind"] == "TurnStarted"
        elif effect["kind"] == "AgentStateChanged":
            assert is_open
            accepted -= 1
    assert accepted == 0
    assert late == sum(effect["kind"] == "IntentRejected" for effect in log)
    for here, there in zip(minds[:2], minds[2:], strict=True):
        assert _shown(here.view) == _shown(there.view)
    await right(two.url, _WORLD, *minds)
    async with Orchestrator.open(two.url, world_id=_WORLD, settings=Settings(pool_size=2)) as world:
        assert world.world_state.metadata["malformed_effects"] == 0
        assert orjson.dumps(world.world_state.metadata["turn"]) == str(_TURNS).encode()


def _unkeyed(kind: str) -> EffectDraft:
    made: Any = {"kind": kind, "payload": {}, "source_id": "engine", "schema_version": "1.0.0"}
    return made  # type: ignore[no-any-return]


async def _winners(sent: list[Any], rule: str) -> int:
    """Return how many of these are written; the others are refused by this rule."""
    results = await asyncio.gather(*sent, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            assert isinstance(result, IllegalEffectError), result
            assert result.details["rule"] == rule
    return sum(not isinstance(result, BaseException) for result in results)
