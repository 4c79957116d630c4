"""One world's log: the EventLog, durable and asynchronous."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from worldledger.drafts import CheckedDraft, check_draft
from worldledger.effects import EffectDraft, EventLogEntry
from worldledger.errors import ReadOnlyWorldError
from worldledger.time_authority import TIME_KINDS
from worldledger_service.store import statements
from worldledger_service.store.holding import Close, Closing, TickReceipt
from worldledger_service.store.records import Receipt
from worldledger_service.store.sealing import Sealer
from worldledger_service.store.units import Judge, Unit, conflict

if TYPE_CHECKING:
    from worldledger.chain import StoredEffect
    from worldledger_service.store.committer import Committer, WorldQueue
    from worldledger_service.store.reader import Reader


class EventLog:
    """Append and read one world's effects (docs/reference/contracts.md, "Event log").

    Get it from `Store.log`. Any number of callers and processes may append to the same world at the same time.
    """

    def __init__(
        self,
        world_id: str,
        *,
        queue: WorldQueue,
        committer: Committer,
        reader: Reader,
        max_unit: int,
        default_priority: int = 0,
        is_prefix: bool = False,
    ) -> None:
        self.world_id = world_id
        #: the priority of drafts without one, from the world's genesis; the service's own have 0
        self.default_priority = default_priority
        self._queue = queue
        self._committer = committer
        self._reader = reader
        self._max_unit = max_unit
        self._is_prefix = is_prefix

    @property
    def sealer(self) -> Sealer:
        """The sealer of this world, which turns drafts into effects."""
        return self._queue.sealer

    async def append(self, draft: EffectDraft, *, source_metadata: Mapping[str, Any] | None = None) -> int:
        """Append one effect and return its global_seq, once it is durable.

        The log fills in uuid, global_seq, sim_time and wall_time, and chains the checksum. Raises
        InvalidEffectError (with the JSON path), TimeAuthorityError, SimTimeOrderError, RequestConflictError,
        ReadOnlyWorldError, OverloadedError or StoreUnavailableError; after the last the outcome may be unknown (its
        details say so).
        """
        if source_metadata and isinstance(draft, Mapping):
            draft = {**draft, "source_metadata": dict(source_metadata)}
        return (await self.append_all([draft]))[0].global_seq

    async def append_all(self, drafts: Sequence[EffectDraft], *, system: bool = False) -> list[Receipt]:
        """Append a list of effects as one unit: all or none, in this order. Returns a receipt for each draft.

        Each draft may have a req_id of its own: one that was accepted before, with the same body, gets its first
        receipt (``replayed``) and is not written again. ``system`` allows the system kinds.
        """
        if not drafts:
            return []
        if self._is_prefix:
            await self.require_whole()
        if len(drafts) == 1:
            draft = check_draft(drafts[0], system=system, default_priority=self._default(system))
            if draft.req_id is None and draft.kind not in TIME_KINDS:
                receipt = await self._committer.write_alone(self._queue, draft)
                if receipt is not None:
                    return [receipt]
            return await self._submit(Unit.of_checked(draft))
        return await self._submit(self._unit(drafts, system))

    async def append_judged(
        self, drafts: Sequence[EffectDraft | CheckedDraft], judges: Mapping[int, Judge], *, system: bool = False
    ) -> list[Receipt]:
        """Append a list of effects as one unit, each draft judged by the state that it would follow.

        ``judges`` maps a draft's index to its judge. A judge may be called several times, and must not change the
        state. If it raises a SimulationError, the whole unit is refused; a request that was accepted before is not
        judged again but gets its first receipt. Otherwise as `append_all`.
        """
        unit = self._unit(drafts, system)
        unit.judges = judges
        return await self._submit(unit)

    async def recall(self, draft: EffectDraft | CheckedDraft) -> Receipt | None:
        """Return the first receipt of a draft whose req_id was accepted before; None if it was not.

        Raises RequestConflictError if the req_id was used with another body.
        """
        checked = check_draft(draft, default_priority=self.default_priority)
        if checked.req_id is None:
            return None
        for row in await self._reader.fetch(
            statements.KNOWN_REQUESTS, self.world_id, [checked.source_id], [checked.req_id]
        ):
            first = row["first_seq"]
            if row["body_sha256"] != checked.body_digest() or row["last_seq"] != first:
                raise conflict(checked.req_id, global_seq=first)
            for effect in await self._reader.fetch(statements.EFFECTS_BETWEEN, self.world_id, first, first):
                return Receipt(first, effect["uuid"], effect["checksum"].hex(), replayed=True)
        return None

    async def append_request(
        self, drafts: Sequence[EffectDraft], *, source_id: str, req_id: str, system: bool = False
    ) -> list[Receipt]:
        """Append the effects of one request as one unit under one req_id.

        The same request again returns the first receipts, whatever interrupted its first call; another body under the
        same req_id raises RequestConflictError. A refused request does not use up its req_id.
        """
        if not drafts:
            return []
        unit = Unit.of_request(
            drafts,
            source_id=source_id,
            req_id=req_id,
            limit=self._max_unit,
            system=system,
            default_priority=self._default(system),
        )
        return await self._submit(unit)

    async def close_tick(self, draft: EffectDraft, closing: Closing) -> TickReceipt:
        """Append the effect of a tick, and before it, in the same transaction, the outcomes of all held intents.

        The number of the tick is added to the effect's payload. Raises as `append`; then the held intents stay.
        """
        unit = Unit.of_checked(check_draft(draft, system=True))
        unit.close = Close(closing)
        (receipt,) = await self._submit(unit)
        return unit.close.receipt(receipt)

    def _unit(self, drafts: Sequence[EffectDraft | CheckedDraft], system: bool) -> Unit:
        return Unit.of(drafts, limit=self._max_unit, system=system, default_priority=self._default(system))

    def _default(self, system: bool) -> int:
        return 0 if system else self.default_priority

    async def require_whole(self) -> None:
        """Raise ReadOnlyWorldError if only the beginning of the world is here: then nothing is appended."""
        if not self._is_prefix:
            return
        for row in await self._reader.fetch(statements.IS_PREFIX, self.world_id):
            name, head = self.world_id, row["head_seq"]
            what = f"of world {name!r} only the beginning is here, up to seq {head}, imported along with a fork of it: "
            what += "nothing is appended to it. Import an export of the whole world, or fork it and append to the fork"
            raise ReadOnlyWorldError(what, world_id=name, head_seq=head)
        self._is_prefix = False  # it has become whole

    async def _submit(self, unit: Unit) -> list[Receipt]:
        if self._is_prefix:
            await self.require_whole()
        return await self._committer.commit(self._queue, unit)

    async def get_entries_since(self, since_seq: int, limit: int | None = None) -> list[EventLogEntry]:
        """Return the entries after ``since_seq``, ascending, for replay or catch-up; at most ``limit`` if given.

        They are all held in memory: for a long log use `batches`.
        """
        rows: list[EventLogEntry] = []
        async for batch in self.batches(after_seq=since_seq, limit=limit):
            rows += [EventLogEntry.of(orjson.loads(row.text), row.checksum.hex()) for row in batch]
        return rows

    def batches(
        self,
        *,
        after_seq: int = 0,
        until_seq: int | None = None,
        kind: str | None = None,
        source_id: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[list[StoredEffect]]:
        """Return the stored rows in batches of bounded size, ascending; see `Reader.batches`."""
        return self._reader.batches(
            self.world_id, after_seq=after_seq, until_seq=until_seq, kind=kind, source_id=source_id, limit=limit
        )

    async def validate_integrity(self) -> bool:
        """Verify the whole chain, the query columns, the genesis and the head (`store.verification`)."""
        return (await self._reader.verify(self.world_id)).verified
