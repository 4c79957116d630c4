"""What comes out of an agent's WebSocket: observations, cancellations, and its end when the service stops."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest
from websockets.asyncio.client import connect
from worldledger_service.runtime import Orchestrator

from .helpers import Served, WorldClient, serving
from .living import INTENTS, SUBPROTOCOL, Socket, Watched, address, intent, of, register, settle, socket_of, speak

pytestmark = pytest.mark.asyncio(loop_scope="module")

# -- observing ---------------------------------------------------------------------------------------------


async def test_observations_keep_a_view(served: Served, inhabited: WorldClient) -> None:
    """By what is sent a client keeps the very view that the service has, and so does each of two sockets."""
    async with socket_of(served) as one, socket_of(served) as two, socket_of(served, "bob") as bob:
        watched = [Watched((await each.receive("view"))["view"]) for each in (one, two)]
        for n in range(30):
            payload = {"to": [n, 0], "speed": 1.5} if n % 3 else {"text": "hi"}
            await bob.send(
                "intent", intent=intent(f"r{n}", 3, "bob", kind="Move" if n % 3 else "Speak", payload=payload)
            )
        for view, each in zip(watched, (one, two), strict=True):
            while view.view["view_seq"] < 33:
                view.apply((await each.receive("observation"))["delta"])
    assert watched[0].view == watched[1].view == (await inhabited.get(of("alice", "view"))).json()


async def test_what_is_too_large_is_read_elsewhere(served: Served, inhabited: WorldClient) -> None:
    """In the place of a view or observation over 64 KiB stands where to read the view; what follows applies to that."""
    await speak(inhabited, "large", "bob", payload={"text": "x" * 70_000})
    async with socket_of(served, query="?view_seq=3") as alice:
        told = await alice.receive()
        assert told == {"type": "resync", "view_seq": 4, "context_digest": told["context_digest"], "url": told["url"]}
        view = (await inhabited.get(told["url"])).json()
        assert (view["view_seq"], view["context_digest"]) == (4, told["context_digest"])
        watched = Watched(view)
        await speak(inhabited, "small", "bob")
        watched.apply((await alice.receive("observation"))["delta"])
        for name in ("alice", "bob"):
            entity = {"entity_id": name + "'s tower", "entity_data": {"stones": "x" * 40_000}}
            body = {"kind": "EntityCreated", "payload": entity, "source_id": "world", "schema_version": "1.0.0"}
            await inhabited.post("effects", json=body)
            watched.apply((await alice.receive("observation"))["delta"])
        await alice.send("view", id=7)
        told = await alice.receive()
        assert (told["type"], told["id"], told["view_seq"]) == ("resync", 7, 7)
        assert (await inhabited.get(told["url"])).json() == watched.view
    async with socket_of(served) as again:
        assert (await again.receive())["type"] == "resync"


async def test_a_view_can_be_asked_for(served: Served, inhabited: WorldClient) -> None:
    """A client may ask for its view, of now or of then."""
    seq = await speak(inhabited, "r1", "bob")
    async with socket_of(served, query=f"?view_seq={seq}") as alice:
        for at_seq in (None, 3, seq):
            await alice.send("view", id=9, at_seq=at_seq)
            found = await alice.receive("view")
            query = {} if at_seq is None else {"at_seq": at_seq}
            assert (found["id"], found["view"]) == (9, (await inhabited.get(of("alice", "view"), params=query)).json())
        await alice.send("view", id=8, at=f"seq:{seq}")
        found = await alice.receive("view")
        assert found["view"] == (await inhabited.get(of("alice", "view"), params={"at_seq": seq})).json()
        await alice.send("view", id=9, at_seq=99)
        found = await alice.receive("error")
        assert (found["id"], found["problem"]["code"]) == (9, "moment_not_found")
        for at in ("step:99", "turn:1", "sim:-1"):
            await alice.send("view", id=10, at=at)
            found = (await alice.receive("error"))["problem"]
            assert (found["code"], found["detail"]) == ("moment_not_found", f"there is no moment {at} in this world")


async def test_what_was_acknowledged_is_remembered(served: Served, inhabited: WorldClient) -> None:
    """An agent that registers again goes on after the observation that it acknowledged last."""
    async with socket_of(served, "bob", "?view_seq=3") as bob:
        for n in range(3):
            await speak(inhabited, f"r{n}")
            delta = (await bob.receive("observation"))["delta"]
        await bob.send("ack", view_seq=delta["view_seq"] - 1)
        await bob.send("ping")
        await bob.receive("pong")
    assert (await register(inhabited, "bob"))["view_seq"] == delta["view_seq"] - 1


# -- generations and time ----------------------------------------------------------------------------------


async def test_a_generation_is_cancelled_by_what_happens(served: Served, client: WorldClient) -> None:
    """A generation that has begun is cancelled as soon as the agent may know better, with the reason."""
    await settle(client, staleness_threshold=0)
    where = address(served, query="?view_seq=3")
    async with connect(where, subprotocols=[SUBPROTOCOL], proxy=None) as connection:  # type: ignore[list-item]
        alice = Socket(connection)
        await alice.send("generation", id=1, req_id="g1", context_seq=3)
        # What lies beyond alice's view, bob's registration, means her view.
        assert await alice.receive("generation") == {"type": "generation", "id": 1, "req_id": "g1", "context_seq": 2}
        body = intent("r1", 3, "bob")
        seq = (await client.post(INTENTS, json=body)).json()["global_seq"]
        found = await alice.receive("cancelled")
        named = {"setting": "world", "staleness_threshold": 0, "interrupt_policy": "always"}
        assert found == {"type": "cancelled", "req_id": "g1", "reason": f"stale_due_to_effect_{seq}", **named}
        await alice.send("intent", intent=intent("g1", 3))
        assert (await alice.receive("rejected"))["problem"]["code"] == "stale_context"
        await alice.send("generation", req_id="g2", context_seq=3)
        assert (await alice.receive("generation"))["req_id"] == "g2"
        assert (await alice.receive("cancelled"))["req_id"] == "g2", "it was stale when it began"


async def test_a_generation_is_cancelled_by_hand(served: Served, inhabited: WorldClient) -> None:
    """A client may cancel a generation, its own or one begun elsewhere; it is told once."""
    async with socket_of(served, query="?view_seq=3") as alice:
        await alice.send("generation", req_id="g1")
        await alice.send("cancel", id=5, req_id="g1")
        await inhabited.post(of("alice", "generations"), json={"req_id": "g2"})
        await alice.send("cancel", id=6, req_id="g2")
        await alice.send("cancel", id=7, req_id="g3")
        await alice.send("ping")
        kinds = [await alice.receive() for _ in range(5)]
        assert [each["type"] for each in kinds] == ["generation", "cancelled", "cancelled", "error", "pong"]
        assert kinds[1] == {"type": "cancelled", "id": 5, "req_id": "g1", "reason": "user_requested"}
        assert kinds[3]["problem"]["code"] == "unknown_generation"


async def test_others_may_cancel_it_too(served: Served, inhabited: WorldClient) -> None:
    """A generation that somebody cancels over HTTP is told on the socket where it was begun."""
    async with socket_of(served, query="?view_seq=3") as alice:
        await alice.send("generation", req_id="g1")
        await alice.receive("generation")
        await inhabited.delete(of("alice", "generations", "g1"))
        assert (await alice.receive("cancelled"))["reason"] == "user_requested"


async def test_a_generation_outlives_its_socket(served: Served, inhabited: WorldClient) -> None:
    """A client that comes back finds its generation under way, and is told of its end."""
    async with socket_of(served, query="?view_seq=3") as alice:
        await alice.send("generation", req_id="g1", context_seq=3)
        await alice.receive("generation")
    async with socket_of(served, query="?view_seq=3") as alice:
        await alice.send("generation", req_id="g1", context_seq=3)
        await alice.receive("generation")
        await alice.send("finished", req_id="g1")
        await alice.send("generation", req_id="g2")
        await alice.receive("generation")
        await inhabited.delete(of("alice", "generations", "g2"))
        assert (await alice.receive("cancelled"))["req_id"] == "g2"


async def test_time_moves_by_ticks(served: Served, inhabited: WorldClient) -> None:
    """The adapter that has the authority moves sim_time over a socket; a tick before is refused."""
    await inhabited.put("time-authority", json={"authority": "unity", "zero": 0})
    async with socket_of(served) as alice:
        await alice.send("tick", id=1, adapter="unity", sim_time=1e12)
        found = await alice.receive("accepted")
        assert (found["id"], found["req_id"], found["replayed"]) == (1, None, False)
        await alice.send("tick", id=2, adapter="unity", sim_time=1.0)
        assert (await alice.receive("rejected"))["problem"]["code"] == "sim_time_order"
        await alice.send("tick", id=3, adapter="unreal", sim_time=2e12)
        assert (await alice.receive("rejected"))["problem"]["code"] == "time_authority"
    assert (await inhabited.get("")).json()["sim_time"] == 1e12


async def test_an_authority_s_end_is_told(served: Served, inhabited: WorldClient) -> None:
    """Where the socket ends by which its last tick came, everybody is told, and another adapter may take over."""
    async with socket_of(served) as alice:
        await alice.receive("view")
        async with socket_of(served, "bob") as unity:
            await unity.send("authority", id=1, authority="unity")
            assert (await unity.receive("accepted"))["id"] == 1
            await unity.send("tick", id=2, adapter="unity", sim_time=0.5)
            tick = await unity.receive("accepted")
            await alice.send("authority", id=3, authority="unreal")
            held = await alice.receive("rejected")
            assert (held["id"], held["problem"]["code"], held["problem"]["status"]) == (3, "time_authority_held", 409)
            async with socket_of(served, "bob") as other:  # it has sent no tick: its end is no silence
                await other.send("ping")
                await other.receive("pong")
        told = await alice.receive("authority_silent")
        wanted = {"authority": "unity", "last_tick_seq": tick["global_seq"], "reason": "disconnected"}
        assert told == {"type": "authority_silent", **wanted, "global_seq": tick["global_seq"] + 1}
        async with socket_of(served, "bob") as late:
            await late.receive("view")
            assert await late.receive("authority_silent") == told
        now = (await inhabited.get("time-authority")).json()
        assert (now["silence"], now["last_tick_seq"]) == (
            {**wanted, "global_seq": told["global_seq"]},
            tick["global_seq"],
        )
        await alice.send("authority", id=4, authority="unreal", zero=1000)
        assert (await alice.receive("accepted"))["id"] == 4
        await alice.send("tick", id=5, adapter="unreal", sim_time=1)
        assert (await alice.receive("accepted"))["id"] == 5
        await alice.send("authority", id=6, authority="none", zero=1)
        assert (await alice.receive("rejected"))["problem"]["path"] == "$.zero"
    assert (await inhabited.get("")).json()["sim_time"] == 1001.0


async def test_the_end_of_who_took_time_over_is_told(served: Served, inhabited: WorldClient) -> None:
    """A socket by which an adapter took over is its connection, also if it never ticked; its end is its silence."""
    async with socket_of(served) as alice:
        await alice.receive("view")
        async with socket_of(served, "bob") as unity:
            await unity.send("authority", id=1, authority="unity")
            taken = (await unity.receive("accepted"))["global_seq"]
        said = {"authority": "unity", "last_tick_seq": None, "reason": "disconnected"}
        told = await alice.receive("authority_silent")
        assert told == {"type": "authority_silent", **said, "global_seq": taken + 1}
        answer = await inhabited.put("time-authority", json={"authority": "unreal", "force": False})
        assert answer.status_code == 200
    effects = (await inhabited.get("effects")).text
    assert effects.count('"kind":"WorldTimeAuthoritySilent"') == 1


async def test_a_tick_by_another_connection_counts_from_then_on(served: Served, inhabited: WorldClient) -> None:
    """Where the adapter ticked by another socket since, it is that one's end that is its silence."""
    async with socket_of(served) as alice:
        await alice.receive("view")
        async with socket_of(served) as ticking, socket_of(served, "bob") as taking:
            await taking.send("authority", id=1, authority="unity")
            await taking.receive("accepted")
            await ticking.send("tick", id=2, adapter="unity", sim_time=0.5)
            tick = (await ticking.receive("accepted"))["global_seq"]
        told = await alice.receive("authority_silent")
        assert (told["last_tick_seq"], told["global_seq"]) == (tick, tick + 1)


