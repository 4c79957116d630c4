"""Sightings: what agents were shown of others' doings, and whether that makes stale what they are about to do.

`worldledger.staleness` says what a sighting is. For each agent that is attached here the latest ones are kept, as far
back as is known; where that is not far enough, older ones are worked out from the log, once, and kept with them. So the
verdict is the same in every process, after a restart, and beyond the deltas that are kept.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from worldledger.aio import until_done
from worldledger.core_kinds import STALENESS_KIND
from worldledger.effects import own_draft
from worldledger.errors import InvalidEffectError, InvalidIntentError, SimulationError, StoreUnavailableError
from worldledger.staleness import (
    NOT_GIVEN,
    InterruptPolicy,
    Sight,
    Staleness,
    Threshold,
    WorldStaleness,
    about_of,
    check_interrupt_policy,
    check_threshold,
    is_news,
    shown_by,
)
from worldledger_service.runtime.replays import POLICY_ERRORS, Replay

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig
    from worldledger.effects import Effect
    from worldledger.intents import CheckedIntent
    from worldledger.views import Sighting
    from worldledger.world import WorldState
    from worldledger_service.runtime.attachments import Attachment
    from worldledger_service.runtime.following import ViewFollower
    from worldledger_service.runtime.generations import Generations
    from worldledger_service.runtime.observing import Observing
    from worldledger_service.runtime.replays import Seen
    from worldledger_service.store import Receipt, Store
    from worldledger_service.store.event_log import EventLog


#: Sightings of an agent that are kept, and the most that are kept if more are needed.
_KEPT: Final = 1024
_MOST: Final = 16_384
#: Effects of the first stretch that older sightings are looked for in; each one after it has twice as many.
_FIRST: Final = 1000
#: Seconds after which what could not be counted is tried again.
_PAUSE: Final = 0.5

log = structlog.get_logger("worldledger.runtime")


class Record:
    """The latest due sightings of one agent, ascending: all of those after ``known_from``."""

    def __init__(self, known_from: int) -> None:
        self.known_from = known_from
        #: older ones that are not due yet, by their seqs
        self.coming: dict[int, Sight] = {}
        self._sights: deque[Sight] = deque()
        self._most = _KEPT
        self._growing = 0
        self._lock = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._sights)

    def take(self, sight: Sight) -> None:
        """Add the next one; one that is known already, or older than the known ones, changes nothing."""
        sights, seq = self._sights, sight.seq
        if self.coming:
            self.coming.pop(seq, None)
        if seq <= self.known_from:
            return
        if not sights or sights[-1].seq < seq:
            sights.append(sight)
            if len(sights) > self._most:
                self._trim()
        elif all(each.seq != seq for each in sights):
            self._sights = deque(sorted([*sights, sight], key=lambda each: each.seq))

    def after(self, seq: int) -> list[Sight]:
        """Return those after a seq, ascending."""
        found = []
        for sight in reversed(self._sights):
            if sight.seq <= seq:
                break
            found.append(sight)
        found.reverse()
        return found

    @contextmanager
    def growing(self, most: int) -> Iterator[None]:
        """Drop none until the end of the block, and from then on keep so many, within bounds."""
        self._most = max(self._most, min(most, _MOST))
        self._growing += 1
        try:
            yield
        finally:
            self._growing -= 1
            self._trim()

    @property
    def lock(self) -> asyncio.Lock:
        """Held by the one who looks for older ones."""
        return self._lock

    def begin_at(self, known_from: int, sights: Sequence[Sight]) -> None:
        """Add those between ``known_from`` and the present beginning of the record."""
        self._sights.extendleft(reversed(sights))
        self.known_from = known_from

    def _trim(self) -> None:
        if self._growing:
            return
        while len(self._sights) > self._most:
            self.known_from = self._sights.popleft().seq


class Watch:
    """Something that an agent is about to do from the view at ``context_seq``, and how many sightings came after.

    ``names``: what it is about. ``left_out`` tells of a seq whether it came out of the same list of intents.
    ``stale_at`` is the seq of the sighting that has made it stale; ``became_stale`` is told.
    """

    def __init__(
        self,
        agent_id: str,
        context_seq: int,
        staleness: Staleness,
        names: frozenset[str] = frozenset(),
        *,
        left_out: Callable[[int], bool] | None = None,
        became_stale: Callable[[], None] | None = None,
    ) -> None:
        self.agent_id = agent_id
        self.context_seq = context_seq
        self.staleness = staleness
        #: whether all that came before what is seen now was counted
        self.counted = staleness.threshold is None
        self.stale_at: int | None = None
        self._names = names if staleness.interrupt_policy == "only_conflict" else None
        self._left_out = left_out
        self._counts_all = self._names is None and left_out is None
        self._limit = inf if staleness.threshold is None else staleness.threshold
        self._became_stale = became_stale
        self._counted_to = context_seq
        self._count = 0
        # Of the sightings that counted, only the seq of the newest is reported.
        keeps = 1 if became_stale is not None or staleness.threshold is None else staleness.threshold + 1
        self._latest: deque[int] = deque(maxlen=keeps)

    @property
    def expected_seq(self) -> int:
        """The oldest context that would not be stale now, of something that is."""
        return self._latest[0] if self._latest else self.context_seq

    def begin(self, sights: Sequence[Sight]) -> None:
        """Count what came up to now: if that makes it stale already, then as of the newest of them."""
        self.counted = True
        for sight in sights:
            self._count_one(sight)
        self._look()

    def take(self, sight: Sight) -> None:
        """Count a sighting, the next one that is due."""
        seq = sight.seq
        if not self.counted or seq <= self._counted_to:
            return
        self._counted_to = seq
        # Written out, for an agent may have thousands of intents that wait, and each is told of each sighting.
        if self._counts_all or self._counts(sight):
            self._count += 1
            self._latest.append(seq)
            if self._count > self._limit and self.stale_at is None:
                self._look()

    def over(self, sights: Sequence[Sight]) -> bool:
        """Return whether these alone, the latest ones, make it stale."""
        threshold = self.staleness.threshold
        return threshold is not None and sum(map(self._counts, sights)) > threshold

    def _counts(self, sight: Sight) -> bool:
        if self._names is not None and not sight.concerns(self.agent_id, self._names):
            return False
        return self._left_out is None or not self._left_out(sight.seq)

    def _count_one(self, sight: Sight) -> None:
        self._counted_to = sight.seq
        if self._counts(sight):
            self._count += 1
            self._latest.append(sight.seq)

    def _look(self) -> None:
        if self.stale_at is None and self._count > self._limit:
            self.stale_at = self._latest[-1]
            if self._became_stale is not None:
                self._became_stale()


class Sightings:
    """Counts the sightings of one world's agents for what they are about to do here."""

    def __init__(
        self,
        store: Store,
        follower: ViewFollower,
        observing: Callable[[], Observing],
        *,
        max_patch_ops: int | None = None,
    ) -> None:
        self._store = store
        self._follower = follower
        self._observing = observing
        self._max_patch_ops = max_patch_ops
        self._watches: dict[str, dict[Watch, None]] = {}
        self._counting: set[asyncio.Task[None]] = set()
        #: what takes those that were worked out from the log before they were due
        self._late: set[asyncio.TimerHandle] = set()

    # -- what happens --------------------------------------------------------------------------------------

    def arrived(self, attachment: Attachment, sight: Sight | None) -> None:
        """Note what an agent may know from now on."""
        if sight is None:
            return
        attachment.sightings.take(sight)
        watches = self._watches.get(attachment.agent_id)
        if watches:
            for watch in list(watches):
                watch.take(sight)

    # -- watching ------------------------------------------------------------------------------------------

    def begin(self, watch: Watch) -> None:
        """Count what comes for a watch, until `end`."""
        if watch.staleness.threshold is not None:
            self._watches.setdefault(watch.agent_id, {})[watch] = None

    def end(self, watch: Watch) -> None:
        """Count for it no longer. Doing it twice does no harm."""
        watches = self._watches.get(watch.agent_id)
        if watches is not None and watches.pop(watch, watch) is None and not watches:
            del self._watches[watch.agent_id]

    def count_now(self, watch: Watch, attachment: Attachment) -> bool:
        """Count what has come already, if that is known here; else tell that it is not."""
        if watch.counted:
            return True
        sights = attachment.sightings.after(watch.context_seq)
        if attachment.sightings.known_from > watch.context_seq and not watch.over(sights):
            return False
        watch.begin(sights)
        return True

    async def count(self, watch: Watch, attachment: Attachment) -> None:
        """Count what has come already, working out from the log what is not known here.

        Raises PolicyFailedError for an agent that was let go meanwhile, and StoreUnavailableError.
        """
        if self.count_now(watch, attachment):
            return
        record = attachment.sightings
        threshold = watch.staleness.threshold or 0
        with record.growing(threshold + 1):
            async with record.lock:
                stretch = _FIRST
                while not self.count_now(watch, attachment):
                    await self._reach_back(attachment, watch.context_seq, stretch)
                    stretch *= 2

    async def count_as_of(self, watch: Watch, attachment: Attachment, seq: int) -> None:
        """Count what was made for the agent up to a seq, due or not, for a watch that was not begun. Raises as `count`.

        So the verdict follows from the log and nothing else.
        """
        record, threshold = attachment.sightings, watch.staleness.threshold
        if threshold is None:
            return
        with record.growing(threshold + 1):
            async with record.lock:
                stretch = _FIRST
                while True:
                    sights = [sight for sight in attachment.sights_after(watch.context_seq) if sight.seq <= seq]
                    if record.known_from <= watch.context_seq or watch.over(sights):
                        break
                    await self._reach_back(attachment, watch.context_seq, stretch)
                    stretch *= 2
        watch.begin(sights)

    def count_later(self, watch: Watch) -> None:
        """Count what has come already as soon as it is known."""
        task = asyncio.get_running_loop().create_task(self._count_later(watch))
        self._counting.add(task)
        task.add_done_callback(self._counting.discard)

    async def _count_later(self, watch: Watch) -> None:
        observing = self._observing()
        while watch in self._watches.get(watch.agent_id, ()):
            try:
                async with observing.attached(watch.agent_id) as attachment:
                    await self.count(watch, attachment)
            except StoreUnavailableError as error:
                if self._follower.error is not None:
                    return
                log.debug("sightings are counted later", agent_id=watch.agent_id, error=error.message)
            except SimulationError as error:  # its agent is detached, and was told so
                log.debug("sightings are not counted", agent_id=watch.agent_id, error=error.message)
                return
            else:
                return
            await asyncio.sleep(_PAUSE)

    async def _reach_back(self, attachment: Attachment, seq: int, stretch: int) -> None:
        """Add the sightings of a stretch before the known ones; none before ``seq`` are needed."""
        record, agent_id = attachment.sightings, attachment.agent_id
        known = self._follower.views.fold.state.metadata["agents"].get(agent_id)
        registered_seq = 0 if known is None else known["registered_seq"]
        end = record.known_from
        start = end
        found: list[Seen] = []
        failing: int | None = None
        trial = max(end - stretch, seq, registered_seq)
        while trial < start and trial != failing:
            seen: list[Seen] = []
            try:
                replay = await Replay.begin(
                    self._store, self._follower.world_id, agent_id, trial, max_patch_ops=self._max_patch_ops
                )
                await replay.go(end, seen.append, digests=False)
            except POLICY_ERRORS:
                failing = trial
            else:
                start, found = trial, seen
            if failing is None:
                break
            trial = (failing + start) // 2
        if failing is not None or start <= registered_seq:
            # Before its policy failed an agent had a view that is no more: what it saw then makes nothing stale.
            start = 0
        record.begin_at(start, self._due(attachment, found))

    def _due(self, attachment: Attachment, found: Sequence[Seen]) -> list[Sight]:
        """Return the sightings that are due; take those that are not when they are."""
        loop, now = asyncio.get_running_loop(), time.time()
        due: list[Sight] = []
        deliver_at = 0.0
        for each in found:
            deliver_at = max(each.deliver_at, deliver_at)
            if each.sight is None:
                continue
            if deliver_at <= now:
                due.append(each.sight)
            else:
                attachment.sightings.coming[each.sight.seq] = each.sight
                self._late = {timer for timer in self._late if timer.when() > loop.time()}
                self._late.add(loop.call_later(deliver_at - now, self.arrived, attachment, each.sight))
        return due

    async def close(self) -> None:
        """Stop counting."""
        for timer in self._late:
            timer.cancel()
        for task in self._counting:
            task.cancel()
        await until_done([*self._counting])


