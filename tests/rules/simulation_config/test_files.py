"""Configurations in files: everything that is wrong, in one go, each at its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from worldledger_simulation.rules.config import load_config
from worldledger_simulation.rules.sections import InvalidSimulationConfigError

from tests.cases import cases
from worldledger.errors import CircularSchemaError, FileRefusedError, dotted

from .reading import MARKET, problems, read, refusal

_BAD = """\
simulation:
  nam: Market day
engine: {actions_per_turn: 2.5, parameters: {1: 2}}
validator: {type: always_valid}
agents:
  - global
  - Trader_1
  - {name: Trader_1}
  - {name: Trader_3, state: {gold: x, god: 1}, weight: 0}
state_variables:
  agent_vars:
    gold: {type: int, mix: 0}
    inv: {type: dict, key_type: str, value_type: float, default: {1: 2}}
  global_vars:
    price: {type: float, min: 5, max: 1}
observability:
  enabled: 1
  variable_visibility:
    external: []
    internal: [inventory]
  matrix:
    - [Trader_1, Trader_1, insidr, 0.0]
    - [Trader_1, Trader_3, external, -0.2]
    - [Trader_9, global, insider, 0]
    - [Trader_9, global, insider, 0]
    - [Trader_1, global, insider]
  defaut: 1
obs: 1
"""


def test_everything_is_told_at_once() -> None:
    """All sections are looked at, whatever is wrong in others, and told in the order of the file."""
    assert [(line, path) for line, path, _ in problems(_BAD)] == [
        (1, "simulation.name"),
        (2, "simulation.nam"),
        (3, "engine.actions_per_turn"),
        (3, "engine.parameters[1]"),
        (4, "validator.type"),
        (6, "agents[0].name"),
        (8, "agents[2].name"),
        (9, "agents[Trader_3].god"),
        (9, "agents[3].weight"),
        (12, "state_variables.agent_vars.gold.mix"),
        (13, "state_variables.agent_vars.inv.default"),
        (15, "state_variables.global_vars.price.min"),
        (17, "observability.enabled"),
        (19, "observability.variable_visibility.external"),
        (20, "observability.variable_visibility.internal[0]"),
        (22, "observability.matrix[0][2]"),
        (23, "observability.matrix[1][3]"),
        (24, "observability.matrix[2][0]"),
        (25, "observability.matrix[3]"),
        (25, "observability.matrix[3][0]"),
        (26, "observability.matrix[4]"),
        (27, "observability.defaut"),
        (28, "obs"),
    ]


_MATRIX = """\
simulation: {name: seen}
agents: [A, B]
state_variables: {agent_vars: {gold: {type: int, default: 0}}}
observability:
  enabled: true
  variable_visibility:
    external: [gold, 5, iron, lead]
    internal: [gold, 7]
  matrix:
    - [A, Q, insider, -1]
    - [Z, B, foo, 0]
    - [A, Q, external, much]
    - {observer: Y, target: B, level: external, noise: -2}
    - [A, X, insider]
    - [7, X, insider, 0]
    - {target: X, level: insider, noise: 0}
    - 5
    - [7, X, insider, 0]
