"""How charts look, and the paper that they are drawn on.

Colours are those of Okabe and Ito, which people with any colour vision tell apart; nothing is told by colour alone:
lines differ in dashes and markers, areas in hatches. Sizes are in px at the size that a chart has on a narrow screen.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import nan
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextToPath

from worldledger_service.report.wording import shown

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


def draw_legend(paper: Paper, rows: Sequence[Sequence[tuple[float, str, Entry]]], top: float = 2) -> None:
    """Draw it."""
    for number, row in enumerate(rows):
        middle = top + number * LINE + LINE / 2
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
