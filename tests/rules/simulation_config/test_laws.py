"""Laws of configurations: what is read comes back the same, and whatever else comes is refused with the one error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from worldledger_simulation.rules.config import SimulationConfig, load_config
from worldledger_simulation.rules.sections import InvalidSimulationConfigError

from tests.rules.values import ANY_JSON
from worldledger.canonical import gate

from .reading import MARKET, read

_NAMES = st.sampled_from(["A", "B", "Ä", "agent 3", "global", "x/y~z"])
_VARIABLES = st.sampled_from(["gold", "größe", "copy", "model_x", "schema", "json"])
_INT = st.builds(
    lambda low, size, default: {"type": "int", "min": low, "max": low + size, **default},
    st.integers(-5, 5),
    st.integers(0, 5),
    st.sampled_from([{}, {"default": 0}, {"default": None}]),
)
_SIMPLE = st.sampled_from(
    [
        {"type": "float", "default": 1},
        {"type": "bool", "default": False},
        {"type": "str"},
        {"type": "categorical", "values": ["a", "b"], "default": "b"},
    ]
)
_DEFINITIONS = st.recursive(
    _INT | _SIMPLE,
    lambda inner: st.one_of(
        st.builds(lambda item: {"type": "list", "item_type": item}, inner),
        st.builds(
            lambda key, item: {"type": "dict", "key_type": key, "value_type": item},
            st.sampled_from(["str", "int"]),
            inner,
        ),
        st.builds(lambda items: {"type": "tuple", "item_types": items}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda fields: {"type": "object", "schema": fields},
            st.dictionaries(_VARIABLES, inner, min_size=1, max_size=3),
        ),
    ),
    max_leaves=5,
)
_ENTRIES = st.tuples(
    _NAMES, _NAMES, st.sampled_from(["unaware", "external", "insider"]), st.none() | st.floats(0, 2)
).map(list)


@st.composite
def _configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Make values that look like configurations; some cannot be used."""
    names = draw(st.lists(_NAMES, min_size=1, max_size=4, unique=draw(st.booleans())))
    agent_vars = draw(st.dictionaries(_VARIABLES, _DEFINITIONS, max_size=3))
    states: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
        st.sampled_from([*agent_vars, "gold"]), st.integers(-5, 5) | st.just([]) | st.just({}), max_size=2
    )
    agents = [
        draw(st.just(name) | st.builds(lambda state, name=name: {"name": name, "state": state}, states))
        for name in names
    ]
    value: dict[str, Any] = {
        "simulation": {"name": "s"},
        "agents": agents,
        "state_variables": {"agent_vars": agent_vars},
    }
    if draw(st.booleans()):
        listed = draw(st.lists(_VARIABLES, max_size=3, unique=True))
        value["observability"] = {
            "enabled": draw(st.booleans()),
            "variable_visibility": {"external": listed[:1], "internal": listed[1:]},
            "matrix": draw(st.lists(_ENTRIES, max_size=3)),
        }
    return value


def _outcome(value: Any) -> SimulationConfig | None:
    problems = 0
    try:
        return SimulationConfig.from_value(value)
    except InvalidSimulationConfigError as error:
        problems = len(error.problems)
    assert problems
    return None


@given(_configurations())
def test_a_configuration_comes_back_the_same(value: dict[str, Any]) -> None:
    """What was read is made again of its value, of that value's JSON, and of the same text as YAML."""
    config = _outcome(value)
    if config is None:
        return
    normal = config.to_value()
    gate(normal, level=3)
    assert SimulationConfig.from_value(normal) == config
    text = json.dumps(normal, sort_keys=True)
    for again in (SimulationConfig.from_value(normal), SimulationConfig.from_value(json.loads(text)), read(text)):
        assert again.to_value() == normal
        assert again.initial_agents() == config.initial_agents()
        assert again.initial_global() == config.initial_global()
    gate([config.initial_agents(), config.initial_global()])
    config.warnings()


@given(_configurations())
def test_a_file_says_what_its_value_says(value: dict[str, Any]) -> None:
    """A file is refused for what its value is refused for, and every problem has a line."""
    config = _outcome(value)
    try:
        assert read(json.dumps(value, indent=1)) == config
    except InvalidSimulationConfigError as error:
        found = error
    else:
        return
    assert config is None
    assert all(problem.line for problem in found.problems)


@given(ANY_JSON, st.sampled_from(["simulation", "engine", "agents", "validator", "state_variables", "observability"]))
def test_any_value_is_read_or_refused(value: Any, section: str) -> None:
    """No value leads to anything but a configuration or the one error."""
    _outcome(value)
    _outcome({"simulation": {"name": "s"}, "agents": ["A"], section: value})
    _outcome({"simulation": {"name": "s"}, "agents": [value], "state_variables": {"agent_vars": {"x": value}}})


@given(
    st.integers(0, len(MARKET)),
    st.integers(0, 30),
    st.text(max_size=5) | st.sampled_from(["*a", "&a ", "[", "{", "- "]),
)
def test_any_edit_of_a_file_is_read_or_refused(start: int, length: int, new: str) -> None:
    """However a file is edited, it is read or refused, every problem with its line."""
    text = MARKET[:start] + new + MARKET[start + length :]
    found: list[Any] = []
    try:
        load_config(text.encode(errors="surrogatepass"), name="f")
    except InvalidSimulationConfigError as error:
        found += error.problems
    assert all(problem.line for problem in found)
