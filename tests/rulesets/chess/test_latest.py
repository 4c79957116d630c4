"""Boards that are kept between two moves: what the rules find there is what they would read from the FEN."""

from __future__ import annotations

import chess
from hypothesis import given
from hypothesis import strategies as st
from worldledger_chess.rules import claims
from worldledger_chess.rules.claims import play, position_of, remember
from worldledger_chess.rules.positions import position

picks = st.lists(st.integers(0, 10_000), min_size=1, max_size=120)


def _facts(board: chess.Board) -> tuple[object, ...]:
    return (
        [board.fen(en_passant=flavour) for flavour in ("fen", "legal", "xfen")],
        board.ep_square,
        board.castling_rights,
        board.chess960,
        board.move_stack,
        sorted(map(str, board.legal_moves)),
        sorted(map(str, board.pseudo_legal_moves)),
    )


@given(picks, st.one_of(st.none(), st.integers(0, 959)))
def test_it_is_the_board_of_the_fen(picked: list[int], number: int | None) -> None:
    """Move after move, in standard chess and in Chess960."""
    variant = "standard" if number is None else "chess960"
    fen = chess.STARTING_FEN if number is None else chess.Board.from_chess960_pos(number).fen()
    for ply, pick in enumerate(picked, 1):
        entity = {"variant": variant, "fen": fen}
        board = position_of(entity)
        assert _facts(board) == _facts(position(variant, fen))
        moves = sorted(map(str, board.legal_moves))
        if not moves:
            break
        played = play(board, {"uci_notation": moves[pick % len(moves)]}, ply=ply, null_moves=False)
        remember(board, played)
        fen = played.facts["fen"]
        assert (variant, fen) in claims._LATEST


def test_who_takes_it_has_it_alone() -> None:
    """A board is given to one caller; the next one reads the FEN."""
    entity = {"variant": "standard", "fen": chess.STARTING_FEN}
    board = position_of(entity)
    played = play(board, {"uci_notation": "e2e4"}, ply=1, null_moves=False)
    remember(board, played)
    after = {"variant": "standard", "fen": played.facts["fen"]}
    first, second = position_of(after), position_of(after)
    assert first is board
    assert second is not board
    assert _facts(first) == _facts(second)


def test_few_are_kept() -> None:
    """The oldest go."""
    for number in range(claims._MOST_LATEST + 5):
        entity = {"variant": "standard", "fen": f"4k3/8/8/8/8/8/4P3/4K3 w - - 0 {number + 1}"}
        board = position_of(entity)
        remember(board, play(board, {"uci_notation": "e2e3"}, ply=1, null_moves=False))
    assert len(claims._LATEST) == claims._MOST_LATEST
    assert ("standard", "4k3/8/8/8/8/4P3/8/4K3 b - - 0 1") not in claims._LATEST


def test_variants_are_read_anew() -> None:
    """What is in the hand, and who was promoted, may not be in a FEN."""
    entity = {"variant": "crazyhouse", "fen": position("crazyhouse").fen()}
    board = position_of(entity)
    played = play(board, {"uci_notation": "e2e4"}, ply=1, null_moves=False)
    remember(board, played)
    assert ("crazyhouse", played.facts["fen"]) not in claims._LATEST
