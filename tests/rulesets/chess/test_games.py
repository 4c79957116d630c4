"""Game and GameSession: their rules, each with what holds and what does not."""

from __future__ import annotations

import json
from typing import Any

import chess
import pytest
from pydantic import ValidationError
from worldledger_chess.rules import Agent, AgentSpec, BoardState, Game, GameSession

from tests.cases import cases
from tests.rulesets.chess.recorded import one
from tests.rulesets.chess.worlds import EXAMPLES, draft, effects, folded, games_in, moved, started, table

NAME = "550e8400-e29b-41d4-a716-446655440000"
SESSION = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
FOOLS_MATE = ("f2f3", "e7e5", "g2g4", "d8h4")
MATE = {"status": "checkmate", "result": "black_wins", "reason": "checkmate"}
BLACK_FIRST = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 7"


def game_of(*drafts: Any) -> Game:
    """Return the Game of a world that has these effects alone."""
    return Game.of(folded(drafts), effects(drafts), game_id=NAME)


def values(*drafts: Any, **changes: Any) -> dict[str, Any]:
    """Return the fields of such a Game as JSON has them, some of them changed."""
    found: dict[str, Any] = json.loads(game_of(*drafts).model_dump_json())
    return {**found, **changes}


TWO_MOVES = (started(), moved("e2e4"), moved("e7e5"))
MATED = (started(), *map(moved, FOOLS_MATE), draft("GameEnded", MATE))


def test_a_game_in_progress() -> None:
    """A plain example: two moves, White's turn, and no end."""
    game = game_of(*TWO_MOVES)
    assert (game.game_id, game.current_turn, game.status) == (NAME, "white", "in_progress")
    assert (game.result, game.reason, game.ended_at) == (None, None, None)
    assert [(move.from_square, move.to_square, move.player) for move in game.move_history] == [
        ("e2", "e4", "white"),
        ("e7", "e5", "black"),
    ]
    assert game.board_state == BoardState.of(folded(TWO_MOVES).entities)
    moments = game.model_dump(mode="json")
    assert (moments["started_at"], moments["last_updated"]) == ("1970-01-01T00:16:41Z", "1970-01-01T00:16:43Z")
    assert Game.model_validate_json(game.model_dump_json()) == game
    assert Game.model_validate(values(*TWO_MOVES)) == game


def test_a_game_that_has_ended() -> None:
    """Status, result, reason and the moment are there."""
    game = game_of(*MATED)
    assert (game.status, game.result, game.reason) == ("checkmate", "black_wins", "checkmate")
    assert game.board_state.is_checkmate
    assert game.ended_at == game.last_updated > game.started_at
    assert Game.model_validate_json(game.model_dump_json()) == game


def test_a_game_begins_without_moves() -> None:
    """Its history is empty, and it is in progress."""
    game = game_of(started())
    assert (game.move_history, game.status, game.current_turn) == ([], "in_progress", "white")
    assert game.board_state.fen == chess.STARTING_FEN


def test_a_game_may_begin_anywhere() -> None:
    """With Black to move, late, or as Chess960."""
    game = game_of(started(initial_fen=BLACK_FIRST), moved("e7e5"), moved("g1f3"))
    assert (game.current_turn, [move.player for move in game.move_history]) == ("black", ["black", "white"])
    fen = "nqrkbbnr/pppppppp/8/8/8/8/PPPPPPPP/NQRKBBNR w KQkq - 0 1"
    game = game_of(started(initial_fen=fen, variant="chess960"), moved("d1c1"))
    assert (game.variant, game.move_history[0].san_notation) == ("chess960", "O-O-O")
    assert Game.model_validate_json(game.model_dump_json()) == game


def test_every_recorded_game_of_the_examples_is_one() -> None:
    """Each of them, and its moves."""
    for recorded in games_in(EXAMPLES):
        game = game_of(*recorded.drafts)
        assert len(game.move_history) == recorded.moves
        assert (game.status, game.result, game.reason) == (recorded.status, recorded.result, recorded.reason)


@cases(
    "changes, named",
    [
        ({"game_id": ""}, "game_id"),
        ({"game_id": "no such name"}, "game_id"),
        ({"game_id": 1}, "game_id"),
        ({"board_state": None}, "board_state"),
        ({"board_state": {}}, "board_state"),
        ({"move_history": []}, "move_history"),
        ({"move_history": None}, "move_history"),
        ({"current_turn": "black"}, "current_turn"),
        ({"current_turn": "w"}, "current_turn"),
        ({"status": "won"}, "status"),
        ({"result": "white_wins"}, "result"),
        ({"result": "1-0"}, "result"),
        ({"reason": "agreement"}, "reason"),
        ({"ended_at": "2025-10-25T10:00:00Z"}, "ended_at"),
        ({"started_at": "2025-10-25T10:00:00Z"}, "last_updated is before"),
        ({"started_at": "1970-01-01T00:16:41"}, "started_at"),
        ({"started_at": None}, "started_at"),
        ({"last_updated": "1970-01-01T00:00:00Z"}, "last_updated"),
        ({"initial_fen": BLACK_FIRST}, "move_history"),
        ({"initial_fen": "startpos"}, "initial_fen"),
        ({"variant": "atomic"}, "variant"),
        ({"winner": None}, "winner"),
    ],
)
def test_what_is_no_game_in_progress(changes: dict[str, Any], named: str) -> None:
    """Turns alternate and match the board; nothing of an end is there."""
    with pytest.raises(ValidationError, match=named):
        Game.model_validate(values(*TWO_MOVES, **changes))


