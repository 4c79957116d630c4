"""Charts as SVG, by matplotlib: text stays text, the same chart is the same bytes, and nothing outside is referred to.

matplotlib is loaded when something is drawn, and belongs to the extra ``analytics``. Its settings are those here,
whatever a user has set, and are put back afterwards; its state machine (pyplot) is not used.
"""

from __future__ import annotations

from worldledger.errors import ExtraMissingError
from worldledger_service.report.charts import Chart


def require_drawing() -> None:
    """Raise ExtraMissingError where a page with charts cannot be made, before the work is done for nothing."""
    try:
        import jinja2  # noqa: F401, PLC0415 - not always installed
        import matplotlib as mpl  # noqa: F401, PLC0415 - large, too
    except ModuleNotFoundError as error:
        if error.name not in {"jinja2", "matplotlib"}:
            raise
        raise ExtraMissingError.of(error.name, "analytics") from error


def draw(chart: Chart, *, id: str, title: str) -> str:  # noqa: A002 - it is the element's id
    """Draw a chart as an SVG element to stand in an HTML page.

    ``id`` goes before every id in it, so that no two charts of a page have one in common; ``title`` and what the chart
    says of itself are for who cannot see it. Raises ExtraMissingError without matplotlib.
    """
    require_drawing()
    from worldledger_service.report.svg import draw_svg  # noqa: PLC0415

    return draw_svg(chart, id=id, title=title)
