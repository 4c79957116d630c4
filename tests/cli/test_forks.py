"""`fork`: a world that goes on from another one's state; its history is one line with its parent's."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

from .conftest import Cli
from .helpers import BAZAAR, compared, done, record, say
from .test_verify import tamper


def bazaar(database_url: str) -> None:
    """Make the little world, and a fork of it that has gone on."""
    record(database_url, "bazaar", BAZAAR)


def _lines(text: str) -> list[tuple[str, int]]:
    return [(each["world_id"], each["global_seq"]) for each in map(json.loads, text.splitlines())]


@pytest.mark.filled(by=bazaar)
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
    assert on("state", "bazaar~4", "--at", "parent:3").out.startswith("bazaar at seq 3 (fork point 4), ")
    assert on("state", "bazaar~4", "--at", "parent:head").out.startswith("bazaar at seq 4 (the fork point), ")
    assert "told bazaar~4@1 WorldCreated by worldledger" in on("why", "bazaar~4", "parent:3", "--forward").out
    assert "~4" not in on("why", "bazaar", "3", "--forward").out + on("why", "bazaar~4", "parent:3").out
    short = on("why", "bazaar~4", "parent:2", "--forward", "--window", "1").out
    assert "after 3 only told links are followed, to the fork point of 4 (--window)" in short
    assert "in bazaar~4 only told links are followed, to the head of 3 (--window)" in short
    refused = on("state", "bazaar~4", "--at", "parent:5")
    assert refused.code == 2
    assert "they share its effects up to seq 4, the fork point; for later ones ask 'bazaar' itself" in " ".join(
        refused.err.split()
    )
    told = json.loads(on("fork", "bazaar~4", "--at", "head", "--as", "third", "--json").out)
    (listed,) = [world for world in json.loads(on("worlds", "--json").out) if world["world_id"] == "third"]
    assert (told["made"], told["fork_of"]) == (True, listed["fork_of"])
    assert (listed["fork_of"]["world_id"], listed["fork_of"]["global_seq"]) == ("bazaar~4", 3)
    assert len(_lines(on("log", "third").out)) == 9


@pytest.mark.filled(by=bazaar)
def test_a_fork_is_replayed_with_its_past(on: Cli, database_url: str) -> None:
    """Its ancestors' effects come first; both ends may lie before the fork point, as seqs of a parent and as times."""
    assert on("fork", "bazaar", "--at", "4", "--as", "fork").code == 0
    record(database_url, "fork", [say("Ann", "Noted", 99.0)])
    past, own = [("bazaar", n) for n in (1, 2, 3, 4)], [("fork", n) for n in (1, 2, 3)]
    for options, expected in (
        ((), past + own),
        (("--from", "1"), own),
        (("--from", "parent:3"), past[2:] + own),
        (("--from", "parent:2", "--to", "parent:3"), past[1:3]),
        (("--from", "sim:1", "--to", "1"), past[1:] + own[:1]),
        (("--from", "sim:-1", "--to", "parent:head"), past),
        (("--from", "sim:50"), own[2:]),
        (("--from", "step:2"), past[2:] + own),
        (("--from", "step:4"), own[2:]),
    ):
        replayed = on("replay", "fork", "--speed", "max", "--json", *options)
        assert (replayed.code, replayed.err, _lines(replayed.out)) == (0, "", expected), options
    refused = on("replay", "fork", "--from", "parent:step:5")
    assert "up to the fork point, world 'bazaar' has no step 5; its last is 3" in " ".join(refused.err.split())
    refused = on("replay", "fork", "--from", "1", "--to", "parent:3")
    assert refused.code == 2
    assert "--from is seq 1, which lies behind --to, seq 3 of 'bazaar'" in " ".join(refused.err.split())


