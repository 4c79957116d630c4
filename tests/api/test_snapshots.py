"""Snapshots over HTTP: taking them and listing them."""

from __future__ import annotations

import asyncio

import httpx2
import orjson
import pytest
from worldledger_service.api.context import Services

from .helpers import draft, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def path(world: str) -> str:
    """Return the path that these tests are about, of a world that only this test uses."""
    return f"/v1/worlds/{world}/snapshots"


async def test_a_snapshot_is_taken_and_proved_in_the_log(client: httpx2.AsyncClient, world: str, path: str) -> None:
    """Taking a snapshot gives 201, what it is, where the state is, and its digest stands in the log."""
    await client.post(f"/v1/worlds/{world}/effects", json=[draft(n) for n in range(3)])
    response = await client.post(path)
    assert response.status_code == 201, response.text
    taken = response.json()
    state = (await client.get(response.headers["location"])).json()
    assert (taken["world_id"], taken["global_seq"], taken["digest_seq"], taken["current"]) == (world, 4, 5, True)
    for name in ("global_seq", "checksum", "ruleset", "ruleset_version", "state_digest"):
        assert taken[name] == state[name]
    assert taken["state_bytes"] > 0
    digest = (await client.get(f"/v1/worlds/{world}/effects/5")).json()
    assert (digest["kind"], digest["payload"]["state_digest"]) == ("StateDigest", taken["state_digest"])


async def test_a_second_one_at_the_same_place_is_the_first(client: httpx2.AsyncClient, world: str, path: str) -> None:
    """Where nothing has happened since, the newest is given with 200 and nothing is written; then there is news."""
    first = await client.post(path)
    head = (await client.get(f"/v1/worlds/{world}")).json()["head_seq"]
    again = await client.post(path)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"] == f"/v1/worlds/{world}/state?at_seq=1"
    assert (await client.get(f"/v1/worlds/{world}")).json()["head_seq"] == head
    await client.post(f"/v1/worlds/{world}/effects", json=draft())
    third = await client.post(path)
    assert (third.status_code, third.json()["global_seq"]) == (201, head + 1)


async def test_one_is_taken_of_an_earlier_moment(client: httpx2.AsyncClient, world: str, path: str) -> None:
    """With `at` the snapshot is of that moment; a moment that is not there, or no moment, is refused."""
    await client.post(f"/v1/worlds/{world}/effects", json=[draft(n) for n in range(5)])
    taken = await client.post(path, params={"at": "seq:3"})
    assert (taken.status_code, taken.json()["global_seq"]) == (201, 3)
    assert taken.headers["location"] == f"/v1/worlds/{world}/state?at_seq=3"
    again = await client.post(path, params={"at": "3"})
    assert (again.status_code, again.json()) == (200, taken.json())
    assert (await client.post(path, params={"at": "head"})).json()["global_seq"] > 3
    problem(await client.post(path, params={"at": "seq:99"}), 404, "moment_not_found", global_seq=99)
    problem(await client.post(path, params={"at": "yesterday"}), 422, "invalid_parameter", parameter="at")


async def test_many_at_once_are_few(client: httpx2.AsyncClient, services: Services, world: str, path: str) -> None:
    """Callers who want a snapshot at the same time all get one, and the log stays whole."""
    await client.post(f"/v1/worlds/{world}/effects", json=[draft(n) for n in range(50)])
    answers = await asyncio.gather(*(client.post(path) for _ in range(8)))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert (await services.store.reader.verify(world)).verified
    listed = (await client.get(path)).json()["snapshots"]
    assert {answer.json()["global_seq"] for answer in answers} <= {one["global_seq"] for one in listed}


async def _walk(client: httpx2.AsyncClient, url: str) -> list[list[int]]:
    pages = []
    following: str | None = url
    while following is not None:
        response = await client.get(following)
        assert response.status_code == 200, response.text
        page = response.json()
        assert url.startswith(f"/v1/worlds/{page['world_id']}/")
        pages.append([one["global_seq"] for one in page["snapshots"]])
        following = response.links["next"]["url"] if "next" in response.links else None
        assert page["next_after_seq"] == (pages[-1][-1] if following else None)
    return pages


