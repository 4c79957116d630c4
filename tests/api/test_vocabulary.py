"""The kinds of a world over HTTP, with the schemas of their payloads."""

from __future__ import annotations

import httpx2
import pytest

from tests.markets import market

from .helpers import problem

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_world_tells_its_kinds(client: httpx2.AsyncClient) -> None:
    """Kinds of effects are those of its ruleset, of intents those of every world; an answer is cached by its ETag."""
    await client.post("/v1/worlds", json={"world_id": "fair", "ruleset": "simulation", "config": market()})
    response = await client.get("/v1/worlds/fair/kinds")
    told = response.json()
    assert told["ruleset"] == "simulation"
    assert [each["kind"] for each in told["intents"]] == ["Interact", "Move", "Speak"]
    effects = {each["kind"]: each["payload"] for each in told["effects"]}
    assert list(effects) == sorted(effects)
    assert effects["TurnStarted"]["properties"]["turn"]["type"] == ["integer", "null"]
    assert effects["GlobalStateChanged"]["required"] == ["patch"]
    again = await client.get("/v1/worlds/fair/kinds", headers={"If-None-Match": response.headers["etag"]})
    assert again.status_code == 304


async def test_an_unknown_world_has_no_kinds(client: httpx2.AsyncClient) -> None:
    """It is not found."""
    problem(await client.get("/v1/worlds/nowhere/kinds"), 404, "world_not_found")
