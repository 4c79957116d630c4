"""Worlds that are ordered by ticks are the same in process and over the wire: intents are held, and ticks decide."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from worldledger_service.store import Store

from tests.api.helpers import settings
from worldledger.client import Client, World
from worldledger.config import OrchestratorConfig
from worldledger.errors import (
    InvalidIntentError,
    PermissionDeniedError,
    RequestConflictError,
    SimTimeOrderError,
    TimeAuthorityError,
)
from worldledger.genesis import NewWorld
from worldledger.intents import Accepted, Held
from worldledger.observation import ObservationPolicy

from .conftest import OpenWorld
from .helpers import soon, speak

_CONFIG = OrchestratorConfig(staleness_threshold=1_000_000)


@pytest.fixture
async def ticking(shared_url: str, world_id: str, open_world: OpenWorld) -> AsyncIterator[World]:
    """Return the test's world, ordered by ticks whose time unity sets, wherever it lives."""
    async with Store.open(shared_url, settings()) as store:
        how: dict[str, Any] = {"order": "tick", "time_authority": "unity", "orchestrator": _CONFIG}
        await store.create_world(NewWorld(world_id=world_id, **how))
    async with open_world() as world:
        yield world


async def held(world: World, *intents: dict[str, Any]) -> None:
    """Wait until these intents, which others have submitted, are held."""
    for intent in intents:
        while True:
            answer = await world.hold_intent(intent)
            assert isinstance(answer, Held)
            if answer.replayed:
                break


async def test_an_intent_waits_for_its_tick(ticking: World) -> None:
    """submit_intent returns with the tick that decides the intent; hold_intent as soon as it is held."""
    alice = await ticking.register_agent("alice", ObservationPolicy())
    mute = await ticking.register_agent("mute", ObservationPolicy(), ["submit_intent"])
    at = alice.view_seq
    own = speak("one", req_id="r1", context_seq=at)
    accepted = asyncio.ensure_future(alice.submit_intent(own))
    refused = asyncio.ensure_future(mute.submit_intent(own))
    await held(ticking, {**own, "agent_id": "alice"}, {**own, "agent_id": "mute"})
    second = await alice.hold_intent(speak("two", req_id="r2", order=-1))
    assert isinstance(second, Held)
    assert (second.agent_id, second.req_id, second.tick, second.order) == ("alice", "r2", 1, -1)
    receipt = await ticking.tick("unity", 1.0)
    first = await soon(accepted)
    assert (first.req_id, first.replayed) == ("r1", False)
    with pytest.raises(PermissionDeniedError):
        await soon(refused)
    entries = await ticking.event_log.get_entries_since(first.global_seq - 2, limit=3)
    assert [entry.effect["req_id"] for entry in entries] == ["r2", "r1", None]
    assert (entries[-1].global_seq, entries[-1].effect["payload"]["tick"]) == (receipt.global_seq, 1)
    again = await alice.hold_intent(speak("two", req_id="r2"))
    assert isinstance(again, Accepted)
    assert again.replayed
    with pytest.raises(RequestConflictError):
        await alice.hold_intent(speak("three", req_id="r2"))


async def test_a_world_waits_for_intents_of_any_agent(ticking: World) -> None:
    """Intents that are submitted without a handle, one or a list, are answered with the tick."""
    await ticking.register_agent("alice", ObservationPolicy())
    mute = await ticking.register_agent("mute", ObservationPolicy(), ["submit_intent"])
    mute.close()
    whole = {"agent_id": "alice", "context_seq": 0}
    single = speak("one", req_id="r1", **whole)
    several = [speak("a", req_id="a", **whole), speak("b", req_id="b", **{**whole, "agent_id": "mute"}), {"kind": "?"}]
    atomic = [speak("c", req_id="c", **whole), speak("d", req_id="d", **{**whole, "agent_id": "mute"})]
    one = asyncio.ensure_future(ticking.submit_intent(single))
    many = asyncio.ensure_future(ticking.submit_intents(several))
    whole_list = asyncio.ensure_future(ticking.submit_intents(atomic, atomic=True))
    await held(ticking, single, *several[:2], *atomic)
    await ticking.tick("unity", 1.0)
    assert (await soon(one)).req_id == "r1"
    first, second, third = await soon(many)
    assert isinstance(first, Accepted)
    assert not first.replayed
    assert isinstance(second, PermissionDeniedError)
    assert isinstance(third, InvalidIntentError)
    with pytest.raises(PermissionDeniedError) as refused:
        await soon(whole_list)
    assert refused.value.details["index"] == 1


async def test_who_closes_ticks(ticking: World) -> None:
    """The adapter closes ticks by its own time or by name; another, and a time that is not later, is refused."""
    await ticking.tick("unity", 1.0)
    with pytest.raises(SimTimeOrderError):
        await ticking.tick("unity", 1.0)
    with pytest.raises(TimeAuthorityError):
        await ticking.close_tick("referee")
    closed = await ticking.close_tick("unity")
    (entry,) = await ticking.event_log.get_entries_since(closed.global_seq - 1)
    assert entry.effect["payload"]["tick"] == 2


async def test_the_client_makes_such_a_world(client: Client) -> None:
    """A world that a client creates may be ordered by ticks; its genesis says so."""
    arena = client.world("arena")
    assert await arena.create_world(order="tick")
    (genesis, *_) = await arena.event_log.get_entries_since(0)
    assert genesis.effect["payload"]["order"] == "tick"
    closed = await arena.close_tick("referee")
    assert (closed.tick, closed.accepted, closed.refused) == (1, 0, 0)
