"""What one observer sees of a simulation's state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.cases import cases
from tests.rules.observability.simulations import (
    AGENT,
    AGENT_VALUES,
    AGENT_VARS,
    CONFIGS,
    GLOBAL_VARS,
    KEY,
    NAMES,
    State,
    a_config,
    a_state,
    world_of,
)
from tests.rules.values import same
from worldledger.observability import MatrixPolicy, ObservabilityConfig, construct_observation, noise_of
from worldledger.variables import create_agent_state_model, create_global_state_model, dump_state, validate_state


def values(model: BaseModel) -> dict[str, Any]:
    """Return a model's values as JSON."""
    return dump_state(model)  # type: ignore[arg-type]  # it is one of ours


def test_an_observation_is_a_state_of_its_own() -> None:
    """The turn and whatever else the state has are its own; there is no reasoning; the state is left alone."""
    state = a_state()
    before = state.model_dump()
    seen = construct_observation("Ann", state, a_config())
    assert type(seen) is State
    assert (seen.turn, seen.more, seen.reasoning_chains) == (3, "kept", [])
    assert state.model_dump() == before
    assert state.reasoning_chains == ["because"]


def test_agents_that_an_observer_is_not_aware_of_are_left_out() -> None:
    """Whoever has no entry too, if nothing else is the default; so may be the observer itself."""
    config = a_config(
        matrix=[["Ann", "Bob", "external", 0.0], ["Ann", "Café", "unaware", None]],
        default={"level": "unaware", "noise": 0.0},
    )
    seen = construct_observation("Ann", a_state(), config)
    assert list(seen.agents) == ["Bob"]
    assert list(construct_observation("Bob", a_state(), config).agents) == []
    config = a_config(matrix=[["Ann", "Ann", "unaware", None]])
    assert list(construct_observation("Ann", a_state(), config).agents) == ["Bob", "Café"]


def test_global_variables_that_an_observer_is_not_aware_of_are_none() -> None:
    """There is a state of the world without variables."""
    seen = construct_observation("Ann", a_state(), a_config(matrix=[["Ann", "global", "unaware", None]]))
    assert values(seen.global_state) == {}
    assert type(seen.global_state) is create_global_state_model({})


def test_an_external_observer_sees_no_internal_variable() -> None:
    """The models have no such field; an insider sees all, and the name is always there."""
    config = a_config(matrix=[["Ann", "Ann", "insider", 0.0], ["Ann", "global", "external", 0.0]])
    seen = construct_observation("Ann", a_state(), config)
    shown = {name: each for name, each in AGENT_VARS.items() if name not in {"secret", "plan"}}
    assert list(values(seen.agents["Bob"])) == ["name", *shown]
    assert type(seen.agents["Bob"]) is create_agent_state_model(shown)
    assert not hasattr(seen.agents["Bob"], "secret")
    assert seen.agents["Bob"].name == "Bob"
    assert values(seen.agents["Ann"]) == values(a_state().agents["Ann"])
    assert type(seen.agents["Ann"]) is AGENT
    assert values(seen.global_state) == {"price": 5.0, "name": 2.5}


def test_a_global_variable_may_be_called_name() -> None:
    """It is hidden, and noised, as any other; agents' names are not."""
    hidden = a_config(variable_visibility={"external": ["gold"], "internal": ["name"]})
    seen = construct_observation("Ann", a_state(), hidden)
    assert list(values(seen.global_state)) == ["price", "secret"]
    assert values(seen.agents["Bob"])["name"] == "Bob"
    seen = construct_observation("Ann", a_state(), a_config(default={"level": "external", "noise": 0.3}))
    assert values(seen.global_state)["name"] == 2.5 * (1.0 + 0.3 * noise_of(KEY, "Ann", "global", "/name", 3))


def test_variables_in_no_list_are_external() -> None:
    """Neither list names them."""
    seen = construct_observation("Ann", a_state(), a_config())
    assert values(seen.agents["Bob"])["mood"] == "calm"


