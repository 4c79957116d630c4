"""The time authority in the log: it holds from its effect on, for every process and every way of writing."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worldledger_service.store import EventLog, Store, statements
from worldledger_service.store.records import Head
from worldledger_service.store.sealing import Sealer
from worldledger_service.store.units import Unit

from worldledger.drafts import check_draft
from worldledger.effects import EffectDraft
from worldledger.errors import (
    InvalidEffectError,
    RequestConflictError,
    SimTimeOrderError,
    SimulationError,
    TimeAuthorityError,
)
from worldledger.genesis import NewWorld
from worldledger.time_authority import TIME_AUTHORITY_KIND, TimeAuthority

from . import exports
from .helpers import assert_sound, draft, effects, holding_head, start, wait_for_waiters
from .proxy import Proxy
from .test_deciding import created

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


def authority(named: str, **said: Any) -> EffectDraft:
    """Make the setting of an authority, as the service has it sealed."""
    return draft(kind=TIME_AUTHORITY_KIND, payload={"authority": named, **said}, source_id="worldledger")


def at(sim_time: float, source_id: str, n: int = 0, **fields: Any) -> EffectDraft:
    """Make a draft that sets sim_time."""
    return draft(n, source_id=source_id, sim_time=sim_time, **fields)


@pytest_asyncio.fixture(loop_scope="session")
async def wall(store: Store, world_id: str) -> EventLog:
    """Return the log of a world in which the wall clock sets sim_time."""
    await store.create_world(NewWorld(world_id=world_id))
    return await store.log(world_id)


async def refused(log: EventLog, *drafts: EffectDraft) -> SimulationError:
    """Append what is refused; return the refusal."""
    with pytest.raises((TimeAuthorityError, SimTimeOrderError)) as caught:
        await log.append_all(list(drafts), system=True)
    return caught.value


async def test_it_holds_from_its_effect_on(store: Store, wall: EventLog) -> None:
    """Before it the old one, after it the new one, whether an effect is written alone or with others."""
    assert (await refused(wall, at(2e9, "unity"))).details["time_authority"] == "wall"
    await wall.append_all([authority("unity", zero=0)], system=True)
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
        await wall.append_all([authority(named, zero=0)], system=True)
        source = "anybody" if named == "client" else named
        if wrong:
            assert (await refused(other, at(2e9 + n, wrong))).details["time_authority"] == named
        assert await other.append(at(2e9 + n, source)) == await _head(other)
    await wall.append_all([authority("wall")], system=True)
    assert (await refused(other, at(3e9, "unity"))).details["time_authority"] == "wall"
    assert other.sealer.authority == wall.sealer.authority
    assert other.sealer.authority.name == "wall"


async def _head(log: EventLog) -> int:
    return (await log.get_entries_since(0))[-1].global_seq


async def test_who_comes_later_knows(open_store: Opener, wall: EventLog) -> None:
    """A process that opens the world anew looks for the last word in the log, however long ago it was said."""
    await wall.append_all([authority("unity")], system=True)
    await wall.append_all([draft(n) for n in range(50)])
    store = await open_store()
    later = await store.log(wall.world_id)
    assert later.sealer.authority.name == "unity"
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


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    """Return a proxy before the server."""
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
        wall = TimeAuthority("wall")
        sealer = Sealer("w", wall, clock=lambda: 5.0, new_uuid=lambda: "0" * 32, max_effect_bytes=10_000)
        refused_midway, ticks, sets = (
            Unit([check_draft(each, system=True) for each in drafts], ())
            for drafts in ([authority("unity"), at(1.0, "unreal")], [at(9.0, "unity")], [authority("unity")])
        )
        # Ticks that the authority of before would not allow come last in a group, whoever came first.
        group, later, others = sealer.seal(Head(1, b"\0" * 32, 5.0, 5.0), [refused_midway, ticks, sets], final=True)
        assert (later, others) == ([], [refused_midway])
        assert isinstance(refused_midway.refusal, TimeAuthorityError)
        assert (group.authority, sealer.authority) == (TimeAuthority("unity", 5.0, since_seq=2), wall)
        assert group.sim_times == [5.0, 14.0]
        group, _, others = sealer.seal(Head(1, b"\0" * 32, 5.0, 5.0), [ticks])
        assert (group.authority, group.texts, others) == (None, [], [ticks])

    asyncio.run(run())


# -- handing time over -----------------------------------------------------------------------------------------------


class Clock:
    """A clock that goes where it is put."""

    def __init__(self, now: float = 1.7e9) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now


async def test_time_is_handed_over_and_back_without_a_jump(open_store: Opener, world_id: str) -> None:
    """From the clock to an engine that counts from 0.0, back to the clock, and on to another engine."""
    clock = Clock()
    store = await open_store(clock=clock)
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    clock.now += 10.0
    await log.append(draft(1))
    clock.now += 2.0
    await log.append_all([authority("unity")], system=True)
    clock.now += 1000.0  # it is the engine's time that counts
    await log.append_all([at(0.0, "unity", 2), at(5.0, "unity", 3), draft(4)])
    await log.append_all([authority("wall")], system=True)
    clock.now += 3.0
    await log.append(draft(5))
    await log.append_all([authority("unreal")], system=True)
    await log.append(at(1.5, "unreal", 6))
    found = await effects(log)
    assert [effect["sim_time"] for effect in found] == [10.0, 12.0, 12.0, 17.0, 17.0, 17.0, 20.0, 20.0, 21.5]
    said = [effect["payload"] for effect in found if effect["kind"] == TIME_AUTHORITY_KIND]
    assert said == [
        {"authority": "unity", "offset": 12.0},
        {"authority": "wall", "offset": 17.0 - (1.7e9 + 1012.0)},
        {"authority": "unreal", "offset": 20.0},
    ]
    await assert_sound(store, world_id)


async def test_an_authority_says_where_its_zero_lies(open_store: Opener, world_id: str) -> None:
    """An engine whose clock is running brings its own zero; what a client states is the world's time."""
    clock = Clock()
    store = await open_store(clock=clock)
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    clock.now += 100.0
    await log.append_all([authority("unity", zero=40)], system=True)
    await log.append(at(60.5, "unity"))
    error = await refused(log, at(60.25, "unity"))
    assert (error.details["expected_min"], error.details["sim_time"]) == (60.5, 60.25)
    await log.append_all([authority("client")], system=True)
    assert (await refused(log, at(60.5, "anybody"))).details["expected_min"] == 100.5
    await log.append(at(100.5, "anybody"))
    assert [effect["sim_time"] for effect in await effects(log)] == [100.0, 100.5, 100.5, 100.5]
    for offset in (1.7e308, -1.7e308):
        await log.append_all([authority("unity", zero=offset)], system=True)
        with pytest.raises((InvalidEffectError, SimTimeOrderError)):
            await log.append(at(offset, "unity"))
    await assert_sound(store, world_id)


