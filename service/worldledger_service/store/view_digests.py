"""The ViewDigests of a log, in the order in which a replay needs them.

A ViewDigest is somewhere after the effect that it is about, mostly close after it, but that is not guaranteed. So all
of them are read before the replay begins. A log may have nearly as many as it has effects; if they are too many to
keep, the first are kept, and the others are read again when those are used up.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from worldledger.core_kinds import VIEW_DIGEST_KIND
from worldledger.drafts import MAX_WORD

if TYPE_CHECKING:
    from worldledger.chain import StoredEffect
    from worldledger_service.store.reader import Reader

#: ViewDigests that are kept at a time (while they are read, twice as many).
_MOST_KEPT: Final = 30_000
#: Most agents for which the last ViewDigest's seq is kept.
_MOST_AGENTS: Final = 100_000

_DIGEST: Final = re.compile("[0-9a-f]{64}")


class SaidOfView(NamedTuple):
    """The content of the ViewDigest at ``said_at``: after ``at_seq`` the agent's view had this digest.

    They are in order by ``at_seq``. ``problem`` says why one is invalid; it then comes right before its own seq.
    """

    at_seq: int
    said_at: int
    agent_id: str
    digest: str
    problem: str = ""


class ViewDigests:
    """The ViewDigests of one world up to a seq, by ``at_seq``.

    ``due`` has the next ones, the first at the end, so that it can be popped. If it is empty and ``more`` is set,
    `read_on` reads the following ones.
    """

    def __init__(self, reader: Reader, world_id: str, until_seq: int) -> None:
        self.due: list[SaidOfView] = []
        self.more = True
        self._reader = reader
        self._world_id = world_id
        self._until_seq = until_seq
        self._behind: tuple[int, int] = (0, 0)
        #: the greatest distance of a ViewDigest from its effect, in effects; None before all have been read once
        self._lag: int | None = None
        self._last: dict[str, int] | None = {}

    def speak_of(self, agent_id: str, seq: int) -> bool:
        """Return whether any of them may be about this agent's view at this seq or later."""
        return self._last is None or self._last.get(agent_id, 0) >= seq

    async def read_on(self) -> None:
        """Read the next ones. Raises StoreUnavailableError."""
        found: list[SaidOfView] = []
        edge: SaidOfView | None = None  # everything up to here is kept, nothing beyond
        first, lag = self._lag is None, self._lag or 0
        batches = self._reader.batches(
            self._world_id, after_seq=self._behind[0], until_seq=self._until_seq, kind=VIEW_DIGEST_KIND
        )
        async with aclosing(batches):
            async for batch in batches:
                if edge is not None and not first and batch[0].global_seq > edge.at_seq + lag:
                    break
                for row in batch:
                    said = _read(row)
                    if first:
                        lag = max(lag, said.said_at - said.at_seq)
                        self._note(said)
                    if said[:2] > self._behind and (edge is None or said < edge):
                        found.append(said)
                if len(found) > 2 * _MOST_KEPT:
                    found.sort()
                    del found[_MOST_KEPT:]
                    edge = found[-1]
        found.sort(reverse=True)
        self.due = found
        self.more = edge is not None
        self._lag = lag
        if found:
            self._behind = found[0][:2]

    def _note(self, said: SaidOfView) -> None:
        last = self._last
        if last is not None and said.at_seq > last.get(said.agent_id, 0):
            last[said.agent_id] = said.at_seq
            if len(last) > _MOST_AGENTS:  # more than a world has: they are forged
                self._last = None


def _read(row: StoredEffect) -> SaidOfView:
    try:
        payload = orjson.loads(row.text)["payload"]
        at_seq, agent_id, digest = payload["at_seq"], payload["agent_id"], payload["digest"]
    except (ValueError, TypeError, KeyError):
        at_seq = agent_id = digest = None
    seq = row.global_seq
    if not (
        type(at_seq) is int
        and at_seq > 0
        and isinstance(agent_id, str)
        and 0 < len(agent_id) <= MAX_WORD
        and isinstance(digest, str)
        and _DIGEST.fullmatch(digest)
    ):
        return SaidOfView(max(seq - 1, 1), seq, "", "", "this ViewDigest cannot be read")
    if at_seq >= seq:
        what = f"this ViewDigest says what view agent {agent_id!r} had at seq {at_seq}, which does not lie before it"
        return SaidOfView(max(seq - 1, 1), seq, agent_id, "", what)
    return SaidOfView(at_seq, seq, agent_id, digest)
