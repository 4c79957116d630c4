"""The state of a world at any moment."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any
from unittest import mock
from urllib.parse import quote

import asyncpg
import httpx2
import orjson
import pytest
import pytest_asyncio
from worldledger_sandbox.rules import Sandbox
from worldledger_service.api.context import Services
from worldledger_service.store.states import States

from tests.cli.helpers import forgery

from .helpers import draft, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


def move(n: int, **fields: Any) -> dict[str, Any]:
    """Make a draft that moves the source to (n, 0, 0)."""
    return draft(**{"kind": "Move", "payload": {"to": [n, 0]}, **fields})


@pytest_asyncio.fixture(loop_scope="module")
async def walked(client: httpx2.AsyncClient, world: str) -> str:
    """Return a world of 21 effects: ``a1`` steps along x, at sim_time 0.0, 0.5, 1.0 …"""
    drafts = [move(n, sim_time=n / 2) for n in range(20)]
    assert (await client.post(f"/v1/worlds/{world}/effects", json=drafts)).status_code == 201
    return world


async def _x(client: httpx2.AsyncClient, world: str, query: str) -> tuple[int, float | None]:
    """Return the seq of the state that is asked for, and where a1 stands in it."""
    response = await client.get(f"/v1/worlds/{world}/state?{query}")
    assert response.status_code == 200, response.text
    found = response.json()
    return found["global_seq"], found["state"]["spatial_index"].get("a1", [None])[0]


async def test_a_state_says_what_it_is_of(client: httpx2.AsyncClient, services: Services, walked: str) -> None:
    """A state comes with its place in the chain, the ruleset that folded it, and the digest of its very bytes."""
    response = await client.get(f"/v1/worlds/{walked}/state?at_seq=5")
    found = response.json()
    effect = await client.get(f"/v1/worlds/{walked}/effects/5")
    assert list(found) == [
        "world_id",
        "global_seq",
        "checksum",
        "ruleset",
        "ruleset_version",
        "state_digest",
        "state",
    ]
    assert (found["world_id"], found["global_seq"]) == (walked, 5)
    assert found["checksum"] == effect.headers["worldledger-checksum"]
    assert (found["ruleset"], found["ruleset_version"]) == ("sandbox", Sandbox.version)
    assert found["state"]["entities"] == {"a1": {"position": [3.0, 0.0, 0.0], "last_move_time": 1.5}}
    assert found["state"]["metadata"]["last_effect_seq"] == 5
    text = response.content.partition(b'"state":')[2][:-1]
    assert text == (await services.store.states.state_at(walked, 5)).text
    assert sha256(text).hexdigest() == found["state_digest"]


async def test_without_a_moment_it_is_the_head_s(client: httpx2.AsyncClient, walked: str) -> None:
    """The state without parameters is the present one, and follows the head."""
    assert await _x(client, walked, "") == (21, 19.0)
    assert (await client.post(f"/v1/worlds/{walked}/effects", json=move(99, sim_time=9.5))).status_code == 201
    assert await _x(client, walked, "") == (22, 99.0)
    assert await _x(client, walked, "at_seq=21") == (21, 19.0)
    assert await _x(client, walked, "at_seq=1") == (1, None)


async def test_a_time_means_the_last_effect_at_or_before_it(client: httpx2.AsyncClient, walked: str) -> None:
    """Of several effects at one sim_time the last counts; a time beyond the head's means the head."""
    same = [move(50, sim_time=9.5), move(51, sim_time=9.5)]
    assert (await client.post(f"/v1/worlds/{walked}/effects", json=same)).status_code == 201
    for time, expected in (
        ("0", (2, 0.0)),
        ("0.0", (2, 0.0)),
        ("0.49", (2, 0.0)),
        ("5e-1", (3, 1.0)),
        ("4.999999", (11, 9.0)),
        ("9.5", (23, 51.0)),
        ("1e300", (23, 51.0)),
    ):
        assert await _x(client, walked, f"at_sim_time={time}") == expected, time


