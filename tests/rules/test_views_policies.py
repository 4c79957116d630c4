"""Keeping views while policies change, and when they fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from worldledger_sandbox.rules import Sandbox

from tests.cases import cases
from tests.rules.seeing import Personal, World, registered
from tests.rulesets.sandbox.worlds import Said
from worldledger.effects import Effect
from worldledger.errors import TamperedError, UnregisteredPolicyError
from worldledger.folding import Fold
from worldledger.observation import LatencyModel, ObservationPolicy, ObservedEvent, PolicyConfig, View, apply_delta
from worldledger.policies import register_latency_model, register_policy
from worldledger.views import Views
from worldledger.world import WorldState


def test_a_new_registration_changes_the_view() -> None:
    """The delta leads to what the new policy shows; the same policy again is no change."""
    world = World(("Move", {"to": [0, 0]}, "ann"), ("Move", {"to": [3, 0]}, "bob"), ("Move", {"to": [9, 0]}, "far"))
    old = world.agent("ann", distance_limit=5.0)
    assert world.does(*registered("ann", world.views.policy("ann"), weight=3)) == {}
    policy = ObservationPolicy(PolicyConfig(field_visibility={"position": False}, distance_limit=None))  # type: ignore[arg-type]  # as from JSON
    (sighting,) = world.does(*registered("ann", policy)).values()
    view = apply_delta(old, sighting.delta)
    assert view == world.views.view("ann")
    assert view.context_digest == policy.filter_world_state(world.views.fold.state, "ann").context_digest
    assert set(view.visible_entities) == {"ann", "bob", "far"}
    assert world.does(*registered("bob", policy)) == {}


def test_a_new_policy_forgets_what_the_old_one_remembered() -> None:
    """What is out of sight under a new policy is removed, even if it has no remove operations itself."""
    world = World(("Move", {"to": [0, 0]}, "ann"), ("Move", {"to": [3, 0]}, "bob"))
    world.agent("ann", distance_limit=5.0, remove_operations=False)
    world.moves("bob", 50.0, 0.0)
    assert set(world.views.view("ann").visible_entities) == {"ann", "bob"}
    policy = ObservationPolicy(PolicyConfig(distance_limit=6.0, remove_operations=False))
    (sighting,) = world.does(*registered("ann", policy)).values()
    assert sighting.delta["patches"] == [{"op": "remove", "path": "/visible_entities/bob"}]


def test_a_policy_that_is_not_known_here_turns_its_agent_out() -> None:
    """An attached agent that is registered with one is detached, with the error; the others go on."""
    world = World()
    world.agent("ann")
    world.agent("bob")
    payload = registered("ann", ObservationPolicy())[1]
    payload["policy"]["name"] = "unheard-of"
    world.does("AgentRegistered", payload)
    assert world.views.attached == ["bob"]
    assert isinstance(world.views.failed["ann"], UnregisteredPolicyError)
    with pytest.raises(UnregisteredPolicyError):
        world.views.attach("ann")
    assert list(world.moves("cat", 1.0, 1.0)) == ["bob"]


def test_what_a_ruleset_leaves_unobserved_is_an_event_to_nobody() -> None:
    """What it changes is told by patches; who did it is told even that there is nothing to tell."""

    class Silent(Sandbox):
        """The sandbox, in which no word is heard."""

        unobserved = frozenset({"Speak", "Trade"})

    world = World()
    world.views = Views(Fold("w", Silent()))
    world.moves("bob", 0.0, 0.0)
    for name, policy in (("ann", ObservationPolicy), ("bob", ObservationPolicy), ("eve", Talkative)):
        world.agent(name, policy)
    told = world.does("Speak", {"text": "hi"}, "bob")
    assert {name: (bool(each.delta["patches"]), each.delta["events"]) for name, each in told.items()} == {
        "ann": (True, []),
        "bob": (True, []),
        "eve": (True, []),
    }
    told = world.does("Trade", {"sum": 1}, "bob")
    assert [(name, each.delta["patches"], each.delta["events"]) for name, each in told.items()] == [("bob", [], [])]
    assert list(world.does("Wave", {}, "bob")) == ["ann", "bob", "eve"]


@register_policy("test-talkative")
class Talkative(ObservationPolicy):
    """Observes everything."""

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Observe it."""
        return True


