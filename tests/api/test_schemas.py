"""The JSON Schemas that are served: they take what is right, and refuse nothing that the service takes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import httpx2
import jsonschema_rs
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worldledger_service.api.published import published
from worldledger_simulation.rules import Checkpoint, SimulationConfig

from tests.markets import MARKET, market
from worldledger.errors import InvalidDefinitionError
from worldledger.variables import check_definitions

from .helpers import problem

VALIDATORS = {name: jsonschema_rs.validator_for(schema.make()) for name, schema in published().items()}
NAMES = ["checkpoint", "simulation-config", "social-rl-policy-state", "social-rl-round", "variable-definition"]
DEFINITION, CONFIG, CHECKPOINT = (VALIDATORS[f] for f in ("variable-definition", "simulation-config", "checkpoint"))

#: Variables of every type.
VARIABLES: dict[str, Any] = yaml.safe_load("""
inventory: {type: dict, key_type: str, value_type: float, default: {}}
stats:
  type: dict
  schema:
    health: {type: float, min: 0, max: 100, default: 100}
    mana: {type: float, min: 0, max: 100, default: 100}
    stamina: {type: int, min: 0, max: 10, default: 10}
  default: {health: 100, mana: 100, stamina: 10}
towns:
  type: dict
  key_type: str
  value_type:
    type: dict
    schema:
      population: {type: int, min: 0, default: 1000}
      resources: {type: dict, key_type: str, value_type: float, default: {}}
  default: {}
action_history: {type: list, item_type: str, max_length: 10, default: []}
position_history:
  type: list
  item_type: {type: tuple, item_types: [float, float]}
  max_length: 100
  default: []
grid_data: {type: list, item_type: {type: list, item_type: int}, default: []}
location: {type: tuple, item_types: [float, float], default: [0.0, 0.0]}
color:
  type: tuple
  item_types:
    - {type: int, min: 0, max: 255}
    - {type: int, min: 0, max: 255}
    - {type: int, min: 0, max: 255}
  default: [255, 255, 255]
entity_data:
  type: tuple
  item_types: [int, str, {type: tuple, item_types: [float, float]}]
  default: [0, "Unknown", [0.0, 0.0]]
target_destination: {type: str, default: null}
agent_name: {type: str, pattern: "^[A-Za-z][A-Za-z0-9_]{2,19}$", max_length: 20, default: "Agent_1"}
notes: {type: str, max_length: 500, default: ""}
capital:
  type: object
  schema:
    name: {type: str, default: "Capital City"}
    position: {type: tuple, item_types: [float, float], default: [0.0, 0.0]}
    population: {type: int, min: 0, default: 10000}
    resources: {type: dict, key_type: str, value_type: float, default: {}}
  default: {name: "Capital City", position: [0.0, 0.0], population: 10000, resources: {}}
economic_strength: {type: float, min: 0, max: 1000000, default: 100.0}
alive: {type: bool, default: true}
mood: {type: categorical, values: [calm, angry], default: calm}
größe: {type: int, min: null, max: null, default: 0}
""")

#: A matrix in every way of writing.
OBSERVABILITY: dict[str, Any] = yaml.safe_load("""
enabled: true
variable_visibility: {external: [economic_strength], internal: [notes]}
matrix:
  - [Agent1, Agent1, insider, 0.0]
  - [Agent1, Agent2, external, 0.2]
  - [Agent1, global, external, 0.1]
  - [Agent2, Agent1, unaware, null]
  - {observer: Agent2, target: Agent2, level: insider, noise: 0.0}
