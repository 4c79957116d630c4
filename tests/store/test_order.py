"""The order of units that wait together: ``(sim_time, -priority, source_id)``, then arrival."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_service.store import EventLog, Store
from worldledger_service.store.records import Head
from worldledger_service.store.sealing import Sealer
from worldledger_service.store.units import Unit

from tests.waiting import wait_for
from worldledger.effects import EffectDraft
from worldledger.errors import SimTimeOrderError
from worldledger.genesis import NewWorld
from worldledger.time_authority import TimeAuthority

from .helpers import assert_sound, draft, holding_head, start, wait_for_waiters

if TYPE_CHECKING:
    from .helpers import Connection

_UNIT = st.tuples(
    st.lists(st.none() | st.integers(0, 3).map(float), min_size=1, max_size=3),
    st.integers(-1, 1),
    st.sampled_from("abc"),
)


async def _gathered(
    store: Store, log: EventLog, admin: Connection, url: str, units: list[list[EffectDraft]]
) -> list[Any]:
    """Let units arrive one by one while the head is held, then let go; return their outcomes."""
    async with holding_head(url, log.world_id):
        first = start(log.append(draft("first")))
        await wait_for_waiters(admin)
        tasks = []
        for unit in units:
            before = store.waiting
            tasks.append(start(log.append_all(unit)))
            await wait_for(lambda: store.waiting == before + len(unit), "the unit waits")  # noqa: B023 - awaited here
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_units_that_wait_together_are_sorted(
    store: Store, log: EventLog, admin: Connection, database_url: str
) -> None:
    """Units that gathered while the world was busy are written by time, then priority, then source, then arrival."""
    keys = [(t, p, s) for t in (0.0, 1.0, 2.0) for p in (5, 0, -5) for s in ("a", "b") for _ in range(2)]
    shuffled = list(enumerate(keys))
    random.Random(7).shuffle(shuffled)
    units = [
        [draft([number, n], sim_time=t, priority=p, source_id=s) for n in range(2)] for number, (t, p, s) in shuffled
    ]
    await _gathered(store, log, admin, database_url, units)
    arrival = {number: place for place, (number, _) in enumerate(shuffled)}
    expected = sorted(range(len(keys)), key=lambda i: (keys[i][0], -keys[i][1], keys[i][2], arrival[i]))
    written = await assert_sound(store, log.world_id)
    assert written == ["first", *([number, n] for number in expected for n in range(2))]


async def test_a_unit_without_a_sim_time_has_the_worlds(
    store: Store, log: EventLog, admin: Connection, database_url: str
) -> None:
    """A unit that states no time is sorted as if it stated the world's present time."""
    await log.append(draft("before", sim_time=5.0))
    units = [
        [draft("later", sim_time=6.0)],
        [draft("now, low", priority=-1)],
        [draft("now", sim_time=5.0)],
        [draft("none")],
    ]
    await _gathered(store, log, admin, database_url, units)
    written = await assert_sound(store, log.world_id)
    assert written == ["before", "first", "now", "none", "now, low", "later"]


async def test_a_refused_unit_takes_no_place(store: Store, log: EventLog, admin: Connection, database_url: str) -> None:
    """A unit that is refused among others leaves no gap and takes nobody with it."""
    units = [
        [draft("a", sim_time=1.0)],
        [draft("b", sim_time=1.0), draft("b, back in time", sim_time=0.5)],
        [draft("c", caused_by=10_000, sim_time=1.0)],
        [draft("d", sim_time=1.0)],
    ]
    outcomes = await _gathered(store, log, admin, database_url, units)
    assert [type(outcome) is list for outcome in outcomes] == [True, False, False, True]
    assert isinstance(outcomes[1], SimTimeOrderError)
    assert outcomes[1].details["index"] == 1
    assert await assert_sound(store, log.world_id) == ["first", "a", "d"]


async def test_a_world_of_the_wall_clock_is_sorted_by_priority(
    store: Store, world_id: str, admin: Connection, database_url: str
) -> None:
    """Where no draft states a time, priority, source and arrival alone give the order."""
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    units = [
        [draft("low", priority=-9)],
        [draft("b", source_id="b")],
        [draft("a")],
        [draft("a2")],
        [draft("high", priority=9)],
    ]
    await _gathered(store, log, admin, database_url, units)
    assert await assert_sound(store, world_id) == ["first", "high", "a", "a2", "b", "low"]


def _seal(units: list[tuple[list[float | None], int, str]]) -> tuple[list[tuple[int, int]], list[int]]:
    """Seal units with a Sealer alone; return what was written, as (unit, place), and which units were refused."""

    async def run() -> tuple[list[tuple[int, int]], list[int]]:
        client = TimeAuthority("client")
        sealer = Sealer("w", client, clock=lambda: 9.0, new_uuid=lambda: "u", max_effect_bytes=10_000)
        made = []
        for times, priority, source in units:
            drafts = [draft(sim_time=time, priority=priority, source_id=source) for time in times]
            made.append(Unit.of(drafts, limit=10))
        group, later, refusals = sealer.seal(Head(1, bytes(32), 1.0, 9.0), made, final=True)
        assert not later
        assert group.after.seq == 1 + len(group.texts) == 1 + len(group.checksums)
        assert len(group.kinds) == len(group.sources) == len(group.sim_times) == len(group.texts)
        written = []
        for unit, receipts in group.units:
            written += [(receipt.global_seq, made.index(unit), place) for place, receipt in receipts.items()]
        assert [seq for seq, _, _ in written] == list(range(2, 2 + len(group.texts)))
        refused = [number for number, unit in enumerate(made) if unit in refusals]
        assert all(isinstance(made[number].refusal, SimTimeOrderError) for number in refused)
        assert not any(unit.future.done() for unit in made)  # nothing is committed yet
        return [(number, place) for _, number, place in written], refused

    with asyncio.Runner() as runner:
        return runner.run(run())


@settings(max_examples=150, deadline=None)
@given(st.lists(_UNIT, max_size=8))
def test_any_units_are_written_in_the_promised_order(units: list[tuple[list[float | None], int, str]]) -> None:
    """Whatever waits together, the order is the law's, each unit is whole, and only what steps back is refused."""
    written, refused = _seal(units)

    def key(number: int) -> tuple[float, int, str, int]:
        times, priority, source = units[number]
        return (1.0 if times[0] is None else times[0], -priority, source, number)

    expected: list[tuple[int, int]] = []
    expected_refused = []
    now = 1.0
    for number in sorted(range(len(units)), key=key):
        reached = now
        for time in units[number][0]:
            if time is not None and time < reached:
                expected_refused.append(number)
                break
            reached = reached if time is None else time
        else:
            now = reached
            expected += [(number, place) for place in range(len(units[number][0]))]
    assert written == expected
    assert refused == sorted(expected_refused)


def test_units_of_equal_keys_keep_their_arrival() -> None:
    """Units that equal each other in everything are written in the order in which they came."""
    written, refused = _seal([([None], 0, "a")] * 30)
    assert written == [(number, 0) for number in range(30)]
    assert not refused
