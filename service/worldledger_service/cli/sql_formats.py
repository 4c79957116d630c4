"""How the rows of an answer are written: as a table for people, or as CSV, JSON or Parquet, a batch at a time."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias, cast

from worldledger.columns import unique_names
from worldledger.errors import SimulationError
from worldledger_service.cli.files import written_whole
from worldledger_service.cli.layout import cut, fitted, screen_width, width
from worldledger_service.cli.output import plain

if TYPE_CHECKING:
    from worldledger_service.database.analytics.asking import Cells, Column, Row

Format: TypeAlias = Literal["table", "csv", "json", "parquet"]
Write: TypeAlias = Callable[[bytes], object]

#: What stands in quotes in a CSV file: nothing, whatever has a meaning there, and what ends the rows for psql.
_QUOTED: Final = re.compile(r'\A\Z|[",\r\n]|\A\\\.\Z')
#: With what a spreadsheet takes a cell for a formula. Source: OWASP, "CSV Injection".
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
#: Longest cell of a table that is shown whole.
_WIDEST: Final = 80
_NUMBERS: Final = frozenset({"smallint", "integer", "bigint", "real", "double precision", "numeric"})
_DOUBLES: Final = frozenset({"real", "double precision"})
#: Digits of a double behind the point, in a table.
_DIGITS: Final = 6
#: Rows of a row group.
_GROUP: Final = 122_880


class Writer(Protocol):
    """Writes an answer: its columns first, then rows, then what comes at the end; nothing more once it is given up."""

    def begin(self, columns: Sequence[Column]) -> None:
        """Take the columns."""

    def rows(self, rows: Sequence[Row]) -> None:
        """Write rows, or keep them."""

    def end(self) -> None:
        """Write what is left."""

    def give_up(self) -> None:
        """Write nothing more."""


class _Lines:
    """What holds nothing that would have to be let go."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def end(self) -> None:
        pass

    def give_up(self) -> None:
        pass


class _Table(_Lines):
    """Aligned columns, as psql shows them, doubles to six digits behind the point; all rows are held until the end.

    Where they are wider than the ``screen``, long cells are cut.
    """

    def __init__(self, write: Write, screen: int | None = None) -> None:
        super().__init__(write)
        self._screen = screen
        self._rows: list[list[str]] = []

    def begin(self, columns: Sequence[Column]) -> None:
        self._right = [column.type in _NUMBERS for column in columns]
        self._doubles = [column.type in _DOUBLES for column in columns]
        self._rows.append([plain(column.name) for column in columns])

    def rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            cells = zip(row, self._doubles, strict=True)
            self._rows.append([_rounded(cell or "") if is_double else _shown(cell or "") for cell, is_double in cells])

    def end(self) -> None:
        sizes = [max(map(width, cells)) for cells in zip(*self._rows, strict=True)]
        if self._screen is not None:
            sizes = fitted(sizes, self._screen - 2, len(" | "))
            self._rows = [[cut(*cell) for cell in zip(cells, sizes, strict=True)] for cells in self._rows]
        head, *rest = self._rows
        lines = [" | ".join(_padded(cell, size, centre=True) for cell, size in zip(head, sizes, strict=True))]
        lines.append("-+-".join("-" * size for size in sizes))
        for row in rest:
            cells = zip(row, sizes, self._right, strict=True)
            lines.append(" | ".join(_padded(cell, size, right=right) for cell, size, right in cells))
        text = "".join(f" {line}".rstrip() + "\n" for line in [lines[0], *lines[2:]])
        first, _, others = text.partition("\n")
        self._write(f"{first}\n-{lines[1]}-\n{others}".encode(errors="backslashreplace"))


def _shown(cell: str) -> str:
    return cut(plain(cell), _WIDEST)


def _rounded(cell: str) -> str:
    """Return a double's text for people: one with many digits is rounded, unless nothing were left of it."""
    if len(cell.partition(".")[2]) <= _DIGITS or "e" in cell or abs(float(cell)) < 0.1**_DIGITS:
        return cell
    return f"{float(cell):.{_DIGITS}f}".rstrip("0").rstrip(".")


def _padded(cell: str, size: int, *, right: bool = False, centre: bool = False) -> str:
    room = size - width(cell)
    left = room if right else room // 2 if centre else 0
    return " " * left + cell + " " * (room - left)


class _Csv(_Lines):
    """Comma-separated values (RFC 4180, lines end in LF): a header, then PostgreSQL's texts.

    Null is nothing and a text of nothing ``""``, as COPY writes them; the csv module of Python 3.11 cannot. A text that
    a spreadsheet would take for a formula has an apostrophe before it, unless ``escape`` is False.
    """

    def __init__(self, write: Write, *, escape: bool = True) -> None:
        super().__init__(write)
        self._escape = escape

    def begin(self, columns: Sequence[Column]) -> None:
        self._texts = [self._escape] * len(columns)
        self.rows([tuple(column.name for column in columns)])
        self._texts = [self._escape and column.type not in _NUMBERS for column in columns]

    def rows(self, rows: Sequence[Row]) -> None:
        self._write("".join(",".join(map(_field, row, self._texts)) + "\n" for row in rows).encode())