def sights_of(effect: Effect, sightings: Sequence[Sighting]) -> list[Sight | None]:
    """Return what each agent's delta is as a sighting (None: it is none); agents who are shown the same share it."""
    made: dict[tuple[int, int], Sight] = {}
    found: list[Sight | None] = []
    for agent_id, delta, _ in sightings:
        if not is_news(effect, agent_id):
            found.append(None)
            continue
        patches, events = delta["patches"], delta["events"]
        key = (id(patches) if patches else 0, id(events[0]) if events else 0)
        sight = made.get(key)
        if sight is None:
            sight = made[key] = Sight(effect["global_seq"], shown_by(delta, effect))
        found.append(sight)
    return found


# -- settings of staleness: as configured, and as effects have changed them ----------------------------------------


class StalenessSettings:
    """Reads the settings of one world, and changes them by the effect WorldStalenessSet."""

    def __init__(self, event_log: EventLog, follower: ViewFollower, config: OrchestratorConfig) -> None:
        self._log = event_log
        self._follower = follower
        self._configured = config.staleness

    @property
    def world(self) -> WorldStaleness:
        """The world's settings, as far as this process has followed it."""
        return self._in(self._follower.views.fold.state)

    def of(self, agent_id: str, given: Threshold = NOT_GIVEN, by: str = "intent") -> Staleness:
        """Return what holds for something of a registered agent, given its own threshold."""
        return self.world.of(self._follower.views.fold.state.metadata["agents"][agent_id], given, by)

    async def set(
        self,
        staleness_threshold: Threshold,
        interrupt_policy: InterruptPolicy | None,
        max_staleness_threshold: Threshold,
    ) -> Receipt:
        """Write what is given; on return this process has folded it. Raises InvalidEffectError."""
        payload: dict[str, Any] = {}
        if staleness_threshold is not NOT_GIVEN:
            payload["staleness_threshold"] = check_threshold(staleness_threshold)
        if interrupt_policy is not None:
            payload["interrupt_policy"] = check_interrupt_policy(interrupt_policy)
        if max_staleness_threshold is not NOT_GIVEN:
            name = "max_staleness_threshold"
            payload[name] = check_threshold(max_staleness_threshold, f"$.{name}")
        if not payload:
            raise InvalidEffectError(
                "nothing is set: name staleness_threshold, interrupt_policy or max_staleness_threshold"
            )

        def judge(state: WorldState) -> None:
            after = self._in(state).set_anew(payload)
            after.check(after.threshold)

        (receipt,) = await self._log.append_judged([own_draft(STALENESS_KIND, payload)], {0: judge}, system=True)
        await self._follower.reached(receipt.global_seq)
        return receipt

    def _in(self, state: WorldState) -> WorldStaleness:
        return self._configured.set_anew(state.metadata.get("staleness"))


