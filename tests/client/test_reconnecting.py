"""Connections that are cut, services that are started again: what was under way goes on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.api.helpers import serving
from tests.cli.helpers import Running
from tests.faults.helpers import free_port
from tests.store.helpers import holding_head
from tests.store.proxy import Proxy
from tests.waiting import wait_for
from worldledger.client import Client, MessageFacade, RemoteHandle, RLFacade, ServiceUnavailableError
from worldledger.client.transport import BlockingTransport, Transport
from worldledger.deltas import ObservationDelta, View
from worldledger.errors import MomentNotFoundError, StartingError, UnknownAgentError, WorldNotFoundError
from worldledger.observation import ObservationPolicy

from .helpers import after, emitted, entity, kinds, same_view, soon, speak, texts


@pytest.fixture
async def proxy(service: str) -> AsyncIterator[Proxy]:
    """Stand between a client and the service."""
    async with Proxy(service).running() as made:
        yield made


@pytest.fixture
async def far(client: Client, proxy: Proxy) -> AsyncIterator[Client]:
    """Talk to the test's world through the proxy; ``client`` talks to it directly."""
    async with Client(f"http://127.0.0.1:{urlsplit(proxy.url).port}", client.world_id, patience=0.3) as made:
        yield made


async def _read(handle: RemoteHandle, until_seq: int) -> tuple[View, list[ObservationDelta]]:
    """Read a handle's observations up to a seq."""
    assert handle.initial_view is not None
    deltas: list[ObservationDelta] = []
    while not deltas or deltas[-1]["view_seq"] < until_seq:
        deltas.append(await soon(handle.next_observation()))
    return after(handle.initial_view, *deltas), deltas


async def test_nothing_is_missed_over_cuts(client: Client, far: Client, proxy: Proxy) -> None:
    """However often the connection is cut, an agent observes everything once, and in order."""
    handle = await far.register_agent("alice", ObservationPolicy())
    reading = asyncio.create_task(_read(handle, 43))
    for n in range(40):
        receipt = await client.broadcast_event(emitted(str(n)) if n % 2 else entity(f"e{n}", n=n))
        if n % 7 == 0:
            proxy.cut_all()
        if n % 10 == 9:
            await wait_for(partial(_has, handle, receipt.global_seq))
    last = await client.broadcast_event(emitted("end"))
    assert last.global_seq == 43
    view, deltas = await reading
    assert [text for delta in deltas for text in texts(delta)] == [*(str(n) for n in range(1, 40, 2)), "end"]
    assert await same_view(client, view)


def _has(handle: RemoteHandle, seq: int) -> bool:
    link = handle._subscription._link
    return link is not None and (link.stream.view_seq or 0) >= seq


async def test_an_intent_whose_answer_was_lost_is_one_effect(
    client: Client, far: Client, proxy: Proxy, shared_url: str
) -> None:
    """An intent under way when the connection is cut is sent again, and answered as the first time."""
    handle = await far.register_agent("alice", ObservationPolicy())
    async with holding_head(shared_url, client.world_id):
        submitting = asyncio.create_task(handle.submit_intent(speak("hello", req_id="r1")))
        link = handle._subscription._link
        assert link is not None
        await wait_for(lambda: bool(link._pending))
        await asyncio.sleep(0.1)  # whether or not it has got there
        proxy.cut_all()
    accepted = await soon(submitting)
    assert accepted.req_id == "r1"
    assert (await kinds(client, until="Speak")).count("Speak") == 1
    await client.broadcast_event(emitted("end"))
    _, deltas = await _read(handle, accepted.global_seq + 1)
    assert [text for delta in deltas for text in texts(delta)] == ["hello", "end"]


