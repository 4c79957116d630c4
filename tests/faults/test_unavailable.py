"""Databases that refuse: each says clearly what is the matter and what to do, and nothing is half-written."""

from __future__ import annotations

import asyncio
import os
from urllib.parse import urlsplit

import asyncpg
import pytest
from worldledger_service.database import revision
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.schema.helpers import connected, with_user
from tests.store.helpers import assert_sound, draft
from worldledger.errors import RecoveryAction, SchemaVersionError, StoreUnavailableError
from worldledger.genesis import NewWorld

_SETTINGS = Settings(pool_size=3, append_deadline=1)
#: Roles belong to a whole server, which other test runs may use at the same time.
_ROLE = f"wl_faults_{os.getpid()}"
_END_SESSIONS = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'worldledger'
"""


async def _open(url: str) -> None:
    async with Store.open(url, _SETTINGS):
        pass


async def test_a_read_only_database(database_url: str) -> None:
    """A database that takes no writes can be read; writing is a clear error, and works once it is allowed again."""
    name = urlsplit(database_url).path[1:]
    async with connected(database_url) as admin, Store.open(database_url, _SETTINGS) as store:
        await store.create_world(NewWorld(world_id="w"))
        log = await store.log("w")
        receipts = await log.append_all([draft("before")])
        await admin.execute(f"alter database {name} set default_transaction_read_only = on")
        await admin.execute(_END_SESSIONS)
        for writing in (
            log.append(draft("refused", req_id="r")),
            log.append_all([draft("refused"), draft("refused too")]),
            store.bulk_append("w", [draft("refused")]),
            store.create_world(NewWorld(world_id="w2")),
        ):
            with pytest.raises(StoreUnavailableError, match="is read-only") as caught:
                await writing
            assert caught.value.details["sqlstate"] == "25006"
            assert caught.value.recovery is RecoveryAction.RETRY_WITH_DELAY
        await store.ping()
        assert await assert_sound(store, "w", receipts) == ["before"]
        await admin.execute(f"alter database {name} reset default_transaction_read_only")
        await admin.execute(_END_SESSIONS)
        assert await log.append(draft("after", req_id="r")) == 3
        assert await assert_sound(store, "w") == ["before", "after"]


async def test_a_wrong_password(database_url: str) -> None:
    """A wrong password is a clear error that shows no password."""
    for user, password in (("postgres", "hush-hush"), ("nobody-of-that-name", "hush-hush")):
        with pytest.raises(StoreUnavailableError) as caught:
            await _open(with_user(database_url, user, password))
        assert "hush" not in str(caught.value)
        assert "check the user and the password" in str(caught.value)


async def test_a_database_that_is_not_there(database_url: str) -> None:
    """A database that nobody made is a clear error that says how to make it."""
    parts = urlsplit(database_url)
    with pytest.raises(StoreUnavailableError, match="does not exist"):
        await _open(parts._replace(path="/nobodys").geturl())


@pytest.mark.parametrize(
    "address", ["postgresql://u:hush@127.0.0.1:1/d", "postgresql://u:hush@/d?host=/nowhere&port=5432"]
)
async def test_a_server_that_is_absent(address: str) -> None:
    """A server that does not answer is a clear error that names the place and no password."""
    with pytest.raises(StoreUnavailableError, match="cannot be reached") as caught:
        await _open(address)
    assert "hush" not in str(caught.value)


async def test_an_address_that_is_none() -> None:
    """An address that cannot be understood is an error that shows the form, and nothing of the address."""
    for address in ("", "hush", "mysql://u:hush@h/d", "postgresql://u:hu#sh@h:x/d"):
        with pytest.raises(StoreUnavailableError) as caught:
            await _open(address)
        assert "hush" not in str(caught.value)


async def test_a_schema_that_is_too_old(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of an older revision is not touched; the error says what to run."""
    monkeypatch.setattr(revision, "REVISIONS", (*revision.REVISIONS, "9999"))
    with pytest.raises(SchemaVersionError, match="run `worldledger db upgrade`") as caught:
        await _open(database_url)
    assert caught.value.details["status"] == "older"


async def test_a_schema_that_is_too_new(database_url: str) -> None:
    """A database of a revision that this program does not know is not touched; the error says so."""
    async with connected(database_url) as admin:
        async with Store.open(database_url, _SETTINGS) as store:
            await store.ping()
            await admin.execute("update alembic_version set version_num = '9999'")
            with pytest.raises(SchemaVersionError, match="which this program does not know"):
                await store.ping()
        with pytest.raises(SchemaVersionError, match="install a newer worldledger") as caught:
            await _open(database_url)
    assert caught.value.details["status"] == "newer"


async def test_a_database_that_was_never_migrated(empty_database_url: str) -> None:
    """An empty database is an error that says what to run."""
    with pytest.raises(SchemaVersionError, match="run `worldledger db upgrade`"):
        await _open(empty_database_url)


async def test_a_user_who_may_not(database_url: str) -> None:
    """A user who is no member of the service's role is told what an administrator has to grant."""
    async with connected(database_url) as admin:
        await admin.execute(f"create role {_ROLE} login password 'x'")
        try:
            with pytest.raises(StoreUnavailableError, match=f'GRANT "worldledger_service" TO "{_ROLE}"'):
                await _open(with_user(database_url, _ROLE, "x"))
        finally:
            await admin.execute(f"drop role {_ROLE}")


async def test_a_database_that_is_dropped(database_url: str) -> None:
    """A database that is dropped from under the store fails its callers, and the store closes in order."""
    url = database_url
    async with Store.open(url, _SETTINGS) as store:
        await store.create_world(NewWorld(world_id="w"))
        log = await store.log("w")
        admin = await asyncpg.connect(urlsplit(url)._replace(path="/postgres").geturl())
        await admin.execute(f"drop database {urlsplit(url).path[1:]} with (force)")
        await admin.close()
        outcomes = await asyncio.gather(*(log.append(draft(n)) for n in range(5)), return_exceptions=True)
        assert all(isinstance(outcome, StoreUnavailableError) for outcome in outcomes)
        with pytest.raises(StoreUnavailableError):
            await store.world("w")


async def test_no_more_connections(database_url: str) -> None:
    """When the server accepts no more connections, opening is a clear error."""
    name = urlsplit(database_url).path[1:]
    async with connected(database_url) as admin:
        await admin.execute(f"create role {_ROLE} login password 'x' in role worldledger_service")
        try:
            await admin.execute(f"alter database {name} connection limit 0")
            with pytest.raises(StoreUnavailableError) as caught:
                await _open(with_user(database_url, _ROLE, "x"))
            assert caught.value.details["sqlstate"] == "53300"
        finally:
            await admin.execute(f"drop role {_ROLE}")
