"""The tampering that a write can notice: the place after the head is taken.

A correct writer moves the head with what it writes, under the head's lock. An effect beyond the head was not written
that way, and no append may build on it or skip it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg

from worldledger.errors import TamperedError

_PLACES: Final = "effects_pkey"
_TAKEN: Final = re.compile(r"=\(.*, (\d+)\)")


@contextmanager
def beyond_the_head(world_id: str, head_seq: int) -> Iterator[None]:
    """Raise TamperedError if a write after the head, whose lock is held, meets an existing effect."""
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name != _PLACES:
            raise
        found = _TAKEN.search(error.detail or "")
        seq = int(found[1]) if found else head_seq + 1
        raise TamperedError(
            f"world {world_id!r}: seq {seq} stands in the log beyond the head, which is {head_seq}; nothing was "
            f"written; run `worldledger verify {world_id}`",
            world_id=world_id,
            global_seq=seq,
            what=f"seq {seq} stands in the log beyond the head",
        ) from error
