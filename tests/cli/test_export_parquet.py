"""``worldledger export parquet``: what it says, its exit codes, and where worlds begin."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb

from .helpers import append, call, seed


def _seqs(lake: Path) -> dict[str, list[int]]:
    """Give the seqs of the lake's effects, by world."""
    found = duckdb.sql(
        f"select world_id, list(global_seq order by global_seq) from '{lake}/effects/**/*.parquet' group by all"
    )
    return dict(found.fetchall())


def test_a_lake_is_made_and_brought_up_to_date(database_url: str, tmp_path: Path) -> None:
    """The first export has all that was chosen, the next ones what is new; the summary says which, in words or JSON."""
    seed(database_url, "a", experiment="first")
    seed(database_url, "b", experiment="first")
    seed(database_url, "other")
    lake = tmp_path / "lake"
    export = ("export", "parquet", "-o", str(lake), "--effects-only", "--database-url", database_url)
    made = call(*export, "--experiment", "first", "--since", "3", "--json")
    assert (made.code, made.err) == (0, "")
    summary = json.loads(made.out)
    told = {name: summary[name] for name in ("worlds", "effects", "files", "new_effects", "views")}
    assert told == {"worlds": 2, "effects": 16, "files": 2, "new_effects": 16, "views": {}}
    append(database_url, "b", 2)
    said = call(*export, "--world", "other")
    assert said.code == 0
    assert "wrote 12 effects in 2 files" in said.err
    one = call(*export[:3], str(tmp_path / "another"), *export[4:], "--world", "a", "--since", "10")
    assert one.code == 0
    assert "wrote 1 effect in 1 file (0.0 MB)" in one.err
    assert "which has 1 effect of 1 world, 0.0 MB in all" in one.err
    assert _seqs(lake) == {"a": [*range(3, 11)], "b": [*range(3, 13)], "other": [*range(1, 11)]}
    manifest = lake / "manifest.json"
    changed = json.loads(manifest.read_bytes())
    changed["worlds"]["a"]["checksum"] = "0" * 64
    manifest.write_text(json.dumps(changed))
    refused = call(*export)
    assert refused.code == 1
    assert "world 'a' has another history" in refused.err
