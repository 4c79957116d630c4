"""Simulations made over HTTP: from a configuration, from a checkpoint, and why not."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from worldledger_simulation.rules import SimulationConfig

from tests.markets import MARKET, TURNS, effect, market

from .helpers import WorldClient, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def new(client: WorldClient, world_id: str | None = None, **fields: Any) -> httpx2.Response:
    """Ask for a new simulation: the client's world, or another."""
    body = {"world_id": world_id or client.world, "ruleset": "simulation", "config": market(), **fields}
    return await client.post("/v1/worlds", json=body)


async def test_a_simulation_is_created(client: WorldClient) -> None:
    """Its genesis has the whole configuration; its first values and its agents follow in the same breath."""
    response = await new(client)
    assert response.status_code == 201, response.text
    record = response.json()
    assert (record["ruleset"], record["head_seq"]) == ("simulation", 5)
    assert record["config"] == SimulationConfig.from_value(MARKET).to_value()
    effects = (await client.get("effects")).json()["effects"]
    assert [each["kind"] for each in effects] == ["WorldCreated", "SimulationStarted", *["AgentRegistered"] * 3]
    beginning = effects[1]["payload"]
    assert (beginning["turn"], beginning["global_state"]) == (0, {"price": 2.5, "season": None})
    assert beginning["agents"]["Bea"]["gold"] == 7
    agents = (await client.get("agents")).json()["agents"]
    assert [(agent["agent_id"], agent["policy"]["name"]) for agent in agents] == [
        ("Ann", "matrix"),
        ("Bea", "matrix"),
        ("Cid", "matrix"),
    ]


async def test_an_agent_that_is_registered_again_gets_its_row(client: WorldClient) -> None:
    """A registration without a policy gets the agent's row of the matrix: it stands so already."""
    await new(client)
    head = (await client.get("")).json()["head_seq"]
    response = await client.post("agents", json={"agent_id": "Bea"})
    assert response.status_code == 200, response.text
    assert response.json()["policy"]["name"] == "matrix"
    assert sorted(response.json()["view"]["visible_entities"]) == ["Ann", "Bea", "global"]
    assert (await client.get("")).json()["head_seq"] == head


async def test_everything_that_is_wrong_is_told(client: WorldClient) -> None:
    """A configuration that cannot be used is refused with each thing that is wrong and where; nothing is created."""
    config = market(
        simulation={"name": "market", "max_turn": 5},
        agents=["Ann", "Ann", {"name": "global"}],
        state_variables={"agent_vars": {"gold": {"type": "int", "min": 5, "max": 1}}},
    )
    found = problem(await new(client, config=config), 422, "invalid_simulation_config", path="$.config")
    paths = [each["path"] for each in found["problems"]]
    assert {"simulation.max_turn", "agents[1].name", "agents[2].name", "state_variables.agent_vars.gold.min"} <= {
        *paths
    }
    assert all(each["message"] for each in found["problems"])
    assert found["detail"].startswith(f"{paths[0]}: {found['problems'][0]['message']}\n")
    assert "problems_found" not in found
    problem(await client.get(""), 404, "world_not_found")


async def test_no_configuration(client: WorldClient) -> None:
    """A simulation without what it must have is refused, too."""
    wrong: list[dict[str, Any]] = [{}, {"agents": []}, {"simulation": None, "agents": ["a"]}]
    for config in wrong:
        problem(await new(client, config=config), 422, "invalid_simulation_config", path="$.config")


async def test_very_many_problems(client: WorldClient) -> None:
    """An answer has the first hundred problems, none of them long, and says how many there are."""
    config = market(state_variables={"agent_vars": {f"v{n}{'x' * 300}": {"type": "flaot"} for n in range(300)}})
    response = await new(client, config=config)
    found = problem(response, 422, "invalid_simulation_config", path="$.config")
    assert len(found["problems"]) == 100
    assert found["problems_found"] >= 300
    assert len(response.content) < 300_000


async def test_a_value_that_its_variable_may_not_have(client: WorldClient) -> None:
    """A draft with such a value is refused with the path of the value, as people write it."""
    await new(client)
    draft = effect("AgentStateChanged", "Ann", patch=[{"op": "add", "path": "/inventory/food", "value": "much"}])
    found = problem(await client.post("effects", json=draft), 422, "illegal_effect", rule="variables")
    assert found["problems"][0]["path"] == "agents[Ann].inventory.food"


# -- checkpoints ---------------------------------------------------------------------------------------------


