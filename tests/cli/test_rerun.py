"""`rerun`: what a parent got from outside after the fork point is decided again in its fork."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cli
from .helpers import BAZAAR, record
from .test_verify import tamper


@pytest.fixture
def bazaar(database_url: str) -> None:
    """Make the little world."""
    record(database_url, "bazaar", BAZAAR)


@pytest.mark.usefixtures("bazaar")
def test_running_on(on: Cli, tmp_path: Path) -> None:
    """`rerun` submits again what came from outside in the parent, changed if asked for, and says what became of it."""
    on("fork", "bazaar", "--at", "4", "--as", "child")
    result = on("rerun", "child")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "ran on in child: seq 5 to 7 of bazaar, head 5\n"
        "  3 drafts submitted, 3 accepted, 0 refused\n"
        "  the states are alike to the end\n"
    )
    for again in ([], ["--until", "6"]):
        told = on("rerun", "child", *again).out
        assert told == (
            "nothing to run on in child: an earlier rerun had come to seq 7 of bazaar\n"
            "  3 drafts submitted in all, 3 accepted, 0 refused\n"
            "  the states are alike there\n"
        )
    entities = [json.loads(on("state", name, "--json").out)["state"]["entities"] for name in ("bazaar", "child")]
    assert entities[0] == entities[1]
    effect = json.loads(on("log", "bazaar", "--after", "5", "--until", "6").out)
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"kind": "Noted", "payload": {"text": "instead"}}))
    on("fork", "bazaar", "--at", "4", "--as", "second")
    report = json.loads(on("rerun", "second", "--until", "6", "--skip", "5", "--replace", f"6={other}", "--json").out)
    assert (report["issued"], report["accepted"], report["left_out"]) == (1, 1, {_kind(on, 5): 1})
    last = json.loads(on("log", "second", "--own", "--after", "2").out)
    assert (last["kind"], last["sim_time"], last["source_metadata"]) == ("Noted", effect["sim_time"], {"rerun_of": 6})


def _kind(on: Cli, seq: int) -> str:
    found: str = json.loads(on("log", "bazaar", "--after", str(seq - 1), "--until", str(seq)).out)["kind"]
    return found


@pytest.mark.usefixtures("bazaar")
def test_a_rerun_that_is_asked_for_wrongly(on: Cli, tmp_path: Path) -> None:
    """What cannot be run on, and files and functions that are none, are refused in a sentence; nothing is written."""
    on("fork", "bazaar", "--at", "4", "--as", "child")
    bad = tmp_path / "bad.json"
    bad.write_text("[1]")
    good = tmp_path / "good.json"
    good.write_text('{"kind": "Noted"}')
    for more, why in (
        (["bazaar"], "is no fork"),
        (["nobody"], "no world named 'nobody'"),
        (["child", "--until", "2"], "before the fork point, seq 4"),
        (["child", "--replace", "5"], "is not SEQ=FILE"),
        (["child", "--replace", f"5={tmp_path / 'none'}"], "cannot be read"),
        (["child", "--replace", f"5={bad}"], "an object with"),
        (["child", "--skip", "5", "--replace", f"5={good}"], "seq 5 is to be left out as well"),
        (["child", "--replace", f"5={good}", "--replace", f"5={good}"], "seq 5 is replaced twice"),
        (["child", "--with", "json"], "'json' is not MODULE:FUNCTION"),
        (["child", "--with", ":dumps"], "':dumps' is not MODULE:FUNCTION"),
        (["child", "--with", "no_such_module:play"], "cannot be loaded"),
        (["child", "--with", "json:nothing"], "has no function nothing"),
        (["child", "--with", "json:dumps", "--with", "json:loads"], "every agent is played twice"),
        (["child", "--with", "bob=json:dumps", "--with", "bob=llm:tiny"], "the agent bob is played twice"),
        (["child", "--with", "bob=llm:tiny"], "name a file that says whom the model plays"),
        (["child", "--persona", str(good)], "are for language models"),
    ):
        result = on("rerun", *more)
        assert result.code == 2, more
        assert why in " ".join(result.err.split()), more
    assert json.loads(on("worlds", "--json").out)[1]["head_seq"] == 2


@pytest.mark.usefixtures("bazaar")
def test_what_was_tampered_with_is_not_issued_again(on: Cli, database_url: str) -> None:
    """The first effect of the parent whose checksum differs is named, and nothing of it or after it is submitted."""
    for name in ("child", "begun"):
        on("fork", "bazaar", "--at", "4", "--as", name)
    on("rerun", "begun", "--until", "6")
    tamper(
        database_url,
        "update effects set effect = replace(effect::text, 'figs', 'dates')::json where world_id = 'bazaar'",
    )
    for name, head in (("child", 2), ("begun", 4)):
        result = on("rerun", name)
        assert (result.code, result.out) == (1, "")
        said = " ".join(result.err.split())
        assert "world bazaar, seq 5: checksum differs" in said
        assert "run `worldledger verify`" in said
        assert json.loads(on("log", name, "--own").out.splitlines()[-1])["global_seq"] == head
    tamper(database_url, "delete from effects where world_id = 'bazaar' and global_seq >= 5")
    assert "seq 5: missing from the log" in on("rerun", "child").err