async def test_snapshots_are_listed_page_by_page(client: httpx2.AsyncClient, world: str, path: str) -> None:
    """Following rel=next gives every snapshot once, ascending."""
    assert await _walk(client, path) == [[]]
    seqs = []
    for n in range(5):
        await client.post(f"/v1/worlds/{world}/effects", json=draft(n))
        seqs.append((await client.post(path)).json()["global_seq"])
    assert await _walk(client, path) == [seqs]
    assert await _walk(client, f"{path}?limit=2") == [seqs[:2], seqs[2:4], seqs[4:]]
    assert await _walk(client, f"{path}?limit=5") == [seqs]
    assert await _walk(client, f"{path}?after_seq={seqs[2]}&limit=1") == [[seqs[3]], [seqs[4]]]
    assert await _walk(client, f"{path}?after_seq={2**53 - 1}&limit={2**53 - 1}") == [[]]


async def test_a_bad_listing_is_refused(client: httpx2.AsyncClient, path: str, subtests: pytest.Subtests) -> None:
    """A parameter that cannot be is refused by its name."""
    bad = [f"after_seq={value}" for value in ("-1", "x", "", "1.0", str(2**53), "NaN", "%00")]
    bad += ["limit=0", "limit=x", "limit=9" * 30, "limit=1&limit=1", "after_seq=0&after_seq=1"]
    for query in bad:
        with subtests.test(query=query):
            problem(await client.get(f"{path}?{query}"), 422, "invalid_parameter", parameter=query.partition("=")[0])


async def test_a_snapshot_of_no_world_is_refused(client: httpx2.AsyncClient) -> None:
    """A world that is not there, or cannot be, has no snapshots and gets none."""
    problem(await client.post("/v1/worlds/nowhere/snapshots"), 404, "world_not_found", world_id="nowhere")
    for name in ("a%20b", "a%00b", "-a", "w" * 201, "%F0%9F%99%82"):
        problem(await client.post(f"/v1/worlds/{name}/snapshots"), 422, "invalid_name")


async def test_a_body_makes_no_difference(client: httpx2.AsyncClient, path: str) -> None:
    """The request needs no body; whatever comes with it is not looked at."""
    for content in (b"{}", b"\xff\x00", b"[" * 1000):
        assert (await client.post(path, content=content)).status_code in {200, 201}


async def test_pages_of_other_sites_take_none(client: httpx2.AsyncClient, path: str) -> None:
    """A browser says where a request comes from: another site's page cannot write, the service's own can."""
    refused: list[dict[str, str]] = [
        {"Origin": "https://example.org"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Origin": "http://[::1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1"},
    ]
    for headers in refused:
        problem(await client.post(path, headers=headers), 403, "origin_refused")
    assert (await client.get(path)).json()["snapshots"] == []
    taken: list[dict[str, str]] = [
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://ledger.example.org"},
        {"Sec-Fetch-Site": "none"},
    ]
    for headers in taken:
        assert (await client.post(path, headers=headers)).status_code in {200, 201}


async def test_a_world_may_ask_for_its_own_spacing(client: httpx2.AsyncClient) -> None:
    """snapshot_every of a new world stands in its genesis; what is no sane number is refused with the limits."""
    body = {"world_id": "w", "snapshot_every": 50}
    assert (await client.post("/v1/worlds", json=body)).status_code == 201
    assert (await client.get("/v1/worlds/w/effects/1")).json()["payload"]["snapshot_every"] == 50
    assert (await client.post("/v1/worlds", json={"world_id": "v", "snapshot_every": None})).status_code == 201
    for value, words in (
        (1, "must be at least 2"),
        (-5, "must be at least 2"),
        (10**9, "must be at most 999999999"),
        (2.5, "must be a whole number"),
        ("50", "must be a whole number"),
        (True, "must be a whole number"),
        ([], "must be a whole number"),
    ):
        response = await client.post("/v1/worlds", json={"world_id": "u", "snapshot_every": value})
        found = problem(response, 422, "invalid_config", path="$.snapshot_every")
        assert found["detail"] == f"$.snapshot_every: {words}"


async def test_a_damaged_snapshot_changes_no_state(
    client: httpx2.AsyncClient, services: Services, world: str, path: str
) -> None:
    """A snapshot that somebody edited is passed over: the state comes from the log."""
    await client.post(f"/v1/worlds/{world}/effects", json=[draft(n) for n in range(5)])
    await client.post(path)
    good = (await client.get(f"/v1/worlds/{world}/state")).content
    async with services.store.reader.connection() as connection:
        await connection.execute("update snapshots set state = $1::text::json", orjson.dumps({"entities": {}}).decode())
    assert (await client.get(f"/v1/worlds/{world}/state")).content == good
