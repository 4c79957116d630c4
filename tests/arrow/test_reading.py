"""Effects come out of the database whole, in order, and only those that were asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import orjson
import pyarrow as pa
import pytest
from worldledger_service.arrow import reading
from worldledger_service.arrow.choosing import choose
from worldledger_service.arrow.connections import Connections, Session
from worldledger_service.arrow.reading import SCHEMA, Effects
from worldledger_service.store import Store

from tests.store.helpers import draft, start
from worldledger.errors import SchemaVersionError, StoreUnavailableError, TamperedError
from worldledger.genesis import NewWorld

if TYPE_CHECKING:
    Admin = asyncpg.Connection[asyncpg.Record]


async def _world(store: Store, name: str, drafts: Iterable[Any], experiment: str | None = None) -> None:
    await store.import_world(NewWorld(world_id=name, experiment=experiment), drafts)


async def _read(effects: Effects, store: Store, *, until: dict[str, int] | None = None, **filters: Any) -> pa.Table:
    spans = [world.span(until_seq=(until or {}).get(world.world_id)) for world in await choose(store.reader)]
    batches = [batch async for batch in effects.batches(spans, **filters)]
    return pa.Table.from_batches(batches, SCHEMA)


async def _stored(store: Store, world_id: str) -> list[tuple[int, str, bytes]]:
    rows = [row async for batch in store.reader.batches(world_id) for row in batch]
    return [(row.global_seq, orjson.loads(row.text)["uuid"], row.checksum) for row in rows]


async def test_all_effects_come_in_order(store: Store, effects: Effects, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many statements it takes, effects of all worlds come by name and seq, none left out, none twice."""
    monkeypatch.setattr(reading, "MOST_ROWS", 56)  # in pieces of 7 rows, and then of at most 64
    monkeypatch.setattr(reading, "_FEWEST", 5)
    sizes = {"b": 40, "a": 0, "c~1": 3, "c.2": 12, "C": 150, "d": 1}
    for name, size in sizes.items():
        await _world(store, name, (draft(n, source_id=f"a{n % 3}") for n in range(size)), "trial" if size > 3 else None)
    table = await _read(effects, store)
    found = [*zip(*(table[name].to_pylist() for name in ("world_id", "global_seq", "uuid", "checksum")), strict=True)]
    assert found == [(name, *row) for name in sorted(sizes) for row in await _stored(store, name)]
    assert set(zip(table["world_id"].to_pylist(), table["experiment"].to_pylist(), strict=True)) == {
        (name, "trial" if size > 3 else None) for name, size in sizes.items()
    }


async def test_large_effects_are_taken_few_at_a_time(
    store: Store, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement whose rows turn out to be large is left when enough of them have come, and the next goes on there."""
    monkeypatch.setattr(reading, "MOST_BYTES", 1_000_000)
    await _world(store, "town", (draft(n, payload={"n": n, "text": "x" * 400_000}) for n in range(24)))
    spans = [world.span(after_seq=2) for world in await choose(store.reader)]
    pieces = reading._Pieces(effects._connections, spans, kind=None, source_id=None)
    found = [[seq for batch in piece for seq in batch["global_seq"].to_pylist()] async for piece in pieces.read()]
    assert [seq for piece in found for seq in piece] == [*range(3, 26)]
    assert len(found) > 1


async def test_filters_and_bounds(store: Store, effects: Effects, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only effects of the kind, of the source and up to the seq are given, whatever the words have in them."""
    monkeypatch.setattr(reading, "MOST_ROWS", 64)
    kind = "it's \\ 'so'; --"
    for name in ("a", "b", "c"):
        await _world(
            store, name, (draft(n, kind=kind if n % 3 == 0 else "Said", source_id=f"s{n % 2}") for n in range(30))
        )
    table = await _read(effects, store, kind=kind, source_id="s1", until={"b": 20})
    wanted = [n + 2 for n in range(30) if n % 3 == 0 and n % 2 == 1]
    assert [*zip(table["world_id"].to_pylist(), table["global_seq"].to_pylist(), strict=True)] == [
        *(("a", seq) for seq in wanted),
        *(("b", seq) for seq in wanted if seq <= 20),
        *(("c", seq) for seq in wanted),
    ]
    assert (await _read(effects, store, kind="nobody's")).num_rows == 0
    assert (await _read(effects, store, kind="\x00")).num_rows == 0


@pytest.mark.parametrize(("gone", "named"), [(1, 1), (3, 3), (5, 5)])
async def test_a_missing_effect_is_named(store: Store, effects: Effects, admin: Admin, gone: int, named: int) -> None:
    """Where somebody took a row out of a log, be it the first or the last, reading raises the error that names it."""
    for name in ("a", "b", "c"):
        await _world(store, name, map(draft, range(4)))
    await admin.execute("alter table effects disable trigger all")
    await admin.execute("delete from effects where world_id = 'b' and global_seq = $1", gone)
    with pytest.raises(TamperedError) as raised:
        await _read(effects, store)
    assert raised.value.details == {"world_id": "b", "global_seq": named, "what": "missing"}


async def test_what_is_not_waited_for_is_cancelled(connections: Connections, admin: Admin) -> None:
    """A statement ends when the task that waits for it is cancelled, and its session's place is free again."""
    running = "select count(*) from pg_stat_activity where query like '%pg_sleep(61)%' and pid <> pg_backend_pid()"

    def sleep(session: Session) -> None:
        session.fetch("select pg_sleep(61)")

    tasks = [start(connections.run(sleep)) for _ in range(3)]  # one more than there are connections
    while await admin.fetchval(f"{running} and state = 'active'") < 2:
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*tasks, return_exceptions=True))
    while await admin.fetchval(f"{running} and state = 'active'"):
        await asyncio.sleep(0.01)
    assert await connections.run(lambda session: session.fetch("select 1")) == [(1,)]


