"""Who moves a world's sim_time: the authority, and the ticks of the adapter that has it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from worldledger.core_kinds import TIME_AUTHORITY_KIND, TIME_SET_KIND
from worldledger.drafts import check_sim_time
from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, EffectDraft
from worldledger.errors import InvalidEffectError
from worldledger.genesis import is_authority
from worldledger.time_authority import check_zero

if TYPE_CHECKING:
    from service.runtime.ticks import Ticks
    from service.store import Receipt
    from service.store.closing import TickReceipt
    from service.store.event_log import EventLog


class Clocks:
    """Sets one world's time authority and takes its ticks (source: seeds/simulation_core.md, "Time authority")."""

    def __init__(self, event_log: EventLog, ticks: Ticks | None = None) -> None:
        self._log = event_log
        self._ticks = ticks
        self._setting: asyncio.Task[Receipt] | None = None

    @property
    def in_use(self) -> bool:
        """Whether an authority is being set."""
        return self._setting is not None and not self._setting.done()

    def set_authority(self, authority: str, zero: float | None = None) -> asyncio.Task[Receipt]:
        """Begin to set the authority, whose own 0.0 is to lie at ``zero``; the task gives the effect's receipt."""
        before = self._setting
        task = asyncio.get_running_loop().create_task(self._set(authority, zero, before))
        task.add_done_callback(_retrieve)
        self._setting = task
        return task

    async def tick(self, adapter: str, sim_time: float | None) -> Receipt | TickReceipt:
        """Move sim_time on, after whatever authority was set before."""
        await self.settled()
        if not is_authority(adapter):
            what = "adapter is an adapter's name: lower-case letters, digits, '_' and '-'"
            raise InvalidEffectError(what, "$.adapter")
        if sim_time is None:  # what a caller sends need not be a number; as a draft's it may be left out
            raise InvalidEffectError("sim_time is missing; it is a number", "$.sim_time")
        own = check_sim_time(sim_time)
        draft: EffectDraft = {
            "kind": TIME_SET_KIND,
            "payload": {"adapter": adapter, "time": own},
            "source_id": adapter,
            "schema_version": SCHEMA_VERSION,
            "sim_time": own,
        }
        if self._ticks is not None:
            return await self._ticks.end(draft)
        (receipt,) = await self._log.append_all([draft], system=True)
        return receipt

    async def close_tick(self, source: str) -> TickReceipt:
        """Close the tick of a world where time goes by itself, or stands still.

        Raises TimeAuthorityError where an adapter has the authority and this is another, and InvalidEffectError for a
        world that is ordered by arrival.
        """
        await self.settled()
        if self._ticks is None:
            what = f"world {self._log.world_id!r} is ordered by arrival: it has no ticks to close"
            raise InvalidEffectError(what, "$.source")
        if not is_authority(source):
            what = "source names who closes the tick: lower-case letters, digits, '_' and '-'"
            raise InvalidEffectError(what, "$.source")
        draft: EffectDraft = {
            "kind": TIME_SET_KIND,
            "payload": {"adapter": source},
            "source_id": source,
            "schema_version": SCHEMA_VERSION,
        }
        return await self._ticks.end(draft)

    async def settled(self) -> None:
        """Wait until the authority that was set last is in the log, or was refused."""
        if self._setting is not None:
            await asyncio.wait([self._setting])

    async def _set(self, authority: str, zero: float | None, before: asyncio.Task[Receipt] | None) -> Receipt:
        if before is not None:
            await asyncio.wait([before])
        named = "wall" if authority == "none" else authority
        if not is_authority(named):
            what = "authority is 'none', 'client' or an adapter's name such as 'unity'"
            raise InvalidEffectError(what, "$.authority")
        payload: dict[str, Any] = {"authority": named}
        if (lies_at := check_zero(named, zero)) is not None:
            payload["zero"] = lies_at
        draft: EffectDraft = {
            "kind": TIME_AUTHORITY_KIND,
            "payload": payload,
            "source_id": SERVICE_SOURCE,
            "schema_version": SCHEMA_VERSION,
        }
        (receipt,) = await self._log.append_all([draft], system=True)
        return receipt


def _retrieve(task: asyncio.Task[Receipt]) -> None:
    """Look at a task's error, so that asyncio does not complain where nobody awaits it."""
    if not task.cancelled():
        task.exception()
