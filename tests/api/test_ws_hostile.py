"""Clients that misbehave: each is told what was wrong or cut off, as documented, and nobody else notices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import orjson
import pytest
from worldledger_service.api.ws import transport
from worldledger_service.api.ws.connection import MOST_UNREADABLE
from worldledger_service.api.ws.messages import MAX_BYTES

from tests.waiting import calls_by_turn, wait_for
from worldledger.errors import FoldError

from .helpers import Served, WorldClient, serving
from .living import INTENTS, Socket, Watched, Wire, intent, new_world, of, register, settle, socket_of, speak, wired

pytestmark = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def undisturbed(served: Served, what: str = "it") -> AsyncIterator[Socket]:
    """Have bob speak before, during and after whatever happens, and be answered each time."""
    async with socket_of(served, "bob", "?view_seq=3") as bob:

        async def say(req_id: str) -> None:
            await bob.send("intent", id=req_id, intent=intent(req_id, 3, "bob"))
            assert (await bob.receive("accepted"))["id"] == req_id

        await say(f"before {what}")
        yield bob
        await say(f"after {what}")


# -- messages that cannot be read --------------------------------------------------------------------------

_UNREADABLE: dict[str, tuple[Any, str, Any]] = {
    "nothing": ("", "$", None),
    "no JSON": ("{", "$", None),
    "a word": ("hello", "$", None),
    "a number": ("7", "$", None),
    "a list": ("[]", "$", None),
    "null": ("null", "$", None),
    "a key that stands twice": ('{"type": "ping", "type": "ack"}', "$", None),
    "deep nesting": ("[" * 30_000, "$", None),
    "no type": ({"id": 1}, "$.type", 1),
    "a type that is none": ({"type": "dance", "id": 1}, "$.type", 1),
    "a type that is no text": ({"type": ["ping"], "id": "x"}, "$.type", "x"),
    "an unknown member": ({"type": "ping", "id": 1, "why": 2}, "$.why", 1),
    "a member of another type": ({"type": "ack", "view_seq": 1, "req_id": "r", "id": 1}, "$.req_id", 1),
    "an id that is an object": ({"type": "ping", "id": {}}, "$.id", None),
    "an id that is true": ({"type": "ping", "id": True}, "$.id", None),
    "a long id": ({"type": "ping", "id": "x" * 201}, "$.id", None),
    "an endless number as id": ('{"type": "ping", "id": 1e999}', "$.id", None),
    "a large number as id": ('{"type": "ping", "id": 9007199254740993}', "$.id", None),
    "half a character in the id": ('{"type": "ping", "id": "\\ud800"}', "$.id", None),
    "an intent that is missing": ({"type": "intent", "id": 1}, "$.intent", 1),
    "intents that are one": ({"type": "intents", "intents": {}, "id": 1}, "$.intents", 1),
    "no intents": ({"type": "intents", "intents": [], "id": 1}, "$.intents", 1),
    "a mode that is none": ({"type": "intents", "intents": [{}], "atomic": "yes", "id": 1}, "$.atomic", 1),
    "a view that is no number": ({"type": "ack", "view_seq": "4", "id": 1}, "$.view_seq", 1),
    "a view before all": ({"type": "ack", "view_seq": -1, "id": 1}, "$.view_seq", 1),
    "a moment that is none": ({"type": "view", "at_seq": 0, "id": 1}, "$.at_seq", 1),
    "a moment that is misspelt": ({"type": "view", "at": "trun 5", "id": 1}, "$.at", 1),
    "a moment that is no text": ({"type": "view", "at": 5, "id": 1}, "$.at", 1),
    "two moments": ({"type": "view", "at": "5", "at_seq": 5, "id": 1}, "$.at", 1),
    "a generation without a name": ({"type": "generation", "id": 1}, "$.req_id", 1),
    "a generation with a number": ({"type": "generation", "req_id": 5, "id": 1}, "$.req_id", 1),
    "a context that is none": ({"type": "generation", "req_id": "g", "context_seq": 1.5, "id": 1}, "$.context_seq", 1),
    "a long name": ({"type": "cancel", "req_id": "g" * 201, "id": 1}, "$.req_id", 1),
    "a NUL in a name": ({"type": "finished", "req_id": "g\0", "id": 1}, "$.req_id", 1),
    "a time that is text": ({"type": "tick", "adapter": "unity", "sim_time": "1", "id": 1}, "$.sim_time", 1),
    "an authority that is none": ({"type": "authority", "authority": 1, "id": 1}, "$.authority", 1),
    "an authority by force": ({"type": "authority", "authority": "a", "force": True, "id": 1}, "$.force", 1),
    "an adapter that is none": ({"type": "tick", "adapter": None, "sim_time": 1, "id": 1}, "$.adapter", 1),
}


async def test_what_cannot_be_read_is_told(served: Served, inhabited: WorldClient, subtests: pytest.Subtests) -> None:
    """Each such message is answered with what is wrong and where; the socket stays open and others notice nothing."""
    async with undisturbed(served), socket_of(served, query="?view_seq=4") as alice:
        for name, (sent, path, message_id) in _UNREADABLE.items():
            with subtests.test(name):
                await alice.connection.send(sent if isinstance(sent, str) else orjson.dumps(sent).decode())
                found = await alice.receive()
                assert (found["type"], found.get("id")) == ("error", message_id)
                problem = found["problem"]
                assert (problem["code"], problem["status"]) == ("invalid_message", 422)
                assert problem["path"].startswith(path)
                assert problem["instance"] == inhabited.path(of("alice", "ws"))
        await alice.send("ping", id=1)
        assert await alice.receive() == {"type": "pong", "id": 1}


async def test_there_is_an_end_to_it(served: Served, inhabited: WorldClient) -> None:
    """Who sends a hundred such messages in a row is cut off; one good message among them starts the count anew."""
    async with undisturbed(served), socket_of(served, query="?view_seq=4") as alice:
        for good in (True, False):
            for _ in range(MOST_UNREADABLE - good):
                await alice.connection.send("nonsense")
                assert (await alice.receive())["type"] == "error"
            if good:
                await alice.send("ping")
                await alice.receive("pong")
        code, reason = await alice.closed()
        assert code == 1008
        assert reason is not None
        assert "100 messages in a row" in reason


# -- frames that may not be --------------------------------------------------------------------------------


async def test_a_binary_frame_closes(served: Served, inhabited: WorldClient) -> None:
    """Messages are text: after a binary frame the socket is closed with 1003."""
    async with undisturbed(served), socket_of(served) as alice:
        await alice.connection.send(b"\x00\xff" * 100)
        assert (await alice.closed())[0] == 1003


async def test_a_frame_has_a_limit(served: Served, inhabited: WorldClient) -> None:
    """A message of exactly 64 KiB is read; one more byte closes the socket with 1009, in one frame or in several."""
    ping = b'{"type": "ping", "id": 1}'
    async with undisturbed(served):
        async with socket_of(served, query="?view_seq=4") as alice:
            await alice.connection.send((ping + b" " * (MAX_BYTES - len(ping))).decode())
            assert await alice.receive() == {"type": "pong", "id": 1}
            await alice.connection.send((ping + b" " * (MAX_BYTES - len(ping) + 1)).decode())
            assert (await alice.closed())[0] == 1009
        async with socket_of(served, query="?view_seq=4") as alice:
            await alice.connection.send(["x" * 60_000, "y" * 60_000])
            assert (await alice.closed())[0] == 1009
        async with wired(served) as wire:
            wire.write(1, b"x" * 5_000_000)
            assert await wire.closed() == 1009


_FRAMES: dict[str, tuple[list[dict[str, Any]], int]] = {
    "text that is not UTF-8": ([{"opcode": 1, "payload": b'"\xff\xfe"'}], 1007),
    "half a character": ([{"opcode": 1, "payload": b'"\xc3', "fin": False}, {"opcode": 0, "payload": b'"'}], 1007),
    "a frame without a mask": ([{"opcode": 1, "payload": b"{}", "mask": False}], 1002),
    "a reserved opcode": ([{"opcode": 3}], 1002),
    "an end without a beginning": ([{"opcode": 0, "payload": b"{}"}], 1002),
    "a beginning within another": ([{"opcode": 1, "payload": b"{", "fin": False}, {"opcode": 1}], 1002),
    "a ping in parts": ([{"opcode": 9, "fin": False}], 1002),
    "a close with half a code": ([{"opcode": 8, "payload": b"\x03"}], 1002),
    "a code that nobody may send": ([{"opcode": 8, "payload": (1005).to_bytes(2, "big")}], 1002),
}


async def test_a_broken_protocol_closes(
    served: Served, inhabited: WorldClient, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """Frames that RFC 6455 does not allow close the socket with its code, and nothing is written to the log."""
    for name, (frames, code) in _FRAMES.items():
        with subtests.test(name):
            async with undisturbed(served, name), wired(served) as wire:
                for frame in frames:
                    wire.write(**frame)
                assert await wire.closed() == code
            assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_garbage_closes(served: Served, inhabited: WorldClient, caplog: pytest.LogCaptureFixture) -> None:
    """Bytes that are no frames at all close the socket."""
    async with undisturbed(served), wired(served) as wire:
        wire.writer.write(bytes(range(256)) * 100)
        assert await wire.closed() in {1002, 1007, 1009}
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_empty_parts_add_up_to_nothing(served: Served, inhabited: WorldClient) -> None:
    """A message may come in any number of parts, also empty ones; what counts is what is in them."""
    async with undisturbed(served), wired(served, query="?view_seq=4") as wire:
        await wire.frame()  # hello
        wire.write(1, b'{"type":', fin=False)
        for _ in range(5000):
            wire.write(0, b"", fin=False)
        await wire.writer.drain()
        wire.write(0, b'"ping"}')
        assert await wire.frame() == (1, b'{"type":"pong"}')


async def test_very_many_frames_let_others_in_between(served: Served, inhabited: WorldClient) -> None:
    """However many frames of nothing there are, what follows them is answered; not many are taken in one turn."""
    async with undisturbed(served), wired(served, query="?view_seq=4") as wire:
        await wire.frame()  # hello
        with calls_by_turn(transport.SocketProtocol, "handle_pong") as calls:
            for _ in range(50_000):
                wire.write(10, b"")
            await wire.writer.drain()
            wire.write(1, b'{"type":"ping"}')
            assert await wire.frame() == (1, b'{"type":"pong"}')
        assert calls.total() == 50_000
        assert max(calls.values()) <= 2 * (1024 // 6 + 1)  # a piece that had waited, and one that came


async def test_many_sockets_share_a_turn(served: Served, inhabited: WorldClient) -> None:
    """However many clients send as fast as they can, few messages of all together are taken in one turn."""
    async with undisturbed(served), AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(wired(served, query="?view_seq=4")) for _ in range(12)]
        for wire in wires:
            await wire.frame()  # hello
        with calls_by_turn(transport.SocketProtocol, "handle_text") as calls:
            for wire in wires:
                for _ in range(1000):
                    wire.write(1, b'{"type":"ack","view_seq":1}')
                wire.write(1, b'{"type":"ping"}')
            for wire in wires:
                assert await wire.frame() == (1, b'{"type":"pong"}')
        assert calls.total() == 12 * 1001
        assert max(calls.values()) <= 2 * (64 + 32)  # what had waited, and what came


async def test_frames_behind_a_close_are_taken(served: Served, inhabited: WorldClient) -> None:
    """A socket that the service closes is ended by its client's answer, though very many frames come before that."""
    async with undisturbed(served), wired(served, query="?view_seq=4") as wire:
        await wire.frame()  # hello
        for _ in range(5000):
            wire.write(1, b"unreadable")
        wire.write(8, (1000).to_bytes(2, "big"))
        assert await wire.closed() == 1008
        assert await wire.reader.read() == b""


