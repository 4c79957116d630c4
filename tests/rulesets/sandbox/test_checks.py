"""What a sandbox world refuses before it becomes an effect."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_sandbox.rules import RULESET

from worldledger.drafts import CheckedDraft, check_draft
from worldledger.errors import IllegalEffectError, RecoveryAction
from worldledger.world import WorldState

from .worlds import KINDS, after


def _draft(kind: str, payload: dict[str, Any]) -> CheckedDraft:
    return check_draft({"kind": kind, "payload": payload, "source_id": "ann", "schema_version": "1.0.0"})


@pytest.fixture
def state() -> WorldState:
    """Return a world with one entity, bob, at (1, 2, 0)."""
    return after(("EntityCreated", {"entity_id": "bob", "entity_data": {"hp": 1}, "position": [1, 2]}))


def test_only_checks_that_need_the_state_ask_for_it() -> None:
    """What is on the hot path of an append is checked without a state."""
    assert RULESET.stateful == {"EntityCreated", "EntityRemoved", "EntityUpdated"}


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("EntityCreated", {"entity_id": "e", "entity_data": {}}),
        ("EntityCreated", {"entity_id": "e", "entity_data": {"position": [1, 2]}}),
        ("EntityRemoved", {"entity_id": "bob"}),
        ("EntityUpdated", {"entity_id": "bob", "patch": [{"op": "test", "path": "/hp", "value": 1}]}),
        ("Interact", {"target_id": "nobody"}),
        ("MessageEmitted", {"message": "hi"}),
        ("Move", {"to": [1, 2]}),
        ("Move", {"position": [1, 2, 3], "from": [0, 0], "speed": 0, "agent_id": "bob", "gait": "trot"}),
        ("Move", {"to": [1.5, 2.5, 3.5], "from": None, "speed": None}),
        ("RelationshipRemoved", {"to_entity": "nobody"}),
        ("RelationshipSet", {"from_entity": "x", "to_entity": "y", "relationship_type": "z", "strength": -2}),
        ("Speak", {"text": ""}),
        ("SpeakResponse", {"text": "yes"}),
        ("Trade", {"anything": ["goes"]}),
        ("Move2", {}),
    ],
)
def test_what_means_something_is_passed_as_it_is(state: WorldState, kind: str, payload: dict[str, Any]) -> None:
    """A legal draft is written unchanged; so is one of a kind that the sandbox does not know."""
    draft = _draft(kind, payload)
    assert RULESET.decide(draft, state if kind in RULESET.stateful else None) is draft


@pytest.mark.parametrize(
    ("kind", "payload", "rule", "path"),
    [
        ("EntityCreated", {"entity_data": {}}, "payload", "entity_id"),
        ("EntityCreated", {"entity_id": "e"}, "payload", "entity_data"),
        ("EntityCreated", {"entity_id": "e", "entity_data": {}, "position": [1, None]}, "payload", "position[1]"),
        ("EntityCreated", {"entity_id": "e", "entity_data": {"position": 1}}, "payload", "entity_data.position"),
        ("EntityCreated", {"entity_id": "bob", "entity_data": {}}, "entity_exists", "entity_id"),
        ("EntityRemoved", {"entity_id": None}, "payload", "entity_id"),
        ("EntityRemoved", {"entity_id": "nobody"}, "unknown_entity", "entity_id"),
        ("EntityUpdated", {"entity_id": "bob", "patch": "x"}, "payload", "patch"),
        ("EntityUpdated", {"patch": []}, "payload", "entity_id"),
        ("EntityUpdated", {"entity_id": "nobody", "patch": []}, "unknown_entity", "entity_id"),
        ("EntityUpdated", {"entity_id": "bob", "patch": [{"op": "test", "path": "/hp", "value": True}]}, "patch", None),
        ("EntityUpdated", {"entity_id": "bob", "patch": ["x"]}, "patch", "patch[0]"),
        ("EntityUpdated", {"entity_id": "bob", "patch": [{"op": "add", "path": "", "value": 1}]}, "patch", "patch"),
        (
            "EntityUpdated",
            {"entity_id": "bob", "patch": [{"op": "add", "path": "/position", "value": None}]},
            "patch",
            "patch",
        ),
        ("Interact", {"target_id": ""}, "payload", "target_id"),
        ("Interact", {"target_id": "ann"}, "self_interaction", "target_id"),
        ("MessageEmitted", {}, "payload", "text"),
        ("MessageEmitted", {"message": 1}, "payload", "message"),
        ("Move", {}, "payload", "to"),
        ("Move", {"to": [1, 2, "3"]}, "payload", "to[2]"),
        ("Move", {"position": 1}, "payload", "position"),
        ("Move", {"to": [1, 2], "from": [1]}, "payload", "from"),
        ("Move", {"to": [1, 2], "from": [1, "x"]}, "payload", "from[1]"),
        ("Move", {"to": [1, 2], "speed": -1}, "payload", "speed"),
        ("Move", {"to": [1, 2], "speed": "fast"}, "payload", "speed"),
        ("Move", {"to": [1, 2], "speed": True}, "payload", "speed"),
        ("RelationshipRemoved", {"to_entity": "bob", "relationship_type": ""}, "payload", "relationship_type"),
        ("RelationshipSet", {"relationship_type": "x"}, "payload", "to_entity"),
        ("RelationshipSet", {"to_entity": "x", "relationship_type": 1}, "payload", "relationship_type"),
        ("RelationshipSet", {"to_entity": "x", "relationship_type": "y", "strength": {}}, "payload", "strength"),
        ("RelationshipSet", {"to_entity": "x", "relationship_type": "y", "metadata": 1}, "payload", "metadata"),
        ("RelationshipSet", {"from_entity": 1, "to_entity": "x", "relationship_type": "y"}, "payload", "from_entity"),
        ("Speak", {"text": 1}, "payload", "text"),
        ("SpeakResponse", {}, "payload", "text"),
    ],
)
def test_what_means_nothing_is_refused_by_rule_and_path(
    state: WorldState, kind: str, payload: dict[str, Any], rule: str, path: str | None
) -> None:
    """The error names the rule that was broken and the value that breaks it."""
    with pytest.raises(IllegalEffectError) as caught:
        RULESET.decide(_draft(kind, payload), state if kind in RULESET.stateful else None)
    error = caught.value
    assert (error.code, error.recovery) == ("illegal_effect", RecoveryAction.MODIFY_INTENT)
    assert error.details == {"rule": rule, "path": f"$.payload.{path or 'patch[0]'}"}
    assert error.reason
    assert error.at(3).details == {**error.details, "index": 3}


def test_a_failing_patch_names_its_operation(state: WorldState) -> None:
    """The path of a refusal leads to the operation that cannot be applied."""
    patch = [{"op": "replace", "path": "/hp", "value": 2}, {"op": "remove", "path": "/nothing"}]
    with pytest.raises(IllegalEffectError, match=r"\$\.payload\.patch\[1\]: there is nothing at /nothing"):
        RULESET.decide(_draft("EntityUpdated", {"entity_id": "bob", "patch": patch}), state)
    assert state.entities["bob"]["hp"] == 1


def test_the_shape_is_checked_even_without_a_state() -> None:
    """A check that is handed no state still refuses what no state could make legal."""
    for kind in KINDS:
        with pytest.raises(IllegalEffectError):
            RULESET.decide(_draft(kind, {"entity_id": 1}), None)
