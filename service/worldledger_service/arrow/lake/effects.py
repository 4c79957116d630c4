"""The effects of a lake: each export adds one file for each world with new effects, in folders in Hive's layout."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from unicodedata import is_normalized
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from worldledger_service.arrow.lake.folder import EffectsPart, LakeFolder
from worldledger_service.arrow.reading import SCHEMA

if TYPE_CHECKING:
    from worldledger_service.arrow.choosing import WorldSpan


# -- one Parquet file, written row group by row group -----------------------------------------------------


#: Rows of a row group (as many as DuckDB processes at a time), unless they have more than this many bytes.
GROUP_ROWS: Final = 122_880
GROUP_BYTES: Final = 128 * 1024 * 1024


class ParquetFile:
    """Writes batches, in order; a context manager. Values of ``plain`` columns are hardly ever repeated."""

    def __init__(self, path: Path, schema: pa.Schema, *, plain: Sequence[str] = ()) -> None:
        self.path = path
        self.rows = 0
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression={name: "none" if name == "checksum" else "zstd" for name in schema.names},
            use_dictionary=[name for name in schema.names if name not in plain],
            write_page_index=True,
        )

    @property
    def is_empty(self) -> bool:
        """True if no row has been written."""
        return not self.rows and not self._waiting

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch, or keep it until a row group is full."""
        while batch.num_rows:
            first = batch.slice(0, GROUP_ROWS - self._waiting_rows)
            batch = batch.slice(first.num_rows)
            self._waiting.append(first)
            self._waiting_rows += first.num_rows
            self._waiting_bytes += first.nbytes
            if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=GROUP_ROWS)
            self.rows += self._waiting_rows
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def close(self) -> int:
        """Write the kept rows and the end of the file; return its length in bytes."""
        self._flush()
        self._writer.close()
        return self.path.stat().st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.close()  # closing twice is harmless; an unfinished file is discarded


#: Most effects of a file.
MOST: Final = 16 * GROUP_ROWS
#: The experiment is in the path, as in Hive; readers of a folder get it from there. A name that is too long for a path
#: is in each file's own metadata, as all names are.
_COLUMNS: Final = [name for name in SCHEMA.names if name != "experiment"]
_FILE_SCHEMA: Final = pa.schema(
    [pa.field(name, pa.string(), nullable=False) if name == "kind" else SCHEMA.field(name) for name in _COLUMNS]
)
_PLAIN: Final = ("global_seq", "sim_time_s", "recorded_at", "stored_at", "caused_by", "uuid", "payload", "checksum")

#: Hive's name of the partition of rows without a value.
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
#: Characters that are not escaped, besides letters and digits. Readers, their globs, shells or Windows use the others.
_AS_IS: Final = " !$&()+,-.;@_~"
#: Most bytes of a name in nearly all file systems.
LONGEST: Final = 255
#: Begins the digest in a name that is cut. It is in no other name, because a ``~`` of a value is always escaped.
_CUT: Final = "%7E"
_DIGITS: Final = 32


