"""What becomes of a sandbox world by each kind of effect."""

from __future__ import annotations

from typing import Any

from worldledger_sandbox.rules import RULESET

from tests.cases import cases
from worldledger.canonical import MAX_INT
from worldledger.world import WorldState

from .worlds import KINDS, Said, after, told


def test_the_vocabulary_is_what_it_says() -> None:
    """The sandbox folds and checks exactly these kinds; its version is 1."""
    assert sorted(RULESET.handlers) == sorted(RULESET.checks) == KINDS
    assert (RULESET.name, RULESET.version) == ("sandbox", 1)


# -- entities ------------------------------------------------------------------------------------------------


@cases(
    "payload, entity, point",
    [
        ({"entity_data": {}}, {}, None),
        ({"entity_data": {"hp": 1}}, {"hp": 1}, None),
        ({"entity_data": {"position": [1, 2]}}, {"position": [1.0, 2.0, 0.0]}, (1.0, 2.0, 0.0)),
        ({"entity_data": {}, "position": [1.5, 2, -3]}, {"position": [1.5, 2.0, -3.0]}, (1.5, 2.0, -3.0)),
        ({"entity_data": {"position": [9, 9]}, "position": [1, 2, 3]}, {"position": [1.0, 2.0, 3.0]}, (1.0, 2.0, 3.0)),
        ({"entity_data": {"position": "here"}, "position": [1, 2]}, {"position": [1.0, 2.0, 0.0]}, (1.0, 2.0, 0.0)),
        ({"entity_data": {"hp": 2}, "position": None}, {"hp": 2}, None),
    ],
)
def test_an_entity_is_created(payload: dict[str, Any], entity: dict[str, Any], point: tuple[float, ...] | None) -> None:
    """The entity is its data; a position, from the payload or else from the data, is three floats in both places."""
    state = after(("EntityCreated", {"entity_id": "e", **payload}))
    assert state.entities == {"e": entity}
    assert state.spatial_index == ({} if point is None else {"e": point})


def test_creating_an_entity_again_replaces_it() -> None:
    """Nothing of the former entity is left, its position neither; its relationships stay."""
    state = after(
        ("EntityCreated", {"entity_id": "e", "entity_data": {"a": 1}, "position": [1, 2]}),
        ("Interact", {"target_id": "e"}),
        ("EntityCreated", {"entity_id": "e", "entity_data": {"b": 2}}),
    )
    assert state.entities == {"e": {"b": 2}}
    assert state.spatial_index == {}
    assert state.relationships == {"ann": ["e"], "e": ["ann"]}


def test_an_entity_is_removed_with_all_that_hangs_on_it() -> None:
    """Entity, place and relationships both ways are gone, as if they had never been."""
    before: list[Said] = [
        ("EntityCreated", {"entity_id": "x", "entity_data": {}, "position": [0, 0]}),
        ("RelationshipSet", {"from_entity": "x", "to_entity": "y", "relationship_type": "knows"}),
    ]
    state = after(
        *before,
        ("EntityCreated", {"entity_id": "e", "entity_data": {}, "position": [1, 2]}),
        ("Interact", {"target_id": "e"}),
        ("RelationshipSet", {"from_entity": "x", "to_entity": "e", "relationship_type": "fears"}),
        ("RelationshipSet", {"from_entity": "e", "to_entity": "e", "relationship_type": "doubts"}),
        ("EntityRemoved", {"entity_id": "e"}),
    )
    assert told(state) == told(after(*before))


def test_removing_an_unknown_entity_changes_nothing() -> None:
    """It is not malformed either; not even relationships of that id go."""
    assert told(after(("EntityRemoved", {"entity_id": "e"}))) == told(WorldState.initial())
    related = ("Interact", {"target_id": "e"})
    assert told(after(related, ("EntityRemoved", {"entity_id": "e"}))) == told(after(related))


@cases(
    "patch, entity",
    [
        ([], {"hp": 1, "position": [1.0, 2.0, 0.0]}),
        ([{"op": "replace", "path": "/hp", "value": 2}], {"hp": 2, "position": [1.0, 2.0, 0.0]}),
        ([{"op": "replace", "path": "/position/0", "value": 7}], {"hp": 1, "position": [7.0, 2.0, 0.0]}),
        ([{"op": "remove", "path": "/position/2"}], {"hp": 1, "position": [1.0, 2.0, 0.0]}),
        ([{"op": "remove", "path": "/position"}], {"hp": 1}),
        ([{"op": "replace", "path": "", "value": {"new": True}}], {"new": True}),
        ([{"op": "add", "path": "", "value": {"position": [4, 5, 6]}}], {"position": [4.0, 5.0, 6.0]}),
        ([{"op": "move", "from": "/hp", "path": "/health"}], {"health": 1, "position": [1.0, 2.0, 0.0]}),
    ],
)
def test_an_entity_is_patched(patch: list[Any], entity: dict[str, Any]) -> None:
    """The entity is what the patch makes of it, and the index goes with its position."""
    created: Said = ("EntityCreated", {"entity_id": "e", "entity_data": {"hp": 1}, "position": [1, 2]})
    assert after(created, ("EntityUpdated", {"entity_id": "e", "patch": patch})).entities == {"e": entity}


# -- movement and messages -----------------------------------------------------------------------------------


