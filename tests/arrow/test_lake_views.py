"""The views of a lake are those of the database, after the first export and after each further one."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from worldledger_projections.tables import WITH_FORKS
from worldledger_service.arrow.connections import Connections
from worldledger_service.arrow.lake.exporting import export_lake
from worldledger_service.arrow.lake.folder import Choice, Manifest
from worldledger_service.projecting.engine import Engine
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.store.helpers import draft
from worldledger.genesis import NewWorld

#: What says how the service is doing, and so says something else each time, or what is left out.
_BESIDE = {"effects", "verification", "effect_verification", "projections", "projection_backlog"}


@pytest.fixture
def duck(database_url: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Return a DuckDB that reads the database, too, as ``db``."""
    found = importlib.util.find_spec("duckdb_extension_postgres_scanner")
    assert found is not None
    (extension,) = Path(str(found.origin)).parent.rglob("postgres_scanner.duckdb_extension")
    with duckdb.connect() as connection:
        connection.load_extension(str(extension))
        connection.execute(f"attach '{database_url}' as db (type postgres, read_only)")
        yield connection


def _moves(*places: tuple[float, float]) -> Iterator[Any]:
    for x, y in places:
        moved = {"kind": "Move", "payload": {"agent_id": "ann", "to": [x, y, 0.0]}}
        yield draft(source_id="ann", source_metadata={"intent": "Move", "context_seq": 1}, **moved)
        yield draft(kind="Speak", payload={"text": "so,\n“here”"}, source_id="ann", caused_by=1)


#: Views that show what an export after the first one does.
_TELLING = ("move", "speak", "intents", "world_created", "entities", "worlds", "experiments")


