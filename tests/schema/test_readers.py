"""What a reader's login can do besides reading: nothing, whatever settings it lifts; what is left is listed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest
from worldledger_service.database import readers, schema

from .helpers import connected, undone, with_database, with_user

#: What changes something, or holds somebody up, though a reader may not write.
TRIED = (
    "create temp table mine as select 1 as one",
    "create table mine (one int)",
    "create table analytics.mine (one int)",
    "select lo_create(0)",
    "select lo_from_bytea(0, 'x')",
    "select lo_creat(-1)",
    "select pg_advisory_lock(512919627634)",
    "select pg_try_advisory_lock(1, 2)",
    "select pg_try_advisory_xact_lock_shared(1)",
    "select pg_advisory_xact_lock(512919627634)",
    "select pg_logical_emit_message(false, 'x', 'y')",
)
_OLD = """
do $$
declare
    what regprocedure;
begin
    execute format('grant temporary on database %I to public', current_database());
    for what in select oid from pg_proc where pronamespace = 'pg_catalog'::regnamespace
                and (proname ~ '^(lo_(creat|create|from_bytea|open|put|truncate|truncate64|unlink)|lowrite)$'
                     or proname ~ '^(pg_logical_emit_message|pg_(try_)?advisory_(xact_)?lock(_shared)?)$')
    loop
        execute format('grant execute on function %s to public', what);
    end loop;
end
$$
"""


@pytest.fixture
async def logins(database_url: str) -> AsyncIterator[dict[str, str]]:
    """Return addresses of two logins: a reader's, and that of a user who owns the database and is in our roles."""
    names = {name: f"wl_{name}_{uuid4().hex[:12]}" for name in ("reader", "owner")}
    async with connected(database_url) as admin:
        before = await admin.fetchval("select current_user")
        database = await admin.fetchval("select current_database()")
        await admin.execute(f"create role {names['reader']} login password 'pw' in role worldledger_reader")
        await admin.execute(
            f"create role {names['owner']} login password 'pw' in role worldledger_owner, worldledger_service,"
            " worldledger_reader, worldledger_guest"
        )
        await admin.execute(f'alter database "{database}" owner to {names["owner"]}')
        await admin.execute(_OLD)
        yield {name: with_user(database_url, user, "pw") for name, user in names.items()}
        await admin.execute(f'alter database "{database}" owner to {before}')
        for user in names.values():
            await admin.execute(f"drop owned by {user}")
            await admin.execute(f"drop role {user}")


async def _allowed(url: str) -> list[str]:
    """Return what of TRIED a reader can do once every setting is lifted."""
    allowed = []
    async with connected(url) as reader:
        await reader.execute("set default_transaction_read_only = off; set statement_timeout = 0")
        for statement in TRIED:
            transaction = reader.transaction()
            await transaction.start()
            try:
                await reader.execute(statement)
            except asyncpg.InsufficientPrivilegeError:
                pass
            else:
                allowed.append(statement)
            await transaction.rollback()
    return allowed


async def _left(url: str) -> list[str]:
    async with connected(url) as connection:
        return await readers.beyond_reading(connection)


@pytest.mark.both_servers
async def test_an_upgrade_takes_all_of_it_away(logins: dict[str, str], database_url: str) -> None:
    """A superuser's upgrade repairs an old database though it has nothing to migrate; those who need it still may."""
    assert [line for line in TRIED if not line.startswith("create table")] == await _allowed(logins["reader"])
    assert len(await _left(database_url)) == 4
    await schema.upgrade(database_url)
    assert await _allowed(logins["reader"]) == []
    assert await _left(database_url) == []
    assert not [line for line in await schema.check(database_url) if line.startswith("reader")]
    async with connected(database_url) as admin:
        await admin.execute("set role worldledger_service; create temp table mine (one int); reset role")
    await schema.upgrade(logins["owner"])  # which waits for its turn by such a lock


