"""Observing: which agents are attached here, and from where their observations go on."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Container, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import structlog

from worldledger.aio import SingleFlight, until_done
from worldledger.core_kinds import VIEW_DIGEST_KIND
from worldledger.deltas import beginning, whole
from worldledger.effects import EffectDraft, is_system_kind, own_draft
from worldledger.errors import (
    MomentNotFoundError,
    OverloadedError,
    PolicyFailedError,
    RequestConflictError,
    SimulationError,
    StoreUnavailableError,
    UnknownAgentError,
)
from worldledger.latency import longest_delay
from worldledger.near import near
from worldledger_service.runtime.attachments import Attachment, Attachments, Subscription
from worldledger_service.runtime.replays import POLICY_ERRORS, Origins, Replay, Seen, observed_events, remembers
from worldledger_service.store.event_log import EventLog

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig
    from worldledger.folding import Fold
    from worldledger.observation import ObservationDelta, ObservedEvent, View
    from worldledger.views import Sighting
    from worldledger_service.runtime.following import ViewFollower
    from worldledger_service.store import Store
    from worldledger_service.store.cursors import AgentCursors


# -- starts: states a little behind the head, from which the views of new agents begin -----------------------------

#: Most effects by which the state that is kept is folded forward; over more, a snapshot is the shorter way.
_APART: Final = 1000
#: Seconds for which it is kept after it was used.
_KEPT_SECONDS: Final = 5.0


class Starts:
    """Returns folds. Where many agents come at once, one state is read from the database, and copied for each."""

    def __init__(self, store: Store, world_id: str) -> None:
        self._store = store
        self._world_id = world_id
        self._kept: Fold | None = None
        self._lock = asyncio.Lock()
        self._forgetting: asyncio.TimerHandle | None = None

    async def fold(self, seq: int) -> Fold:
        """Return a fold of one's own at a seq. Raises as `States.fold_at`."""
        async with self._lock:
            kept = self._kept
            if kept is not None and kept.seq > seq:
                return await self._store.states.fold_at(self._world_id, seq)
            self._kept = None  # it is of no use any more where something goes wrong
            if kept is None or seq - kept.seq > _APART:
                kept = await self._store.states.fold_at(self._world_id, seq)
            elif kept.seq < seq:
                batches = self._store.reader.batches(self._world_id, after_seq=kept.seq, until_seq=seq)
                async with aclosing(batches):
                    async for batch in batches:
                        await self._store.aside.run(partial(kept.feed, batch))
            copy = await self._store.aside.run(kept.copy)
            self._kept = kept
            self._forget_later()
            return copy

    def close(self) -> None:
        """Keep nothing."""
        self._kept = None
        if self._forgetting is not None:
            self._forgetting.cancel()

    def _forget_later(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._forgetting = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self.close)


# -- acknowledging: how far agents have come, kept for a moment and written together -------------------------------

#: Seconds between two writings.
_EVERY: Final = 1.0

log = structlog.get_logger("worldledger.runtime")


class Acknowledged:
    """The cursors of one world's agents: what was acknowledged here counts at once, and is written a little later."""

    def __init__(self, cursors: AgentCursors, world_id: str) -> None:
        self._store = cursors
        self._world_id = world_id
        self._unwritten: dict[str, int] = {}
        self._writing: asyncio.Task[None] | None = None

    async def read(self, agent_id: str) -> int:
        """Return the view_seq that an agent has acknowledged last, 0 if none. Raises StoreUnavailableError."""
        written = await self._store.read(self._world_id, [agent_id])
        return max(written.get(agent_id, 0), self._unwritten.get(agent_id, 0))

    def move(self, agent_id: str, view_seq: int) -> None:
        """Note that an agent has acknowledged a view that follows the one before."""
        self._unwritten[agent_id] = view_seq
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_later())

    async def close(self) -> None:
        """Write what is not written yet; where the database is away, it is given up."""
        if self._writing is not None:
            self._writing.cancel()
            await until_done([self._writing])
        with suppress(SimulationError):
            await self._write()

    async def _write_later(self) -> None:
        try:
            while self._unwritten:
                await asyncio.sleep(_EVERY)
                try:
                    await self._write()
                except SimulationError as error:
                    log.debug("cursors wait for the database", world_id=self._world_id, error=error.message)
        finally:
            self._writing = None

    async def _write(self) -> None:
        writing = dict(self._unwritten)
        await self._store.move(self._world_id, writing)
        for agent_id, view_seq in writing.items():
            if self._unwritten.get(agent_id) == view_seq:
                del self._unwritten[agent_id]


