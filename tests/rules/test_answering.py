"""What an agent is answered depends on what it was shown and what it asked for: the law, on generated worlds.

Two worlds differ in what one agent cannot see. It sends both the same intents, one by one and in lists that are
accepted as a whole or not at all. Where both refuse, they say the same, to the byte. Where only one does, it is because
the rules depend on hidden values, and the one text for that is all it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from worldledger_sandbox.rules import RULESET as SANDBOX
from worldledger_simulation.rules import RULESET as SIMULATION

from tests.rules.chains import make_effect
from tests.rulesets.sandbox.worlds import effects_of
from tests.rulesets.simulation.playing import KEY, Play, trade
from worldledger.answering import Answering, hidden_refusal, truth_of
from worldledger.drafts import check_draft
from worldledger.errors import IllegalEffectError, IntentConflictError, SimulationError
from worldledger.folding import Fold
from worldledger.intents import CheckedIntent, check_intent, intent_draft, registration_draft
from worldledger.latency import FixedLatency
from worldledger.observability import MatrixPolicy, MatrixPolicyConfig
from worldledger.observation import ObservationPolicy, PolicyConfig, ViewCone
from worldledger.policies import policy_spec
from worldledger.rulesets.base import Ruleset
from worldledger.validation import DefaultEffectValidator, judge_intent
from worldledger.world import WorldState

HIDDEN = hidden_refusal()


def bytes_of(error: SimulationError | None) -> bytes:
    """Return all that is told of a refusal, b"" of an intent that is accepted."""
    if error is None:
        return b""
    return orjson.dumps([type(error).__name__, error.code, error.recovery.value, error.message, error.details])


def answer(ruleset: Ruleset, state: WorldState, values: Sequence[dict[str, Any]]) -> SimulationError | None:
    """Judge intents together as the store does, each by what the ones before it leave behind; return the refusal."""
    fold = Fold("w", ruleset, WorldState.from_text(state.text()))
    intents = [check_intent(value) for value in values]
    telling = Answering(ruleset, DefaultEffectValidator()).about(intents)
    for index, intent in enumerate(intents):
        telling.judging(index, fold.state)
        try:
            draft = _judged(ruleset, telling.position, intent, fold.state)
        except SimulationError as error:
            if len(intents) > 1:
                error.details["index"] = index
            before = fold.state.text()
            told = telling.told(index, error, fold.state)
            assert fold.state.text() == before
            return told
        fold.apply(
            make_effect(  # type: ignore[arg-type]
                "w", fold.seq + 1, kind=draft.kind, payload=orjson.loads(draft.payload), source_id=draft.source_id
            )
        )
    return None


def _judged(ruleset: Ruleset, position: Any, intent: CheckedIntent, state: WorldState) -> Any:
    judge_intent(intent, state, DefaultEffectValidator(), position=position)
    if intent.kind == "Custom":
        ruleset.check_intent(intent.payload["kind"], intent.payload, intent.agent_id, state)
    draft = check_draft(intent_draft(intent))
    return ruleset.decide(draft, state if draft.kind in ruleset.stateful else None)


def holds(ruleset: Ruleset, one: WorldState, other: WorldState, lists: list[list[dict[str, Any]]]) -> None:
    """Check the law for two states that show the agent A the same."""
    for values in lists:
        said = [answer(ruleset, state, values) for state in (one, other)]
        told = [bytes_of(error) for error in said]
        if told[0] != told[1]:
            assert min(told) == b"", said
            assert max(told) == bytes_of(HIDDEN), [truth_of(error) for error in said if error]


_numbers = iter(range(10**9))


def intent(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Make an intent of A."""
    return {"kind": kind, "payload": payload, "agent_id": "A", "req_id": f"r{next(_numbers)}", "context_seq": 1}


def custom(kind: str, **payload: Any) -> dict[str, Any]:
    """Make an intent of a kind of its own."""
    return intent("Custom", {"kind": kind, **payload})


