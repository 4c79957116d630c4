"""How projections stand, and what can be done with them."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import httpx2
import pytest
from worldledger_projections.registry import known
from worldledger_service.api.context import Services
from worldledger_service.api.health import Readiness
from worldledger_service.api.projections import Projection, ProjectionList
from worldledger_service.projecting import engine
from worldledger_service.projecting.engine import Engine

from .helpers import catch_up, draft, problem

NAMES = sorted(projection.name for projection in known().values())


async def _new_world(client: httpx2.AsyncClient, name: str, entities: int = 0) -> None:
    """Create a sandbox world with so many entities; its head is one more."""
    response = await client.post("/v1/worlds", json={"world_id": name})
    assert response.status_code == 201, response.text
    if entities:
        payloads = [{"entity_id": f"e{n}", "entity_data": {}} for n in range(entities)]
        drafts = [draft(kind="EntityCreated", payload=payload) for payload in payloads]
        response = await client.post(f"/v1/worlds/{name}/effects", json=drafts)
        assert response.status_code == 201, response.text


async def _updated_seqs(services: Services) -> list[int]:
    """Return the column updated_seq of the entities, ordered by world and entity."""
    statement = "select updated_seq from projections.entities order by world_id, entity_id"
    rows = await services.store.reader.fetch(statement)
    return [row["updated_seq"] for row in rows]


@pytest.fixture
async def world(projected: None, client: httpx2.AsyncClient, services: Services) -> str:
    """Have one world with six entities, read by all projections."""
    await _new_world(client, "w1", 6)
    await catch_up(services)
    return "w1"


async def _stands(client: httpx2.AsyncClient, name: str) -> dict[str, Any]:
    response = await client.get(f"/v1/projections/{name}")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    Projection.model_validate(found)
    return found


async def _until(client: httpx2.AsyncClient, name: str, job: str) -> dict[str, Any]:
    """Return a job once it is over."""
    async with asyncio.timeout(100):
        while True:
            found: dict[str, Any] = (await _stands(client, name))[job]
            if found["status"] != "running":
                return found
            await asyncio.sleep(0.01)


async def test_before_anybody_feeds_them_they_say_so(client: httpx2.AsyncClient) -> None:
    """On a fresh database every projection is listed, without builds, and a note says why."""
    page = (await client.get("/v1/projections")).json()
    ProjectionList.model_validate(page)
    assert [each["name"] for each in page["projections"]] == NAMES
    for each in page["projections"]:
        assert (each["live"], each["building"], each["version"]) == (None, None, known()[each["name"]].version)
        assert "no runner" in each["note"]


async def test_they_say_how_far_they_are(client: httpx2.AsyncClient, services: Services, world: str) -> None:
    """What is due is told in effects, worlds and seconds, and nothing once it is read; no machine is named."""
    await client.post("/v1/worlds", json={"world_id": "town"})
    for name, behind, done in (("turns", 0, 0), ("entities", 1, 7)):
        live = (await _stands(client, name))["live"]
        assert (live["effects_behind"], live["worlds_behind"], live["effects_done"]) == (behind, behind, done)
        assert "holder" not in live
    await catch_up(services)
    live = (await _stands(client, "entities"))["live"]
    assert (live["effects_behind"], live["effects_done"]) == (0, 8)
    assert not live["seconds_behind"]


async def test_an_unknown_projection_names_the_known(client: httpx2.AsyncClient, subtests: pytest.Subtests) -> None:
    """Every route about a projection that is not there says which there are."""
    for name in ("nothing", "Entities", "entities_1", "%00", "%F0%9F%99%82", "x" * 5000, "entities%20"):
        requests = [("GET", ""), ("DELETE", "/rebuild")]
        requests += [("POST", f"/{order}") for order in ("rebuild", "verify", "pause", "resume", "retry")]
        requests += [("POST", "/rebuild?world=w1"), ("POST", "/retry?world=w1")]
        for method, path in requests:
            with subtests.test(name=name[:20], method=method, path=path):
                response = await client.request(method, f"/v1/projections/{name}{path}")
                found = problem(response, 404, "projection_not_found")
                assert found["known"] == NAMES
                assert len(response.content) < 4000


async def test_a_rebuild_goes_on_by_itself(client: httpx2.AsyncClient, services: Services, world: str) -> None:
    """A rebuild is answered at once with where to look; once it has caught up the new build is live."""
    response = await client.post("/v1/projections/entities/rebuild")
    assert (response.status_code, response.headers["location"]) == (202, "/v1/projections/entities")
    Projection.model_validate(response.json())
    assert response.json()["building"]["build"] == "entities_2"
    again = await client.post("/v1/projections/entities/rebuild")
    assert again.json()["building"]["build"] == "entities_2", "the one under way goes on"
    await catch_up(services)
    found = await _stands(client, "entities")
    assert (found["live"]["build"], found["building"], found["live"]["effects_done"]) == ("entities_2", None, 7)
    assert found["live"]["finished_at"].endswith("Z")


async def test_a_rebuild_can_be_cancelled(client: httpx2.AsyncClient, services: Services, world: str) -> None:
    """A cancelled build is gone, the live one as it was; cancelling nothing does no harm."""
    await client.post("/v1/projections/entities/rebuild")
    for _ in range(2):
        response = await client.delete("/v1/projections/entities/rebuild")
        assert (response.status_code, response.json()["building"]) == (200, None)
        assert response.json()["live"]["build"] == "entities_1"
    await catch_up(services)
    assert await _updated_seqs(services) == [2, 3, 4, 5, 6, 7]


async def test_one_world_can_be_rebuilt(client: httpx2.AsyncClient, services: Services, world: str) -> None:
    """With ?world= the rows of one world are made anew, and the other worlds are left alone."""
    await _new_world(client, "w2", 1)
    await catch_up(services)
    async with services.store.reader.connection() as connection:
        await connection.execute("update projections.entities_1 set updated_seq = 77")
    response = await client.post("/v1/projections/entities/rebuild?world=w1")
    assert response.status_code == 202, response.text
    job = await _until(client, "entities", "rebuild_of_world")
    assert (job["world_id"], job["status"], job["effects_done"], job["effects_total"]) == ("w1", "finished", 7, 7)
    assert await _updated_seqs(services) == [2, 3, 4, 5, 6, 7, 77]


async def test_a_world_that_cannot_be_rebuilt_is_refused(client: httpx2.AsyncClient, world: str) -> None:
    """A world that is not there, cannot be or is not the projection's is refused in the answer, and no job is left."""
    url = "/v1/projections/entities/rebuild"
    problem(await client.post(f"{url}?world=nowhere"), 404, "world_not_found")
    for world in ("", "%00", "a%20b", "x" * 201):
        problem(await client.post(f"{url}?world={world}"), 422, "invalid_name")
    problem(await client.post("/v1/projections/turns/rebuild?world=w1"), 409, "projection_refused", projection="turns")
    problem(await client.post(f"{url}?world=w1&world=w1"), 422, "invalid_parameter", parameter="world")
    assert (await _stands(client, "entities"))["rebuild_of_world"] is None


