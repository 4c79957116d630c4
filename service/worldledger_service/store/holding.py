"""Holding: intents of worlds ordered by ticks are kept durably until a tick decides them.

Concurrent intents for one world in this process are held in one transaction, under the lock of the open tick. So the
tick that an intent belongs to, and its place among the agent's own, are the same for all processes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias
from uuid import NAMESPACE_OID, UUID, uuid5

import orjson

from worldledger.canonical import MAX_INT, canonical_json
from worldledger.effects import EffectDraft
from worldledger.errors import (
    BackpressureError,
    InvalidIntentError,
    OverloadedError,
    SimTimeOrderError,
    SimulationError,
)
from worldledger.time_authority import TIME_SET_KIND
from worldledger_service.database.engine import transaction
from worldledger_service.database.failures import explain
from worldledger_service.store import statements
from worldledger_service.store.outages import Outages, retrying
from worldledger_service.store.records import Receipt
from worldledger_service.store.sealing import Group, Sealer
from worldledger_service.store.units import Judge, Unit, conflict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import asyncpg

    from worldledger.drafts import CheckedDraft
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.settings import Settings
    from worldledger_service.store.records import Head


#: Most intents that are held in one statement.
_INTENTS_AT_ONCE: Final = 1000

#: The agent, and the intent's req_id.
Key: TypeAlias = tuple[str, str]


class OpenTick(NamedTuple):
    """The tick for which a world holds intents now.

    ``after_seq`` is the global_seq of the effect that closed the one before, ``sim_time`` and ``source_id`` are that
    effect's; 0 and None before the first.
    """

    number: int
    after_seq: int
    sim_time: float | None
    source_id: str | None

    @property
    def is_possible(self) -> bool:
        """Whether its numbers are such as a log may have; others were written by no program of this project."""
        in_range = 1 <= self.number <= MAX_INT and 0 <= self.after_seq <= MAX_INT
        return in_range and (self.sim_time is None or isfinite(self.sim_time))


class Wanted(NamedTuple):
    """An intent to be held.

    ``place``: its order field, or None for its count within the tick. ``intent`` is canonical text, ``body_sha256`` the
    digest of its draft, by which requests of the log are compared too. ``tick`` is the open tick as its caller knows
    it: if another is open, the intent is not held. ``context_seq`` is the one that the request names; the intent's own
    is that of the view that it was actually made from. ``refused``: the error with which a request is refused, as of
    the tick before, unless its outcome is known already.
    """

    agent_id: str
    req_id: str
    place: int | None
    intent: str
    body_sha256: bytes
    context_seq: int | None
    tick: int
    list_id: UUID | None = None
    list_index: int | None = None
    list_atomic: bool = False
    list_ordered: bool = False
    refused: SimulationError | None = None

    @property
    def key(self) -> Key:
        """The agent, and the intent's req_id."""
        return (self.agent_id, self.req_id)


class HeldIntent(NamedTuple):
    """A held intent as the closing of the tick reads it."""

    agent_id: str
    req_id: str
    tick: int
    place: int
    intent: str
    list_id: UUID | None
    list_index: int | None
    list_atomic: bool
    list_ordered: bool

    @property
    def key(self) -> Key:
        """The agent, and the intent's req_id."""
        return (self.agent_id, self.req_id)


def whole(members: Iterable[Wanted | HeldIntent], places: Iterable[int]) -> UUID:
    """Return the id of an atomic list, made from its members and their places in the tick.

    So a tick notices that a member was changed, or is gone. The ids of other lists are of version 4, this one of 5.
    """
    parts = [
        (each.agent_id, each.req_id, place, each.intent, each.list_index, each.list_ordered)
        for each, place in zip(members, places, strict=True)
    ]
    return uuid5(NAMESPACE_OID, orjson.dumps(sorted(parts)).decode())


class HeldAt(NamedTuple):
    """An intent is held for this tick; ``again``: it was held already."""

    tick: int
    place: int
    again: bool = False


class RefusedAt(NamedTuple):
    """An intent was refused by this tick; ``outcome`` is what was recorded of that."""

    tick: int
    outcome: Mapping[str, Any]


