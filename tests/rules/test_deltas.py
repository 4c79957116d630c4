"""Deltas: dicts whose members are attributes too; and deltas that replace the whole view."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any, cast

import orjson
import pytest

from tests.cases import cases
from worldledger.deltas import ObservationDelta, ObservedEvent, View, apply_delta, collapse
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.intents import registration_draft
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec, register_policy
from worldledger.rulesets import load_ruleset
from worldledger.views import Views


def delta(**more: Any) -> ObservationDelta:
    """Make a delta."""
    event = {"global_seq": 7, "kind": "Said", "source_id": "b", "sim_time": 1.0, "payload": {}, "schema_version": "1"}
    patches = [{"op": "add", "path": "/visible_entities/x", "value": {"hp": 1}}]
    return ObservationDelta(
        view_seq=7, patches=patches, context_digest="d", schema_version="1.0.0", events=[event], **more
    )


def test_members_are_attributes() -> None:
    """Each member of a delta is an attribute of the same name; what a single delta leaves out has its usual value."""
    one = delta()
    assert {name: getattr(one, name) for name in one} == one
    assert one.view_seq == one["view_seq"] == 7
    assert (one.collapsed, one.events_dropped) == (1, 0)
    several = delta(collapsed=3, events_dropped=2)
    assert (several.collapsed, several.events_dropped) == (3, 2)


def test_other_attributes_are_none() -> None:
    """An unknown attribute is an AttributeError, and none can be set."""
    one: Any = delta()
    with pytest.raises(AttributeError):
        _ = one.view
    with pytest.raises(AttributeError):
        one.view = 1
    with pytest.raises(AttributeError):
        one.view_seq = 1


@cases(
    "again",
    [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), ObservationDelta.copy],
    ids=["copy", "deepcopy", "pickle", "copied"],
)
def test_copies_are_deltas(again: Callable[[ObservationDelta], ObservationDelta]) -> None:
    """A copy, however it is made, is equal and has the attributes."""
    one = delta(collapsed=2)
    made = again(one)
    assert type(made) is ObservationDelta
    assert made is not one
    assert made == one
    assert made.view_seq == 7


def test_json_is_that_of_a_dict() -> None:
    """A delta is written as any dict of its members is."""
    one = delta()
    assert isinstance(one, dict)
    assert json.loads(json.dumps(one)) == orjson.loads(orjson.dumps(one)) == dict(one)


# -- patches that are too long -------------------------------------------------------------------------------


@register_policy("test-tells-updates")
class TellsUpdates(ObservationPolicy):
    """Tells of every effect as an event."""

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: Any) -> bool:
        """Observe all."""
        return True

    def show_event(self, effect: Effect) -> ObservedEvent | None:
        """Show the kind."""
        told: dict[str, Any] = {name: value for name, value in effect.items() if name in ObservedEvent.__annotations__}
        return cast("ObservedEvent", told)


def _effect(seq: int, kind: str, payload: dict[str, Any], source_id: str = "w") -> Effect:
    rest = {"uuid": f"{seq:032}", "schema_version": "1.0.0", "sim_time": 0.0, "wall_time": 0.0, "priority": 0}
    said = {"global_seq": seq, "kind": kind, "payload": payload, "source_id": source_id, "world_id": "w"}
    return cast("Effect", {**said, **rest})


def _story(most: int | None) -> tuple[list[ObservationDelta], list[View]]:
    """Show two agents an entity whose fields change, one more each time; return what one of them observes."""
    views = Views(Fold("w", load_ruleset("sandbox")), max_patch_ops=most)
    fields = {f"f{n}": 0 for n in range(5)}
    for seq, agent_id in ((1, "ann"), (2, "bob")):
        draft = registration_draft(agent_id, policy_spec(TellsUpdates()))
        views.apply(_effect(seq, draft["kind"], draft["payload"], draft["source_id"]))
    views.apply(_effect(3, "EntityCreated", {"entity_id": "lamp", "entity_data": fields}))
    seen = [views.attach("ann")]
    views.attach("bob")
    deltas = []
    for seq, count in enumerate(range(1, 6), 4):
        patch = [{"op": "replace", "path": f"/f{n}", "value": seq} for n in range(count)]
        ann, bob = views.apply(_effect(seq, "EntityUpdated", {"entity_id": "lamp", "patch": patch}))
        assert (ann.agent_id, bob.agent_id) == ("ann", "bob")
        assert ann.delta["patches"] == bob.delta["patches"]
        deltas.append(ann.delta)
        seen.append(views.view("ann"))
    return deltas, seen


def test_a_patch_with_too_many_operations_replaces_the_view() -> None:
    """Up to the limit the operations come as they are; beyond it two replace all that is seen; the rest stays."""
    plain, views = _story(None)
    short, same = _story(3)
    assert views == same
    assert [len(each["patches"]) for each in plain] == [1, 2, 3, 4, 5]
    assert short[:3] == plain[:3]
    for before, after, one, other in zip(views, views[1:], short, plain, strict=False):
        assert apply_delta(before, one) == after
        assert ObservationDelta(one, patches=[]) == ObservationDelta(other, patches=[])
        assert len(one.events) == 1
    for one, after in zip(short[3:], views[4:], strict=True):
        assert one.patches == [
            {"op": "replace", "path": "/visible_entities", "value": after.visible_entities},
            {"op": "replace", "path": "/visible_relationships", "value": after.visible_relationships},
        ]


def test_a_replaced_view_goes_together_with_what_follows() -> None:
    """Deltas among which are such that replace the view collapse into one that leads to the same."""
    deltas, views = _story(3)
    assert apply_delta(views[0], collapse(deltas)) == views[-1]
    assert apply_delta(views[2], collapse(deltas[2:])) == views[-1]


def test_a_view_is_not_taken_back_by_an_older_delta() -> None:
    """A delta that lies before the view is refused, also where its operations would change nothing."""
    deltas, views = _story(None)
    with pytest.raises(ValueError, match="older than the view"):
        apply_delta(views[-1], deltas[-2])
    nothing = ObservationDelta(deltas[-2], patches=[], context_digest=views[-1].context_digest)
    with pytest.raises(ValueError, match="skip it"):
        apply_delta(views[-1], nothing)
