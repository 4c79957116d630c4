"""What noise is drawn for: each turn, or each value."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_simulation.rules import SimulationConfig, SimulationState

from tests.rulesets.simulation.playing import KEY, Play, setting, trade
from worldledger.errors import InvalidConfigError
from worldledger.observability import construct_observation, noise_of
from worldledger.policies import policy_from_spec


def _trade(**observability: Any) -> dict[str, Any]:
    config = trade()
    config["observability"] |= observability
    return config


def _seen(play: Play) -> float:
    """Return Bob's gold as Ann sees it, by the policy and by `construct_observation`."""
    policy = policy_from_spec(play.state.metadata["agents"]["Ann"]["policy"], stored=True)
    shown: float = policy.filter_world_state(play.state, "Ann").visible_entities["Bob"]["gold"]
    state = SimulationState.of(play.state, world_uuid=KEY)
    observed: Any = construct_observation("Ann", state, play.config.observability)
    assert observed.agents["Bob"].gold == shown
    return shown


def test_with_value_two_looks_around_a_known_change_undo_nothing() -> None:
    """Each value has noise of its own, in every turn the same; by the turn both are seen through one factor."""
    factors = {}
    for scope in ("turn", "value"):
        play = Play(_trade(noise_scope=scope))
        play.post("TurnStarted")
        play.post("AgentStateChanged", agent_id="Bob", patch=setting("/gold", 40.0))
        one = _seen(play)
        play.post("AgentStateChanged", agent_id="Bob", patch=setting("/gold", 50.0))
        two = _seen(play)
        factors[scope] = (one / 40.0, two / 50.0)
        play.post("TurnEnded")
        play.post("TurnStarted")
        assert (_seen(play) == two) == (scope == "value")
    assert factors["turn"][0] == pytest.approx(factors["turn"][1])
    for factor, value in zip(factors["value"], (40.0, 50.0), strict=True):
        assert factor == pytest.approx(1.0 + 0.2 * noise_of(KEY, "Ann", "Bob", "/gold", value=value))


def test_a_configuration_says_it_where_it_is_not_the_turn() -> None:
    """Those of before say nothing, and stay as they are."""
    for given, written in (({}, None), ({"noise_scope": "turn"}, None), ({"noise_scope": "value"}, "value")):
        config = SimulationConfig.from_value(_trade(**given))
        value = config.to_value()
        assert value["observability"].get("noise_scope") == written
        assert SimulationConfig.from_value(value).to_value() == value
    with pytest.raises(InvalidConfigError, match=r"observability\.noise_scope: must be turn or value"):
        SimulationConfig.from_value(_trade(noise_scope="look"))
