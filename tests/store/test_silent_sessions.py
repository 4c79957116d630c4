"""A process that falls silent in the middle of a transaction does not hold a world for ever."""

from __future__ import annotations

import pytest
from worldledger_service.database import engine
from worldledger_service.database.failures import FOREIGN
from worldledger_service.database.guards import SERVICE_ROLE
from worldledger_service.store import Store, statements

from worldledger.genesis import NewWorld

from .helpers import draft

pytestmark = pytest.mark.both_servers

LIMIT = "idle_in_transaction_session_timeout"


async def test_every_session_has_such_a_time(database_url: str, store: Store) -> None:
    """Those of a pool and those alone are given five seconds of silence within a transaction."""
    alone = await engine.connect_one(database_url, role=SERVICE_ROLE)
    try:
        assert await alone.fetchval(f"show {LIMIT}") == "5s"
    finally:
        await alone.close()
    async with store._pool.acquire() as pooled:
        assert await pooled.fetchval(f"show {LIMIT}") == "5s"


async def test_the_head_is_let_go(database_url: str, store: Store) -> None:
    """The server ends the silent session after its time, and whoever waits for the head's lock goes on."""
    await store.create_world(NewWorld(world_id="silent"))
    log = await store.log("silent")
    silent = await engine.connect_one(database_url, role=SERVICE_ROLE)
    try:
        await silent.execute("begin")
        await silent.fetchrow(statements.LOCK_HEAD, "silent")
        await silent.execute(f"set {LIMIT} = '300ms'")
        assert await log.append(draft(1)) == 2
        with pytest.raises(FOREIGN):
            await silent.execute("commit")
    finally:
        silent.terminate()
