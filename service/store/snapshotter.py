"""Taking snapshots while worlds are written: beside the appends, never in their way.

Whoever appends takes the snapshots that fall due, and writes each state's digest into the log, as the system effect
StateDigest with the req_id ``digest:<at_seq>``: of two processes that do so, one writes it. Imports write no digests,
for what they bring is another's log; and reading never writes into the log.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import structlog

from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, EffectDraft
from worldledger.errors import RequestConflictError, SimulationError
from worldledger.folding import DIGEST_KIND

if TYPE_CHECKING:
    from service.store.event_log import EventLog
    from service.store.snapshots import Taken
    from service.store.states import States
    from worldledger.rulesets import Ruleset

#: Worlds whose next snapshot one process remembers.
_REMEMBERED = 10_000
#: Worlds whose snapshots are taken at the same time.
_AT_ONCE = 2
#: A world that was not met before is looked at as soon as its head has come here; shorter ones are folded at once.
_FIRST_LOOK = 10
#: Effects after which it is tried again where it went wrong.
_AFTER_A_FAILURE = 1000
#: Seconds that a closing store waits for snapshots that are being taken.
_PATIENCE = 5.0

log = structlog.get_logger("worldledger.store")


def digest_draft(taken: Taken, ruleset: Ruleset) -> EffectDraft:
    """Give the draft of the system effect that says which state a world had at a seq.

    Payload: ``at_seq``, ``state_digest`` (64 hex digits: SHA-256 of the state in the profile ``state/1``), ``ruleset``
    and ``ruleset_version``.
    """
    return {
        "kind": DIGEST_KIND,
        "payload": {
            "at_seq": taken.global_seq,
            "state_digest": taken.digest,
            "ruleset": ruleset.name,
            "ruleset_version": ruleset.version,
        },
        "source_id": SERVICE_SOURCE,
        "schema_version": SCHEMA_VERSION,
        "req_id": f"digest:{taken.global_seq}",
    }


class Snapshotter:
    """Told of every commit of this process; takes what falls due in the background."""

    def __init__(self, states: States, find_log: Callable[[str], Awaitable[EventLog]]) -> None:
        self._states = states
        self._find_log = find_log
        self._due: OrderedDict[str, int] = OrderedDict()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, int] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._closed = False

    def committed(self, world_id: str, head_seq: int) -> None:
        """Take note of a commit. Cheap, for it stands in the way of every append."""
        due = self._due.get(world_id)
        if due is None:
            due = self._remember(world_id, _FIRST_LOOK)
        if head_seq >= due and not self._closed:
            if world_id in self._running:
                self._again[world_id] = head_seq
            else:
                self._start(world_id, head_seq)

    async def record(self, world_id: str, taken: Taken) -> int | None:
        """Write a state's digest into the log; give its seq, None where another version wrote one for that seq."""
        ruleset = (await self._states.rules(world_id)).ruleset
        try:
            event_log = await self._find_log(world_id)
            (receipt,) = await event_log.append_all([digest_draft(taken, ruleset)], system=True)
        except RequestConflictError as error:
            log.warning("another state digest stands in the log", world_id=world_id, error=error.message)
            return None
        return receipt.global_seq

    async def close(self) -> None:
        """Finish what is being taken, if it does not take long; what is not is taken next time."""
        self._closed = True
        if self._running:
            await asyncio.wait(self._running.values(), timeout=_PATIENCE)
        for task in list(self._running.values()):
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _remember(self, world_id: str, due: int) -> int:
        self._due[world_id] = due
        self._due.move_to_end(world_id)
        if len(self._due) > _REMEMBERED:
            self._due.popitem(last=False)
        return due

    def _start(self, world_id: str, head_seq: int) -> None:
        task = asyncio.get_running_loop().create_task(self._take(world_id, head_seq))
        self._running[world_id] = task
        task.add_done_callback(lambda _: self._done(world_id))

    def _done(self, world_id: str) -> None:
        del self._running[world_id]
        again = self._again.pop(world_id, None)
        if again is not None:
            self.committed(world_id, again)

    async def _take(self, world_id: str, head_seq: int) -> None:
        try:
            async with self._room:
                last, made = await self._states.snapshots_due(world_id, head_seq)
                for taken in made:
                    await self.record(world_id, taken)
                every = (await self._states.rules(world_id)).every
                # Where enough effects have come, but too few bytes of them, it is looked at again after some more.
                self._remember(world_id, last + every if last + every > head_seq else head_seq + every // 4 + 1)
        except SimulationError as error:
            # A snapshot is a cache: the next one that falls due makes up for this one.
            log.warning("no snapshot", world_id=world_id, error=error.message)
            self._remember(world_id, head_seq + _AFTER_A_FAILURE)
        except Exception:
            log.exception("taking a snapshot failed", world_id=world_id)
            self._remember(world_id, head_seq + _AFTER_A_FAILURE)