@cases(
    "changes, named",
    [
        ({"result": None}, "result"),
        ({"result": "draw"}, "result"),
        ({"ended_at": None}, "ended_at"),
        ({"ended_at": "1970-01-01T00:00:00Z"}, "ended_at is before"),
        ({"status": "in_progress"}, "result"),
        ({"status": "in_progress", "result": None}, "ended_at"),
        ({"status": "stalemate", "result": "draw"}, "stalemate"),
        ({"status": "draw"}, "result"),
        ({"status": "resigned", "result": "draw"}, "result"),
        ({"status": "timeout", "result": "draw"}, "result"),
    ],
)
def test_what_is_no_game_that_has_ended(changes: dict[str, Any], named: str) -> None:
    """Each status has its results, the moment and what is on the board."""
    with pytest.raises(ValidationError, match=named):
        Game.model_validate(values(*MATED, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "checkmate", "result": "white_wins"},
        {"status": "stalemate", "result": "draw"},
    ],
)
def test_what_must_be_on_the_board(changes: dict[str, Any]) -> None:
    """Checkmate and stalemate are nowhere else."""
    with pytest.raises(ValidationError, match="on the board"):
        Game.model_validate(values(*TWO_MOVES, ended_at="2025-10-25T10:00:00Z", **changes))


@cases(
    "ending",
    [
        {"status": "draw", "result": "draw", "reason": "agreement"},
        {"status": "resigned", "result": "white_wins", "reason": "resignation"},
        {"status": "timeout", "result": "black_wins", "reason": "timeout"},
        {"status": "draw", "result": "draw"},
    ],
)
def test_ends_that_only_the_players_make(ending: dict[str, Any]) -> None:
    """Anywhere, and with the results of their status."""
    game = game_of(*TWO_MOVES, draft("GameEnded", ending))
    assert (game.status, game.result) == (ending["status"], ending["result"])


def test_turns_alternate_in_the_history() -> None:
    """A player does not move twice, and none is missing."""
    found = values(started(), *map(moved, ("e2e4", "e7e5", "g1f3")))
    history = found["move_history"]
    for wrong in ([history[0], history[2], history[1]], history[:2], history[1:], [*history, history[1]]):
        with pytest.raises(ValidationError, match="move_history"):
            Game.model_validate({**found, "move_history": wrong})


def test_a_terminal_state_is_final() -> None:
    """Neither the rules nor the fold take anything after it, and the value is frozen."""
    world = table().move(*FOOLS_MATE)
    world.post("GameEnded", MATE)
    for kind, payload in (("MoveMade", {"uci_notation": "e2e4"}), ("GameEnded", MATE), ("GameStarted", {})):
        assert world.refused(kind, payload).details["rule"] in {"game_over", "game_already_started"}
    state = folded([*MATED, moved("e2e4")])
    assert Game.of(state, effects(MATED), game_id=NAME).status == "checkmate"
    with pytest.raises(ValidationError, match="frozen"):
        setattr(game_of(*MATED), "status", "in_progress")  # noqa: B010 - the type checker knows it, too


def test_there_is_none_of_what_is_no_such_game() -> None:
    """Nothing started, another variant, null moves: ValueError."""
    for drafts in ([], [started(variant="horde")], one("1. e4 -- 2. d4 *").drafts):
        with pytest.raises(ValueError, match=r"not started|horde|square"):
            game_of(*drafts)


def agent(agent_id: str) -> dict[str, Any]:
    """Return an agent as JSON has it."""
    return Agent.of(AgentSpec(agent_id=agent_id)).model_dump(mode="json")


def session(**changes: Any) -> dict[str, Any]:
    """Return the fields of a session, some of them changed."""
    return {
        "session_id": SESSION,
        "game_id": NAME,
        "websocket_connections": 2,
        "agent_white": agent("white"),
        "agent_black": agent("black"),
        "created_at": "2025-10-25T10:00:00Z",
        "is_active": True,
        **changes,
    }


@cases("changes", [{}, {"websocket_connections": 0}, {"is_active": False}, {"game_id": "a-game"}])
def test_what_is_a_session(changes: dict[str, Any]) -> None:
    """A plain example, with a count for the sockets; nobody need watch."""
    found = GameSession.model_validate(session(**changes))
    assert GameSession.model_validate_json(found.model_dump_json()) == found


@cases(
    "changes, named",
    [
        ({"session_id": "1"}, "UUID"),
        ({"session_id": "7c9e6679-7425-10de-944b-e07fc1f90ae7"}, "UUID"),
        ({"session_id": SESSION.upper()}, "UUID"),
        ({"session_id": SESSION + "\n"}, "UUID"),
        ({"session_id": None}, "session_id"),
        ({"game_id": "/"}, "game_id"),
        ({"game_id": None}, "game_id"),
        ({"websocket_connections": -1}, "websocket_connections"),
        ({"websocket_connections": []}, "websocket_connections"),
        ({"agent_white": None}, "agent_white"),
        ({"agent_black": agent("white")}, "one agent"),
        ({"agent_black": {}}, "agent_black"),
        ({"created_at": "2025-10-25T10:00:00"}, "created_at"),
        ({"created_at": None}, "created_at"),
        ({"is_active": 1}, "is_active"),
        ({"is_active": None}, "is_active"),
        ({"sockets": 1}, "sockets"),
    ],
)
def test_what_is_no_session(changes: dict[str, Any], named: str) -> None:
    """Two different agents, a game and a UUID4."""
    with pytest.raises(ValidationError, match=named):
        GameSession.model_validate(session(**changes))
