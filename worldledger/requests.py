"""The requests of a log: which effects were made under which req_id, and what was asked.

Source: docs/architecture.md, "How an append works". All of it follows from the effects: those of one request stand
together, with its source_id and its req_id, and the digest of its body is made of the stored bytes. The table
``requests`` repeats it, so that a request that comes again is found at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from worldledger.drafts import Asked, effect_body_digests, request_digest
from worldledger.repeats import key_of

_tuple: Final = tuple.__new__


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
        self._asked = ("", "")
        self._first_seq = self._last_seq = 0
        self._digests: list[bytes] = []
        self._ended: list[LoggedRequest] = []

    def take(self, asked: Sequence[Asked]) -> None:
        """Take the next effects that have a req_id.

        Raises UnclearRequestError at one whose req_id is no text, or whose text is not canonical, so that what was
        asked cannot be told; those before it are taken.
        """
        (source, req), first, last, digests = self._asked, self._first_seq, self._last_seq, self._digests
        ended = self._ended.append
        try:
            for digest, (seq, source_id, req_id, _, _, _, _, _) in zip(effect_body_digests(asked), asked, strict=False):
                if req_id == req and seq == last + 1 and source_id == source:
                    digests.append(digest)
                else:
                    if digests:
                        # As LoggedRequest(…), without its Python function.
                        body = digests[0] if len(digests) == 1 else request_digest(digests)
                        ended(_tuple(LoggedRequest, (source, req, body, first, last)))
                    source, req, first, digests = source_id, req_id, seq, [digest]
                last = seq
        finally:
            self._asked, self._first_seq, self._last_seq, self._digests = (source, req), first, last, digests

    def ended(self, *, is_over: bool = False) -> list[LoggedRequest]:
        """Return the requests that have ended since; the last one can still go on, unless the log ``is_over``."""
        ended, self._ended = self._ended, []
        if is_over and self._digests:
            body = request_digest(self._digests)
            ended.append(LoggedRequest(*self._asked, body, self._first_seq, self._last_seq))
            self._digests = []
        return ended
