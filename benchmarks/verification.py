"""Verification: the library against bare hashlib, the whole of `verify` against just fetching the rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from typing import Any, Final

from worldledger_service.cli.verify import PROCESSES, SpanWorkers
from worldledger_service.running import relax_gc
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.verification import verify_world

from benchmarks.harness import Report, Work, draft, say
from worldledger.chain import StoredEffect, Verifier
from worldledger.genesis import NewWorld

WORLD: Final = "bulk-1"
#: Worlds of ``COUNT`` effects: every effect was asked for, or none.
ASKED: Final = "asked"
UNASKED: Final = "unasked"
COUNT: Final = 1_000_000
#: What takes seconds is measured so often.
_ROUNDS: Final = 3
#: After so many requests of one effect there is one of three.
_SEVERAL: Final = 1_000


async def run(report: Report, url: str, store: Store) -> None:
    """Measure verification of the 200k effects that the bulk benchmark left, and of worlds of a million."""
    say("verification")
    relax_gc()  # as `worldledger verify` does
    rows: list[StoredEffect] = []
    async for batch in store.reader.batches(WORLD):
        rows += batch
    await _ask(store)
    await store.create_world(NewWorld(world_id=UNASKED, time_authority="client"))
    drafts: Iterator[Any] = map(draft, range(COUNT))
    await store.bulk_append(UNASKED, drafts)

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

    async def fetch(world_id: str) -> int:
        count = 0
        async for batch in store.reader.batches(world_id):
            count += len(batch)
        return count

    async def verify(world_id: str, jobs: int) -> int:
        verdict = await verify_world(store.reader, world_id, workers=SpanWorkers(url, Settings(), jobs))
        assert verdict.verified, verdict
        return verdict.effects

    await report.compare({"hashlib alone": bare, "library: chain": chain, "library: chain and columns": columns})
    report.ratio("chain alone: time over hashlib", "library: chain", "hashlib alone", 3, inverse=True)
    report.ratio("chain and columns: time over hashlib", "library: chain and columns", "hashlib alone", 6, inverse=True)
    for world_id, what in ((UNASKED, ""), (ASKED, ", every effect with a req_id")):
        fetching, verifying, alone = f"fetching 1M effects{what}", f"verify 1M effects{what}", f"by one process{what}"
        works: dict[str, Work] = {
            fetching: partial(fetch, world_id),
            verifying: partial(verify, world_id, PROCESSES),
            alone: partial(verify, world_id, 1),
        }
        await report.compare(works, rounds=_ROUNDS)
        report.ratio(f"verify of 1M effects over just fetching them{what}", verifying, fetching, 0.6)
        report.tell(f"the same {alone}", report.figures[alone].rate / report.figures[fetching].rate, "")


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