@pytest.mark.filled(by=bazaar)
def test_a_fork_that_begins_otherwise(on: Cli) -> None:
    """--set changes values by the rules, as JSON or as text; a wrong path is refused, and nothing is made."""
    entities = json.loads(on("state", "bazaar", "--json").out)["state"]["entities"]
    name = min(entities)
    result = on("fork", "bazaar", "--as", "rich", "--set", f"{name}/gold=7", "--set", f"{name}/mood=good")
    assert (result.code, result.err) == (0, "")
    assert ", 2 changes, " in result.out
    changed = json.loads(on("state", "rich", "--json").out)["state"]["entities"]
    assert changed[name] == {**entities[name], "gold": 7, "mood": "good"}
    for wrong, why in (
        ("gold", "is not PATH=VALUE"),
        ("nobody/gold=1", "worldledger: nobody/gold cannot be set: there is no entity 'nobody'"),
        ("/gold=1", "worldledger: /gold cannot be set: '/gold' names no value: write ENTITY/FIELD"),
    ):
        result = on("fork", "bazaar", "--as", "poor", "--set", wrong)
        assert result.code != 0
        assert why in " ".join(result.err.split())
    for option, text in (("--label", ""), ("--label", "x" * 1001), ("--experiment", "")):
        result = on("fork", "bazaar", "--as", "poor", option, text)
        assert (result.code, result.out) == (2, "")
        assert f"invalid value for '{option}': String should have at " in " ".join(result.err.split())
    assert on("state", "poor").code != 0


@pytest.mark.filled(by=bazaar)
def test_replays_of_forks_agree(on: Cli) -> None:
    """`replay --check` and `verify` hold a fork to the digest in its log, and to its parent."""
    on("fork", "bazaar", "--at", "5", "--as", "child", "--verify")
    result = on("replay", "--check", "child", "bazaar")
    assert result.code == 0, result.err
    assert "agreed child 2 effects, 1 digest" in result.out


#: The parent's effect at seq 3 is changed, and the chain computed anew from there on, its head included: by itself it
#: holds.
REWRITTEN = """
    do $$ declare previous bytea; row record; begin
        update effects set effect = replace(effect::text, 'figs', 'dates')::json
        where world_id = 'bazaar' and effect::text like '%figs%';
        for row in select * from effects where world_id = 'bazaar' order by global_seq loop
            previous := chain_checksum(previous, row.effect);
            update effects set checksum = previous where world_id = 'bazaar' and global_seq = row.global_seq;
        end loop;
        update heads set head_checksum = previous where world_id = 'bazaar';
    end $$
"""


def lineage(url: str) -> None:
    """Make the little world, and a fork of a fork of it."""
    bazaar(url)
    done("fork", "bazaar", "--at", "6", "--as", "child", "--database-url", url)
    done("fork", "child", "--as", "grandchild", "--database-url", url)


@pytest.fixture
def line(on: Cli) -> tuple[str, str]:
    """Return the lines about what the fork of a fork has inherited."""
    parts = json.loads(on("verify", "grandchild", "--json").out)[0]["inherited"]
    (child, c), (parent, p) = [(part["world_id"], f"{part['until_seq']}:{part['until_checksum']}") for part in parts]
    assert (child, parent) == ("child", "bazaar")
    return (
        f"  inherited from child: verified 2 effects, up to {c}",
        f"  inherited from bazaar: verified 6 effects, up to {p}",
    )


@pytest.mark.filled(by=lineage, read=True)
def test_verify_goes_back_to_the_first_ancestor(on: Cli, line: tuple[str, str]) -> None:
    """`verify` of a fork says which part is whose; what it verifies anyway is only compared; --own leaves it out."""
    result = on("verify", "grandchild")
    assert (result.code, result.err) == (0, "")
    first, *inherited = result.out.splitlines()
    assert first.startswith("verified grandchild 2 effects, head 2:")
    assert tuple(inherited) == line
    every = on("verify", "--all")
    assert (every.code, every.err) == (0, "worldledger: 3 verified, 0 tampered\n")
    parts = [text.split(", up to")[0] for text in every.out.splitlines() if text.startswith("  ")]
    assert parts == [f"  inherited from {name}: compared the fork point" for name in ("bazaar", "child")]
    own = on("verify", "grandchild", "--own").out.splitlines()
    assert [text.split(", up to")[0] for text in own[1:]] == ["  inherited from child: left out, not checked"]


