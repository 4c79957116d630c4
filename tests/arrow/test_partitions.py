"""What partitions are named is read back by DuckDB, polars, pyarrow and pandas, and is no longer than a name can be."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worldledger_service.arrow.lake.effects import NO_VALUE, partition

#: Every character that may be taken for something else, and some of other scripts.
CHARS = [*map(chr, range(1, 128)), *"é验😀\x85\xa0\u2028\u200b\u202e\ufeff\u0301\ud7a3"]
HOSTILE = [
    *("验" * 81, "😀" * 61, "👩\u200d👩\u200d👧", "é", "e\u0301", "验 100%/验=", "Å", "\u212b"),
    *("null", "NULL", ".", "..", "...", "a. ", " ", "%41", "A", "%7E", "~", "a~b", "a/../../b", "*", "-", "None"),
    *("2024", "true", "1e5", "2024-01-01", "nan", "[a-z]*", "{a,b}", "C:\\x", "$HOME", "a=b/c=d", "a+b", "a%2Bb"),
]


def _read(lake: Path, names: list[str]) -> dict[str, dict[str, str | None]]:
    """Return what each reader takes names for."""
    for name in names:
        folder = lake / partition("experiment", name) / "world=w"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"name": [name]}), folder / "part-1-1.parquet")
    glob = f"read_parquet('{lake}/**/*.parquet', hive_types = {{experiment: varchar, world: varchar}})"
    types = {"experiment": pl.String, "world": pl.String}
    table = pq.read_table(lake)
    return {
        "duckdb": dict(duckdb.sql(f"select name, experiment from {glob}").fetchall()),
        "polars": dict(pl.scan_parquet(lake, hive_schema=types).select("name", "experiment").collect().rows()),
        "pyarrow": dict(zip(table["name"].to_pylist(), table["experiment"].to_pylist(), strict=True)),
        "pandas": dict(pd.read_parquet(lake)[["name", "experiment"]].itertuples(index=False)),
    }


@pytest.mark.parametrize(
    "form", ["a{}b", *(pytest.param(form, marks=pytest.mark.thorough) for form in ("{}b", "b{}", "{}"))]
)
def test_each_character_is_read_back(tmp_path: Path, form: str) -> None:
    """Wherever it stands in a name."""
    names = [form.format(char) for char in CHARS]
    for found in _read(tmp_path, names).values():
        assert found == {name: name for name in names}


def test_hostile_names_are_read_back(tmp_path: Path) -> None:
    """Those that mean something to a reader, a shell or a file system, and those that look the same."""
    for found in _read(tmp_path, HOSTILE).values():
        assert found == {name: name for name in HOSTILE}


def test_only_what_must_be_is_escaped() -> None:
    """Letters of any script stand for themselves; so a name of 81 of them is one that a file system takes."""
    assert partition("experiment", "Größe 验证, 2. Teil") == "experiment=Größe 验证, 2. Teil"
    assert partition("experiment", "a/b=50%. ") == "experiment=a%2Fb%3D50%25.%20"
    assert partition("world", None) == f"world={NO_VALUE}"
    assert partition("world", NO_VALUE) == "world=%5F_HIVE_DEFAULT_PARTITION__"


_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200)


@given(one=_names, another=_names, longest=st.sampled_from([100, 143, 255]))
def test_names_are_short_and_differ(one: str, another: str, longest: int) -> None:
    """Every name has a folder that file systems take, and no two names have the same."""
    folders = [partition("experiment", name, longest) for name in (one, another)]
    for folder in folders:
        assert len(folder.encode()) <= longest
        assert folder.rpartition("=")[0] == "experiment"
        assert not {*folder} & {*'/\\%:*?"<>|\0'} - {"%"}
        assert folder[-1] not in " ."
    assert (folders[0] == folders[1]) == (one == another)


@pytest.mark.parametrize("char", ["验", "😀", "é", "%", "\u0301", " "])
def test_a_name_that_is_cut_is_unique(char: str) -> None:
    """Of names that begin the same each has a digest; and no name that is not cut looks like it."""
    folders = {partition("experiment", char * 190 + f"{number}" * 10) for number in range(10)}
    assert len(folders) == 10
    assert all(200 < len(folder.encode()) <= 255 for folder in folders)
    names = [folder.removeprefix("experiment=").replace("%7E", "~") for folder in folders]
    assert not folders & {partition("experiment", name) for name in names}