@cases(
    "payload, mover, position",
    [
        ({"to": [1.5, 2.5, 3.5]}, "ann", [1.5, 2.5, 3.5]),
        ({"to": [1.5, 2.5, 3]}, "ann", [1.5, 2.5, 3.0]),
        ({"to": [1, 2]}, "ann", [1.0, 2.0, 0.0]),
        ({"position": [1, 2, 3]}, "ann", [1.0, 2.0, 3.0]),
        ({"to": [1, 2], "position": "nonsense"}, "ann", [1.0, 2.0, 0.0]),
        ({"to": None, "position": [3, 4]}, "ann", [3.0, 4.0, 0.0]),
        ({"to": [1e308, 1e308, 1e308]}, "ann", [1e308, 1e308, 1e308]),
        ({"to": [1, 2], "agent_id": "bob"}, "bob", [1.0, 2.0, 0.0]),
        ({"to": [1, 2], "agent_id": ""}, "ann", [1.0, 2.0, 0.0]),
        ({"to": [1, 2], "agent_id": 7}, "ann", [1.0, 2.0, 0.0]),
        ({"to": [1, 2], "from": "nowhere", "speed": "fast"}, "ann", [1.0, 2.0, 0.0]),
    ],
)
def test_a_move_puts_its_entity_at_the_target(payload: dict[str, Any], mover: str, position: list[float]) -> None:
    """Who moves is there from then on, if it was not; from and speed do not matter."""
    state = after(("Move", payload))
    assert state.entities == {mover: {"position": position, "last_move_time": 0.25}}
    assert state.spatial_index == {mover: tuple(position)}


def test_a_move_leaves_the_rest_of_the_entity() -> None:
    """Only position and last_move_time change."""
    state = after(
        ("EntityCreated", {"entity_id": "ann", "entity_data": {"hp": 1}, "position": [1, 2]}), ("Move", {"to": [3, 4]})
    )
    assert state.entities == {"ann": {"hp": 1, "position": [3.0, 4.0, 0.0], "last_move_time": 0.5}}


def test_messages_are_counted_on_their_source() -> None:
    """Speak and SpeakResponse are one count, MessageEmitted another; last_message is the last of all."""
    state = after(
        ("Speak", {"text": "one"}),
        ("SpeakResponse", {"text": "two"}),
        ("MessageEmitted", {"text": "three", "message": 3}),
        ("MessageEmitted", {"message": ""}),
        ("Speak", {"text": "other"}, "bob"),
    )
    assert state.entities == {
        "ann": {"last_message": "", "last_speak_time": 0.5, "message_count": 2, "last_emit_time": 1.0, "emit_count": 2},
        "bob": {"last_message": "other", "last_speak_time": 1.25, "message_count": 1},
    }


@cases("count", ["many", None, True, 1.0, -1, [], MAX_INT])
def test_a_count_that_somebody_spoilt_begins_anew(count: Any) -> None:
    """Whatever an entity was created with, a message can be counted, and the number stays one that JSON keeps."""
    created: Said = ("EntityCreated", {"entity_id": "ann", "entity_data": {"message_count": count}})
    assert after(created, ("Speak", {"text": "hi"})).entities["ann"]["message_count"] == 1


# -- relationships -------------------------------------------------------------------------------------------


def test_an_interaction_relates_both_ways() -> None:
    """Adjacency and details, each way; neither end need be an entity."""
    state = after(("Interact", {"target_id": "bob"}), ("Interact", {"target_id": "aaron"}))
    detail = {"interact": {"strength": 1.0, "metadata": {}}}
    assert state.entities == {}
    assert state.relationships == {"ann": ["aaron", "bob"], "bob": ["ann"], "aaron": ["ann"]}
    assert state.metadata["relationships"] == {
        "ann": {"bob": detail, "aaron": detail},
        "bob": {"ann": detail},
        "aaron": {"ann": detail},
    }
    again = after(*[("Interact", {"target_id": "bob"})] * 2)
    assert told(again) == told(after(("Interact", {"target_id": "bob"})))


def test_a_relationship_is_set_one_way_and_set_anew() -> None:
    """Strength is a float, 1.0 if nobody says; source_id is where it comes from if nobody says."""
    state = after(
        ("RelationshipSet", {"to_entity": "bob", "relationship_type": "trusts"}),
        (
            "RelationshipSet",
            {"to_entity": "bob", "relationship_type": "owes", "strength": 3, "metadata": {"for": "figs"}},
        ),
        ("RelationshipSet", {"from_entity": "cy", "to_entity": "cy", "relationship_type": "doubts", "strength": -0.5}),
        ("RelationshipSet", {"to_entity": "bob", "relationship_type": "trusts", "strength": 0}),
    )
    assert state.relationships == {"ann": ["bob"], "cy": ["cy"]}
    assert state.metadata["relationships"] == {
        "ann": {
            "bob": {
                "trusts": {"strength": 0.0, "metadata": {}},
                "owes": {"strength": 3.0, "metadata": {"for": "figs"}},
            }
        },
        "cy": {"cy": {"doubts": {"strength": -0.5, "metadata": {}}}},
    }


def test_relationships_end_by_type_or_all_together() -> None:
    """One type leaves the others; the last one, or none named, leaves nothing; what is not there may end too."""
    x: Said = ("RelationshipSet", {"to_entity": "bob", "relationship_type": "x"})
    y: Said = ("RelationshipSet", {"to_entity": "bob", "relationship_type": "y"})
    other: Said = ("RelationshipSet", {"to_entity": "cy", "relationship_type": "x"})
    end_x: Said = ("RelationshipRemoved", {"to_entity": "bob", "relationship_type": "x"})
    end_all: Said = ("RelationshipRemoved", {"from_entity": "ann", "to_entity": "bob"})
    assert told(after(x, y, end_x)) == told(after(y))
    assert told(after(x, end_x)) == told(after())
    assert told(after(x, y, other, end_all)) == told(after(other))
    assert told(after(y, end_x)) == told(after(y))
    assert told(after(other, end_x, end_all)) == told(after(other))
