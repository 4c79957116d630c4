"""How a recorded game ended, in the words of a Game."""

from __future__ import annotations

import pytest
from worldledger_chess.rules.pgn import BrokenGame

from tests.cases import cases

from .recorded import one, payloads, read, whole

FOOLS_MATE = "1. f3 e5 2. g4 Qh4#"
STALEMATE = '[FEN "7k/8/6K1/8/8/8/8/5Q2 w - - 0 1"]\n{tags}\n\n1. Qf7 {result}'
SHUFFLE = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8"


def ending(tags: str, moves: str) -> tuple[str, str | None, str | None]:
    """Return status, result and reason, the same in the game and in its GameEnded."""
    game = one(f"{tags}\n\n{moves}")
    told = (game.status, game.result, game.reason)
    ended = payloads(game, "GameEnded")
    if game.status == "in_progress":
        assert not ended
    else:
        assert told == (ended[0]["status"], ended[0]["result"], ended[0]["reason"])
    return told


@cases(
    "tags, moves, told",
    [
        ("", f"{FOOLS_MATE} 0-1", ("checkmate", "black_wins", "checkmate")),
        ('[Termination "normal"]', f"{FOOLS_MATE} 0-1", ("checkmate", "black_wins", "checkmate")),
        ('[FEN "7k/8/6K1/8/8/8/8/5Q2 w - - 0 1"]', "1. Qf7 1/2-1/2", ("stalemate", "draw", "stalemate")),
        ('[FEN "7k/8/8/8/8/8/6r1/7K w - - 0 1"]', "1. Kxg2 1/2-1/2", ("draw", "draw", "insufficient_material")),
        ('[FEN "7k/7p/8/8/8/8/6r1/7K w - - 99 90"]', "1. Kxg2 1/2-1/2", ("draw", "draw", "unknown")),
        ('[FEN "7k/7p/8/8/8/8/r7/7K w - - 99 90"]', "1. Kg1 1/2-1/2", ("draw", "draw", "fifty_moves")),
        ("", f"{SHUFFLE} 1/2-1/2", ("draw", "draw", "threefold_repetition")),
        ('[Termination "Draw by agreement"]', "1. e4 1/2-1/2", ("draw", "draw", "agreement")),
        ('[Termination "normal"]', "1. e4 1/2-1/2", ("draw", "draw", "agreement")),
        ('[Termination "Game drawn by timeout vs insufficient material"]', "1. e4 1/2-1/2",
         ("draw", "draw", "insufficient_material")),
        ("", "1. e4 1/2-1/2", ("draw", "draw", "unknown")),
        ("", "1. e4 ½-½", ("draw", "draw", "unknown")),
        ("", "1. e4 1-0", ("resigned", "white_wins", "unknown")),
        *[("", f"1. e4 {result}", ("resigned", "white_wins", "unknown")) for result in
          ("1 - 0", "1- 0", "1 -0", "1:0", "1 : 0", "1\u20130", "1-0 forfeit", "1 - 0 (forfeit)", "1-0 Bo forfeits")],
        *[("", f"1. e4 {result} {{so}}", ("resigned", "black_wins", "unknown")) for result in ("0:1", "0 - 1", "0-1")],
        *[("", f"1. e4 {result}", ("draw", "draw", "unknown")) for result in ("1/2 - 1/2", "½ : ½", "1/2:1/2")],
        *[(f'[Result "{result}"]', "1. e4", ("resigned", "black_wins", "unknown")) for result in
          ("0:1", "0 - 1", "0-1 forfeit", "0-1, no show", "0-1(ff)")],
        ('[Result "1-0 time forfeit"]', "1. e4 1-0", ("timeout", "white_wins", "timeout")),
        ('[Result "1-0"]', "1. e4 1-0 Black lost on time", ("timeout", "white_wins", "timeout")),
        ("", "1. e4 1-0 White wins on time", ("timeout", "white_wins", "timeout")),
        ('[Result "1-0 forfeit"]', "1. e4 1-0 forfeit", ("resigned", "white_wins", "unknown")),
        ('[Result "*"]', "1. e4 1-0", ("resigned", "white_wins", "unknown")),
        ('[Result "*"]\n[Termination "normal"]', "1. e4 1 - 0", ("resigned", "white_wins", "resignation")),
        ('[Result "1-0"]', "1. e4 *", ("resigned", "white_wins", "unknown")),
        ('[Termination "normal"]', "1. e4 1-0", ("resigned", "white_wins", "resignation")),
        ('[Termination "Ana won by resignation"]', "1. e4 1-0", ("resigned", "white_wins", "resignation")),
        ('[Termination "time forfeit"]', "1. e4 0-1", ("timeout", "black_wins", "timeout")),
        ('[Termination "Bo won on time"]', "1. e4 0-1", ("timeout", "black_wins", "timeout")),
        ('[Termination "abandoned"]', "1. e4 0-1", ("resigned", "black_wins", "abandoned")),
        ('[Termination "adjudication"]', "1. e4 0-1", ("resigned", "black_wins", "adjudication")),
        ('[Termination "rules infraction"]', "1. e4 0-1", ("resigned", "black_wins", "rules_infraction")),
        ('[Result "0-1"]', "", ("resigned", "black_wins", "unknown")),
        ('[Result "Draw by agreement"]', "1. e4 Draw by agreement", ("draw", "draw", "agreement")),
        ('[White "Ana B."]\n[Result "Ana B. resigned"]', "1. e4 Ana B.\nresigned",
         ("resigned", "black_wins", "resignation")),
        ('[Black "Bo"]\n[Result "Timeout by Bo"]', "1. e4", ("timeout", "white_wins", "timeout")),
        ('[Result "White wins"]', "1. e4", ("resigned", "white_wins", "unknown")),
        ('[Variant "Atomic"]', "1. Nf3 f6 2. Nd4 c6 3. Ne6 h6 4. Nxd8# 1-0",
         ("checkmate", "white_wins", "variant_end")),
        ('[Result "*"]', "1. e4 *", ("in_progress", None, None)),
        ("", "1. e4", ("in_progress", None, None)),
        ('[Result "*"]\n[Termination "unterminated"]', "", ("in_progress", None, None)),
    ],
)  # fmt: skip
def test_an_ending_is_told_in_the_words_of_a_game(
    tags: str, moves: str, told: tuple[str, str | None, str | None]
) -> None:
    """Status, result and reason from the position, the Termination tag and the result."""
    assert ending(tags, moves) == told


