"""Batches as the bytes of an Arrow IPC stream: https://arrow.apache.org/docs/format/Columnar.html."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Encoder:
    """Writes one stream: its schema first, its end last. A dictionary that has grown is written again."""

    closed = False  # for Arrow, which uses this as its file

    def __init__(self, schema: pa.Schema) -> None:
        self._pieces: list[bytes] = []
        self._writer = pa.ipc.new_stream(self, schema)

    def write(self, piece: bytes) -> int:
        """Keep what Arrow writes until `taken` returns it."""
        self._pieces.append(piece)
        return len(piece)

    def flush(self) -> None:
        """Do nothing: writes take effect at once."""

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def batch(self, batch: pa.RecordBatch, metadata: dict[str, str] | None = None) -> bytes:
        """Write a batch, with a note about it."""
        self._writer.write_batch(batch, custom_metadata=metadata)
        return self.taken()

    def end(self) -> bytes:
        """Write the end."""
        self._writer.close()
        return self.taken()


async def encoded(schema: pa.Schema, batches: AsyncIterator[pa.RecordBatch]) -> AsyncGenerator[bytes, None]:
    """Yield the stream of batches, piece by piece."""
    encoder = Encoder(schema)
    yield encoder.taken()
    async for batch in batches:
        yield encoder.batch(batch)
    yield encoder.end()
