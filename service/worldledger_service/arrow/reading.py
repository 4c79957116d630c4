"""The effects of chosen worlds as Arrow: ascending, without gaps, in batches of bounded size.

Reading ends at the worlds' heads of the moment when they were chosen, and the log only grows: so it shows one moment of
all of them, without a transaction that stays open. Effects are fetched in pieces of some MiB, each by a statement of
its own, so that a slow consumer holds neither a connection nor a snapshot of the database.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from worldledger.errors import TamperedError
from worldledger_service.arrow.choosing import WorldSpan
from worldledger_service.arrow.connections import Connections, Session, literal
from worldledger_service.store.prefetch import prefetch
from worldledger_service.store.reader import storable

# From stored rows to the columns of the table of effects: whole batches at a time, with as little parsing as
# possible.
#
# In a canonical text the keys are sorted and strings contain no unescaped quotes. So a key with its punctuation can be
# found by a text search:
#
#     {"caused_by":3,"global_seq":9,"kind":"Said","payload":{…},"priority":0,"req_id":null,"schema_version":"1.0.0",
#      "sim_time":2.5,"source_id":"ann","source_metadata":{…},"uuid":"…","wall_time":1700000000.5,"world_id":"town"}
#
# The payload begins after the first ``"payload":``, because only a number and a string come before it; it ends before
# the last ``,"priority":``, unless source_metadata has that key, too. Rows for which that is possible, and batches
# with a malformed text, are read the slow way, value by value. Cutting takes about a fifth of the time that reading
# the rows takes; ``effect -> 'payload'`` and the like in SQL take ten times as long as reading them.


#: The table of effects: the columns of the view ``analytics.effects``, with the same names. It has every member of an
#: effect; ``payload`` and ``source_metadata`` are the stored texts.
SCHEMA: Final = pa.schema(
    [
        pa.field("world_id", pa.string(), nullable=False),
        pa.field("experiment", pa.string()),
        pa.field("global_seq", pa.int64(), nullable=False),
        pa.field("kind", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("source_id", pa.string(), nullable=False),
        pa.field("sim_time_s", pa.float64(), nullable=False),
        pa.field("recorded_at", pa.timestamp("us", "UTC")),
        pa.field("stored_at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("caused_by", pa.int64()),
        pa.field("req_id", pa.string()),
        pa.field("priority", pa.int32(), nullable=False),
        pa.field("schema_version", pa.string(), nullable=False),
        pa.field("uuid", pa.string(), nullable=False),
        pa.field("payload", pa.string(), nullable=False),
        pa.field("source_metadata", pa.string()),
        pa.field("checksum", pa.binary(32), nullable=False),
    ]
)

#: The columns that are cut from the text: name, and the type before conversion.
_CUT: Final = {
    "caused_by": pa.int64(),
    "payload": pa.string(),
    "priority": pa.int32(),
    "req_id": pa.string(),
    "schema_version": pa.string(),
    "source_metadata": pa.string(),
    "uuid": pa.string(),
    "wall_time": pa.float64(),
}
_METADATA: Final = ',"source_metadata":'
_CAUSED_BY: Final = '{"caused_by":'
_UUID: Final = 32
#: Epoch seconds beyond this are not a time for Arrow and its readers.
_LAST_SECOND: Final = 253402300799.0
_SPACE: Final = re.compile(r"[ \t\n\r]*")

Columns = dict[str, Any]


class Cutter:
    """Cuts the batches of one stream. ``experiments``: each world's experiment.

    Kinds are numbered as they occur, so that the batches of a stream share one growing dictionary.
    """

    def __init__(self, experiments: Mapping[str, str | None]) -> None:
        self._experiments = experiments
        self._kinds: dict[str, int] = {}

    def cut(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return effects of rows with world_id, global_seq, kind, source_id, sim_time, recorded_at, effect, checksum.

        Raises TamperedError for a row with a text that is not an effect, or an invalid checksum.
        """
        worlds = rows["world_id"]
        cut = _cut(rows)
        checksums = rows["checksum"]
        if rows.num_rows and pc.any(pc.not_equal(pc.binary_length(checksums), 32)).as_py():
            raise _tampered(rows, pc.index(pc.not_equal(pc.binary_length(checksums), 32), True).as_py(), "checksum")
        columns = {
            "world_id": worlds,
            "experiment": self._experiment(worlds),
            "global_seq": rows["global_seq"],
            "kind": self._kind(rows["kind"]),
            "source_id": rows["source_id"],
            "sim_time_s": rows["sim_time"],
            "recorded_at": _moments(cut["wall_time"]),
            "stored_at": rows["recorded_at"],
            "checksum": checksums.cast(pa.binary(32)),
            **cut,
        }
        return pa.record_batch([columns[field.name] for field in SCHEMA], schema=SCHEMA)

    def _experiment(self, worlds: pa.StringArray) -> pa.StringArray:
        encoded = worlds.dictionary_encode()
        names = [self._experiments.get(world) for world in encoded.dictionary.to_pylist()]
        return pa.array(names, pa.string()).take(encoded.indices)

    def _kind(self, kinds: pa.StringArray) -> pa.DictionaryArray:
        encoded = kinds.dictionary_encode()
        numbers = [self._kinds.setdefault(kind, len(self._kinds)) for kind in encoded.dictionary.to_pylist()]
        indices = pa.array(numbers, pa.int32()).take(encoded.indices)
        return pa.DictionaryArray.from_arrays(indices, pa.array([*self._kinds], pa.string()))


