"""The matrix as an observation policy: its configuration, what it shows of entities and of events."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.cases import cases
from tests.rules.observability.simulations import AGENT_VARS, GLOBAL_VARS, KEY, a_config, a_state, world_of
from tests.rules.seeing import World, registered
from worldledger.errors import InvalidPolicyError
from worldledger.latency import FixedLatency
from worldledger.observability import MatrixPolicy, ObservabilityLevel, noise_of
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_from_spec, policy_spec
from worldledger.world import WorldState

UNAWARE, EXTERNAL, INSIDER = ObservabilityLevel


def a_policy(**config: Any) -> MatrixPolicy:
    """Return a policy of this configuration, as JSON has it."""
    made = policy_from_spec({"name": "matrix", "version": 2, "config": config})
    assert isinstance(made, MatrixPolicy)
    return made


def a_world() -> WorldState:
    """Return a world of Ann, Bob and Café in turn 3, and of the global variables."""
    return world_of(a_state())


# -- configuration -------------------------------------------------------------------------------------------


def test_a_policy_is_stored_and_made_again() -> None:
    """Every setting of it, as JSON."""
    policy = MatrixPolicy.of(
        a_config(matrix=[["Ann", "Bob", "insider", 0.25], ["Bob", "Ann", "insider", 0.5]]),
        "Ann",
        AGENT_VARS,
        GLOBAL_VARS,
        KEY,
    )
    spec = policy_spec(policy)
    assert (spec["name"], spec["version"]) == ("matrix", 2)
    config = spec["config"]
    assert config["targets"] == {"Bob": ["insider", 0.25]}
    assert config["default"] == ["external", 0.0]
    assert config["internal"] == ["plan", "secret"]
    assert config["bounds"]["*"]["gold"] == {"min": 0, "max": 100}
    assert config["bounds"]["global"] == {"price": {"min": 1, "max": 9}}
    assert config["noise_key"] == KEY
    again = policy_from_spec(spec)
    assert isinstance(again, MatrixPolicy)
    assert policy_spec(again) == spec


def test_without_settings_nothing_is_seen() -> None:
    """The default is unaware, as it is where a matrix has none."""
    assert MatrixPolicy().filter_world_state(a_world(), "Ann").visible_entities == {}


@pytest.mark.parametrize("config", [None, a_config(enabled=False)])
def test_without_observability_everything_is_seen(config: Any) -> None:
    """As the usual policy shows it."""
    world = a_world()
    policy = MatrixPolicy.of(config, "Ann", AGENT_VARS, GLOBAL_VARS)
    assert policy.filter_world_state(world, "Ann") == ObservationPolicy().filter_world_state(world, "Ann")
    policy.check_usable()


@cases(
    "config, path",
    [
        ({"targets": []}, "$.config.targets"),
        ({"targets": {"Bob": "external"}}, "$.config.targets"),
        ({"targets": {"Bob": ["external"]}}, "$.config.targets"),
        ({"targets": {"Bob": ["Insider", 0.1]}}, "$.config.targets"),
        ({"targets": {"Bob": ["insider", -1]}}, "$.config.targets"),
        ({"targets": {"Bob": ["insider", "1"]}}, "$.config.targets"),
        ({"default": {"level": "insider"}}, "$.config.default"),
        ({"internal": "gold"}, "$.config.internal"),
        ({"bounds": {"*": {"gold": 1}}}, "$.config.bounds"),
        ({"bounds": {"*": []}}, "$.config.bounds['*']"),
        ({"noise_key": "x"}, "$.config.noise_key"),
        ({"noise_key": KEY.upper()}, "$.config.noise_key"),
        ({"noise_key": f"{KEY}\n"}, "$.config.noise_key"),
        ({"noise": 1}, "$.config.noise"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(config: dict[str, Any], path: str) -> None:
    """With the place where it does not."""
    with pytest.raises(InvalidPolicyError) as refused:
        a_policy(**config)
    assert refused.value.path.startswith(path.split("[", maxsplit=1)[0])


def test_a_policy_is_given_its_worlds_key() -> None:
    """Once: in a fork of the world it keeps it, so that what was seen before stays as it was."""
    policy = a_policy(default=["external", 0.1], distance_limit=5.0)
    policy.config.__dict__["latency_model"] = FixedLatency(2.0)
    mine = policy.for_world(KEY)
    assert isinstance(mine, MatrixPolicy)
    assert mine.config.noise_key == KEY
    assert (mine.distance_limit, mine.sight_of("x")) == (5.0, (EXTERNAL, 0.1))
    assert isinstance(mine.latency_model, FixedLatency)
    assert policy.config.noise_key is None
    assert mine.for_world("f" * 32) is mine
    usual = ObservationPolicy()
    assert usual.for_world(KEY) is usual
    usual.check_usable()
    with pytest.raises(ValidationError):
        policy.for_world("w")


def test_noise_without_a_key_is_refused_before_anything_is_shown() -> None:
    """Where views are made, even of an empty world; without noise no key is needed."""
    for config in ({"default": ["external", 0.1]}, {"targets": {"Bob": ["insider", 0.5]}}):
        policy = a_policy(**config)
        with pytest.raises(InvalidPolicyError, match="drawn for a world"):
            policy.check_usable()
        with pytest.raises(InvalidPolicyError, match="drawn for a world"):
            policy.filter_world_state(a_world(), "Ann")
        world = World(registered("Ann", policy))
        with pytest.raises(InvalidPolicyError, match="drawn for a world"):
            world.views.attach("Ann")
        assert world.views.attached == []
    World(registered("Ann", a_policy(default=["external", 0]))).views.attach("Ann")


def test_an_agent_whose_new_policy_lacks_a_key_is_turned_out() -> None:
    """The others go on."""
    world = World()
    world.agent("ann")
    world.agent("bob")
    world.does(*registered("ann", a_policy(default=["external", 0.1])))
    assert isinstance(world.views.failed["ann"], InvalidPolicyError)
    assert world.views.attached == ["bob"]


# -- entities ------------------------------------------------------------------------------------------------


def test_entities_are_seen_by_the_row() -> None:
    """None that the agent is not aware of, itself included; others in part or in whole."""
    targets = {"Ann": ["unaware", None], "Bob": ["external", 0], "global": ["insider", 0]}
    seen = a_policy(targets=targets, internal=["secret", "name"]).filter_world_state(a_world(), "Ann").visible_entities
    assert list(seen) == ["Bob", "global"]
    assert "secret" not in seen["Bob"]
    assert seen["Bob"]["name"] == "Bob"
    assert seen["global"] == {"price": 5.0, "name": 2.5, "secret": 1000}
    targets["global"] = ["external", 0]
    seen = a_policy(targets=targets, internal=["secret", "name"]).filter_world_state(a_world(), "Ann").visible_entities
    assert seen["global"] == {"price": 5.0}


def test_what_other_settings_hide_is_hidden_besides() -> None:
    """Distance, relationships, fields; being near is not being aware."""
    world = World(("Move", {"to": [0, 0]}, "ann"), ("Move", {"to": [3, 0]}, "bob"), ("Move", {"to": [9, 0]}, "far"))
    state = world.views.fold.state
    policy = a_policy(default=["insider", 0], targets={"bob": ["unaware", 0]}, distance_limit=5.0)
    assert list(policy.filter_world_state(state, "ann").visible_entities) == ["ann"]
    policy = a_policy(default=["insider", 0], distance_limit=5.0, field_visibility={"position": False})
    seen = policy.filter_world_state(state, "ann").visible_entities
    assert list(seen) == ["ann", "bob"]
    assert not any("position" in entity for entity in seen.values())
    policy = a_policy(default=["insider", 0], relationship_filter=["knows"])
    assert list(policy.filter_world_state(state, "ann").visible_entities) == ["ann"]


def test_relationships_with_whom_one_is_not_aware_of_are_hidden() -> None:
    """Both ends have to be seen, or be the agent."""
    ends = [("ann", "bob"), ("bob", "far"), ("far", "ann")]
    world = World(
        *[("Move", {"to": [0, 0]}, name) for name in ("ann", "bob", "far")],
        *[("RelationshipSet", {"from_entity": one, "to_entity": two, "relationship_type": "x"}) for one, two in ends],
    )
    policy = a_policy(default=["insider", 0], targets={"far": ["unaware", 0]})
    assert policy.filter_world_state(world.views.fold.state, "ann").visible_relationships == {"ann": ["bob"]}


@cases("turn, drawn", [(7, 7), (0, 0), (None, 0), (True, 0), (1.0, 0), ("1", 0), (..., 0)])
def test_noise_changes_with_the_turn(turn: Any, drawn: int) -> None:
    """What is no whole number is turn 0, as in a world without turns."""
    world = a_world()
    world.metadata["turn"] = turn
    if turn is ...:
        del world.metadata["turn"]
    seen = a_policy(default=["insider", 0.1], noise_key=KEY).filter_world_state(world, "Ann").visible_entities
    assert seen["Bob"]["secret"] == 7.0 * (1.0 + 0.1 * noise_of(KEY, "Ann", "Bob", "/secret", drawn))


def test_an_entity_has_its_own_bounds_or_those_of_all() -> None:
    """Never both."""
    low, high = {"secret": {"max": 0.5}}, {"secret": {"min": 100.0}}
    policy = a_policy(default=["insider", 0.01], noise_key=KEY, bounds={"*": low, "Bob": high, "global": {}})
    seen = policy.filter_world_state(a_world(), "Ann").visible_entities
    assert (seen["Ann"]["secret"], seen["Bob"]["secret"], seen["Café"]["secret"]) == (0.5, 100.0, 0.5)
    assert seen["global"]["secret"] > 900


# -- kept views ----------------------------------------------------------------------------------------------


def test_agents_with_the_same_policy_see_different_noise() -> None:
    """They share no look; the patches and events of each are its own."""
    world = World(("Move", {"to": [0, 0]}, "x"))
    for name in ("ann", "bob"):
        world.does(*registered(name, a_policy(default=["external", 0.5], noise_key=KEY)))
        world.views.attach(name)
    for payload in ({"entity_id": "y", "entity_data": {"hp": 1000}}, {"entity_id": "z", "entity_data": {"hp": 1000}}):
        world.does("EntityCreated", payload)
    for name in ("ann", "bob"):
        expected = round(1000 * (1.0 + 0.5 * noise_of(KEY, name, "y", "/hp", 0)))
        assert world.views.view(name).visible_entities["y"]["hp"] == expected
    told = world.does("Trade", {"sum": 1000}, "x")
    sums = {name: each.delta["events"][0]["payload"]["sum"] for name, each in told.items()}
    assert sums == {name: round(1000 * (1.0 + 0.5 * noise_of(KEY, name, "x", "/sum", 0))) for name in ("ann", "bob")}


def test_who_acts_is_told_even_of_what_it_does_not_see() -> None:
    """By an empty delta, as with any policy."""
    world = World(registered("ann", a_policy(default=["unaware", 0])))
    world.views.attach("ann")
    told = world.does("Trade", {"sum": 1}, "ann")
    assert told["ann"].delta["patches"] == told["ann"].delta["events"] == []


def test_with_noise_for_each_value_two_looks_undo_nothing() -> None:
    """A number is seen the same in every turn as long as it is the same; another one has noise of its own."""
    policy = a_policy(default=["external", 0.3], noise_scope="value", noise_key=KEY)
    by_turn = a_policy(default=["external", 0.3], noise_key=KEY)
    world = a_world()

    def look(at: MatrixPolicy, gold: float, turn: int) -> float:
        world.metadata["turn"] = turn
        world.entities["Bob"] = {"name": "Bob", "gold": gold, "bag": {"food": 4}}
        shown = at.filter_world_state(world, "Ann").visible_entities["Bob"]
        assert at is by_turn or shown["bag"]["food"] == round(
            4 * (1 + 0.3 * noise_of(KEY, "Ann", "Bob", "/bag/food", value=4))
        )
        seen: float = shown["gold"]
        return seen

    assert (
        look(policy, 731.25, 1)
        == look(policy, 731.25, 2)
        == 731.25 * (1.0 + 0.3 * noise_of(KEY, "Ann", "Bob", "/gold", value=731.25))
    )
    assert look(by_turn, 731.25, 1) / 731.25 == pytest.approx(look(by_turn, 741.25, 1) / 741.25)
    assert look(policy, 731.25, 1) / 731.25 != pytest.approx(look(policy, 741.25, 1) / 741.25)
