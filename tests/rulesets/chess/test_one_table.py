"""A field of MoveMade is said once, in a table: adding one takes few files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import worldledger_chess
from worldledger_chess.rules.moves import FIELDS

from tests.cases import cases
from tests.shipping.project import ROOT

MOST: Final = 3
PRODUCT: Final = ("kinds", "worldledger", "service", "projections", "migrations", "docs", "grafana")
#: Files in which a field's name does not count, and why.
LEFT_OUT: Final = {
    "docs/reference/analytics.md": "its tables are made from the columns",
    "docs/reference/contracts.md": "its table is made from FIELDS; besides, it promises Move's rules in words",
    "migrations/versions/0004_analytics.sql": "history: what a database of that time was given, never to change again",
}
#: Fields of a MoveMade that can be followed by their names, since nothing else is called so.
FOLLOWED: Final = ("is_promotion", "promotion_piece", "is_null", "nags")
_NEW: Final = """\
    Field("is_check", "boolean", "Whether it gives check.", fact=lambda _, san: san[-1] in "+#"),
    Field("annotator", "text", "Who has commented it.", True),
"""
_ASKED: Final = """
import chess

from tests.projections.chess.test_moves import Moves, effects_of, moved, rows_of, started
from tests.rulesets.chess.worlds import AGENTS, Table, draft
from tests.shipping.tables import TABLES
from worldledger.errors import IllegalEffectError
from worldledger_chess.rules.moves import play_move

table = Table(draft("GameStarted", AGENTS))
assert table.post("MoveMade", {"uci_notation": "e2e4"})["is_check"] is False
try:
    table.post("MoveMade", {"uci_notation": "e7e5", "is_check": True})
    raise SystemExit("it can be misstated")
except IllegalEffectError as error:
    assert error.details["field"] == "is_check"
(row,) = rows_of(effects_of([started(), moved("e2e4")]))
assert row["is_check"] is False
assert "Whether it gives check." in [column.comment for column in Moves.columns]
assert any("`is_check`" in line for line in TABLES["move_made"]())

assert table.post("MoveMade", {"uci_notation": "e7e5", "annotator": "Ann"})["annotator"] == "Ann"
assert play_move(chess.Board(), chess.Move.from_uci("e2e4"), ply=1, agent_id="w")["annotator"] is None
rows = rows_of(effects_of([started(), moved("e2e4", annotator="Ann"), moved("e7e5", comment="book")]))
told = [(row["annotator"], row["comment"], row["uci_notation"], row["fen"][-1]) for row in rows]
assert told == [("Ann", None, "e2e4", "1"), (None, "book", "e7e5", "2")]
"""


@cache
def files_with(name: str) -> frozenset[str]:
    """Return the product's files in which a name stands: in Python as a word of the code, elsewhere also in prose.

    Numbered SQL of a kind is one place: what an earlier file made, the next one replaces.
    """
    word = re.compile(rf"\b{name}\b")
    found = set()
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in {".py", ".sql", ".md", ".txt", ".json"} or "__pycache__" in path.parts:
                continue
            text = path.read_text()
            if word.search(text) and (path.suffix != ".py" or name in words_of(path)):
                place = path.parent if path.parent.name == "analytics" else path
                found.add(place.relative_to(ROOT).as_posix())
    return frozenset(found)


def words_of(path: Path) -> set[str]:
    """Return the identifiers of a module and its strings that are one word."""
    with path.open("rb") as file:
        kinds = {tokenize.NAME, tokenize.STRING}
        return {token.string.strip("\"'") for token in tokenize.tokenize(file.readline) if token.type in kinds}


@cases("name", FOLLOWED)
def test_a_field_of_a_move_stands_in_three_files_at_most(name: str) -> None:
    """In the table with who fills it; where it has one, in the view's numbered SQL; and where a rule is about it."""
    assert name in {field.name for field in FIELDS}
    found = files_with(name) - LEFT_OUT.keys()
    assert "kinds/chess/worldledger_chess/rules/moves.py" in found
    assert len(found) <= MOST, sorted(found)


def test_each_file_that_is_left_out_has_such_names() -> None:
    """No file is left out without need."""
    assert {file for name in FOLLOWED for file in files_with(name)} >= LEFT_OUT.keys()


@pytest.mark.thorough  # of the fields that there are, the tests above and those of rules, columns and docs have it
def test_a_line_in_the_table_is_a_field_everywhere(tmp_path: Path) -> None:
    """A fact is written into every move, may not be misstated, and has a column with its value and a line in docs.

    What a recorder may say is null in every move that does not say it, and has a column, too.
    """
    shutil.copytree(Path(worldledger_chess.__file__).parent, tmp_path / "worldledger_chess")
    table = tmp_path / "worldledger_chess/rules/moves.py"
    before = '    Field("uci_notation"'
    text = table.read_text()
    assert text.count(before) == 1
    table.write_text(text.replace(before, f"{_NEW}{before}"))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", _ASKED]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
