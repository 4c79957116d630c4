"""Space: the index finds what a look at every point finds."""

from __future__ import annotations

from math import acos, degrees, dist, inf, nan
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from worldledger.space import Relationship, SpatialEntity, SpatialIndex
from worldledger.world import Point

_NUMBERS = (
    st.integers(-3, 3).map(float)
    | st.floats(-50, 50)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.1 * 3, 1e-300, 5e-324, 1.7e308, -1.7e308, 2.0**53])
)
_POINTS: st.SearchStrategy[Point] = st.tuples(_NUMBERS, _NUMBERS, _NUMBERS | st.just(0.0))
_RADII = st.sampled_from([0.0, 1.0, 2.5, 10.0, 1e3, 1e300, inf, -1.0, 5e-324]) | st.floats(0, 100)
_SIZES = st.sampled_from([1.0, 0.3, 16.0, 1e-300, 1e300, 5e-324])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefghij"), st.none() | _POINTS)), _POINTS, _RADII, _SIZES)
def test_a_range_holds_what_is_in_it(
    steps: list[tuple[str, Point | None]], center: Point, radius: float, size: float
) -> None:
    """After any insertions, moves and removals, whatever the cells' size; the border is included."""
    index, plain = SpatialIndex(size), dict[str, Point]()
    for name, point in steps:
        if point is None:
            if plain.pop(name, None) is not None:
                index.remove(name)
        elif name in plain:
            plain[name] = point
            index.move(name, point)
        else:
            plain[name] = point
            index.insert(name, point)
    expected = sorted(name for name, point in plain.items() if dist(center, point) <= radius)
    assert index.entities_within_range(center, radius) == expected
    if plain and radius >= 0:
        name = min(plain)
        edge = dist(center, plain[name])
        assert name in index.entities_within_range(center, edge)
    assert len(index) == len(plain)
    assert all(index.position(name) == point and name in index for name, point in plain.items())


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(*[st.floats(-9, 9)] * 3)),
    st.tuples(*[st.floats(-9, 9)] * 3),
    st.tuples(*[st.floats(-1, 1)] * 3),
    st.floats(0, 360),
    st.floats(0, 20),
)
def test_a_cone_holds_what_is_in_it(
    points: dict[str, Point], observer: Point, direction: Point, angle: float, reach: float
) -> None:
    """What is in range and at most half the opening away from the direction; close calls may go either way."""
    assume(dist((0, 0, 0), direction) > 1e-3)
    index = SpatialIndex(4.0)
    for name, point in points.items():
        index.insert(name, point)
    found = index.entities_in_view_cone(observer, direction, angle, reach)
    assert found == sorted(found)
    for name, point in points.items():
        away = tuple(there - here for there, here in zip(point, observer, strict=True))
        length = dist(point, observer)
        if length < 1e-6:
            assert (name in found) == (length <= reach) or length > 0
            continue
        cosine = sum(a * d for a, d in zip(away, direction, strict=True)) / length / dist((0, 0, 0), direction)
        between = degrees(acos(max(-1.0, min(1.0, cosine))))
        if abs(between - angle / 2) > 1e-4:
            assert (name in found) == (length <= reach and between < angle / 2)


def _compass() -> SpatialIndex:
    index = SpatialIndex()
    for name, point in {"e": (1, 0), "n": (0, 1), "w": (-1, 0), "s": (0, -1), "ne": (1, 1), "me": (0, 0)}.items():
        index.insert(name, point)
    index.insert("up", (0, 0, 1))
    return index


@cases(
    "angle, found",
    [
        (0, "e me"),
        (89.999, "e me"),
        (90, "e me ne"),
        (180, "e me n ne s up"),
        (359.9, "e me n ne s up"),
        (360, "e me n ne s up w"),
    ],
)
def test_an_angle_is_the_full_opening_in_degrees(angle: float, found: str) -> None:
    """90 sees 45 to each side, borders included; what stands where the observer does is always seen."""
    assert _compass().entities_in_view_cone((0, 0), (7, 0), angle, 2.0) == found.split()
    assert _compass().entities_in_view_cone((0.0, 0.0, 0.0), (1e-300, 0), angle, inf) == found.split()
    assert _compass().entities_in_view_cone((0, 0), (1e308, 0.0, 0.0), angle, 0.5) == ["me"]


