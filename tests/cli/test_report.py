"""`report WORLD`: one world up to any moment, a fork through its ancestors."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.markets import change, effect, market
from worldledger.effects import EffectDraft

from .conftest import Cli
from .helpers import BAZAAR, play, record, say
from .test_verify import tamper


def refused(agent_id: str, rule: str) -> EffectDraft:
    """Make the record of an intent that a rule refused."""
    said = {"code": "illegal_effect", "rule": rule, "reason": f"{rule}, no less"}
    return effect("IntentRejected", agent_id, agent_id=agent_id, intent={"kind": "Trade", "payload": {}}, **said)


def turn(number: int, gold: int) -> list[EffectDraft]:
    """Make a turn in which Ann has so much gold in the end, and intents are refused."""
    return [
        effect("TurnStarted", turn=number),
        change("Ann", "/gold", gold),
        refused("Bea", "too_poor"),
        *([refused("Ann", "too_late")] if number % 2 else []),
        effect("TurnEnded", turn=number),
    ]


def reported(on: Cli, *arguments: str) -> Any:
    """Report as JSON."""
    result = on("report", *arguments, "--json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


@pytest.fixture
def towns(on: Cli, database_url: str) -> None:
    """Make a simulation of three turns, and a fork of its second turn that goes another way for two."""
    play(database_url, "town", turn(1, 50), ruleset="simulation", config=market(), experiment="fork", system=True)
    play(database_url, "town", [*turn(2, 60), *turn(3, 70)], system=True)
    assert on("fork", "town", "--at", "turn:2", "--as", "fork", "--set", "Ann/gold=7").code == 0
    play(database_url, "fork", [*turn(3, 8), *turn(4, 9)], system=True)


@pytest.mark.usefixtures("towns")
def test_a_fork_is_reported_through_its_ancestors(on: Cli) -> None:
    """What is told of a fork up to a moment is what a tally of its whole log says, and its states at each turn."""
    found = reported(on, "fork", "--at", "turn:3")
    at = found["at"]
    assert (at["world_id"], found["outcome"]["turn"], found["state"]["entities"]) == ("fork", 3, 4)
    parent, own = found["history"]
    assert (parent["world_id"], own) == ("town", {"world_id": "fork", "effects": at["global_seq"]})
    log = [json.loads(line) for line in on("log", "fork").out.splitlines()][: found["effects"]]
    assert (log[-1]["world_id"], log[-1]["global_seq"], log[-1]["kind"]) == ("fork", at["global_seq"], "TurnEnded")
    assert parent["effects"] == sum(each["world_id"] == "town" for each in log) == found["effects"] - own["effects"]
    tallies = Counter(each["kind"] for each in log), Counter(each["kind"] for each in log if each["world_id"] == "town")
    assert {row["kind"]: (row["effects"], row["inherited"]) for row in found["kinds"]} == {
        kind: (count, tallies[1][kind]) for kind, count in tallies[0].items()
    }
    told = {(row["source_id"], kind): count for row in found["sources"] for kind, count in row["kinds"].items()}
    assert told == Counter((each["source_id"], each["kind"]) for each in log)
    rules = Counter(each["payload"]["rule"] for each in log if each["kind"] == "IntentRejected")
    assert {row["rule"]: (row["intents"], row["agents"]) for row in found["refused"]} == {
        rule: (count, 1) for rule, count in rules.items()
    }
    gold = next(each for each in found["series"] if each["measure"] == "Ann.gold")
    assert gold["numbers"] == [0, 1, 2, 3]
    for number, value in zip(gold["numbers"], gold["values"], strict=True):
        state = json.loads(on("state", "fork", "--at", f"turn:{number}", "--json").out)
        assert state["state"]["entities"]["Ann"]["gold"] == value
    last = json.loads(on("state", "fork", "--at", "turn:3", "--json").out)
    assert (at["checksum"], at["state_digest"]) == (last["checksum"], last["state_digest"])


@pytest.mark.usefixtures("towns")
def test_a_moment_of_before_the_fork_is_the_parents(on: Cli, tmp_path: Path) -> None:
    """There the report is that of the parent, of which all is inherited; the page and the command say whose it is."""
    ours, theirs = reported(on, "fork", "--at", "turn:1"), reported(on, "town", "--at", "turn:1")
    assert ours["at"] == theirs["at"]
    assert all(row.pop("inherited") == row["effects"] for row in ours["kinds"])
    assert all(row.pop("inherited") == 0 for row in theirs["kinds"])
    assert {**ours, "world_id": "town"} == theirs
    assert reported(on, "fork", "--at", "parent:turn:1") == reported(on, "fork", "--at", "turn:1")
    page = tmp_path / "page.html"
    result = on("report", "fork", "--at", "turn:1", "-o", str(page))
    assert result.err.startswith(f"worldledger: reported fork up to seq {ours['at']['global_seq']} of town (")
    assert f"up to seq {ours['at']['global_seq']} of town, before the fork" in page.read_text()


@pytest.mark.usefixtures("towns")
def test_a_fork_of_a_tampered_parent_is_not_reported(on: Cli, database_url: str) -> None:
    """A tampered effect of before the fork point is named, though the state is kept; a fork made anyway is shown."""
    assert on("snapshot", "fork").code == 0
    tamper(
        database_url,
        "update effects set effect = replace(effect::text, 'too_poor', 'too_rich')::json where world_id = 'town'",
    )
    seq = next(row["global_seq"] for row in map(json.loads, on("log", "town").out.splitlines()) if "rich" in str(row))
    result = on("report", "fork", "--at", "head", "--json")
    assert (result.code, on("report", "town", "--json").code, result.out) == (1, 1, "")
    assert f"world town, seq {seq}: checksum differs" in " ".join(result.err.split())
    assert on("fork", "town", "--at", "turn:1", "--as", "anyway", "--anyway").code == 0
    assert {row["rule"] for row in reported(on, "anyway", "--at", "head")["refused"]} == {"too_late", "too_rich"}


@pytest.mark.usefixtures("towns")
@pytest.mark.usefixtures("projected")
def test_of_one_name_the_experiment_comes_first(on: Cli) -> None:
    """A name of an experiment and a world is the experiment's without --at, and the world's with it."""
    assert on("project", "--once").code == 0
    assert reported(on, "fork")["experiment"] == "fork"
    assert "sections" in reported(on, "fork")
    assert reported(on, "fork", "--at", "head")["at"]["world_id"] == "fork"
    assert reported(on, "town") == reported(on, "town", "--at", "head")


def test_the_page_of_a_world_of_any_kind(on: Cli, database_url: str, tmp_path: Path) -> None:
    """A kind without measures has a page, too; it is well-formed, and odd names are shown and never obeyed."""
    odd = "<script>alert(1)</script>"
    record(database_url, "bazaar", [*BAZAAR, say(odd, "Sneezed", 10.0)])
    page = tmp_path / "page.html"
    assert on("report", "baz", "-o", str(page)).err == (
        f"worldledger: reported bazaar up to seq 8 (8 effects) with 1 plot to {page}\n"
    )
    text = page.read_text()
    assert ET.fromstring(text.split("\n", 1)[1]) is not None
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    found = reported(on, "bazaar", "--at", "sim:4")
    assert (found["effects"], found["series"], found["outcome"], found["refused"]) == (5, [], {}, [])
    assert [row["source_id"] for row in found["sources"]] == ["alice", "bob", "worldledger"]


def test_what_cannot_be_reported_is_refused(on: Cli, database_url: str, subtests: pytest.Subtests) -> None:
    """Each refusal is one sentence that names what is meant, and exit code 2."""
    record(database_url, "bazaar", BAZAAR)
    for arguments, said in (
        (["bazar", "--at", "head"], "no world named 'bazar'; did you mean 'bazaar'?"),
        (["bazar"], "no world named 'bazar'; did you mean 'bazaar'?"),
        (["nothing"], "there is no experiment 'nothing'"),
        (["bazaar", "--at", "turn:1"], "worlds of sandbox have no such unit"),
        (["bazaar", "--at", "99"], "world 'bazaar' has no seq 99; its head is 7"),
        (["bazaar", "--at", "noon"], "'noon' is no moment"),
        (["bazaar", "--at", "parent:2"], "is no fork"),
    ):
        with subtests.test(arguments=arguments):
            result = on("report", *arguments, "--json")
            assert (result.code, result.out) == (2, "")
            assert said in result.err
