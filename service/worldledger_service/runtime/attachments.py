"""Attachments: the agents whose views this process keeps up, and how their observations reach their readers."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

import orjson

from worldledger.aio import TimedQueue
from worldledger.deltas import collapse, replacing, whole
from worldledger.observation import ObservationDelta, ObservationPolicy, View
from worldledger_service.runtime.sightings import Record

if TYPE_CHECKING:
    from worldledger.staleness import Sight
    from worldledger.views import Sighting, Views


# -- subscriptions: the observations of one agent, on their way to one reader, in order and in their time


#: Bytes of effects whose deltas may be queued for one reader.
_MOST_BYTES: Final = 8 * 1024 * 1024


class _TooLongError(Exception):
    """A patch that deltas were put together to has too many operations."""


#: A delta, and the bytes of the effect that made it or of what it has collapsed from.
_Queued: TypeAlias = tuple[ObservationDelta, int]


class Subscription:
    """One reader's queue of an agent's deltas. Get it from `Orchestrator.subscribe`; close it when done.

    ``view_seq`` is that of the last delta that was returned (at first, where it begins); ``view`` is the view that the
    first delta applies to, if the reader did not bring one.

    A reader that does not keep up holds no more than ``most`` deltas: then the older half is merged into one, which
    says how many it stands for (``collapsed``) and how many of their events it leaves out (``events_dropped``). If its
    patch would have more than ``max_patch_ops`` operations, the whole queue becomes one delta that replaces the view.
    """

    def __init__(
        self,
        agent_id: str,
        view_seq: int,
        view: View | None,
        *,
        most: int,
        max_patch_ops: int | None = None,
        source: Callable[[], Views],
        on_close: Callable[[Subscription], None],
    ) -> None:
        self.agent_id = agent_id
        self.view_seq = view_seq
        self.view = view
        #: gives the views that the deltas come from, the agent's being as the one that is put last leaves it
        self.source = source
        self._most = max(most, 2)
        self._max_patch_ops = sys.maxsize if max_patch_ops is None else max_patch_ops
        self._on_close = on_close
        self._last_at = 0.0
        self._queue: TimedQueue[_Queued] = TimedQueue()
        #: bytes of the effects whose deltas are queued, or of what they have collapsed into
        self.size = 0

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, delta: ObservationDelta, deliver_at: float, size: int = 0) -> None:
        """Queue a delta that follows those before it, for a time of the event loop's clock, but never before them.

        ``size`` is that of the effect that made it, in bytes.
        """
        self._last_at = deliver_at = max(deliver_at, self._last_at)
        self._queue.put_nowait_at(deliver_at, (delta, size))
        self.size += size
        if len(self._queue) > self._most or (self.size > _MOST_BYTES and len(self._queue) > 1):
            self._collapse()

    def _collapse(self) -> None:
        count = max(len(self._queue) // 2, 2) if self.size <= _MOST_BYTES else len(self._queue)
        try:
            policy = self.source().policy(self.agent_id)
            if type(policy).calculate_observation_delta is ObservationPolicy.calculate_observation_delta:
                try:
                    self._queue.merge_oldest(count, self._merge)
                except _TooLongError:
                    self._queue.merge_oldest(len(self._queue), self._replace)
                return
        except ValueError:
            pass
        # The policy makes patches of its own, which need not be such as can be put together.
        self._queue.merge_oldest(len(self._queue), self._anew)

    def _merge(self, queued: Sequence[_Queued]) -> _Queued:
        delta = collapse([delta for delta, _ in queued])
        if len(delta.patches) > self._max_patch_ops:
            raise _TooLongError
        return self._instead(queued, delta)

    def _replace(self, queued: Sequence[_Queued]) -> _Queued:
        """Replace the queue by one delta with all its events, and the view after it instead of patches."""
        view = self.source().view(self.agent_id)
        patch = replacing(view.visible_entities, view.visible_relationships)
        return self._instead(queued, ObservationDelta(collapse([delta for delta, _ in queued]), patches=patch))

    def _anew(self, queued: Sequence[_Queued]) -> _Queued:
        last = queued[-1][0]["view_seq"]
        view = self.source().view(self.agent_id).model_copy(update={"view_seq": last})
        return self._instead(queued, whole(view, stands_for=sum(delta.get("collapsed", 1) for delta, _ in queued)))

    def _instead(self, queued: Sequence[_Queued], delta: ObservationDelta) -> _Queued:
        size = len(orjson.dumps(delta))
        self.size += size - sum(each for _, each in queued)
        return (delta, size)

    def clear(self) -> None:
        """Drop what is queued, before anybody has read."""
        self._queue = TimedQueue()
        self.size = 0
        self._last_at = 0.0

    async def get(self) -> ObservationDelta:
        """Wait for the next delta and give it. Raises QueueClosedError once the subscription is closed."""
        delta, size = await self._queue.get()
        self.size -= size
        self.view_seq = delta["view_seq"]
        return delta

    def get_due(self, limit: int | None = None) -> list[ObservationDelta]:
        """Return the deltas whose time has come, without waiting. Raises QueueClosedError once it is closed."""
        drained = self._queue.drain_due(limit)
        self.size -= sum(size for _, size in drained)
        due = [delta for delta, _ in drained]
        if due:
            self.view_seq = due[-1]["view_seq"]
        return due

    def close(self) -> None:
        """Close it; a waiting reader is told. Closing twice does no harm."""
        self._queue.close()
        self._on_close(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[ObservationDelta]:
        while True:
            yield await self.get()


#: Deltas of an agent that are kept for readers that come back.
_KEPT: Final = 256
#: Bytes of effects whose deltas are kept so; a delta is about as large as the effect that made it.
_KEPT_BYTES: Final = 1024 * 1024
#: Entities in all views that are kept up to date, beyond which agents that are not in use are detached.
_SEEN: Final = 50_000
#: Shortest sleep in seconds: a timer may fire a little before its time, and the rest would be spun away.
_SHORTEST: Final = 0.001


class _Sent(NamedTuple):
    deliver_at: float
    delta: ObservationDelta
    #: of the effect that made it, in bytes
    size: int
    #: what it counts as where the agent's intents and generations are asked whether they are stale
    sight: Sight | None = None


class Attachment:
    """One agent here: its subscriptions, its latest deltas, and what it may know by now.

    - ``view_seq``: the agent's latest view_seq. With a latency model, it is the latest that is due: what an agent
      cannot know yet makes nothing stale.
    - ``made_seq``: the view_seq of its newest delta, due or not.
    - ``acknowledged``: the view_seq from which the agent goes on where it comes back without naming one.
    - ``provisional``: it was made in a hurry, so what it had seen and acknowledged is not known yet; another one with
      that will take its place.

    ``sure`` says whether the view_seq that it begins with is that of the effect which made the view.
    """

    def __init__(
        self,
        agent_id: str,
        view_seq: int,
        *,
        acknowledged: int | None = None,
        provisional: bool = False,
        sure: bool = True,
    ) -> None:
        self.agent_id = agent_id
        self.view_seq = view_seq
        self.made_seq = view_seq
        self.acknowledged = view_seq if acknowledged is None else acknowledged
        self.provisional = provisional
        #: the view_seq at which a ViewDigest was last due
        self.digested = view_seq
        #: how many effects there were when the view was digested last, as `observing` counts them
        self.effects_digested = 0
        self.subscriptions: set[Subscription] = set()
        self._kept: deque[_Sent] = deque()
        self.kept_bytes = 0
        #: the newest delta that is not kept, and when it was due
        self._kept_from = view_seq
        self._sure = sure and not provisional
        self._kept_from_at = 0.0
        #: when the newest delta is due, by the event loop's clock
        self.last_at = 0.0
        #: the deltas that are not due yet: when they are, their view_seqs, and what they count as
        self.to_come: deque[tuple[float, int, Sight | None]] = deque()
        #: what it was shown of others' doings, as far as that is due
        self.sightings = Record(view_seq)
        self.timer: asyncio.TimerHandle | None = None

    @property
    def in_use(self) -> bool:
        """True if it has readers, or deltas that are not due yet."""
        return bool(self.subscriptions) or self.view_seq < self.made_seq

    @property
    def kept(self) -> int:
        """The number of deltas that are kept."""
        return len(self._kept)

    def keep(self, delta: ObservationDelta, deliver_at: float, size: int = 0, sight: Sight | None = None) -> float:
        """Keep the agent's next delta; give when it is to be delivered: never before the one before it."""
        self.last_at = deliver_at = max(deliver_at, self.last_at)
        self.made_seq = delta["view_seq"]
        self._kept.append(_Sent(deliver_at, delta, size, sight))
        self.kept_bytes += size
        while len(self._kept) > _KEPT or self.kept_bytes > _KEPT_BYTES:
            oldest = self._kept.popleft()
            self.kept_bytes -= oldest.size
            self._kept_from, self._kept_from_at = oldest.delta["view_seq"], oldest.deliver_at
            self._sure = True
        return deliver_at

    def after(self, view_seq: int) -> list[_Sent] | None:
        """Return the kept deltas after a view; None if they do not go back so far."""
        if view_seq < self._kept_from:
            return None
        return [sent for sent in self._kept if sent.delta["view_seq"] > view_seq]

    def sights_after(self, seq: int) -> list[Sight]:
        """Return the agent's sightings after a seq that are known here, ascending, be they due or not."""
        to_come = [sight for _, _, sight in self.to_come if sight is not None]
        made = {each.seq: each for each in (*self.sightings.after(seq), *self.sightings.coming.values(), *to_come)}
        return [made[each] for each in sorted(made) if each > seq]

    def origin(self, seq: int) -> int | None:
        """Return the view_seq that the agent's view had at a seq up to which all is known here; None if it is not."""
        for sent in reversed(self._kept):
            if sent.delta["view_seq"] <= seq:
                return sent.delta["view_seq"]
        return self._kept_from if self._sure and seq >= self._kept_from else None

    def found(self, seq: int, origin: int) -> None:
        """Note the view_seq that the agent's view had at a seq, if the record begins there."""
        begins = self._kept_from
        if self._sure or self.provisional or not begins <= seq or self.origin(seq) is not None:
            return
        self._sure = True
        self._kept_from = origin
        if self.made_seq == begins:
            self.made_seq = origin
        if self.view_seq == begins:
            self.view_seq = origin

    def missed(self) -> list[tuple[float, int, Sight | None]]:
        """Return when the latest view_seq is to become which, for the deltas that were kept before it was attached."""
        self.sightings = Record(self._kept_from)
        steps: list[tuple[float, int, Sight | None]] = [
            (self._kept_from_at, self._kept_from, None),
            *((sent.deliver_at, sent.delta["view_seq"], sent.sight) for sent in self._kept),
        ]
        return [step for step in steps if step[1] > self.view_seq]