async def test_an_intent_waits_for_the_service_to_come_back(client: Client, far: Client, proxy: Proxy) -> None:
    """While the service cannot be reached, what goes over an agent's connection waits for it; HTTP is given up."""
    handle = await far.register_agent("alice", ObservationPolicy())
    proxy.refuse_all()
    proxy.cut_all()
    submitting = asyncio.create_task(handle.submit_intent(speak("hello")))
    with pytest.raises(ServiceUnavailableError) as away:
        await far.view("alice")
    assert away.value.code == "service_unavailable"
    proxy.accept_again()
    accepted = await soon(submitting)
    assert (await client.event_log.get_entries_since(accepted.global_seq - 1))[0].effect["kind"] == "Speak"


async def test_a_generation_outlives_a_cut(client: Client, far: Client, proxy: Proxy) -> None:
    """A live generation is issued again over the next connection, and cancelled when its view goes stale."""
    handle = await far.register_agent("alice", ObservationPolicy())
    token = handle.issue_cancel_token("r1")
    await kinds(client, until="GenerationStarted")
    proxy.cut_all()
    await asyncio.sleep(0)
    assert not token.cancelled
    assert handle.issue_cancel_token("r1") is token
    receipt = await client.broadcast_event(emitted("wait!"))
    await soon(token.wait_cancelled())
    assert token.reason == f"stale_due_to_effect_{receipt.global_seq}"


async def test_what_was_cancelled_meanwhile_is_cancelled(client: Client, far: Client, proxy: Proxy) -> None:
    """A generation that somebody cancelled while the connection was lost is not taken up again."""
    handle = await far.register_agent("alice", ObservationPolicy())
    token = handle.issue_cancel_token("r1")
    other = handle.issue_cancel_token("r2")
    while (await kinds(client, until="GenerationStarted")).count("GenerationStarted") < 2:
        await asyncio.sleep(0.01)
    proxy.refuse_all()
    proxy.cut_all()
    await client.cancel_generation("alice", "r1")
    await kinds(client, until="GenerationCancelled")
    proxy.accept_again()
    await soon(token.wait_cancelled())
    assert token.reason == "user_requested"
    assert not other.cancelled
    other.cancel("enough")
    assert far.generation("alice", "r2") is other


async def test_a_token_cancelled_without_a_connection_is_told_later(client: Client, far: Client, proxy: Proxy) -> None:
    """What was cancelled here while the service was away, it hears of when it is back."""
    handle = await far.register_agent("alice", ObservationPolicy())
    token = handle.issue_cancel_token("r1")
    await kinds(client, until="GenerationStarted")
    proxy.refuse_all()
    proxy.cut_all()
    token.cancel("changed my mind")
    proxy.accept_again()
    found = await kinds(client, until="GenerationCancelled")
    assert found.count("GenerationCancelled") == 1


@asynccontextmanager
async def _service(database_url: str, port: int) -> AsyncIterator[Running]:
    """Run a service in a process of its own; it may be killed."""
    command = ("serve", "--port", str(port), "--no-projections", "--database-url", database_url)
    with Running(*command) as running:
        await asyncio.to_thread(running.line)  # it says that it serves
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_conversation_goes_on_with_the_next_service(database_url: str, how: signal.Signals) -> None:
    """The service is stopped or killed in the middle of a conversation: all end with the views of the log."""
    port = free_port()
    async with Client(f"http://127.0.0.1:{port}", "town", patience=30.0) as client:
        async with _service(database_url, port) as running:
            await client.create_world()
            handles = {name: await client.register_agent(name, ObservationPolicy()) for name in ("A", "B", "C")}
            token = handles["A"].issue_cancel_token("r1")
            reading = {name: asyncio.create_task(_all_texts(handle)) for name, handle in handles.items()}
            first = await handles["B"].submit_intent(speak("one", context_seq=handles["B"].view_seq))
            await soon(token.wait_cancelled())
            live = client.issue_cancel_token("C", "r2", first.global_seq)
            await asyncio.to_thread(running.end, how)
            waiting = asyncio.create_task(client.submit_intent(_of("A", "two", first.global_seq)))
        async with _service(database_url, port):
            second = await soon(waiting)
            await soon(live.wait_cancelled())
            assert (live.reason or "").startswith("stale_due_to")
            await client.broadcast_event(emitted("end"))
            for name, task in reading.items():
                view, said = await soon(task)
                assert said == ["one", "two", "end"]
                assert await same_view(client, view), name
            assert second.global_seq > first.global_seq


