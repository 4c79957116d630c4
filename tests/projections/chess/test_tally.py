"""Statistics of real games, compared with a tally that is made from the PGN files alone.

The tally reads tags and moves with python-chess, and knows nothing of this project.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import pytest
from worldledger_chess.projections.agent_stats import AgentStats
from worldledger_chess.projections.agents import Agents
from worldledger_chess.projections.games import Games
from worldledger_chess.projections.moves import Moves
from worldledger_chess.rules import RULESET
from worldledger_chess.rules.pgn import RecordedGame, read_games

from tests.projections.chess.logs import effects_of
from tests.projections.playing import Cuts, dicts, play

REAL = Path(__file__).parents[4] / "shared" / "data" / "pgn"
FILES = sorted(REAL.glob("*/*.pgn"))
GAMES = 60

pytestmark = pytest.mark.skipif(not FILES, reason="the real games are not at hand")

#: Some batches, after some of which the runner forgets all but the rows.
CUTS: Cuts = [(5, True), (30, False), (11, True)]
STATS, MOVES, AGENTS = AgentStats(), Moves(), Agents()


def recorded(path: Path) -> list[chess.pgn.Game]:
    """Read a file with python-chess alone."""
    with path.open(encoding="utf-8") as stream:
        return list(iter(lambda: chess.pgn.read_game(stream), None))


def outcome(headers: chess.pgn.Headers) -> tuple[str, str | None]:
    """Return the result of a game's tags in the words of a Game, and who lost by an illegal move, if anybody did."""
    result = headers["Result"]
    if result.startswith("Illegal move"):
        (loser,) = [color for color in ("White", "Black") if result.endswith(f"by {headers[color]}")]
        return {"White": "black_wins", "Black": "white_wins"}[loser], loser
    return {"1-0": "white_wins", "0-1": "black_wins", "1/2-1/2": "draw"}[result], None


def tally() -> dict[str, Counter[str]]:
    """Count what each player did in all the files."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for game in (game for path in FILES for game in recorded(path)):
        result, offender = outcome(game.headers)
        for color, won in (("White", "white_wins"), ("Black", "black_wins")):
            own = totals[game.headers[color]]
            own["games_played"] += 1
            own["games_drawn" if result == "draw" else "games_won" if result == won else "games_lost"] += 1
            own["illegal_moves_attempted"] += color == offender
        for node in game.mainline():
            totals[game.headers["Black" if node.turn() == chess.WHITE else "White"]]["total_moves"] += 1
    return totals


@cache
def imported() -> list[tuple[Path, RecordedGame]]:
    """Read the files as an import does."""
    found = []
    for path in FILES:
        with path.open("rb") as stream:
            found += [(path, game) for game in read_games(stream, name=path.name) if isinstance(game, RecordedGame)]
    return found


def test_the_statistics_of_real_games_are_those_of_a_tally() -> None:
    """Every count of every player, over all games, is the one that the files give."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    times: Counter[str] = Counter()
    games = imported()
    for number, (_, game) in enumerate(games):
        log = effects_of(game.drafts, world_id=f"game-{number}")
        for row in dicts(STATS, play(STATS, log, RULESET, CUTS)):
            assert row["games_won"] + row["games_lost"] + row["games_drawn"] == row["games_played"] == 1
            counted = {name: value for name, value in row.items() if name.startswith(("games_", "total_m", "illegal_"))}
            totals[row["agent_id"]].update(counted)
            times.update({name: row[name] for name in ("timed_moves", "average_thinking_time", "timeouts")})
    assert len(games) == GAMES
    assert {name: +own for name, own in totals.items()} == {name: +own for name, own in tally().items()}
    # These files tell no times.
    assert not +times


def test_each_real_game_is_the_one_in_its_file() -> None:
    """Names, result, moves and last position are those that python-chess reads; so are the moves, one by one."""
    illegal = 0
    for number, (path, game) in enumerate(imported()):
        log = effects_of(game.drafts, world_id=f"game-{number}")
        (row,) = dicts(games := Games(), play(games, log, RULESET, CUTS))
        (known,) = recorded(path)
        result, offender = outcome(known.headers)
        assert (row["white"], row["black"]) == (known.headers["White"], known.headers["Black"])
        assert (row["result"], row["raw_result"]) == (result, known.headers["Result"])
        assert row["initial_fen"] == known.board().fen()
        moves = [*seen(known)]
        last = moves[-1][7] if moves else known.board().fen()
        assert (row["plies"], row["fen"]) == (len(moves), last)
        assert row["illegal_moves_attempted"] == (offender is not None)
        assert (row["reason"] == "illegal_move") == (offender is not None)
        assert row["status"] == status_of(known)
        illegal += offender is not None
        rows = dicts(MOVES, play(MOVES, log, RULESET, CUTS))
        assert [told(row) for row in rows] == moves
        agents = dicts(AGENTS, play(AGENTS, log, cuts=CUTS))
        assert {row["agent_id"]: row["role"] for row in agents} == {row["white"]: "white", row["black"]: "black"}
    assert illegal == 4


def status_of(game: chess.pgn.Game) -> str:
    """Return how a finished game ended, in the words of a Game: by the board, by agreement, or by resignation."""
    board = game.end().board()
    result, offender = outcome(game.headers)
    if offender is None and board.is_checkmate():
        return "checkmate"
    if offender is None and board.is_stalemate():
        return "stalemate"
    return "draw" if result == "draw" else "resigned"


def told(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a row says of a move."""
    names = ("player", "uci_notation", "san_notation", "piece", "from_square", "to_square", "is_capture", "fen")
    return tuple(row[name] for name in (*names, "is_castling", "promotion_piece"))


def seen(game: chess.pgn.Game) -> Iterator[tuple[Any, ...]]:
    """Return what python-chess says of each move."""
    board = game.board()
    for move in game.mainline_moves():
        before = board.copy(stack=False)
        board.push(move)
        piece = before.piece_type_at(move.from_square)
        assert piece is not None
        yield (
            "white" if before.turn else "black",
            move.uci(),
            before.san(move),
            chess.piece_name(piece),
            chess.square_name(move.from_square),
            chess.square_name(move.to_square),
            before.is_capture(move),
            board.fen(),
            before.is_castling(move),
            chess.piece_name(move.promotion) if move.promotion else None,
        )
