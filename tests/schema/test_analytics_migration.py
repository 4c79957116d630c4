"""Revision 0004 makes the schema analytics and takes everything else from readers; a downgrade gives it back."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from worldledger_service.database import schema
from worldledger_service.database.catalogue import expected

from worldledger.errors import StoreUnavailableError

from .helpers import connected, verdict, write_derived, write_world

pytestmark = pytest.mark.both_servers

_PUBLISHED = "create view analytics.games as select id, world_id from projections.games"


def _without_games(lines: list[str]) -> list[str]:
    """Leave out the tables of projections that the test has made."""
    return [line for line in lines if "games" not in line]


def _as_it_was(lines: list[str]) -> list[str]:
    """Leave out what belongs to roles, which a downgrade leaves as they are."""
    of_roles = ("role ", "setting of role", "comment on role")
    return [line for line in _without_games(lines) if not line.startswith(of_roles)]


async def _may_read(connection: Any, table: str) -> bool:
    return bool(await connection.fetchval("select has_table_privilege('worldledger_reader', $1, 'select')", table))


async def _may_send(connection: Any) -> bool:
    query = """
        select bool_or(has_function_privilege('worldledger_reader', oid, 'execute')) from pg_proc
        where proname = 'pg_logical_emit_message'
    """
    return bool(await connection.fetchval(query))


@pytest.mark.both_servers(thorough=True)
async def test_downgrade_and_back(database_url: str, catalogues: dict[str, list[str]]) -> None:
    """Down to 0003 the schema is gone, with what was published in it, and readers read as before; up it is back."""
    url = database_url
    async with connected(url) as connection:
        await write_world(connection, "w")
        await connection.execute("set role worldledger_service")
        await write_derived(connection)
        await connection.execute(_PUBLISHED)
        assert not await _may_read(connection, "projections.games")
        assert await _may_read(connection, "analytics.games")
    await schema.downgrade(url, "0003")
    async with connected(url) as one:
        assert _as_it_was(await schema.catalogue(one)) == _as_it_was(catalogues["0003"])
        assert await _may_read(one, "projections.games")
        assert await _may_send(one)
        assert await verdict(one) == (True, None, None)
    await schema.upgrade(url)
    async with connected(url) as connection:
        assert _without_games(await schema.catalogue(connection)) == _without_games(expected())
        assert not await _may_read(connection, "projections.games")
        assert not await _may_send(connection)


async def test_downgrade_spares_what_is_not_ours(database_url: str) -> None:
    """Where somebody has made a view upon one of these, it is named and nothing is dropped."""
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
