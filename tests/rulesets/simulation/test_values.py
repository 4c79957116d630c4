"""How values become exactly those of their variables' types, and that the log alone leads there."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_simulation.rules import RULESET

from tests.cases import cases
from tests.rules.values import same
from worldledger.canonical import canonical_json
from worldledger.drafts import REQUEST_DIGEST, check_draft, effect_body_digest, effect_text
from worldledger.errors import InvalidEffectError
from worldledger.patches import apply_patch
from worldledger.variables import dump_state, validate_state
from worldledger.world import state_text

from .playing import Play, checked, plays, setting, step, trade

#: Where, what is sent, and what it becomes.
TAKEN: list[tuple[str, Any, Any]] = [
    ("gold", "3.5", 3.5),
    ("gold", 5, 5.0),
    ("gold", "-0.0", 0.0),
    ("gold", True, 1.0),
    ("count", 5.0, 5),
    ("count", "5", 5),
    ("count", "5.0", 5),
    ("count", False, 0),
    ("awake", "no", False),
    ("awake", 1, True),
    ("awake", "true", True),
    ("mood", "angry", "angry"),
    ("place", ["1", 2.0], [1.0, 2]),
    ("bag", {"b": 1, "a": "2"}, {"a": 2.0, "b": 1.0}),
    ("ranks", {"-1": "3", "12": 4.0}, {"-1": 3, "12": 4}),
    ("past", ["x"], ["x"]),
    ("note", None, None),
    ("health", {"hp": 1}, {"hp": 1.0, "ill": None}),
    ("health", {"ill": "flu", "hp": "2.5"}, {"hp": 2.5, "ill": "flu"}),
]
#: What no coercion makes a value of its type.
NOT_TAKEN: dict[str, list[Any]] = {
    "gold": ["three", "nan", "inf", "1e999", None, [1], {}, -1, "101"],
    "count": [2.5, "2.5", -1, None, "9007199254740992", 1e300],
    "awake": [2, "maybe", None, 0.5],
    "mood": ["Angry", "", 1, None],
    "place": [[1], [1, 2, 3], [1, 2.5], {"0": 1}, "12", None],
    "bag": [[], {"a": None}, {"a": {}}, None],
    "ranks": [{"a": 1}, {"01": 1}, {"1.0": 1}, {"1": 1.5}],
    "past": [["x"] * 4, [1], "x", {}],
    "note": [1, "x" * 10, []],
    "health": [{}, {"hp": 10}, {"hp": 1, "pulse": 60}, None],
}


@cases("name, sent, kept", TAKEN)
def test_a_value_is_kept_as_its_type_has_it(name: str, sent: Any, kept: Any) -> None:
    """The effect says what the value has become, to the last byte, in whatever way it was set."""
    posted: list[tuple[str, dict[str, Any]]] = [
        ("AgentStateChanged", {"agent_id": "Ann", "patch": [{"op": "replace", "path": f"/{name}", "value": sent}]}),
        ("AgentStateChanged", {"agent_id": "Ann", "patch": setting("", {"name": "Ann", name: sent})}),
        ("AgentAdded", {"agent_id": "Eve", "state": {name: sent}}),
    ]
    for kind, payload in posted:
        play = Play()
        effect = play.post(kind, **payload)
        entity = play.state.entities[payload["agent_id"]]
        assert state_text(entity[name]) == state_text(kept)
        if kind == "AgentAdded":
            assert effect["payload"]["state"] == entity
    begun = Play(trade(agents=[{"name": "Ann", "state": {name: sent}}], observability=None))
    assert state_text(begun.state.entities["Ann"][name]) == state_text(kept)


@cases("name, sent", [(name, sent) for name, several in NOT_TAKEN.items() for sent in several])
def test_what_is_no_value_of_its_type(name: str, sent: Any) -> None:
    """What would have to be guessed is refused, and the path leads to it."""
    error = Play().refused("AgentStateChanged", "Ann", patch=setting(f"/{name}", sent))
    assert error.details["rule"] == "variables"
    for problem in error.details["problems"]:
        assert problem["path"].startswith(f"agents[Ann].{name}")


def test_numbers_that_json_cannot_be_sure_of_come_to_no_rule() -> None:
    """Integers beyond 53 bits, NaN and minus zero are refused by the gate, as everywhere; minus zero is zero to it."""
    for value in (2**53, float("nan"), float("inf")):
        with pytest.raises(InvalidEffectError, match=r"\$\.payload\.patch\[0\]\.value"):
            checked("AgentStateChanged", {"patch": setting("/gold", value)})


def test_what_is_exact_already_is_written_as_it_was_sent() -> None:
    """A patch that leads to exact values stays as it is: its tests, moves and steps, and whatever stands beside it."""
    play = Play()
    payload: dict[str, Any] = {
        "agent_id": None,
        "patch": [
            {"op": "test", "path": "/gold", "value": 50},
            {"op": "add", "path": "/past/-", "value": "a"},
            {"op": "copy", "from": "/past/0", "path": "/past/-"},
            {"op": "replace", "path": "/gold", "value": 49.0},
        ],
        "why": "x",
    }
    draft = checked("AgentStateChanged", payload, "Ann", "r1")
    assert RULESET.decide(draft, play.state) is draft
    rewritten = {**payload, "patch": [*payload["patch"], {"op": "replace", "path": "/count", "value": "7"}]}
    draft = RULESET.decide(checked("AgentStateChanged", rewritten, "Ann"), play.state)
    assert orjson.loads(draft.payload) == {
        "agent_id": None,
        "patch": [
            {"op": "replace", "path": "/count", "value": 7},
            {"op": "replace", "path": "/gold", "value": 49.0},
            {"op": "replace", "path": "/past", "value": ["a", "a"]},
        ],
        "why": "x",
    }


def test_what_is_taken_away_is_as_it_began() -> None:
    """A variable that a patch removes has its default again; one without a default cannot be removed."""
    config = trade(observability=None)
    config["state_variables"]["agent_vars"]["rank"] = {"type": "int"}
    config["agents"] = [{"name": "Ann", "state": {"gold": 50, "rank": 1}}]
    play = Play(config)
    effect = play.post("AgentStateChanged", "Ann", patch=[{"op": "remove", "path": "/gold"}])
    assert effect["payload"]["patch"] == [{"op": "replace", "path": "/gold", "value": 10.0}]
    error = play.refused("AgentStateChanged", "Ann", patch=[{"op": "remove", "path": "/rank"}])
    assert [problem["path"] for problem in error.details["problems"]] == ["agents[Ann].rank"]


def test_an_entity_may_not_grow_too_large_by_being_written_exactly() -> None:
    """A patch that fits, and whose exact values do not, is refused: an effect that nobody can fold is not written."""
    words = {"type": "list", "item_type": {"type": "list", "item_type": "float"}}
    variables = {name: dict(words) for name in ("a", "b")}
    play = Play({"simulation": {"name": "x"}, "agents": ["Ann"], "state_variables": {"agent_vars": variables}})
    numbers = [[1] * 260] * 1000  # 2 bytes each as sent, 4 as kept
    play.change("Ann", "/a", [[1] * 100] * 1000)
    error = play.refused("AgentStateChanged", "Ann", patch=setting("/b", numbers))
    assert error.details["rule"] == "patch"


# -- requests ------------------------------------------------------------------------------------------------


def test_a_rewritten_request_keeps_its_digest() -> None:
    """The digest of what was asked follows from the effect alone, though the payload is another."""
    play = Play()
    asked = checked("AgentStateChanged", {"patch": setting("/gold", "7")}, "Ann", "r1")
    written = RULESET.decide(asked, play.state)
    assert written.payload != asked.payload
    assert written.source_metadata is not None
    text = effect_text(written, world_id="w", global_seq=2, uuid="u", sim_time=0.0, wall_time=0.0)
    effect = orjson.loads(text)
    assert effect["source_metadata"] == {REQUEST_DIGEST: asked.body_digest().hex()}
    assert effect_body_digest(effect, text) == asked.body_digest()
    assert RULESET.decide(checked("AgentStateChanged", {"patch": setting("/gold", "7")}, "Ann"), play.state)[-1] is None


def test_a_request_without_a_number_of_its_turn_is_the_same_again() -> None:
    """TurnStarted without a turn is written with it; asked again, it is the same request."""
    play = Play()
    asked = checked("TurnStarted", {}, "engine", "r1")
    written = RULESET.decide(asked, play.state)
    assert written.payload == b'{"turn":1}'
    assert orjson.loads(written.source_metadata or b"")[REQUEST_DIGEST] == asked.body_digest().hex()


@cases("said", ["0" * 64, "", None, 1, "x"])
def test_nobody_says_what_a_request_was(said: Any) -> None:
    """A draft that brings the service's own member of source_metadata is refused."""
    draft = {"kind": "Said", "payload": {}, "source_id": "Ann", "schema_version": "1.0.0", "req_id": "r"}
    with pytest.raises(InvalidEffectError, match=r"\$\.source_metadata\.request_sha256"):
        check_draft({**draft, "source_metadata": {REQUEST_DIGEST: said}})


