"""Connections work under the role that fits them, and say what is wrong when they cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest
from worldledger_service.database import engine, guards, schema
from worldledger_service.database.engine import connect_one, connect_pool
from worldledger_service.database.failures import explained
from worldledger_service.store import Store

from tests.conftest import quick_settings
from worldledger.errors import SchemaVersionError, StoreUnavailableError
from worldledger.genesis import NewWorld

from .helpers import connected, with_database, with_user


@pytest.fixture
async def ordinary_user(database_url: str) -> AsyncIterator[tuple[str, str]]:
    """Make a user without any right; return its name and address."""
    user, password = f"wl_user_{uuid4().hex[:12]}", "se:cr@t/%?#x"
    async with connected(database_url) as connection:
        await connection.execute(f"create role {user} login password '{password}'")
        yield user, with_user(database_url, user, password)
        await connection.execute(f"drop owned by {user}; drop role {user}")


async def test_pool_works_as_the_service(database_url: str) -> None:
    """Each connection of a pool is under the service's role, before and after it was given back and cleaned."""
    async with await connect_pool(database_url, max_size=1, application_name="wl tests") as pool:
        for _ in range(3):
            async with pool.acquire() as connection:
                assert await connection.fetchval("select current_user") == guards.SERVICE_ROLE
                assert await connection.fetchval("show application_name") == "wl tests"
                assert await connection.fetchval("show search_path") == "public"
                await connection.execute("set application_name = 'other'")
        async with pool.acquire() as connection:
            await connection.execute("set role worldledger_reader; reset role")
            assert await connection.fetchval("select current_user") == guards.SERVICE_ROLE


async def test_a_pool_that_is_not_cleaned(database_url: str) -> None:
    """A connection comes back as it was left, by no statement; only an open transaction is rolled back."""
    async with await connect_pool(database_url, max_size=1, cleaned=False) as pool:
        queries: list[str] = []
        async with pool.acquire() as connection:
            await connection.execute("set application_name = 'mine'")
            connection.add_query_logger(lambda each: queries.append(each.query))
        assert queries == []
        async with pool.acquire() as connection:
            assert await connection.fetchval("show application_name") == "mine"
            await connection.execute("begin; set local application_name = 'other'")
        async with pool.acquire() as connection:
            assert await connection.fetchval("show application_name") == "mine"


async def test_settings_of_a_database_change_no_meaning(database_url: str) -> None:
    """Whatever a database sets for literals, names and bytes: the schema checks as before, and logs are readable."""
    async with connected(database_url) as admin:
        database = await admin.fetchval("select format('%I', current_database())")
        for setting in ("standard_conforming_strings = off", "bytea_output = escape", "quote_all_identifiers = on"):
            await admin.execute(f"alter database {database} set {setting}")
    assert [line for line in await schema.check(database_url) if not line.startswith(("setting", "reader"))] == []
    async with Store.open(database_url, quick_settings()) as store:
        await store.create_world(NewWorld(world_id="w"))
        log = await store.log("w")
        await log.append({"kind": "Said", "payload": {"text": "a\\b"}, "source_id": "a", "schema_version": "1.0.0"})
        assert (await store.reader.verify("w")).verified


async def test_one_connection(database_url: str) -> None:
    """A single connection works as the address's user, or under the role that is asked for."""
    for role in (None, guards.READER_ROLE):
        connection = await connect_one(database_url, role=role)
        try:
            assert await connection.fetchval("select current_user") == (role or urlsplit(database_url).username)
        finally:
            await connection.close()


