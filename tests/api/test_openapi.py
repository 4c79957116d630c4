"""The OpenAPI document: whole, true to the program, and true to its answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import httpx2
import orjson
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from worldledger_service.api.agents_of_worlds import AgentView, ObservingAgent, RegisteredAgent, WorldAgentPage
from worldledger_service.api.clock import TimeAuthorityNow, TimeAuthoritySet
from worldledger_service.api.effect_kinds import Vocabulary
from worldledger_service.api.effects import EffectDraft, Receipt, Receipts
from worldledger_service.api.generations import Generation
from worldledger_service.api.health import Health, Readiness
from worldledger_service.api.intents import AcceptedIntent, Intent, IntentResults
from worldledger_service.api.observing import Observations, ObservedEvents
from worldledger_service.api.online import Online
from worldledger_service.api.openapi import Problem, shapes
from worldledger_service.api.parameters import LOOKS
from worldledger_service.api.problems import problem_response, table
from worldledger_service.api.projections import Projection, ProjectionList
from worldledger_service.api.published import SchemaList
from worldledger_service.api.reading import Effect, EffectPage
from worldledger_service.api.sql import QueryList, SqlAnswer
from worldledger_service.api.states import Snapshot, SnapshotPage, State, StateDiff
from worldledger_service.api.verification import Verification
from worldledger_service.api.worlds import WorldPage
from worldledger_service.store import WorldRecord

from worldledger import drafts, errors, intents
from worldledger.genesis import NewWorld
from worldledger.moments import UnreadableMomentError, parse_moment

from .helpers import WorldClient, draft, problem
from .living import AGENTS, INTENTS, intent, new_world, of

METHODS = {"get", "post", "put", "patch", "delete"}


#: These tests share an application, and the document that it has made once.
shared = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def document(shared_client: httpx2.AsyncClient) -> dict[str, Any]:
    """Return the document as clients get it."""
    found: dict[str, Any] = (await shared_client.get("/openapi.json")).json()
    return found


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS & item.keys():
            yield f"{method.upper()} {path}", item[method]


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for member in value.values():
            yield from _references(member)
    elif isinstance(value, list):
        for member in value:
            yield from _references(member)


@shared
async def test_bounds_of_parameters_are_json_schemas(document: dict[str, Any]) -> None:
    """Numbers have their minimum and maximum, and none can be null; no other name stands for a bound."""
    for name, operation in _operations(document):
        for parameter in operation.get("parameters", ()):
            schema = parameter["schema"]
            assert not schema.keys() & {"ge", "le", "gt", "lt"}, (name, parameter)
            assert {"type": "null"} not in schema.get("anyOf", ()), (name, parameter)
            if schema.get("type") == "integer":
                assert {"minimum", "maximum"} <= schema.keys(), (name, parameter)


def _without_maximum(document: dict[str, Any], value: Any, place: str, above: frozenset[str]) -> Iterator[str]:
    """Name the whole numbers in a schema that have no maximum."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return
    if value.get("type") == "integer" and not value.keys() & {"maximum", "const", "enum"}:
        yield place
    name = str(value.get("$ref", "")).rpartition("/")[2]
    if name and name not in above:
        yield from _without_maximum(document, document["components"]["schemas"][name], place, above | {name})
    for key, member in value.items():
        if key not in {"examples", "default"}:
            yield from _without_maximum(document, member, f"{place}.{key}", above)


@shared
async def test_whole_numbers_of_bodies_have_a_maximum(document: dict[str, Any]) -> None:
    """No log holds a larger one than 2^53 - 1, and the document says so wherever a body has one."""
    found = [
        place
        for name, operation in _operations(document)
        for place in _without_maximum(document, operation.get("requestBody", {}).get("content"), name, frozenset())
    ]
    assert found == ["POST /v1/sql.application/json.schema.properties.max_rows.anyOf.0"]  # a larger one is the largest


