"""Closing ticks: everything that is held for a tick is decided in one transaction under the head's lock.

First the accepted intents become effects in the order of the plan, then the recorded refusals are written, then the
effect of the tick itself. The caller provides the plan and the judges; everything is decided by what is held and by the
state that each effect follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import orjson

from worldledger.canonical import canonical_json
from worldledger.effects import EffectDraft
from worldledger.errors import SimTimeOrderError, SimulationError
from worldledger_service.store import statements
from worldledger_service.store.holding import HeldIntent, Key, OpenTick
from worldledger_service.store.records import Receipt
from worldledger_service.store.sealing import Group, Sealer
from worldledger_service.store.units import Judge, Unit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from worldledger.drafts import CheckedDraft
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.store.records import Head

#: Most intents that are judged before the event loop runs other tasks.
_INTENTS_AT_ONCE: Final = 100
#: Number of ticks after its own for which a refusal is kept.
_TOLD: Final = 2


class TickReceipt(NamedTuple):
    """The result of a closed tick: its effect as in a Receipt, its number, and the numbers of decided intents."""

    global_seq: int
    uuid: str
    checksum: str
    replayed: bool
    tick: int
    accepted: int
    refused: int


class Planned(NamedTuple):
    """Intents that are decided together: one, or the members of a list that is accepted or refused as a whole.

    ``judges``: the judge of each draft, by its index. If ``refused`` is set, they are refused without being judged.
    """

    held: Sequence[HeldIntent]
    drafts: Sequence[CheckedDraft]
    judges: Mapping[int, Judge]
    refused: SimulationError | None = None


class Closing(Protocol):
    """Decides how a tick is closed: the order of held intents, their judges, and the records of refusals."""

    def begin(self) -> None:
        """Note that the tick is being closed: deadlines begin. It is called again if the transaction is retried."""
        ...

    def plan(self, held: Sequence[HeldIntent], tick: OpenTick) -> Sequence[Planned]:
        """Return everything that is held, in the order in which it is to be decided. It must be pure."""
        ...

    def rejection(self, held: HeldIntent, error: SimulationError) -> EffectDraft | None:
        """Return the effect that records a refusal in the log, if one does."""
        ...

    def outcome(self, error: SimulationError) -> dict[str, Any]:
        """Return a refusal as a JSON object, for later requests."""
        ...


class Close:
    """One closing of a tick on its way through the committer: the plan, and the report once it is done."""

    __slots__ = ("accepted", "closing", "refused", "tick")

    def __init__(self, closing: Closing) -> None:
        self.closing = closing
        self.tick = 0
        self.accepted = 0
        self.refused = 0

    def receipt(self, of: Receipt) -> TickReceipt:
        """Return the result for the caller that closed the tick."""
        return TickReceipt(*of, tick=self.tick, accepted=self.accepted, refused=self.refused)


async def close_tick(
    connection: PooledConnection,
    sealer: Sealer,
    unit: Unit,
    tick: OpenTick,
    head: Head,
    group: Group,
    *,
    resolve: Callable[[Sequence[Unit]], Awaitable[None]],
    bring: Callable[[], Awaitable[None]],
) -> None:
    """Add everything that a tick writes to the group; the unit of the tick comes last.

    ``resolve`` gives units with repeated requests their earlier receipts, ``bring`` loads the state at the head. Raises
    the error with which the tick itself is refused, with the group as before: the held intents stay.
    """
    assert unit.close is not None  # noqa: S101 - it is the unit of a tick
    close, closing = unit.close, unit.close.closing
    close.tick, close.accepted, close.refused = tick.number, 0, 0
    unit.drafts = [_numbered(unit, tick)]
    _check(sealer, unit, tick, group)
    closing.begin()
    held = [HeldIntent(*row) for row in await connection.fetch(statements.HELD, sealer.world_id)]
    refused: list[tuple[HeldIntent, SimulationError, bool]] = []
    units: list[tuple[Unit, Planned]] = []
    for planned in closing.plan(held, tick):
        if planned.refused is not None:
            _refuse(planned, planned.refused, refused)
            continue
        made = Unit.of(planned.drafts, limit=len(planned.drafts))
        made.judges = planned.judges
        units.append((made, planned))
    await resolve([made for made, _ in units])
    await _decide(sealer, head, group, [made for made, _ in units if made.refusal is None], bring)
    for made, planned in units:
        if made.refusal is None:
            close.accepted += len(planned.held)
        else:
            _refuse(planned, made.refusal, refused)
    close.refused = len(refused)
    told = [closing.rejection(each, error) for each, error, named in refused if named]
    rejections = [Unit.of([draft], limit=1, system=True) for draft in told if draft is not None]
    await resolve(rejections)
    sealer.seal(head, [each for each in rejections if each.refusal is None], final=True, onto=group)
    _, _, failed = sealer.seal(head, [unit], final=True, onto=group)
    if failed:
        assert unit.refusal is not None  # noqa: S101 - the head is locked
        raise unit.refusal
    await _clear(
        connection, sealer.world_id, tick, group, unit, [(each.key, closing.outcome(e)) for each, e, _ in refused]
    )


def _numbered(unit: Unit, tick: OpenTick) -> Any:
    """Return the draft of the tick's effect with its number."""
    (draft,) = unit.drafts
    return draft.rewritten(canonical_json({**orjson.loads(draft.payload), "tick": tick.number}))


