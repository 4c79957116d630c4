"""The commands of chess."""

from worldledger_service.cli.options import examples
from worldledger_service.cli.tree import Commands

from worldledger_chess.cli import export_pgn, import_pgn
from worldledger_chess.cli import play as chess_play
from worldledger_chess.cli import show as chess_show

_EXAMPLES = examples(
    "worldledger chess play --white stockfish --black random",
    "worldledger chess show GAME --at move:10 --svg board.svg",
)


def add(commands: Commands) -> None:
    """Add them to the program's."""
    commands.add("import pgn", import_pgn)
    commands.add("export pgn", export_pgn)
    commands.group("chess", "Play games of chess, and look at them.", _EXAMPLES)
    commands.add("chess play", chess_play)
    commands.add("chess show", chess_show)