#: Texts of bodies that may be as long as the effect in which they stand (`WORLDLEDGER_MAX_EFFECT_BYTES`), or a choice
#: among names, by the places where they stand.
_ROUND = "POST /v1/worlds/{world}/rounds"
_UNBOUNDED = {
    *(
        f"{_ROUND}.meta.{name}"
        for name in ("experiment_id", "prar_run_id", "framework", "model", "social_rl_version", "timestamp")
    ),
    *(f"{_ROUND}.messages.[].{name}" for name in ("content", "prar_cue_used")),
    *(
        f"{_ROUND}.messages.[].context_frame.{name}"
        for name in (
            *("base_scenario", "concept_a_manifestation", "concept_b_manifestation"),
            *("experiential_cue", "social_feedback_summary", "prar_cue"),
        )
    ),
    f"{_ROUND}.feedback.{{}}.concepts_embodied.[]",
    f"{_ROUND}.policy_adaptations.[].reason",
    f"{_ROUND}.synthesis",
    "POST /v1/sql.name",
    *(
        f"POST /v1/worlds/{{world}}/agents/{{agent_id}}/generations/{{req_id}}/report.{name}"
        for name in ("intents.[].reason", "error.message", "texts.[].text")
    ),
}


def _unbounded(document: dict[str, Any], schema: Any, place: str, above: frozenset[str]) -> Iterator[str]:
    """Name the texts in a schema whose length has no bound."""
    if not isinstance(schema, dict):
        return
    pattern = schema.get("pattern", "*")
    is_bounded = schema.keys() & {"maxLength", "const", "enum", "format"} or not re.search(r"[*+]|,\}", pattern)
    if schema.get("type") == "string" and not is_bounded:
        yield place
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name and name not in above:
        yield from _unbounded(document, document["components"]["schemas"][name], place, above | {name})
    for key in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(key, ()):
            # What only says which of its members are needed beside each other has their bounds elsewhere.
            if "required" not in each or "type" in each or "$ref" in each:
                yield from _unbounded(document, each, place, above)
    for name, member in schema.get("properties", {}).items():
        yield from _unbounded(document, member, f"{place}.{name}", above)
    yield from _unbounded(document, schema.get("items"), f"{place}.[]", above)
    yield from _unbounded(document, schema.get("additionalProperties"), f"{place}.{{}}", above)


@shared
async def test_texts_of_bodies_have_a_longest(document: dict[str, Any]) -> None:
    """The document says how long each text of a body may be, except for what is as long as it needs to be."""
    found = {
        place
        for name, operation in _operations(document)
        for content in operation.get("requestBody", {}).get("content", {}).values()
        for place in _unbounded(document, content["schema"], name, frozenset())
    }
    assert found == _UNBOUNDED


@shared
async def test_texts_of_parameters_have_a_longest(document: dict[str, Any]) -> None:
    """The document says how long each text of a path, a query or a header may be."""
    found = {
        place
        for name, operation in _operations(document)
        for parameter in operation.get("parameters", ())
        for place in _unbounded(document, parameter["schema"], f"{name}.{parameter['name']}", frozenset())
    }
    assert not found


