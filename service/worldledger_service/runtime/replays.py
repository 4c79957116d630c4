"""Replays: what an agent could see between two moments, and which effect made a view, computed from the log alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from worldledger.errors import (
    FoldError,
    InvalidPolicyError,
    PolicyFailedError,
    SimulationError,
    UnknownAgentError,
    UnregisteredPolicyError,
)
from worldledger.genesis import GENESIS_SEQ
from worldledger.lru import Lru
from worldledger.staleness import Sight, is_news, shown_by
from worldledger.views import Views

if TYPE_CHECKING:
    from worldledger.folding import Fold
    from worldledger.observation import ObservationDelta, ObservedEvent, View
    from worldledger_service.store import Store


#: Effects up to which a replay runs on the event loop, and entities of a world up to which an agent's view is begun
#: there. More are for `Store.aside`.
_AT_ONCE: Final = 20
#: Effects before a seq that are looked at for the one that made the view there, before it is looked for.
BEFORE: Final = 20
#: Effects of the first stretch in which something is looked for backwards; each one after it has twice as many.
_FIRST: Final = 200
#: Most effects in which the last events are looked for.
MOST_LOOKED_BACK: Final = 10_000
#: Why an agent's policy may fail: by itself, or because this process cannot make it.
POLICY_ERRORS: Final = (PolicyFailedError, UnregisteredPolicyError, InvalidPolicyError)


class Seen(NamedTuple):
    """A delta, when it was to be delivered, by the wall clock (epoch seconds), and the bytes of its effect.

    ``sight`` is what it counts as where its agent's intents and generations are asked whether they are stale.
    """

    delta: ObservationDelta
    deliver_at: float
    size: int
    sight: Sight | None = None

    def on_loop(self) -> float:
        """Return the time by the event loop's clock: now, for what should have been delivered already."""
        return asyncio.get_running_loop().time() + max(self.deliver_at - time.time(), 0.0)


class Replay:
    """One agent's view at some seq of the log, and the way forward from there. It shares nothing with others.

    ``made_seq`` is the global_seq of the effect that made the view what it is: the last that gave the agent a delta,
    or the agent's registration. It is None where that lies before the replay, which has not looked there.
    """

    def __init__(self, store: Store, agent_id: str, views: Views, made_seq: int | None) -> None:
        self._store = store
        self._agent_id = agent_id
        self.began_at = views.seq
        self.made_seq = made_seq
        self.views = views

    @classmethod
    async def begin(
        cls,
        store: Store,
        world_id: str,
        agent_id: str,
        seq: int,
        *,
        fold: Fold | None = None,
        max_patch_ops: int | None = None,
    ) -> Replay:
        """Begin with the agent's view at a seq at which it was registered.

        A memory that the policy gives the agent is computed from its registration on; a fork's agents remember what
        they saw in its parent. A ``fold`` at that seq, if given, is used up. ``max_patch_ops``: see `Views`. Raises
        UnknownAgentError, PolicyFailedError, and the errors of `policy_from_spec` and `States.fold_at`.
        """
        if fold is None:
            fold = await store.states.fold_at(world_id, seq)
        known = fold.state.metadata["agents"].get(agent_id)
        if known is None:
            raise UnknownAgentError(agent_id, world_id)
        views, registered = Views(fold, max_patch_ops=max_patch_ops), known["registered_seq"]
        if registered < seq and remembers(views, agent_id):
            replay = await cls.begin(store, world_id, agent_id, registered, max_patch_ops=max_patch_ops)
            await replay.go(seq)
            replay.began_at = seq
            return replay
        fork_of = (await store.states.rules(world_id)).fork_of if seq == registered == GENESIS_SEQ else None
        if fork_of is not None and remembers(views, agent_id):
            older = await cls.begin(store, fork_of.world_id, agent_id, fork_of.global_seq)
            views.inherit(agent_id, older.views)
        else:
            await _attach(store, views, agent_id)
        return cls(store, agent_id, views, registered if registered == seq else None)

    @classmethod
    async def up_to(
        cls,
        store: Store,
        world_id: str,
        agent_id: str,
        seq: int,
        *,
        registered_seq: int,
        fold: Fold | None = None,
        max_patch_ops: int | None = None,
    ) -> Replay:
        """Begin a little before a seq, where the policy did not fail there, and go to it: then made_seq may be known.

        A ``fold`` from which to go, if given, is used up. Raises as `begin`.
        """
        start = max(seq - BEFORE, registered_seq) if fold is None else fold.seq
        try:
            replay = await cls.begin(store, world_id, agent_id, start, fold=fold, max_patch_ops=max_patch_ops)
            await replay.go(seq)
        except POLICY_ERRORS:
            return await cls.begin(store, world_id, agent_id, seq, max_patch_ops=max_patch_ops)
        return replay

    @property
    def seq(self) -> int:
        """The seq that it has reached."""
        return self.views.seq

    def view(self) -> View:
        """Return the agent's view here. Its view_seq is ``made_seq``, or where the replay began if unknown."""
        seq = self.began_at if self.made_seq is None else self.made_seq
        view = self.views.view(self._agent_id)
        return view if view.view_seq == seq else view.model_copy(update={"view_seq": seq})

    async def go(self, until: int, seen: Callable[[Seen], None] | None = None, *, digests: bool | None = None) -> None:
        """Advance to a seq that the log has, and report each delta on the way.

        Deltas that are not reported have no digest, and without ``digests`` none has. Raises PolicyFailedError,
        FoldError and the errors of `Reader.batches`; after StoreUnavailableError it can be called again.
        """
        world_id = self.views.fold.world_id
        wanted = seen is not None if digests is None else digests
        async with aclosing(self._store.reader.batches(world_id, after_seq=self.seq, until_seq=until)) as batches:
            async for batch in batches:
                texts = [row.text for row in batch]
                if len(texts) > _AT_ONCE:
                    found = await self._store.aside.run(partial(self._apply, texts, digests=wanted))
                else:
                    found = self._apply(texts, digests=wanted)
                for each in found:
                    self.made_seq = each.delta["view_seq"]
                    if seen is not None:
                        seen(each)
        if self.seq < until:
            what = f"world {world_id}: the effect at seq {self.seq + 1} is not in the log any more"
            raise FoldError(what, world_id=world_id)

    def _apply(self, texts: list[bytes], *, digests: bool) -> list[Seen]:
        found = []
        for text in texts:
            effect = orjson.loads(text)
            at = effect["wall_time"]
            for _, delta, delay in self.views.apply(effect, digests=digests):
                sight = Sight(delta["view_seq"], shown_by(delta, effect)) if is_news(effect, self._agent_id) else None
                found.append(Seen(delta, at + delay, len(text), sight))
        failed = self.views.failed.get(self._agent_id)
        if failed is not None:
            raise PolicyFailedError(self._agent_id, failed) from failed
        return found


