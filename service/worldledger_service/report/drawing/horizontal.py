"""Charts of rows, each under its label: they are as wide as a narrow screen, however long names are."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from worldledger_service.report.charts import Bars, Changes, Spans
from worldledger_service.report.drawing.style import (
    GRID,
    INK,
    LINE,
    LOOKS,
    MARGIN,
    QUIET,
    STEPS,
    WIDTH,
    Entry,
    Paper,
    bounded,
    draw_legend,
    fitted,
    legend_rows,
    looks,
    overhang,
    tick,
    width_of,
)

_ROOM: Final = WIDTH - 2 * MARGIN
_BAR: Final = 11
#: From one bar's label to the next one's.
_ROW: Final = LINE + _BAR + 11
#: Ticks and a label below axes.
_BELOW: Final = 42


def draw_bars(chart: Bars) -> str:
    """Draw bars, with a legend if they have several parts."""
    chosen = looks(len(chart.parts))
    several = len(chart.parts) > 1
    entries = [Entry(part.label, look, area=True) for part, look in zip(chart.parts, chosen, strict=True)]
    rows = legend_rows(entries) if several else []
    top = len(rows) * LINE + 12 if rows else 0
    paper = Paper(top + len(chart.labels) * _ROW)
    draw_legend(paper, rows)
    longest = max(sum(part.values[place] for part in chart.parts) for place in range(len(chart.labels))) or 1
    for place, (label, remark) in enumerate(zip(chart.labels, chart.remarks, strict=True)):
        y = top + place * _ROW
        _label(paper, y, label, remark)
        x = float(MARGIN)
        paper.block(x, y + LINE + 1, _ROOM, _BAR, LOOKS[0]._replace(colour="#eef0f3"))
        for part, look in zip(chart.parts, chosen, strict=True):
            width = part.values[place] / longest * _ROOM
            if width:
                paper.block(x, y + LINE + 1, max(width, 1), _BAR, look)
                x += width
    return paper.svg()


def _label(paper: Paper, y: float, label: str, remark: str) -> None:
    """Write a row's label, and its remark at the end of the same line."""
    paper.write(MARGIN, y + 12.5, fitted(label, _ROOM - width_of(remark) - 14))
    paper.write(WIDTH - MARGIN, y + 12.5, remark, horizontalalignment="right", color=QUIET)


# -- rows over an axis ---------------------------------------------------------------------------------------


def _axes(paper: Paper, top: float, height: float, x_label: str) -> Axes:
    """Put axes below a legend: x in the terms of the data, y in px from their top."""
    axes = paper.axes(MARGIN + 8, top, _ROOM - 16, height)
    axes.set_ylim(height, 0)
    axes.yaxis.set_major_locator(NullLocator())
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=3)
    axes.grid(axis="x", color=GRID)
    axes.set_zorder(-1)
    paper.write(WIDTH / 2, paper.height - 8, fitted(x_label, _ROOM), horizontalalignment="center")
    return axes


def _finish(axes: Axes) -> None:
    """Write the ticks, and leave room for those at the ends."""
    axes.xaxis.set_major_formatter(FuncFormatter(tick))
    side = max(MARGIN + 8, overhang(axes)) / WIDTH
    _, bottom, _, height = axes.get_position().bounds
    axes.set_position((side, bottom, 1 - 2 * side, height))


_CHANGE: Final = 56
_LANE: Final = 8


