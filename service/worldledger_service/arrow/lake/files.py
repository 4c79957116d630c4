"""One Parquet file, written row group by row group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

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
