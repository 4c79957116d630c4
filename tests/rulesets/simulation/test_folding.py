"""What becomes of a simulation's state: the laws of folding, and effects that nobody can read."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_simulation.rules import RULESET

from tests.cases import cases
from tests.rules.chains import chained, make_effect
from tests.rules.values import GOOD_JSON, GOOD_OBJECTS
from tests.rulesets.sandbox.worlds import assert_unshared
from worldledger.canonical import gate
from worldledger.effects import Effect
from worldledger.errors import IllegalEffectError
from worldledger.folding import Fold
from worldledger.rulesets.base import MalformedEffectError
from worldledger.world import WorldState, state_text

from .playing import AGENTS, Play, checked, plays, setting, trade

_NAMES = st.sampled_from([*AGENTS, "global", "engine", ""])
_PATCHES = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "test"]),
            "path": st.sampled_from(["", "/", "/gold", "/-"]),
        },
        optional={"value": GOOD_JSON},
    ),
    max_size=2,
)
_TURNS = st.integers(-1, 4)
_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "agent_id": _NAMES,
    "agents": st.dictionaries(_NAMES, st.fixed_dictionaries({"name": _NAMES}), max_size=2),
    "global_state": GOOD_OBJECTS,
    "model": st.text("aé", max_size=2),
    "patch": _PATCHES,
    "paused": st.dictionaries(_NAMES, st.none() | _TURNS, max_size=2),
    "reasoning": GOOD_JSON,
    "state": GOOD_OBJECTS | st.fixed_dictionaries({"name": _NAMES}),
    "token_count": _TURNS,
    "turn": _TURNS,
    "turns": _TURNS,
}
#: Payloads that say something, nearly say it, or say nothing.
_PAYLOADS = st.one_of(
    st.fixed_dictionaries({}, optional=_FIELDS),
    st.fixed_dictionaries({}, optional={name: field | GOOD_JSON for name, field in _FIELDS.items()}),
    st.fixed_dictionaries(_FIELDS),
)
_SAID = st.tuples(st.sampled_from(sorted(RULESET.handlers)), _PAYLOADS, st.sampled_from([*AGENTS, "engine"]))


def _sound(state: WorldState) -> None:
    """Check what a simulation keeps at all times, whatever its log has."""
    assert gate(state.to_value())
    simulation, turn = state.metadata["simulation"], state.metadata["turn"]
    assert type(turn) is int
    assert turn >= 0
    assert sorted(simulation) == [
        "acted", "actions_per_turn", "agents", "max_turns", "open", "variables", "variables_digest",
    ]  # fmt: skip
    begun = "global" in state.entities
    assert state.entities.keys() == ({*simulation["agents"], "global"} if begun else set())
    for name, entity in state.entities.items():
        assert type(entity) is dict
        assert name == "global" or entity["name"] == name
    assert simulation["acted"].keys() <= simulation["agents"].keys()
    for known in simulation["agents"].values():
        assert sorted(known) == ["paused", "resume_turn"]
        assert known["resume_turn"] is None or (known["paused"] and type(known["resume_turn"]) is int)
    assert state.spatial_index.keys() <= state.entities.keys()
    assert begun or not simulation["open"]
    assert_unshared(state.to_value(), set())


def _effect(play: Play, kind: str, payload: dict[str, Any], source: str) -> Effect:
    made: Any = make_effect("w", play.fold.seq + 1, kind=kind, payload=payload, source_id=source)
    return made  # type: ignore[no-any-return]


@settings(max_examples=150, deadline=None)
@given(st.lists(_SAID, min_size=1, max_size=12), st.booleans())
def test_any_log_is_folded(said: list[tuple[str, dict[str, Any], str]], begun: bool) -> None:
    """Any payload is folded or found malformed, and then nothing has changed; the effect itself stays as it was."""
    play = Play()
    if not begun:
        play.fold = Fold("w", RULESET)
        play.fold.apply(play.log[0])
    for kind, payload, source in said:
        effect = _effect(play, kind, payload, source)
        before, given_effect = play.state.copy_deep(), state_text(effect)
        malformed = play.state.metadata["malformed_effects"]
        touched = play.fold.apply(effect)
        _sound(play.state)
        assert state_text(effect) == given_effect
        assert touched is not None
        named = {touched} if isinstance(touched, str) else set(touched)
        if play.state.metadata["malformed_effects"] > malformed:
            assert not named
            for part in ("turn", "simulation"):
                assert state_text(play.state.metadata[part]) == state_text(before.metadata[part])
        for name in before.entities.keys() | play.state.entities.keys():
            same = state_text(before.entities.get(name)) == state_text(play.state.entities.get(name))
            assert same or name in named
        if play.state.metadata["turn"] != before.metadata["turn"]:
            assert named == set(play.state.entities)  # all may look different, since noise goes by the turn


@pytest.mark.parametrize("kind", sorted(RULESET.handlers))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_decide_lets_through_is_never_malformed(kind: str, data: st.DataObject) -> None:
    """A draft that is not refused is folded as it is written; deciding changes neither the state nor the draft."""
    play = Play()
    for _ in range(data.draw(st.integers(0, 2))):
        play.turn()
    payload, source = data.draw(_PAYLOADS), data.draw(st.sampled_from([*AGENTS, "engine"]))
    before = play.state.text()
    draft = checked(kind, payload, source, "r")
    given_payload = draft.payload
    try:
        decided = RULESET.decide(draft, play.state)
    except IllegalEffectError:
        assert play.state.text() == before
        return
    assert play.state.text() == before
    assert draft.payload == given_payload
    effect = _effect(play, kind, orjson.loads(decided.payload), source)
    RULESET.handlers[kind](play.state, effect)  # raises MalformedEffectError if it cannot read what was let through
    _sound(play.state)


@settings(max_examples=50, deadline=None)
@given(plays(), st.data())
def test_folding_in_two_parts_is_folding_at_once(play: Play, data: st.DataObject) -> None:
    """From any place on, also from a snapshot's text, the fold comes to the same bytes; so it does from stored rows."""
    place = data.draw(st.integers(1, len(play.log)))
    whole = play.state.text()
    first = Fold("w", RULESET)
    for effect in play.log[:place]:
        first.apply(effect)
    snapshot = Fold("w", RULESET, WorldState.from_text(first.state.text()), place)
    copy = first.copy()
    # Registrations are shared: they are replaced only.
    own = [{**each.state.to_value(), "metadata": {**each.state.metadata, "agents": None}} for each in (first, copy)]
    assert_unshared(own, set())
    for fold in (first, snapshot, copy):
        for effect in play.log[place:]:
            fold.apply(effect)
        assert fold.state.text() == whole
        _sound(fold.state)
    rows: Any = [dict(effect) for effect in play.log]
    fed = Fold("w", RULESET)
    fed.feed(chained(rows))
    assert fed.state.text() == whole


