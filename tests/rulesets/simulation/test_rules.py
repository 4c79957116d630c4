"""What a simulation refuses before it becomes an effect, rule by rule, and what it lets through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from worldledger_simulation.rules import RULESET
from worldledger_simulation.rules.words import UNOBSERVED

from tests.cases import cases
from worldledger.errors import IllegalEffectError, RecoveryAction
from worldledger.folding import Fold
from worldledger.rulesets import load_ruleset

from .playing import Play, checked, setting, trade


def _at_first(_: Play) -> None:
    """Nothing has happened yet."""


def _in_turn(play: Play) -> None:
    play.turn()


def _after_turn(play: Play) -> None:
    play.turn()
    play.post("TurnEnded")


def _at_the_end(play: Play) -> None:
    for _ in range(4):
        play.turn()
    play.post("TurnEnded")


def _without_bob(play: Play) -> None:
    play.turn()
    play.post("AgentRemoved", agent_id="Bob")


#: When, kind, payload: the rule that refuses it, and the path that is named.
REFUSALS: list[tuple[Callable[[Play], None], str, dict[str, Any], str, str]] = [
    (_at_first, "SimulationStarted", {"turn": 0, "agents": {}, "global_state": {}}, "already_started", "$.kind"),
    (_in_turn, "SimulationStarted", {}, "already_started", "$.kind"),
    # turns
    (_in_turn, "TurnStarted", {}, "turn_open", "turn"),
    (_in_turn, "TurnStarted", {"turn": 2}, "turn_open", "turn"),
    (_after_turn, "TurnStarted", {"turn": 1}, "turn_order", "turn"),
    (_after_turn, "TurnStarted", {"turn": 3}, "turn_order", "turn"),
    (_after_turn, "TurnStarted", {"turn": "2"}, "payload", "turn"),
    (_after_turn, "TurnStarted", {"turn": 2.0}, "payload", "turn"),
    (_after_turn, "TurnStarted", {"turn": -1}, "payload", "turn"),
    (_at_the_end, "TurnStarted", {}, "max_turns", "turn"),
    (_at_the_end, "TurnStarted", {"turn": 5}, "max_turns", "turn"),
    (_at_first, "TurnEnded", {}, "turn_closed", "turn"),
    (_after_turn, "TurnEnded", {}, "turn_closed", "turn"),
    (_in_turn, "TurnEnded", {"turn": 2}, "turn_order", "turn"),
    (_in_turn, "TurnEnded", {"turn": True}, "payload", "turn"),
    # values
    (_in_turn, "AgentStateChanged", {"patch": []}, "unknown_agent", "agent_id"),  # by the engine
    (_in_turn, "AgentStateChanged", {"agent_id": "Eve", "patch": []}, "unknown_agent", "agent_id"),
    (_in_turn, "AgentStateChanged", {"agent_id": "global", "patch": []}, "unknown_agent", "agent_id"),
    (_in_turn, "AgentStateChanged", {"agent_id": "", "patch": []}, "payload", "agent_id"),
    (_in_turn, "AgentStateChanged", {"agent_id": "Ann"}, "payload", "patch"),
    (_in_turn, "AgentStateChanged", {"agent_id": "Ann", "patch": {}}, "payload", "patch"),
    (_in_turn, "AgentStateChanged", {"agent_id": "Ann", "patch": [{"op": "jump"}]}, "patch", "patch[0]"),
    (
        _in_turn,
        "AgentStateChanged",
        {"agent_id": "Ann", "patch": [*setting("/gold", 1), {"op": "test", "path": "/gold", "value": 2}]},
        "patch",
        "patch[1]",
    ),
    (_in_turn, "AgentStateChanged", {"agent_id": "Ann", "patch": setting("", [])}, "patch", "patch"),
    (_in_turn, "AgentStateChanged", {"agent_id": "Ann", "patch": setting("/name", "Bob")}, "name", "patch"),
    (
        _in_turn,
        "AgentStateChanged",
        {"agent_id": "Ann", "patch": [{"op": "remove", "path": "/name"}]},
        "name",
        "patch",
    ),
    (_in_turn, "AgentStateChanged", {"agent_id": "Ann", "patch": setting("/gold", 101)}, "variables", "$.payload"),
    (_in_turn, "GlobalStateChanged", {"patch": setting("/price", 0)}, "variables", "$.payload"),
    (_in_turn, "GlobalStateChanged", {"patch": setting("/name", "x")}, "variables", "$.payload"),
    (_in_turn, "GlobalStateChanged", {"patch": None}, "payload", "patch"),
    # reasons
    (_in_turn, "ReasoningRecorded", {"agent_id": "Ann"}, "payload", "reasoning"),
    (_in_turn, "ReasoningRecorded", {"agent_id": "Ann", "reasoning": 1}, "payload", "reasoning"),
    (_in_turn, "ReasoningRecorded", {"agent_id": "Ann", "reasoning": "x", "model": ""}, "payload", "model"),
    (_in_turn, "ReasoningRecorded", {"agent_id": "Ann", "reasoning": "x", "token_count": -1}, "payload", "token_count"),
    (_in_turn, "ReasoningRecorded", {"reasoning": "x"}, "unknown_agent", "agent_id"),
    (_without_bob, "ReasoningRecorded", {"agent_id": "Bob", "reasoning": "x"}, "unknown_agent", "agent_id"),
    # who is there
    (_in_turn, "AgentAdded", {}, "payload", "agent_id"),
    (_in_turn, "AgentAdded", {"agent_id": "Ann"}, "agent_exists", "agent_id"),
    (_in_turn, "AgentAdded", {"agent_id": "global"}, "agent_exists", "agent_id"),
    (_in_turn, "AgentAdded", {"agent_id": "worldledger"}, "name", "agent_id"),
    (_in_turn, "AgentAdded", {"agent_id": "Eve", "state": {"name": "Ann"}}, "name", "state"),
    (_in_turn, "AgentAdded", {"agent_id": "Eve", "state": []}, "payload", "state"),
    (_in_turn, "AgentAdded", {"agent_id": "Eve", "state": {"gold": -1}}, "variables", "$.payload"),
    (_in_turn, "AgentAdded", {"agent_id": "Eve", "state": {"silver": 1}}, "variables", "$.payload"),
    (_without_bob, "AgentRemoved", {"agent_id": "Bob"}, "unknown_agent", "agent_id"),
    (_without_bob, "AgentStateChanged", {"agent_id": "Bob", "patch": []}, "unknown_agent", "agent_id"),
    (_without_bob, "AgentPaused", {"agent_id": "Bob"}, "unknown_agent", "agent_id"),
    (_without_bob, "AgentResumed", {"agent_id": "Bob"}, "unknown_agent", "agent_id"),
    (_in_turn, "AgentRemoved", {}, "payload", "agent_id"),
    (_in_turn, "AgentPaused", {"agent_id": "Ann", "turns": 0}, "payload", "turns"),
    (_in_turn, "AgentPaused", {"agent_id": "Ann", "turns": 1.0}, "payload", "turns"),
    (_in_turn, "AgentResumed", {"agent_id": "global"}, "unknown_agent", "agent_id"),
]


@cases("when, kind, payload, rule, path", REFUSALS)
def test_what_is_refused(
    when: Callable[[Play], None], kind: str, payload: dict[str, Any], rule: str, path: str
) -> None:
    """The error names the rule that was broken and the value that breaks it; the state stays as it was."""
    play = Play()
    when(play)
    error = play.refused(kind, **payload)
    assert (error.code, error.recovery) == ("illegal_effect", RecoveryAction.MODIFY_INTENT)
    assert error.details["rule"] == rule
    assert error.details["path"] == (path if path.startswith("$") else f"$.payload.{path}")
    assert error.reason


def test_every_kind_is_refused_somehow() -> None:
    """There is no kind without a rule; all are judged by the state, and only those of turns and pauses are seen."""
    kinds = {kind for _, kind, _, _, _ in REFUSALS}
    assert kinds == set(RULESET.checks) == set(RULESET.handlers) == RULESET.stateful
    assert set(RULESET.handlers) - RULESET.unobserved == {"TurnStarted", "TurnEnded"}
    assert RULESET.unobserved == UNOBSERVED
    assert load_ruleset("simulation") is RULESET
    assert RULESET.records_rejections


@cases("kind", sorted(RULESET.handlers))
def test_nothing_happens_before_the_beginning(kind: str) -> None:
    """Before SimulationStarted everything else is refused, and malformed where a log has it all the same."""
    play = Play()
    fold = Fold("w", RULESET)
    fold.apply(play.log[0])
    payloads: dict[str, dict[str, Any]] = {
        "SimulationStarted": {"turn": -1},
        "TurnStarted": {"turn": 1},
        "TurnEnded": {"turn": 0},
        "AgentAdded": {"agent_id": "Eve", "state": {"name": "Eve"}},
        "AgentStateChanged": {"agent_id": "Ann", "patch": []},
        "GlobalStateChanged": {"patch": []},
        "ReasoningRecorded": {"agent_id": "Ann", "reasoning": ""},
    }
    payload = payloads.get(kind, {"agent_id": "Ann"})
    with pytest.raises(IllegalEffectError) as caught:
        RULESET.decide(checked(kind, payload), fold.state)
    assert caught.value.details["rule"] in {"not_started", "unknown_agent", "payload", "turn_closed"}
    before = fold.state.to_value()
    effect: Any = {**play.log[1], "kind": kind, "payload": payload}
    fold.apply(effect)
    assert fold.state.metadata["malformed_effects"] == 1
    for part in ("entities", "spatial_index"):
        assert fold.state.to_value()[part] == before[part] == {}
    assert fold.state.metadata["turn"] == 0
    assert not fold.state.metadata["simulation"]["open"]


def test_all_that_is_wrong_with_values_is_told_at_once() -> None:
    """Each value has its dot path and its message, in the text and in the details."""
    play = Play()
    patch = [*setting("/gold", 101), *setting("/place", [1]), *setting("/bag", {"food": "much"}), *setting("/x", 1)]
    error = play.refused("AgentStateChanged", "Ann", patch=patch)
    paths = [problem["path"] for problem in error.details["problems"]]
    assert paths == ["agents[Ann].bag.food", "agents[Ann].gold", "agents[Ann].place[1]", "agents[Ann].x"]
    for problem in error.details["problems"]:
        assert f"{problem['path']}: {problem['message']}" in error.reason
    error = play.refused("GlobalStateChanged", patch=setting("/price", "dear"))
    assert [problem["path"] for problem in error.details["problems"]] == ["global_state.price"]
    error = play.refused("AgentAdded", agent_id="a/b", state={"past": ["x"] * 4})
    message = "List exceeds maximum size of 3 items (got 4 items) at field 'agents[a/b].past'"
    assert error.reason == f"agents[a/b].past: {message}"
    assert error.details["problems"] == [{"path": "agents[a/b].past", "message": message}]
    error = play.refused("AgentAdded", agent_id="Dan", state={"bag": {"a.b": "much", "c[0]": "much", "": "much"}})
    assert [problem["path"] for problem in error.details["problems"]] == [
        f"agents[Dan].bag[{key}]" for key in ('""', '"a.b"', '"c[0]"')
    ]


def test_a_play_from_beginning_to_end() -> None:
    """Turns follow one another until there are as many as there are to be; the state says where it is."""
    play = Play()
    assert (play.state.metadata["turn"], play.simulation["open"]) == (0, False)
    for turn in range(1, 5):
        assert play.post("TurnStarted", note="x")["payload"] == {"turn": turn, "note": "x"}
        assert (play.state.metadata["turn"], play.simulation["open"]) == (turn, True)
        assert play.post("TurnEnded", turn=turn)["payload"] == {"turn": turn}
        assert (play.state.metadata["turn"], play.simulation["open"]) == (turn, False)
    assert play.simulation["max_turns"] == 4


def test_without_a_limit_turns_go_on() -> None:
    """Where no limit is configured there is none."""
    play = Play(trade(simulation={"name": "long"}, engine={}))
    for _ in range(30):
        play.turn()
    for _ in range(30):
        RULESET.check_intent("AgentStateChanged", {"patch": []}, "Ann", play.state)
        play.change("Ann", "/gold", 1.0)
    assert play.state.metadata["turn"] == play.simulation["acted"]["Ann"] == 30


# -- who is there --------------------------------------------------------------------------------------------


def test_agents_come_and_go() -> None:
    """Who is added begins with the defaults and what is given; removed, it leaves nothing; it may come back."""
    play = Play()
    play.turn()
    added = play.post("AgentAdded", agent_id="Eve", state={"gold": "7", "place": [1, "2"]})
    assert added["payload"]["state"] == play.state.entities["Eve"]
    assert play.state.entities["Eve"] == {
        **play.state.entities["Bob"],
        "name": "Eve",
        "gold": 7.0,
        "place": [1.0, 2],
    }
    play.change("Eve", "/note", "hi")
    assert play.simulation["acted"] == {"Eve": 1}
    play.post("AgentPaused", agent_id="Eve")
    play.post("AgentRemoved", agent_id="Eve")
    assert "Eve" not in play.state.entities
    assert "Eve" not in play.simulation["agents"]
    assert play.simulation["acted"] == {}
    play.post("AgentAdded", agent_id="Eve")
    assert play.state.entities["Eve"]["note"] is None
    assert play.simulation["agents"]["Eve"] == {"paused": False, "resume_turn": None}


def test_everybody_may_go() -> None:
    """A simulation without agents goes on."""
    play = Play()
    for name in ("Ann", "Bob", "Café"):
        play.post("AgentRemoved", agent_id=name)
    play.turn()
    play.post("GlobalStateChanged", patch=setting("/price", 3))
    assert play.state.entities == {"global": {"price": 3.0, "season": None}}
    play.post("AgentAdded", agent_id="Ann")


@cases("when, first", [(_at_first, 1), (_in_turn, 1), (_after_turn, 2)])
@cases("turns", [1, 2])
def test_a_pause_has_its_turns(when: Callable[[Play], None], first: int, turns: int) -> None:
    """Somebody is paused for so many turns, the open one being the first, and goes on by itself."""
    play = Play()
    when(play)
    play.post("AgentPaused", agent_id="Ann", turns=turns)
    while play.state.metadata["turn"] < 4:
        if play.simulation["open"]:
            paused = play.simulation["agents"]["Ann"]["paused"]
            assert paused == (first <= play.state.metadata["turn"] < first + turns)
        play.turn()
    assert play.simulation["agents"]["Ann"] == {"paused": False, "resume_turn": None}


def test_a_pause_without_end_is_ended_by_resuming() -> None:
    """Without a number of turns somebody waits to be resumed; a later pause takes the place of an earlier one."""
    play = Play()
    play.post("AgentPaused", agent_id="Ann", turns=1)
    play.post("AgentPaused", agent_id="Ann")
    play.post("AgentPaused", agent_id="Bob", turns=2**53 - 1)
    for _ in range(3):
        play.turn()
    assert play.simulation["agents"]["Ann"] == {"paused": True, "resume_turn": None}
    assert play.simulation["agents"]["Bob"] == {"paused": True, "resume_turn": 2**53 - 1}
    play.post("AgentResumed", agent_id="Ann")
    play.post("AgentResumed", agent_id="Café")  # who is not paused
    assert play.simulation["agents"]["Ann"] == {"paused": False, "resume_turn": None}


def test_reasoning_is_in_no_state() -> None:
    """What somebody thinks changes nothing but what the fold notes of every effect."""
    play = Play()
    before = play.state.copy_deep()
    play.post("ReasoningRecorded", "Ann", reasoning={"why": ["because"]}, model="m", token_count=7, more=1)
    play.post("ReasoningRecorded", agent_id="Bob", reasoning="")
    after = play.state
    assert after.entities == before.entities
    assert after.metadata["simulation"] == before.metadata["simulation"]
    assert b"because" not in after.text()


# -- where things stand --------------------------------------------------------------------------------------


def test_a_position_is_one_in_space() -> None:
    """An agent whose variable ``position`` has two or three numbers stands there; one that has none stands nowhere."""
    position = {"type": "tuple", "item_types": ["float", "int"], "default": [1, 2]}
    play = Play(
        {
            "simulation": {"name": "space"},
            "agents": ["Ann"],
            "state_variables": {
                "agent_vars": {"position": position},
                "global_vars": {"position": {"type": "str", "default": "far"}},
            },
        }
    )
    assert play.state.spatial_index == {"Ann": (1.0, 2.0, 0.0)}
    play.post("AgentStateChanged", "Ann", patch=[{"op": "replace", "path": "/position/0", "value": "5"}])
    assert play.state.spatial_index == {"Ann": (5.0, 2.0, 0.0)}
    play.post("AgentRemoved", agent_id="Ann")
    assert play.state.spatial_index == {}
