"""A mapping: read from YAML as it stands, refused by path, and written so that it can be read again."""

from __future__ import annotations

import pytest
from worldledger_recorder.files.mapping import TableMapping, mapping_of, read_mapping

from worldledger.errors import FileRefusedError, InvalidDefinitionError

WHOLE = """
world: {column: run, prefix: town-}
time: {column: t, unit: ms, zero: first, backwards: hold}
step: turn
agent: {column: who, default: nobody}
kind: {constant: Traded}
sees: {column: seen, separator: ;}
entity:
  id: who
  fields: {gold: gold, position: [x, y]}
payload: {json: data, leave_out: [junk]}
types: {price: number, 12:30: integer, no: boolean}
missing: ['', NA]
csv: {delimiter: ;, encoding: latin-1}
"""


def test_a_mapping_is_read_as_it_stands() -> None:
    """Columns may be called what YAML would take for a time or a boolean; what is written is read as the same."""
    mapping = read_mapping(WHOLE.encode(), file="m.yaml")
    assert mapping.types == {"price": "number", "12:30": "integer", "no": "boolean"}
    assert mapping.entity is not None
    assert mapping.entity.fields == {"gold": "gold", "position": ["x", "y"]}
    assert read_mapping(mapping.written().encode(), file="again") == mapping
    assert mapping_of(mapping.document()) == mapping


def test_a_bare_text_is_a_column() -> None:
    """In place of an object with a column its name will do, and a list of fields stands for columns of these names."""
    text = "time: t\nagent: who\nworld: run\nentity: {id: who, fields: [gold]}"
    mapping = read_mapping(text.encode(), file="m")
    assert mapping == mapping_of(
        {"time": {"column": "t"}, "agent": {"column": "who"}, "world": {"column": "run"},
         "entity": {"id": "who", "fields": {"gold": "gold"}}}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time: {column: t, unit: weeks}", "m: time.unit: Input should be 's', 'ms'"),
        ("time: {column: t, zone: Mars}", "m: time.zone: there is no time zone 'Mars'"),
        ("time: {column: t, zero: soon}", "m: time: zero is first, or a number as in the column, not 'soon'"),
        ("time: {column: t, unit: iso, zero: 5 o'clock}", 'm: time: zero: "5 o\'clock" is no ISO 8601 time'),
        ("kind: {}", "m: kind: give a column, or a constant"),
        ("agent: {constant: a, default: b}", "m: agent: a constant needs no default"),
        ("csv: {encoding: klingon}", "m: csv.encoding: there is no encoding 'klingon'"),
        ("types: {a: float}", "m: types.a: Input should be 'text'"),
        ("entity: {id: a}", "m: entity.fields: it is missing"),
        ("tmie: t", "m: tmie: there is no such field"),
        ("- 1", "m: it is an object"),
    ],
)
def test_faults_are_told_by_path(text: str, told: str) -> None:
    """Each fault names the file and the path in it."""
    with pytest.raises(InvalidDefinitionError) as caught:
        read_mapping(text.encode(), file="m")
    assert caught.value.message.startswith(told)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"time: t\ntime: u", "m:2: the key 'time' stands twice"),
        (b"time: [", "m:1: "),
        (b"time: \xff", "m: not YAML"),
        (b"x" * (1 << 21), "m: a mapping has at most 1048576 bytes"),
    ],
)
def test_what_is_no_yaml_is_refused_by_line(data: bytes, told: str) -> None:
    """A file that cannot be read as a mapping at all names the line, if there is one."""
    with pytest.raises(FileRefusedError) as caught:
        read_mapping(data, file="m")
    assert caught.value.message.startswith(told)


def test_columns_that_are_not_there_are_told() -> None:
    """Each column that a mapping names is looked for, and a similar one suggested."""
    mapping = read_mapping(WHOLE.encode(), file="m")
    columns = ["run", "t", "turn", "whom", "seen", "gold", "x", "y", "data", "junk", "price", "12:30", "no"]
    assert [(problem.path, problem.message) for problem in mapping.unknown(columns)] == [
        (("agent", "column"), "there is no column 'who'; did you mean 'whom'?"),
        (("entity", "id"), "there is no column 'who'; did you mean 'whom'?"),
    ]
    assert TableMapping().unknown([]) == []
