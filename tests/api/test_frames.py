"""Frames: the states of a world, and the views of an agent, over a range."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import asyncpg
import httpx2
import orjson
import pytest
import pytest_asyncio
from worldledger_sandbox.rules import Sandbox
from worldledger_service.api.context import Services
from worldledger_service.runtime.frames import coarse
from worldledger_service.store.states import States

from tests import frames
from tests.cli.helpers import UNGUARDED, forgery
from worldledger.frames import BLOCK
from worldledger.world import state_text

from .helpers import draft, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

VIEW = ("visible_entities", "visible_relationships")


async def _post(client: httpx2.AsyncClient, path: str, body: Any) -> Any:
    response = await client.post(path, json=body)
    assert response.status_code in {200, 201}, response.text
    return response.json()


def _move(n: int, source: str = "a1", **fields: Any) -> dict[str, Any]:
    return draft(**{"kind": "Move", "payload": {"to": [n, 0]}, "source_id": source, "sim_time": float(n), **fields})


@pytest_asyncio.fixture(loop_scope="module")
async def peopled(client: httpx2.AsyncClient, world: str) -> str:
    """Return a world of 42 effects: two move, one speaks, two are related, and alice is registered with seq 22."""
    for beginning in (0, 20):
        drafts = [
            *(_move(n, f"a{n % 2}") for n in range(beginning, beginning + 16)),
            draft(kind="Speak", payload={"text": f"from {beginning}"}, source_id="a1", sim_time=beginning + 16.0),
            draft(kind="Interact", payload={"target_id": "a0"}, source_id="a1", sim_time=beginning + 16.0),
            draft(kind="Weather", payload={}, sim_time=beginning + 16.0),
            draft(kind="EntityRemoved", payload={"entity_id": "a0"}, sim_time=beginning + 16.5),
        ]
        await _post(client, f"/v1/worlds/{world}/effects", drafts)
        if not beginning:
            await _register(client, world, "alice")
    return world


async def _register(client: httpx2.AsyncClient, world: str, agent: str, **config: Any) -> None:
    policy = {"name": "default", "config": config}
    await _post(client, f"/v1/worlds/{world}/agents", {"agent_id": agent, "policy": policy})


async def _get(client: httpx2.AsyncClient, path: str, **params: Any) -> Any:
    response = await client.get(path, params=params)
    assert response.status_code == 200, response.text
    return response.json()


async def _assert_states(client: httpx2.AsyncClient, world: str, found: Any) -> list[int]:
    """Compare frames with the states that the service answers one by one; return their seqs."""
    keyframe = found["keyframe"]
    state = await _get(client, f"/v1/worlds/{world}/state", at_seq=keyframe["global_seq"])
    assert {name: keyframe[name] for name in ("checksum", "state_digest", "state")} == {
        name: state[name] for name in ("checksum", "state_digest", "state")
    }
    assert keyframe["kind"] == state["state"]["metadata"]["last_effect_kind"]
    assert (found["ruleset"], found["ruleset_version"]) == (state["ruleset"], state["ruleset_version"])
    seqs = []
    for seq, text in frames.read(keyframe["state"], found):
        at = await client.get(f"/v1/worlds/{world}/state?at_seq={seq}")
        assert text == at.content.partition(b'"state":')[2][:-1], seq
        seqs.append(seq)
    return seqs


async def test_frames_are_the_states_of_a_range(client: httpx2.AsyncClient, peopled: str) -> None:
    """A block begins with the state at from_seq and leads through every effect to its end, byte for byte."""
    found = await _get(client, f"/v1/worlds/{peopled}/frames")
    assert [found[name] for name in ("world_id", "from_seq", "to_seq", "every", "next_from_seq", "fork_of")] == [
        peopled,
        1,
        42,
        1,
        None,
        None,
    ]
    assert await _assert_states(client, peopled, found) == list(range(2, 43))
    some = await _get(client, f"/v1/worlds/{peopled}/frames", from_seq=7, to_seq=12)
    assert (some["from_seq"], some["to_seq"], some["next_from_seq"]) == (7, 12, None)
    assert await _assert_states(client, peopled, some) == list(range(8, 13))
    last = await _get(client, f"/v1/worlds/{peopled}/frames", from_seq=42, to_seq=1000)
    assert (last["frames"]["seq"], last["paths"], last["patches"]["frame"]) == ([], [], [])


async def test_an_answer_ends_with_its_block(client: httpx2.AsyncClient, world: str) -> None:
    """Blocks are aligned, and say where the next one begins; no answer goes beyond the end of its block."""
    await _post(client, f"/v1/worlds/{world}/effects", [_move(n) for n in range(BLOCK + 9)][:900])
    await _post(client, f"/v1/worlds/{world}/effects", [_move(n) for n in range(900, BLOCK + 9)])
    response = await client.get(f"/v1/worlds/{world}/frames?from_seq=1000")
    first = response.json()
    assert (first["to_seq"], first["next_from_seq"]) == (BLOCK, BLOCK + 1)
    assert response.headers["link"] == f'</v1/worlds/{world}/frames?from_seq={BLOCK + 1}>; rel="next"'
    assert first["frames"]["seq"] == list(range(1001, BLOCK + 1))
    second = await _get(client, f"/v1/worlds/{world}/frames", from_seq=first["next_from_seq"])
    assert (second["from_seq"], second["to_seq"], second["next_from_seq"]) == (BLOCK + 1, BLOCK + 10, None)
    assert await _assert_states(client, world, second) == list(range(BLOCK + 2, BLOCK + 11))
    within = await _get(client, f"/v1/worlds/{world}/frames", from_seq=1020, to_seq=BLOCK)
    assert within["next_from_seq"] is None


async def test_a_block_of_large_effects_ends_early(client: httpx2.AsyncClient, peopled: str) -> None:
    """Where effects are large an answer has fewer of them, and says where to go on."""
    with (
        mock.patch("worldledger_service.runtime.frames._BLOCK_BYTES", 1),
        mock.patch("worldledger_service.store.reader._MOST_ROWS", 5),
    ):
        found = await _get(client, f"/v1/worlds/{peopled}/frames")
    assert (found["to_seq"], found["next_from_seq"]) == (6, 7)
    assert found["frames"]["seq"] == [2, 3, 4, 5, 6]


async def test_what_cannot_be_a_range(client: httpx2.AsyncClient, peopled: str) -> None:
    """A range begins within the log and does not end before; there is one way to say how far frames are apart."""
    path = f"/v1/worlds/{peopled}/frames"
    problem(await client.get(f"{path}?from_seq=43"), 404, "moment_not_found", head_seq=42)
    problem(await client.get(f"{path}?from_seq=5&to_seq=4"), 422, "invalid_parameter", parameter="to_seq")
    problem(await client.get(f"{path}?every=5&frames=5"), 422, "invalid_parameter", parameter="frames")
    problem(await client.get(f"{path}?from_seq=0"), 422, "invalid_parameter", parameter="from_seq")
    problem(await client.get("/v1/worlds/nowhere/frames"), 404, "world_not_found")


async def test_frames_that_are_known_are_not_folded_again(client: httpx2.AsyncClient, peopled: str) -> None:
    """The ETag names the range, the chain and the ruleset's version: if it still holds, nothing is folded for a 304."""
    for query in ("frames", "frames?from_seq=3&to_seq=9", "agents/alice/frames?from_seq=22", "frames?every=10"):
        response = await client.get(f"/v1/worlds/{peopled}/{query}")
        assert response.status_code == 200
        assert response.headers["cache-control"] == "private, no-cache"
        tag = {"If-None-Match": response.headers["etag"]}
        with mock.patch.object(States, "base_at", side_effect=AssertionError("folded")):
            again = await client.get(f"/v1/worlds/{peopled}/{query}", headers=tag)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag["If-None-Match"])
        with mock.patch.object(Sandbox, "version", Sandbox.version + 1):
            other = await client.get(f"/v1/worlds/{peopled}/{query}", headers=tag)
        assert (other.status_code, other.json()["ruleset_version"]) == (200, Sandbox.version + 1)
    fixed, growing = [
        {"If-None-Match": (await client.get(f"/v1/worlds/{peopled}/frames{query}")).headers["etag"]}
        for query in ("?to_seq=9", "")
    ]
    await _post(client, f"/v1/worlds/{peopled}/effects", _move(99, sim_time=99.0))
    assert (await client.get(f"/v1/worlds/{peopled}/frames?to_seq=9", headers=fixed)).status_code == 304
    assert (await client.get(f"/v1/worlds/{peopled}/frames", headers=growing)).status_code == 200


