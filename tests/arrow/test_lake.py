"""A lake has what the logs have, grows by what is new, and stays whole whatever becomes of an export."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import duckdb
import orjson
import polars as pl
import pyarrow.parquet as pq
import pytest
from worldledger_service.arrow.choosing import choose
from worldledger_service.arrow.connections import Connections
from worldledger_service.arrow.lake import effects
from worldledger_service.arrow.lake import effects as lake_effects
from worldledger_service.arrow.lake.effects import NO_VALUE
from worldledger_service.arrow.lake.exporting import Summary, export_lake
from worldledger_service.arrow.lake.folder import Choice, Manifest
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.store.helpers import draft, start
from worldledger.errors import SimulationError, TamperedError, WorldNotFoundError
from worldledger.genesis import NewWorld

if TYPE_CHECKING:
    import asyncpg

    Admin = asyncpg.Connection[asyncpg.Record]

Export = Callable[..., Coroutine[Any, Any, Summary]]
#: A name in which everything must be escaped.
ODD = "50% ü/=a b"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return where the lake is to be."""
    return tmp_path / "lake"


@pytest.fixture
def another_url(make_database: Callable[[], str]) -> str:
    """Return the address of another database."""
    return make_database()


@pytest.fixture
def export(store: Store, connections: Connections, lake: Path) -> Export:
    """Return what exports into the lake, without the views unless they are asked for."""

    async def run(choice: Choice | None = None, **more: Any) -> Summary:
        return await export_lake(store, connections, lake, choice or Choice(views=False), **more)

    return run


async def _world(store: Store, name: str, count: int = 4, experiment: str | None = None) -> None:
    drafts = (draft(n, payload={"n": n, "agent_id": f"a{n % 2}", "text": 'é"'}, caused_by=1) for n in range(count))
    await store.import_world(NewWorld(world_id=name, experiment=experiment), drafts)


async def _append(store: Store, name: str, count: int) -> None:
    await store.bulk_append(name, map(draft, range(count)))


def _manifest(lake: Path) -> Manifest:
    return Manifest.model_validate_json((lake / "manifest.json").read_bytes())


def _files(lake: Path) -> dict[str, tuple[int, int]]:
    """Return the lake's Parquet files, with what tells whether one was written anew."""
    return {
        path.relative_to(lake).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in lake.rglob("*.parquet")
    }


def _column(value: Any) -> Any:
    """Return a field of an effect as its column has it."""
    if isinstance(value, dict):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return pytest.approx(value, abs=1e-6) if isinstance(value, float) else value


async def test_duckdb_and_polars_read_what_the_logs_have(store: Store, export: Export, lake: Path) -> None:
    """Each effect is there once, with its columns and its experiment, and payloads can be asked in JSON."""
    experiments = {"one": ODD, "two": ODD, "three": None, "007": "2024"}
    for name, experiment in experiments.items():
        await _world(store, name, experiment=experiment)
    summary = await export()
    assert (summary.worlds, summary.effects, summary.files) == (4, 20, 4)
    stored = [
        (world.experiment, world.world_id, orjson.loads(row.text), row.checksum)
        for world in await choose(store.reader)
        async for batch in store.reader.batches(world.world_id)
        for row in batch
    ]
    where = f"read_parquet('{lake}/effects/**/*.parquet', hive_partitioning = true)"
    found = duckdb.sql(
        f"select experiment, world_id, world, global_seq, kind, uuid, payload, caused_by, epoch(recorded_at), checksum "
        f"from {where} order by world_id, global_seq"
    ).fetchall()
    names = ("global_seq", "kind", "uuid", "payload", "caused_by", "wall_time")
    assert found == [
        (experiment, world, world, *(_column(effect.get(name)) for name in names), checksum)
        for experiment, world, effect, checksum in stored
    ]
    asked = duckdb.sql(
        f"select payload->>'$.agent_id', sum((payload->>'$.n')::int) from {where} "
        "where kind = 'Said' and experiment = $1 group by all order by all",
        params=[ODD],
    )
    assert asked.fetchall() == [("a0", 4), ("a1", 8)]
    frame = pl.scan_parquet(lake / "effects", hive_schema={"experiment": pl.String, "world": pl.String})
    counts = frame.group_by("experiment", "world").len().sort("world").collect().rows()
    assert counts == [("2024", "007", 5), (ODD, "one", 5), (None, "three", 5), (ODD, "two", 5)]


