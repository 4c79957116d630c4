"""The requests of a log: which effects were made under which req_id, and what was requested.

Source: docs/architecture.md, "How an append works". All of it follows from the effects: those of one request are
adjacent, with its source_id and its req_id, and the digest of its body is made from the stored bytes. The table
``requests`` repeats it, so that a repeated request is found at once.
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
        """Return its key among the requests of its world, 16 bytes."""
        return key_of(self.source_id, self.req_id)


class Requests:
    """Groups the effects of a log, which are passed in order, into requests."""

    def __init__(self) -> None:
        self._asked = ("", "")
        self._first_seq = self._last_seq = 0
        self._digests: list[bytes] = []
        self._ended: list[LoggedRequest] = []

    def take(self, asked: Sequence[Asked]) -> None:
        """Add the next effects that have a req_id.

        Raises UnclearRequestError for a req_id that is not a string, and for a text that is not canonical, from which
        the request cannot be recovered; the effects before it are added.
        """
        (source, req), first, last, digests = self._asked, self._first_seq, self._last_seq, self._digests
        ended = self._ended.append
        try:
            for digest, (seq, source_id, req_id, _, _, _, _, _) in zip(effect_body_digests(asked), asked, strict=False):
                if req_id == req and seq == last + 1 and source_id == source:
                    digests.append(digest)
                else:
                    if digests:
                        # As LoggedRequest(…), without calling a Python function.
                        body = digests[0] if len(digests) == 1 else request_digest(digests)
                        ended(_tuple(LoggedRequest, (source, req, body, first, last)))
                    source, req, first, digests = source_id, req_id, seq, [digest]
                last = seq
        finally:
            self._asked, self._first_seq, self._last_seq, self._digests = (source, req), first, last, digests

    def ended(self, *, is_over: bool = False) -> list[LoggedRequest]:
        """Return the requests completed since the last call; the last one may continue unless the log ``is_over``."""
        ended, self._ended = self._ended, []
        if is_over and self._digests:
            body = request_digest(self._digests)
            ended.append(LoggedRequest(*self._asked, body, self._first_seq, self._last_seq))
            self._digests = []
        return ended
