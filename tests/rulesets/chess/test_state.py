"""What the effects of a chess world make of its state."""

from __future__ import annotations

from typing import Any

import chess
import pytest
from worldledger_chess.rules.pgn import RecordedGame
from worldledger_chess.rules.positions import VARIANTS

from tests.cases import cases
from tests.rulesets.counting import malformed

from .recorded import one, payloads
from .worlds import EXAMPLES, REAL, draft, folded, games_in, moved, started, table


def minimal(drafts: list[Any], notation: str = "uci_notation") -> list[Any]:
    """Return the same game with moves that say nothing but what they are, as an agent may post them."""
    return [
        {**posted, "payload": {name: posted["payload"][name] for name in (notation, "thinking_time", "clock")}}
        if posted["kind"] == "MoveMade"
        else posted
        for posted in drafts
    ]


@pytest.mark.parametrize(
    "folder",
    [EXAMPLES, pytest.param(REAL, marks=pytest.mark.skipif(not REAL.is_dir(), reason="the games are not here"))],
    ids=["examples", "real"],
)
def test_every_recorded_game_folds_to_its_last_position(folder: Any) -> None:
    """Nothing is malformed or unknown, and the state says what python-chess says of the end of the game."""
    games = games_in(folder)
    assert games
    for game in games:
        state = folded(game.drafts)
        assert malformed(state) == 0
        board = state.entities["board"]
        last = VARIANTS[board["variant"]](board["initial_fen"], chess960=board["variant"] == "chess960")
        for move in payloads(game):
            last.push_uci(move["uci_notation"])
        assert board["fen"] == last.fen() == game.final_fen
        assert (board["ply"], board["status"], board["result"], board["reason"]) == (
            game.moves,
            game.status,
            game.result,
            game.reason,
        )
        assert board["is_check"] == last.is_check()
        assert board["turn"] == ("white" if last.turn else "black")
        assert (board["halfmove_clock"], board["fullmove_number"]) == (last.halfmove_clock, last.fullmove_number)
        white, black = state.entities["white"], state.entities["black"]
        assert white["moves"] + black["moves"] == game.moves
        ended = payloads(game, "GameEnded")
        if ended and ended[0]["thinking_time_total"] is not None:
            assert white["timed_moves"] + black["timed_moves"] == game.moves
            total = white["thinking_time"] + black["thinking_time"]
            assert total == pytest.approx(ended[0]["thinking_time_total"])


def test_a_whole_game_leaves_this_state() -> None:
    """Every field, of a short game with clocks and an illegal move."""
    game = one(
        '[White "Ana"]\n[Black "Bo"]\n[Result "Illegal move (a1a5) by Ana"]\n[TimeControl "180+2"]\n\n'
        "1. e4 {[%clk 0:02:59.9]} d5 {[%clk 0:02:58]} 2. exd5 {[%clk 0:02:58.8]} Qxd5 {[%clk 0:02:50.5]} *"
    )
    assert folded(game.drafts).entities == {
        "white": {
            "agent_id": "Ana",
            "name": "Ana",
            "moves": 2,
            "illegal_moves_attempted": 1,
            "thinking_time": 5.2,
            "timed_moves": 2,
            "clock": 178.8,
        },
        "black": {
            "agent_id": "Bo",
            "name": "Bo",
            "moves": 2,
            "illegal_moves_attempted": 0,
            "thinking_time": 13.5,
            "timed_moves": 2,
            "clock": 170.5,
        },
        "board": {
            "fen": "rnb1kbnr/ppp1pppp/8/3q4/8/8/PPPP1PPP/RNBQKBNR w KQkq - 0 3",
            "initial_fen": chess.STARTING_FEN,
            "variant": "standard",
            "turn": "white",
            "castling_rights": "KQkq",
            "en_passant_square": None,
            "halfmove_clock": 0,
            "fullmove_number": 3,
            "is_check": False,
            "ply": 4,
            "last_move": {
                "ply": 4,
                "player": "black",
                "uci_notation": "d8d5",
                "san_notation": "Qxd5",
                "from_square": "d8",
                "to_square": "d5",
            },
            "status": "resigned",
            "result": "black_wins",
            "reason": "illegal_move",
            "started_at": 1001.0,
            "ended_at": 1007.0,
            "last_updated": 1007.0,
        },
    }


def test_a_posted_game_may_say_as_little_as_possible() -> None:
    """Names alone start a game from the usual position; a move's notation is enough to fold it."""
    state = folded([draft("GameStarted", {"white": "ana", "black": "bo"}), moved("e2e4"), moved("e7e5")])
    assert malformed(state) == 0
    assert [state.entities[color]["agent_id"] for color in ("white", "black")] == ["ana", "bo"]
    assert state.entities["board"]["fen"] == "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2"
    assert state.entities["board"]["last_move"]["san_notation"] == "e5"


@pytest.mark.parametrize("notation", ["uci_notation", "san_notation"])
def test_moves_are_the_same_whether_stated_or_played(notation: str) -> None:
    """A game whose moves give only one notation folds to the very state of the whole one."""
    for game in games_in(EXAMPLES):
        assert folded(minimal(game.drafts, notation)).entities == folded(game.drafts).entities