@pytest.mark.both_servers
async def test_the_embedded_server_s_own_databases_are_closed(logins: dict[str, str], database_url: str) -> None:
    """A reader connects to no database that PostgreSQL made with the server, where everybody could fill the disk."""
    async with connected(database_url) as admin:
        if await admin.fetchval("show cluster_name") != "worldledger":
            pytest.skip("not the embedded server")
    await schema.upgrade(database_url)
    for name in ("postgres", "template1"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await asyncpg.connect(with_database(logins["reader"], name))


async def test_what_was_granted_besides_is_listed(database_url: str) -> None:
    """`db check` lists where readers may make tables, and settings of the server that they may change."""
    async with connected(database_url) as admin, undone(admin):
        await admin.execute(
            """
            create schema theirs; grant create on schema theirs to worldledger_reader;
            grant set, alter system on parameter session_replication_role to public
            """
        )
        database = await admin.fetchval("select format('%I', current_database())")
        await admin.execute(f"grant create on database {database} to public")
        await admin.execute("alter role worldledger_reader connection limit -1")
        left = await readers.beyond_reading(admin)
    unlimited = "reader: may have any number of sessions, and leave none to others"
    assert f"{unlimited}: ALTER ROLE worldledger_reader CONNECTION LIMIT 20" in left
    assert [line.partition(": REVOKE")[0] for line in left if ": REVOKE" in line] == [
        f"reader: may make tables in the database {database}",
        "reader: may make tables in the schema theirs",
        "reader: may change the server's setting session_replication_role",
    ]


#: Where others were careless: schemas that readers may use, and what they may do there.
_CARELESS = """
create schema open; grant usage on schema open to public;
create table open.t (a int, b serial); grant all on open.t to public; grant usage on sequence open.t_b_seq to public;
create table open."o'clock" (a int); grant update (a) on open."o'clock" to worldledger_guest;
create view open.v as select a from open.t; grant delete on open.v to worldledger_reader;
create table open.own (a int); alter table open.own owner to worldledger_reader;
create function open.f(n int, text[]) returns int security definer language sql as 'select 1';
create procedure open.p() security definer language plpgsql as 'begin end';
grant update on information_schema.sql_parts to public
"""
#: Where they were not: what readers may not use, or only read; the last relation belongs to an extension.
_CAREFUL = """
create schema closed; create table closed.t (a serial); grant all on closed.t to public;
create function closed.f() returns int security definer language sql as 'select 1';
create schema seen; grant usage on schema seen to public;
create table seen.t (a serial); grant select on seen.t to public; grant select on sequence seen.t_a_seq to public;
create function seen.mine() returns int language sql as 'select 1';
create function seen.f() returns int security definer language sql as 'select 1';
revoke execute on function seen.f() from public;
create function seen.fired() returns trigger security definer language plpgsql as 'begin return new; end';
create extension if not exists plpgsql;
create table seen.of_extension (a int); grant all on seen.of_extension to public;
alter extension plpgsql add table seen.of_extension
"""


@pytest.mark.both_servers
async def test_what_readers_may_write_elsewhere_is_listed(database_url: str) -> None:
    """`db check` lists relations that readers may write to, functions that do it for them, and SQL that ends it."""
    await schema.upgrade(database_url)
    everything = "INSERT, UPDATE, DELETE, TRUNCATE"
    written = [
        ("", "information_schema.sql_parts", "UPDATE"),
        ("", 'open."o\'clock"', "UPDATE"),
        ("", "open.own", everything),
        ("", "open.t", everything),
        ("SEQUENCE ", "open.t_b_seq", "USAGE"),
        ("", "open.v", "DELETE"),
    ]
    called = ["open.f(n integer, text[])", "open.p()"]
    revoked = "FROM PUBLIC, worldledger_reader, worldledger_guest"
    lines = [
        *(f"reader: may write to {on} ({how}): REVOKE {how} ON {kind}{on} {revoked}" for kind, on, how in written),
        *(
            f"reader: may call {each}, which does what postgres may: REVOKE EXECUTE ON ROUTINE {each} {revoked}"
            for each in called
        ),
    ]
    lines[2] = f"reader: may write to open.own ({everything}): ALTER TABLE open.own OWNER TO CURRENT_USER"
    async with connected(database_url) as admin, undone(admin):
        await admin.execute(_CAREFUL)
        assert await readers.beyond_reading(admin) == []
        await admin.execute(_CARELESS)
        left = await readers.beyond_reading(admin)
        assert left == lines
        for line in left:
            await admin.execute(line.rpartition(": ")[2])
        assert await readers.beyond_reading(admin) == []


@pytest.mark.both_servers
async def test_other_databases_are_noted(logins: dict[str, str], database_url: str) -> None:
    """Of a login for readers `db check` notes that it can connect to other databases, where it can write."""
    name = logins["reader"].split("//")[1].split(":")[0]
    told = [line for line in await schema.notes(database_url) if line.startswith(f"{name} can connect to other")]
    assert len(told) == 1
    assert "REVOKE CONNECT ON DATABASE" in told[0]


async def test_settings_that_the_role_has_given_itself_are_listed(database_url: str) -> None:
    """`db check` lists a timeout that was lifted for the role, and how it is put back; it is no wall, for all that."""

    async def told() -> list[str]:
        return [line for line in await schema.check(database_url) if " for the role" in line]

    assert await told() == []
    async with connected(database_url) as admin:
        database = await admin.fetchval("select format('%I', current_database())")
        place = f"role worldledger_reader in database {database}"
        await admin.execute(f"alter {place} set statement_timeout = 0; alter {place} set search_path = a, b")
        mended = f"ALTER ROLE worldledger_reader IN DATABASE {database} SET"
        assert await told() == [
            f"reader: statement_timeout is '0' for the role, not '60s': {mended} statement_timeout TO '60s'",
            f"reader: search_path is 'a, b' for the role, not 'analytics': {mended} search_path TO 'analytics'",
        ]
        await admin.execute(f"alter {place} reset all; alter {place} set extra_float_digits = -15")
        assert await told() == [
            f"reader: extra_float_digits is '-15' for the role: {mended[:-3]}RESET extra_float_digits"
        ]
        await admin.execute(f"alter {place} reset all")
    assert await told() == []


@pytest.mark.both_servers
async def test_what_no_privilege_forbids_is_noted(logins: dict[str, str], database_url: str) -> None:
    """Of a login for readers `db check` notes that it can lift its timeout, and its sessions that outlast it."""
    name = logins["reader"].split("//")[1].split(":")[0]

    async def noted() -> list[str]:
        told = [line for line in await schema.notes(database_url) if line.startswith(name)]
        # The server has databases of other tests, which come and go.
        return [line for line in told if " other databases of this server" not in line]

    assert await noted() == [
        (
            f"{name} can lift its statement_timeout, which PostgreSQL lets nobody forbid; it has none yet: "
            f"ALTER ROLE {name} SET statement_timeout TO '60s'; and fill the disk by sorting, until a superuser runs "
            f"ALTER ROLE {name} SET temp_file_limit = '4GB'"
        )
    ]
    async with connected(database_url) as admin:
        await admin.execute(
            f"alter role {name} set statement_timeout = '60s'; alter role {name} set temp_file_limit = '4GB'"
        )
    assert await noted() == [f"{name} can lift its statement_timeout, which PostgreSQL lets nobody forbid"]
    assert name not in str(await schema.check(database_url))


@pytest.mark.both_servers
async def test_what_a_login_was_given_by_name_is_noted(logins: dict[str, str], database_url: str) -> None:
    """Attributes and privileges that a login has beside those of readers are noted, with what takes them away."""
    name = logins["reader"].split("//")[1].split(":")[0]

    async def noted() -> list[str]:
        return [line for line in await schema.notes(database_url) if line.startswith(f"{name} may do more than other")]

    assert await noted() == []
    async with connected(database_url) as admin:
        database = await admin.fetchval("select format('%I', current_database())")
        await admin.execute(
            f"alter role {name} createrole createdb; grant create, temporary on database {database} to {name}; "
            f"grant execute on function lo_creat(int) to {name}; grant set on parameter log_min_messages to {name}"
        )
        told = await noted()
        assert [line.removeprefix(f"{name} may do more than other readers") for line in told] == [
            f", for it has CREATEDB, CREATEROLE: ALTER ROLE {name} NOCREATEDB NOCREATEROLE",
            f": REVOKE CREATE, TEMPORARY ON DATABASE {database} FROM {name}",
            f": REVOKE EXECUTE ON FUNCTION lo_creat(integer) FROM {name}",
            f": REVOKE SET ON PARAMETER log_min_messages FROM {name}",
        ]
        for line in told:
            await admin.execute(line.split(": ", 1)[1])
    assert await noted() == []


async def test_what_could_not_be_taken_away_is_listed(logins: dict[str, str]) -> None:
    """An ordinary owner's upgrade takes what is the owner's to take; `db check` lists the rest, and who can."""
    await schema.upgrade(logins["owner"])
    left = [line for line in TRIED if line.startswith("select")]
    assert await _allowed(logins["reader"]) == left
    assert [line for line in await schema.check(logins["owner"]) if line.startswith("reader")] == [
        f"reader: may use functions of PostgreSQL for {kind}: run `worldledger db upgrade` as a superuser"
        for kind in ("large objects", "advisory locks", "messages in the write-ahead log")
    ]


#: What readers and their logins were granted by name; $login is such a login's, $group one that it is in.
_BY_NAME = """
grant temporary on database $database to worldledger_guest;
grant create on schema theirs to worldledger_guest;
grant execute on function pg_advisory_lock(bigint), lo_create(oid) to worldledger_reader;
grant execute on function pg_try_advisory_lock(bigint) to worldledger_guest;
grant pg_write_all_data to $login;
create role $group; grant $group to $login; grant pg_execute_server_program to $group;
grant pg_read_all_stats to $login
"""


@pytest.mark.both_servers
async def test_what_readers_were_granted_by_name_has_its_sql(logins: dict[str, str], database_url: str) -> None:
    """What an upgrade leaves, for it was granted to readers by name, is listed with the SQL that takes it away."""
    await schema.upgrade(database_url)
    login = logins["reader"].split("//")[1].split(":")[0]
    group = f"wl_group_{uuid4().hex[:12]}"
    async with connected(database_url) as admin:
        database = await admin.fetchval("select format('%I', current_database())")
        given = _BY_NAME.replace("$database", database).replace("$login", login).replace("$group", group)
        async with undone(admin):
            await admin.execute("create schema theirs")
            assert await readers.beyond_reading(admin) == []
            await admin.execute(given)
            left = await readers.beyond_reading(admin)
            assert [line.partition(": REVOKE")[0] for line in left] == [
                "reader: may make tables in the schema theirs",
                f"reader: was granted TEMPORARY on the database {database}",
                "reader: was granted functions of PostgreSQL for large objects",
                "reader: was granted functions of PostgreSQL for advisory locks",
                f"reader: {group} may do what pg_execute_server_program may",
                f"reader: {login} may do what pg_write_all_data may",
            ]
            for line in left:
                await admin.execute(line.rpartition(": ")[2])
            assert await readers.beyond_reading(admin) == []


async def test_limits_that_a_login_has_lifted_are_noted(logins: dict[str, str], database_url: str) -> None:
    """Of a login for readers `db check` notes which limits it logs in without, here or everywhere, with the SQL."""
    login = logins["reader"].split("//")[1].split(":")[0]

    async def noted() -> list[str]:
        return [line for line in await schema.notes(database_url) if line.startswith(f"{login} logs in")]

    async with connected(database_url) as admin:
        database = await admin.fetchval("select format('%I', current_database())")
        await admin.execute(f"alter role {login} set statement_timeout = '5min'")
        assert await noted() == []
        for statement in (
            "set statement_timeout = 0",
            "set idle_in_transaction_session_timeout = '0ms'",
            f"in database {database} set default_transaction_read_only = off",
        ):
            await admin.execute(f"alter role {login} {statement}")
        lines = await noted()
        assert lines == [
            f"{login} logs in with {name} '{value}': ALTER ROLE {login}{place} SET {name} TO '{wanted}'"
            for name, value, place, wanted in (
                ("default_transaction_read_only", "off", f" IN DATABASE {database}", "on"),
                ("idle_in_transaction_session_timeout", "0ms", "", "5min"),
                ("statement_timeout", "0", "", "60s"),
            )
        ]
        for line in lines:
            await admin.execute(line.rpartition(": ")[2])
    assert await noted() == []
