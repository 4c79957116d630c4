"""Appending over HTTP: one draft, lists, refusals."""

from __future__ import annotations

from typing import Any

import httpx2
import orjson
import pytest
from fastapi import FastAPI
from worldledger_service.api import bodies
from worldledger_service.api.context import Services
from worldledger_service.app import create_app
from worldledger_service.runtime import Orchestrator
from worldledger_service.store import units

from .helpers import JSON, draft, problem, settings

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _head(client: httpx2.AsyncClient, world: str) -> int:
    seq: int = (await client.get(f"/v1/worlds/{world}")).json()["head_seq"]
    return seq


async def test_one_draft_gets_one_receipt(client: httpx2.AsyncClient, world: str) -> None:
    """A draft is answered with 201, its receipt and where the effect is."""
    response = await client.post(f"/v1/worlds/{world}/effects", json=draft(7))
    assert response.status_code == 201
    assert response.headers["location"] == f"/v1/worlds/{world}/effects/2"
    receipt = response.json()
    stored = await client.get(response.headers["location"])
    assert stored.json()["payload"] == {"n": 7}
    assert receipt == {
        "global_seq": 2,
        "uuid": stored.json()["uuid"],
        "checksum": stored.headers["worldledger-checksum"],
        "replayed": False,
    }


async def test_every_field_of_a_draft_is_kept(client: httpx2.AsyncClient, world: str) -> None:
    """All that a draft may say stands in the effect."""
    said = draft(
        1, sim_time=2.5, priority=-3, req_id="r", caused_by=1, source_metadata={"file": "a.csv"}, kind="Ünïcode 🙂"
    )
    assert (await client.post(f"/v1/worlds/{world}/effects", json=said)).status_code == 201
    effect = (await client.get(f"/v1/worlds/{world}/effects/2")).json()
    assert {name: effect[name] for name in said} == said


async def test_drafts_without_priority_have_the_world_s(client: httpx2.AsyncClient) -> None:
    """A world's default priority is that of single drafts and of lists; sent again, they are known."""
    new = {"world_id": "urgent", "orchestrator": {"default_priority": 7}}
    assert (await client.post("/v1/worlds", json=new)).status_code == 201
    path = "/v1/worlds/urgent/effects"
    one, several = draft(1, req_id="r"), [draft(2), draft(3, priority=0)]
    assert (await client.post(path, json=one)).status_code == 201
    assert (await client.post(path, json=several)).status_code == 201
    again = await client.post(path, json=one)
    assert (again.status_code, again.json()["replayed"]) == (200, True)
    page = (await client.get(f"{path}?after_seq=1")).json()
    assert [effect["priority"] for effect in page["effects"]] == [7, 7, 0]


async def test_a_version_that_is_not_semantic_is_refused(client: httpx2.AsyncClient, world: str) -> None:
    """Path and example tell what is wanted."""
    path = f"/v1/worlds/{world}/effects"
    response = await client.post(path, json=[draft(1), draft(2, schema_version="1.0")])
    found = problem(response, 422, "invalid_effect", index=1)
    assert found["path"] == "$.schema_version"
    assert '"1.0.0"' in found["detail"]
    assert (await client.post(path, json=draft(1, schema_version="1.0.0-rc.1"))).status_code == 201


async def test_a_list_is_appended_in_its_order(client: httpx2.AsyncClient, world: str) -> None:
    """A list of drafts gets as many receipts, in its order, without a gap."""
    response = await client.post(f"/v1/worlds/{world}/effects", json=[draft(n) for n in range(1000)])
    assert response.status_code == 201
    assert "location" not in response.headers
    receipts = response.json()["receipts"]
    assert [receipt["global_seq"] for receipt in receipts] == list(range(2, 1002))
    page = (await client.get(f"/v1/worlds/{world}/effects?after_seq=1&limit=1000")).json()
    assert [effect["payload"]["n"] for effect in page["effects"]] == list(range(1000))
    assert [(receipt["uuid"], receipt["checksum"]) for receipt in receipts] == [
        (effect["uuid"], checksum) for effect, checksum in zip(page["effects"], page["checksums"], strict=True)
    ]


_BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"payload": {"a": [1, {"b": 2**53}]}}, "$.payload.a[1].b"),
    ({"kind": ""}, "$.kind"),
    ({"kind": 7}, "$.kind"),
    ({"payload": []}, "$.payload"),
    ({"source_id": "x" * 201}, "$.source_id"),
    ({"bogus": 1}, "$.bogus"),
    ({"sim_time": "soon"}, "$.sim_time"),
    ({"priority": 1.5}, "$.priority"),
    ({"caused_by": 0}, "$.caused_by"),
    ({"caused_by": 99}, "$.caused_by"),
    ({"req_id": ""}, "$.req_id"),
    ({"source_metadata": [1]}, "$.source_metadata"),
]


async def test_a_refusal_names_index_and_path(
    client: httpx2.AsyncClient, world: str, subtests: pytest.Subtests
) -> None:
    """A refused draft is named by its path, in a list by its index too, and nothing of a list is written."""
    url = f"/v1/worlds/{world}/effects"
    for bad, path in _BAD_FIELDS:
        with subtests.test(bad=str(bad)[:60]):
            assert "index" not in problem(await client.post(url, json=draft(**bad)), 422, "invalid_effect", path=path)
            for drafts, index in (([draft(), draft(**bad), draft()], 1), ([draft(**bad)], 0)):
                response = await client.post(url, json=drafts)
                problem(response, 422, "invalid_effect", index=index, path=path, instance=url)
    assert await _head(client, world) == 1


_NO_DRAFTS: list[tuple[bytes, int | None, str | None]] = [
    (b'{"kind":"a","kind":"b"}', None, "$"),
    (b'{"payload":{"a":{"b":1,"c":{},"b":2}}}', None, "$.payload.a"),
    (b'[{"kind":"a"},{"payload":{"x":[0,{"y":1,"y":1}]}}]', 1, "$.payload.x[1]"),
    (b'[{},[{"y":1,"y":1}]]', 1, "$[0]"),
    (b'{"kind":"K","payload":{"v":NaN},"source_id":"s","schema_version":"1.0.0"}', None, "$.payload.v"),
    (b'[{"kind":"K","payload":{"v":-Infinity},"source_id":"s","schema_version":"1.0.0"}]', 0, "$.payload.v"),
    (b'{"kind":"K","payload":{"v":1e999},"source_id":"s","schema_version":"1.0.0"}', None, "$.payload.v"),
    (b'{"kind":"K","payload":{"v":-0.0},"source_id":"s","schema_version":"1.0.0"}', None, "$.payload.v"),
    (b'{"kind":"K","payload":{"v":"\\u0000"},"source_id":"s","schema_version":"1.0.0"}', None, "$.payload.v"),
    (b'{"kind":"K","payload":{"v":"\\ud800"},"source_id":"s","schema_version":"1.0.0"}', None, "$.payload.v"),
    (b'{"kind":"K","payload":{"\\udfff":1},"source_id":"s","schema_version":"1.0.0"}', None, "$.payload"),
    (
        b'{"kind":"K","payload":{"v":' + b"9" * 5000 + b'},"source_id":"s","schema_version":"1.0.0"}',
        None,
        "$.payload.v",
    ),
    (b'{"kind":"K\\u0000","payload":{},"source_id":"s","schema_version":"1.0.0"}', None, "$.kind"),
    (
        b'{"kind":"K","payload":{"a":' + b"[" * 99 + b"]" * 99 + b'},"source_id":"s","schema_version":"1.0.0"}',
        None,
        None,
    ),
    (b"[" * 100_000, 0, None),
    (b'{"a":' * 100_000, None, None),
    (b"[" * 5000 + b"]" * 5000, 0, None),
    (b"", None, "$"),
    (b"nonsense", None, "$"),
    (b'{"kind":"K"', None, "$"),
    (b"\xff\xfe", None, "$"),
    (b'{"kind":"\xc3"}', None, "$"),
    (b"\xef\xbb\xbf{}", None, "$"),
    (b"null", None, "$"),
    (b'"text"', None, "$"),
    (b"7", None, "$"),
    (b"[]", None, "$"),
    (b"[null]", 0, "$"),
    (b"[[]]", 0, "$"),
    (b"[{}]", 0, "$.kind"),
]