def test_far_points_are_in_a_cone_too() -> None:
    """Differences that no float holds change nothing."""
    index = SpatialIndex()
    index.insert("far", (1.7e308, 0, 0))
    assert index.entities_in_view_cone((-1.7e308, 0), (1, 0), 10, inf) == ["far"]
    assert index.entities_in_view_cone((-1.7e308, 0), (-1, 0), 10, inf) == []


def test_two_numbers_are_a_point_on_the_ground() -> None:
    """Z is 0.0 where it is left out, for insertions and queries."""
    index = SpatialIndex()
    index.insert("a", [3, 4])
    assert index.position("a") == (3.0, 4.0, 0.0)
    assert index.entities_within_range((0, 0), 5) == ["a"]
    assert index.entities_within_range((0, 0, 0.1), 5) == []
    index.insert("a", (0, 0, 9))
    assert (len(index), index.position("a")) == (1, (0.0, 0.0, 9.0))


@cases("point", [(), (1,), (1, 2, 3, 4), (nan, 0), (inf, 0, 0), ("1", 2), None])
def test_what_is_no_point_is_refused(point: Any) -> None:
    """Nothing is changed then."""
    index = _compass()
    with pytest.raises((ValueError, TypeError)):
        index.insert("e", point)
    with pytest.raises((ValueError, TypeError)):
        index.entities_within_range(point, 1)
    assert index.position("e") == (1.0, 0.0, 0.0)


def test_what_is_not_there_cannot_be_moved_or_removed() -> None:
    """It is a KeyError; asked for, it has no position."""
    index = _compass()
    with pytest.raises(KeyError):
        index.move("x", (0, 0))
    with pytest.raises(KeyError):
        index.remove("x")
    assert index.position("x") is None
    assert "x" not in index


@cases("direction, angle", [((0, 0, 0), 90), ((nan, 1), 90), ((1, 0), -1), ((1, 0), 361), ((1, 0), nan)])
def test_a_cone_leads_somewhere(direction: Any, angle: float) -> None:
    """A direction of no length and an angle beyond the full circle are refused."""
    with pytest.raises(ValueError, match=r"direction|point|angle"):
        _compass().entities_in_view_cone((0, 0), direction, angle, 1)


@cases("size", [0, -1, inf, nan])
def test_cells_have_a_size(size: float) -> None:
    """A finite one over 0."""
    with pytest.raises(ValueError, match="cell"):
        SpatialIndex(size)


def test_a_query_does_not_look_at_what_is_elsewhere() -> None:
    """However many stand outside the cells that a range touches, as many points are compared."""
    index = SpatialIndex(10.0)
    for at in range(200):
        index.insert(f"near-{at}", (at / 20, 0))
    before = [len(cell) for cell in index._around((0.0, 0.0, 0.0), 10.0)]
    for at in range(5000):
        index.insert(f"far-{at}", (1000 + at, at % 70))
    assert [len(cell) for cell in index._around((0.0, 0.0, 0.0), 10.0)] == before


def test_the_documented_shapes() -> None:
    """SpatialEntity and Relationship have their fields, in this order, and cannot be changed."""
    entity = SpatialEntity("ann", (0.0, 0.0, 0.0), (1.0, 1.0, 2.0), 50.0)
    relation = Relationship("ann", "bob", "knows", 1.0, {})
    assert (entity.visibility_range, relation.relationship_type) == (50.0, "knows")
    with pytest.raises(AttributeError):
        entity.entity_id = "bob"  # type: ignore[misc]  # which is the point
