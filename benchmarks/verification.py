"""Verification: the library against bare hashlib, the whole of `verify` against just fetching the rows."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from worldledger_service.cli.verify import SpanWorkers
from worldledger_service.running import relax_gc
from worldledger_service.settings import Settings
from worldledger_service.store import Store, statements
from worldledger_service.store.verification import verify_world

from benchmarks.harness import Report, draft, say
from worldledger.chain import StoredEffect, Verifier
from worldledger.genesis import NewWorld

WORLD: Final = "bulk-1"
ASKED: Final = "asked"
COUNT: Final = 200_000
#: After so many requests of one effect there is one of three.
_SEVERAL: Final = 1_000


async def run(report: Report, url: str, store: Store) -> None:
    """Measure verification of the 200k effects that the bulk benchmark left, and of 200k that were asked for."""
    say("verification")
    relax_gc()  # as `worldledger verify` does
    rows: list[StoredEffect] = []
    async for batch in store.reader.batches(WORLD):
        rows += batch
    await _ask(store)

    async def bare() -> int:
        previous = b""
        for row in rows:
            previous = sha256(previous + row.text).hexdigest().encode()
        return len(rows)

    async def chain() -> int:
        assert Verifier(WORLD).feed_chain(rows)
        return len(rows)

    async def columns() -> int:
        assert Verifier(WORLD).feed(rows)
        return len(rows)

    async def fetch(world_id: str = WORLD) -> int:
        count = 0
        async for batch in store.reader.batches(world_id):
            count += len(batch)
        return count

    async def fetch_asked() -> int:
        return await fetch(ASKED)

    async def fetch_both() -> int:
        count = await fetch(ASKED)
        async with store.reader.connection() as connection, connection.transaction(readonly=True):
            cursor = await connection.cursor(statements.REQUESTS_IN_ORDER, ASKED, None, count)
            while await cursor.fetch(2000):
                pass
        return count

    async def verify(world_id: str = WORLD) -> int:
        verdict = await store.reader.verify(world_id)
        assert verdict.verified, verdict
        return verdict.effects

    async def verify_asked() -> int:
        return await verify(ASKED)

    async def verify_shared() -> int:
        verdict = await verify_world(store.reader, ASKED, workers=SpanWorkers(url, Settings(), 2))
        assert verdict.verified, verdict
        return verdict.effects

    await report.compare(
        {
            "hashlib alone": bare,
            "library: chain": chain,
            "library: chain and columns": columns,
            "fetching the rows": fetch,
            "verify": verify,
            "fetching effects that have a req_id": fetch_asked,
            "fetching them and the rows of requests": fetch_both,
            "verify, every effect with a req_id": verify_asked,
            "verify by two processes, every effect with a req_id": verify_shared,
        }
    )
    report.ratio("chain alone: time over hashlib", "library: chain", "hashlib alone", 3, inverse=True)
    report.ratio("chain and columns: time over hashlib", "library: chain and columns", "hashlib alone", 6, inverse=True)
    report.ratio("verify over just fetching", "verify", "fetching the rows", 0.6)
    asked = "verify, every effect with a req_id"
    shared = "verify by two processes, every effect with a req_id"
    report.ratio(
        "verify over just fetching, every effect with a req_id", shared, "fetching effects that have a req_id", 0.6
    )
    one = report.figures[asked].rate / report.figures["fetching effects that have a req_id"].rate
    report.tell("the same by one process", one, "")
    both = report.figures["fetching them and the rows of requests"].rate
    report.tell("verify over fetching effects and rows of requests", report.figures[asked].rate / both, "")


async def _ask(store: Store) -> None:
    """Make a world of which every effect was asked for, most of them by a request of their own."""
    await store.create_world(NewWorld(world_id=ASKED, time_authority="client"))
    log = await store.log(ASKED)
    for turn in range(COUNT // _SEVERAL):
        source_id = f"agent-{turn % 10}"
        several: list[Any] = [draft(turn)] * 3
        await log.append_request(several, source_id=source_id, req_id=f"several-{turn}")
        alone: list[Any] = [{**draft(index), "req_id": f"{turn}:{index:016x}"} for index in range(_SEVERAL)]
        await log.append_all(alone)
