"""Time: who sets sim_time, how it is moved on, and that every process knows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from worldledger.errors import (
    AuthoritySilentError,
    InvalidEffectError,
    SimTimeOrderError,
    SimulationError,
    StoreUnavailableError,
    TimeAuthorityError,
    TimeAuthorityHeldError,
)
from worldledger.time_authority import Silence

from .conftest import Opening
from .helpers import ALL, created, effects, head_of, message, refused, speak, whole


async def times(world: Orchestrator) -> list[float]:
    """Return the sim_time of every effect after the genesis."""
    return [effect["sim_time"] for effect in await effects(world)]


async def test_an_adapter_moves_the_time(world: Orchestrator) -> None:
    """Under an authority its ticks alone move sim_time; everything else happens at the time as it stands."""
    receipt = await world.set_sim_time_authority("unity")
    start = (await times(world))[-1]
    a = await world.register_agent("a", ALL)
    tick = await world.tick("unity", 10.0)
    await world.broadcast_event(message())
    await a.next_observation()
    await a.submit_intent(speak())
    await world.tick("unity", 10)  # it may stand still
    found = await effects(world)
    assert [effect["kind"] for effect in found] == [
        "WorldTimeAuthoritySet",
        "AgentRegistered",
        "WorldTimeSet",
        "MessageEmitted",
        "Speak",
        "WorldTimeSet",
    ]
    assert [effect["sim_time"] for effect in found] == [start, start, *[start + 10.0] * 4]
    assert (found[0]["global_seq"], found[2]["global_seq"]) == (receipt.global_seq, tick.global_seq)
    assert found[0]["payload"] == {"authority": "unity", "offset": start}
    assert found[2]["payload"] == {"adapter": "unity", "time": 10.0}
    assert found[2]["source_id"] == "unity"
    assert (await head_of(world), len(a._subscription)) == (tick.global_seq + 3, 1)  # ticks are nothing to observe
    state = (await world._follower._store.states.state_at(world.world_id, await head_of(world))).state
    assert (state.metadata["time_authority"], state.metadata["time_offset"]) == ("unity", start)
    assert state.metadata["malformed_effects"] == 0


async def test_foreign_and_backward_ticks_are_refused(world: Orchestrator) -> None:
    """Without an authority there is no tick at all; with one, only its own and only forward. Nothing is written."""
    assert isinstance(await refused(world.tick("unity", 1e12)), TimeAuthorityError)
    await world.set_sim_time_authority("unity")
    await world.tick("unity", 2e9)
    head = await head_of(world)
    assert isinstance(await refused(world.tick("unreal", 3e9)), TimeAuthorityError)
    error = await refused(world.tick("unity", 2e9 - 0.5))
    assert isinstance(error, SimTimeOrderError)
    assert error.details["expected_min"] == pytest.approx(2e9)
    await world.tick("unity", error.details["expected_min"])
    head += 1
    for adapter in ("", "Unity", "no one", "u" * 300):
        error = await refused(world.tick(adapter, 3e9))
        assert isinstance(error, InvalidEffectError)
        assert error.path == "$.adapter"
    for sim_time in (float("nan"), float("inf"), "now", None, True):
        assert isinstance(await refused(world.tick("unity", sim_time)), SimulationError)  # type: ignore[arg-type]
    assert await head_of(world) == head


async def test_a_tick_without_a_time_is_no_tick(world: Orchestrator) -> None:
    """It would be an effect that says that time was set, and sets none."""
    await world.set_sim_time_authority("unity")
    head = await head_of(world)
    error = await refused(world.tick("unity", None))  # type: ignore[arg-type]
    assert isinstance(error, InvalidEffectError)
    assert await head_of(world) == head


async def test_the_authority_is_switched(world: Orchestrator) -> None:
    """From one adapter to another, to any client and back to the wall clock; time never goes back."""
    await world.set_sim_time_authority("unity")
    start = (await times(world))[-1]
    await world.tick("unity", 500.0)
    await world.set_sim_time_authority("unreal")
    assert isinstance(await refused(world.tick("unity", 501.0)), TimeAuthorityError)
    await world.tick("unreal", 1.0)
    assert (await times(world))[-1] == start + 500.0 + 1.0
    await world.set_sim_time_authority("godot", zero=1000)
    await world.tick("godot", 1.0)
    await world.set_sim_time_authority("client")
    for n, adapter in enumerate(("unity", "unreal", "godot")):
        await world.tick(adapter, 1002.0 + n)
    await world.set_sim_time_authority("none")
    assert isinstance(await refused(world.tick("unreal", 1e9)), TimeAuthorityError)
    await world.broadcast_event(message())
    assert (await times(world))[-6:-1] == [1001.0, 1002.0, 1003.0, 1004.0, 1004.0]
    assert 1004.0 <= (await times(world))[-1] < 2000.0  # on from where it stood, by the clock
    assert (await times(world)) == sorted(await times(world))
    state = (await world._follower._store.states.state_at(world.world_id, await head_of(world))).state
    assert state.metadata["time_authority"] == "wall"
    for bad in ("", "Unity", "any one"):
        error = await refused(_awaited(world, bad))
        assert isinstance(error, InvalidEffectError)
        assert error.path == "$.authority"
    for name, zero in (("none", 1.0), ("wall", 0), ("unity", "0"), ("unity", float("nan")), ("unity", True)):
        error = await refused(_awaited(world, name, zero))
        assert isinstance(error, InvalidEffectError)
        assert error.path == "$.zero"


async def _awaited(world: Orchestrator, authority: str, zero: Any = None) -> object:
    return await world.set_sim_time_authority(authority, zero=zero)


async def test_setting_it_does_not_wait_but_counts_for_what_follows(opening: Opening) -> None:
    """The call is synchronous: its effect stands before any later tick, and is written when the world closes."""
    async with opening.until() as world:
        for authority in ("unity", "nobody's name", "unreal", "unity"):
            world.set_sim_time_authority(authority)
        assert world.in_use
        assert (await world.tick("unity", 2e9)).global_seq == 5
        world.set_sim_time_authority("unreal")
    world = await opening()
    kinds = [(effect["kind"], effect["payload"]) for effect in await effects(world)]
    assert [payload.get("authority") for _, payload in kinds] == ["unity", "unreal", "unity", None, "unreal"]
    assert isinstance(await refused(world.tick("unity", 3e9)), TimeAuthorityError)
    await world.tick("unreal", 3e9)


async def test_every_process_knows_the_authority(opening: Opening) -> None:
    """What one sets is known to the others' sealing at once, though they have known another; also within one group."""
    one, two = await opening(), await opening()
    a = await two.register_agent("a", ALL)
    for adapter, other in (("unity", "unreal"), ("unreal", "unity")) * 3:
        await one.set_sim_time_authority(adapter)
        now = (await times(one))[-1]
        assert isinstance(await refused(two.tick(other, 1e9)), TimeAuthorityError)
        results = await asyncio.gather(
            *(world.tick(name, 1e9) for name in (adapter, other) for world in (one, two) for _ in range(3)),
            *(two.submit_intent(whole("a", a.view_seq)) for _ in range(3)),
            return_exceptions=True,
        )
        names = [type(result).__name__ for result in results[:12]]
        assert names == ["Receipt"] * 6 + ["TimeAuthorityError"] * 6
        await one.broadcast_event(created(f"e{now}"))
        assert (await times(one))[-1] == now + 1e9
        a = await two.agent("a", view_seq=await head_of(two))
    assert await times(one) == sorted(await times(one))
    assert await one.event_log.validate_integrity()


