"""Values of programs become JSON, or are refused with their path."""

from __future__ import annotations

from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.cases import cases
from worldledger.canonical import gate
from worldledger.client.plain import to_plain
from worldledger.errors import EffectTooLargeError, InvalidEffectError


@dataclass
class Point:
    """A point of somebody's program."""

    x: float
    y: Any


class Model(BaseModel):
    """A model of somebody's program."""

    when: date
    point: tuple[int, int] = (1, 2)


class Mood(Enum):
    """A word."""

    CALM = "calm"


class Elsewhere:
    """A tensor that lies on another device, with a repr that fails, too."""

    dtype = "float32"

    def tolist(self) -> Any:
        """Fail as such tensors do."""
        raise TypeError("cannot convert a tensor of a device")

    def __repr__(self) -> str:
        """Fail."""
        raise RuntimeError


class Level(IntEnum):
    """A number."""

    HIGH = 3


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - as older programs have them


@cases(
    "value, plain",
    [
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array([1.0, np.nan]), [1.0, "NaN"]),
        (np.array(["2026-01-31"], "datetime64[ns]"), ["2026-01-31T00:00:00.000000000"]),
        (np.datetime64("2026-01-31T12:00", "m"), "2026-01-31T12:00"),
        (np.timedelta64(1500, "ms"), 1.5),
        (np.ma.masked_array([1, 2], [False, True]), [1, None]),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00+00:00"),
        (date(2026, 1, 31), "2026-01-31"),
        (timedelta(minutes=2), 120.0),
        (Decimal("1.10"), "1.10"),
        (Point(1.0, np.int8(2)), {"x": 1.0, "y": 2}),
        (Model(when=date(2026, 1, 31)), {"when": "2026-01-31", "point": [1, 2]}),
        (Mood.CALM, "calm"),
        (Level.HIGH, 3),
        (Pair(1, {2}), {"left": 1, "right": [2]}),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, (2,)), [1, [2]]),
        (deque([1]), [1]),
        (OrderedDict(a=1), {"a": 1}),
        ({1: "a", None: "b", Mood.CALM: "c"}, {"1": "a", "None": "b", "calm": "c"}),
        (b"\x00\xff", "AP8="),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (float("inf"), "Infinity"),
        (-0.0, 0.0),
        (2**60, "1152921504606846976"),
        (16**5000, f"0x1{'0' * 5000}"),
    ],
)
def test_what_programs_have_is_converted(value: Any, plain: Any) -> None:
    """The result passes the write gate as it is; what was done is told."""
    told: list[str] = []
    found = to_plain({"value": value}, told.append)
    assert gate(found) == gate({"value": plain})
    assert told or type(value) in {tuple, float}


@cases(
    "value, path",
    [
        ({"a": [1, object()]}, "$.payload.a[1]"),
        ({"a b": lambda: 1}, '$.payload["a b"]'),
        ({"a": "\x00"}, "$.payload.a"),
        ({"a": {"\ud800": 1}}, "$.payload.a"),
        ({"a": 1j}, "$.payload.a"),
        ({"a": [Elsewhere()]}, "$.payload.a[0]"),
    ],
)
def test_what_cannot_be_converted_is_refused_with_its_path(value: Any, path: str) -> None:
    """Unless the program wants its repr."""
    with pytest.raises(InvalidEffectError) as refused:
        to_plain(value, lambda _: None, path="$.payload", level=2)
    assert refused.value.path == path
    gate(to_plain(value, lambda _: None, unknown="repr"))


@cases(
    "value",
    [
        "x" * 1001,
        bytes(1001),
        {1: "x" * 600, 2: "x" * 600},
        [[0] * 300, [0] * 300],
        np.broadcast_to(np.float64(0), (10**6, 10**6)),
        range(10**12),
        set(range(501)),
        dict.fromkeys(range(501)),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_converted(value: Any) -> None:
    """With the path of what makes it so, its size and what to do; a terabyte of zeros is not written out first."""
    with pytest.raises(
        EffectTooLargeError, match=r"\$\.a\.b.*: at least .* a payload has at most 1,000: record"
    ) as caught:
        to_plain({"a": {"b": value}}, lambda _: None, unknown="repr", most=1000)
    assert caught.value.path.startswith("$.a.b")
    to_plain({"a": {"b": "x" * 900}, "c": np.zeros(20)}, lambda _: None, most=1000)


def test_two_keys_that_become_one_are_refused() -> None:
    """Neither value is lost in silence."""
    with pytest.raises(InvalidEffectError, match="two keys become '1'"):
        to_plain({1: "a", "1": "b"}, lambda _: None, unknown="repr")


def test_what_goes_in_circles_is_refused() -> None:
    """It is told where it contains itself; the same value in two places is none."""
    point = Point(1.0, None)
    point.y = {"of": [point]}
    with pytest.raises(InvalidEffectError, match=r"Point contains itself: it is \$\.a") as refused:
        to_plain({"a": point}, lambda _: None)
    assert refused.value.path == "$.a.y.of[0]"
    same = [1]
    assert to_plain([same, same], lambda _: None) == [[1], [1]]
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(InvalidEffectError, match="nested deeper than 100 levels"):
        to_plain(deep, lambda _: None)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=3)
        ),
        max_leaves=9,
    )
)
def test_whatever_is_returned_passes_the_gate(value: Any) -> None:
    """And what passes the gate already is returned as it is."""
    plain = to_plain(value, lambda _: None, unknown="repr") if _is_sound(value) else None
    text = gate(plain)
    assert gate(to_plain(plain, lambda _: None)) == text


def _is_sound(value: Any) -> bool:
    """Return whether no two keys of an object become one."""
    if isinstance(value, list):
        return all(map(_is_sound, value))
    if isinstance(value, dict):
        return len({str(key) for key in value}) == len(value) and all(map(_is_sound, value.values()))
    return True
