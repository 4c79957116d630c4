"""Origins: which effect made the view that an agent had at some seq of the log.

It is the last one up to there that gave the agent a delta, or its registration if none did. The log does not say: what
an agent sees of an effect is worked out by its policy. So it is looked for backwards, in stretches that become longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from worldledger.errors import UnknownAgentError
from worldledger.lru import Lru
from worldledger_service.runtime.replays import POLICY_ERRORS, Replay

if TYPE_CHECKING:
    from worldledger.observation import View
    from worldledger_service.store import Store

#: Effects of the first stretch; each one after it has twice as many.
_FIRST: Final = 200
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