@pytest.mark.filled(by=lineage)
def test_verify_of_a_fork_finds_a_parent_that_was_rewritten(on: Cli, database_url: str) -> None:
    """A parent that was rewritten, with all of its checksums, verifies by itself; its forks tell, whatever is asked."""
    tamper(database_url, REWRITTEN)
    assert on("verify", "bazaar").code == 0
    result = on("verify", "child")
    assert result.code == 1
    assert result.out.startswith("TAMPERED child at seq 1: its parent was rewritten: seq 6 of world 'bazaar' has")
    result = on("verify", "grandchild")
    assert result.code == 1
    assert result.out.startswith("TAMPERED grandchild before its fork point, in child at seq 1: its parent was rewr")
    assert on("verify", "--all").err.endswith("worldledger: 1 verified, 2 tampered\n")
    assert on("verify", "grandchild", "--own").code == 0


@pytest.mark.filled(by=bazaar)
def test_a_tampered_world_is_forked_only_anyway(on: Cli, database_url: str) -> None:
    """What does not verify before the fork point is refused; with --anyway it is forked, which the genesis says."""
    tamper(
        database_url,
        "update effects set effect = replace(effect::text, 'figs', 'dates')::json where world_id = 'bazaar'",
    )
    for verifying in ([], ["--verify"]):
        refused = on("fork", "bazaar", "--at", "6", "--as", "child", *verifying)
        assert (refused.code, refused.out) == (1, "")
        assert "world bazaar, seq 5: checksum differs" in " ".join(refused.err.split())
    for name, at, verifying in (("child", "6", []), ("checked", "6", ["--verify"]), ("at-the-place", "5", [])):
        assert on("fork", "bazaar", "--at", at, "--as", name, "--anyway", *verifying).code == 0, name
        genesis = json.loads(on("log", name, "--own").out.splitlines()[0])
        assert genesis["payload"]["fork_of"]["unverified"] is True
        assert on("state", name).code == 0
        assert "before its fork point, in bazaar at seq 5: checksum differs" in on("verify", name).out
        assert "the states are alike to the end" in on("rerun", name).out
        assert on("replay", "--check", name).code == 0
    assert on("fork", "bazaar", "--at", "4", "--as", "earlier").code == 0


@pytest.mark.filled(by=lineage)
def test_forks_that_were_made_anyway_are_compared(on: Cli, database_url: str) -> None:
    """They part in the tampered log, or after it, in either order; the log itself and other forks of it are refused."""
    tamper(
        database_url,
        "update effects set effect = replace(effect::text, 'figs', 'dates')::json where world_id = 'bazaar'",
    )
    for name, at, changes in (("five", "5", ()), ("six", "6", ()), ("rich", "6", ("--set", "bob/coins=90"))):
        assert on("fork", "bazaar", "--at", at, "--as", name, "--anyway", *changes).code == 0
    for a, b, seqs in (("five", "six", (5, 6)), ("six", "five", (6, 5)), ("six", "rich", (6, 3))):
        found = compared(on, a, b)
        assert found["pairs"][0]["divergence"] is not None
        there = found["states"]["divergence"]
        assert (there["a_seq"], there["b_seq"]) == seqs
    for a, b in (("bazaar", "six"), ("six", "bazaar"), ("six", "grandchild"), ("grandchild", "six")):
        assert on("compare", a, b).code == 1
    assert on("compare", "five", "six", "grandchild").code == 1


@pytest.mark.filled(by=lineage, read=True)
def test_a_comparison_says_in_whose_log_an_effect_is(on: Cli) -> None:
    """A fork's effects that are an ancestor's are shown with its name, and a fork with where it goes on from."""
    out = on("compare", "grandchild", "bazaar", "--by", "seq").out
    lines = out.splitlines()
    assert lines[:3] == ["a  grandchild  2 effects", "   from seq 2 of child", "b  bazaar  7 effects"]
    assert lines[4:7] == [
        "part at effect 6, after 5 effects equal, 5 of them shared",
        "  a  nothing more at effect 6",
        "  b  seq 7  Sneezed  by bob",
    ]
    assert "states there (a 6 of bazaar, b 7)" in lines
    found = compared(on, "grandchild", "bazaar")
    assert [world["fork_of"] for world in found["worlds"]] == [{"world_id": "child", "global_seq": 2}, None]
    assert found["states"]["divergence"]["a_world_id"] == "bazaar"
    assert found["states"]["head"]["a_world_id"] == "grandchild"


