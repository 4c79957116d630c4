"""The ruleset's word on posted drafts: judged by the state that they would really follow, whoever writes beside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
from worldledger_service.store import EventLog, Store

from worldledger.effects import EffectDraft
from worldledger.errors import FoldError, IllegalEffectError, SimulationError, TamperedError
from worldledger.genesis import NewWorld

from .helpers import assert_sound, draft, guards_down, holding_head, start, wait_for_waiters
from .states import moved, world_of_moves

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


def created(entity_id: str, **fields: Any) -> EffectDraft:
    """Make the creation of an entity, which is legal once."""
    made: dict[str, Any] = {
        "kind": "EntityCreated",
        "payload": {"entity_id": entity_id, "entity_data": {}},
        "source_id": "a",
        "schema_version": "1.0.0",
        **fields,
    }
    return made  # type: ignore[return-value]


def large(entity_id: str, size: int) -> EffectDraft:
    """Make the creation of an entity of so many bytes."""
    return created(entity_id, payload={"entity_id": entity_id, "entity_data": {"text": "z" * size}})


def removed(entity_id: str, **fields: Any) -> EffectDraft:
    """Make the removal of an entity, which is legal while it is there."""
    return created(entity_id, **{"kind": "EntityRemoved", "payload": {"entity_id": entity_id}, **fields})


async def refused(log: EventLog, *drafts: EffectDraft) -> IllegalEffectError:
    """Append what the ruleset refuses; return the refusal."""
    with pytest.raises(IllegalEffectError) as caught:
        await log.append_all(list(drafts))
    return caught.value


async def test_a_draft_is_judged_by_the_state_it_would_follow(store: Store, log: EventLog) -> None:
    """What an earlier effect has made possible or impossible decides; a refusal writes nothing."""
    assert (await refused(log, removed("x"))).details["rule"] == "unknown_entity"
    assert await log.append(created("x")) == 2
    assert (await refused(log, created("x"))).details["rule"] == "entity_exists"
    assert await log.append(removed("x")) == 3
    assert await log.append(created("x")) == 4
    assert len(await assert_sound(store, log.world_id)) == 3


async def test_the_drafts_of_a_unit_follow_each_other(store: Store, log: EventLog) -> None:
    """Within one call each draft is judged after those before it; one refusal refuses all, and names its index."""
    receipts = await log.append_all([created("x"), removed("x"), created("x"), moved(1)])
    assert [receipt.global_seq for receipt in receipts] == [2, 3, 4, 5]
    error = await refused(log, created("y"), created("z"), created("y"))
    assert (error.index, error.details["path"]) == (2, "$.payload.entity_id")
    assert await log.append(created("y")) == 6
    assert (await refused(log, created("y"))).details["rule"] == "entity_exists"
    assert len(await assert_sound(store, log.world_id)) == 5


async def test_of_many_at_once_one_is_right(store: Store, log: EventLog) -> None:
    """Of callers who all make the same entity at the same moment one succeeds and the others are refused."""
    results = await asyncio.gather(*(log.append(created(f"e{n % 3}")) for n in range(60)), return_exceptions=True)
    assert sorted(result for result in results if isinstance(result, int)) == [2, 3, 4]
    assert sum(isinstance(result, IllegalEffectError) for result in results) == 57
    assert len(await assert_sound(store, log.world_id)) == 3


async def test_two_processes_judge_by_one_log(store: Store, open_store: Opener, log: EventLog) -> None:
    """Two processes that race on one world see each other's effects before they decide."""
    others = [await (await open_store()).log(log.world_id) for _ in range(2)]
    results = await asyncio.gather(
        *(each.append(created(f"e{n}")) for n in range(20) for each in (log, *others)), return_exceptions=True
    )
    assert sum(isinstance(result, int) for result in results) == 20
    assert sum(isinstance(result, IllegalEffectError) for result in results) == 40
    for n in range(20):
        assert await others[n % 2].append(removed(f"e{n}")) == 22 + n
    assert len(await assert_sound(store, log.world_id)) == 40


