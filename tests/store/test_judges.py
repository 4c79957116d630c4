"""Judges: whoever appends may look at the state that a draft would follow, and refuse its unit."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from worldledger_service.store import EventLog, Store, statements
from worldledger_service.store.units import Judge

from tests.waiting import wait_for
from worldledger.effects import EffectDraft
from worldledger.errors import IllegalEffectError, IntentRefusedError, ReservedKindError, SimulationError
from worldledger.world import WorldState

from .helpers import assert_sound, draft, holding_head, start, wait_for_waiters
from .test_deciding import created, removed

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


class RefusedError(SimulationError):
    """What the judges of these tests refuse with."""

    code = "refused_here"


class Seen:
    """A judge that notes what it is shown, and refuses where it is told to."""

    def __init__(self, refuse: Callable[[WorldState], bool] = lambda _: False) -> None:
        self.entities: list[list[str]] = []
        self.seqs: list[int] = []
        self._refuse = refuse

    def __call__(self, state: WorldState) -> None:
        """Look at the state."""
        self.entities.append(sorted(state.entities))
        self.seqs.append(state.metadata["last_effect_seq"])
        if self._refuse(state):
            raise RefusedError("no")


def has(*names: str) -> Callable[[WorldState], bool]:
    """Tell whether a state has one of these entities."""
    return lambda state: any(name in state.entities for name in names)


async def test_a_judge_sees_the_state_that_its_draft_would_follow(store: Store, log: EventLog) -> None:
    """What was written before, and what stands before it in its own unit; drafts without a judge are not judged."""
    judges = [Seen(), Seen()]
    await log.append(created("x"))
    drafts = [created("y"), draft(1), created("z"), draft(2)]
    receipts = await log.append_judged(drafts, {1: judges[0], 3: judges[1]})
    assert [receipt.global_seq for receipt in receipts] == [3, 4, 5, 6]
    assert judges[0].entities[-1] == ["x", "y"]
    assert judges[1].entities[-1] == ["x", "y", "z"]
    assert (judges[0].seqs[-1], judges[1].seqs[-1]) == (3, 5)
    await assert_sound(store, log.world_id, receipts)


async def test_what_a_judge_raises_refuses_the_whole_unit(store: Store, log: EventLog) -> None:
    """Nothing of it is written, and the caller gets that very error; the world goes on."""
    await log.append(created("x"))
    for where in (0, 1, 2):
        with pytest.raises(RefusedError):
            await log.append_judged([created("y"), draft(1), created("z")], {where: Seen(has("x"))})
    with pytest.raises(IllegalEffectError):  # the judge comes before the ruleset, which has its word too
        await log.append_judged([created("x")], {0: Seen()})
    with pytest.raises(RefusedError):
        await log.append_judged([created("x")], {0: Seen(has("x"))})
    with pytest.raises(ReservedKindError):
        await log.append_judged([draft(1, kind="AgentRegistered")], {0: Seen()})
    assert [receipt.global_seq for receipt in await log.append_judged([draft(2)], {0: Seen(has("y", "z"))})] == [3]
    assert await assert_sound(store, log.world_id) == [None, 2]


async def test_a_request_that_was_accepted_is_not_judged_again(log: EventLog, open_store: Opener) -> None:
    """Whatever its judge would say by now, in this process and another; a new one beside it in the unit is judged."""
    judge = Seen()
    (first,) = await log.append_judged([draft(1, req_id="r")], {0: judge})
    other = await (await open_store()).log(log.world_id)
    for each in (log, other):
        no = Seen(lambda _: True)
        (again,) = await each.append_judged([draft(1, req_id="r")], {0: no})
        assert (again, again.replayed) == (first._replace(replayed=True), True)
        fresh = Seen()
        both = await each.append_judged([draft(1, req_id="r"), draft(2)], {0: Seen(lambda _: True), 1: fresh})
        assert [receipt.replayed for receipt in both] == [True, False]
        assert fresh.seqs[-1] == both[1].global_seq - 1
        with pytest.raises(RefusedError):
            await each.append_judged([draft(1, req_id="r"), draft(2)], {1: no})


async def test_a_refusal_does_not_use_a_request_up(log: EventLog) -> None:
    """The req_id of a unit that was refused may come again, with another body."""
    with pytest.raises(RefusedError):
        await log.append_judged([draft(1, req_id="r")], {0: Seen(lambda _: True)})
    (receipt,) = await log.append_judged([draft(2, req_id="r")], {0: Seen()})
    assert (receipt.global_seq, receipt.replayed) == (2, False)


async def test_of_many_at_once_each_is_judged_after_the_one_before(store: Store, log: EventLog) -> None:
    """Whoever wants to be the first is, once; the others are shown what the first has left behind."""
    judges = [Seen(has("x")) for _ in range(40)]
    results = await asyncio.gather(
        *(log.append_judged([created("x")], {0: judge}) for judge in judges), return_exceptions=True
    )
    assert sum(isinstance(result, list) for result in results) == 1
    assert sum(isinstance(result, RefusedError) for result in results) == 39
    assert len(await assert_sound(store, log.world_id)) == 1


async def test_two_processes_are_judged_by_one_log(store: Store, open_store: Opener, log: EventLog) -> None:
    """What another process has written a moment ago counts."""
    logs = [log, *[await (await open_store()).log(log.world_id) for _ in range(2)]]

    def only_once(name: str) -> Judge:
        return Seen(has(name))

    results = await asyncio.gather(
        *(each.append_judged([created(f"e{n}")], {0: only_once(f"e{n}")}) for n in range(15) for each in logs),
        return_exceptions=True,
    )
    assert sum(isinstance(result, list) for result in results) == 15
    assert sum(isinstance(result, RefusedError) for result in results) == 30
    assert len(await assert_sound(store, log.world_id)) == 15


async def test_refusals_are_decided_under_the_lock(
    database_url: str, admin: Connection, store: Store, open_store: Opener, log: EventLog
) -> None:
    """A draft that is wrong by an old state, and right by the present one, is written; and the other way round."""
    other = await (await open_store()).log(log.world_id)
    await log.append(created("x"))
    await log.append_judged([draft(0)], {0: Seen()})  # it knows the state by now
    async with holding_head(database_url, log.world_id):
        changing = start(other.append_all([removed("x"), created("y")]))
        await wait_for_waiters(admin)
        refused_before = start(log.append_judged([draft(1)], {0: Seen(has("x"))}))
        right_before = start(log.append_judged([draft(2)], {0: Seen(has("y"))}))
        await wait_for_waiters(admin, 2)
    await changing
    assert (await refused_before)[0].global_seq == 6
    with pytest.raises(RefusedError):
        await right_before
    assert await assert_sound(store, log.world_id) == [None, 0, None, None, 1]


async def test_a_judge_that_fails_fails_for_its_own_unit(store: Store, log: EventLog) -> None:
    """What is no SimulationError goes to its caller too, and to nobody else in the same group."""

    def fail(_: WorldState) -> None:
        raise ZeroDivisionError

    judges: list[Judge] = [Seen(), fail, Seen(), fail, Seen()]
    results: list[Any] = await asyncio.gather(
        *(log.append_judged([draft(n)], {0: judge}) for n, judge in enumerate(judges)),
        log.append(draft(5)),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [list, ZeroDivisionError, list, ZeroDivisionError, list, int]
    assert sorted(await assert_sound(store, log.world_id)) == [0, 2, 4, 5]


async def test_a_caller_that_has_gone_is_not_judged(database_url: str, store: Store, log: EventLog) -> None:
    """Nothing of it is written, if it goes while another process holds the world; the others are judged without it."""
    await log.append_judged([draft(0)], {0: Seen()})
    late = Seen()
    async with holding_head(database_url, log.world_id):
        first = start(log.append_judged([draft(1)], {0: Seen()}))
        await wait_for(lambda: log._queue.busy, "the first is being written")
        gone = start(log.append_judged([draft(2)], {0: late}))
        stays = start(log.append_judged([draft(3)], {0: Seen()}))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
    await asyncio.gather(first, stays)
    assert gone.cancelled()
    assert late.seqs == []
    assert sorted(await assert_sound(store, log.world_id)) == [0, 1, 3]


# -- recall ------------------------------------------------------------------------------------------------


async def test_recalling_a_request(log: EventLog, open_store: Opener) -> None:
    """The first receipt of a draft that was accepted, and nothing of one that was not; another body is a conflict."""
    (receipt,) = await log.append_all([draft(1, req_id="r")])
    other = await (await open_store()).log(log.world_id)
    for each in (log, other):
        assert await each.recall(draft(1, req_id="r")) == receipt._replace(replayed=True)
        assert await each.recall(draft(1, req_id="s")) is None
        assert await each.recall(draft(1, req_id="r", source_id="a2")) is None
        assert await each.recall(draft(1)) is None
        for another in (draft(2, req_id="r"), draft(1, req_id="r", priority=1), draft(1, req_id="r", kind="Sung")):
            with pytest.raises(SimulationError, match="another body"):
                await each.recall(another)
    drafts: list[EffectDraft] = [draft(3), draft(4)]
    await log.append_request(drafts, source_id="a1", req_id="both")
    with pytest.raises(SimulationError, match="another body"):
        await log.recall(draft(3, req_id="both"))


async def test_refusals_of_intents_pass_through(log: EventLog) -> None:
    """An error with a constructor of its own comes out as the very object that was raised."""
    error = IntentRefusedError({"req_id": "r", "agent_id": "a", "kind": "Speak"})

    def refuse(_: WorldState) -> None:
        raise error

    with pytest.raises(IntentRefusedError) as caught:
        await log.append_judged([draft(1)], {0: refuse})
    assert caught.value is error


async def test_nobody_is_refused_for_what_is_not_committed(
    open_store: Opener, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal that rests on another effect of its group is told after the commit, and judged anew if that fails."""
    other = await open_store()
    late = await other.log(log.world_id)
    await late.append(created("e"))
    await log.append(draft(0))  # the other store does not know of it, so what it has next is settled under the lock
    real, tries = statements.write_groups, itertools.count()

    async def fails_once(connection: Any, groups: Any) -> Any:
        if next(tries) == 0:
            assert not refusal.done()
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        written = await real(connection, groups)
        await asyncio.sleep(0.05)
        assert not refusal.done()
        return written

    monkeypatch.setattr("worldledger_service.store.settle.write_groups", fails_once)
    removal = start(late.append({**removed("e"), "priority": 5}))
    refusal = start(late.append(removed("e")))
    await asyncio.wait([removal, refusal])
    assert next(tries) == 2
    assert isinstance(refusal.exception(), IllegalEffectError)
    assert removal.result() == 4
    assert await assert_sound(other, log.world_id)