# -- sandbox -------------------------------------------------------------------------------------------------

_NAMES = ["A", "near", "far", "ghost", "new"]
_FIELDS = ["hp", "secret", "bag", "position"]
_VALUES = st.sampled_from([0, 1, 2.5, "x", [1, 2], {"food": 1}, [0.0, 0.0], None])
_POLICIES = st.sampled_from(
    [
        ObservationPolicy(PolicyConfig(distance_limit=10.0)),
        ObservationPolicy(PolicyConfig(field_visibility={"secret": False})),
        ObservationPolicy(PolicyConfig(field_visibility={"position": False, "bag": False}, distance_limit=10.0)),
        ObservationPolicy(PolicyConfig(relationship_filter=["knows"])),
        ObservationPolicy(PolicyConfig(view_cone=ViewCone(angle=90.0, direction=[1.0, 0.0]))),
        ObservationPolicy(PolicyConfig(latency_model=FixedLatency(5.0))),
        MatrixPolicy(
            MatrixPolicyConfig(
                targets={"A": ["insider", 0.5], "near": ["external", 0.3]},  # type: ignore[dict-item]
                default=("unaware", 0.0),  # type: ignore[arg-type]
                internal=["secret", "bag"],
                noise_key=KEY,
            )
        ),
        MatrixPolicy(
            MatrixPolicyConfig(default=("external", 0.0), internal=["secret", "position"], noise_key=KEY)  # type: ignore[arg-type]
        ),
    ]
)
_POINTERS = st.sampled_from(
    [
        "/hp",
        "/secret",
        "/secret/x",
        "/bag",
        "/bag/food",
        "/bag/gold",
        "/position",
        "/other",
        "",
        "/bag/-",
        "hp",
        "/hp/0",
    ]
)
_OPERATIONS = st.one_of(
    st.builds(
        lambda op, path, value: {"op": op, "path": path, "value": value},
        st.sampled_from(["add", "replace", "test"]),
        _POINTERS,
        _VALUES,
    ),
    st.builds(lambda path: {"op": "remove", "path": path}, _POINTERS),
    st.builds(
        lambda op, path, source: {"op": op, "path": path, "from": source},
        st.sampled_from(["copy", "move"]),
        _POINTERS,
        _POINTERS,
    ),
    st.just({"op": "jump"}),
)
_POINTS = st.sampled_from([[0, 0], [0.0, 0.0, 0.0], [1.0, 2.0], [50.0, 0.0]])
_SANDBOX_INTENTS = st.one_of(
    st.builds(
        lambda name, patch: custom("EntityUpdated", entity_id=name, patch=patch),
        st.sampled_from(_NAMES),
        st.lists(_OPERATIONS, max_size=3),
    ),
    st.builds(lambda name: custom("EntityRemoved", entity_id=name), st.sampled_from(_NAMES)),
    st.builds(
        lambda name, data: custom("EntityCreated", entity_id=name, entity_data=data),
        st.sampled_from(_NAMES),
        st.just({"hp": 1}),
    ),
    st.builds(lambda to, start: intent("Move", {"to": to, "from": start}), _POINTS, _POINTS),
    st.builds(lambda name: custom("RelationshipSet", to_entity=name, relationship_type=1), st.sampled_from(_NAMES)),
    st.just(custom("EntityUpdated", entity_id="near")),
)
_ENTITY = st.dictionaries(
    st.sampled_from(["hp", "secret", "bag"]),
    st.sampled_from([1, 2.5, "x", [1, 2], {"food": 1}, {"gold": 2, "food": 3}]),
)
_PLACES = st.sampled_from([None, [0.0, 0.0], [1.0, 2.0], [50.0, 0.0], [-5.0, 0.0], [99.0, 9.0]])
_WORLDS = st.dictionaries(st.sampled_from(["A", "near", "far", "ghost"]), st.tuples(_ENTITY, _PLACES))


