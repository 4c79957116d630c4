"""`fork`: a world that goes on from another one's state; its history is one line with its parent's."""

from __future__ import annotations

import json

import pytest

from .conftest import Cli
from .helpers import BAZAAR, record, say


@pytest.fixture
def bazaar(database_url: str) -> None:
    """Make the little world, and a fork of it that has gone on."""
    record(database_url, "bazaar", BAZAAR)


def _lines(text: str) -> list[tuple[str, int]]:
    return [(each["world_id"], each["global_seq"]) for each in map(json.loads, text.splitlines())]


@pytest.mark.usefixtures("bazaar")
def test_a_fork_and_its_history(on: Cli, database_url: str) -> None:
    """A fork says where it comes from; its log begins with its parent's, and --own leaves that out."""
    result = on("fork", "bazaar", "--at", "4", "--label", "what if")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("forked bazaar~4, from seq 4 of bazaar, head 2:")
    assert on("fork", "bazaar", "--at", "4", "--label", "what if").out.startswith("already there: bazaar~4, from seq 4")
    record(database_url, "bazaar~4", [say("Ann", "Noted", 99.0)])
    whole = _lines(on("log", "bazaar~4").out)
    assert whole == [("bazaar", 1), ("bazaar", 2), ("bazaar", 3), ("bazaar", 4)] + [("bazaar~4", n) for n in (1, 2, 3)]
    assert _lines(on("log", "bazaar~4", "--own").out) == whole[4:]
    assert _lines(on("log", "bazaar~4", "--after", "parent:2").out) == whole[2:]
    assert _lines(on("log", "bazaar~4", "--after", "parent:1", "--until", "parent:3").out) == whole[1:3]
    assert _lines(on("log", "bazaar~4", "--after", "1").out) == whole[5:]
    assert _lines(on("log", "bazaar~4", "--after", "head", "--until", "parent:3").out) == []
    assert on("state", "bazaar~4", "--at", "parent:3").out.startswith("bazaar at seq 3")
    told = json.loads(on("fork", "bazaar~4", "--at", "head", "--as", "third", "--json").out)
    assert told["fork_of"] == {"parent": "bazaar~4", "at_seq": 3, "made": True}
    assert len(_lines(on("log", "third").out)) == 9


@pytest.mark.usefixtures("bazaar")
def test_a_fork_that_begins_otherwise(on: Cli) -> None:
    """--set changes values by the rules, as JSON or as text; a wrong path is refused, and nothing is made."""
    entities = json.loads(on("state", "bazaar", "--json").out)["state"]["entities"]
    name = min(entities)
    result = on("fork", "bazaar", "--as", "rich", "--set", f"{name}/gold=7", "--set", f"{name}/mood=good")
    assert (result.code, result.err) == (0, "")
    assert ", 2 changes, " in result.out
    changed = json.loads(on("state", "rich", "--json").out)["state"]["entities"]
    assert changed[name] == {**entities[name], "gold": 7, "mood": "good"}
    for wrong, why in (("gold", "is not PATH=VALUE"), ("nobody/gold=1", "no entity 'nobody'")):
        result = on("fork", "bazaar", "--as", "poor", "--set", wrong)
        assert result.code != 0
        assert why in " ".join(result.err.split())
    assert on("state", "poor").code != 0


@pytest.mark.usefixtures("bazaar")
def test_replays_of_forks_agree(on: Cli) -> None:
    """`replay --check` and `verify` hold a fork to the digest in its log, and to its parent."""
    on("fork", "bazaar", "--at", "5", "--as", "child", "--verify")
    result = on("replay", "--check", "child", "bazaar")
    assert result.code == 0, result.err
    assert "agreed child 2 effects, 1 digest" in result.out
