"""Tools of these tests: what agents say, and waiting for what must come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from worldledger.client import World
from worldledger.deltas import ObservationDelta, View, apply_delta
from worldledger.effects import EffectDraft

T = TypeVar("T")


async def soon(awaitable: Awaitable[T], seconds: float = 120.0) -> T:
    """Await what must come; the limit only turns a hang into a failure."""
    return await asyncio.wait_for(awaitable, seconds)


def speak(text: str, **fields: Any) -> dict[str, Any]:
    """Return an intent to speak."""
    return {"kind": "Speak", "payload": {"text": text}, **fields}


def emitted(text: str, source_id: str = "B") -> EffectDraft:
    """Return the draft of a message."""
    return {"kind": "MessageEmitted", "payload": {"text": text}, "source_id": source_id, "schema_version": "1.0.0"}


def entity(name: str, **fields: Any) -> EffectDraft:
    """Return the draft of an entity that comes into being."""
    payload = {"entity_id": name, "entity_data": fields}
    return {"kind": "EntityCreated", "payload": payload, "source_id": "builder", "schema_version": "1.0.0"}


def texts(delta: ObservationDelta) -> list[str]:
    """Return the texts of a delta's events."""
    return [event["payload"]["text"] for event in delta["events"]]


def after(view: View, *deltas: ObservationDelta) -> View:
    """Apply deltas; each must lead where it says."""
    for delta in deltas:
        view = apply_delta(view, delta)
    return view


async def same_view(world: World, view: View) -> bool:
    """Tell whether a view is what the world says that the agent saw at its view_seq."""
    return await world.view(view.agent_id, at_seq=view.view_seq) == view


async def waits_for(task: asyncio.Task[Any]) -> None:
    """Let a task come to where it waits for what has not happened yet."""
    for _ in range(20):
        await asyncio.sleep(0.005)
        assert not task.done()


async def kinds(world: World, *, until: str) -> list[str]:
    """Return the kinds of the world's effects, once there is one of this kind."""
    while True:
        found = [entry.effect["kind"] for entry in await world.event_log.get_entries_since(0)]
        if until in found:
            return found
        await asyncio.sleep(0.01)
