"""A program: one runner on a database, until it is killed; see test_engine_kills.

``python -m tests.projections.worker URL BATCH`` prints a line when it has begun.
"""

from __future__ import annotations

import asyncio
import sys

from projections.engine import Engine
from service.database.engine import connect_pool
from service.settings import Settings
from service.store import Store

from .tiny import trio


async def main(url: str, batch: int) -> None:
    """Run."""
    pool = await connect_pool(url, max_size=4, application_name="worker")
    async with Store.open(url, Settings(pool_size=2, snapshot_every=50)) as store:
        engine = Engine(
            pool, store.reader, store.states, trio(), batch=batch, poll_interval=0.01, lease_ttl=0.5, grace=0.0
        )
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await engine.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
