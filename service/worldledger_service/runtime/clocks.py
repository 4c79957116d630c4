"""A world's sim_time: which authority sets it, the ticks of the adapter that has it, and its silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from worldledger.drafts import check_sim_time
from worldledger.effects import Effect, own_draft
from worldledger.errors import (
    AuthoritySilentError,
    InvalidEffectError,
    RequestConflictError,
    SimulationError,
    StoreUnavailableError,
    TimeAuthorityError,
)
from worldledger.time_authority import (
    TIME_AUTHORITY_KIND,
    TIME_KINDS,
    TIME_SET_KIND,
    TIME_SILENT_KIND,
    WALL,
    Silence,
    SilenceReason,
    TimeAuthority,
    check_zero,
    is_authority,
)

if TYPE_CHECKING:
    from worldledger_service.runtime.ticks import Ticks
    from worldledger_service.store import Receipt
    from worldledger_service.store.event_log import EventLog
    from worldledger_service.store.holding import TickReceipt

log = structlog.get_logger("worldledger.runtime")


class Tick(NamedTuple):
    """A step of sim_time that was folded here."""

    global_seq: int
    adapter: str
    sim_time: float


class Clocks:
    """Sets one world's time authority, takes its ticks, and notices its silence.

    Source: docs/reference/effects.md, "Times". ``silence_s``: seconds without a tick, as this process sees
    them, after which an adapter counts as silent; None: however long.
    """

    def __init__(self, event_log: EventLog, ticks: Ticks | None = None, *, silence_s: float | None = None) -> None:
        self._log = event_log
        self._ticks = ticks
        self._silence_s = silence_s
        self._setting: asyncio.Task[Receipt] | None = None
        #: as far as the world is followed here, once `begin` was called
        self._authority: TimeAuthority | None = None
        self._early: list[Effect] = []
        self._waiting: set[asyncio.Future[Tick]] = set()
        self._listeners: list[Callable[[Silence], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def in_use(self) -> bool:
        """True while an authority is being set, watched or waited for."""
        setting = self._setting is not None and not self._setting.done()
        return setting or self._timer is not None or bool(self._telling or self._waiting)

    @property
    def authority(self) -> TimeAuthority:
        """The authority that sets sim_time, as far as the world is followed here."""
        return TimeAuthority(WALL) if self._authority is None else self._authority

    # -- following -----------------------------------------------------------------------------------------

    def begin(self, authority: TimeAuthority, seq: int) -> None:
        """Go on from what the log said at ``seq``, with what was seen of later effects meanwhile."""
        self._authority = authority
        early, self._early = self._early, []
        for effect in early:
            if effect["global_seq"] > seq:
                self.seen(effect)
        self._note()

    def seen(self, effect: Effect) -> None:
        """Note the next effect of the world, whichever process wrote it."""
        kind = effect["kind"]
        if kind not in TIME_KINDS:
            return
        if self._authority is None:
            self._early.append(effect)
            return
        try:
            self._authority = self._authority.after(kind, effect["payload"], effect["global_seq"])
        except ValueError:
            return  # as in the fold
        if kind == TIME_SET_KIND:
            tick = Tick(effect["global_seq"], effect["source_id"], effect["sim_time"])
            for future in self._waiting:
                if not future.done():
                    future.set_result(tick)
        silence = self._authority.silence
        if silence is not None and silence.global_seq == effect["global_seq"]:
            self._tell(silence)
        self._note()

    def _note(self) -> None:
        """Apply the present authority: callers that wait for a tick are told, and its silence is watched for."""
        silence = self.authority.silence
        if self._ticks is not None:
            self._ticks.authority_silent(None if silence is None else _silent(silence))
        self._watch()

    def _tell(self, silence: Silence) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_exception(_silent(silence))
        for listener in list(self._listeners):
            listener(silence)

    def on_silence(self, listener: Callable[[Silence], None]) -> Callable[[], None]:
        """Call a function whenever the authority falls silent; the returned function ends that."""
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return remove

    async def wait_for_tick(self) -> Tick:
        """Wait for the next tick that is folded here.

        Raises AuthoritySilentError where the authority is silent or falls silent, StoreUnavailableError where the world
        is closed meanwhile.
        """
        if self._closed:
            raise _closing()
        if self.authority.silence is not None:
            raise _silent(self.authority.silence)
        future: asyncio.Future[Tick] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            return await future
        finally:
            self._waiting.discard(future)

    def close(self) -> None:
        """Stop watching; callers that wait for a tick are told."""
        self._closed = True
        self._stop_watching()
        for future in self._waiting:
            if not future.done():
                future.set_exception(_closing())

    # -- setting -------------------------------------------------------------------------------------------

    def set_authority(self, authority: str, zero: float | None = None, *, force: bool = True) -> asyncio.Task[Receipt]:
        """Begin to set the authority, whose own 0.0 is to lie at ``zero``; the task gives the effect's receipt."""
        before = self._setting
        task = asyncio.get_running_loop().create_task(self._set(authority, zero, before, force=force))
        task.add_done_callback(_retrieve)
        self._setting = task
        return task

    async def tick(self, adapter: str, sim_time: float | None) -> Receipt | TickReceipt:
        """Move sim_time on, after whatever authority was set before."""
        if self._setting is not None:
            await asyncio.wait([self._setting])
        if not is_authority(adapter):
            what = "adapter is an adapter's name: lower-case letters, digits, '_' and '-'"
            raise InvalidEffectError(what, "$.adapter")
        if sim_time is None:  # what a caller sends need not be a number; as a draft's it may be left out
            raise InvalidEffectError("sim_time is missing; it is a number", "$.sim_time")
        own = check_sim_time(sim_time)
        draft = own_draft(TIME_SET_KIND, {"adapter": adapter, "time": own}, source_id=adapter)
        draft["sim_time"] = own
        if self._ticks is not None:
            return await self._ticks.end(draft)
        (receipt,) = await self._log.append_all([draft], system=True)
        return receipt

    async def close_tick(self, source: str) -> TickReceipt:
        """Close the tick of a world where time goes by itself, or stands still.

        Raises TimeAuthorityError where an adapter has the authority and this is another, and InvalidEffectError for a
        world that is ordered by arrival.
        """
        if self._setting is not None:
            await asyncio.wait([self._setting])
        if self._ticks is None:
            what = f"world {self._log.world_id!r} is ordered by arrival: it has no ticks to close"
            raise InvalidEffectError(what, "$.source")
        if not is_authority(source):
            what = "source names who closes the tick: lower-case letters, digits, '_' and '-'"
            raise InvalidEffectError(what, "$.source")
        return await self._ticks.end(own_draft(TIME_SET_KIND, {"adapter": source}, source_id=source))

    async def settled(self) -> None:
        """Wait until what was begun to be written here is in the log, or was refused."""
        if self._setting is not None:
            await asyncio.wait([self._setting])
        if self._telling:
            await asyncio.wait(self._telling)

    async def _set(
        self, authority: str, zero: float | None, before: asyncio.Task[Receipt] | None, *, force: bool
    ) -> Receipt:
        if before is not None:
            await asyncio.wait([before])
        named = WALL if authority == "none" else authority
        if not is_authority(named):
            what = "authority is 'none', 'client' or an adapter's name such as 'unity'"
            raise InvalidEffectError(what, "$.authority")
        payload: dict[str, Any] = {"authority": named}
        if (lies_at := check_zero(named, zero)) is not None:
            payload["zero"] = lies_at
        if not force:
            payload["force"] = False
        (receipt,) = await self._log.append_all([own_draft(TIME_AUTHORITY_KIND, payload)], system=True)
        return receipt

    # -- silence -------------------------------------------------------------------------------------------

    def disconnected(self, heard: TimeAuthority) -> None:
        """Note the end of a connection over which an adapter sent this: a tick, or that it takes over.

        If the authority was not heard since, the effect WorldTimeAuthoritySilent follows.
        """
        if heard.is_adapter:  # the wall clock and clients have no connection, whatever closed a tick in their name
            self._begin(self._write_silence(heard, "disconnected"))

    def _watch(self) -> None:
        """Start counting the seconds until the authority counts as silent."""
        self._stop_watching()
        authority = self._authority
        if self._silence_s is None or self._closed or authority is None:
            return
        if authority.is_adapter and authority.silence is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._silence_s, self._overdue, authority)

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _overdue(self, authority: TimeAuthority) -> None:
        self._timer = None
        self._begin(self._write_silence(authority, "no_tick"))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _write_silence(self, heard: TimeAuthority, reason: SilenceReason) -> None:
        payload = {"authority": heard.name, "last_tick_seq": heard.last_tick_seq, "reason": reason}
        try:
            await self._log.append_all([own_draft(TIME_SILENT_KIND, payload, heard.silence_id)], system=True)
        except (TimeAuthorityError, RequestConflictError):
            return  # it was heard since, or another process has written it, for its own reason
        except SimulationError as error:
            log.warning("an authority's silence was not written", world_id=self._log.world_id, error=error.message)
            if reason == "no_tick" and self._timer is None:
                self._watch()  # and try again


def _silent(silence: Silence) -> AuthoritySilentError:
    since = "since it took over" if silence.last_tick_seq is None else f"since its tick at seq {silence.last_tick_seq}"
    return AuthoritySilentError(
        f"the time authority {silence.authority!r} is silent {since} ({silence.reason})",
        time_authority=silence.authority,
        last_tick_seq=silence.last_tick_seq,
        reason=silence.reason,
    )


def _closing() -> StoreUnavailableError:
    return StoreUnavailableError("the world is being closed")


def _retrieve(task: asyncio.Task[Receipt]) -> None:
    """Retrieve a task's error, so that asyncio does not complain if it is never awaited."""
    if not task.cancelled():
        task.exception()
