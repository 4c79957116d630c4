"""What the pages on architecture say of the layout is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .project import ROOT, project_files

_PAGES = sorted((ROOT / "docs").glob("architecture*.md"))
_FILES = [path.relative_to(ROOT).as_posix() for path in project_files()]
_NAMED = re.compile(r"`([\w./-]+\.(?:py|sql|txt|toml)|[a-z_]+(?:/[a-z_0-9]+)*/)`")
_DRAWN = re.compile(r"[a-z][a-z_/]*(?:\.py|/)")
_DEFINED = re.compile(r"`(\w+)`(?: there)? in\s+`([\w./]+\.(?:py|sql))`")
_MEMBER = re.compile(r"`([A-Z]\w+)\.([a-z_]\w*)(?:\(.*?\))?`")
_PICTURE = re.compile(r"^```text\n(worldledger/.*?)^```$", re.MULTILINE | re.DOTALL)


def _is_there(name: str) -> bool:
    return any(f"/{name}" in f"/{file}" for file in _FILES)


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    """A file or folder in a page's text or picture is one of the project's."""
    text = page.read_text()
    names = {*_NAMED.findall(text), *(name for drawn in _PICTURE.findall(text) for name in _DRAWN.findall(drawn))}
    assert [name for name in sorted(names) if not _is_there(name)] == []


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_every_name_is_where_a_page_says(page: Path) -> None:
    """What a page says is in a file is defined there, and a class that it names has the member."""
    text = page.read_text()
    sources = {f"/{file}": (ROOT / file).read_text() for file in _FILES if file.endswith((".py", ".sql"))}
    wrong = []
    for name, file in _DEFINED.findall(text):
        defined = re.compile(rf"(?:class|def|function) (?:\w+\.)?{name}\b|^{name}\b.*=", re.MULTILINE)
        if not any(defined.search(source) for path, source in sources.items() if path.endswith(f"/{file}")):
            wrong.append(f"{name} in {file}")
    for owner, member in _MEMBER.findall(text):
        if not any(re.search(rf"(?ms)^class {owner}\b.*?\b{member}\b", each) for each in sources.values()):
            wrong.append(f"{owner}.{member}")
    assert wrong == []


def test_the_picture_has_every_package() -> None:
    """Each folder that holds packages, and each package, is in the picture of the layout."""
    (picture,) = _PICTURE.findall((ROOT / "docs" / "architecture.md").read_text())
    drawn = set(re.findall(r"^([a-z]+)/", picture, re.MULTILINE))
    folders = {file.split("/")[0] for file in _FILES if file.endswith(".py") and "/" in file}
    assert drawn == folders
    packages = {file.split("/")[1] for file in _FILES if file.startswith(("projections/", "service/"))}
    kinds = {file.split("/")[2] for file in _FILES if file.startswith("kinds/")}
    assert {name for name in packages - kinds if name not in picture} == set()
    assert all(f"{kind.removeprefix('worldledger_')}" in picture for kind in kinds)