class Attachments:
    """All agents attached here. Of those that are not in use, the least recently used are detached first.

    ``arrived`` is called with each agent whose latest view has moved on, or has become known, and what that counts as;
    ``let_go`` with each that is no longer attached. ``upkeep`` returns how many entities an agent sees if its view can
    be recomputed at any time, else 0: the cost of an effect grows with the views that show it.
    """

    def __init__(
        self,
        most: int,
        *,
        arrived: Callable[[Attachment, Sight | None], None],
        let_go: Callable[[Attachment], None],
        upkeep: Callable[[str], int] | None = None,
    ) -> None:
        self._most = most
        self._upkeep = upkeep
        self._arrived = arrived
        self._let_go = let_go
        self._agents: OrderedDict[str, Attachment] = OrderedDict()
        #: how many need an agent, be it attached already or not: it stays from the moment at which it is attached
        self._holds: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._agents)

    def __iter__(self) -> Iterator[Attachment]:
        return iter(self._agents.values())

    @property
    def in_use(self) -> bool:
        """True if an agent is in use."""
        return bool(self._holds) or any(each.in_use for each in self)

    def get(self, agent_id: str) -> Attachment | None:
        """Return an agent's attachment, if it is here."""
        found = self._agents.get(agent_id)
        if found is not None:
            self._agents.move_to_end(agent_id)
        return found

    def hold(self, agent_id: str, change: int) -> None:
        """Count one more (1) or one fewer (-1) user of an agent."""
        self._holds[agent_id] += change
        if self._holds[agent_id] <= 0:
            del self._holds[agent_id]

    @contextmanager
    def held(self, agent_id: str) -> Iterator[None]:
        """Need an agent until the end of the block."""
        self.hold(agent_id, 1)
        try:
            yield
        finally:
            self.hold(agent_id, -1)

    def add(self, attachment: Attachment) -> Attachment:
        """Keep an agent, with the deltas it has missed, and let others go where there are too many."""
        self._agents[attachment.agent_id] = attachment
        self._agents.move_to_end(attachment.agent_id)
        attachment.to_come.extend(attachment.missed())
        if not attachment.provisional:
            self._arrived(attachment, None)
        self._go_on(attachment)
        self.evict()
        return attachment

    def evict(self) -> int:
        """Detach agents that are not in use, the least recently used first, down to the limit; return how many."""
        surplus = len(self._agents) - self._most
        seen = 0 if self._upkeep is None else sum(map(self._upkeep, self._agents)) - _SEEN
        if surplus <= 0 and seen <= 0:
            return 0
        gone: list[Attachment] = []
        for each in self:
            if each.in_use or each.agent_id in self._holds:
                continue
            size = 0 if self._upkeep is None or seen <= 0 else self._upkeep(each.agent_id)
            if size or len(gone) < surplus:
                gone.append(each)
                seen -= size
        for attachment in gone:
            del self._agents[attachment.agent_id]
            self._let_go(attachment)
        return len(gone)

    def drop(self, agent_id: str) -> None:
        """Detach an agent even if it is in use; its readers are told."""
        attachment = self._agents.pop(agent_id, None)
        if attachment is not None:
            for subscription in list(attachment.subscriptions):
                subscription.close()
            attachment.to_come.clear()
            self._go_on(attachment)  # which stops its timer
            self._let_go(attachment)

    def close(self) -> None:
        """Detach all agents."""
        for agent_id in list(self._agents):
            self.drop(agent_id)

    def deliver(self, sighting: Sighting, size: int, sight: Sight | None = None) -> None:
        """Hand a new delta to the agent's readers; ``size`` is that of the effect that made it, in bytes."""
        agent_id, delta, delay = sighting
        attachment = self._agents.get(agent_id)
        if attachment is None:
            return
        now = asyncio.get_running_loop().time()
        deliver_at = attachment.keep(delta, now + delay, size, sight)
        for subscription in attachment.subscriptions:
            subscription.put(delta, deliver_at, size)
        if deliver_at <= now and not attachment.to_come:
            attachment.view_seq = delta["view_seq"]
            self._arrived(attachment, sight)
        else:
            attachment.to_come.append((deliver_at, delta["view_seq"], sight))
            self._go_on(attachment)

    def _go_on(self, attachment: Attachment) -> None:
        """Show an agent the deltas that are due, in order, and set a timer for the next one."""
        if attachment.timer is not None:
            attachment.timer.cancel()
            attachment.timer = None
        loop = asyncio.get_running_loop()
        to_come = attachment.to_come
        while to_come and self._agents.get(attachment.agent_id) is attachment:
            deliver_at, view_seq, sight = to_come[0]
            if deliver_at > loop.time():
                when = max(deliver_at, loop.time() + _SHORTEST)
                attachment.timer = loop.call_at(when, self._go_on, attachment)
                return
            to_come.popleft()
            attachment.view_seq = view_seq
            self._arrived(attachment, sight)
