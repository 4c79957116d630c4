"""Migrated equals fresh, up and down; two at once queue up; what does not fit is refused with what to run."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from worldledger_service.database import schema
from worldledger_service.database.catalogue import expected
from worldledger_service.database.tables import METADATA

from worldledger.errors import SchemaVersionError, StoreUnavailableError

from .helpers import DERIVED, TABLES, Row, connected, insert_effect, link, with_database, write_world
from .upgrading import elsewhere


async def _catalogue(url: str) -> list[str]:
    async with connected(url) as connection:
        return await schema.catalogue(connection)


@pytest.mark.both_servers
async def test_migrated_equals_fresh(database_url: str, empty_database_url: str) -> None:
    """Migrations and today's definitions make the same schema, down to privileges, triggers and comments."""
    await schema.create_fresh(empty_database_url)
    assert await _catalogue(database_url) == await _catalogue(empty_database_url)


@pytest.mark.both_servers
async def test_snapshot_is_up_to_date(database_url: str) -> None:
    """catalogue.txt is what a migrated database has, on every version; else write it anew (see catalogue.py)."""
    assert await _catalogue(database_url) == expected()
    assert [line for line in await schema.check(database_url) if not line.startswith(("setting ", "reader: "))] == []


async def test_alembic_sees_no_difference(database_url: str) -> None:
    """Alembic's own comparison of the tables with a migrated database finds nothing."""

    async def connect(*_: Any, **__: Any) -> Any:
        return await asyncpg.connect(database_url)

    def compare(connection: Any) -> list[Any]:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True, "target_metadata": METADATA}
        )
        return list(compare_metadata(context, METADATA))

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    async with engine.connect() as connection:
        assert await connection.run_sync(compare) == []
    await engine.dispose()


async def test_down_and_up_again(database_url: str) -> None:
    """A downgrade to base drops everything but the roles and Alembic's table, and the way up works again."""
    whole = await _catalogue(database_url)
    await schema.downgrade(database_url, "base")
    left = [line for line in await _catalogue(database_url) if "alembic_version" not in line]
    left = [line for line in left if not line.startswith("setting of role")]
    assert {line.split(" ", 1)[0] for line in left} == {"role", "comment", "privilege"}
    assert [line for line in left if line.startswith("role ")] == [line for line in whole if line.startswith("role ")]
    assert all("schema public" in line or "role worldledger" in line for line in left if not line.startswith("role "))
    async with connected(database_url) as connection:
        assert (await schema.revision_state(connection)).status == "empty"
    await schema.upgrade(database_url)
    assert await _catalogue(database_url) == whole


async def test_downgrade_spares_history(database_url: str) -> None:
    """A downgrade that would drop effects is refused, and nothing is gone."""
    async with connected(database_url) as connection:
        await write_world(connection, "w")
    with pytest.raises(SchemaVersionError, match="the log holds effects"):
        await schema.downgrade(database_url, "base")
    assert await _catalogue(database_url) == expected()


async def test_upgrade_twice(database_url: str) -> None:
    """An upgrade of a database that is up to date changes nothing."""
    async with connected(database_url) as connection:
        await write_world(connection, "w")
    await schema.upgrade(database_url)
    async with connected(database_url) as connection:
        assert await connection.fetchval("select verified from verification")


async def test_upgrades_at_once(two_empty_urls: list[str]) -> None:
    """Upgrades of one database at the same moment queue up, and those of another do not get in the way."""
    other = elsewhere(two_empty_urls)
    await asyncio.gather(*(schema.upgrade(url) for url in two_empty_urls * 2))
    assert await asyncio.to_thread(other.wait) == 0
    for url in two_empty_urls:
        assert await _catalogue(url) == expected()


@pytest.mark.thorough  # of what another test has: from nothing at once; and from 0001, by one
async def test_upgrades_from_0001_at_once(two_empty_urls: list[str]) -> None:
    """Upgrades of two databases, each several times at the same moment, make one schema of projections in each."""
    for url in two_empty_urls:
        await schema.upgrade(url, "0001")
    other = elsewhere(two_empty_urls)
    await asyncio.gather(*(schema.upgrade(url) for url in two_empty_urls))
    assert await asyncio.to_thread(other.wait) == 0
    for url in two_empty_urls:
        assert await _catalogue(url) == expected()


