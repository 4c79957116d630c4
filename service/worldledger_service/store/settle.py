"""Settling: the careful way to write units, under the lock of the world's head.

It is used if the fast statement wrote nothing, because another process was first or a request was repeated, and if its
outcome is unknown, because the connection was lost before the answer. Under the lock nothing can change, so each of
these is decided finally:

- a write with an unknown outcome is either in the log, with our checksum at our last seq, or it never will be: once
  this transaction moves the head, the lost conditional statement can no longer apply;
- a repeated request gets its first receipts;
- the rest is sealed after the present head and written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg

from worldledger.errors import (
    FoldError,
    RequestConflictError,
    SimulationError,
    StoreUnavailableError,
    TamperedError,
)
from worldledger_service.database.engine import transaction
from worldledger_service.database.failures import explain
from worldledger_service.store import statements
from worldledger_service.store.authority import authority_at, look_up_authority
from worldledger_service.store.holding import OpenTick, close_tick, lock_tick_to_close
from worldledger_service.store.outages import Outages, leaves_doubt, retrying
from worldledger_service.store.records import Head, Receipt
from worldledger_service.store.sealing import Group, Sealer
from worldledger_service.store.statements import write_groups
from worldledger_service.store.tampering import beyond_the_head
from worldledger_service.store.units import Unit, conflict

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.settings import Settings
    from worldledger_service.store.states import States


class Settler:
    """Writes units of one world under its lock, retrying until the deadline while the database is away."""

    def __init__(self, pool: asyncpg.Pool, settings: Settings, url: str, outages: Outages, states: States) -> None:
        self._pool = pool
        self._url = url
        self._settings = settings
        self._outages = outages
        self._states = states

    async def settle(self, sealer: Sealer, units: Sequence[Unit], in_doubt: Group | None) -> Head | None:
        """Write the units and answer each of them, with success or an error; it raises nothing of its own.

        Returns the head afterwards, or None if it is unknown.
        """
        waiting = list(units)
        # Every group that was sent without an answer; each is kept until the head has moved past it.
        doubts = [] if in_doubt is None else [in_doubt]
        deadline = self._settings.append_deadline
        head: Head | None = None
        try:
            async for attempt in retrying(deadline):
                with attempt, self._outages.noticed():
                    while waiting:
                        if _needs_state(sealer, waiting):
                            with suppress(TamperedError, FoldError):  # reported under the lock, to their callers
                                await self._states.warm(sealer)
                        with self._outages.watchdog.asked():
                            async with self._pool.acquire(timeout=deadline) as connection:
                                locked = _Attempt(connection, sealer, waiting, doubts, self._states)
                                try:
                                    await locked.run()
                                except BaseException as error:
                                    # If the commit's answer was lost, this is what may or may not have been written.
                                    if locked.group is not None and leaves_doubt(error):
                                        doubts.append(locked.group)
                                    raise
                        doubts = []
                        head = locked.answer()
                        waiting = locked.later
        except Exception as error:  # noqa: BLE001 - every caller must be told, whatever it was
            self._fail(waiting, error, doubts)
            return None
        return head

    def _fail(self, units: Sequence[Unit], error: Exception, doubts: Sequence[Group]) -> None:
        explained = explain(error, self._url)
        unknown = StoreUnavailableError(
            f"{explained.message}; whether this call was written is not known: "
            "send it again with the same req_id, or read the log",
            **explained.details,
            outcome="unknown",
        )
        sent = {unit for doubt in doubts for unit, _ in doubt.units}
        for unit in units:
            unit.fail(unknown if unit in sent else explained)


class _Attempt:
    """One transaction under the head's lock."""

    def __init__(
        self,
        connection: PooledConnection,
        sealer: Sealer,
        units: Sequence[Unit],
        doubts: Sequence[Group],
        states: States,
    ) -> None:
        self._connection = connection
        self._states = states
        self._sealer = sealer
        self._units = [unit for unit in units if not unit.future.done()]
        self._doubts = doubts
        self._written: list[Group] = []
        self._head: Head | None = None
        self._sealed: Group
        #: the group that was sent in this attempt
        self.group: Group | None = None
        self.later: list[Unit] = []
        self._refused: list[Unit] = []

    async def run(self) -> None:
        tick: OpenTick | None = None
        closing, self._units = _apart(self._units)
        async with transaction(self._connection):
            if closing:
                await self._connection.execute(statements.FOR_CLOSING)
                tick = await lock_tick_to_close(self._connection, self._sealer.world_id)
            row = await self._connection.fetchrow(statements.LOCK_HEAD, self._sealer.world_id)
            self._head = Head.of(self._sealer.world_id, row)
            await look_up_authority(self._connection, self._sealer, self._head.seq)
            for doubt in self._doubts:
                if await self._is_written(doubt):
                    self._written.append(doubt)
                    done = {unit for unit, _ in doubt.units}
                    self._units = [unit for unit in self._units if unit not in done]
                    closing = [unit for unit in closing if unit not in done]
            self._units = await self._resolve_requests(self._units)
            await self._bring_state(self._head.seq, closing)
            self._sealed, self.later, self._refused = self._sealer.seal(self._head, self._units, final=True)
            if closing and tick is not None:
                await self._close(closing[0], tick, self._head)
                self.later += closing[1:]
            if self._sealed.texts:
                self.group = self._sealed
                with beyond_the_head(self._sealer.world_id, self._head.seq):
                    written = await write_groups(self._connection, [self._sealed])
                if not written:
                    raise asyncpg.SerializationError("the head moved under its lock")

    def answer(self) -> Head | None:
        """Answer the callers, after the commit; return the head."""
        if self.group is not None:
            self._sealer.confirm_group(self.group)
        for group in (*self._written, self._sealed):
            group.answer()
        for unit in self._refused:
            assert unit.refusal is not None  # noqa: S101 - the head was locked
            unit.fail(unit.refusal)
        return self._sealed.after

    async def _close(self, unit: Unit, tick: OpenTick, head: Head) -> None:
        """Close a tick after what was sealed so far; if it is refused, that is written without it."""
        if unit.future.done():
            return
        mark, after, authority = len(self._sealed.texts), self._sealed.after, self._sealed.authority
        requests, units = len(self._sealed.requests), len(self._sealed.units)

        async def bring() -> None:
            await self._states.bring(self._sealer, head.seq, self._connection)

        async def resolve(made: Sequence[Unit]) -> None:
            await self._resolve_requests(made, told=False)

        try:
            await close_tick(
                self._connection, self._sealer, unit, tick, head, self._sealed, resolve=resolve, bring=bring
            )
        except SimulationError as error:
            self._sealed.cut(mark)
            self._sealed.after, self._sealed.authority = after, authority
            del self._sealed.requests[requests:], self._sealed.units[units:]
            if self._sealer.live is not None and self._sealer.live.provisional:
                self._sealer.live = None
            unit.refusal = error
            self._refused.append(unit)

    async def _bring_state(self, seq: int, closing: list[Unit]) -> None:
        """Load the state by which drafts are judged; if there is none, units that need it are refused."""
        if not _needs_state(self._sealer, [*self._units, *closing]):
            return
        try:
            await self._states.bring(self._sealer, seq, self._connection)
        except (TamperedError, FoldError) as error:
            self._sealer.live = None
            for unit in (*self._units, *closing):
                if _needs_state(self._sealer, [unit]):
                    unit.fail(error)
            self._units = [unit for unit in self._units if not unit.future.done()]

    async def _is_written(self, doubt: Group) -> bool:
        assert self._head is not None  # noqa: S101 - read just before
        if self._head.seq < doubt.after.seq:
            return False
        found = await self._connection.fetchval(statements.CHECKSUM_AT, doubt.world_id, doubt.after.seq)
        return bool(found == doubt.after.checksum)

    async def _resolve_requests(self, units: Sequence[Unit], *, told: bool = True) -> list[Unit]:
        """Give the units with repeated requests their earlier receipts; conflicting ones are refused.

        Returns the others. Unless ``told``, no caller waits for a unit, and its refusal is kept in it.
        """
        asked = [(request.source_id, request.req_id) for unit in units for request in unit.requests]
        if not asked:
            return list(units)
        rows = await self._connection.fetch(
            statements.KNOWN_REQUESTS,
            self._sealer.world_id,
            [source_id for source_id, _ in asked],
            [req_id for _, req_id in asked],
        )
        known = {(row["source_id"], row["req_id"]): row for row in rows}
        if not known:
            return list(units)
        remaining = []
        for unit in units:
            try:
                for request in unit.requests:
                    row = known.get((request.source_id, request.req_id))
                    if row is not None:
                        await self._recall(unit, request.first, request.last, request.body_sha256, row)
            except RequestConflictError as error:
                unit.refusal = error
                if told:
                    unit.fail(error)
            else:
                remaining.append(unit)
        return remaining

    async def _sim_time(self, stated: float, seq: int) -> float:
        """Return the sim_time of a draft with this time at ``seq``, by the time authority of that moment."""
        authority = await authority_at(self._connection, self._sealer.world_id, seq - 1)
        return authority.sim_time(stated)

    async def _recall(self, unit: Unit, first: int, last: int, body_sha256: bytes, row: asyncpg.Record) -> None:
        effects = await self._connection.fetch(
            statements.EFFECTS_BETWEEN, self._sealer.world_id, row["first_seq"], row["last_seq"]
        )
        index = first if len(unit.drafts) > 1 else None
        req_id = row["req_id"]
        if row["body_sha256"] != body_sha256 or len(effects) != last - first + 1:
            raise conflict(req_id, index=index, global_seq=row["first_seq"])
        for offset, effect in enumerate(effects):
            stated = unit.drafts[first + offset].sim_time
            if stated is not None and await self._sim_time(stated, effect["global_seq"]) != effect["sim_time"]:
                raise conflict(req_id, index=index, global_seq=row["first_seq"])
            unit.known[first + offset] = Receipt(
                effect["global_seq"], effect["uuid"], effect["checksum"].hex(), replayed=True
            )


def _needs_state(sealer: Sealer, units: Sequence[Unit]) -> bool:
    """Return whether the state is needed to decide on these units, or on those that a tick of theirs decides."""
    return sealer.needs_state(units) or any(unit.close is not None for unit in units)


def _apart(units: Sequence[Unit]) -> tuple[list[Unit], list[Unit]]:
    """Split the units into those that close a tick and the rest."""
    closing = [unit for unit in units if unit.close is not None]
    return closing, [unit for unit in units if unit.close is None]