async def test_a_request_that_was_accepted_is_not_judged_again(log: EventLog) -> None:
    """The same request again is answered with its first result, though by now it would be refused."""
    first = (await log.append_all([created("x", req_id="r1")]))[0]
    again = (await log.append_all([created("x", req_id="r1")]))[0]
    assert (again.global_seq, again.replayed) == (first.global_seq, True)
    both = await log.append_all([created("x", req_id="r1"), removed("x")])
    assert [(each.global_seq, each.replayed) for each in both] == [(2, True), (3, False)]


async def test_what_was_not_written_is_not_in_the_state(
    store: Store, database_url: str, admin: Connection, open_store: Opener, log: EventLog
) -> None:
    """Effects of a group that lost its race are forgotten: the state that judges holds what the log holds."""
    other = await (await open_store()).log(log.world_id)
    await log.append(created("x"))
    async with holding_head(database_url, log.world_id):
        work = [start(each.append(created("y"))) for each in (log, other)]
        work += [start(each.append(removed("x"))) for each in (other, log)]
        await wait_for_waiters(admin)
    results = await asyncio.gather(*work, return_exceptions=True)
    assert sorted(isinstance(result, int) for result in results) == [False, False, True, True]
    for entity, there in (("x", False), ("y", True)):
        assert (await refused(log, removed(entity) if not there else created(entity))).details["rule"] in {
            "unknown_entity",
            "entity_exists",
        }
    assert len(await assert_sound(store, log.world_id)) == 3


async def test_a_unit_refused_midway_spoils_no_other(
    store: Store, database_url: str, admin: Connection, open_store: Opener, log: EventLog
) -> None:
    """Units that wait together with one that is refused after its first drafts are judged as if it had not been."""
    other = await (await open_store()).log(log.world_id)
    await log.append(created("x"))
    async with holding_head(database_url, log.world_id):
        first = start(other.append(created("w")))
        await wait_for_waiters(admin)
        work: list[asyncio.Task[Any]] = [start(log.append_all([created("y"), created("z"), created("x")]))]
        work += [start(log.append(created(name))) for name in ("y", "z", "x")]
        work += [start(log.append_all([created("v"), removed("v"), removed("v")]))]
        work += [start(log.append(created("v")))]
        await wait_for_waiters(admin, 2)
    results = await asyncio.gather(first, *work, return_exceptions=True)
    expected = [int, IllegalEffectError, int, int, IllegalEffectError, IllegalEffectError, int]
    assert [type(result) for result in results] == expected
    assert len(await assert_sound(store, log.world_id)) == 5


async def test_only_drafts_that_need_the_state_wait_for_it(store: Store, log: EventLog) -> None:
    """A world in which nobody asks for the state keeps none in memory; malformed drafts are refused without it."""
    await log.append_all([moved(n) for n in range(20)])
    assert log.sealer.live is None
    error = await refused(log, moved(1, payload={"to": [1]}))
    assert error.details["path"].startswith("$.payload")
    assert log.sealer.live is None
    await log.append(created("x"))
    assert log.sealer.live is not None


async def _new_log(store: Store, world_id: str) -> EventLog:
    """Make a world with an entity ``x``."""
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    await log.append(created("x"))
    return log


async def test_live_states_are_bounded(open_store: Opener, world_id: str) -> None:
    """A process that writes to many worlds keeps the states of the latest ones only, and still judges rightly."""
    store = await open_store(live_states=3)
    logs = [await _new_log(store, f"{world_id}-{n}") for n in range(6)]
    assert [log.sealer.live is not None for log in logs] == [False, False, False, True, True, True]
    for log in logs:
        await refused(log, created("x"))
        await log.append(created("y"))


async def test_live_states_are_bounded_in_bytes(open_store: Opener, world_id: str) -> None:
    """A process that writes to worlds with large states keeps the latest ones, and the one that is written to."""
    store = await open_store(live_state_bytes=100_000)
    logs = []
    for n in range(6):
        logs.append(await _new_log(store, f"{world_id}-{n}"))
        await logs[-1].append(large("y", 40_000))
    assert [log.sealer.live is not None for log in logs] == [False, False, False, False, True, True]
    # All but the last are folded before they are written, so that the next one can be judged.
    await logs[5].append_all([large(f"z{n}", 10_000) for n in range(3)])
    assert [log.sealer.live is not None for log in logs] == [False, False, False, False, False, True]
    live = logs[5].sealer.live
    assert live is not None
    assert live.size >= len(live.fold.state.text())
    for log in logs:
        await refused(log, created("x"))
        await log.append(created("w"))