def _of(agent_id: str, text: str, seq: int) -> dict[str, Any]:
    return speak(text, agent_id=agent_id, req_id=text, context_seq=seq)


async def _all_texts(handle: RemoteHandle) -> tuple[View, list[str]]:
    assert handle.initial_view is not None
    view, said = handle.initial_view, list[str]()
    while "end" not in said:
        delta = await handle.next_observation()
        view = after(view, delta)
        said += texts(delta)
    return view, said


async def test_facades_go_on_over_a_restart(database_url: str) -> None:
    """Handlers and steps go on with the next service: no message is lost and none comes twice."""
    heard: list[str] = []
    async with serving(database_url) as first:
        port = urlsplit(first.url).port
        client = Client(first.url, "town", patience=30.0)
        await client.create_world()
        await client.register_agent("alice", ObservationPolicy())
        await client.register_agent("bob", ObservationPolicy())
        messages, steps = MessageFacade(client), RLFacade(client)
        await messages.subscribe("alice", None, lambda event: heard.append(event["payload"]["text"]))
        view = await steps.view("bob")
        _, delta = await soon(steps.step("bob", speak("one")))
        view = after(view, delta)
        await wait_for(lambda: heard == ["one"])
    stepping = asyncio.create_task(steps.step("bob", speak("two")))
    async with serving(database_url, port=port):
        _, delta = await soon(stepping)
        view = after(view, delta)
        await messages.emit("Note", {"text": "three"}, "carol")
        await wait_for(lambda: heard == ["one", "two", "three"])
        assert await same_view(client, view)
        messages.close()
        steps.close()
        await client.close()


# -- what does not fit into a message ----------------------------------------------------------------------


async def test_what_is_too_large_for_a_message_comes_and_goes_all_the_same(client: Client) -> None:
    """A large intent goes over HTTP; a large observation comes as the whole view, and its event by the log."""
    handle = await client.register_agent("alice", ObservationPolicy())
    bob = await client.register_agent("bob", ObservationPolicy())
    assert handle.initial_view is not None
    async with MessageFacade(client) as facade:
        heard: list[int] = []
        await facade.subscribe("alice", "Speak", lambda event: heard.append(len(event["payload"]["text"])))
        token = bob.issue_cancel_token("r1")
        accepted = await bob.submit_intent(speak("x" * 100_000, req_id="r1"))
        delta = await soon(handle.next_observation())
        assert delta["view_seq"] == accepted.global_seq
        assert delta["events_dropped"] >= 1
        view = after(handle.initial_view, delta)
        await client.broadcast_event(entity("library", books=["y" * 1000] * 100))
        view = after(view, await soon(handle.next_observation()))
        assert len(view.visible_entities["library"]["books"]) == 100
        await client.broadcast_event(emitted("small"))
        view = after(view, await soon(handle.next_observation()))
        assert await same_view(client, view)
        await wait_for(lambda: heard == [100_000])
        assert not token.cancelled
    large = await client.agent("alice", view_seq=view.view_seq)
    assert large.initial_view == view
    subscription = await client.subscribe("alice")
    assert subscription.view == view
    subscription.close()


async def test_one_who_does_not_read_is_bounded(service: str, client: Client) -> None:
    """Observations that nobody reads collapse here; the reader comes to the same view."""
    async with Client(service, client.world_id, max_queued=4) as other:
        handle = await other.register_agent("alice", ObservationPolicy())
        for n in range(50):
            last = await client.broadcast_event(entity(f"e{n}", n=n))
        await wait_for(lambda: _has(handle, last.global_seq))
        assert len(handle._subscription.deltas) <= 4
        view, deltas = await _read(handle, last.global_seq)
        assert len(deltas) <= 5
        assert await same_view(client, view)


