"""Turns as moments: of `state`, `diff` and `replay`."""

from __future__ import annotations

import json

import pytest

from tests.markets import ENDED, FIRST, HEAD, SECOND, TURNS, market

from .conftest import Cli
from .helpers import BAZAAR, play, record


@pytest.fixture
def played(database_url: str) -> None:
    """Have a simulation in its second turn."""
    play(database_url, "market", TURNS, ruleset="simulation", config=market())


pytestmark = pytest.mark.usefixtures("played")


def test_the_state_at_a_turn(on: Cli) -> None:
    """The state at a turn is the one at its end: before the next one begins, or now."""
    for turn, seq in ((0, FIRST - 1), (1, ENDED), (2, HEAD)):
        found = json.loads(on("state", "market", "--at-turn", str(turn), "--json").out)
        assert (found["global_seq"], found["state"]["metadata"]["turn"]) == (seq, turn)


def test_a_moment_in_one_spelling(on: Cli) -> None:
    """`state`, `view`, `checkpoint export`, `log`, `snapshot` and `replay` take a moment in the same words."""
    for moment, seq in (("turn:1", ENDED), (f"seq:{ENDED}", ENDED), ("step:0", 1), ("9999-01-01T00:00Z", HEAD)):
        assert json.loads(on("state", "market", "--at", moment, "--json").out)["global_seq"] == seq
    for moment in ("turn:1", f"seq:{ENDED}", str(ENDED)):
        assert on("view", "market", "Ann", "--at", moment) == on("view", "market", "Ann", "--turn", "1")
        assert on("checkpoint", "export", "market", "--at", moment).out == (
            on("checkpoint", "export", "market", "--turn", "1").out
        )
    assert "one moment" in on("view", "market", "Ann", "--at", "head", "--turn", "1").err
    for arguments in (("state", "market"), ("view", "market", "Ann"), ("checkpoint", "export", "market")):
        refused = on(*arguments, "--at", "trun 1")
        assert (refused.code, refused.out) == (2, "")
        assert "is no moment" in refused.err
    turn = on("log", "market", "--after", "turn:0", "--until", "turn:1").out
    assert turn == on("log", "market", "--after", str(FIRST - 1), "--until", str(ENDED)).out
    assert turn.count("\n") == ENDED - FIRST + 1
    taken = on("snapshot", "market", "--at", "turn:1")
    assert taken.out.startswith(f"took a snapshot of market at seq {ENDED} ")
    assert on("snapshot", "market", "--at", "turn:1").out.startswith("nothing has happened")
    assert on("replay", "--check", "market").out.startswith("agreed market")


def test_what_a_turn_has_changed(on: Cli) -> None:
    """`diff` takes turns as moments: from one turn's end to another's."""
    found = json.loads(on("diff", "market", "turn:0", "turn:1", "--json").out)
    assert (found["from_seq"], found["to_seq"]) == (FIRST - 1, ENDED)
    changed = {operation["path"]: operation.get("value") for operation in found["patch"]}
    assert changed["/entities/Ann/gold"] == 90
    assert changed["/entities/global/price"] == 3.5
    assert "/entities/Bea/gold" not in changed
    assert "gold 7 → 8" in on("diff", "market", "turn:1", "head", "--tree").out


def test_a_turn_passes_by_again(on: Cli) -> None:
    """`replay` begins with a turn's first effect, and ends with its last."""
    result = on("replay", "market", "--from", "turn:1", "--to", "turn:1", "--speed", "max", "--json")
    effects = [json.loads(line) for line in result.out.splitlines()]
    assert [effect["global_seq"] for effect in effects] == [*range(FIRST, ENDED + 1)]
    assert (effects[0]["kind"], effects[-1]["kind"]) == ("TurnStarted", "TurnEnded")
    result = on("replay", "market", "--from", "turn:2", "--speed", "max", "--json")
    assert json.loads(result.out.splitlines()[0])["global_seq"] == SECOND


def test_turns_that_there_are_not(on: Cli, database_url: str) -> None:
    """A turn that was not started, and one of a world without turns, is exit code 2 and says why."""
    record(database_url, "bazaar", BAZAAR)
    for arguments in (
        ("state", "market", "--at-turn", "3"),
        ("diff", "market", "turn:3", "head"),
        ("replay", "market", "--from", "turn:3"),
        ("replay", "market", "--to", "turn:3"),
    ):
        result = on(*arguments)
        assert (result.code, result.out) == (2, "")
        assert "world 'market' has no turn 3; its last is 2" in result.err
    result = on("state", "bazaar", "--at-turn", "0")
    assert (result.code, result.out) == (2, "")
    assert "worlds of sandbox have no such unit, only step" in result.err
    assert "one moment" in on("state", "market", "--at-turn", "1", "--at-seq", "1").err
