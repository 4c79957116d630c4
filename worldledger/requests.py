"""The requests of a log: which effects were made under which req_id, and what was asked.

Source: docs/architecture.md, "How an append works". All of it follows from the effects: those of one request stand
together, with its source_id and its req_id, and the digest of its body is made of the stored bytes. The table
``requests`` repeats it, so that a request that comes again is found at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from worldledger.drafts import effect_body_digest, request_digest
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
        self._taken: list[tuple[str, str, bytes, int]] = []
        self._asked = ("", "")
        self._first_seq = self._last_seq = 0
        self._digests: list[bytes] = []

    def take(self, effect: Mapping[str, Any], text: bytes, seq: int) -> None:
        """Take the next effect that has a req_id, and its stored text.

        Raises ValueError where the text is not canonical, so that what was asked cannot be told.
        """
        req_id = effect["req_id"]
        if type(req_id) is not str:
            raise TypeError("the req_id is no text")
        self._taken.append((effect["source_id"], req_id, effect_body_digest(effect, text), seq))

    def __len__(self) -> int:
        """Return how many effects wait to be put together."""
        return len(self._taken)

    def ended(self, *, is_over: bool = False) -> list[LoggedRequest]:
        """Return the requests that have ended; the last one can still go on, unless the log ``is_over``."""
        ended: list[LoggedRequest] = []
        taken, self._taken = self._taken, []
        (source, req), first, last, digests = self._asked, self._first_seq, self._last_seq, self._digests
        for source_id, req_id, digest, seq in taken:
            if req_id == req and seq == last + 1 and source_id == source:
                digests.append(digest)
            else:
                if digests:
                    # As LoggedRequest(…), without its Python function.
                    body = digests[0] if len(digests) == 1 else request_digest(digests)
                    ended.append(_tuple(LoggedRequest, (source, req, body, first, last)))
                source, req, first, digests = source_id, req_id, seq, [digest]
            last = seq
        if is_over and digests:
            ended.append(LoggedRequest(source, req, request_digest(digests), first, last))
            digests = []
        self._asked, self._first_seq, self._last_seq, self._digests = (source, req), first, last, digests
        return ended