async def test_a_second_world_waits_for_the_first(client: httpx2.AsyncClient, services: Services, world: str) -> None:
    """While one world is rebuilt the same may be asked for again, another is refused, and it can be cancelled."""
    await _new_world(client, "w2", 1)
    await catch_up(services)
    url = "/v1/projections/entities/rebuild"
    begun = asyncio.Event()

    async def never(*_: object) -> int:
        begun.set()
        await asyncio.Event().wait()
        return 0

    with mock.patch.object(Engine, "rebuild_world", never):
        assert (await client.post(f"{url}?world=w1")).json()["rebuild_of_world"]["status"] == "running"
        await begun.wait()
        assert (await client.post(f"{url}?world=w1")).status_code == 202
        problem(await client.post(f"{url}?world=w2"), 409, "projection_refused", world_id="w1")
        cancelled = (await client.delete(url)).json()
        assert cancelled["rebuild_of_world"]["status"] == "cancelled"
    assert (await client.post(f"{url}?world=w2")).status_code == 202
    assert (await _until(client, "entities", "rebuild_of_world"))["status"] == "finished"


async def test_a_check_finds_what_somebody_changed(client: httpx2.AsyncClient, services: Services, world: str) -> None:
    """A check is answered at once; its report stands with the live build and names row and column."""
    response = await client.post("/v1/projections/entities/verify")
    assert (response.status_code, response.headers["location"]) == (202, "/v1/projections/entities")
    assert (await _until(client, "entities", "verify"))["status"] == "finished"
    report = (await _stands(client, "entities"))["live"]["check_report"]
    assert (report["verified"], report["worlds"], report["rows"], report["finding"]) == (True, 1, 6, None)
    async with services.store.reader.connection() as connection:
        await connection.execute("update projections.entities_1 set updated_seq = 77")
    await client.post("/v1/projections/entities/verify")
    await _until(client, "entities", "verify")
    report = (await _stands(client, "entities"))["live"]["check_report"]
    assert report["verified"] is False
    assert (report["finding"]["world_id"], report["finding"]["column"]) == ("w1", "updated_seq")


