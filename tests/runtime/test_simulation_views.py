"""Time travel of agents on a database: what each saw live is what the log gives, anywhere, any time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.replaying import ReplayVerdict, check_replay
from worldledger_simulation.rules import RULESET, SimulationState
from worldledger_simulation.rules.words import UNOBSERVED

from tests.conftest import NEVER
from tests.rulesets.simulation.playing import Play, plays, trade
from tests.store.exports import exported
from worldledger.chain import link
from worldledger.config import OrchestratorConfig
from worldledger.errors import MomentNotFoundError, UnknownAgentError
from worldledger.folding import Fold
from worldledger.moments import Moment
from worldledger.views import Views
from worldledger.world import state_text

from .helpers import effects, head_of, refused
from .simulating import Reader, changing, create, drama, elsewhere, opened, restore, said, text_of, views_at

_AGENTS = ["Ann", "Bob", "Café", "Eve"]


@pytest.fixture
def fresh_url(make_database: Callable[..., str]) -> str:
    """Return the address of an empty database, to import into."""
    return make_database()


def _config(**changes: Any) -> dict[str, Any]:
    """Return a simulation in which some see nearly everything, some nearly nothing."""
    found = trade(simulation={"name": "drama"}, **changes)
    found["observability"]["matrix"] += [
        ["Ann", "Café", "insider", 0.5],
        ["Bob", "Café", "external", 0.0],
        ["Bob", "global", "insider", 2.0],
        ["Café", "Ann", "external", 0.1],
    ]
    found["observability"]["default"] = {"level": "external", "noise": 0.3}
    return found


async def _verdict(url: str, world_id: str) -> ReplayVerdict:
    async with Store.open(url, Settings(pool_size=2, snapshot_every=NEVER)) as store:
        return await check_replay(store.reader, await store.world(world_id), RULESET)


# -- live, replayed, restored --------------------------------------------------------------------------------


async def test_what_was_seen_live_is_what_the_log_gives(
    fresh_url: str, database_url: str, world_id: str, thorough: bool
) -> None:
    """Live, from the log, after a restart, from snapshots, in another process and from an import: the same bytes."""
    every = 1 if thorough else 12
    await create(database_url, world_id, _config())
    async with opened(database_url, world_id) as world, opened(database_url, world_id) as other:
        for name in ("Ann", "Bob", "Café"):
            await world.agent(name)
        await world.broadcast_event(said("AgentAdded", agent_id="Eve", state={"gold": 3}))
        await world.register_agent("Eve")
        readers = {name: Reader(world.agent_handles[name]) for name in _AGENTS}
        late = {name: Reader(await other.agent(name)) for name in _AGENTS}
        found = await drama(world, 8 if thorough else 4)
        assert {error.details.get("rule") for error in found} >= {"variables", "agent_exists"}
        await world.flush()
        head = await head_of(world)
        await other.reached(head)
        for reader in (*readers.values(), *late.values()):
            await reader.read_until(head)
        told = await views_at(world, _AGENTS, head, every)
        for name, views in told.items():
            for seq, text in views.items():
                if seq >= min(readers[name].seen):
                    assert readers[name].at(seq) == text
                if seq >= min(late[name].seen):
                    assert late[name].at(seq) == text
            assert len(set(readers[name].seen.values())) > 10
            kinds = {event["kind"] for event in readers[name].events}
            assert not kinds & UNOBSERVED
            assert b"secret thoughts" not in orjson.dumps([readers[name].document, readers[name].events])
        assert await views_at(other, _AGENTS, head, every) == told
        data = await exported(world._follower._store, world_id)
    for spacing in (NEVER, 7):
        async with opened(database_url, world_id, snapshot_every=spacing) as world:
            assert await views_at(world, _AGENTS, head, every) == told
    assert await elsewhere(database_url, world_id, head, every) == told
    await restore(fresh_url, data)
    async with opened(fresh_url, world_id) as world:
        assert await views_at(world, _AGENTS, head, every) == told


_numbers = itertools.count(1)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plays(15))
async def test_any_simulation_is_seen_as_it_is_without_a_database(database_url: str, play: Play) -> None:
    """Posted to a world, any play is the same log, and every agent sees what it sees without a database."""
    world_id = f"random-{next(_numbers)}"
    config = play.config.to_value()
    await create(database_url, world_id, config)
    async with opened(database_url, world_id) as world:
        # The same play in the world of this uuid, whose noise is another one.
        uuid = (await world._follower._store.world(world_id)).world_uuid
        text = orjson.dumps(play.log).replace(play.uuid.encode(), uuid.encode())
        play_log: list[Any] = orjson.loads(text)
        for effect in play_log[await head_of(world) :]:
            made = said(effect["kind"], effect["source_id"], **effect["payload"])
            await world.event_log.append_all([made], system=True)
        await head_of(world)
        assert [effect["payload"] for effect in await effects(world)] == [each["payload"] for each in play_log[1:]]
        expected: dict[tuple[str, int], str] = {}
        views = Views(Fold("w", RULESET))
        for effect in play_log:
            views.apply(effect)
            for name in views.fold.state.metadata["agents"]:
                expected[name, views.seq] = text_of(views.attach(name))
        for (name, seq), shown in expected.items():
            assert text_of(await world.view(name, at_seq=seq)) == shown
        assert state_text(world.world_state.entities) == state_text(play.state.entities)


async def test_the_view_at_a_turn_is_of_that_turn(database_url: str, world_id: str) -> None:
    """At the end of a turn an agent sees what was true then, with that turn's noise."""
    await create(database_url, world_id, _config())
    async with opened(database_url, world_id) as world:
        ann = await world.agent("Ann")
        live = {}
        for turn in range(1, 5):
            await world.broadcast_event(said("TurnStarted"))
            await ann.submit_intent(changing("/gold", turn))
            await world.broadcast_event(said("TurnEnded"))
            live[turn] = text_of(await world.view("Ann"))
        store = world._follower._store
        record = await store.world(world_id)
        for turn, text in live.items():
            _, seq = await store.states.place_at(record, Moment(unit=("turn", turn)))
            view = await world.view("Ann", at_seq=seq)
            assert text_of(view) == text
            assert view.visible_entities["Ann"]["gold"] == float(turn)
        assert len(set(live.values())) == 4
        with pytest.raises(MomentNotFoundError):
            await store.states.place_at(record, Moment(unit=("turn", 5)))