@pytest.mark.filled(by=lineage)
def test_verify_of_a_fork_finds_a_change_in_its_past(on: Cli, database_url: str) -> None:
    """A changed effect before the fork point is found by the fork; one behind it is none of its business."""
    tamper(
        database_url,
        "update effects set effect = replace(effect::text, 'Sneezed', 'Snored')::json where global_seq = 7",
    )
    assert (on("verify", "bazaar").code, on("verify", "grandchild").code) == (1, 0)
    tamper(
        database_url,
        "update effects set effect = replace(effect::text, 'figs', 'dates')::json where world_id = 'bazaar'",
    )
    result = on("verify", "grandchild", "--json")
    (found,) = json.loads(result.out)
    assert (result.code, found["verified"], found["finding"]) == (1, False, None)
    child, parent = found["inherited"]
    assert (child["state"], parent["state"], parent["effects"]) == ("verified", "tampered", 4)
    assert (parent["finding"]["global_seq"], "checksum differs" in parent["finding"]["what"]) == (5, True)
    sentence = on("verify", "grandchild", "--quiet").out
    assert sentence.startswith("TAMPERED grandchild before its fork point, in bazaar at seq 5: checksum differs")


@pytest.mark.filled(by=lineage)
def test_forks_hold_only_if_their_parents_do(on: Cli, database_url: str) -> None:
    """Where a parent is verified as well, its forks are told to hold only if it does up to their fork points."""
    names = ("bazaar", "child", "grandchild")
    orders = [["verify", *order] for order in permutations(names)] + [["verify", "--all"]]

    def said(*asked: str) -> list[str]:
        told = on(*asked, "--quiet").out.splitlines()
        return sorted(line.partition(": ")[0] for line in told)

    tamper(
        database_url,
        "update effects set effect = replace(effect::text, 'Sneezed', 'Snored')::json where global_seq = 7",
    )
    for order in orders:
        assert said(*order) == ["TAMPERED bazaar at seq 7"], order
    tamper(
        database_url,
        "update effects set effect = replace(effect::text, 'figs', 'dates')::json where world_id = 'bazaar'",
    )
    before = "before its fork point, in bazaar at seq 5"
    forks = [f"TAMPERED {name} {before}" for name in ("child", "grandchild")]
    for order in orders:
        assert said(*order) == ["TAMPERED bazaar at seq 5", *forks], order
    assert said("verify", "grandchild", "child") == forks
    assert said("verify", "grandchild", "bazaar") == ["TAMPERED bazaar at seq 5", forks[1]]


@pytest.mark.filled(by=lineage)
def test_verify_names_a_parent_that_is_not_there(on: Cli, database_url: str) -> None:
    """A fork without its parent is not checked to its beginning, which is exit code 1."""
    tables = ("effects", "requests", "snapshots", "heads", "worlds")
    tamper(database_url, *(f"delete from {table} where world_id = 'bazaar'" for table in tables))
    result = on("verify", "child", "grandchild")
    assert result.code == 1
    assert result.out.startswith(
        "not checked: what child has from bazaar, which is not there up to seq 6; its own 2 effects hold, head 2:"
    )
    assert "  inherited from bazaar: not checked, up to 6:" in result.out
    assert result.err.endswith("worldledger: 0 verified, 0 tampered, 2 not checked to their beginning\n")
    assert on("verify", "grandchild").out.startswith("not checked: what grandchild has from bazaar, ")
    assert on("verify", "child", "--own").code == 0


