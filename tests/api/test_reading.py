"""Reading pages, streams and single effects."""

from __future__ import annotations

import itertools

import httpx2
import orjson
import pytest
import pytest_asyncio
from fastapi import FastAPI
from worldledger_service.api.answers import IMMUTABLE
from worldledger_service.api.context import Services

from .helpers import chain_checksum, draft, problem

PATH = "/v1/worlds/town/effects"
NDJSON = {"Accept": "application/x-ndjson"}


pytestmark = pytest.mark.asyncio(loop_scope="module")
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def client(shared_client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """Talk to the application that these tests share."""
    return shared_client


@pytest.fixture(scope="module")
def services(shared_app: FastAPI) -> Services:
    """Return what its routes are handed."""
    found: Services = shared_app.state.services
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(client: httpx2.AsyncClient) -> str:
    """Return a world of 26 effects, of two kinds and two sources, which these tests read and leave as it is."""
    await client.post("/v1/worlds", json={"world_id": "town", "time_authority": "client"})
    drafts = [
        draft(n, kind="Odd" if n % 2 else "Even", source_id="alice" if n < 10 else "bob", sim_time=n / 4)
        for n in range(25)
    ]
    assert (await client.post(PATH, json=drafts)).status_code == 201
    return "town"


@pytest_asyncio.fixture(loop_scope="module")
async def path(client: httpx2.AsyncClient) -> str:
    """Return the path of the effects of a new world that only this test uses."""
    name = f"world-{next(_numbers)}"
    assert (await client.post("/v1/worlds", json={"world_id": name})).status_code == 201
    return f"/v1/worlds/{name}/effects"


async def _walk(client: httpx2.AsyncClient, url: str) -> list[list[int]]:
    """Follow rel=next and give the global_seqs of each page."""
    pages = []
    following: str | None = url
    while following is not None:
        response = await client.get(following)
        assert response.status_code == 200, response.text
        page = response.json()
        assert len(page["checksums"]) == len(page["effects"])
        pages.append([effect["global_seq"] for effect in page["effects"]])
        following = response.links["next"]["url"] if "next" in response.links else None
        assert (following is None) == (page["next_after_seq"] is None)
        assert following is None or page["next_after_seq"] == page["through_seq"] == pages[-1][-1]
    return pages


async def test_pages_walk_through_the_log(client: httpx2.AsyncClient, filled: str) -> None:
    """Following rel=next gives every effect once, ascending; the last page knows that it is the last."""
    seqs = list(range(1, 27))
    assert await _walk(client, f"{PATH}?limit=10") == [seqs[:10], seqs[10:20], seqs[20:]]
    assert await _walk(client, f"{PATH}?limit=13") == [seqs[:13], seqs[13:]]
    assert await _walk(client, f"{PATH}?limit=26") == [seqs]
    assert await _walk(client, PATH) == [seqs]
    assert await _walk(client, f"{PATH}?after_seq=20&until_seq=24&limit=3") == [[21, 22, 23], [24]]
    assert await _walk(client, f"{PATH}?until_seq=9007199254740991&limit=20") == [seqs[:20], seqs[20:]]
    assert await _walk(client, f"{PATH}?after_seq=26") == [[]]
    assert await _walk(client, f"{PATH}?until_seq=0") == [[]]


async def test_filters_hold_along_the_walk(client: httpx2.AsyncClient, filled: str) -> None:
    """Filtered pages have what matches and nothing else, and no empty page at the end."""
    assert await _walk(client, f"{PATH}?kind=Odd&limit=6") == [list(range(3, 15, 2)), list(range(15, 27, 2))]
    assert await _walk(client, f"{PATH}?source_id=alice&limit=100") == [list(range(2, 12))]
    assert await _walk(client, f"{PATH}?source_id=alice&kind=Odd&limit=3") == [[3, 5, 7], [9, 11]]
    assert await _walk(client, f"{PATH}?kind=%F0%9F%99%82%26") == [[]]


async def test_a_page_tells_how_far_it_looked(client: httpx2.AsyncClient, filled: str) -> None:
    """through_seq is where a later request goes on: the last effect of a cut page, else the end of the range."""
    for query, through in (
        ("limit=5", 5),
        ("", 26),
        ("kind=WorldCreated", 26),
        ("until_seq=20", 20),
        ("until_seq=99", 26),
        ("after_seq=26", 26),
        ("after_seq=20&until_seq=10", 20),
    ):
        assert (await client.get(f"{PATH}?{query}")).json()["through_seq"] == through, query


async def test_going_on_from_beyond_the_head_is_refused(client: httpx2.AsyncClient, filled: str) -> None:
    """An after_seq that the world has not reached is refused, naming the head, for pages and streams."""
    for seq in (27, 2**53 - 1):
        for query in ("", "&format=ndjson", "&kind=Odd", f"&until_seq={seq}"):
            response = await client.get(f"{PATH}?after_seq={seq}{query}")
            problem(response, 409, "position_ahead", head_seq=26, parameter="after_seq", **{"in": "query"})


async def test_the_limit_of_a_page_is_capped(client: httpx2.AsyncClient, services: Services, path: str) -> None:
    """However much is asked for, a page has at most page_limit effects; by default it has 100."""
    await client.post(path, json=[draft()] * 1000)
    assert services.settings.page_limit == 1000
    assert len((await client.get(f"{path}?limit=9007199254740991")).json()["effects"]) == 1000
    assert len((await client.get(path)).json()["effects"]) == 100


async def test_a_page_of_large_effects_is_cut(client: httpx2.AsyncClient, path: str) -> None:
    """A page ends after a few MiB; the walk still gives every effect once."""
    await client.post(path, json=[draft("x" * 1_000_000) for _ in range(10)])
    pages = await _walk(client, f"{path}?limit=100")
    assert [seq for page in pages for seq in page] == list(range(1, 12))
    assert all(0 < len(page) <= 6 for page in pages)


async def test_a_page_holds_the_stored_bytes(client: httpx2.AsyncClient, services: Services, filled: str) -> None:
    """A page's effects are the stored bytes, in a frame that is JSON."""
    rows = [row async for batch in services.store.reader.batches(filled) for row in batch]
    body = (await client.get(PATH)).content
    assert b'"effects":[' + b",".join(row.text for row in rows) + b"]" in body
    assert orjson.loads(body)["checksums"] == [row.checksum.hex() for row in rows]
    assert orjson.loads(body)["world_id"] == filled


async def test_a_stream_is_the_stored_bytes_and_verifies(
    client: httpx2.AsyncClient, services: Services, filled: str
) -> None:
    """Each line of the NDJSON is hashed as it is, by the five documented lines, up to the position in the header."""
    response = await client.get(PATH, headers=NDJSON)
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.content.endswith(b"\n")
    lines = response.content.split(b"\n")[:-1]
    checksum = None
    for line in lines:
        checksum = chain_checksum(line, checksum)
    assert response.headers["worldledger-through"] == f"26:{checksum}"
    assert lines == [row.text async for batch in services.store.reader.batches(filled) for row in batch]


async def test_a_stream_has_a_range_and_filters(client: httpx2.AsyncClient, filled: str, path: str) -> None:
    """The parameters of pages hold for streams; without limit a stream is not cut."""

    async def seqs(query: str, of: str = PATH) -> list[int]:
        response = await client.get(f"{of}?format=ndjson&{query}")
        assert response.status_code == 200
        return [orjson.loads(line)["global_seq"] for line in response.content.splitlines()]

    assert await seqs("after_seq=3&until_seq=6") == [4, 5, 6]
    assert await seqs("limit=2") == [1, 2]
    assert await seqs("kind=Odd&after_seq=20") == [21, 23, 25]
    assert await seqs("source_id=alice&kind=Even") == [2, 4, 6, 8, 10]
    assert await seqs("after_seq=26") == []
    for _ in range(2):
        await client.post(path, json=[draft()] * 1000)
    assert await seqs("", path) == list(range(1, 2002))


async def test_a_stream_says_where_its_range_ends(client: httpx2.AsyncClient, filled: str) -> None:
    """The header names the last effect of the range, also where it ends before the head."""
    checksum = (await client.get(f"{PATH}/9")).headers["worldledger-checksum"]
    response = await client.get(f"{PATH}?until_seq=9", headers=NDJSON)
    assert response.headers["worldledger-through"] == f"9:{checksum}"
    assert "worldledger-through" not in (await client.get(f"{PATH}?limit=3", headers=NDJSON)).headers
    assert "worldledger-through" not in (await client.get(f"{PATH}?until_seq=0", headers=NDJSON)).headers


async def test_the_form_is_chosen_by_accept_or_by_format(client: httpx2.AsyncClient, filled: str) -> None:
    """NDJSON is for those who ask for it; everybody else gets a page."""
    for accept, query, ndjson in (
        ("application/x-ndjson", "", True),
        ("application/x-ndjson;q=1, application/json", "", True),
        ("application/json, application/x-ndjson", "", False),
        ("text/html, */*", "", False),
        ("application/json", "format=ndjson", True),
        ("application/x-ndjson", "format=json", False),
    ):
        response = await client.get(f"{PATH}?{query}", headers={"Accept": accept})
        assert (response.headers["content-type"] == "application/x-ndjson") is ndjson, accept
        assert response.headers["vary"].split(", ")[0] == "Accept"


async def test_what_cannot_change_may_be_kept_for_ever(client: httpx2.AsyncClient, filled: str) -> None:
    """A range that the world has passed is immutable; one that may still grow is not."""
    for query, fixed in (("until_seq=26", True), ("until_seq=5&limit=2", True), ("until_seq=27", False), ("", False)):
        for headers in ({}, NDJSON):
            response = await client.get(f"{PATH}?{query}", headers=headers)
            assert response.headers["cache-control"] == (IMMUTABLE if fixed else "no-cache"), query


async def test_one_effect_is_its_bytes(client: httpx2.AsyncClient, services: Services, filled: str) -> None:
    """A single effect is the hashed bytes, with its checksum beside it, and never changes."""
    previous = await services.store.reader.effect(filled, 4)
    response = await client.get(f"{PATH}/5")
    assert response.content == (await services.store.reader.effect(filled, 5)).text
    checksum = response.headers["worldledger-checksum"]
    assert checksum == chain_checksum(response.content, previous.checksum.hex())
    assert response.headers["etag"] == f'"{filled}:5:{checksum[:8]}"'
    assert response.headers["cache-control"] == IMMUTABLE
    again = await client.get(f"{PATH}/5", headers={"If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_an_effect_that_is_not_there_names_the_head(client: httpx2.AsyncClient, filled: str) -> None:
    """An effect beyond the head is not found, and the answer says where the head is."""
    for seq in (27, 2**53 - 1):
        problem(await client.get(f"{PATH}/{seq}"), 404, "effect_not_found", head_seq=26, global_seq=seq)


async def test_a_seq_that_cannot_be_is_refused(
    client: httpx2.AsyncClient, filled: str, subtests: pytest.Subtests
) -> None:
    """A seq that is no positive integer of a sane size is refused, whatever it is."""
    for seq in ["0", "-1", "abc", "1.5", "NaN", "%00", "2%00", str(2**53), str(2**63), "9" * 400, "9" * 5000, "%F0"]:
        with subtests.test(seq=seq[:20]):
            problem(await client.get(f"{PATH}/{seq}"), 422, "invalid_parameter", parameter="seq", **{"in": "path"})


async def test_parameters_that_cannot_be_are_refused(
    client: httpx2.AsyncClient, filled: str, subtests: pytest.Subtests
) -> None:
    """Every parameter is checked and named before the database sees it."""
    names = ("after_seq", "until_seq", "limit")
    numbers = [f"{name}={value}" for name in names for value in ("-1", "x", "1.5", "", str(2**64), "9" * 5000, "%00")]
    words = [f"{name}={value}" for name in ("kind", "source_id") for value in ("", "%00", "a%00b", "x" * 201)]
    for query in [*numbers, "limit=0", *words, "format=xml", "after_seq=1&limit=no"]:
        with subtests.test(query=query[:30]):
            for accept in ({}, NDJSON):
                response = await client.get(f"{PATH}?{query}", headers=accept)
                name = query.rpartition("&")[2].partition("=")[0]
                problem(response, 422, "invalid_parameter", parameter=name, **{"in": "query"})


_WORDS = [
    *((f"{name}={value}", 0) for name in ("after_seq", "until_seq") for value in ("-1", "x", "1.0", "+1", 2**53)),
    *((f"limit={value}", 1) for value in ("0", "", "%201", "1_0", 2**53)),
]


async def test_a_refused_number_is_told_its_range(client: httpx2.AsyncClient, filled: str) -> None:
    """Whatever is wrong with a number, the answer says in plain words what it must be, with one upper limit."""
    for query, least in _WORDS:
        found = problem(await client.get(f"{PATH}?{query}"), 422, "invalid_parameter")
        name = query.partition("=")[0]
        assert found["detail"] == f"{name}: must be a whole number from {least} to 9007199254740991", query


async def test_a_refused_word_is_told_its_rule(client: httpx2.AsyncClient, filled: str) -> None:
    """What is wrong with a text or a choice is said in plain words."""
    for query, detail in (
        ("kind=", "kind: must not be empty"),
        (f"source_id={'x' * 201}", "source_id: must have at most 200 characters"),
        ("format=xml", "format: must be 'json' or 'ndjson'"),
    ):
        assert problem(await client.get(f"{PATH}?{query}"), 422, "invalid_parameter")["detail"] == detail


async def test_several_bad_parameters_are_all_named(client: httpx2.AsyncClient, filled: str) -> None:
    """Where several parameters are wrong, the problem lists them all."""
    found = problem(await client.get(f"{PATH}?limit=x&after_seq=y"), 422, "invalid_parameter")
    assert [one["parameter"] for one in found["errors"]] == ["after_seq", "limit"]


async def test_head_is_get_without_a_body(client: httpx2.AsyncClient, filled: str) -> None:
    """HEAD answers with GET's headers, for pages, effects and streams that would not end."""
    for path in (PATH, f"{PATH}/5", "/v1/worlds", f"/v1/worlds/{filled}", "/livez", "/readyz"):
        got, head = await client.get(path), await client.head(path)
        assert (head.status_code, head.content, head.headers) == (200, b"", got.headers)
    for path in (f"{PATH}?format=ndjson", f"/v1/worlds/{filled}/tail?after_seq=0"):
        head = await client.head(path)
        assert (head.status_code, head.content) == (200, b"")
    assert (await client.head("/v1/worlds/nowhere")).status_code == 404
