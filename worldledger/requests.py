"""The requests of a log: which effects were made under which req_id, and what was asked.

Source: docs/architecture.md, "How an append works". All of it follows from the effects: those of one request stand
together, with its source_id and its req_id, and the digest of its body is made of the stored bytes. The table
``requests`` repeats it, so that a request that comes again is found at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from worldledger.drafts import effect_body_digest, request_digest
from worldledger.repeats import key_of


class LoggedRequest(NamedTuple):
    """A request as it follows from the log; the fields are the columns of the table ``requests``."""

    source_id: str
    req_id: str
    body_sha256: bytes
    first_seq: int
    last_seq: int

    def key(self) -> bytes:
        """Return what tells it from all others of its world, in 16 bytes."""
        return key_of(self.source_id, self.req_id)


class Requests:
    """Puts requests together from the effects of a log, which are handed in as they follow each other."""

    def __init__(self) -> None:
        self._asked: tuple[str, str] | None = None
        self._first_seq = 0
        self._digests: list[bytes] = []

    @property
    def is_open(self) -> bool:
        """Whether the last effect belongs to a request, so that the next one may belong to it too."""
        return self._asked is not None

    def take(self, effect: Mapping[str, Any], text: bytes, seq: int) -> LoggedRequest | None:
        """Take the next effect and its stored text; return the request that ended before it, if one did.

        Raises ValueError where the text is not canonical, so that what was asked cannot be told.
        """
        req_id = effect["req_id"]
        asked = None if req_id is None else (effect["source_id"], req_id)
        ended = None
        if asked != self._asked:
            ended = self.end(seq - 1)
            self._asked, self._first_seq = asked, seq
        if asked is not None:
            self._digests.append(effect_body_digest(effect, text))
        return ended

    def end(self, last_seq: int) -> LoggedRequest | None:
        """Close the request of the last effect, which is ``last_seq``; None if that belongs to none."""
        if self._asked is None:
            return None
        ended = LoggedRequest(*self._asked, request_digest(self._digests), self._first_seq, last_seq)
        self._asked, self._digests = None, []
        return ended
