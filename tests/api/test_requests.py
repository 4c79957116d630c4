"""The same request twice is one effect: req_id and the Idempotency-Key header."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from .helpers import draft, problem, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def path(world: str) -> str:
    """Return the path that these tests are about, of a world that only this test uses."""
    return f"/v1/worlds/{world}/effects"


async def test_a_repetition_gets_the_first_receipt(client: httpx2.AsyncClient, world: str, path: str) -> None:
    """The same req_id and body again: 200, the first receipt, and the header that says so."""
    first = await client.post(path, json=draft(req_id="r1"))
    again = await client.post(path, json=draft(req_id="r1"))
    assert (first.status_code, again.status_code) == (201, 200)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == {**first.json(), "replayed": True}
    assert (await client.get(f"/v1/worlds/{world}")).json()["head_seq"] == 2


async def test_the_header_is_the_req_id(client: httpx2.AsyncClient, path: str) -> None:
    """Idempotency-Key, quoted as a structured field or not, and req_id are one and the same key."""
    first = await client.post(path, json=draft(), headers={"Idempotency-Key": "k 1"})
    assert first.status_code == 201
    for body, headers in (
        (draft(), {"Idempotency-Key": '"k 1"'}),
        (draft(req_id="k 1"), {}),
        (draft(req_id="k 1"), {"Idempotency-Key": "k 1"}),
        (draft(req_id=None), {"Idempotency-Key": "k 1"}),
    ):
        again = await client.post(path, json=body, headers=headers)
        assert (again.status_code, again.json()["uuid"]) == (200, first.json()["uuid"])
    assert (await client.get(f"{path}/2")).json()["req_id"] == "k 1"


_NO_KEYS: list[tuple[object, list[str]]] = [
    (draft(req_id="other"), ["k"]),
    (draft(req_id=7), ["k"]),
    ([draft()], ["k"]),
    ([draft(req_id="k")], ["k"]),
    (draft(), [""]),
    (draft(), ['""']),
    (draft(), ["k" * 201]),
    (draft(), ["a", "b"]),
    (draft(), ["caf\u00e9"]),
    (draft(), ["a\tb"]),
]


async def test_a_key_that_cannot_be_is_refused(
    client: httpx2.AsyncClient, world: str, path: str, subtests: pytest.Subtests
) -> None:
    """A key beside a list, beside another req_id, empty, too long, twice or not ASCII is refused."""
    for body, keys in _NO_KEYS:
        with subtests.test(keys=keys):
            headers = [(b"Idempotency-Key", key.encode()) for key in keys]
            response = await client.post(path, json=body, headers=headers)
            problem(response, 422, "invalid_parameter", parameter="Idempotency-Key", **{"in": "header"})
    assert (await client.get(f"/v1/worlds/{world}")).json()["head_seq"] == 1


async def test_another_body_under_a_used_key_is_a_conflict(client: httpx2.AsyncClient, world: str, path: str) -> None:
    """A req_id that comes back with another body is refused, naming the effect it made."""
    await client.post(path, json=draft(1, req_id="r"))
    problem(await client.post(path, json=draft(2, req_id="r")), 422, "request_conflict", req_id="r", global_seq=2)
    response = await client.post(path, json=[draft(3), draft(2, req_id="r")])
    problem(response, 422, "request_conflict", req_id="r", index=1)
    assert (await client.get(f"/v1/worlds/{world}")).json()["head_seq"] == 2
    assert (await client.post(path, json=draft(2, req_id="r", source_id="other"))).status_code == 201


async def test_a_refused_request_does_not_use_up_its_key(client: httpx2.AsyncClient, path: str) -> None:
    """After a refusal the same req_id is free for the corrected draft."""
    problem(await client.post(path, json=draft(2**53, req_id="r")), 422, "invalid_effect")
    assert (await client.post(path, json=draft(1, req_id="r"))).status_code == 201


async def test_a_list_says_which_were_replayed(client: httpx2.AsyncClient, path: str) -> None:
    """In a list each receipt says for itself; only a list that wrote nothing is answered as replayed."""
    await client.post(path, json=draft(1, req_id="r1"))
    mixed = await client.post(path, json=[draft(2), draft(1, req_id="r1"), draft(3, req_id="r3")])
    assert mixed.status_code == 201
    assert "idempotency-replayed" not in mixed.headers
    assert [(one["global_seq"], one["replayed"]) for one in mixed.json()["receipts"]] == [
        (3, False),
        (2, True),
        (4, False),
    ]
    again = await client.post(path, json=[draft(1, req_id="r1"), draft(3, req_id="r3")])
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert [one["global_seq"] for one in again.json()["receipts"]] == [2, 4]


async def test_two_at_the_same_time_make_one_effect(client: httpx2.AsyncClient, world: str, path: str) -> None:
    """Of many concurrent posts with one key, exactly one writes; all get its receipt."""
    posts = [client.post(path, json=draft(), headers={"Idempotency-Key": "k"}) for _ in range(12)]
    responses = await asyncio.gather(*posts)
    assert sorted(response.status_code for response in responses) == [200] * 11 + [201]
    assert len({response.json()["uuid"] for response in responses}) == 1
    assert (await client.get(f"/v1/worlds/{world}")).json()["head_seq"] == 2


async def test_two_services_at_the_same_time_make_one_effect(database_url: str) -> None:
    """The same holds between two services on one database."""
    async with (
        serving(database_url) as one,
        serving(database_url) as two,
        httpx2.AsyncClient(base_url=one.url) as a,
        httpx2.AsyncClient(base_url=two.url) as b,
    ):
        await a.post("/v1/worlds", json={"world_id": "two"})
        for round_ in range(10):
            posts = [client.post("/v1/worlds/two/effects", json=draft(req_id=f"r{round_}")) for client in (a, b, a, b)]
            responses = await asyncio.gather(*posts)
            assert sorted(response.status_code for response in responses) == [200, 200, 200, 201]
            assert len({response.json()["uuid"] for response in responses}) == 1
        verified = (await a.get("/v1/worlds/two/verification")).json()
        assert (verified["verified"], verified["effects"]) == (True, 11)


async def test_a_key_outlives_the_service(database_url: str) -> None:
    """A request that an earlier service accepted is replayed by the next one."""
    async with serving(database_url) as served, httpx2.AsyncClient(base_url=served.url) as client:
        await client.post("/v1/worlds", json={"world_id": "outlived"})
        first = await client.post("/v1/worlds/outlived/effects", json=draft(req_id="r"))
    async with serving(database_url) as served, httpx2.AsyncClient(base_url=served.url) as client:
        again = await client.post("/v1/worlds/outlived/effects", json=draft(req_id="r"))
        assert (again.status_code, again.json()) == (200, {**first.json(), "replayed": True})