async def test_a_request_again_is_compared_by_the_offset_of_its_time(open_store: Opener, world_id: str) -> None:
    """The time that a draft states is the same request's, whoever has had the authority since."""
    clock = Clock()
    stores = [await open_store(clock=clock) for _ in range(2)]
    await stores[0].create_world(NewWorld(world_id=world_id))
    logs = [await store.log(world_id) for store in stores]
    clock.now += 7.0
    await logs[0].append_all([authority("unity")], system=True)
    first = await logs[0].append_all([at(1.5, "unity", req_id="r")])
    await logs[0].append_all([authority("unreal")], system=True)
    for log in logs:
        (again,) = await log.append_all([at(1.5, "unity", req_id="r")])
        assert again == first[0]._replace(replayed=True)
        with pytest.raises(RequestConflictError):
            await log.append(at(8.5, "unity", req_id="r"))  # the sim_time that it got, which nobody has stated
    await assert_sound(stores[0], world_id)


async def test_a_setting_of_before_adds_nothing(open_store: Opener, world_id: str) -> None:
    """Without an offset in its effect an adapter's own time is the world's, and the wall clock's the epoch's."""
    clock = Clock()
    store = await open_store(clock=clock)
    lines = [
        exports.genesis(world_id, time_authority="wall"),
        exports.effect(2, world_id, kind=TIME_AUTHORITY_KIND, payload={"authority": "unity"}, source_id="worldledger"),
    ]
    assert await exports.restored(store, exports.export_of(list(map(exports.text, lines)), world_id))
    log = await store.log(world_id)
    await log.append(at(5.0, "unity"))
    assert [effect["sim_time"] for effect in await effects(log)] == [2.0, 5.0]
    await log.append_all([authority("wall")], system=True)
    clock.now += 1.0
    await log.append(draft())
    assert [effect["sim_time"] for effect in await effects(log)] == [2.0, 5.0, 5.0, 6.0]
    await assert_sound(store, world_id)


