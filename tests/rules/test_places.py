"""Where effects happen, where agents look, and whom a message is for."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from worldledger_sandbox.rules import RULESET

from tests.cases import cases
from tests.rules.observability.simulations import KEY
from tests.rules.seeing import World, registered, whispered
from tests.rulesets.sandbox.worlds import after, effects_of
from worldledger.deltas import ObservationDelta, View
from worldledger.drafts import check_draft
from worldledger.effects import Effect, audience_of
from worldledger.errors import IllegalEffectError
from worldledger.observability import MatrixPolicy, MatrixPolicyConfig
from worldledger.observation import (
    FirstObservationPolicy,
    FirstPolicyConfig,
    ObservationPolicy,
    PolicyConfig,
    ViewCone,
    place_of,
)
from worldledger.policies import as_policy, register_policy
from worldledger.protocols import PolicyConfigProtocol
from worldledger.space import SpatialIndex
from worldledger.world import WorldState


def _created(name: str, *position: float, **data: Any) -> tuple[str, dict[str, Any]]:
    place = {"position": list(position)} if position else {}
    return ("EntityCreated", {"entity_id": name, "entity_data": data, **place})


def _effect(kind: str, payload: dict[str, Any], source: str = "engine") -> Effect:
    return effects_of([(kind, payload, source)])[0]


_TOWN = after(_created("ann", 0.0, 0.0), _created("bob", 3.0, 4.0), _created("far", 1000.0, 0.0), _created("fog"))


# -- the place of an effect ----------------------------------------------------------------------------------


@cases(
    "effect, observed",
    [
        (_effect("Explosion", {"position": [1000.0, 0.0, 0.0]}), False),
        (_effect("Explosion", {"position": [50, 0]}), True),
        (_effect("Explosion", {"position": [50.0, 0.1, 0.0]}), False),
        (_effect("Explosion", {"position": "here"}), True),
        (_effect("Explosion", {"position": [1000.0]}), True),
        (_effect("Explosion", {"position": [True, 1000]}), True),
        # its own place goes before those of the entities that it names
        (_effect("Explosion", {"position": [9.0, 0.0]}, "far"), True),
        (_effect("Explosion", {"position": [1000.0, 0.0]}, "bob"), False),
        # what names the agent is told to it
        (_effect("Explosion", {"position": [1000.0, 0.0], "target_id": "ann"}), True),
        (_effect("Explosion", {"position": [1000.0, 0.0]}, "ann"), True),
        # one of the entities that it names is near enough
        (_effect("Trade", {"target_id": "far"}, "bob"), True),
        (_effect("Trade", {"target_id": "bob"}, "far"), True),
        (_effect("Trade", {"target_id": "far"}, "fog"), False),
        (_effect("Trade", {"target_id": "fog"}, "far"), False),
        (_effect("Trade", {"target_id": "far"}), False),
        # none has a place
        (_effect("Trade", {}, "fog"), True),
        (_effect("Trade", {}), True),
        (_effect("Move", {"to": [1000.0, 0.0, 0.0]}, "bob"), False),
    ],
)
def test_an_effect_is_observed_where_it_is_within_the_distance(effect: Effect, observed: bool) -> None:
    """Its place is the one of its payload, else where the entities stand that it names; without any it is as before."""
    policy = ObservationPolicy(PolicyConfig(distance_limit=50.0))
    assert policy.should_observe_event(effect, "ann", _TOWN) is observed
    assert policy.should_observe_event(effect, "fog", _TOWN)  # which stands nowhere
    assert ObservationPolicy().should_observe_event(effect, "ann", _TOWN)
    row = MatrixPolicyConfig(distance_limit=50.0, default=("insider", 0.0), noise_key=KEY)  # type: ignore[arg-type]
    assert MatrixPolicy(row).should_observe_event(effect, "ann", _TOWN) is observed


def test_a_place_does_not_tell_of_who_is_hidden_otherwise() -> None:
    """Of an explosion nearby that names an entity far away, the relationship filter still has its word."""
    config = PolicyConfig(distance_limit=50.0, relationship_filter=["knows"])
    town = after(
        _created("ann", 0.0, 0.0),
        _created("far", 1000.0, 0.0),
        _created("foe", 1000.0, 0.0),
        ("RelationshipSet", {"from_entity": "ann", "to_entity": "far", "relationship_type": "knows"}),
    )
    near = {"position": [1.0, 0.0]}
    policy = ObservationPolicy(config)
    assert policy.should_observe_event(_effect("Explosion", near, "far"), "ann", town)
    assert not policy.should_observe_event(_effect("Explosion", near, "foe"), "ann", town)
    assert not policy.should_observe_event(_effect("Explosion", near), "ann", town)


def test_the_first_version_stays_as_it_was() -> None:
    """It hears of every place, and knows of nothing private: worlds that were recorded with it replay as before."""
    first = FirstObservationPolicy(FirstPolicyConfig(distance_limit=50.0))
    assert first.should_observe_event(_effect("Explosion", {"position": [1000.0, 0.0]}), "ann", _TOWN)
    assert first.should_observe_event(_effect("Trade", {"target_id": "far"}, "fog"), "ann", _TOWN)
    (whisper,) = effects_of([whispered("bob", "fog")])
    assert first.should_observe_event(whisper, "ann", _TOWN)
    assert ObservationPolicy(PolicyConfig(rules=1)).should_observe_event(whisper, "ann", _TOWN)


def test_a_place_is_a_point() -> None:
    """Two or three finite numbers; of a Move it is where that leads."""
    assert place_of(_effect("Blast", {"position": [1, 2]})) == (1.0, 2.0, 0.0)
    assert place_of(_effect("Move", {"to": [1.0, 2.0, 3.0], "position": [9, 9]})) == (1.0, 2.0, 3.0)
    assert place_of(_effect("Move", {"position": [9, 9]})) == (9.0, 9.0, 0.0)
    for nothing in (None, 5, [1], [1, 2, 3, 4], ["1", 2], [True, False], [[1], [2]], {"x": 1}, [inf, 0.0]):
        assert place_of(_effect("Blast", {"position": nothing})) is None


# -- where agents look ---------------------------------------------------------------------------------------


def _seen(world: World, agent_id: str = "ann") -> set[str]:
    return set(world.views.view(agent_id).visible_entities)


def _set(name: str, field: str, value: Any) -> tuple[str, dict[str, Any]]:
    return ("EntityUpdated", {"entity_id": name, "patch": [{"op": "add", "path": f"/{field}", "value": value}]})


def test_an_agent_sees_as_far_as_its_own_visibility_range() -> None:
    """The smaller of both limits holds; a range that is no number from 0 on is none."""
    world = World(_created("ann", 0.0, 0.0), _created("bob", 5.0, 0.0), _created("cid", 20.0, 0.0), _created("fog"))
    world.agent("ann", visibility_range=True, distance_limit=30.0)
    assert _seen(world) == {"ann", "bob", "cid", "fog"}
    for value, seen in (
        (5, {"bob"}),
        (4.5, set()),
        ("far", {"bob", "cid"}),
        (-1, {"bob", "cid"}),
        (99, {"bob", "cid"}),
    ):
        world.does(*_set("ann", "visibility_range", value))
        assert _seen(world) == {"ann", "fog", *seen}
    world.does(*_set("ann", "visibility_range", 0))
    assert world.does("Blast", {"position": [1.0, 0.0]}) == {}
    world.agent("bob")
    world.does(*_set("bob", "visibility_range", 1))
    assert _seen(world, "bob") == {"ann", "bob", "cid", "fog"}  # whose policy does not say so


def test_an_agent_sees_what_is_in_its_cone() -> None:
    """The cone follows the direction of its own entity, and its borders are included."""
    places = {"east": (5.0, 0.0), "west": (-5.0, 0.0), "north": (0.0, 5.0), "corner": (3.0, 3.0), "out": (50.0, 0.0)}
    world = World(_created("ann", 0.0, 0.0), *(_created(name, *place) for name, place in places.items()))
    world.agent("ann", view_cone=ViewCone(angle=90.0, range=10.0))
    assert _seen(world) == {"ann", *places}  # it looks nowhere in particular
    world.does(*_set("ann", "direction", [2, 0]))
    assert _seen(world) == {"ann", "east", "corner"}
    world.does(*_set("ann", "direction", [0.0, 0.5, 0.0]))
    assert _seen(world) == {"ann", "north", "corner"}
    assert world.does("Blast", {"position": [0.0, -1.0]}) == {}
    assert set(world.does("Blast", {"position": [0.0, 1.0]})) == {"ann"}
    world.does("Move", {"to": [0.0, 10.0]}, "ann")
    assert _seen(world) == {"ann"}
    world.does(*_set("ann", "direction", "up"))
    assert _seen(world) == {"ann", *places}


def test_a_cone_may_have_a_direction_of_its_own() -> None:
    """It then holds whatever the agent's entity says, and reaches as far as the other settings."""
    world = World(_created("ann", 0.0, 0.0, direction=[-1, 0]), _created("east", 5.0, 0.0), _created("out", 50.0, 0.0))
    world.agent("ann", view_cone={"angle": 0, "direction": [1, 0]}, distance_limit=9.0)
    assert _seen(world) == {"ann", "east"}