def test_what_was_handed_out_stays_as_it_is() -> None:
    """An entity is replaced, never changed: whoever has one from before has it still."""
    play = Play()
    play.turn()
    before = play.state.entities["Ann"]
    text = state_text(before)
    play.change("Ann", "/bag/food", 3)
    play.change("Ann", "/past", ["x"])
    assert state_text(before) == text
    assert play.state.entities["Ann"]["bag"] == {"food": 3.0}


@cases(
    "section, member, value",
    [
        ("simulation", "max_turns", "many"),
        ("simulation", "max_turns", True),
        ("engine", "actions_per_turn", 0),
        ("engine", "actions_per_turn", [1]),
    ],
)
def test_a_genesis_that_says_nonsense_sets_no_limit(section: str, member: str, value: Any) -> None:
    """An imported world's configuration may be anything: what is no limit is none, and intents are judged so."""
    play = Play()
    config: Any = play.config.to_value()
    config[section][member] = value
    fold = Fold("w", RULESET)
    fold.apply({**play.log[0], "payload": {**play.log[0]["payload"], "config": config}})
    for effect in play.log[1:]:
        fold.apply(effect)
    assert fold.state.metadata["simulation"][member] is None
    play.fold = fold
    play.turn()
    RULESET.check_intent("AgentStateChanged", {"patch": []}, "Ann", play.state)


@pytest.mark.parametrize("config", [{}, {"state_variables": 1, "engine": [], "simulation": None}, {"agents": "x"}])
def test_a_genesis_without_variables(config: dict[str, Any]) -> None:
    """A world whose configuration says nothing has no variables."""
    play = Play()
    fold = Fold("w", RULESET)
    fold.apply({**play.log[0], "payload": {"config": config}})
    begin: Any = {"turn": 0, "agents": {"Ann": {"name": "Ann"}}, "global_state": {}}
    RULESET.decide(checked("SimulationStarted", begin), fold.state)
    with pytest.raises(IllegalEffectError, match="gold"):
        RULESET.decide(checked("SimulationStarted", {**begin, "global_state": {"gold": 1}}), fold.state)
    fold.apply({**play.log[1], "payload": begin})
    _sound(fold.state)


def test_a_log_may_skip_turns_but_not_go_back() -> None:
    """What a log has of turns counts if it leads on: an open turn that is followed by another is over."""
    play = Play(trade(simulation={"name": "x"}))
    play.write("TurnStarted", {"turn": 3})
    play.post("AgentPaused", agent_id="Ann", turns=1)
    play.write("TurnStarted", {"turn": 7})
    assert play.state.metadata["turn"] == 7
    assert not play.simulation["agents"]["Ann"]["paused"]
    for kind, turn in (("TurnStarted", 7), ("TurnStarted", 2), ("TurnEnded", 6), ("TurnEnded", 8)):
        malformed = play.state.metadata["malformed_effects"]
        play.write(kind, {"turn": turn})
        assert play.state.metadata["malformed_effects"] == malformed + 1
    assert (play.state.metadata["turn"], play.simulation["open"]) == (7, True)
    play.write("TurnEnded", {"turn": 7})
    malformed = play.state.metadata["malformed_effects"]
    play.write("TurnEnded", {"turn": 7})
    assert play.state.metadata["malformed_effects"] == malformed + 1


def test_handlers_look_at_no_types() -> None:
    """A value that would be refused today may stand in a log: it is folded as the log has it."""
    play = Play()
    play.write("AgentStateChanged", {"patch": setting("/gold", "much")}, "Ann")
    assert play.state.entities["Ann"]["gold"] == "much"
    assert play.state.metadata["malformed_effects"] == 0
    with pytest.raises(MalformedEffectError):
        RULESET.handlers["AgentStateChanged"](play.state, _effect(play, "AgentStateChanged", {"patch": 1}, "Ann"))
