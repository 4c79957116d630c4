"""The database going away, and what is wrong with one build alone: the runner goes on, and nothing is fed twice."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import asyncpg
import pytest
from worldledger_service.database.engine import connect_pool
from worldledger_service.projecting.engine import Engine
from worldledger_service.projecting.outages import FOREIGN, RefusedRowsError, is_datas_fault, is_worth_waiting_for
from worldledger_service.store import Store

from tests.waiting import wait_for
from worldledger.errors import FoldError, StoreUnavailableError

from .helpers import append, assert_equal_to_log, assert_verified, expected_counts, rows_of, story
from .tiny import trio

_TERMINATE = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where application_name = $1 and datname = current_database()
"""


async def test_connections_that_are_cut(
    store: Store, pool: Any, worlds: Any, running: Any, admin: Any, database_url: str, thorough: bool
) -> None:
    """Backends terminated again and again, whatever they are at, cost time only; also in the middle of rebuilds."""
    names = await worlds(4)
    own = await connect_pool(database_url, min_size=1, max_size=4, application_name="the runner")
    engine = Engine(own, store.reader, store.states, trio(), poll_interval=0.01, lease_ttl=0.5, batch=100, grace=0.0)
    pick = random.Random(5)
    async with running(engine):
        for n in range(40 if thorough else 20):
            for name in names:
                await append(store, name, story(n * 1000, pick.choice([1, 5, 40])))
            if n % 8 == 3:
                for which in ("counts", "said", "things"):
                    await pool.execute("select 1")
                    await make_sure(lambda: engine.rebuild(which))  # noqa: B023
            await asyncio.sleep(pick.random() * 0.06)
            await admin.fetchval(_TERMINATE, "the runner")
    calm = Engine(pool, store.reader, store.states, trio(), poll_interval=0.02, lease_ttl=0.5)
    await calm.run_until_caught_up(timeout=60)
    await assert_equal_to_log(pool, store, names)
    await assert_verified(calm, "counts", "said", "things")
    assert engine.counters.failures > 0
    await own.close()


async def make_sure(call: Any) -> None:
    """Call something until it is not cut off."""
    while True:
        try:
            await call()
        except FOREIGN:
            await asyncio.sleep(0.01)
        else:
            return


async def test_a_database_that_nobody_may_reach(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any, database_url: str, server_url: str
) -> None:
    """While no connection is to be had a runner waits, also at its very start; then it goes on by itself."""
    (name,) = await worlds(1)
    head = await append(store, name, story(0, 10))
    own = await connect_pool(database_url, min_size=1, max_size=3, application_name="the runner")
    engine = make_engine(trio(), on=own)
    database = database_url.partition("?")[0].rpartition("/")[2]
    outside = await asyncpg.connect(server_url)
    try:
        await outside.execute(f"alter database {database} connection limit 0")
        await outside.execute(f"update pg_database set datallowconn = false where datname = '{database}'")
        await outside.fetchval(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity "
            "where application_name = 'the runner' and datname = $1",
            database,
        )
        async with running(engine) as task:
            await wait_for(lambda: _failed(engine), "it notices")
            assert not task.done()
            await outside.execute(f"update pg_database set datallowconn = true where datname = '{database}'")
            await outside.execute(f"alter database {database} connection limit -1")
            await wait_for(lambda: _holds(pool, store, [name]), "it is fed")
    finally:
        await outside.execute(f"update pg_database set datallowconn = true where datname = '{database}'")
        await outside.close()
        await own.close()
    assert head == 11


async def _failed(engine: Engine) -> bool:
    return engine.counters.failures > 1


async def _holds(pool: Any, store: Store, names: list[str]) -> bool:
    try:
        return await rows_of(pool, "counts") == await expected_counts(store, names)
    except asyncpg.UndefinedTableError:
        return False


async def test_what_is_wrong_with_one_build_alone(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any, admin: Any
) -> None:
    """A table that somebody has altered stops its own projection only, and the status tells why."""
    names = await worlds(3)
    engine = make_engine(trio())
    async with running(engine):
        for which in ("counts", "said", "things"):
            await engine.wait_for(which, names[0], 1, timeout=100)
        await admin.execute("alter table projections.said_1 rename column text to words")
        for name in names:
            await append(store, name, story(0, 20))
        for name in names:
            assert await engine.wait_for("counts", name, 21, timeout=100) == 21
            assert await engine.wait_for("things", name, 21, timeout=100) == 21
        status = {found.name: found.live for found in await engine.status()}
        assert status["said"] is not None
        assert "UndefinedColumnError" in str(status["said"].held_back)
        assert status["said"].worlds_behind == 3
        await admin.execute("alter table projections.said_1 rename column words to text")
        for name in names:
            assert await engine.wait_for("said", name, 21, timeout=100) == 21
    await assert_equal_to_log(pool, store, names)


@pytest.mark.parametrize(
    ("error", "outage", "fault"),
    [
        (asyncpg.DeadlockDetectedError(""), True, False),
        (asyncpg.LockNotAvailableError(""), True, False),
        (asyncpg.AdminShutdownError(""), True, False),
        (asyncpg.DiskFullError(""), True, False),
        (asyncpg.IdleInTransactionSessionTimeoutError(""), True, False),
        (ConnectionRefusedError(), True, False),
        (TimeoutError(), True, False),
        (StoreUnavailableError(""), True, False),
        (asyncpg.InterfaceError(""), True, False),
        (asyncpg.DataError(""), False, True),
        (asyncpg.UniqueViolationError(""), False, True),
        (asyncpg.CardinalityViolationError(""), False, True),
        (asyncpg.ProgramLimitExceededError(""), False, True),
        (RefusedRowsError(""), False, True),
        (asyncpg.UndefinedTableError(""), False, False),
        (asyncpg.InsufficientPrivilegeError(""), False, False),
        (FoldError(""), False, False),
        (ValueError(""), False, False),
    ],
)
def test_what_errors_mean(error: Exception, outage: bool, fault: bool) -> None:
    """Some errors pass, some are the data's fault, and some are neither."""
    assert (is_worth_waiting_for(error), is_datas_fault(error)) == (outage, fault)