async def test_a_state_that_stays_small_is_counted_anew(open_store: Opener, world_id: str) -> None:
    """A world whose effects take each other's place is judged rightly, however much has been written to it."""
    store = await open_store(live_state_bytes=50_000)
    log, other = [await _new_log(store, f"{world_id}-{n}") for n in range(2)]
    for n in range(60):
        await log.append_all([large(f"y{n}", 3000), removed(f"y{n}")])
        await refused(log, created("x"))
        await refused(other, created("x"))
    await store.snapshot(log.world_id)
    for n in range(3):
        await log.append_all([large(f"y{n}", 3000), removed(f"y{n}")])
        await refused(log, created("x"))
        await refused(other, created("x"))
    assert log.sealer.live is not None
    assert log.sealer.live.size < 20_000


async def test_a_long_log_is_brought_from_its_snapshot(store: Store, world_id: str) -> None:
    """The first draft that needs the state of a long world is judged by snapshot and tail."""
    log = await world_of_moves(store, world_id, 400, every=50)
    await store.states.state_at(world_id, 401)
    assert (await refused(log, created("a3"))).details["rule"] == "entity_exists"
    assert await log.append(created("b3")) == 402


async def test_a_world_with_a_hole_takes_no_draft_that_needs_its_state(
    database_url: str, store: Store, world_id: str
) -> None:
    """Where the state cannot be made, who needs it is told of the damage; others are not kept waiting."""
    log = await world_of_moves(store, world_id, 30)
    async with guards_down(database_url) as admin:
        await admin.execute("delete from effects where world_id = $1 and global_seq = 9", world_id)
    results = await asyncio.gather(
        *(log.append(each) for each in (created("x"), moved(1), created("y"))), return_exceptions=True
    )
    assert [type(result) for result in results] == [TamperedError, int, TamperedError]


async def test_a_failing_ruleset_is_told_to_those_who_need_the_state(
    store: Store, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the ruleset's own while folding comes back to the caller, and the world goes on."""
    await log.append(created("x"))

    def fail(state: object, effect: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(log.sealer.ruleset), "handlers", {**log.sealer.ruleset.handlers, "Said": fail})
    log.sealer.live = None
    await log.append(draft(1))
    with pytest.raises(FoldError, match="failed on Said"):
        await log.append(created("y"))
    assert await log.append(draft(2)) == 4
    monkeypatch.undo()
    assert await log.append(created("y")) == 5
    assert len(await assert_sound(store, log.world_id)) == 4


async def test_refusals_and_writes_under_load(store: Store, open_store: Opener, log: EventLog) -> None:
    """Whatever three processes do to five entities at once, every effect in the log was legal where it stands."""
    logs = [log, *[await (await open_store()).log(log.world_id) for _ in range(2)]]

    async def client(n: int) -> None:
        for step in range(25):
            make = created if (n + step) % 2 else removed
            unit = [make(f"e{(n * 7 + step * 3) % 5}")]
            if step % 4 == 0:
                unit = [*unit, moved(n), created(f"own-{n}-{step}")]
            try:
                await logs[n % 3].append_all(unit)
            except SimulationError as error:
                assert isinstance(error, IllegalEffectError), error  # noqa: PT017

    await asyncio.gather(*(client(n) for n in range(9)))
    await assert_sound(store, log.world_id)
    there: set[str] = set()
    for entry in await log.get_entries_since(1):
        entity: Any = entry.effect["payload"].get("entity_id")
        if entry.effect["kind"] == "EntityCreated":
            assert entity not in there
            there.add(entity)
        elif entry.effect["kind"] == "EntityRemoved":
            there.remove(entity)
