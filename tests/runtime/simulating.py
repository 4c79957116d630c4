"""Simulations on a database: their worlds, what is posted to them, and what their agents see at every seq."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, Final

import jsonpatch
import orjson
from worldledger_service.runtime import AgentHandle, Orchestrator
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.conftest import NEVER
from tests.rulesets.simulation.playing import trade
from tests.store.exports import restored
from tests.warm import Process
from worldledger.config import OrchestratorConfig
from worldledger.deltas import PARTS, View
from worldledger.effects import EffectDraft
from worldledger.errors import SimulationError
from worldledger.genesis import NewWorld
from worldledger.world import state_text

from .helpers import custom, draft

#: Views may be of any age.
PATIENT: Final = OrchestratorConfig(staleness_threshold=1_000_000, view_digest_every=5)
_LOOKING: Final = Path(__file__).with_name("looking.py")


async def create(url: str, world_id: str, config: Mapping[str, Any] | None = None, **fields: Any) -> None:
    """Create a simulation."""
    async with Store.open(url, Settings(pool_size=2, snapshot_every=NEVER)) as store:
        given = {"orchestrator": PATIENT, **fields}
        await store.create_world(
            NewWorld(world_id=world_id, ruleset="simulation", config=dict(config or trade()), **given)
        )


def said(kind: str, source_id: str = "engine", **payload: Any) -> EffectDraft:
    """Make a draft of the vocabulary."""
    return draft(kind, payload, source_id)


def changing(path: str, value: Any, **fields: Any) -> dict[str, Any]:
    """Make an intent to set one of the agent's own values."""
    return custom("AgentStateChanged", {"patch": [{"op": "add", "path": path, "value": value}]}, **fields)


def text_of(view: View) -> str:
    """Return a digest of what a view shows, to the byte, and its own digest."""
    shown = state_text([getattr(view, part) for part in PARTS])
    return f"{sha256(shown).hexdigest()} {view.context_digest}"


class Reader:
    """A reader that keeps an agent's view by deltas; ``seen`` has what it saw from each view_seq on."""

    def __init__(self, handle: AgentHandle) -> None:
        assert handle.initial_view is not None
        self.handle = handle
        self.document = orjson.loads(orjson.dumps(handle.initial_view.model_dump()))
        self.seen = {handle.initial_view.view_seq: text_of(handle.initial_view)}
        self.events: list[Any] = []
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        while True:
            delta = await self.handle.next_observation()
            self.document = jsonpatch.apply_patch(self.document, delta["patches"])
            shown = state_text([self.document[part] for part in PARTS])
            self.seen[delta["view_seq"]] = f"{sha256(shown).hexdigest()} {delta['context_digest']}"
            self.events += delta["events"]

    async def read_until(self, seq: int) -> None:
        """Read all that this process was told of by a seq, and no more."""
        world = self.handle.orchestrator
        await world.reached(seq)
        while len(self.handle._subscription):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def at(self, seq: int) -> str:
        """Return what it saw after a seq."""
        return self.seen[max(view_seq for view_seq in self.seen if view_seq <= seq)]


async def views_at(world: Orchestrator, agents: list[str], head: int, every: int = 1) -> dict[str, dict[int, str]]:
    """Return what each agent saw at every so manyth seq since its registration, and at the head, from the log."""
    found: dict[str, dict[int, str]] = {}
    known = await world.agents()
    for name in agents:
        first = known[name]["registered_seq"]
        found[name] = {seq: text_of(await world.view(name, at_seq=seq)) for seq in {*range(first, head, every), head}}
    return found


@asynccontextmanager
async def opened(url: str, world_id: str, **settings: Any) -> AsyncIterator[Orchestrator]:
    """Open a world anew."""
    how = Settings(**{"pool_size": 3, "snapshot_every": NEVER, **settings})
    async with Orchestrator.open(url, world_id=world_id, settings=how) as world:
        yield world


async def elsewhere(url: str, world_id: str, head: int, every: int = 1) -> dict[str, dict[int, str]]:
    """Return the same as `views_at` of all agents, worked out in a process of its own."""
    with tempfile.TemporaryFile() as out, Path(os.devnull).open("rb") as nothing:
        streams = (nothing.fileno(), out.fileno(), 2)
        process = Process([url, world_id, str(head), str(every)], streams, os.environ, program=_LOOKING)
        assert await asyncio.to_thread(process.wait) == 0
        out.seek(0)
        found = orjson.loads(out.read())
    return {name: {int(seq): text for seq, text in views.items()} for name, views in found.items()}


async def drama(world: Orchestrator, turns: int, seed: int = 1) -> list[SimulationError]:
    """Let turns pass in which agents and engine do what they may, and what they may not; return the refusals."""
    random = Random(seed)
    refused: list[SimulationError] = []
    names = ["Ann", "Bob", "Café", "Eve"]

    async def engine(kind: str, **payload: Any) -> None:
        try:
            await world.broadcast_event(said(kind, **payload))
        except SimulationError as error:
            refused.append(error)

    for turn in range(1, turns + 1):
        await engine("TurnStarted")
        for step in range(random.randrange(4, 9)):
            name, req_id = random.choice(names), f"{turn}-{step}"
            wanted = random.choice(
                [
                    changing("/gold", random.choice([1, 2.5, "7", 101]), req_id=req_id),
                    changing("/bag", {"food": random.randrange(9), "~/é": "1.5"}, req_id=req_id),
                    changing("/place", [random.random(), random.randrange(9)], req_id=req_id),
                    changing("/note", random.choice([None, "hidden", "ü"]), req_id=req_id),
                    custom("ReasoningRecorded", {"reasoning": "secret thoughts"}, req_id=req_id),
                    custom("Waved", {"gold": 5}, req_id=req_id),
                ]
            )
            if name in world.agent_handles:
                try:
                    await world.agent_handles[name].submit_intent(wanted)
                except SimulationError as error:
                    refused.append(error)
        await engine("GlobalStateChanged", patch=[{"op": "add", "path": "/price", "value": turn}])
        what = random.choice(["AgentPaused", "AgentResumed", "AgentRemoved", "AgentAdded", "AgentAdded"])
        await engine(what, agent_id=random.choice(names), **({"turns": 1} if what == "AgentPaused" else {}))
        await engine("TurnEnded")
    return refused


async def restore(url: str, data: bytes) -> None:
    """Import a world's exported bytes into another database."""
    async with Store.open(url, Settings(pool_size=2, snapshot_every=NEVER)) as store:
        await restored(store, data)
