"""Rows as effects: what a mapping makes of them, and why one is refused."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worldledger_recorder.files.mapping import mapping_of
from worldledger_recorder.files.rows import Row, RowReader, RowRefusedError, content_of
from worldledger_recorder.files.tables import Record

from .helpers import made, payloads, table

TOWN = "t,who,what,price\n0.5,alice,Sold,3\n2,bob,Bought,4\n"


def test_a_row_is_an_effect_of_its_agent() -> None:
    """Time, agent and kind come from their columns, and the rest is the payload, read by types."""
    assert made(TOWN, time="t", agent="who", kind="what", types={"price": "integer"}) == [
        [("Sold", "alice", 0.5, {"price": 3})],
        [("Bought", "bob", 2.0, {"price": 4})],
    ]
    assert made("a\n1\n") == [[("Row", "recorder", None, {"a": "1"})]]


def test_a_row_may_tell_state() -> None:
    """With an entity a row sets its fields; without a kind that is all, and a cell without a value sets nothing."""
    data = "who,gold,x,y\nalice,3,1,2\nalice,,3,\nalice,,,\n,1,1,1\n"
    entity = {"id": "who", "fields": {"gold": "gold", "position": ["x", "y"]}}
    types = {"gold": "integer", "x": "number", "y": "number"}
    assert made(data, entity=entity, types=types) == [
        [("EntitySet", "recorder", None, {"entity_id": "alice", "values": {"gold": 3, "position": [1.0, 2.0]}})],
        [],
        [],
        [],
    ]
    kinds = [kind for kind, *_ in made(data, entity=entity, types=types, kind={"constant": "Moved"})[0]]
    assert kinds == ["Moved", "EntitySet"]


def test_a_step_begins_where_its_number_rises() -> None:
    """Rows of the same step are in one; before the first is step 0; a lower step, or none that is whole, is refused."""
    data = "turn,a\n0,a\n1,b\n1,c\n3,d\n2,e\n3.5,f\n-1,g\n"
    found = made(data, step="turn")
    assert [[kind for kind, *_ in row] if isinstance(row, list) else row for row in found] == [
        ["Row"],
        ["StepBegan", "Row"],
        ["Row"],
        ["StepBegan", "Row"],
        "the step: 2 comes after 3",
        "the step: '3.5' is no integer",
        "the step: '-1' is no whole number from 0 on",
    ]
    assert found[3][0] == ("StepBegan", "recorder", None, {"step": 3})


@pytest.mark.parametrize("seen", ["bob, eve", '["bob","eve"]'])
def test_a_column_says_who_sees_a_row(seen: str) -> None:
    """Names with a separator or a JSON list are the audience; a row without any is for all."""
    data = f"a;seen\n1;{seen}\n2;\n3;[1]\n"
    assert payloads(data, sees={"column": "seen"}, csv={"delimiter": ";"}) == [
        {"a": "1", "sees": ["bob", "eve"]},
        {"a": "2"},
        "the column 'seen' has no list of names, of at most 200 characters",
    ]


def test_each_value_of_a_column_may_be_a_world() -> None:
    """A world is called like the value if that may be, else by its letters and digits of a hash; each has its time."""
    read = mapping_of({"world": {"column": "run", "prefix": "town-"}, "time": "t"})
    found = table("run,t\na,5\nb c,1\nb-c,2\na,6\n,7\n")
    reader = RowReader(read, found, world="w", label="e-", max_effect_bytes=1 << 20)
    records = list(found.rows())
    names = [reader.read(record.number, record.values).world for record in records[:4]]
    assert names[0] == names[3] == "e-town-a"
    assert names[1].startswith("e-town-b-c-")
    assert names[2] == "e-town-b-c"


# -- times ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "mapping", "times"),
    [
        (["0", "-0.0", "1.5", "1e3"], {}, [0.0, 0.0, 1.5, 1000.0]),
        (["250", "1000"], {"unit": "ms"}, [0.25, 1.0]),
        (["1", "2"], {"unit": "d"}, [86400.0, 172800.0]),
        (["1700000000123456789", "1700000000123456889"], {"unit": "ns", "zero": "first"}, [0.0, 1e-7]),
        (["100", "102"], {"zero": "100"}, [0.0, 2.0]),
        (["2026-01-01T00:00:00Z", "2026-01-01T01:00:00.5+00:00"], {"unit": "iso", "zero": "first"}, [0.0, 3600.5]),
        (["1970-01-01 00:00:10+00:00"], {"unit": "iso"}, [10.0]),
        (
            ["2026-07-01T12:00", "2026-07-01T10:00:01Z"],
            {"unit": "iso", "zero": "first", "zone": "Europe/Berlin"},
            [0, 1],
        ),
        (["2026-01-02"], {"unit": "iso", "zero": "2026-01-01T00:00:00Z", "zone": "UTC"}, [86400.0]),
        (["5", "", "4", "6"], {"backwards": "hold"}, [5.0, 5.0, 5.0, 6.0]),
    ],
)
def test_times_are_seconds_of_the_world(texts: list[str], mapping: dict[str, Any], times: list[float]) -> None:
    """Units, zeros and zones give seconds that do not fall; a row without a time has that of the row before."""
    found = made("x,t\n" + "".join(f"1,{text}\n" for text in texts), time={"column": "t", **mapping})
    assert [row[0][2] for row in found] == pytest.approx(times)


@pytest.mark.parametrize(
    ("text", "mapping", "told"),
    [
        ("nan", {}, "the time: 'nan' is no finite number"),
        ("1_000", {}, "the time: '1_000' is no finite number"),
        ("-1", {}, "the time: -1 is before the world's zero; time.zero of the mapping moves it"),
        ("soon", {"unit": "iso"}, "the time: 'soon' is no ISO 8601 time"),
        ("2026-01-01T00:00:00", {"unit": "iso"}, "the time: '2026-01-01T00:00:00' has no offset from UTC; time.zone"),
        ("9" * 400, {}, "the time: '9999999999999999999999999999999999999"),
    ],
)
def test_times_that_are_none_are_refused(text: str, mapping: dict[str, Any], told: str) -> None:
    """What is no time, or has none that a world can have, is refused."""
    (why,) = made(f"x,t\n1,{text}\n", time={"column": "t", **mapping})
    assert why.startswith(told)


def test_time_that_goes_back_is_refused() -> None:
    """A row before the one above is refused, and the next one is measured by the last that was taken."""
    found = made("t\n5\n4\n5\n", time="t")
    assert found[1] == "the time: 4 s comes after 5 s; with time.backwards: hold it is taken"
    assert found[2][0][2] == 5.0


# -- values --------------------------------------------------------------------------------------------------


def test_texts_are_read_by_their_types() -> None:
    """A cell that is not of its column's type is refused with the column; one without a value is left out."""
    data = 'i,n,b,j,s\n7,1.5,TRUE,"{""a"":[1]}",007\n,,,,\nx,1,true,1,\n1,inf,true,1,\n1,1,yes,1,\n1,1,true,{,\n'
    types = {"i": "integer", "n": "number", "b": "boolean", "j": "json", "s": "text"}
    assert payloads(data, types=types) == [
        {"i": 7, "n": 1.5, "b": True, "j": {"a": [1]}, "s": "007"},
        {},
        "the column 'i': 'x' is no integer",
        "the column 'n': 'inf' is no finite number",
        "the column 'b': 'yes' is neither true nor false",
        "the column 'j': not JSON: Expecting property name enclosed in double quotes at line 1 column 2",
    ]
    (why,) = payloads("i\n9007199254740993\n", types=types)
    assert why == "the column 'i': '9007199254740993' is beyond ±(2^53-1); with the type text it stays as it is"