@cases(
    "variant, text",
    [
        ("Crazyhouse", "1. e4 d5 2. exd5 Qxd5 3. P@e4 Qe5 4. Nc3 Qxe4+ 5. Be2 *"),
        ("Atomic", "1. Nf3 f6 2. Nd4 c6 3. Ne6 h6 4. Nxd8# 1-0"),
        ("Three-check", "1. e4 e5 2. Bc4 Nc6 3. Bxf7+ Ke7 4. Qh5 *"),
        ("King of the Hill", "1. e4 e5 2. Ke2 a6 3. Kd3 a5 4. Kc4 a4 5. Kd5# 1-0"),
        ("Antichess", "1. e3 b5 2. Bxb5 *"),
        ("Racing Kings", "1. Kh3 Ka3 *"),
        ("Horde", "1. e5 e6 *"),
    ],
)
def test_variants_fold_by_their_own_rules(variant: str, text: str) -> None:
    """Drops, explosions, counted checks: stated or played, the last position is python-chess's."""
    game = one(f'[Variant "{variant}"]\n\n{text}')
    state = folded(game.drafts)
    assert malformed(state) == 0
    assert state.entities["board"]["fen"] == game.final_fen
    for notation in ("uci_notation", "san_notation"):
        assert folded(minimal(game.drafts, notation)).entities == state.entities
    if variant == "King of the Hill":
        assert state.entities["board"]["is_check"] is False  # its "#" is a king on the hill


def test_castling_in_chess960_goes_to_the_rooks_square() -> None:
    """The FEN alone does not say that it is Chess960: the variant does."""
    fen = "nqrkbbnr/pppppppp/8/8/8/8/PPPPPPPP/NQRKBBNR w KQkq - 0 1"
    board = table(fen, "chess960").move("d1c1").board
    assert board["fen"] == "nqrkbbnr/pppppppp/8/8/8/8/PPPPPPPP/NQKRBBNR b kq - 1 1"
    assert (board["last_move"]["san_notation"], board["castling_rights"]) == ("O-O-O", "kq")


def test_en_passant_and_promotion() -> None:
    """The square of a possible capture is there for one move; a pawn becomes what the move says."""
    world = table("8/5k2/8/8/3p4/8/P3P3/4K3 w - - 3 9").move("e2e4")
    assert (world.board["en_passant_square"], world.board["halfmove_clock"]) == ("e3", 0)
    assert world.move("d4e3").board["en_passant_square"] is None
    assert "8/5k2/8/8/8/4p3/P7/4K3 w" in world.board["fen"]
    promoted = table("8/P4k2/8/8/8/8/8/4K3 w - - 0 1").move("a7a8n").board
    assert promoted["fen"] == "N7/5k2/8/8/8/8/8/4K3 b - - 0 1"


def test_a_recorded_null_move_changes_the_turn() -> None:
    """Stated or played, where the payload says that it is none; else it is malformed."""
    game = one("1. e4 -- 2. d4 *")
    state = folded(game.drafts)
    assert malformed(state) == 0
    board = state.entities["board"]
    assert (board["fen"], board["ply"]) == (game.final_fen, 3)
    null = draft("MoveMade", {"uci_notation": "0000", "is_null": True})
    played = folded([game.drafts[0], game.drafts[1], null, game.drafts[3]])
    assert played.entities == state.entities
    assert played.entities["board"]["last_move"]["from_square"] == "d2"
    assert malformed(folded([started(), moved("0000")])) == 1
    assert malformed(folded([started(), moved("e2e4"), moved("d7d5"), moved("f1b5"), null])) == 1


def test_a_clock_is_the_last_one_known() -> None:
    """A move without a clock leaves it, and one without a time is not timed."""
    state = folded([started(), moved("e2e4", clock=60, thinking_time=0.1), moved("e7e5"), moved("g1f3")])
    white = state.entities["white"]
    assert (white["clock"], white["thinking_time"], white["timed_moves"], white["moves"]) == (60.0, 0.1, 1, 2)
    assert state.entities["black"]["clock"] is None


def test_sums_of_milliseconds_do_not_drift() -> None:
    """Ten times 0.1 seconds are one second."""
    shuffle = ["g1f3", "g8f6", "f3g1", "f6g8"] * 5
    state = folded([started(), *[moved(uci, thinking_time=0.1) for uci in shuffle]])
    assert state.entities["white"]["thinking_time"] == state.entities["black"]["thinking_time"] == 1.0


def test_only_illegal_moves_count_as_such() -> None:
    """Without a reason it was an illegal move, without a player the side to move's."""
    state = folded(
        [
            started(),
            draft("MoveRejected", {}),
            draft("MoveRejected", {"reason": "illegal_move", "player": "black"}),
            draft("MoveRejected", {"reason": "not a turn", "player": "black"}),
        ]
    )
    assert malformed(state) == 0
    assert state.entities["white"]["illegal_moves_attempted"] == 1
    assert state.entities["black"]["illegal_moves_attempted"] == 1
    assert state.entities["board"]["last_updated"] == 1004.0


def test_a_second_start_counts_for_nothing() -> None:
    """One world is one game."""
    first = [started(), moved("e2e4", clock=3)]
    again = folded([*first, started(variant="atomic")])
    assert again.entities == folded(first).entities
    assert malformed(again) == 1


def test_long_names_are_cut() -> None:
    """A recorded name can be of any length, the state not."""
    game = one(f'[White "{"a" * 5000}"]\n\n1. e4 *')
    assert folded(game.drafts).entities["white"]["name"] == "a" * 200


def test_the_state_is_bounded() -> None:
    """The longest real game leaves a state hardly larger than the shortest."""
    games: list[RecordedGame] = games_in(EXAMPLES)
    sizes = {game.moves: len(folded(game.drafts).text()) for game in games}
    assert max(sizes.values()) - min(sizes.values()) < 100
    assert max(sizes.values()) < 1500
