"""The WebSocket of a game: who watches is told everything once and in order, and nobody holds up anybody."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import orjson
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from worldledger_chess.api.serving import arena_of
from worldledger_service.api.ws.connection import MOST_UNREADABLE
from worldledger_service.api.ws.messages import MAX_BYTES, SUBPROTOCOL

from tests.api.helpers import Served, WorldClient, problem, serving
from tests.waiting import wait_for

from .games import FOOLS_MATE, moved, new_game, started
from .live import attempt, made, played

pytestmark = pytest.mark.asyncio(loop_scope="module")


def address(served: Served, game_id: str | None = None, query: str = "") -> str:
    """Return the address of a game's socket."""
    return f"{served.url.replace('http://', 'ws://')}/v1/games/{game_id or served.world}/watch{query}"


@asynccontextmanager
async def watching(
    served: Served, game_id: str | None = None, query: str = "", **options: Any
) -> AsyncIterator[ClientConnection]:
    """Watch a game."""
    async with connect(address(served, game_id, query), **{"proxy": None, "max_queue": None, **options}) as opened:
        yield opened


async def told(watcher: ClientConnection, count: int) -> list[dict[str, Any]]:
    """Return the next messages."""
    found = []
    for _ in range(count):
        text = await watcher.recv()
        assert len(text) < MAX_BYTES
        found.append(orjson.loads(text))
    return found


async def rest(watcher: ClientConnection) -> list[dict[str, Any]]:
    """Return all messages until the socket is closed."""
    found = []
    try:
        while True:
            found += await told(watcher, 1)
    except ConnectionClosed:
        return found


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """Return the types of messages."""
    return [event["type"] for event in events]


@pytest_asyncio.fixture(loop_scope="module")
async def game(served: Served) -> AsyncIterator[WorldClient]:
    """Have a live game, which is the client's world; talk to its service."""
    async with served.client() as client:
        await made(client, game_id=client.world)
        yield client


async def test_a_whole_game_is_told(served: Served, game: WorldClient) -> None:
    """From the start to the end each event comes once, as it happens; then the socket is closed."""
    async with watching(served) as watcher:
        (begun,) = await told(watcher, 1)
        assert (begun["type"], begun["white"]["agent_id"], begun["global_seq"]) == ("game_started", "w", 2)
        outcome = (await attempt(game, game.world, "w", "e2e5")).json()
        (rejected,) = await told(watcher, 1)
        assert (rejected["type"], rejected["attempted"]) == ("move_rejected", "e2e5")
        assert rejected["global_seq"] == outcome["global_seq"]
        for outcome in await played(game, game.world, *FOOLS_MATE):
            (event,) = await told(watcher, 1)
            assert event["type"] == "move_made"
            assert event["move"] | {"thinking_time": 0.0} == outcome["move"]
            assert (event["ply"], event["fen"], event["game_id"]) == (outcome["ply"], outcome["fen"], game.world)
        (ended,) = await told(watcher, 1)
        assert (ended["type"], ended["status"], ended["result"]) == ("game_ended", "checkmate", "black_wins")
        assert await rest(watcher) == []
        assert (watcher.close_code, watcher.close_reason) == (1000, "the game has ended")


async def test_a_watcher_goes_on_where_it_was(served: Served, game: WorldClient) -> None:
    """With after_seq it is told what came after, and nothing twice; of a game that has ended too."""
    outcomes = await played(game, game.world, *FOOLS_MATE)
    async with watching(served) as watcher:
        everything = await rest(watcher)
    assert kinds(everything) == ["game_started", *["move_made"] * 4, "game_ended"]
    for seq in (0, 2, outcomes[1]["global_seq"], everything[-1]["global_seq"]):
        async with watching(served, query=f"?after_seq={seq}") as watcher:
            assert await rest(watcher) == [event for event in everything if event["global_seq"] > seq]


