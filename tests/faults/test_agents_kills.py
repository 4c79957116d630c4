"""A service killed in the middle of a conversation: it ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from worldledger_service.runtime import Orchestrator
from worldledger_service.settings import Settings

from tests.conftest import NEVER
from worldledger.client import Client, World
from worldledger.config import OrchestratorConfig
from worldledger.deltas import View
from worldledger.observation import ObservationPolicy, PolicyConfig

from .living import ALL, PATIENT, Mind, Service, entity, event, intent, judged, living, near, right, serving

pytestmark = pytest.mark.slow

#: What each agent sees. Cy remembers what went out of sight, so that its view depends on all that it has seen.
POLICIES: Final = {
    "ada": ALL,
    "bea": near(6.0),
    "cy": near(6.0, remove_operations=False),
    "dan": ObservationPolicy(PolicyConfig(field_visibility={"position": False})),
    "eve": near(6.0),
}
_CONFIG: Final = OrchestratorConfig(staleness_threshold=PATIENT)
#: Only ticks move the time, so that two runs of a script have the same.
_UNITY: Final = "unity"


def script(thorough: bool) -> list[list[dict[str, Any]]]:
    """Return what all agents do in each round: so many that the service is killed in each way, or in each twice.

    What is done in one round comes to the same in whatever order it is done: each changes only itself, and Cy, whose
    view remembers, stays where it is.
    """
    random = Random(7)
    rounds = []
    for number in range(12 if thorough else 6):
        deeds = []
        for name in POLICIES:
            deed: dict[str, Any] = {"kind": "Speak", "text": f"{name} in round {number}"}
            if name != "cy" and random.random() < 0.6:
                deed = {"kind": "Move", "to": [random.randrange(-9, 10), random.randrange(-9, 10)]}
            elif random.random() < 0.4:
                patch = [{"op": "replace", "path": "/mood", "value": number}]
                mood = {"kind": "EntityUpdated", "entity_id": name, "patch": patch}
                deeds.append(intent(name, f"{number}-{name}", "Custom") | {"payload": mood})
                continue
            deeds.append(intent(name, f"{number}-{name}", **deed))
        rounds.append(deeds)
    return rounds


async def settle(world: World) -> dict[str, Mind]:
    """Put everybody into the world."""
    for n, name in enumerate(POLICIES):
        await world.broadcast_event(entity(name, 2.0 * n, 0.0))
    return {name: Mind(await world.register_agent(name, policy)) for name, policy in POLICIES.items()}


async def uninterrupted(database_url: str, rounds: list[list[dict[str, Any]]]) -> dict[str, View]:
    """Return the views in which the script ends where nothing happens to anybody, in this process."""
    settings = Settings(pool_size=4, snapshot_every=NEVER)
    how: dict[str, Any] = {"config": _CONFIG, "settings": settings, "time_authority": _UNITY}
    async with Orchestrator.open(database_url, world_id="calm", **how) as world:
        minds = await settle(world)
        for mind in minds.values():
            mind.read()
        for number, deeds in enumerate(rounds):
            await world.tick(_UNITY, float(number))
            await asyncio.gather(*(minds[deed["agent_id"]].act(deed) for deed in deeds))
        end = await world.broadcast_event(event("end"))
        for mind in minds.values():
            await mind.come_to(end.global_seq)
        return {name: mind.view for name, mind in minds.items()}


class Newcomer:
    """Ada's program: it does not outlive the service, and comes back as a new one that knows ada's view alone."""

    def __init__(self, service: Service, mind: Mind) -> None:
        self.mind = mind
        self._service = service
        self._client: Client | None = None

    async def leave(self) -> None:
        """Go, whatever is under way."""
        await self.mind.stop()
        if self._client is not None:
            await self._client.close()

    async def come_back(self) -> None:
        """Come as a new client, with a view_seq."""
        self._client = Client(self._service.url, "storm", patience=60.0)
        self.mind.handle = await self._client.agent("ada", view_seq=self.mind.view.view_seq)
        assert self.mind.handle.initial_view == self.mind.view
        self.mind.read()


async def test_a_conversation_ends_as_if_nothing_had_happened(
    database_url: str, tmp_path: Path, thorough: bool
) -> None:
    """Killed again and again while agents act, a service loses nothing: views, hearing and log are as without kills."""
    rounds = script(thorough)
    calm = await uninterrupted(database_url, rounds)
    async with serving(database_url, tmp_path) as service, living(service, "storm") as world:
        await world.create_world(orchestrator=_CONFIG, time_authority=_UNITY)
        minds = await settle(world)
        minds["ada"].handle.close()
        ada = Newcomer(service, minds["ada"])
        await ada.come_back()
        for name, mind in minds.items():
            if name != "ada":
                mind.read()
        for number, deeds in enumerate(rounds):
            await world.tick(_UNITY, float(number))
            if number % 6 == 2:
                os.kill(service.pid, signal.SIGSTOP)  # so that nobody is answered before it is killed
            acting = [asyncio.ensure_future(minds[deed["agent_id"]].act(deed)) for deed in deeds]
            if number % 6 == 2:  # nobody has been answered yet, or one of them has
                await asyncio.sleep(0)
                await _kill(service, ada)
            elif number % 6 == 5:
                await asyncio.wait(acting, return_when=asyncio.FIRST_COMPLETED)
                await _kill(service, ada)
            await asyncio.gather(*acting)
        end = await world.broadcast_event(event("end"))
        for mind in minds.values():
            await mind.come_to(end.global_seq)
        await ada.leave()
    for name, mind in minds.items():
        assert mind.view.context_digest == calm[name].context_digest, name
        assert mind.view.visible_entities == calm[name].visible_entities
    assert minds["ada"].refusals["service_unavailable"] > 0  # it was cut off in the middle
    accepted = [each for mind in minds.values() for each in mind.accepted.values()]
    effects = await judged(database_url, "storm", accepted)
    asked = [deed["req_id"] for deeds in rounds for deed in deeds]
    assert sorted(each.req_id for each in accepted) == sorted(asked)
    written = Counter(effect["req_id"] for effect in effects if effect["source_id"] in POLICIES)
    assert written == Counter(asked)
    await right(database_url, "storm", *minds.values())


async def _kill(service: Service, ada: Newcomer) -> None:
    await service.kill()
    await ada.leave()
    await service.start()
    await ada.come_back()
