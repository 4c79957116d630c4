"""What agents may intend in a simulation."""

from __future__ import annotations

from typing import Any

from worldledger_simulation.rules import RULESET

from tests.cases import cases
from worldledger.errors import IllegalEffectError

from .playing import Play, setting

CHANGE: dict[str, Any] = {"kind": "AgentStateChanged", "patch": []}


def _intended(play: Play, agent: str, payload: dict[str, Any]) -> str | None:
    """Return the rule that refuses an intent, None if none does; nothing has changed by asking."""
    before = play.state.text()
    try:
        RULESET.check_intent(payload["kind"], payload, agent, play.state)
    except IllegalEffectError as error:
        rule: str = error.details["rule"]
        return rule
    finally:
        assert play.state.text() == before
    return None


@cases("kind", sorted(set(RULESET.checks) - {"AgentStateChanged", "ReasoningRecorded"}))
def test_the_engine_s_effects_are_not_for_agents(kind: str) -> None:
    """Turns, global variables and who is there are for the engine to say, whatever the payload says."""
    play = Play()
    play.turn()
    for payload in ({}, {"agent_id": "Ann"}, {"turn": 1}, {"agent_id": "Ann", "patch": []}):
        assert _intended(play, "Ann", {"kind": kind, **payload}) == "not_for_agents"


def test_agents_change_themselves_alone() -> None:
    """The agent may name itself or nobody; another agent's variables are not its to change, nor its reasons to tell."""
    play = Play()
    play.turn()
    for kind in ("AgentStateChanged", "ReasoningRecorded"):
        assert _intended(play, "Ann", {"kind": kind}) is None
        assert _intended(play, "Ann", {"kind": kind, "agent_id": "Ann"}) is None
        assert _intended(play, "Ann", {"kind": kind, "agent_id": None}) is None
        for other in ("Bob", "global", "", 1, ["Ann"], {"Ann": 1}):
            assert _intended(play, "Ann", {"kind": kind, "agent_id": other}) == "not_yours"
        assert _intended(play, "Eve", {"kind": kind}) == "unknown_agent"
        assert _intended(play, "global", {"kind": kind}) == "unknown_agent"
        assert _intended(play, "Eve", {"kind": kind, "agent_id": "Ann"}) == "unknown_agent"


def test_agents_act_in_turns() -> None:
    """Variables are changed in an open turn; reasons may be told at any time."""
    play = Play()
    why = {"kind": "ReasoningRecorded", "reasoning": "x"}
    assert _intended(play, "Ann", CHANGE) == "turn_closed"
    assert _intended(play, "Ann", why) is None
    play.turn()
    assert _intended(play, "Ann", CHANGE) is None
    play.post("TurnEnded")
    assert _intended(play, "Ann", CHANGE) == "turn_closed"
    assert _intended(play, "Ann", why) is None


def test_paused_agents_wait() -> None:
    """Somebody who is paused changes nothing until the pause is over; it may go on thinking."""
    play = Play()
    play.turn()
    play.post("AgentPaused", agent_id="Ann", turns=2)
    assert _intended(play, "Ann", CHANGE) == "paused"
    assert _intended(play, "Ann", {"kind": "ReasoningRecorded", "reasoning": "x"}) is None
    assert _intended(play, "Bob", CHANGE) is None
    play.turn()
    assert _intended(play, "Ann", CHANGE) == "paused"
    play.turn()
    assert _intended(play, "Ann", CHANGE) is None
    play.post("AgentPaused", agent_id="Ann")
    assert _intended(play, "Ann", CHANGE) == "paused"
    play.post("AgentResumed", agent_id="Ann")
    assert _intended(play, "Ann", CHANGE) is None


def test_actions_in_a_turn_are_counted() -> None:
    """An agent acts as often in a turn as the engine allows; what the engine does to it is no action of its own."""
    play = Play()
    play.turn()
    play.post("AgentStateChanged", agent_id="Ann", patch=setting("/gold", 1))
    play.post("ReasoningRecorded", "Ann", reasoning="x")
    for _ in range(2):
        assert _intended(play, "Ann", CHANGE) is None
        play.change("Ann", "/gold", 2)
    assert _intended(play, "Ann", CHANGE) == "actions_per_turn"
    assert _intended(play, "Bob", CHANGE) is None
    assert play.simulation["acted"] == {"Ann": 2}
    play.turn()
    assert play.simulation["acted"] == {}
    assert _intended(play, "Ann", CHANGE) is None


def test_removed_agents_do_nothing() -> None:
    """Somebody who is not in the simulation any more is unknown; added again, it acts."""
    play = Play()
    play.turn()
    play.post("AgentRemoved", agent_id="Ann")
    assert _intended(play, "Ann", CHANGE) == "unknown_agent"
    play.post("AgentAdded", agent_id="Ann")
    assert _intended(play, "Ann", CHANGE) is None


def test_what_the_simulation_does_not_know_is_no_concern_of_it() -> None:
    """Kinds of somebody else's are intended freely: they change no variable."""
    assert _intended(Play(), "Eve", {"kind": "Waved"}) is None


def test_an_intent_may_say_which_turn_it_is_meant_for() -> None:
    """With ``turn`` in its payload an intent counts in that turn alone; without, in whichever is open."""
    play = Play()
    play.turn()
    play.post("TurnEnded")
    play.turn()
    why = {"kind": "ReasoningRecorded", "reasoning": "x"}
    for payload in (CHANGE, why):
        assert _intended(play, "Ann", {**payload, "turn": 2}) is None
        assert _intended(play, "Ann", {**payload, "turn": None}) is None
        for other in (0, 1, 3, 2.0, "2", True):
            assert _intended(play, "Ann", {**payload, "turn": other}) == "other_turn"


def test_an_agent_s_patch_looks_at_nothing() -> None:
    """test, copy and move could tell an agent what it does not see of itself; an engine's patches may have them."""
    play = Play()
    play.turn()
    for operation in (
        {"op": "test", "path": "/gold", "value": 1},
        {"op": "copy", "from": "/gold", "path": "/other"},
        {"op": "move", "from": "/gold", "path": "/other"},
    ):
        patch = [{"op": "replace", "path": "/gold", "value": 1}, operation]
        assert _intended(play, "Ann", {"kind": "AgentStateChanged", "patch": patch}) == "patch"
    junk: Any
    for junk in (None, 1, [1], [{}], [{"op": ["test"]}]):
        assert _intended(play, "Ann", {"kind": "AgentStateChanged", "patch": junk}) is None  # `decide` refuses it
    play.post("AgentStateChanged", agent_id="Ann", patch=[{"op": "test", "path": "/name", "value": "Ann"}])
