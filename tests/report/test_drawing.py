"""Plots: whatever the numbers and names are, the same values are the same image, and nobody's settings change it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest
from worldledger_service.report.charts import Bars, Change, Changes, Chart, Histogram, Line, Lines, Part, Span, Spans
from worldledger_service.report.drawing import draw


def _line(*values: float | None) -> Lines:
    return Lines("said", "turn", "value", [Line("one", [*range(len(values))], values)])


CHARTS: dict[str, Chart] = {
    "nothing known": _line(None, None),
    "one point": _line(5.0),
    "no difference": _line(5.0, 5.0, 5.0),
    "the largest and the least": _line(1.7e308, -1.7e308),
    "the largest twice": _line(1.7e308, 1.7e308),
    "the smallest": _line(5e-324, 0.0),
    "many points": _line(*map(float, range(3000))),
    "far turns": Lines("said", "turn", "", [Line("one", [10**15, 2 * 10**15], [1.0, 2.0])], steps=True),
    "bands and dots": Lines(
        "said",
        "round",
        "",
        [
            Line("_one", [1], [0.5], [None], [None], [(1, 0.4)]),
            Line("$two$", [1, 2], [0.5, None], [0, None], [1, None]),
        ],
        unit_range=True,
    ),
    "bars without length": Bars("said", ["a"], [Part("p", [0])], ["0"]),
    "bars": Bars("said", ["a" * 500, ""], [Part("_p", [1, 10**18]), Part("$q$", [0, 1])], ["1", "2"]),
    "a histogram": Histogram("said", "x", "y", [0, 10**15, 2 * 10**15], [0, 3], (10**15, "median")),
    "changes": Changes("said", "x", [Change("a", -1.7e308, 1.7e308, "2 times", [(0, 1), (0, 1)])]),
    "spans of nothing": Spans("said", "s", ("a", "b", "c", "d"), [Span("one", 0, 0, 0, 0, "r")]),
    "wide spans": Spans("said", "s", ("a", "b", "c", "d"), [Span("one", 1e-9, 1, 100, 1e9, "r")]),
}


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_any_numbers_can_be_drawn(chart: Chart) -> None:
    """No number breaks a plot, and none makes another image of it the next time."""
    drawn = draw(chart, id="f1", title="Title")
    root = ET.fromstring(drawn)
    assert not re.search(r"\b(nan|inf)\b", drawn)
    assert drawn == draw(chart, id="f1", title="Title")
    assert (root.findtext("title"), root.findtext("desc")) == ("Title", "said")
    ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    assert all(one.startswith("f1-") for one in ids)


def test_names_are_told_as_they_are() -> None:
    """In legends and labels: also those that matplotlib would leave out, or set as mathematics."""
    lines = draw(CHARTS["bands and dots"], id="f1", title="t")
    bars = draw(CHARTS["bars"], id="f1", title="t")
    for name in ("_one", "$two$"):
        assert f">{name}<" in lines
    for name in ("_p", "$q$"):
        assert f">{name}<" in bars


def test_settings_are_those_of_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own settings change nothing, and are there again afterwards; the state machine is not touched."""
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    plain = draw(CHARTS["bars"], id="f1", title="t")
    with mpl.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True, "lines.linewidth": 9}):
        assert draw(CHARTS["bars"], id="f1", title="t") == plain
        assert (mpl.rcParams["font.size"], mpl.rcParams["svg.fonttype"]) == (30, "path")
    assert "matplotlib.pyplot" not in sys.modules