def _sandbox(policy: ObservationPolicy, entities: dict[str, Any]) -> WorldState:
    registered = registration_draft("A", policy_spec(policy))
    said: list[Any] = [("AgentRegistered", registered["payload"], "worldledger")]
    for name in ("A", "near", "far", "ghost"):  # as many effects in each world
        data, place = entities.get(name, ({}, None))
        payload = {"entity_id": name, "entity_data": data} | ({} if place is None else {"position": place})
        said.append(("EntityCreated" if name in entities else "Nothing", payload, "god"))
    fold = Fold("w", SANDBOX)
    for effect in effects_of(said):
        fold.apply(effect)
    fold.state.metadata["unknown_effects"] = 0
    return fold.state


def _shown(state: WorldState, policy: ObservationPolicy) -> bytes:
    view = policy.filter_world_state(state, "A")
    return orjson.dumps([view.visible_entities, view.visible_relationships], option=orjson.OPT_SORT_KEYS)


@settings(max_examples=600, deadline=None)
@given(_POLICIES, _WORLDS, _WORLDS, st.data())
def test_a_sandbox_tells_nothing_of_what_is_hidden(
    policy: ObservationPolicy, one: dict[str, Any], other: dict[str, Any], data: st.DataObject
) -> None:
    """Entities out of sight, hidden fields, noised values: no refusal tells of them, in a list or alone."""
    if policy.latency_model.__class__ is FixedLatency:
        first, second = _sandbox(policy, one), _sandbox(policy, other)  # nothing has come to the agent yet
    else:
        # What is seen of one world is put into the other, so that nearly every pair shows the same.
        for name in data.draw(st.sets(st.sampled_from(_NAMES[:4]))):
            if name in one:
                other = {**other, name: one[name]}
            else:
                other = {key: value for key, value in other.items() if key != name}
        first, second = _sandbox(policy, one), _sandbox(policy, other)
        assume(_shown(first, policy) == _shown(second, policy))
    holds(SANDBOX, first, second, data.draw(st.lists(st.lists(_SANDBOX_INTENTS, min_size=1, max_size=3), max_size=6)))


def test_an_agent_that_sees_itself_late_is_not_told_where_it_stands() -> None:
    """Nor after a move of the same list, whether the list is refused for a reason that is hidden or is not refused."""
    policy = ObservationPolicy(PolicyConfig(latency_model=FixedLatency(5.0)))
    values = [
        custom("EntityRemoved", entity_id="A"),
        intent("Move", {"to": [0, 0], "from": [0, 0]}),
        intent("Move", {"to": [0, 0], "from": [1.0, 2.0]}),
    ]
    holds(SANDBOX, _sandbox(policy, {}), _sandbox(policy, {"A": ({}, None)}), [values])


# -- simulation ----------------------------------------------------------------------------------------------

_HIDDEN_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "note": st.sampled_from(["", "plan", "123456789"]),
    "bag": st.dictionaries(st.sampled_from(["food", "gold"]), st.just(1.5)),
    "past": st.lists(st.sampled_from(["a", "b"]), max_size=3),
    "place": st.sampled_from([[0.0, 0], [3.5, 4]]),
}
_VARIABLES = ["gold", "count", "awake", "mood", "place", "bag", "ranks", "past", "note", "health", "none", "name"]
_PATHS = st.builds(
    lambda name, rest: f"/{name}{rest}",
    st.sampled_from(_VARIABLES),
    st.sampled_from(["", "", "", "/food", "/gold", "/-", "/0", "/1", "/2", "/3", "/hp", "/x/y"]),
)
_PATCHES = st.lists(
    st.one_of(
        st.builds(
            lambda op, path, value: {"op": op, "path": path, "value": value},
            st.sampled_from(["add", "replace"]),
            _PATHS,
            st.sampled_from([1, 2.5, -1, 101, "x", "calm", True, None, [], ["a"], {}, {"food": 1.0}, "A"]),
        ),
        st.builds(lambda path: {"op": "remove", "path": path}, _PATHS),
        st.builds(lambda value: {"op": "replace", "path": "", "value": value}, st.sampled_from([{}, {"name": "A"}, 5])),
        st.builds(lambda path: {"op": "test", "path": path, "value": "plan"}, _PATHS),
    ),
    min_size=1,
    max_size=3,
)
_SIMULATION_INTENTS = st.one_of(
    st.builds(lambda patch: custom("AgentStateChanged", patch=patch), _PATCHES),
    st.builds(lambda patch: custom("AgentStateChanged", patch=patch), _PATCHES),
    st.builds(lambda turn: custom("AgentStateChanged", patch=[], turn=turn), st.integers(0, 2)),
    st.sampled_from(
        [
            custom("TurnEnded"),
            custom("AgentStateChanged", patch=[], agent_id="B"),
            custom("ReasoningRecorded", reasoning="x"),
            intent("Move", {"to": [5, 5], "from": [0, 0]}),
        ]
    ),
)


