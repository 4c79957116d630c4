"""Hypothesis: whatever effects come, a sandbox world stays sound and the fold keeps its laws."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_sandbox.rules import RULESET

from worldledger.drafts import check_draft
from worldledger.errors import IllegalEffectError
from worldledger.folding import Fold
from worldledger.rulesets.base import MalformedEffectError
from worldledger.world import WorldState, state_text

from .worlds import ANY_SAID, KINDS, NAMES, SAID, Said, assert_sound, effects_of, payloads, told


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_handler_is_total(kind: str, data: st.DataObject) -> None:
    """Any payload that the gate lets through is folded or found malformed, and then nothing has changed."""
    fold = Fold("w", RULESET)
    for effect in effects_of(data.draw(st.lists(SAID, max_size=4))):
        fold.apply(effect)
    state = fold.state
    before = state.text()
    (effect,) = effects_of([(kind, data.draw(payloads(kind)), data.draw(NAMES))], fold.seq + 1)
    try:
        RULESET.handlers[kind](state, effect)
    except MalformedEffectError:
        assert state.text() == before
    assert_sound(state)


def _parts(state: WorldState) -> dict[str, dict[str, Any]]:
    details = state.metadata["relationships"]
    return {
        "entities": state.entities,
        "spatial_index": state.spatial_index,
        "relationships": state.relationships,
        "details": details,
    }


@settings(max_examples=200, deadline=None)
@given(st.lists(ANY_SAID, max_size=12))
def test_after_any_effects_the_world_is_sound(said: list[Said]) -> None:
    """The invariants hold after each effect, what changed was touched, and the effect itself is left as it was."""
    fold = Fold("w", RULESET)
    for effect in effects_of(said):
        before, given_effect = copy.deepcopy(_parts(fold.state)), copy.deepcopy(effect)
        touched = fold.apply(effect)
        assert_sound(fold.state)
        assert state_text(effect) == state_text(given_effect)
        if touched is None:
            continue
        named = {touched} if isinstance(touched, str) else set(touched)
        for part, now in _parts(fold.state).items():
            for name in now.keys() | before[part].keys():
                same = name in now and name in before[part] and state_text(now[name]) == state_text(before[part][name])
                assert same or name in named, (part, name, touched)


@settings(max_examples=200, deadline=None)
@given(st.lists(SAID, max_size=6), SAID)
def test_what_decide_lets_through_is_never_malformed(said: list[Said], last: Said) -> None:
    """A draft that the checks accept is folded, and decide changes neither the state nor the draft."""
    fold = Fold("w", RULESET)
    for effect in effects_of(said):
        fold.apply(effect)
    kind, payload, *source = last
    draft = check_draft(
        {"kind": kind, "payload": payload, "source_id": source[0] if source else "ann", "schema_version": "1.0.0"}
    )
    before = fold.state.text()
    malformed = fold.state.metadata["malformed_effects"]
    refusal = None
    try:
        assert RULESET.decide(draft, fold.state if kind in RULESET.stateful else None) is draft
    except IllegalEffectError as error:
        refusal = error
    assert fold.state.text() == before
    if refusal is not None:
        assert refusal.path.startswith("$.payload")
        assert refusal.details["rule"] in {"payload", "unknown_entity", "entity_exists", "patch", "self_interaction"}
        return
    fold.apply(effects_of([last], fold.seq + 1)[0])
    assert fold.state.metadata["malformed_effects"] == malformed


@settings(max_examples=100, deadline=None)
@given(st.lists(SAID, max_size=8))
def test_moving_first_and_last_is_moving_last(said: list[Said]) -> None:
    """A later Move alone says where its entity is: no other state hides between two effects."""
    here: Said = ("Move", {"to": [1, 2, 3]})
    there: Said = ("Move", {"to": [4, 5, 6]})
    states = []
    for moves in ([here, there], [there, there]):
        fold = Fold("w", RULESET)
        for effect in effects_of([*said, *moves]):
            fold.apply(effect)
        states.append(told(fold.state))
    assert states[0] == states[1]