default: {level: unaware, noise: 0.0}
""")


def config(**changes: Any) -> dict[str, Any]:
    """Make a configuration of all the examples."""
    return {
        "simulation": {"name": "example"},
        "agents": ["Agent1", {"name": "Agent2", "state": {"notes": "hello"}}],
        "state_variables": {"agent_vars": VARIABLES, "global_vars": {"price": {"type": "float", "default": 1}}},
        "observability": OBSERVABILITY,
        **changes,
    }


#: A checkpoint as docs/reference/simulations.md, "Checkpoints", has it.
EXPORTED: dict[str, Any] = {
    "turn": 5,
    "agents": {
        "Trader_1": {
            "name": "Trader_1",
            "inventory": {"food": 10.5, "metal": 5.0},
            "location": [10.0, 20.0],
            "action_history": ["spawn", "move", "trade"],
            "stats": {"health": 100.0, "mana": 50.0, "stamina": 8},
        }
    },
    "global_state": {"towns": {"Agriculture Town": {"population": 1500, "resources": {"food": 1000.0, "wood": 500.0}}}},
}


# -- serving -------------------------------------------------------------------------------------------------


async def test_the_schemas_are_listed_and_served(client: httpx2.AsyncClient) -> None:
    """Each schema that is listed can be had where it is said to be, is one by its own dialect, and has its `$id`."""
    listed = (await client.get("/v1/schemas")).json()["schemas"]
    assert [each["name"] for each in listed] == NAMES
    for each in listed:
        response = await client.get(each["path"])
        assert (response.status_code, response.headers["content-type"]) == (200, "application/schema+json")
        schema = response.json()
        assert schema == published()[each["name"]].make()
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert (schema["$id"], schema["title"]) == (each["id"], each["title"])
        jsonschema_rs.meta.validate(schema)
        tag = {"If-None-Match": response.headers["etag"]}
        assert (await client.get(each["path"], headers=tag)).status_code == 304


async def test_a_schema_that_there_is_not(client: httpx2.AsyncClient) -> None:
    """An unknown name is a 404 that says which there are."""
    found = problem(await client.get("/v1/schemas/world"), 404, "schema_not_found", name="world")
    assert found["known"] == NAMES


# -- what is right -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_are_taken(name: str) -> None:
    """Every example of a variable is right by the schema, and so is the normal form that the service makes of it."""
    DEFINITION.validate(VARIABLES[name])
    DEFINITION.validate(check_definitions({name: VARIABLES[name]})[name].to_value())


def test_a_configuration_is_taken() -> None:
    """A configuration of all examples is right by the schema, and so is its normal form."""
    for value in (config(), MARKET, {"simulation": {"name": "x"}, "agents": ["a"]}):
        CONFIG.validate(value)
        CONFIG.validate(SimulationConfig.from_value(value).to_value())


def test_what_may_be_left_out_may_be_null() -> None:
    """Null stands for what is left out, in the schema as in the service."""
    value = config(engine=None, validator=None, state_variables=None, observability=None, agents=["Agent1"])
    CONFIG.validate(value)
    SimulationConfig.from_value(value)
    value["simulation"] |= {"description": None, "max_turns": None}
    value |= {"engine": {"type": None, "parameters": None}, "state_variables": {"agent_vars": None}}
    CONFIG.validate(value)
    SimulationConfig.from_value(value)


def test_a_checkpoint_is_taken() -> None:
    """A checkpoint is right by the schema, with where it comes from and without."""
    CHECKPOINT.validate(EXPORTED)
    CHECKPOINT.validate({**EXPORTED, "worldledger": None, "reasoning_chains": []})
    origin = {"format": "checkpoint/1", "world_id": "w", "paused": {"Trader_1": None, "Trader_2": 7}}
    CHECKPOINT.validate({**EXPORTED, "worldledger": origin})


# -- what is wrong -------------------------------------------------------------------------------------------

_WRONG_DEFINITIONS: list[Any] = [
    None,
    "float",
    {},
    {"type": "flaot"},
    {"type": "float", "mix": 0},
    {"type": "float", "min": "low"},
    {"type": "float", "max_length": 5},
    {"type": "bool", "min": 0},
    {"type": "int", "default": [1]},
    {"type": "categorical"},
    {"type": "categorical", "values": []},
    {"type": "categorical", "values": ["a", "a"]},
    {"type": "categorical", "values": [1]},
    {"type": "categorical", "values": None},
    {"type": "dict"},
    {"type": "dict", "key_type": "str"},
    {"type": "dict", "value_type": "int"},
    {"type": "dict", "key_type": "float", "value_type": "int"},
    {"type": "dict", "key_type": "str", "value_type": "dict"},
    {"type": "dict", "key_type": "str", "value_type": "int", "schema": {"a": {"type": "int"}}},
    {"type": "dict", "key_type": "str", "value_type": "int", "default": []},
    {"type": "dict", "schema": {}},
    {"type": "dict", "schema": {"a b": {"type": "int"}}},
    {"type": "dict", "schema": {"1st": {"type": "int"}}},
    {"type": "dict", "schema": {"_a": {"type": "int"}}},
    {"type": "dict", "schema": {"a": "int"}},
    {"type": "list"},
    {"type": "list", "item_type": "categorical"},
    {"type": "list", "item_type": {"type": "int", "values": ["a"]}},
    {"type": "list", "item_type": "int", "max_length": 0},
    {"type": "list", "item_type": "int", "max_length": 1001},
    {"type": "list", "item_type": "int", "max_length": 2.5},
    {"type": "list", "item_type": "int", "default": {}},
    {"type": "tuple"},
    {"type": "tuple", "item_types": []},
    {"type": "tuple", "item_types": "int"},
    {"type": "tuple", "item_types": ["int", "object"]},
    {"type": "str", "max_length": 0},
    {"type": "str", "pattern": 5},
    {"type": "str", "values": ["a"]},
    {"type": "object"},
    {"type": "object", "schema": [1]},
    {"type": "object", "schema": {"a": {"type": "int"}}, "default": "none"},
]


@pytest.mark.parametrize("definition", _WRONG_DEFINITIONS, ids=str)
def test_wrong_definitions_are_refused(definition: Any) -> None:
    """A definition that breaks a rule which a schema can tell is refused by the schema, and by the service."""
    assert not DEFINITION.is_valid(definition)
    assert not CONFIG.is_valid(config(state_variables={"agent_vars": {"x": definition}}, observability=None))
    with pytest.raises(InvalidDefinitionError):
        check_definitions({"x": definition})


_WRONG_CONFIGS: list[dict[str, Any]] = [
    {"simulation": None},
    {"simulation": {}},
    {"simulation": {"name": ""}},
    {"simulation": {"name": "x", "max_turns": 0}},
    {"simulation": {"name": "x", "turns": 5}},
    {"engine": {"actions_per_turn": 0}},
    {"agents": None},
    {"agents": []},
    {"agents": [""]},
    {"agents": ["global"]},
    {"agents": ["worldledger"]},
    {"agents": [{"type": "agent"}]},
    {"agents": [{"name": "a", "weight": 0}]},
    {"agents": [{"name": "a", "colour": "red"}]},
    {"agents": [{"name": "Agent1", "state": {"name": "Agent1"}}, "Agent2"]},
    {"validator": {"type": "always_valid"}},
    {"state_variables": {"variables": {}}},
    {"state_variables": {"agent_vars": {"name": {"type": "str"}}}},
    {"state_variables": {"global_vars": {"a-b": {"type": "str"}}}},
    {"observability": {"enabled": True}},
    {"observability": {**OBSERVABILITY, "enabled": "yes"}},
    {"observability": {**OBSERVABILITY, "matrix": [["Agent1", "Agent2", "external"]]}},
    {"observability": {**OBSERVABILITY, "matrix": [["Agent1", "Agent2", "all", 0.0]]}},
    {"observability": {**OBSERVABILITY, "matrix": [["Agent1", "Agent2", "external", -0.1]]}},
    {"observability": {**OBSERVABILITY, "variable_visibility": {"external": [], "internal": []}}},
    {"observability": {**OBSERVABILITY, "variable_visibility": {"external": ["notes"]}}},
    {"observability": {**OBSERVABILITY, "default": {"level": "external"}}},
    {"colour": "red"},
]


@pytest.mark.parametrize("changes", _WRONG_CONFIGS, ids=str)
def test_wrong_configurations_are_refused(changes: dict[str, Any]) -> None:
    """A configuration with a wrong section is refused by the schema, and by the service."""
    assert not CONFIG.is_valid(config(**changes))
    with pytest.raises(InvalidDefinitionError):
        SimulationConfig.from_value(config(**changes))


_WRONG_CHECKPOINTS: list[Any] = [
    [],
    {},
    {"turn": 5},
    {"turn": -1, "agents": {}},
    {"turn": "5", "agents": {}},
    {"turn": 2**53, "agents": {}},
    {"turn": 5, "agents": []},
    {"turn": 5, "agents": {"Ann": None}},
    {"turn": 5, "agents": {"Ann": {"name": 5}}},
    {"turn": 5, "agents": {}, "global_state": None},
    {"turn": 5, "agents": {}, "turns": 6},
    {"turn": 5, "agents": {}, "worldledger": {}},
    {"turn": 5, "agents": {}, "worldledger": {"format": "checkpoint/2"}},
    {"turn": 5, "agents": {}, "worldledger": {"format": "checkpoint/1", "paused": {"Ann": -1}}},
]


@pytest.mark.parametrize("checkpoint", _WRONG_CHECKPOINTS, ids=str)
def test_wrong_checkpoints_are_refused(checkpoint: Any) -> None:
    """What is no checkpoint of any simulation is refused by the schema, and by the service."""
    assert not CHECKPOINT.is_valid(checkpoint)
    with pytest.raises(InvalidDefinitionError):
        Checkpoint.read(checkpoint, SimulationConfig.from_value(market()))


# -- the law -------------------------------------------------------------------------------------------------

_SCALARS = st.none() | st.booleans() | st.integers(-3, 2000) | st.floats(-3, 3) | st.text("ab_1 é", max_size=3)
_TYPES = st.sampled_from(["float", "int", "bool", "categorical", "dict", "list", "tuple", "str", "object", "flaot"])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab1", max_size=2), inner, max_size=2),
    max_leaves=4,
)


def _holder(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    element = inner | _TYPES
    return st.fixed_dictionaries(
        {"type": _TYPES},
        optional={
            "min": _SCALARS,
            "max": _SCALARS,
            "values": st.none() | st.lists(st.text("ab", max_size=2), max_size=3),
            "default": _VALUES,
            "key_type": st.sampled_from(["str", "int", "float", None]),
            "value_type": element,
            "item_type": element,
            "item_types": st.none() | st.lists(element, max_size=2),
            "schema": st.none() | st.dictionaries(st.text("ab1é_ ·", max_size=2), inner, max_size=2),
            "pattern": st.none() | st.sampled_from(["a*", "(", "^b$"]),
            "max_length": _SCALARS,
        },
    )


@given(definition=st.recursive(_holder(st.nothing()), _holder, max_leaves=4))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_the_schema_refuses_is_refused(definition: dict[str, Any]) -> None:
    """Whatever definition the service takes, the schema takes, too."""
    try:
        check_definitions({"x": deepcopy(definition)})
    except InvalidDefinitionError:
        return
    DEFINITION.validate(definition)
