"""`diff`: two moments of a world, as a tree and as a patch."""

from __future__ import annotations

import json
from typing import Any

import jsonpatch
import pytest

from .conftest import Cli
from .helpers import BAZAAR, record, say


def bazaar(database_url: str) -> None:
    """Make the little world, and let one leave it in the end."""
    record(database_url, "bazaar", [*BAZAAR, say("bob", "EntityRemoved", 10.0, entity_id="bob")])


def state(on: Cli, seq: int) -> Any:
    """Return the state at a seq."""
    return json.loads(on("state", "bazaar", "--json", "--at-seq", str(seq)).out)


@pytest.mark.filled(by=bazaar, read=True)
def test_a_diff_for_people(on: Cli) -> None:
    """A tree shows what came, what went and what changed, with the old values; then the patch."""
    result = on("diff", "bazaar", "3", "5")
    assert (result.code, result.err) == (0, "")
    tree, _, patch = result.out.partition("\nJSON Patch (RFC 6902):\n")
    assert tree == (
        "bazaar seq 3 → 5\n"
        "├── entities\n"
        "│   ├── alice\n"
        '│   │   ├── + last_message "figs!"\n'
        "│   │   ├── + last_speak_time 4.0\n"
        "│   │   └── + message_count 1\n"
        "│   └── bob\n"
        "│       ├── + last_move_time 2.5\n"
        "│       └── + position [2.0,3.0,0.0]\n"
        "├── metadata\n"
        '│   ├── last_effect_kind "EntityCreated" → "Speak"\n'
        "│   ├── last_effect_seq 3 → 5\n"
        "│   └── last_effect_time 1.0 → 4.0\n"
        "└── spatial_index\n"
        "    └── + bob [2.0,3.0,0.0]\n"
    )
    assert json.loads(patch) == json.loads(on("diff", "bazaar", "3", "5", "--patch").out)


@pytest.mark.filled(by=bazaar, read=True)
def test_what_went_is_shown_with_what_it_was(on: Cli) -> None:
    """The tree names the value that a removed member had, which no patch holds."""
    assert (
        '│   └── - bob {"coins":9,"last_move_time":2.5,"position":[2.0,3.0,0.0]}\n'
        in on("diff", "bazaar", "7", "8").out
    )


@pytest.mark.filled(by=bazaar, read=True)
@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1), (3, 4), (6, 8), (5, 5)])
def test_the_patch_turns_one_state_into_the_other(on: Cli, before: int, after: int) -> None:
    """The patch applies with a library that is not ours, whichever moment is the earlier one."""
    old, new = state(on, before), state(on, after)
    patch = on("diff", "bazaar", str(before), str(after), "--patch").out
    assert jsonpatch.apply_patch(old["state"], json.loads(patch)) == new["state"]
    found = json.loads(on("diff", "bazaar", str(before), str(after), "--json").out)
    assert found == {
        "world_id": "bazaar",
        "from_seq": before,
        "to_seq": after,
        "from_digest": old["state_digest"],
        "to_digest": new["state_digest"],
        "patch": json.loads(patch),
    }


@pytest.mark.filled(by=bazaar, read=True)
def test_no_difference(on: Cli) -> None:
    """A moment does not differ from itself."""
    assert on("diff", "bazaar", "sim:9", "7").out == ("bazaar seq 7 → 7\nno difference\n\nJSON Patch (RFC 6902):\n[]\n")
    assert on("diff", "bazaar", "7", "7", "--patch").out == "[]\n"


@pytest.mark.filled(by=bazaar, read=True)
@pytest.mark.parametrize(
    ("a", "b", "seqs"),
    [
        ("1", "head", (1, 8)),
        ("sim:1", "sim:8.5", (3, 6)),
        ("wall:2023-11-14T22:13:20Z", "2", (8, 2)),
    ],
)
def test_moments(on: Cli, a: str, b: str, seqs: tuple[int, int]) -> None:
    """A moment is a seq, the head or a time of either clock."""
    found = json.loads(on("diff", "bazaar", a, b, "--json").out)
    assert (found["from_seq"], found["to_seq"]) == seqs


@pytest.mark.filled(by=bazaar, read=True)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("bazaar", "1"), "give WORLD A B, or WORLD@MOMENT WORLD@MOMENT"),
        (("bazaar", "1", "9"), "has no seq 9; its head is 8"),
        (("bazaar", "0", "1"), "has no seq 0"),
        (("bazaar", "sim:-1", "1"), "no effect at or before sim_time -1.0"),
        (("bazaar", "yesterday", "1"), "invalid value for 'A': 'yesterday' is no moment"),
        (("bazaar", "1", "wall:2023-11-14"), "invalid value for 'B'"),
        (("bazaar", "1", "2", "--patch", "--json"), "one of --patch, --tree and --json"),
        (("nowhere", "1", "2"), "no world named 'nowhere'"),
    ],
)
def test_moments_that_there_are_not(on: Cli, arguments: tuple[str, ...], why: str) -> None:
    """A moment that the world does not have, or that is none, is exit code 2 and says why."""
    result = on("diff", *arguments)
    assert (result.code, result.out) == (2, "")
    assert why in " ".join(result.err.replace("│", " ").split())


def test_ids_with_slashes(on: Cli, database_url: str) -> None:
    """An id that a JSON Pointer has to escape is shown as it is."""
    record(database_url, "w", [say("a", "EntityCreated", 0.0, entity_id="x/~y", entity_data={"a/b": 1})])
    record(database_url, "w", [say("x/~y", "Speak", 1.0, text="hm")])
    out = on("diff", "w", "2", "3").out
    assert "│   └── x/~y\n" in out
    assert '"/entities/x~1~0y/last_message"' in out
