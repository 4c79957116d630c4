"""Tables of the service in the client: as Arrow, as dataframes, batch by batch; whole, or an error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from worldledger_service.arrow.reading import Effects
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.api.helpers import Served, serving
from tests.waiting import wait_for
from worldledger.client import Client, ServiceUnavailableError, frames
from worldledger.errors import ExtraMissingError, QueryRefusedError, UnknownQueryError, WorldNotFoundError
from worldledger.genesis import NewWorld

from .helpers import emitted, soon


@pytest.fixture
async def filled(served: Served, database_url: str) -> AsyncIterator[Client]:
    """Have a second world, of an experiment, beside ``town``."""
    drafts = [each for n in range(3) for each in (emitted(f"ahoy {n}"), emitted("aye", source_id="A"))]
    async with Store.open(database_url, Settings(pool_size=2)) as store:
        await store.import_world(NewWorld(world_id="harbour", experiment="trial"), drafts)
    async with Client(served.url, "town") as client:
        assert await client.create_world()
        yield client


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the service send the first batch of a table, and then no other."""
    read = Effects.batches

    async def first(self: Effects, spans: Any, **filters: Any) -> AsyncGenerator[pa.RecordBatch, None]:
        async with aclosing(read(self, spans, **filters)) as batches:
            async for batch in batches:
                yield batch
                await asyncio.Event().wait()

    monkeypatch.setattr(Effects, "batches", first)


async def test_a_table_is_what_the_log_has(filled: Client) -> None:
    """Arrow, polars, pandas and the batches have the same effects, those that the log's own reading gives."""
    entries = await filled.world("harbour").event_log.get_entries_since(0)
    asked = filled.effects(experiment="trial")
    table = await asked.to_arrow()
    assert table["uuid"].to_pylist() == [entry.effect["uuid"] for entry in entries]
    assert [checksum.hex() for checksum in table["checksum"].to_pylist()] == [entry.checksum for entry in entries]
    polars = await asked.to_polars()
    assert isinstance(polars, pl.DataFrame)
    assert polars["uuid"].to_list() == table["uuid"].to_pylist()
    text = polars.filter(pl.col("source_id") == "A")["payload"].str.json_path_match("$.text")
    assert text.to_list() == ["aye"] * 3
    pandas = await asked.to_pandas()
    assert isinstance(pandas, pd.DataFrame)
    assert pandas["uuid"].tolist() == table["uuid"].to_pylist()
    assert pandas["recorded_at"].dt.tz is not None
    batches = [batch async for batch in asked]
    assert pa.Table.from_batches(batches).equals(table)


async def test_a_table_is_narrowed_down(filled: Client) -> None:
    """World, kind, source and seqs choose in the service; a world that is not there is the error that it is."""
    everything = await filled.effects().to_arrow()
    assert set(everything["world_id"].to_pylist()) == {"town", "harbour"}
    some = await filled.effects(world="harbour", kind="MessageEmitted", source_id="B", after_seq=2).to_arrow()
    assert some["global_seq"].to_pylist() == [4, 6]
    assert (await filled.effects(world="harbour", until_seq=1).to_arrow())["kind"].to_pylist() == ["WorldCreated"]
    with pytest.raises(WorldNotFoundError):
        await filled.effects(world="nowhere").to_arrow()


@pytest.mark.usefixtures("held")
async def test_leaving_early_ends_the_query(filled: Client) -> None:
    """Whoever takes a batch and goes, or is cancelled while waiting for one, leaves no stream behind in the service."""
    async with aclosing(filled.effects(world="harbour").batches()) as batches:
        assert (await anext(batches)).num_rows == 7
        assert len(_streams()) == 1
    await wait_for(lambda: not _streams())
    waiting = asyncio.create_task(filled.effects().to_arrow())
    await wait_for(lambda: len(_streams()) == 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(waiting)
    await wait_for(lambda: not _streams())


def _streams() -> list[Any]:
    """Return the tasks of this process in which the service sends a stream."""
    return [task for task in asyncio.all_tasks() if "Stream._send" in repr(task.get_coro())]


@pytest.mark.usefixtures("held")
async def test_a_table_that_breaks_off_is_an_error(filled: Client, served: Served) -> None:
    """When the service stops in the middle, what has come is not taken for the whole."""
    seen: list[int] = []
    stopping: list[asyncio.Task[None]] = []

    async def take() -> None:
        async for batch in filled.effects(world="harbour"):
            seen.append(batch.num_rows)
            stopping.append(asyncio.create_task(served.stop()))

    with pytest.raises(ServiceUnavailableError, match="broke off"):
        await soon(take())
    assert seen == [7]
    await soon(stopping[0])
    async with Client(filled.url, patience=0.01) as other:
        with pytest.raises(ServiceUnavailableError, match="cannot be reached"):
            await other.effects().to_arrow()


async def test_what_is_not_installed_is_named(filled: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without polars or pyarrow the error says what to install."""

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(frames, "import_module", missing)
    with pytest.raises(ExtraMissingError, match=r"pip install 'worldledger\[dataframes\]'"):
        await filled.effects().to_polars()
    with pytest.raises(ExtraMissingError, match=r"pip install 'worldledger\[analytics\]'"):
        await filled.effects().to_arrow()


async def test_questions_in_sql(filled: Client) -> None:
    """An answer comes as rows, as a dataframe, and by the name of a query; what is refused is the error that it is."""
    asked = filled.sql("select source_id, count(*) as n from effects where kind = :kind group by 1 order by 1",
                       {"kind": "MessageEmitted"})  # fmt: skip
    assert await asked.rows() == [{"source_id": "A", "n": 3}, {"source_id": "B", "n": 3}]
    assert (await asked.to_polars()).rows() == [("A", 3), ("B", 3)]
    assert (await asked.to_pandas())["n"].sum() == 6
    assert (await filled.sql("cause-to-effect-lag").to_arrow()).num_columns
    assert "cause-to-effect-lag" in {query["name"] for query in await filled.queries()}
    with pytest.raises(QueryRefusedError) as raised:
        await filled.sql("select nothing from effects").rows()
    assert await filled.sql("select 1 as a, 2 as a, 3 as a_2").rows() == [{"a": 1, "a_3": 2, "a_2": 3}]
    assert raised.value.details["line"] == 1
    with pytest.raises(UnknownQueryError):
        await filled.sql("no-such-query").to_arrow()


async def test_an_answer_that_was_cut_is_not_taken_for_the_whole(database_url: str) -> None:
    """More rows than the service gives are an error, unless somebody wants only so many."""
    many = "select n from generate_series(1, 2000) n"
    async with serving(database_url, sql_max_rows=1000) as served, Client(served.url) as client:
        for give in (client.sql(many).rows, client.sql(many).to_arrow):
            with pytest.raises(QueryRefusedError, match="max_rows"):
                await give()
        assert len(await client.sql(many, max_rows=10).rows()) == 10
        assert (await client.sql(many, max_rows=10).to_arrow())["n"].to_pylist() == [*range(1, 11)]