class EffectFiles:
    """Writes the effects of spans, in their order, and notes which kinds each world has among them."""

    def __init__(self, folder: LakeFolder, spans: list[WorldSpan]) -> None:
        self._folder = folder
        self._spans = {span.world_id: span for span in spans}
        self._open: _OpenPart | None = None
        self.parts: dict[str, list[EffectsPart]] = {}
        self.kinds: dict[str, set[str]] = {}
        #: the worlds with effects that have source_metadata
        self.sourced: set[str] = set()
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write effects; those of a world are adjacent."""
        worlds = batch["world_id"].dictionary_encode()
        ends = [*(np.flatnonzero(np.diff(worlds.indices.to_numpy())) + 1).tolist(), batch.num_rows]
        begin = 0
        for end in ends:
            self._write_world(batch.slice(begin, end - begin))
            begin = end
        self.rows += batch.num_rows

    def _write_world(self, batch: pa.RecordBatch) -> None:
        world = batch["world_id"][0].as_py()
        kinds = batch["kind"]
        seen = pc.unique(kinds.indices).to_pylist()
        self.kinds.setdefault(world, set()).update(kinds.dictionary[index].as_py() for index in seen)
        if batch["source_metadata"].null_count < batch.num_rows:
            self.sourced.add(world)
        columns = [batch[name].cast(pa.string()) if name == "kind" else batch[name] for name in _COLUMNS]
        rows = pa.record_batch(columns, schema=_FILE_SCHEMA)
        while rows.num_rows:
            part = self._part(world, rows)
            some = rows.slice(0, part.last_seq - rows["global_seq"][0].as_py() + 1)
            part.file.write(some)
            rows = rows.slice(some.num_rows)

    def _part(self, world: str, rows: pa.RecordBatch) -> _OpenPart:
        """Return the file for the first of these rows."""
        first_seq = rows["global_seq"][0].as_py()
        if self._open is not None and (self._open.world == world and first_seq <= self._open.last_seq):
            return self._open
        self.finish()
        span = self._spans[world]
        last_seq = min(first_seq + MOST - 1, span.until_seq)
        path = f"{self._folder_of(span)}/part-{first_seq}-{last_seq}.parquet"
        names = {"world": world} if span.experiment is None else {"world": world, "experiment": span.experiment}
        file = ParquetFile(self._folder.aside(path), _FILE_SCHEMA.with_metadata(names), plain=_PLAIN)
        self._open = _OpenPart(world, first_seq, last_seq, path, file)
        return self._open

    def _folder_of(self, span: WorldSpan) -> str:
        """Return the folder of a world: its present one, even if an earlier version has named it, or a new one."""
        had = self._folder.manifest.worlds.get(span.world_id)
        if had is not None and had.parts:
            return had.parts[-1].path.rpartition("/")[0]
        most = max(100, min(LONGEST, os.pathconf(self._folder.place, "PC_NAME_MAX")))
        return f"effects/{partition('experiment', span.experiment, most)}/{partition('world', span.world_id, most)}"

    def has(self, world: str, kind: str | None) -> bool:
        """Return whether a world may have effects of a kind among those written; None: of those that intents made."""
        kinds = self.kinds.get(world, set())
        return kind in kinds or (kind is None and (world in self.sourced or "IntentRejected" in kinds))

    def finish(self) -> None:
        """Close the file that is being written."""
        if self._open is None:
            return
        world, first_seq, last_seq, path, file = self._open
        self._open = None
        size = file.close()
        part = EffectsPart(path=path, rows=file.rows, bytes=size, first_seq=first_seq, last_seq=last_seq)
        self.parts.setdefault(world, []).append(part)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._open is not None:  # unfinished: it is discarded
            self._open.file.__exit__(kind, error, traceback)


class _OpenPart(NamedTuple):
    """A file that is being written."""

    world: str
    first_seq: int
    last_seq: int
    path: str
    file: ParquetFile


# -- the names of folders ----------------------------------------------------------------------------------


def partition(name: str, value: str | None, longest: int = LONGEST) -> str:
    """Return the folder of a partition: ``experiment=50%25 of it``.

    DuckDB reads ``null``, in any case, and Hive's name for no value as no value, unless a character is escaped. polars
    and pyarrow read the latter as no value even then.

    A name that is still too long is cut and made unique by a digest; it is read as ``beginning~digest``.
    """
    if value is None:
        return f"{name}={NO_VALUE}"
    pieces = _escaped(value)
    if value == NO_VALUE or value.lower() == "null":
        pieces[0] = f"%{ord(value[0]):02X}"
    if _size(whole := f"{name}={''.join(pieces)}") <= longest:
        return whole
    digest = _CUT + sha256(value.encode()).hexdigest()[:_DIGITS]
    room = longest - _size(f"{name}={digest}")
    kept = ""
    for piece in pieces:
        if _size(kept) + _size(piece) > room:
            break
        kept += piece
    return f"{name}={kept}{digest}"


def _escaped(value: str) -> list[str]:
    """Return each character as it is written in a path.

    Letters of all scripts are not escaped, unless a file system may confuse them with others that look the same.
    """
    is_normal = is_normalized("NFC", value)
    pieces = [
        char if char in _AS_IS or (_is_letter(char) and (is_normal or char.isascii())) else _hex(char) for char in value
    ]
    for end in {0, len(value) - 1} if value else ():
        if value[end] in " .":
            pieces[end] = _hex(value[end])
    return pieces


def _is_letter(char: str) -> bool:
    return char.isalnum() if char.isascii() else char.isprintable()


def _hex(char: str) -> str:
    """Escape a character, even if it does not need it."""
    return quote(char, safe="") if char not in ".~" else f"%{ord(char):02X}"


def _size(text: str) -> int:
    return len(text.encode())
