"""Following a world: what a tail reads, whichever process writes; several tails that share their reads; how it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator
from worldledger_service.runtime.following import Follower, SharedReads, Tail

from tests.waiting import wait_for
from worldledger.chain import StoredEffect
from worldledger.errors import FoldError, StoreUnavailableError
from worldledger.protocols import Span

from .conftest import Opening
from .helpers import draft, message, refused, start


def _tail(world: Orchestrator, seq: int, **how: Any) -> Tail:
    return Tail(world._follower._store, world._follower._watcher, world.world_id, seq, **how)


async def _read(tail: Tail, until: int) -> list[int]:
    """Read a tail up to a seq; return the seqs of its rows."""
    seqs: list[int] = []
    while not seqs or seqs[-1] < until:
        seqs += [row.global_seq for row in await tail.next()]
    return seqs


async def test_a_tail_has_every_effect_once(opening: Opening) -> None:
    """What is in the log and what two processes write meanwhile comes in order, none missing and none twice."""
    here, there = await opening(), await opening()
    await here.broadcast_event(message("before"))
    echo = here._follower._store.echoes.follow(here.world_id)
    readers = [start(_read(_tail(here, seq, echo=each), 62)) for seq in (0, 2) for each in (None, echo)]
    for world in (here, there):
        world._follower._watcher.moved(world.world_id, 2)
    writing = [start(world.broadcast_event(message(str(n)))) for n in range(30) for world in (here, there)]
    await asyncio.gather(*writing)
    for first, reader in zip((1, 1, 3, 3), readers, strict=True):
        assert await reader == [*range(first, 63)]
    here._follower._store.echoes.leave(here.world_id)


async def test_a_slow_reader_holds_one_batch(world: Orchestrator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read before it is asked for, and then at most 1,000 effects."""
    store = world._follower._store
    await store.bulk_append(world.world_id, [draft("SimTick", {}, "a") for _ in range(2500)])
    head = (await store.world(world.world_id)).head_seq
    store_reader, reads = store.reader.records, 0

    def records(*given: Any, **how: Any) -> Any:
        nonlocal reads
        reads += 1
        return store_reader(*given, **how)

    world._follower._watcher.moved(world.world_id, head)
    await world.reached(head, 60.0)
    monkeypatch.setattr(store.reader, "records", records)
    tail = _tail(world, 0)
    for asked in (1, 2):
        assert len(await tail.next()) == 1000
        await asyncio.sleep(0.02)
        assert (reads, tail.seq) == (asked, 1000 * asked)
    assert (await tail.next())[-1].global_seq == head


async def test_a_tail_returns_nothing_where_nothing_comes(world: Orchestrator) -> None:
    """After its timeout a tail returns no rows, and goes on where it was."""
    tail = _tail(world, 0)
    rows = await tail.next(60.0)
    assert await tail.next(0.001) == []
    receipt = await world.broadcast_event(message())
    assert [row.global_seq for row in await tail.next(60.0)] == [rows[-1].global_seq + 1] == [receipt.global_seq]


async def test_an_outage_is_waited_out(world: Orchestrator) -> None:
    """While reads fail a tail waits, no longer than its reader wants to; then it has what was written meanwhile."""
    away = True

    async def read(span: Span) -> list[StoredEffect]:
        if away:
            raise StoreUnavailableError("away")
        (rows,) = await world._follower._store.reader.gather([span], limit=100)
        return rows

    receipt = await world.broadcast_event(message())
    tail = _tail(world, 0, read=read)
    assert await tail.next(0.01) == []
    waiting = start(tail.next())
    await asyncio.sleep(0.1)
    away = False
    assert [row.global_seq for row in await waiting] == [*range(1, receipt.global_seq + 1)]


async def test_tails_of_several_worlds_share_a_query(world: Orchestrator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads that are wanted at the same time are one query, and each gets its own rows, or the error."""
    await world.broadcast_event(message())
    reader = world._follower._store.reader
    gather, asked = reader.gather, []

    async def counted(spans: list[Span], *, limit: int) -> list[list[StoredEffect]]:
        asked.append(len(spans))
        if len(asked) > 1:
            raise StoreUnavailableError("away")
        return await gather(spans, limit=limit)

    monkeypatch.setattr(reader, "gather", counted)
    shared = SharedReads(reader)
    spans = [Span(world.world_id, 0, 1), Span(world.world_id, 1, 2), Span("nowhere", 0, 9)]
    found = await asyncio.gather(*map(shared.first, spans))
    assert [[row.global_seq for row in rows] for rows in found] == [[1], [2], []]
    assert asked == [3]
    errors = await asyncio.gather(*map(refused, map(shared.first, spans)))
    assert [error.message for error in errors] == ["away"] * 3
    assert asked == [3, 3]
    await shared.close()


class _Failing(Follower):
    """Takes effects up to the second, which fails it."""

    taken = 0

    @property
    def seq(self) -> int:
        """The last effect that was taken."""
        return self.taken

    def _take(self, rows: list[StoredEffect]) -> None:
        for row in rows:
            if row.global_seq == 2:
                raise ValueError("no more")
            self.taken = row.global_seq


async def test_the_end_is_told(world: Orchestrator) -> None:
    """Callers that wait for an effect are told the error that ends the following, and so are later ones."""
    follower = _Failing(world._follower._store, world._follower._watcher, world.world_id)
    waiting = start(refused(follower.reached(3)))
    follower.follow()
    assert await follower.reached(1)
    await world.broadcast_event(message())
    assert "no more" in (await waiting).message
    assert isinstance(follower.error, FoldError)
    assert await refused(follower.reached(2)) is follower.error
    assert await follower.reached(1), "it was taken"
    task = follower.stop(StoreUnavailableError("closing"))
    assert task is not None
    await asyncio.wait([task])
    await wait_for(lambda: world._follower.seq == 2, "others go on")


async def test_a_tail_ends_with_the_service(opening: Opening) -> None:
    """Once heads are watched no more, a tail that waits is told."""
    async with opening.until(pool_size=3) as world:  # on a store of its own, which ends with it
        waiting = start(refused(_tail(world, 100).next()))
        await wait_for(lambda: world._follower._watcher.waiting >= 2, "both wait")
    assert isinstance(await waiting, StoreUnavailableError)