def _check(sealer: Sealer, unit: Unit, tick: OpenTick, group: Group) -> None:
    """Raise the reason for refusing the tick, before anything is judged: authority, order of time.

    If two calls close a tick at once with the same time, the second is refused: no tick is closed twice.
    """
    (draft,) = unit.drafts
    _, _, sim_time, wall_time = group.after
    if draft.sim_time is None:
        sealer.check_closing(draft, group.authority)
    _, _, at = sealer.effect(
        draft, group.after.seq + 1, sim_time=sim_time, wall_time=wall_time, authority=group.authority
    )
    if draft.sim_time is None or tick.sim_time is None or draft.source_id != tick.source_id:
        return
    if at <= tick.sim_time:
        raise SimTimeOrderError(
            f"world {sealer.world_id}: the tick before was at sim_time {tick.sim_time}, and this one is not later "
            f"({at})",
            world_id=sealer.world_id,
            expected_min=(group.authority or sealer.authority).own_time(tick.sim_time),
            sim_time=draft.sim_time,
            path="$.sim_time",
        )


async def _decide(
    sealer: Sealer, head: Head, group: Group, units: Sequence[Unit], bring: Callable[[], Awaitable[None]]
) -> None:
    """Seal the units in their order, each judged by the state that those before it have made."""
    todo = list(units)
    while todo:
        some, todo = todo[:_INTENTS_AT_ONCE], todo[_INTENTS_AT_ONCE:]
        while some:
            if sealer.live is None:  # a list was refused midway: its folded effects are dropped
                await bring()
            _, some, _ = sealer.seal(head, some, final=True, onto=group)
        await asyncio.sleep(0)


def _refuse(planned: Planned, error: Exception, refused: list[tuple[HeldIntent, SimulationError, bool]]) -> None:
    """Record a refusal for each of its intents; the log gets the one that it is about."""
    if not isinstance(error, SimulationError):
        error = SimulationError(f"it could not be decided ({type(error).__name__}: {error})")
    index = error.details.get("index", 0)
    refused += [(each, error, at == index) for at, each in enumerate(planned.held)]


async def _clear(
    connection: PooledConnection,
    world_id: str,
    tick: OpenTick,
    group: Group,
    unit: Unit,
    told: Sequence[tuple[Key, Any]],
) -> None:
    if told:
        agents, requests = [key[0] for key, _ in told], [key[1] for key, _ in told]
        outcomes = [orjson.dumps(outcome, default=str).decode() for _, outcome in told]
        await connection.execute(statements.REFUSE_HELD, world_id, agents, requests, outcomes)
    await connection.execute(statements.CLEAR_HELD, world_id, tick.number - _TOLD)
    following = OpenTick(tick.number + 1, group.after.seq, group.after.sim_time, unit.drafts[0].source_id)
    await connection.execute(statements.OPEN_NEXT_TICK, world_id, *following)