async def test_names_that_readers_take_for_no_value(store: Store, export: Export, lake: Path) -> None:
    """``null`` in any case stays a name in DuckDB and polars; Hive's own name for no value does so in DuckDB."""
    names = ["NULL", "Null", "null"]
    for name, experiment in (*zip(names, names, strict=True), ("hive", NO_VALUE), ("none", None)):
        await _world(store, name, 0, experiment=experiment)
    await export()
    table = f"read_parquet('{lake}/effects/**/*.parquet', hive_types = {{experiment: varchar, world: varchar}})"
    found = duckdb.sql(f"select world_id, world, experiment from {table} order by all").fetchall()
    named = [(name, name, name) for name in names]
    assert found == [*named[:2], ("hive", "hive", NO_VALUE), ("none", "none", None), named[2]]
    asked = duckdb.sql(f"select world_id from {table} where experiment = 'null' and world = 'null'")
    assert asked.fetchall() == [("null",)]
    frame = pl.scan_parquet(lake / "effects", hive_schema={"experiment": pl.String, "world": pl.String})
    read = frame.filter(pl.col("world_id").is_in(names)).select("world_id", "world", "experiment").sort("world_id")
    assert read.collect().rows() == named
    assert frame.filter(experiment="null", world="null").collect()["world_id"].to_list() == ["null"]


async def test_an_export_adds_only_what_is_new(store: Store, export: Export, lake: Path) -> None:
    """Files that are there stay as they are; what was appended, and worlds of the experiment that came, are added."""
    await _world(store, "a", experiment="trial")
    await _world(store, "other")
    await export(Choice(experiments=["trial"], views=False))
    first = _files(lake)
    assert await export() == (await export())._replace(new_files=0, new_effects=0, new_worlds=0, new_bytes=0)
    await _append(store, "a", 3)
    await _world(store, "b", experiment="trial")
    summary = await export()
    assert (summary.new_effects, summary.new_files, summary.new_worlds, summary.effects) == (8, 2, 1, 13)
    assert set(_files(lake)) - set(first) == {
        "effects/experiment=trial/world=a/part-6-8.parquet",
        "effects/experiment=trial/world=b/part-1-5.parquet",
    }
    assert first.items() <= _files(lake).items()
    heads = {world.world_id: (world.head_seq, world.head_checksum.hex()) for world in await choose(store.reader)}
    found = {name: (world.last_seq, world.checksum) for name, world in _manifest(lake).worlds.items()}
    assert found == {name: heads[name] for name in ("a", "b")}
    await export(Choice(worlds=["other"], views=False))
    assert set(_manifest(lake).worlds) == {"a", "b", "other"}
    with pytest.raises(WorldNotFoundError, match="nowhere"):
        await export(Choice(worlds=["nowhere"], views=False))
    with pytest.raises(SimulationError, match="no world of the experiment 'nobody'"):
        await export(Choice(experiments=["nobody"], views=False))


