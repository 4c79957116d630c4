"""Sandbox effects that cannot be read, and what each of the others is said to have touched."""

from __future__ import annotations

import pytest
from worldledger_sandbox.rules import RULESET

from tests.cases import cases
from worldledger.effects import Effect
from worldledger.errors import TamperedError
from worldledger.folding import Fold
from worldledger.rulesets.base import Touched

from .worlds import Said, after, assert_sound, effects_of, told

MALFORMED: list[Said] = [
    ("EntityCreated", {"entity_data": {}}),
    ("EntityCreated", {"entity_id": "", "entity_data": {}}),
    ("EntityCreated", {"entity_id": 1, "entity_data": {}}),
    ("EntityCreated", {"entity_id": "e", "entity_data": []}),
    ("EntityCreated", {"entity_id": "e", "entity_data": {}, "position": [1]}),
    ("EntityCreated", {"entity_id": "e", "entity_data": {"position": None}}),
    ("EntityRemoved", {}),
    ("EntityUpdated", {"entity_id": "e"}),
    ("EntityUpdated", {"entity_id": "nobody", "patch": []}),
    ("EntityUpdated", {"entity_id": "bob", "patch": {}}),
    ("EntityUpdated", {"entity_id": "bob", "patch": [{"op": "remove", "path": "/nothing"}]}),
    ("EntityUpdated", {"entity_id": "bob", "patch": [{"op": "replace", "path": "", "value": []}]}),
    ("EntityUpdated", {"entity_id": "bob", "patch": [{"op": "add", "path": "/position", "value": [1, True]}]}),
    ("EntityUpdated", {"entity_id": "bob", "patch": [{"op": "add", "path": "/big", "value": "x" * 2**20}]}),
    ("Interact", {}),
    ("Interact", {"target_id": ["bob"]}),
    ("Interact", {"target_id": "ann"}),
    ("MessageEmitted", {}),
    ("MessageEmitted", {"text": 1, "message": "m"}),
    ("MessageEmitted", {"message": ["m"]}),
    ("Move", {}),
    ("Move", {"to": None}),
    ("Move", {"to": [1, 2, 3, 4]}),
    ("Move", {"to": [1, "2"]}),
    ("Move", {"to": [True, 2.0, 3.0]}),
    ("Move", {"to": {"x": 1, "y": 2, "z": 3}}),
    ("Move", {"to": "123", "position": [1, 2]}),
    ("RelationshipRemoved", {}),
    ("RelationshipRemoved", {"to_entity": "bob", "relationship_type": 1}),
    ("RelationshipSet", {"to_entity": "bob"}),
    ("RelationshipSet", {"relationship_type": "x"}),
    ("RelationshipSet", {"to_entity": "bob", "relationship_type": "x", "strength": "strong"}),
    ("RelationshipSet", {"to_entity": "bob", "relationship_type": "x", "strength": True}),
    ("RelationshipSet", {"to_entity": "bob", "relationship_type": "x", "metadata": []}),
    ("RelationshipSet", {"from_entity": 1, "to_entity": "bob", "relationship_type": "x"}),
    ("Speak", {}),
    ("Speak", {"text": None}),
    ("SpeakResponse", {"text": 1}),
]


@cases("said", MALFORMED, ids=lambda said: f"{said[0]} {str(said[1])[:60]}")
def test_what_cannot_be_read_is_counted_and_changes_nothing(said: Said) -> None:
    """A malformed effect leaves the world as it was, but for the count of such effects."""
    before = after(("EntityCreated", {"entity_id": "bob", "entity_data": {}}))
    fold = Fold("w", RULESET, before.copy_deep(), seq=0)
    assert fold.apply(effects_of([said])[0]) == ()
    assert told(fold.state) == told(before)
    assert fold.state.metadata["malformed_effects"] == 1


def test_an_entity_may_not_grow_beyond_its_limits_by_patches() -> None:
    """However often a patch doubles it, an entity stays within 1 MiB; each patch too many is malformed."""
    fold = Fold("w", RULESET)
    double = [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/a", "value": []}]
    double += [{"op": "move", "from": "/b", "path": "/a/0"}, {"op": "copy", "from": "/a/0", "path": "/a/1"}]
    said: list[Said] = [("EntityCreated", {"entity_id": "e", "entity_data": {"a": "x" * 1000}})]
    said += [("EntityUpdated", {"entity_id": "e", "patch": double})] * 20
    for effect in effects_of(said):
        fold.apply(effect)
    assert_sound(fold.state)
    assert 2**18 < len(fold.state.text()) < 2**20
    assert fold.state.metadata["malformed_effects"] > 5


def _touched(*said: Said) -> Touched:
    """Return what the last of some effects touched."""
    fold = Fold("w", RULESET)
    found: Touched = None
    for effect in effects_of(said):
        found = fold.apply(effect)
    return found


@cases(
    "said, touched",
    [
        (("EntityCreated", {"entity_id": "e", "entity_data": {}}), "e"),
        (("EntityUpdated", {"entity_id": "bob", "patch": []}), "bob"),
        (("EntityRemoved", {"entity_id": "bob"}), ("bob", "cy", "ann")),
        (("EntityRemoved", {"entity_id": "dan"}), "dan"),
        (("EntityRemoved", {"entity_id": "e"}), ()),
        (("Move", {"to": [1, 2]}), "ann"),
        (("Move", {"to": [1, 2], "agent_id": "bob"}), "bob"),
        (("Speak", {"text": ""}), "ann"),
        (("MessageEmitted", {"text": ""}), "ann"),
        (("Interact", {"target_id": "bob"}), ("ann", "bob")),
        (("RelationshipSet", {"from_entity": "x", "to_entity": "y", "relationship_type": "z"}), ("x", "y")),
        (("RelationshipRemoved", {"to_entity": "y"}), ("ann", "y")),
        (("Trade", {}), ()),
        (("StateDigest", {}), ()),
    ],
)
def test_a_handler_names_what_it_touched(said: Said, touched: Touched) -> None:
    """One entity by its id; of relationships both ends, which for a removal are all that were related."""
    before: list[Said] = [
        ("EntityCreated", {"entity_id": "bob", "entity_data": {}}),
        ("EntityCreated", {"entity_id": "dan", "entity_data": {}}),
        ("Interact", {"target_id": "bob"}),
        ("RelationshipSet", {"from_entity": "bob", "to_entity": "cy", "relationship_type": "x"}),
    ]
    found = _touched(*before, said)
    assert type(found) is type(touched)
    assert found == touched if isinstance(found, str) else set(found or ()) == set(touched or ())


def test_a_payload_that_is_no_object_is_no_effect_of_a_log() -> None:
    """The gate lets none through; if one stands there all the same, the fold says so by its own errors only."""
    effect: Effect = effects_of([("Move", {})])[0]
    effect["payload"] = []  # type: ignore[typeddict-item]
    with pytest.raises(TamperedError, match="not an effect"):
        Fold("w", RULESET).apply(effect)