# -- stopping ----------------------------------------------------------------------------------------------


async def test_sockets_close_when_the_service_stops(own_url: str) -> None:
    """A stopping service closes its sockets with 1012, after it has answered what was under way."""
    released = asyncio.Event()
    submit = Orchestrator.submit_intent

    async def held(world: Orchestrator, value: dict[str, Any]) -> Any:
        await released.wait()
        return await submit(world, value)

    async with serving(own_url) as served, served.client() as client:
        await settle(client)
        with mock.patch.object(Orchestrator, "submit_intent", held):
            async with socket_of(served, query="?view_seq=3") as alice, socket_of(served, "bob") as bob:
                await alice.send("intent", intent=intent("r1", 3))
                await alice.send("ping")
                await alice.receive("pong")
                stopping = asyncio.create_task(served.stop())
                await served.services.stopping.wait()
                assert (await bob.closed())[0] == 1012
                released.set()
                assert (await alice.receive("accepted"))["req_id"] == "r1"
                assert (await alice.closed())[0] == 1012
                await stopping


async def test_clients_go_on_after_a_restart(own_url: str) -> None:
    """A client that was cut off goes on at another service after its last view, and ends with the same view."""
    async with serving(own_url) as first, first.client() as client:
        await settle(client)
        async with socket_of(first) as alice:
            watched = Watched((await alice.receive("view"))["view"])
            for n in range(5):
                await speak(client, f"r{n}", "bob")
            watched.apply((await alice.receive("observation"))["delta"])
    async with serving(own_url) as second, second.client() as client:
        async with socket_of(second, query=f"?view_seq={watched.view['view_seq']}") as alice:
            for n in range(5, 10):
                await speak(client, f"r{n}", "bob")
            for _ in range(9):
                watched.apply((await alice.receive("observation"))["delta"])
        assert watched.view == (await client.get(of("alice", "view"))).json()
