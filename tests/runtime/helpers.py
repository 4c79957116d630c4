"""Tools of these tests: drafts and intents, what a reader gets, and waiting for something to be true."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar, cast

import jsonpatch
from worldledger_service.runtime import AgentHandle, Orchestrator, Subscription

from worldledger.deltas import ObservationDelta, View
from worldledger.effects import Effect, EffectDraft
from worldledger.errors import SimulationError
from worldledger.observation import ObservationPolicy, PolicyConfig

T = TypeVar("T")
_numbers = itertools.count(1)

#: The agent sees everything.
ALL = ObservationPolicy()


def near(limit: float, **config: Any) -> ObservationPolicy:
    """Return a policy that sees so far."""
    return ObservationPolicy(PolicyConfig(distance_limit=limit, **config))


def draft(kind: str, payload: dict[str, Any], source_id: str = "operator", **fields: Any) -> EffectDraft:
    """Make a draft."""
    made = {"kind": kind, "payload": payload, "source_id": source_id, "schema_version": "1.0.0", **fields}
    return cast("EffectDraft", made)


def message(text: str = "hello", source_id: str = "B") -> EffectDraft:
    """Make a message, as an agent emits one."""
    return draft("MessageEmitted", {"text": text}, source_id)


def created(entity_id: str, *position: float, **data: Any) -> EffectDraft:
    """Make an entity, somewhere or nowhere."""
    payload: dict[str, Any] = {"entity_id": entity_id, "entity_data": data}
    return draft("EntityCreated", payload | ({"position": list(position)} if position else {}))


def moved(entity_id: str, *position: float) -> EffectDraft:
    """Move an entity."""
    return draft("Move", {"agent_id": entity_id, "to": list(position)})


def removed(entity_id: str) -> EffectDraft:
    """Remove an entity."""
    return draft("EntityRemoved", {"entity_id": entity_id})


def speak(text: str = "hi", **fields: Any) -> dict[str, Any]:
    """Make an intent to say something, for a handle to complete."""
    return {"kind": "Speak", "payload": {"text": text}, **fields}


def move(*position: float, start: Iterable[float] | None = None, **fields: Any) -> dict[str, Any]:
    """Make an intent to move, for a handle to complete."""
    payload: dict[str, Any] = {"to": list(position)} | ({} if start is None else {"from": list(start)})
    return {"kind": "Move", "payload": payload, **fields}


def custom(kind: str, payload: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Make an intent of a kind of its own, for a handle to complete."""
    return {"kind": "Custom", "payload": {"kind": kind, **(payload or {})}, **fields}


def whole(agent_id: str, context_seq: int, **fields: Any) -> dict[str, Any]:
    """Make a whole intent, as the orchestrator itself takes it."""
    given = {
        "agent_id": agent_id,
        "context_seq": context_seq,
        "req_id": f"r-{next(_numbers)}",
        "schema_version": "1.0.0",
    }
    return {**speak(), **given, **fields}


def start(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task."""
    return asyncio.get_running_loop().create_task(work)


async def settle() -> None:
    """Let everybody go on who can without the database."""
    for _ in range(20):
        await asyncio.sleep(0)


async def refused(awaited: Coroutine[Any, Any, Any]) -> SimulationError:
    """Return the error that something is refused with."""
    try:
        result = await awaited
    except SimulationError as error:
        return error
    raise AssertionError(f"it was not refused: {result!r}")


async def effects(world: Orchestrator, *kinds: str) -> list[Effect]:
    """Return a world's effects after its genesis, those of these kinds if any are named."""
    entries = await world.event_log.get_entries_since(1)
    return [entry.effect for entry in entries if not kinds or entry.effect["kind"] in kinds]


async def head_of(world: Orchestrator) -> int:
    """Return the world's head as this process has followed it, once that is the log's."""
    (last, *_) = [*(await world.event_log.get_entries_since(0))][-1:]
    await world.reached(last.global_seq)
    return last.global_seq


def patched(view: View, delta: ObservationDelta) -> View:
    """Return the view after a delta, by another's implementation of RFC 6902."""
    value = jsonpatch.apply_patch(view.model_dump(), delta["patches"])
    after = View.of(view.agent_id, delta["view_seq"], value["visible_entities"], value["visible_relationships"])
    assert after.context_digest == delta["context_digest"]
    return after


async def read_until(reader: AgentHandle | Subscription, seq: int) -> list[ObservationDelta]:
    """Return the observations up to that of a seq."""
    found: list[ObservationDelta] = []
    while not found or found[-1]["view_seq"] < seq:
        found.append(await (reader.next_observation() if isinstance(reader, AgentHandle) else reader.get()))
    assert found[-1]["view_seq"] == seq
    return found


def kept(view: View | None, deltas: Iterable[ObservationDelta]) -> View:
    """Return the view after deltas, each of which follows the one before."""
    assert view is not None
    for delta in deltas:
        assert delta["view_seq"] > view.view_seq
        view = patched(view, delta)
    return view


async def as_folded(world: Orchestrator, agent_id: str, policy: ObservationPolicy, seq: int) -> View:
    """Return what a policy makes of the state at a seq, worked out from the log alone."""
    fold = await world._follower._store.states.fold_at(world.world_id, seq)
    return policy.filter_world_state(fold.state, agent_id)
