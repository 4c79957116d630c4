"""The time authority in the log: it holds from its effect on, for every process and every way of writing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from service.store import EventLog, Store
from service.store.records import Head
from service.store.sealing import Sealer
from service.store.units import Unit
from worldledger.core_kinds import TIME_AUTHORITY_KIND
from worldledger.drafts import check_draft
from worldledger.effects import EffectDraft
from worldledger.errors import SimTimeOrderError, SimulationError, TimeAuthorityError
from worldledger.genesis import NewWorld

from .helpers import assert_sound, draft, effects, holding_head, start, wait_for_waiters
from .proxy import Proxy
from .test_deciding import created

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


def authority(named: str) -> EffectDraft:
    """Make the setting of an authority, as the service writes it."""
    return draft(kind=TIME_AUTHORITY_KIND, payload={"authority": named}, source_id="worldledger")


def at(sim_time: float, source_id: str, n: int = 0, **fields: Any) -> EffectDraft:
    """Make a draft that sets sim_time."""
    return draft(n, source_id=source_id, sim_time=sim_time, **fields)


@pytest.fixture
async def wall(store: Store, world_id: str) -> EventLog:
    """Give the log of a world in which the wall clock sets sim_time."""
    await store.create_world(NewWorld(world_id=world_id))
    return await store.log(world_id)


async def refused(log: EventLog, *drafts: EffectDraft) -> SimulationError:
    """Append what is refused; give the refusal."""
    with pytest.raises((TimeAuthorityError, SimTimeOrderError)) as caught:
        await log.append_all(list(drafts), system=True)
    return caught.value


async def test_it_holds_from_its_effect_on(store: Store, wall: EventLog) -> None:
    """Before it the old one, after it the new one, whether an effect is written alone or with others."""
    assert (await refused(wall, at(2e9, "unity"))).details["time_authority"] == "wall"
    await wall.append_all([authority("unity")], system=True)
    await wall.append(at(2e9, "unity", 1))
    await wall.append(draft(2))
    assert (await refused(wall, at(3e9, "unreal"))).details["time_authority"] == "unity"
    assert isinstance(await refused(wall, at(1e9, "unity")), SimTimeOrderError)
    await wall.append_all([at(2e9, "unity", 3), draft(4), at(2e9 + 1, "unity", 5)])
    assert [effect["sim_time"] for effect in await effects(wall)][1:] == [2e9, 2e9, 2e9, 2e9, 2e9 + 1]
    await assert_sound(store, wall.world_id)


async def test_it_holds_within_its_own_unit(store: Store, wall: EventLog) -> None:
    """An effect behind it in the same call is under it, and one before it is not."""
    await wall.append_all(
        [authority("unity"), at(2e9, "unity", 1), authority("unreal"), at(3e9, "unreal")], system=True
    )
    error = await refused(wall, at(4e9, "unity"), authority("unity"))
    assert error.details["index"] == 0
    assert (await refused(wall, authority("unity"), at(4e9, "unreal"))).details["index"] == 1
    # What was refused has not set anything.
    assert (await refused(wall, at(4e9, "unity"))).details["time_authority"] == "unreal"
    await wall.append(at(4e9, "unreal"))
    await assert_sound(store, wall.world_id)


async def test_a_unit_that_is_refused_sets_nothing_for_those_beside_it(
    database_url: str, admin: Connection, store: Store, open_store: Opener, wall: EventLog
) -> None:
    """In one group with it they are judged by the authority that stands."""
    other = await (await open_store()).log(wall.world_id)
    await wall.append_all([authority("unity")], system=True)
    async with holding_head(database_url, wall.world_id):
        first = start(other.append(created("w")))
        await wait_for_waiters(admin)
        work: list[asyncio.Task[Any]] = [
            start(wall.append_all(drafts, system=True))
            for drafts in (
                [draft(1)],
                [authority("unreal"), at(2e9, "unity")],
                [at(2e9, "unity", 2)],
                [authority("client"), created("w")],
                [at(2e9, "unreal", 3)],
            )
        ]
        await wait_for_waiters(admin, 2)
    await first
    results = await asyncio.gather(*work, return_exceptions=True)
    kinds = [type(result).__name__ for result in results]
    assert kinds == ["list", "TimeAuthorityError", "list", "IllegalEffectError", "TimeAuthorityError"]
    assert {effect["payload"].get("authority") for effect in await effects(wall)} == {"unity", None}
    await assert_sound(store, wall.world_id)


async def test_other_processes_know(open_store: Opener, wall: EventLog) -> None:
    """A process that has written the world before, and knows another authority, goes by the new one at once."""
    other = await (await open_store()).log(wall.world_id)
    for n, (named, wrong) in enumerate([("unity", "unreal"), ("unreal", "unity"), ("client", ""), ("unity", "unreal")]):
        await other.append(draft(n))
        await wall.append_all([authority(named)], system=True)
        source = "anybody" if named == "client" else named
        if wrong:
            assert (await refused(other, at(2e9 + n, wrong))).details["time_authority"] == named
        assert await other.append(at(2e9 + n, source)) == await _head(other)
    await wall.append_all([authority("wall")], system=True)
    assert (await refused(other, at(3e9, "unity"))).details["time_authority"] == "wall"
    assert other.sealer.authority == wall.sealer.authority == "wall"


async def _head(log: EventLog) -> int:
    return (await log.get_entries_since(0))[-1].global_seq


async def test_who_comes_later_knows(open_store: Opener, wall: EventLog) -> None:
    """A process that opens the world anew looks for the last word in the log, however long ago it was said."""
    await wall.append_all([authority("unity")], system=True)
    await wall.append_all([draft(n) for n in range(50)])
    store = await open_store()
    later = await store.log(wall.world_id)
    assert later.sealer.authority == "unity"
    await later.append(at(2e9, "unity"))
    assert (await refused(later, at(3e9, "unreal"))).details["time_authority"] == "unity"


async def test_bulk_appends_go_by_it(open_store: Opener, wall: EventLog) -> None:
    """Also where another process has set it since this one looked last."""
    store = await open_store()
    other = await store.log(wall.world_id)
    await other.append(draft(0))
    await wall.append_all([authority("unity")], system=True)
    await store.bulk_append(wall.world_id, [at(2e9 + n, "unity", n) for n in range(5)])
    with pytest.raises(TimeAuthorityError):
        await store.bulk_append(wall.world_id, [at(3e9, "unreal")])
    await wall.append(at(2e9 + 5, "unity"))
    await assert_sound(store, wall.world_id)


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    """Give a proxy before the server."""
    async with Proxy(database_url).running() as running:
        yield running


@pytest.mark.parametrize("what", ["lose_request", "lose_answer"])
async def test_a_setting_in_doubt(open_store: Opener, wall: EventLog, proxy: Proxy, what: str) -> None:
    """Where the connection is lost in the middle, it is settled, and this process knows what stands in the log."""
    far = await (await open_store(proxy.url)).log(wall.world_id)
    await far.append(draft(1))
    rule = getattr(proxy, what)(b"needle-adapter")
    await far.append_all([authority("needle-adapter")], system=True)
    assert rule.done.is_set()
    await far.append(at(2e9, "needle-adapter"))
    assert (await refused(far, at(3e9, "unity"))).details["time_authority"] == "needle-adapter"
    kinds = [effect["kind"] for effect in await effects(wall)]
    assert kinds == ["Said", TIME_AUTHORITY_KIND, "Said"]


async def test_a_setting_that_was_never_written_is_not_known(open_store: Opener, wall: EventLog, proxy: Proxy) -> None:
    """Where its write is given up, the old authority stands, here as in the log."""
    far = await (await open_store(proxy.url, append_deadline=0.2)).log(wall.world_id)
    await far.append(draft(1))
    proxy.refuse_all()
    proxy.cut_all()
    with pytest.raises(SimulationError):
        await far.append_all([authority("unity")], system=True)
    proxy.accept_again()
    assert (await refused(far, at(2e9, "unity"))).details["time_authority"] == "wall"
    await far.append(draft(2))
    assert [effect["kind"] for effect in await effects(wall)] == ["Said", "Said"]


async def test_two_processes_set_and_tick(store: Store, open_store: Opener, wall: EventLog) -> None:
    """Whatever falls between what, every sim_time in the log was set by whoever had the authority just then."""
    logs = [wall, *[await (await open_store()).log(wall.world_id) for _ in range(2)]]

    async def writer(n: int) -> None:
        name = f"adapter-{n}"
        for step in range(12):
            unit = [authority(name), at(2e9 + step, name)] if step % 3 == 0 else [at(2e9 + step, name), draft(n)]
            try:
                await logs[n % 3].append_all(unit, system=True)
            except (TimeAuthorityError, SimTimeOrderError):
                continue

    await asyncio.gather(*(writer(n) for n in range(6)))
    holds = "wall"
    before = 0.0
    for effect in await effects(wall):
        if effect["kind"] == TIME_AUTHORITY_KIND:
            holds = effect["payload"]["authority"]
        elif effect["source_id"].startswith("adapter"):
            assert effect["source_id"] == holds
        assert effect["sim_time"] >= before
        before = effect["sim_time"]
    await assert_sound(store, wall.world_id)


def test_a_sealer_forgets_what_it_cuts_off() -> None:
    """Pure: the authority of a unit that is refused midway is gone with its rows."""

    async def run() -> None:
        sealer = Sealer("w", "wall", clock=lambda: 5.0, new_uuid=lambda: "0" * 32, max_effect_bytes=10_000)
        refused_midway, ticks, sets = (
            Unit([check_draft(each, system=True) for each in drafts], ())
            for drafts in ([authority("unity"), at(1.0, "unreal")], [at(9.0, "unity")], [authority("unity")])
        )
        # Ticks of a later sim_time come last in a group, whoever came first.
        group, later, others = sealer.seal(Head(1, b"\0" * 32, 5.0, 5.0), [refused_midway, ticks, sets], final=True)
        assert (later, others) == ([], [refused_midway])
        assert isinstance(refused_midway.refusal, TimeAuthorityError)
        assert (group.authority, group.sim_times, sealer.authority) == ("unity", [5.0, 9.0], "wall")
        group, _, others = sealer.seal(Head(1, b"\0" * 32, 5.0, 5.0), [ticks])
        assert (group.authority, group.texts, others) == (None, [], [ticks])

    asyncio.run(run())