async def test_coarse_frames_are_made_once(client: httpx2.AsyncClient, peopled: str) -> None:
    """Coarse frames are made for the first of several requests, and kept until the world has grown."""
    path = f"/v1/worlds/{peopled}/frames?every=10"
    with mock.patch("worldledger_service.api.frames.coarse", side_effect=coarse) as made:
        first, second = await asyncio.gather(client.get(path), client.get(path))
        third = await client.get(path)
        assert made.call_count == 1
        assert first.status_code == 200
        assert first.content == second.content == third.content
        await _post(client, f"/v1/worlds/{peopled}/effects", _move(99, sim_time=99.0))
        grown = await client.get(path)
        assert made.call_count == 2
    assert grown.headers["etag"] != first.headers["etag"]


async def test_a_fork_says_where_its_past_is(client: httpx2.AsyncClient, peopled: str) -> None:
    """A fork's first keyframe has the parent's state at the fork point, its frames are its own; its past is named."""
    fork = f"{peopled}-f"
    await _post(client, "/v1/worlds", {"world_id": fork, "fork_of": {"world_id": peopled, "at": "seq:9"}})
    await _post(client, f"/v1/worlds/{fork}/effects", [_move(n, sim_time=90.0 + n) for n in range(3)])
    found = await _get(client, f"/v1/worlds/{fork}/frames")
    assert found["fork_of"] == {"world_id": peopled, "global_seq": 9}
    before = await _get(client, f"/v1/worlds/{peopled}/state", at_seq=9)
    assert found["keyframe"]["state"]["entities"] == before["state"]["entities"] != {}
    assert await _assert_states(client, fork, found) == list(range(2, found["to_seq"] + 1))


