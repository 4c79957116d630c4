"""What is seen of one target's values: which of them, and with how much noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.rules.values import GOOD_OBJECTS, same
from worldledger.canonical import gate
from worldledger.observability import Draws, ObservabilityLevel, noise_of, observe_entity

UNAWARE, EXTERNAL, INSIDER = ObservabilityLevel
KEY = "0123456789abcdef0123456789abcdef"
MOST = 2**53 - 1
LARGEST = 1.7976931348623157e308


def seen(values: Mapping[str, Any], noise: float = 0.5, turn: int = 1, **more: Any) -> dict[str, Any]:
    """Return what Ann observes of Bob's values."""
    settings = {"level": INSIDER, "draw": Draws(KEY, "ann", turn).toward("bob"), **more}
    return observe_entity(values, noise=noise, **settings)


def draw(path: str, turn: int = 1) -> float:
    """Return the draw of one of Bob's numbers."""
    return noise_of(KEY, "ann", "bob", path, turn)


def plainly(value: Any, noise: float, path: str = "") -> Any:
    """Return what is observed of a value without bounds, the plain way."""
    if isinstance(value, bool | str | None):
        return value
    if isinstance(value, float):
        exact = value * (1.0 + noise * draw(path))
        return max(-LARGEST, min(LARGEST, exact)) + 0.0 if value else 0.0
    if isinstance(value, int):
        exact = value * (1.0 + noise * draw(path))
        return round(max(-float(MOST), min(float(MOST), exact))) if value else 0
    if isinstance(value, dict):
        return {
            key: plainly(item, noise, f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}")
            for key, item in value.items()
        }
    return [plainly(item, noise, f"{path}/{index}") for index, item in enumerate(value)]


# -- levels --------------------------------------------------------------------------------------------------


def test_an_unaware_observer_sees_nothing() -> None:
    """Not even public variables."""
    assert seen({"a": 1}, level=UNAWARE) == {}


def test_an_external_observer_sees_what_is_not_internal() -> None:
    """What stands in no list is external; an insider sees all."""
    values = {"public": 1, "unlisted": 2, "private": 3}
    for noise in (0.0, 1e-9):
        assert list(seen(values, noise, level=EXTERNAL, internal={"private"})) == ["public", "unlisted"]
        assert list(seen(values, noise, level=INSIDER, internal={"private"})) == list(values)
        assert list(seen(values, noise, level=EXTERNAL)) == list(values)


def test_hiding_is_of_variables_not_of_what_is_within_them() -> None:
    """A member of an object may have the name of an internal variable."""
    assert seen({"a": {"b": "x"}, "b": "y"}, level=EXTERNAL, internal={"b"}) == {"a": {"b": "x"}}


# -- noise ---------------------------------------------------------------------------------------------------


@given(GOOD_OBJECTS)
def test_without_noise_values_are_exact(values: dict[str, Any]) -> None:
    """Each is the very value, without a world to draw for."""
    found = observe_entity(values, level=INSIDER, noise=0.0)
    assert found is not values
    assert all(found[name] is value for name, value in values.items())
    assert found.keys() == values.keys()


def test_noise_without_a_world_is_refused() -> None:
    """There is nothing to draw by."""
    with pytest.raises(ValueError, match="drawn for a world"):
        observe_entity({"a": 1}, level=INSIDER, noise=0.1)


def test_a_float_is_multiplied() -> None:
    """By one plus noise times the draw."""
    assert seen({"gold": 100.0}, 0.2) == {"gold": 100.0 * (1.0 + 0.2 * draw("/gold"))}


def test_a_whole_number_stays_one() -> None:
    """It is rounded, half to even, and its type is kept."""
    found = seen(dict.fromkeys("abcdefgh", 1000), 0.2)
    assert all(type(value) is int for value in found.values())
    assert len(set(found.values())) > 4
    assert found["a"] == round(1000 * (1.0 + 0.2 * draw("/a")))


