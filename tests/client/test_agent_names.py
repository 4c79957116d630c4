"""Agent names that are equal after Unicode NFC are one: the second is refused at every door, and no fold minds."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from worldledger_service.runtime import Orchestrator
from worldledger_service.store import Store

from tests.api.helpers import settings
from tests.store.exports import effect, export_of, genesis, restored, text
from worldledger.client import World
from worldledger.errors import IllegalEffectError, InvalidConfigError, InvalidEffectError, SimulationError
from worldledger.genesis import NewWorld
from worldledger.intents import registration_draft
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec

ONE, TWO = "Zo\u00e9", "Zoe\u0301"
KELVIN = "\u212a"  # whose NFC is the letter K


@pytest.mark.parametrize(("first", "second"), [(ONE, TWO), (TWO, ONE), ("K", KELVIN), (KELVIN, "K")])
async def test_the_other_form_of_a_name_is_refused(world: World, first: str, second: str) -> None:
    """The refusal names the agent that has the name; that one is registered anew as ever."""
    await world.register_agent(first, ObservationPolicy())
    with pytest.raises(InvalidEffectError) as refused:
        await world.register_agent(second, ObservationPolicy())
    assert (refused.value.path, refused.value.details["agent_id"]) == ("$.agent_id", first)
    assert ascii(first) in str(refused.value)
    await world.register_agent(first, weight=2)
    await world.register_agent("Zoe", ObservationPolicy())
    assert set(await world.agents()) == {first, "Zoe"}


async def test_of_two_processes_one_wins(database_url: str) -> None:
    """Where both forms are registered at once, by the state that each follows, only one is."""
    names = [(f"{n}{ONE}", f"{n}{TWO}") for n in range(5)]
    async with (
        Orchestrator.open(database_url, world_id="town", settings=settings()) as here,
        Orchestrator.open(database_url, world_id="town", settings=settings()) as there,
    ):
        for one, two in names:
            done = await asyncio.gather(here.register_agent(one), there.register_agent(two), return_exceptions=True)
            (error,) = [each for each in done if isinstance(each, BaseException)]
            assert isinstance(error, InvalidEffectError)
        entries = await here.event_log.get_entries_since(1)
        assert len([entry for entry in entries if entry.effect["kind"] == "AgentRegistered"]) == len(names)


async def test_a_log_with_both_is_lived_in_as_before(database_url: str) -> None:
    """What was recorded before this rule is imported and folded, and both agents go on, registered anew too."""
    drafts = [registration_draft(name, policy_spec(ObservationPolicy())) for name in (ONE, TWO)]
    lines = [text(genesis("old")), *(text(effect(n, "old", **each)) for n, each in enumerate(drafts, 2))]
    async with Store.open(database_url, settings()) as store:
        assert await restored(store, export_of(lines, "old"))
    async with Orchestrator.open(database_url, world_id="old", settings=settings()) as world:
        assert set(await world.agents()) == {ONE, TWO}
        await world.register_agent(ONE, weight=2)
        handle = await world.register_agent(TWO, weight=3)
        await handle.submit_intent({"kind": "Speak", "payload": {"text": "still here"}})


# -- simulations ---------------------------------------------------------------------------------------------


def config(*agents: str) -> dict[str, Any]:
    """Make a configuration of a simulation with these agents."""
    return {"simulation": {"name": "s", "max_turns": 3}, "agents": list(agents), "state_variables": {}}


def added(name: str) -> Any:
    """Make the draft that adds an agent."""
    payload = {"agent_id": name}
    return {"kind": "AgentAdded", "payload": payload, "source_id": "engine", "schema_version": "1.0.0"}


async def test_a_configuration_has_a_name_once(database_url: str) -> None:
    """A simulation whose configuration has both forms is not created; nor is a game whose players have them."""
    async with Store.open(database_url, settings()) as store:
        with pytest.raises(InvalidConfigError) as refused:
            await store.create_world(NewWorld(world_id="s", ruleset="simulation", config=config(ONE, TWO)))
        assert ascii(ONE) in str(refused.value)
        await store.create_world(NewWorld(world_id="s", ruleset="simulation", config=config(ONE, "Zoe")))


async def test_agents_that_are_added_have_new_names(database_url: str) -> None:
    """AgentAdded is judged by who is there, registered or not; and so is a registration."""
    async with Orchestrator.open(
        database_url, world_id="s", ruleset="simulation", world_config=config(ONE), settings=settings()
    ) as world:
        with pytest.raises(IllegalEffectError) as refused:
            await world.broadcast_event(added(TWO))
        assert refused.value.details["rule"] == "agent_exists"
        assert ascii(ONE) in str(refused.value)
        await world.broadcast_event(added("K"))
        failed: list[SimulationError] = []
        for name in (KELVIN, TWO):
            with pytest.raises(InvalidEffectError) as not_registered:
                await world.register_agent(name, ObservationPolicy())
            failed.append(not_registered.value)
        assert [each.details["agent_id"] for each in failed] == ["K", ONE]
        await world.register_agent("K", ObservationPolicy())
        assert orjson.dumps(sorted(await world.agents())) == orjson.dumps(["K", ONE])