@shared
async def test_every_route_is_described(document: dict[str, Any]) -> None:
    """Each operation has an id of its own, a tag that is explained, a summary and a description."""
    found = dict(_operations(document))
    assert set(found) == {
        "POST /v1/worlds",
        "GET /v1/worlds",
        "GET /v1/worlds/{world}",
        "GET /v1/worlds/{world}/staleness",
        "PUT /v1/worlds/{world}/staleness",
        "POST /v1/worlds/{world}/effects",
        "GET /v1/worlds/{world}/effects",
        "GET /v1/worlds/{world}/effects/{seq}",
        "GET /v1/worlds/{world}/effects/{seq}/why",
        "GET /v1/worlds/{world}/tail",
        "GET /v1/effects",
        "GET /v1/worlds/{world}/verification",
        "GET /v1/worlds/{world}/state",
        "GET /v1/worlds/{world}/turns/{turn}",
        "POST /v1/worlds/{world}/blocks",
        "GET /v1/worlds/{world}/blocks",
        "POST /v1/worlds/{world}/rounds",
        "GET /v1/worlds/{world}/rounds",
        "GET /v1/worlds/{world}/rounds/{round_number}",
        "GET /v1/worlds/{world}/policy",
        "GET /v1/worlds/{world}/diff",
        "GET /v1/worlds/{world}/snapshots",
        "POST /v1/worlds/{world}/snapshots",
        "POST /v1/worlds/{world}/agents",
        "GET /v1/worlds/{world}/agents",
        "GET /v1/worlds/{world}/agents/{agent_id}",
        "GET /v1/worlds/{world}/agents/{agent_id}/view",
        "GET /v1/worlds/{world}/agents/{agent_id}/observations",
        "GET /v1/worlds/{world}/agents/{agent_id}/events",
        "POST /v1/worlds/{world}/agents/{agent_id}/generations",
        "GET /v1/worlds/{world}/agents/{agent_id}/generations/{req_id}",
        "DELETE /v1/worlds/{world}/agents/{agent_id}/generations/{req_id}",
        "POST /v1/worlds/{world}/agents/{agent_id}/generations/{req_id}/finish",
        "POST /v1/worlds/{world}/agents/{agent_id}/generations/{req_id}/report",
        "POST /v1/worlds/{world}/agents/{agent_id}/lease",
        "GET /v1/worlds/{world}/agents/{agent_id}/ws",
        "POST /v1/worlds/{world}/intents",
        "POST /v1/worlds/{world}/ticks",
        "POST /v1/worlds/{world}/time",
        "GET /v1/worlds/{world}/time-authority",
        "PUT /v1/worlds/{world}/time-authority",
        "GET /v1/games",
        "GET /v1/games/{game_id}",
        "GET /v1/games/{game_id}/moves",
        "POST /v1/games",
        "POST /v1/games/{game_id}/moves",
        "POST /v1/games/{game_id}/resign",
        "GET /v1/games/{game_id}/board.svg",
        "GET /v1/games/{game_id}/watch",
        "GET /v1/sessions",
        "GET /v1/compare",
        "GET /v1/compare/moments",
        "GET /v1/worlds/{world}/report",
        "POST /openenv/chess/reset",
        "POST /openenv/chess/step",
        "GET /openenv/chess/state",
        "GET /openenv/chess/ws",
        "GET /openenv/chess/health",
        "GET /openenv/chess/metadata",
        "GET /openenv/chess/schema",
        "GET /v1/agents",
        "GET /v1/agents/{agent_id}/stats",
        "GET /v1/worlds/{world}/frames",
        "GET /v1/worlds/{world}/agents/{agent_id}/frames",
        "GET /v1/worlds/{world}/density",
        "GET /v1/worlds/{world}/kinds",
        "GET /v1/worlds/{world}/online",
        "GET /v1/worlds/{world}/search",
        "GET /v1/projections",
        "GET /v1/projections/{name}",
        "POST /v1/projections/{name}/rebuild",
        "DELETE /v1/projections/{name}/rebuild",
        "POST /v1/projections/{name}/verify",
        "POST /v1/projections/{name}/pause",
        "POST /v1/projections/{name}/resume",
        "POST /v1/projections/{name}/retry",
        "POST /v1/sql",
        "GET /v1/queries",
        "GET /v1/schemas",
        "GET /v1/schemas/{name}",
        "GET /metrics",
        "GET /livez",
        "GET /readyz",
    }
    tags = {tag["name"] for tag in document["tags"]}
    for name, operation in found.items():
        assert operation["summary"], name
        assert operation["description"], name
        assert set(operation["tags"]) <= tags, name
        assert all(parameter.get("description") for parameter in operation.get("parameters", [])), name
    assert len({operation["operationId"] for operation in found.values()}) == len(found)


@shared
async def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    """No reference is broken, and no shape of FastAPI's own errors is left."""
    for reference in _references(document):
        value: Any = document
        for part in reference.removeprefix("#/").split("/"):
            assert part in value, reference
            value = value[part]
    assert "HTTPValidationError" not in document["components"]["schemas"]


