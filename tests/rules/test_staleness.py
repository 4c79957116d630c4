"""Staleness by its rules: what a delta shows, which settings count, and what the effects that set them leave behind."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.cases import cases
from worldledger.config import OrchestratorConfig, read_config
from worldledger.deltas import ObservationDelta
from worldledger.effects import Effect
from worldledger.errors import InvalidConfigError, InvalidEffectError
from worldledger.intents import check_intent, intent_draft, registration_draft
from worldledger.staleness import (
    NOT_GIVEN,
    Sight,
    Staleness,
    WorldStaleness,
    check_about,
    check_interrupt_policy,
    check_threshold,
    is_news,
    shown_by,
    stale_by,
    stale_reason,
)

from .test_core_kinds import registered, state_of


def delta(*paths: str, events: list[dict[str, Any]] | None = None) -> ObservationDelta:
    """Make a delta that replaces at these paths."""
    patches = [{"op": "replace", "path": path, "value": 1} for path in paths]
    return cast("ObservationDelta", {"view_seq": 9, "patches": patches, "events": events or []})


@cases(
    "reason, seq",
    [
        (stale_reason(43), 43),
        ("user_requested", None),
        ("stale_due_to_effect_", None),
        ("stale_due_to_effect_-1", None),
        (f"stale_due_to_effect_{'9' * 17}", None),
        ("stale_due_to_effect_\u0664", None),
        (None, None),
        (43, None),
    ],
)
def test_the_reason_of_what_is_stale_names_an_effect(reason: object, seq: int | None) -> None:
    """Any other reason, which may be what an agent or a foreign log says, names none."""
    assert stale_by(reason) == seq


def test_what_a_delta_shows() -> None:
    """The entities of its patches, unescaped, the sources of its events, and what their payloads name."""
    event = {"source_id": "bob", "payload": {"target_id": "ann", "entity_id": "box", "text": "eve", "agent_id": 7}}
    other = cast("Effect", {"kind": "Anything", "payload": {}})
    shown = shown_by(delta("/visible_entities/x/position/0", "/visible_relationships/a~1b~0c", events=[event]), other)
    assert shown is not None
    assert sorted(shown) == ["a/b~c", "ann", "bob", "box", "x"]
    assert shown_by(delta(), other) == frozenset()
    for whole in ("/visible_entities", "/visible_relationships", "/something/else", ""):
        assert shown_by(delta("/visible_entities/x", whole), other) is None


def test_a_relationship_is_shown_with_both_of_its_ends() -> None:
    """Who is related to whom is told of both, also where the relationship is gone and its end stands nowhere."""
    gone = cast(
        "ObservationDelta",
        {"view_seq": 9, "patches": [{"op": "remove", "path": "/visible_relationships/ann"}], "events": []},
    )
    removed = cast("Effect", {"kind": "RelationshipRemoved", "payload": {"from_entity": "ann", "to_entity": "bob"}})
    assert shown_by(gone, removed) == frozenset({"ann", "bob"})
    many = cast(
        "ObservationDelta",
        {
            "view_seq": 9,
            "patches": [{"op": "replace", "path": "/visible_relationships/ann", "value": ["bob", "eve"]}],
            "events": [],
        },
    )
    assert shown_by(many, removed) == frozenset({"ann", "bob"})
    assert shown_by(many, cast("Effect", {"kind": "Feast", "payload": {}})) == frozenset({"ann", "bob", "eve"})


def test_what_a_sighting_concerns() -> None:
    """An id that is named, or the agent itself; where everything is shown anew, everything."""
    assert Sight(9, frozenset({"x"})).concerns("ann", frozenset({"x", "y"}))
    assert Sight(9, frozenset({"ann"})).concerns("ann", frozenset())
    assert not Sight(9, frozenset({"x"})).concerns("ann", frozenset({"y"}))
    assert Sight(9, None).concerns("ann", frozenset())


def test_what_is_news() -> None:
    """An effect of another's, of a kind that is not the service's."""

    def effect(kind: str, source_id: str) -> Effect:
        return cast("Effect", {"kind": kind, "source_id": source_id})

    assert is_news(effect("Speak", "bob"), "ann")
    assert not is_news(effect("Speak", "ann"), "ann")
    assert not is_news(effect("AgentRegistered", "worldledger"), "ann")
    assert not is_news(effect("GenerationStarted", "bob"), "ann")


WORLD = WorldStaleness(2, "always", None)


@cases(
    "world, agent, given, expected",
    [
        (WORLD, {}, NOT_GIVEN, (2, "always", "world")),
        (WORLD, {"staleness_threshold": None}, NOT_GIVEN, (None, "always", "agent")),
        (
            WORLD,
            {"staleness_threshold": 7, "interrupt_policy": "only_conflict"},
            NOT_GIVEN,
            (7, "only_conflict", "agent"),
        ),
        (WORLD, {"staleness_threshold": 7}, None, (None, "always", "generation")),
        (WORLD, {"staleness_threshold": 7}, 0, (0, "always", "generation")),
        (WorldStaleness(2, "always", 5), {"staleness_threshold": 7}, NOT_GIVEN, (5, "always", "world")),
        (WorldStaleness(2, "always", 5), {}, None, (5, "always", "world")),
        (WorldStaleness(None, "only_conflict", 5), {}, NOT_GIVEN, (5, "only_conflict", "world")),
    ],
)
def test_the_most_specific_setting_counts(world: WorldStaleness, agent: Any, given: Any, expected: Any) -> None:
    """The intent's or generation's own, else the agent's, else the world's; the maximum counts for what is beyond."""
    assert world.of(agent, given, "generation") == Staleness(*expected)


def test_settings_that_are_none() -> None:
    """Thresholds, policies and names have their rules, and refusals name a path."""
    thresholds: list[Any] = [-1, 1.0, True, "1", 2**60]
    for wrong in thresholds:
        with pytest.raises(InvalidEffectError) as caught:
            check_threshold(wrong)
        assert caught.value.path == "$.staleness_threshold"
    policies: list[Any] = [None, "never", 1, ["always"]]
    for wrong in policies:
        with pytest.raises(InvalidEffectError):
            check_interrupt_policy(wrong)
    names: list[Any] = ["bob", 1, [1], ["x" * 201], {"bob": 1}]
    for wrong in names:
        with pytest.raises(InvalidEffectError):
            check_about(wrong)
    assert check_about(["b", "a", "b"]) == {"a", "b"}


def test_a_world_s_own_settings_are_within_its_maximum() -> None:
    """A configuration whose threshold exceeds its maximum is refused; what an old genesis lacks has its default."""
    assert OrchestratorConfig().staleness == (0, "always", None)
    assert read_config({"staleness_threshold": None}).staleness == (None, "always", None)
    for wanted in (None, 4):
        with pytest.raises(InvalidConfigError, match="exceeds max_staleness_threshold, 3"):
            read_config({"staleness_threshold": wanted, "max_staleness_threshold": 3})


# -- in the log --------------------------------------------------------------------------------------------


def test_an_agent_has_what_its_registration_says() -> None:
    """The settings stand in the state only where they are given, so that older states stay as they were."""
    spec = {"name": "default", "version": 1, "config": {}}
    plain = registration_draft("ann", spec)["payload"]
    assert plain.keys() == {"agent_id", "policy", "permissions", "weight"}
    set_so = registration_draft("ann", spec, None, 1, None, "only_conflict")["payload"]
    assert (set_so["staleness_threshold"], set_so["interrupt_policy"]) == (None, "only_conflict")
    known = state_of(("AgentRegistered", set_so)).metadata["agents"]["ann"]
    assert (known["staleness_threshold"], known["interrupt_policy"]) == (None, "only_conflict")
    anew = state_of(("AgentRegistered", set_so), ("AgentRegistered", plain)).metadata["agents"]["ann"]
    assert anew.keys() == {"policy", "permissions", "weight", "registered_seq"}


def test_a_world_s_settings_are_those_that_were_set_last() -> None:
    """Each by itself; before the first there is nothing of it in the state."""
    assert "staleness" not in state_of(registered()).metadata
    said = [
        ("WorldStalenessSet", {"staleness_threshold": 3, "max_staleness_threshold": 9}),
        ("WorldStalenessSet", {"staleness_threshold": None, "interrupt_policy": "only_conflict"}),
    ]
    told = {"staleness_threshold": None, "interrupt_policy": "only_conflict", "max_staleness_threshold": 9}
    assert state_of(*said).metadata["staleness"] == told
    assert WORLD.set_anew(told) == (None, "only_conflict", 9)
    assert WORLD.set_anew(None) == WORLD


@pytest.mark.parametrize(
    "payload", [{"staleness_threshold": -1}, {"max_staleness_threshold": "1"}, {"interrupt_policy": None}]
)
def test_what_cannot_be_read_changes_nothing(payload: dict[str, Any]) -> None:
    """It counts as malformed."""
    state = state_of(("WorldStalenessSet", payload))
    assert "staleness" not in state.metadata
    assert state.metadata["malformed_effects"] == 1


def test_an_effect_tells_what_its_intent_was_made_from() -> None:
    """Its context, null where none is known, and what the intent itself said of that."""
    intent = {"kind": "Speak", "payload": {"text": "hi"}, "req_id": "r", "agent_id": "ann"}
    assert intent_draft(check_intent(intent))["source_metadata"] == {"intent": "Speak", "context_seq": None}
    full = {**intent, "context_seq": 5, "about": ["y", "x"], "staleness_threshold": None}
    told = {"intent": "Speak", "context_seq": 5, "about": ["x", "y"], "staleness_threshold": None}
    assert intent_draft(check_intent(full))["source_metadata"] == told
    assert check_intent(check_intent(full).to_intent()) == check_intent(full)