def _field(cell: str | None, is_text: bool) -> str:
    if is_text and cell and cell.startswith(_FORMULA):
        cell = f"'{cell}"
    if cell is None or not _QUOTED.search(cell):
        return cell or ""
    doubled = cell.replace('"', '""')
    return f'"{doubled}"'


class _Json(_Lines):
    """A list of objects, one a line; a column whose name comes again has a number behind it."""

    def __init__(self, write: Write) -> None:
        super().__init__(write)
        self._before = "[\n"

    def begin(self, columns: Sequence[Column]) -> None:
        names = unique_names(column.name for column in columns)
        self._keys = [json.dumps(name, ensure_ascii=False) for name in names]

    def rows(self, rows: Sequence[Row]) -> None:
        pieces: list[str] = []
        for row in rows:
            cells = zip(self._keys, row, strict=True)
            pieces.append(self._before + "{" + ",".join(f"{key}:{cell or 'null'}" for key, cell in cells) + "}")
            self._before = ",\n"
        self._write("".join(pieces).encode())

    def end(self) -> None:
        self._write(b"[]\n" if self._before == "[\n" else b"\n]\n")


class _Parquet:
    """A Parquet file: zstd, row groups of about 120,000 rows."""

    def __init__(self, write: Write) -> None:
        from worldledger_service.arrow.extras import needed  # noqa: PLC0415

        with needed():
            import pyarrow as pa  # noqa: PLC0415 - large, and not always installed
            import pyarrow.parquet as pq  # noqa: PLC0415

            from worldledger_service.arrow import answers  # noqa: PLC0415
        self._pa, self._pq, self._answers = pa, pq, answers
        self._sink = _Sink(write)
        self._waiting: list[Any] = []
        self._count = 0
        self._writer: Any = None

    def begin(self, columns: Sequence[Column]) -> None:
        self._schema = self._answers.schema_of(columns)
        self._writer = self._pq.ParquetWriter(
            self._pa.PythonFile(self._sink, mode="w"), self._schema, compression="zstd"
        )

    def rows(self, rows: Sequence[Row]) -> None:
        self._waiting.append(self._answers.batch_of(self._schema, rows))
        self._count += len(rows)
        if self._count >= _GROUP:
            self._flush()

    def end(self) -> None:
        self._flush()
        self._writer.close()

    def give_up(self) -> None:
        self._sink.give_up()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(self._pa.Table.from_batches(self._waiting, self._schema), row_group_size=_GROUP)
        self._waiting, self._count = [], 0


class _Sink(io.RawIOBase):
    """A stream that can only be written, for what counts its bytes."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._length = 0

    def writable(self) -> bool:
        return True

    def give_up(self) -> None:
        self._write = len

    def write(self, data: Any) -> int:
        self._write(bytes(data))
        self._length += len(data)
        return len(data)

    def tell(self) -> int:
        return self._length


class _Form(NamedTuple):
    writer: Callable[[Write], Writer]
    cells: Cells


FORMATS: Final[dict[str, _Form]] = {
    "table": _Form(_Table, "text"),
    "csv": _Form(_Csv, "text"),
    "json": _Form(_Json, "json"),
    "parquet": _Form(_Parquet, "plain"),
}


def format_of(form: str | None, output: str) -> Format:
    """Return the format that is meant: what was said, or else what the file's name says. Raises SimulationError."""
    if form is None:
        form = output.rpartition(".")[2] if "." in output else "table"
        form = form if form in FORMATS else "table"
    if form not in FORMATS:
        raise SimulationError(f"--format {form}: there are {', '.join(FORMATS)}")
    if form == "parquet" and output == "-" and sys.stdout.isatty():
        raise SimulationError("a Parquet file is nothing for a terminal: name a file with -o")
    return cast("Format", form)


@contextmanager
def written(form: Format, output: str, *, escape: bool = True, force: bool = False) -> Iterator[Writer]:
    """Lend what writes an answer; a file appears at the end of the block, whole, or not at all.

    ``escape``: whether texts in CSV that a spreadsheet would take for formulas are kept from it.
    """
    with written_whole(output, force=force) as write:
        writer: Writer
        if form == "csv":
            writer = _Csv(write, escape=escape)
        elif form == "table" and output == "-":
            writer = _Table(write, screen_width())
        else:
            writer = FORMATS[form].writer(write)
        try:
            yield writer
        except BaseException:
            writer.give_up()
            raise