def test_missing_values_are_what_the_mapping_says() -> None:
    """In CSV an empty cell is none unless other texts are named; in JSON null and empty texts are values."""
    assert payloads("a,b\n,NA\n", missing=["NA"]) == [{"a": ""}]
    lines = '{"a":null,"b":"","c":NaN}\n'
    assert payloads(lines, "jsonl", missing=["NaN"]) == [{"a": None, "b": ""}]
    assert payloads(lines, "jsonl") == ["c: not a finite number"]


def test_what_an_effect_cannot_have_is_refused_by_its_column() -> None:
    """NUL, lone surrogates, large integers and other kinds' names are refused; -0.0 becomes 0.0."""
    lines = [
        '{"a": "\\u0000"}',
        '{"a": "\\ud800"}',
        '{"a": {"b": 9007199254740993}}',
        '{"a": [-0.0, {"b": -0.0}]}',
        '{"k": "WorldCreated"}',
        '{"k": ""}',
        '{"k": [1]}',
    ]
    kind = {"column": "k", "default": "Row"}
    assert payloads("\n".join(lines), "jsonl", kind=kind) == [
        "a: a string with a NUL character",
        "a: a string with a lone surrogate",
        "a.b: an integer beyond ±(2^53-1); send it as a string",
        {"a": [0.0, {"b": 0.0}]},
        "$.kind: WorldCreated effects are written by the service alone",
        {},
        "the column 'k' has a list where a name is needed",
    ]
    assert payloads('{"id": 9007199254740993}', "jsonl", types={"id": "text"}) == [{"id": "9007199254740993"}]