def test_a_half_is_rounded_to_even() -> None:
    """Both ways: 2.5, 1.5, 1.5 and -2.5."""

    def ask(value: int, g: float) -> int:
        draw = Draws(KEY, "ann", 1).toward("bob")
        at = next(number for number in range(2000) if (draw(f"/v{number}") > 0) == (g > 0))
        found = observe_entity({f"v{at}": value}, level=INSIDER, noise=g / draw(f"/v{at}"), draw=draw)
        return int(found[f"v{at}"])

    assert (ask(1, 1.5), ask(1, 0.5), ask(3, -0.5), ask(-1, 1.5)) == (2, 2, 2, -2)


@given(GOOD_OBJECTS, st.sampled_from([1e-3, 0.2, 7.0, 1e300]))
def test_numbers_are_noised_wherever_they_stand(values: dict[str, Any], noise: float) -> None:
    """In objects and lists, each by its own path; everything else, and keys, are as they are. It stays JSON."""
    found = seen(values, noise)
    assert same(found, plainly(values, noise))
    gate(found)  # which refuses minus zero, too


def test_what_is_no_number_is_seen_exactly() -> None:
    """Booleans are none; neither are texts that look like one, nor null."""
    values = {"a": True, "b": False, "c": "12", "d": None, "e": [True, "x", None], "f": {"1": "y"}}
    assert seen(values, 9.0) == values


def test_zero_is_seen_as_zero() -> None:
    """Whatever the noise, and never as minus zero."""
    found = seen({"a": 0, "b": 0.0, "c": -0.0, "d": 5e-324}, 1e308)
    assert repr(found["a"]) == "0"
    assert (repr(found["b"]), repr(found["c"])) == ("0.0", "0.0")
    tiny = seen({f"v{number}": -5e-324 for number in range(50)}, 0.3)
    assert all(value == 0.0 or value < 0 for value in tiny.values())
    assert all(math.copysign(1, value) > 0 for value in tiny.values() if value == 0)


def test_nothing_goes_beyond_what_json_holds() -> None:
    """The largest float, and the largest whole number that is exact, either way."""
    values = {f"v{number}": 1e308 for number in range(20)} | {f"n{number}": -MOST for number in range(20)}
    found = seen(values, 1e308)
    for name, value in found.items():
        g = draw(f"/{name}")
        if name.startswith("v"):
            assert value == math.copysign(LARGEST, g)
        else:
            assert (type(value), value) == (int, -MOST if g > 0 else MOST)


def test_the_order_of_the_members_does_not_matter() -> None:
    """Nor what else there is."""
    values = {"a": 1.5, "b": [1, 2], "c": {"x": 2.5}}
    whole = seen(values)
    assert seen(dict(reversed(values.items()))) == whole
    for name, value in values.items():
        assert seen({name: value}) == {name: whole[name]}


def test_each_turn_has_its_own_noise() -> None:
    """And the same turn the same."""
    values = {"a": 1.5, "b": [1000, 2000]}
    assert seen(values, turn=2) != seen(values, turn=1) == seen(values, turn=1)


class Bag(BaseModel):
    """A nested model, one member of which has another name outside."""

    food: int
    label: str
    rate_: float = Field(alias="rate")


def test_members_of_tuples_and_models_are_noised() -> None:
    """They stay what they are; the value itself is left alone, and nothing is shared with it."""
    bag = Bag(food=1000, label="x", rate=2.5)
    values = {"spot": (1.5, 2000), "bag": bag, "bags": [bag], "counts": {1: 500}, "names": ["x"]}
    found = seen(values, 0.3)
    assert found["spot"] == (1.5 * (1.0 + 0.3 * draw("/spot/0")), round(2000 * (1.0 + 0.3 * draw("/spot/1"))))
    assert isinstance(found["bag"], Bag)
    assert found["bag"].food == round(1000 * (1.0 + 0.3 * draw("/bag/food")))
    assert found["bag"].rate_ == 2.5 * (1.0 + 0.3 * draw("/bag/rate"))
    assert found["bag"].label == "x"
    assert found["bags"][0].food == round(1000 * (1.0 + 0.3 * draw("/bags/0/food")))
    assert found["counts"] == {1: round(500 * (1.0 + 0.3 * draw("/counts/1")))}
    assert bag == Bag(food=1000, label="x", rate=2.5)
    assert found["names"] is not values["names"]