async def test_an_agent_has_no_view_before_it_was_there(database_url: str, world_id: str) -> None:
    """Before its registration an agent has no view; the engine's are registered right after the beginning."""
    await create(database_url, world_id)
    async with opened(database_url, world_id) as world:
        agents = await world.agents()
        assert [agents[name]["registered_seq"] for name in ("Ann", "Bob", "Café")] == [3, 4, 5]
        error = await refused(world.view("Ann", at_seq=2))
        assert isinstance(error, UnknownAgentError)
        assert (error.details["global_seq"], error.details["registered_seq"]) == (2, 3)
        assert (await world.view("Ann", at_seq=3)).visible_entities.keys() == {"Ann", "Bob", "global"}
        assert (await world.view("Café")).visible_entities == {}
        assert isinstance(await refused(world.register_agent("")), Exception)


async def test_an_agent_gets_the_row_of_the_matrix(database_url: str, world_id: str) -> None:
    """Who is registered without a policy gets the one of the configuration, with this world's noise."""
    await create(database_url, world_id)
    async with opened(database_url, world_id) as world:
        before = (await world.agents())["Ann"]
        await world.register_agent("Ann")
        assert (await world.agents())["Ann"] == before
        record = await world._follower._store.world(world_id)
        await world.register_agent("Eve")
        eve = (await world.agents())["Eve"]
        assert eve["policy"]["config"]["noise_key"] == record.world_uuid == before["policy"]["config"]["noise_key"]
        assert (eve["policy"]["name"], eve["policy"]["config"]["targets"]) == ("matrix", {})
        state = SimulationState.of(world.world_state, world_uuid=record.world_uuid)
        assert state.agents.keys() == {"Ann", "Bob", "Café"}


# -- proofs --------------------------------------------------------------------------------------------------