def remembers(views: Views, agent_id: str) -> bool:
    """Return whether an agent's view depends on what it has seen before. Raises as `Replay.begin`."""
    with policys_errors(agent_id):
        return not views.registered_policy(agent_id).remove_operations


async def _attach(store: Store, views: Views, agent_id: str) -> None:
    with policys_errors(agent_id):
        if len(views.fold.state.entities) > _AT_ONCE:
            await store.aside.run(partial(views.attach, agent_id))
        else:
            views.attach(agent_id)


@contextmanager
def policys_errors(agent_id: str) -> Iterator[None]:
    """Raise PolicyFailedError for what a policy raises itself."""
    try:
        yield
    except SimulationError:
        raise
    except Exception as error:
        raise PolicyFailedError(agent_id, error) from error


async def observed_events(
    store: Store,
    world_id: str,
    agent_id: str,
    *,
    registered_seq: int,
    after_seq: int,
    until_seq: int,
    kinds: Collection[str] | None,
    limit: int,
) -> tuple[list[ObservedEvent], int]:
    """Return the events that an agent could see in a stretch of the log, and how far was looked.

    Begins where the agent was registered, if that is later. Raises as `Replay.begin` and `Replay.go`.
    """
    if after_seq >= until_seq:
        return [], after_seq
    start = max(after_seq, registered_seq)
    if start >= until_seq:
        return [], until_seq
    replay = await Replay.begin(store, world_id, agent_id, start)
    events: list[ObservedEvent] = []
    deltas: list[ObservationDelta] = []

    def seen(each: Seen) -> None:
        deltas.append(each.delta)

    while replay.seq < until_seq and len(events) < limit:
        await replay.go(min(replay.seq + 1000, until_seq), seen, digests=False)
        events += [event for delta in deltas for event in delta["events"] if kinds is None or event["kind"] in kinds]
        deltas.clear()
    if len(events) > limit:
        events = events[:limit]
        return events, events[-1]["global_seq"]
    return events, replay.seq


