"""Guesses: what a file's header and first rows suggest."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_recorder.files.guessing import uses
from worldledger_recorder.files.mapping import mapping_of

from .helpers import guessed


def test_columns_are_taken_for_what_their_names_say() -> None:
    """Time, world, step, agent, kind, audience and payload are found by name, whatever their case and signs."""
    data = (
        "Run_ID,Sim Time,Turn,agent_id,event,seen_by,data,price,code,ok\n"
        '1,0,1,alice,Sold,bob;eve,"{""a"":1}",1.5,007,true\n'
        "1,2,1,,Bought,,,2,008,false\n"
    )
    assert guessed(data).document() == {
        "world": {"column": "Run_ID", "prefix": "f-"},
        "time": {"column": "Sim Time"},
        "step": "Turn",
        "agent": {"column": "agent_id", "default": "recorder"},
        "kind": {"column": "event"},
        "sees": {"column": "seen_by", "separator": ";"},
        "payload": {"json": "data"},
        "types": {"price": "number", "ok": "boolean"},
    }


@pytest.mark.parametrize("column", ["trader", "Trader ID", "speaker_name", "name"])
def test_whoever_acts_is_an_agent(column: str) -> None:
    """Many words name those who act, by themselves, by an id or by a name."""
    assert guessed(f"time,{column},price\n1,ann,2\n").document()["agent"] == {"column": column}


@pytest.mark.parametrize(
    ("column", "values", "time"),
    [
        ("time_ms", ["0", "5"], {"column": "time_ms", "unit": "ms"}),
        ("timestamp", ["1700000000"], {"column": "timestamp", "zero": "first"}),
        ("ts", ["1700000000123"], {"column": "ts", "unit": "ms", "zero": "first"}),
        ("ts", ["1700000000123456789"], {"column": "ts", "unit": "ns", "zero": "first"}),
        ("created_at", ["2026-01-01T00:00:00Z"], {"column": "created_at", "unit": "iso", "zero": "first"}),
        ("began", ["2026-01-01 00:00"], {"column": "began", "unit": "iso", "zero": "first", "zone": "UTC"}),
        ("time", ["soon"], None),
        ("code", ["20260131"], None),
        ("tick", ["1", "2"], {"column": "tick"}),
    ],
)
def test_units_of_time_are_told_by_name_and_size(column: str, values: list[str], time: dict[str, Any] | None) -> None:
    """Endings of names and the size of epochs give the unit, ISO 8601 is known by its form, and a step will do."""
    assert guessed(f"{column},x\n" + "".join(f"{value},y\n" for value in values)).document().get("time") == time


def test_words_for_no_value_are_found_in_columns_of_numbers() -> None:
    """NA and the like among numbers are no values; among words they are words."""
    mapping = guessed("a,b\n1,NA\nNA,x\n")
    assert mapping.missing == ["", "NA"]
    assert mapping.types == {"a": "integer"}
    assert guessed("a\nx\nNA\n").missing is None


def test_values_of_json_need_no_types() -> None:
    """In JSON Lines texts stay texts, and numbers are what they are."""
    lines = '{"t": 1, "agent": "a", "n": 1, "data": {"x": 1}}\n{"t": 2, "agent": "b", "n": "1"}\n'
    assert guessed(lines, "jsonl").document() == {
        "time": {"column": "t"},
        "agent": {"column": "agent"},
        "payload": {"json": "data"},
    }


def test_every_column_is_told_with_its_use() -> None:
    """A column may have several uses, or none."""
    mapping = mapping_of(
        {"time": {"column": "t", "unit": "ms"}, "agent": "who", "entity": {"id": "who", "fields": ["gold"]},
         "kind": {"constant": "Paid"}, "payload": {"leave_out": ["junk"]}, "types": {"price": "number"}}
    )  # fmt: skip
    assert uses(mapping, ["t", "who", "gold", "price", "junk"]) == {
        "t": "time (ms)",
        "who": "agent, entity",
        "gold": "state gold",
        "price": "payload (number)",
        "junk": "left out",
    }