def _moments(seconds: pa.DoubleArray) -> pa.TimestampArray:
    """Return epoch seconds as times, to the microsecond; null for seconds outside all calendars."""
    known = pc.less_equal(pc.abs(seconds), _LAST_SECOND)
    whole = pc.round(pc.multiply(pc.if_else(known, seconds, None), 1e6))
    return whole.cast(pa.int64()).cast(pa.timestamp("us", "UTC"))


def _cut(rows: pa.RecordBatch) -> Columns:
    texts = rows["effect"]
    try:
        found, doubtful = _cut_quickly(texts)
    except pa.ArrowInvalid:  # a malformed text
        return _cut_slowly(rows)
    if doubtful is not None:
        slow = _cut_slowly(rows.filter(doubtful))
        found = {name: pc.replace_with_mask(found[name], doubtful, slow[name]) for name in found}
    return found


# -- the fast way ------------------------------------------------------------------------------------------


def _cut_quickly(texts: pa.StringArray) -> tuple[Columns, pa.BooleanArray | None]:
    """Cut whole texts; also return the rows that may be cut wrongly, if any.

    Raises ArrowInvalid if a text lacks what is searched for.
    """
    before, behind = _parted(texts, ',"priority":', last=True)
    _, payload = _parted(before, '"payload":', left=False)
    middle, end = _parted(behind, ',"uuid":"', last=True)
    facts, source = _parted(middle, ',"sim_time":')
    uuid, times = _parted(end, '","wall_time":')
    wall_time, _ = _parted(times, ',"world_id":', right=False)
    if len(uuid) and pc.any(pc.not_equal(pc.binary_length(uuid), _UUID)).as_py():
        raise pa.ArrowInvalid("a uuid has 32 digits")
    metadata, doubtful = _metadata(source, payload)
    return {
        "caused_by": _caused_by(texts),
        "payload": payload,
        **_facts(facts),
        "source_metadata": metadata,
        "uuid": uuid,
        "wall_time": wall_time.cast(pa.float64()),
    }, doubtful


def _parted(
    texts: pa.StringArray, at: str, *, last: bool = False, left: bool = True, right: bool = True
) -> tuple[pa.StringArray, pa.StringArray]:
    """Return what is before and after the first (or last) occurrence of a text; ArrowInvalid if there is none.

    An unwanted part, ``left`` or ``right``, is not made.
    """
    pieces = pc.split_pattern(texts, at, max_splits=1, reverse=last).flatten()
    if len(pieces) != 2 * len(texts):
        raise pa.ArrowInvalid(f"a text without {at}")
    even = np.arange(0, len(pieces), 2, dtype=np.int32)
    return (pieces.take(pa.array(even)) if left else None), (pieces.take(pa.array(even + 1)) if right else None)


def _caused_by(texts: pa.StringArray) -> pa.Int64Array:
    """Cut ``{"caused_by":3,"global_seq":9,``, if the text begins so."""
    have = pc.starts_with(texts, _CAUSED_BY)
    nothing = pa.nulls(len(texts), pa.int64())
    if not pc.any(have).as_py():
        return nothing
    begin = len(_CAUSED_BY)
    digits, _ = _parted(pc.utf8_slice_codeunits(texts.filter(have), begin, begin + 32), ',"global_seq":', right=False)
    return pc.replace_with_mask(nothing, have, digits.cast(pa.int64()))


