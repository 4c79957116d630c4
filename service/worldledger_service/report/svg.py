"""A chart as SVG, as matplotlib writes it, made fit to stand in a page: small, named, and with ids of its own."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import isfinite, nan
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree as ET

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextToPath
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from worldledger_service.report.charts import Bars, Changes, Chart, Histogram, Line, Lines, Spans
from worldledger_service.report.wording import shown

# -- how charts look, and the paper that they are drawn on ------------------------------------------------
#
# Colours are those of Okabe and Ito, which people with any colour vision tell apart; nothing is told by colour alone:
# lines differ in dashes and markers, areas in hatches. Sizes are in px at the size that a chart has on a narrow
# screen.


WIDTH: Final = 340
#: Between what is drawn and the edge.
MARGIN: Final = 6
INK: Final = "#1f2937"
QUIET: Final = "#4b5563"
GRID: Final = "#e2e5ea"
TEXT: Final = 12.5
#: The height of a line of text.
LINE: Final = 18

#: What ticks are multiples of.
STEPS: Final = (1, 2, 2.5, 5, 10)

_SETTINGS: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "worldledger",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",  # which matplotlib brings along; wider than what else a browser may take
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": QUIET,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "hatch.color": "white",
    "hatch.linewidth": 1.1,
    "path.simplify": False,
}


#: What is larger is drawn as if it were this: differences must be numbers, too.
_MOST: Final = 1e150


def bounded(values: Iterable[float | None]) -> list[float]:
    """Return values that can be drawn; what is not there is NaN, which is left out."""
    return [nan if value is None else max(-_MOST, min(_MOST, float(value))) for value in values]


class Look(NamedTuple):
    """What tells one thing from another."""

    colour: str
    marker: str
    dashes: Any
    hatch: str


LOOKS: Final = (
    Look("#0072B2", "o", "-", ""),
    Look("#D55E00", "s", (0, (5, 2)), "////"),
    Look("#009E73", "^", (0, (1.5, 1.5)), "...."),
    Look("#CC79A7", "D", (0, (7, 2, 1.5, 2)), "xxxx"),
    Look("#E69F00", "v", (0, (3, 1, 1, 1, 1, 1)), "||||"),
    Look("#56B4E9", "P", (0, (9, 3)), "----"),
)
_MIDDLE: Final = Look("#b6bcc6", "o", "-", "")


def looks(count: int) -> Sequence[Look]:
    """Return the looks of so many parts of a bar: of three the one in the middle is neutral."""
    return (LOOKS[0], _MIDDLE, LOOKS[1]) if count == 3 else [LOOKS[place % len(LOOKS)] for place in range(count)]


class Paper:
    """A figure of the usual width, and a canvas over all of it: in px, from its left top corner."""

    def __init__(self, height: float) -> None:
        self.height = height
        self.figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
        self.canvas = self.axes(0, 0, WIDTH, height)
        self.canvas.set(xlim=(0, WIDTH), ylim=(height, 0))
        self.canvas.axis("off")

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Put axes somewhere on it."""
        bottom = self.height - top - height
        place = (left / WIDTH, bottom / self.height, width / WIDTH, height / self.height)
        return self.figure.add_axes(place)

    def write(self, x: float, y: float, text: str, **how: Any) -> None:
        """Write a text; x and y are of its left end and its base line, unless told otherwise."""
        self.canvas.text(x, y, text, **how)

    def block(self, x: float, y: float, width: float, height: float, look: Look) -> None:
        """Fill an area."""
        self.canvas.add_patch(
            Rectangle((x, y), width, height, facecolor=look.colour, hatch=look.hatch or None, linewidth=0)
        )

    def svg(self) -> str:
        """Return the drawing."""
        buffer = io.StringIO()
        self.figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        return buffer.getvalue()