def test_the_cone_is_that_of_the_index() -> None:
    """What is in view is what `SpatialIndex.entities_in_view_cone` gives."""
    town = after(*(_created(f"e{x}{y}", float(x), float(y)) for x in range(-3, 4) for y in range(-3, 4)))
    index = SpatialIndex()
    for name, point in town.spatial_index.items():
        index.insert(name, point)
    for angle in (0.0, 45.0, 90.0, 200.0, 360.0):
        policy = ObservationPolicy(PolicyConfig(view_cone=ViewCone(angle=angle, range=2.5, direction=[1.0, 1.0])))
        seen = policy.filter_world_state(town, "e00").visible_entities
        assert sorted(seen) == index.entities_in_view_cone((0, 0, 0), (1, 1, 0), angle, 2.5)


# -- effects with an audience --------------------------------------------------------------------------------


class Deaf:
    """A policy that is no subclass of ours, and hears nothing."""

    def __init__(self, config: PolicyConfigProtocol) -> None:
        self.distance_limit = config.distance_limit
        self.relationship_filter = config.relationship_filter
        self.field_visibility = config.field_visibility
        self.latency_model = config.latency_model

    def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
        """Show nothing."""
        return View.of(agent_id, 0, {}, {})

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Observe nothing."""
        return False

    def calculate_observation_delta(self, old_view: View, new_view: View) -> ObservationDelta:
        """Return that nothing has changed."""
        return ObservationPolicy().calculate_observation_delta(old_view, new_view)


register_policy("test-hears-nothing")(Deaf)


@cases(
    "sees, heard",
    [
        (["far", "deaf"], ["ann", "deaf", "far"]),
        (["ann", "nobody", "ann"], ["ann"]),
        ([], ["ann"]),
        (["row", 7, None, ["bob"]], ["ann", "row"]),
        # no list, so no audience: as the policies say
        ("far", ["ann", "bob", "row"]),
        (None, ["ann", "bob", "row"]),
    ],
)
def test_an_effect_with_an_audience_is_for_that_and_its_source(sees: Any, heard: list[str]) -> None:
    """However far they look, and whatever their policies say; the state after it is nobody's secret."""
    world = World(_created("ann", 0.0, 0.0), _created("bob", 1.0, 0.0), _created("far", 1000.0, 0.0))
    for name in ("ann", "bob", "far"):
        world.agent(name, distance_limit=50.0)
    world.agent("row", MatrixPolicy, default=("insider", 0.0), noise_key=KEY)
    world.does(*registered("deaf", as_policy(Deaf(PolicyConfig()))))
    world.views.attach("deaf")
    said = world.does("Spoke", {"text": "psst", "sees": sees}, "ann")
    assert sorted(name for name, sighting in said.items() if sighting.delta["events"]) == heard