def test_agents_that_are_shown_things_their_own_way_share_nothing() -> None:
    """Though they have the same policy, and see everything."""
    world = World()
    for name in ("anna", "bert"):
        world.agent(name, Personal)
    told = world.does("Speak", {"text": "hi"}, "bob")
    for name, sighting in told.items():
        assert world.views.view(name).visible_entities["bob"]["to"] == name
        assert sighting.delta["events"][0]["payload"] == {"to": name}
    assert list(told) == ["anna", "bert"]


class _Touchy(ObservationPolicy):
    """Fails as soon as there is an entity called bad."""


@register_policy("test-touchy-sees")
class TouchySees(_Touchy):
    """Fails to tell whether it sees it."""

    def sees_entity(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Fail."""
        if entity_id == "bad":
            raise ArithmeticError("bad")
        return True


@register_policy("test-touchy-shows")
class TouchyShows(_Touchy):
    """Fails to show it."""

    def show_entity(self, entity: Mapping[str, Any]) -> dict[str, Any]:
        """Fail."""
        if "bad" in entity:
            raise ArithmeticError("bad")
        return dict(entity)


@register_policy("test-touchy-filter")
class TouchyFilter(_Touchy):
    """Fails to make a view."""

    def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
        """Fail."""
        if "bad" in world_state.entities:
            raise ArithmeticError("bad")
        return super().filter_world_state(world_state, agent_id)


@register_policy("test-touchy-observes")
class TouchyObserves(_Touchy):
    """Fails to tell whether it observes it."""

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Fail."""
        if "bad" in world_state.entities:
            raise ArithmeticError("bad")
        return True


@register_policy("test-touchy-event")
class TouchyEvent(_Touchy):
    """Fails to show events about it."""

    def show_event(self, effect: Effect) -> ObservedEvent | None:
        """Fail."""
        if effect["payload"].get("entity_id") == "bad":
            raise ArithmeticError("bad")
        return super().show_event(effect)


@register_latency_model("test-touchy-latency")
class TouchyLatency(LatencyModel):
    """Fails to say how long it takes."""

    def calculate_delay(self, from_agent: str, to_agent: str, effect: Effect) -> float:
        """Fail."""
        if effect["payload"].get("entity_id") == "bad":
            raise ArithmeticError("bad")
        return 1.0


_BAD: Said = ("EntityCreated", {"entity_id": "bad", "entity_data": {"bad": True}, "position": [1.0, 1.0]}, "god")


@cases("limit", [float("inf"), 9.0])
@cases("policy", [TouchySees, TouchyShows, TouchyFilter, TouchyObserves, TouchyEvent, None])
def test_a_policy_that_fails_turns_its_agents_out(policy: type[ObservationPolicy] | None, limit: float) -> None:
    """They are detached with what was raised; the others go on, and see what they would have seen."""
    world, alone = World(), World()
    for each in (world, alone):
        for name in ("ann", "bob", "cat"):
            each.moves(name, 0.0, 0.0)
        each.agent("bob", distance_limit=limit)
    for name in ("ann", "cat"):
        if policy is None:
            world.agent(name, distance_limit=limit, latency_model=TouchyLatency())
        else:
            world.agent(name, policy, distance_limit=limit)
        alone.does("Trade", {})
    assert set(world.moves("bob", 1.0, 0.0)) == {"ann", "bob", "cat"}
    alone.moves("bob", 1.0, 0.0)
    assert world.does(*_BAD) == alone.does(*_BAD)
    assert world.views.attached == ["bob"]
    assert {name: str(error) for name, error in world.views.failed.items()} == {"ann": "bad", "cat": "bad"}
    assert world.moves("bad", 2.0, 0.0) == alone.moves("bad", 2.0, 0.0)
    if policy in {TouchySees, TouchyShows, TouchyFilter}:
        with pytest.raises(ArithmeticError):
            world.views.attach("ann")
        assert world.views.attached == ["bob"]
    world.does("EntityRemoved", {"entity_id": "bad"})
    assert world.views.attach("ann").visible_entities == world.views.view("bob").visible_entities
    assert world.views.failed.keys() == {"cat"}


def test_a_fold_that_fails_is_told_to_the_caller() -> None:
    """The views end where the fold ends."""
    world = World()
    world.agent("ann")
    with pytest.raises(TamperedError):
        world.does("WorldCreated", {})