def test_the_end_holds_the_raw_result_and_the_totals() -> None:
    """GameEnded, field by field, by no player."""
    game = one(f'[Result " 0-1 "]\n\n{FOOLS_MATE} 0-1')
    assert game.drafts[-1] == {
        "kind": "GameEnded",
        "source_id": "pgn-import",
        "schema_version": "1.0.0",
        "sim_time": 4.0,
        "payload": {
            "status": "checkmate",
            "result": "black_wins",
            "reason": "checkmate",
            "raw_result": " 0-1 ",
            "final_fen": game.final_fen,
            "plies": 4,
            "thinking_time_total": None,
            "variations_total": 0,
        },
    }
    assert game.moves == 4


def test_an_unfinished_game_has_no_end() -> None:
    """The result * is kept in the tags, and raw_result tells it to the importer."""
    game = one('[Result "*"]\n\n1. e4 *')
    assert [draft["kind"] for draft in game.drafts] == ["GameStarted", "MoveMade"]
    assert (game.raw_result, game.drafts[0]["payload"]["tags"]) == ("*", {"Result": "*"})


def test_a_game_without_moves_has_a_start_only_or_a_start_and_an_end() -> None:
    """No moves at all is a game all the same."""
    open_game, forfeit = whole('[White "Ana"]\n\n*\n\n[White "Ana"]\n[Result "0-1"]\n\n0-1')
    assert [draft["kind"] for draft in open_game.drafts] == ["GameStarted"]
    assert [draft["kind"] for draft in forfeit.drafts] == ["GameStarted", "GameEnded"]
    assert forfeit.final_fen == "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    assert [draft["sim_time"] for draft in forfeit.drafts] == [0.0, 0.0]


@pytest.mark.parametrize("result", ["*", ""])
def test_without_a_result_the_board_decides_with_a_warning(result: str) -> None:
    """A game that is over by the rules is not left unfinished."""
    game = one(f"{FOOLS_MATE} {result}")
    assert (game.status, game.result, game.reason) == ("checkmate", "black_wins", "checkmate")
    assert game.warnings == ["the record gives no result, but the game is over by the rules"]


def test_a_result_against_the_board_stays_as_recorded_with_a_warning() -> None:
    """The record is not corrected."""
    game = one(f'[Result "1-0"]\n\n{FOOLS_MATE} 1-0')
    assert (game.status, game.result, game.reason, game.raw_result) == ("resigned", "white_wins", "unknown", "1-0")
    assert game.warnings == ["recorded is white_wins (no reason), but by the board it was black_wins already"]