_STEP = st.one_of(
    st.tuples(st.just("clock"), st.sampled_from([0.0, 0.1, 3.7, 1e6, -5.0])),
    st.tuples(st.just("wall effect"), st.just(None)),
    st.tuples(
        st.just("set"),
        st.tuples(
            st.sampled_from(["wall", "client", "unity", "unreal"]),
            st.one_of(st.none(), st.floats(-1e9, 1e9, allow_nan=False), st.sampled_from([0, 1e300, -1e300])),
        ),
    ),
    st.tuples(
        st.just("tick"),
        st.tuples(st.sampled_from(["unity", "unreal"]), st.floats(-1e10, 1e10, allow_nan=False)),
    ),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 1), _STEP, st.booleans()), max_size=25))
async def test_sim_time_never_decreases(
    open_store: Opener, two: tuple[Store, Store, Clock], steps: list[tuple[int, tuple[str, Any], bool]]
) -> None:
    """Whatever takes over from what, in two processes, and every sim_time follows from the log by its one rule."""
    *stores, clock = two
    world_id = f"law-{next(_laws)}"
    await stores[0].create_world(NewWorld(world_id=world_id))
    logs = [await store.log(world_id) for store in stores]
    waiting: list[asyncio.Task[Any]] = []
    for n, (process, (what, how), waits) in enumerate(steps):
        if what == "clock":
            clock.now += how
            continue
        if what == "set":
            name, zero = how
            made = authority(name) if zero is None or name == "wall" else authority(name, zero=zero + 0.0)
        else:
            made = draft(n) if what == "wall effect" else at(how[1] + 0.0, how[0], n)
        waiting.append(start(logs[process].append_all([made], system=True)))
        if waits:
            await asyncio.wait(waiting)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} <= {list, TimeAuthorityError, SimTimeOrderError}
    first = (await logs[0].get_entries_since(0))[0].effect
    name, offset, before = "wall", -first["payload"]["time_zero"], first["sim_time"]
    for effect in await effects(logs[0]):
        now = effect["sim_time"]
        assert now >= before
        if effect["source_id"] in {"unity", "unreal"}:
            assert name in {effect["source_id"], "client"}
            _, (_, own) = steps[effect["payload"]["n"]][1]
            assert now == own + offset
        else:
            assert now == (max(before, effect["wall_time"] + offset) if name == "wall" else before)
        before = now
        if effect["kind"] == TIME_AUTHORITY_KIND:
            name, offset = effect["payload"]["authority"], effect["payload"]["offset"]
    await assert_sound(stores[0], world_id)


_laws = itertools.count(1)


@pytest_asyncio.fixture(loop_scope="session")
async def two(open_store: Opener) -> tuple[Store, Store, Clock]:
    """Return two stores with one clock."""
    clock = Clock()
    return await open_store(clock=clock), await open_store(clock=clock), clock


async def test_looking_it_up_does_not_read_a_long_log(store: Store, wall: EventLog, admin: Connection) -> None:
    """Effects of the authority are looked for by their kind, also where the database knows of one kind only."""
    await store.bulk_append(wall.world_id, (draft(n, kind="Move") for n in range(20_000)))
    await admin.execute("set default_statistics_target = 1; analyze effects")  # as of far more effects
    seq = (await store.world(wall.world_id)).head_seq
    plan = await admin.fetch(
        f"explain (analyze, buffers, format json) {statements.LAST_OF_AUTHORITY}",
        wall.world_id,
        [TIME_AUTHORITY_KIND],
        0,
        seq,
    )
    (told,) = orjson.loads(plan[0][0])
    assert told["Plan"]["Shared Hit Blocks"] + told["Plan"]["Shared Read Blocks"] < 20, told