def test_what_only_the_service_writes_has_no_audience() -> None:
    """Its payloads may repeat an intent's members, which mean nothing there."""
    assert audience_of(_effect("IntentRejected", {"sees": ["ann"]})) is None
    assert audience_of(_effect("Trade", {"sees": ["ann"]}, "bob")) == frozenset({"ann", "bob"})


# -- private messages ----------------------------------------------------------------------------------------


@cases("kind", ["Speak", "SpeakResponse", "MessageEmitted", "Trade"])
def test_what_is_private_is_for_source_and_target(kind: str) -> None:
    """However the others look; nothing of it stands in their views."""
    world = World(_created("ann"), _created("bob"), _created("cid"))
    for name in ("ann", "bob", "cid"):
        world.agent(name)
    world.agent("row", MatrixPolicy, default=("insider", 0.0), noise_key=KEY)
    world.agent("old", FirstObservationPolicy)
    before = {name: world.views.view(name) for name in ("cid", "row")}
    said = world.does(*whispered("ann", "bob", "psst", kind))
    assert sorted(said) == ["ann", "bob", "old"]
    for name in ("ann", "bob"):
        (event,) = said[name].delta["events"]
        assert event["payload"]["text"] == "psst"
        assert said[name].delta["patches"] == []
    for name, view in before.items():
        assert world.views.view(name) == view


