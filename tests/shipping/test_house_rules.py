"""Rules that every file of the project keeps."""

from __future__ import annotations

import re

from .project import ROOT, project_files, pyproject

# The brackets keep this file from holding what it looks for.
_HOSTS = re.compile(r"[p]ypi\.org|[p]ythonhosted|[n]pmjs\.|[i]ndex-url|[/]simple/|[d]eb\.debian")
_HOMES = re.compile(r"(?<![\w.~-])/(?:home/\w|Users/\w|root/\.|work/)")


def _texts() -> dict[str, str]:
    texts = {}
    for path in project_files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in {".pgn", ".png"} and name != "LICENSE":
            texts[name] = path.read_text(encoding="utf-8")
    return texts


def test_no_file_names_a_registry_or_a_home_folder() -> None:
    """No file holds the address of a package registry or a path that only one machine has."""
    found = {
        f"{name}:{number}: {line.strip()}"
        for name, text in _texts().items()
        if _HOSTS.search(text) or _HOMES.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if _HOSTS.search(line) or _HOMES.search(line)
    }
    assert not found


def test_every_text_is_utf_8_and_ends_with_a_newline() -> None:
    """Every text file is UTF-8 without BOM, ends with one newline and has no carriage return."""
    for name, text in _texts().items():
        assert not text or text.endswith("\n"), name
        assert not text.endswith("\n\n"), name
        assert "\r" not in text, name
        assert not text.startswith("\ufeff"), name


def test_the_licence_is_gpl_3() -> None:
    """The licence file is the GPL, version 3, and the metadata say so: python-chess asks for it."""
    text = (ROOT / "LICENSE").read_text()
    assert "GNU GENERAL PUBLIC LICENSE" in text[:200]
    assert "Version 3, 29 June 2007" in text[:200]
    assert pyproject()["project"]["license"] == "GPL-3.0-or-later"


def test_the_version_is_the_changelog_s_newest() -> None:
    """The version in pyproject.toml is the newest one that CHANGELOG.md describes, with its date."""
    entries = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [(version, date) for version, date in entries if version != "Unreleased"]
    assert released[0][0] == pyproject()["project"]["version"]
    assert all(re.fullmatch(r"\d{4}-\d{2}-\d{2}", date) for _, date in released)


def test_the_readme_shows_the_two_commands() -> None:
    """README.md shows `make run` and `make test`, and the Makefile has them."""
    readme = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in ("run", "test"):
        assert f"make {target}" in readme
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_chain_step_is_written_in_one_place() -> None:
    """Whatever writes or reads rows has its checksums from `worldledger.chain`: it hashes nothing itself."""
    hashing = {
        path.relative_to(ROOT).as_posix()
        for path in [*(ROOT / "service/worldledger_service/store").glob("*.py"), ROOT / "worldledger/exports.py"]
        if re.search(r"\b(?:hashlib|sha256\()", re.sub(r'"""(?:.|\n)*?"""', "", path.read_text(encoding="utf-8")))
    }
    # The digest of a state's text, and those with which verification compares requests.
    store = "service/worldledger_service/store"
    assert hashing == {f"{store}/snapshots.py", f"{store}/request_rows.py"}