@pytest.mark.parametrize("rounds", [8])
async def test_two_processes_fight_for_the_authority(opening: Opening, rounds: int) -> None:
    """However their settings and ticks fall between each other, every tick in the log is its authority's of then."""
    worlds = [await opening(), await opening()]

    async def fight(world: Orchestrator, adapter: str) -> None:
        for n in range(rounds):
            try:
                await world.set_sim_time_authority(adapter)
                await world.tick(adapter, 2e9 + n)
                await world.tick(adapter, 2e9 + n)
            except (TimeAuthorityError, SimTimeOrderError):
                continue

    await asyncio.gather(*(fight(worlds[n % 2], f"adapter-{n}") for n in range(4)))
    authority, ticks = "wall", 0
    for effect in await effects(worlds[0]):
        if effect["kind"] == "WorldTimeAuthoritySet":
            authority = effect["payload"]["authority"]
        else:
            ticks += 1
            assert effect["source_id"] == effect["payload"]["adapter"] == authority
    assert ticks
    assert await times(worlds[0]) == sorted(await times(worlds[0]))
    assert await worlds[0].event_log.validate_integrity()


# -- silence ---------------------------------------------------------------------------------------------------------

_IMPATIENT = OrchestratorConfig(authority_silence_s=0.05)


async def silence_of(world: Orchestrator) -> Silence:
    """Wait until the authority is silent; return the silence."""
    told: asyncio.Future[Silence] = asyncio.get_running_loop().create_future()
    remove = world.on_authority_silent(lambda silence: None if told.done() else told.set_result(silence))
    try:
        return world.authority_silent or await told
    finally:
        remove()


