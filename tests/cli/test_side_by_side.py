"""`state`, `diff` and `view` of two moments, of one world or of two."""

from __future__ import annotations

import json

import jsonpatch
import pytest

from worldledger.effects import EffectDraft
from worldledger.intents import registration_draft
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec

from .conftest import Cli
from .helpers import BAZAAR, play, record, say

OTHER: list[EffectDraft] = [*BAZAAR[:2], say("bob", "Move", 2.5, to=[2.0, 4.0, 0.0]), *BAZAAR[3:]]


def bazaars(database_url: str) -> None:
    """Make the little world, and one in which Bob moves elsewhere."""
    record(database_url, "one", BAZAAR)
    record(database_url, "two", OTHER)


@pytest.mark.filled(by=bazaars, read=True)
def test_two_states(on: Cli) -> None:
    """Where the states differ has a line; the seqs and times that each has of its own have none."""
    result = on("state", "one@step:3", "two@4")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "a  one at seq 4\n"
        "b  two at seq 4\n"
        "\n"
        "  $.entities.bob.position  [2.0,3.0,0.0] | [2.0,4.0,0.0]\n"
        "  $.spatial_index.bob  [2.0,3.0,0.0] | [2.0,4.0,0.0]\n"
    )
    assert on("state", "one@3", "two@3").out.endswith("\nno difference\n")
    both = json.loads(on("state", "one@4", "two@head", "--json").out)
    assert both["a"] == json.loads(on("state", "one", "--at", "4", "--json").out)
    assert both["b"] == json.loads(on("state", "two@7", "--json").out)


@pytest.mark.filled(by=bazaars, read=True)
def test_a_diff_of_two_worlds(on: Cli) -> None:
    """The patch turns the state of one world into that of another; the tree's first line names both."""
    found = json.loads(on("diff", "one@4", "two@7", "--json").out)
    assert (found["world_id"], found["from_seq"], found["to_world"], found["to_seq"]) == ("one", 4, "two", 7)
    a, b = (json.loads(on("state", place, "--json").out)["state"] for place in ("one@4", "two@7"))
    assert jsonpatch.apply_patch(a, found["patch"]) == b
    assert on("diff", "one@4", "two@7", "--tree").out.startswith("one seq 4 → two seq 7\n")
    assert "to_world" not in json.loads(on("diff", "one@4", "one@7", "--json").out)
    assert on("diff", "one@4", "one@7").out == on("diff", "one", "4", "7").out


def test_two_views(on: Cli, database_url: str) -> None:
    """What an agent saw at two moments stands side by side, with --truth beside what was true."""
    registered = registration_draft("eve", policy_spec(ObservationPolicy()), [])
    for name, coins in (("one", 1), ("two", 2)):
        made: EffectDraft = {
            "kind": "EntityCreated",
            "payload": {"entity_id": "ann", "entity_data": {"coins": coins, "hat": "red"}},
            "source_id": "ann",
            "schema_version": "1.0.0",
        }
        play(database_url, name, [registered], system=True, ruleset="sandbox")
        play(database_url, name, [made])
    result = on("view", "one@3", "two@3", "eve")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "a  eve in one at seq 3\nb  eve in two at seq 3\n\n  variable   a saw  b saw\n  ann.coins  1      2\n"
    )
    truth = on("view", "one@2", "one@3", "eve", "--truth").out
    assert truth.endswith(
        "  variable   a saw  a true  b saw  b true\n"
        '  ann.coins  -      -       1      1\n  ann.hat    -      -       "red"  "red"\n'
    )
    assert on("view", "one", "one@head", "eve").out.endswith("\nno difference\n")
    both = json.loads(on("view", "one@2", "two@3", "eve", "--json").out)
    assert both["a"] == json.loads(on("view", "one", "eve", "--at", "2", "--json").out)
    assert both["b"] == json.loads(on("view", "two@3", "eve", "--json").out)
    assert on("view", "one@1", "two@3", "eve").code == 2


@pytest.mark.filled(by=bazaars, read=True)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["state", "one@soon"], "'soon' is no moment"),
        (["state", "one@4", "--at", "5"], "one moment, please"),
        (["state", "one@4", "two@4", "--at", "5"], "without an option"),
        (["state", "one@4", "two@99"], "has no seq 99"),
        (["state", "one@4", "nowhere@4"], "no world named 'nowhere'"),
        (["diff", "one@4", "7"], "give WORLD A B, or WORLD@MOMENT WORLD@MOMENT"),
        (["view", "one", "two", "one", "eve"], "give one world or two"),
        (["view", "one@4", "two@4", "eve"], "eve"),
    ],
)
def test_what_cannot_be_shown(on: Cli, arguments: list[str], said: str) -> None:
    """Each refusal is one sentence, and exit code 2."""
    result = on(*arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
