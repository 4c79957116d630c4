"""A simulation's configuration: its sections, what they may say, and what is made of them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from pydantic import ValidationError
from worldledger_simulation.rules.config import AgentConfig, SimulationConfig, SimulationSettings
from worldledger_simulation.rules.sections import InvalidSimulationConfigError

from tests.cases import cases
from worldledger.errors import InvalidConfigError
from worldledger.genesis import NewWorld
from worldledger.variables import VariableDefinition

from .reading import MARKET, read, small, wrong


def test_a_whole_configuration() -> None:
    """Every section is read, and what is left out has its default."""
    config = read(MARKET)
    assert config.simulation == SimulationSettings(name="Market day", max_turns=20)
    assert (config.engine.type, config.engine.actions_per_turn) == ("external", 2)
    assert config.engine.parameters == {"model": "small", "temperature": 0.5}
    assert config.validator.type == "constraints"
    assert [agent.name for agent in config.agents] == ["Trader_1", "Trader_2", "Überseehändlerin"]
    first, second, third = config.agents
    assert first == AgentConfig(name="Trader_1")
    assert (second.type, second.weight, second.parameters) == ("merchant", 2, {"prompt": "Buy low."})
    assert third.permissions == ["intent:custom", "submit_intent"]
    assert config.observability is not None
    assert config.observability.matrix[1].noise == 0.2


def test_the_least_configuration() -> None:
    """A name and one agent are enough; sections that may be left out may be null."""
    config = SimulationConfig.from_value({"simulation": {"name": "s"}, "agents": ["A"]})
    nulls = dict.fromkeys(("engine", "validator", "state_variables", "observability"))
    agent = {"name": "A", "type": None, "state": None, "weight": None, "permissions": None, "parameters": None}
    settings = {"name": "s", "description": None, "max_turns": None}
    assert SimulationConfig.from_value({"simulation": settings, "agents": [agent], **nulls}) == config
    assert SimulationConfig.from_value(small(agents=["A"], state_variables={"agent_vars": None})) == config
    assert config.initial_agents() == {"A": {"name": "A"}}
    assert config.initial_global() == {}
    assert config.warnings() == []


def test_first_values() -> None:
    """Agents begin with the defaults and what their state has instead, exactly as the types have it."""
    config = read(MARKET)
    usual = {
        "gold": 5,
        "inventory": {},
        "slots": {"1": "sword", "2": "bow"},
        "location": [0.0, 0.0],
        "mood": "calm",
        "notes": None,
    }
    own = {"gold": 12, "inventory": {"food": 3.0}, "slots": {"1": "axe"}}
    assert config.initial_agents() == {
        "Trader_1": {"name": "Trader_1", **usual},
        "Trader_2": {"name": "Trader_2", **usual, **own},
        "Überseehändlerin": {"name": "Überseehändlerin", **usual},
    }
    assert config.agents[1].state == own
    assert config.initial_global() == {"price": 1.5}
    config.initial_agents()["Trader_1"]["inventory"]["food"] = 9
    assert config.initial_agents()["Trader_1"]["inventory"] == {}


def test_models() -> None:
    """The models are those of the variables, the same for the same variables."""
    config, again = read(MARKET), read(MARKET)
    assert config.agent_model is again.agent_model
    assert config.global_model is again.global_model
    assert config.agent_model.model_validate({"name": "A", "gold": "7"}).model_dump()["gold"] == 7


def test_to_value_is_the_normal_form() -> None:
    """What was left out is written out, and what is made of it is equal, also from instances of its parts."""
    config = read(MARKET)
    value = config.to_value()
    assert value["agents"][0] == {
        "name": "Trader_1",
        "type": "agent",
        "state": {},
        "weight": 1,
        "permissions": None,
        "parameters": {},
    }
    assert value["validator"] == {"type": "constraints"}
    assert value["observability"]["matrix"][2] == ["Trader_2", "global", "insider", None]
    assert value["state_variables"]["agent_vars"]["slots"]["default"] == {"1": "sword", "2": "bow"}
    assert SimulationConfig.from_value(value) == config
    assert SimulationConfig.from_value(value).to_value() == value
    assert SimulationConfig.from_value(MappingProxyType(value)) == config
    assert SimulationConfig.from_value(config) == config
    assert SimulationConfig.model_validate_json(config.model_dump_json(by_alias=True)) == config
    assert NewWorld(world_id="w", config=value).checked().config == value


def test_it_can_be_put_together_in_python() -> None:
    """Parts may be models already; everything is checked all the same."""
    variables: dict[str, Any] = {"agent_vars": {"gold": VariableDefinition(type="int", default=1)}}
    parts: dict[str, Any] = {"simulation": SimulationSettings(name="s"), "state_variables": variables}
    config = SimulationConfig(**parts, agents=[AgentConfig(name="A", state={"gold": 2})])
    assert config.initial_agents() == {"A": {"name": "A", "gold": 2}}
    with pytest.raises(InvalidSimulationConfigError, match=r"agents\[A\].gold: "):
        SimulationConfig(**parts, agents=[AgentConfig(name="A", state={"gold": "x"})])


def test_it_cannot_be_changed() -> None:
    """A configuration that was checked stays as it is."""
    with pytest.raises(ValidationError, match="frozen"):
        read(MARKET).simulation = SimulationSettings(name="other")  # type: ignore[misc]


def test_its_error_is_one_of_configurations() -> None:
    """Whoever catches errors of worlds' configurations catches this one, with each problem in its details."""
    with pytest.raises(InvalidConfigError) as caught:
        SimulationConfig.from_value(small(agents=[]))
    assert caught.value.code == "invalid_simulation_config"
    message = "a simulation has 1 to 10000 agents, this one 0"
    assert caught.value.details == {"problems": [{"path": "agents", "message": message}]}