# -- digests: now and then the log is told what agents were shown --------------------------------------------------

#: Longest req_id of a ViewDigest before the agent's name is digested.
_LONGEST: Final = 150


class Digests:
    """Puts out a ViewDigest for each agent whose view has come past another ``every`` effects; 0: for none.

    Besides, for each agent that observes an effect of a kind that the world's ruleset names in ``digest_after``. The
    service's own effects, these among them, do not bring the next one nearer by more than half.
    """

    def __init__(self, attachments: Attachments, outbox: Outbox, every: int) -> None:
        self._attachments = attachments
        self._outbox = outbox
        self._every = every
        #: how many effects there were that are not the service's own
        self._effects = 0

    def note(self, kind: str, sightings: Sequence[Sighting], digest_after: Container[str]) -> None:
        """Note what agents see of an effect of this kind."""
        every = self._every
        if not every:
            return
        if not is_system_kind(kind):
            self._effects += 1
        at_once = kind in digest_after
        for agent_id, delta, _ in sightings:
            attachment = self._attachments.get(agent_id)
            if attachment is None or attachment.provisional:
                continue
            view_seq = delta["view_seq"]
            if not at_once:
                since = self._effects - attachment.effects_digested
                if view_seq // every == attachment.digested // every or since < every // 2:
                    continue
            attachment.digested = view_seq
            attachment.effects_digested = self._effects
            self._outbox.put(digest_draft(agent_id, view_seq, delta["context_digest"]))


def digest_draft(agent_id: str, view_seq: int, digest: str) -> EffectDraft:
    """Return the draft of a ViewDigest: of several processes that show the agent this view, one writes it."""
    named = agent_id if len(agent_id) <= _LONGEST else sha256(agent_id.encode()).hexdigest()
    payload = {"agent_id": agent_id, "at_seq": view_seq, "digest": digest}
    return own_draft(VIEW_DIGEST_KIND, payload, f"view:{named}:{view_seq}")


# -- observing -----------------------------------------------------------------------------------------------------

#: Effects before the present that are looked through, to attach an agent, for the one that made its view.
_LOOKED_BACK: Final = 100
#: Effects beyond which what an agent has missed is not made one by one: a reader is sent the whole view.
_FAR: Final = 2_000
#: Agents that are attached at the same time; of those that remember what they have seen, one. Each has a state of its
#: own meanwhile.
_AT_ONCE: Final = 4

#: Effects up to now of which it is told what an agent was shown.
_SHOWN: Final = 5000


