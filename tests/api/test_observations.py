"""Observations over HTTP: by long poll and as server-sent events, nothing lost and nothing twice; past events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from tests.waiting import wait_for

from .helpers import Event, Served, Tail, WorldClient, draft, problem, serving, started
from .living import INTENTS, Watched, intent, new_world, of, register, settle, speak

pytestmark = pytest.mark.asyncio(loop_scope="module")

EFFECTS = "effects"
POLL = of("alice", "observations")
EVENTS = of("alice", "events")


def created(name: str) -> dict[str, Any]:
    """Make the creation of an entity, its members in no order."""
    data = {"size": 1, "age": {"years": 5, "days": 3}, "colour": name}
    return draft(kind="EntityCreated", payload={"entity_id": name, "entity_data": data})


async def _poll(client: WorldClient, **query: Any) -> dict[str, Any]:
    response = await client.get(POLL, params=query)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


# -- long poll ---------------------------------------------------------------------------------------------


async def test_polling_keeps_a_view(town: WorldClient) -> None:
    """Beginning with the view that is given, each answer leads on to the next, whatever its size."""
    found = await _poll(town)
    watched = Watched(found["view"])
    assert (found["deltas"], found["view_seq"]) == ([], 2)
    for n in range(12):
        await speak(town, f"r{n}", ("alice", "bob")[n % 2])
    while watched.view["view_seq"] < 15:
        found = await _poll(town, after=watched.view["view_seq"], limit=5, wait=30)
        assert "view" not in found
        assert 1 <= len(found["deltas"]) <= 5
        for delta in found["deltas"]:
            watched.apply(delta)
        assert found["view_seq"] == watched.view["view_seq"]
    assert (await town.get(of("alice", "view"))).json() == watched.view


async def test_a_poll_waits_for_what_comes(town: WorldClient) -> None:
    """With `wait` the answer comes as soon as there is something, and without anything when the time is over."""
    assert await _poll(town, after=3, wait=0.01) == {"deltas": [], "view_seq": 3}
    waiting = asyncio.create_task(_poll(town, after=3, wait=30))
    await asyncio.sleep(0)
    seq = await speak(town, "r1", "bob")
    found = await waiting
    assert found["view_seq"] == seq
    (event,) = found["deltas"][0]["events"]
    assert (event["kind"], event["source_id"], event["payload"]) == ("Speak", "bob", {"text": "this is r1"})


async def test_what_is_not_observed_wakes_nobody(town: WorldClient) -> None:
    """An effect that the agent may not see is in no answer, and ends no wait."""
    await register(town, "alice", policy={"name": "default", "config": {"distance_limit": 5}})
    for name, to in (("alice", [0, 0]), ("bob", [100, 0])):
        await town.post(INTENTS, json=intent("m", agent_id=name, kind="Move", payload={"to": to}))
    after = (await _poll(town))["view_seq"]
    waiting = asyncio.create_task(_poll(town, after=after, wait=30))
    await speak(town, "far", "bob")
    near = await speak(town, "near", "alice")
    found = await waiting
    assert [delta["view_seq"] for delta in found["deltas"]] == [near]


async def test_polling_goes_on_over_a_restart(own_url: str) -> None:
    """Another service goes on after the position that the first one gave, with the same observations."""
    seen: list[list[dict[str, Any]]] = []
    for run in range(2):
        async with started(own_url) as client:
            if run == 0:
                await settle(client)
                for n in range(10):
                    await speak(client, f"r{n}", "bob")
            seen.append((await _poll(client, after=6))["deltas"])
    assert seen[0] == seen[1]
    assert [delta["view_seq"] for delta in seen[1]] == list(range(7, 14))


async def test_a_client_that_starts_from_nothing(town: WorldClient) -> None:
    """After 0, or whatever was before the agent was there, the first delta brings all of its first view."""
    for n in range(3):
        await town.post(EFFECTS, json=created(f"e{n}"))
    await register(town, "carl")
    for n in range(3):
        await town.post(EFFECTS, json=created(f"f{n}"))
    view = (await town.get(of("carl", "view"))).json()
    poll = of("carl", "observations")
    for after in (0, 3, 6):
        nothing = {"agent_id": "carl", "view_seq": 0, "visible_entities": {}, "visible_relationships": {}}
        watched = Watched(nothing)
        found = (await town.get(poll, params={"after": after, "limit": 2})).json()
        found["deltas"] += (await town.get(poll, params={"after": found["view_seq"]})).json()["deltas"]
        for delta in found["deltas"]:
            watched.apply(delta)
        assert [delta["view_seq"] for delta in found["deltas"]] == [7, 8, 9, 10]
        assert watched.view == view
    found = (await town.get(poll, params={"after": 7})).json()
    assert [delta["view_seq"] for delta in found["deltas"]] == [8, 9, 10]


async def test_the_same_is_told_in_the_same_bytes(own_url: str) -> None:
    """A view and its deltas are the same bytes, kept in memory, folded from the log or from a snapshot."""
    view, poll = of("alice", "view"), of("alice", "observations")
    told: list[list[bytes]] = []
    for run in range(3):
        async with started(own_url) as client:
            if run == 0:
                await new_world(client)
                await register(client, "alice")
                for name in "zay":
                    await client.post(EFFECTS, json=created(name))
                told.append([(await client.get(view)).content])
            if run == 1:
                await client.post("snapshots")
            asked = [view, view, poll, poll]
            where = [{"at_seq": 5}, {"at_seq": 4}, {"after": 2}, {"after": 0}]
            told.append(
                [(await client.get(each, params=which)).content for each, which in zip(asked, where, strict=True)]
            )
            if run == 1:
                await client.post(EFFECTS, json=created("b"))
    assert told[0][0] == told[1][0]
    assert told[1] == told[2]
    told[3][2:] = [each[: each.rindex(b',{"view_seq":7')] for each in told[3][2:]]
    told[1][2:] = [each[: each.rindex(b'],"view_seq"')] for each in told[1][2:]]
    assert told[1] == told[3]


async def test_a_position_that_is_none_is_refused(town: WorldClient) -> None:
    """A position beyond the head is refused, naming the head; and so is what is no position."""
    problem(await town.get(POLL, params={"after": 99}), 409, "position_ahead", parameter="after", head_seq=3)
    beyond = {"Last-Event-ID": "99"}
    problem(await town.get(POLL, headers=beyond), 409, "position_ahead", parameter="Last-Event-ID", head_seq=3)
    problem(await town.get(POLL, headers={"Last-Event-ID": "x"}), 422, "invalid_parameter", parameter="Last-Event-ID")
    for parameter, text in (("after", "x"), ("after", "-1"), ("limit", "0"), ("wait", "31"), ("wait", "inf")):
        problem(await town.get(POLL, params={parameter: text}), 422, "invalid_parameter", parameter=parameter)
    problem(await town.get(f"{POLL}?after=1&after=2"), 422, "invalid_parameter", parameter="after")


async def test_a_large_backlog_comes_in_parts(town: WorldClient) -> None:
    """An answer ends with the observation that makes it large; the rest is in the next."""
    for n in range(8):
        await speak(town, f"r{n}", "bob", payload={"text": "x" * 900_000})
    sizes: list[int] = []
    after = 3
    while after < 11:
        found = await _poll(town, after=after, wait=30)
        sizes.append(len(found["deltas"]))
        after = found["view_seq"]
    assert sum(sizes) == 8
    assert len(sizes) > 1


async def test_long_patches_replace_the_view(served: Served) -> None:
    """By long poll and as events: a patch that has too many operations is two that replace the view."""
    async with served.client() as client:
        await new_world(client, max_patch_ops=3)
        await register(client, "alice")
        await client.post(EFFECTS, json=created("e"))
        watched = Watched((await client.get(of("alice", "view"), params={"at_seq": 3})).json())
        for count in (3, 4):
            patch = [{"op": "add", "path": f"/f{n}", "value": count} for n in range(count)]
            changed = draft(kind="EntityUpdated", payload={"entity_id": "e", "patch": patch})
            assert (await client.post(EFFECTS, json=changed)).status_code == 201
        async with _watching(client, after=3) as tail:
            events = await tail.events(2)
        found = await _poll(client, after=3)
        assert [_data(event) for event in events] == found["deltas"]
        for delta in found["deltas"]:
            watched.apply(delta)
        short, long = found["deltas"]
        assert len(short["patches"]) == 3
        assert [(each["op"], each["path"]) for each in long["patches"]] == [
            ("replace", "/visible_entities"),
            ("replace", "/visible_relationships"),
        ]
        assert (await client.get(of("alice", "view"))).json() == watched.view


async def test_answers_are_for_the_agent_alone(town: WorldClient) -> None:
    """No cache keeps observations, and those of the past only the client's own."""
    assert (await town.get(POLL)).headers["cache-control"] == "private, no-store"
    assert (await town.get(EVENTS)).headers["cache-control"] == "private, no-cache"