async def test_any_number_of_watchers(own_url: str) -> None:
    """All are told the same; sessions and metrics count them."""
    async with serving(own_url) as served, served.client() as client:
        await made(client, game_id=client.world)
        async with AsyncExitStack() as stack:
            watchers = [await stack.enter_async_context(watching(served)) for _ in range(30)]
            await asyncio.gather(*(told(watcher, 1) for watcher in watchers))
            (session,) = (await client.get("/v1/sessions")).json()["sessions"]
            assert session["websocket_connections"] == 30
            assert "worldledger_sockets_open 30.0" in (await client.get("/metrics")).text.splitlines()
            await played(client, client.world, *FOOLS_MATE)
            stories = await asyncio.gather(*(rest(watcher) for watcher in watchers))
            assert all(story == stories[0] for story in stories)
            assert len(stories[0]) == 5
        gauge = served.services.metrics.registry.get_sample_value
        await wait_for(lambda: gauge("worldledger_sockets_open") == 0, "all are closed")
        assert (await arena_of(served.services).game(client.world)).watchers == 0


async def test_a_watcher_that_leaves_is_forgotten(served: Served, game: WorldClient) -> None:
    """A client that closes, or is cut off, is counted no more; the game goes on."""
    watched = await arena_of(served.services).game(served.world)
    async with watching(served) as one, watching(served) as other:
        await told(one, 1)
        await told(other, 1)
        assert watched.watchers == 2
        await one.close()
        other.transport.abort()
        await wait_for(lambda: watched.watchers == 0, "both are forgotten")
    await played(game, game.world, "e2e4")


