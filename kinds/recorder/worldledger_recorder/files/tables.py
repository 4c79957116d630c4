"""Tables in files, read row by row in bounded memory: CSV, JSON Lines and Parquet.

What cannot be read is a record with the reason, and the next row is read: a file as a whole is refused only if it has
no header, or is none of its format.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import orjson
from worldledger_service.arrow.pool import needed

from worldledger.canonical import gate, parse_text
from worldledger.errors import FileRefusedError, InvalidEffectError
from worldledger_recorder.files.mapping import Csv

#: Most characters of one record of CSV, or bytes of one line of JSON.
MOST: Final = 16 * 1024 * 1024
#: Rows by which a mapping is guessed and a file is shown.
SAMPLE: Final = 1000
#: Bytes of a file after which no more of these are read.
_SAMPLE_BYTES: Final = 8 * 1024 * 1024
#: Rows of Parquet that are made values at once, and about the bytes of them.
_BATCH: Final = 4096
_BATCH_BYTES: Final = 8 * 1024 * 1024


class Record(NamedTuple):
    """A row of a file: its number (of the line on which it begins, or of the row), and its values by column.

    ``why`` says why it cannot be read, if that is so.
    """

    number: int
    values: dict[str, Any]
    why: str = ""


class Table:
    """A file of records. ``unit`` is what its records are numbered by, ``size`` its bytes.

    ``texts``: whether all values are texts. ``null_is_missing``: whether null stands for no value, which it does where
    every row has every column.
    """

    unit = "line"
    texts = False
    null_is_missing = True

    def __init__(self, stream: BinaryIO, file: str) -> None:
        self.file = file
        #: the file's name without its folder
        self.name = "stdin" if file == "-" else os.fsencode(Path(file).name).decode(errors="replace")
        self._stream = stream
        self.size = stream.seek(0, io.SEEK_END)

    @property
    def position(self) -> int:
        """How many bytes are read."""
        return self._stream.tell()

    def place(self, number: int) -> str:
        """Return how people are told of a record."""
        return f"{self.file}:{number}" if self.unit == "line" else f"{self.file}: {self.unit} {number}"

    def columns(self) -> Sequence[str]:
        """Return the names of the columns. Raises FileRefusedError."""
        raise NotImplementedError

    def rows(self) -> Iterator[Record]:
        """Yield the records, from the first on. Raises FileRefusedError."""
        raise NotImplementedError

    def sample(self) -> list[Record]:
        """Return the first records; of very long ones fewer."""
        found: list[Record] = []
        for record in self.rows():
            found.append(record)
            if len(found) == SAMPLE or self.position > _SAMPLE_BYTES:
                break
        return found


# -- CSV -----------------------------------------------------------------------------------------------------

#: Delimiters that are looked for in a header.
_DELIMITERS: Final = ",;\t|"
_ESCAPED: Final = re.compile("[\ud800-\udfff]")
_ENDS: Final = ("\n", "\r")


class _TooLongError(Exception):
    """A record has too many characters; ``goes_on``: it is a line, so that the next one can be read."""

    def __init__(self, *, goes_on: bool) -> None:
        super().__init__()
        self.goes_on = goes_on


class _Lines:
    """The lines of a text, counted; iteration goes on after an error."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        #: the number of the last line, the characters of the record so far, and whether some were not decoded
        self.number = 0
        self.length = 0
        self.is_broken = False

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._text.readline(MOST + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self.length += len(line)
        if self.length > MOST:
            if len(line) <= MOST:  # there are several, in quotes
                raise _TooLongError(goes_on=False)
            while line and not line.endswith(_ENDS):
                line = self._text.readline(MOST)
            raise _TooLongError(goes_on=True)
        if not line.isascii() and _ESCAPED.search(line):
            self.is_broken = True
        return line

    def begin(self) -> None:
        """Begin a record."""
        self.length = 0
        self.is_broken = False


class CsvTable(Table):
    """A CSV file with a header (RFC 4180, with any delimiter and encoding). Columns without a name get one."""

    texts = True

    def __init__(self, stream: BinaryIO, file: str, dialect: Csv) -> None:
        super().__init__(stream, file)
        self._dialect = dialect

    def columns(self) -> Sequence[str]:
        """Return the cells of the header."""
        return self._header(next(self._cells(), None))

    def rows(self) -> Iterator[Record]:
        """Yield the records after the header, their values as texts."""
        records = self._cells()
        columns = self._header(next(records, None))
        count = len(columns)
        for number, cells, why in records:
            if why:
                yield Record(number, {}, why)
            elif len(cells) == count:
                yield Record(number, dict(zip(columns, cells, strict=True)))
            else:
                yield Record(number, {}, f"{len(cells)} cells; the header has {count}")

    def _cells(self) -> Iterator[tuple[int, list[str], str]]:
        """Yield the cells of each record that is not blank, with its first line, or why there are none."""
        csv.field_size_limit(max(csv.field_size_limit(), MOST))
        self._stream.seek(0)
        encoding = "utf-8-sig" if self._dialect.encoding.lower().replace("_", "-") in {"utf-8", "utf8"} else ""
        text = io.TextIOWrapper(self._stream, encoding or self._dialect.encoding, errors="surrogateescape", newline="")
        lines = _Lines(text)
        try:
            yield from self._records(lines)
        except UnicodeError as error:
            raise FileRefusedError(f"not {self._dialect.encoding} ({error})", file=self.file) from None
        finally:
            with suppress(ValueError):  # the file is closed already
                text.detach()

    def _records(self, lines: _Lines) -> Iterator[tuple[int, list[str], str]]:
        first = 1
        ended = False
        while not ended:
            why = ""
            try:
                for cells in csv.reader(lines, delimiter=self._dialect.delimiter, strict=True):
                    if lines.is_broken:
                        yield (
                            first,
                            [],
                            f"not {self._dialect.encoding}; csv.encoding of the mapping may say another one",
                        )
                    elif cells:
                        yield first, cells, ""
                    first = lines.number + 1
                    lines.begin()
                ended = True
            except csv.Error as error:
                why = _UNCLOSED if "end of data" in str(error) else f"not CSV: {error}"
            except _TooLongError as error:
                ended = not error.goes_on
                why = f"more than {MOST} characters{_TOO_LONG}" if error.goes_on else _UNCLOSED
            if why:
                yield first, [], why
                first = lines.number + 1
                lines.begin()

    def _header(self, found: tuple[int, list[str], str] | None) -> Sequence[str]:
        if found is None:
            raise FileRefusedError("there is nothing in it, not even a header", file=self.file)
        number, cells, why = found
        if why:
            raise FileRefusedError(f"the header: {why}", file=self.file, line=number)
        return _checked([cell.strip() or f"column_{at}" for at, cell in enumerate(cells, 1)], self.file, number)


_UNCLOSED: Final = (
    f"a quoted field begins here that does not end within {MOST} characters; what comes after it is not read"
)
#: What is said of a row that is too long for any reader.
_TOO_LONG: Final = ", which no row may have: write where such a value is, or its digest"


def csv_dialect(stream: BinaryIO) -> Csv:
    """Guess how a CSV file is written: its delimiter, and UTF-16 by its mark."""
    stream.seek(0)
    start = stream.read(64 * 1024)
    encoding = "utf-16" if start.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    text = start.decode("utf-8-sig" if encoding == "utf-8" else encoding, "replace")

    def rank(delimiter: str) -> tuple[int, int]:
        """Return how many records have as many cells as the header, if those are several, and how many these are."""
        counts = [len(cells) for cells in islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 20)]
        columns = counts[0] if counts else 0
        return (counts.count(columns) if columns > 1 else 0), columns

    return Csv(delimiter=max(_DELIMITERS, key=rank), encoding=encoding)


