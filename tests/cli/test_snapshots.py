"""`snapshot`, `snapshots`, and how often a world takes them by itself."""

from __future__ import annotations

import json

import pytest

from .conftest import Cli
from .helpers import BAZAAR, append, record, seed, sql, untouched


def test_a_snapshot_is_taken_once(on: Cli, database_url: str) -> None:
    """A snapshot is taken at the head and its digest goes into the log; the same command again does nothing."""
    record(database_url, "bazaar", BAZAAR)
    digest = json.loads(on("state", "bazaar", "--json").out)["state_digest"]
    result = on("snapshot", "bazaar")
    assert (result.code, result.err) == (0, "")
    ((size,),) = sql(database_url, "select state_bytes from snapshots")
    what = f"{size} bytes, digest {digest}"
    assert result.out == f"took a snapshot of bazaar at seq 7 ({what}); seq 8 of the log says so\n"
    assert on("snapshot", "bazaar") == (
        0,
        f"nothing has happened in bazaar since its snapshot at seq 7 ({what})\n",
        "",
    )
    assert sql(database_url, "select kind, effect #>> '{payload,state_digest}' from effects where global_seq > 7") == [
        ("StateDigest", digest)
    ]
    append(database_url, "bazaar")
    assert on("snapshot", "bazaar").out.startswith("took a snapshot of bazaar at seq 9 ")


def test_a_snapshot_as_json(on: Cli, database_url: str) -> None:
    """--json is the snapshot as the list has it."""
    record(database_url, "bazaar", BAZAAR)
    result = on("snapshot", "bazaar", "--json")
    assert (result.code, result.err) == (0, "")
    (listed,) = json.loads(on("snapshots", "bazaar", "--json").out)
    assert json.loads(result.out) == listed
    assert (listed["global_seq"], listed["digest_seq"], listed["current"]) == (7, 8, True)


def test_snapshots_as_a_table(on: Cli, database_url: str) -> None:
    """Each snapshot is a row; one of another version of the ruleset is stale."""
    record(database_url, "bazaar", BAZAAR)
    on("snapshot", "bazaar")
    append(database_url, "bazaar")
    on("snapshot", "bazaar")
    sql(database_url, "update snapshots set ruleset_version = 99 where global_seq = 7")
    result = on("snapshots", "bazaar")
    assert (result.code, result.err) == (0, "")
    header, *rows = ([cell.strip() for cell in line.split("  ") if cell.strip()] for line in result.out.splitlines())
    assert header == ["SEQ", "BYTES", "STATE DIGEST", "RULESET", "STATUS", "DIGEST IN SEQ", "TAKEN"]
    stored = "select left(encode(state_digest, 'hex'), 16) from snapshots order by global_seq"
    digests = [row[0] for row in sql(database_url, stored)]
    assert [[row[0], *row[2:6]] for row in rows] == [
        ["7", f"{digests[0]}…", "sandbox 99", "stale", "8"],
        ["9", f"{digests[1]}…", "sandbox 1", "current", "10"],
    ]


def test_no_snapshots(on: Cli, database_url: str) -> None:
    """Where there is none, stdout is empty and a word says what to do; --json is an empty list."""
    seed(database_url, "w", 1)
    result = on("snapshots", "w")
    assert (result.code, result.out) == (0, "")
    assert "`worldledger snapshot w`" in result.err
    assert on("snapshots", "w", "--json") == (0, "[]\n", "")


@pytest.mark.filled(by=untouched, read=True)
@pytest.mark.parametrize("command", ["snapshot", "snapshots"])
def test_unknown_worlds(on: Cli, command: str) -> None:
    """A world that there is not is exit code 2 and one line."""
    assert on(command, "nowhere") == (2, "", "worldledger: no world named 'nowhere'; `worldledger worlds` lists all\n")


def test_a_world_says_how_often(on: Cli, database_url: str) -> None:
    """`world create --snapshot-every` stands in the genesis, and snapshots are taken as often."""
    assert on("world", "create", "w", "--snapshot-every", "5").code == 0
    assert sql(database_url, "select effect #>> '{payload,snapshot_every}' from effects") == [("5",)]
    record(database_url, "w", [])
    append(database_url, "w", 20)
    assert on("state", "w").code == 0  # whoever reads takes those that are due
    assert json.loads(on("snapshots", "w", "--json").out)


def test_a_world_that_cannot_be_made(on: Cli, subtests: pytest.Subtests) -> None:
    """A spacing that makes no sense is exit code 2, and no world is made."""
    for many in ("1", "0", "-3", "x", "1000000000"):
        with subtests.test(many):
            assert on("world", "create", "w", "--snapshot-every", many).code == 2
            assert on("worlds", "--json").out == "[]\n"