@shared
async def test_every_error_is_declared_as_a_problem(document: dict[str, Any]) -> None:
    """Whatever is not a success or a 304 is problem+json, and every operation may fail with a 500."""
    for name, operation in _operations(document):
        assert "500" in operation["responses"], name
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"], (name, status)


def test_every_error_of_the_service_has_its_answer(subtests: pytest.Subtests) -> None:
    """No error that a request can meet falls through to the base: each has a row of its own in the table."""
    not_over_http = {errors.FileRefusedError, errors.TamperedError, errors.EmbeddedServerError}
    named = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.SimulationError)
    }
    assert named - not_over_http <= table().keys()
    codes = [error.code for error in table()]
    assert len(set(codes)) == len(codes)


def test_what_cannot_be_written_as_json_is_still_answered() -> None:
    """Details with lone surrogates or foreign values make a readable problem all the same."""
    error = errors.InvalidNameError("\ud800 is no name", world_id="\udfff", odd=object())
    response = problem_response({"type": "http", "raw_path": b"/x"}, error)
    assert response.status_code == 422
    assert b"is no name" in bytes(response.body)
    bytes(response.body).decode()


@pytest.mark.parametrize(
    ("error", "status", "seconds"),
    [
        (errors.QuotaExceededError("ann", "intents", 5, 0.2), 429, "1"),
        (errors.QuotaExceededError("ann", "intents", 5, 2.01), 429, "3"),
        (errors.QuotaExceededError("ann", "tokens", 5), 429, None),
        (errors.CircuitBreakerOpenError(29.5), 503, "30"),
        (errors.CircuitBreakerOpenError(), 503, "1"),
        (errors.BackpressureError("ann", "shed_oldest"), 503, "1"),
        (errors.DeadlineExceededError("r1", 100.0), 504, None),
        (errors.PermissionDeniedError("ann", "intent:move"), 403, None),
        (errors.UnknownAgentError("ann", "w"), 404, None),
        (errors.IntentConflictError({}, []), 409, None),
        (errors.InvalidIntentError("no"), 422, None),
    ],
)
def test_an_error_says_when_to_try_again(error: errors.SimulationError, status: int, seconds: str | None) -> None:
    """Retry-After is what the error itself says, in whole seconds rounded up, or else what the table says."""
    response = problem_response({"type": "http", "raw_path": b"/x"}, error)
    assert (response.status_code, response.headers.get("retry-after")) == (status, seconds)
    assert orjson.loads(bytes(response.body))["recovery"] == error.recovery.value


@shared
async def test_the_documented_world_has_no_parent(document: dict[str, Any]) -> None:
    """New worlds in the document have the fields that the program knows, without a fork's parent."""
    shown = document["components"]["schemas"]["NewWorld"]["properties"]
    assert {*shown, "parent"} == set(NewWorld.model_fields)


def test_the_documented_draft_is_the_one_that_is_checked() -> None:
    """The shape of drafts in the document has exactly the fields that the program knows."""
    assert set(EffectDraft.model_fields) == set(drafts._KNOWN)
    required = {name for name, field in EffectDraft.model_fields.items() if field.is_required()}
    assert required == {"kind", "payload", "source_id", "schema_version"}


def test_the_documented_intent_is_the_one_that_is_checked() -> None:
    """The shape of intents in the document has exactly the fields, and the kinds, that the program knows."""
    assert set(Intent.model_fields) == set(intents._KNOWN)
    required = {name for name, field in Intent.model_fields.items() if field.is_required()}
    assert required == {"kind", "payload", "req_id", "agent_id"}
    assert get_args(Intent.model_fields["kind"].annotation) == intents.KINDS


@pytest.mark.parametrize("shape", [shape for shape in shapes() if shape.model_json_schema().get("examples")])
def test_examples_are_of_their_shape(shape: type[BaseModel]) -> None:
    """Every example in the document is valid."""
    for example in shape.model_json_schema()["examples"]:
        shape.model_validate(example)


