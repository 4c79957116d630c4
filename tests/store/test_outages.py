"""The database away for a while: who waits, who does not, and what the log says of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from structlog.testing import capture_logs
from worldledger_service.store import EventLog, Store
from worldledger_service.store.outages import Outages

from tests.waiting import wait_for
from worldledger.errors import StoreUnavailableError, WorldNotFoundError

from .helpers import assert_sound, draft, start
from .proxy import Proxy

Opener = Callable[..., Awaitable[Store]]

AWAY = "the database is away; trying again until it is back"
BACK = "the database is back"


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    """Return a proxy before the server."""
    async with Proxy(database_url).running() as running:
        yield running


def _ours(said: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [line for line in said if line["event"] in {AWAY, BACK}]


def _away(proxy: Proxy) -> None:
    proxy.refuse_all()
    proxy.cut_all()


async def test_the_first_append_to_a_world_waits(log: EventLog, store: Store, proxy: Proxy, open_store: Opener) -> None:
    """The first append of a process to a world is tried again while the database is away, as all others are."""
    far = await open_store(proxy.url)

    async def append() -> int:
        return await (await far.log(log.world_id)).append(draft("late"))

    _away(proxy)
    with capture_logs() as said:
        appending = start(append())
        await wait_for(lambda: _ours(said), "the outage is noticed")
        assert not appending.done()
        proxy.accept_again()
        assert await appending == 2
    assert await assert_sound(store, log.world_id) == ["late"]


async def test_a_connection_lost_while_a_store_opens_is_told(shared_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the driver raises then, a store that cannot be opened says that the database is unavailable."""

    async def lost(_connection: object) -> None:
        raise asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress")

    monkeypatch.setattr("worldledger_service.store.store.revision_state", lost)
    with pytest.raises(StoreUnavailableError, match="another operation"):
        async with Store.open(shared_url):
            pass


async def test_reads_do_not_wait(log: EventLog, proxy: Proxy, open_store: Opener) -> None:
    """A read fails at once while the database is away, and a world that is not there is no outage."""
    far = await open_store(proxy.url)
    with pytest.raises(WorldNotFoundError):
        await far.log("no-such-world")
    _away(proxy)
    with pytest.raises(StoreUnavailableError):
        await far.world(log.world_id)


async def test_a_first_append_gives_up(log: EventLog, proxy: Proxy, open_store: Opener) -> None:
    """After append_deadline the first append fails as others do."""
    far = await open_store(proxy.url, append_deadline=0.2)
    _away(proxy)
    with pytest.raises(StoreUnavailableError):
        await far.log(log.world_id)


async def test_an_outage_is_told_twice(log: EventLog, proxy: Proxy, open_store: Opener) -> None:
    """However many callers meet an outage and however often they try, one line tells its beginning, one its end."""
    far = await open_store(proxy.url)
    far_log = await far.log(log.world_id)
    await far_log.append(draft("before"))
    with capture_logs() as said:
        for n in range(2):
            _away(proxy)
            appending = [start(far_log.append(draft([n, m]))) for m in range(8)]
            await wait_for(lambda: len(_ours(said)) == 2 * n + 1, "the outage is noticed")  # noqa: B023 - awaited here
            proxy.accept_again()
            await asyncio.gather(*appending)
    assert [line["event"] for line in _ours(said)] == [AWAY, BACK] * 2
    assert "as user 'postgres'" in _ours(said)[0]["error"]


def test_what_is_no_outage() -> None:
    """Contention and refusals begin no outage; the answer after one ends it once."""
    now = 1.0
    outages = Outages("postgresql://u:hush@h/d", clock=lambda: now)
    with capture_logs() as said:
        outages.answered()
        for error in (asyncpg.SerializationError("x"), asyncpg.DeadlockDetectedError("x"), asyncpg.DiskFullError("x")):
            outages.failed(error)
        assert said == []
        outages.failed(ConnectionRefusedError(111, "Connection refused"))
        outages.failed(asyncpg.AdminShutdownError("x"))
        now = 3.5
        outages.answered()
        outages.answered()
    assert [line["event"] for line in said] == [AWAY, BACK]
    assert said[1]["seconds"] == 2.5
    assert "hush" not in str(said)
