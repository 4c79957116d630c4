"""Tools of the engine's tests: effects to append, and looks at what the engine made of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import asyncpg
import orjson
from worldledger_service.database.engine import connect_pool
from worldledger_service.projecting.engine import Engine

from worldledger.effects import EffectDraft
from worldledger.errors import MomentNotFoundError
from worldledger.moments import parse_moment

if TYPE_CHECKING:
    from worldledger_service.store import Store


# -- effects -----------------------------------------------------------------------------------------------


def said(n: int, **payload: Any) -> EffectDraft:
    """Make a draft of something said."""
    return {"kind": "Said", "payload": {"n": n, **payload}, "source_id": "a1", "schema_version": "1.0.0"}


def thing(n: int, kind: str = "EntityCreated", **payload: Any) -> EffectDraft:
    """Make a draft about an entity."""
    data: dict[str, Any] = {"entity_id": f"e{n}", **payload}
    if kind == "EntityCreated":
        data.setdefault("entity_data", {"n": n})
    return {"kind": kind, "payload": data, "source_id": "a1", "schema_version": "1.0.0"}


def story(start: int, count: int) -> list[EffectDraft]:
    """Make drafts of several kinds, of which all test projections see some; entities come and go."""
    drafts: list[EffectDraft] = []
    for n in range(start, start + count):
        if n % 4 == 0:
            drafts.append(thing(n))
        elif n % 8 == 3:
            drafts.append(thing(n - 3, "EntityRemoved"))
        else:
            drafts.append(said(n))
    return drafts


async def append(store: Store, world_id: str, drafts: Sequence[EffectDraft]) -> int:
    """Append drafts and give the new head."""
    receipts = await (await store.log(world_id)).append_all(list(drafts))
    return receipts[-1].global_seq


# -- what is there -----------------------------------------------------------------------------------------


async def rows_of(pool: Any, name: str) -> list[tuple[Any, ...]]:
    """Return the rows of a view of the schema, sorted."""
    return sorted(map(tuple, await pool.fetch(f'select * from projections."{name}"')))


async def expected_counts(store: Store, worlds: Sequence[str], step: int = 1) -> list[tuple[Any, ...]]:
    """Count the effects of each kind by reading the logs."""
    rows: list[tuple[Any, ...]] = []
    for world_id in worlds:
        counts: Counter[str] = Counter()
        last: dict[str, int] = {}
        async for batch in store.reader.batches(world_id):
            for row in batch:
                counts[row.kind] += step
                last[row.kind] = row.global_seq
        rows += [(world_id, kind, count, last[kind]) for kind, count in counts.items()]
    return sorted(rows)


async def expected_said(store: Store, worlds: Sequence[str]) -> list[tuple[Any, ...]]:
    """List what was said by reading the logs."""
    rows = []
    for world_id in worlds:
        async for batch in store.reader.batches(world_id, kind="Said"):
            for row in batch:
                payload = orjson.loads(row.text)["payload"]
                rows.append((world_id, row.global_seq, str(payload.get("text", payload.get("n")))))
    return sorted(rows)


async def expected_things(store: Store, worlds: Sequence[str]) -> list[tuple[Any, ...]]:
    """List the entities of the worlds' states."""
    rows = []
    for world_id in worlds:
        fold = await store.states.fold_at(world_id, (await store.world(world_id)).head_seq)
        for name, data in fold.state.entities.items():
            rows.append((world_id, name, orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()))
    return sorted(rows)


async def assert_equal_to_log(pool: Any, store: Store, worlds: Sequence[str]) -> None:
    """Check the rows of `trio` against the logs, by a way of its own."""
    assert await rows_of(pool, "counts") == await expected_counts(store, worlds)
    assert await rows_of(pool, "said") == await expected_said(store, worlds)
    assert await rows_of(pool, "things") == await expected_things(store, worlds)


async def assert_same_places(store: Store, pool: Any, *units: str, most: int = 5) -> None:
    """Check that SQL finds moments of every world where the store finds them, and has none that the store has not."""
    found_any: Counter[str] = Counter()
    for (name,) in await pool.fetch("select world_id from worlds order by world_id"):
        world = await store.world(name)
        middle = orjson.loads((await store.reader.effect(name, (world.head_seq + 1) // 2)).text)
        # Not at the very microsecond: its seconds as a double are not exact.
        recorded_at = datetime.fromtimestamp(middle["wall_time"] + 0.0001, UTC).isoformat()
        moments = ["head", f"{world.head_seq // 2}", "999", "sim:-1", f"sim:{middle['sim_time']}", recorded_at]
        moments += ["wall:2000-01-01T00:00:00Z", *(f"{unit}:{n}" for unit in ("step", *units) for n in range(most))]
        for moment in [*moments, *(f"parent:{moment}" for moment in moments)]:
            wanted = found = None
            with suppress(MomentNotFoundError):
                record, seq = await store.states.place_at(world, parse_moment(moment))
                wanted = record.world_id, seq
            with suppress(asyncpg.NoDataFoundError):
                found = tuple(await pool.fetchrow("select * from analytics.place_at($1, $2)", name, moment))
            assert found == wanted, (name, moment)
            found_any[moment.removeprefix("parent:").partition(":")[0]] += found is not None
    assert all(found_any[unit] > 1 for unit in ("step", *units)), found_any


async def assert_verified(engine: Engine, *names: str) -> None:
    """Check that projections are what the log gives, by the engine's own check."""
    for name in names:
        report = await engine.verify(name)
        assert report["verified"], report


async def builds(pool: Any, name: str = "counts") -> list[tuple[str, int, str]]:
    """Return the builds of a projection: name, version and status."""
    rows = await pool.fetch(
        "select build, version, status from projection_builds where projection = $1 order by build", name
    )
    return [(row[0], row[1], row[2]) for row in rows]


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[list[Any]]:
    """Let several readers look at what they may, over and over, with prepared statements; what fails ends the test."""
    pool = await connect_pool(url, role="worldledger_reader", min_size=3, max_size=3)
    seen: list[Any] = []

    async def read() -> None:
        async with pool.acquire() as connection:
            while True:
                seen.append(await connection.fetchval("select count(*) from analytics.counts"))

    readers = [asyncio.get_running_loop().create_task(read()) for _ in range(3)]
    try:
        yield seen
        await asyncio.sleep(0.05)
        assert not any(reader.done() for reader in readers), [r.exception() for r in readers if r.done()]
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
        await pool.close()
