"""Searching a world's log for a text in payloads: a scan, slice by slice, newest or oldest first.

There is no index for it: one over texts costs a quarter of the rate of bulk writes, and it would keep texts that are
to be erased. A slice takes about `_SLICE_SECONDS`, however large its effects are, so that a caller who leaves stops the
scan soon, and no statement holds a connection for long.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final, NamedTuple

from worldledger.canonical import canonical_json
from worldledger_service.store import statements

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader

#: How long a slice is to take, the effects of the first one, and by how much one may be larger than the one before.
_SLICE_SECONDS: Final = 0.15
_FIRST_SLICE: Final = 256
_GROWTH: Final = 4
#: Most characters of a payload before and behind what was found.
_AROUND: Final = 80
_LETTERS: Final = re.compile("[a-z]+")


class Wanted(NamedTuple):
    """What is searched for: a text, in the effects with ``after`` < global_seq <= ``until``; at most ``limit`` hits."""

    text: str
    after: int
    until: int
    limit: int
    newest_first: bool = True
    kind: str | None = None
    source_id: str | None = None


class Hit(NamedTuple):
    """An effect whose payload has the text, and the part of the payload's JSON around it."""

    global_seq: int
    kind: str
    source_id: str
    sim_time: float
    excerpt: str


class Reached(NamedTuple):
    """How far a search has come: the last seq that it has looked at, and all hits up to there since the one before.

    ``full``: there are as many hits as were wanted before the end of the range.
    """

    seq: int
    scanned: int
    hits: list[Hit]
    full: bool


async def search(reader: Reader, world_id: str, wanted: Wanted) -> AsyncGenerator[Reached, None]:
    """Yield the hits slice by slice, until there are no more or enough. Raises StoreUnavailableError.

    A-Z are found without regard to case; all other characters are looked for as they are.
    """
    needle = _lower(canonical_json(wanted.text)[1:-1].decode())
    caseless = max(_LETTERS.split(needle), key=len) or None
    statement = statements.SEARCH_NEWEST if wanted.newest_first else statements.SEARCH_OLDEST
    low, high, left, size = wanted.after, wanted.until, wanted.limit, _FIRST_SLICE
    while low < high:
        first, last = (max(high - size, low), high) if wanted.newest_first else (low, min(low + size, high))
        begun = time.perf_counter()
        limits = (left, wanted.kind, wanted.source_id)
        rows = await reader.fetch(statement, world_id, first, last, needle, *limits, caseless)
        seconds = time.perf_counter() - begun
        hits = [
            Hit(row["global_seq"], row["kind"], row["source_id"], row["sim_time"], _excerpt(row["payload"], needle))
            for row in rows
        ]
        left -= len(hits)
        if left <= 0:  # the slice may have more
            first, last = (hits[-1].global_seq - 1, last) if wanted.newest_first else (first, hits[-1].global_seq)
        low, high = (low, first) if wanted.newest_first else (last, high)
        scanned = wanted.until - wanted.after - (high - low)
        yield Reached(first + 1 if wanted.newest_first else last, scanned, hits, left <= 0 and low < high)
        if left <= 0:
            return
        size = max(int(size * min(_SLICE_SECONDS / max(seconds, 0.001), _GROWTH)), 1)


def _excerpt(payload: str, needle: str) -> str:
    at = _lower(payload).find(needle)
    first, last = max(at - _AROUND, 0), at + len(needle) + _AROUND
    return f"{'…' if first else ''}{payload[first:last]}{'…' if last < len(payload) else ''}"


def _lower(text: str) -> str:
    return text.encode().lower().decode()  # of bytes, A-Z alone