async def test_what_is_no_draft_is_refused_as_it_arrived(
    client: httpx2.AsyncClient, world: str, subtests: pytest.Subtests
) -> None:
    """A body is judged as it arrived: a second key, a NaN, a broken character are found and named."""
    for body, index, path in _NO_DRAFTS:
        with subtests.test(body=body[:60], size=len(body)):
            response = await client.post(f"/v1/worlds/{world}/effects", content=body, headers=JSON)
            found = problem(response, 422, "invalid_effect", index=index)
            assert path is None or found["path"] == path
            assert len(response.content) < 5000
    assert await _head(client, world) == 1


async def test_more_than_a_thousand_are_refused(client: httpx2.AsyncClient, world: str) -> None:
    """A list over the limit is refused as a whole."""
    response = await client.post(f"/v1/worlds/{world}/effects", json=[draft()] * 1001)
    problem(response, 422, "invalid_effect", limit=1000)
    assert await _head(client, world) == 1


async def test_system_kinds_are_the_service_s_own(client: httpx2.AsyncClient, world: str) -> None:
    """A client cannot write the kinds that the service writes."""
    url = f"/v1/worlds/{world}/effects"
    for kind in ["WorldCreated", "WorldPaused", "IntentSettled", "GenerationCut", "StateDigest", "AgentRegistered"]:
        problem(await client.post(url, json=draft(kind=kind)), 422, "reserved_kind", path="$.kind")
        body = [draft(), draft(kind=kind)]
        problem(await client.post(url, json=body), 422, "reserved_kind", index=1, path="$.kind")
    assert await _head(client, world) == 1


async def test_sim_time_is_for_its_authority(client: httpx2.AsyncClient, world: str) -> None:
    """Who may not set sim_time is told so, and that it cannot go back."""
    await client.post("/v1/worlds", json={"world_id": "wall"})
    await client.post("/v1/worlds", json={"world_id": "engine", "time_authority": "unity"})
    for name in ("wall", "engine"):
        response = await client.post(f"/v1/worlds/{name}/effects", json=[draft(), draft(sim_time=1)])
        problem(response, 422, "time_authority", index=1, path="$.sim_time")
    said = draft(source_id="unity", sim_time=1)
    assert (await client.post("/v1/worlds/engine/effects", json=said)).status_code == 201
    assert (await client.post(f"/v1/worlds/{world}/effects", json=draft(sim_time=5))).status_code == 201
    response = await client.post(f"/v1/worlds/{world}/effects", json=[draft(), draft(sim_time=4.5)])
    problem(response, 409, "sim_time_order", index=1, path="$.sim_time", expected_min=5.0, sim_time=4.5)
    assert await _head(client, world) == 2


async def test_an_effect_over_the_limit_is_too_large(client: httpx2.AsyncClient, world: str) -> None:
    """An effect over 1 MiB is refused as too large, in a list by its index."""
    large = draft("x" * 2**20)
    problem(await client.post(f"/v1/worlds/{world}/effects", json=large), 413, "effect_too_large", limit=2**20)
    wrong = {**draft(["x" * 2**20]), "kind": "Speak"}  # of which the ruleset is not asked
    problem(await client.post(f"/v1/worlds/{world}/effects", json=wrong), 413, "effect_too_large", limit=2**20)
    body = [draft(), large]
    problem(await client.post(f"/v1/worlds/{world}/effects", json=body), 413, "effect_too_large", index=1)
    assert await _head(client, world) == 1