async def test_a_check_that_cannot_be_is_refused(client: httpx2.AsyncClient) -> None:
    """Without a live build there is nothing to check, and the answer says so."""
    problem(await client.post("/v1/projections/entities/verify"), 409, "projection_refused", projection="entities")
    assert (await _stands(client, "entities"))["verify"] is None


async def test_a_job_that_breaks_down_is_told_of(client: httpx2.AsyncClient, world: str) -> None:
    """A bug in a background job is told as a failed job, without a word about the inside."""
    with mock.patch.object(Engine, "verify", side_effect=ZeroDivisionError("secret")):
        assert (await client.post("/v1/projections/entities/verify")).status_code == 202
        job = await _until(client, "entities", "verify")
    assert (job["status"], job["error"]["code"]) == ("failed", "internal_error")
    assert "secret" not in str(job)


async def test_a_paused_projection_stands_still(client: httpx2.AsyncClient, services: Services, world: str) -> None:
    """Paused, nothing is written and the lag grows; resumed, it goes on. A paused one is not rebuilt."""
    assert (await client.post("/v1/projections/entities/pause")).json()["live"]["paused"] is True
    await _new_world(client, "w2", 1)
    await catch_up(services)
    assert (await _stands(client, "entities"))["live"]["effects_behind"] == 2
    assert (await _stands(client, "world_summaries"))["live"]["effects_behind"] == 0
    problem(await client.post("/v1/projections/entities/rebuild"), 409, "projection_refused")
    assert (await client.post("/v1/projections/entities/resume")).json()["live"]["paused"] is False
    await catch_up(services)
    assert await _updated_seqs(services) == [2, 3, 4, 5, 6, 7, 2]


async def test_what_was_set_aside_is_told_and_tried_again(
    client: httpx2.AsyncClient, services: Services, world: str
) -> None:
    """A world whose effect cannot be digested is named with its error, and is tried again when it is told to."""
    await _new_world(client, "w2", 2)
    with mock.patch("worldledger_projections.entities._World", side_effect=ZeroDivisionError("broken")):
        await catch_up(services)
    found = await _stands(client, "entities")
    (parked,) = found["parked_worlds"]
    assert found["live"]["parked"] == 1
    assert (parked["world_id"], parked["global_seq"], parked["kind"]) == ("w2", 1, "WorldCreated")
    assert "broken" in parked["error"]
    assert (await client.post("/v1/projections/entities/retry?world=w1")).json() == {"released": 0}
    problem(await client.post("/v1/projections/entities/retry?world=nowhere"), 404, "world_not_found")
    assert (await client.post("/v1/projections/entities/retry")).json() == {"released": 1}
    await catch_up(services)
    assert (await _stands(client, "entities"))["parked_worlds"] == []
    assert await _updated_seqs(services) == [2, 3, 4, 5, 6, 7, 2, 3]


async def test_pages_of_other_sites_give_no_orders(client: httpx2.AsyncClient, world: str) -> None:
    """What a browser says to come from another site's page does nothing."""
    for order in ("rebuild", "verify", "pause", "resume", "retry"):
        response = await client.post(f"/v1/projections/entities/{order}", headers={"Origin": "https://example.org"})
        problem(response, 403, "origin_refused")
    found = await _stands(client, "entities")
    assert (found["building"], found["verify"], found["live"]["paused"]) == (None, None, False)


async def test_a_lagging_projection_makes_nothing_unready(
    client: httpx2.AsyncClient, services: Services, world: str
) -> None:
    """Readiness tells lag and what is set aside, for each projection, and is 200 all the same."""
    await client.post("/v1/projections/entities/pause")
    await _new_world(client, "w2", 1)
    response = await client.get("/readyz")
    Readiness.model_validate(response.json())
    assert response.status_code == 200
    assert set(response.json()["projections"]) == set(NAMES)
    found = response.json()["projections"]["entities"]
    assert (found["lag"], found["parked"], found["paused"], found["rebuilding"]) == (2, 0, True, False)
    with mock.patch.object(engine, "status_of", side_effect=ConnectionResetError):
        response = await client.get("/readyz")
    assert response.json() == {"status": "ready", "projections": None}
