"""Following a world by server-sent events, over a real socket."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import pytest_asyncio
from worldledger_service.api.context import Services
from worldledger_service.api.reading import _events
from worldledger_service.store import Store

from tests.store.proxy import Proxy
from tests.waiting import wait_for

from .helpers import Served, WorldClient, draft, problem, serving, settings, tailing

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "effects"


@pytest_asyncio.fixture(loop_scope="module")
async def other(database_url: str) -> AsyncIterator[Store]:
    """Open another store on the same database, as another process would."""
    async with Store.open(database_url, settings()) as opened:
        yield opened


async def test_a_tail_begins_with_what_comes_now(remote: WorldClient) -> None:
    """Without a position a tail tells what is appended after it was opened, exactly as stored."""
    await remote.post(PATH, json=draft("before"))
    async with tailing(remote, remote.world) as tail:
        await remote.post(PATH, json=[draft("a"), draft("b")])
        await remote.post(PATH, json=draft("c"))
        events = await tail.events(3)
    assert [(event.id, event.event, event.n) for event in events] == [
        (3, "effect", "a"),
        (4, "effect", "b"),
        (5, "effect", "c"),
    ]
    assert events[2].data == (await remote.get(f"{PATH}/5")).content
    assert tail.response.headers["content-type"].startswith("text/event-stream")
    assert tail.response.headers["cache-control"] == "no-store"


async def test_a_tail_begins_where_it_is_told(remote: WorldClient) -> None:
    """after_seq is where a tail begins; Last-Event-ID goes before it."""
    await remote.post(PATH, json=[draft(n) for n in range(3)])
    async with tailing(remote, remote.world, after_seq=0) as tail:
        assert [event.id for event in await tail.events(4)] == [1, 2, 3, 4]
    async with tailing(remote, remote.world, {"Last-Event-ID": "2"}, after_seq=0) as tail:
        assert [event.id for event in await tail.events(2)] == [3, 4]
    async with tailing(remote, remote.world, {"Last-Event-ID": "4"}, after_seq=9) as tail:
        await remote.post(PATH, json=[draft("5"), draft("6")])
        assert [event.n for event in await tail.events(2)] == ["5", "6"]


async def test_a_tail_from_beyond_the_head_is_refused(client: WorldClient, world: str) -> None:
    """A position that the world has not reached is refused, naming the head: what comes until then would be missed."""
    for seq in (2, 2**53 - 1):
        response = await client.get(f"/v1/worlds/{world}/tail", headers={"Last-Event-ID": str(seq)})
        members = {"head_seq": 1, "parameter": "Last-Event-ID", "in": "header"}
        assert "head" in problem(response, 409, "position_ahead", **members)["detail"]
        response = await client.get(f"/v1/worlds/{world}/tail?after_seq={seq}")
        problem(response, 409, "position_ahead", **{**members, "parameter": "after_seq", "in": "query"})


async def test_a_position_that_cannot_be_is_refused(client: WorldClient, world: str) -> None:
    """A Last-Event-ID or after_seq that is no global_seq is refused, not guessed at."""
    for text in ("x", "-1", "1.0", "1 ", " ", "٣", str(2**53), "9" * 17, "9" * 5000):
        response = await client.get(f"/v1/worlds/{world}/tail", headers=[(b"Last-Event-ID", text.encode())])
        found = problem(response, 422, "invalid_parameter", parameter="Last-Event-ID", **{"in": "header"})
        assert "must be the global_seq of an effect" in found["detail"]
    for text in ("x", "-1", str(2**53)):
        response = await client.get(f"/v1/worlds/{world}/tail?after_seq={text}")
        problem(response, 422, "invalid_parameter", parameter="after_seq", **{"in": "query"})


async def test_resuming_loses_and_repeats_nothing(remote: WorldClient, other: Store) -> None:
    """A client that is cut off again and again gets every effect once, while another process appends."""
    log = await other.log(remote.world)

    async def append() -> None:
        for n in range(300):
            await log.append(draft(n))  # type: ignore[arg-type]

    appending = asyncio.get_running_loop().create_task(append())
    seen: list[tuple[int, int]] = []
    last = 1
    for count in [1, 7, 60, 2, 130, 100]:
        async with tailing(remote, remote.world, {"Last-Event-ID": str(last)}) as tail:
            seen += [(event.id, event.n) for event in await tail.events(count)]
        last = seen[-1][0]
    await appending
    assert seen == [(n + 2, n) for n in range(300)]


async def test_many_tails_share_one_watcher(served: Served, remote: WorldClient, other: Store) -> None:
    """Tails of one world and of others each get their own world's effects."""
    town, village = remote.world, f"village-of-{remote.world}"
    await remote.post("/v1/worlds", json={"world_id": village})

    async def follow(world: str) -> list[object]:
        async with tailing(remote, world) as tail:
            ready.release()
            return [event.n for event in await tail.events(5)]

    ready = asyncio.Semaphore(0)
    tails = [asyncio.create_task(follow(world)) for world in (town, village, town, village, town)]
    for _ in tails:
        await ready.acquire()
    for n in range(5):
        await (await other.log(remote.world)).append(draft(n))  # type: ignore[arg-type]
        await remote.post(f"/v1/worlds/{village}/effects", json=draft(-n))
    here, there = [0, 1, 2, 3, 4], [0, -1, -2, -3, -4]
    assert await asyncio.gather(*tails) == [here, there, here, there, here]


