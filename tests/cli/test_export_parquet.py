"""``worldledger export parquet``: what it says, its exit codes, and where worlds begin."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import duckdb
import pytest

from .conftest import Cli
from .helpers import Running, append, seed, sql

#: The program, which is killed when a file has come to its place.
KILLED = """
import os, signal, sys
from pathlib import Path
last, replace = sys.argv.pop(1), Path.replace
def killed(path, place):
    replace(path, place)
    if str(place) == last:
        os.kill(os.getpid(), signal.SIGKILL)
Path.replace = killed
from worldledger_service.cli.entry import main
main()
"""


def _seqs(lake: Path) -> dict[str, list[int]]:
    """Return the seqs of the lake's effects, by world."""
    found = duckdb.sql(
        f"select world_id, list(global_seq order by global_seq) from '{lake}/effects/**/*.parquet' group by all"
    )
    return dict(found.fetchall())


def test_a_lake_is_made_and_brought_up_to_date(on: Cli, database_url: str, tmp_path: Path) -> None:
    """The first export has all that was chosen, the next ones what is new; the summary says which, in words or JSON."""
    seed(database_url, "a", experiment="first")
    seed(database_url, "b", experiment="first")
    seed(database_url, "other")
    lake = tmp_path / "lake"
    export = ("export", "parquet", "-o", str(lake), "--effects-only")
    made = on(*export, "--experiment", "first", "--since", "3", "--json")
    assert (made.code, made.err) == (0, "")
    summary = json.loads(made.out)
    told = {name: summary[name] for name in ("worlds", "effects", "files", "new_effects", "views")}
    assert told == {"worlds": 2, "effects": 16, "files": 2, "new_effects": 16, "views": {}}
    append(database_url, "b", 2)
    said = on(*export, "--world", "other")
    assert said.code == 0
    assert "wrote 12 effects in 2 files" in said.err
    one = on(*export[:3], str(tmp_path / "another"), *export[4:], "--world", "a", "--since", "10")
    assert one.code == 0
    assert "wrote 1 effect in 1 file (0.0 MB)" in one.err
    assert "which has 1 effect of 1 world, 0.0 MB in all" in one.err
    assert _seqs(lake) == {"a": [*range(3, 11)], "b": [*range(3, 13)], "other": [*range(1, 11)]}
    manifest = lake / "manifest.json"
    changed = json.loads(manifest.read_bytes())
    changed["worlds"]["a"]["checksum"] = "0" * 64
    manifest.write_text(json.dumps(changed))
    refused = on(*export)
    assert refused.code == 1
    assert "world 'a' has another history" in refused.err


@pytest.mark.thorough  # kills at any step: tests/arrow/test_publishing.py
def test_a_kill_in_the_middle_does_no_harm(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Killed when views have been replaced: readers find each once, by the manifest all; the next export goes on."""
    seed(database_url, "a")
    lake = tmp_path / "lake"
    export = ("export", "parquet", "-o", str(lake))
    assert on(*export).code == 0
    append(database_url, "a", 2)
    seed(database_url, "another", experiment="of another size")
    program = tmp_path / "killed.py"
    program.write_text(KILLED)
    last = str(lake / "worlds" / "part-0.parquet")
    with Running(last, *export, "--database-url", database_url, program=program) as killed:
        result = killed.end()
    assert result.code == -signal.SIGKILL, result.err
    manifest = json.loads((lake / "manifest.json").read_bytes())
    parts = [part for found in ("worlds", "views") for one in manifest[found].values() for part in one["parts"]]
    assert {part["path"]: (lake / part["path"]).stat().st_size for part in parts} == {
        part["path"]: part["bytes"] for part in parts
    }
    heads = duckdb.sql(f"select world_id, head_seq from '{lake}/worlds/*.parquet' order by all").fetchall()
    assert heads == [("a", 12), ("another", 10)]
    said = on(*export)
    assert (said.code, said.out) == (0, "")
    assert "up to date" in said.err
    assert _seqs(lake) == {"a": [*range(1, 13)], "another": [*range(1, 11)]}
    assert "moves" not in json.loads((lake / "manifest.json").read_bytes())


def test_an_experiment_with_a_long_name_keeps_nobody_out(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Names of 200 characters of any script are exported like others."""
    for number, name in enumerate(("验" * 28, "验" * 200, "😀" * 200, "\\/:*?" * 40)):
        seed(database_url, f"w{number}", experiment=name)
    lake = tmp_path / "lake"
    export = ("export", "parquet", "-o", str(lake), "--effects-only")
    assert on(*export).code == 0
    assert "up to date" in on(*export).err
    assert _seqs(lake) == {f"w{number}": [*range(1, 11)] for number in range(4)}


def test_a_snapshot_of_no_time_keeps_no_lake_from_being_made(on: Cli, database_url: str, tmp_path: Path) -> None:
    """A lake notes when the newest snapshot was taken; one that lies beyond every calendar is noted as the last day."""
    assert on("world", "create", "odd").code == 0
    assert on("snapshot", "odd").code == 0
    sql(database_url, "update snapshots set created_at = '294276-12-31'")
    for _ in range(2):
        result = on("export", "parquet", "-o", str(tmp_path / "lake"))
        assert result.code == 0, result.err
