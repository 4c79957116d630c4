"""Time: who may set sim_time, and that neither clock ever runs backwards along a log."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest
from worldledger_service.store import EventLog, Store
from worldledger_service.store.bulk import WorldsAtOnce

from worldledger.drafts import check_draft
from worldledger.errors import InvalidEffectError, RecoveryAction, SimTimeOrderError, TimeAuthorityError
from worldledger.genesis import NewWorld

from . import exports
from .helpers import assert_sound, draft, effects

Opener = Callable[..., Awaitable[Store]]


class Clock:
    """A clock that goes where it is put."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now


async def _world(store: Store, world_id: str, authority: str) -> EventLog:
    await store.create_world(NewWorld(world_id=world_id, time_authority=authority))
    return await store.log(world_id)


async def test_under_the_wall_clock_seconds_count_from_the_genesis(open_store: Opener, world_id: str) -> None:
    """In a world of the wall clock every effect's sim_time is how long after the genesis it was written."""
    clock = Clock(1.7e9)
    log = await _world(await open_store(clock=clock), world_id, "wall")
    clock.now += 1.25
    await log.append_all([draft(), draft()])
    entries = await log.get_entries_since(0)
    assert [(entry.sim_time, entry.wall_time) for entry in entries] == [(0.0, 1.7e9), *[(1.25, 1.7e9 + 1.25)] * 2]
    assert entries[0].effect["payload"]["time_zero"] == 1.7e9
    other = await (await open_store(clock=clock)).log(world_id)
    clock.now += 1.0
    await other.append(draft())
    assert (await other.get_entries_since(3))[0].sim_time == 2.25


@pytest.mark.parametrize("opening", ["create_world", "import_world", "at_once"])
async def test_the_genesis_is_at_zero(open_store: Opener, world_id: str, opening: str) -> None:
    """However a world is made, and though the clock goes on meanwhile."""
    ticking = itertools.count(1_700_000_000)
    store = await open_store(clock=lambda: next(ticking) + 0.5)
    world = NewWorld(world_id=world_id)
    if opening == "at_once":
        at_once = WorldsAtOnce(store.reader, max_effect_bytes=10_000, clock=lambda: next(ticking) + 0.5)
        assert await at_once.write([at_once.seal(world, [check_draft(draft())])]) == [None]
    else:
        await (store.create_world(world) if opening == "create_world" else store.import_world(world, [draft()]))
    first = (await (await store.log(world_id)).get_entries_since(0))[0]
    assert (first.sim_time, first.wall_time) == (0.0, first.effect["payload"]["time_zero"])
    await assert_sound(store, world_id)


async def test_a_world_of_before_goes_on_in_epoch_seconds(open_store: Opener, world_id: str) -> None:
    """Its genesis does not say where its time begins: sim_time is the wall_time, and so it stays."""
    store = await open_store(clock=Clock(1.7e9))
    old = exports.genesis(world_id, time_authority="wall") | {"sim_time": 1.6e9, "wall_time": 1.6e9}
    later = exports.effect(2, world_id, sim_time=1.6e9 + 1, wall_time=1.6e9 + 1)
    assert await exports.restored(store, exports.export_of([exports.text(old), exports.text(later)], world_id))
    log = await store.log(world_id)
    await log.append(draft())
    assert [effect["sim_time"] for effect in await effects(log)] == [1.6e9 + 1, 1.7e9]
    await assert_sound(store, world_id)


@pytest.mark.parametrize("authority", ["wall", "client", "unity"])
async def test_a_clock_that_jumps_back_is_not_followed(open_store: Opener, world_id: str, authority: str) -> None:
    """When the clock jumps back, wall_time (and sim_time with it) stands still until the clock has caught up."""
    clock = Clock(1.7e9)
    store = await open_store(clock=clock)
    log = await _world(store, world_id, authority)
    for now in (1.7e9 + 10, 1.7e9 - 100, 1.7e9 + 9, 1.7e9 + 11):
        clock.now = now
        await log.append(draft())
    entries = await log.get_entries_since(1)
    assert [entry.wall_time - 1.7e9 for entry in entries] == [10, 10, 10, 11]
    await assert_sound(store, world_id)