async def silences(world: Orchestrator) -> list[dict[str, Any]]:
    """Return the payloads of the effects that tell of silences."""
    return [effect["payload"] for effect in await effects(world) if effect["kind"] == "WorldTimeAuthoritySilent"]


async def test_an_authority_that_ticks_no_more_is_silent(opening: Opening) -> None:
    """After the time that was set it is written once, however many processes look, and told to those who wait."""
    worlds = [await opening(config=_IMPATIENT) for _ in range(2)]
    await worlds[0].set_sim_time_authority("unity")
    first = await silence_of(worlds[1])
    assert (first.authority, first.last_tick_seq, first.reason) == ("unity", None, "no_tick")
    tick = await worlds[0].tick("unity", 1.0)
    await worlds[1].reached(tick.global_seq)
    for world in worlds:
        await world.reached(tick.global_seq)
        found = await silence_of(world)
        assert found.last_tick_seq == tick.global_seq
        state = world.world_state.metadata["time_authority_silent"]
        assert state == found._asdict()
        error = await refused(world.wait_for_tick())
        assert isinstance(error, AuthoritySilentError)
        assert error.details["last_tick_seq"] == tick.global_seq
    for world in worlds:
        await world.flush()
    assert [said["last_tick_seq"] for said in await silences(worlds[0])] == [None, tick.global_seq]
    assert await worlds[0].event_log.validate_integrity()


async def test_without_a_time_nobody_is_silent_by_it(world: Orchestrator) -> None:
    """By default it takes the end of a connection; under the clock or any client there is nothing to watch."""
    assert world.config.authority_silence_s is None
    await world.set_sim_time_authority("unity")
    await world.reached(2)
    assert world._clocks._timer is None
    assert not world.in_use


@pytest.mark.parametrize("authority", ["none", "client"])
async def test_who_does_not_tick_is_not_watched(opening: Opening, authority: str) -> None:
    """The wall clock and clients owe no ticks."""
    world = await opening(config=OrchestratorConfig(authority_silence_s=3600))
    receipt = await world.set_sim_time_authority("unity")
    await world.reached(receipt.global_seq)
    assert world.in_use
    receipt = await world.set_sim_time_authority(authority)
    await world.reached(receipt.global_seq)
    assert world._clocks._timer is None
    assert not world.in_use


async def test_those_who_wait_are_told_of_ticks_and_of_silence(opening: Opening) -> None:
    """In every process; and of the end of the world's being open."""
    one, two = await opening(), await opening()
    await one.set_sim_time_authority("unity")
    waits = [asyncio.create_task(world.wait_for_tick()) for world in (one, two)]
    await asyncio.sleep(0)
    tick = await one.tick("unity", 3.0)
    ticks = await asyncio.gather(*waits)
    assert {(each.global_seq, each.adapter) for each in ticks} == {(tick.global_seq, "unity")}
    waits = [asyncio.create_task(world.wait_for_tick()) for world in (one, two)]
    await asyncio.sleep(0)
    one.authority_disconnected("unity", tick.global_seq)
    told = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(each) for each in told] == [AuthoritySilentError] * 2
    assert one.authority_silent == two.authority_silent == (await one.time_authority()).silence
    again = await two.tick("unity", 4.0)  # which ends it
    await one.reached(again.global_seq)
    assert one.authority_silent is None
    async with opening.until() as three:
        assert three.authority_silent is None
        wait = asyncio.create_task(three.wait_for_tick())
        await asyncio.sleep(0)
    assert isinstance((await asyncio.gather(wait, return_exceptions=True))[0], StoreUnavailableError)