async def test_a_tail_outlives_the_database(database_url: str, world: str, other: Store) -> None:
    """While the database is away a tail stays open; afterwards it goes on without loss or repetition."""
    async with (
        Proxy(database_url).running() as proxy,
        serving(proxy.url) as served,
        served.client() as client,
    ):
        log = await other.log(world)
        async with tailing(client, world, after_seq=1) as tail:
            for round_ in range(3):
                await log.append(draft(3 * round_))  # type: ignore[arg-type]
                assert [event.n for event in await tail.events(1)] == [3 * round_]
                proxy.refuse_all()
                proxy.cut_all()
                await log.append(draft(3 * round_ + 1))  # type: ignore[arg-type]
                problem(await client.get("/readyz"), 503, "store_unavailable")
                proxy.accept_again()
                await log.append(draft(3 * round_ + 2))  # type: ignore[arg-type]
                assert [event.n for event in await tail.events(2)] == [3 * round_ + 1, 3 * round_ + 2]


async def test_a_client_that_leaves_is_noticed(served: Served, remote: WorldClient) -> None:
    """When a client goes away, its tail ends at once, without waiting for something to send."""
    watcher = served.services.watcher
    async with tailing(remote, remote.world):
        await wait_for(lambda: watcher.waiting, "the tail waits")
    await wait_for(lambda: not watcher.waiting, "the tail is gone")


async def test_a_silent_world_gets_comments(services: Services, world: str) -> None:
    """Where nothing happens for long, a comment shows that the connection lives."""
    quick = dataclasses.replace(services, keepalive=0.01)
    async with aclosing(_events(quick, world, 1)) as events:
        chunks = [await anext(events) for _ in range(3)]
    assert chunks[0] == b": after 1\n\n"
    assert chunks[1] == chunks[2]
    assert chunks[1].startswith(b": ")
    assert chunks[1].endswith(b"\n\n")


async def test_a_tail_is_read_in_bounded_chunks(services: Services, client: WorldClient, world: str) -> None:
    """A tail far behind gets what it missed in chunks of a few MiB of whole events, asked for one by one."""
    for _ in range(3):
        await client.post(PATH, json=[draft("x" * 900_000) for _ in range(5)])
    sizes: list[int] = []
    ids: list[int] = []
    async with aclosing(_events(services, world, 1)) as events:
        while len(ids) < 15:
            chunk = await anext(events)
            assert chunk.endswith(b"\n\n")
            sizes.append(len(chunk))
            ids += [int(line[4:]) for line in chunk.split(b"\n") if line.startswith(b"id: ")]
    assert ids == list(range(2, 17))
    assert max(sizes) < 6 * 1024 * 1024
