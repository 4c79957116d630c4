"""Revision 0005 adds what is held for ticks; a downgrade drops it, unless a tick has yet to decide some of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest
from worldledger_service.database import schema

from worldledger.errors import StoreUnavailableError

from .helpers import connected, undone, write_derived

if TYPE_CHECKING:
    from .helpers import Connection


async def test_what_is_held_is_not_dropped(database_url: str) -> None:
    """A downgrade that would drop an intent which no tick has decided is refused, and says what to do."""
    async with connected(database_url) as connection:
        await write_derived(connection)
        await connection.execute("update held_intents set outcome = null")
    with pytest.raises(StoreUnavailableError, match="intents are held that no tick has decided yet"):
        await schema.downgrade(database_url, "0004")
    async with connected(database_url) as connection:
        assert await connection.fetchval("select count(*) from held_intents") == 1


BAD_ROWS = {
    "the same request of an agent twice": "insert into held_intents select * from held_intents",
    "a digest that is none": "update held_intents set body_sha256 = 'short'",
    "a list without a place in it": "update held_intents set list_id = gen_random_uuid()",
    "an intent that is no JSON": "update held_intents set intent = '{'",
    "two open ticks of a world": "insert into open_ticks select * from open_ticks",
}


async def test_constraints(admin: Connection, subtests: pytest.Subtests) -> None:
    """Rows that cannot be right are refused by the tables themselves."""
    await write_derived(admin)
    for row, statement in BAD_ROWS.items():
        with (
            subtests.test(row=row),
            pytest.raises((asyncpg.IntegrityConstraintViolationError, asyncpg.InvalidTextRepresentationError)),
        ):
            async with undone(admin):
                await admin.execute(statement)
