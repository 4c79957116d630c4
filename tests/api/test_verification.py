"""Verification over HTTP: the good case, noted positions, and what was tampered with."""

from __future__ import annotations

import asyncpg
import pytest
import pytest_asyncio

from .helpers import WorldClient, draft, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

URL = "verification"


@pytest_asyncio.fixture(loop_scope="module")
async def filled(client: WorldClient, world: str) -> list[str]:
    """Return the positions ``SEQ:CHECKSUM`` of a world of eleven effects."""
    await client.post(f"/v1/worlds/{world}/effects", json=[draft(n) for n in range(10)])
    page = (await client.get(f"/v1/worlds/{world}/effects")).json()
    return [f"{seq}:{checksum}" for seq, checksum in enumerate(page["checksums"], 1)]


async def test_a_sound_world_is_verified(client: WorldClient, filled: list[str]) -> None:
    """The whole chain is checked, and the position given is the head."""
    response = await client.get(URL)
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    found = response.json()
    assert f"{found['position']['global_seq']}:{found['position']['checksum']}" == filled[-1]
    assert {name: found[name] for name in ("world_id", "verified", "effects", "finding")} == {
        "world_id": client.world,
        "verified": True,
        "effects": 11,
        "finding": None,
    }


async def test_noted_positions_are_looked_for(client: WorldClient, filled: list[str]) -> None:
    """The chain must pass through every head given, and may be begun at a position known to be good."""
    good = await client.get(URL, params=[("head", filled[4]), ("head", filled[10]), ("from", filled[2])])
    assert (good.json()["verified"], good.json()["effects"]) == (True, 8)
    upper = await client.get(URL, params={"head": filled[4].upper()})
    assert upper.json()["verified"]
    for noted, seq in ((f"5:{'0' * 64}", 5), (f"12:{'0' * 64}", 12), (f"9007199254740991:{'0' * 64}", 12)):
        found = (await client.get(URL, params={"head": noted})).json()
        assert (found["verified"], found["finding"]["global_seq"]) == (False, seq), found
        assert found["finding"]["what"]


async def test_rules_of_a_log_and_its_requests(client: WorldClient, filled: list[str], database_url: str) -> None:
    """A request that was made up is found; with ``full`` also texts that are not canonical."""
    assert (await client.get(URL, params={"full": "true"})).json()["verified"]
    connection = await asyncpg.connect(database_url)
    try:
        values = "($1, 'ann', 'mine', sha256('x'), 3, 3)"
        await connection.execute(f"insert into requests values {values}", client.world)
    finally:
        await connection.close()
    found = (await client.get(URL)).json()
    assert (found["verified"], found["finding"]["global_seq"]) == (False, 3)
    assert "req_id 'mine' of 'ann'" in found["finding"]["what"]


async def test_a_bad_position_is_refused(client: WorldClient, filled: list[str], subtests: pytest.Subtests) -> None:
    """A position that is not SEQ:CHECKSUM is refused by its parameter's name."""
    bad = [
        "",
        "x",
        "5",
        "5:",
        "5:abc",
        f"-1:{'0' * 64}",
        f"0:{'0' * 64}",
        f"5:{'g' * 64}",
        f"{'9' * 18}:{'0' * 64}",
        "5:\x00",
    ]
    for name in ("from", "head"):
        for text in [*bad, f"{'9' * 19}:{'0' * 64}", f"5:{'0' * 64} x"]:
            with subtests.test(name=name, text=text[:20]):
                response = await client.get(URL, params=[("head", filled[0]), (name, text)])
                problem(response, 422, "invalid_parameter", parameter=name)


async def test_tampering_is_told(client: WorldClient, filled: list[str], database_url: str) -> None:
    """What somebody changed behind the triggers is found: 200, not verified, and the seq concerned."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("alter table effects disable trigger all")
        await connection.execute(
            "update effects set effect = replace(effect::text, '\"n\":4', '\"n\":5')::json"
            " where world_id = $1 and global_seq = 6",
            client.world,
        )
        await connection.execute("alter table effects enable trigger all")
    finally:
        await connection.close()
    response = await client.get(URL)
    assert response.status_code == 200
    found = response.json()
    assert (found["verified"], found["finding"]["global_seq"], found["effects"]) == (False, 6, 5)
    assert found["position"] == {"global_seq": 5, "checksum": filled[4].partition(":")[2]}
