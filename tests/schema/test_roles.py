"""Roles are made once for a cluster, whoever migrates first, and whatever that user may do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import uuid4

import asyncpg
import pytest
from worldledger_service.database import guards, schema

from worldledger.errors import StoreUnavailableError

from .helpers import connected, with_database, with_user, write_derived, write_world

NAMES = ("owner", "service", "reader", "guest")


@dataclass(frozen=True)
class Place:
    """A user with a database of its own, and roles of a prefix that nothing else on the cluster uses."""

    url: str
    user: str
    prefix: str

    @property
    def statements(self) -> list[str]:
        """The statements of ``guards.roles()``, for those roles."""
        return [statement.replace("worldledger_", self.prefix) for statement in guards.roles()]


@pytest.fixture
async def place(server_url: str) -> AsyncIterator[Place]:
    """Make such a user without any right but to own the database."""
    tag = uuid4().hex[:12]
    user, prefix = f"wl_admin_{tag}", f"wl_roles_{tag}_"
    url = with_user(with_database(server_url, user), user, "pw")
    async with connected(server_url) as connection:
        await connection.execute(f"create role {user} login password 'pw'")
        await connection.execute(f"create database {user} owner {user}")
        yield Place(url, user, prefix)
        await connection.execute(f"drop database {user} with (force)")
        await connection.execute(f"drop role if exists {', '.join(prefix + name for name in NAMES)}, {user}")


async def _prepare(url: str, statements: list[str]) -> None:
    async with connected(url) as connection, connection.transaction():
        for statement in statements:
            await connection.execute(statement)


@pytest.mark.both_servers
async def test_createrole_and_owner_of_the_database(place: Place, server_url: str) -> None:
    """A user with CREATEROLE who owns the database, and is no superuser, makes the roles and may become each."""
    async with connected(server_url) as connection:
        await connection.execute(f"alter role {place.user} createrole")
    for _ in range(2):
        await _prepare(place.url, place.statements)
    for name in NAMES:
        async with connected(place.url, role=place.prefix + name) as connection:
            assert await connection.fetchval("select current_user") == place.prefix + name
    async with connected(place.url, role=place.prefix + "owner") as connection:
        await connection.execute("create table made (x int)")
    async with connected(place.url) as connection:
        comments = await connection.fetch(
            "select shobj_description(oid, 'pg_authid') as comment from pg_roles where starts_with(rolname, $1)",
            place.prefix,
        )
        assert [bool(row["comment"]) for row in comments] == [True] * 4
        # Once all is there, the user needs no right to make roles any more.
    async with connected(server_url) as connection:
        await connection.execute(f"alter role {place.user} nocreaterole")
    await _prepare(place.url, place.statements)


@pytest.mark.both_servers
async def test_user_who_may_not_make_roles(place: Place) -> None:
    """Without CREATEROLE, and with no roles there, the error says what an administrator has to run."""
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="is missing") as caught:
        await _prepare(place.url, place.statements)
    owner = place.prefix + "owner"
    assert caught.value.hint == f"As an administrator: CREATE ROLE {owner} NOLOGIN; GRANT {owner} TO {place.user}"


@pytest.mark.both_servers
@pytest.mark.usefixtures("database_url")  # somebody migrated a database of this cluster before
async def test_user_who_was_granted_the_roles(place: Place, server_url: str) -> None:
    """An administrator makes the roles and grants them: then the way up, the service, and the way down and up work."""
    with pytest.raises(StoreUnavailableError, match="GRANT worldledger_owner TO " + place.user):
        await schema.upgrade(place.url)
    async with connected(server_url) as connection:
        roles = ", ".join(f"worldledger_{name}" for name in NAMES)
        await connection.execute(f"grant {roles} to {place.user}")
    await schema.upgrade(place.url)
    async with connected(place.url, role=guards.SERVICE_ROLE) as connection:
        await write_world(connection, "w")
        await write_derived(connection)
    await schema.upgrade(place.url)
    async with connected(place.url) as connection:
        assert await connection.fetchval("select verified from verification")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("update effects set kind = 'Other'")
        await schema.downgrade(place.url, "0001")
        assert await connection.fetchval("select to_regnamespace('projections') is null")
    await schema.upgrade(place.url)
    assert [line for line in await schema.check(place.url) if not line.startswith(("setting ", "reader: "))] == []


@pytest.mark.usefixtures("database_url")
async def test_user_who_does_not_own_the_database(place: Place, server_url: str, empty_database_url: str) -> None:
    """A user who may not let the owner create tables is told who may."""
    async with connected(server_url) as connection:
        roles = ", ".join(f"worldledger_{name}" for name in NAMES)
        await connection.execute(f"grant {roles} to {place.user}")
    with pytest.raises(StoreUnavailableError, match=r"permission denied for schema public|Migrate as the owner"):
        await schema.upgrade(with_user(empty_database_url, place.user, "pw"))


@pytest.mark.usefixtures("database_url")
async def test_user_who_may_not_create_a_schema(place: Place, server_url: str, empty_database_url: str) -> None:
    """A user who may not create schemas is told what an administrator has to run, and with that it works."""
    url = with_user(empty_database_url, place.user, "pw")
    async with connected(server_url) as connection:
        await connection.execute(f"grant {', '.join(f'worldledger_{name}' for name in NAMES)} to {place.user}")
    async with connected(empty_database_url) as connection:
        await connection.execute("grant create, usage on schema public to worldledger_owner")
        await connection.execute(
            "grant usage on schema public to worldledger_service, worldledger_reader, worldledger_guest"
        )
        for name in ("projections", "analytics"):
            todo = f"CREATE SCHEMA {name} AUTHORIZATION worldledger_service"
            with pytest.raises(StoreUnavailableError, match=f"{place.user} may not create the schema.*{todo}"):
                await schema.upgrade(url)
            assert (await schema.revision_state(connection)).status == "empty"
            await connection.execute(todo)
    await schema.upgrade(url)
    assert [line for line in await schema.check(url) if not line.startswith(("setting ", "reader: "))] == []


async def test_schema_of_somebody_else(empty_database_url: str) -> None:
    """A schema of that name that another program made is left alone."""
    async with connected(empty_database_url) as connection:
        for name in ("projections", "analytics"):
            await connection.execute(f"create schema {name}")
            with pytest.raises(StoreUnavailableError, match=rf"has a schema {name} of somebody else.*rename"):
                await schema.upgrade(empty_database_url)
            assert (await schema.revision_state(connection)).status == "empty"
            await connection.execute(f"alter schema {name} rename to their_{name}")
    await schema.upgrade(empty_database_url, "0004")  # which makes the second


async def test_up_to_date_needs_no_owner(place: Place, server_url: str, database_url: str) -> None:
    """An upgrade that has nothing to do works for a user who is only a member of the service's role."""
    async with connected(server_url) as connection:
        await connection.execute(f"grant {guards.SERVICE_ROLE} to {place.user}")
    await schema.upgrade(with_user(database_url, place.user, "pw"))


