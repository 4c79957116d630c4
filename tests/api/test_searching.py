"""Searching the payloads of a world's effects."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import httpx2
import orjson
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worldledger_service.api.context import Services
from worldledger_service.store.reader import Reader
from worldledger_service.store.searching import Wanted, search

from tests.waiting import wait_for

from .helpers import Served, draft, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXTS = [
    "Figs for two!",
    "figs",
    'say "figs"',
    "100% of_it",
    "100 of it",
    "C:\\figs\\",
    "žluťoučký",
    "line\nend",
    "\U0001f642",
]


@pytest_asyncio.fixture(loop_scope="module")
async def spoken(client: httpx2.AsyncClient, world: str) -> str:
    """Return a world in which each text was said once, from seq 2 on, and one that is named figs did something."""
    drafts = [draft(kind="Speak", payload={"text": text}, source_id=f"a{n % 2}") for n, text in enumerate(TEXTS)]
    drafts.append(draft(kind="Figs", payload={"Weight": 3}, source_id="figs"))
    response = await client.post(f"/v1/worlds/{world}/effects", json=drafts)
    assert response.status_code == 201, response.text
    return world


async def _search(client: httpx2.AsyncClient, world: str, **params: Any) -> tuple[list[int], dict[str, Any]]:
    """Return the seqs that are found, in order, and how the search ended."""
    response = await client.get(f"/v1/worlds/{world}/search", params=params)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/x-ndjson"), response.text
    lines = [orjson.loads(line) for line in response.content.splitlines()]
    assert [list(line) for line in lines if len(line) != 1] == []
    assert [name for line in lines for name in line if name == "end"] == list(lines[-1])
    found = [line["hit"]["global_seq"] for line in lines if "hit" in line]
    assert lines[-1]["end"]["hits"] == len(found)
    return found, lines[-1]["end"]


async def test_a_text_is_found_in_payloads_alone(client: httpx2.AsyncClient, spoken: str) -> None:
    """Newest first or oldest first, A-Z without regard to case; kinds, sources and worlds are no payload."""
    found, end = await _search(client, spoken, q="FIGS")
    assert (found, end) == ([7, 4, 3, 2], {"hits": 4, "complete": True, "next": None})
    assert (await _search(client, spoken, q="figs", order="oldest"))[0] == [2, 3, 4, 7]
    assert (await _search(client, spoken, q=spoken))[0] == []
    assert (await _search(client, spoken, q="weight"))[0] == [11]
    assert (await _search(client, spoken, q="figs", kind="Speak", source_id="a0"))[0] == [4, 2]
    assert (await _search(client, spoken, q="figs", kind="Figs"))[0] == []
    assert (await _search(client, spoken, q="figs", after_seq=2, until_seq=6))[0] == [4, 3]
    assert (await _search(client, spoken, q="figs", after_seq=11))[0] == []
    assert (await _search(client, spoken, q="FOR Two!"))[0] == [2]
    assert (await _search(client, spoken, q="100% OF"))[0] == [5]


async def test_a_text_is_no_pattern(client: httpx2.AsyncClient, spoken: str) -> None:
    """Characters that mean something in SQL or in JSON mean themselves."""
    for text, seqs in (
        ("%", [5]),
        ("_i", [5]),
        ("0% of_", [5]),
        ("100%it", []),
        ("\\", [7]),
        ("\\figs", [7]),
        ('"figs"', [4]),
        ("e\ne", [9]),
        ("žluť", [8]),
        ("ŽLUŤ", []),
        ("\U0001f642", [10]),
        ("'; drop table effects; --", []),
    ):
        assert (await _search(client, spoken, q=text))[0] == seqs, text


async def test_a_hit_says_what_it_is(client: httpx2.AsyncClient, world: str) -> None:
    """A hit has the effect's facts and what stands around the text, cut where it is long."""
    body = draft(kind="Speak", payload={"text": "x" * 500 + "figs" + "ž" * 500}, source_id="bob", sim_time=7.5)
    await client.post(f"/v1/worlds/{world}/effects", json=body)
    response = await client.get(f"/v1/worlds/{world}/search?q=Figs")
    (line, progress, _) = [orjson.loads(line) for line in response.content.splitlines()]
    excerpt = f"…{'x' * 80}figs{'ž' * 80}…"
    assert line == {"hit": {"global_seq": 2, "kind": "Speak", "source_id": "bob", "sim_time": 7.5, "excerpt": excerpt}}
    assert progress == {"progress": {"through_seq": 1, "scanned": 2, "of": 2}}