@shared
async def test_the_example_draft_is_accepted(client: httpx2.AsyncClient, document: dict[str, Any]) -> None:
    """What the document shows can be posted as it stands."""
    await client.post("/v1/worlds", json={"world_id": "market-town"})
    for name in ("EffectDraft", "EffectDrafts"):
        example = document["components"]["schemas"][name]["examples"][0]
        response = await client.post("/v1/worlds/market-town/effects", json=example)
        assert response.status_code in {200, 201}, response.text


async def test_answers_have_their_documented_shapes(client: httpx2.AsyncClient) -> None:
    """Each route's answer is of the shape that the document gives it."""
    created = await client.post("/v1/worlds", json={"world_id": "w"})
    one = await client.post("/v1/worlds/w/effects", json=draft())
    several = await client.post("/v1/worlds/w/effects", json=[draft(), draft(caused_by=1, source_metadata={"a": 1})])
    shapes: list[tuple[type[BaseModel], httpx2.Response]] = [
        (WorldRecord, created),
        (WorldRecord, await client.get("/v1/worlds/w")),
        (WorldPage, await client.get("/v1/worlds")),
        (Receipt, one),
        (Receipts, several),
        (Vocabulary, await client.get("/v1/worlds/w/kinds")),
        (EffectPage, await client.get("/v1/worlds/w/effects")),
        (EffectPage, await client.get("/v1/worlds/w/effects?limit=2")),
        (Effect, await client.get("/v1/worlds/w/effects/4")),
        (Verification, await client.get("/v1/worlds/w/verification")),
        (Verification, await client.get(f"/v1/worlds/w/verification?head=3:{'0' * 64}")),
        (State, await client.get("/v1/worlds/w/state")),
        (StateDiff, await client.get("/v1/worlds/w/diff?from_seq=1")),
        (Snapshot, await client.post("/v1/worlds/w/snapshots")),
        (SnapshotPage, await client.get("/v1/worlds/w/snapshots")),
        (Health, await client.get("/livez")),
        (Readiness, await client.get("/readyz")),
        (ProjectionList, await client.get("/v1/projections")),
        (SchemaList, await client.get("/v1/schemas")),
        (Projection, await client.get("/v1/projections/world_summaries")),
        (QueryList, await client.get("/v1/queries")),
        (SqlAnswer, await client.post("/v1/sql", json={"query": "select world_id, config from worlds"})),
        (Problem, await client.get("/v1/games")),
        (Problem, await client.get("/v1/worlds/nowhere")),
        (Problem, await client.post("/v1/worlds/w/effects", json=[draft(kind=7)])),
    ]
    for shape, response in shapes:
        shape.model_validate_json(response.content)


async def test_answers_about_agents_have_their_documented_shapes(client: WorldClient) -> None:
    """So is each answer about what lives in a world."""
    await new_world(client)
    registered = await client.post(AGENTS, json={"agent_id": "alice"})
    said = await client.post(INTENTS, json=intent("r1"))
    several = await client.post(INTENTS, json={"intents": [intent("r2"), intent("r3", agent_id="nobody")]})
    generation = await client.post(of("alice", "generations"), json={"req_id": "g"})
    observed = await client.get(of("alice", "observations"), params={"after": 2, "wait": 30})
    shapes: list[tuple[type[BaseModel], httpx2.Response]] = [
        (RegisteredAgent, registered),
        (WorldAgentPage, await client.get(AGENTS)),
        (ObservingAgent, await client.get(of("alice"))),
        (Online, await client.get("online")),
        (AgentView, await client.get(of("alice", "view"))),
        (AcceptedIntent, said),
        (IntentResults, several),
        (Observations, observed),
        (Observations, await client.get(of("alice", "observations"))),
        (ObservedEvents, await client.get(of("alice", "events"))),
        (Generation, generation),
        (Generation, await client.get(of("alice", "generations", "g"))),
        (Generation, await client.delete(of("alice", "generations", "g"))),
        (TimeAuthorityNow, await client.get("time-authority")),
        (TimeAuthoritySet, await client.put("time-authority", json={"authority": "unity"})),
        (Receipt, await client.post("time", json={"adapter": "unity", "sim_time": 1e12})),
        (Problem, await client.get(of("alice", "ws"))),
    ]
    for shape, response in shapes:
        shape.model_validate_json(response.content)
    assert Observations.model_validate_json(observed.content).deltas


