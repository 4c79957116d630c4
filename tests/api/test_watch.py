"""Waiting for a world to grow: this process's commits, other processes', and the database away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from worldledger_service.store import Store
from worldledger_service.store.watch import HeadWatcher

from tests.waiting import wait_for
from worldledger.chain import StoredEffect
from worldledger.errors import StoreUnavailableError
from worldledger.genesis import NewWorld
from worldledger.protocols import WorldHead

from .helpers import draft, settings

DRAFT = draft()


class FakeReader:
    """Heads as a test sets them; it counts how often it is asked, and for what."""

    def __init__(self) -> None:
        self.heads: dict[str, int] = {}
        self.asked: list[list[str]] = []
        self.error: Exception | None = None

    async def head_seqs(self, world_ids: list[str]) -> dict[str, int]:
        """Return the heads, or raise the error that is set."""
        self.asked.append(sorted(world_ids))
        if self.error is not None:
            raise self.error
        return {world_id: self.heads[world_id] for world_id in world_ids if world_id in self.heads}

    def batches(self, *arguments: object, **keywords: object) -> AsyncIterator[list[StoredEffect]]:
        """Is never used."""
        raise NotImplementedError

    async def gather(self, *arguments: object, **keywords: object) -> list[list[StoredEffect]]:
        """Is never used."""
        raise NotImplementedError

    async def world_heads(self, *arguments: object, **keywords: object) -> list[WorldHead]:
        """Is never used."""
        raise NotImplementedError


@pytest.fixture
async def reader() -> FakeReader:
    """Return heads to play with."""
    return FakeReader()


@pytest.fixture
async def watcher(reader: FakeReader) -> AsyncIterator[HeadWatcher]:
    """Watch the fake heads, looking all the time."""
    made = HeadWatcher(reader, interval=0.001)
    yield made
    await made.close()


async def test_own_commits_wake_at_once(store: Store) -> None:
    """A commit of this process wakes who waits, long before the next look."""
    await store.create_world(NewWorld(world_id="w"))
    log = await store.log("w")
    async with HeadWatcher.over(store, interval=3600) as watcher:
        waits = [asyncio.create_task(watcher.wait_beyond("w", seq)) for seq in (1, 1, 2)]
        await wait_for(lambda: watcher.waiting == 3, "all wait")
        await log.append(DRAFT)  # type: ignore[arg-type]
        assert await asyncio.gather(*waits[:2]) == [2, 2]
        assert not waits[2].done()
        await log.append_all([DRAFT, DRAFT])  # type: ignore[list-item]
        assert await waits[2] == 4
        assert await watcher.wait_beyond("w", 3) == 4
        bulk = asyncio.create_task(watcher.wait_beyond("w", 4))
        await wait_for(lambda: watcher.waiting == 1, "it waits")
        await store.bulk_append("w", [DRAFT] * 3)  # type: ignore[list-item]
        assert await bulk == 7


async def test_other_processes_are_seen_by_looking(store: Store, database_url: str) -> None:
    """What another process commits is found at the next look."""
    await store.create_world(NewWorld(world_id="w"))
    async with HeadWatcher.over(store, interval=0.005) as watcher, Store.open(database_url, settings()) as other:
        waiting = asyncio.create_task(watcher.wait_beyond("w", 1))
        await wait_for(lambda: watcher.waiting, "it waits")
        await (await other.log("w")).append(DRAFT)  # type: ignore[arg-type]
        assert await waiting == 2


async def test_a_wait_ends_after_its_time(reader: FakeReader, watcher: HeadWatcher) -> None:
    """A wait that runs out gives the head as it is known, and leaves nothing behind."""
    reader.heads["w"] = 5
    assert await watcher.wait_beyond("w", 5, timeout=0.02) == 5
    assert await watcher.wait_beyond("nowhere", 5, timeout=0) == 0
    assert watcher.waiting == 0


async def test_one_question_serves_all_who_wait(reader: FakeReader, watcher: HeadWatcher) -> None:
    """One look asks for every world that someone waits for, and for no other."""
    reader.heads.update({f"w{n}": 1 for n in range(5)})
    waits = [asyncio.create_task(watcher.wait_beyond(f"w{n % 3}", 1)) for n in range(30)]
    await wait_for(lambda: ["w0", "w1", "w2"] in reader.asked, "one look for all")
    assert all(set(asked) <= {"w0", "w1", "w2"} for asked in reader.asked)
    reader.heads.update({"w0": 2, "w1": 3, "w2": 4})
    assert await asyncio.gather(*waits) == [2, 3, 4] * 10


async def test_nobody_waiting_asks_nothing(reader: FakeReader, watcher: HeadWatcher) -> None:
    """Once nobody waits the looking ends; the next who waits starts it again."""
    reader.heads["w"] = 2
    assert await watcher.wait_beyond("w", 1) == 2
    await wait_for(lambda: watcher._poller is None, "the looking has ended")
    asked = len(reader.asked)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(reader.asked) == asked
    reader.heads["w"] = 3
    assert await watcher.wait_beyond("w", 2) == 3


async def test_a_wait_goes_on_while_the_database_is_away(reader: FakeReader, watcher: HeadWatcher) -> None:
    """An outage does not reach those who wait; they are woken when it is over."""
    reader.error = StoreUnavailableError("away")
    waiting = asyncio.create_task(watcher.wait_beyond("w", 1))
    await wait_for(lambda: len(reader.asked) >= 3, "several looks fail")
    assert not waiting.done()
    reader.heads["w"] = 2
    reader.error = None
    assert await waiting == 2


async def test_an_unforeseen_error_is_told(reader: FakeReader, watcher: HeadWatcher) -> None:
    """Whoever waits is told of an error that looking again will not mend, and may wait again."""
    reader.error = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError):
        await watcher.wait_beyond("w", 1)
    reader.error = None
    reader.heads["w"] = 2
    assert await watcher.wait_beyond("w", 1) == 2


async def test_closing_ends_every_wait(reader: FakeReader, watcher: HeadWatcher) -> None:
    """A closed watcher leaves nobody waiting, and takes nobody on."""
    waiting = asyncio.create_task(watcher.wait_beyond("w", 1))
    await wait_for(lambda: watcher.waiting, "it waits")
    await watcher.close()
    with pytest.raises(StoreUnavailableError):
        await waiting
    with pytest.raises(StoreUnavailableError):
        await watcher.wait_beyond("w", 0)


async def test_a_cancelled_wait_leaves_nothing(reader: FakeReader, watcher: HeadWatcher) -> None:
    """Cancelling one wait removes it and no other."""
    one, two = (asyncio.create_task(watcher.wait_beyond("w", 1)) for _ in "ab")
    await wait_for(lambda: watcher.waiting == 2, "both wait")
    one.cancel()
    await asyncio.wait([one])
    assert watcher.waiting == 1
    reader.heads["w"] = 2
    assert await two == 2


async def test_heads_never_fall_and_are_not_kept_without_end(
    watcher: HeadWatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older head does not replace a newer one, and only so many worlds are remembered."""
    monkeypatch.setattr(watcher._heads, "most", 3)
    watcher.moved("w", 5)
    watcher.moved("w", 4)
    assert await watcher.wait_beyond("w", 4) == 5
    for n in range(5):
        watcher.moved(f"other{n}", 1)
    assert len(watcher._heads) == 3
