"""What a policy lets an agent see, and how that is told: views, deltas, events, delays."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.cases import cases
from tests.rulesets.sandbox.worlds import Said, after, effects_of
from worldledger.deltas import ObservationDelta, merge_last_seen
from worldledger.effects import Effect
from worldledger.latency import MAX_DELAY, bounded
from worldledger.observation import (
    DistanceLatency,
    FixedLatency,
    LatencyModel,
    NoLatency,
    ObservationPolicy,
    PolicyConfig,
    View,
    apply_delta,
    names_in,
)
from worldledger.world import WorldState, state_digest, state_text

from .values import GOOD_OBJECTS


def _policy(**config: Any) -> ObservationPolicy:
    return ObservationPolicy(PolicyConfig(**config))


def _created(name: str, *position: float, **data: Any) -> Said:
    place = {"position": list(position)} if position else {}
    return ("EntityCreated", {"entity_id": name, "entity_data": data, **place})


def _related(one: str, other: str, kind: str = "knows") -> Said:
    return ("RelationshipSet", {"from_entity": one, "to_entity": other, "relationship_type": kind})


def _seen(state: WorldState, agent_id: str = "ann", **config: Any) -> set[str]:
    return set(_policy(**config).filter_world_state(state, agent_id).visible_entities)


def _effect(kind: str, payload: dict[str, Any] | None = None, source: str = "ann") -> Effect:
    return effects_of([(kind, payload or {}, source)])[0]


_TOWN = after(
    _created("ann", 0.0, 0.0, hp=3),
    _created("bob", 3.0, 4.0, hp=2, mood="low"),
    _created("far", 30.0, 40.0),
    _created("fog"),
)


# -- what is seen --------------------------------------------------------------------------------------------


def test_without_limits_everything_is_seen() -> None:
    """The plain policy shows the whole world, at the seq of its last effect."""
    view = ObservationPolicy().filter_world_state(_TOWN, "nobody")
    assert view.visible_entities == _TOWN.entities
    assert (view.agent_id, view.view_seq, view.visible_relationships) == ("nobody", 4, {})


@cases(
    "limit, seen",
    [(inf, "ann bob far fog"), (50.0, "ann bob far fog"), (49.9, "ann bob fog"), (5, "ann bob fog"), (0.0, "ann fog")],
)
def test_the_distance_limit_holds_between_positions(limit: float, seen: str) -> None:
    """The limit is included; what has no position is seen from everywhere."""
    assert _seen(_TOWN, distance_limit=limit) == set(seen.split())


@pytest.mark.parametrize("agent_id", ["fog", "nobody"])
def test_an_agent_without_a_position_has_no_distance(agent_id: str) -> None:
    """Whether or not there is an entity of its id, it sees everything."""
    assert _seen(_TOWN, agent_id, distance_limit=0.0) == {"ann", "bob", "far", "fog"}


def test_a_relationship_filter_shows_whom_the_agent_is_related_to() -> None:
    """By a type that it names, whichever way, and itself; the distance limit holds besides."""
    state = after(_related("ann", "bob"), _related("fog", "ann"), _related("ann", "far", "fears"), state=_town())
    assert _seen(state, relationship_filter=["knows"]) == {"ann", "bob", "fog"}
    assert _seen(state, relationship_filter=["fears"]) == {"ann", "far"}
    assert _seen(state, relationship_filter=["knows", "fears"]) == {"ann", "bob", "far", "fog"}
    assert _seen(state, relationship_filter=["fears"], distance_limit=9.0) == {"ann"}
    assert _seen(state, "bob", relationship_filter=["knows"]) == {"ann", "bob"}


def _town() -> WorldState:
    return _TOWN.copy_deep()


def test_an_agent_sees_itself() -> None:
    """Whatever the policy says of others; hidden fields are hidden of the agent's own entity too."""
    view = _policy(relationship_filter=["x"], distance_limit=0.0, field_visibility={"hp": False}).filter_world_state(
        _TOWN, "ann"
    )
    assert view.visible_entities == {"ann": {"position": [0.0, 0.0, 0.0]}}


@cases(
    "visibility, shown",
    [
        ({}, {"hp", "mood", "position"}),
        ({"hp": False}, {"mood", "position"}),
        ({"hp": True}, {"hp", "mood", "position"}),
        ({"*": False}, set()),
        ({"*": False, "hp": True}, {"hp"}),
        ({"*": True, "hp": False, "none": False}, {"mood", "position"}),
    ],
)
def test_field_visibility_names_fields_and_the_rest(visibility: dict[str, bool], shown: set[str]) -> None:
    """A field that is not named is shown, or as the star says; the state keeps all of them."""
    state = _town()
    view = _policy(field_visibility=visibility).filter_world_state(state, "ann")
    assert set(view.visible_entities["bob"]) == shown
    assert state.text() == _TOWN.text()


