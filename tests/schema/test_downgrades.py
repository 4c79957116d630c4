"""Each revision's downgrade takes away what that revision added, and never the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest
from worldledger_service.database import guards, schema
from worldledger_service.database.catalogue import expected

from worldledger.errors import StoreUnavailableError

from .helpers import connected, verdict, write_derived, write_world

if TYPE_CHECKING:
    from .helpers import Connection

_PUBLISHED = "create view analytics.games as select id, world_id from projections.games"


def _ours(lines: list[str], *, roles: bool = True) -> list[str]:
    """Leave out the tables of projections that the test has made; and what belongs to roles, if that may differ."""
    of_roles = ("role ", "setting of role", "comment on role")
    return [line for line in lines if "games" not in line and (roles or not line.startswith(of_roles))]


async def _may_read(connection: Connection, table: str) -> bool:
    return bool(await connection.fetchval("select has_table_privilege('worldledger_reader', $1, 'select')", table))


async def _may_send(connection: Connection) -> bool:
    query = """
        select bool_or(has_function_privilege('worldledger_reader', oid, 'execute')) from pg_proc
        where proname = 'pg_logical_emit_message'
    """
    return bool(await connection.fetchval(query))


async def _count(connection: Connection, table: str) -> int:
    return int(await connection.fetchval(f"select count(*) from {table}"))


async def test_the_newest_revision_is_taken_back(database_url: str, empty_database_url: str) -> None:
    """It leaves the log and what a database that never went further has; up again all is there."""
    before = schema.REVISIONS[-2]
    await schema.upgrade(empty_database_url, before)
    async with connected(database_url, role=guards.SERVICE_ROLE) as connection:
        await write_world(connection, "w")
        await write_derived(connection)
    async with connected(database_url) as connection, connected(empty_database_url) as fresh:
        await schema.downgrade(database_url, before)
        assert _ours(await schema.catalogue(connection)) == _ours(await schema.catalogue(fresh))
        assert await verdict(connection) == (True, None, None)
        await schema.upgrade(database_url)
        assert await verdict(connection) == (True, None, None)
        assert await _count(connection, "effects") == 9
        assert _ours(await schema.catalogue(connection)) == _ours(expected())


@pytest.mark.thorough  # of older ones: test_migrations goes to base, others of this folder to 0001, 0003, 0006 and 0008
async def test_down_revision_by_revision_and_back(database_url: str, catalogues: dict[str, list[str]]) -> None:
    """Each leaves the log and what a database that never went further has; up again all is there, and derived anew."""
    url = database_url
    async with connected(url, role=guards.SERVICE_ROLE) as connection:
        await write_world(connection, "w")
        await write_derived(connection)
        await connection.execute(_PUBLISHED)
    async with connected(url) as connection:
        assert not await _may_read(connection, "projections.games")
        assert await _may_read(connection, "analytics.games")
        assert not await _may_send(connection)
        for revision in reversed(schema.REVISIONS[:-1]):
            await schema.downgrade(url, revision)
            # A downgrade leaves the roles as they are; those of 0003 and before had less said about them.
            roles = revision != "0003"
            found = _ours(await schema.catalogue(connection), roles=roles)
            assert found == _ours(catalogues[revision], roles=roles), revision
            assert await verdict(connection) == (True, None, None)
            if revision == "0004":
                assert await _count(connection, "agent_cursors") == 1
            if revision == "0003":
                assert await _may_read(connection, "projections.games")
                assert await _may_send(connection)
            if revision == "0002":
                assert await _count(connection, "snapshots") == 1
        assert await connection.fetchval("select to_regnamespace('projections') is null")
        assert await _count(connection, "pg_default_acl") == 0
        await write_world(connection, "w2")
        heads = await connection.fetch("select * from heads order by world_id")
        await schema.upgrade(url)
        after = await connection.fetch("select * from heads order by world_id")
        assert [tuple(row) for row in after] == [(*row, True) for row in heads]  # each world counts as news
        assert [await verdict(connection, world) for world in ("w", "w2")] == [(True, None, None)] * 2
        assert await _count(connection, "effects") == 18
        assert (await _count(connection, "agent_cursors"), await _count(connection, "held_intents")) == (0, 0)
        assert not await _may_send(connection)
        assert await schema.catalogue(connection) == expected()


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


async def test_what_no_projection_made_is_spared(database_url: str, subtests: pytest.Subtests, thorough: bool) -> None:
    """What no projection made cannot be made again: the downgrade is refused, says what it is, and drops nothing."""
    async with connected(database_url, role=guards.SERVICE_ROLE) as service:
        await write_derived(service)
    async with connected(database_url) as connection:
        for theirs, (made, dropped) in list(THEIRS.items())[:: 1 if thorough else 3]:
            with subtests.test(theirs=theirs):
                await connection.execute(made)
                told = r"what no projection made.*mine.*run the downgrade again"
                with pytest.raises(StoreUnavailableError, match=told):
                    await schema.downgrade(database_url, "0001")
                assert await connection.fetchval("select count(*) from projections.games") == 1
                await connection.execute(dropped)
        assert await schema.catalogue(connection) == expected()


async def test_what_is_made_upon_a_view_is_spared(database_url: str) -> None:
    """Where somebody has made a view upon one of the schema analytics, it is named and nothing is dropped."""
    async with connected(database_url) as connection:
        await connection.execute("create view public.mine as select world_id from analytics.worlds")
    with pytest.raises(StoreUnavailableError, match=r"depends on the schema analytics.*mine.*run the downgrade again"):
        await schema.downgrade(database_url, "0003")
    async with connected(database_url) as connection:
        assert await connection.fetchval("select count(*) from analytics.worlds") == 0
        await connection.execute("drop view public.mine")
    await schema.downgrade(database_url, "0003")
    async with connected(database_url) as connection:
        with pytest.raises(asyncpg.UndefinedTableError):
            await connection.fetchval("select count(*) from analytics.worlds")