# -- what is refused ---------------------------------------------------------------------------------------


async def test_what_the_service_refuses_is_raised(client: Client) -> None:
    """Unknown agents, worlds and moments, and what exceeds a maximum, are told by their errors, at once."""
    await client.register_agent("alice", ObservationPolicy())
    with pytest.raises(UnknownAgentError):
        await soon(client.subscribe("nobody"))
    with pytest.raises(MomentNotFoundError):
        await soon(client.subscribe("alice", view_seq=10_000))
    with pytest.raises(WorldNotFoundError):
        await soon(client.world("nowhere").subscribe("alice"))
    token = client.issue_cancel_token("nobody", "r1")
    await soon(token.wait_cancelled())
    assert token.reason == "connection_lost"
    await client.set_staleness(max_staleness_threshold=1)
    patient = client.issue_cancel_token("alice", "r1", staleness_threshold=2)
    await soon(patient.wait_cancelled())
    assert patient.reason == "refused: invalid_intent"


async def test_a_service_that_is_not_there_is_told_after_a_while() -> None:
    """A call over HTTP gives up after the client's patience, and says so."""
    async with Client(f"http://127.0.0.1:{free_port()}", patience=0.2) as client:
        with pytest.raises(ServiceUnavailableError, match="cannot be reached") as away:
            await client.create_world()
        assert "outcome" not in away.value.details


async def test_a_service_that_is_starting_is_waited_for() -> None:
    """What a service refuses because it is not ready is asked again, whatever it is; patience ends that, too."""
    starting = b'{"code": "starting", "detail": "the service is starting: it connects to the database"}'

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        status, body = next(answers)
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    answers = iter([("503 Service Unavailable", starting), ("200 OK", b"[1]")] * 2 + [("503 Away", starting)])
    patient, hasty = Transport(url, timeout=5, patience=5), Transport(url, timeout=5, patience=0)
    blocking = BlockingTransport(url, timeout=5, patience=5)
    async with server:
        assert (await patient.call("POST", "/", again=False)).value == [1]
        assert await asyncio.to_thread(blocking.call, "POST", "/") == [1]
        with pytest.raises(StartingError, match="it connects to the database"):
            await hasty.call("POST", "/", again=False)
    await patient.close()
    await hasty.close()
    blocking.close()


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8000", "localhost:8000", "ws://town", "http://", "http://:8000", "http://town:x", "http://[::1", ""],
)
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    """A URL without http(s):// or a host is refused when the client is made."""
    with pytest.raises(ValueError, match="no address of a service, such as http://"):
        Client(url)


async def test_something_else_that_answers_is_told() -> None:
    """A server that is no Worldledger is refused by what it says, not waited for."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 418 I'm a teapot\r\nContent-Length: 5\r\nConnection: close\r\n\r\nshort")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Client(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(Exception, match="status 418") as told:
            await client.view("alice")
        assert getattr(told.value, "code", None) == "http_418"
        with pytest.raises(Exception, match="status 418"):
            await soon(client.subscribe("alice"))


async def test_worlds_of_a_service_share_its_connections(service: str, client: Client) -> None:
    """Another world is reached over the same client, and closed with it."""
    names = [client.world_id, f"{client.world_id}-village"]
    other = client.world(names[1])
    assert other is client.world(names[1])
    assert client.world(client.world_id) is client
    assert await other.create_world(ruleset="sandbox")
    assert not await other.create_world()
    await other.register_agent("alice", ObservationPolicy())
    assert list(await other.agents()) == ["alice"]
    assert list(await client.agents()) == []
    async with httpx2.AsyncClient(base_url=service) as http:
        listed = (await http.get("/v1/worlds", params={"limit": 1000})).json()["worlds"]
    assert [name for name in (each["world_id"] for each in listed) if name.startswith(names[0])] == names
