"""The WebSocket of an agent: how it opens, and the intents that come in; what comes out is in test_ws_observing.py."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from worldledger_service.api.ws import handshake
from worldledger_service.api.ws.connection import IN_FLIGHT
from worldledger_service.api.ws.messages import MAX_BYTES
from worldledger_service.runtime import Orchestrator

from tests.waiting import wait_for

from .helpers import Served, WorldClient, problem, serving
from .living import SUBPROTOCOL, Watched, address, intent, of, register, settle, socket_of, speak

pytestmark = pytest.mark.asyncio(loop_scope="module")

# -- opening -----------------------------------------------------------------------------------------------


async def test_a_socket_says_hello(served: Served, inhabited: WorldClient) -> None:
    """The first message says whose socket it is and where it stands; the view to begin with follows."""
    async with socket_of(served) as alice:
        assert alice.hello == {
            "type": "hello",
            "world_id": served.world,
            "agent_id": "alice",
            "view_seq": 2,
            "protocol": SUBPROTOCOL,
        }
        assert (await alice.receive())["view"] == (await inhabited.get(of("alice", "view"))).json()


async def test_a_socket_goes_on_after_a_view(served: Served, inhabited: WorldClient) -> None:
    """With view_seq no view is sent: what came after that one is, each observation once and in order."""
    watched = Watched((await inhabited.get(of("alice", "view"))).json())
    for n in range(10):
        await speak(inhabited, f"r{n}", "bob")
    async with socket_of(served, query="?view_seq=2") as alice:
        assert alice.hello["view_seq"] == 2
        for _ in range(10):
            message = await alice.receive()
            assert message["type"] == "observation"
            watched.apply(message["delta"])
    assert watched.view == (await inhabited.get(of("alice", "view"))).json()


async def test_the_first_view_has_all_that_was_acknowledged(served: Served, inhabited: WorldClient) -> None:
    """Who opens a socket right after an effect was acknowledged sees it in the first view, and can act from there."""
    for n in range(20):
        await speak(inhabited, f"r{n}", "bob")
        async with socket_of(served) as alice:
            assert (await alice.receive())["view"]["view_seq"] == 4 + n


async def test_any_agent_has_a_socket(served: Served, inhabited: WorldClient) -> None:
    """An id with a slash, or one that looks like a route, leads to its own socket."""
    for name in ("a/b", "x/ws", "ä %2F"):
        await register(inhabited, name)
        async with socket_of(served, name) as opened:
            assert opened.hello["agent_id"] == name


async def _refused(address: str, **options: Any) -> httpx2.Response:
    """Return the answer to a handshake that is refused."""
    with pytest.raises(InvalidStatus) as caught:
        async with connect(address, **{"subprotocols": [SUBPROTOCOL], "proxy": None, **options}):
            pass
    answer = caught.value.response
    return httpx2.Response(answer.status_code, headers=list(answer.headers.raw_items()), content=bytes(answer.body))


async def test_a_refused_handshake_is_a_problem(served: Served, inhabited: WorldClient) -> None:
    """Whatever a socket is refused for is told as over HTTP, before it opens."""
    nobody, nowhere = address(served, "nobody"), address(served, world="nowhere")
    path = inhabited.path(of("nobody", "ws"))
    problem(await _refused(nobody), 404, "unknown_agent", agent_id="nobody", instance=path)
    problem(await _refused(nowhere), 404, "world_not_found")
    problem(await _refused(address(served, world="no name!")), 422, "invalid_name")
    ahead = problem(await _refused(address(served, query="?view_seq=99")), 409, "position_ahead", parameter="view_seq")
    assert "head_seq" not in ahead
    for query in ("?view_seq=x", "?view_seq=", "?view_seq=-1", "?view_seq=1&view_seq=2", "?view_seq=" + "9" * 17):
        problem(await _refused(address(served, query=query)), 422, "invalid_parameter", parameter="view_seq")
    for offered in (None, ["chat"], ["worldledger.v2.json"]):
        refused = await _refused(address(served), subprotocols=offered)
        problem(refused, 400, "subprotocol_refused", subprotocol=SUBPROTOCOL)
    elsewhere = address(served).replace("/agents/", "/people/")
    problem(await _refused(elsewhere), 404, "not_found")
    problem(await _refused(served.url.replace("http", "ws") + "/livez"), 404, "not_found")


async def test_a_handshake_for_which_memory_is_short_may_be_tried_again(
    served: Served, inhabited: WorldClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes wrong before a socket opens is told as over HTTP, also where no error of ours says it."""
    for error, status, code in ((MemoryError(), 503, "overloaded"), (RuntimeError("no"), 500, "internal_error")):
        monkeypatch.setattr(handshake, "known_agent", mock.AsyncMock(side_effect=error))
        found = problem(await _refused(address(served)), status, code)
        assert found["instance"] == inhabited.path(of("alice", "ws"))


