"""Agents of simulations that a model plays: an action a turn."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.client.helpers import soon
from worldledger.client import Client
from worldledger.llm import Persona

from .conftest import Script, did, playing, told

pytest.importorskip("worldledger_simulation")
_CONFIG = {
    "simulation": {"name": "market"},
    "engine": {"actions_per_turn": 1},
    "agents": ["Ann", "Bob"],
    "state_variables": {"agent_vars": {"gold": {"type": "float", "default": 10}}},
}
_TRADER = Persona(
    character="You trade.", may=("AgentStateChanged",), sees="view", woken_by=frozenset({"TurnStarted"}), corrections=0
)


def _engine(kind: str, **payload: Any) -> Any:
    return {"kind": kind, "payload": payload, "source_id": "engine", "schema_version": "1.0.0"}


def _gold(value: int) -> Any:
    patch = [{"op": "replace", "path": "/gold", "value": value}]
    return did("AgentStateChanged", json.dumps({"patch": patch}))


async def test_an_agent_acts_once_in_a_turn(service: str, world_id: str) -> None:
    """It is woken when a turn starts, by nothing else; and one that comes back in a turn does not act in it again."""
    market = f"{world_id}-market"
    async with Client(service, market) as world:
        await world.create_world(ruleset="simulation", config=_CONFIG)
        first, second = Script(_gold(11), _gold(12)), Script(_gold(13))
        async with playing(world, first, _TRADER, "Ann"):
            for number in (1, 2):
                await world.broadcast_event(_engine("TurnStarted"))
                await soon(told(world)("GenerationReported", number))
                change = [{"op": "replace", "path": "/gold", "value": number}]
                await world.broadcast_event(_engine("AgentStateChanged", agent_id="Bob", patch=change))
                if number == 1:
                    await world.broadcast_event(_engine("TurnEnded"))
        async with playing(world, second, _TRADER, "Ann"):
            await soon(told(world)("GenerationLeased", 3))
            await asyncio.sleep(0.2)  # it would act meanwhile
            assert second.requests == []
            await world.broadcast_event(_engine("TurnEnded"))
            await world.broadcast_event(_engine("TurnStarted"))
            reports = [effect["payload"] for effect in await soon(told(world)("GenerationReported", 3))]
        acts = [each for each in await told(world)("AgentStateChanged", 5) if each["source_id"] == "Ann"]
        assert [each["payload"]["patch"][0]["value"] for each in acts] == [11.0, 12.0, 13.0]
        assert [report["outcome"] for report in reports] == ["acted"] * 3
        assert '"Bob":{"gold":1.0' in first.asked(1)