def test_a_private_message_is_no_part_of_the_state() -> None:
    """The sandbox writes it with whom it is for; a message of before, which has none of that, is folded as it was."""
    payload: dict[str, Any] = {"text": "psst", "private": True, "target_id": "bob"}
    said = check_draft({"kind": "Speak", "payload": payload, "source_id": "zoe", "schema_version": "1.0.0"})
    written = RULESET.decide(said, None)
    assert b'"audience":["bob","zoe"]' in written.payload
    assert after(whispered("zoe", "bob")).entities == {}
    assert after(("Speak", payload, "zoe")).entities["zoe"]["last_message"] == "psst"
    assert after(("Speak", {**payload, "audience": ["bob"]}, "zoe")).entities["zoe"]["message_count"] == 1
    for target in ({}, {"target_id": None}, {"target_id": 5}, {"target_id": ""}):
        draft = {"kind": "Speak", "payload": {"text": "x", "private": True, **target}, "source_id": "zoe"}
        with pytest.raises(IllegalEffectError) as refused:
            RULESET.decide(check_draft({**draft, "schema_version": "1.0.0"}), None)
        assert refused.value.path == "$.payload.target_id"
    unreadable: tuple[Any, ...] = ("true", 1, [], {})
    for private in unreadable:
        draft = {"kind": "Speak", "payload": {**payload, "private": private}, "source_id": "zoe"}
        with pytest.raises(IllegalEffectError) as refused:
            RULESET.decide(check_draft({**draft, "schema_version": "1.0.0"}), None)
        assert refused.value.path == "$.payload.private"


@cases(
    "kind, payload, heard",
    [
        ("Speak", {"private": True}, ["ann"]),
        ("Trade", {"private": True}, ["ann"]),
        ("Speak", {"private": "yes", "target_id": "bob"}, ["ann", "bob"]),
        ("MessageEmitted", {"private": 1}, ["ann"]),
        ("Speak", {"private": False}, ["ann", "bob", "cid", "row"]),
        ("Trade", {"private": "garden"}, ["ann", "bob", "cid", "row"]),
    ],
)
def test_a_mistake_shows_too_little_and_not_too_much(kind: str, payload: dict[str, Any], heard: list[str]) -> None:
    """Private without a target is for the source alone; of a message any other value counts as private."""
    world = World(_created("ann"), _created("bob"), _created("cid"))
    for name in ("ann", "bob", "cid"):
        world.agent(name)
    world.agent("row", MatrixPolicy, default=("insider", 0.0), noise_key=KEY)
    said = world.does(kind, {"text": "psst", **payload}, "ann")
    assert sorted(name for name, sighting in said.items() if sighting.delta["events"]) == heard
