"""Runs and moments side by side over HTTP."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
import pytest_asyncio

from .helpers import draft, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def made(client: httpx2.AsyncClient, name: str, prices: list[int]) -> str:
    """Make a world with an entity whose price changes."""
    assert (await client.post("/v1/worlds", json={"world_id": name})).status_code == 201
    effects = [draft(kind="EntityCreated", payload={"entity_id": "fig", "entity_data": {"price": prices[0]}})]
    effects += [
        draft(
            kind="EntityUpdated",
            payload={"entity_id": "fig", "patch": [{"op": "replace", "path": "/price", "value": price}]},
        )
        for price in prices[1:]
    ]
    assert (await client.post(f"/v1/worlds/{name}/effects", json=effects)).status_code == 201
    return name


@pytest_asyncio.fixture(loop_scope="module")
async def runs(client: httpx2.AsyncClient, world: str) -> list[str]:
    """Make three runs, two of them equal."""
    prices = {"a": [1, 2, 3], "b": [1, 2, 4, 5], "c": [1, 2, 3]}
    return [await made(client, f"{world}-{name}", values) for name, values in prices.items()]


async def compared(client: httpx2.AsyncClient, names: list[str], **params: Any) -> Any:
    """Compare, and return the answer."""
    answer = await client.get("/v1/compare", params={"world": names, **params})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_two_runs_part(client: httpx2.AsyncClient, runs: list[str]) -> None:
    """The answer names the first effect that differs, its fields, the states, and what came after."""
    found = await compared(client, runs[:2])
    (pair,) = found["pairs"]
    assert (pair["equal"], pair["equal_effects"]) == (False, 2)
    divergence = pair["divergence"]
    assert (divergence["unit"], divergence["number"], divergence["a"]["global_seq"]) == ("step", 3, 4)
    assert divergence["fields"] == [
        {
            "path": "$.payload.patch",
            "a": [{"op": "replace", "path": "/price", "value": 3}],
            "b": [{"op": "replace", "path": "/price", "value": 4}],
        }
    ]
    assert found["states"]["head"]["differences"] == [{"path": "$.entities.fig.price", "a": 3, "b": 5}]
    assert found["after"]["effects"] == {"EntityUpdated": [1, 2]}


async def test_three_runs_are_compared_two_by_two(client: httpx2.AsyncClient, runs: list[str]) -> None:
    """Of more than two runs the answer has each pair, and no states."""
    found = await compared(client, runs)
    assert [pair["equal"] for pair in found["pairs"]] == [False, True, False]
    assert (found["states"], found["after"]) == (None, None)


async def test_what_is_ignored(client: httpx2.AsyncClient, runs: list[str]) -> None:
    """Several paths may be ignored; the answer lists them."""
    found = await compared(client, runs[:2], ignore=["payload.patch", "/entities/fig/price"])
    assert found["pairs"][0]["divergence"]["a"] is None
    assert found["states"]["head"]["equal"] is True
    assert len(found["ignored"]) == 2


async def test_what_cannot_be_compared(client: httpx2.AsyncClient, runs: list[str], subtests: pytest.Subtests) -> None:
    """Unknown worlds, too few, too many, unknown units, malformed paths and parameters: each has its problem."""
    a, b, _ = runs
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"world": [a, "nowhere"]}, 404, "world_not_found"),
        ({"world": [a, "no where"]}, 422, "invalid_name"),
        ({"world": [a]}, 422, "invalid_parameter"),
        ({}, 422, "invalid_parameter"),
        ({"world": [a] * 21}, 422, "invalid_parameter"),
        ({"world": [a, b], "by": "turn"}, 422, "not_comparable"),
        ({"world": [a, b], "ignore": "payload["}, 422, "not_comparable"),
        ({"world": [a, b], "ignore": ["payload.clock", ""]}, 422, "invalid_parameter"),
        ({"world": [a, b], "group": "seed"}, 422, "not_comparable"),
        ({"world": [a, b, b], "view": "x"}, 422, "not_comparable"),
        ({"world": [a, b], "view": "x"}, 404, "unknown_agent"),
        ({"world": [a, b], "by": ["seq", "step"]}, 422, "invalid_parameter"),
        ({"world": [a, b], "grop": "seed"}, 422, "invalid_parameter"),
    ]
    for params, status, code in cases:
        with subtests.test(params=params):
            problem(await client.get("/v1/compare", params=params), status, code)


async def test_worlds_of_different_kinds(client: httpx2.AsyncClient, runs: list[str]) -> None:
    """A run is not compared with a free world; the problem names both kinds."""
    other = f"{runs[0]}-run"
    assert (await client.post("/v1/worlds", json={"world_id": other, "ruleset": "social_rl"})).status_code == 201
    told = problem(await client.get("/v1/compare", params={"world": [runs[0], other]}), 422, "not_comparable")
    assert told["rulesets"] == ["sandbox", "social_rl"]


async def test_two_worlds_without_anything(client: httpx2.AsyncClient, world: str) -> None:
    """Worlds that have only begun are equal."""
    for name in ("empty", "void"):
        assert (await client.post("/v1/worlds", json={"world_id": f"{world}-{name}"})).status_code == 201
    (pair,) = (await compared(client, [f"{world}-empty", f"{world}-void"]))["pairs"]
    assert (pair["equal"], pair["equal_effects"]) == (True, 0)


async def test_a_payload_of_a_megabyte(client: httpx2.AsyncClient, world: str) -> None:
    """A value that is too long to be told is named by its path and its size."""
    names = [f"{world}-{name}" for name in ("long", "short")]
    for name, text in zip(names, ("x" * 2**19, "y"), strict=True):
        assert (await client.post("/v1/worlds", json={"world_id": name})).status_code == 201
        effect = draft(kind="Speak", payload={"text": text})
        assert (await client.post(f"/v1/worlds/{name}/effects", json=effect)).status_code == 201
    (field,) = (await compared(client, names))["pairs"][0]["divergence"]["fields"]
    assert field == {"path": "$.payload.text", "a_bytes": 2**19 + 2, "b": "y"}


async def test_two_moments(client: httpx2.AsyncClient, runs: list[str]) -> None:
    """States of two worlds, or of one at two moments, are set side by side."""
    a, b, _ = runs
    answer = await client.get("/v1/compare/moments", params={"a": f"{a}@step:3", "b": f"{b}@step:3"})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["a"]["global_seq"], found["b"]["world_id"]) == (4, b)
    assert found["states"]["differences"] == [{"path": "$.entities.fig.price", "a": 3, "b": 4}]
    same = (await client.get("/v1/compare/moments", params={"a": f"{a}@3", "b": f"{b}@3"})).json()
    assert same["states"]["equal"] is True
    for params, status, code in (
        ({"a": a, "b": f"{b}@99"}, 404, "moment_not_found"),
        ({"a": a, "b": f"{b}@soon"}, 422, "invalid_parameter"),
        ({"a": a, "b": "nowhere"}, 404, "world_not_found"),
        ({"a": a, "b": b, "agent": "x"}, 404, "unknown_agent"),
    ):
        problem(await client.get("/v1/compare/moments", params=params), status, code)


async def test_a_diff_of_two_worlds(client: httpx2.AsyncClient, runs: list[str]) -> None:
    """With `to_world` the patch turns the state of one world into that of another."""
    a, b, _ = runs
    answer = await client.get(f"/v1/worlds/{a}/diff", params={"from": "step:3", "to": "step:3", "to_world": b})
    found = answer.json()
    assert (found["world_id"], found["to_world"], found["from_seq"], found["to_seq"]) == (a, b, 4, 4)
    assert {"op": "replace", "path": "/entities/fig/price", "value": 4} in found["patch"]
    assert "etag" not in answer.headers
    params = {"from": "head", "to_world": "nowhere"}
    problem(await client.get(f"/v1/worlds/{a}/diff", params=params), 404, "world_not_found")


@pytest.mark.parametrize("moments", [False, True])
async def test_an_answer_that_is_known_is_not_made_again(
    client: httpx2.AsyncClient, runs: list[str], *, moments: bool
) -> None:
    """The ETag holds until one of the places moves; what it names is answered with 304."""
    a, b = runs[:2]
    path = f"/v1/compare/moments?a={a}&b={b}@2" if moments else f"/v1/compare?world={a}&world={b}"
    first = await client.get(path)
    tag = first.headers["ETag"]
    assert first.headers["Cache-Control"] == "no-cache"
    for asked in (tag, f'"other", W/{tag}', "*"):
        again = await client.get(path, headers={"If-None-Match": asked})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert (await client.get(path, headers={"If-None-Match": '"other"'})).content == first.content
    assert (await client.post(f"/v1/worlds/{a}/effects", json=draft())).status_code == 201
    moved = await client.get(path, headers={"If-None-Match": tag})
    assert (moved.status_code, moved.headers["ETag"] == tag) == (200, False)
