"""Routes about a world whose row in the table heads is damaged."""

from __future__ import annotations

import asyncpg
import pytest

from .helpers import WorldClient, draft, problem

_FREED = """
alter table heads drop constraint heads_pkey, alter head_seq drop not null, alter head_checksum drop not null,
    alter sim_time drop not null
"""
#: Routes that read no head, those with a verdict, and those that need more parameters.
_OTHERS = {"snapshots", "verification", "diff"}


@pytest.mark.parametrize(
    "change",
    ["head_seq = 0", "head_seq = null", "head_checksum = null", "head_checksum = ''", "sim_time = null"],
)
async def test_a_damaged_head(client: WorldClient, world: str, database_url: str, change: str) -> None:
    """Reading and writing such a world is answered by what is wrong with it; nothing is written."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(_FREED)
        await connection.execute(f"update heads set {change} where world_id = $1", world)
    finally:
        await connection.close()
    paths = (await client.get("/openapi.json")).json()["paths"]
    beginning = "/v1/worlds/{world}"
    routes = [path for path in paths if path.startswith(beginning) and path.count("{") == 1 and "get" in paths[path]]
    assert len(routes) > 10
    for route in routes:
        if route.removeprefix(f"{beginning}/") not in _OTHERS:
            needed = {each["name"] for each in paths[route]["get"]["parameters"] if each.get("required")} - {"world"}
            response = await client.get(route.format(world=world), params=dict.fromkeys(needed, "2"))
            problem(response, 500, "tampered", world_id=world)
    problem(await client.post("effects", json=draft()), 500, "tampered", world_id=world)
    problem(await client.post("snapshots"), 500, "tampered", world_id=world)
    verdict = (await client.get("verification")).json()
    assert not verdict["verified"]
    assert "head" in verdict["finding"]["what"] or "NULL" in verdict["finding"]["what"]