def test_a_column_of_json_is_the_payload() -> None:
    """Its members are put beside the other columns'; one that is no object, or has a member of the row, is refused."""
    data = 'a,data\n1,"{""b"":2}"\n1,\n1,[2]\n1,"{""a"":2}"\n'
    assert payloads(data, payload={"json": "data"}) == [
        {"a": "1", "b": 2},
        {"a": "1"},
        "the column 'data' has a list, not an object",
        "the object in the column 'data' has a member 'a', as the row has",
    ]
    assert payloads("a,b,c\n1,2,3\n", payload={"columns": ["a"]}) == [{"a": "1"}]
    assert payloads("a,b,c\n1,2,3\n", payload={"leave_out": ["a"]}) == [{"b": "2", "c": "3"}]


def test_a_row_larger_than_an_effect_is_refused() -> None:
    """A payload that leaves no room for the rest of an effect is refused with its size."""
    (why,) = payloads("a\n" + "x" * (1 << 20) + "\n")
    assert why.endswith("at most 1044480; WORLDLEDGER_MAX_EFFECT_BYTES may be set to more")


CELLS = {
    "t": ["0", "1", "1.5", "2", " 3", "-1", "nan", "1_0", "9" * 20, ""],
    "who": ["alice", "bob", "recorder", "x" * 201, ""],
    "what": ["Sold", "Bought", "WorldCreated", ""],
    "n": ["1", "2.5", "-0.0", "x", "9007199254740993", "NaN", ""],
    "s": ["a", "é", "null", "1_0", "-0.0", "\\u0000", "x" * 300, ""],
}
#: Cells that are harmless come often enough for whole batches of them.
OFTEN = {name: st.sampled_from(cells[:2] * 9 + cells) for name, cells in CELLS.items()}
VALUES = st.sampled_from([1, 2.5, "a", "b"] * 4 + [None, True, -0.0, {"a": [1]}, [-0.0], "\0", 2**53, float("nan")])
MAPPINGS: list[dict[str, Any]] = [
    {"time": "t", "agent": "who", "kind": "what", "types": {"n": "number"}},
    {"time": {"column": "t", "zero": "first", "backwards": "hold"}, "agent": {"column": "who", "default": "nobody"}},
    {"kind": {"constant": "Seen"}, "types": {"n": "integer", "s": "text"}, "missing": ["NaN", "x"]},
    {"time": "t", "payload": {"columns": ["s", "n"]}, "agent": {"constant": "eve"}, "types": {"n": "text"}},
]


@given(st.lists(st.fixed_dictionaries(OFTEN), max_size=5), st.sampled_from(MAPPINGS))
def test_rows_of_texts_read_together_are_those_read_one_by_one(rows: list[dict[str, str]], mapping: Any) -> None:
    """The same drafts, and the same refusals, whatever stands in the cells."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, [*CELLS])
    writer.writeheader()
    writer.writerows(rows)
    _read_both_ways(stream.getvalue(), "csv", mapping)


@given(
    st.lists(st.fixed_dictionaries({"n": VALUES}, optional={"s": VALUES}) | st.fixed_dictionaries(OFTEN), max_size=5),
    st.sampled_from(MAPPINGS),
)
def test_rows_of_values_read_together_are_those_read_one_by_one(rows: list[dict[str, Any]], mapping: Any) -> None:
    """Objects of any members and values, too."""
    _read_both_ways("".join(json.dumps(row) + "\n" for row in rows), "jsonl", mapping)


def _read_both_ways(data: str, form: str, mapping: Any) -> None:
    found = table(data, form)
    records = list(found.rows())
    one, other = (RowReader(mapping_of(mapping), found, world="w", max_effect_bytes=1 << 20) for _ in range(2))
    middle = len(records) // 2
    together = [*one.read_all(records[:middle]), *one.read_all(records[middle:])]
    alone = [row for record in records for row in other.read_all([record])]
    other = RowReader(mapping_of(mapping), found, world="w", max_effect_bytes=1 << 20)
    assert list(map(_plain, together)) == list(map(_plain, alone)) == [_alone(other, record) for record in records]


def _plain(row: Row | str) -> Any:
    return row if isinstance(row, str) else (row.number, row.world, [*row.agents], [*row.drafts])


def _alone(reader: RowReader, record: Record) -> Any:
    try:
        return record.why or _plain(reader.read(record.number, record.values))
    except RowRefusedError as error:
        return str(error)


def test_rows_are_known_by_what_they_become() -> None:
    """The place of a row does not count, its time, source and payload do."""

    def of(data: str) -> bytes:
        found = table(data)
        reader = RowReader(mapping_of({"time": "t", "agent": "who"}), found, world="w", max_effect_bytes=1 << 20)
        return b"".join(content_of(reader.read(record.number, record.values)) for record in found.rows())

    assert of("t,who,a\n1,x,2\n") == of("t,who,a\n\n1,x,2\n")
    assert len({of("t,who,a\n1,x,2\n"), of("t,who,a\n2,x,2\n"), of("t,who,a\n1,y,2\n"), of("t,who,a\n1,x,3\n")}) == 4
