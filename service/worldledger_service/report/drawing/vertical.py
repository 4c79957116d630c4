"""Charts whose x axis is what is counted through: lines over rounds or turns, and histograms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from worldledger_service.report.charts import Histogram, Line, Lines
from worldledger_service.report.drawing.style import (
    GRID,
    INK,
    LINE,
    LOOKS,
    MARGIN,
    STEPS,
    WIDTH,
    Entry,
    Look,
    Paper,
    bounded,
    draw_legend,
    fitted,
    legend_rows,
    overhang,
    tick,
    width_of,
)

#: The height of the axes, and what is below them: ticks and a label.
_AXES: Final = 200
_BELOW: Final = 42
#: Most points of a line that have a marker.
_MARKED: Final = 40
#: How far apart lines' points stand, in steps of x.
_APART: Final = 0.06


def draw_lines(chart: Lines) -> str:
    """Draw lines, with their bands and points, and a legend if there are several."""
    entries = [Entry(line.label, LOOKS[place % len(LOOKS)]) for place, line in enumerate(chart.lines)]
    rows = legend_rows(entries) if len(entries) > 1 else []
    top = len(rows) * LINE + (28 if chart.y_label else 10)
    paper = Paper(top + _AXES + _BELOW)
    draw_legend(paper, rows)
    axes = paper.axes(0, top, WIDTH, _AXES)
    for place, (line, entry) in enumerate(zip(chart.lines, entries, strict=True)):
        shift = 0.0 if chart.steps else (place - (len(entries) - 1) / 2) * _APART
        _draw_line(axes, line, entry.look, shift, steps=chart.steps)
    axes.margins(x=0.06 if _longest(chart) > 1 else 0.5, y=0.08)
    if chart.unit_range:  # bands may reach beyond it
        values = [*_values(chart)]
        least, most = min(0, *values), max(1, *values)
        axes.set_ylim(least - 0.03 * (most - least), most + 0.03 * (most - least))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1, steps=STEPS))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=STEPS))
    _finish(paper, axes, top, chart.x_label, chart.y_label)
    return paper.svg()


def _values(chart: Lines) -> Iterator[float]:
    for line in chart.lines:
        yield from bounded(value for value in line.y if value is not None)
        yield from bounded(value for _, value in line.dots)


def _longest(chart: Lines) -> int:
    return len({x for line in chart.lines for x in line.x})


def _draw_line(axes: Axes, line: Line, look: Look, shift: float, *, steps: bool) -> None:
    x = [value + shift for value in line.x]
    y = bounded(line.y)
    marker: dict[str, Any] = {"marker": look.marker, "markersize": 6, "markeredgecolor": "white"}
    if steps:
        marker["drawstyle"] = "steps-post"
    if line.low:
        low, high = bounded(line.low), bounded(line.high)
        axes.fill_between(x, low, high, color=look.colour, alpha=0.16, linewidth=0)
        if len(x) == 1 and isfinite(low[0]):  # a band of one point cannot be seen
            axes.plot([x[0], x[0]], [low[0], high[0]], color=look.colour, alpha=0.4, linewidth=6)
    if line.dots:
        xs, ys = (bounded(values) for values in zip(*line.dots, strict=True))
        axes.plot(
            [value + shift for value in xs],
            ys,
            linestyle="",
            marker=look.marker,
            markersize=4,
            markerfacecolor="none",
            markeredgecolor=look.colour,
            alpha=0.75,
        )
    every = None if len(x) <= _MARKED else max(1, len(x) // 12)
    axes.plot(x, y, color=look.colour, linestyle=look.dashes, linewidth=2, markevery=every, **marker)


def draw_histogram(chart: Histogram) -> str:
    """Draw counts as areas over their steps."""
    top = 28
    paper = Paper(top + _AXES + _BELOW)
    axes = paper.axes(0, top, WIDTH, _AXES)
    for (left, right), count in zip(pairwise(chart.edges), chart.counts, strict=True):
        if count:
            axes.bar(left, count, right - left, align="edge", color=LOOKS[0].colour, edgecolor="white", linewidth=1)
    axes.set_xlim(chart.edges[0], chart.edges[-1])
    axes.set_ylim(0, max(chart.counts) * 1.12)
    if chart.marked is not None:
        value, label = chart.marked
        axes.axvline(value, color=INK, linestyle=(0, (4, 2)), linewidth=1.4)
        left = (value - chart.edges[0]) / (chart.edges[-1] - chart.edges[0]) > 0.6
        axes.annotate(
            label,
            (value, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-5 if left else 5, -4),
            textcoords="offset points",
            horizontalalignment="right" if left else "left",
            verticalalignment="top",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85},
        )
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, steps=STEPS))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, steps=STEPS))
    _finish(paper, axes, top, chart.x_label, chart.y_label)
    return paper.svg()


def _finish(paper: Paper, axes: Axes, top: float, x_label: str, y_label: str) -> None:
    """Write beside the axes, and make as much room for that as it needs."""
    axes.grid(axis="y", color=GRID)
    axes.xaxis.set_major_formatter(FuncFormatter(tick))
    axes.yaxis.set_major_formatter(FuncFormatter(tick))
    axes.tick_params(length=3)
    left = MARGIN + 8 + max((width_of(text) for text in _texts(axes)), default=0)
    room = WIDTH - left - max(MARGIN + 8, overhang(axes))
    axes.set_position((left / WIDTH, _BELOW / paper.height, room / WIDTH, _AXES / paper.height))
    if y_label:
        paper.write(MARGIN, top - 9, fitted(y_label, WIDTH - 2 * MARGIN))
    paper.write(left + room / 2, paper.height - 8, fitted(x_label, room), horizontalalignment="center")


def _texts(axes: Axes) -> Sequence[str]:
    low, high = axes.get_ylim()
    return [tick(value) for value in axes.get_yticks() if low <= value <= high]
