"""Verifying a span of a world's log in a process of its own.

Of the effects before it, a span only needs the last one's checksum and times. What must be unique in the whole log
(uuids, requests) is sent to the process that looks for duplicates.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, closing
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from worldledger.chain import Position, Verifier
from worldledger.effects import SERVICE_SOURCE
from worldledger_service.running import relax_gc
from worldledger_service.store import statements
from worldledger_service.store.prefetch import prefetch
from worldledger_service.store.request_rows import RequestsDigest

if TYPE_CHECKING:
    from worldledger.repeats import Repeat
    from worldledger_service.store.reader import Reader


class Span(NamedTuple):
    """The effects of a world after ``start`` up to ``end``; ``noted`` are known positions in between."""

    world_id: str
    start: Position
    end: Position
    noted: list[Position]
    is_full: bool


class Used(NamedTuple):
    """The keys of the uuids of a batch of effects up to ``last_seq``.

    ``holds`` says of the last batch of a span whether everything in the span holds.
    """

    last_seq: int
    uuids: bytes
    holds: bool | None = None


#: Called with the used values.
Hear: TypeAlias = Callable[[Used], object]


class Workers(Protocol):
    """Other processes, ``jobs`` at most with this one."""

    jobs: int

    def hold(self, spans: Sequence[Span], hear: Hear) -> Awaitable[bool]:
        """Return whether everything in the spans holds; False if a process could not finish its check, too."""


async def verify_span(reader: Reader, span: Span, tell: Callable[[Any], None]) -> None:
    """Verify a span; report its unique values, and at the end whether it holds. Raises as the reader."""
    relax_gc()
    teller = _Teller(tell)
    teller.tell(span.end.global_seq, holds=await _holds(reader, span, teller))


async def has_begun(reader: Reader, world_id: str, until: Position) -> bool:
    """Return whether an effect of a world up to a position is of another source than the service."""
    (row,) = await reader.fetch(statements.HAS_BEGUN, world_id, until.global_seq, SERVICE_SOURCE)
    return bool(row["has_begun"])


class _Teller:
    """Collects and reports the keys of uuids, in place of `Repeats`, which looks for duplicates."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        self._uuids: list[bytes] = []

    def add(self, keys: bytes, _: Sequence[int]) -> None:
        """Gather the keys of uuids."""
        self._uuids.append(keys)

    def first(self) -> Repeat | None:
        """Return nothing: what comes again is looked for elsewhere."""
        return None

    def close(self) -> None:
        """Do nothing: there are no files."""

    def tell(self, last_seq: int, *, holds: bool | None = None) -> None:
        """Report the collected keys."""
        self._tell(tuple(Used(last_seq, b"".join(self._uuids), holds)))
        self._uuids = []


async def _holds(reader: Reader, span: Span, teller: _Teller) -> bool:
    world_id, start, end, noted, is_full = span
    before = await reader.effect(world_id, start.global_seq)
    begun = await has_begun(reader, world_id, start)
    async with aclosing(RequestsDigest(reader, world_id, end.global_seq, start.global_seq)) as requests:
        verifier = Verifier(
            world_id,
            start=start,
            heads=noted,
            before=before.text,
            has_begun=begun,
            is_full=is_full,
            spill=TemporaryFile,
            uuids=teller,
            heard=requests.hear,
            hears_repeats=True,
        )
        with closing(verifier):
            rows = reader.records(world_id, after_seq=start.global_seq, until_seq=end.global_seq)
            async with prefetch(rows) as batches:
                async for batch in batches:
                    if not verifier.feed(batch):
                        return False
                    teller.tell(verifier.position.global_seq)
            return verifier.finish(end).verified and await requests.agree()