async def test_types_are_asked_for_once(
    database_url: str, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL's own are known from the first connection that met them, in any database; a database's own are not."""
    monkeypatch.setattr(engine, "_KNOWN_TYPES", {})
    asked: list[Any] = []
    introspect = asyncpg.Connection._introspect_types  # type: ignore[attr-defined]

    async def counted(connection: Any, types: Any, timeout: Any) -> Any:
        asked.append(types)
        return await introspect(connection, types, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", counted)
    for number, url in enumerate((database_url, database_url, empty_database_url), 1):
        connection = await connect_one(url)
        for query, value in (("select $1::bigint[]", [1, None, -(2**62)]), ("select $1::json[]", ["{}"])):
            assert await connection.fetchval(query, value) == value
        assert len(asked) == 2 + number - 1
        await connection.execute(f"create type pair_{number} as (a int, b bigint[])")
        assert await connection.fetchval(f"select $1::pair_{number}[]", [(1, [2])]) == [(1, [2])]
        assert len(asked) == 2 + number
        await connection.close()


async def test_user_without_the_role(ordinary_user: tuple[str, str], database_url: str) -> None:
    """A user who is no member of the role is told what an administrator has to run; after that it works."""
    user, url = ordinary_user
    with pytest.raises(StoreUnavailableError) as caught:
        await connect_pool(url)
    assert f'GRANT "worldledger_service" TO "{user}"' in caught.value.message
    assert caught.value.__cause__ is not None
    async with connected(database_url) as connection:
        await connection.execute(f'GRANT "worldledger_service" TO "{user}"')
    async with await connect_pool(url) as pool:
        assert await pool.fetchval("select count(*) from effects") == 0


async def test_command_timeout(database_url: str) -> None:
    """A statement that takes longer than the limit ends."""
    async with await connect_pool(database_url, command_timeout=0.05) as pool:
        with pytest.raises(TimeoutError):
            await pool.fetchval("select pg_sleep(30)")


async def test_database_that_was_never_migrated(empty_database_url: str) -> None:
    """Where a role or a table is missing, the message says to migrate."""
    connection = await connect_one(empty_database_url)
    try:
        assert (await schema.revision_state(connection)).status == "empty"
    finally:
        await connection.close()
    with pytest.raises(SchemaVersionError, match="run `worldledger db upgrade`"):
        await connect_one(empty_database_url, role="worldledger_no_such_role")


async def test_wrong_addresses(database_url: str) -> None:
    """Wrong password, database, host, socket, port and form are told apart, and no password is ever shown."""
    secret = "hunter2hunter2"
    cases = {
        with_user(database_url, "postgres", secret): "refuses the password",
        with_user(database_url, "nobody_here", secret): "refuses the password",
        with_database(database_url, "no_such_database"): "does not exist.*create it first",
        f"postgresql://postgres:{secret}@127.0.0.1:1/x": r"at 127\.0\.0\.1:1 as user 'postgres' cannot be reached",
        f"postgresql://postgres:{secret}@/x?host=/no/such/folder": "at /no/such/folder.*cannot be reached",
        f"postgresql://postgres:{secret}@no-such-host.invalid/x": "cannot be reached",
        f"mysql://root:{secret}@127.0.0.1/x": "the address is not understood",
        f"postgresql://postgres:{secret}/@127.0.0.1/x": "the address is not understood",
        f"{secret}": "the address is not understood",
        database_url + ("&" if "?" in database_url else "?") + "no_such_setting=1": "settings that PostgreSQL does not",
    }
    for url, expected in cases.items():
        with pytest.raises(StoreUnavailableError, match=expected) as caught:
            await connect_pool(url)
        assert secret not in caught.value.message
        assert secret not in str(caught.value.details)
        with pytest.raises(StoreUnavailableError, match=expected):
            await schema.upgrade(url)


async def test_other_forms_of_an_address(database_url: str) -> None:
    """``postgres://`` and a host given as a query parameter work, for migrations too."""
    parts = urlsplit(database_url)
    query = parse_qs(parts.query)
    host = query["host"][0] if "host" in query else str(parts.hostname)
    port = query["port"][0] if "port" in query else str(parts.port or 5432)
    user = parts.netloc.rpartition("@")[0]
    url = urlunsplit(("postgres", f"{user}@", parts.path, f"host={host}&port={port}", ""))
    await schema.upgrade(url)
    async with await connect_pool(url) as pool:
        assert await pool.fetchval("select count(*) from worlds") == 0


async def test_lost_connection(database_url: str) -> None:
    """A session that an administrator ends is an outage, not an error of the program."""
    async with connected(database_url) as killer, await connect_pool(database_url, min_size=1, max_size=1) as pool:
        pid = await pool.fetchval("select pg_backend_pid()")
        waiting = asyncio.ensure_future(pool.fetchval("select pg_sleep(30)"))
        while not await killer.fetchval("select count(*) from pg_stat_activity where wait_event = 'PgSleep'"):
            await asyncio.sleep(0)
        await killer.execute("select pg_terminate_backend($1)", pid)
        with pytest.raises(StoreUnavailableError, match=r"is shutting down|broke off"), explained(database_url):
            await waiting