@pytest.mark.filled(by=lineage)
def test_a_fork_that_cannot_be_replayed_keeps_no_other_from_it(on: Cli, database_url: str) -> None:
    """A fork without its parent is named as not checked, which is exit code 2, and the other worlds are replayed."""
    record(database_url, "other", BAZAAR)
    record(database_url, "served", BAZAAR)
    tables = ("effects", "requests", "snapshots", "heads", "worlds")
    served = """update effects set effect = replace(effect::text, '"ruleset":', '"orchestrator":"x","ruleset":')::json
        where world_id = 'served' and global_seq = 1"""
    tamper(database_url, *(f"delete from {table} where world_id = 'bazaar'" for table in tables))
    for names in (("--all",), ("child", "grandchild", "other", "served")):
        result = on("replay", "--check", *names)
        assert result.code == 2
        what = "not checked: child: world 'child' goes on from seq 6 of world 'bazaar', which is not in this database"
        assert result.err.startswith(f"worldledger: {what}")
        assert [line.split()[1] for line in result.out.splitlines()] == ["grandchild", "other", "served"]
        assert result.err.endswith(", 1 not checked\n")
    tamper(database_url, served)
    result = on("replay", "--check", "--all")
    assert (result.code, [line.split()[:2] for line in result.out.splitlines()]) == (
        1,
        [["agreed", "grandchild"], ["replayed", "other"], ["TAMPERED", "served"]],
    )


@pytest.mark.filled(by=lineage)
def test_worlds_as_a_tree(on: Cli, database_url: str) -> None:
    """`worlds --tree` draws forks under their parents, by fork point, and marks those whose parent is not here."""
    on("fork", "bazaar", "--at", "2", "--as", "early")
    record(database_url, "other", BAZAAR)
    drawn = "bazaar 7 effects\n├ early from seq 2 2 effects\n└ child from seq 6 2 effects\n"
    drawn += "  └ grandchild from seq 2 2 effects\nother 7 effects\n"
    assert on("worlds", "--tree") == (0, drawn, "")
    origins = {world["world_id"]: world["fork_of"] for world in json.loads(on("worlds", "--json").out)}
    assert (origins["other"], origins["grandchild"]["world_id"], origins["grandchild"]["depth"]) == (None, "child", 2)
    long = "a-name-of-a-world-that-does-not-leave-room-for-anything-else-in-a-line-of-eighty"
    on("fork", "child", "--at", "1", "--as", long)
    line = next(line for line in on("worlds", "--tree").out.splitlines() if "a-name" in line)
    assert line == "  ├ a-name-of-a-world-that-does-not-leave-room-for-anythin… from seq 1 2 effects"
    assert len(line) == 80
    on("fork", "bazaar", "--as", "elsewhere", "--experiment", "e")
    on("fork", long, "--at", "1", "--as", "as-long-as-a-uuid-of-a-game-of-chess", "--experiment", "e")
    assert on("worlds", "--tree", "--experiment", "e").out.splitlines() == [
        "as-long-as-a-uuid-of-a-game-of-chess from seq 1 of a-name-of…of-eighty 2 effects",
        "elsewhere from seq 7 of bazaar 2 effects",
    ]
    tables = ("effects", "requests", "snapshots", "heads", "worlds")
    tamper(database_url, *(f"delete from {table} where world_id = 'bazaar'" for table in tables))
    assert on("worlds", "--tree").out.splitlines()[0] == "child from seq 6 of bazaar, which is not here 2 effects"
    lines = on("worlds", "--tree", "--experiment", "e").out.splitlines()
    assert lines[1] == "elsewhere from seq 7 of bazaar, which is not here 2 effects"


@pytest.mark.filled(by=lineage, read=True)
def test_a_fork_goes_to_another_database_with_its_past(
    on: Cli, cli: Cli, make_database: Callable[..., str], tmp_path: Path
) -> None:
    """The export of a fork has its ancestors up to the fork points; imported elsewhere it verifies to the beginning."""
    url, file, again = make_database(), tmp_path / "fork.ndjson", tmp_path / "again.ndjson"
    told = on("export", "grandchild", "-o", str(file))
    assert (told.code, ", after what it has from bazaar, child to " in told.err) == (0, True)
    first, *inherited = cli("verify", "--file", str(file)).out.splitlines()
    assert first.startswith(f"verified {file}: grandchild 2 effects, head 2:")
    assert inherited == on("verify", "grandchild").out.splitlines()[1:]
    imported = cli("import", "log", str(file), "--database-url", url)
    assert [line.split(", head")[0] for line in imported.out.splitlines()] == [
        "imported bazaar, 6 effects",
        "imported child, 2 effects",
        "imported grandchild, 2 effects",
    ]
    assert cli("verify", "grandchild", "--database-url", url).out == on("verify", "grandchild").out
    assert cli("state", "grandchild", "--json", "--database-url", url).out == on("state", "grandchild", "--json").out
    assert cli("export", "grandchild", "-o", str(again), "--database-url", url).code == 0
    assert again.read_bytes() == file.read_bytes()
    repeated = cli("import", "log", str(file), "--database-url", url)
    assert repeated.out.count("already there, nothing to do: ") == 3


