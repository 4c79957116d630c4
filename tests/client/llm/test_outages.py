"""Services and databases that go away under agents that talk: they come back, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.replaying import check_replay

from tests.api.helpers import serving
from tests.client.helpers import soon
from tests.conftest import NEVER
from tests.store.proxy import Proxy
from worldledger.client import Client
from worldledger.effects import Effect
from worldledger.errors import SimulationError
from worldledger.llm import End, Persona, Text
from worldledger.llm.openai import OpenAIModel
from worldledger.rulesets import load_ruleset

from .conftest import Script, bob_says, ended_holder, playing, said, told, waits
from .provider import Call, Provider, says

#: Seconds for which the database is away.
AWAY_SECONDS = float(os.environ.get("WORLDLEDGER_TEST_AWAY_SECONDS", "3"))


@asynccontextmanager
async def _entering(url: str, patience: float = 30.0) -> AsyncIterator[Client]:
    """Talk to the test's world, with ann and bob in it."""
    async with Client(url, "town", patience=patience) as client:
        if await client.create_world():
            for name in ("ann", "bob"):
                await client.register_agent(name)
        yield client


async def _kept(database_url: str, acknowledged: dict[int, str]) -> list[Effect]:
    """Return the world's effects: what was acknowledged is among them, and a replay agrees with them."""
    async with Store.open(database_url, Settings(pool_size=2, snapshot_every=NEVER)) as store:
        verdict = await check_replay(store.reader, await store.world("town"), load_ruleset("sandbox"))
        assert verdict.finding is None
        assert verdict.digests >= 1
        log = [entry.effect for entry in await (await store.log("town")).get_entries_since(0)]
    texts = {effect["global_seq"]: effect["payload"].get("text") for effect in log}
    assert acknowledged.items() <= texts.items()
    return log


def _reports(log: list[Effect]) -> list[str]:
    return [effect["payload"]["outcome"] for effect in log if effect["kind"] == "GenerationReported"]


async def test_a_service_that_is_restarted_is_come_back_to(database_url: str) -> None:
    """An answer that was under way when its service stopped is spoken by the next one, which others can interrupt."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    go = asyncio.Event()
    model = Script([Text("The"), go, Text(" moon."), End("stop")], [Text("So"), asyncio.Event()], said("Yes."))
    acknowledged: dict[int, str] = {}
    async with AsyncExitStack() as later:
        async with serving(database_url, port=port) as served:
            room = await later.enter_async_context(_entering(served.url))
            await later.enter_async_context(playing(room, model))
            acknowledged[await bob_says(room, "What pulls the sea?")] = "What pulls the sea?"
            await soon(waits(model))
            await soon(told(room)("GenerationStarted"))
        async with serving(database_url, port=port) as served, _entering(served.url) as other:
            go.set()
            spoken = await soon(told(other)("Speak", 2))
            acknowledged[spoken[1]["global_seq"]] = "The moon."
            acknowledged[await bob_says(other, "Really?")] = "Really?"
            await soon(waits(model, 2))
            await soon(told(other)("GenerationStarted", 2))
            acknowledged[await bob_says(other, "Is it?")] = "Is it?"
            await soon(told(other)("GenerationReported", 3))
            await later.aclose()
    assert _reports(await _kept(database_url, acknowledged)) == ["acted", "interrupted", "acted"]


async def test_agents_of_two_services_interrupt_each_other(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said by one service interrupts an agent of the other.

    When that agent's service and program are gone, what they were making is lost, and the agent is run from here.
    """
    monkeypatch.setattr("worldledger.llm.thinker._LAST_SECONDS", 0.1)
    held = Script([Text("The"), asyncio.Event()], [Text("Well"), asyncio.Event()])
    async with serving(database_url) as one, serving(database_url) as two, _entering(two.url) as bobs:
        async with _entering(one.url) as anns, playing(anns, held, holder=ended_holder()) as running:
            first = await bob_says(bobs, "What pulls the sea?")
            await soon(waits(held))
            second = await bob_says(bobs, "Wait!")
            await soon(waits(held, 2))
            await soon(told(bobs)("GenerationStarted", 2))
            await one.stop()
            running.cancel()
        async with playing(bobs, Script(said("Here."))):
            await soon(told(bobs)("Speak", 3))
            await soon(told(bobs)("GenerationReported", 3))
    log = await _kept(database_url, {first: "What pulls the sea?", second: "Wait!"})
    assert _reports(log) == ["interrupted", "lost", "acted"]


@pytest.mark.thorough
async def test_a_database_that_is_away_in_the_middle_is_waited_for(database_url: str) -> None:
    """The answer ends meanwhile, and is spoken once the database is back; others are told what to do."""
    go = asyncio.Event()
    model = Script([Text("The"), go, Text(" moon."), End("stop")])
    async with (
        Proxy(database_url).running() as proxy,
        serving(proxy.url) as served,
        _entering(served.url) as room,
        playing(room, model),
    ):
        asked = await bob_says(room, "What pulls the sea?")
        await soon(waits(model))
        await soon(told(room)("GenerationStarted"))
        proxy.refuse_all()
        proxy.cut_all()
        go.set()
        async with Client(served.url, "town", patience=0.1) as hasty:
            with pytest.raises(SimulationError, match="again") as refused:
                await hasty.broadcast_event(
                    {"kind": "Noted", "payload": {}, "source_id": "eve", "schema_version": "1.0.0"}
                )
        await asyncio.sleep(AWAY_SECONDS)
        proxy.accept_again()
        spoken = await soon(told(room)("Speak", 2))
        await soon(told(room)("GenerationReported"))
    assert refused.value.code == "store_unavailable"
    assert [effect["payload"]["text"] for effect in spoken] == ["What pulls the sea?", "The moon."]
    log = await _kept(database_url, {asked: "What pulls the sea?"})
    assert _reports(log) == ["acted"]


async def _acted(room: Client) -> None:
    """Wait until a generation of the world has led to something."""
    count = 1
    while (await told(room)("GenerationReported", count))[-1]["payload"]["outcome"] != "acted":
        count += 1


async def test_a_models_service_that_is_killed_in_the_middle_is_asked_again(room: Client) -> None:
    """What it had said is kept; while it is away each attempt is in the log; and it answers when it is back."""

    async def dies(call: Call) -> None:
        await call.head()
        await call.say("Well")
        first.refuse_all()

    async with Provider(dies) as first:
        model = OpenAIModel("tiny", base_url=first.url, retries=0)
        async with playing(room, model, Persona(character="You are brief.", retry_s=0.1)):
            await bob_says(room, "Ann?")
            await soon(told(room)("GenerationReported", 2))
            async with Provider(says("Here."), port=first.port):
                spoken = await soon(told(room)("Speak", 2))
                await soon(_acted(room))
        await model.aclose()
    reports = [effect["payload"] for effect in await told(room)("GenerationReported", 3)]
    assert spoken[1]["payload"]["text"] == "Here."
    assert [report["outcome"] for report in reports] == ["failed"] * (len(reports) - 1) + ["acted"]
    assert [report["error"]["code"] for report in reports[:2]] == ["cut", "unreachable"]
    assert (reports[0]["tokens_out"], "tokens_in" in reports[0]) == (1, False)
