"""The coding of moves is PettingZoo's, and the tensor is a part of what PettingZoo's chess shows."""

from __future__ import annotations

from collections.abc import Iterator

import chess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo.classic.chess import chess_utils
from worldledger_chess.rules.actions import ACTIONS, action_mask, action_of, legal_actions, move_of
from worldledger_chess.rules.board import tensor_of

#: Public positions for perft, rich in castling, promotions and pawns that pass each other; both sides to move.
_STARTS = (
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
)
walks = given(st.sampled_from(_STARTS), st.booleans(), st.lists(st.integers(0, 2**16), max_size=30))


def _walk(start: str, mirrored: bool, choices: list[int]) -> Iterator[chess.Board]:
    """Go through the positions of a game of chance."""
    board = chess.Board(start)
    if mirrored:
        board = board.mirror()
    yield board
    for choice in choices:
        moves = list(board.legal_moves)
        if not moves:
            return
        board.push(moves[choice % len(moves)])
        yield board


def _check_coding(board: chess.Board) -> None:
    ours = legal_actions(board)
    assert sorted(ours) == sorted(chess_utils.legal_moves(board))
    for action, move in ours.items():
        assert move_of(action, board) == move
        assert chess_utils.action_to_move(board, action, int(not board.turn)) == move


@walks
@settings(max_examples=40, deadline=None)
def test_legal_actions_are_pettingzoo_s(start: str, mirrored: bool, choices: list[int]) -> None:
    """In any game, for both sides, the legal actions and the moves that they are agree with PettingZoo's."""
    for board in _walk(start, mirrored, choices):
        _check_coding(board)


def test_every_kind_of_move_has_pettingzoo_s_action() -> None:
    """Castling both ways, en passant, and all promotions of both sides are among those that agree."""
    for fen in (
        "r3k2r/8/8/8/8/8/8/R3K2R {} KQkq - 0 1",
        "4k3/8/8/3pP3/3Pp3/8/8/4K3 {} - {} 0 1",
        "1n2k1n1/P6P/8/8/8/8/p6p/1N2K1N1 {} - - 0 1",
    ):
        for turn, passed in (("w", "d6"), ("b", "d3")):
            board = chess.Board(fen.format(turn, passed))
            _check_coding(board)
            kinds = {(board.is_castling(move), board.is_en_passant(move), move.promotion) for move in board.legal_moves}
            assert len(kinds) > 1


@pytest.mark.parametrize("number", [0, 518, 959])
def test_castling_in_chess960_has_an_action_of_its_own(number: int) -> None:
    """Castling goes to the rook's square; no two legal moves share an action, and PettingZoo's coding says the same."""
    board = chess.Board.from_chess960_pos(number)
    for square in chess.SQUARES:
        if board.piece_type_at(square) not in {chess.PAWN, chess.KING, chess.ROOK}:
            board.remove_piece_at(square)
    for turn in chess.COLORS:
        board.turn = turn
        assert any(map(board.is_castling, board.legal_moves))
        assert len(legal_actions(board)) == board.legal_moves.count()
        _check_coding(board)


@pytest.mark.parametrize("turn", chess.COLORS)
def test_every_action_is_one_move_or_leads_off_the_board(turn: chess.Color) -> None:
    """The coding of what an action is gives that action."""
    board = chess.Board(None)
    board.turn = turn
    moves = [move_of(action, board) for action in range(ACTIONS)]
    assert [action for action, move in enumerate(moves) if move and action_of(move, turn) != action] == []
    assert 0 < sum(move is None for move in moves) < ACTIONS
    for action in (-1, ACTIONS):
        with pytest.raises(ValueError, match="0 to 4671"):
            move_of(action, board)
    for move in (chess.Move.null(), chess.Move.from_uci("a1b4"), chess.Move.from_uci("a2a4n")):
        with pytest.raises(ValueError, match="no action"):
            action_of(move, turn)


def test_the_mask_has_ones_where_actions_are() -> None:
    """It is int8 of the shape (4672,)."""
    mask = action_mask(legal_actions(chess.Board()))
    assert (mask.shape, mask.dtype.name, mask.sum()) == ((4672,), "int8", 20)
    assert mask[4 * 584 + 1 * 73 + 8 * 1 + 4] == 1  # e2e4: a distance of 2 in the direction (0, 1)


@walks
@settings(max_examples=20, deadline=None)
def test_the_tensor_is_a_part_of_pettingzoo_s(start: str, mirrored: bool, choices: list[int]) -> None:
    """It is what `chess_v6` shows of the pieces to player_0, but that there a pawn that may be passed is drawn away."""
    for board in _walk(start, mirrored, choices):
        shown = chess_utils.get_observation(board, player=0)[:, :, 7:19]
        assert (shown != tensor_of(board)).sum() == (0 if board.ep_square is None else 2)
        plain = board.copy(stack=False)
        plain.ep_square = None
        assert (chess_utils.get_observation(plain, player=0)[:, :, 7:19] == tensor_of(board)).all()
        other = chess_utils.get_observation(plain, player=1)[:, :, 7:19]
        assert (other == np.roll(tensor_of(board)[::-1], 6, axis=2)).all()