# -- clients that do not read, or do not answer ------------------------------------------------------------


async def _fill(wire: Wire) -> None:
    """Ask until nothing more is read, as the answers stand in the way, or the connection is given up."""
    idle = 0
    while idle < 500:  # turns of the event loop, which is the server's too
        idle += 1
        await asyncio.sleep(0)
        if wire.writer.transport.is_closing():
            return
        if not wire.writer.transport.get_write_buffer_size():
            idle = 0
            for _ in range(200):
                wire.write(1, b'{"type":"ping","id":"%b"}' % (b"x" * 190))


async def test_who_does_not_read_holds_nobody_up(served: Served, client: WorldClient) -> None:
    """Behind a client that does not read observations collapse; others go on, and so does that one when it reads."""
    await settle(client, max_queued_deltas=10)
    world = await served.services.worlds.get(served.world)
    attachment = await world._observing.attach("alice")
    watched = Watched((await client.get(of("alice", "view"))).json())
    async with wired(served, query="?view_seq=3") as wire:
        await wire.frame()  # hello
        (subscription,) = attachment.subscriptions
        n = last = 0
        while not any(
            "collapsed" in delta for _, _, (delta, _) in subscription._queue._heap
        ):  # the buffers on the way fill
            body = intent(f"r{n}", 3, "bob", payload={"text": "x" * 20_000})
            last = (await client.post(INTENTS, json=body)).json()["global_seq"]
            n += 1
            assert len(subscription) <= 10
        messages = 0
        while watched.view["view_seq"] < last:
            _, payload = await wire.frame()
            message = orjson.loads(payload)
            messages += 1
            if message["type"] == "resync":  # what has collapsed may be large
                watched = Watched((await client.get(message["url"])).json())
            else:
                watched.apply(message["delta"])
        assert messages < n
    assert watched.view == (await client.get(of("alice", "view"))).json()


