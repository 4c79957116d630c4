"""The report of a world over HTTP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from worldledger_service.api.context import Services
from worldledger_service.report.page import write_page
from worldledger_service.report.world import page_of
from worldledger_service.runtime.reporting import report_of

from worldledger.moments import Moment

from .helpers import draft, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _forked(client: httpx2.AsyncClient, world: str) -> str:
    """Say something in a world, and something else in a fork of it; return the name of the fork."""
    answer = await client.post(f"/v1/worlds/{world}/effects", json=[draft(n, sim_time=float(n)) for n in range(3)])
    assert answer.status_code == 201
    name = f"{world}-fork"
    made = await client.post("/v1/worlds", json={"world_id": name, "fork_of": {"world_id": world, "at": "3"}})
    assert made.status_code == 201
    odd = draft(9, kind="<b>Odd</b>", sim_time=9.0)
    assert (await client.post(f"/v1/worlds/{name}/effects", json=odd)).status_code == 201
    return name


async def _written(services: Services, world: str, place: tuple[str, int]) -> str:
    """Return the page that the command writes of a world up to a place in its history."""
    store = services.store
    there = (await store.states.place_at(await store.world(place[0]), Moment(seq=place[1])))[0], place[1]
    found = await report_of(store, await store.world(world), there, lambda done, total: None)
    return "".join(write_page(page_of(found), template="runs.html"))


async def test_the_page_is_that_of_the_command(client: httpx2.AsyncClient, world: str, services: Services) -> None:
    """A world and a fork are reported up to their heads, or a moment, also one of before the fork."""
    fork = await _forked(client, world)
    for name, params, place in (
        (world, {}, (world, 4)),
        (world, {"at": "sim:1"}, (world, 3)),
        (fork, {}, (fork, 3)),
        (fork, {"at": "parent:2"}, (world, 2)),
        (fork, {"at": "sim:0"}, (world, 2)),
    ):
        answer = await client.get(f"/v1/worlds/{name}/report", params=params)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8"), answer.text
        assert answer.text == await _written(services, name, place)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    page = (await client.get(f"/v1/worlds/{fork}/report")).text
    assert "&lt;b&gt;Odd&lt;/b&gt;" in page
    assert "<b>" not in page


async def test_a_report_that_is_known_is_not_made_again(client: httpx2.AsyncClient, world: str) -> None:
    """The ETag holds until the head moves, that of an earlier moment for good; a fork has another one of its own."""
    fork = await _forked(client, world)
    path = f"/v1/worlds/{world}/report"
    head, early = [(await client.get(path, params=params)).headers["ETag"] for params in ({}, {"at": "3"})]
    again = await client.get(path, headers={"If-None-Match": head})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", head)
    assert (await client.get(f"/v1/worlds/{fork}/report", params={"at": "parent:3"})).headers["ETag"] != early
    assert (await client.post(f"/v1/worlds/{world}/effects", json=draft(9, sim_time=9.0))).status_code == 201
    moved = await client.get(path, headers={"If-None-Match": head})
    assert (moved.status_code, moved.headers["ETag"] == head) == (200, False)
    assert (await client.get(path, params={"at": "3"}, headers={"If-None-Match": early})).status_code == 304


async def test_requests_for_the_same_report_make_it_once(
    client: httpx2.AsyncClient, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What several ask for at once is read and drawn once, and kept for those that ask later."""
    drawn: list[Mapping[str, Any]] = []

    def draw(report: Mapping[str, Any]) -> bytes:
        drawn.append(report)
        return repr(report).encode()

    monkeypatch.setattr("worldledger_service.api.reporting._drawn", draw)
    assert (await client.post(f"/v1/worlds/{world}/effects", json=draft(1))).status_code == 201
    path = f"/v1/worlds/{world}/report"
    answers = await asyncio.gather(*(client.get(path, params={"at": seq}) for seq in ("1", "1", "2", "2", "1")))
    assert [answer.status_code for answer in answers] == [200] * 5
    assert len({answer.content for answer in answers}) == 2
    assert (await client.get(path, params={"at": "2"})).content == answers[2].content
    assert len(drawn) == 2


async def test_what_cannot_be_reported(
    client: httpx2.AsyncClient, world: str, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Unknown worlds, moments and parameters, and a service that cannot draw: each has its problem."""
    for name, params, status, code in (
        ("nowhere", {}, 404, "world_not_found"),
        (world, {"at": "99"}, 404, "moment_not_found"),
        (world, {"at": "turn:1"}, 404, "moment_not_found"),
        (world, {"at": "parent:1"}, 404, "moment_not_found"),
        (world, {"at": "noon"}, 422, "invalid_parameter"),
        (world, {"att": "1"}, 422, "invalid_parameter"),
    ):
        with subtests.test(name=name, params=params):
            problem(await client.get(f"/v1/worlds/{name}/report", params=params), status, code)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    problem(await client.get(f"/v1/worlds/{world}/report"), 501, "extra_missing", extra="analytics")
