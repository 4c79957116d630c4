"""A process of its own: one runner on a database, until it is killed; see test_engine_kills."""

from __future__ import annotations

import asyncio
from multiprocessing.connection import Connection

from worldledger_service.database.engine import connect_pool
from worldledger_service.projecting.engine import Engine
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from .tiny import trio


def main(url: str, batch: int, told: Connection) -> None:
    """Run until killed; tell when it has begun."""
    asyncio.run(_run(url, batch, told))


async def _run(url: str, batch: int, told: Connection) -> None:
    pool = await connect_pool(url, max_size=4, application_name="worker")
    async with Store.open(url, Settings(pool_size=2, snapshot_every=50)) as store:
        engine = Engine(
            pool, store.reader, store.states, trio(), batch=batch, poll_interval=0.01, lease_ttl=0.5, grace=0.0
        )
        told.send("ready")
        await engine.run()
