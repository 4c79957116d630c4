"""Taking snapshots while worlds are written: in the background, without delaying appends.

A process that appends takes the snapshots that become due, and writes each state's digest into the log, as the system
effect StateDigest with the req_id ``digest:<at_seq>``: if two processes do so, one writes it. Imports write no digests,
because their effects are another log's; and reading never writes into the log.

The state of a world that is written continuously is kept in memory, with the effects since, so that an effect is not
read back from the database only to be folded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import structlog

from worldledger.effects import DIGEST_KIND, EffectDraft, own_draft
from worldledger.errors import RequestConflictError, SimulationError
from worldledger.lru import Lru
from worldledger_service.store.sealing import Recent
from worldledger_service.store.snapshots import Forward

if TYPE_CHECKING:
    from worldledger.rulesets import Ruleset
    from worldledger_service.store.event_log import EventLog
    from worldledger_service.store.import_snapshots import ImportSnapshots
    from worldledger_service.store.sealing import Sealer
    from worldledger_service.store.snapshots import Taken
    from worldledger_service.store.states import States

#: Worlds whose next snapshot one process remembers.
_REMEMBERED = 10_000
#: Worlds whose state is kept for their next snapshot.
_FOLLOWED = 64
#: Worlds whose snapshots are taken at the same time.
_WORLDS_AT_ONCE = 2
#: Head at which a new world is checked for the first time; shorter ones are folded at once.
_FIRST_LOOK = 10
#: Effects after which a failed snapshot is tried again.
_AFTER_A_FAILURE = 1000
#: Seconds that a closing store waits for snapshots that are being taken.
_CLOSE_SECONDS = 5.0
#: Seconds for writing what a process beside an import has taken by then.
_WRITING = 3.0

log = structlog.get_logger("worldledger.store")


def digest_draft(taken: Taken, ruleset: Ruleset) -> EffectDraft:
    """Return the draft of the system effect with the digest of a world's state at a seq.

    Payload: ``at_seq``, ``state_digest`` (64 hex digits: SHA-256 of the state in the profile ``state/1``), ``ruleset``
    and ``ruleset_version``.
    """
    payload = {
        "at_seq": taken.global_seq,
        "state_digest": taken.digest,
        "ruleset": ruleset.name,
        "ruleset_version": ruleset.version,
    }
    return own_draft(DIGEST_KIND, payload, f"digest:{taken.global_seq}")


class _Followed:
    """A world that this process writes: its last checked state, and the effects since."""

    def __init__(self, sealer: Sealer, seq: int) -> None:
        self._sealer = sealer
        self.start = seq
        self.recent = sealer.recent = Recent(seq)
        self.forward: Forward | None = None

    def leave(self) -> None:
        """Stop following it."""
        if self._sealer.recent is self.recent:
            self._sealer.recent = None


class Snapshotter:
    """Called with every commit of this process; takes what becomes due in the background.

    ``find_log`` returns a world's log; ``sealer_of`` the sealer of a world that this process writes, if it does.
    """

    def __init__(
        self,
        states: States,
        find_log: Callable[[str], Awaitable[EventLog]],
        sealer_of: Callable[[str], Sealer | None],
    ) -> None:
        self._states = states
        self._find_log = find_log
        self._sealer_of = sealer_of
        self._due: Lru[str, int] = Lru(_REMEMBERED)
        self._followed: OrderedDict[str, _Followed] = OrderedDict()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, int] = {}
        self._imported: dict[str, asyncio.Task[None]] = {}
        #: those that are being taken by processes of their own
        self._beside: set[ImportSnapshots] = set()
        self._room = asyncio.Semaphore(_WORLDS_AT_ONCE)
        self._closed = False
        #: whether a store that is being closed has waited long enough
        self._late = False

    def committed(self, world_id: str, head_seq: int) -> None:
        """Note a commit. It is cheap, because every append waits for it."""
        due = self._due.get(world_id)
        if due is None:
            due = self._remember(world_id, _FIRST_LOOK)
        if head_seq >= due and not self._closed:
            if world_id in self._running:
                self._again[world_id] = head_seq
            else:
                self._start(world_id, head_seq)

    def imported(self, world_id: str, head_seq: int, snapshots: ImportSnapshots | None = None) -> None:
        """Note that a world was imported: its snapshots are taken when imports leave time for it.

        Those that were taken beside the import are kept at once.
        """
        if self._closed or world_id in self._imported:
            if snapshots is not None:
                snapshots.give_up()
            return
        task = asyncio.get_running_loop().create_task(self._take_imported(world_id, head_seq, snapshots))
        self._imported[world_id] = task
        task.add_done_callback(lambda _: self._imported.pop(world_id, None))

    async def _take_imported(self, world_id: str, head_seq: int, snapshots: ImportSnapshots | None) -> None:
        newest = 0
        try:
            if snapshots is not None:
                self._beside.add(snapshots)
                try:
                    if snapshots.is_large:
                        newest = await self._states.keep(world_id, snapshots)
                finally:
                    self._beside.discard(snapshots)
                    snapshots.give_up()
            if self._late:
                return
            async with self._room:
                await self._states.after_import(world_id, head_seq, newest)
        except SimulationError as error:  # calls that need a state get this error
            log.warning("no snapshot", world_id=world_id, error=error.message)
        except Exception:
            log.exception("taking a snapshot failed", world_id=world_id)

    async def record(self, world_id: str, taken: Taken) -> int | None:
        """Write a state's digest into the log; return its seq, None if another version wrote one for that seq."""
        ruleset = (await self._states.rules(world_id)).ruleset
        try:
            event_log = await self._find_log(world_id)
            (receipt,) = await event_log.append_all([digest_draft(taken, ruleset)], system=True)
        except RequestConflictError as error:
            log.warning("another state digest stands in the log", world_id=world_id, error=error.message)
            return None
        return receipt.global_seq

    async def close(self) -> None:
        """Finish the snapshots that are being taken, if it does not take long; the others are taken next time."""
        self._closed = True
        tasks = [*self._running.values(), *self._imported.values()]
        if tasks:
            self._states.backlogs.want_all()
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
        self._late = True
        if self._beside:
            for snapshots in self._beside:
                snapshots.hurry()
            await asyncio.wait(tasks, timeout=_WRITING)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _remember(self, world_id: str, due: int) -> int:
        self._due[world_id] = due
        return due

    def _start(self, world_id: str, head_seq: int) -> None:
        # Before anything else is written: what comes after this head is collected for the next time.
        followed = self._follow(world_id, head_seq)
        task = asyncio.get_running_loop().create_task(self._take(world_id, head_seq, followed))
        self._running[world_id] = task
        task.add_done_callback(lambda _: self._done(world_id))

    def _follow(self, world_id: str, head_seq: int) -> _Followed | None:
        followed = self._followed.get(world_id)
        if followed is not None and followed.recent.broken:
            self._leave(world_id)
            followed = None
        if followed is None:
            sealer = self._sealer_of(world_id)
            if sealer is None:
                return None
            followed = self._followed[world_id] = _Followed(sealer, head_seq)
        self._followed.move_to_end(world_id)
        if len(self._followed) > _FOLLOWED:
            self._leave(next(iter(self._followed)))
        return followed

    def _leave(self, world_id: str) -> None:
        followed = self._followed.pop(world_id, None)
        if followed is not None:
            followed.leave()

    def _done(self, world_id: str) -> None:
        del self._running[world_id]
        again = self._again.pop(world_id, None)
        if again is not None:
            self.committed(world_id, again)

    async def _take(self, world_id: str, head_seq: int, followed: _Followed | None) -> None:
        try:
            async with self._room:
                rules = await self._states.rules(world_id)
                last = await self._go_forward(world_id, head_seq, rules.ruleset, followed)
                # If there are enough effects, but too few bytes of them, it is checked again after some more.
                due = last + rules.every
                self._remember(world_id, due if due > head_seq else head_seq + rules.every // 4 + 1)
        except SimulationError as error:
            # A snapshot is a cache: the next one that becomes due replaces this one.
            log.warning("no snapshot", world_id=world_id, error=error.message)
            self._fail(world_id, head_seq)
        except Exception:
            log.exception("taking a snapshot failed", world_id=world_id)
            self._fail(world_id, head_seq)

    def _fail(self, world_id: str, head_seq: int) -> None:
        self._leave(world_id)
        self._remember(world_id, head_seq + _AFTER_A_FAILURE)

    async def _go_forward(self, world_id: str, head_seq: int, ruleset: Ruleset, followed: _Followed | None) -> int:
        """Take what is due up to the head, or beyond it; return the seq of the newest snapshot."""
        made: list[Taken] = []

        async def keep(taken: Taken) -> None:
            await self._states.snapshots.write(world_id, ruleset, taken)
            made.append(taken._replace(text=b""))

        if followed is None:
            forward = await self._states.forward(world_id, head_seq, keep)
        elif followed.forward is None:
            forward = followed.forward = await self._states.forward(world_id, followed.start, keep)
        else:
            forward = followed.forward
            rows = await asyncio.to_thread(followed.recent.take())
            try:
                await forward.take(rows, keep)
            except BaseException:
                self._leave(world_id)  # it may have been left in the middle
                raise
        for taken in made:
            await self.record(world_id, taken)
        return forward.last