@pytest.mark.filled(by=lineage)
def test_a_past_that_is_there_is_not_imported_again(on: Cli, database_url: str, tmp_path: Path) -> None:
    """A parent that has gone on behind the fork point is no conflict; one whose effect there differs is."""
    file = tmp_path / "fork.ndjson"
    on("export", "child", "-o", str(file))
    assert on("import", "log", str(file)).out.startswith("already there, nothing to do: bazaar, 6 effects")
    tamper(database_url, REWRITTEN)
    result = on("import", "log", str(file))
    assert (result.code, result.out) == (2, "")
    assert "a world named 'bazaar' is already there, and its log differs from seq 5 on" in result.err


@pytest.mark.filled(by=lineage, read=True)
def test_a_file_without_the_past_says_so(on: Cli, cli: Cli, make_database: Callable[..., str], tmp_path: Path) -> None:
    """With --own, and with --all, the file has the fork's own log; verification says what it could not see."""
    file, folder = tmp_path / "own.ndjson", tmp_path / "all"
    assert on("export", "child", "--own", "-o", str(file)).code == 0
    assert on("export", "--all", "-o", str(folder)).code == 0
    assert (folder / "child.ndjson").read_bytes() == file.read_bytes()
    result = cli("verify", "--file", str(file))
    assert result.code == 0
    assert result.out.splitlines()[1].startswith("  inherited from bazaar: left out, not checked, up to 6:")
    (told,) = json.loads(cli("verify", "--file", str(file), "--json").out)
    assert [(part["world_id"], part["until_seq"], part["state"]) for part in told["inherited"]] == [
        ("bazaar", 6, "left out")
    ]
    url = make_database()
    assert cli("import", "log", str(file), "--database-url", url).code == 0
    assert cli("verify", "child", "--database-url", url).out.startswith("not checked: what child has from bazaar")
    refused = cli("export", "child", "-o", "-", "--database-url", url)
    assert refused.code != 0
    assert "not in this database" in refused.err


@pytest.mark.filled(by=lineage, read=True)
def test_a_file_with_a_wrong_past_is_refused(on: Cli, cli: Cli, line: tuple[str, str], tmp_path: Path) -> None:
    """The logs of a file must follow from each other; a changed line before the fork point is found, with its world."""
    file = tmp_path / "fork.ndjson"
    on("export", "grandchild", "-o", str(file))
    lines = file.read_bytes().splitlines(keepends=True)
    ends = [number for number, text in enumerate(lines, 1) if text.startswith(b'{"trailer":')]
    assert ends == [7, 10, 13]
    head = line[1].rpartition(" ")[2]
    wrong = {
        "not the parent": (lines[:7] + lines[10:], 8, "text after the trailer"),
        "the wrong order": (lines[7:10] + lines[:7] + lines[10:], 4, "text after the trailer"),
        "a changed line": ([text.replace(b"figs", b"nuts") for text in lines], 5, "this line was changed"),
        "cut": (lines[:12], 12, "without a trailer"),
    }
    for what, (changed, at, why) in wrong.items():
        file.write_bytes(b"".join(changed))
        result = cli("verify", "--file", str(file))
        assert (result.code, f"at line {at} (world" in result.out, why in result.out) == (1, True, True), what
    file.write_bytes(b"".join(lines))
    assert cli("verify", "--file", str(file), "--head", head).code == 1  # it is none of the fork's own
    own = on("verify", "grandchild", "--own").out.splitlines()[0].rpartition(" ")[2]
    assert cli("verify", "--file", str(file), "--head", own).code == 0
