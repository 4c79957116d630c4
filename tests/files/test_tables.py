"""Tables as they are found: whatever is wrong with a row is told with its line, and the next row is read."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from worldledger_recorder.files import tables
from worldledger_recorder.files.mapping import Csv
from worldledger_recorder.files.tables import csv_dialect, open_table

from worldledger.errors import FileRefusedError

from .helpers import table


def _read(data: bytes | str, kind: str = "csv", dialect: Csv | None = None) -> list[object]:
    return [record.why or (record.number, record.values) for record in table(data, kind, dialect).rows()]


def test_rows_of_csv_are_numbered_by_the_line_on_which_they_begin() -> None:
    """Quoted fields may have line breaks; blank lines and a byte order mark are passed over; any line ends will do."""
    assert _read(b'\xef\xbb\xbfa,b\r\n"1\n2",x\r\n\r\n3,"y ""z"""\r4,\n') == [
        (2, {"a": "1\n2", "b": "x"}),
        (5, {"a": "3", "b": 'y "z"'}),
        (6, {"a": "4", "b": ""}),
    ]


def test_bad_rows_of_csv_are_told_and_the_next_is_read() -> None:
    """Too few or many cells, quotes out of place and bytes that are not UTF-8 concern one row each."""
    data = b'a,b\n1\n1,2,3\n"x"y,2\n\xff,2\nok,2\n'
    assert _read(data) == [
        "1 cells; the header has 2",
        "3 cells; the header has 2",
        "not CSV: ',' expected after '\"'",
        "not utf-8; csv.encoding of the mapping may say another one",
        (6, {"a": "ok", "b": "2"}),
    ]
    assert _read(data, dialect=Csv(encoding="latin-1"))[3] == (5, {"a": "ÿ", "b": "2"})


def test_a_quote_that_is_not_closed_ends_the_file() -> None:
    """Where a quoted field does not end, nothing after it can be told apart; the row is named."""
    found = table(b'a,b\n1,2\n"3,4\n5,6\n').rows()
    assert next(found).values == {"a": "1", "b": "2"}
    (last,) = found
    assert (last.number, last.why) == (3, tables._UNCLOSED)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_lines_too_long_are_not_held(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A line with more characters than a record may have is passed over, piece by piece, and told."""
    monkeypatch.setattr(tables, "MOST", 1000)
    ok, long = ("1,2", "1," + "x" * 5000) if kind == "csv" else ('{"a": 1}', '{"a": "' + "x" * 5000 + '"}')
    header = "a,b\n" if kind == "csv" else ""
    pieces: list[int] = []

    class Watched(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            found = super().readline(size)
            pieces.append(len(found))
            return found

    stream = Watched(f"{header}{ok}\n{long}\n{ok}\n".encode())
    records = list(open_table(kind, stream, "f", Csv()).rows())
    assert [bool(record.why) for record in records] == [False, True, False]
    assert records[1].why.startswith("more than 1000")
    assert records[2].number == records[0].number + 2
    assert all(size <= 1001 for size in pieces)


def test_a_record_over_many_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quoted field that goes on over more lines than a record may have ends the file."""
    monkeypatch.setattr(tables, "MOST", 1000)
    (record,) = table('a\n"' + "x\n" * 2000).rows()
    assert (record.number, record.why) == (2, tables._UNCLOSED)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "some/f.csv: there is nothing in it, not even a header"),
        (b"\n\n", "some/f.csv: there is nothing in it, not even a header"),
        (b"a,b,a\n", "some/f.csv:1: there are two columns 'a'"),
        (b"\na,\x00\n", "some/f.csv:2: the column '\\x00': a string with a NUL character"),
        (b"a,\xff\n", "some/f.csv:1: the header: not utf-8"),
    ],
)
def test_a_header_that_cannot_be_one_is_refused(data: bytes, told: str) -> None:
    """A file without a header, with a column that stands twice or with a name that no member can have is refused."""
    with pytest.raises(FileRefusedError) as caught:
        table(data).columns()
    assert caught.value.message.startswith(told)


def test_columns_without_a_name_get_one() -> None:
    """The index that dataframes write has no name; it is called by its place."""
    assert list(table(b",a , b\n").columns()) == ["column_1", "a", "b"]


@pytest.mark.parametrize(
    ("data", "dialect"),
    [
        (b"a;b\n1,5;2\n", Csv(delimiter=";")),
        (b"a\tb\n1\t2\n", Csv(delimiter="\t")),
        (b"a|b|c\n1|2|3\n", Csv(delimiter="|")),
        (b'\xef\xbb\xbf"a;x",b\n1,"2\n3"\n', Csv()),
        (b"a\n1\n", Csv()),
        (b"", Csv()),
        ("a,b\n1,é\n".encode("utf-16"), Csv(encoding="utf-16")),
    ],
)
def test_the_way_a_csv_file_is_written_is_found(data: bytes, dialect: Csv) -> None:
    """Delimiters are told from the header and the rows, UTF-16 by its mark."""
    found = csv_dialect(io.BytesIO(data))
    assert found == dialect
    if data:
        assert table(data, dialect=found).columns()