async def test_an_older_connection_s_end_is_no_silence(opening: Opening) -> None:
    """Only the one that sent the last accepted tick, and only once."""
    one, two = await opening(), await opening()
    await one.set_sim_time_authority("unity")
    first = await one.tick("unity", 1.0)
    second = await two.tick("unity", 2.0)
    one.authority_disconnected("unity", first.global_seq)
    one.authority_disconnected("unreal", second.global_seq)
    await one._clocks.settled()
    assert await silences(one) == []
    for world in (one, two, one):
        world.authority_disconnected("unity", second.global_seq)
        await world._clocks.settled()
    said = {"authority": "unity", "last_tick_seq": second.global_seq, "reason": "disconnected"}
    assert await silences(two) == [said]


async def test_the_end_of_the_connection_that_took_over_is_silence(opening: Opening) -> None:
    """Until the adapter ticks by another one, or is set anew; the wall clock has no connection that could end."""
    one, two = await opening(), await opening()
    first = await one.set_sim_time_authority("unity", force=False)
    second = await two.set_sim_time_authority("unity", force=False)
    one.authority_disconnected("unity", None, first.global_seq)
    await one._clocks.settled()
    assert await silences(one) == []
    for world in (two, one):
        world.authority_disconnected("unity", None, second.global_seq)
        await world._clocks.settled()
    assert await silences(one) == [{"authority": "unity", "last_tick_seq": None, "reason": "disconnected"}]
    third = await one.set_sim_time_authority("unreal", force=False)
    await two.tick("unreal", 1.0)
    one.authority_disconnected("unreal", None, third.global_seq)
    wall = await one.set_sim_time_authority("none")
    one.authority_disconnected("wall", None, wall.global_seq)
    await one._clocks.settled()
    assert len(await silences(one)) == 1


async def test_a_silent_authority_can_be_taken_over(opening: Opening) -> None:
    """By another adapter, and not before; an operator may always set it, and nobody stands in the way of the clock."""
    one, two = await opening(), await opening()
    await one.set_sim_time_authority("unity", force=False)  # from the clock
    tick = await one.tick("unity", 1.0)
    error = await refused(_taken(two, "unreal"))
    assert isinstance(error, TimeAuthorityHeldError)
    assert error.details["time_authority"] == "unity"
    await _taken(two, "unity")  # itself, with a zero that lies here
    tick = await one.tick("unity", 1.0)
    one.authority_disconnected("unity", tick.global_seq)
    await one._clocks.settled()
    await _taken(two, "unreal")
    assert isinstance(await refused(_taken(one, "unity")), TimeAuthorityHeldError)
    await _taken(one, "none")
    await _taken(one, "godot")
    await two.set_sim_time_authority("unity")  # an operator
    assert await times(one) == sorted(await times(one))


async def _taken(world: Orchestrator, authority: str) -> object:
    return await world.set_sim_time_authority(authority, force=False)


async def test_a_silence_is_known_to_who_comes_later(opening: Opening) -> None:
    """It stands in the log: a process that opens the world then knows it, and waits for no tick."""
    async with opening.until() as world:
        await world.set_sim_time_authority("unity")
        tick = await world.tick("unity", 1.0)
        world.authority_disconnected("unity", tick.global_seq)
    later = await opening(config=_IMPATIENT)
    assert later.authority_silent is not None
    assert later.authority_silent.last_tick_seq == tick.global_seq
    assert isinstance(await refused(later.wait_for_tick()), AuthoritySilentError)
    await _taken(later, "unreal")