async def test_a_poll_ends_with_its_client(served: Served, remote: WorldClient) -> None:
    """A client that leaves while it waits leaves nothing behind."""
    await register(remote, "alice")
    world = await served.services.worlds.get(served.world)
    attachment = await world._observing.attach("alice")
    _, writer = await served.connect()
    writer.write(f"GET {remote.path(POLL)}?wait=30 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await wait_for(lambda: len(attachment.subscriptions) == 1, "the poll waits")
    writer.close()
    await wait_for(lambda: len(attachment.subscriptions) == 0, "it has ended")


async def test_polls_and_streams_end_with_the_service(own_url: str) -> None:
    """A stopping service answers those who wait, with what there is, and ends open streams properly, at once."""
    async with serving(own_url) as served, served.client() as client:
        await settle(client)
        world = await served.services.worlds.get(served.world)
        attachment = await world._observing.attach("alice")
        async with _watching(client) as tail:
            await tail.events(1)
            waiting = asyncio.create_task(client.get(POLL, params={"after": 3, "wait": 30}))
            await wait_for(lambda: len(attachment.subscriptions) == 2, "the poll waits")
            stopping = asyncio.create_task(served.stop())
            assert await tail.block() == []
            assert (await waiting).json() == {"deltas": [], "view_seq": 3}
            await stopping


# -- server-sent events ------------------------------------------------------------------------------------


@asynccontextmanager
async def _watching(client: WorldClient, headers: dict[str, str] | None = None, **query: Any) -> AsyncIterator[Tail]:
    """Open the stream of alice's observations, and begin once it is known to follow."""
    accept = {"Accept": "text/event-stream", **(headers or {})}
    async with client.stream("GET", POLL, params=query, headers=accept) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        tail = Tail(response)
        assert (await tail.block())[0].startswith(": after ")
        yield tail


def _data(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(event.data)
    return found


async def test_a_stream_keeps_a_view(served: Served, remote: WorldClient) -> None:
    """A stream begins with the view and goes on with what changes it, each with its position as id."""
    await register(remote, "alice", "bob")
    async with _watching(remote) as tail:
        (first,) = await tail.events(1)
        assert (first.event, first.id) == ("view", 2)
        watched = Watched(_data(first))
        context = 3
        for n in range(10):
            context = await speak(remote, f"r{n}", ("alice", "bob")[n % 2], context_seq=context)
        for event in await tail.events(10):
            assert (event.event, event.id) == ("observation", _data(event)["view_seq"])
            watched.apply(_data(event))
    assert watched.view == (await remote.get(of("alice", "view"))).json()


async def test_a_stream_goes_on_where_it_was_cut(served: Served, remote: WorldClient) -> None:
    """After Last-Event-ID, or `after`, everything that came since is sent, once; no view is needed then."""
    await register(remote, "alice", "bob")
    seqs = [3]
    for n in range(5):
        seqs.append(await speak(remote, f"r{n}", "bob", context_seq=seqs[-1]))
    async with _watching(remote, {"Last-Event-ID": str(seqs[2])}, after=2) as tail:
        assert [event.id for event in await tail.events(3)] == seqs[3:]
    async with _watching(remote, after=seqs[4]) as tail:
        assert [event.id for event in await tail.events(1)] == seqs[5:]
        seqs.append(await speak(remote, "last", "bob", context_seq=seqs[-1]))
        assert [event.id for event in await tail.events(1)] == seqs[6:]


async def test_a_stream_that_ends_is_let_go(served: Served, remote: WorldClient) -> None:
    """A reader that has left is queued nothing any more."""
    await register(remote, "alice")
    world = await served.services.worlds.get(served.world)
    attachment = await world._observing.attach("alice")
    async with _watching(remote) as tail:
        await tail.events(1)
        assert len(attachment.subscriptions) == 1
    await wait_for(lambda: len(attachment.subscriptions) == 0, "it has ended")


async def test_a_silent_stream_is_kept_alive(
    served: Served, remote: WorldClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is nothing to tell a comment is sent, for those who close connections that are silent."""
    monkeypatch.setitem(served.services.__dict__, "keepalive", 0.01)
    await register(remote, "alice")
    async with _watching(remote, after=2) as tail:
        assert await tail.block() == [": still here"]
        assert await tail.block() == [": still here"]


# -- events of the past ------------------------------------------------------------------------------------


async def test_past_events_are_paged(town: WorldClient) -> None:
    """Events come in pages that lead from one to the next, each event once, up to the head."""
    seqs = [await speak(town, f"r{n}", ("alice", "bob")[n % 2]) for n in range(7)]
    found: list[int] = []
    response = await town.get(EVENTS, params={"limit": 3})
    while True:
        page = response.json()
        found += [event["global_seq"] for event in page["events"]]
        if page["next_after_seq"] is None:
            break
        assert len(page["events"]) == 3
        assert page["next_after_seq"] == page["through_seq"]
        response = await town.get(response.headers["link"].partition(">")[0].removeprefix("<"))
    assert found == seqs
    assert page["through_seq"] == seqs[-1]


async def test_past_events_are_those_that_could_be_seen(town: WorldClient) -> None:
    """Events are as the agent's policy showed them then; kinds and a stretch of the log can be asked for."""
    await register(town, "alice", policy={"name": "default", "config": {"field_visibility": {"secret": False}}})
    custom = {"kind": "Sang", "song": "la", "secret": "x"}
    for n, kind in enumerate(("Speak", "Custom", "Speak", "Custom")):
        payload = {"text": "hi", "secret": "x"} if kind == "Speak" else custom
        await town.post(INTENTS, json=intent(f"r{n}", agent_id="bob", kind=kind, payload=payload))
    await town.post(INTENTS, json=intent("m", agent_id="bob", kind="Move", payload={"to": [1, 1]}))
    everything = (await town.get(EVENTS)).json()["events"]
    assert [event["kind"] for event in everything] == ["Speak", "Sang", "Speak", "Sang"]
    assert all("secret" not in event["payload"] for event in everything)
    sung = (await town.get(EVENTS, params={"kind": "Sang", "after_seq": everything[1]["global_seq"]})).json()
    assert sung["events"] == everything[3:]
    until = (await town.get(EVENTS, params={"until_seq": everything[1]["global_seq"]})).json()
    assert until["events"] == everything[:2]
    assert (await town.get(EVENTS, params={"until_seq": 10_000})).json()["events"] == everything


async def test_past_events_begin_with_the_registration(client: WorldClient) -> None:
    """What happened before an agent was registered it could not see."""
    await new_world(client)
    await client.post(EFFECTS, json=[draft(n) for n in range(5)])
    await register(client, "alice")
    await client.post(EFFECTS, json=draft(7))
    found = (await client.get(EVENTS)).json()["events"]
    assert [event["payload"]["n"] for event in found] == [7]
    problem(await client.get(EVENTS, params={"after_seq": 9}), 409, "position_ahead", head_seq=8)
    problem(await client.get(EVENTS, params={"kind": "a\0"}), 422, "invalid_parameter", parameter="kind")


async def test_observations_are_counted(town: WorldClient) -> None:
    """The metrics tell how many observations were sent."""

    async def counted() -> float:
        lines = (await town.get("/metrics")).text.splitlines()
        (line,) = (line for line in lines if line.startswith("worldledger_observations_sent_total "))
        return float(line.split()[1])

    for n in range(4):
        await speak(town, f"r{n}", "bob")
    before = await counted()
    await _poll(town, after=3)
    assert await counted() == before + 4