"""


def test_all_of_an_entry_is_told() -> None:
    """Who is unknown, and which pair stands twice, also where a level or a noise is wrong; each at its own place."""
    found = refusal(_MATRIX).problems
    assert [(each.line, each.column, dotted(each.path[1:])) for each in found] == [
        (6, 3, "variable_visibility"),
        (7, 22, "variable_visibility.external[1]"),
        (7, 25, "variable_visibility.external[2]"),
        (7, 31, "variable_visibility.external[3]"),
        (8, 22, "variable_visibility.internal[1]"),
        (10, 11, "matrix[0][1]"),
        (10, 23, "matrix[0][3]"),
        (11, 8, "matrix[1][0]"),
        (11, 14, "matrix[1][2]"),
        (12, 7, "matrix[2]"),
        (12, 11, "matrix[2][1]"),
        (12, 24, "matrix[2][3]"),
        (13, 8, "matrix[3].observer"),
        (13, 49, "matrix[3].noise"),
        (14, 7, "matrix[4]"),
        (14, 11, "matrix[4][1]"),
        (15, 8, "matrix[5][0]"),
        (15, 11, "matrix[5][1]"),
        (16, 7, "matrix[6].observer"),
        (16, 8, "matrix[6].target"),
        (17, 7, "matrix[7]"),
        (18, 8, "matrix[8][0]"),
        (18, 11, "matrix[8][1]"),
    ]
    assert found[9].message.startswith("Duplicate entry for observer 'A' and target 'Q' in observability matrix")
    assert not any("\0" in each.message for each in found)


def test_all_of_an_agent_is_told() -> None:
    """Its name and its values are looked at also where something else of it is wrong."""
    text = (
        MARKET.replace("weight: 2", "weight: 0")
        .replace('"12"', "much")
        .replace("Trader_2\n    type", "Trader_1\n    type")
    )
    assert {(9, "agents[1].name"), (12, "agents[1].weight")} < {(line, path) for line, path, _ in problems(text)}
    text = MARKET.replace("weight: 2", "weight: 0").replace('"12"', "much")
    assert [(line, path) for line, path, _ in problems(text)] == [
        (11, "agents[Trader_2].gold"),
        (12, "agents[1].weight"),
    ]


def test_lines_of_the_message() -> None:
    """A line of the message is FILE:LINE:COLUMN: PATH: MESSAGE, and the details have the same apart."""
    error = refusal(
        MARKET.replace("min: 0, default: 5", "mix: 0, default: 5").replace("inventory: {type", "inventory: {typ")
    )
    assert error.message.splitlines()[0] == (
        "f.yaml:18:23: state_variables.agent_vars.gold.mix: unknown field 'mix'; did you mean 'min'?"
    )
    assert error.details["problems"][0] == {
        "path": "state_variables.agent_vars.gold.mix",
        "message": "unknown field 'mix'; did you mean 'min'?",
        "file": "f.yaml",
        "line": 18,
        "column": 23,
    }


def test_values_of_agents() -> None:
    """What is wrong with a first value is told by the agent's name, at its line in the agent's state."""
    text = MARKET.replace("{food: 3}", "{food: much}").replace("{1: axe}", "{one: axe}").replace('"12"', "-1")
    found = problems(text)
    assert [(line, path) for line, path, _ in found] == [
        (11, "agents[Trader_2].gold"),
        (11, "agents[Trader_2].inventory.food"),
        (11, "agents[Trader_2].slots.one"),
    ]


def test_a_value_that_is_needed() -> None:
    """A variable without a default needs a value of every agent; a global one needs a default."""
    text = MARKET.replace("min: 0, default: 5}", "min: 0}").replace("max: 100, default: 1.5}", "max: 100}")
    message = "needs a value: the variable has no default"
    assert problems(text) == [
        (8, "agents[Trader_1].gold", message),
        (14, "agents[Überseehändlerin].gold", message),
        (25, "state_variables.global_vars.price", message),
    ]


def test_keys_by_the_types_of_their_dicts() -> None:
    """Keys that are whole numbers are keys of dict[int, …], in a default and in a state; of no other dict."""
    config = read(MARKET)
    assert config.to_value()["state_variables"]["agent_vars"]["slots"]["default"] == {"1": "sword", "2": "bow"}
    assert problems(MARKET.replace("{food: 3}", "{7: 3}").replace("{1: axe}", "{one: axe}")) == [
        (11, "agents[Trader_2].inventory[7]", "the key 7: Input should be a valid string"),
        (11, "agents[Trader_2].slots.one", "A key should be a whole number, such as 12, within ±(2^53-1)"),
    ]
    text = MARKET.replace("value_type: float, default: {}", "value_type: float, default: {1: 2}")
    assert problems(text) == [
        (19, "state_variables.agent_vars.inventory.default", "the key 1 is no string: quote it"),
    ]


_CIRCLE = """\
simulation: {name: c}
agents: [A]
state_variables:
  agent_vars:
    gold: {type: int, mix: 1}
    Agent: &agent
      type: object
      schema:
        Inventory:
          type: object
          schema:
            Item: {type: object, schema: {owner: *agent}}
  global_vars:
    price: {type: float, max: x, default: 1}
