"""A process that falls silent in the middle of a transaction does not hold a world for ever."""

from __future__ import annotations

import pytest

from service.database.engine import connect_one
from service.database.failures import FOREIGN
from service.database.guards import SERVICE_ROLE
from service.store import Store, statements
from worldledger.genesis import NewWorld

from .helpers import draft

pytestmark = pytest.mark.both_servers


@pytest.mark.slow
async def test_the_head_is_let_go(database_url: str, store: Store) -> None:
    """The server ends the silent session after some seconds, and whoever waits for the head's lock goes on."""
    await store.create_world(NewWorld(world_id="silent"))
    log = await store.log("silent")
    silent = await connect_one(database_url, role=SERVICE_ROLE)
    try:
        await silent.execute("begin")
        await silent.fetchrow(statements.LOCK_HEAD, "silent")
        assert await log.append(draft(1)) == 2
        with pytest.raises(FOREIGN):
            await silent.execute("commit")
    finally:
        silent.terminate()