async def test_the_subprotocol_may_be_one_of_several(served: Served, inhabited: WorldClient) -> None:
    """A client that offers others too gets this one."""
    async with socket_of(served, subprotocols=["worldledger.v2.json", SUBPROTOCOL]):
        pass


async def test_pages_of_other_sites_open_nothing(served: Served, inhabited: WorldClient) -> None:
    """A foreign Host or Origin is refused; the service's own origin is not."""
    host = served.url.removeprefix("http://")
    problem(await _refused(address(served), origin="https://example.org"), 403, "origin_refused")
    problem(await _refused(address(served), origin="null"), 403, "origin_refused")
    problem(await _refused(address(served), additional_headers={"Sec-Fetch-Site": "cross-site"}), 403, "origin_refused")
    rebound = address(served).replace("127.0.0.1", "rebound.example.org")
    problem(await _refused(rebound, host="127.0.0.1"), 421, "host_refused", host="rebound.example.org")
    async with socket_of(served, origin=f"http://{host}"):
        pass


async def test_a_plain_request_is_told_what_this_is(served: Served, inhabited: WorldClient) -> None:
    """A GET that asks for no upgrade is 426."""
    answer = await inhabited.get(of("alice", "ws"))
    problem(answer, 426, "upgrade_required", subprotocol=SUBPROTOCOL)
    assert answer.headers["upgrade"] == "websocket"


async def test_what_is_no_handshake_is_a_problem(served: Served, inhabited: WorldClient) -> None:
    """A handshake that is not one is 400 and names the version that is spoken."""
    key = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: "
    good = f"{key}dGhlIHNhbXBsZSBub25jZQ==\r\n"
    many = "".join(f"X-{n}: 1\r\n" for n in range(200))
    for headers in (f"{key}short\r\nSec-WebSocket-Version: 13\r\n", f"{good}Sec-WebSocket-Version: 8\r\n", good + many):
        reader, writer = await served.connect()
        writer.write(f"GET {inhabited.path(of('alice', 'ws'))} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.1 400 ")
        assert b"\r\nsec-websocket-version: 13\r\n" in head
        assert b'"code":"bad_request"' in body
    async with socket_of(served):
        pass


# -- intents -----------------------------------------------------------------------------------------------


async def test_an_intent_is_accepted(served: Served, inhabited: WorldClient) -> None:
    """The answer repeats the message's id and names the effect; the agent observes what it did."""
    async with socket_of(served, query="?view_seq=3") as alice:
        await alice.send("intent", id="m1", intent=intent("r1", 3, None))
        found = await alice.receive("accepted")
        uuid = found["uuid"]
        assert found == {
            "type": "accepted",
            "id": "m1",
            "agent_id": "alice",
            "req_id": "r1",
            "global_seq": 4,
            "uuid": uuid,
            "replayed": False,
        }
        assert (await inhabited.get("effects/4")).json()["uuid"] == uuid
        await alice.send("intent", intent=intent("r1", 4))
        again = await alice.receive("accepted")
        assert (again["global_seq"], again["replayed"]) == (4, True)
        assert "id" not in again


async def test_a_refused_intent_says_why(served: Served, inhabited: WorldClient) -> None:
    """A refusal has the problem that HTTP would have answered, and the intent's req_id."""
    async with socket_of(served, query="?view_seq=3") as alice:
        for n, (wrong, code, req_id) in enumerate(
            [
                (intent("r1", payload={}), "invalid_intent", "r1"),
                (intent("r2", agent_id="bob"), "invalid_intent", "r2"),
                (intent("r3", kind="Custom", payload={"kind": "IntentRejected"}), "reserved_kind", "r3"),
                (intent("r4", staleness_threshold=-1), "invalid_intent", "r4"),
                ({"kind": "Speak"}, "invalid_intent", None),
                ([], "invalid_intent", None),
                ({"req_id": "x" * 201}, "invalid_intent", None),
            ]
        ):
            await alice.send("intent", id=n, intent=wrong)
            found = await alice.receive()
            assert (found["type"], found["id"], found["req_id"]) == ("rejected", n, req_id)
            assert (found["problem"]["code"], found["problem"]["status"]) == (code, 422)
            assert found["problem"]["instance"] == inhabited.path(of("alice", "ws"))
    assert (await inhabited.get("")).json()["head_seq"] == 3