def test_a_reason_that_is_not_on_the_board_is_not_taken() -> None:
    """A win by checkmate without one, and a draw by stalemate without one."""
    for result, word in (("1-0", "checkmate"), ("1/2-1/2", "stalemate")):
        game = one(f'[Termination "{word}"]\n\n1. e4 {result}')
        assert game.reason == "unknown"
        assert game.warnings[0].endswith(f"by {word} is recorded, but it is not on the board")


def test_the_tag_counts_before_the_text_behind_the_moves() -> None:
    """Where they differ there is a warning; a tag that is missing or unknown gives way."""
    differing = one('[Result "0-1"]\n\n1. e4 1-0')
    assert (differing.result, differing.raw_result) == ("black_wins", "0-1")
    assert differing.warnings == ["the Result tag says 0-1 and the text behind the moves 1-0"]
    for tags in ('[Result "?"]', '[White "Ana"]'):
        game = one(f"{tags}\n\n1. e4 1-0")
        assert (game.result, game.raw_result, game.warnings) == ("white_wins", "1-0", [])


def test_a_result_that_cannot_be_read_leaves_the_game_unfinished_with_a_warning() -> None:
    """Nothing is guessed from unknown words."""
    game = one('[Result "who knows"]\n\n1. e4 who knows')
    assert (game.status, game.result, game.raw_result) == ("in_progress", None, "who knows")
    assert game.warnings[0] == "the result 'who knows' cannot be read"


@cases(
    "result, moves, player, attempted",
    [
        ("Illegal move (h2h4) by Stock, Bo", "1. e4", "black", "h2h4"),
        ("Illegal move by Stock, Bo", "1. e4", "black", None),
        ("Illegal move (e1e8) by Ana (v2)", "1. e4 e5", "white", "e1e8"),
        ("illegal move: Qxh9 by stock,  bo", "1. e4", "black", "Qxh9"),
        ("Illegal move attempted (None) by Somebody Else", "1. e4", "black", "None"),
        ("Illegal move", "1. e4 e5", "white", None),
        ("Illegal move by Black", "1. e4", "black", None),
        ("Illegal move (e2e5) by Ana (v2)", "", "white", "e2e5"),
    ],
)
@cases("behind", [True, False], ids=["behind the moves too", "in the tag only"])
def test_an_illegal_move_is_rejected_and_the_opponent_wins(
    result: str, moves: str, player: str, attempted: str | None, behind: bool
) -> None:
    """MoveRejected by the player named, else by the side to move; then the end: resigned, illegal_move."""
    tags = f'[White "Ana (v2)"]\n[Black "Stock, Bo"]\n[Result "{result}"]'
    game = one(f"{tags}\n\n{moves} {result if behind else ''}")
    rejected, ended = game.drafts[-2:]
    name = {"white": "Ana (v2)", "black": "Stock, Bo"}[player]
    plies = len(moves.split()) - 1 if moves else 0
    assert rejected == {
        "kind": "MoveRejected",
        "source_id": name,
        "schema_version": "1.0.0",
        "sim_time": plies + 1.0,
        "payload": {
            "player": player,
            "agent_id": name,
            "attempted": attempted,
            "reason": "illegal_move",
            "ply": plies + 1,
            "fen": game.final_fen,
        },
    }
    assert (game.status, game.reason, game.moves) == ("resigned", "illegal_move", plies)
    assert game.result == {"white": "black_wins", "black": "white_wins"}[player]
    assert ended["payload"]["raw_result"] == result
    assert ended["sim_time"] == rejected["sim_time"]


def test_a_long_illegal_result_may_be_wrapped_behind_the_moves() -> None:
    """PGN writers wrap at 80 columns; the words are the same."""
    result = "Illegal move (h2h4) by A Player With A Long Name"
    game = one(f'[Black "A Player With A Long Name"]\n[Result "{result}"]\n\n1. e4 {result.replace(" ", chr(10))}')
    assert (game.reason, game.moves, game.warnings) == ("illegal_move", 1, [])