async def test_a_simulation_begins_with_a_checkpoint(client: WorldClient) -> None:
    """What it has is true from the beginning; a variable that it lacks has its default, an agent is not there."""
    checkpoint = {"turn": 5, "agents": {"Ann": {"name": "Ann", "gold": 3, "location": [1, "2.5"]}}, "global_state": {}}
    response = await new(client, checkpoint=checkpoint)
    assert response.status_code == 201, response.text
    turn = (await client.get("turns/5")).json()
    assert (turn["status"], turn["first_seq"], list(turn["agents"])) == ("ended", 2, ["Ann"])
    ann = turn["agents"]["Ann"]
    assert (ann["gold"], ann["location"], ann["inventory"], ann["mood"]) == (3, [1.0, 2.5], {}, "calm")
    assert turn["global_state"] == {"price": 2.5, "season": None}
    problem(await client.get("turns/0"), 404, "moment_not_found")
    await client.post("effects", json=effect("TurnStarted"))
    assert (await client.get("turns/6")).json()["status"] == "open"


async def test_a_turn_makes_a_checkpoint(client: WorldClient) -> None:
    """What is told of a turn can be what another simulation begins with."""
    await new(client)
    await client.post("effects", json=TURNS)
    turn = (await client.get("turns/1")).json()
    checkpoint = {name: turn[name] for name in ("turn", "agents", "global_state")}
    response = await new(client, f"{client.world}-again", checkpoint=checkpoint)
    assert response.status_code == 201, response.text
    again = (await client.get(f"/v1/worlds/{client.world}-again/turns/1")).json()
    assert {name: again[name] for name in checkpoint} == checkpoint


_NO_CHECKPOINTS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"turn", "agents"}),
    ({"turn": 1, "agents": {"Ann": {"gold": -1}, "Dan": {}}}, {"agents[Ann].gold", "agents[Dan]"}),
    ({"turn": 1, "agents": {}, "global_state": {"price": 1, "rain": 2}}, {"global_state.rain"}),
    ({"turn": 1, "agents": {}, "turns": 5}, {"turns"}),
    ({"turn": 1, "agents": {"Ann": {"history": ["x"] * 11}}}, {"agents[Ann].history"}),
]


async def test_a_checkpoint_that_does_not_fit(client: WorldClient, subtests: pytest.Subtests) -> None:
    """It is refused with everything that does not fit, under `$.checkpoint`, and nothing is created."""
    for checkpoint, paths in _NO_CHECKPOINTS:
        with subtests.test(paths=paths):
            response = await new(client, checkpoint=checkpoint)
            found = problem(response, 422, "invalid_simulation_config", path="$.checkpoint")
            assert {each["path"] for each in found["problems"]} == paths
            problem(await client.get(""), 404, "world_not_found")


async def test_what_the_log_cannot_hold(client: WorldClient) -> None:
    """A checkpoint with a value that no effect may have is refused by the value's path."""
    checkpoint = {"turn": 1, "agents": {"Ann": {"inventory": {"a\0b": 1}}}}
    problem(await new(client, checkpoint=checkpoint), 422, "invalid_config", path="$.checkpoint.agents.Ann.inventory")


async def test_other_worlds_begin_with_no_checkpoint(client: WorldClient) -> None:
    """A checkpoint for a world of another ruleset is refused; null is none."""
    body = {"world_id": client.world, "checkpoint": {"turn": 1, "agents": {}}}
    problem(await client.post("/v1/worlds", json=body), 422, "invalid_config", path="$.checkpoint")
    assert (await client.post("/v1/worlds", json={**body, "checkpoint": None})).status_code == 201


async def test_an_agent_is_not_told_the_key_of_its_noise(client: WorldClient) -> None:
    """Whose noise could be worked out by itself would see exactly: the agent's own route leaves the key out."""
    assert (await new(client)).status_code == 201
    (listed,) = (await client.get("agents?limit=1")).json()["agents"]
    assert "noise_key" in listed["policy"]["config"]  # for whoever runs the world
    own = (await client.get(f"agents/{listed['agent_id']}")).json()
    assert "noise_key" not in own["policy"]["config"]
    again = await client.post("agents", json={"agent_id": listed["agent_id"]})
    assert "noise_key" not in again.json()["policy"]["config"]


async def test_a_configuration_of_llm_sim(client: WorldClient) -> None:
    """It is recognised, and told in one problem; one sign of it is a slip, told as any other."""
    config = market(llm={"model": "m"}, engine={"type": "econ_llm_engine", "interest_rate": 0.05})
    found = problem(await new(client, config=config), 422, "invalid_simulation_config", path="$.config")
    (told,) = found["problems"]
    assert told["message"].startswith("this is a configuration of llm-sim (llm, engine.interest_rate); ")
    found = problem(await new(client, config=market(llm={})), 422, "invalid_simulation_config", path="$.config")
    assert [each["path"] for each in found["problems"]] == ["llm"]