# -- placing: what an intent was made from, and by which settings it may be stale ----------------------------------


class Placed(NamedTuple):
    """An intent with its context, what decides whether that is stale, and the ids that it is about.

    ``refusal``: why it cannot be taken as it is, unless it was accepted before.
    """

    intent: CheckedIntent
    staleness: Staleness
    names: frozenset[str]
    refusal: InvalidIntentError | None


class Placing:
    """Places the intents of one world."""

    def __init__(self, generations: Generations, settings: StalenessSettings) -> None:
        self._generations = generations
        self._settings = settings

    def place(self, intent: CheckedIntent) -> Placed:
        """Place an intent of a registered agent.

        Where it names no context it has that of the generation that it ends, if one is under way; where it has no
        threshold it has that generation's, the agent's or the world's.
        """
        given, by, about = intent.staleness_threshold, "intent", frozenset(intent.about)
        begun = self._generations.begun(intent.agent_id, intent.req_id)
        if begun is not None:
            about |= begun.about
            if intent.context_seq is None:
                intent = intent._replace(context_seq=begun.context_seq)
            if given is NOT_GIVEN and begun.staleness_threshold is not NOT_GIVEN:
                given, by = begun.staleness_threshold, "generation"
        staleness = self._settings.of(intent.agent_id, given, by)
        names = about_of(about, intent.payload) if staleness.interrupt_policy == "only_conflict" else frozenset[str]()
        return Placed(intent, staleness, names, self._refusal(intent, staleness))

    def _refusal(self, intent: CheckedIntent, staleness: Staleness) -> InvalidIntentError | None:
        if intent.staleness_threshold is not NOT_GIVEN:
            try:
                self._settings.world.check(intent.staleness_threshold)
            except InvalidEffectError as error:
                return InvalidIntentError(error.reason, error.path)
        if intent.context_seq is not None or staleness.threshold is None:
            return None
        return InvalidIntentError(
            f"context_seq is missing or null, and the {staleness.setting}'s staleness_threshold is "
            f"{staleness.threshold}: name the view_seq of the view that the intent was made from, or have "
            "staleness_threshold be null",
            "$.context_seq",
            **staleness.details(),
        )
