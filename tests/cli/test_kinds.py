"""`kind list` and `kind new`: the kinds that are installed, and the beginning of one's own."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from .conftest import Cli
from .helpers import environment


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_kinds_are_listed(on: Cli) -> None:
    """Each has its package, its parts and the number of its worlds."""
    for name in ("one", "two"):
        assert on("world", "create", name).code == 0
    kinds = {kind.pop("kind"): kind for kind in json.loads(on("kind", "list", "--json").out)}
    assert list(kinds) == ["chess", "recorder", "sandbox", "simulation", "social_rl"]
    ours = {"package": "worldledger", "version": version("worldledger")}
    views = {"state": "current", "applied": 3, "installed": 3}
    assert kinds["sandbox"] == {**ours, "worlds": 2, "views": views, "parts": ["ruleset", "analytics", "panel"]}
    assert (kinds["chess"]["worlds"], kinds["chess"]["parts"][:3]) == (0, ["ruleset", "projections", "queries"])
    header, _, _, sandbox, *_ = on("kind", "list").out.splitlines()
    assert header.split() == ["KIND", "PACKAGE", "VERSION", "WORLDS", "VIEWS", "PARTS"]
    parts = ["ruleset,", "analytics,", "panel"]
    assert sandbox.split() == ["sandbox", "worldledger", version("worldledger"), "2", "3", *parts]


def test_the_views_of_a_kind_are_dropped(on: Cli) -> None:
    """Those of an installed kind only by force; the worlds left are named, and `db upgrade` makes the views again."""
    assert on("world", "create", "one").code == 0
    refused = on("kind", "drop", "sandbox")
    assert refused.code == 2
    assert refused.err.endswith("makes its views again; use --force to drop them all the same\n")
    first, second = on("kind", "drop", "sandbox", "--force").out.splitlines()
    assert first.startswith("dropped the views of sandbox: entity_created, ")
    assert second == "worlds of this kind that are left, with their logs: 1: one"
    (sandbox,) = [line for line in on("kind", "list").out.splitlines() if line.startswith("sandbox ")]
    assert " none (db upgrade makes version 3) " in sandbox
    assert on("db", "upgrade").code == 0
    assert on("sql", "select count(*) from speak").code == 0


def test_a_new_kind_passes_its_tests(cli: Cli, folder: Path) -> None:
    """What is written is a package whose tests pass, under the name that was given, and whose kind can be loaded."""
    done = cli("kind", "new", "wine_fair")
    assert (done.code, done.out.split(";")[0]) == (0, "wrote worldledger-wine-fair")
    package = folder / "worldledger-wine-fair"
    assert "__name__" not in "".join(file.read_text() for file in package.rglob("*") if file.is_file())
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    env = environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")  # they ask for none, and to load ours takes a while
    tested = subprocess.run(tests, cwd=package, env=env, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout
    program = "from worldledger_wine_fair import KIND; print(KIND.load('ruleset').name, len(KIND.load('projections')))"
    loaded = subprocess.run(
        [sys.executable, "-c", program],
        cwd=package / "src",
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert loaded.stdout == "wine_fair 1\n", loaded.stderr


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("Fair", "'Fair' is no name for a kind: use lower-case letters and _, at most 30"),
        ("../fair", "'../fair' is no name for a kind: use lower-case letters and _, at most 30"),
        ("chess", "there is a kind 'chess' already; choose another name"),
        ("fair", "worldledger-fair is there already; name another one with --folder"),
    ],
)
def test_what_cannot_be_written_is_refused(cli: Cli, folder: Path, name: str, what: str) -> None:
    """A name that is none or taken, and a folder that is there, are one sentence; nothing is written."""
    (folder / "worldledger-fair").mkdir()
    assert cli("kind", "new", name) == (2, "", f"worldledger: {what}\n")
    assert [*folder.rglob("*")] == [folder / "worldledger-fair"]
