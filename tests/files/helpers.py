"""Tables in memory, and what their rows become."""

from __future__ import annotations

import io
from typing import Any

import orjson
from worldledger_recorder.files.guessing import guess
from worldledger_recorder.files.mapping import Csv, TableMapping, mapping_of
from worldledger_recorder.files.rows import RowReader, RowRefusedError
from worldledger_recorder.files.tables import Table, csv_dialect, open_table


def table(data: bytes | str, kind: str = "csv", dialect: Csv | None = None) -> Table:
    """Return a table of these bytes, called ``f.csv``."""
    stream = io.BytesIO(data if isinstance(data, bytes) else data.encode())
    return open_table(kind, stream, f"some/f.{kind}", dialect or Csv())


def guessed(data: bytes | str, kind: str = "csv") -> TableMapping:
    """Return the mapping that is guessed of a file."""
    stream = io.BytesIO(data if isinstance(data, bytes) else data.encode())
    dialect = csv_dialect(stream) if kind == "csv" else Csv()
    found = open_table(kind, stream, f"f.{kind}", dialect)
    return guess(found.columns(), found.sample(), dialect, texts=kind == "csv", stem="f")


def made(data: bytes | str, form: str = "csv", /, **mapping: Any) -> list[Any]:
    """Return what the rows of a file become: lists of ``(kind, source, time, payload)``, or why they are refused."""
    read = mapping_of(mapping)
    found = table(data, form, read.csv)
    reader = RowReader(read, found, world="w", max_effect_bytes=1 << 20)
    rows: list[Any] = []
    for record in found.rows():
        try:
            row = None if record.why else reader.read(record.number, record.values)
        except RowRefusedError as error:
            rows.append(str(error))
        else:
            drafts = row.drafts if row is not None else ()
            told = [(each.kind, each.source_id, each.sim_time, orjson.loads(each.payload)) for each in drafts]
            rows.append(record.why or told)
    return rows


def payloads(data: bytes | str, form: str = "csv", /, **mapping: Any) -> list[Any]:
    """Return the payloads that rows of one effect become, or why they are refused."""
    return [row if isinstance(row, str) else row[0][3] for row in made(data, form, **mapping)]