async def test_a_log_that_was_tampered_with_has_no_frames(
    client: httpx2.AsyncClient, shared_url: str, peopled: str
) -> None:
    """Frames are of effects that are chained; what was changed is named, as for states."""
    connection = await asyncpg.connect(shared_url)
    try:
        for statement in forgery(peopled, "WorldCreated"):
            await connection.execute(statement)
    finally:
        await connection.close()
    problem(await client.get(f"/v1/worlds/{peopled}/frames"), 500, "tampered")
    assert (await client.get(f"/v1/worlds/{peopled}/frames?to_seq=20")).status_code == 200


async def test_an_effect_that_is_none_ends_an_agent_s_frames(
    client: httpx2.AsyncClient, shared_url: str, peopled: str
) -> None:
    """Also where it lies before the agent was registered, the frames of which look for that."""
    connection = await asyncpg.connect(shared_url)
    try:
        for text in ("null", "[]", '"\\u0000"', "{}"):
            change = f"update effects set effect = '{text}' where world_id = '{peopled}' and global_seq = 9"
            for statement in (UNGUARDED, change):
                await connection.execute(statement)
            problem(await client.get(f"/v1/worlds/{peopled}/agents/alice/frames"), 500, "tampered", global_seq=9)
    finally:
        await connection.close()


# -- views of an agent -------------------------------------------------------------------------------------------


async def _assert_views(client: httpx2.AsyncClient, world: str, agent: str, found: Any) -> list[int]:
    """Compare frames with the views that the service answers one by one; return their seqs."""

    async def at(seq: int) -> Any:
        return await _get(client, f"/v1/worlds/{world}/agents/{agent}/view", at_seq=seq)

    keyframe = found["keyframe"]
    view = await at(keyframe["global_seq"])
    assert keyframe["view"] == view
    told = [view["view_seq"], *sorted([*found["frames"]["seq"], *found["observed_seqs"]])]
    assert told == sorted({*told})
    document = {name: view[name] for name in VIEW}
    texts = {keyframe["global_seq"]: state_text(document), **dict(frames.read(document, found))}
    now = b""
    for seq in range(found["from_seq"], found["to_seq"] + 1):
        now = texts.get(seq, now)
        there = await at(seq)
        assert now == state_text({name: there[name] for name in VIEW}), seq
        assert there["view_seq"] == max(each for each in told if each <= seq)
    return found["frames"]["seq"]  # type: ignore[no-any-return]