@shared
async def test_the_examples_about_agents_are_accepted(client: WorldClient, document: dict[str, Any]) -> None:
    """What the document shows can be sent as it stands."""
    await client.post("/v1/worlds", json={"world_id": client.world, "time_authority": "unity"})
    for name, method, path in (
        ("Registration", "POST", AGENTS),
        ("Intents", "POST", INTENTS),
        ("NewGeneration", "POST", of("alice", "generations")),
        ("Tick", "POST", "time"),
        ("TimeAuthority", "PUT", "time-authority"),
    ):
        example = document["components"]["schemas"][name]["examples"][0]
        if name == "NewGeneration":
            example = {**example, "context_seq": None}  # the example's world is further on
        response = await client.request(method, path, json=example)
        assert response.status_code in {200, 201}, response.text


@shared
async def test_no_page_needs_another_server(client: httpx2.AsyncClient) -> None:
    """There is no page that loads programs from elsewhere: the document itself is what is served."""
    for path in ("/docs", "/redoc", "/docs/oauth2-redirect"):
        problem(await client.get(path), 404, "not_found")
    assert "cdn" not in (await client.get("/openapi.json")).text


@given(text=st.from_regex(re.compile(LOOKS["pattern"]), fullmatch=True))
def test_the_document_allows_the_moments_that_are_read(text: str) -> None:
    """What the pattern of a moment allows is read, but for days that a month does not have."""
    try:
        parse_moment(text)
    except UnreadableMomentError:
        day, month = (int(part) for part in re.search("-([0-9]{2})-([0-9]{2})T", text).groups()[::-1])  # type: ignore[union-attr]
        assert day > 30 or (day > 28 and month == 2), text


@pytest.mark.parametrize(
    "text",
    ["head", "7", "seq:7", "turn:5", "step:0", "sim:-1.5e3", "2026-01-31T12:00:00Z", "wall:2026-01-31T12:00+02:00"],
)
def test_the_document_allows_every_kind_of_moment(text: str) -> None:
    """The pattern leaves no kind of moment out."""
    assert re.fullmatch(LOOKS["pattern"], text)


@shared
async def test_the_document_forbids_what_is_refused(document: dict[str, Any]) -> None:
    """A round's `meta` and `round_config` may be left out and not be null, and a model's name has its form."""
    shapes = document["components"]["schemas"]
    for name in ("meta", "round_config"):
        member = shapes["RoundResult"]["properties"][name]
        assert {"type": "null"} not in member.get("anyOf", [])
        assert "$ref" in member or member["type"] == "object"
        assert name not in shapes["RoundResult"]["required"]
    (pattern,) = {
        shape["properties"]["model_name"]["pattern"]
        for shape in shapes.values()
        if "pattern" in shape.get("properties", {}).get("model_name", {})
    }
    for text, is_allowed in (("", True), ("owner/name-1.5", True), ("a b", False), ("a--b", False), ("/x", False)):
        assert bool(re.search(pattern, text)) == is_allowed, text


async def test_the_document_says_where_null_is_nothing(client: WorldClient, document: dict[str, Any]) -> None:
    """A member that says nothing where it is null is then none of those of which one has to be there."""
    await new_world(client)
    for name, member, method, path in (
        ("NewWorld", "fork_of", "POST", "/v1/worlds"),
        ("Staleness", "interrupt_policy", "PUT", "staleness"),
    ):
        choices = document["components"]["schemas"][name]["anyOf"]
        (needed,) = [each for each in choices if each["required"] == [member]]
        assert needed["properties"][member]["type"] in {"object", "string"}
        assert (await client.request(method, path, json={member: None})).status_code == 422
    for each in ("staleness_threshold", "max_staleness_threshold"):
        assert (await client.put("staleness", json={each: None})).status_code == 200