def _all(duck: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the views of the database that a lake has, too."""
    listed = "select table_name from duckdb_tables() where database_name = 'db' and schema_name = 'analytics'"
    views = [row[0] for row in duck.execute(listed).fetchall()]
    assert {*_TELLING} <= {*views}
    return sorted(view for view in {*views} - _BESIDE if not view.endswith(WITH_FORKS))


def _differences(
    duck: duckdb.DuckDBPyConnection, lake: Path, worlds: Sequence[str], views: Sequence[str] = _TELLING
) -> dict[str, Any]:
    """Compare views of the lake with those of the database, for some worlds; return those that differ."""
    duck.execute("call pg_clear_cache()")
    found = {}
    for view in views:
        columns = [row[0] for row in duck.execute(f"describe db.analytics.{view}").fetchall()]
        where = f"where world_id in {tuple(worlds)}" if "world_id" in columns else ""
        shown = ", ".join(f"{name}::text" for name in columns)
        stored = duck.execute(f"select {shown} from db.analytics.{view} {where} order by all").fetchall()
        read = duck.execute(f"select {shown} from '{lake}/{view}/*.parquet' order by all").fetchall()
        if read != stored:
            found[view] = (read, stored)
    return found


def _views(lake: Path) -> dict[str, Any]:
    return Manifest.model_validate_json((lake / "manifest.json").read_bytes()).model_dump()["views"]  # type: ignore[no-any-return]


async def test_views_are_those_of_the_database(
    store: Store, connections: Connections, database_url: str, tmp_path: Path, duck: duckdb.DuckDBPyConnection
) -> None:
    """Each view has the rows of the lake's worlds; an export writes of it what is new, or all if that has changed."""
    lake = tmp_path / "lake"
    async with Engine.open(store, database_url, Settings()) as projections:
        for name, experiment in (("a", "trial"), ("b", "trial"), ("other", None)):
            await store.import_world(NewWorld(world_id=name, experiment=experiment), _moves((1.5, 2), (-0.25, 1e300)))
        await projections.run_until_caught_up(timeout=60)
        await export_lake(store, connections, lake, Choice(experiments=["trial"]))
        assert _differences(duck, lake, ["a", "b"], _all(duck)) == {}
        first = _views(lake)
        assert {*_TELLING} <= {name for name, view in first.items() if view["parts"]}

        await store.bulk_append("a", _moves((7, 7)))
        await projections.run_until_caught_up(timeout=60)
        await export_lake(store, connections, lake, Choice())
        assert _differences(duck, lake, ["a", "b"]) == {}
        second = _views(lake)
        assert second["move"]["parts"][:1] == first["move"]["parts"]
        assert len(second["move"]["parts"]) == 2
        assert second["world_created"] == first["world_created"]

        await export_lake(store, connections, lake, Choice(worlds=["other"]))
        assert _differences(duck, lake, ["a", "b", "other"]) == {}
        # As after an upgrade that has changed the view: it is written anew.
        path = lake / "manifest.json"
        path.write_text(path.read_text().replace(_views(lake)["speak"]["source"], "another"))
        await export_lake(store, connections, lake, Choice())
        assert len(_views(lake)["speak"]["parts"]) == 1
        assert _differences(duck, lake, ["a", "b", "other"]) == {}
        await export_lake(store, connections, lake, Choice(views=False))
    assert _views(lake) == {}
    assert {found.name for found in lake.rglob("*.parquet")} == {"part-1-5.parquet", "part-6-7.parquet"}


async def test_a_view_without_rows_has_its_columns(
    store: Store, connections: Connections, tmp_path: Path, duck: duckdb.DuckDBPyConnection
) -> None:
    """Such a view is one file without rows, until it has some; then they come in its place, and are added to."""
    lake = tmp_path / "lake"

    def parts(view: str) -> list[int]:
        found = [part["rows"] for part in _views(lake)[view]["parts"]]
        assert len([*(lake / view).iterdir()]) == len(found)
        return found

    await store.import_world(NewWorld(world_id="a"), [])
    await export_lake(store, connections, lake, Choice())
    assert (parts("speak"), parts("snapshots")) == ([0], [0])
    assert _differences(duck, lake, ["a"], ["move", "speak", "snapshots"]) == {}
    assert (await export_lake(store, connections, lake, Choice())).new_files == 0
    # As in a lake of an earlier version, which left out what has no rows.
    path = lake / "manifest.json"
    manifest = Manifest.model_validate_json(path.read_bytes())
    for view in manifest.views.values():
        view.parts = [part for part in view.parts if part.rows]
    path.write_text(manifest.model_dump_json())
    await export_lake(store, connections, lake, Choice())
    assert (parts("speak"), parts("snapshots")) == ([0], [0])
    for rows in ([1], [1, 1]):
        await store.bulk_append("a", _moves((7, 7)))
        await export_lake(store, connections, lake, Choice())
        assert (parts("speak"), parts("snapshots")) == (rows, [0])
    assert _differences(duck, lake, ["a"], ["move", "speak", "snapshots"]) == {}


async def test_damaged_views_are_written_anew(
    store: Store, connections: Connections, tmp_path: Path, duck: duckdb.DuckDBPyConnection
) -> None:
    """A kill of an earlier version left views other than those of the manifest: they are made again, as lost ones."""
    lake = tmp_path / "lake"
    await store.import_world(NewWorld(world_id="a"), _moves((7, 7)))
    await export_lake(store, connections, lake, Choice())
    await store.bulk_append("a", _moves((7, 7)))
    await export_lake(store, connections, lake, Choice())
    told = _views(lake)
    (lake / "worlds" / "part-0.parquet").write_bytes(b"of another export")
    (lake / "speak" / "part-1.parquet").unlink()
    summary = await export_lake(store, connections, lake, Choice())
    assert (summary.new_effects, summary.new_files) == (0, 2)
    assert _differences(duck, lake, ["a"], ["move", "speak", "worlds"]) == {}
    now = _views(lake)
    assert [view for view in now if now[view] != told[view]] == ["speak"]
    assert [part["path"] for part in now["speak"]["parts"]] == ["speak/part-3.parquet"]