class Observing:
    """Attaches agents, subscribes their readers, and keeps their cursors."""

    def __init__(
        self, store: Store, follower: ViewFollower, attachments: Attachments, outbox: Outbox, config: OrchestratorConfig
    ) -> None:
        self._store = store
        self._follower = follower
        self._world_id = follower.world_id
        self._attachments = attachments
        #: keeps an agent attached, once it is, until the end of the block
        self.held = attachments.held
        self._most = config.max_queued_deltas
        self._max_patch_ops = config.max_patch_ops
        self._digests = Digests(attachments, outbox, config.view_digest_every)
        self._origins = Origins(store, follower.world_id)
        self._starts = Starts(store, follower.world_id)
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._room_to_remember = asyncio.Semaphore(1)
        #: the replays of agents that remember, on their way from the registration, that an outage has interrupted
        self._interrupted: dict[str, Replay] = {}
        self._attaching: SingleFlight[str, Attachment] = SingleFlight()
        self._acknowledged = Acknowledged(store.cursors, follower.world_id)

    @property
    def in_use(self) -> bool:
        """True while an agent is being attached."""
        return bool(self._attaching)

    # -- attaching -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def attached(self, agent_id: str) -> AsyncIterator[Attachment]:
        """Return an agent's attachment, and have it stay until the end of the block. Raises as `attach`."""
        with self.held(agent_id):
            yield await self.attach(agent_id)

    async def attach(self, agent_id: str) -> Attachment:
        """Return an agent's attachment, which may be evicted soon unless it is `held`.

        If the agent is not attached, its view is computed as it is now. Raises UnknownAgentError, after a look at the
        log, and PolicyFailedError.
        """
        found = self._attachments.get(agent_id)
        if found is not None and not found.provisional:
            return found
        return await self._attaching.join(agent_id, partial(self._attach, agent_id))

    def attach_now(self, agent_id: str) -> Attachment:
        """Return an agent's attachment without waiting: where it is not here, a provisional one of this moment's view.

        It has to be `held`. Raises UnknownAgentError, and PolicyFailedError.
        """
        found = self._attachments.get(agent_id)
        if found is not None:
            return found
        views = self._follower.views
        try:
            view = views.attach(agent_id)
        except SimulationError:
            raise
        except Exception as error:
            raise PolicyFailedError(agent_id, error) from error
        self._attaching.begin(agent_id, partial(self._attach, agent_id))
        return self._attachments.add(Attachment(agent_id, view.view_seq, provisional=True))

    async def _attach(self, agent_id: str) -> Attachment:
        follower = self._follower
        if agent_id not in self.agents:
            await follower.catch_up()
        known = self.agents.get(agent_id)
        if known is None:
            raise UnknownAgentError(agent_id, self._world_id, near=near(agent_id, self.agents))
        acknowledged = max(await self._acknowledged.read(agent_id), known["registered_seq"])
        if acknowledged > follower.seq:  # another process has shown the agent what this one has yet to see
            await follower.catch_up()
            acknowledged = min(acknowledged, follower.seq)
        remembering = self._views_remember(agent_id)
        async with self._room_to_remember if remembering else self._room:
            start = await self._start(agent_id, acknowledged)
            try:
                replay = await (self._remembered if remembering else self._begun)(agent_id, start)
                attachment = await self._attachment(agent_id, replay, acknowledged)
            except PolicyFailedError:
                # The policy may have failed at something that is over, or be another one by now.
                replay = await Replay.up_to(
                    self._store,
                    self._world_id,
                    agent_id,
                    follower.seq,
                    registered_seq=self._registered(agent_id),
                    max_patch_ops=self._max_patch_ops,
                )
                attachment = await self._attachment(agent_id, replay, None)
            # Nothing has been waited for since the replay came to where the views are.
            try:
                follower.views.adopt(agent_id, replay.views)
            except Exception as error:
                self._attachments.drop(agent_id)
                raise PolicyFailedError(agent_id, error) from error
            return self._attachments.add(attachment)

    def _views_remember(self, agent_id: str) -> bool:
        try:
            return remembers(self._follower.views, agent_id)
        except POLICY_ERRORS:
            return False  # whatever is the matter is raised where the view is begun

    async def _start(self, agent_id: str, acknowledged: int) -> int:
        """Return the seq from which an agent's deltas are made before it is attached.

        They tell which effect made the view that it has, if it is one of the last few: an agent that has seen nothing
        for longer is not worth reading the log before it may act. And what is still on its way to it has to be known.
        """
        now = self._follower.seq
        registered_seq = self._registered(agent_id)
        start = now - _LOOKED_BACK
        try:
            delay = longest_delay(self._follower.views.registered_policy(agent_id).latency_model)
        except Exception:  # noqa: BLE001 - as above
            delay = 0.0
        if delay:
            try:
                world = await self._store.world(self._world_id)
                due = await self._store.states.seq_at(world, wall_time=time.time() - delay)
            except MomentNotFoundError:
                due = registered_seq
            start = min(start, max(due, acknowledged, now - _FAR))
        return max(start, registered_seq)

    async def _attachment(self, agent_id: str, replay: Replay, acknowledged: int | None) -> Attachment:
        """Make an agent's attachment as of now, with the deltas that it is to see after the replay's seq."""
        # If it is not known which effect made the view, it counts as made here until it is requested by a seq.
        made_seq = replay.made_seq
        attachment = Attachment(
            agent_id,
            replay.seq if made_seq is None else made_seq,
            acknowledged=acknowledged,
            sure=made_seq is not None,
        )

        def keep(each: Seen) -> None:
            attachment.keep(each.delta, each.on_loop(), each.size, each.sight)

        while replay.seq < self._follower.seq:
            await replay.go(self._follower.seq, keep)
        return attachment

    async def _begun(self, agent_id: str, start: int) -> Replay:
        fold = await self._starts.fold(start)
        return await Replay.begin(
            self._store, self._world_id, agent_id, start, fold=fold, max_patch_ops=self._max_patch_ops
        )

    async def _remembered(self, agent_id: str, start: int) -> Replay:
        """Replay the view of an agent that remembers what it has seen, from its registration up to ``start``."""
        replay = self._interrupted.pop(agent_id, None)
        if replay is None or replay.seq > start:
            registered_seq = self._registered(agent_id)
            replay = await Replay.begin(
                self._store, self._world_id, agent_id, registered_seq, max_patch_ops=self._max_patch_ops
            )
        try:
            await replay.go(start)
        except StoreUnavailableError:
            self._interrupted[agent_id] = replay
            raise
        return replay

    def _registered(self, agent_id: str) -> int:
        registered_seq: int = self.agents[agent_id]["registered_seq"]
        return registered_seq

    @property
    def agents(self) -> dict[str, dict[str, Any]]:
        """The registration of every agent, as far as this process has followed the world."""
        agents: dict[str, dict[str, Any]] = self._follower.views.fold.state.metadata["agents"]
        return agents

    def let_go(self, attachment: Attachment) -> None:
        """Note that an agent is no longer attached."""
        with suppress(SimulationError):  # the following may have ended
            self._follower.views.detach(attachment.agent_id)

    # -- reading -------------------------------------------------------------------------------------------

    def subscribe_here(self, agent_id: str, view_seq: int | None, *, with_view: bool) -> Subscription | None:
        """Do as `subscribe` without asking the database; return None where that has to be."""
        attachment = self._attachments.get(agent_id)
        if attachment is None or attachment.provisional:
            return None
        registered_seq = self._registered(agent_id)
        if view_seq is not None and view_seq < registered_seq and not with_view:
            return None
        start = max(attachment.view_seq if view_seq is None else view_seq, registered_seq)
        view = self._kept_view(attachment, start) if with_view else None
        if view is not None:
            start = view.view_seq
        kept = attachment.after(start)
        if start > self._follower.seq or kept is None or (with_view and view is None):
            return None
        subscription = self._subscription(agent_id, start, view)
        for sent in kept:
            subscription.put(sent.delta, sent.deliver_at, sent.size)
        attachment.subscriptions.add(subscription)
        return subscription

    async def subscribe(self, agent_id: str, view_seq: int | None, *, with_view: bool) -> Subscription:
        """Return the deltas after a view (None: the agent's latest), with that view if it is asked for.

        Before its registration an agent has no view; after that comes a delta with the whole of its first one.
        """
        async with self.attached(agent_id) as attachment:
            asked = attachment.view_seq if view_seq is None else view_seq
            start = max(asked, self._registered(agent_id))
            if start > self._follower.seq:
                await self._follower.catch_up()
            if start > self._follower.seq:
                raise MomentNotFoundError(
                    f"view_seq {start} lies beyond the world's head",
                    global_seq=start,
                    head_seq=self._follower.seq,
                )
            from_nothing = asked < start and not with_view
            view = await self._view_at(attachment, start) if with_view else None
            if view is not None:  # nothing was shown to the agent between the two
                start = view.view_seq
            subscription = self._subscription(agent_id, asked if from_nothing else start, view)
            if from_nothing:
                with suppress(PolicyFailedError):
                    subscription.put(beginning(await self._view_at(attachment, start)), 0.0)
            await self._fill(attachment, subscription, start, far=from_nothing and not len(subscription))
            return subscription

    async def resume(self, agent_id: str, view_seq: int | None) -> Subscription:
        """Return the deltas after a view (None: the one that the agent acknowledged), with that view."""
        async with self.attached(agent_id) as attachment:
            start = attachment.acknowledged if view_seq is None else view_seq
            return await self.subscribe(agent_id, start, with_view=True)

    def _subscription(self, agent_id: str, start: int, view: View | None) -> Subscription:
        return Subscription(
            agent_id,
            start,
            view,
            most=self._most,
            max_patch_ops=self._max_patch_ops,
            source=lambda: self._follower.views,
            on_close=self._closed,
        )

    async def _fill(self, attachment: Attachment, subscription: Subscription, start: int, *, far: bool) -> None:
        """Queue what came after ``start`` (if it is ``far``, the whole view), and have it fed from there on."""
        kept = None if far else attachment.after(start)
        far = far or (kept is None and self._follower.seq - start > _FAR)
        if kept is None and not far:
            far = not await self._replay_into(subscription, start)
        # From here on nothing waits, so that no effect is missed or told twice.
        views = self._follower.views  # raises where the world was closed meanwhile
        if self._attachments.get(attachment.agent_id) is not attachment:
            raise PolicyFailedError(attachment.agent_id, RuntimeError("the agent was let go meanwhile"))
        for sent in kept or ():
            subscription.put(sent.delta, sent.deliver_at, sent.size)
        if far and attachment.made_seq > min(start, subscription.view_seq):
            view = views.view(attachment.agent_id).model_copy(update={"view_seq": attachment.made_seq})
            subscription.put(whole(view, stands_for=self._follower.seq - start), attachment.last_at)
        attachment.subscriptions.add(subscription)

    async def _replay_into(self, subscription: Subscription, start: int) -> bool:
        """Queue what the agent is to see after ``start``; return False, with nothing queued, where its policy fails."""
        source = subscription.source
        try:
            replay = await Replay.begin(
                self._store, self._world_id, subscription.agent_id, start, max_patch_ops=self._max_patch_ops
            )
            subscription.source = lambda: replay.views
            while replay.seq < self._follower.seq:
                await replay.go(
                    self._follower.seq, lambda each: subscription.put(each.delta, each.on_loop(), each.size)
                )
        except PolicyFailedError:
            subscription.clear()
            return False
        finally:
            subscription.source = source
        return True

    def acknowledged(self, agent_id: str) -> int | None:
        """Return the view_seq that an agent which is attached here has acknowledged; None if it is not."""
        attachment = self._attachments.get(agent_id)
        return None if attachment is None or attachment.provisional else attachment.acknowledged

    def view_here(self, agent_id: str, at_seq: int | None) -> View | None:
        """Do as `view` without asking the database; return None where that has to be."""
        attachment = self._attachments.get(agent_id)
        if attachment is None or attachment.provisional or (at_seq is not None and attachment.origin(at_seq) is None):
            return None
        return self._kept_view(attachment, attachment.view_seq if at_seq is None else at_seq)

    def _kept_view(self, attachment: Attachment, seq: int) -> View | None:
        """Return the view that an agent had at a seq, if that is the one that is kept here."""
        views = self._follower.views
        if seq != attachment.made_seq and (seq > views.seq or attachment.origin(seq) != attachment.made_seq):
            return None
        view = views.view(attachment.agent_id)
        made_seq = attachment.made_seq
        return view if view.view_seq == made_seq else view.model_copy(update={"view_seq": made_seq})

    async def view(self, agent_id: str, at_seq: int | None) -> View:
        """Return an agent's view, the latest that it may know, or the one that it had at a seq."""
        if at_seq is None:
            async with self.attached(agent_id) as attachment:
                return await self._view_at(attachment, attachment.view_seq)
        if at_seq > self._follower.seq:
            await self._follower.catch_up()
        if not 1 <= at_seq <= self._follower.seq:
            raise MomentNotFoundError(
                f"there is no seq {at_seq} in this world",
                global_seq=at_seq,
                head_seq=self._follower.seq,
            )
        known = self.agents.get(agent_id)
        if known is None:
            raise UnknownAgentError(agent_id, self._world_id, near=near(agent_id, self.agents))
        if at_seq < (registered_seq := known["registered_seq"]):
            raise UnknownAgentError(agent_id, self._world_id, at_seq=at_seq, registered_seq=registered_seq)
        here = self._attachments.get(agent_id)
        if here is not None and here.origin(at_seq) is not None:
            return await self._view_at(here, at_seq)
        view = await self._origins.view(agent_id, at_seq, registered_seq=known["registered_seq"])
        if here is not None:
            here.found(at_seq, view.view_seq)
        return view

    async def _view_at(self, attachment: Attachment, seq: int) -> View:
        """Return the view that an attached agent had at a seq; its view_seq is that of the effect which made it."""
        agent_id = attachment.agent_id
        if self._attachments.get(agent_id) is attachment:
            view = self._kept_view(attachment, seq)
            if view is not None:
                return view
        made_seq = attachment.origin(seq)
        if made_seq is None and seq == attachment.view_seq:
            made_seq = seq  # as which it counts
        if made_seq is None:
            return await self._origins.view(agent_id, seq, registered_seq=self._registered(agent_id))
        view = (await Replay.begin(self._store, self._world_id, agent_id, made_seq)).view()
        return view if view.view_seq == made_seq else view.model_copy(update={"view_seq": made_seq})

    async def shown_since(self, agent_id: str, seq: int) -> list[ObservationDelta]:
        """Return what an agent was shown after a seq, up to now; of very much, the last of it. Raises as `view`."""
        async with self.attached(agent_id) as attachment:
            until = attachment.view_seq
            start = max(seq, self._registered(agent_id), until - _SHOWN)
            kept = attachment.after(start)
            if kept is not None:
                return [sent.delta for sent in kept if sent.delta["view_seq"] <= until]
            found: list[ObservationDelta] = []
            if start < until:
                replay = await Replay.begin(self._store, self._world_id, agent_id, start)
                await replay.go(until, lambda each: found.append(each.delta))
            return found

    async def events(
        self, agent_id: str, after_seq: int, until_seq: int | None, kinds: Collection[str] | None, limit: int
    ) -> tuple[list[ObservedEvent], int]:
        """Return events that the agent could see; see `worldledger_service.runtime.replays.observed_events`."""
        async with self.attached(agent_id) as attachment:
            # Deltas that are still on their way are not known to the agent yet.
            due = self._follower.seq if attachment.view_seq == attachment.made_seq else attachment.view_seq
            return await observed_events(
                self._store,
                self._world_id,
                agent_id,
                registered_seq=self._registered(agent_id),
                after_seq=after_seq,
                until_seq=due if until_seq is None else min(until_seq, due),
                kinds=kinds,
                limit=limit,
            )

    def _closed(self, subscription: Subscription) -> None:
        attachment = self._attachments.get(subscription.agent_id)
        if attachment is not None:
            attachment.subscriptions.discard(subscription)

    # -- cursors and digests -------------------------------------------------------------------------------

    def acknowledge(self, agent_id: str, view_seq: int) -> None:
        """Note that an agent has a view; it is written with others, a little later."""
        attachment = self._attachments.get(agent_id)
        if attachment is None or not attachment.acknowledged < view_seq <= attachment.made_seq:
            return
        attachment.acknowledged = view_seq
        self._acknowledged.move(agent_id, view_seq)

    def seen(self, kind: str, sightings: Sequence[Sighting]) -> list[str]:
        """Do what follows from an effect of this kind besides its delivery; return the agents that had to be let go.

        A ViewDigest is put out for each agent for which one is due (`worldledger_service.runtime.observing`). An agent
        whose policy has failed is not attached any more, and its readers are told.
        """
        self._digests.note(kind, sightings, self._follower.views.fold.ruleset.digest_after)
        failed = self._follower.views.failed
        return self._detach_failed(failed) if failed else []

    def _detach_failed(self, failed: dict[str, Exception]) -> list[str]:
        agents = list(failed)
        for agent_id in agents:
            cause = failed.pop(agent_id)
            why = f"{type(cause).__name__}: {cause}"
            log.warning("an agent is let go", world_id=self._world_id, agent_id=agent_id, error=why)
            self._attachments.drop(agent_id)
        return agents

    async def close(self) -> None:
        """Close all readers, and write the cursors that are not written yet."""
        self._attachments.close()
        await self._attaching.close()
        self._starts.close()
        self._interrupted.clear()
        await self._acknowledged.close()