async def test_a_list_has_results(served: Served, inhabited: WorldClient) -> None:
    """A list is answered in one message, by each intent's place; an atomic one whole."""
    async with socket_of(served, query="?view_seq=3") as alice:
        several = [intent("r1"), intent("r2", agent_id="bob"), intent("r3", kind="Sing"), intent("r4", agent_id=None)]
        await alice.send("intents", id=1, intents=several)
        found = await alice.receive("results")
        assert found["id"] == 1
        assert "more" not in found
        assert [result.get("code") for result in found["results"]] == [None, "invalid_intent", "invalid_intent", None]
        await alice.send("intents", id=2, intents=[intent("r5"), intent("r6", agent_id="bob")], atomic=True)
        refused = await alice.receive("rejected")
        assert (refused["id"], refused["problem"]["index"], refused["problem"]["path"]) == (2, 1, "$.agent_id")
        await alice.send("intents", id=3, intents=[intent("r5"), intent("r6")], atomic=True)
        assert [result["req_id"] for result in (await alice.receive("results"))["results"]] == ["r5", "r6"]
    assert (await inhabited.get("")).json()["head_seq"] == 7


async def test_many_results_come_in_parts(served: Served, inhabited: WorldClient) -> None:
    """Results that are too many for a frame come in several, each within the limit, none left out."""
    async with socket_of(served, query="?view_seq=3") as alice:
        await alice.send("intents", id="all", intents=[{}] * 400)
        index = 0
        while True:
            text = await alice.connection.recv()
            assert len(text.encode() if isinstance(text, str) else text) <= MAX_BYTES
            found = httpx2.Response(200, content=text).json()
            assert (found["type"], found["id"], found["first"]) == ("results", "all", index)
            index += len(found["results"])
            if not found["more"]:
                break
    assert index == 400


async def test_nothing_waits_for_a_commit(served: Served, inhabited: WorldClient) -> None:
    """While an intent waits, what comes after it is answered; only so many are under way, and then none is read."""
    released = asyncio.Event()
    begun: list[str] = []
    submit = Orchestrator.submit_intent

    async def held(world: Orchestrator, value: dict[str, Any]) -> Any:
        begun.append(value["req_id"])
        await released.wait()
        return await submit(world, value)

    with mock.patch.object(Orchestrator, "submit_intent", held):
        async with socket_of(served, query="?view_seq=3") as alice:
            await alice.send("intent", intent=intent("r0"))
            await alice.send("ping", id=1)
            assert await alice.receive() == {"type": "pong", "id": 1}
            for n in range(1, 2 * IN_FLIGHT):
                await alice.send("intent", intent=intent(f"r{n}"))
            await alice.send("ping", id=2)
            await wait_for(lambda: len(begun) == IN_FLIGHT, "as many as may be are under way")
            assert len(begun) == IN_FLIGHT
            released.set()
            await alice.receive("pong")
            while len(begun) < 2 * IN_FLIGHT:
                await alice.receive("accepted")
    assert begun == [f"r{n}" for n in range(2 * IN_FLIGHT)]


async def test_intents_keep_their_order(served: Served, inhabited: WorldClient) -> None:
    """What one agent sends without waiting becomes effects in the order in which it was sent."""
    async with socket_of(served, query="?view_seq=3") as alice:
        for n in range(300):
            await alice.send("intent", intent=intent(f"r{n}"))
        accepted = [await alice.receive("accepted") for _ in range(300)]
    effects = (await inhabited.get("effects?after_seq=3&limit=1000")).json()["effects"]
    assert [effect["req_id"] for effect in effects] == [f"r{n}" for n in range(300)]
    assert {(each["req_id"], each["global_seq"]) for each in accepted} == {
        (effect["req_id"], effect["global_seq"]) for effect in effects
    }


async def test_sockets_are_counted(own_url: str) -> None:
    """The metrics tell how many sockets are open, and how handshakes were answered."""
    async with serving(own_url) as served, served.client() as client:
        await settle(client)
        await _refused(address(served, "nobody"))
        async with socket_of(served), socket_of(served):
            lines = (await client.get("/metrics")).text.splitlines()
            assert "worldledger_sockets_open 2.0" in lines
            route = 'method="GET",route="/v1/worlds/{world}/agents/{agent_id}/ws"'
            assert f'worldledger_http_requests_total{{{route},status="101"}} 2.0' in lines
            assert f'worldledger_http_requests_total{{{route},status="404"}} 1.0' in lines
        gauge = served.services.metrics.registry.get_sample_value
        await wait_for(lambda: gauge("worldledger_sockets_open") == 0, "both are closed")