def test_relationships_are_shown_between_what_is_seen() -> None:
    """Both ends have to be seen, or be the agent; what has none is left out; with a filter only its types count."""
    pairs = [("bob", "ann"), ("bob", "fog"), ("bob", "far"), ("far", "bob"), ("ann", "gone"), ("eve", "bob")]
    state = after(*[_related(*pair) for pair in pairs], _related("bob", "fog", "likes"), state=_town())
    near = {"bob": ["ann", "fog"]}
    assert _policy(distance_limit=5.0).filter_world_state(state, "ann").visible_relationships == near
    everything = {"bob": ["ann", "far", "fog"], "far": ["bob"]}
    assert ObservationPolicy().filter_world_state(state, "ann").visible_relationships == everything
    # eve is no entity of the world, and yet knows of her own.
    assert ObservationPolicy().filter_world_state(state, "eve").visible_relationships == everything | {"eve": ["bob"]}
    likes = _policy(relationship_filter=["likes"])
    assert likes.filter_world_state(state, "bob").visible_relationships == {"bob": ["fog"]}


def test_a_view_keeps_what_it_shows() -> None:
    """What the fold does to the state afterwards changes no view that was made before."""
    state = _town()
    view = ObservationPolicy().filter_world_state(state, "ann")
    text = state_text(view.model_dump())
    after(("Move", {"to": [9.0, 9.0]}, "bob"), ("Speak", {"text": "hi"}, "ann"), state=state)
    assert state_text(view.model_dump()) == text


# -- what is observed ----------------------------------------------------------------------------------------


@cases(
    "effect, near, related",
    [
        (_effect("Speak", {"text": "x"}, "ann"), True, True),
        (_effect("Speak", {"text": "x"}, "bob"), True, False),
        (_effect("Speak", {"text": "x"}, "far"), False, False),
        (_effect("Trade", {"target_id": "bob"}, "far"), True, False),
        (_effect("Trade", {"target_id": "ann"}, "far"), True, True),
        (_effect("Trade", {"entity_id": "far"}, "stranger"), False, False),
        (_effect("Trade", {"entity_id": "gone"}, "stranger"), True, False),
        (_effect("Trade", {"entity_id": ["bob"], "to_entity": None}, "far"), False, False),
        (_effect("Trade", {"from_entity": "fog"}, "far"), False, False),
        (_effect("Trade", {"from_entity": "fog"}, "stranger"), True, False),
        (_effect("IntentRejected", {"agent_id": "ann"}, "ann"), False, False),
        (_effect("AgentRegistered", {"agent_id": "ann"}, "worldledger"), False, False),
    ],
)
def test_an_event_is_observed_where_somebody_is_seen_in_it(effect: Effect, near: bool, related: bool) -> None:
    """Its source or whoever its payload names; one that names nobody of the world is for all without a filter."""
    assert _policy(distance_limit=5.0).should_observe_event(effect, "ann", _TOWN) is near
    assert _policy(relationship_filter=["x"]).should_observe_event(effect, "ann", _TOWN) is related


def test_an_agent_without_an_entity_observes_what_names_it() -> None:
    """Its own effects, and those about it."""
    hidden = _policy(relationship_filter=["x"])
    assert hidden.should_observe_event(_effect("Trade", {"entity_id": "far"}, "eve"), "eve", _TOWN)
    assert hidden.should_observe_event(_effect("Trade", {"target_id": "eve"}, "far"), "eve", _TOWN)
    assert not hidden.should_observe_event(_effect("Trade", {"target_id": "eva"}, "far"), "eve", _TOWN)


def test_names_are_looked_for_in_the_usual_places() -> None:
    """The source, and agent_id, entity_id, target_id, from_entity and to_entity where they are texts."""
    payload = {"agent_id": "a", "entity_id": "b", "target_id": "c", "from_entity": "d", "to_entity": 5, "other": "x"}
    assert names_in(_effect("Trade", payload, "me")) == ["me", "a", "b", "c", "d"]


def test_an_event_is_shown_less_hidden_fields() -> None:
    """Of the effect it has seq, kind, source, sim_time, schema_version, and the fields of the payload."""
    effect = _effect("Trade", {"price": 3, "secret": 1, "target_id": "bob"})
    shown = _policy(field_visibility={"secret": False}).show_event(effect)
    assert shown == {
        "global_seq": 1,
        "kind": "Trade",
        "source_id": "ann",
        "sim_time": 0.25,
        "payload": {"price": 3, "target_id": "bob"},
        "schema_version": "1.0.0",
    }