async def test_a_large_body_is_read_like_a_small_one(client: httpx2.AsyncClient, world: str) -> None:
    """Bodies of several MiB are parsed with the same care: good ones are written, repeated keys found."""
    drafts = [draft("x" * 100_000) for _ in range(30)]
    assert (await client.post(f"/v1/worlds/{world}/effects", json=drafts)).status_code == 201
    body = orjson.dumps(drafts)[:-1] + b',{"kind":"a","kind":"b"}]'
    response = await client.post(f"/v1/worlds/{world}/effects", content=body, headers=JSON)
    problem(response, 422, "invalid_effect", index=30, path="$")


async def test_json_is_json(client: httpx2.AsyncClient, world: str) -> None:
    """A body declared as some JSON in UTF-8 is read."""
    json = ["application/json", "Application/JSON", "application/x+json", "application/json;v=1"]
    json += [f"application/json; charset={name}" for name in ("utf-8", "UTF-8", '"utf-8"', "utf8")]
    for declared in json:
        for encoding in ({}, {"Content-Encoding": "identity"}):
            headers = {"Content-Type": declared, **encoding}
            response = await client.post(f"/v1/worlds/{world}/effects", content=orjson.dumps(draft()), headers=headers)
            assert response.status_code == 201, headers


async def test_another_media_type_is_refused(client: httpx2.AsyncClient, world: str) -> None:
    """A body declared as anything else is not guessed at, nor is one in another charset."""
    others = ["text/plain", "text/plain; application/json", "application/x-www-form-urlencoded", "multipart/form-data"]
    others += ["application/x-ndjson", "json", "", "application/json; charset=latin-1", "application/json;charset="]
    for declared in others:
        for path in ["/v1/worlds", f"/v1/worlds/{world}/effects"]:
            response = await client.post(path, content=orjson.dumps(draft()), headers={"Content-Type": declared})
            problem(response, 415, "unsupported_media_type")
    assert await _head(client, world) == 1


async def test_a_body_of_no_type_is_refused(client: httpx2.AsyncClient, world: str) -> None:
    """A body without Content-Type, which any web page may send to any address, writes nothing."""
    for path, body in (("/v1/worlds", {"world_id": "other"}), (f"/v1/worlds/{world}/effects", draft())):
        problem(await client.post(path, content=orjson.dumps(body)), 415, "unsupported_media_type")
    assert await _head(client, world) == 1
    assert (await client.get("/v1/worlds/other")).status_code == 404


async def test_a_compressed_body_is_refused(client: httpx2.AsyncClient, world: str) -> None:
    """A Content-Encoding is not undone: the answer names it."""
    for encoding in ("gzip", "br", "identity, gzip"):
        headers = {**JSON, "Content-Encoding": encoding}
        response = await client.post(f"/v1/worlds/{world}/effects", content=orjson.dumps(draft()), headers=headers)
        problem(response, 415, "unsupported_media_type", content_encoding=encoding)


