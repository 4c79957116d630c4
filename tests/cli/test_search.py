"""`search`: effects whose payload has a text, in a world and in what it goes on from."""

from __future__ import annotations

import json

import pytest

from .conftest import Cli
from .helpers import BAZAAR, record, say


def bazaar(database_url: str) -> None:
    """Make the little world, and a fork from before its last effects, in which figs are called for again."""
    record(database_url, "bazaar", BAZAAR)


@pytest.mark.filled(by=bazaar, read=True)
def test_what_is_found(on: Cli) -> None:
    """Each effect is a line with its place, kind, source and the text with what stands around it, the newest first."""
    result = on("search", "bazaar", "ALICE")
    assert (result.code, result.err) == (0, "")
    created = '{"entity_data":{"role":"seller"},"entity_id":"alice","position":[0.0,1.5,0.0]}'
    assert result.out.splitlines() == [
        'bazaar:6  Interact  bob  {"target_id":"alice"}',
        f"bazaar:2  EntityCreated  alice  {created}",
    ]
    told = on("search", "bazaar", "alice", "--json", "--oldest", "--kind", "Interact", "--source", "bob").out
    (hit,) = json.loads(told)
    assert hit == {
        "world_id": "bazaar",
        "global_seq": 6,
        "kind": "Interact",
        "source_id": "bob",
        "sim_time": 8.0,
        "excerpt": '{"target_id":"alice"}',
    }
    assert on("search", "bazaar", "alice", "--until", "5").out.startswith("bazaar:2 ")


@pytest.mark.filled(by=bazaar, read=True)
def test_nothing_and_too_much(on: Cli) -> None:
    """It is said on stderr that nothing was found, or that there may be more; an empty text is refused."""
    nothing = on("search", "bazaar", "dates")
    assert (nothing.code, nothing.out) == (0, "")
    assert nothing.err == "worldledger: no payload in 7 effects contains 'dates'\n"
    assert on("search", "bazaar", "dates", "--json").out == "[]\n"
    one = on("search", "bazaar", "alice", "--limit", "1")
    assert (one.out.count("\n"), one.err) == (1, "worldledger: 1 effect shown: there may be more, see --limit\n")
    assert on("search", "bazaar", "").code == 2
    assert on("search", "nowhere", "alice").code == 2


@pytest.mark.filled(by=bazaar)
def test_a_fork(on: Cli, database_url: str) -> None:
    """Of a fork, what it has from its parent is searched, too, up to the fork point; each place names its world."""
    assert on("fork", "bazaar", "--at", "5", "--as", "again").code == 0
    record(database_url, "again", [say("bob", "Speak", 9.0, text="figs, alice!")])
    lines = on("search", "again", "alice", "--kind", "Speak").out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["again"]
    newest = [line.split()[0] for line in on("search", "again", "alice").out.splitlines()]
    assert (newest[0].split(":")[0], newest[-1]) == ("again", "bazaar:2")
    assert "bazaar:6" not in newest
    assert [line.split()[0] for line in on("search", "again", "alice", "--oldest").out.splitlines()] == newest[::-1]
    assert on("search", "again", "figs", "--until", "parent:5").out == 'bazaar:5  Speak  alice  {"text":"figs!"}\n'