_LOOP: dict[str, Any] = {}
_LOOP["x"] = _LOOP
_DEEP: list[Any] = []
for _ in range(5000):
    _DEEP = [_DEEP]


@cases(
    "value, path, words",
    [
        (None, "", "must be a mapping, not null"),
        ([], "", "must be a mapping, not a list"),
        (small(simulation=None), "simulation", "required"),
        (small(simulation={}), "simulation.name", "required"),
        (small(simulation="s"), "simulation", "must be a mapping, not a string"),
        (small(simulation={"name": ""}), "simulation.name", "at least 1 character"),
        (small(simulation={"name": "s" * 201}), "simulation.name", "at most 200 characters"),
        (small(simulation={"name": 5}), "simulation.name", "must be a string, not a number"),
        (small(simulation={"name": "s", "max_turns": 0}), "simulation.max_turns", "greater than or equal to 1"),
        (small(simulation={"name": "s", "max_turns": True}), "simulation.max_turns", "a whole number, not a boolean"),
        (small(simulation={"name": "s", "max_turns": "5"}), "simulation.max_turns", "a whole number, not a string"),
        (small(simulation={"name": "s", "max_turns": 5.0}), "simulation.max_turns", "a whole number, not 5.0"),
        (small(simulation={"name": "s", "max_turn": 5}), "simulation.max_turn", "did you mean 'max_turns'?"),
        (small(simulation={"name": "s", "zzz": 5}), "simulation.zzz", "known are name, description, max_turns"),
        (small(simulation={"name": "a\0"}), "simulation.name", "a string with a NUL character"),
        (small(engine={"actions_per_turn": 0}), "engine.actions_per_turn", "greater than or equal to 1"),
        (small(engine={"parameters": []}), "engine.parameters", "must be a mapping, not a list"),
        (small(engine={"parameters": _LOOP}), "engine.parameters.x", "it contains itself"),
        (small(engine={"parameters": {1: 2}}), "engine.parameters[1]", "keys are strings: quote it"),
        (small(engine={"parameters": {True: 2}}), "engine.parameters.True", "keys are strings: quote it"),
        (small(engine={"parameters": {"a": float("nan")}}), "engine.parameters.a", "not a finite number"),
        (small(engine={"parameters": {"a": {1, 2}}}), "engine.parameters.a", "set is not a JSON value"),
        (small(engine={"parameters": {"a": 2**60}}), "engine.parameters.a", "beyond ±(2^53-1)"),
        (small(engine={"parameters": {"\ud800": 1}}), "engine.parameters", "a string with a lone surrogate"),
        (small(validator={"type": "always_valid"}), "validator.type", "must be 'constraints', not 'always_valid'"),
        (small(validator=5), "validator", "must be a mapping, not a number"),
        (small(agents=None), "agents", "required: a list of agents"),
        (small(agents={}), "agents", "must be a list of agents, not a mapping"),
        (small(agents=["A"] * 10_001), "agents", "1 to 10000 agents, this one 10001"),
        (small(agents=["A", "B", "A"]), "agents[2].name", "the name 'A' is taken: agents[0] has it"),
        (small(agents=["global"]), "agents[0].name", "no agent is called so"),
        (small(agents=["worldledger"]), "agents[0].name", "the service's own"),
        (small(agents=[""]), "agents[0].name", "has 1 to 200 characters, this one 0"),
        (small(agents=["x" * 201]), "agents[0].name", "has 1 to 200 characters, this one 201"),
        (small(agents=[5]), "agents[0]", "must be a mapping, not a number"),
        (small(agents=[{}]), "agents[0].name", "required"),
        (small(agents=[{"name": "A", "wait": 1}]), "agents[0].wait", "did you mean 'weight'?"),
        (small(agents=[{"name": "A", "weight": 0}]), "agents[0].weight", "greater than or equal to 1"),
        (small(agents=[{"name": "A", "permissions": "all"}]), "agents[0].permissions", "must be a list"),
        (small(agents=[{"name": "A", "permissions": [""]}]), "agents[0].permissions", "1 to 200 characters"),
        (small(agents=[{"name": "A", "state": {"name": "B"}}]), "agents[A].name", "beside the state, not in it"),
        (small(state_variables=[]), "state_variables", "must be a mapping, not a list"),
        (small(state_variables={"agents_vars": {}}), "state_variables.agents_vars", "did you mean 'agent_vars'?"),
        (small(state_variables={"agent_vars": []}), "state_variables.agent_vars", "must be a mapping, not a list"),
        (small(observability=5), "observability", "must be a mapping, not a number"),
        (small(observabilty={}), "observabilty", "did you mean 'observability'?"),
    ],
)
def test_what_is_refused(value: Any, path: str, words: str) -> None:
    """Each thing that cannot be is one problem, at its path."""
    ((found, message),) = wrong(value)
    assert (found, words in message) == (path, True), message