async def test_row_groups_and_files_are_of_bounded_size(
    store: Store, export: Export, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file begins anew after so many effects, a row group after so many rows or bytes; together they have all."""
    monkeypatch.setattr(effects, "GROUP_ROWS", 8)
    monkeypatch.setattr(effects, "GROUP_BYTES", 2000)
    monkeypatch.setattr(lake_effects, "MOST", 20)
    await _world(store, "a", 49)
    await export()
    parts = _manifest(lake).worlds["a"].parts
    assert [(part.first_seq, part.last_seq, part.rows) for part in parts] == [(1, 20, 20), (21, 40, 20), (41, 50, 10)]
    metadata = [pq.read_metadata(lake / part.path) for part in parts]
    groups = [[one.row_group(n).num_rows for n in range(one.num_row_groups)] for one in metadata]
    assert [sum(each) for each in groups] == [20, 20, 10]
    assert max(max(each) for each in groups) <= 8
    assert metadata[0].row_group(0).column(1).compression == "ZSTD"
    seqs = [seq for part in parts for seq in pq.read_table(lake / part.path)["global_seq"].to_pylist()]
    assert seqs == [*range(1, 51)]


async def test_a_world_with_another_history_is_refused(
    store: Store, export: Export, lake: Path, admin: Admin, another_url: str
) -> None:
    """A log that was changed, or another world of the name, or none, is named; nothing of the lake changes."""
    await _world(store, "a")
    await _world(store, "b")
    await export()
    before = _files(lake), _manifest(lake)
    await _append(store, "a", 3)
    await admin.execute("alter table effects disable trigger all")
    await admin.execute("update effects set checksum = sha256(checksum) where world_id = 'b' and global_seq = 5")
    with pytest.raises(TamperedError, match="world 'b' has another history") as raised:
        await export()
    assert raised.value.details == {"world_id": "b", "global_seq": 5, "what": "history"}
    elsewhere = Connections(another_url)
    try:
        async with Store.open(another_url, Settings(pool_size=2)) as other:
            with pytest.raises(TamperedError, match="world 'a' is gone"):
                await export_lake(other, elsewhere, lake, Choice(views=False))
            await _world(other, "a")
            with pytest.raises(TamperedError, match="world 'a' is another one"):
                await export_lake(other, elsewhere, lake, Choice(views=False))
    finally:
        await elsewhere.close()
    assert (_files(lake), _manifest(lake)) == before


async def test_an_export_that_is_cancelled_leaves_the_lake_as_it_was(
    store: Store, export: Export, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle of the effects leaves no file behind, and the next export does it all."""
    await _world(store, "a", 20)
    await export()
    before = _files(lake)
    await _append(store, "a", 500)
    await _world(store, "b", 500)
    begun, write = asyncio.Event(), lake_effects.EffectFiles.write
    loop = asyncio.get_running_loop()

    def writing(self: lake_effects.EffectFiles, batch: Any) -> None:
        write(self, batch)
        loop.call_soon_threadsafe(begun.set)

    monkeypatch.setattr(lake_effects.EffectFiles, "write", writing)
    task = start(export())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _files(lake) == before
    assert {path.name for path in lake.iterdir()} == {"effects", "manifest.json", ".lock"}
    assert (await export()).effects == 1022


async def test_an_export_that_is_interrupted_while_it_publishes_is_undone(
    store: Store, export: Export, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it stays, and the next export does it all."""
    await _world(store, "a")

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "sync", killed)
        with pytest.raises(KeyboardInterrupt):
            await export()
    assert {path.name for path in lake.iterdir()} == {"manifest.json", ".lock"}
    await _append(store, "a", 2)
    assert (await export()).effects == 7
    assert [*_files(lake)] == ["effects/experiment=__HIVE_DEFAULT_PARTITION__/world=a/part-1-7.parquet"]


async def test_names_of_any_length_and_script(store: Store, export: Export, lake: Path) -> None:
    """No name keeps others out; one too long for a path is unique there, and stands in the file and in the effects."""
    names = ["验" * 28, "验" * 81, "验" * 82, "验" * 200, "验" * 199 + "证", "😀" * 200, "%" * 200, "e\u0301" * 100]
    for number, name in enumerate(names):
        await _world(store, f"w{number}", 0, experiment=name)
    assert (await export()).effects == 8
    assert (await export()).new_files == 0
    await _append(store, "w3", 2)
    await export()
    table = f"read_parquet('{lake}/effects/**/*.parquet', hive_types = {{experiment: varchar, world: varchar}})"
    found = duckdb.sql(f"select world_id, experiment, payload->>'$.experiment' from {table} where kind like 'World%'")
    read = {world: (experiment, said) for world, experiment, said in found.fetchall()}
    assert [read[f"w{number}"][1] for number in range(len(names))] == names
    assert [number for number, name in enumerate(names) if read[f"w{number}"][0] != name] == [2, 3, 4, 5, 6, 7]
    assert len({experiment for experiment, _ in read.values()}) == len(names)
    assert read["w3"][0].startswith("验" * 60)
    manifest = _manifest(lake)
    assert [manifest.worlds[f"w{number}"].experiment for number in range(len(names))] == names
    metadata = f"from parquet_kv_metadata('{lake}/effects/**/*.parquet') where key = 'experiment'"
    assert {*duckdb.sql(f"select decode(value) {metadata}").fetchall()} == {(name,) for name in names}
    for name, world in manifest.worlds.items():
        said = [pq.read_metadata(lake / part.path).metadata for part in world.parts]
        assert {(one[b"world"].decode(), one[b"experiment"].decode()) for one in said} == {(name, world.experiment)}
    assert len({Path(part.path).parent for part in manifest.worlds["w3"].parts}) == 1
    frame = pl.scan_parquet(lake / "effects", hive_schema={"experiment": pl.String, "world": pl.String})
    counts = frame.filter(experiment="验" * 28).collect()["world_id"].to_list(), frame.collect().height
    assert counts == (["w0"], 10)
    assert pq.read_table(lake / "effects").num_rows == 10


async def test_folders_that_an_earlier_version_named_go_on(store: Store, export: Export, lake: Path) -> None:
    """A world stays in its folder, in which every byte was escaped; no effect comes twice, and all read one name."""
    name = "Versuch für 验"
    await _world(store, "a", experiment=name)
    await export()
    (new,) = (lake / "effects").iterdir()
    old = new.with_name(f"experiment={quote(name, safe='')}")
    assert new.name == f"experiment={name}"
    new.rename(old)
    manifest = lake / "manifest.json"
    manifest.write_text(manifest.read_text().replace(new.name, old.name))
    await _append(store, "a", 2)
    await _world(store, "b", experiment=name)
    assert ((await export()).new_files, (await export()).new_files) == (2, 0)
    assert {path.parents[1].name for path in lake.rglob("*.parquet") if path.parent.name == "world=a"} == {old.name}
    found = duckdb.sql(
        f"select experiment, world_id, list(global_seq order by global_seq) "
        f"from read_parquet('{lake}/effects/**/*.parquet', hive_partitioning = true) group by all order by all"
    )
    assert found.fetchall() == [(name, "a", [*range(1, 8)]), (name, "b", [*range(1, 6)])]


async def test_one_export_at_a_time_and_only_into_lakes(store: Store, export: Export, lake: Path) -> None:
    """While another process holds the lock, in a folder of other things, and where a file lacks, nothing is written."""
    await _world(store, "a")
    await export()
    with (lake / ".lock").open("w") as lock:
        flock(lock, LOCK_EX)
        with pytest.raises(SimulationError, match="another export is just writing"):
            await export()
    (path,) = _files(lake)
    (lake / path).unlink()
    with pytest.raises(SimulationError, match="damaged"):
        await export()
    (lake / "manifest.json").write_text('{"format": "something/2"}')
    with pytest.raises(SimulationError, match="no manifest of a lake"):
        await export()
    (lake / "manifest.json").unlink()
    (lake / "thesis.tex").write_text("")
    with pytest.raises(SimulationError, match="no lake"):
        await export()
    assert {found.name for found in lake.iterdir()} == {".lock", "effects", "thesis.tex"}
