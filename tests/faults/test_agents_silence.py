"""A server that is stopped or frozen: the first who call a service are told soon; nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from worldledger.config import OrchestratorConfig
from worldledger.intents import Accepted

from .freezing import UNTIRING, calling, frozen, refused, stopped
from .living import ALL, PATIENT, Service, event, intent, judged, living, serving

pytestmark = pytest.mark.slow

_QUOTA: Final = 1000


async def _until_accepted(http: httpx2.AsyncClient, town: str, wanted: dict[str, Any]) -> dict[str, Any]:
    while True:
        answer = await http.post(f"{town}/intents", json=wanted)
        if answer.status_code in {200, 201}:
            found: dict[str, Any] = answer.json()
            return found
        refused(answer, "store_unavailable", "circuit_open")
        await asyncio.sleep(0.05)


async def test_the_first_who_call(
    url: str, home: Path, tmp_path: Path, subtests: pytest.Subtests, thorough: bool
) -> None:
    """Fifty at once, and whoever reads, are answered while the server is away; each intent is one effect afterwards."""
    async with serving(url, tmp_path, **UNTIRING) as service:
        for name, out_of_order in {"frozen": frozen, "stopped": stopped}.items() if thorough else [("frozen", frozen)]:
            with subtests.test(server=name):
                told = await _call(service, name, out_of_order(home))
                await _judge(url, name, told)


async def _call(service: Service, name: str, out_of_order: AbstractContextManager[None]) -> list[Accepted]:
    """Call while the server is out of order, and until all is accepted when it is not any more; return that."""
    config = OrchestratorConfig(staleness_threshold=PATIENT, intents_per_s=1e-9, intents_burst=_QUOTA)
    town = f"/v1/worlds/{name}"
    async with living(service, name) as world:
        await world.create_world(orchestrator=config)
        ada = await world.register_agent("ada", ALL)
        await world.broadcast_event(event("before"))
        await asyncio.wait_for(ada.next_observation(), 60)
        intents = [intent("ada", f"r-{n}", "Speak", text=f"{n}") for n in range(50)]
        async with calling(service.url) as http:
            with out_of_order:
                # Whatever is answered in this block is answered while the server is away.
                readiness = asyncio.create_task(http.get("/readyz"))  # which asks for seconds
                first = await asyncio.gather(*(http.post(f"{town}/intents", json=each) for each in intents))
                assert any(refused(answer, "store_unavailable", "circuit_open") for answer in first)
                reads = ("agents/bea/view", "agents/ada/view?at_seq=2", "agents/bea/observations")
                again, *read = await asyncio.gather(
                    http.post(f"{town}/intents", json=intents[0]), *(http.get(f"{town}/{path}") for path in reads)
                )
                assert refused(again, "store_unavailable")
                for answer in read:
                    refused(answer, "store_unavailable")
                late = intent("ada", "late", "Speak", text="late")
                assert not refused(await http.post(f"{town}/intents", json=late), "circuit_open")
                draft = {**event("told"), "req_id": "told"}
                assert not refused(await http.post(f"{town}/effects", json=draft), "circuit_open")
                new = {"agent_id": "bea"}
                assert not refused(await http.post(f"{town}/agents", json=new), "circuit_open")
                for path in ("agents", "agents/ada", "agents/ada/view", "agents/ada/observations"):
                    assert (await http.get(f"{town}/{path}")).status_code == 200
                begun = await http.post(f"{town}/agents/ada/generations", json={"req_id": "thought"})
                assert begun.status_code == 201
                assert (await readiness).status_code == 503
            told = [await _until_accepted(http, town, each) for each in (*intents, late)]
            last = await http.post(f"{town}/intents", json=intent("ada", "last", "Speak", text="last"))
            assert last.status_code == 201
            assert f'"intents";r={_QUOTA - len(told) - 1}' in last.headers["RateLimit"]
        ada.close()
    return [Accepted(each["uuid"], global_seq=each["global_seq"], req_id=each["req_id"]) for each in told]


async def _judge(url: str, name: str, accepted: list[Accepted]) -> None:
    effects = await judged(url, name, accepted)
    spoken = [effect["req_id"] for effect in effects if effect["kind"] == "Speak"]
    assert sorted(map(str, spoken)) == sorted([*(each.req_id for each in accepted), "last"])
