"""What the service counts."""

from __future__ import annotations

from unittest import mock

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from worldledger_service.api.context import Services
from worldledger_service.projecting import engine

from .helpers import catch_up, draft

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def _samples(client: httpx2.AsyncClient) -> Samples:
    """Return every sample by its name and labels."""
    response = await client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert response.headers["cache-control"] == "no-store"
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def _value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((f"worldledger_{name}", frozenset(labels.items())))


async def test_appended_effects_are_counted_once(client: httpx2.AsyncClient, world: str) -> None:
    """Each effect counts when it is appended; repetitions and refusals do not."""
    path = f"/v1/worlds/{world}/effects"
    await client.post(path, json=draft(req_id="r"))
    await client.post(path, json=draft(req_id="r"))
    await client.post(path, json=[draft(n) for n in range(5)])
    await client.post(path, json=[draft(req_id="r"), draft(req_id="s")])
    await client.post(path, json=draft(2**53))
    samples = await _samples(client)
    assert _value(samples, "effects_appended_total") == 7
    assert _value(samples, "effects_waiting") == 0


async def test_requests_are_counted_by_route_and_status(client: httpx2.AsyncClient, world: str) -> None:
    """A request counts under its route's template; what matches none, or has an odd method, makes no series."""
    for _ in range(3):
        await client.get(f"/v1/worlds/{world}")
    await client.get("/v1/worlds/nowhere")
    await client.head(f"/v1/worlds/{world}")
    await client.delete("/v1/worlds")
    for n in range(5):
        await client.get(f"/nothing/{n}")
        await client.request(f"BREW{n}", "/v1/worlds")
        await client.get("/livez", headers={"Host": f"{n}.example.org"})
    samples = await _samples(client)

    def requests(method: str, route: str, status: int) -> float | None:
        return _value(samples, "http_requests_total", method=method, route=route, status=str(status))

    assert requests("GET", "/v1/worlds/{world}", 200) == 3
    assert requests("GET", "/v1/worlds/{world}", 404) == 1
    assert requests("HEAD", "/v1/worlds/{world}", 200) == 1
    assert requests("POST", "/v1/worlds", 201) == 1
    assert requests("DELETE", "/v1/worlds", 405) == 1
    assert requests("other", "/v1/worlds", 405) == 5
    assert requests("GET", "none", 404) == 5
    assert requests("GET", "none", 421) == 5
    seen = _value(samples, "http_request_seconds_count", method="GET", route="/v1/worlds/{world}")
    assert seen == 4
    within = _value(samples, "http_request_seconds_bucket", method="GET", route="/v1/worlds/{world}", le="+Inf")
    assert within == 4


@pytest.mark.usefixtures("projected")
async def test_projections_tell_their_lag(client: httpx2.AsyncClient, services: Services) -> None:
    """Lag, parked worlds and what was fed are told for each projection, and what the runner of this process did."""
    await client.post("/v1/worlds", json={"world_id": "w1"})
    await client.post("/v1/worlds/w1/effects", json=draft())
    await catch_up(services)
    await client.post("/v1/projections/entities/pause")
    await client.post("/v1/projections/world_summaries/rebuild")
    await client.post("/v1/worlds", json={"world_id": "w2"})
    await client.post("/v1/worlds/w2/effects", json=draft())
    samples = await _samples(client)
    for name, value in (
        ("lag_effects", 2),
        ("lag_worlds", 1),
        ("parked_worlds", 0),
        ("paused", 1),
        ("rebuilding", 0),
        ("fed_effects_total", 2),
    ):
        assert _value(samples, f"projection_{name}", projection="entities") == value, name
    lag = _value(samples, "projection_lag_seconds", projection="entities")
    assert lag is not None
    assert lag >= 0
    assert _value(samples, "projection_rebuilding", projection="world_summaries") == 1


async def test_without_the_database_the_rest_is_told(client: httpx2.AsyncClient, world: str) -> None:
    """Where projections cannot be asked, their numbers are left out and all else is given."""
    await client.post(f"/v1/worlds/{world}/effects", json=draft())
    with mock.patch.object(engine, "status_of", side_effect=ConnectionResetError):
        samples = await _samples(client)
    assert _value(samples, "effects_appended_total") == 1
    assert not [name for name, _ in samples if name.startswith("worldledger_projection")]


async def test_two_applications_count_by_themselves(client: httpx2.AsyncClient, services: Services) -> None:
    """Counters belong to an application: no global is shared."""
    samples = await _samples(client)
    assert _value(samples, "effects_appended_total") == 0


async def test_worlds_with_agents_are_counted(client: httpx2.AsyncClient) -> None:
    """What open worlds hold is summed over all of them."""
    for world_id in ("town", "village"):
        await client.post("/v1/worlds", json={"world_id": world_id})
        await client.post(f"/v1/worlds/{world_id}/agents", json={"agent_id": "alice"})
        intent = {"agent_id": "alice", "kind": "Speak", "payload": {"text": "a"}, "context_seq": 2, "req_id": "r"}
        await client.post(f"/v1/worlds/{world_id}/intents", json=intent)
        await client.get(f"/v1/worlds/{world_id}/agents/alice/view")
    await client.post("/v1/worlds/town/agents/alice/generations", json={"req_id": "g"})
    samples = await _samples(client)
    for name, value in (
        ("worlds_open", 2),
        ("intents_waiting", 0),
        ("intents_accepted_total", 2),
        ("sockets_open", 0),
        ("memory_entities", 2),
        ("memory_attached_agents", 2),
        ("memory_seen_entities", 2),
        ("memory_queued_deltas", 0),
        ("memory_kept_deltas", 2),
        ("memory_live_tokens", 1),
        ("memory_remembered_requests", 2),
        ("generations_cancelled_total", 0),
    ):
        assert _value(samples, name) == value, name
    assert (_value(samples, "memory_estimated_bytes") or 0) > 0