def test_noise_is_on_numbers_and_within_bounds() -> None:
    """Types stay, what is no number is exact, and what is observed is valid but for nothing."""
    config = a_config(default={"level": "insider", "noise": 5.0})
    for turn in range(20):
        seen = construct_observation("Ann", a_state(turn), config)
        for name, agent in seen.agents.items():
            found = values(agent)
            assert same(values(validate_state(AGENT, found)), found)
            assert (found["mood"], found["alive"], found["note"], found["limit"]) == ("calm", True, None, None)
            exact = 7.0 * (1.0 + 5.0 * noise_of(KEY, "Ann", name, "/secret", turn))
            assert found["secret"] == exact
            assert 0 <= found["bag"]["food"] <= 50
            assert found["bag"]["copy"] >= 1
            assert found["spot"][1] <= 5
            assert type(found["count"]) is int


@pytest.mark.parametrize("config", [None, a_config(enabled=False, default={"level": "unaware", "noise": 9.0})])
def test_without_observability_everything_is_seen_exactly(config: ObservabilityConfig | None) -> None:
    """By anybody, but for the reasoning."""
    state = a_state()
    state.world_uuid = None
    seen = construct_observation("Nobody", state, config)
    assert seen.model_dump() == {**state.model_dump(), "reasoning_chains": []}


@cases("noise", [0.0, 0.1])
@cases("level", ["external", "insider"])
def test_nothing_is_shared_with_the_truth(level: str, noise: float) -> None:
    """Whatever an observer does with its observation."""
    state = a_state(agents={"Bob": {"plan": [1], "past": [[1.0]], "stock": {"1": 1.0}}})
    before = state.model_dump()
    config = a_config(
        default={"level": level, "noise": noise}, variable_visibility={"external": ["gold"], "internal": ["secret"]}
    )
    for seen in (construct_observation("Ann", state, config), construct_observation("Ann", state, None)):
        bob: Any = seen.agents["Bob"]
        bob.plan.append(2)
        bob.past[0].append(2.0)
        bob.stock[2] = 2.0
        bob.bag.food = 0.0
        bob.gold = 0.0
        seen.global_state.price = 1.0  # type: ignore[attr-defined]
        seen.agents.clear()
    assert state.model_dump() == before


def test_noise_is_drawn_for_a_world() -> None:
    """For the one that is given, else the state's; if there is neither, only exact observations can be made."""
    config = a_config(default={"level": "external", "noise": 0.1})
    state = a_state()
    own = construct_observation("Ann", state, config)
    other = construct_observation("Ann", state, config, world_uuid="f" * 32)
    assert own.agents != other.agents
    state.world_uuid = None
    assert construct_observation("Ann", state, config, world_uuid=KEY).agents == own.agents
    with pytest.raises(ValueError, match="drawn for a world"):
        construct_observation("Ann", state, config)
    unaware = a_config(default={"level": "unaware", "noise": 0.1})
    assert construct_observation("Ann", state, unaware).agents == {}


def test_an_observation_can_be_made_again() -> None:
    """It is the same each time, another for another observer and in another turn."""
    config = a_config(default={"level": "external", "noise": 0.1})
    first = construct_observation("Ann", a_state(1), config)
    construct_observation("Bob", a_state(2), config)
    assert construct_observation("Ann", a_state(1), config) == first
    assert construct_observation("Bob", a_state(1), config).agents != first.agents
    assert construct_observation("Ann", a_state(2), config).agents != first.agents


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from(NAMES), AGENT_VALUES),
    CONFIGS,
    st.sampled_from(NAMES),
    st.integers(0, 2**53 - 1),
)
def test_an_observation_is_what_the_policy_shows(
    agents: dict[str, dict[str, Any]], config: dict[str, Any], observer: str, turn: int
) -> None:
    """The matrix as an observation policy, of the same state as a WorldState, comes to the same."""
    state = a_state(turn, agents)
    read = a_config(**config)
    seen = construct_observation(observer, state, read)
    policy = MatrixPolicy.of(read, observer, AGENT_VARS, GLOBAL_VARS, KEY)
    view = policy.filter_world_state(world_of(state), observer)
    shown = {name: values(agent) for name, agent in seen.agents.items()}
    if "global" in view.visible_entities:
        shown["global"] = values(seen.global_state)
    else:
        assert values(seen.global_state) == {}
    assert same(shown, view.visible_entities)
