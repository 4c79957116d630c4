"""Stopping and starting beside a server that is not there for anybody."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from .freezing import SOON, UNTIRING, calling, frozen, refused
from .living import event, serving

pytestmark = pytest.mark.slow

_IMPATIENT = Path(__file__).with_name("impatient.py")


async def test_a_frozen_server_keeps_no_service_from_ending(url: str, home: Path, tmp_path: Path) -> None:
    """With reads, writes and questions under way SIGTERM ends it; they were answered, and the log is sound."""
    async with serving(url, tmp_path, program=_IMPATIENT, **UNTIRING) as service, calling(service.url) as http:
        assert (await http.post("/v1/worlds", json={"world_id": "town"})).status_code == 201
        assert (await http.post("/v1/worlds/town/effects", json=event("w"))).status_code == 201
        with frozen(home):
            waiting = asyncio.create_task(http.post("/v1/worlds/town/effects", json=event("y")))  # until the deadline
            asked = [http.get("/v1/worlds/town"), http.get("/v1/effects?format=arrow")]
            asked += [http.post("/v1/worlds/town/effects", json={**event("x"), "req_id": "r"})]
            asked += [http.post("/v1/sql", json={"query": "select 1"})]
            for answer in await asyncio.gather(*asked):
                refused(answer, "store_unavailable", "circuit_open")
            async with asyncio.timeout(SOON):
                assert await service.stop() in {0, 1}
            assert refused(await waiting, "store_unavailable"), "its outcome is not known"
