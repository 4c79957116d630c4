"""A real engine, where the Debian package stockfish is installed."""

from __future__ import annotations

import asyncio

import chess
import psutil
import pytest
from worldledger_chess.arena.players import InvalidPlayerError, Player, PlayerError, Position, make_player


def stockfish(**settings: object) -> Player:
    """Make a player of Stockfish, or skip the test."""
    try:
        return make_player({"name": "stockfish", **settings}, seed=1)
    except InvalidPlayerError as error:
        pytest.skip(f"{error}")


async def play(white: Player, black: Player, board: chess.Board, plies: int = 300) -> chess.Board:
    """Play until the game is over, or for some plies; every move must be legal."""
    while not board.is_game_over(claim_draw=True) and len(board.move_stack) < plies:
        player = white if board.turn else black
        board.push_uci(await player.move(Position.of(board)))
    return board


async def test_it_beats_the_random_player() -> None:
    """A whole game against random moves ends with mate, and leaves no process."""
    before = set(psutil.Process().children(recursive=True))
    engine, other = stockfish(nodes=500), make_player("random", seed=3)
    board = await play(engine, other, chess.Board())
    assert board.outcome() is not None
    assert board.result() == "1-0"
    await engine.close()
    assert set(psutil.Process().children(recursive=True)) <= before


async def test_the_same_position_gives_the_same_move() -> None:
    """By nodes a game is reproducible, and it goes on the same way with another process in its middle."""
    whole = stockfish(nodes=300)
    expected = (await play(whole, whole, chess.Board(), 20)).move_stack
    await whole.close()
    first, second = stockfish(nodes=300), stockfish(nodes=300)
    board = await play(first, first, chess.Board(), 9)
    await first.close()
    assert (await play(second, second, board, 20)).move_stack == expected
    await second.close()


async def test_chess960() -> None:
    """It plays Chess960, castling included."""
    engine = stockfish(nodes=100)
    fen = "1k2r2r/8/8/8/8/8/8/1K2R2R w Ee - 0 1"
    board = await play(engine, engine, chess.Board(fen, chess960=True), 10)
    assert len(board.move_stack) == 10
    await engine.close()


async def test_many_at_once() -> None:
    """Several engines think at the same time; a search without end is cut off."""
    engines = [stockfish(depth=1) for _ in range(4)]
    endless = stockfish(nodes=10**12, timeout=0.3)
    moves = asyncio.gather(*(engine.move(Position.of(chess.Board())) for engine in engines))
    with pytest.raises(PlayerError, match=r"gave no move within 0\.3 s|was not ready within 0\.3 s"):
        await endless.move(Position.of(chess.Board()))
    assert len(await moves) == 4
    await asyncio.gather(*(engine.close() for engine in [*engines, endless]))
