"""Verification: the library against bare hashlib, the whole of `verify` against just fetching the rows."""

from __future__ import annotations

from hashlib import sha256

from benchmarks.harness import Report, say
from service.store import Store
from worldledger.chain import StoredEffect, Verifier

WORLD = "bulk-1"


async def run(report: Report, url: str, store: Store) -> None:
    """Measure verification of the 200k effects that the bulk benchmark left."""
    say("verification")
    rows: list[StoredEffect] = []
    async for batch in store.reader.batches(WORLD):
        rows += batch

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

    async def fetch() -> int:
        count = 0
        async for batch in store.reader.batches(WORLD):
            count += len(batch)
        return count

    async def verify() -> int:
        verdict = await store.reader.verify(WORLD)
        assert verdict.verified, verdict
        return verdict.effects

    await report.compare(
        {
            "hashlib alone": bare,
            "library: chain": chain,
            "library: chain and columns": columns,
            "fetching the rows": fetch,
            "verify": verify,
        }
    )
    report.ratio("chain alone: time over hashlib", "library: chain", "hashlib alone", 3, inverse=True)
    report.ratio("chain and columns: time over hashlib", "library: chain and columns", "hashlib alone", 6, inverse=True)
    report.ratio("verify over just fetching", "verify", "fetching the rows", 0.6)