@cases(
    "kind",
    ["EntityCreated", "EntityUpdated", "EntityRemoved", "Move", "RelationshipSet", "RelationshipRemoved", "WorldX"],
)
def test_what_patches_tell_is_no_event(kind: str) -> None:
    """Changes of the state are told by patches, system kinds not at all."""
    assert ObservationPolicy().show_event(_effect(kind)) is None


# -- deltas --------------------------------------------------------------------------------------------------


def _view(entities: Mapping[str, Any], relationships: dict[str, list[str]] | None = None, seq: int = 1) -> View:
    return View.of("ann", seq, dict(entities), relationships or {})


def test_a_digest_covers_the_view_without_its_seq() -> None:
    """It is SHA-256 over the profile state/1, so 1 and 1.0 differ, and two agents' views differ."""
    text = '{"agent_id":"ann","visible_entities":{"é":{"hp":1.0}},"visible_relationships":{"é":["a"]}}'
    view = _view({"é": {"hp": 1.0}}, {"é": ["a"]}, seq=7)
    assert view.context_digest == state_digest(text.encode())
    assert view.context_digest == _view({"é": {"hp": 1.0}}, {"é": ["a"]}, seq=8).context_digest
    assert view.context_digest != _view({"é": {"hp": 1}}, {"é": ["a"]}).context_digest
    assert view.context_digest != View.of("bob", 7, {"é": {"hp": 1.0}}, {"é": ["a"]}).context_digest


def test_a_delta_has_stable_paths() -> None:
    """Paths are made of escaped ids; the delta says to which view it leads."""
    old = _view({"a/b": {"hp": 1}, "gone": {}, "~": {"bag": [1]}}, {"a/b": ["~"], "~": ["a/b"]})
    new = _view({"a/b": {"hp": 2, "x": {}}, "~": {"bag": [2]}, "new": {"hp": 1}}, {"a/b": ["new", "~"]}, seq=5)
    assert ObservationPolicy().calculate_observation_delta(old, new) == {
        "view_seq": 5,
        "patches": [
            {"op": "replace", "path": "/visible_entities/a~1b/hp", "value": 2},
            {"op": "add", "path": "/visible_entities/a~1b/x", "value": {}},
            {"op": "remove", "path": "/visible_entities/gone"},
            {"op": "add", "path": "/visible_entities/new", "value": {"hp": 1}},
            {"op": "replace", "path": "/visible_entities/~0/bag", "value": [2]},
            {"op": "replace", "path": "/visible_relationships/a~1b", "value": ["new", "~"]},
            {"op": "remove", "path": "/visible_relationships/~0"},
        ],
        "context_digest": new.context_digest,
        "schema_version": "1.0.0",
        "events": [],
    }


_VIEWS = st.builds(
    _view,
    st.dictionaries(st.sampled_from(["ann", "a/b", "~1", ""]), GOOD_OBJECTS),
    st.dictionaries(st.sampled_from(["ann", "a/b", "c"]), st.lists(st.sampled_from("abc"), unique=True).map(sorted)),
    st.integers(1, 9),
)


@settings(max_examples=150, deadline=None)
@given(_VIEWS, _VIEWS, st.booleans())
def test_a_delta_leads_from_view_to_view(old: View, new: View, removes: bool) -> None:
    """Applied to the old view, by apply_delta or by any JSON Patch library, it gives the new one."""
    new = new.model_copy(update={"view_seq": max(old.view_seq, new.view_seq)})
    delta = _policy(remove_operations=removes).calculate_observation_delta(old, new)
    expected = new if removes else merge_last_seen(old, new)
    assert apply_delta(old, delta) == expected
    patched = jsonpatch.apply_patch(old.model_dump(), delta["patches"])
    noted = {"view_seq": delta["view_seq"], "context_digest": delta["context_digest"]}
    assert View.model_validate(patched | noted) == expected
    removed = [operation["path"] for operation in delta["patches"] if operation["op"] == "remove"]
    assert removes or all(path.count("/") > 2 for path in removed)


def test_without_remove_operations_what_was_seen_stays() -> None:
    """Entities out of sight stay as last seen, and so do their relationships; in sight, no relationship is []."""
    old = _view({"ann": {}, "bob": {"hp": 1}, "far": {"hp": 5}}, {"ann": ["bob"], "far": ["bob"], "bob": ["far"]})
    new = _view({"ann": {}, "bob": {}}, {"ann": ["bob"]}, seq=2)
    delta = _policy(remove_operations=False).calculate_observation_delta(old, new)
    view = apply_delta(old, delta)
    assert view.visible_entities == {"ann": {}, "bob": {}, "far": {"hp": 5}}
    assert view.visible_relationships == {"ann": ["bob"], "bob": [], "far": ["bob"]}
    assert view == merge_last_seen(old, new)


