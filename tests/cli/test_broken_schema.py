"""`verify` and `replay --check` of worlds whose rows break constraints that somebody has taken away."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from worldledger_service.store import Store, verification

from tests.conftest import quick_settings
from worldledger.genesis import NewWorld

from .conftest import Cli
from .helpers import Result, seed
from .test_verify import tamper

#: Columns that the schema never has NULL and that are evidence, by table.
_NEVER_NULL = {
    "worlds": ("world_uuid", "ruleset", "ruleset_version", "config", "time_authority", "created_at"),
    "heads": ("head_seq", "sim_time", "wall_time"),
    "effects": ("global_seq", "effect", "checksum", "kind", "source_id", "sim_time"),
    "requests": ("source_id", "req_id", "body_sha256", "first_seq", "last_seq"),
}
_WHERE = {"effects": "and global_seq = 3"}


def without_constraints() -> list[str]:
    """Return the statements that take keys and NOT NULL away."""
    return [
        statement
        for table, columns in _NEVER_NULL.items()
        for statement in (
            f"alter table {table} drop constraint {table}_pkey",
            *(f"alter table {table} alter {column} drop not null" for column in ("world_id", *columns)),
        )
    ]


def _findings(result: Result) -> dict[str, str]:
    """Return what is said of each world that does not hold."""
    told = [line.removeprefix("TAMPERED ") for line in result.out.splitlines() if line.startswith("TAMPERED ")]
    return dict(line.split(" at ", 1) for line in told)


def test_every_column_and_key(on: Cli, database_url: str) -> None:
    """A NULL, and a row that is there twice, are findings of their world; other worlds are checked."""
    changes = without_constraints()
    names = []
    for table, columns in _NEVER_NULL.items():
        for column in (*columns, "twice"):
            names.append(name := f"{table}-{column}")
            seed(database_url, name, 3)
            if table == "requests":
                changes.append(f"insert into requests values ('{name}', 'ann', 'r', sha256('x'), 3, 3)")
            where = f"where world_id = '{name}' {_WHERE.get(table, '')}"
            if column == "twice":
                changes.append(f"insert into {table} select * from {table} {where}")
            else:
                changes.append(f"update {table} set {column} = null {where}")
    seed(database_url, "zebra", 3)
    tamper(database_url, *changes)
    result = on("verify", "--all")
    findings = _findings(result)
    assert (result.code, sorted(findings)) == (1, sorted(names))
    assert "verified zebra 4 effects" in result.out
    assert result.err.endswith(f"worldledger: 1 verified, {len(names)} tampered\n")
    assert findings["effects-checksum"].startswith("seq 3: checksum differs: stored NULL, computed ")
    assert findings["worlds-world_uuid"] == (
        "seq 1: the row of this world in the table worlds cannot be read: its world_uuid is NULL; give it its value, "
        "then `worldledger db upgrade` forbids NULL again"
    )
    assert "head_seq is NULL in this world's row of the table heads; give it" in findings["heads-head_seq"]
    for table in ("worlds", "heads"):
        assert f"the table {table} has 2 rows of this world; delete what is wrong" in findings[f"{table}-twice"]
    replayed = on("replay", "--check", "--all")
    assert replayed.code == 1
    assert {"worlds-world_uuid", "worlds-twice", "heads-twice", "effects-checksum"} <= {*_findings(replayed)}
    assert "replayed zebra 4 effects" in replayed.out


def test_a_place_twice(on: Cli, database_url: str) -> None:
    """A second row of a place that lies where one batch of rows ends is found, and so is a row without a place."""
    seed(database_url, "w", 1000)
    seed(database_url, "x", 3)
    again = "insert into effects select * from effects where world_id = 'w' and global_seq = 1000"
    more = "insert into effects select world_id, null, effect, checksum, kind, source_id, sim_time from effects"
    tamper(database_url, *without_constraints(), again, f"{more} where world_id = 'x' and global_seq = 2")
    mend = "delete what is wrong, then `worldledger db upgrade` makes the key again"
    assert _findings(on("verify", "--all")) == {
        "w": f"seq 1000: the table effects has several rows of seq 1000; {mend}",
        "x": f"seq 1: the table effects has a row of which global_seq is NULL; {mend}",
    }


def test_rows_without_a_world(on: Cli, database_url: str) -> None:
    """Rows whose world_id is NULL are found by --all."""
    seed(database_url, "w", 3)
    tamper(database_url, *without_constraints(), "insert into requests values (null, 'ann', 'r', sha256('x'), 2, 2)")
    what = "the table requests has a row of which world_id is NULL; delete what is wrong"
    result = on("verify", "--all")
    assert (result.code, len(result.out.splitlines())) == (1, 2)
    assert result.out.splitlines()[1].startswith(f"TAMPERED rows of no world at seq 1: {what}, ")
    assert result.err.endswith("worldledger: 1 verified, 1 tampered\n")
    told = json.loads(on("verify", "--all", "--json").out)
    assert [(each["world_id"], each["verified"]) for each in told] == [("w", True), (None, False)]
    assert on("verify", "w").code == 0


def test_a_parent_whose_row_is_broken(on: Cli, database_url: str) -> None:
    """A fork of a world with two rows, or without uuid or checksum, is a finding."""
    for name in ("u", "v", "w"):
        seed(database_url, name, 9)
        assert on("fork", name, "--as", f"{name}-fork", "--at", "4").code == 0
    tamper(
        database_url,
        *without_constraints(),
        "insert into worlds select * from worlds where world_id = 'u'",
        "update worlds set world_uuid = null where world_id = 'v'",
        "update effects set checksum = null where world_id = 'w' and global_seq = 4",
    )
    assert _findings(on("verify", "u-fork"))["u-fork"].endswith("of which the database has 2 rows")
    assert _findings(on("verify", "v-fork"))["v-fork"].endswith("its uuid differs")
    assert "has no checksum, the genesis says" in _findings(on("verify", "w-fork"))["w-fork"]
    assert sorted(_findings(on("verify", "--all"))) == ["u", "u-fork", "v", "v-fork", "w", "w-fork"]


def test_an_unexpected_error(on: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that fails is told of its world, and of forks that need it; the others are checked."""
    for name in ("u", "v", "w"):
        seed(database_url, name, 9)
    assert on("fork", "v", "--as", "v-fork", "--at", "4").code == 0
    verified = verification._Log._begin

    async def broken(log: verification._Log) -> object:
        if log._world_id == "v":
            raise LookupError("line\nbreak")
        return await verified(log)

    monkeypatch.setattr(verification._Log, "_begin", broken)
    result = on("verify", "--all")
    assert result.code == 2
    assert [line.split()[:2] for line in result.out.splitlines()] == [["verified", "u"], ["verified", "w"]]
    first, second, last = result.err.splitlines()
    for line, name in ((first, "v"), (second, "v-fork")):
        assert line.startswith(f"worldledger: not checked: {name}: LookupError: line\\nbreak (test_broken_schema.py, ")
    assert last == "worldledger: 2 verified, 0 tampered, 2 not checked"


