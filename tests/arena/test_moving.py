"""Moves: who may make them, what becomes of those that are not legal, and that the same request is one attempt."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from worldledger_chess.arena import Arena, InvalidMoveRequestError
from worldledger_chess.rules import Game, validate_game_state

from worldledger.errors import IllegalEffectError, RequestConflictError, UnknownAgentError

from .helpers import FOOLS_MATE, attempt, effects, kinds, new_game, played, refused, rule_of


async def test_a_game_is_a_world_that_has_begun(arena: Arena) -> None:
    """A new game is a world with GameStarted and both agents' registrations in it, named by a UUID4."""
    game = await arena.create(new_game())
    assert [effect["kind"] for effect in await effects(arena, game)] == [
        "WorldCreated",
        "GameStarted",
        "AgentRegistered",
        "AgentRegistered",
    ]
    assert game.game_id[14] == "4"
    assert (game.state.status, game.state.current_turn, game.state.move_history) == ("in_progress", "white", [])


async def test_a_legal_move_is_made(arena: Arena) -> None:
    """A legal move is a MoveMade of its agent's, whole, and the outcome is the Move and its place in the log."""
    game = await arena.create(new_game())
    outcome = await game.move("w", "e2e4", thinking_time=2.5, req_id="first")
    assert (outcome.accepted, outcome.ply, outcome.player, outcome.replayed) == (True, 1, "white", False)
    assert outcome.move is not None
    assert (outcome.move.san_notation, outcome.move.thinking_time) == ("e4", 2.5)
    (made,) = await effects(arena, game, "MoveMade")
    assert (made["global_seq"], made["source_id"], made["req_id"]) == (outcome.global_seq, "w", "first")
    assert made["payload"]["fen"] == outcome.fen == game.board.fen()
    assert game.state.board_state.en_passant_square == "e3"


async def test_san_is_understood(arena: Arena) -> None:
    """A move may be written in SAN; the log has both notations."""
    game = await arena.create(new_game())
    assert (await attempt(game, "w", " Nf3 \n")).move is not None
    (made,) = await effects(arena, game, "MoveMade")
    assert (made["payload"]["uci_notation"], made["payload"]["san_notation"]) == ("g1f3", "Nf3")


_ILLEGAL: Final = (
    *("e2e5", "e7e5", "i9i8", "a0a1", "0000", "--", "Z0", "", "e2"),
    *("e2e4q", "e4e5", "Nd4", "O-O", "♞f6", "x" * 5000, "e2e4 e7e5"),
)


async def test_what_is_no_legal_move_is_recorded(arena: Arena, subtests: pytest.Subtests) -> None:
    """Squares that are none, null moves, superfluous promotions: each is a MoveRejected, and the game goes on."""
    for text in _ILLEGAL:
        with subtests.test(text=text[:20]):
            game = await arena.create(new_game())
            outcome = await game.move("w", text, req_id="wrong")
            assert (outcome.accepted, outcome.reason, outcome.attempts_left) == (False, "illegal_move", 2)
            assert outcome.detail
            (rejected,) = await effects(arena, game, "MoveRejected")
            assert (rejected["source_id"], rejected["req_id"]) == ("w", "wrong")
            assert rejected["payload"]["attempted"][:90] == text[:90]
            assert game.state.status == "in_progress"
            assert (await attempt(game, "w", "e2e4")).accepted


async def test_a_text_that_no_database_can_hold_is_recorded(arena: Arena) -> None:
    """A NUL or half a surrogate pair in an attempt is replaced, and does no harm."""
    game = await arena.create(new_game())
    outcome = await attempt(game, "w", "e2\x00e4\ud800")
    assert (outcome.accepted, outcome.attempted) == (False, "e2\ufffde4\ufffd")


async def test_a_promotion_names_its_piece(arena: Arena) -> None:
    """A pawn that reaches the last rank without a piece to become is rejected; with one it becomes it."""
    game = await arena.create(new_game(fen="8/P6k/8/8/8/8/8/K7 w - - 0 1"))
    outcome = await attempt(game, "w", "a7a8")
    assert not outcome.accepted
    assert "a7a8q" in (outcome.detail or "")
    outcome = await attempt(game, "w", "a7a8r")
    assert outcome.move is not None
    assert (outcome.move.is_promotion, outcome.move.promotion_piece) == (True, "rook")