async def last_observed(
    store: Store, world_id: str, agent_id: str, seq: int, *, registered_seq: int, most: int
) -> tuple[list[ObservedEvent], int]:
    """Return the last events, at most so many, that an agent could see up to a seq, and after which seq was looked.

    Looks no further back than `MOST_LOOKED_BACK` effects, the agent's registration, or an effect for which its policy
    failed. Raises as `Reader.batches`.
    """
    events: list[ObservedEvent] = []
    looked_after = seq
    for after_seq, until_seq in stretches(seq, registered_seq):
        if len(events) >= most:
            break
        try:
            earlier, _ = await observed_events(
                store,
                world_id,
                agent_id,
                registered_seq=registered_seq,
                after_seq=after_seq,
                until_seq=until_seq,
                kinds=None,
                limit=until_seq - after_seq,
            )
        except POLICY_ERRORS:
            break
        events = [*earlier, *events]
        looked_after = after_seq
    return events[max(len(events) - most, 0) :], looked_after


def stretches(seq: int, end: int) -> Iterator[tuple[int, int]]:
    """Return stretches of a log, backwards from a seq: after which seq each begins, and with which it ends.

    Each has twice as many effects as the one before it; all have at most `MOST_LOOKED_BACK`, and none up to ``end``.
    """
    end = max(end, seq - MOST_LOOKED_BACK)
    length = _FIRST
    while seq > end:
        start = max(seq - length, end)
        yield start, seq
        seq, length = start, 2 * length


# -- origins: which effect made the view that an agent had at some seq of the log -------------------------
#
# It is the last one up to there that gave the agent a delta, or its registration if none did. The log does not say:
# what an agent sees of an effect is worked out by its policy. So it is looked for backwards, in stretches that become
# longer.


#: Results that are remembered of each world; the past does not change.
_REMEMBERED: Final = 1000


async def past_view(store: Store, world_id: str, agent_id: str, seq: int) -> View:
    """Return the view that an agent of a world had at a seq. Raises UnknownAgentError, and as `Origins.view`."""
    known = (await store.states.fold_at(world_id, seq)).state.metadata["agents"].get(agent_id)
    if known is None:
        raise UnknownAgentError(agent_id, world_id, at_seq=seq)
    return await Origins(store, world_id).view(agent_id, seq, registered_seq=known["registered_seq"])


class Origins:
    """Finds what made the views of one world's agents."""

    def __init__(self, store: Store, world_id: str) -> None:
        self._store = store
        self._world_id = world_id
        self._known: Lru[tuple[str, int], int] = Lru(_REMEMBERED)

    async def view(self, agent_id: str, seq: int, *, registered_seq: int) -> View:
        """Return the view that an agent had at a seq. Raises as `Replay.begin` and `Replay.go`."""
        replay = await Replay.up_to(self._store, self._world_id, agent_id, seq, registered_seq=registered_seq)
        made_seq = replay.made_seq
        if made_seq is None:
            made_seq = await self.find(agent_id, replay.began_at, registered_seq=registered_seq)
        return replay.view().model_copy(update={"view_seq": made_seq})

    async def find(self, agent_id: str, seq: int, *, registered_seq: int, most: int | None = None) -> int | None:
        """Return the global_seq of the effect that made the view that an agent had at a seq, at which it had one.

        Where its policy had failed before, that is the first effect after which it did not fail any more. Gives None
        if about ``most`` effects have been looked through for nothing. Raises as `Replay.begin` and `Replay.go`.
        """
        found = self._known.get((agent_id, seq))
        if found is None:
            found = await self._search(agent_id, seq, registered_seq, most)
        if found is not None:
            self._known[agent_id, seq] = found
        return found

    async def _search(self, agent_id: str, seq: int, registered_seq: int, most: int | None) -> int | None:
        #: from here to seq the policy does not fail, and shows nothing
        quiet = seq
        #: from here the policy fails before it comes to there
        failing: int | None = None
        stretch = _FIRST
        while quiet > registered_seq:
            if most is not None and seq - quiet >= most:
                return None
            start = max(quiet - stretch, registered_seq) if failing is None else (failing + quiet) // 2
            try:
                replay = await Replay.begin(self._store, self._world_id, agent_id, start)
                await replay.go(quiet)
            except POLICY_ERRORS:
                failing = start
            else:
                if replay.made_seq is not None:
                    return replay.made_seq
                quiet = start
                stretch *= 2
            if failing is not None and quiet - failing <= 1:
                return quiet
        return registered_seq