"""


def test_a_schema_that_contains_itself() -> None:
    """An alias of a definition around it is told as a circle, with its file and line."""
    error = refusal(_CIRCLE)
    assert error.message.startswith(
        "f.yaml:5:23: state_variables.agent_vars.gold.mix: unknown field 'mix'; did you mean 'min'?\n"
        "f.yaml:12:43: state_variables.agent_vars.Agent.schema.Inventory.schema.Item.schema.owner: "
        "Circular reference detected in schema definitions:\n"
        "  Cycle: Agent -> Inventory -> Item -> Agent\n"
        "  Fields: Agent.Inventory -> Inventory.Item -> Item.owner -> Agent\n\n"
        "Suggested fixes:\n"
    )
    assert isinstance(error.__cause__, CircularSchemaError)
    assert error.problems[2].path == ("state_variables", "global_vars", "price", "max")


@cases(
    "old, new, path",
    [
        ("parameters: {model", "parameters: &p {me: *p, model", "engine.parameters.me"),
        ("state: {gold", "state: &s {notes: *s, gold", "agents[1].state.notes"),
        ("agents:\n  - Trader_1", "agents: &a\n  - *a", "agents[0]"),
        ("matrix:\n    - [Trader_1, ", "matrix: &m\n    - [*m, ", "observability.matrix[0][0]"),
    ],
)
def test_circles_elsewhere(old: str, new: str, path: str) -> None:
    """Nothing else contains itself either."""
    assert (path, "it contains itself") in [
        (found, message) for _, found, message in problems(MARKET.replace(old, new))
    ]


def test_definitions_may_be_shared() -> None:
    """Anchors and merges save writing: what they share is defined as often as it is used."""
    text = MARKET.replace("gold: {type", "gold: &whole {type").replace(
        "    mood:", "    silver: *whole\n    bronze: {<<: *whole, default: 7}\n    mood:"
    )
    assert text.count("&whole") == 1
    config = read(text.replace("[gold,", "[gold, silver, bronze,"))
    assert (
        config.initial_agents()["Trader_1"] | {"gold": 5, "silver": 5, "bronze": 7}
        == config.initial_agents()["Trader_1"]
    )
    assert config.to_value()["state_variables"]["agent_vars"]["bronze"] == {"type": "int", "min": 0, "default": 7}


def test_a_bomb_of_definitions() -> None:
    """Definitions that are few by aliases and many without are counted, and refused."""
    lines = ["    v0: &v0 {type: int, default: 0}"]
    for level in range(1, 8):
        fields = ", ".join(f"f{number}: *v{level - 1}" for number in range(6))
        lines.append(f"    v{level}: &v{level} {{type: object, schema: {{{fields}}}}}")
    text = "simulation: {name: b}\nagents: [A]\nstate_variables:\n  agent_vars:\n" + "\n".join(lines)
    assert any("10,000 definitions" in message or "values" in message for _, _, message in problems(text))


def test_a_pattern_is_never_slow() -> None:
    """A pattern that backtracks without end elsewhere is matched, and refuses its default, at once."""
    text = MARKET.replace("max_length: 500, default: null", f'pattern: "(a+)+b", default: "{"a" * 5000}"')
    ((line, path, _),) = problems(text)
    assert (line, path) == (23, "state_variables.agent_vars.notes.default")


def test_yaml_that_is_none_is_told_alone() -> None:
    """Where the YAML itself is wrong, that is told, before anything is looked at."""
    assert [line for line, _, _ in problems(_BAD + "obs: 2\n")] == [29]
    assert problems("- a\n") == [(1, "", "a configuration is a mapping of names to values, this is a list")]


def test_files(tmp_path: Path) -> None:
    """A file is read by its path, and called by that or by a name that is given; JSON is read as well."""
    file = tmp_path / "market.yaml"
    file.write_text(MARKET, encoding="utf-8")
    config = load_config(file)
    assert load_config(str(file)) == config == load_config(MARKET.encode())
    other = tmp_path / "market.json"
    other.write_text(json.dumps(config.to_value(), indent="\t"))
    assert load_config(other) == config
    file.write_text("a: [")
    with pytest.raises(InvalidSimulationConfigError, match=rf"{file}:1:5: not YAML"):
        load_config(file)
    with pytest.raises(InvalidSimulationConfigError, match="mine:1:5: not YAML"):
        load_config(file, name="mine")
    file.write_bytes(b"a: " + b"x" * 5_000_000)
    with pytest.raises(InvalidSimulationConfigError, match=f"{file}: more than 4194304 bytes"):
        load_config(file)


@pytest.mark.parametrize("name", ["missing.yaml", ".", "a\0b"])
def test_files_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    """What cannot be read is an error that names the file."""
    with pytest.raises(FileRefusedError, match="cannot be read") as caught:
        load_config(tmp_path / name)
    assert caught.value.details["file"] == str(tmp_path / name)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no endless file")
def test_an_endless_file() -> None:
    """A file without end is not read to its end."""
    with pytest.raises(InvalidSimulationConfigError, match="more than 4194304 bytes"):
        load_config("/dev/zero")
