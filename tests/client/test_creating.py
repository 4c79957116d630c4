"""A world is created over the wire with the fields of `worldledger.genesis.NewWorld`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.api.helpers import Served
from worldledger.client import Client
from worldledger.config import OrchestratorConfig
from worldledger.errors import InvalidConfigError
from worldledger.genesis import NewWorld


def test_the_parameters_are_a_new_world_s() -> None:
    """What can be said of a new world is said by the same names; forks are made by `fork`."""
    parameters = [name for name in inspect.signature(Client.create_world).parameters if name != "self"]
    assert parameters == [name for name in NewWorld.model_fields if name not in {"world_id", "parent", "fork_of"}]


@pytest.mark.parametrize("orchestrator", [OrchestratorConfig(staleness_threshold=7), {"staleness_threshold": 7}])
async def test_what_is_given_stands_in_the_genesis(served: Served, orchestrator: Any) -> None:
    """Each field is kept; the orchestrator's may be named alone, the others are as usual."""
    async with Client(served.url, "made") as client:
        how: dict[str, Any] = {"config": {"height": [1, 2.5]}, "experiment": "e", "time_authority": "unity"}
        assert await client.create_world(**how, snapshot_every=30, orchestrator=orchestrator)
        assert not await client.create_world()
        (genesis,) = await client.event_log.get_entries_since(0)
        payload = genesis.effect["payload"]
        assert {name: payload[name] for name in how} == how
        assert (payload["ruleset"], payload["snapshot_every"]) == ("sandbox", 30)
        assert await client.event_log.config() == OrchestratorConfig(staleness_threshold=7)


@pytest.mark.parametrize(
    ("how", "path"),
    [
        ({"config": {"height": float("nan")}}, "$.config.height"),
        ({"config": OrchestratorConfig()}, "$.config"),
        ({"orchestrator": {"patience": 1}}, "$.orchestrator.patience"),
        ({"orchestrator": 5}, "$.orchestrator"),
        ({"snapshot_every": 1}, "$.snapshot_every"),
        ({"experiment": ""}, "$.experiment"),
    ],
)
async def test_what_is_wrong_is_named(service: str, world_id: str, how: dict[str, Any], path: str) -> None:
    """Nothing is created of what cannot be kept, here or by the service."""
    async with Client(service, world_id) as client:
        with pytest.raises(InvalidConfigError) as refused:
            await client.create_world(**how)
        assert refused.value.details["path"] == path
        assert await client.create_world()