async def test_castling_in_standard_chess(arena: Arena, subtests: pytest.Subtests) -> None:
    """Castling may be written by the king's squares, to the rook, or in SAN."""
    for text in ("e1g1", "e1h1", "O-O", "0-0"):
        with subtests.test(text=text):
            game = await arena.create(new_game(fen="4k3/8/8/8/8/8/8/4K2R w K - 0 1"))
            outcome = await attempt(game, "w", text)
            assert outcome.move is not None
            assert (outcome.move.is_castling, outcome.move.uci_notation) == (True, "e1g1")


async def test_castling_in_chess960(arena: Arena, subtests: pytest.Subtests) -> None:
    """In Chess960 the king castles to its rook's square, also where that is next to it."""
    for text in ("f1g1", "O-O"):
        with subtests.test(text=text):
            game = await arena.create(new_game(fen="4k3/8/8/8/8/8/8/5KR1 w G - 0 1", chess960=True))
            outcome = await attempt(game, "w", text)
            assert outcome.move is not None
            assert (outcome.move.is_castling, outcome.move.uci_notation) == (True, "f1g1")
            assert game.board.king(True) == 6
            assert validate_game_state(await effects(arena, game)) == []


async def test_the_wrong_colour_is_refused(arena: Arena) -> None:
    """An attempt out of turn is refused by its rule, is no illegal move, and the log tells of it."""
    game = await arena.create(new_game())
    assert await rule_of(attempt(game, "b", "e7e5")) == "not_your_turn"
    await attempt(game, "w", "e2e4")
    assert await rule_of(attempt(game, "w", "d2d4")) == "not_your_turn"
    assert await kinds(arena, game) == ["IntentRejected", "MoveMade", "IntentRejected"]


async def test_strangers_are_refused(arena: Arena) -> None:
    """Who is not registered is unknown."""
    game = await arena.create(new_game())
    assert isinstance(await refused(attempt(game, "x", "e2e4")), UnknownAgentError)
    assert await kinds(arena, game) == []


async def test_after_the_end_nothing_moves(arena: Arena) -> None:
    """After the end moves and resignations are refused, of both sides."""
    game = await arena.create(new_game())
    outcomes = await played(game, FOOLS_MATE)
    assert outcomes[-1].ended is not None
    for agent in ("w", "b"):
        assert await rule_of(attempt(game, agent, "a2a3")) == "game_over"
        assert await rule_of(game.resign(agent, req_id="r")) == "game_over"


_UNREADABLE: Final[tuple[dict[str, object], ...]] = (
    {"move_text": 7},
    {"move_text": "e" * 20_000},
    {"req_id": ""},
    {"req_id": "r" * 300},
    {"agent_id": ""},
    {"agent_id": "worldledger"},
    {"thinking_time": -1.0},
    {"thinking_time": float("nan")},
    {"thinking_time": "2"},
    {"thinking_time": True},
)


async def test_requests_that_cannot_be_read(arena: Arena, subtests: pytest.Subtests) -> None:
    """What is no request at all is refused with its place, and is no attempt."""
    game = await arena.create(new_game())
    for wrong in _UNREADABLE:
        with subtests.test(wrong=f"{wrong}"[:40]):
            given = {"agent_id": "w", "move_text": "e2e4", "req_id": "r", **wrong}
            error = await refused(game.move(**given))  # type: ignore[arg-type]
            assert isinstance(error, InvalidMoveRequestError)
            assert error.details["path"].startswith("$.")
            assert await kinds(arena, game) == []


# -- the same request --------------------------------------------------------------------------------------


async def test_the_same_request_again_is_answered_the_same(arena: Arena) -> None:
    """A move, a rejection and a resignation are each one effect, and answered the same however often they are sent."""
    game = await arena.create(new_game())
    made = await game.move("w", "e2e4", req_id="1")
    wrong = await game.move("b", "e2e4", req_id="1")
    await game.move("b", "e7e5", req_id="2")
    given_up = await game.resign("w", req_id="9")
    again = [
        await game.move("w", "e2e4", req_id="1"),
        await game.move("b", "e2e4", req_id="1"),
        await game.resign("w", req_id="9"),
    ]
    assert again == [each.model_copy(update={"replayed": True}) for each in (made, wrong, given_up)]
    assert await kinds(arena, game) == ["MoveMade", "MoveRejected", "MoveMade", "GameEnded"]


