"""States of games."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Cli
from tests.cli.helpers import GAME


def test_a_chess_world_shows_its_board(on: Cli, tmp_path: Path) -> None:
    """Of a game the board is drawn, with who plays and what came last."""
    (tmp_path / "a.pgn").write_text(GAME.format(1))
    assert on("import", "pgn", str(tmp_path)).code == 0
    world = json.loads(on("worlds", "--json").out)[0]["world_id"]
    lines = on("state", world).out.splitlines()
    start = lines.index("board")
    assert lines[start + 1 : start + 11] == [
        "  8  ♜ ♞ ♝ · ♚ ♝ ♞ ♜",
        "  7  ♟ ♟ ♟ ♟ · ♟ ♟ ♟",
        "  6  · · · · · · · ·",
        "  5  · · · · ♟ · · ·",
        "  4  · · · · · · ♙ ♛",
        "  3  · · · · · ♙ · ·",
        "  2  ♙ ♙ ♙ ♙ ♙ · · ♙",
        "  1  ♖ ♘ ♗ ♕ ♔ ♗ ♘ ♖",
        "     a b c d e f g h",
        "  Ann against Bob, Qh4# at ply 4, black wins (checkmate)",
    ]
    assert "Ann against Bob, f3 at ply 1, black to move" in on("state", world, "--at-seq", "3").out
    assert "board" not in on("state", world, "--at-seq", "1").out