def _refused(row: asyncpg.Record) -> RefusedAt:
    """Read a refusal. One that was overwritten by others is a refusal all the same."""
    with suppress(ValueError):
        said = orjson.loads(row["outcome"])
        types = {"code": str, "message": str, "details": dict}
        if isinstance(said, dict) and all(isinstance(said.get(name), type_) for name, type_ in types.items()):
            return RefusedAt(row["tick"], said)
    what = f"tick {row['tick']} refused this intent; the reason cannot be read any more"
    return RefusedAt(row["tick"], {"code": InvalidIntentError.code, "message": what, "details": {}})


class OtherTick(NamedTuple):
    """Nothing is held: another tick is open."""

    open: OpenTick


#: The outcome for an intent to be held; a Receipt is that of the effect that it has become.
Answer: TypeAlias = HeldAt | RefusedAt | Receipt | OtherTick | SimulationError


class Limits(NamedTuple):
    """The numbers of intents that a world and each of its agents may have held."""

    most: int
    most_per_agent: int


@dataclass(slots=True)
class _Call:
    """The intents of one call; ``atomic``: all of them or none."""

    wanted: Sequence[Wanted]
    limits: Limits
    atomic: bool
    future: asyncio.Future[list[Answer]]


async def lock_tick(connection: PooledConnection, world_id: str) -> OpenTick:
    """Take the lock of a world's open tick on a connection, until the end of its transaction."""
    row = await connection.fetchrow(statements.LOCK_TICK, world_id)
    if row is None:
        await connection.execute(statements.OPEN_FIRST_TICK, world_id, *await _open(connection, world_id))
        row = await connection.fetchrow(statements.LOCK_TICK, world_id)
        assert row is not None  # noqa: S101 - it was put there just before, or was there already
    tick = OpenTick(*row)
    if not tick.is_possible:
        tick = await _open(connection, world_id)
        await connection.execute(statements.OPEN_NEXT_TICK, world_id, *tick)
    return tick


async def _open(connection: PooledConnection, world_id: str) -> OpenTick:
    return await next_tick(connection, world_id) or OpenTick(1, 0, None, None)


async def lock_tick_to_close(connection: PooledConnection, world_id: str) -> OpenTick:
    """Take the lock as `lock_tick` does, and return what the log says where the row says something else."""
    tick = await lock_tick(connection, world_id)
    return await next_tick(connection, world_id) or tick


async def next_tick(connection: PooledConnection, world_id: str, until_seq: int = MAX_INT) -> OpenTick | None:
    """Return the tick after the last one that was closed up to a seq, None if none was."""
    last = await connection.fetchrow(statements.LAST_TICK, world_id, TIME_SET_KIND, until_seq)
    if last is None or not last["tick"].isdecimal() or len(last["tick"]) > 16:
        return None
    return OpenTick(int(last["tick"]) + 1, last["global_seq"], last["sim_time"], last["source_id"])


