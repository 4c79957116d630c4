"""Services and databases that go away under agents that models play: nothing acknowledged is lost, and they go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from tests.client.helpers import soon
from tests.store.helpers import holding_head
from tests.store.proxy import Proxy
from worldledger.client import Client
from worldledger.llm import End, Text

from .conftest import Script, bob_says, playing, said, told, waits


@pytest.fixture
async def proxy(service: str) -> AsyncIterator[Proxy]:
    """Stand between an agent's program and the service."""
    async with Proxy(service).running() as made:
        yield made


@pytest.fixture
async def far(room: Client, proxy: Proxy) -> AsyncIterator[Client]:
    """Talk to the test's world through the proxy; ``room`` talks to it directly."""
    async with Client(f"http://127.0.0.1:{urlsplit(proxy.url).port}", room.world_id, patience=0.3) as made:
        yield made


async def _outcomes(room: Client, count: int) -> list[str]:
    return [effect["payload"]["outcome"] for effect in await soon(told(room)("GenerationReported", count))]


async def test_an_answer_that_ends_while_the_service_is_away_is_spoken_later(
    room: Client, far: Client, proxy: Proxy
) -> None:
    """The intent and the report wait for the service, and each is one effect."""
    go = asyncio.Event()
    model = Script([Text("The"), go, Text(" moon."), End("stop")])
    async with playing(far, model):
        await bob_says(room, "What pulls the sea?")
        await waits(model)
        await soon(told(room)("GenerationStarted"))
        proxy.refuse_all()
        proxy.cut_all()
        go.set()
        await asyncio.sleep(0.5)  # it tries meanwhile
        proxy.accept_again()
        assert await _outcomes(room, 1) == ["acted"]
        spoken = await told(room)("Speak", 2)
    assert [effect["payload"]["text"] for effect in spoken] == ["What pulls the sea?", "The moon."]
    assert len(await told(room)("GenerationReported")) == 1


async def test_an_interruption_that_came_while_the_service_was_away_counts(
    room: Client, far: Client, proxy: Proxy
) -> None:
    """What was said meanwhile cuts the answer off when the connection is back."""
    model = Script([Text("The"), asyncio.Event()], said("You first."))
    async with playing(far, model):
        await bob_says(room, "What pulls the sea?")
        await waits(model)
        await soon(told(room)("GenerationStarted"))
        proxy.refuse_all()
        proxy.cut_all()
        await bob_says(room, "Wait!")
        proxy.accept_again()
        assert await _outcomes(room, 2) == ["interrupted", "acted"]


@pytest.mark.thorough
async def test_a_database_that_hangs_in_the_middle_is_waited_for(room: Client, shared_url: str) -> None:
    """While nothing can be written the answer is kept, and it is spoken once."""
    go = asyncio.Event()
    model = Script([Text("The"), go, Text(" moon."), End("stop")])
    async with playing(room, model):
        await bob_says(room, "What pulls the sea?")
        await waits(model)
        await soon(told(room)("GenerationStarted"))
        async with holding_head(shared_url, room.world_id):
            go.set()
            await asyncio.sleep(4)  # longer than callers are kept waiting
        assert await _outcomes(room, 1) == ["acted"]
        spoken = await told(room)("Speak", 2)
    assert [effect["source_id"] for effect in spoken] == ["bob", "ann"]