@contextmanager
def styled() -> Iterator[None]:
    """Have charts look as they do here, whatever a user's settings are."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it tells of its font cache
    try:
        with mpl.rc_context(), warnings.catch_warnings():
            # Text is measured by its own font and drawn by the browser, which has others for what is missing there.
            warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
            mpl.rcdefaults()
            for name, value in _SETTINGS.items():
                mpl.rcParams[name] = value
            yield
    finally:
        logger.setLevel(level)


# -- text ----------------------------------------------------------------------------------------------------


def width_of(text: str) -> float:
    """Tell how wide a text is, in px."""
    width, _, _ = TextToPath().get_text_width_height_descent(text, FontProperties(size=TEXT), ismath=False)
    return float(width)


def fitted(text: str, room: float) -> str:
    """Return a text that comes from the data so that it fits into so many px."""
    text = shown(text, 200)
    if width_of(text) <= room:
        return text
    while text and width_of(text + "…") > room:
        text = text[:-1]
    return text.rstrip() + "…"


def tick(value: float, _: object = None) -> str:
    """Write a number beside an axis."""
    size = abs(value)
    scale, unit = (1e6, "M") if 1e6 <= size < 1e12 else (1e3, "k") if 1e4 <= size < 1e6 else (1, "")
    return f"{value / scale:.{10 if size < 1e12 else 3}g}{unit}".replace("-", "\N{MINUS SIGN}")


def overhang(axes: Axes) -> float:
    """Tell how far the tick labels of an x axis may stand out beyond its ends, in px."""
    low, high = axes.get_xlim()
    return max((width_of(tick(value)) / 2 for value in axes.get_xticks() if low <= value <= high), default=0)


# -- legends -------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """An entry of a legend: an area, a line with a marker, or the marker alone."""

    label: str
    look: Look
    area: bool = False
    line: bool = True


_SWATCH: Final = 26


def legend_rows(entries: Sequence[Entry]) -> list[list[tuple[float, str, Entry]]]:
    """Lay out a legend: rows of entries, each with its x and its text."""
    rows: list[list[tuple[float, str, Entry]]] = [[]]
    x = float(MARGIN)
    for entry in entries:
        text = fitted(entry.label, WIDTH - 2 * MARGIN - _SWATCH - 8)
        width = _SWATCH + 6 + width_of(text) + 14
        if rows[-1] and x + width - 14 > WIDTH - MARGIN:
            rows.append([])
            x = MARGIN
        rows[-1].append((x, text, entry))
        x += width
    return rows


def draw_legend(paper: Paper, rows: Sequence[Sequence[tuple[float, str, Entry]]]) -> None:
    """Draw it."""
    for number, row in enumerate(rows):
        middle = 2 + number * LINE + LINE / 2
        for x, text, entry in row:
            if entry.area:
                paper.block(x, middle - 5, _SWATCH, 11, entry.look)
            else:
                style = {"color": entry.look.colour, "linestyle": entry.look.dashes, "linewidth": 2}
                if entry.line:
                    paper.canvas.add_line(Line2D([x, x + _SWATCH], [middle] * 2, **style))
                paper.canvas.add_line(Line2D([x + _SWATCH / 2], [middle], **_marked(entry.look)))
            paper.write(x + _SWATCH + 6, middle + 4.5, text)


def _marked(look: Look) -> dict[str, Any]:
    return {"marker": look.marker, "markersize": 6.5, "color": look.colour, "markeredgecolor": "white", "linestyle": ""}


# -- charts of rows, each under its label: they are as wide as a narrow screen, however long names are ----


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


# -- charts whose x axis is what is counted through: lines over rounds or turns, and histograms -----------


#: The height of the axes, and what is below them: ticks and a label.
_AXES: Final = 200
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
    _finish_vertical(paper, axes, top, chart.x_label, chart.y_label)
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
    _finish_vertical(paper, axes, top, chart.x_label, chart.y_label)
    return paper.svg()


def _finish_vertical(paper: Paper, axes: Axes, top: float, x_label: str, y_label: str) -> None:
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


_NAMESPACE: Final = "{http://www.w3.org/2000/svg}"
_HREF: Final = "{http://www.w3.org/1999/xlink}href"
#: Longest title or description.
_LONGEST: Final = 2000
_REFERENCE: Final = re.compile(r"url\(#([^)]+)\)")
_NUMBER: Final = re.compile(r"-?\d+\.\d{2,}")
#: Attributes that are numbers in px, all of them or in part.
_NUMBERS: Final = frozenset({"d", "x", "y", "width", "height", "transform", "points"})
#: What has nothing to say in a page; the style is for all of it, and stands in the page's own.
_LEFT_OUT: Final = frozenset({"metadata", "style"})


def draw_svg(chart: Chart, *, id: str, title: str) -> str:  # noqa: A002 - it is the element's id
    """Return a chart as an SVG element: an image with a title and a description."""
    root = ET.fromstring(_drawn(chart))  # noqa: S314 - matplotlib has written it just now
    _strip(root)
    used = set(_references(root))
    for element in root.iter():
        _rename(element, id, used)
    _, _, _, height = root.attrib["viewBox"].split()
    root.attrib = {
        "viewBox": f"0 0 {WIDTH} {float(height):g}",
        "width": str(WIDTH),
        "height": f"{float(height):g}",
        "role": "img",
        "aria-labelledby": f"{id}-title {id}-said",
    }
    for place, (name, words) in enumerate((("title", title), ("desc", chart.said))):
        element = ET.Element(name, {"id": f"{id}-{'title' if name == 'title' else 'said'}"})
        element.text = shown(words, _LONGEST)
        root.insert(place, element)
    return ET.tostring(root, encoding="unicode")


def _drawn(chart: Chart) -> str:
    """Return a chart as matplotlib writes it."""
    with styled():
        match chart:
            case Lines():
                return draw_lines(chart)
            case Histogram():
                return draw_histogram(chart)
            case Bars():
                return draw_bars(chart)
            case Changes():
                return draw_changes(chart)
            case Spans():
                return draw_spans(chart)


def _strip(element: ET.Element) -> None:
    """Take away namespaces, which a page knows by itself, spaces between elements, and what is left out."""
    element.tag = element.tag.removeprefix(_NAMESPACE)
    if element.tag != "text":
        element.text = None
    for child in list(element):
        _strip(child)
        child.tail = None
        if child.tag.rpartition("}")[2] in _LEFT_OUT or (child.tag in {"defs", "g"} and not len(child)):
            element.remove(child)


def _references(root: ET.Element) -> list[str]:
    found: list[str] = []
    for element in root.iter():
        if _HREF in element.attrib:
            found.append(element.attrib[_HREF].removeprefix("#"))
        for value in element.attrib.values():
            found += _REFERENCE.findall(value)
    return found


def _rename(element: ET.Element, prefix: str, used: set[str]) -> None:
    """Keep the ids that are referred to, with the prefix; write numbers to a tenth of a px."""
    if element.attrib.get("id") not in used:
        element.attrib.pop("id", None)
    for name, value in list(element.attrib.items()):
        if name == "id":
            element.attrib[name] = f"{prefix}-{value}"
        elif name == _HREF:
            del element.attrib[name]
            element.attrib["href"] = f"#{prefix}-{value.removeprefix('#')}"
        elif name in _NUMBERS:
            element.attrib[name] = _NUMBER.sub(_rounded, " ".join(value.split()))
        else:
            element.attrib[name] = _REFERENCE.sub(rf"url(#{prefix}-\1)", value)


def _rounded(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".").replace("-0", "-0") or "0"
