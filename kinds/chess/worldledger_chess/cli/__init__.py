"""The commands of games of chess."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worldledger_service.cli.tree import Commands


def add(commands: Commands) -> None:
    """Add the commands to the program's."""
    # Not above: a process that only reads games (reading.py) would load them, too.
    from worldledger_chess.cli import pgn, play, show  # noqa: PLC0415

    commands.add("import pgn", pgn.import_pgn, reads=(".pgn", ".PGN"))
    commands.add("export pgn", pgn.export_pgn)
    commands.group(
        "chess",
        "Play games of chess, and look at them.",
        "worldledger chess play --white stockfish --black random",
        "worldledger chess show GAME --at move:10 --svg board.svg",
    )
    commands.add("chess play", play.play)
    commands.add("chess show", show.show)
