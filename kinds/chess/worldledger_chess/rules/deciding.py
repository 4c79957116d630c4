"""How a live game ends: by the board, by resignation, by the clock.

Source: docs/reference/contracts.md, "Chess". Recorded games end by `worldledger_chess.rules.endings`.
"""

from __future__ import annotations

from typing import Final

import chess

from worldledger_chess.rules.endings import OTHER, WINS, Ending, Player, Reason, end_by_the_board

#: Half-moves without a capture or a move of a pawn after which a draw is claimed.
_FIFTY_MOVES: Final = 100


def automatic_end(board: chess.Board) -> Ending | None:
    """Return how the rules end the game on this board; None while it goes on.

    The board must have its moves (`worldledger_chess.rules.board.replayed`): they decide about repetition. Checkmate,
    stalemate, insufficient material, seventy-five moves and fivefold repetition end a game by themselves; fifty moves
    and threefold repetition, which a player may claim, are claimed at once. A draw that needs the next move is not
    claimed.
    """
    outcome = board.outcome()
    ending = Ending()
    if outcome is not None:
        end_by_the_board(outcome, ending)
        return ending
    reason: Reason | None = None
    if board.halfmove_clock >= _FIFTY_MOVES:
        reason = "fifty_moves"
    elif board.is_repetition(3):
        reason = "threefold_repetition"
    return None if reason is None else Ending("draw", "draw", reason)


def resignation(loser: Player, reason: Reason = "resignation") -> Ending:
    """Return the end of a game that a player gives up.

    ``reason``: resignation, or what counts as one: illegal_move, abandoned, adjudication, rules_infraction, unknown.
    """
    return Ending("resigned", WINS[OTHER[loser]], reason)


def timed_out(board: chess.Board, loser: Player) -> Ending:
    """Return the end of a game in which a player's time has run out.

    The other side wins, unless it lacks the material to checkmate in any way: then it is a draw, with the status
    ``draw`` and the reason ``timeout``.
    """
    if board.has_insufficient_material(loser == "black"):
        return Ending("draw", "draw", "timeout")
    return Ending("timeout", WINS[OTHER[loser]], "timeout")