async def test_one_that_does_not_read_holds_up_nobody(served: Served, game: WorldClient) -> None:
    """Behind a watcher that never reads, the game goes on and others are told."""
    parts = urlsplit(served.url)
    plain = socket.create_connection((parts.hostname, parts.port))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader, writer = await asyncio.open_connection(sock=plain, limit=1024)
    writer.write(
        f"GET /v1/games/{served.world}/watch HTTP/1.1\r\nHost: localhost\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    await reader.readuntil(b"\r\n\r\n")
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    async with watching(served) as watcher:
        knights = ("g1f3", "g8f6", "f3g1", "f6g8", "b1c3", "b8c6", "c3b1")
        await played(game, game.world, *knights)
        assert len(await told(watcher, 8)) == 8
    writer.transport.abort()


# -- what a client says ------------------------------------------------------------------------------------


async def test_a_ping_is_answered(served: Served, game: WorldClient) -> None:
    """A ping of the protocol or in JSON is answered; the id is repeated."""
    async with watching(served, query="?after_seq=4") as watcher:
        await (await watcher.ping())
        await watcher.send('{"type": "ping"}')
        await watcher.send('{"type": "ping", "id": "x"}')
        assert await told(watcher, 2) == [{"type": "pong"}, {"type": "pong", "id": "x"}]


_SAID = [
    ("", "$"),
    ("e2e4", "$"),
    ("[]", "$"),
    ("null", "$"),
    ("{}", "$.type"),
    ('{"type": "move", "move": "e2e4"}', "$.move"),
    ('{"type": "move"}', "$.type"),
    ('{"type": ["ping"]}', "$.type"),
    ('{"type": "ping", "type": "ping"}', "$"),
    ('{"type": "ping", "id": {}}', "$.id"),
    ('{"type": "ping", "id": true}', "$.id"),
    ('{"type": "ping", "id": 1e999}', "$.id"),
    ('{"type": "ping", "id": "\\ud800"}', "$.id"),
    (f'{{"type": "ping", "id": "{"x" * 201}"}}', "$.id"),
    ("[" * 30_000, "$"),
]


async def test_anything_else_is_an_error(served: Served, game: WorldClient) -> None:
    """Whatever a client says is answered with what is wrong; it is told on, and the game knows nothing of it."""
    async with watching(served, query="?after_seq=4") as watcher:
        for text, path in _SAID:
            await watcher.send(text)
            (answer,) = await told(watcher, 1)
            assert (answer["type"], answer["problem"]["code"]) == ("error", "invalid_message"), text
            assert answer["problem"]["path"].startswith(path), text
        await played(game, game.world, "e2e4")
        assert kinds(await told(watcher, 1)) == ["move_made"]
    assert (await game.get(f"/v1/worlds/{game.world}")).json()["head_seq"] == 5


async def test_who_says_nothing_readable_is_closed(served: Served, game: WorldClient) -> None:
    """After a hundred such messages in a row, after a binary one and after one that is too large."""
    async with watching(served, query="?after_seq=4") as watcher:
        for _ in range(MOST_UNREADABLE):
            await watcher.send("x")
        assert len(await rest(watcher)) == MOST_UNREADABLE
        assert watcher.close_code == 1008
    async with watching(served, query="?after_seq=4") as watcher:
        await watcher.send(b"x")
        assert (await rest(watcher), watcher.close_code) == ([], 1003)
    async with watching(served, query="?after_seq=4") as watcher:
        await watcher.send("x" * (MAX_BYTES + 1))
        assert (await rest(watcher), watcher.close_code) == ([], 1009)
    await played(game, game.world, "e2e4")


# -- opening and closing -----------------------------------------------------------------------------------


async def _refused(address: str, **options: Any) -> httpx2.Response:
    """Return the answer to a handshake that is refused."""
    with pytest.raises(InvalidStatus) as caught:
        async with connect(address, proxy=None, **options):
            pass
    answer = caught.value.response
    return httpx2.Response(answer.status_code, headers=list(answer.headers.raw_items()), content=bytes(answer.body))


async def test_a_refused_handshake_is_a_problem(served: Served, game: WorldClient) -> None:
    """What a socket is refused for is told before it opens."""
    await new_game(game, "empty")
    await game.post("/v1/worlds", json={"world_id": "town"})
    for name in ("nowhere", "town", "empty"):
        problem(await _refused(address(served, name)), 404, "game_not_found", game_id=name)
    problem(await _refused(address(served, "a%20b")), 422, "invalid_name")
    problem(await _refused(address(served, query="?after_seq=5")), 409, "position_ahead", head_seq=4)
    for query in ("after_seq=x", "after_seq=", "after_seq=-1", "after_seq=1&after_seq=1", "after_seq=" + "9" * 17):
        refused = await _refused(address(served, query=f"?{query}"))
        problem(refused, 422, "invalid_parameter", parameter="after_seq")
    problem(await _refused(address(served, query="?after=1")), 422, "invalid_parameter", parameter="after")
    problem(await _refused(address(served), origin="https://example.org"), 403, "origin_refused")
    problem(await game.get(f"/v1/games/{game.world}/watch"), 426, "upgrade_required")


async def test_the_subprotocol_is_not_needed(served: Served, game: WorldClient) -> None:
    """A client that offers the service's own gets it, any other none."""
    for offered, chosen in ((None, None), ([SUBPROTOCOL], SUBPROTOCOL), (["chat"], None)):
        async with watching(served, subprotocols=offered) as watcher:
            assert watcher.subprotocol == chosen
            assert kinds(await told(watcher, 1)) == ["game_started"]


async def test_an_imported_game_is_told(served: Served, game: WorldClient) -> None:
    """A game that nobody plays here is watched all the same, whoever writes its log."""
    await new_game(game, "record", started("w", "b"), moved("e2e4"))
    async with watching(served, "record") as watcher:
        assert kinds(await told(watcher, 2)) == ["game_started", "move_made"]
        await game.post("/v1/worlds/record/effects", json=moved("e7e5"))
        (event,) = await told(watcher, 1)
        assert event["move"]["san_notation"] == "e5"


async def test_an_idle_socket_is_closed(own_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is said for as long as the setting has it, the socket is closed; who pings stays."""
    monkeypatch.setenv("WORLDLEDGER_WATCH_IDLE", "1.0")
    async with serving(own_url) as served, served.client() as client:
        await made(client, game_id=client.world)
        async with watching(served, query="?after_seq=4") as idle, watching(served, query="?after_seq=4") as lively:

            async def ping() -> None:
                while True:
                    await lively.send('{"type": "ping"}')
                    await told(lively, 1)
                    await asyncio.sleep(0.05)

            pinging = asyncio.create_task(ping())
            assert await rest(idle) == []
            assert idle.close_code == 1001
            assert not pinging.done()
            pinging.cancel()


async def test_a_service_that_stops_says_so(own_url: str) -> None:
    """Whoever watches is told to come again; nothing hangs."""
    async with serving(own_url) as served, served.client() as client:
        await made(client, game_id=client.world)
        async with watching(served) as watcher:
            await told(watcher, 1)
            await served.stop()
            assert await rest(watcher) == []
            assert watcher.close_code == 1012
