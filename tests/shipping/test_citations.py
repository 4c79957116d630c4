"""What code cites: pages of this repository, and headings that stand in them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from .project import ROOT, project_files

_PAGE = re.compile(r'(?<![\w./-])((?:[\w-]+/)+[\w-]+\.md)((?:(?:, | and )"[^"]+")*)')
_NEXT_LINE = re.compile(r"\s*\n\s*(?:#:? )?")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

sources = [path for path in project_files() if path.suffix == ".py"]


def _cited(source: Path) -> set[tuple[str, str | None]]:
    """Return the pages that a file cites with the headings in quotes behind them, None for the page itself."""
    cited: set[tuple[str, str | None]] = set()
    text = source.read_text()
    for page, headings in _PAGE.findall(_NEXT_LINE.sub(" ", text)) if ".md" in text else ():
        cited |= {(page, None), *((page, heading) for heading in re.findall(r'"([^"]+)"', headings))}
    return cited


@cache
def _headings(page: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", _FENCE.sub("", (ROOT / page).read_text()), re.MULTILINE)


@pytest.mark.parametrize("folder", sorted({path.relative_to(ROOT).parts[0] for path in sources}))
def test_cited_pages_and_headings_exist(folder: str) -> None:
    """Every page that a program names is in the repository, with each heading that is quoted after its name."""
    for source in sources:
        if source.relative_to(ROOT).parts[0] == folder:
            for page, heading in sorted(_cited(source), key=str):
                where = f"{source.relative_to(ROOT)}: {page}"
                assert (ROOT / page).is_file(), where
                assert heading is None or heading in _headings(page), f'{where}, "{heading}"'