def test_too_deep() -> None:
    """No depth is too much to be refused."""
    ((path, message),) = wrong(small(engine={"parameters": {"x": _DEEP}}))
    assert path.startswith("engine.parameters.x[0][0]")
    assert "nested deeper than 98 levels" in message


def test_the_deepest_fits_into_a_world() -> None:
    """What is not refused as too deep can stand in a world's first effect."""
    deepest: list[Any] = []
    for _ in range(94):
        deepest = [deepest]
    value = SimulationConfig.from_value(small(engine={"parameters": {"x": deepest}})).to_value()
    NewWorld(world_id="w", config=value).checked()
    assert wrong(small(engine={"parameters": {"x": [deepest]}}))


def test_warnings() -> None:
    """What is probably not meant is told: agents that do not see themselves, variables in no list."""
    found = [(warning.path, warning.message) for warning in read(MARKET).warnings()]
    message = "no entry says how Trader_2, Überseehändlerin observe themselves; by default that is not at all (unaware)"
    assert found == [(("observability", "default"), message)]
    text = MARKET.replace("slots, notes]", "slots]").replace("Trader_1, insider, 0.0", "Trader_1, external, 0.1")
    found = [(warning.path, warning.message) for warning in read(text).warnings()]
    said = "Trader_1 observes itself only in part (external) and with noise 0.1"
    assert found[0] == (("observability", "matrix", 0), said)
    notes = ("state_variables", "agent_vars", "notes")
    assert found[2] == (notes, "in neither list of variable_visibility, so it is external")


def test_warnings_of_what_is_off() -> None:
    """Observability that is switched off is told, and nothing else about it; none at all is no warning."""
    text = MARKET.replace("enabled: true", "enabled: false")
    assert [warning.path for warning in read(text).warnings()] == [("observability", "enabled")]
    assert read(MARKET[: MARKET.index("observability")]).warnings() == []
    text = MARKET.replace("level: unaware", "level: insider")
    assert read(text).warnings() == []


def test_a_name_twice_in_a_list_is_a_warning() -> None:
    """It changes nothing, but another variable may have been meant."""
    text = MARKET.replace("[inventory]", "[inventory, inventory]").replace("unaware, noise: 0.0", "insider, noise: 0")
    (warning,) = read(text).warnings()
    assert warning.path == ("observability", "variable_visibility", "internal", 1)
    assert warning.message == "'inventory' stands twice in the internal list"


def test_names_that_look_alike() -> None:
    """Two variables, or two fields, whose names differ in Unicode's way to write them alone are refused."""
    one, other = "caf\u00e9", "cafe\u0301"
    variable = {"type": "int", "default": 0}
    both = {one: variable, other: variable}
    ((path, message),) = wrong(small(state_variables={"agent_vars": both}))
    assert path == f"state_variables.agent_vars.{other}"
    assert r"they are 'caf\xe9' and 'cafe\u0301'" in message
    ((path, _),) = wrong(small(state_variables={"global_vars": {"town": {"type": "object", "schema": both}}}))
    assert path == f"state_variables.global_vars.town.schema.{other}"
    variables = {"agent_vars": {one: variable}, "global_vars": {other: variable}}
    assert SimulationConfig.from_value(small(state_variables=variables)).initial_global() == {other: 0}


def test_fields_without_a_type_are_named() -> None:
    """Where the type is missing, what stands there instead is told too."""
    assert wrong(small(state_variables={"agent_vars": {"gold": {"typ": "int"}}})) == [
        ("state_variables.agent_vars.gold.type", "a type is missing"),
        ("state_variables.agent_vars.gold.typ", "unknown field 'typ'; did you mean 'type'?"),
    ]