# -- laws ----------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(plays())
def test_every_value_is_exact(play: Play) -> None:
    """Whatever was posted, the state has the values that the models have: nothing is coerced a second time."""
    variables = play.config.state_variables
    assert play.state.metadata["malformed_effects"] == 0
    for name in play.simulation["agents"]:
        entity = play.state.entities[name]
        assert state_text(dump_state(validate_state(play.config.agent_model, entity))) == state_text(entity)
        assert entity.keys() == {"name", *variables.agent_vars}
    world = play.state.entities["global"]
    assert state_text(dump_state(validate_state(play.config.global_model, world))) == state_text(world)
    assert play.state.entities.keys() == {*play.simulation["agents"], "global"}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_stored_patch_alone_leads_there(data: st.DataObject) -> None:
    """Patches in the log, applied to entities as they were, give the entities as they are; no models are needed."""
    play = data.draw(plays(8))
    for _ in range(6):
        before = orjson.loads(canonical_json(play.state.entities))
        seq = play.fold.seq
        step(data.draw, play)
        if play.fold.seq == seq or play.log[-1]["kind"] not in {"AgentStateChanged", "GlobalStateChanged"}:
            continue
        effect = play.log[-1]
        name = "global"
        if effect["kind"] == "AgentStateChanged":
            name = effect["payload"].get("agent_id") or effect["source_id"]
        assert same(apply_patch(before[name], effect["payload"]["patch"]), play.state.entities[name])


@settings(max_examples=40, deadline=None)
@given(plays(10), st.data())
def test_what_is_written_is_written_as_it_is(play: Play, data: st.DataObject) -> None:
    """Deciding once more about what was decided changes nothing: a log that is posted anew is the same log."""
    step(data.draw, play)
    effect = play.log.pop()
    if effect["kind"] not in RULESET.checks or effect["kind"] == "SimulationStarted":
        return
    before = Play(play.config)
    for each in play.log[before.fold.seq :]:
        before.write(each["kind"], each["payload"], each["source_id"])
    draft = checked(effect["kind"], effect["payload"], effect["source_id"])
    assert RULESET.decide(draft, before.state).payload == canonical_json(effect["payload"])
