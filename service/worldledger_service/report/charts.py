"""Charts as values: what is to be drawn, in the terms of the data. `worldledger_service.report.drawing` draws them.

Every chart says in a sentence what it shows (``said``), for who cannot see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

#: A number, or None where there is none.
Maybe: TypeAlias = float | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points that ascend in x, a band around it, and single points beside it.

    ``low`` and ``high`` are the band, point by point; None: no band there. ``dots`` are (x, y).
    """

    label: str
    x: Sequence[float]
    y: Sequence[Maybe]
    low: Sequence[Maybe] = ()
    high: Sequence[Maybe] = ()
    dots: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over an x of whole numbers. ``unit_range``: y is shown from 0 to 1 at least; ``steps``: values hold."""

    said: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    unit_range: bool = False
    steps: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One part of every bar: its name, and its length in each of them."""

    label: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars that lie, each under its label and with a remark at its end; made of parts that lie end to end."""

    said: str
    labels: Sequence[str]
    parts: Sequence[Part]
    remarks: Sequence[str]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts between edges, of which there is one more; ``marked`` is a value to be marked, and what it is called."""

    said: str
    x_label: str
    y_label: str
    edges: Sequence[float]
    counts: Sequence[int]
    marked: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A mean before and after something, and the single pairs, if they are few enough to be shown."""

    label: str
    before: float
    after: float
    remark: str
    pairs: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one measure; it is shown from 0 to 1 at least."""

    said: str
    x_label: str
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class Span:
    """A middle value, the range around it, and one that lies far out."""

    label: str
    low: float
    middle: float
    high: float
    far: float
    remark: str


@dataclass(frozen=True, slots=True)
class Spans:
    """Ranges of one positive measure; ``names`` are what low, middle, high and far are called."""

    said: str
    x_label: str
    names: tuple[str, str, str, str]
    spans: Sequence[Span]


Chart: TypeAlias = Lines | Bars | Histogram | Changes | Spans


# -- round steps for histograms and axes ------------------------------------------------------------------


def step_of(least: int, most: int, steps: int) -> int:
    """Return the smallest of 1, 2, 5, 10, 20 … that parts least to most into no more than so many steps."""
    size = 1
    while True:
        for step in (1, 2, 5):
            if most // (size * step) - least // (size * step) < steps:
                return size * step
        size *= 10


def edges(step: int, most: int, least: int = 0) -> list[int]:
    """Return the edges of the steps from that of ``least`` to that of ``most``: one more than there are steps."""
    return [*range(least // step * step, most // step * step + step + 1, step)]


def steps_for(values: int, most: int) -> int:
    """Tell into how many steps so many values may be parted, so that a step has some of them."""
    return max(8, min(most, round(2.5 * sqrt(values))))
