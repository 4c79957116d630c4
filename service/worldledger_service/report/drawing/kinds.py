"""One function for each kind of chart."""

from __future__ import annotations

from worldledger_service.report.charts import Bars, Changes, Chart, Histogram, Lines, Spans
from worldledger_service.report.drawing.lying import draw_bars, draw_changes, draw_spans
from worldledger_service.report.drawing.standing import draw_histogram, draw_lines
from worldledger_service.report.drawing.style import styled


def draw_chart(chart: Chart) -> str:
    """Draw a chart, as matplotlib writes it."""
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
