"""Revision 0002 adds what is worked out from the log: it keeps the log, and takes away only what can be made again."""

from __future__ import annotations

import asyncio

import pytest
from worldledger_service.database import guards, schema
from worldledger_service.database.catalogue import expected

from worldledger.errors import StoreUnavailableError

from .helpers import connected, verdict, write_derived, write_world
from .upgrading import elsewhere

pytestmark = pytest.mark.both_servers


async def _catalogue(url: str) -> list[str]:
    async with connected(url) as connection:
        return await schema.catalogue(connection)


@pytest.mark.both_servers(thorough=True)
async def test_upgrade_keeps_the_log(empty_database_url: str) -> None:
    """A log that was written at 0001 is whole at 0002, and each of its worlds counts as news."""
    await schema.upgrade(empty_database_url, "0001")
    async with connected(empty_database_url) as connection:
        assert (await schema.revision_state(connection)).status == "older"
        await write_world(connection, "w")
        await write_world(connection, "w2")
        heads = await connection.fetch("select * from heads order by world_id")
        await schema.upgrade(empty_database_url)
        after = await connection.fetch("select * from heads order by world_id")
        assert [tuple(row) for row in after] == [(*row, True) for row in heads]
        assert await verdict(connection) == (True, None, None)
        assert await connection.fetchval("select count(*) from effects") == 18
    assert await _catalogue(empty_database_url) == expected()


@pytest.mark.both_servers(thorough=True)
async def test_downgrade_keeps_the_log(database_url: str, catalogues: dict[str, list[str]]) -> None:
    """Down to 0001 goes with effects in the log: projections and snapshots are dropped, and the way up works again."""
    url = database_url
    async with connected(url, role=guards.SERVICE_ROLE) as connection:
        await write_world(connection, "w")
        await write_derived(connection)
    await schema.downgrade(url, "0001")
    assert await _catalogue(url) == catalogues["0001"]
    async with connected(url) as connection:
        assert await connection.fetchval("select to_regnamespace('projections') is null")
        assert await connection.fetchval("select count(*) from pg_default_acl") == 0
        assert await verdict(connection) == (True, None, None)
        await write_world(connection, "w2")
    await schema.upgrade(url)
    assert await _catalogue(url) == expected()
    async with connected(url) as connection:
        assert await connection.fetchval("select bool_and(moved) from heads")
        assert await verdict(connection) == (True, None, None)


#: What people made by hand in the schema of projections, or upon it; and how it goes.
THEIRS = {
    "a view over a projection": (
        "create schema lab; create view lab.mine as select * from projections.games_1",
        "drop schema lab cascade",
    ),
    "a view over the view": (
        "create schema lab; create view lab.mine as select * from projections.games",
        "drop schema lab cascade",
    ),
    "a table of somebody else": ("create table projections.mine (x int)", "drop table projections.mine"),
    "a function": (
        "create function projections.mine() returns int language sql as 'select 1'",
        "drop function projections.mine",
    ),
}


async def test_downgrade_spares_what_is_not_ours(database_url: str, subtests: pytest.Subtests) -> None:
    """What no projection made cannot be made again: the downgrade is refused, says what it is, and drops nothing."""
    async with connected(database_url, role=guards.SERVICE_ROLE) as service:
        await write_derived(service)
    async with connected(database_url) as connection:
        for theirs, (made, dropped) in THEIRS.items():
            with subtests.test(theirs=theirs):
                await connection.execute(made)
                told = r"what no projection made.*mine.*run the downgrade again"
                with pytest.raises(StoreUnavailableError, match=told):
                    await schema.downgrade(database_url, "0001")
                assert await connection.fetchval("select count(*) from projections.games") == 1
                await connection.execute(dropped)
    assert await _catalogue(database_url) == expected()


@pytest.mark.both_servers(thorough=True)
async def test_upgrades_from_0001_at_once(two_empty_urls: list[str]) -> None:
    """Upgrades of two databases, each several times at the same moment, make one schema of projections in each."""
    for url in two_empty_urls:
        await schema.upgrade(url, "0001")
    other = elsewhere(two_empty_urls)
    await asyncio.gather(*(schema.upgrade(url) for url in two_empty_urls))
    assert await asyncio.to_thread(other.wait) == 0
    for url in two_empty_urls:
        assert await _catalogue(url) == expected()
