"""What differs between two states of a world."""

from __future__ import annotations

from typing import Any
from unittest import mock

import httpx2
import jsonpatch
import pytest
import pytest_asyncio
from worldledger_service.store.states import States

from .helpers import draft, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def lived(client: httpx2.AsyncClient, world: str) -> str:
    """Return a world of 7 effects in which entities come, move, change and go."""
    said: list[tuple[str, dict[str, Any]]] = [
        ("EntityCreated", {"entity_id": "a/b~c", "entity_data": {"hp": 3}, "position": [1, 2]}),
        ("EntityCreated", {"entity_id": "gate", "entity_data": {"open": False, "tags": ["x"]}}),
        ("Move", {"to": [4, 5, 6], "agent_id": "a/b~c"}),
        ("EntityUpdated", {"entity_id": "gate", "patch": [{"op": "replace", "path": "/open", "value": True}]}),
        ("Interact", {"target_id": "gate"}),
        ("EntityRemoved", {"entity_id": "a/b~c"}),
    ]
    drafts = [draft(kind=kind, payload=payload, sim_time=0.5) for kind, payload in said]
    assert (await client.post(f"/v1/worlds/{world}/effects", json=drafts)).status_code == 201
    return world


@pytest.fixture
def path(lived: str) -> str:
    """Return the path that these tests are about, of a world that only this test uses."""
    return f"/v1/worlds/{lived}/diff"


async def test_a_diff_turns_one_state_into_the_other(
    client: httpx2.AsyncClient, lived: str, path: str, subtests: pytest.Subtests
) -> None:
    """Between any two seqs, in either direction, the patch makes the second state of the first, as RFC 6902 says."""
    states = [(await client.get(f"/v1/worlds/{lived}/state?at_seq={seq}")).json() for seq in range(1, 8)]
    for one in range(1, 8):
        for other in range(1, 8):
            with subtests.test(one=one, other=other):
                found = (await client.get(f"{path}?from_seq={one}&to_seq={other}")).json()
                assert list(found) == ["world_id", "from_seq", "to_seq", "from_digest", "to_digest", "patch"]
                assert (found["world_id"], found["from_seq"], found["to_seq"]) == (lived, one, other)
                before, after = states[one - 1], states[other - 1]
                assert (found["from_digest"], found["to_digest"]) == (before["state_digest"], after["state_digest"])
                assert jsonpatch.apply_patch(before["state"], found["patch"]) == after["state"]
                assert (found["patch"] == []) == (one == other)


async def test_a_diff_says_what_happened_and_no_more(client: httpx2.AsyncClient, path: str) -> None:
    """What did not change is not in the patch; paths are made of names, and numbers stand as they do in states."""
    patch = (await client.get(f"{path}?from_seq=3&to_seq=4")).json()["patch"]
    assert patch == [
        {"op": "add", "path": "/entities/a~1b~0c/last_move_time", "value": 0.5},
        {"op": "replace", "path": "/entities/a~1b~0c/position", "value": [4.0, 5.0, 6.0]},
        {"op": "replace", "path": "/metadata/last_effect_kind", "value": "Move"},
        {"op": "replace", "path": "/metadata/last_effect_seq", "value": 4},
        {"op": "replace", "path": "/spatial_index/a~1b~0c", "value": [4.0, 5.0, 6.0]},
    ]


async def test_without_an_end_it_goes_to_the_head(client: httpx2.AsyncClient, path: str) -> None:
    """A diff without to_seq is the one to the present state."""
    assert (await client.get(f"{path}?from_seq=2")).json() == (await client.get(f"{path}?from_seq=2&to_seq=7")).json()


async def test_a_diff_is_revalidated_without_a_fold(client: httpx2.AsyncClient, path: str) -> None:
    """The tag stands for both places and the ruleset's version; whoever has it gets a 304 and nothing is folded."""
    tags = set()
    for query in ("from_seq=2", "from_seq=2&to_seq=6", "from_seq=6&to_seq=2", "from_seq=2&to_seq=2"):
        response = await client.get(f"{path}?{query}")
        tag = response.headers["etag"]
        tags.add(tag)
        assert response.headers["cache-control"] == "no-cache"
        with mock.patch.object(States, "state_at", side_effect=AssertionError("folded")):
            again = await client.get(f"{path}?{query}", headers={"If-None-Match": tag})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert len(tags) == 4
    assert all("sandbox" in tag for tag in tags)


async def test_a_diff_beyond_the_head_names_the_head(client: httpx2.AsyncClient, path: str) -> None:
    """A seq that the world does not have, on either side, is not found."""
    for query in ("from_seq=8", "from_seq=1&to_seq=8", f"from_seq={2**53 - 1}&to_seq=1"):
        problem(await client.get(f"{path}?{query}"), 404, "moment_not_found", head_seq=7)


async def test_a_diff_that_cannot_be_is_refused(
    client: httpx2.AsyncClient, path: str, subtests: pytest.Subtests
) -> None:
    """A missing, impossible or repeated seq is refused by its name."""
    bad = ["0", "-1", "", "x", "1.0", "NaN", "inf", str(2**53), "9" * 5000, "%00", "%D9%A1", "%F0%9F%99%82"]
    queries = [*((f"from_seq={value}", "from_seq") for value in bad)]
    queries += [(f"from_seq=1&to_seq={value}", "to_seq") for value in bad]
    queries += [("", "from"), ("to_seq=3", "from"), ("from_seq=1&from_seq=2", "from_seq")]
    queries += [("from_seq=1&to_seq=2&to_seq=2", "to_seq")]
    for query, name in queries:
        with subtests.test(query=query[:30]):
            response = await client.get(f"{path}?{query}")
            problem(response, 422, "invalid_parameter", parameter=name, **{"in": "query"})
