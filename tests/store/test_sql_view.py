"""The SQL view ``verification`` says of what the store wrote the same as the library does."""

from __future__ import annotations

import asyncpg
import pytest
from worldledger_service.store import Store

from tests.store.helpers import draft
from worldledger.genesis import NewWorld

pytestmark = pytest.mark.both_servers


async def test_view_verifies_real_worlds(store: Store, database_url: str) -> None:
    """A world written by the store, in every way it writes, is verified by the view too."""
    await store.create_world(NewWorld(world_id="w", config={"b": [1.5, 1e16, "ü"], "a": None}, experiment="e"))
    log = await store.log("w")
    await log.append(draft())
    await log.append_all([draft(req_id="r"), draft()])
    await store.bulk_append("w", [draft() for _ in range(5)])
    connection = await asyncpg.connect(database_url)
    try:
        row = await connection.fetchrow("select * from verification where world_id = 'w'")
    finally:
        await connection.close()
    assert row is not None
    assert (row["verified"], row["effects"], row["problem"]) == (True, 9, None)
    assert row["head_checksum"] == (await store.world("w")).head_checksum