async def test_answers_that_nobody_reads_stop_the_reading(served: Served, inhabited: WorldClient) -> None:
    """A client that asks and does not read is read no further, so that nothing piles up; others go on."""
    async with undisturbed(served), wired(served) as wire:
        await _fill(wire)
        async with socket_of(served, query="?view_seq=4") as alice:
            await alice.send("ping", id=1)
            assert await alice.receive("pong") == {"type": "pong", "id": 1}


async def test_who_is_gone_is_given_up(served: Served, inhabited: WorldClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that neither reads nor answers pings for long is cut off, whatever waits for it."""
    monkeypatch.setattr(transport, "PATIENCE", 0.3)
    monkeypatch.setattr(transport, "_LOOK", 0.05)
    gauge = served.services.metrics.registry.get_sample_value
    async with wired(served) as silent, wired(served) as full:
        await _fill(full)
        await wait_for(lambda: gauge("worldledger_sockets_open") == 0, "both are given up")
        assert silent.reader.exception() is None or isinstance(silent.reader.exception(), ConnectionError)


async def test_who_answers_is_kept(own_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has nothing to say but answers pings is not given up."""
    monkeypatch.setattr(transport, "PATIENCE", 0.5)
    monkeypatch.setattr(transport, "_LOOK", 0.05)
    monkeypatch.setattr("worldledger_service.app.PING_INTERVAL", 0.1)
    async with serving(own_url) as served, served.client() as client:
        await new_world(client)
        await register(client, "alice")
        async with socket_of(served, query="?view_seq=2") as alice, wired(served) as silent:
            gauge = served.services.metrics.registry.get_sample_value
            await wait_for(lambda: gauge("worldledger_sockets_open") == 1, "the one that does not answer is given up")
            await alice.send("ping", id=1)
            assert await alice.receive() == {"type": "pong", "id": 1}
            assert silent is not None


async def test_pings_that_nobody_reads_the_answers_of(
    served: Served, inhabited: WorldClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that pings on without reading is cut off before its pongs fill the memory."""
    monkeypatch.setattr(transport, "_FLOOD", 64 * 1024)
    async with undisturbed(served), wired(served) as wire:
        with pytest.raises(ConnectionError):
            while True:
                for _ in range(500):
                    wire.write(9, b"x" * 125)
                await wire.writer.drain()
                await asyncio.sleep(0)


async def test_a_damaged_world_is_told(served: Served, inhabited: WorldClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a world can no longer be followed its sockets and streams end, once there is nothing to send."""
    monkeypatch.setitem(served.services.__dict__, "keepalive", 0.05)
    world = await served.services.worlds.get(served.world)
    accept = {"Accept": "text/event-stream"}
    async with socket_of(served) as alice, inhabited.stream("GET", of("bob", "observations"), headers=accept) as stream:
        world._follower.end(FoldError("the ruleset has failed", world_id=served.world))
        assert (await alice.closed())[0] == 1011
        assert (await stream.aread()).startswith(b": after 3")
    async with socket_of(served) as again:  # it is looked at anew
        assert again.hello["view_seq"] == 2


async def test_stopping_does_not_wait_for_them(own_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """The service stops though one client does not read, one does not close and one has only just connected."""
    async with serving(own_url) as served, served.client() as client:
        await settle(client)
        async with wired(served) as full, wired(served, query="?view_seq=3") as open_, wired(served) as closing:
            await _fill(full)
            closing.write(2, b"binary")
            assert await closing.closed() == 1003
            await served.stop()
            assert await open_.closed() == 1012
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_what_was_asked_is_done(served: Served, inhabited: WorldClient) -> None:
    """A client that sends an intent and leaves at once has sent it; it finds the answer under its req_id."""
    async with wired(served) as wire:
        for n in range(20):
            wire.write(1, orjson.dumps({"type": "intent", "intent": intent(f"r{n}", 3)}))
        await wire.writer.drain()
        await wire.frame()
    for n in range(20):
        assert await speak(inhabited, f"r{n}", context_seq=3) > 3
    effects = (await inhabited.get("effects?after_seq=3&limit=1000")).json()["effects"]
    assert sorted(effect["req_id"] for effect in effects) == sorted(f"r{n}" for n in range(20))
