"""Projections of one's own: how they are found, and what is refused before it is run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from worldledger_projections import registry
from worldledger_projections.base import InvalidProjectionError
from worldledger_projections.registry import known

WORDS = """
from worldledger_projections.base import AppendingWorld, Column, Projection


class _World(AppendingWorld):
    def apply(self, effect):
        words = len(str(effect["payload"].get("text", "")).split())
        self._rows.append((self._world_id, effect["global_seq"], words))


class Words(Projection):
    name = "words"
    version = 1
    comment = "Words of what was said."
    columns = (
        Column("world_id", "text", "The name of the world."),
        Column("global_seq", "bigint", "The effect."),
        Column("words", "bigint", "How many words."),
    )
    key = ("world_id", "global_seq")
    kinds = frozenset({"Speak"})
    append_only = True

    def begin(self, world_id, rows, fold):
        return _World(world_id)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder whose modules can be imported, and of which nothing is remembered afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    registry._known.cache_clear()
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]
    registry._known.cache_clear()


def test_a_module_of_this_folder_is_found(folder: Path) -> None:
    """``module:Class`` names a projection in a file of the present folder; the built-in ones stay."""
    (folder / "said.py").write_text(WORDS)
    projections = known("said:Words")
    assert (projections["words"].name, projections["words"].version) == ("words", 1)
    assert projections.keys() - known() == {"words"}


def test_an_installed_package_offers_projections(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the entry-point group are projections like the built-in ones; one that is named twice is one."""
    info = folder / "said-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: said\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[worldledger.projections]\nwords = said:Words\n")
    (folder / "said.py").write_text(WORDS)
    monkeypatch.syspath_prepend(folder)
    assert "words" in known()
    assert known("said:Words,said:Words").keys() == known().keys()


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import time", "uses time;"),
        ("from random import random", "uses random;"),
        ("import os.path", "uses os.path;"),
        ("def f():\n    import socket", "uses socket;"),
        ("from datetime import datetime\nNOW = datetime.now()", "uses now;"),
        ("from uuid import uuid4", "uses uuid4;"),
        ("TEXT = open('x').read()", "uses open;"),
        ("import asyncpg, requests", "uses asyncpg, requests;"),
        ("from worldledger.client import Client", "uses worldledger.client;"),
    ],
)
def test_clocks_randomness_and_io_are_refused(folder: Path, code: str, what: str) -> None:
    """A module that reaches outside is refused by what it uses, and is not run."""
    (folder / "said.py").write_text(f"{code}\n{WORDS}")
    with pytest.raises(InvalidProjectionError, match=what) as caught:
        known("said:Words")
    assert caught.value.details == {"projection": "said:Words"}
    assert "said" not in sys.modules


def test_what_a_module_of_the_same_package_does_counts(folder: Path) -> None:
    """A helper in the projection's own package is looked at, too, however it is imported."""
    for how in ("from .helping import now_s", "from pack import helping", "import pack.helping"):
        package = folder / "pack"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("")
        (package / "helping.py").write_text("import time\nnow_s = time.time\n")
        (package / "said.py").write_text(f"{how}\n{WORDS}")
        with pytest.raises(InvalidProjectionError, match=r"the module pack\.helping uses time"):
            known("pack.said:Words")


def test_pure_modules_may_be_used(folder: Path) -> None:
    """What only computes may be imported: dates, statistics, orjson, the rules of Worldledger."""
    code = "import orjson, statistics\nfrom datetime import datetime\nfrom worldledger.chain import StoredEffect\n"
    (folder / "said.py").write_text(f"{code}AT = datetime.fromtimestamp(0.0)\n{WORDS}")
    assert "words" in known("said:Words")


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("said", "named as module:Class"),
        ("said:", "named as module:Class"),
        ("sa id:Words", "named as module:Class"),
        ("nowhere:Words", "there is no module nowhere"),
        ("no.where:Words", "there is no module no.where"),
        ("said:Wordz", "the module said has no Wordz"),
        ("said:Column", "no class made from"),
        ("said:Projection", "no class made from"),
        ("broken:Words", "cannot be read"),
        ("failing:Words", r"cannot be loaded \(ZeroDivisionError"),
        ("nameless:Words", "lacks name"),
        ("other:Words", "a projection named 'entities' already, worldledger_projections.entities:Entities"),
        ("unkeyed:Words", "columns and key begin with world_id"),
    ],
)
def test_what_is_no_projection_is_told(folder: Path, place: str, what: str) -> None:
    """Each thing that can be wrong is an error that names the place and says what."""
    (folder / "said.py").write_text(WORDS)
    (folder / "broken.py").write_text("def")
    (folder / "failing.py").write_text(f"1 / 0\n{WORDS}")
    (folder / "nameless.py").write_text(WORDS.replace('name = "words"', ""))
    (folder / "other.py").write_text(WORDS.replace('"words"', '"entities"', 1))
    (folder / "unkeyed.py").write_text(WORDS.replace('key = ("world_id", ', "key = ("))
    with pytest.raises(InvalidProjectionError, match=what) as caught:
        known(place)
    assert str(caught.value).startswith(f"projection {place}: ")
