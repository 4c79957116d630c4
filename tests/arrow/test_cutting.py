"""Columns are cut from stored texts without parsing them, and are what parsing would give."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_service.arrow import reading
from worldledger_service.arrow.reading import SCHEMA, Cutter

from tests.rules.values import GOOD_JSON
from worldledger.errors import TamperedError

_STORED = datetime(2026, 1, 31, tzinfo=UTC)
#: A payload, or a source's facts, in which everything looks like the end of a payload.
LOOKALIKE = {
    "payload": {"priority": 7, "req_id": None, "schema_version": "1", "sim_time": 2.0, "source_id": 'a","priority":1'},
    "priority": 3,
    "req_id": "x",
    "schema_version": "9",
    "sim_time": 0,
    "source_id": "y",
    "source_metadata": {"priority": 1, "uuid": "0" * 32},
    "uuid": "f" * 32,
    "wall_time": 1.0,
    "world_id": "z",
}


def effect(seq: int = 1, **fields: Any) -> dict[str, Any]:
    """Make an effect as the store would."""
    return {
        "global_seq": seq,
        "kind": "Said",
        "payload": {"n": seq},
        "priority": 0,
        "req_id": None,
        "schema_version": "1.0.0",
        "sim_time": 2.5,
        "source_id": "ann",
        "uuid": f"{seq:032x}",
        "wall_time": 1700000000.25,
        "world_id": "town",
        **fields,
    }


def rows(effects: list[dict[str, Any]], texts: list[str] | None = None) -> pa.RecordBatch:
    """Make the rows that the database would give of effects; their texts may be others."""
    return pa.record_batch(
        {
            "world_id": pa.array([each["world_id"] for each in effects], pa.string()),
            "global_seq": pa.array([each["global_seq"] for each in effects], pa.int64()),
            "kind": pa.array([each["kind"] for each in effects], pa.string()),
            "source_id": pa.array([each["source_id"] for each in effects], pa.string()),
            "sim_time": pa.array([each["sim_time"] for each in effects], pa.float64()),
            "recorded_at": pa.array([_STORED] * len(effects), pa.timestamp("us", "UTC")),
            "effect": pa.array(texts or map(text, effects), pa.string()),
            "checksum": pa.array([bytes([each["global_seq"] % 256]) * 32 for each in effects], pa.binary()),
        }
    )


def text(value: Any) -> str:
    """Return the canonical text of a value."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def expected(value: dict[str, Any]) -> dict[str, Any]:
    """Return the row that an effect is to become, by parsing alone."""
    seconds = value["wall_time"]
    source = value.get("source_metadata")
    return {
        "world_id": value["world_id"],
        "experiment": "trial",
        "global_seq": value["global_seq"],
        "kind": value["kind"],
        "source_id": value["source_id"],
        "sim_time_s": value["sim_time"],
        "recorded_at": datetime.fromtimestamp(seconds, UTC) if abs(seconds) < 1e11 else None,
        "stored_at": _STORED,
        "caused_by": value.get("caused_by"),
        "req_id": value["req_id"],
        "priority": value["priority"],
        "schema_version": value["schema_version"],
        "uuid": value["uuid"],
        "payload": text(value["payload"]),
        "source_metadata": None if source is None else text(source),
        "checksum": bytes([value["global_seq"] % 256]) * 32,
    }


def cut(effects: list[dict[str, Any]], texts: list[str] | None = None) -> list[dict[str, Any]]:
    """Cut effects of one experiment."""
    batch = Cutter({"town": "trial"}).cut(rows(effects, texts))
    assert batch.schema == SCHEMA
    batch.validate(full=True)
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


_WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=6) | (
    st.sampled_from([*LOOKALIKE, ',"priority":', '"payload":', "\\", '"', '","wall_time":', "ä\n"])
)
_OBJECT = st.dictionaries(_WORD, GOOD_JSON | st.just(LOOKALIKE), max_size=3) | st.just(LOOKALIKE)


@st.composite
def _effects(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for seq in range(1, draw(st.integers(0, 4)) + 1):
        fields: dict[str, Any] = {
            "kind": draw(_WORD),
            "payload": draw(_OBJECT),
            "priority": draw(st.integers(-(2**31), 2**31 - 1)),
            "req_id": draw(st.none() | _WORD),
            "schema_version": draw(_WORD),
            "source_id": draw(_WORD),
            "wall_time": draw(st.sampled_from([0, 0.5, 1795863712.8073025, 1e300, -1e12, 2.5e-7])),
        }
        if draw(st.booleans()):
            fields["caused_by"] = draw(st.integers(1, 2**53 - 1))
        if draw(st.booleans()):
            fields["source_metadata"] = draw(_OBJECT)
        made.append(effect(seq, **fields))
    return made


@given(_effects())
@settings(max_examples=150, deadline=None)
def test_what_is_cut_is_what_parsing_gives(effects: list[dict[str, Any]]) -> None:
    """Whatever stands in payloads, in facts about sources and in names, each column is the field of that name."""
    assert cut(effects) == [*map(expected, effects)]


def test_rows_that_may_be_cut_wrongly_leave_the_others_to_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a source's facts that look like the end of a payload are read value by value."""
    slow: list[int] = []
    read = reading._cut_slowly

    def noted(some: pa.RecordBatch) -> dict[str, Any]:
        slow.extend(some["global_seq"].to_pylist())
        return read(some)

    monkeypatch.setattr(reading, "_cut_slowly", noted)
    effects = [
        effect(1, source_metadata={"intent": "Speak", "context_seq": 0}),
        effect(2, source_metadata=LOOKALIKE),
        effect(3, payload=LOOKALIKE),
        effect(4, payload={"text": 'so ,"source_metadata": what'}, caused_by=3),
    ]
    assert cut(effects) == [*map(expected, effects)]
    assert slow == [2]


def test_a_text_that_is_not_canonical_is_read_all_the_same() -> None:
    """White space that somebody brought in moves no value into another column."""
    effects = [effect(1), effect(2, payload={"a": [1, {"b": None}]}, caused_by=1)]
    texts = [orjson.dumps(each, option=orjson.OPT_INDENT_2).decode() for each in effects]
    found = cut(effects, texts)
    assert [orjson.loads(row["payload"]) for row in found] == [each["payload"] for each in effects]
    assert [row["caused_by"] for row in found] == [None, 1]


@pytest.mark.parametrize("broken", ["[1]", '"text"', "{}", '{"payload":1}', text({**effect(2), "uuid": 3})])
def test_what_is_no_effect_is_named(broken: str) -> None:
    """A text that is none of an effect raises an error that names its place."""
    with pytest.raises(TamperedError) as raised:
        cut([effect(1), effect(2)], [text(effect(1)), broken])
    assert raised.value.details == {"world_id": "town", "global_seq": 2, "what": "effect"}


def test_the_batches_of_a_stream_share_their_kinds() -> None:
    """Kinds are numbered as they come, so that a later batch's dictionary begins with an earlier one's."""
    cutter = Cutter({})
    first = cutter.cut(rows([effect(1, kind="B"), effect(2, kind="A")]))
    second = cutter.cut(rows([effect(3, kind="A"), effect(4, kind="C")]))
    assert first["kind"].dictionary.to_pylist() == ["B", "A"]
    assert second["kind"].dictionary.to_pylist() == ["B", "A", "C"]
    assert second["kind"].to_pylist() == ["A", "C"]
