"""The configuration of observability: every rule of docs/reference/contracts.md, "Observability", with its message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from tests.cases import cases
from worldledger.observability import (
    DefaultObservability,
    ObservabilityConfig,
    ObservabilityEntry,
    ObservabilityLevel,
    ObservabilityMatrix,
    VariableVisibilityConfig,
)

UNAWARE, EXTERNAL, INSIDER = ObservabilityLevel
CONTEXT = {
    "agent_names": ["Agent1", "Agent2"],
    "agent_var_names": ["economic_strength", "secret_reserves"],
    "global_var_names": ["price"],
}


def a_config(**changes: Any) -> dict[str, Any]:
    """Return an example as JSON, some members of it another, or (...) missing."""
    value = {
        "enabled": True,
        "variable_visibility": {"external": ["economic_strength"], "internal": ["secret_reserves"]},
        "matrix": [
            ["Agent1", "Agent1", "insider", 0.0],
            ["Agent1", "Agent2", "external", 0.2],
            ["Agent1", "global", "external", 0.1],
        ],
        "default": {"level": "unaware", "noise": 0.0},
        **changes,
    }
    return {name: member for name, member in value.items() if member is not ...}


def read(value: Any, context: Mapping[str, Any] | None = CONTEXT) -> ObservabilityConfig:
    """Read a configuration."""
    return ObservabilityConfig.model_validate(value, context=context)


def messages(value: Any, context: Mapping[str, Any] | None = CONTEXT) -> list[str]:
    """Return what is said of a configuration that is refused, each with its place."""
    with pytest.raises(ValidationError) as refused:
        read(value, context)
    return [f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in refused.value.errors()]


def message(value: Any, context: Mapping[str, Any] | None = CONTEXT) -> str:
    """Return the one thing that is said."""
    (found,) = messages(value, context)
    return found


# -- levels --------------------------------------------------------------------------------------------------


def test_there_are_three_levels() -> None:
    """They are written in lower case."""
    assert [level.value for level in ObservabilityLevel] == ["unaware", "external", "insider"]
    assert ObservabilityLevel("insider") is INSIDER


@cases("value", ["Insider", "INSIDER", "", " insider", "all", None, 1, [], True])
def test_any_other_level_is_refused(value: Any) -> None:
    """The message has the value, and the three."""
    said = f"Invalid observability level {value!r}: it is unaware, external or insider"
    with pytest.raises(ValueError, match="Invalid observability level"):
        ObservabilityLevel(value)
    assert said in message(a_config(matrix=[["Agent1", "Agent2", value, 0.0]]))
    assert said in message(a_config(default={"level": value, "noise": 0.0}))


# -- variables -----------------------------------------------------------------------------------------------


def test_a_variable_is_not_both_external_and_internal() -> None:
    """All that are, are named."""
    lists = {"external": ["b", "a", "c"], "internal": ["c", "d", "b"]}
    assert "Variables cannot be both external and internal: b, c" in message(a_config(variable_visibility=lists))


def test_some_variable_is_external() -> None:
    """The list of external variables is not empty, that of internal ones may be; both have to be there."""
    assert "external must name at least one variable" in message(
        a_config(variable_visibility={"external": [], "internal": []})
    )
    assert VariableVisibilityConfig(external=["a"], internal=[]).internal == []
    assert "Field required" in message(a_config(variable_visibility={"external": ["price"]}))
    assert "Field required" in message(a_config(variable_visibility={"internal": []}))


@pytest.mark.parametrize("which", ["external", "internal"])
def test_a_variable_that_there_is_not_is_named(which: str) -> None:
    """In either list; agents' and global variables are known."""
    lists = {"external": ["price"], "internal": ["secret_reserves"]}
    lists[which] = [*lists[which], "gold"]
    said = message(a_config(variable_visibility=lists))
    assert f"Unknown variable 'gold' in {which} list" in said
    assert "visibility" in said


# -- entries -------------------------------------------------------------------------------------------------


