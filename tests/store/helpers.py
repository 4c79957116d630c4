"""Tools of these tests: drafts, a head held by somebody else, waiting for something to be true, judging a log."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
import orjson
from worldledger_service.store import EventLog, Receipt, Store

from worldledger.effects import EffectDraft

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

T = TypeVar("T")


def draft(n: Any = 0, **fields: Any) -> EffectDraft:
    """Make a draft whose payload carries ``n``."""
    made: dict[str, Any] = {"kind": "Said", "payload": {"n": n}, "source_id": "a1", "schema_version": "1.0.0", **fields}
    return made  # type: ignore[return-value]


def start(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task."""
    return asyncio.get_running_loop().create_task(work)


async def wait_for_waiters(admin: Connection, count: int = 1, seconds: float = 120.0) -> None:
    """Wait until that many connections of stores wait for a lock in this database."""
    statement = """
        select count(*) from pg_stat_activity
        where datname = current_database() and application_name = 'worldledger' and wait_event_type = 'Lock'
    """
    deadline = asyncio.get_running_loop().time() + seconds
    while await admin.fetchval(statement) < count:
        assert asyncio.get_running_loop().time() < deadline, "nobody waits for the lock"
        await asyncio.sleep(0.002)


async def effects_of(store: Store, world_id: str) -> list[dict[str, Any]]:
    """Return a world's effects, those of its own log."""
    found: list[dict[str, Any]] = []
    async for batch in store.reader.batches(world_id):
        found += [orjson.loads(row.text) for row in batch]
    return found


@asynccontextmanager
async def holding_head(url: str, world_id: str) -> AsyncIterator[Connection]:
    """Hold the lock of a world's head, as another process does that is just writing to it."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute("select from heads where world_id = $1 for no key update", world_id)
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def guards_down(url: str) -> AsyncIterator[Connection]:
    """Return a superuser's connection, with the triggers that protect history taken away until the block ends."""
    connection = await asyncpg.connect(url)
    try:
        guards = await connection.fetch(
            "select tgrelid::regclass::text as place, tgname from pg_trigger where tgenabled = 'A' and not tgisinternal"
        )
        away, back = (
            "; ".join(f"alter table {place} {how} trigger {name}" for place, name in guards)
            for how in ("disable", "enable always")
        )
        await connection.execute(away)
        yield connection
        await connection.execute(back)
    finally:
        await connection.close()


async def effects(log: EventLog) -> list[dict[str, Any]]:
    """Return a world's effects after its genesis."""
    return [dict(entry.effect) for entry in await log.get_entries_since(1)]


async def payloads(log: EventLog) -> list[Any]:
    """Return the ``n`` of a world's effects after its genesis, in order."""
    return [effect["payload"]["n"] for effect in await effects(log)]


async def assert_sound(store: Store, world_id: str, receipts: Iterable[Receipt] = ()) -> list[Any]:
    """Check that a log is gapless and verified, holds every receipt and no request twice; return its payloads."""
    rows = [row async for batch in store.reader.batches(world_id) for row in batch]
    assert [row.global_seq for row in rows] == list(range(1, len(rows) + 1))
    verdict = await store.reader.verify(world_id)
    assert verdict.verified, verdict.finding
    head_seq = (await store.world(world_id)).head_seq
    assert head_seq == len(rows), f"the head is {head_seq}, and there are {len(rows)} rows"
    loaded = [orjson.loads(row.text) for row in rows]
    for seq, uuid, checksum, _ in receipts:
        assert (loaded[seq - 1]["uuid"], rows[seq - 1].checksum.hex()) == (uuid, checksum)
    keys = Counter((effect["source_id"], effect["req_id"]) for effect in loaded if effect["req_id"] is not None)
    assert not [key for key, times in keys.items() if times > 1]
    times = [(effect["sim_time"], effect["wall_time"]) for effect in loaded]
    assert all(b >= a for one, two in itertools.pairwise(times) for a, b in zip(one, two, strict=True))
    return [effect["payload"].get("n") for effect in loaded[1:]]