def _simulation(own: dict[str, Any], others: dict[str, Any], matrix: list[Any], paused: str, turns: int) -> Play:
    config = trade(agents=[{"name": "A", "state": own}, {"name": "B", "state": others}], engine={"actions_per_turn": 2})
    config["observability"]["matrix"] = matrix
    config["observability"]["variable_visibility"] = {"external": ["gold"], "internal": list(_HIDDEN_VALUES)}
    play = Play(config)
    play.post("TurnStarted")
    play.post("AgentPaused", agent_id=paused, turns=turns)
    return play


@settings(max_examples=400, deadline=None)
@given(
    st.fixed_dictionaries({}, optional=_HIDDEN_VALUES),
    st.fixed_dictionaries({}, optional=_HIDDEN_VALUES),
    st.sampled_from([[["A", "A", "external", 0.0]], [["A", "A", "external", 0.5]], [["A", "A", "unaware", None]]]),
    st.tuples(st.sampled_from("ABB"), st.sampled_from("ABB")),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.lists(st.lists(_SIMULATION_INTENTS, min_size=1, max_size=3), max_size=6),
)
def test_a_simulation_tells_nothing_of_what_is_hidden(
    one: dict[str, Any], other: dict[str, Any], matrix: Any, paused: Any, turns: Any, lists: list[list[dict[str, Any]]]
) -> None:
    """Neither keys, lengths and types of hidden variables of one's own, nor others' values, nor who is paused."""
    first = _simulation(one, other, matrix, paused[0], turns[0])
    second = _simulation(other, one, matrix, paused[1], turns[1])
    holds(SIMULATION, first.state, second.state, lists)


# -- examples ------------------------------------------------------------------------------------------------


def _patch(play: Play, *operations: dict[str, Any]) -> SimulationError | None:
    return answer(SIMULATION, play.state, [custom("AgentStateChanged", patch=list(operations))])


@pytest.fixture
def play() -> Play:
    """Return a simulation whose A is external of itself: its past, note, bag and place are hidden from it."""
    return _simulation({"bag": {"Ann": 1.0}, "past": ["a", "b", "c"]}, {}, [["A", "A", "external", 0.0]], "B", 1)


def test_what_is_shown_is_told_in_full_beside_what_is_hidden(play: Play) -> None:
    """A wrong value of a variable that the agent sees is named, and whether a hidden key is there is not."""
    wrong = {"op": "replace", "path": "/gold", "value": "x"}
    said = [_patch(play, {"op": "remove", "path": f"/bag/{name}"}, wrong) for name in ("Ann", "Bob")]
    assert isinstance(said[0], IllegalEffectError)
    assert said[0].details["rule"] == "variables"
    assert "agents[A].gold" in said[0].message
    assert bytes_of(said[0]) == bytes_of(said[1])
    there = _patch(play, {"op": "remove", "path": "/gold/x"})
    assert there is not None
    assert there.details["path"] == "$.payload.patch[0]"