def test_requests_are_no_history_of_a_fork(on: Cli, database_url: str) -> None:
    """A request that is missing before the fork point is a finding of the parent, and not of its descendants."""
    seed(database_url, "w", 9)
    seed(database_url, "v", 9)
    for parent, fork in (("w", "f"), ("f", "g"), ("v", "h"), ("h", "i")):
        assert on("fork", parent, "--as", fork, "--at", "head").code == 0
    forged = "'ann', 'r', sha256('x'), 2, 2)"
    tamper(database_url, *(f"insert into requests values ('{world}', {forged}" for world in ("w", "h")))
    assert on("verify", "f", "g", "i").code == 0
    result = on("verify", "--all")
    assert sorted(_findings(result)) == ["h", "w"]
    assert result.err.endswith("4 verified, 2 tampered\n")
    # What a fork with such a finding has inherited is still checked.
    tamper(database_url, "update effects set sim_time = 99 where world_id = 'v' and global_seq = 3")
    assert sorted(_findings(on("verify", "--all"))) == [
        "h",
        "i before its fork point, in v",
        "v",
        "w",
    ]


def test_a_name_of_two_lines(on: Cli, database_url: str) -> None:
    """A line break in a planted name is an escape on stdout and in the summary on stderr."""
    seed(database_url, "w", 3)
    tamper(database_url, r"insert into heads values (E'a\nb', 1, null, 0, 0)")
    result = on("verify", "--all")
    finding = r"TAMPERED a\nb at seq 1: the row of this world is missing from the table worlds"
    assert (result.code, result.out.splitlines()[0]) == (1, finding)
    assert result.err == f"worldledger: {finding}\nworldledger: 1 verified, 1 tampered\n"


def test_two_heads_of_one_world_keep_no_other_from_being_fed(on: Cli, database_url: str) -> None:
    """Projections go on where a key is gone and a world has two heads."""
    seed(database_url, "twice", 3)
    assert on("project", "--once").code == 0
    tamper(
        database_url,
        "alter table heads drop constraint heads_pkey",
        "insert into heads select * from heads where world_id = 'twice'",
        "update heads set moved = true",
    )
    seed(database_url, "zebra", 3)
    assert on("project", "--once", "--timeout", "30").code == 0
    assert "zebra" in on("sql", "select world_id from world_summaries").out


def test_a_head_of_no_effect_ends_no_export_of_all(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Its world is not exported, as a finding says; the others are."""
    for name in ("a1", "broken", "zebra"):
        seed(database_url, name, 3)
    for head in ("head_seq = 0, head_checksum = null", "head_seq = 2, head_checksum = null"):
        tamper(database_url, f"update heads set {head} where world_id = 'broken'")
        result = on("export", "--all", "-o", str(tmp_path / head[11]))
        assert result.code == 1, result.err
        assert "broken" in result.err
        assert sorted(path.stem for path in (tmp_path / head[11]).iterdir()) == ["a1", "zebra"]


def test_requests_are_repaired_where_their_key_is_gone(on: Cli, database_url: str) -> None:
    """Rows that are there twice, and rows without a name, are made right in one run."""

    async def ask() -> None:
        async with Store.open(database_url, quick_settings(pool_size=2)) as store:
            await store.create_world(NewWorld(world_id="asked"))
            draft: Any = {"kind": "Said", "payload": {}, "source_id": "ann", "schema_version": "1.0.0"}
            await (await store.log("asked")).append_all([draft | {"req_id": f"r{n}"} for n in range(3)])

    asyncio.run(ask())
    tamper(
        database_url,
        "alter table requests drop constraint requests_pkey",
        *(f"alter table requests alter {column} drop not null" for column in ("source_id", "req_id")),
        "insert into requests select * from requests where world_id = 'asked'",
        "insert into requests select world_id, null, req_id, body_sha256, first_seq, last_seq from requests limit 1",
    )
    assert on("verify", "asked").code == 1
    repaired = on("db", "repair", "requests", "asked")
    assert repaired.code == 0, repaired.err
    assert on("verify", "asked").code == 0
    assert on("db", "repair", "requests", "asked").out != repaired.out
