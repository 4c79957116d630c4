"""The example market's configuration, its traders' rules and its engine, without a world."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_simulation.rules import SimulationState, load_config

from examples.market import engine, traders
from worldledger.observability import construct_observation
from worldledger.patches import apply_patch
from worldledger.variables import dump_state, validate_state

from .project import ROOT

CONFIG = load_config(ROOT / "examples" / "market" / "market.yaml")
RULES = CONFIG.engine.parameters

GOODS = ("food", "metal", "wood")

uuids = st.integers(0, 2**128 - 1).map(lambda number: f"{number:032x}")
hundredths = st.integers(0, 20_000).map(lambda number: number / 100)
orders = st.fixed_dictionaries({"good": st.sampled_from(GOODS), "amount": st.integers(0, 60), "price": hundredths})
traders_ = st.fixed_dictionaries(
    {
        "gold": hundredths,
        "inventory": st.fixed_dictionaries(dict.fromkeys(GOODS, hundredths)),
        "position": st.lists(st.floats(0, 12), min_size=2, max_size=2),
        "hungry": st.booleans(),
        "bid": orders,
        "ask": orders,
    }
)


def _state(turn: int, agents: dict[str, Any], world: dict[str, Any], world_uuid: str) -> SimulationState:
    return SimulationState.model_construct(
        turn=turn,
        agents={name: validate_state(CONFIG.agent_model, values) for name, values in agents.items()},
        global_state=validate_state(CONFIG.global_model, world),
        reasoning_chains=[],
        world_uuid=world_uuid,
    )


def _seen(observer: str, state: SimulationState) -> dict[str, Any]:
    value = construct_observation(observer, state, CONFIG.observability).to_value()
    return {**value["agents"], "global": value["global_state"]}


def _play(world_uuid: str, turns: int) -> SimulationState:
    """Play some turns without a world; every state on the way is one that the variables may have."""
    agents, world = CONFIG.initial_agents(), CONFIG.initial_global()
    for turn in range(1, turns + 1):
        for name in agents:
            decision = traders.decide(name, _seen(name, _state(turn, agents, world, world_uuid)))
            assert decision.reasoning
            after = apply_patch(agents[name], decision.patch)
            agents[name] = dump_state(validate_state(CONFIG.agent_model, after))
        settled = engine.settle(turn, agents, world, RULES)
        agents, world = settled.agents, settled.world
    return _state(turns, agents, world, world_uuid)


def test_the_configuration_shows_every_type() -> None:
    """Nearly everything that a configuration may hold is in it, and nothing in it is doubtful."""
    variables = CONFIG.state_variables
    types = {definition.type for definition in (*variables.agent_vars.values(), *variables.global_vars.values())}
    assert types == {"float", "int", "bool", "categorical", "dict", "list", "tuple", "str", "object"}
    assert CONFIG.observability is not None
    assert {entry.level.value for entry in CONFIG.observability.matrix} == {"unaware", "external", "insider"}
    assert not CONFIG.warnings()


@given(uuids)
@settings(max_examples=15, deadline=None)
def test_every_course_is_possible(world_uuid: str) -> None:
    """Whatever the noise, twenty turns lead through values that the variables may have, and there is trade."""
    last = _play(world_uuid, 20).to_value()
    assert sum(agent["trades"] for agent in last["agents"].values()) >= 40


@given(uuids)
@settings(max_examples=5, deadline=None)
def test_a_world_has_one_course(world_uuid: str) -> None:
    """The same rules and the same uuid give the same values, to the last digit."""
    assert _play(world_uuid, 5).to_value() == _play(world_uuid, 5).to_value()


@given(st.lists(traders_, min_size=1, max_size=5), st.booleans(), st.integers(1, 20))
@settings(deadline=None)
def test_a_turn_makes_and_loses_nothing_but_what_it_says(given_: list[Any], festival: bool, turn: int) -> None:
    """Goods change by work and by meals, gold by tolls; nobody gives what it has not, and what was handed in stays."""
    first = next(iter(CONFIG.initial_agents().values()))
    agents = {f"Trader_{number}": {**first, **each, "name": f"Trader_{number}"} for number, each in enumerate(given_)}
    world = {**CONFIG.initial_global(), "festival": festival}
    before = deepcopy((agents, world))
    settled = engine.settle(turn, agents, world, RULES)
    assert (agents, world) == before
    _state(turn, settled.agents, settled.world, "0" * 32)
    tolls = sum(trade.toll for trade in settled.trades)
    assert not (festival and tolls)
    assert abs(_sum(agents, "gold") - tolls - _sum(settled.agents, "gold")) < 0.001
    held = {name: dict(agent["inventory"]) for name, agent in agents.items()}  # what was bought may be sold on
    for trade in settled.trades:
        assert trade.seller != trade.buyer
        assert agents[trade.seller]["ask"]["price"] <= trade.price <= agents[trade.buyer]["bid"]["price"] + 0.01
        assert trade.amount <= held[trade.seller][trade.good]
        held[trade.seller][trade.good] = round(held[trade.seller][trade.good] - trade.amount, 3)
        held[trade.buyer][trade.good] += trade.amount
    fed = {name: {**agent, "hungry": False, "output": dict.fromkeys(GOODS, 0.0)} for name, agent in agents.items()}
    traded = engine.settle(turn, fed, world, {**RULES, "eaten": dict.fromkeys(GOODS, 0.0)}).agents
    for good in GOODS:
        assert (
            abs(
                sum(agent["inventory"][good] for agent in agents.values())
                - sum(agent["inventory"][good] for agent in traded.values())
            )
            < 0.001
        )


def _sum(agents: dict[str, Any], variable: str) -> float:
    return float(sum(agent[variable] for agent in agents.values()))


def test_the_effects_of_a_turn_lead_to_what_was_settled() -> None:
    """The drafts patch what was into what is, each with a req_id of its own, and the end of the turn is the last."""
    state = _play("0" * 32, 2).to_value()
    agents, world = state["agents"], state["global_state"]
    settled = engine.settle(3, agents, world, RULES)
    *changes, end = engine.drafts(3, agents, world, settled)
    for draft in changes:
        payload = draft["payload"]
        if draft["kind"] == "GlobalStateChanged":
            assert apply_patch(world, payload["patch"]) == settled.world
        else:
            name = payload["agent_id"]
            assert apply_patch(agents[name], payload["patch"]) == settled.agents[name]
    assert end["kind"] == "TurnEnded"
    assert len({draft["req_id"] for draft in (*changes, end)}) == len(changes) + 1


def test_the_spy_goes_by_what_it_alone_can_see() -> None:
    """Who sees a rival's sealed order asks a little less; to the others that order makes no difference."""
    state = _play("0" * 32, 3)
    agents, world = state.to_value()["agents"], state.to_value()["global_state"]
    told = {}
    for price in (1.5, 3.0):
        agents["Trader_1"]["ask"] = {"good": "food", "amount": 9, "price": price}
        agents["Trader_5"]["inventory"] = {"food": 30.0, "metal": 3.0, "wood": 4.0}
        seen = {name: _seen(name, _state(3, agents, world, "0" * 32)) for name in agents}
        told[price] = {name: traders.decide(name, seen[name]).patch for name in agents if name != "Trader_1"}
    asked = [next(op["value"]["price"] for op in told[price]["Trader_5"] if op["path"] == "/ask") for price in told]
    assert asked[1] == round(2 * asked[0], 2) or abs(asked[1] - 2 * asked[0]) <= 0.02
    for name in ("Trader_2", "Trader_3", "Trader_4"):
        assert told[1.5][name] == told[3.0][name]
