"""Recorded worlds: what their effects do to the state."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_recorder import rules
from worldledger_recorder.rules import RULESET

from tests.rules.seeing import World
from tests.rulesets.sandbox.worlds import effects_of
from worldledger.effects import EffectDraft
from worldledger.errors import InvalidEffectError
from worldledger.folding import Fold
from worldledger.observation import ObservationPolicy
from worldledger.views import Views
from worldledger.world import WorldState


def after(*drafts: EffectDraft) -> WorldState:
    """Return the state after these drafts."""
    fold = Fold("w", RULESET)
    for effect in effects_of([(draft["kind"], draft["payload"], draft["source_id"]) for draft in drafts]):
        fold.apply(effect)
    return fold.state


def test_an_entity_is_what_was_set_last() -> None:
    """Fields that are not named stay; a position is a place in space, and anything else in its stead is none."""
    state = after(
        rules.entity_set("ann", {"gold": 3, "bag": {"figs": 1}, "position": [1, 2]}),
        rules.entity_set("ann", {"gold": 2, "bag": {}}),
        rules.entity_set("bob", {"position": [1.0, 2.0, 3.0]}),
        rules.entity_set("bob", {"position": "at home"}),
        rules.entity_set("cid", {}),
        rules.entity_removed("cid"),
        rules.entity_removed("nobody"),
    )
    assert state.entities == {
        "ann": {"gold": 2, "bag": {}, "position": [1.0, 2.0, 0.0]},
        "bob": {"position": "at home"},
    }
    assert state.spatial_index == {"ann": (1.0, 2.0, 0.0)}
    assert state.metadata["malformed_effects"] == 0


@pytest.mark.parametrize("kind", ["Move", "Speak", "EntityUpdated", "Anything"])
def test_any_other_kind_changes_nothing(kind: str) -> None:
    """Whatever another ruleset understands by it, and whatever its payload is."""
    assert after(rules.effect_of(kind, {"to": "the left", "patch": 7}, "ann")).entities == {}
    assert kind not in RULESET.checked_kinds


@pytest.mark.parametrize("kind", ["Move", "EntityCreated", "RelationshipSet", "Anything"])
def test_any_other_kind_is_an_event(kind: str) -> None:
    """Nothing else tells of it, whatever another ruleset understands by it; what the three kinds mean patches tell."""
    world = World()
    world.views = Views(Fold("w", RULESET))
    world.agent("ann", ObservationPolicy)
    told = world.does(kind, {"to": "the left", "entity_id": "cup"}, "bob")
    assert [event["kind"] for event in told["ann"].delta["events"]] == [kind]
    told = world.does("EntitySet", {"entity_id": "cup", "values": {"full": True}}, "bob")
    assert (len(told["ann"].delta["patches"]), told["ann"].delta["events"]) == (1, [])


def test_a_step_is_noted() -> None:
    """The last one to begin counts."""
    assert after(rules.step_began(1), rules.step_began(2)).metadata["step"] == 2


def test_a_fork_may_begin_with_another_value() -> None:
    """Also with one inside of a field, which is set whole."""
    state = after(rules.entity_set("ann", {"gold": 3, "bag": {"figs": 1, "nuts": 2}}))
    for path, value, values in (
        ("ann/gold", 5, {"gold": 5}),
        ("ann/bag/figs", 0, {"bag": {"figs": 0, "nuts": 2}}),
        ("ann/a~1b", [], {"a/b": []}),
    ):
        draft: Any = RULESET.change(path, value, state)
        assert (draft["kind"], draft["payload"]) == ("EntitySet", {"entity_id": "ann", "values": values})
    with pytest.raises(InvalidEffectError):
        RULESET.change("bob/gold", 5, state)
