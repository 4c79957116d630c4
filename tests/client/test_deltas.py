"""What comes as a delta: attributes, and the whole view instead of very many operations."""

from __future__ import annotations

import asyncio
from typing import Any

from worldledger.client import RLFacade, World
from worldledger.deltas import ObservationDelta, View
from worldledger.effects import EffectDraft
from worldledger.observation import ObservationPolicy

from .conftest import OpenWorld
from .helpers import after, emitted, entity, same_view, soon, speak

#: The world's usual ``max_patch_ops``.
MOST = 200


def lit(first: int, count: int, value: int) -> EffectDraft:
    """Change so many fields of the entity ``lamps``, by an operation for each."""
    patch = [{"op": "replace", "path": f"/l{n}", "value": value} for n in range(first, first + count)]
    payload: dict[str, Any] = {"entity_id": "lamps", "patch": patch}
    return {"kind": "EntityUpdated", "payload": payload, "source_id": "builder", "schema_version": "1.0.0"}


def replaces_all(delta: ObservationDelta, view: View) -> bool:
    """Tell whether a delta has two operations that lead to this view from any other."""
    return delta.patches == [
        {"op": "replace", "path": "/visible_entities", "value": view.visible_entities},
        {"op": "replace", "path": "/visible_relationships", "value": view.visible_relationships},
    ]


async def test_a_delta_answers_by_attributes(world: World) -> None:
    """A caller may write ``delta_1.view_seq < delta_2.view_seq``; handles and facades allow that."""
    a = await world.register_agent("A", ObservationPolicy())
    await world.broadcast_event(emitted("one"))
    await world.broadcast_event(emitted("two"))
    delta_1, delta_2 = await soon(a.next_observation()), await soon(a.next_observation())
    assert delta_1.view_seq < delta_2.view_seq
    assert delta_2.view_seq == delta_2["view_seq"]
    assert [event["payload"]["text"] for event in delta_2.events] == ["two"]
    assert delta_2.patches == delta_2["patches"] != []
    assert delta_2.schema_version == "1.0.0"
    assert delta_2.context_digest == (await a.view()).context_digest
    async with RLFacade(world) as facade:
        _, stepped = await soon(facade.step("A", speak("three")))
        await world.broadcast_event(emitted("four"))
        assert stepped.view_seq < (await soon(facade.observe("A"))).view_seq


async def test_a_long_patch_comes_as_the_whole_view(world: World) -> None:
    """Up to 200 operations come as they are, more of them as two that replace all that is seen; the digest holds."""
    await world.broadcast_event(entity("lamps", **{f"l{n}": 0 for n in range(MOST + 1)}))
    alice = await world.register_agent("alice", ObservationPolicy())
    view = alice.initial_view
    assert view is not None
    await world.broadcast_event(lit(0, MOST, 1))
    await world.broadcast_event(lit(0, MOST + 1, 2))
    short, long = await soon(alice.next_observation()), await soon(alice.next_observation())
    assert len(short.patches) == MOST
    assert "collapsed" not in long
    view = after(view, short, long)
    assert replaces_all(long, view)
    assert await same_view(world, view)


async def test_a_step_s_long_patch_comes_as_the_whole_view(world: World) -> None:
    """Of observations that come as one with an operation for each of 300 fields, a facade gives the whole view."""
    await world.broadcast_event(entity("lamps", **{f"l{n}": 0 for n in range(300)}))
    await world.register_agent("alice", ObservationPolicy())
    async with RLFacade(world) as facade:
        view = await facade.view("alice")
        for n in range(3):
            receipt = await world.broadcast_event(lit(100 * n, 100, 1))
        _, delta = await soon(facade.step("alice", speak("let there be light", context_seq=receipt.global_seq)))
        assert delta.collapsed == 4
        assert [event["payload"]["text"] for event in delta.events] == ["let there be light"]
        view = after(view, delta)
        assert replaces_all(delta, view)
        assert await same_view(world, view)


async def test_a_slow_reader_s_long_patch_comes_as_the_whole_view(open_world: OpenWorld) -> None:
    """What collapses for a reader that does not keep up has no more operations either, wherever the deltas waited."""
    async with open_world() as world:
        await world.broadcast_event(entity("lamps", **{f"l{n}": 0 for n in range(300)}))
        alice = await world.register_agent("alice", ObservationPolicy())
        facade = RLFacade(world, max_queued=2)
        view = await facade.view("alice")
        for n in range(3):
            last = await world.broadcast_event(lit(100 * n, 100, 1))
        while (await soon(alice.next_observation())).view_seq < last.global_seq:
            pass
        pump = facade._seen["alice"].result().pump
        assert pump is not None
        while pump.view_seq < last.global_seq:  # over the wire they come a little later
            await asyncio.sleep(0.005)
        deltas = [await soon(facade.observe("alice"))]
        while deltas[-1].view_seq < last.global_seq:
            deltas.append(await soon(facade.observe("alice")))
        assert sum(each.collapsed for each in deltas) == 3
        assert all(len(each.patches) <= MOST for each in deltas)
        assert await same_view(world, after(view, *deltas))
        facade.close()
