"""What the rules of a chess world take and refuse as the beginning and the end of a game."""

from __future__ import annotations

from typing import Any

import chess
import pytest
from worldledger_chess.rules import RULESET

from tests.cases import cases
from worldledger.errors import RecoveryAction

from .recorded import one
from .worlds import AGENTS, EXAMPLES, REAL, Table, draft, games_in, table

FOOLS_MATE = ("f2f3", "e7e5", "g2g4", "d8h4")
STALEMATE = "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"
BARE_KINGS = "7k/8/6K1/8/8/8/8/8 b - - 0 1"
WON = {"status": "resigned", "result": "white_wins"}
DRAW = {"status": "draw", "result": "draw"}
CHECKMATE = {"status": "checkmate", "result": "black_wins"}


@pytest.mark.parametrize(
    "folder",
    [EXAMPLES, pytest.param(REAL, marks=pytest.mark.skipif(not REAL.is_dir(), reason="the games are not here"))],
    ids=["examples", "real"],
)
def test_every_recorded_game_could_have_been_posted(folder: Any, thorough: bool) -> None:
    """Draft for draft the rules take it, and it is folded; of the real games, all that end oddly and every fifth."""
    games = games_in(folder)
    assert games
    if folder == REAL and not thorough:
        games = [game for n, game in enumerate(games) if n % 5 == 0 or game.reason == "illegal_move"]
    for game in games:
        world = Table(*game.drafts)
        assert world.board["fen"] == game.final_fen


def test_all_kinds_are_decided_on_the_state() -> None:
    """No kind is folded that the rules do not know, and each looks at the state."""
    assert set(RULESET.handlers) == set(RULESET.checks) == RULESET.stateful


@cases(
    "payload, rule, path",
    [
        ({}, "payload", "$.payload.white"),
        ({"white": "ana"}, "payload", "$.payload.black"),
        ({"white": "ana", "black": 1}, "payload", "$.payload.black"),
        ({"agents": "ana, bo"}, "payload", "$.payload.agents"),
        ({"agents": {"white": "ana", "black": ""}}, "payload", "$.payload.agents.black"),
        ({"agents": {"white": "ana", "black": "ana"}}, "same_agent", "$.payload.agents"),
        ({"white": "ana", "black": "ana"}, "same_agent", "$.payload"),
        ({**AGENTS, "variant": "Xiangqi"}, "payload", "$.payload.variant"),
        ({**AGENTS, "initial_fen": 1}, "payload", "$.payload.initial_fen"),
        ({**AGENTS, "initial_fen": "startpos"}, "invalid_position", "$.payload.initial_fen"),
        ({**AGENTS, "initial_fen": "8/8/8/8/8/8/8/8 w - - 0 1"}, "invalid_position", "$.payload.initial_fen"),
        ({**AGENTS, "initial_fen": "k6R/8/8/8/8/8/8/K7 w - - 0 1"}, "invalid_position", "$.payload.initial_fen"),
        ({**AGENTS, "initial_fen": "k7/8/8/8/8/8/8/K7 w KQ - 0 1"}, "invalid_position", "$.payload.initial_fen"),
        (
            {**AGENTS, "variant": "atomic", "initial_fen": "8/8/8/8/8/8/8/K7 w - - 0 1"},
            "invalid_position",
            "$.payload.initial_fen",
        ),
    ],
)
def test_what_cannot_start_a_game(payload: Any, rule: str, path: str) -> None:
    """Two different agents and a position that is right, or the field that is wrong is named."""
    refusal = Table().refused("GameStarted", payload)
    assert (refusal.details["rule"], refusal.path) == (rule, path)
    assert refusal.recovery is RecoveryAction.MODIFY_INTENT


def test_an_impossible_position_is_told_in_words() -> None:
    """The message says what is wrong with it."""
    assert "no white king" in str(
        Table().refused("GameStarted", {**AGENTS, "initial_fen": "k7/8/8/8/8/8/8/8 w - - 0 1"})
    )


