"""States at any moment: folded from the log, from snapshots, at a seq or a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
from worldledger_service.store import Store

from worldledger.chain import StoredEffect
from worldledger.errors import FoldError, MomentNotFoundError, TamperedError, WorldNotFoundError
from worldledger.genesis import NewWorld
from worldledger.rulesets import Ruleset
from worldledger.world import WorldState, state_digest

from .helpers import draft, guards_down
from .states import moved, replayed, snapshots, world_of_moves

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


@pytest.mark.both_servers
async def test_a_state_at_any_seq_is_the_replayed_one(store: Store, world_id: str) -> None:
    """Whatever seq is asked for, in whatever order, the state is the one that a replay from the genesis gives."""
    await world_of_moves(store, world_id, 300, every=20)
    order = list(range(1, 302))
    random.Random(7).shuffle(order)
    for seq in order[:80]:
        found = await store.states.state_at(world_id, seq)
        expected = await replayed(store, world_id, seq)
        assert found.state == expected.state
        assert found.text == expected.state.text()
        assert found.state_digest == state_digest(found.text)
        assert found.checksum == (await store.reader.effect(world_id, seq)).checksum.hex()
        assert (found.ruleset, found.ruleset_version) == ("sandbox", 1)
    assert len(await snapshots(store, world_id)) > 10


async def test_reading_takes_snapshots_and_writes_no_effects(store: Store, world_id: str) -> None:
    """Who reads a state of a long log without snapshots leaves snapshots for the next one, and the log as it was."""
    await world_of_moves(store, world_id, 100, every=30)
    head = (await store.world(world_id)).head
    await store.states.state_at(world_id, 101)
    assert [each.global_seq for each in await snapshots(store, world_id)] == [30, 60, 90]
    assert all(each.digest_seq is None for each in await snapshots(store, world_id))
    assert (await store.world(world_id)).head == head


async def test_snapshots_stand_at_the_same_places_whoever_reads(
    open_store: Opener, store: Store, world_id: str
) -> None:
    """Where snapshots are due follows from the log, not from how it was read."""
    await world_of_moves(store, world_id, 200, every=30)
    small = await open_store(read_batch_bytes=1024)
    await small.states.state_at(world_id, 77)
    await small.states.state_at(world_id, 201)
    there = [(each.global_seq, each.state_digest) for each in await snapshots(store, world_id)]
    await world_of_moves(store, world_id + "b", 200, every=30)
    await store.states.state_at(world_id + "b", 201)
    assert there == [(each.global_seq, each.state_digest) for each in await snapshots(store, world_id + "b")]


async def test_snapshots_are_sparser_where_states_are_large(store: Store, world_id: str) -> None:
    """The bytes of the snapshots stay below those of the effects."""
    big: list[Any] = [
        {"kind": "EntityCreated", "source_id": "a", "schema_version": "1.0.0"}
        | {"payload": {"entity_id": f"e{n}", "entity_data": {"about": "x" * 300}}}
        for n in range(200)
    ]
    await store.import_world(NewWorld(world_id=world_id, snapshot_every=10), [*big, *(moved(n) for n in range(2000))])
    await store.states.state_at(world_id, 2201)
    found = await snapshots(store, world_id)
    rows = [row async for batch in store.reader.batches(world_id) for row in batch]
    assert len(found) > 3
    assert sum(each.state_bytes for each in found) <= sum(len(row.text) for row in rows)


@pytest.mark.both_servers
async def test_old_snapshots_are_thinned(open_store: Opener, world_id: str) -> None:
    """A world keeps a bounded number of snapshots: the older half gets sparser, the newest stay."""
    store = await open_store(snapshots_kept=10)
    await world_of_moves(store, world_id, 1500, every=20)
    await store.states.state_at(world_id, 1501)
    seqs = [each.global_seq for each in await snapshots(store, world_id)]
    assert len(seqs) <= 10
    assert max(seqs) > 1400
    for seq in (3, 400, 801, 1501):
        assert (await store.states.state_at(world_id, seq)).state == (await replayed(store, world_id, seq)).state
    assert len(await snapshots(store, world_id)) <= 10


async def test_the_newest_snapshot_and_the_tail_are_all_that_is_read(
    open_store: Opener, store: Store, world_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that comes anew to a world with snapshots reads no effect before the newest of them."""
    await world_of_moves(store, world_id, 500, every=100)
    await store.states.state_at(world_id, 501)
    fresh = await open_store()
    asked: list[int] = []
    batches = fresh.reader.batches

    def noted(world: str, **where: Any) -> Any:
        asked.append(where["after_seq"])
        return batches(world, **where)

    monkeypatch.setattr(fresh.reader, "batches", noted)
    assert (await fresh.states.state_at(world_id, 501)).state.metadata["last_effect_seq"] == 501
    assert asked == [500]