def _checked(columns: list[str], file: str, line: int | None = None) -> Sequence[str]:
    """Return the names of columns. Raises FileRefusedError for one that stands twice, or can be no member."""
    seen: set[str] = set()
    for name in columns:
        if name in seen:
            raise FileRefusedError(f"there are two columns {name!r}", file=file, line=line)
        seen.add(name)
        try:
            gate(name)
        except InvalidEffectError as error:
            raise FileRefusedError(f"the column {name!a}: {error.reason}", file=file, line=line) from None
    return columns


# -- JSON Lines ----------------------------------------------------------------------------------------------

_MARK: Final = b"\xef\xbb\xbf"
#: What a closer look is for: a whole number that may be beyond 2^53-1, for orjson reads one beyond 64 bits as another;
#: and a blank between a key and its colon, so that the keys cannot be counted.
_ODD: Final = re.compile(rb'(?<![.0-9])[0-9]{17}|"[ \t\r]+:')


class JsonLinesTable(Table):
    """A file of JSON Lines: an object a line, whose members are the columns. Blank lines are passed over."""

    null_is_missing = False

    def columns(self) -> Sequence[str]:
        """Return the members of the first lines: later ones may have others."""
        return list(dict.fromkeys(name for record in self.sample() for name in record.values))

    def rows(self) -> Iterator[Record]:
        """Yield the objects."""
        stream = self._stream
        stream.seek(0)
        stream.seek(len(_MARK) if stream.read(len(_MARK)) == _MARK else 0)
        number = 0
        while line := stream.readline(MOST + 1):
            number += 1
            if len(line) > MOST and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = stream.readline(MOST)
                yield Record(number, {}, f"more than {MOST} bytes{_TOO_LONG}")
                continue
            if line.isspace():
                continue
            try:
                value = _read(line)
            except InvalidEffectError as error:
                why = error.reason.replace(" at line 1 column ", " at column ")  # the record's place says the line
                yield Record(number, {}, why if error.path == "$" else f"{error.path}: {why}")
            else:
                yield Record(number, value) if type(value) is dict else Record(number, {}, "not a JSON object")


