"""Wake-ups: processes that never look at the heads by themselves hear of each other's commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import asyncpg
import orjson
import pytest
import pytest_asyncio
from worldledger_service.store import EventLog, Store
from worldledger_service.store.watch import CHANNEL, HeadWatcher, Wakeups

from tests.waiting import wait_for
from worldledger.errors import StoreUnavailableError
from worldledger.genesis import NewWorld

from .helpers import draft, start
from .proxy import Proxy

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]

#: A pause between two looks that no test lives to see the end of.
NEVER_S = 3600.0


class Ear:
    """Hears what goes over the channel."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.payloads: list[str] = []

    def heard(self, connection: object, pid: int, channel: str, payload: object) -> None:
        """Note a payload."""
        del connection, pid, channel
        self.payloads.append(str(payload))

    @property
    def heads(self) -> list[dict[str, int]]:
        """What was told of heads."""
        return [orjson.loads(payload) for payload in self.payloads if payload]

    async def say(self, payload: str = "") -> None:
        """Say something, as another process would."""
        await self.connection.execute("select pg_notify($1, $2)", CHANNEL, payload)


@pytest_asyncio.fixture(loop_scope="session")
async def ear(database_url: str) -> AsyncIterator[Ear]:
    """Listen to the channel, without following."""
    connection = await asyncpg.connect(database_url)
    made = Ear(connection)
    await connection.add_listener(CHANNEL, made.heard)
    yield made
    await connection.remove_listener(CHANNEL, made.heard)
    await connection.close()


Watching = Callable[..., Awaitable[tuple[Store, HeadWatcher]]]


@pytest_asyncio.fixture(loop_scope="session")
async def watching(database_url: str, open_store: Opener) -> AsyncIterator[Watching]:
    """Return an opener of processes: a store with a watcher that only wake-ups can wake."""
    async with AsyncExitStack() as stack:

        async def opened(url: str = database_url, interval: float = NEVER_S) -> tuple[Store, HeadWatcher]:
            store = await open_store(url)
            return store, await stack.enter_async_context(HeadWatcher.over(store, interval=interval, url=url))

        yield opened


def wakeups_of(watcher: HeadWatcher) -> Wakeups:
    """Return the watcher's part in the exchange."""
    assert watcher._wakeups is not None
    return watcher._wakeups


async def known(one: HeadWatcher, other: HeadWatcher) -> None:
    """Wait until the one knows that the other follows."""
    await wait_for(lambda: wakeups_of(one)._followers.keys() >= {wakeups_of(other)._pid}, "it is heard")


@pytest.mark.both_servers
async def test_a_commit_wakes_who_follows_elsewhere(watching: Watching, log: EventLog) -> None:
    """In either direction, and also one that began to follow first."""
    (one, hears_one), (two, hears_two) = await watching(), await watching()
    logs = [await store.log(log.world_id) for store in (one, two)]
    waiting = [start(watcher.wait_beyond(log.world_id, 1)) for watcher in (hears_one, hears_two)]
    await known(hears_one, hears_two)
    await known(hears_two, hears_one)
    assert await logs[0].append(draft(1)) == 2
    assert [await asyncio.wait_for(task, 120) for task in waiting] == [2, 2]
    for n in range(3, 40):
        waiting = [start(watcher.wait_beyond(log.world_id, n - 1)) for watcher in (hears_one, hears_two)]
        await asyncio.sleep(0)
        assert await logs[n % 2].append(draft(n)) == n
        assert [await asyncio.wait_for(task, 120) for task in waiting] == [n, n]


async def test_who_comes_later_hears_of_those_who_follow(watching: Watching, log: EventLog, ear: Ear) -> None:
    """Whoever begins to follow is answered, so that it knows at once for whom its own commits are news."""
    _, hears_one = await watching()
    first = start(hears_one.wait_beyond(log.world_id, 1))
    await wait_for(lambda: "" in ear.payloads, "it says that it follows")
    two, hears_two = await watching()
    second = start(hears_two.wait_beyond(log.world_id, 1))
    await known(hears_two, hears_one)
    await (await two.log(log.world_id)).append(draft(1))
    assert [await asyncio.wait_for(task, 120) for task in (first, second)] == [2, 2]


