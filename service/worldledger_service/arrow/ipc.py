"""Batches as the bytes of an Arrow IPC stream: https://arrow.apache.org/docs/format/Columnar.html."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from worldledger.errors import QueryRefusedError
from worldledger.names import unique_names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from worldledger_service.database.analytics.asking import Column


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


# -- answers to questions in SQL as Arrow -----------------------------------------------------------------


#: The types of columns with ``plain`` cells (`worldledger_service.database.analytics.asking`); any other becomes text.
_TYPES: Final = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "oid": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "numeric": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "timestamp without time zone": pa.timestamp("us"),
}
#: The types of which there are also lists.
_LISTED: Final = frozenset({"boolean", "smallint", "integer", "bigint", "oid", "real", "double precision", "bytea"})
_TEXTS: Final = frozenset({"text[]", "character varying[]"})


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of an answer; a column with a repeated name gets a number: ``n``, ``n_2``."""
    names = unique_names(column.name for column in columns)
    return pa.schema([pa.field(name, _type_of(column.type)) for name, column in zip(names, columns, strict=True)])


def _type_of(kind: str) -> pa.DataType:
    if kind in _TEXTS:
        return pa.list_(pa.string())
    if kind.endswith("[]") and kind[:-2] in _LISTED:
        return pa.list_(_TYPES[kind[:-2]])
    return _TYPES.get(kind, pa.string())


def batch_of(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Make a batch of plain cells. Raises QueryRefusedError for a list of lists, which the type does not show."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.record_batch([_array(cells, field) for cells, field in zip(columns, schema, strict=True)], schema=schema)


def _array(cells: Sequence[Any], field: pa.Field) -> pa.Array:
    try:
        return pa.array(cells, field.type)
    except pa.ArrowException as error:
        what = f"the column {field.name} is nothing that Arrow holds ({error}): cast it to text"
        raise QueryRefusedError(what) from error