# -- what was done to snapshots ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        "state = replace(state::text, '0.5', '0.7')::json",
        "state_digest = sha256('x')",
        "checksum = sha256('x')",
        "ruleset = 'chess'",
        "state = '{}', state_digest = sha256('{}')",
        "state = '[]', state_digest = sha256('[]')",
    ],
)
async def test_a_damaged_snapshot_is_passed_over_and_made_again(
    store: Store, admin: Connection, world_id: str, edit: str
) -> None:
    """A snapshot that was edited by hand is noticed: the state is right all the same, and the snapshot is made anew."""
    await world_of_moves(store, world_id, 100, every=20)
    right = await store.states.state_at(world_id, 85)
    made = await snapshots(store, world_id)
    await admin.execute(f"update snapshots set {edit} where world_id = $1 and global_seq in (60, 80)", world_id)
    assert (await store.states.state_at(world_id, 85)) == right
    again = await snapshots(store, world_id)
    assert [(each.global_seq, each.state_digest) for each in again] == [
        (each.global_seq, each.state_digest) for each in made
    ]


@pytest.mark.both_servers
async def test_a_damaged_snapshot_stands_until_a_right_one_takes_its_place(
    store: Store, admin: Connection, world_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No snapshot goes while another is made for its seq: of two readers that found it damaged one may be done already.

    The readers see each other's work only through the table, so each of them looks at it while the other folds.
    """
    await world_of_moves(store, world_id, 100, every=20)
    await store.states.state_at(world_id, 85)
    made = [(each.global_seq, each.state_digest) for each in await snapshots(store, world_id)]
    await admin.execute("update snapshots set state_digest = sha256('x') where world_id = $1", world_id)
    there: list[list[int]] = []
    batches = store.reader.batches

    async def looking(*args: Any, **where: Any) -> AsyncGenerator[list[StoredEffect]]:
        there.append([each.global_seq for each in await snapshots(store, world_id)])
        async for batch in batches(*args, **where):
            yield batch

    monkeypatch.setattr(store.reader, "batches", looking)
    await asyncio.gather(*(store.states.state_at(world_id, 85) for _ in range(2)))
    assert there == [[seq for seq, _ in made]] * 2
    assert [(each.global_seq, each.state_digest) for each in await snapshots(store, world_id)] == made


async def test_a_snapshot_with_a_digest_of_its_own_is_caught_by_the_log(
    store: Store, admin: Connection, world_id: str
) -> None:
    """Whoever edits a snapshot together with its digest is found by the StateDigest that stands in the chain."""
    await world_of_moves(store, world_id, 30)
    made = await store.snapshot(world_id)
    right = await store.states.state_at(world_id, 31)
    await admin.execute(
        "update snapshots set state = replace(state::text, '0.5', '0.7')::json, "
        "state_digest = sha256(convert_to(replace(state::text, '0.5', '0.7'), 'UTF8')) where world_id = $1",
        world_id,
    )
    assert (await snapshots(store, world_id))[0].state_digest != made.state_digest
    assert (await store.states.state_at(world_id, 31)) == right
    assert [each.state_digest for each in await snapshots(store, world_id)] == [made.state_digest]


async def test_a_snapshot_of_another_version_is_not_used(store: Store, admin: Connection, world_id: str) -> None:
    """What another version of the ruleset has kept is stale: it is not read, and gives way to this version's."""
    await world_of_moves(store, world_id, 100, every=40)
    right = await store.states.state_at(world_id, 100)
    await admin.execute(
        "update snapshots set ruleset_version = 99, state = '{}', state_digest = sha256('{}') where world_id = $1",
        world_id,
    )
    assert [each.current for each in await snapshots(store, world_id)] == [False, False]
    assert await store.states.state_at(world_id, 100) == right
    assert [each.current for each in await snapshots(store, world_id)] == [True, True]


# -- moments -------------------------------------------------------------------------------------------------


@pytest.mark.both_servers
async def test_times_name_the_last_effect_at_or_before(store: Store, world_id: str) -> None:
    """A sim_time means the last effect that is not later, and so does a wall time."""
    clock = [100.0]
    world = NewWorld(world_id=world_id, time_authority="client")
    async with Store.open(store.reader._url, clock=lambda: clock[0]) as own:
        await own.create_world(world)
        log = await own.log(world_id)
        for sim_time in (1.0, 1.0, 2.5, 7.0, 7.0, 7.0, 9.0):
            clock[0] += 10.0
            await log.append(moved(1, sim_time=sim_time))
    record = await store.world(world_id)
    for sim_time, seq in [(0.0, 1), (0.99, 1), (1.0, 3), (2.4, 3), (2.5, 4), (6.9, 4), (7.0, 7), (8.0, 7), (9.0, 8)]:
        assert await store.states.seq_at(record, sim_time=sim_time) == seq
    assert await store.states.seq_at(record, sim_time=1e300) == 8
    for wall_time, seq in [(100.0, 1), (109.9, 1), (110.0, 2), (139.0, 4), (1e9, 8)]:
        assert await store.states.seq_at(record, wall_time=wall_time) == seq
    assert await store.states.seq_at(record) == 8
    with pytest.raises(MomentNotFoundError, match=r"no effect at or before wall_time 99\.0"):
        await store.states.seq_at(record, wall_time=99.0)
    with pytest.raises(MomentNotFoundError, match="at or before sim_time"):
        await store.states.seq_at(record, sim_time=-1.0)


@pytest.mark.parametrize("seq", [0, -1, 32, 2**60, 2**80])
async def test_a_seq_that_a_world_has_not_is_refused_with_its_head(store: Store, world_id: str, seq: int) -> None:
    """Beyond the head, before the genesis, negative and huge: the error names the head."""
    await world_of_moves(store, world_id, 30)
    with pytest.raises(MomentNotFoundError, match="its head is 31") as caught:
        await store.states.seq_at(await store.world(world_id), seq=seq)
    assert caught.value.details["head_seq"] == 31


async def test_unknown_worlds_have_no_states(store: Store) -> None:
    """A state of no world is an error that says so."""
    with pytest.raises(WorldNotFoundError):
        await store.states.fold_at("nobody-knows", 3)


async def test_the_state_before_the_first_effect_is_empty(store: Store, world_id: str) -> None:
    """A projection that begins at seq 0 is given the initial state."""
    await world_of_moves(store, world_id, 3)
    fold = await store.states.fold_at(world_id, 0)
    assert fold.state == WorldState.initial()


# -- damaged logs and failing rulesets -----------------------------------------------------------------------


async def test_a_hole_in_the_log_makes_no_state(database_url: str, store: Store, world_id: str) -> None:
    """Effects that were deleted are noticed, wherever they stood, and named."""
    await world_of_moves(store, world_id, 60)
    async with guards_down(database_url) as admin:
        await admin.execute("delete from effects where world_id = $1 and global_seq in (20, 61)", world_id)
    with pytest.raises(TamperedError, match="seq 20: missing"):
        await store.states.state_at(world_id, 40)
    assert (await store.states.state_at(world_id, 19)).global_seq == 19
    with pytest.raises(TamperedError, match="seq 20: missing"):
        await store.states.state_at(world_id, 61)


class _Failing(Ruleset):
    name = "sandbox"
    handlers = {"Said": lambda state, effect: 1 // effect["payload"]["n"]}  # noqa: RUF012


async def test_a_ruleset_that_fails_is_named_with_the_effect(
    open_store: Opener, store: Store, world_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of a ruleset's own is told with world, seq and kind, and states before it are still there."""
    await store.import_world(NewWorld(world_id=world_id), [draft(1), draft(2), draft(0), draft(3)])
    monkeypatch.setattr("worldledger_service.store.states.load_ruleset", lambda _: _Failing())
    other = await open_store()
    assert (await other.states.state_at(world_id, 3)).global_seq == 3
    with pytest.raises(FoldError, match="seq 4: ruleset sandbox 1 failed on Said") as caught:
        await other.states.state_at(world_id, 5)
    assert caught.value.details["global_seq"] == 4