class Holding:
    """Holds intents of all worlds of this process; `hold` queues some."""

    def __init__(self, pool: asyncpg.Pool, settings: Settings, url: str, outages: Outages) -> None:
        self._pool = pool
        self._settings = settings
        self._url = url
        self._outages = outages
        self._waiting: dict[str, deque[_Call]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def hold(
        self, world_id: str, wanted: Sequence[Wanted], limits: Limits, *, atomic: bool = False
    ) -> list[Answer]:
        """Hold intents until the next tick, durably; return the outcome of each.

        A request that is held or was accepted already is not held again. Of an ``atomic`` list none is held if one
        cannot be. Raises StoreUnavailableError; holding the same again is harmless.
        """
        call = _Call(wanted, limits, atomic, asyncio.get_running_loop().create_future())
        line = self._waiting.get(world_id)
        if line is None:
            self._waiting[world_id] = deque([call])
            task = asyncio.get_running_loop().create_task(self._work(world_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            line.append(call)
        return await call.future

    async def open_tick(self, world_id: str) -> OpenTick:
        """Return the tick that is open now. Raises StoreUnavailableError."""
        async for attempt in retrying(self._settings.append_deadline):
            with attempt, self._outages.noticed():
                async with self._pool.acquire() as connection, transaction(connection):
                    return await lock_tick(connection, world_id)
        raise AssertionError("an attempt returns or raises")

    async def known(self, world_id: str, keys: Sequence[Key]) -> dict[Key, HeldAt | RefusedAt | Receipt]:
        """Return what is known of intents that were held; unknown and forgotten ones are left out."""
        async with self._pool.acquire() as connection:
            found = await self._look(connection, world_id, keys)
            told: dict[Key, HeldAt | RefusedAt | Receipt] = {}
            for key, row in found.items():
                if row["first_seq"] is not None:
                    told[key] = await _receipt(connection, world_id, row)
                elif row["outcome"] is not None:
                    told[key] = _refused(row)
                else:
                    told[key] = HeldAt(row["tick"], row["place"], again=True)
            return told

    async def renumber(self, world_id: str) -> None:
        """Go on with the tick after the last one that the log has, where ticks were not closed by this."""
        async with self._pool.acquire() as connection:
            tick = await next_tick(connection, world_id)
            if tick is not None:
                await connection.execute(statements.OPEN_NEXT_TICK, world_id, *tick)

    async def close(self) -> None:
        """Hold the waiting intents."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    # -- the queue -----------------------------------------------------------------------------------------

    async def _work(self, world_id: str) -> None:
        """Hold the waiting intents of one world until there are none."""
        line = self._waiting[world_id]
        try:
            while line:
                calls: list[_Call] = []
                count = 0
                while line and (not calls or count + len(line[0].wanted) <= _INTENTS_AT_ONCE):
                    count += len(line[0].wanted)
                    calls.append(line.popleft())
                await self._hold(world_id, [call for call in calls if not call.future.done()])
        finally:
            del self._waiting[world_id]

    async def _hold(self, world_id: str, calls: Sequence[_Call]) -> None:
        try:
            async for attempt in retrying(self._settings.append_deadline):
                with attempt, self._outages.noticed(), self._outages.watchdog.asked():
                    async with self._pool.acquire() as connection:
                        round_ = _Round(world_id, calls, self._settings.max_waiting_bytes)
                        async with transaction(connection):
                            await round_.run(connection)
        except Exception as error:  # noqa: BLE001 - every caller must be told, whatever it was
            explained = explain(error, self._url)
            for call in calls:
                if not call.future.done():
                    call.future.set_exception(explained)
            return
        for call, answers in zip(calls, round_.answers, strict=True):
            if not call.future.done():
                call.future.set_result(answers)

    @staticmethod
    async def _look(connection: PooledConnection, world_id: str, keys: Sequence[Key]) -> dict[Key, asyncpg.Record]:
        agents, requests = [agent_id for agent_id, _ in keys], [req_id for _, req_id in keys]
        rows = await connection.fetch(statements.HELD_OR_KNOWN, world_id, agents, requests)
        return {(row["agent_id"], row["req_id"]): row for row in rows}


class _Round:
    """One transaction that holds intents, under the lock of the open tick."""

    def __init__(self, world_id: str, calls: Sequence[_Call], most_bytes: int) -> None:
        self._world_id = world_id
        self._calls = calls
        self._most_bytes = most_bytes
        self._new: dict[Key, tuple[Wanted, int]] = {}
        self._held: dict[str | None, int] = {}
        self._counted: dict[str, int] = {}
        self._bytes = 0
        self.answers: list[list[Answer]] = []

    async def run(self, connection: PooledConnection) -> None:
        open_tick = await lock_tick(connection, self._world_id)
        keys = list({wanted.key: None for call in self._calls for wanted in call.wanted})
        found = await Holding._look(connection, self._world_id, keys)  # noqa: SLF001 - the same file's
        agents = list({agent_id for agent_id, _ in keys})
        for row in await connection.fetch(statements.HELD_NOW, self._world_id, agents):
            self._held[row["agent_id"]] = row["held"]
            if row["agent_id"] is None:
                self._bytes = row["bytes"]
            else:
                self._counted[row["agent_id"]] = row["counted_to"]
        for call in self._calls:
            self.answers.append(await self._take(connection, call, open_tick, found))
        if self._new:
            rows = [
                (*wanted.key, place, wanted.place is None, *wanted[3:6], *wanted[7:11])
                for wanted, place in self._new.values()
            ]
            columns = list(zip(*rows, strict=True))
            await connection.execute(statements.HOLD, self._world_id, open_tick.number, *columns)

    async def _take(
        self, connection: PooledConnection, call: _Call, open_tick: OpenTick, found: Mapping[Key, asyncpg.Record]
    ) -> list[Answer]:
        """Decide on one call; if it is atomic and one of its intents cannot be held, its others are removed again."""
        mark = (dict(self._new), dict(self._held), dict(self._counted), self._bytes) if call.atomic else None
        answers = [
            await self._one(connection, wanted, open_tick, found.get(wanted.key), call.limits) for wanted in call.wanted
        ]
        if mark is not None and any(isinstance(each, SimulationError | OtherTick) for each in answers):
            self._new, self._held, self._counted, self._bytes = mark
        elif mark is not None:
            self._bind([key for key in self._new if key not in mark[0]])
        return answers

    def _bind(self, keys: Sequence[Key]) -> None:
        """Give the new members of an atomic list their id; others of it are in the log, or were held before."""
        members, places = [self._new[key][0] for key in keys], [self._new[key][1] for key in keys]
        if members and members[0].list_id is not None:
            list_id = whole(members, places)
            for key, member, place in zip(keys, members, places, strict=True):
                self._new[key] = member._replace(list_id=list_id), place

    async def _one(
        self,
        connection: PooledConnection,
        wanted: Wanted,
        open_tick: OpenTick,
        row: asyncpg.Record | None,
        limits: Limits,
    ) -> Answer:
        if row is not None and row["first_seq"] is not None:
            if row["known_sha256"] != wanted.body_sha256 or row["first_seq"] != row["last_seq"]:
                return conflict(wanted.req_id, global_seq=row["first_seq"])
            return await _receipt(connection, self._world_id, row)
        if wanted.key in self._new:
            first, place = self._new[wanted.key]
            if first.body_sha256 != wanted.body_sha256:
                return conflict(wanted.req_id)
            return HeldAt(open_tick.number, place, again=True)
        if row is not None:
            same = row["body_sha256"] == wanted.body_sha256
            if row["outcome"] is None:
                return HeldAt(row["tick"], row["place"], again=True) if same else conflict(wanted.req_id)
            if same and _same_context(row, wanted):
                return _refused(row)
        if wanted.tick != open_tick.number:
            return OtherTick(open_tick)
        if wanted.refused is not None:
            return wanted.refused
        agent_id = wanted.agent_id
        if self._held.get(None, 0) >= limits.most or self._held.get(agent_id, 0) >= limits.most_per_agent:
            return BackpressureError(agent_id, "drop_newest")
        size = len(wanted.intent.encode())
        if self._bytes + size > self._most_bytes:
            return OverloadedError(f"{self._bytes} bytes of intents are held for the next tick")
        if wanted.place is None:
            self._counted[agent_id] = self._counted.get(agent_id, 0) + 1
        place = self._counted[agent_id] if wanted.place is None else wanted.place
        self._held[agent_id] = self._held.get(agent_id, 0) + 1
        self._held[None] = self._held.get(None, 0) + 1
        self._bytes += size
        self._new[wanted.key] = (wanted, place)
        return HeldAt(open_tick.number, place)


def _same_context(row: asyncpg.Record, wanted: Wanted) -> bool:
    """Return whether a refused request is repeated from the context with which it was refused.

    The contexts that the requests name are compared, not the views that these meant at the time. A request without one
    differs if it ends a generation that began from another view.
    """
    if row["context_seq"] is not None or wanted.context_seq is not None:
        return bool(row["context_seq"] == wanted.context_seq)
    made_from = orjson.loads(wanted.intent)["context_seq"]
    return made_from is None or bool(made_from == row["made_from"])


async def _receipt(connection: PooledConnection, world_id: str, row: asyncpg.Record) -> Receipt:
    first = row["first_seq"]
    effect = await connection.fetchrow(statements.EFFECTS_BETWEEN, world_id, first, first)
    assert effect is not None  # noqa: S101 - a request is written together with its effects
    return Receipt(first, effect["uuid"], effect["checksum"].hex(), replayed=True)


# -- closing ticks: everything that is held for a tick is decided in one transaction under the head's lock
#
# First the accepted intents become effects in the order of the plan, then the recorded refusals are written, then the
# effect of the tick itself. The caller provides the plan and the judges; everything is decided by what is held and by
# the state that each effect follows.


#: Most intents that are judged before the event loop runs other tasks.
_DECIDED_AT_ONCE: Final = 100
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
        some, todo = todo[:_DECIDED_AT_ONCE], todo[_DECIDED_AT_ONCE:]
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
