"""Frames of worlds, and of the views of their agents: exactly, block by block, or coarsely, where states are kept.

What frames are is in `worldledger.frames`. A block is folded on demand, at little more than the cost of its effects.
Coarse frames of a whole world are never folded: they are the snapshots (`worldledger_service.store.snapshots`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import Z_SYNC_FLUSH, compressobj

import orjson

from worldledger.chain import Finding, Position, StoredEffect, Verifier
from worldledger.deltas import PARTS
from worldledger.errors import TamperedError
from worldledger.frames import StateFrames, Steps, ViewFrames, nearest, without_told
from worldledger.genesis import GENESIS_SEQ
from worldledger.views import Views
from worldledger.world import WorldState
from worldledger_service.runtime.moments import not_registered
from worldledger_service.runtime.replays import BEFORE, Origins, Replay, remembers
from worldledger_service.store.snapshots import take

if TYPE_CHECKING:
    from worldledger.folding import Fold
    from worldledger.observation import View
    from worldledger_service.store import Store
    from worldledger_service.store.snapshots import Base, Taken

#: Most coarse frames.
MOST_FRAMES: Final = 1000
#: Effects before an agent's block that are looked through for the one that made its view: fewer than it has itself.
_LOOKED_BACK: Final = 600
#: Bytes of effects after which a block ends early.
_BLOCK_BYTES: Final = 8 * 1024 * 1024
#: Bytes that the patches of coarse frames may take, compressed; about as much comes for the rest of an answer.
_COARSE_BYTES: Final = 900 * 1024
#: How hard it is tried to compress them, to know how many fit: as hard as answers are compressed.
_COMPRESSION: Final = 3
#: Coarse frames after which it is estimated how many fit, and bytes of states that are read at once.
_SAMPLE: Final = 4
_READ_BYTES: Final = 8 * 1024 * 1024


class Keyframe(NamedTuple):
    """The state at the beginning of frames, or of an agent the view; ``made_seq``: what made that, if it is known."""

    global_seq: int
    state: Taken | None
    told: dict[str, Any]
    view: View | None = None
    made_seq: int | None = None


class Frames(NamedTuple):
    """Frames: ``to_seq`` is the last seq that they tell of, ``every`` how far they are apart, ``columns`` are JSON."""

    keyframe: Keyframe
    to_seq: int
    every: int
    columns: bytes


# -- blocks --------------------------------------------------------------------------------------------------


async def block(store: Store, world_id: str, first: int, last: int) -> Frames:
    """Return the frames of a world after the state at ``first``, one for each effect up to ``last``, which it has.

    They end earlier if the effects are large. Raises as `States.fold_at`.
    """
    base = await store.states.base_at(world_id, first)

    def begin() -> tuple[Taken, StateFrames]:
        taken = take(base.fold, base.checksum)
        return taken, StateFrames(base.fold, taken.text)

    taken, frames = await store.aside.run(begin)
    keyframe = Keyframe(first, taken, _told(base.fold.state))
    verifier = Verifier(world_id, start=Position(first, base.checksum))

    def feed(rows: Sequence[StoredEffect]) -> None:
        if not verifier.feed_chain(rows):
            assert verifier.finding is not None  # noqa: S101 - it says why
            raise verifier.finding.error()
        frames.feed(rows)

    reached = await _fed(store, world_id, first, last, feed)
    return Frames(keyframe, reached, 1, await store.aside.run(lambda: orjson.dumps(frames.columns())[1:-1]))


async def view_block(store: Store, world_id: str, agent_id: str, first: int, last: int) -> Frames:
    """Return the frames of an agent's view after ``first``, one for each effect up to ``last`` that changes it.

    They begin where the agent is registered, if that is later. Raises UnknownAgentError if it is not by ``last``, and
    as `Replay.begin` and `Replay.go`.
    """
    fold = await store.states.fold_at(world_id, max(first - BEFORE, GENESIS_SEQ))
    first = max(await _registered(store, fold, agent_id, first, last), first)
    registered_seq = fold.state.metadata["agents"][agent_id]["registered_seq"]
    replay = await Replay.up_to(store, world_id, agent_id, first, registered_seq=registered_seq, fold=fold)
    made = replay.made_seq
    if made is None:
        origins = Origins(store, world_id)
        made = await origins.find(agent_id, replay.began_at, registered_seq=registered_seq, most=_LOOKED_BACK)
    keyframe = Keyframe(first, None, {}, replay.views.view(agent_id), made)
    frames = ViewFrames(replay.views, agent_id)
    reached = await _fed(store, world_id, first, last, frames.feed)
    return Frames(keyframe, reached, 1, await store.aside.run(lambda: orjson.dumps(frames.columns())[1:-1]))


async def _fed(
    store: Store, world_id: str, after: int, last: int, feed: Callable[[Sequence[StoredEffect]], None]
) -> int:
    """Feed the effects after a seq up to another, or so many bytes of them, beside the event loop; return the last."""
    size = 0
    if after == last:
        return after
    async with aclosing(store.reader.batches(world_id, after_seq=after, until_seq=last)) as batches:
        async for batch in batches:
            try:
                await store.aside.run(partial(feed, batch))
            except orjson.JSONDecodeError:
                raise await store.aside.run(partial(_unreadable, world_id, batch)) from None
            size += sum(len(row.text) for row in batch)
            after = batch[-1].global_seq
            if size >= _BLOCK_BYTES:
                return after
    if after < last:
        what = f"world {world_id}, seq {after + 1}: missing from the log; run `worldledger verify`"
        raise TamperedError(what, world_id=world_id, global_seq=after + 1, what="missing")
    return last


def _unreadable(world_id: str, rows: Sequence[StoredEffect]) -> TamperedError:
    """Return the error that names the first effect whose text cannot be read; one of these is."""
    seq, what = rows[0].global_seq, "cannot be read"
    for row in rows:
        try:
            orjson.loads(row.text)
        except ValueError as error:
            seq, what = row.global_seq, f"{error}"
            break
    return Finding(world_id, seq, f"the stored text is not an effect ({what})").error()


async def _registered(store: Store, fold: Fold, agent_id: str, first: int, last: int) -> int:
    """Move a fold to where an agent is registered, if that is later; return its seq."""

    def feed(rows: Sequence[StoredEffect]) -> bool:
        for row in rows:
            fold.feed((row,))
            if agent_id in fold.state.metadata["agents"]:
                return True
        return False

    if agent_id in fold.state.metadata["agents"]:
        return fold.seq
    async with aclosing(store.reader.batches(fold.world_id, after_seq=fold.seq, until_seq=last)) as batches:
        async for batch in batches:
            if await store.aside.run(partial(feed, batch)):
                return fold.seq
    head_seq = (await store.world(fold.world_id)).head_seq
    raise await not_registered(store, fold.world_id, agent_id, first, head_seq)


def _told(state: WorldState) -> dict[str, Any]:
    return {"sim_time": state.metadata["last_effect_time"], "kind": state.metadata["last_effect_kind"]}


# -- coarse frames -------------------------------------------------------------------------------------------


class RemembersError(Exception):
    """Coarse frames of an agent that remembers what it has seen: its view does not follow from a state alone."""


async def kept_places(store: Store, world_id: str, first: int, last: int) -> dict[int, int]:
    """Return where coarse frames of a range can be: seq -> bytes of the state; 0 for the genesis, which is folded."""
    places = dict(await store.states.places(world_id, first, last))
    return {GENESIS_SEQ: 0, **places} if not places or min(places) > first else places


async def coarse(
    store: Store,
    world_id: str,
    places: Mapping[int, int],
    moments: range,
    agent_id: str | None = None,
) -> Frames:
    """Return frames of a world or of an agent's view, at the nearest of the ``places`` (`kept_places`) to each moment.

    If that would be too large they are farther apart. Raises RemembersError, UnknownAgentError for an agent that was
    registered at none of these places, and as `States.fold_at`.
    """
    while True:
        seqs = nearest([*places], moments)
        found = _Coarse(store, world_id, agent_id, len(seqs))
        async with aclosing(_states(store, world_id, {seq: places[seq] for seq in seqs})) as states:
            async for base in states:
                if not await found.add(base):
                    break
        if found.fits:
            return await found.frames(moments.step)
        moments = moments[:: -(-len(seqs) // found.most)]


async def _states(store: Store, world_id: str, places: Mapping[int, int]) -> AsyncGenerator[Base, None]:
    """Yield the states that are kept at these places."""
    waiting: dict[int, int] = {}
    for seq, size in places.items():
        if size == 0:
            yield await store.states.base_at(world_id, seq)
            continue
        waiting[seq] = size
        if sum(waiting.values()) >= _READ_BYTES:
            for base in await store.states.kept(world_id, [*waiting]):
                yield base
            waiting.clear()
    for base in await store.states.kept(world_id, [*waiting]) if waiting else ():
        yield base


class _Coarse:
    """Frames that are made of states far apart, as long as they are not too large."""

    def __init__(self, store: Store, world_id: str, agent_id: str | None, count: int) -> None:
        #: how many frames fit, as far as is known
        self.most = count
        self._store = store
        self._world_id = world_id
        self._agent_id = agent_id
        self._count = count
        self._seq = GENESIS_SEQ
        #: the bytes of the frames so far, about as compressed as they will be
        self._size = 0
        self._compressing = compressobj(_COMPRESSION)
        self._keyframe: Keyframe | None = None
        self._steps: Steps | None = None
        self._columns: dict[str, list[Any]] = {"seq": []} if agent_id else {"seq": [], "sim_time": [], "kind": []}

    @property
    def fits(self) -> bool:
        """Whether all frames fit."""
        return self.most >= self._count

    async def add(self, base: Base) -> bool:
        """Add a state; return whether more may be added."""
        keyframe, value = await self._looked(base)
        if value is None:
            return True
        if self._steps is None:
            self._keyframe, self._steps = keyframe, Steps(value)
            return True
        await self._store.aside.run(partial(self._step, self._steps, value))
        told = {"seq": keyframe.global_seq, **keyframe.told}
        for name, column in self._columns.items():
            column.append(told[name])
        done = self._steps.count
        if done >= _SAMPLE and self._size * self._count > _COARSE_BYTES * done:
            self.most = max(_COARSE_BYTES * done // self._size, 2)
        return self.fits

    def _step(self, steps: Steps, value: Any) -> None:
        self._size += len(self._compressing.compress(orjson.dumps(steps.add(value))))
        self._size += len(self._compressing.flush(Z_SYNC_FLUSH))

    async def frames(self, every: int) -> Frames:
        """Return the frames. Raises UnknownAgentError if there are none of the agent's."""
        if self._keyframe is None or self._steps is None:
            head_seq = (await self._store.world(self._world_id)).head_seq
            raise await not_registered(self._store, self._world_id, self._agent_id or "", self._seq, head_seq)
        columns = {"frames": self._columns, **self._steps.patches.columns()}
        columns |= {} if self._agent_id is None else {"observed_seqs": []}
        reached = max(self._columns["seq"], default=self._keyframe.global_seq)
        return Frames(self._keyframe, reached, every, await self._store.aside.run(lambda: orjson.dumps(columns)[1:-1]))

    async def _looked(self, base: Base) -> tuple[Keyframe, Any]:
        """Return a state, or the agent's view in it, with its value; None if the agent is not registered there."""
        fold = base.fold
        self._seq = fold.seq
        keyframe = Keyframe(fold.seq, None, _told(fold.state))
        if self._agent_id is None:
            if self._keyframe is None:
                keyframe = keyframe._replace(state=await self._store.aside.run(partial(take, fold, base.checksum)))
            return keyframe, without_told(fold.state)
        if self._agent_id not in fold.state.metadata["agents"]:
            return keyframe, None
        if remembers(Views(fold), self._agent_id):
            raise RemembersError
        replay = await Replay.begin(self._store, self._world_id, self._agent_id, fold.seq, fold=fold)
        view = replay.views.view(self._agent_id)
        return keyframe._replace(view=view), {part: getattr(view, part) for part in PARTS}
