"""Revision 0003 adds the agents' cursors, which go with a downgrade while the log stays."""

from __future__ import annotations

import pytest
from worldledger_service.database import schema
from worldledger_service.database.catalogue import expected
from worldledger_service.store import Store

from .helpers import connected, verdict, write_derived, write_world

pytestmark = pytest.mark.both_servers


def _without_games(lines: list[str]) -> list[str]:
    """Leave out the tables of projections that the test has made."""
    return [line for line in lines if "games" not in line]


@pytest.mark.both_servers(thorough=True)
async def test_downgrade_and_back(database_url: str, catalogues: dict[str, list[str]]) -> None:
    """Down to 0002 only the cursors are dropped; up again the table is there, empty."""
    url = database_url
    async with connected(url) as connection:
        await write_world(connection, "w")
        await write_derived(connection)
    await schema.downgrade(url, "0002")
    async with connected(url) as one:
        assert _without_games(await schema.catalogue(one)) == _without_games(catalogues["0002"])
        assert await one.fetchval("select count(*) from snapshots") == 1
        assert await verdict(one) == (True, None, None)
    await schema.upgrade(url)
    async with connected(url) as connection:
        assert await connection.fetchval("select count(*) from agent_cursors") == 0
        assert _without_games(await schema.catalogue(connection)) == _without_games(expected())


async def test_a_cursor_never_goes_back(database_url: str) -> None:
    """Of two writes of a cursor the higher view_seq stays, whichever comes last."""
    async with Store.open(database_url) as store:
        await store.cursors.move("w", {"alice": 7, "bob": 2})
        await store.cursors.move("w", {"alice": 5, "bob": 3})
        assert await store.cursors.read("w", ["alice", "bob", "nobody", "\0"]) == {"alice": 7, "bob": 3}