async def test_processes_whose_clocks_differ(open_store: Opener, world_id: str) -> None:
    """Processes with different clocks on one world make a log whose times never decrease."""
    stores = [await open_store(clock=Clock(1.7e9 + offset)) for offset in (5.0, -5.0, 0.0)]
    logs = [await _world(stores[0], world_id, "wall"), *[await store.log(world_id) for store in stores[1:]]]
    for round_ in range(3):
        for log in logs:
            await log.append(draft(round_))
    await asyncio.gather(*(log.append(draft()) for log in logs for _ in range(5)))
    await assert_sound(stores[0], world_id)
    assert {effect["wall_time"] for effect in await effects(logs[0])} == {1.7e9 + 5}


async def test_under_the_client_any_draft_may_set_the_time(log: EventLog) -> None:
    """In a world of its clients a draft's sim_time is the effect's; a draft without one keeps the world's."""
    await log.append_all([draft(sim_time=0), draft(sim_time=1.5, source_id="b"), draft(), draft(sim_time=1.5)])
    await log.append(draft())
    await log.append(draft(sim_time=1e300))
    assert [effect["sim_time"] for effect in await effects(log)] == [0.0, 1.5, 1.5, 1.5, 1.5, 1e300]


async def test_under_an_adapter_only_its_drafts_may(open_store: Opener, world_id: str) -> None:
    """In a world of an adapter only drafts whose source is the adapter set the time; others keep it."""
    store = await open_store()
    log = await _world(store, world_id, "unity")
    await log.append_all([draft(source_id="unity", sim_time=2.0), draft()])
    with pytest.raises(TimeAuthorityError) as caught:
        await log.append(draft(sim_time=3.0))
    assert caught.value.recovery is RecoveryAction.MODIFY_INTENT
    assert caught.value.details == {"world_id": world_id, "time_authority": "unity", "path": "$.sim_time"}
    with pytest.raises(TimeAuthorityError):
        await log.append_all([draft(source_id="unity", sim_time=3.0), draft(source_id="Unity", sim_time=3.0)])
    assert [effect["sim_time"] for effect in await effects(log)] == [2.0, 2.0]


async def test_under_the_wall_clock_no_draft_may(open_store: Opener, world_id: str) -> None:
    """In a world of the wall clock a draft that states a time is refused, whoever sends it and whatever it says."""
    log = await _world(await open_store(), world_id, "wall")
    for source in ("a1", "wall", "client"):
        with pytest.raises(TimeAuthorityError, match="the wall clock alone sets sim_time"):
            await log.append(draft(sim_time=9e9, source_id=source))
    assert await log.append(draft(sim_time=None)) == 2


async def test_a_time_before_the_worlds_is_refused(log: EventLog, store: Store) -> None:
    """A sim_time below the world's is refused with the least that would do; in a list the draft is named."""
    await log.append(draft("at 5", sim_time=5.0))
    with pytest.raises(SimTimeOrderError) as caught:
        await log.append(draft(sim_time=4.999))
    stated = {"path": "$.sim_time", "expected_min": 5.0, "sim_time": 4.999}
    assert caught.value.details == {"world_id": log.world_id, **stated}
    with pytest.raises(SimTimeOrderError) as caught:
        await log.append_all([draft(sim_time=5.0), draft(sim_time=7.0), draft(sim_time=6.0)])
    assert (caught.value.details["index"], caught.value.details["expected_min"]) == (2, 7.0)
    await log.append(draft("at 5 again", sim_time=5.0))
    assert await assert_sound(store, log.world_id) == ["at 5", "at 5 again"]


async def test_a_world_may_begin_before_zero(log: EventLog) -> None:
    """A world's time begins at 0.0; an earlier one is refused like any step back."""
    with pytest.raises(SimTimeOrderError, match=r"-1\.0 is lower than the world's 0\.0"):
        await log.append(draft(sim_time=-1))


async def test_a_cause_comes_before_its_effect(log: EventLog) -> None:
    """An effect can be caused by any earlier one, its neighbour in the same list included, and by no other."""
    await log.append_all([draft(), draft(caused_by=1), draft(caused_by=3)])
    assert [effect.get("caused_by") for effect in await effects(log)] == [None, 1, 3]
    for cause in (5, 6, 2**53 - 1):
        with pytest.raises(InvalidEffectError) as caught:
            await log.append(draft(caused_by=cause))
        assert caught.value.path == "$.caused_by"
    with pytest.raises(InvalidEffectError) as caught:
        await log.append_all([draft(caused_by=4), draft(caused_by=6)])
    assert caught.value.index == 1
    assert await log.append(draft(caused_by=4)) == 5