def draw_changes(chart: Changes) -> str:
    """Draw means before and after, an arrow from one to the other, and the single values as dots around them."""
    before, after = LOOKS[1]._replace(marker="o"), LOOKS[0]._replace(marker="D")
    rows = legend_rows([Entry("mean before", before, line=False), Entry("mean after", after, line=False)])
    top = len(rows) * LINE + 12
    height = len(chart.changes) * _CHANGE
    paper = Paper(top + height + _BELOW)
    draw_legend(paper, rows)
    axes = _axes(paper, top, height, chart.x_label)
    for place, change in enumerate(chart.changes):
        first, last = bounded((change.before, change.after))
        _label(paper, top + place * _CHANGE, change.label, change.remark)
        upper, lower = place * _CHANGE + LINE + _LANE, place * _CHANGE + LINE + 3 * _LANE
        for look, lane, values in (
            (before, upper, bounded(pair[0] for pair in change.pairs)),
            (after, lower, bounded(pair[1] for pair in change.pairs)),
        ):
            for value, count in sorted(Counter(values).items()):
                axes.plot(
                    [value],
                    [lane],
                    marker="o",
                    markersize=2.5 + 1.5 * count**0.5,
                    color=look.colour,
                    alpha=0.3,
                    markeredgewidth=0,
                )
        axes.annotate(
            "",
            (last, lower),
            (first, upper),
            arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.2, "shrinkA": 5, "shrinkB": 5},
        )
        for look, lane, value in ((before, upper, first), (after, lower, last)):
            axes.plot([value], [lane], marker=look.marker, markersize=8, color=look.colour, markeredgecolor="white")
    values = bounded(
        value for change in chart.changes for pair in ((change.before, change.after), *change.pairs) for value in pair
    )
    least, most = min(0, *values), max(1, *values)
    axes.set_xlim(least - 0.03 * (most - least), most + 0.03 * (most - least))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=STEPS))
    _finish(axes)
    return paper.svg()


_SPAN: Final = LINE + 22


def draw_spans(chart: Spans) -> str:
    """Draw ranges with a middle, and a mark for what lies far out; over a log scale where they differ widely."""
    low, middle, high, far = chart.names
    look = LOOKS[0]
    top = LINE + 12.0
    height = len(chart.spans) * _SPAN + 4
    paper = Paper(top + height + _BELOW)
    _explain(paper, f"{low} to {high}", middle, far)
    axes = _axes(paper, top, height, chart.x_label)
    ends = bounded(value for span in chart.spans for value in (span.low, span.far))
    least, most = min(ends), max(ends)
    if least > 0 and most / least > 50:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=6))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(least / 1.3, most * 1.3)
    else:
        axes.set_xlim(0, most * 1.04 or 1)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=STEPS))
    _finish(axes)
    for place, span in enumerate(chart.spans):
        _label(paper, top + place * _SPAN, span.label, span.remark)
        y = place * _SPAN + LINE + 9
        low_end, middle_value, high_end, far_end = bounded((span.low, span.middle, span.high, span.far))
        axes.plot([high_end, far_end], [y, y], color=look.colour, linewidth=1)
        axes.plot([low_end, high_end], [y, y], color=look.colour, linewidth=6, alpha=0.5, solid_capstyle="butt")
        axes.plot([middle_value], [y], marker="o", markersize=7, color=look.colour, markeredgecolor="white")
        axes.plot([far_end], [y], marker="|", markersize=10, markeredgewidth=2, color=LOOKS[1].colour)
    return paper.svg()


def _explain(paper: Paper, around: str, middle: str, far: str) -> None:
    look, y = LOOKS[0], 2 + LINE / 2
    x = float(MARGIN)
    entries: tuple[tuple[str, dict[str, Any]], ...] = (
        (around, {"linewidth": 6, "alpha": 0.5, "solid_capstyle": "butt"}),
        (middle, {"marker": "o", "markersize": 7, "linestyle": "", "markeredgecolor": "white"}),
        (far, {"marker": "|", "markersize": 10, "markeredgewidth": 2, "linestyle": "", "color": LOOKS[1].colour}),
    )
    for text, marks in entries:
        ends = [x, x + 20] if "linewidth" in marks else [x + 10]
        paper.canvas.plot(ends, [y] * len(ends), **{"color": look.colour, **marks})
        paper.write(x + 27, y + 4.5, text)
        x += 27 + width_of(text) + 18