async def test_a_body_over_the_limit_is_refused(database_url: str) -> None:
    """The limit on bodies holds whether the length was declared or not, to the byte."""
    made = create_app(settings(max_body_bytes=2048), database_url)
    transport = httpx2.ASGITransport(app=made)
    async with (
        made.router.lifespan_context(made),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        assert (await client.post("/v1/worlds", json={"world_id": "w"})).status_code == 201
        fits = orjson.dumps(draft("x" * 1900)).ljust(2048)
        assert (await client.post("/v1/worlds/w/effects", content=fits, headers=JSON)).status_code == 201

        async def parts() -> Any:
            yield fits
            yield b" "

        for content in (fits + b" ", parts()):
            response = await client.post("/v1/worlds/w/effects", content=content, headers=JSON)
            problem(response, 413, "body_too_large", limit=2048)
        problem(await client.post("/v1/worlds", content=fits + b" ", headers=JSON), 413, "body_too_large")


async def test_a_body_of_too_many_values_is_refused(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before they are made, however they are spelt; what stands in strings is no value."""
    monkeypatch.setattr(bodies, "_PIECE", 7)
    made = create_app(settings(max_body_values=1024), database_url)
    transport = httpx2.ASGITransport(app=made)
    async with (
        made.router.lifespan_context(made),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        assert (await client.post("/v1/worlds", json={"world_id": "many"})).status_code == 201
        for text in ('\\",[{' * 1000, '",' * 1000, "[]" * 1000, ["a,"] * 500, ["\\"] * 500):
            content = orjson.dumps({**draft(), "payload": {"x": text}})
            assert (await client.post("/v1/worlds/many/effects", content=content, headers=JSON)).status_code == 201
        for many in (b"1," * 1025, b"[]," * 513, b"[" * 1025, b'"\\"",' * 1025, b'{"": {}},' * 513):
            for path in ("/v1/worlds", "/v1/worlds/many/effects"):
                response = await client.post(path, content=b"[%b1]" % many, headers=JSON)
                problem(response, 413, "too_many_values", limit=1024)


async def test_too_much_at_once_is_put_off(app: FastAPI, client: httpx2.AsyncClient, services: Services) -> None:
    """When more waits than is allowed, the client is told when to come back."""
    made = create_app(settings(max_waiting=2), services.store.reader._url)
    async with (
        made.router.lifespan_context(made),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=made), base_url="http://127.0.0.1") as busy,
    ):
        assert (await busy.post("/v1/worlds", json={"world_id": "busy"})).status_code == 201
        response = await busy.post("/v1/worlds/busy/effects", json=[draft(), draft(), draft()])
        found = problem(response, 503, "overloaded", recovery="retry_with_delay")
        assert int(response.headers["retry-after"]) >= 1
        assert "wait" in found["detail"]


async def test_a_large_draft_is_measured_before_anything_is_made_of_it(
    client: httpx2.AsyncClient, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other requests wait while a large text is checked and written; one too large for an effect is neither."""

    def gate(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(units, "check_draft", gate)
    large = draft(1, payload={"text": "x" * 2**21})
    for body, index in ((large, None), ([draft(1), large], 1)):
        refusal = problem(await client.post(f"/v1/worlds/{world}/effects", json=body), 413, "effect_too_large")
        assert refusal.get("index") == index


async def test_a_large_intent_is_measured_before_anything_is_made_of_it(
    client: httpx2.AsyncClient, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is an intent, and an atomic list of them; one of any other list has a result of its own."""
    path = f"/v1/worlds/{world}/intents"
    small = {"kind": "Speak", "payload": {"text": "x"}, "req_id": "r", "agent_id": "alice", "context_seq": 1}
    large = {**small, "payload": {"text": "x" * 2**21}}
    assert (await client.post(path, json=[small, large])).status_code == 200

    async def submit(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(Orchestrator, "submit_intent", submit)
    monkeypatch.setattr(Orchestrator, "submit_intents", submit)
    for body, index in ((large, None), ({"intents": [small, large], "atomic": True}, 1)):
        refusal = problem(await client.post(path, json=body), 413, "effect_too_large", limit=2**20)
        assert refusal.get("index") == index


async def test_what_no_memory_would_let_in_is_told_so(
    client: httpx2.AsyncClient, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory is short, a draft that is too large for an effect is still 413; another may be tried again."""
    monkeypatch.setattr(bodies, "_has_room", lambda _size: False)
    path, large = f"/v1/worlds/{world}/effects", draft(1, payload={"text": "x" * 1024 * 1024})
    problem(await client.post(path, json=large), 413, "effect_too_large")
    assert problem(await client.post(path, json=[draft(1), large]), 413, "effect_too_large")["index"] == 1
    problem(await client.post(path, json=draft(1, payload={"text": "x" * 1024 * 512})), 503, "overloaded")
