"""A parlour of agents who interrupt each other is replayed without a model, to the byte."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.replaying import check_replay

from tests.client.helpers import soon
from tests.conftest import NEVER
from worldledger.aio import all_of
from worldledger.client import Client
from worldledger.client.world import RemoteHandle
from worldledger.config import OrchestratorConfig
from worldledger.deltas import View, apply_delta
from worldledger.folding import Fold
from worldledger.llm import Chunk, End, Request, Text, read_personas, run_agent
from worldledger.rulesets import load_ruleset
from worldledger.views import Views
from worldledger.world import state_digest, state_text

from .conftest import told

_PERSONAS = read_personas(Path(__file__).resolve().parents[3] / "examples" / "parlour" / "parlour.yaml").of_agents


class Chatter:
    """A model that answers what was said last, word by word; its first answer does not end by itself."""

    name = "chatter"

    def __init__(self) -> None:
        self.hesitates = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Answer a request."""
        if not self.hesitates.is_set():
            yield Text("Well, ")
            self.hesitates.set()
            await asyncio.Event().wait()
        for word in f"So: {request.messages[-1]['content'].splitlines()[-1][:30]}".split():
            yield Text(f"{word} ")
            await asyncio.sleep(0.01)
        yield End("stop")


class Onlooker:
    """Keeps each view that an agent is shown, as it is made of what comes over the WebSocket."""

    def __init__(self, handle: RemoteHandle, view: View) -> None:
        self.handle = handle
        self.view = view
        self.shown = {view.view_seq: _text(view)}

    async def look(self) -> None:
        """Follow what the agent is shown, for ever."""
        while True:
            self.view = apply_delta(self.view, await self.handle.next_observation())
            self.shown[self.view.view_seq] = _text(self.view)


def _text(view: View) -> bytes:
    return state_text(view.model_dump(mode="json"))


@pytest.fixture
async def parlour(service: str, world_id: str) -> AsyncIterator[Client]:
    """Return a world that proves every few views by digests, with its agents."""
    async with Client(service, world_id) as made:
        await made.create_world(orchestrator=OrchestratorConfig(view_digest_every=5))
        for name in (*_PERSONAS, "visitor"):
            await made.register_agent(name)
        yield made


async def test_a_parlour_is_replayed_to_the_byte(parlour: Client, service: str, shared_url: str) -> None:
    """Interrupted by a person; the log alone gives every state and every view as they were, and its digests agree."""
    states: dict[int, str] = {}
    async with Client(service, parlour.world_id) as client, asyncio.TaskGroup() as looking:
        onlookers = {name: Onlooker(agent := await client.agent(name), await agent.view()) for name in _PERSONAS}
        tasks = [looking.create_task(onlooker.look()) for onlooker in onlookers.values()]
        brief = {name: each.model_copy(update={"turns": 4, "pause_s": 0.0}) for name, each in _PERSONAS.items()}
        models = {name: Chatter() for name in brief}
        running = looking.create_task(all_of(run_agent(parlour, *each, brief[each[0]]) for each in models.items()))
        await soon(models["ann"].hesitates.wait())
        await (await client.agent("visitor")).submit_intent({"kind": "Speak", "payload": {"text": "Good morning!"}})
        while not running.done():
            state = await client.call("GET", "state")
            states[state["global_seq"]] = state["state_digest"]
            await asyncio.sleep(0.05)
        await soon(running)
        for task in tasks:
            task.cancel()
    outcomes = [effect["payload"]["outcome"] for effect in await told(parlour)("GenerationReported")]
    assert {"acted", "interrupted"} <= set(outcomes)
    (first, *_) = await parlour.sql("interruption-cost", {"world": parlour.world_id}).rows()
    assert (first["agent_id"], first["interrupted_by"], first["tokens_out"]) == ("ann", "visitor", 1)
    effects = [entry.effect for entry in await parlour.event_log.get_entries_since(0)]
    views = Views(Fold(parlour.world_id, load_ruleset("sandbox")))
    replayed: dict[str, dict[int, bytes]] = defaultdict(dict)
    for effect in effects:
        views.apply(effect)
        if effect["kind"] == "AgentRegistered":
            views.attach(effect["payload"]["agent_id"])
        seq = effect["global_seq"]
        if seq in states:
            assert state_digest(state_text(views.fold.state.to_value())) == states.pop(seq)
        for name in views.attached:
            replayed[name][views.view(name).view_seq] = _text(views.view(name))
    assert not states
    for name, onlooker in onlookers.items():
        assert len(onlooker.shown) > 4
        assert onlooker.shown == {seq: replayed[name][seq] for seq in onlooker.shown}
    async with Store.open(shared_url, Settings(pool_size=2, snapshot_every=NEVER)) as store:
        verdict = await check_replay(store.reader, await store.world(parlour.world_id), load_ruleset("sandbox"))
    assert verdict.finding is None
    assert verdict.agreed
    assert verdict.digests >= 1
    assert verdict.views >= 3