async def test_the_same_move_may_be_written_otherwise(arena: Arena) -> None:
    """A request that comes again in SAN, or with another time, is the same as long as it means the same move."""
    game = await arena.create(new_game())
    made = await game.move("w", "g1f3", req_id="1", thinking_time=1.0)
    await attempt(game, "b", "a7a6")
    assert (await game.move("w", "Nf3", req_id="1", thinking_time=9.0)).global_seq == made.global_seq


async def test_a_request_with_another_move_is_a_conflict(arena: Arena) -> None:
    """A req_id that was used for another move, or for another kind of request, is refused and changes nothing."""
    game = await arena.create(new_game())
    await game.move("w", "e2e4", req_id="1")
    await game.move("b", "e2e4", req_id="1")
    await game.move("b", "e7e5", req_id="2")
    for again in (
        game.move("w", "d2d4", req_id="1"),
        game.move("w", "rubbish", req_id="1"),
        game.move("b", "d7d5", req_id="1"),
        game.resign("w", req_id="1"),
    ):
        assert isinstance(await refused(again), RequestConflictError)
    assert await kinds(arena, game) == ["MoveMade", "MoveRejected", "MoveMade"]


async def test_both_at_once_with_one_request(arena: Arena) -> None:
    """Two calls of one request at the same time are one attempt, legal or not."""
    game = await arena.create(new_game())
    for text, kind in (("e2e5", "MoveRejected"), ("e2e4", "MoveMade")):
        one, two = await asyncio.gather(*(game.move("w", text, req_id=text) for _ in range(2)))
        assert one.global_seq == two.global_seq
        assert len(await effects(arena, game, kind)) == 1


async def test_a_move_for_another_number_is_refused(arena: Arena) -> None:
    """A move that says which number it is to have counts for no other."""
    game = await arena.create(new_game())
    assert await rule_of(attempt(game, "w", "e2e4", ply=3)) == "not_your_turn"
    assert (await attempt(game, "w", "e2e4", ply=1)).accepted


# -- resigning ---------------------------------------------------------------------------------------------


async def test_resigning(arena: Arena, subtests: pytest.Subtests) -> None:
    """Either player may resign, whoever is to move, and the other one wins."""
    for agent, result in (("w", "black_wins"), ("b", "white_wins")):
        with subtests.test(agent=agent):
            game = await arena.create(new_game())
            told = (await game.resign(agent, req_id="r")).ended
            assert (told.status, told.result, told.reason) == ("resigned", result, "resignation")
            assert game.state.result == result
            (end,) = await effects(arena, game, "GameEnded")
            assert (end["source_id"], end["payload"]["plies"]) == (agent, 0)


async def test_nobody_resigns_for_another(arena: Arena) -> None:
    """A stranger cannot resign."""
    game = await arena.create(new_game())
    assert isinstance(await refused(game.resign("x", req_id="r")), UnknownAgentError)
    assert game.state.status == "in_progress"


async def test_the_state_is_a_game(arena: Arena) -> None:
    """What a live game tells of itself is what the log makes of it, read anew."""
    game = await arena.create(new_game())
    await played(game, FOOLS_MATE)
    log = await effects(arena, game)
    assert validate_game_state(log, game.state) == []
    fold = await arena._store.states.fold_at(game.game_id, game.seq)
    assert game.state == Game.of(fold.state, log, game_id=game.game_id)


async def test_a_timestamp_that_is_none(arena: Arena) -> None:
    """An intent past the arena with something else for a timestamp is refused, and the game goes on."""
    game = await arena.create(new_game())
    world = await arena._moving._worlds.get(game.game_id)
    payload = {"kind": "MoveMade", "uci_notation": "e2e4", "timestamp": {"not": "a time"}}
    intent = {"kind": "Custom", "payload": payload, "agent_id": "w", "req_id": "r", "context_seq": game.seq}
    with pytest.raises(IllegalEffectError, match="timestamp"):
        await world.submit_intent(intent)
    assert (await game.move("w", "e2e4", req_id="r")).accepted
    (move,) = game.state.move_history
    assert move.timestamp >= game.state.started_at
