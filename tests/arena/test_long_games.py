"""Long games, and many at once: nothing that was acknowledged is lost, and nothing grows too slow."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import chess
import pytest
from worldledger_chess.arena.players import Position, RandomPlayer
from worldledger_chess.rules import validate_game_state

from .helpers import FEW, Opening, attempt, effects, new_game, of_players, played, watched

#: Each side has its king, a knight and all its pawns: room for many quiet moves.
_FEN = "1n2k3/pppppppp/8/8/8/8/PPPPPPPP/1N2K3 w - - 0 1"


def _long_game(plies: int) -> list[str]:
    """Return a game that no rule ends: pieces walk, each position comes twice at most, and pawns seldom step."""
    board = chess.Board(_FEN)
    seen: Counter[str] = Counter()
    moves: list[str] = []
    while len(moves) < plies:
        choices = [choice for move in board.legal_moves if (choice := _rated(board, move, seen)) is not None]
        _, _, uci = min(choices)
        board.push_uci(uci)
        seen[board.epd()] += 1
        moves.append(uci)
        assert board.halfmove_clock < 100
    return moves


def _rated(board: chess.Board, move: chess.Move, seen: Counter[str]) -> tuple[bool, int, str] | None:
    """Rate a move that keeps the game quiet; None for one that does not."""
    steps = board.piece_type_at(move.from_square) == chess.PAWN
    if board.is_capture(move) or move.promotion or (steps and board.halfmove_clock < 80):
        return None
    if steps and abs(move.from_square - move.to_square) == 16:
        return None
    board.push(move)
    count = seen[board.epd()]
    quiet = count < 2 and not board.is_check() and any(board.legal_moves)
    quiet = quiet and not (steps and board.is_attacked_by(board.turn, move.to_square))
    board.pop()
    return (not steps, count, move.uci()) if quiet else None


async def test_a_long_game(opening: Opening, thorough: bool) -> None:
    """A game of very many moves is read, played on, left and read again like any other."""
    plies = 2000 if thorough else 160
    moves = _long_game(plies)
    drafts: list[Any] = [
        {"kind": "MoveMade", "payload": {"uci_notation": move}, "source_id": "op", "schema_version": "1.0.0"}
        for move in moves
    ]
    async with opening.until() as arena:
        game = await arena.create(new_game(fen=_FEN))
        await arena._store.bulk_append(game.game_id, drafts[:-10])
        await game.catch_up()
        assert all(outcome.accepted for outcome in await played(game, moves[-10:]))
        assert len(game.state.move_history) == plies
    async with opening.until() as arena:
        again = await arena.game(game.game_id)
        assert again.state == game.state
        assert again.state.status == "in_progress"
        events = await watched(again, most=plies + 1)
        assert [event.data["move"]["uci_notation"] for event in events[1:]] == moves
        assert validate_game_state(await effects(arena, again), again.state) == []


@pytest.mark.thorough  # more of what test_kills and test_races play
@pytest.mark.slow
async def test_many_games_at_once(opening: Opening, thorough: bool) -> None:
    """Many games of outside players and of the service's own: every acknowledged move is in the log, once.

    Those of the service's players come to their ends by the rules.
    """
    arena = await opening()
    count, moves = (50, 60) if thorough else (3, 30)
    acknowledged: dict[str, list[int]] = {}

    async def outside(number: int) -> None:
        game = await arena.create(new_game(game_id=f"outside-{number}", seed=number))
        seqs = acknowledged[game.game_id] = []
        player = RandomPlayer(number)
        while game.ended is None and len(seqs) < moves:
            text = await player.move(Position.of(game.board))
            outcome = await attempt(game, "w" if game.board.turn else "b", text)
            assert outcome.accepted
            seqs.append(outcome.global_seq)

    async def inside(number: int) -> None:
        new = of_players("random", "random", game_id=f"inside-{number}", seed=number, fen=FEW)
        game = await arena.create(new)
        seen = [event async for event in game.watch()]
        acknowledged[game.game_id] = [event.global_seq for event in seen if event.type == "move_made"]

    await asyncio.gather(*map(outside, range(count)), *map(inside, range(count)))
    for game_id, seqs in acknowledged.items():
        log = await effects(arena, game_id)
        assert [effect["global_seq"] for effect in log if effect["kind"] == "MoveMade"] == seqs
        assert validate_game_state(log, (await arena.game(game_id)).state) == []
        assert game_id.startswith("outside") or log[-1]["kind"] == "GameEnded"
    assert len(acknowledged) == 2 * count
