"""Ends: by the board, claimed at once; after too many illegal attempts; and made good where a crash came between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import pytest
from worldledger_chess.arena import Arena
from worldledger_chess.rules import validate_game_state

from tests.waiting import wait_for
from worldledger.errors import InvalidConfigError

from .helpers import FOOLS_MATE, REPETITION, Clock, Opening, attempt, effects, kinds, legal, new_game, played, posted

#: A position, moves, and the status, result and reason to which they lead.
_ENDS: Final[tuple[tuple[str | None, Sequence[str], str, str, str], ...]] = (
    (None, FOOLS_MATE, "checkmate", "black_wins", "checkmate"),
    ("7k/8/5KQ1/8/8/8/8/8 w - - 0 1", ["g6f7"], "stalemate", "draw", "stalemate"),
    ("7k/8/8/8/8/8/6p1/6K1 w - - 0 1", ["g1g2"], "draw", "draw", "insufficient_material"),
    (None, REPETITION, "draw", "draw", "threefold_repetition"),
    ("7k/8/8/8/8/8/8/RK6 w - - 99 80", ["a1a2"], "draw", "draw", "fifty_moves"),
)


async def test_the_board_ends_the_game(arena: Arena, subtests: pytest.Subtests) -> None:
    """Checkmate, stalemate, bare kings, repetition and fifty moves end the game with the move that makes them."""
    for fen, moves, *told in _ENDS:
        with subtests.test(reason=told[-1]):
            game = await arena.create(new_game(fen=fen))
            outcomes = await played(game, moves)
            assert [outcome.ended for outcome in outcomes[:-1]] == [None] * (len(moves) - 1)
            end = outcomes[-1].ended
            assert end is not None
            assert [end.status, end.result, end.reason] == told
            assert end == game.ended
            (effect,) = await effects(arena, game, "GameEnded")
            assert (effect["global_seq"], effect["payload"]["plies"]) == (end.global_seq, len(moves))
            assert effect["payload"]["final_fen"] == game.board.fen()
            assert validate_game_state(await effects(arena, game), game.state) == []


async def test_a_game_that_would_begin_at_its_end_is_refused(arena: Arena, game_id: str) -> None:
    """No game is made from a position in which it is over, by the board or by a draw that is claimed at once."""
    for fen, reason in (
        ("7k/5KQ1/8/8/8/8/8/8 b - - 0 1", "checkmate"),
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "stalemate"),
        ("7k/8/6K1/8/8/8/8/8 b - - 0 1", "insufficient_material"),
        ("7k/8/6K1/8/8/8/8/R7 w - - 100 80", "fifty_moves"),
    ):
        with pytest.raises(InvalidConfigError, match=rf"the game is over in this position \({reason}\)"):
            await arena.create(new_game(game_id=game_id, fen=fen))
    assert (await arena.create(new_game(game_id=game_id))).state.status == "in_progress"


async def test_resigning_after_too_many_illegal_attempts(arena: Arena) -> None:
    """By default the third illegal attempt in a row is the last: the player has resigned."""
    game = await arena.create(new_game())
    outcomes = [await attempt(game, "w", "e2e5") for _ in range(3)]
    assert [outcome.attempts_left for outcome in outcomes] == [2, 1, 0]
    assert [outcome.ended is None for outcome in outcomes] == [True, True, False]
    end = outcomes[-1].ended
    assert end is not None
    assert (end.status, end.result, end.reason) == ("resigned", "black_wins", "illegal_move")
    assert await kinds(arena, game) == ["MoveRejected"] * 3 + ["GameEnded"]


async def test_a_random_move_after_too_many_illegal_attempts(arena: Arena) -> None:
    """With the fallback random a legal move is made instead, the same wherever the game is played, and it goes on."""
    made = []
    for _ in range(2):
        game = await arena.create(new_game(fallback="random", max_illegal=2, seed=5))
        first, second = await attempt(game, "w", "e2e5"), await game.move("w", "e2e5", req_id="2")
        assert (first.fallback, first.attempts_left, second.attempts_left) == (None, 1, 0)
        assert second.fallback is not None
        assert second.ended is None
        assert second.model_copy(update={"replayed": True}) == await game.move("w", "e2e5", req_id="2")
        made.append(second.fallback.uci_notation)
        assert game.state.current_turn == "black"
        (move,) = await effects(arena, game, "MoveMade")
        assert (move["source_id"], move["payload"]["agent_id"]) == ("arena", "w")
    assert made[0] == made[1]


async def test_the_random_move_may_end_the_game(arena: Arena) -> None:
    """Where the only legal move ends the game, the attempt that brought it about has ended the game."""
    game = await arena.create(new_game(fen="7k/8/8/8/8/8/6p1/6K1 w - - 0 1", fallback="random", seed=0, max_illegal=1))
    only = [move for move in legal(game) if move == "g1g2"]
    while game.ended is None:
        outcome = await attempt(game, "w" if game.board.turn else "b", "a1a1")
        assert outcome.fallback is not None
        assert (outcome.ended is None) == (game.ended is None)
    assert only


async def test_only_attempts_in_a_row_count(arena: Arena) -> None:
    """A legal move begins the count anew, and each side has its own."""
    game = await arena.create(new_game(max_illegal=2))
    for agent, move in (("w", "e2e4"), ("b", "e7e5"), ("w", "d2d4"), ("b", "d7d5")):
        assert (await attempt(game, agent, "a1a8")).attempts_left == 1
        assert (await attempt(game, agent, move)).accepted
    assert game.state.status == "in_progress"


@pytest.mark.parametrize("fallback", ["resign", "random"])
async def test_illegal_attempts_all_at_once(arena: Arena, fallback: Any) -> None:
    """Of many illegal attempts at the same time no more are taken than are allowed."""
    game = await arena.create(new_game(fallback=fallback, max_illegal=3))
    many = [game.move("w", "e2e5", req_id=f"r{number}") for number in range(12)]
    outcomes = await asyncio.gather(*many, return_exceptions=True)
    taken = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert sorted(outcome.attempts_left or 0 for outcome in taken) == [0, 1, 2]
    told = [kind for kind in await kinds(arena, game) if kind != "IntentRejected"]
    assert told == ["MoveRejected"] * 3 + ["GameEnded" if fallback == "resign" else "MoveMade"]


async def test_a_game_whose_end_was_cut_off_is_ended(opening: Opening, subtests: pytest.Subtests) -> None:
    """Where the process was gone between the last move and the end, whoever finds the game ends it."""
    async with opening.until() as arena:
        games = []
        for moves in (FOOLS_MATE, REPETITION):
            game = await arena.create(new_game())
            await played(game, moves[:-1])
            games.append((game, moves))
    async with opening.until(scan_every=1e9) as other:
        await wait_for(lambda: other._scanner.rounds, "the arena has looked around")
        for game, moves in games:
            with subtests.test(moves=moves):
                await (await other._store.log(game.game_id)).append(posted(moves[-1]))
                again = await other.game(game.game_id)
                assert again.ended is not None
                assert await kinds(other, again) == ["MoveMade"] * len(moves) + ["GameEnded"]


async def test_a_game_whose_end_was_cut_off_is_found(opening: Opening) -> None:
    """Nobody need ask for it: an arena looks for such games."""
    async with opening.until() as arena:
        game = await arena.create(new_game())
        await played(game, FOOLS_MATE[:-1])
    async with opening.until(adopt_after=1e9) as arena:
        await (await arena._store.log(game.game_id)).append(posted("d8h4"))
    opening.clock.go(60)
    async with opening.until() as arena:
        await wait_for(arena.games, "the game is found")
        (found,) = arena.games()
        assert found.state.status == "checkmate"


async def test_somebody_elses_move_is_followed(arena: Arena, clock: Clock) -> None:
    """A move that an operator posts to the world's log is part of the game like any other, its end included."""
    game = await arena.create(new_game())
    await played(game, FOOLS_MATE[:-1])
    log = await arena._store.log(game.game_id)
    seq = await log.append(posted("d8h4"))
    await game.reached(seq)
    clock.go(2)
    await wait_for(lambda: game.ended, "the game is ended")
    assert game.state.move_history[-1].uci_notation == "d8h4"
