"""Sandbox worlds for tests: effects that mean something, effects that nearly do, and what must hold after any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import orjson
from hypothesis import strategies as st
from worldledger_sandbox.rules import RULESET

from tests.rules.chains import make_effect
from tests.rules.values import GOOD_JSON, GOOD_OBJECTS
from worldledger.canonical import gate
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.world import WorldState

#: A kind and its payload, from ann unless a third part says otherwise.
Said = tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], str]


def effects_of(said: Iterable[Said], start: int = 1) -> list[Effect]:
    """Make effects of a world w, one after the other."""
    return [
        cast(
            Effect,
            make_effect("w", seq, kind=one[0], payload=one[1], source_id=one[2] if len(one) == 3 else "ann"),
        )
        for seq, one in enumerate(said, start)
    ]


def after(*said: Said, state: WorldState | None = None) -> WorldState:
    """Return the state after some effects, none of which is malformed."""
    fold = Fold("w", RULESET, state)
    for effect in effects_of(said):
        fold.apply(effect)
    assert_sound(fold.state)
    assert fold.state.metadata["malformed_effects"] == fold.state.metadata["unknown_effects"] == 0
    return fold.state


def told(state: WorldState) -> dict[str, Any]:
    """Return what a state says of the world itself: everything but the core's own notes."""
    value = state.to_value()
    return {**value, "metadata": {"relationships": state.metadata["relationships"]}}


def assert_sound(state: WorldState) -> None:
    """Check what the sandbox keeps at all times."""
    for name, entity in state.entities.items():
        assert type(entity) is dict
        gate(entity)
        assert ("position" in entity) == (name in state.spatial_index)
    for name, point in state.spatial_index.items():
        assert type(point) is tuple
        assert [type(number) for number in point] == [float] * 3
        assert orjson.dumps(state.entities[name]["position"]) == orjson.dumps(point)
    details = state.metadata["relationships"]
    assert state.relationships == {name: sorted(ends) for name, ends in details.items()}
    for ends in details.values():
        assert ends
        for types in ends.values():
            assert types
            for detail in types.values():
                assert sorted(detail) == ["metadata", "strength"]
                assert type(detail["strength"]) is float
                assert type(detail["metadata"]) is dict
    seen: set[int] = set()
    assert_unshared(state.to_value(), seen)


def assert_unshared(value: Any, seen: set[int]) -> None:
    """Check that no member of a value stands in it twice."""
    if isinstance(value, dict | list):
        assert id(value) not in seen, f"shared: {value!r}"
        seen.add(id(value))
        for item in value.values() if isinstance(value, dict) else value:
            assert_unshared(item, seen)


# -- strategies ----------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["ann", "bob", "café", "a/b~c", "10", "9"])
_NUMBERS = st.floats(-1e6, 1e6).map(lambda number: number + 0.0 if number else 0.0) | st.integers(-5, 5)
_POINTS = st.lists(_NUMBERS, min_size=2, max_size=3)
_ENTITIES = st.fixed_dictionaries(
    {}, optional={"position": _POINTS, "hp": st.integers(0, 9), "bag": GOOD_JSON, "message_count": GOOD_JSON}
)
_POINTERS = st.sampled_from(["", "/", "/hp", "/bag", "/bag/0", "/bag/-", "/position", "/position/0", "/emit_count"])
_OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": _POINTERS},
    optional={"value": GOOD_JSON | _POINTS, "from": _POINTERS},
)
_FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "EntityCreated": {"entity_id": NAMES, "entity_data": _ENTITIES, "position": _POINTS},
    "EntityRemoved": {"entity_id": NAMES},
    "EntityUpdated": {"entity_id": NAMES, "patch": st.lists(_OPERATIONS, max_size=3)},
    "Interact": {"target_id": NAMES},
    "MessageEmitted": {"text": st.text("aé", max_size=3), "message": st.text("aé", max_size=3)},
    "Move": {"to": _POINTS, "position": _POINTS, "from": _POINTS, "speed": _NUMBERS, "agent_id": NAMES},
    "RelationshipRemoved": {"from_entity": NAMES, "to_entity": NAMES, "relationship_type": st.sampled_from("xy")},
    "RelationshipSet": {
        "from_entity": NAMES,
        "to_entity": NAMES,
        "relationship_type": st.sampled_from("xy"),
        "strength": _NUMBERS,
        "metadata": GOOD_OBJECTS,
    },
    "Speak": {"text": st.text("aé", max_size=3)},
    "SpeakResponse": {"text": st.text("aé", max_size=3)},
}
KINDS = sorted(_FIELDS)


def payloads(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Payloads of a kind: most say something, some lack a field or have nonsense in one, some are nonsense."""
    fields = _FIELDS[kind]
    nearly = {name: st.one_of(good, good, GOOD_JSON) for name, good in fields.items()}
    return st.one_of(
        st.fixed_dictionaries(fields), st.fixed_dictionaries({}, optional=nearly), GOOD_OBJECTS.map(lambda it: it)
    )


#: One effect of the vocabulary.
SAID: st.SearchStrategy[Said] = st.sampled_from(KINDS).flatmap(
    lambda kind: st.tuples(st.just(kind), payloads(kind), NAMES)
)

#: One effect of any kind: the vocabulary's, the service's, somebody else's.
ANY_SAID: st.SearchStrategy[Said] = st.one_of(
    SAID,
    SAID,
    st.tuples(st.sampled_from(["StateDigest", "IntentDenied", "AgentRegistered", "Trade"]), GOOD_OBJECTS, NAMES),
)
