"""The effects of chosen worlds as Arrow: ascending, without gaps, in batches of bounded size.

Reading ends at the worlds' heads of the moment when they were chosen, and the log only grows: so it shows one moment of
all of them, without a transaction that stays open. Effects are fetched in pieces of some MiB, each by a statement of
its own, so that a slow consumer holds neither a connection nor a snapshot of the database.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import numpy as np

from worldledger.errors import TamperedError
from worldledger_service.arrow.choosing import WorldSpan
from worldledger_service.arrow.connections import Connections, Session, literal
from worldledger_service.arrow.cutting import Cutter
from worldledger_service.store.prefetch import prefetch
from worldledger_service.store.reader import storable

if TYPE_CHECKING:
    import pyarrow as pa

#: Most rows of one statement, and roughly the bytes of them that are taken before the next statement.
MOST_ROWS: Final = 65_536
MOST_BYTES: Final = 16 * 1024 * 1024
#: Fewest rows that a statement requests, however large effects are.
_FEWEST: Final = 64
#: Most worlds in one statement.
_TOGETHER: Final = 1000

_ROWS: Final = """
select s.n, e.world_id, e.global_seq, e.kind, e.source_id, e.sim_time, e.recorded_at, e.effect::text as effect,
       e.checksum
from (values {spans}) s (n, world_id, after_seq, until_seq)
cross join lateral (
    select * from effects
    where world_id = s.world_id and global_seq > s.after_seq and global_seq <= s.until_seq {filters}
    order by world_id, global_seq limit {most}) e
limit {most}
"""


class Effects:
    """Reads effects by ADBC."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def batches(
        self, spans: Sequence[WorldSpan], *, kind: str | None = None, source_id: str | None = None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the effects of the spans in their order, each span's ascending, in the columns of `cutting.SCHEMA`.

        The next piece is fetched while one is processed. Raises TamperedError for a missing or invalid effect,
        StoreUnavailableError if the database is unavailable.
        """
        wanted = [span for span in spans if span.effects]
        if not all(map(storable, filter(None, (kind, source_id)))):
            return
        pieces = _Pieces(self._connections, wanted, kind=kind, source_id=source_id)
        async with aclosing(pieces.read()) as read, prefetch(read) as fetched:
            async for piece in fetched:
                for batch in piece:
                    yield batch


class _Pieces:
    """Reads the effects of spans piece by piece; between two pieces it holds only its position."""

    def __init__(
        self, connections: Connections, spans: Sequence[WorldSpan], *, kind: str | None, source_id: str | None
    ) -> None:
        self._connections = connections
        self._spans = spans
        self._cutter = Cutter({span.world_id: span.experiment for span in spans})
        named = (("kind", kind), ("source_id", source_id))
        self._filters = "".join(f" and {name} = {literal(value)}" for name, value in named if value is not None)
        #: the next span, and the last seq read in it
        self._at = 0
        self._after: int = spans[0].after_seq if spans else 0
        self._most: int = MOST_ROWS // 8  # until the size of rows is known

    async def read(self) -> AsyncGenerator[list[pa.RecordBatch], None]:
        while self._at < len(self._spans):
            piece = await self._connections.run(self._fetch)
            if piece:
                yield piece

    # -- in a thread ---------------------------------------------------------------------------------------

    def _fetch(self, session: Session) -> list[pa.RecordBatch]:
        """Return the next piece, and move past it."""
        asked = self._next()
        named = ", ".join(
            f"({n}, {literal(span.world_id)}, {span.after_seq}::bigint, {span.until_seq}::bigint)"
            for n, span in enumerate(asked)
        )
        statement = _ROWS.format(spans=named, filters=self._filters, most=self._most)
        cutting: list[Future[pa.RecordBatch]] = []
        places: list[tuple[np.ndarray, np.ndarray]] = []
        size = rows = 0
        # A batch is cut while the next one is read: both take about as long.
        with session.reading(statement) as (_, found), ThreadPoolExecutor(1, "cutting") as beside:
            for batch in found:
                cutting.append(beside.submit(self._cutter.cut, batch))
                places.append((batch["n"].to_numpy(), batch["global_seq"].to_numpy()))
                size += batch.nbytes
                rows += batch.num_rows
                if size > 2 * MOST_BYTES:  # rows are larger than those before: the rest is read next
                    ended = False
                    break
            else:
                ended = rows < self._most
        self._check(asked, places, ended=ended)
        self._move(asked, places, ended=ended)
        if rows:
            self._most = max(_FEWEST, min(MOST_ROWS, MOST_BYTES * rows // max(size, 1)))
        return [cut.result() for cut in cutting]

    def _next(self) -> list[WorldSpan]:
        """Return the spans for the next statement: as many as it can hold."""
        first = self._spans[self._at]._replace(after_seq=self._after)
        asked, rows = [first], first.effects
        for span in self._spans[self._at + 1 : self._at + _TOGETHER]:
            if rows >= self._most and not self._filters:
                break
            asked.append(span)
            rows += span.effects
        return asked

    def _move(self, asked: list[WorldSpan], places: _Places, *, ended: bool) -> None:
        """Move past the last row, or past everything that was requested."""
        done, seq = len(asked) - 1, asked[-1].until_seq
        if not ended:
            done, seq = int(places[-1][0][-1]), int(places[-1][1][-1])
        if seq < asked[done].until_seq:
            self._at, self._after = self._at + done, seq
            return
        self._at += done + 1
        self._after = self._spans[self._at].after_seq if self._at < len(self._spans) else 0

    def _check(self, asked: list[WorldSpan], places: _Places, *, ended: bool) -> None:
        """Raise TamperedError unless the rows are ascending and, if all were requested, without a gap."""
        seqs = np.concatenate([_NONE, *(seqs for _, seqs in places)])
        if self._filters:
            steps = np.diff(np.concatenate([_NONE, *(n for n, _ in places)]))
            assert ((steps > 0) | ((steps == 0) & (np.diff(seqs) > 0))).all()  # noqa: S101 - the plan walks in order
            return
        wanted = np.concatenate([np.arange(span.after_seq + 1, span.until_seq + 1) for span in asked])
        if not ended:
            wanted = wanted[: len(seqs)]
        if len(seqs) == len(wanted) and (seqs == wanted).all():
            return
        same = min(len(seqs), len(wanted))
        differs = np.flatnonzero(seqs[:same] != wanted[:same])
        at = int(differs[0]) if len(differs) else same
        raise _missing(asked, at)


#: The numbers of the spans and the seqs of rows, batch by batch.
_Places = list[tuple[np.ndarray, np.ndarray]]
_NONE: Final = np.empty(0, np.int64)


def _missing(asked: list[WorldSpan], at: int) -> TamperedError:
    """Name the effect that should be the row at this place."""
    for span in asked:
        if at < span.effects:
            break
        at -= span.effects
    world, seq = span.world_id, span.after_seq + 1 + at
    what = f"effect {seq} of world {world!r} is missing: see `worldledger verify {world}`"
    return TamperedError(what, world_id=world, global_seq=seq, what="missing")