def _facts(facts: pa.StringArray) -> Columns:
    """Cut ``0,"req_id":null,"schema_version":"1.0.0"``; values that many rows share are parsed once."""
    encoded = facts.dictionary_encode()
    shared = len(encoded.dictionary) <= len(facts) // 4
    priority, rest = _parted(encoded.dictionary if shared else facts, ',"req_id":')
    req_id, schema_version = _parted(rest, ',"schema_version":')
    found = {
        "priority": priority.cast(pa.int32()),
        "req_id": _strings(req_id),
        "schema_version": _strings(schema_version),
    }
    return {name: values.take(encoded.indices) for name, values in found.items()} if shared else found


def _metadata(source: pa.StringArray, payload: pa.StringArray) -> tuple[pa.StringArray, pa.BooleanArray | None]:
    """Cut ``2.5,"source_id":"ann","source_metadata":{…}``; also return the rows that may have been cut wrongly.

    If the last ``,"priority":`` was inside source_metadata, the rest ends with that object's brace, and the part that
    was taken for the payload contains the key source_metadata.
    """
    have = pc.ends_with(source, "}")
    if not pc.any(have).as_py():
        return pa.nulls(len(source), pa.string()), None
    pieces = pc.split_pattern(source, _METADATA, max_splits=1)
    doubtful = pc.and_(have, pc.match_substring(payload, _METADATA))
    doubtful = pc.or_(doubtful, pc.and_(have, pc.less(pc.list_value_length(pieces), 2)))
    sure = pc.and_not(have, doubtful)
    cut = pc.list_element(pieces.filter(sure), 1)
    metadata = pc.replace_with_mask(pa.nulls(len(source), pa.string()), sure, cut)
    return metadata, doubtful if pc.any(doubtful).as_py() else None


def _strings(values: pa.StringArray) -> pa.StringArray:
    """Parse JSON strings, or null."""
    bare = pc.if_else(pc.equal(values, "null"), None, pc.utf8_slice_codeunits(values, 1, -1))
    escaped = pc.match_substring(values, "\\")
    if not pc.any(escaped).as_py():
        return bare
    return pc.replace_with_mask(
        bare, escaped, pa.array(map(json.loads, values.filter(escaped).to_pylist()), pa.string())
    )


# -- the slow way ------------------------------------------------------------------------------------------


def _cut_slowly(rows: pa.RecordBatch) -> Columns:
    found: dict[str, list[Any]] = {name: [] for name in _CUT}
    for n, text in enumerate(rows["effect"].to_pylist()):
        try:
            members = parts(text)
            for name, kind in _CUT.items():
                part = members.get(name, "null") if name in {"caused_by", "source_metadata"} else members[name]
                is_text = name in {"payload", "source_metadata"} and part != "null"
                found[name].append(pa.scalar(part if is_text else json.loads(part), kind))
        except (ValueError, TypeError, KeyError, OverflowError):  # Arrow's errors are subclasses
            raise _tampered(rows, n, "effect") from None
    return {name: pa.array(found[name], kind) for name, kind in _CUT.items()}


def parts(text: str) -> dict[str, str]:
    """Return the members of a JSON object, each as its text. Raises ValueError if it is not one."""
    decoder = json.JSONDecoder()
    found: dict[str, str] = {}

    def skip(at: int, *signs: str) -> int:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if signs and text[at : at + 1] not in signs:
            raise ValueError(f"{' or '.join(signs)} is missing at {at}")
        return at

    at = skip(0, "{")
    while text[at] != "}":
        name, at = decoder.raw_decode(text, skip(at + 1, '"'))
        begin = skip(skip(at, ":") + 1)
        _, end = decoder.raw_decode(text, begin)
        found[name] = text[begin:end]
        at = skip(end, ",", "}")
    return found


def _tampered(rows: pa.RecordBatch, n: int, column: str) -> TamperedError:
    world, seq = rows["world_id"][n].as_py(), rows["global_seq"][n].as_py()
    what = f"effect {seq} of world {world!r} is not as it was written ({column}): see `worldledger verify {world}`"
    return TamperedError(what, world_id=world, global_seq=seq, what=column)


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