def test_a_delta_that_does_not_fit_is_found_out() -> None:
    """One that was made for another view, or leaves no view, raises ValueError and changes nothing."""
    old, new = _view({"ann": {"hp": 1}, "bob": {}}), _view({"ann": {"hp": 2}, "bob": {}}, seq=2)
    delta = ObservationPolicy().calculate_observation_delta(old, new)
    with pytest.raises(ValueError, match="digests differ"):
        apply_delta(_view({"ann": {"hp": 1}}), delta)
    with pytest.raises(ValueError, match="operation 0"):
        apply_delta(_view({}), delta)
    gone = ObservationDelta(delta, patches=[{"op": "replace", "path": "", "value": {"visible_entities": {}}}])
    with pytest.raises(ValueError, match="no view left"):
        apply_delta(old, gone)
    assert old == _view({"ann": {"hp": 1}, "bob": {}})


# -- delays --------------------------------------------------------------------------------------------------


class Halting(LatencyModel):
    """The signature of docs/reference/contracts.md, "Policies, validators and latency"."""

    def calculate_delay(self, from_agent: str, to_agent: str, effect: Effect) -> float:
        """Return a second for each letter."""
        return float(len(from_agent) + len(to_agent))


@cases(
    "model, to_bob, to_far, to_fog, to_itself",
    [
        (NoLatency(), 0.0, 0.0, 0.0, 0.0),
        (FixedLatency(2), 2.0, 2.0, 2.0, 0.0),
        (DistanceLatency(0.1), 0.5, 5.0, 0.0, 0.0),
        (DistanceLatency(0.1, 1.0), 1.5, 6.0, 1.0, 0.0),
        (DistanceLatency(0.1, 1.0, 2.0), 1.5, 2.0, 1.0, 0.0),
        (DistanceLatency(0.0, 3.0, 2.0), 2.0, 2.0, 2.0, 0.0),
        (Halting(), 6.0, 6.0, 6.0, 6.0),
    ],
)
def test_delays(model: LatencyModel, to_bob: float, to_far: float, to_fog: float, to_itself: float) -> None:
    """None, a fixed time, or one by distance where both have a position; one's own effects come at once."""
    effect = _effect("Speak", {"text": "x"})
    found = [model.delay("ann", name, effect, _TOWN) for name in ("bob", "far", "fog", "ann")]
    assert found == pytest.approx([to_bob, to_far, to_fog, to_itself])


def test_a_delay_can_be_waited_for() -> None:
    """Whatever a model says, it is from 0.0 to some decades."""
    assert [bounded(delay) for delay in (-1.0, nan, 0.5, inf)] == [0.0, 0.0, 0.5, MAX_DELAY]
    with pytest.raises(NotImplementedError, match="calculate_delay"):
        LatencyModel().delay("a", "b", _effect("X"), _TOWN)


@cases("seconds", [-1, nan, inf, True, "1", None])
def test_no_model_takes_nonsense(seconds: Any) -> None:
    """Seconds are finite numbers from 0 on."""
    with pytest.raises(ValueError, match="seconds"):
        FixedLatency(seconds)
    with pytest.raises(ValueError, match="seconds_per_unit"):
        DistanceLatency(seconds)


# -- configuration -------------------------------------------------------------------------------------------


@cases(
    "config",
    [
        {"distance_limit": -1},
        {"distance_limit": nan},
        {"distance_limit": "5"},
        {"relationship_filter": "knows"},
        {"relationship_filter": [1]},
        {"field_visibility": {"hp": 1}},
        {"latency_model": 0.5},
        {"remove_operations": None},
        {"distance": 5},
    ],
)
def test_a_config_is_checked(config: dict[str, Any]) -> None:
    """Wrong types, negative limits and unknown names are refused."""
    with pytest.raises(ValidationError):
        PolicyConfig(**config)


def test_the_usual_config() -> None:
    """Without one everything is seen at once; null is no limit, and a policy has its attributes."""
    policy = ObservationPolicy()
    assert policy.distance_limit == inf
    assert PolicyConfig(distance_limit=None).distance_limit == inf  # type: ignore[arg-type]  # as it comes from JSON
    assert str(PolicyConfig(distance_limit=-0.0).distance_limit) == "0.0"
    assert (policy.relationship_filter, policy.field_visibility, policy.remove_operations) == ([], {}, True)
    assert type(policy.latency_model) is NoLatency