def test_what_rests_on_hidden_values_has_one_text(play: Play) -> None:
    """A key that is not there, a list that is full, a value of another type; the operator has the true reason."""
    assert _patch(play, {"op": "remove", "path": "/bag/Ann"}) is None
    refused = [
        _patch(play, {"op": "remove", "path": "/bag/Bob"}),
        _patch(play, {"op": "add", "path": "/past/-", "value": "d"}),
        _patch(play, {"op": "add", "path": "/note/x", "value": "d"}),
        _patch(play, {"op": "replace", "path": "/note", "value": "far too long"}),
    ]
    assert {bytes_of(error) for error in refused} == {bytes_of(HIDDEN)}
    assert HIDDEN.details["rule"] == "hidden"
    truths = [truth_of(error) for error in refused if error is not None]
    assert [truth.details["rule"] for truth in truths] == ["patch", "variables", "patch", "variables"]
    assert "/bag/Bob" in truths[0].message


def test_a_list_is_told_of_by_what_its_intents_do(play: Play) -> None:
    """Each is judged by what the ones before it have done, as far as the agent is shown it."""
    good = custom("AgentStateChanged", patch=[{"op": "replace", "path": "/ranks", "value": {"1": 1}}])
    bad = custom("AgentStateChanged", patch=[{"op": "remove", "path": "/ranks/2"}])
    hidden = custom("AgentStateChanged", patch=[{"op": "remove", "path": "/bag/Bob"}])
    fine = custom("AgentStateChanged", patch=[{"op": "remove", "path": "/ranks/1"}])
    assert answer(SIMULATION, play.state, [good, fine]) is None
    error = answer(SIMULATION, play.state, [good, bad])
    assert isinstance(error, IllegalEffectError)
    assert (error.details["index"], error.details["rule"]) == (1, "patch")
    assert "there is nothing at /ranks/2" in error.message
    assert bytes_of(answer(SIMULATION, play.state, [good, hidden])) == bytes_of(HIDDEN)
    also = answer(SIMULATION, play.state, [hidden, bad])
    assert isinstance(also, IllegalEffectError)
    assert also.details["index"] == 1


def test_a_position_is_compared_with_what_was_shown() -> None:
    """A hidden one is not compared; of one with noise it is the one that was shown."""
    hidden = ObservationPolicy(PolicyConfig(field_visibility={"position": False}))
    noisy = MatrixPolicy(MatrixPolicyConfig(targets={"A": ["insider", 0.5]}, noise_key=KEY))  # type: ignore[dict-item]
    entities: dict[str, Any] = {"A": ({}, [33.0, 44.0])}
    move = intent("Move", {"to": [5, 5], "from": [0, 0]})
    assert answer(SANDBOX, _sandbox(hidden, entities), [move]) is None
    state = _sandbox(noisy, entities)
    shown = noisy.filter_world_state(state, "A").visible_entities["A"]["position"]
    assert shown != [33.0, 44.0, 0.0]
    error = answer(SANDBOX, state, [move])
    assert isinstance(error, IntentConflictError)
    assert error.details["actual_position"] == shown
    assert answer(SANDBOX, state, [intent("Move", {"to": [5, 5], "from": shown})]) is None
    exact = answer(SANDBOX, state, [intent("Move", {"to": [5, 5], "from": [33.0, 44.0]})])
    assert isinstance(exact, IntentConflictError)


def test_an_agent_that_is_shown_everything_is_told_everything() -> None:
    """In full, as operators are."""
    state = _sandbox(ObservationPolicy(), {"near": ({}, None)})
    error = answer(SANDBOX, state, [custom("EntityCreated", entity_id="near", entity_data={})])
    assert isinstance(error, IllegalEffectError)
    assert error.details["rule"] == "entity_exists"
    assert truth_of(error) is error
    assert deepcopy(state.text()) == state.text()