async def test_a_search_goes_on_where_it_ended(client: httpx2.AsyncClient, world: str) -> None:
    """With as many hits as were wanted it ends and says how to go on; nothing is found twice or left out."""
    texts = ["figs" if n % 3 else "dates" for n in range(1, 41)]
    drafts = [draft(kind="Speak", payload={"text": text}) for text in texts]
    await client.post(f"/v1/worlds/{world}/effects", json=drafts)
    meant = [n for n, text in enumerate(texts, 2) if text == "figs"]
    for order, expected in (("oldest", meant), ("newest", meant[::-1])):
        with mock.patch("worldledger_service.store.searching._FIRST_SLICE", 7):
            seqs: list[int] = []
            more: dict[str, int] | None = {}
            while more is not None:
                found, end = await _search(client, world, q="figs", order=order, limit=4, **more)
                assert len(found) == 4 or end["complete"]
                seqs += found
                more = end["next"]
        assert seqs == expected
    found, end = await _search(client, world, q="figs", limit=len(meant), order="oldest")
    assert (found, end["complete"]) == (meant, True)


async def test_what_cannot_be_searched(client: httpx2.AsyncClient, spoken: str) -> None:
    """A search has a text, and a range that the world has reached."""
    path = f"/v1/worlds/{spoken}/search"
    problem(await client.get(path), 422, "invalid_parameter", parameter="q")
    problem(await client.get(f"{path}?q="), 422, "invalid_parameter", parameter="q")
    problem(await client.get(f"{path}?q=a%00b"), 422, "invalid_parameter", parameter="q")
    problem(await client.get(f"{path}?q=a&after_seq=12"), 409, "position_ahead", head_seq=11)
    problem(await client.get("/v1/worlds/nowhere/search?q=a"), 404, "world_not_found")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["figs", "%", "\\", '"', "t", "o", "100", "\n"]),
    st.integers(1, 11),
    st.integers(1, 11),
    st.integers(1, 12),
    st.booleans(),
    st.integers(1, 5),
)
async def test_any_search_finds_what_there_is(
    services: Services, spoken: str, text: str, after: int, until: int, limit: int, newest: bool, size: int
) -> None:
    """However the range is cut into slices, the hits are those of a plain look at every payload."""
    payloads = [*((seq, {"text": each}) for seq, each in enumerate(TEXTS, 2)), (11, {"Weight": 3})]
    needle = orjson.dumps(text)[1:-1].lower()
    has = [seq for seq, payload in payloads if needle in orjson.dumps(payload).lower() and after < seq <= until]
    wanted = Wanted(text, after, max(until, after), limit, newest)
    with mock.patch("worldledger_service.store.searching._FIRST_SLICE", size):
        slices = [each async for each in search(services.store.reader, spoken, wanted)]
    assert [hit.global_seq for each in slices for hit in each.hits] == (has[::-1] if newest else has)[:limit]


async def test_progress_is_told(client: httpx2.AsyncClient, spoken: str) -> None:
    """While nothing is found, lines say how far the search has come."""
    with (
        mock.patch("worldledger_service.store.searching._FIRST_SLICE", 3),
        mock.patch("worldledger_service.store.searching._GROWTH", 1),
        mock.patch("worldledger_service.api.reading._PROGRESS_SECONDS", 0.0),
    ):
        response = await client.get(f"/v1/worlds/{spoken}/search?q=nothing")
    told = [orjson.loads(line) for line in response.content.splitlines()]
    assert told == [
        *({"progress": {"through_seq": 12 - n, "scanned": n, "of": 11}} for n in (3, 6, 9)),
        {"progress": {"through_seq": 1, "scanned": 11, "of": 11}},
        {"end": {"hits": 0, "complete": True, "next": None}},
    ]


@pytest.mark.asyncio(loop_scope="function")
async def test_a_client_that_leaves_ends_the_search(served: Served, remote: httpx2.AsyncClient) -> None:
    """Nothing more is read for a client that has closed its connection."""
    assert (await remote.post("/v1/worlds", json={"world_id": "w"})).status_code == 201
    await remote.post("/v1/worlds/w/effects", json=[draft(kind="Speak", payload={"text": "figs"}) for _ in range(300)])
    slices = 0
    fetch = Reader.fetch

    async def slowly(self: Reader, statement: str, *arguments: Any) -> Any:
        nonlocal slices
        if "strpos(lower(" in statement:
            slices += 1
            await asyncio.sleep(0.02)
        return await fetch(self, statement, *arguments)

    with (
        mock.patch.object(Reader, "fetch", slowly),
        mock.patch("worldledger_service.store.searching._FIRST_SLICE", 1),
        mock.patch("worldledger_service.store.searching._GROWTH", 1),
    ):
        async with remote.stream("GET", "/v1/worlds/w/search?q=figs") as response:
            async for _ in response.aiter_bytes():
                break
        await wait_for(lambda: slices > 1, "a slice")
        await asyncio.sleep(0.1)
        before = slices
        await asyncio.sleep(0.2)
    assert before == slices < 100