@cases(
    "variant, fen",
    [
        (None, None),
        ("standard", "r3k2r/8/8/8/4P3/8/8/R3K2R b KQkq e3 0 1"),
        ("chess960", "nqrkbbnr/pppppppp/8/8/8/8/PPPPPPPP/NQRKBBNR w KQkq - 0 1"),
        ("horde", None),
        ("racingkings", None),
        ("crazyhouse", "4k3/8/8/8/8/8/8/4K3[QQqqPP] w - - 0 1"),
        ("antichess", "8/8/8/8/8/8/p7/7R w - - 0 1"),
        ("atomic", "k7/8/8/8/8/8/PPPPPPPP/1K5R w KQ - 0 1"),
    ],
)
def test_what_can_start_a_game(variant: str | None, fen: str | None) -> None:
    """A variant's positions need not be those of standard chess."""
    assert table(fen, variant).board["status"] == "in_progress"


def test_one_world_is_one_game() -> None:
    """A game starts once, whether it is going on or over."""
    world = table()
    assert world.refused("GameStarted", AGENTS).details["rule"] == "game_already_started"
    world.post("GameEnded", WON)
    assert world.refused("GameStarted", AGENTS).details["rule"] == "game_already_started"


@pytest.mark.parametrize(
    ("kind", "payload"), [("MoveMade", {"uci_notation": "e2e4"}), ("MoveRejected", {}), ("GameEnded", WON)]
)
def test_nothing_happens_before_the_start_or_after_the_end(kind: str, payload: Any) -> None:
    """The rules that say so differ."""
    assert Table().refused(kind, payload).details["rule"] == "game_not_started"
    world = table()
    world.post("GameEnded", WON)
    refusal = world.refused(kind, payload)
    assert (refusal.details["rule"], refusal.path) == ("game_over", "$.kind")
    assert "resigned" in str(refusal)


@cases(
    "payload, rule",
    [
        ({}, "status"),
        ({"status": "in_progress", "result": "draw"}, "status"),
        ({"status": "won", "result": "white_wins"}, "status"),
        ({"status": "resigned"}, "result"),
        ({"status": "resigned", "result": None}, "result"),
        ({"status": "resigned", "result": "1-0"}, "result"),
        ({"status": "resigned", "result": "draw"}, "result"),
        ({"status": "timeout", "result": "draw"}, "result"),
        ({"status": "checkmate", "result": "draw"}, "result"),
        ({"status": "draw", "result": "white_wins"}, "result"),
        ({"status": "stalemate", "result": "black_wins"}, "result"),
        ({**DRAW, "reason": "boredom"}, "reason"),
        ({**DRAW, "reason": "checkmate"}, "reason"),
        ({**WON, "reason": "agreement"}, "reason"),
        ({**WON, "reason": "timeout"}, "reason"),
        ({**DRAW, "reason": "insufficient_material"}, "not_on_board"),
        ({**DRAW, "reason": "fifty_moves"}, "not_on_board"),
        ({**DRAW, "reason": "variant_end"}, "not_on_board"),
        ({"status": "stalemate", "result": "draw"}, "not_on_board"),
        (CHECKMATE, "not_on_board"),
        ({**CHECKMATE, "reason": "variant_end"}, "not_on_board"),
        ({**WON, "final_fen": BARE_KINGS}, "field_mismatch"),
        ({**WON, "plies": 1}, "field_mismatch"),
    ],
)
def test_what_cannot_end_a_game_that_has_just_begun(payload: Any, rule: str) -> None:
    """Its words must be known and fit each other, and what they say of the board must be on it."""
    refusal = table().refused("GameEnded", payload)
    assert refusal.details["rule"] == rule
    if rule in {"status", "result", "reason"}:
        assert refusal.path == f"$.payload.{rule}"