async def test_frames_of_an_agent_are_its_views(client: httpx2.AsyncClient, peopled: str) -> None:
    """From the agent's registration on, the frames lead from view to view; what it does not see has no frame."""
    await _register(client, peopled, "near", distance_limit=3.0)
    await _post(client, f"/v1/worlds/{peopled}/effects", [_move(n, "far", sim_time=50.0 + n) for n in range(9)])
    path = f"/v1/worlds/{peopled}/agents"
    found = await _get(client, f"{path}/alice/frames")
    assert (found["agent_id"], found["from_seq"], found["to_seq"], found["next_from_seq"]) == ("alice", 22, 52, None)
    seqs = await _assert_views(client, peopled, "alice", found)
    assert 41 not in seqs  # Weather
    assert set(range(44, 53)) <= set(seqs)
    some = await _get(client, f"{path}/alice/frames", from_seq=30, to_seq=36)
    assert await _assert_views(client, peopled, "alice", some) == list(range(31, 37))
    await _assert_views(client, peopled, "near", await _get(client, f"{path}/near/frames", from_seq=43))


async def test_what_an_agent_remembers_is_in_its_frames(client: httpx2.AsyncClient, peopled: str) -> None:
    """A view that depends on what was seen before is followed from the agent's registration; ids may have slashes."""
    await _register(client, peopled, "a/b", distance_limit=3.0, remove_operations=False)
    drafts = [_move(n, source, sim_time=60.0 + n) for n in range(6) for source in ("a/b", "c")]
    await _post(client, f"/v1/worlds/{peopled}/effects", [*drafts, _move(50, "c", sim_time=90.0)])
    path = f"/v1/worlds/{peopled}/agents/a%2Fb/frames"
    found = await _get(client, path, from_seq=43)
    await _assert_views(client, peopled, "a%2Fb", found)
    later = await _get(client, path, from_seq=56)
    assert "c" in later["keyframe"]["view"]["visible_entities"]


async def test_what_made_an_agent_s_view_is_looked_for(client: httpx2.AsyncClient, peopled: str) -> None:
    """The keyframe says which effect made the view, also long before; of one that lies too far back it says nothing."""
    await _register(client, peopled, "loner", relationship_filter=["friend"])
    await _post(client, f"/v1/worlds/{peopled}/effects", [_move(n, sim_time=50.0 + n) for n in range(60)])
    path = f"/v1/worlds/{peopled}/agents/loner/frames"
    for first in (43, 50, 100):
        found = await _get(client, path, from_seq=first)
        assert (found["keyframe"]["view"]["view_seq"], found["observed_seqs"]) == (43, [])
    with mock.patch("worldledger_service.runtime.frames._LOOKED_BACK", 0):
        for first, made in ((43, 43), (50, 43), (100, None)):
            assert (await _get(client, path, from_seq=first))["keyframe"]["view"]["view_seq"] == made


async def test_an_agent_that_is_not_registered_yet_has_no_frames(client: httpx2.AsyncClient, peopled: str) -> None:
    """An agent that is registered after the range is not found, and the answer says when it was; nor is a stranger."""
    path = f"/v1/worlds/{peopled}/agents"
    problem(await client.get(f"{path}/alice/frames?to_seq=21"), 404, "unknown_agent", registered_seq=22)
    problem(await client.get(f"{path}/alicia/frames"), 404, "unknown_agent", near=["alice"])


async def test_an_agent_s_frames_go_on_in_a_fork(client: httpx2.AsyncClient, peopled: str) -> None:
    """In a fork an agent of the parent has frames from the genesis on, and begins with what it saw."""
    fork = f"{peopled}-f"
    await _post(client, "/v1/worlds", {"world_id": fork, "fork_of": {"world_id": peopled, "at": "seq:30"}})
    await _post(client, f"/v1/worlds/{fork}/effects", [_move(n, sim_time=90.0 + n) for n in range(3)])
    found = await _get(client, f"/v1/worlds/{fork}/agents/alice/frames")
    assert (found["from_seq"], found["fork_of"]["global_seq"]) == (1, 30)
    await _assert_views(client, fork, "alice", found)


# -- coarse ones -------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="module")
async def kept(client: httpx2.AsyncClient, services: Services, world: str) -> str:
    """Return a world of some 200 effects with a state kept about every ten, and an agent that remembers."""
    name = f"{world}-kept"
    await _post(client, "/v1/worlds", {"world_id": name, "time_authority": "client", "snapshot_every": 10})
    await _register(client, name, "alice")
    await _register(client, name, "elephant", remove_operations=False)
    await _post(client, f"/v1/worlds/{name}/effects", [_move(n, f"a{n % 3}") for n in range(200)])
    await services.store.states.state_at(name, 203)
    return name