async def test_who_waits_for_long_says_so_again(
    watching: Watching, log: EventLog, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the pause between two looks: others forget those of whom they do not hear."""
    monkeypatch.setattr("worldledger_service.store.watch.EVERY", 0.02)
    monkeypatch.setattr("worldledger_service.store.watch.EVERY", 0.02)
    _, watcher = await watching()
    waiting = start(watcher.wait_beyond(log.world_id, 1))
    await wait_for(lambda: ear.payloads.count("") >= 5, "it says so again and again")
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_nothing_is_told_while_nobody_follows(watching: Watching, log: EventLog, ear: Ear) -> None:
    """Commits of a process that is alone cost no wake-up; from the word of another on they do, one for many."""
    store, watcher = await watching()
    own = await store.log(log.world_id)
    waiting = start(watcher.wait_beyond(log.world_id, 10_000))  # its own word does not count for itself
    await wait_for(lambda: "" in ear.payloads, "it says that it follows")
    for n in range(20):
        await own.append(draft(n))
    await ear.say("what is no wake-up")
    await wait_for(lambda: "what is no wake-up" in ear.payloads, "everything before has come")
    ear.payloads = [payload for payload in ear.payloads if payload != "what is no wake-up"]
    assert ear.heads == []
    await ear.say()
    await wait_for(lambda: wakeups_of(watcher)._followed_until, "it knows of a follower")
    await asyncio.gather(*(own.append(draft(n)) for n in range(200)))
    await wait_for(lambda: any(heads.get(log.world_id) == 221 for heads in ear.heads), "it tells of its head")
    assert len(ear.heads) < 100
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_wake_up_is_never_too_large(watching: Watching, ear: Ear) -> None:
    """News of many worlds with long names go in several; a payload has less than 8,000 bytes."""
    _, watcher = await watching()
    wakeups_of(watcher).follow()
    await wait_for(lambda: "" in ear.payloads, "it is there")
    await ear.say()
    await wait_for(lambda: wakeups_of(watcher)._followed_until, "it knows of a follower")
    names = [f"{n:03}-" + "x" * 196 for n in range(100)]
    for n, name in enumerate(names):
        watcher.committed(name, 10**15 + n)
    told: dict[str, int] = {}
    await wait_for(lambda: len({name for heads in ear.heads for name in heads}) == 100, "all are told")
    for heads in ear.heads:
        told |= heads
    assert told == {name: 10**15 + n for n, name in enumerate(names)}
    assert max(len(payload.encode()) for payload in ear.payloads) < 8000


async def test_what_cannot_be_read_is_ignored(watching: Watching, log: EventLog, ear: Ear) -> None:
    """Whoever may connect to the database may say anything; followers go on."""
    _, watcher = await watching()
    waiting = start(watcher.wait_beyond(log.world_id, 1))
    await wait_for(lambda: "" in ear.payloads, "it follows")
    long = orjson.dumps({"w" * 201: 1}).decode()
    for seq, payload in enumerate(
        ("{", "[]", "7", '{"w":"1"}', '{"w":1.5}', '{"w":true}', "null", "\\", '{"w":{}}', long), 2
    ):
        assert await log.append(draft(seq)) == seq
        await ear.say(payload)
        await ear.say(orjson.dumps({log.world_id: seq}).decode())
        assert await asyncio.wait_for(waiting, 120) == seq, payload
        assert watcher._heads.keys() == {log.world_id}
        assert not watcher._news
        waiting = start(watcher.wait_beyond(log.world_id, seq))
    waiting.cancel()


async def test_a_head_that_is_made_up_is_not_believed(watching: Watching, log: EventLog, ear: Ear) -> None:
    """Any login may send wake-ups: one of a head that is not there wakes nobody, and later ones are heard."""
    _, watcher = await watching()
    waiting = start(watcher.wait_beyond(log.world_id, 1))
    await wait_for(lambda: "" in ear.payloads, "it follows")
    await ear.say(orjson.dumps({log.world_id: 999_999_999}).decode())
    await wait_for(lambda: watcher.known_head(log.world_id) == 1, "it has looked")
    assert not waiting.done()
    await log.append(draft(1))
    await ear.say(orjson.dumps({log.world_id: 2}).decode())
    assert await asyncio.wait_for(waiting, 120) == 2
    # Said while nobody waits, it makes the next one look before it waits.
    await log.append(draft(2))
    await ear.say(orjson.dumps({log.world_id: 10**15}).decode())
    await wait_for(lambda: log.world_id in watcher._news, "it is heard")
    assert watcher.known_head(log.world_id) == 2
    assert await asyncio.wait_for(watcher.wait_beyond(log.world_id, 2), 120) == 3


async def test_a_connection_that_is_lost_is_made_anew(watching: Watching, log: EventLog, admin: Connection) -> None:
    """After a while wake-ups go on both ways."""
    (one, hears_one), (two, hears_two) = await watching(), await watching()
    logs = [await store.log(log.world_id) for store in (one, two)]
    waiting = [start(watcher.wait_beyond(log.world_id, 1)) for watcher in (hears_one, hears_two)]
    await known(hears_one, hears_two)
    before = [wakeups_of(watcher)._pid for watcher in (hears_one, hears_two)]
    for pid in before:
        assert await admin.fetchval("select pg_terminate_backend($1)", pid)
    await wait_for(lambda: wakeups_of(hears_one)._pid not in before, "it is connected again")
    await wait_for(lambda: wakeups_of(hears_two)._pid not in before, "it is connected again")
    await known(hears_one, hears_two)
    await known(hears_two, hears_one)
    assert await logs[0].append(draft(1)) == 2
    assert [await asyncio.wait_for(task, 120) for task in waiting] == [2, 2]


async def test_a_database_that_is_away_at_first(database_url: str, watching: Watching, log: EventLog) -> None:
    """It is tried again until it is there; until then, and without wake-ups, looking at the heads does."""
    async with Proxy(database_url).running() as proxy:
        store, watcher = await watching(proxy.url, 0.02)
        await wait_for(lambda: wakeups_of(watcher)._pid, "it is connected")
        pid = wakeups_of(watcher)._pid
        proxy.refuse_all()
        proxy.cut_all()
        waiting = start(watcher.wait_beyond(log.world_id, 1))
        await log.append(draft(1))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        proxy.accept_again()
        assert await asyncio.wait_for(waiting, 120) == 2
        await wait_for(lambda: wakeups_of(watcher)._pid != pid, "it is connected again")
    del store


async def test_looking_suffices_where_wake_ups_do_not_come(open_store: Opener, log: EventLog) -> None:
    """Without an address for them, as behind a pooler that loses them, followers look at the heads now and then."""
    async with HeadWatcher.over(await open_store(), interval=0.01) as watcher:
        waiting = start(watcher.wait_beyond(log.world_id, 1))
        await asyncio.sleep(0)
        await log.append(draft(1))
        assert await asyncio.wait_for(waiting, 120) == 2
        assert await watcher.wait_beyond(log.world_id, 2, 0.05) == 2
        waiting = start(watcher.wait_beyond(log.world_id, 2))
        await asyncio.sleep(0)
    with pytest.raises(StoreUnavailableError):
        await waiting
    with pytest.raises(StoreUnavailableError):
        await watcher.wait_beyond(log.world_id, 2)


async def test_worlds_are_told_apart(watching: Watching, store: Store, world_id: str, ear: Ear) -> None:
    """A wake-up of one world does not wake those who wait for another."""
    _, watcher = await watching()
    waits: dict[str, asyncio.Task[Any]] = {}
    for n in range(5):
        await store.create_world(NewWorld(world_id=f"{world_id}-{n}"))
        waits[f"{world_id}-{n}"] = start(watcher.wait_beyond(f"{world_id}-{n}", 1))
    await wait_for(lambda: "" in ear.payloads, "it follows")
    for n, count in ((1, 1), (3, 4)):
        await (await store.log(f"{world_id}-{n}")).append_all([draft(n) for _ in range(count)])
    await ear.say(orjson.dumps({f"{world_id}-1": 2, f"{world_id}-2": 1, f"{world_id}-3": 5}).decode())
    assert await waits[f"{world_id}-1"] == 2
    assert await waits[f"{world_id}-3"] == 5
    assert [waits[f"{world_id}-{n}"].done() for n in range(5)] == [False, True, False, True, False]
    for task in waits.values():
        task.cancel()
    await asyncio.wait(waits.values())
