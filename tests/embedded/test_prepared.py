"""Transactions that readers prepare, on a server that allows it (the embedded one does not unless it is told to)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest
from worldledger_service.database import schema
from worldledger_service.database.embedded import attach

pytestmark = pytest.mark.group("embedded")


async def _left_by_a_reader(url: str) -> tuple[list[str], list[str]]:
    """Return the notes of `db check` before and after a reader's transaction that was left is ended as they say."""
    await schema.upgrade(url)
    reader = await asyncpg.connect(url, server_settings={"role": "worldledger_reader"})
    await reader.execute("begin read only; table analytics.worlds; prepare transaction E'o''clock\\n'")
    await reader.close()
    admin = await asyncpg.connect(url)
    await admin.execute("begin; prepare transaction 'another program''s'")
    told = await schema.notes(url)
    await admin.execute(told[-1].partition("to end it: ")[2])
    await admin.close()
    return told, await schema.notes(url)


def test_what_readers_leave_prepared_is_noted(made: Path) -> None:
    """`db check` notes that the server lets readers prepare transactions, and those that one left, with their end."""
    with (made / "data" / "postgresql.conf").open("a") as file:
        file.write("max_prepared_transactions = 3\n")
    with attach(made, linger=0) as server:
        told, then = asyncio.run(_left_by_a_reader(server.url()))
    assert told == [
        *then,
        r"worldledger_reader has left a transaction prepared; to end it: ROLLBACK PREPARED E'o''clock\u000a'",
    ]
    assert [line.partition(" is 3: ")[0] for line in then] == [
        "readers can prepare transactions, for max_prepared_transactions"
    ]
    assert "ALTER SYSTEM SET max_prepared_transactions = 0" in then[0]