async def test_leaving_early_ends_the_statement(store: Store, connections: Connections) -> None:
    """A session whose rows were not read to their end can be used again at once."""
    await _world(store, "town", map(draft, range(10)))

    def first(session: Session) -> Any:
        with session.reading("select n, repeat('x', 1000) from generate_series(1, 1000000) n") as (_, batches):
            return next(batches)["n"][0].as_py()

    assert [await connections.run(first) for _ in range(3)] == [1, 1, 1]
    pids = {tuple(await connections.run(lambda session: session.fetch("select pg_backend_pid()"))) for _ in range(3)}
    assert len(pids) == 1


async def test_sessions_read_under_the_service_s_role(connections: Connections) -> None:
    """Whatever user the address names, sessions have the service's privileges and write nothing."""

    def who(session: Session) -> Any:
        return session.fetch("select current_user, current_setting('default_transaction_read_only')")

    assert await connections.run(who) == [("worldledger_service", "on")]
    with pytest.raises(StoreUnavailableError, match="read-only"):
        await connections.run(lambda session: session.fetch("create temp table t (n int)"))


async def test_a_session_that_died_is_replaced(connections: Connections, admin: Admin) -> None:
    """Where the server has ended an idle session, the next statement runs on another one."""

    def pid(session: Session) -> int:
        return int(session.fetch("select pg_backend_pid()")[0][0])

    first = await connections.run(pid)
    await admin.fetchval("select pg_terminate_backend($1, 5000)", first)
    assert await connections.run(pid) != first


async def test_errors_are_those_of_the_house(connections: Connections, database_url: str) -> None:
    """What the driver raises becomes an error of ours, also in the middle of the rows, and none shows the password."""
    with pytest.raises(SchemaVersionError, match="db upgrade"):
        await connections.run(lambda session: session.fetch("select * from nowhere"))

    def late(session: Session) -> None:
        with session.reading("select 1 / (500000 - n) from generate_series(1, 1000000) n") as (_, batches):
            for _ in batches:
                pass

    with pytest.raises(StoreUnavailableError, match="division by zero"):
        await connections.run(late)

    def slow(session: Session) -> None:
        session.allow(0.05)
        session.fetch("select pg_sleep(10)")

    with pytest.raises(StoreUnavailableError, match="took too long"):
        await connections.run(slow)
    parts = urlsplit(database_url)
    wrong = Connections(urlunsplit(parts._replace(netloc=f"nobody:hush@{parts.netloc.rpartition('@')[2]}")))
    try:
        with pytest.raises(StoreUnavailableError) as raised:
            await wrong.run(lambda session: session.fetch("select 1"))
        assert "hush" not in str(raised.value)
    finally:
        await wrong.close()
