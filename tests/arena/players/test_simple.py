"""The players that need no program, and the positions that they are asked in."""

from __future__ import annotations

import inspect
import random
import subprocess
import sys
from dataclasses import replace

import chess
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_chess.arena.players import ExternalPlayer, Player, PlayerError, Position, RandomPlayer

from .conftest import ROOT

seeds = st.integers() | st.text()
#: How the game of seed 1 begins.
EXPECTED = ["h2h3", "h7h5", "e2e3", "h8h6", "a2a3", "g7g5", "a1a2", "a7a5"]


@st.composite
def boards(draw: st.DrawFn) -> chess.Board:
    """Draw a game of some legal moves, in Chess960 too, that is not over."""
    number = draw(st.none() | st.integers(0, 959))
    board = chess.Board() if number is None else chess.Board.from_chess960_pos(number)
    if number is not None:
        board = chess.Board(board.fen(), chess960=True)
    for _ in range(draw(st.integers(0, 30))):
        legal = sorted(move.uci() for move in board.legal_moves)
        board.push_uci(draw(st.sampled_from(legal)))
        if not any(board.legal_moves):
            board.pop()
            break
    return board


async def play(seed: int | str, plies: int = 40) -> list[str]:
    """Let one random player play both sides."""
    board, player = chess.Board(), RandomPlayer(seed)
    while len(board.move_stack) < plies and any(board.legal_moves):
        board.push_uci(await player.move(Position.of(board)))
    return [move.uci() for move in board.move_stack]


@given(boards(), st.none() | st.floats(0, 100))
@settings(deadline=None)
def test_a_position_is_the_board(board: chess.Board, remaining: float | None) -> None:
    """A position keeps the game: its board is the one it was made of, move by move."""
    position = Position.of(board, remaining_s=remaining)
    again = position.board()
    assert (again.fen(), again.move_stack, again.chess960) == (board.fen(), board.move_stack, board.chess960)
    assert position.legal_moves == tuple(sorted(move.uci() for move in board.legal_moves))
    assert (position.fen, position.remaining_s) == (board.fen(), remaining)
    assert position.player == ("white" if board.turn == chess.WHITE else "black")


def test_a_position_that_cannot_be_read() -> None:
    """A FEN or move that is none is a ValueError."""
    position = Position.of(chess.Board())
    for wrong in (replace(position, initial_fen="nowhere"), replace(position, moves=("e2",))):
        with pytest.raises(ValueError):
            wrong.board()


@given(seeds, boards())
@settings(deadline=None)
async def test_random_moves_are_legal_and_depend_on_seed_and_history_alone(seed: int | str, board: chess.Board) -> None:
    """The move is legal, and the same for another player, at another time, in another mood of global randomness."""
    position = Position.of(board)
    player = RandomPlayer(seed)
    move = await player.move(position)
    assert move in position.legal_moves
    state = random.getstate()
    random.seed(0)
    await player.move(Position.of(chess.Board()))
    other = replace(position, remaining_s=1.0, legal_moves=position.legal_moves[::-1])
    assert await player.move(other) == await RandomPlayer(str(seed)).move(position) == move
    random.setstate(state)


async def test_random_games_differ_by_seed_and_by_history() -> None:
    """Other seeds play other games; all moves of the first position come up, about as often as each other."""
    games = [await play(seed, 8) for seed in range(20)]
    assert len({tuple(game) for game in games}) == 20
    counts: dict[str, int] = {}
    for seed in range(600):
        move = await RandomPlayer(seed).move(Position.of(chess.Board()))
        counts[move] = counts.get(move, 0) + 1
    assert len(counts) == 20
    assert 12 < min(counts.values()) < max(counts.values()) < 60


async def test_random_games_are_the_same_in_any_process() -> None:
    """A game of a seed is fixed for ever: recorded games can be played again."""
    assert await play(1, 8) == EXPECTED
    code = "import asyncio, chess; from worldledger_chess.arena.players import Position, RandomPlayer\n"
    code += f"{inspect.getsource(play)}\nprint(asyncio.run(play('1', 8)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == str(EXPECTED)


async def test_no_legal_move() -> None:
    """Where the game is over a random player has no move; an external player never has one here."""
    mate = chess.Board("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3")
    for player in (RandomPlayer(1), ExternalPlayer()):
        assert isinstance(player, Player)
        with pytest.raises(PlayerError) as caught:
            await player.move(Position.of(mate))
        assert caught.value.reason == "no_move"
        await player.close()
