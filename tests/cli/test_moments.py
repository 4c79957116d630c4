"""Moments and durations as people write and read them."""

from __future__ import annotations

import math

import pytest
import typer
from worldledger_service.cli.moments import HEAD, Moment, read_moment, shown_duration, shown_wall_time
from worldledger_service.cli.replay import Pace


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1", Moment(seq=1)),
        ("0", Moment(seq=0)),
        ("9223372036854775808", Moment(seq=2**63)),
        ("head", HEAD),
        ("turn:0", Moment(unit=("turn", 0))),
        ("seq:1", Moment(seq=1)),
        ("step:12", Moment(unit=("step", 12))),
        ("2026-01-31T12:00:00Z", Moment(wall_time=1769860800.0)),
        ("sim:12.5", Moment(sim_time=12.5)),
        ("sim:-3", Moment(sim_time=-3.0)),
        ("sim:1e3", Moment(sim_time=1000.0)),
        ("wall:1970-01-02T00:00:00Z", Moment(wall_time=86400.0)),
        ("wall:1970-01-01T02:00:00.5+02:00", Moment(wall_time=0.5)),
    ],
)
def test_moments_that_can_be_read(text: str, moment: Moment) -> None:
    """A moment is a seq, the head, a unit with its number, a sim_time or a wall time with its offset."""
    assert read_moment(text, "A") == moment


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no moment"),
        ("-1", "no moment"),
        ("1.5", "no moment"),
        ("1_000", "no moment"),
        ("٣", "no moment"),
        ("1" * 30, "no moment"),
        ("Head", "no moment"),
        ("Turn:3", "no moment"),
        ("seq:", "no moment"),
        ("seq:-1", "no moment"),
        ("turn:", "no moment"),
        ("turn:-1", "no moment"),
        ("turn:1.5", "no moment"),
        ("turn:٣", "no moment"),
        ("turn: 1", "no moment"),
        ("sim:", "not a finite number"),
        ("sim:nan", "not a finite number"),
        ("sim:inf", "not a finite number"),
        ("sim:1e999", "not a finite number"),
        ("sim:1_0", "not a finite number"),
        ("sim: 1", "not a finite number"),
        ("2026-01-31", "time zone"),
        ("2026-13-31T00:00Z", "no ISO 8601 time"),
        ("wall:", "no ISO 8601 time"),
        ("wall:yesterday", "no ISO 8601 time"),
        ("wall:1700000000", "no ISO 8601 time"),
        ("wall:2026-01-31", "time zone"),
        ("wall:2026-01-31T12:00:00", "time zone"),
        ("wall:2026-02-30T12:00:00Z", "no ISO 8601 time"),
    ],
)
def test_moments_that_cannot_be_read(text: str, why: str) -> None:
    """What is no moment is refused with what it lacks: a time of day alone, say, means nothing without its zone."""
    with pytest.raises(typer.BadParameter, match=why):
        read_moment(text, "A")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (125.2, "2 min 5 s"),
        (3600, "1 h"),
        (12_000, "3 h 20 min"),
        (86400 * 4 + 7200, "4 d 2 h"),
        (1e300, "more than a hundred years"),
        (math.inf, "more than a hundred years"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    """A duration is shown in its two largest units."""
    assert shown_duration(seconds) == text


def test_wall_times() -> None:
    """Wall times are shown in UTC; a time that no calendar has is shown as the number it is."""
    assert shown_wall_time(1.7e9) == "2023-11-14T22:13:20.000000Z"
    assert shown_wall_time(1e300) == "1e+300"
    assert shown_wall_time(None) == "None"


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_a_pace_divides_by_the_speed() -> None:
    """At twice the speed half of the time between two effects passes; the first one is due at once."""
    watch = Watch()
    pace = Pace(2.0, wall=False, now=watch)
    assert pace.pause(7.0) == 0.0
    assert pace.pause(10.0) == 1.5
    watch.now += 1.5
    assert pace.pause(10.0) == 0.0
    assert pace.pause(11.0) == 0.5
    assert pace.between(0.0, 60.0) == 30.0


def test_a_pace_makes_up_for_small_delays() -> None:
    """Lines that are late by little do not make the whole replay late."""
    watch = Watch()
    pace = Pace(1.0, wall=False, now=watch)
    pace.pause(0.0)
    for second in range(1, 10):
        assert pace.pause(second) == pytest.approx(1.0 - 0.25 * (second > 1))
        watch.now += 1.0 if second > 1 else 1.25
    assert watch.now == pytest.approx(109.25)


def test_a_pace_does_not_hurry_after_a_long_hold_up() -> None:
    """After an outage the effects keep their distances, instead of coming all at once."""
    watch = Watch()
    pace = Pace(1.0, wall=False, now=watch)
    pace.pause(0.0)
    watch.now += 500.0
    assert pace.pause(1.0) == 0.0
    assert pace.pause(3.0) == 2.0


def test_a_pace_without_pauses() -> None:
    """An infinite speed waits for nothing, and a time that goes back, as a tampered one may, is no pause."""
    pace = Pace(math.inf, wall=True, now=Watch())
    assert [pace.pause(time) for time in (0.0, 1e300, 5.0)] == [0.0, 0.0, 0.0]
    pace = Pace(1.0, wall=True, now=Watch())
    assert [pace.pause(time) for time in (9.0, 3.0)] == [0.0, 0.0]
    assert pace.time_of({"wall_time": "late"}) == 3.0