# -- the outbox: effects of the service's own that follow what has happened, in order, without being waited for


#: Most drafts written by one call.
_MOST_AT_ONCE: Final = 200
#: Most drafts that wait; beyond, the oldest are let go and the log has a gap in what is told of generations.
_MOST: Final = 20_000
#: Seconds between two tries while the database is away.
_PAUSE: Final = 0.5


class Outbox:
    """Appends the service's own effects to one world, in the order in which they were put in."""

    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log
        self._waiting: deque[EffectDraft] = deque()
        #: those that are being written
        self._taken: deque[EffectDraft] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closing = self._closed = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._taken)

    def put(self, draft: EffectDraft) -> None:
        """Write an effect later, without waiting or failing here. A closed outbox drops it."""
        if self._closed:
            log.debug("an effect comes too late to be written", kind=draft["kind"])
            return
        self._waiting.append(draft)
        if len(self._waiting) > _MOST:
            lost = self._waiting.popleft()
            log.warning("an effect is let go: the database is away for too long", kind=lost["kind"])
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was put in has been written, or given up, at most ``timeout`` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._task is not None:
                    await asyncio.wait([self._task])

    async def close(self, patience: float = 5.0) -> None:
        """Write what waits, if that does not take long (seconds); nothing is written any more afterwards."""
        self._closing = True
        try:
            if self._task is not None:
                await asyncio.wait([self._task], timeout=patience)
        finally:
            self._closed = True
            if self._task is not None:
                self._task.cancel()
                await until_done([self._task])

    async def _write(self) -> None:
        try:
            while self._waiting or self._taken:
                while self._waiting and len(self._taken) < _MOST_AT_ONCE:
                    self._taken.append(self._waiting.popleft())
                try:
                    await self._append()
                except (StoreUnavailableError, OverloadedError):
                    if self._closing:
                        return
                    await asyncio.sleep(_PAUSE)
        finally:
            self._task = None

    async def _append(self) -> None:
        """Write what is taken: together, or, where that is refused, one by one."""
        if await self._try(list(self._taken)):
            self._taken.clear()
        while self._taken:
            await self._try([self._taken[0]])
            self._taken.popleft()

    async def _try(self, drafts: Sequence[EffectDraft]) -> bool:
        """Return whether these could be written together. A single one that is refused is dropped."""
        try:
            await self._log.append_all(drafts, system=True)
        except (StoreUnavailableError, OverloadedError):
            raise
        except Exception as error:
            if len(drafts) > 1:
                return False
            kind = drafts[0]["kind"]
            if isinstance(error, RequestConflictError):
                # An effect with a req_id is the same in every process that writes it: one of them is wrong.
                log.warning("another process has written something else", kind=kind, req_id=drafts[0].get("req_id"))
            elif isinstance(error, SimulationError):
                log.warning("an effect of the service's own is refused", kind=kind, error=error.message)
            else:
                log.exception("an effect of the service's own could not be written", kind=kind)
        return True
