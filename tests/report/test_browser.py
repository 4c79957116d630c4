"""The page in a browser, where there is one: nothing is cut off, nothing lies upon something else, nothing moves."""

from __future__ import annotations

import html
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browsers import BROWSER, FLAGS

from .conftest import ODD
from .helpers import Page

pytestmark = [
    pytest.mark.group("report"),
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed here"),
]

#: As wide as a screen, and as a telephone, in px.
_WIDTHS = (1280, 400)

#: Looks at the page in frames, and writes down what it sees; the page itself could run no script.
_LOOK = """<!DOCTYPE html><pre></pre><script>
const look = frame => {
  const page = frame.contentDocument, charts = [];
  for (const svg of page.querySelectorAll("svg")) {
    const edge = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter(text => text.textContent.trim());
    const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect()]);
    const out = boxes.filter(([, box]) => box.left < edge.left - 1 || box.right > edge.right + 1
      || box.top < edge.top - 1 || box.bottom > edge.bottom + 1).map(([text]) => text);
    const upon = [];
    boxes.forEach(([one, a], place) => boxes.slice(place + 1).forEach(([other, b]) => {
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
        upon.push([one, other]);
    }));
    const small = Math.min(...texts.map(text => parseFloat(getComputedStyle(text).fontSize))) * edge.width / 340;
    charts.push({title: svg.querySelector("title").textContent, out, upon, small});
  }
  return {wide: page.documentElement.scrollWidth, charts};
};
const frames = WIDTHS.map(width => {
  const frame = document.createElement("iframe");
  Object.assign(frame, {src: "report.html", width, height: 900});
  return document.body.appendChild(frame);
});
onload = () => { document.querySelector("pre").textContent = JSON.stringify(frames.map(look)); };
</script>
""".replace("WIDTHS", json.dumps(_WIDTHS))


@pytest.fixture(
    scope="module",
    params=["examples", *(pytest.param(other, marks=pytest.mark.thorough) for other in ("many", ODD))],
    ids=["examples", "many", "odd"],
)
def folder(
    request: pytest.FixtureRequest, page_for: Callable[[str], Page], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a folder with the page."""
    made: Path = tmp_path_factory.mktemp("browser")
    (made / "report.html").write_text(page_for(request.param).text)
    return made


def test_it_looks_right(folder: Path) -> None:
    """On a screen and on a telephone no text of a plot is cut off, too small or upon another; the page fits."""
    for width, seen in zip(_WIDTHS, _look(folder), strict=True):
        assert seen["wide"] <= width
        assert seen["charts"]
        for chart in seen["charts"]:
            assert chart["out"] == [], chart["title"]
            assert chart["upon"] == [], chart["title"]
            assert chart["small"] >= 11, chart["title"]


def _look(folder: Path) -> Any:
    (folder / "look.html").write_text(_LOOK)
    flags = (*FLAGS, "--headless", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom")
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [str(BROWSER), *flags, profile, (folder / "look.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(html.unescape(done.stdout.partition("<pre>")[2].partition("</pre>")[0]))
