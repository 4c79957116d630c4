"""Query parameters that a route does not know."""

from __future__ import annotations

import httpx2
import pytest

from .helpers import problem


async def test_every_reading_route_refuses_what_it_does_not_know(client: httpx2.AsyncClient) -> None:
    """A parameter that no route has is refused by all that are only read, before anything is looked up."""
    paths = (await client.get("/openapi.json")).json()["paths"]
    reading = [path for path, item in paths.items() if "get" in item and not path.endswith("/ws")]
    assert len(reading) > 20
    for path in reading:
        answer = await client.get(path.replace("{", "").replace("}", ""), params={"nonsense": "1"})
        found = problem(answer, 422, "invalid_parameter")
        assert "nonsense" in found["detail"], path


@pytest.mark.parametrize(
    ("path", "name", "meant"),
    [("/v1/worlds/w/state", "at_sec", "at_seq"), ("/v1/worlds/w/agents/a/view", "at_seqs", "at_seq")],
)
async def test_the_nearest_name_is_told(client: httpx2.AsyncClient, path: str, name: str, meant: str) -> None:
    """A misspelt parameter is answered with the one that was probably meant, and with all there are."""
    found = problem(await client.get(path, params={name: "1"}), 422, "invalid_parameter")
    assert f"did you mean {meant!r}?" in found["detail"]