@cases(
    "payload",
    [
        WON,
        {"status": "timeout", "result": "black_wins", "reason": "timeout"},
        {**WON, "reason": "illegal_move"},
        {**WON, "reason": "resignation", "final_fen": chess.STARTING_FEN, "plies": 0},
        {**DRAW, "reason": "agreement"},
        {**DRAW, "reason": "timeout"},
        {**DRAW, "reason": "threefold_repetition"},
        DRAW,
    ],
)
def test_what_only_the_players_or_the_history_know_is_believed(payload: Any) -> None:
    """Resignation, time, agreement and repetition are not to be seen on the board."""
    world = table()
    world.post("GameEnded", payload)
    assert (world.board["status"], world.board["reason"]) == (payload["status"], payload.get("reason"))


def test_checkmate_ends_the_game_for_the_side_that_gave_it() -> None:
    """No other end is possible then."""
    world = table().move(*FOOLS_MATE)
    world.ask("GameEnded", CHECKMATE)
    world.ask("GameEnded", {**CHECKMATE, "reason": "checkmate"})
    assert world.refused("GameEnded", {**CHECKMATE, "result": "white_wins"}).details["rule"] == "result"
    assert world.refused("GameEnded", {**CHECKMATE, "reason": "variant_end"}).details["rule"] == "not_on_board"
    assert world.refused("GameEnded", WON).details["rule"] == "status"
    assert world.refused("GameEnded", DRAW).details["rule"] == "status"


@cases(
    "fen, right, wrong",
    [
        (STALEMATE, {"status": "stalemate", "result": "draw", "reason": "stalemate"}, DRAW),
        (BARE_KINGS, {**DRAW, "reason": "insufficient_material"}, {"status": "stalemate", "result": "draw"}),
        ("7k/8/6K1/8/8/8/P7/8 b - - 99 80", {**DRAW, "reason": "fifty_moves"}, CHECKMATE),
        ("7k/8/6K1/8/8/8/P7/8 b - - 150 120", {**WON, "reason": "resignation"}, CHECKMATE),
    ],
)
def test_draws_on_the_board(fen: str, right: Any, wrong: Any) -> None:
    """Stalemate is no other draw; the draws that somebody has to notice leave the game open."""
    world = table(fen)
    world.ask("GameEnded", right)
    assert world.refused("GameEnded", wrong).details["rule"] in {"status", "not_on_board"}


def test_a_variant_has_its_own_end() -> None:
    """A king on the hill has won, though nobody is mated."""
    world = table(None, "kingofthehill").move("e2e4", "a7a6", "e1e2", "a6a5", "e2e3", "a5a4", "e3d4")
    world.ask("GameEnded", {"status": "checkmate", "result": "white_wins", "reason": "variant_end"})
    refusal = world.refused("GameEnded", {"status": "checkmate", "result": "white_wins", "reason": "checkmate"})
    assert refusal.details["rule"] == "not_on_board"
    assert world.refused("GameEnded", CHECKMATE).details["rule"] == "result"


def test_recorded_oddities_are_refused_of_those_who_play_now() -> None:
    """An import, which nobody asks the rules about, may bring what these refuse."""
    solitaire = one('[White "A"]\n[Black "A"]\n\n1. e4 *')
    assert Table().refused("GameStarted", solitaire.drafts[0]["payload"]).details["rule"] == "same_agent"
    null = one("1. e4 -- *")
    assert Table(*null.drafts[:2]).refused("MoveMade", null.drafts[2]["payload"]).details["rule"] == "illegal_move"
    late = one('[Result "0-1"]\n\n1. f3 e5 2. g4 Qh4# 1-0')
    drawn = one('[Result "1/2-1/2"]\n\n1. f3 e5 2. g4 Qh4# 1/2-1/2')
    assert Table(*late.drafts).board["result"] == "black_wins"
    assert Table(*drawn.drafts[:-1]).refused("GameEnded", drawn.drafts[-1]["payload"]).details["rule"] == "status"


def test_a_draft_of_a_list_is_named() -> None:
    """A refusal can be told with the draft's place, and keeps its rule."""
    refusal = Table().refused("GameEnded", draft("GameEnded", WON)["payload"]).at(3)
    assert (refusal.index, refusal.details["rule"]) == (3, "game_not_started")
