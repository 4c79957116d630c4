"""A chart as SVG, as matplotlib writes it, made fit to stand in a page: small, named, and with ids of its own."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree as ET

from worldledger_service.report.charts import Bars, Changes, Chart, Histogram, Lines, Spans
from worldledger_service.report.drawing.horizontal import draw_bars, draw_changes, draw_spans
from worldledger_service.report.drawing.style import WIDTH, styled
from worldledger_service.report.drawing.vertical import draw_histogram, draw_lines
from worldledger_service.report.wording import shown

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