def test_an_entry_is_a_list_or_a_mapping() -> None:
    """Both say the same."""
    entry = ObservabilityEntry(observer="a", target="b", level=EXTERNAL, noise=0.2)
    assert ObservabilityEntry.model_validate(["a", "b", "external", 0.2]) == entry
    assert ObservabilityEntry.model_validate(("a", "b", "external", 0.2)) == entry
    mapping = {"observer": "a", "target": "b", "level": "external", "noise": 0.2}
    assert ObservabilityEntry.model_validate(mapping) == entry
    assert ObservabilityEntry.model_validate(json.loads(entry.model_dump_json())) == entry


def test_an_entry_without_noise_has_none() -> None:
    """Null is no noise; of an unaware observer it is ignored."""
    entries = [["Agent1", "Agent2", "unaware", None], ["Agent2", "Agent1", "insider", None]]
    matrix = ObservabilityMatrix(read(a_config(matrix=entries)))
    assert matrix.get_observability("Agent1", "Agent2") == (UNAWARE, 0.0)
    assert matrix.get_observability("Agent2", "Agent1") == (INSIDER, 0.0)
    assert read(a_config(matrix=[["Agent1", "Agent2", "unaware", 0.5]])).matrix[0].noise == 0.5


@pytest.mark.parametrize("entry", [[], ["Agent1", "Agent2", "external"], ["Agent1", "Agent2", "external", 0.1, 1]])
def test_an_entry_of_another_length_is_refused(entry: list[Any]) -> None:
    """The message tells what belongs there."""
    said = message(a_config(matrix=[entry]))
    assert f"an entry is [observer, target, level, noise], this has {len(entry)} items" in said
    assert said.startswith("matrix.0")


@cases("missing", ["observer", "target", "level", "noise"])
def test_every_member_of_an_entry_is_required(missing: str) -> None:
    """Noise too, though it may be null; what is unknown is refused."""
    entry = {"observer": "Agent1", "target": "Agent2", "level": "external", "noise": 0.1}
    assert "Extra inputs" in message(a_config(matrix=[{**entry, "nosie": 0.1}]))
    del entry[missing]
    assert message(a_config(matrix=[entry])).startswith(f"matrix.0.{missing}: Field required")


def test_noise_is_not_negative() -> None:
    """Of an entry, and of the default."""
    said = message(a_config(matrix=[["Agent1", "Agent2", "external", -0.1]]))
    assert "noise must be >= 0.0" in said
    assert "Noise must be >= 0".lower() in said.lower()
    assert said.startswith("matrix.0.noise")
    said = message(a_config(default={"level": "external", "noise": -1}))
    assert "Default noise must be >= 0.0" in said
    assert "Default noise must be >= 0" in said
    with pytest.raises(ValidationError, match="Default noise must be >= 0"):
        DefaultObservability(level=EXTERNAL, noise=-0.5)


@cases("noise", [float("nan"), float("inf"), 10**400, "0.1", True, [], {}])
def test_noise_is_a_finite_number(noise: Any) -> None:
    """Texts and booleans are none."""
    for value in (
        a_config(matrix=[["Agent1", "Agent2", "external", noise]]),
        a_config(default={"level": "external", "noise": noise}),
    ):
        said = message(value)
        assert "noise must be" in said
    assert "number" in said or "finite" in said


def test_minus_zero_is_no_noise() -> None:
    """It is zero, as is a whole number."""
    config = read(a_config(matrix=[["Agent1", "Agent2", "external", -0.0], ["Agent2", "Agent1", "external", 1]]))
    assert [repr(entry.noise) for entry in config.matrix] == ["0.0", "1.0"]


def test_observers_and_targets_are_agents() -> None:
    """A target may be global, an observer not."""
    assert "Unknown observer 'Bob' in observability matrix" in message(
        a_config(matrix=[["Bob", "Agent1", "external", 0]])
    )
    assert "Unknown target 'Bob' in observability matrix" in message(
        a_config(matrix=[["Agent1", "Bob", "external", 0]])
    )
    assert "Unknown observer 'global'" in message(a_config(matrix=[["global", "Agent1", "external", 0]]))
    assert read(a_config(matrix=[["Agent1", "global", "external", 0]])).matrix[0].target == "global"


