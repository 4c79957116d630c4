"""A world of which only the beginning is here: read over HTTP like any other, and not written to."""

from __future__ import annotations

import httpx2
from worldledger_service.api.context import Services

from worldledger.genesis import NewWorld

from .helpers import draft, problem


async def test_a_beginning_is_read_and_not_written(client: httpx2.AsyncClient, services: Services) -> None:
    """Reads answer as ever; whatever would append is refused with 409, which says what to do."""
    store = services.store
    await store.import_world(NewWorld(world_id="other"), [])
    async with store.reader.connection() as connection:
        await connection.execute("insert into prefixes (world_id) values ('other')")
    for path in ("", "/effects", "/state", "/agents", "/verification", "/staleness"):
        answer = await client.get(f"/v1/worlds/other{path}")
        assert answer.status_code == 200, (path, answer.text)
    made = await client.post("/v1/worlds", json={"world_id": "mine", "fork_of": {"world_id": "other"}})
    assert made.status_code == 201
    for path, body in (
        ("effects", draft()),
        ("agents", {"agent_id": "bob"}),
        ("snapshots", None),
    ):
        told = problem(await client.post(f"/v1/worlds/other/{path}", json=body), 409, "read_only_world")
        assert told["head_seq"] == 1
        assert "Import an export of the whole world, or fork it" in told["detail"]
    async with store.reader.connection() as connection:
        await connection.execute("delete from prefixes")  # as the import of the whole world does
    assert (await client.post("/v1/worlds/other/effects", json=draft())).status_code == 201