def _read(line: bytes) -> Any:
    """Read a line; what a common parser drops or changes is looked at more closely. Raises InvalidEffectError."""
    with suppress(orjson.JSONDecodeError, orjson.JSONEncodeError):
        value = orjson.loads(line)
        # A key that stands twice leaves fewer of them.
        if line.count(b'":') == orjson.dumps(value).count(b'":') and not _ODD.search(line):
            return value
    return parse_text(line.rstrip(b"\r\n"))


# -- Parquet -------------------------------------------------------------------------------------------------


class ParquetTable(Table):
    """A Parquet file. Values that JSON does not have are converted as in recordings: times to ISO 8601 texts, say."""

    unit = "row"

    def __init__(self, stream: BinaryIO, file: str) -> None:
        """Open the file. Raises FileRefusedError for what is no Parquet, ExtraMissingError without the extra."""
        super().__init__(stream, file)
        with needed():
            import pyarrow as pa  # noqa: PLC0415 - large, and not always installed
            import pyarrow.parquet as pq  # noqa: PLC0415
        from worldledger.client.plain import to_plain  # noqa: PLC0415 - it loads the client

        self._pa: Any = pa
        self._plain = partial(to_plain, told=lambda _: None, unknown="repr")
        try:
            self._file = pq.ParquetFile(stream, pre_buffer=False, buffer_size=1024 * 1024)
        except (pa.ArrowException, OSError) as error:
            raise FileRefusedError(f"not Parquet ({error})", file=file) from None
        self._done = 0
        about = self._file.metadata
        self._count: int = about.num_rows
        size = sum(about.row_group(at).total_byte_size for at in range(about.num_row_groups))
        self._batch = max(1, min(_BATCH, _BATCH_BYTES * self._count // max(size, 1)))

    @property
    def position(self) -> int:
        """How many of the file's bytes the rows that are read stand for."""
        return self.size * self._done // max(self._count, 1)

    def columns(self) -> Sequence[str]:
        """Return the names in the file's schema."""
        return _checked(list(self._file.schema_arrow.names), self.file)

    def rows(self) -> Iterator[Record]:
        """Yield the rows."""
        columns = self.columns()
        makers = [self._maker(field.type) for field in self._file.schema_arrow]
        self._done = 0
        try:
            for batch in self._file.iter_batches(batch_size=self._batch):
                lists = [make(column) for make, column in zip(makers, batch.columns, strict=True)]
                for number, values in enumerate(zip(*lists, strict=True), self._done + 1):
                    yield Record(number, dict(zip(columns, values, strict=True)))
                self._done += batch.num_rows
        except (self._pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise FileRefusedError(f"row {self._done + 1} and after: {error}", file=self.file) from None

    def _maker(self, kind: Any) -> Callable[[Any], list[Any]]:
        """Return the function from a column of a type to its values."""
        pa = self._pa
        types = pa.types
        if types.is_timestamp(kind) or types.is_duration(kind):  # Python has no nanoseconds
            exact = pa.timestamp("us", kind.tz) if types.is_timestamp(kind) else pa.duration("us")
            return lambda column: [self._plain(value) for value in column.cast(exact, safe=False).to_pylist()]
        if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_string(kind):
            return lambda column: column.to_pylist()
        return lambda column: [self._plain(value) for value in column.to_pylist()]


FORMATS: Final = ("csv", "jsonl", "parquet")


def open_table(kind: str, stream: BinaryIO, file: str, dialect: Csv) -> Table:
    """Return a table of one of FORMATS. Raises FileRefusedError, ExtraMissingError."""
    if kind == "csv":
        return CsvTable(stream, file, dialect)
    return JsonLinesTable(stream, file) if kind == "jsonl" else ParquetTable(stream, file)