async def test_coarse_frames_are_where_states_are_kept(
    client: httpx2.AsyncClient, services: Services, kept: str
) -> None:
    """Coarse frames cover the world, are exact where they are, and nothing is folded for them."""
    with mock.patch.object(States, "_reach", wraps=services.store.states._reach) as reached:
        found = await _get(client, f"/v1/worlds/{kept}/frames", every=10)
    assert [call.args[1] for call in reached.await_args_list] == [1]
    places = [record.global_seq for record in await services.store.states.page(kept, limit=1000)]
    assert (found["from_seq"], found["every"], found["next_from_seq"]) == (1, 10, None)
    seqs = await _assert_states(client, kept, found)
    assert len(seqs) > 8
    assert set(seqs) <= set(places)
    assert found["to_seq"] == seqs[-1] > 180
    few = await _get(client, f"/v1/worlds/{kept}/frames", frames=4)
    assert len(few["frames"]["seq"]) == 4
    assert few["every"] >= 50
    assert await _assert_states(client, kept, few)
    part = await _get(client, f"/v1/worlds/{kept}/frames", from_seq=90, to_seq=140, every=20)
    assert 75 < part["from_seq"] < 105
    assert await _assert_states(client, kept, part)


async def test_too_many_coarse_frames_are_fewer(client: httpx2.AsyncClient, kept: str) -> None:
    """Where coarse frames would be too large, they are farther apart than was asked for, and the answer says so."""
    with mock.patch("worldledger_service.runtime.frames._COARSE_BYTES", 900):
        found = await _get(client, f"/v1/worlds/{kept}/frames", every=10)
    assert 10 < found["every"] < 200
    assert 1 < len(found["frames"]["seq"]) < 15
    await _assert_states(client, kept, found)


async def test_a_world_without_kept_states_has_its_beginning(client: httpx2.AsyncClient, peopled: str) -> None:
    """Coarse frames of a short world are the state after its genesis."""
    found = await _get(client, f"/v1/worlds/{peopled}/frames", frames=500)
    assert (found["from_seq"], found["to_seq"], found["frames"]["seq"]) == (1, 1, [])
    await _assert_states(client, peopled, found)


async def test_a_kept_state_that_does_not_hold_is_left_out(
    client: httpx2.AsyncClient, shared_url: str, kept: str
) -> None:
    """A snapshot that was changed is no frame."""
    before = await _get(client, f"/v1/worlds/{kept}/frames", every=10, to_seq=201)
    damaged = before["frames"]["seq"][3]
    connection = await asyncpg.connect(shared_url)
    try:
        text = orjson.dumps(before["keyframe"]["state"]).decode()
        statement = "update snapshots set state = $3::json where world_id = $1 and global_seq = $2"
        await connection.execute(statement, kept, damaged, text)
    finally:
        await connection.close()
    # Another range, for the answer is kept.
    found = await _get(client, f"/v1/worlds/{kept}/frames", every=10, to_seq=202)
    # States may be kept meanwhile; these do not go.
    assert damaged not in found["frames"]["seq"]
    assert set(before["frames"]["seq"]) - {damaged} <= set(found["frames"]["seq"])
    await _assert_states(client, kept, found)


async def test_coarse_frames_of_an_agent_are_its_views(client: httpx2.AsyncClient, kept: str) -> None:
    """An agent that remembers nothing has coarse frames, too: its views where states are kept."""
    found = await _get(client, f"/v1/worlds/{kept}/agents/alice/frames", every=20)
    assert (found["every"], found["keyframe"]["view"]["view_seq"], found["observed_seqs"]) == (20, None, [])
    document = {name: found["keyframe"]["view"][name] for name in VIEW}
    seen = list(frames.read(document, found))
    assert len(seen) > 5
    for seq, text in seen:
        view = await _get(client, f"/v1/worlds/{kept}/agents/alice/view", at_seq=seq)
        assert text == state_text({name: view[name] for name in VIEW})
    problem(await client.get(f"/v1/worlds/{kept}/agents/bob/frames?every=20"), 404, "unknown_agent")


async def test_an_agent_that_remembers_has_no_coarse_frames(client: httpx2.AsyncClient, kept: str) -> None:
    """Coarse frames follow from single states, and what an agent remembers does not."""
    for query, name in (("every=10", "every"), ("frames=3", "frames")):
        response = await client.get(f"/v1/worlds/{kept}/agents/elephant/frames?{query}")
        problem(response, 422, "invalid_parameter", parameter=name)