async def test_a_lock_that_is_not_to_be_had(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade that gives up on a lock says which session holds it, since when, and how it is ended."""
    monkeypatch.setattr(schema, "LOCK_TIMEOUT", "300ms")
    await schema.downgrade(database_url, "0006")
    async with connected(database_url) as reader:
        await reader.execute("set application_name = 'a notebook'; set search_path = public")
        ((pid, user),) = await reader.fetch("select pg_backend_pid(), current_user")
        async with reader.transaction():
            await reader.fetch("select * from effect_verification limit 0")
            with pytest.raises(StoreUnavailableError) as caught:
                await schema.upgrade(database_url)
    message = caught.value.message
    assert f"held by PID {pid}, user {user}, application a notebook, in a transaction since 20" in message
    assert f"SELECT pg_terminate_backend({pid}) ends it" in message
    assert "effect_verification" in message
    await schema.upgrade(database_url)
    assert await _catalogue(database_url) == expected()


async def test_failed_migration_leaves_nothing(empty_database_url: str) -> None:
    """A migration that fails half-way is rolled back as a whole, and can be run again."""
    async with connected(empty_database_url) as connection:
        await connection.execute("create view verification as select 1 as one")
    with pytest.raises(StoreUnavailableError, match='"verification" already exists'):
        await schema.upgrade(empty_database_url)
    async with connected(empty_database_url) as connection:
        assert await connection.fetchval("select to_regclass('effects')") is None
        await connection.execute("drop view verification")
    await schema.upgrade(empty_database_url)
    assert await _catalogue(empty_database_url) == expected()


async def test_states(database_url: str, empty_database_url: str) -> None:
    """Empty, older and newer databases are told apart, and the message says what to run."""
    async with connected(empty_database_url) as connection:
        state = await schema.revision_state(connection)
        assert state.status == "empty"
        with pytest.raises(SchemaVersionError, match="run `worldledger db upgrade`"):
            schema.require_current(state)
    async with connected(database_url) as connection:
        state = await schema.revision_state(connection)
        assert (state.status, state.current) == ("current", schema.REVISIONS[-1])
        schema.require_current(state)
        await connection.execute("update alembic_version set version_num = 'f00d'")
        with pytest.raises(SchemaVersionError, match=r"f00d.*install a newer worldledger"):
            schema.require_current(await schema.revision_state(connection))
    with pytest.raises(SchemaVersionError, match="install a newer worldledger"):
        await schema.upgrade(database_url)
    (finding,) = await schema.check(database_url)
    assert "f00d" in finding
    older = schema.SchemaState("0000", "0001", "older")
    with pytest.raises(SchemaVersionError, match="at revision 0000, this program needs 0001: run"):
        schema.require_current(older)


async def test_encoding(server_url: str) -> None:
    """A database that is not in UTF-8 is refused, because text could not be kept."""
    name = f"schema_ascii_{uuid4().hex}"
    async with connected(server_url) as connection:
        await connection.execute(
            f"create database {name} encoding 'SQL_ASCII' locale_provider libc locale 'C' template template0"
        )
        try:
            with pytest.raises(SchemaVersionError, match="encoding is SQL_ASCII"):
                await schema.upgrade(with_database(server_url, name))
        finally:
            await connection.execute(f"drop database {name} with (force)")


def test_revisions_are_the_files() -> None:
    """The program's list of revisions is that of the migration files, in order, in one line."""
    config = Config()
    config.set_main_option("script_location", str(schema.migrations_dir()))
    scripts = ScriptDirectory.from_config(config)
    assert [script.revision for script in scripts.walk_revisions()][::-1] == list(schema.REVISIONS)


def test_migrations_import_no_application() -> None:
    """A migration must do next year what it does today: nothing in the folder imports our packages."""
    for path in schema.migrations_dir().rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not line.startswith(("import worldledger", "from worldledger"))


def test_migrations_need_the_upgrade_command() -> None:
    """Alembic run by hand, without a connection under the owner's role, says what to run instead."""
    config = Config()
    config.set_main_option("script_location", str(schema.migrations_dir()))
    with pytest.raises(CommandError, match="worldledger db upgrade"):
        command.upgrade(config, "head")


_UNCOMMENTED = """
select pg_describe_object(classid, objid, objsubid) as what from (
    select 'pg_class'::regclass as classid, oid as objid, 0 as objsubid from pg_class
    where relnamespace in ('public'::regnamespace, 'analytics'::regnamespace) and relkind <> 'c'
    union all
    select 'pg_class'::regclass, attrelid, attnum from pg_attribute join pg_class on pg_class.oid = attrelid
    where relnamespace in ('public'::regnamespace, 'analytics'::regnamespace) and relkind in ('r', 'v', 'c')
      and attnum > 0
    union all
    select 'pg_proc'::regclass, oid, 0 from pg_proc
    where pronamespace in ('public'::regnamespace, 'analytics'::regnamespace)
    union all
    select 'pg_type'::regclass, pg_type.oid, 0 from pg_type join pg_class on pg_class.oid = typrelid
    where typnamespace = 'public'::regnamespace and relkind = 'c'
    union all
    select 'pg_trigger'::regclass, oid, 0 from pg_trigger where not tgisinternal
    union all
    select 'pg_constraint'::regclass, oid, 0 from pg_constraint
    where connamespace = 'public'::regnamespace and contype <> 'n'
) as objects
where not exists (
    select from pg_description d
    where d.classoid = classid and d.objoid = objid and d.objsubid = objects.objsubid and d.description <> '')
"""


async def test_everything_has_a_comment(database_url: str) -> None:
    """Every table, column, constraint, index, trigger, view, type and function says what it is for."""
    async with connected(database_url) as connection:
        assert [row["what"] for row in await connection.fetch(_UNCOMMENTED)] == []
        roles = await connection.fetch(
            "select shobj_description(oid, 'pg_authid') as comment from pg_roles where rolname like 'worldledger\\_%'"
        )
        assert len(roles) == 4
        for name in ("projections", "analytics"):
            assert await connection.fetchval("select obj_description(to_regnamespace($1), 'pg_namespace')", name)
        assert all(row["comment"] for row in roles)


@pytest.mark.both_servers
async def test_views_come_back_from_a_dump(database_url: str) -> None:
    """A view made again from its own definition, as restoring a dump does, is the same, so that `check` is content."""
    async with connected(database_url) as connection:
        for view in ("verification", "effect_verification", "analytics.intents", "analytics.move_made"):
            definition = await connection.fetchval("select pg_get_viewdef($1::text::regclass)", view)
            await connection.execute(f"create or replace view {view} as {definition}")
    assert await _catalogue(database_url) == expected()


@pytest.mark.both_servers
async def test_owner_owns_everything(database_url: str) -> None:
    """Tables, views and functions belong to worldledger_owner, whoever migrated."""
    async with connected(database_url) as connection:
        owners = await connection.fetch(
            "select distinct relowner::regrole::text from pg_class where relnamespace = 'public'::regnamespace"
            " union select proowner::regrole::text from pg_proc where pronamespace = 'public'::regnamespace"
        )
        assert [row[0] for row in owners] == ["worldledger_owner"]
        tables = await connection.fetch("select tablename from pg_tables where schemaname = 'public'")
        assert {row["tablename"] for row in tables} == {
            *TABLES,
            *DERIVED,
            "alembic_version",
            "kind_analytics",
            "prefixes",
        }


async def test_an_upgrade_shows_what_one_effect_hid(empty_database_url: str) -> None:
    """At 0019 one effect that PostgreSQL cannot read ends queries of views; after the upgrade the others are shown."""
    url = empty_database_url
    await schema.upgrade(url, "0019")
    async with connected(url) as connection:
        await write_world(connection, "w")
        text = r'{"payload":{"text":"\u0000"},"source_metadata":{"intent":"Speak"}}'
        await insert_effect(connection, Row("w", 10, text, link(None, text), "Speak", "agent-1", 2.5))
        for view in ("intents", "intents_with_forks", "effects"):
            with pytest.raises(asyncpg.UntranslatableCharacterError):
                await connection.fetch(f"select * from analytics.{view}")
    await schema.upgrade(url)
    async with connected(url) as connection:
        assert await connection.fetch("select * from analytics.intents") == []
        rows = await connection.fetch("select payload from analytics.effects where world_id = 'w' order by global_seq")
        assert [row["payload"] is None for row in rows] == [False] * 9 + [True]
        assert await connection.fetchval("select text is null from analytics.speak")
        assert await schema.catalogue(connection) == expected()