async def _dramatic(url: str, world_id: str) -> bytes:
    """Have a world with ViewDigests; return its export."""
    await create(url, world_id, _config())
    async with opened(url, world_id) as world:
        for name in ("Ann", "Bob", "Café"):
            await world.agent(name)
        await drama(world, 5)
        await world.flush()
        return await exported(world._follower._store, world_id)


async def test_view_digests_are_in_the_log_and_prove_the_views(database_url: str, world_id: str) -> None:
    """The log holds digests of what agents were shown, and a replay proves each of them, noise and all."""
    await _dramatic(database_url, world_id)
    verdict = await _verdict(database_url, world_id)
    assert verdict.agreed, verdict.finding
    assert verdict.views >= 10
    assert verdict.unchecked_views == 0


def _forged(data: bytes, change: Callable[[dict[str, Any]], bool]) -> bytes:
    """Change the effects of an export, and chain it anew so that nothing but a replay can tell."""
    *lines, trailer = data.splitlines()
    checksum, forged, changed = b"", [], 0
    for line in lines:
        effect = orjson.loads(line)
        changed += change(effect)
        text = orjson.dumps(effect, option=orjson.OPT_SORT_KEYS)
        checksum = link(checksum, text)
        forged.append(text)
    assert changed
    end = orjson.loads(trailer)
    end["trailer"]["head_checksum"] = checksum.hex()
    end["trailer"].pop("marks", None)
    return b"\n".join([*forged, orjson.dumps(end, option=orjson.OPT_SORT_KEYS)]) + b"\n"


def _digest(effect: dict[str, Any]) -> bool:
    if effect["kind"] != "ViewDigest":
        return False
    effect["payload"]["digest"] = "f" * 64
    return True


def _noise_key(effect: dict[str, Any]) -> bool:
    if effect["kind"] != "AgentRegistered" or effect["payload"]["agent_id"] != "Ann":
        return False
    effect["payload"]["policy"]["config"]["noise_key"] = "f" * 32
    return True


def _level(effect: dict[str, Any]) -> bool:
    if effect["kind"] != "AgentRegistered" or effect["payload"]["agent_id"] != "Bob":
        return False
    effect["payload"]["policy"]["config"]["targets"]["Ann"] = ["insider", 0.0]
    return True


def _value(effect: dict[str, Any]) -> bool:
    if effect["kind"] != "SimulationStarted":
        return False
    effect["payload"]["agents"]["Ann"]["count"] += 1
    return True


@pytest.mark.parametrize("change", [_digest, _noise_key, _level, _value])
async def test_a_forged_log_is_found_out(
    database_url: str, world_id: str, fresh_url: str, change: Callable[[dict[str, Any]], bool]
) -> None:
    """Digests, the noise's key, levels or values that were changed, the chain made anew: a replay sees other views."""
    data = _forged(await _dramatic(database_url, world_id), change)
    await restore(fresh_url, data)
    verdict = await _verdict(fresh_url, world_id)
    assert verdict.finding is not None
    assert verdict.finding.kind == "view_differs"


async def test_what_agents_saw_is_noted_when_a_turn_ends(database_url: str, world_id: str) -> None:
    """With the usual configuration each attached agent's view at a turn's end is digested in the log; with 0, none."""
    await create(database_url, world_id)
    await create(database_url, f"{world_id}-silent", orchestrator=OrchestratorConfig(view_digest_every=0))
    for name, wanted in ((world_id, 2), (f"{world_id}-silent", 0)):
        async with opened(database_url, name) as world:
            handles = [await world.agent(agent) for agent in ("Ann", "Bob")]
            for _ in range(2):
                await world.broadcast_event(said("TurnStarted"))
                await world.broadcast_event(said("TurnEnded"))
            await world.reached(await head_of(world), 30.0)
            for handle in handles:
                handle.close()
        async with opened(database_url, name) as world:  # what was put out is written when a world is closed
            found = await effects(world)
        ended = [effect["global_seq"] for effect in found if effect["kind"] == "TurnEnded"]
        digests = [effect["payload"] for effect in found if effect["kind"] == "ViewDigest"]
        assert [digest["at_seq"] for digest in digests if digest["agent_id"] == "Ann"] == ended[:wanted]
        assert {digest["agent_id"] for digest in digests} == ({"Ann", "Bob"} if wanted else set())