async def test_a_wall_time_means_the_same_moment_in_any_offset(client: httpx2.AsyncClient, walked: str) -> None:
    """A wall time is ISO 8601 with an offset; what comes later than it is not in the state."""
    await client.post(f"/v1/worlds/{walked}/effects", json=move(99, sim_time=9.5))
    for text in ("2099-01-01T00:00:00Z", "2099-01-01T00:00:00.5+02:00", "20990101T000000-0100", "9999-12-31T23:59:59Z"):
        assert await _x(client, walked, f"at_wall_time={quote(text)}") == (22, 99.0), text
    for text in ("1970-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "2000-01-01T00:00:00Z"):
        response = await client.get(f"/v1/worlds/{walked}/state?at_wall_time={quote(text)}")
        problem(response, 404, "moment_not_found", head_seq=22)


async def test_a_wall_time_is_compared_with_the_effect_s_own(
    client: httpx2.AsyncClient, services: Services, walked: str
) -> None:
    """The moment of an effect's wall_time is the first at which the state has it."""
    effects = (await client.get(f"/v1/worlds/{walked}/effects?limit=1000")).json()["effects"]
    record = await services.store.world(walked)
    for effect in effects:
        seq = await services.store.states.seq_at(record, wall_time=effect["wall_time"])
        assert seq >= effect["global_seq"]
        assert effects[seq - 1]["wall_time"] == effect["wall_time"]


async def test_a_moment_that_the_world_does_not_have_names_the_head(client: httpx2.AsyncClient, walked: str) -> None:
    """A seq beyond the head, or a time before the first effect, is not found, and the answer says where the head is."""
    for query in ("at_seq=22", f"at_seq={2**53 - 1}", "at_sim_time=-0.001", "at_sim_time=-1e308"):
        found = problem(await client.get(f"/v1/worlds/{walked}/state?{query}"), 404, "moment_not_found", head_seq=21)
        assert found["world_id"] == walked
    assert "head is 21" in (await client.get(f"/v1/worlds/{walked}/state?at_seq=22")).json()["detail"]


_NO_NUMBERS = ["", "%20", "soon", "nan", "NaN", "inf", "-Infinity", "1e999", "-1e999", "1_0", "0x1", "+1"]
_NO_NUMBERS += [".5", "1.", "%00", "9" * 5000, "%F0%9F%99%82", "%D9%A1", "%ED%A0%80", "1;drop", "1%0A", "null", "[1]"]
_NO_SEQS = ["0", "-1", "1.0", str(2**53), str(2**63), "%D9%A1", *_NO_NUMBERS]
_NO_TIMES = ["2026-01-01", "2026-01-01T00:00:00", "1767225600", "1767225600.5", "now", "2026-13-01T00:00:00Z"]
_NO_TIMES += ["2026-01-01T00:00:60Z", "0000-01-01T00:00:00Z", "2026-01-01T00:00:00+99:00", "10000-01-01T00:00:00Z"]
_NO_TIMES += ["2026-01-01T00:00:00+02:00", "-2026-01-01T00:00:00Z", "2026-01-01%ED%A0%8000:00:00", *_NO_NUMBERS]


@pytest.mark.parametrize(
    ("name", "values"), [("at_seq", _NO_SEQS), ("at_sim_time", _NO_NUMBERS), ("at_wall_time", _NO_TIMES)]
)
async def test_a_moment_that_cannot_be_is_refused(
    client: httpx2.AsyncClient, walked: str, name: str, values: list[str], subtests: pytest.Subtests
) -> None:
    """What is no seq, no finite number or no time with an offset is refused by its name."""
    for value in values:
        with subtests.test(value=value[:30]):
            response = await client.get(
                httpx2.URL(f"http://127.0.0.1/v1/worlds/{walked}/state", query=f"{name}={value}".encode())
            )
            problem(response, 422, "invalid_parameter", parameter=name, **{"in": "query"})
            assert len(response.content) < 1000


async def test_a_refused_moment_is_told_what_to_send(client: httpx2.AsyncClient, walked: str) -> None:
    """The answer says in plain words what the parameter must be."""
    for query, words in (
        ("at_seq=0", "must be a whole number from 1 to 9007199254740991"),
        ("at_sim_time=NaN", "must be a finite number, such as 12.5"),
        ("at_wall_time=2026-01-01T00:00:00", "has no offset from UTC: send it as 2026-01-31T12:00:00Z"),
        ("at_wall_time=1767225600", "must be a time in ISO 8601, such as 2026-01-31T12:00:00Z"),
        ("at_wall_time=2026-01-01T00:00:00+02:00", "a + in a URL is written %2B"),
    ):
        assert words in (await client.get(f"/v1/worlds/{walked}/state?{query}")).json()["detail"], query


async def test_contradictory_moments_are_refused(client: httpx2.AsyncClient, walked: str) -> None:
    """More than one moment, or one that stands twice, is refused, even where they would agree."""
    for query, name in (
        ("at_seq=1&at_sim_time=0", "at_sim_time"),
        ("at_seq=1&at_wall_time=2099-01-01T00:00:00Z", "at_wall_time"),
        ("at_wall_time=2099-01-01T00:00:00Z&at_sim_time=0", "at_wall_time"),
        ("at_seq=1&at_sim_time=0&at_wall_time=2099-01-01T00:00:00Z", "at_sim_time"),
        ("at_seq=1&at_seq=1", "at_seq"),
        ("at_seq=1&at_seq=x", "at_seq"),
        ("at_sim_time=0&at_sim_time=1", "at_sim_time"),
    ):
        found = problem(
            await client.get(f"/v1/worlds/{walked}/state?{query}"), 422, "invalid_parameter", parameter=name
        )
        assert "contradicts" in found["detail"] or "stands more than once" in found["detail"]


async def test_nothing_is_folded_for_who_has_it_already(client: httpx2.AsyncClient, walked: str) -> None:
    """The ETag names seq, checksum, ruleset and version; where it still holds the answer is 304, without any fold."""
    for query, seq in (("", 21), ("at_seq=5", 5), ("at_sim_time=1", 4)):
        response = await client.get(f"/v1/worlds/{walked}/state?{query}")
        tag = response.headers["etag"]
        assert tag == f'"{walked}:{seq}:{response.json()["checksum"][:8]}:sandbox{Sandbox.version}"'
        assert response.headers["cache-control"] == "no-cache"
        with mock.patch.object(States, "state_at", side_effect=AssertionError("folded")):
            again = await client.get(f"/v1/worlds/{walked}/state?{query}", headers={"If-None-Match": f'"other", {tag}'})
        assert (again.status_code, again.content) == (304, b"")
        assert (again.headers["etag"], again.headers["cache-control"]) == (tag, "no-cache")


async def test_another_version_of_the_ruleset_is_another_state(client: httpx2.AsyncClient, walked: str) -> None:
    """A tag of an older version of the ruleset gets the state anew: it may have become another."""
    tag = (await client.get(f"/v1/worlds/{walked}/state?at_seq=5")).headers["etag"]
    with mock.patch.object(Sandbox, "version", Sandbox.version + 1):
        response = await client.get(f"/v1/worlds/{walked}/state?at_seq=5", headers={"If-None-Match": tag})
    assert (response.status_code, response.json()["ruleset_version"]) == (200, Sandbox.version + 1)
    assert response.headers["etag"] != tag


async def test_a_state_can_be_asked_for_by_many_at_once(client: httpx2.AsyncClient, walked: str) -> None:
    """States asked for together, of all moments, are each their own."""
    found = await asyncio.gather(*(_x(client, walked, f"at_seq={seq}") for seq in range(2, 22)))
    assert found == [(seq, float(seq - 2)) for seq in range(2, 22)]


async def test_a_ruleset_that_fails_is_a_problem_that_names_the_effect(client: httpx2.AsyncClient, walked: str) -> None:
    """Where a ruleset cannot fold an effect, states before it are there and those after it say which it is."""

    def fail(state: Any, effect: Any) -> None:
        if effect["payload"]["to"][0] == 7:
            raise ZeroDivisionError

    with mock.patch.object(Sandbox, "handlers", {"Move": fail}):
        assert (await client.get(f"/v1/worlds/{walked}/state?at_seq=8")).status_code == 200
        found = problem(
            await client.get(f"/v1/worlds/{walked}/state?at_seq=12"),
            500,
            "fold_failed",
            global_seq=9,
            ruleset="sandbox",
        )
    assert found["world_id"] == walked


async def test_a_second_genesis_is_a_finding(client: httpx2.AsyncClient, walked: str, database_url: str) -> None:
    """Behind a forged second WorldCreated there is no state: the log was tampered with, and where is said."""
    connection = await asyncpg.connect(database_url)
    try:
        for statement in forgery(walked, "WorldCreated"):
            await connection.execute(statement)
    finally:
        await connection.close()
    found = problem(await client.get(f"/v1/worlds/{walked}/state"), 500, "tampered", global_seq=21)
    assert found["what"] == "$.kind: WorldCreated stands at seq 1 alone"


async def test_odd_names_stand_in_a_state_as_they_are(client: httpx2.AsyncClient, world: str) -> None:
    """Entities may have any name that JSON has; the answer is JSON all the same."""
    names = ['"', "\\", "a/b~c", "é\U0001f642", "\u2028", "\x7f", "__proto__", "\x01"]
    for name in names:
        body = draft(kind="EntityCreated", payload={"entity_id": name, "entity_data": {"name": name, "big": 1e16}})
        assert (await client.post(f"/v1/worlds/{world}/effects", json=body)).status_code == 201
    response = await client.get(f"/v1/worlds/{world}/state")
    assert set(response.json()["state"]["entities"]) == set(names)
    assert orjson.loads(response.content)["state"]["entities"]["\\"] == {"name": "\\", "big": 1e16}