def test_a_pair_has_one_entry() -> None:
    """A second one is refused, with and without a context, and both are named."""
    entries = [
        ["Agent1", "Agent2", "external", 0],
        ["Agent2", "Agent1", "external", 0],
        ["Agent1", "Agent2", "insider", 0],
    ]
    for context in (None, CONTEXT):
        said = message(a_config(matrix=entries), context)
        assert "Duplicate entry for observer 'Agent1' and target 'Agent2' in observability matrix" in said
        assert "entry 0" in said


# -- the whole -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["enabled", "variable_visibility", "matrix"])
def test_members_are_required(name: str) -> None:
    """But for the default; unknown ones are refused."""
    assert message(a_config(**{name: ...})) == f"{name}: Field required"
    assert "Extra inputs" in message(a_config(matrixx=[]))


@cases("value", ["true", 1, None, "yes"])
def test_enabled_is_a_boolean(value: Any) -> None:
    """And nothing that might mean one."""
    assert message(a_config(enabled=value)).startswith("enabled: ")


def test_names_are_checked_where_they_are_told() -> None:
    """Without a context nothing is known of agents and variables; with one, what it does not tell there is not."""
    value = a_config(matrix=[["x", "y", "external", 0]], variable_visibility={"external": ["v"], "internal": ["w"]})
    config = read(value, None)
    assert config.problems(None) == []
    assert [path for path, _ in config.problems({})] == [
        ("matrix", 0, "observer"),
        ("matrix", 0, "target"),
        ("variable_visibility", "external", 0),
        ("variable_visibility", "internal", 0),
    ]
    said = message(value, {})
    for part in ("Unknown observer 'x'", "Unknown target 'y'", "Unknown variable 'v'", "Unknown variable 'w'"):
        assert part in said


def test_a_config_is_the_same_after_json() -> None:
    """What is dumped, defaults written out, is read as the same config."""
    for value in (a_config(), a_config(default=...), a_config(enabled=False, matrix=[])):
        config = read(value)
        dumped = config.model_dump(mode="json")
        assert dumped["default"] == {"level": "unaware", "noise": 0.0}
        assert read(json.loads(json.dumps(dumped))) == config


def test_a_copy_with_another_matrix_is_looked_up_in_that() -> None:
    """Also if the first was looked up before; two configs that say the same are equal all along."""
    config = read(a_config())
    assert ObservabilityMatrix(config).get_observability("Agent1", "Agent2") == (EXTERNAL, 0.2)
    assert config.internal == {"secret_reserves"}
    other = config.model_copy(update={"matrix": []})
    assert ObservabilityMatrix(other).get_observability("Agent1", "Agent2") == (UNAWARE, 0.0)
    assert config == read(a_config()) != other


# -- the matrix ----------------------------------------------------------------------------------------------


def test_a_pair_is_looked_up_in_the_matrix() -> None:
    """One way only; what has no entry is as the default says."""
    matrix = ObservabilityMatrix(read(a_config(default={"level": "external", "noise": 0.3})))
    assert matrix.get_observability("Agent1", "Agent1") == (INSIDER, 0.0)
    assert matrix.get_observability("Agent1", "Agent2") == (EXTERNAL, 0.2)
    assert matrix.get_observability("Agent1", "global") == (EXTERNAL, 0.1)
    for pair in (("Agent2", "Agent1"), ("Agent2", "Agent2"), ("Agent2", "global"), ("Nobody", "Agent1")):
        assert matrix.get_observability(*pair) == (EXTERNAL, 0.3)


def test_without_a_default_nobody_is_aware_of_the_rest() -> None:
    """Not even of itself."""
    matrix = ObservabilityMatrix(read(a_config(default=...)))
    assert matrix.get_observability("Agent1", "Agent2") == (EXTERNAL, 0.2)
    assert matrix.get_observability("Agent2", "Agent2") == (UNAWARE, 0.0)


@pytest.mark.parametrize("config", [None, read(a_config(enabled=False))])
def test_without_observability_everybody_is_an_insider(config: ObservabilityConfig | None) -> None:
    """Where there is no config, and where it is not enabled."""
    matrix = ObservabilityMatrix(config)
    for pair in (("Agent1", "Agent2"), ("Agent2", "global"), ("Agent2", "Agent2")):
        assert matrix.get_observability(*pair) == (INSIDER, 0.0)