@pytest.mark.parametrize(
    "text",
    [
        '[Result "1-0"]\n\n1. e4 Illegal move (e7e4) by Black',
        '[Result "1-0"]\n[Termination "Illegal move (e7e4) by Black"]\n\n1. e4 1-0',
        "1. e4 Illegal move (e7e4) by Black",
    ],
)
def test_an_illegal_move_may_be_told_elsewhere(text: str) -> None:
    """Behind the moves only, or in the Termination tag."""
    game = one(text)
    (rejected,) = payloads(game, "MoveRejected")
    assert (rejected["player"], rejected["attempted"]) == ("black", "e7e4")
    assert (game.result, game.reason) == ("white_wins", "illegal_move")


def test_an_illegal_move_out_of_turn_or_against_another_result_is_told() -> None:
    """The record counts, with a warning."""
    game = one('[Result "1-0"]\n\n1. e4 Illegal move by White')
    assert game.result == "black_wins"
    assert game.warnings == [
        "the illegal move is white's, but it was black's turn",
        "'Illegal move by White' is recorded, and another result too",
    ]


def test_an_illegal_move_of_nobody_does_not_overrule_a_plain_result() -> None:
    """Where the text names neither player and the result says otherwise than the turn, the result counts."""
    game = one('[White "Ann"]\n[Black "Bob"]\n[Result "1-0"]\n\n1. e4 e5 Illegal move by X 0709')
    assert (game.status, game.result, game.reason) == ("resigned", "white_wins", "unknown")
    assert not payloads(game, "MoveRejected")
    assert game.warnings == ["'Illegal move by X 0709' is recorded, which names neither player, and another result too"]
    fitting = one('[White "Ann"]\n[Black "Bob"]\n[Result "1-0"]\n\n1. e4 Illegal move by X 0709')
    assert (fitting.result, fitting.reason, fitting.warnings) == ("white_wins", "illegal_move", [])


def test_what_both_players_lose_is_unfinished_with_a_warning() -> None:
    """``0-0`` at the end is no castling where that is not legal; a Game has no such result."""
    for tags, said in (
        ('[Result "0-0"]', "0-0"),
        ("", "0-0"),
        ("", "0 - 0 {no show}"),
        ("", "0:0"),
        ('[Result "0 - 0"]', ""),
    ):
        game = one(f"{tags}\n\n1. e4 {said}")
        assert (game.status, game.result, game.moves) == ("in_progress", None, 1)
        (warning,) = game.warnings
        assert "both players lost" in warning
    (broken,) = read(f"1. e4 0-0{' ' * 50_000}{{x}} e5 *")
    assert isinstance(broken, BrokenGame)
    castled = one('[FEN "4k3/8/8/8/8/8/8/4K2R w K - 0 1"]\n\n1. 0-0')
    assert (castled.moves, castled.warnings) == (1, ["there is no result; the game counts as unfinished"])


def test_each_warning_is_given_once() -> None:
    """A text that stands in the tag and behind the moves is told of once; the result that counted is raw_result."""
    game = one('[Result "who knows"]\n\n1. e4 who knows')
    assert game.warnings == ["the result 'who knows' cannot be read"]
    open_tag = one('[Result "*"]\n\n1. e4 1 - 0')
    assert open_tag.warnings == ["the Result tag says * and the text behind the moves 1 - 0"]
    assert payloads(open_tag, "GameEnded")[0]["raw_result"] == "1 - 0"
    assert payloads(one('[Result "*"]\n\n1. e4 1-0 forfeit'), "GameEnded")[0]["raw_result"] == "1-0 forfeit"


def test_between_players_of_one_name_the_side_to_move_tried_the_illegal_move() -> None:
    """A name that both have tells nothing."""
    game = one('[White "Ana"]\n[Black "Ana"]\n[Result "Illegal move by Ana"]\n\n1. e4')
    assert payloads(game, "MoveRejected")[0]["player"] == "black"
    assert not game.warnings


@pytest.mark.parametrize(
    "pgn",
    [
        '[White "Ann"]\n[Black "Bob"]\n[Result "Illegal move (Ke5)\nby  Ann"]\n\n1. e4 e5 *',
        '[White "Ann"]\n[Black "Bob"]\n\n1. e4 e5 Illegal move (Ke5)\nby  Ann\n',
    ],
    ids=["in the tag", "behind the moves"],
)
def test_a_result_over_two_lines_is_raw_and_yet_understood(pgn: str) -> None:
    """A Result text is kept as it stands, line end and blanks included, and read as one sentence."""
    game = one(pgn)
    assert (game.raw_result, game.reason, game.result) == ("Illegal move (Ke5)\nby  Ann", "illegal_move", "black_wins")
    assert game.drafts[-1]["payload"]["raw_result"] == game.raw_result