@pytest.mark.both_servers
async def test_two_databases_at_once(two_empty_urls: list[str], place: Place, server_url: str) -> None:
    """Two databases of one cluster that are prepared at the same moment both find their roles."""
    urls = [*two_empty_urls, with_database(server_url, place.user)]
    await asyncio.gather(*(_prepare(url, place.statements) for url in urls))
    async with connected(server_url) as connection:
        found = await connection.fetch("select rolcanlogin from pg_roles where starts_with(rolname, $1)", place.prefix)
        assert [row["rolcanlogin"] for row in found] == [False] * 4
        for url in urls:
            async with connected(url) as database:
                for name in NAMES:
                    await database.execute(f"drop owned by {place.prefix}{name}")


@pytest.mark.both_servers
async def test_roles_cannot_log_in_or_more(database_url: str) -> None:
    """The four roles have no login and no power over the cluster, and are in no other role."""
    async with connected(database_url) as connection:
        rows = await connection.fetch(
            "select rolcanlogin or rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls as power,"
            " exists (select from pg_auth_members where member = r.oid) as joined"
            " from pg_roles r where rolname = any($1)",
            [guards.OWNER_ROLE, guards.SERVICE_ROLE, guards.READER_ROLE, guards.GUEST_ROLE],
        )
        assert [(row["power"], row["joined"]) for row in rows] == [(False, False)] * 4