def test_bad_lines_of_json_are_told_and_the_next_is_read() -> None:
    """What is no JSON object is told; so are keys that stand twice and integers that a parser would change."""
    data = (
        b'\xef\xbb\xbf{"a": 1}\n\n[1]\nnope\n{"a":1,"a":2}\n{"a" : {"b":1, "b":2}}\n\xff\n{"a":"\\u0022:"}\n{"a":\r\n'
    )
    assert _read(data, "jsonl") == [
        (1, {"a": 1}),
        "not a JSON object",
        "not JSON: Expecting value at column 1",
        "the key 'a' stands twice",
        "$.a: the key 'b' stands twice",
        "not UTF-8 (byte 0)",
        (8, {"a": '":'}),
        "not JSON: Expecting value at column 6",
    ]
    (record,) = table(b'{"id": 12345678901234567890123}', "jsonl").rows()
    assert type(record.values["id"]) is int
    assert list(table(b'{"b": 1}\n{"a": 1, "b": 2}', "jsonl").columns()) == ["b", "a"]


def test_json_deeper_than_any_effect_is_told() -> None:
    """Nesting beyond what a parser follows is one row's fault."""
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    (told,) = _read(deep, "jsonl")
    assert "nested deeper than" in str(told)


def test_parquet_is_read_in_batches(tmp_path: Path) -> None:
    """Times are ISO 8601 texts, durations seconds, decimals texts, nested values JSON; rows are numbered from 1 on."""
    when = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
    columns = {
        "n": pa.array(range(4_200), pa.int64()),
        "when": pa.array([when] * 4_200, pa.timestamp("ns", "UTC")),
        "local": pa.array([when.replace(tzinfo=None)] * 4_200, pa.timestamp("us")),
        "took": pa.array([1_500_000_001] * 4_200, pa.duration("ns")),
        "sum": pa.array([Decimal("1.50")] * 4_200, pa.decimal128(9, 2)),
        "day": pa.array([when.date()] * 4_200),
        "more": pa.array([{"x": [1.5, None]}] * 4_200),
        "word": pa.array(["a"] * 4_200).dictionary_encode(),
        "gap": pa.array([None] * 4_200, pa.float64()),
    }
    file = tmp_path / "f.parquet"
    pq.write_table(pa.table(columns), file)
    with file.open("rb") as stream:
        found = open_table("parquet", stream, "f.parquet", Csv())
        records = list(found.rows())
        assert list(found.columns()) == list(columns)
        assert found.position == found.size
        assert found.place(3) == "f.parquet: row 3"
    assert (len(records), records[-1].number, records[-1].values["n"]) == (4_200, 4_200, 4_199)
    assert records[0].values == {
        "n": 0, "when": "2026-01-31T12:00:00.000005+00:00", "local": "2026-01-31T12:00:00.000005", "took": 1.5,
        "sum": "1.50", "day": "2026-01-31", "more": {"x": [1.5, None]}, "word": "a", "gap": None,
    }  # fmt: skip


def test_long_rows_are_read_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file with very long rows fewer are looked at first, and fewer are made values at once."""
    monkeypatch.setattr(tables, "_SAMPLE_BYTES", 100_000)
    lines = "".join(f'{{"n": {n}, "s": "{"x" * 1000}"}}\n' for n in range(900))
    assert 50 < len(table(lines, "jsonl").sample()) < 200
    monkeypatch.setattr(tables, "_BATCH_BYTES", 50_000)
    file = tmp_path / "f.parquet"
    texts = [f"{n:01000}" for n in range(900)]
    pq.write_table(pa.table({"s": texts}), file, use_dictionary=False, compression="none")
    with file.open("rb") as stream:
        found = open_table("parquet", stream, "f.parquet", Csv())
        positions = [(found.position, record.values["s"]) for record in found.rows()]
    assert [text for _, text in positions] == texts
    assert len({position for position, _ in positions}) >= 900 // 60  # one for each batch


def test_what_is_no_parquet_is_refused() -> None:
    """A file that is none, and one that was cut, are refused by name."""
    for data in (b"", b"PAR1 and no more", b"a,b\n"):
        with pytest.raises(FileRefusedError, match=r"some/f\.parquet: not Parquet"):
            table(data, "parquet")
