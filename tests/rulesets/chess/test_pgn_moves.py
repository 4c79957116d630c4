"""What a recorded move becomes: a Move, the position, clocks, evaluations, comments and sidelines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import cases

from .recorded import one, payloads, sans, whole


def moves(text: str) -> list[dict[str, Any]]:
    """Return the moves of one game."""
    return payloads(one(text))


def some(move: dict[str, Any], names: str) -> list[Any]:
    """Pick fields of a move."""
    return [move[name] for name in names.split()]


def test_a_move_has_all_fields_of_a_move_and_the_position() -> None:
    """1. e4 by a player with a name, field by field."""
    start, move = one('[White "Ana"]\n\n1. e4 *').drafts
    assert move == {
        "kind": "MoveMade",
        "source_id": "Ana",
        "schema_version": "1.0.0",
        "sim_time": 1.0,
        "payload": {
            "ply": 1,
            "player": "white",
            "agent_id": "Ana",
            "from_square": "e2",
            "to_square": "e4",
            "piece": "pawn",
            "uci_notation": "e2e4",
            "san_notation": "e4",
            "is_capture": False,
            "is_castling": False,
            "is_promotion": False,
            "promotion_piece": None,
            "is_null": False,
            "timestamp": None,
            "thinking_time": None,
            "clock": None,
            "evaluation": None,
            "comment": None,
            "commands": [],
            "nags": [],
            "variations": 0,
            "fen": "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1",
        },
    }
    assert start["source_id"] == "pgn-import"


def test_captures_castling_and_promotion_are_told() -> None:
    """Captures include en passant; a promotion names its piece."""
    made = moves('[FEN "r3k2r/6P1/8/3pP3/8/8/8/R3K2R w KQkq d6 0 1"]\n\n1. exd6 O-O-O 2. gxh8=N Kb8 3. O-O *')
    fields = "uci_notation san_notation piece is_capture is_castling is_promotion promotion_piece"
    assert [some(move, fields) for move in made] == [
        ["e5d6", "exd6", "pawn", True, False, False, None],
        ["e8c8", "O-O-O", "king", False, True, False, None],
        ["g7h8n", "gxh8=N", "pawn", True, False, True, "knight"],
        ["c8b8", "Kb8", "king", False, False, False, None],
        ["e1g1", "O-O", "king", False, True, False, None],
    ]


@pytest.mark.parametrize("tags", ['[Variant "Chess960"]\n', '[Variant "Fischerandom"]\n', ""])
def test_chess960_castles_in_chess960_notation(tags: str) -> None:
    """Castling goes to the rook's square; castling rights that only Chess960 knows are enough to tell it."""
    game = one(f'{tags}[FEN "nqrkbbnr/pppppppp/8/8/8/8/PPPPPPPP/NQRKBBNR w KQkq - 0 1"]\n\n1. O-O-O *')
    (move,) = payloads(game)
    assert some(move, "from_square to_square uci_notation is_castling is_capture") == ["d1", "c1", "d1c1", True, False]
    assert payloads(game, "GameStarted")[0]["variant"] == "chess960"
    assert game.final_fen == "nqrkbbnr/pppppppp/8/8/8/8/PPPPPPPP/NQKRBBNR b kq - 1 1"


def test_a_null_move_is_a_move_without_squares() -> None:
    """All of PGN's spellings of a null move give the same."""
    made = moves("1. e4 -- 2. d4 Z0 *")
    fields = "player from_square to_square piece uci_notation san_notation is_null is_capture"
    for move in made[1::2]:
        assert some(move, fields) == ["black", None, None, None, "0000", "--", True, False]
    assert [move["is_null"] for move in made] == [False, True, False, True]


def test_a_position_that_was_set_up_counts_from_there() -> None:
    """initial_fen is the FEN tag's position; plies count from 1 and Black may be first."""
    game = one('[SetUp "1"]\n[FEN "8/8/8/8/8/1k6/7r/1K6 b - - 5 60"]\n\n60... Rh1# 0-1')
    (move,) = payloads(game)
    assert payloads(game, "GameStarted")[0]["initial_fen"] == "8/8/8/8/8/1k6/7r/1K6 b - - 5 60"
    assert some(move, "ply player san_notation") == [1, "black", "Rh1#"]
    assert not game.warnings


def test_an_odd_position_is_played_with_a_warning() -> None:
    """What the rules can play on from is taken, though no game leads there."""
    game = one('[FEN "rnbqkbnr/pppppppp/pppppppp/8/8/8/8/4K3 w KQ - 0 1"]\n\n1. Kd1 *')
    assert "unusual" in game.warnings[0]


@cases(
    "variant, text, last",
    [
        ("Crazyhouse", "1. e4 d5 2. exd5 Qxd5 3. P@e4 *", ["P@e4", None, "e4", "pawn"]),
        ("Atomic", "1. Nf3 f6 2. Nd4 c6 3. Ne6 h6 4. Nxd8# 1-0", ["e6d8", "e6", "d8", "knight"]),
        ("King of the Hill", "1. e4 *", ["e2e4", "e2", "e4", "pawn"]),
        ("From Position", "1. e4 *", ["e2e4", "e2", "e4", "pawn"]),
    ],
)
def test_variants_that_python_chess_plays_are_taken(variant: str, text: str, last: list[Any]) -> None:
    """A drop has no square of origin."""
    assert some(moves(f'[Variant "{variant}"]\n\n{text}')[-1], "uci_notation from_square to_square piece") == last


def test_other_spellings_of_a_move_are_read_and_written_in_one_way() -> None:
    """san_notation is python-chess's, whatever the file wrote."""
    text = "1. e2-e4! d7d5 2. e4:d5 Ng8-f6 3. Pc4 e5+?? 4. dxe6e.p. Bxe6 5. Nf3 Bb4+ 6. Nc3 0-0 7. Be2 Re8 8. o-o +- *"
    game = one(text)
    assert sans(game) == "e4 d5 exd5 Nf6 c4 e5 dxe6 Bxe6 Nf3 Bb4 Nc3 O-O Be2 Re8 O-O"
    assert [move["nags"] for move in payloads(game) if move["nags"]] == [[1], [4], [18]]


def test_promotions_as_many_programs_write_them() -> None:
    """``a8(Q)`` and ``a8/Q`` are promotions, checks included; a bracket behind another move is a sideline."""
    for text in ("a8(Q)", "a8/Q", "a8(q)", "a7a8(Q)", "a7-a8/Q"):
        game = one(f'[FEN "8/P7/8/8/7k/8/7K/8 w - - 0 1"]\n\n1. {text} Kh5 *')
        assert (sans(game), payloads(game)[0]["variations"]) == ("a8=Q Kh5", 0)
    assert sans(one('[FEN "1r5k/P7/8/8/8/8/7K/8 w - - 0 1"]\n\n1. axb8(R)+ Kg7 *')) == "axb8=R+ Kg7"
    sidelines = one('[FEN "8/P6k/8/8/8/8/7K/R7 w - - 0 1"]\n\n1. Rb1 (1. a8(Q)) Kg6 2. Rb8(2. a8(R)) *')
    assert (sans(sidelines), [move["variations"] for move in payloads(sidelines)]) == ("Rb1 Kg6 Rb8", [1, 0, 1])


def test_move_numbers_with_a_bracket() -> None:
    """``3) Nf3`` is a numbered move, in sidelines too; a number in front of another sideline's end is none."""
    game = one("1) e4 e5 2) Nf3 (2) Nc3 Nf6) Nc6 3) Bb5 *")
    assert (sans(game), game.warnings) == ("e4 e5 Nf3 Nc6 Bb5", [])
    assert [move["variations"] for move in payloads(game)] == [0, 0, 1, 0, 0]
    assert sans(one('[White "Ana"]\n\n1. e4 (1. d4 d5 2) e5 2. Nf3 *')) == "e4 e5 Nf3"
    first, second = whole("1) e4 e5 *\n\n1) d4 d5 *")
    assert (sans(first), sans(second)) == ("e4 e5", "d4 d5")


def test_times_without_hours() -> None:
    """``[%clk 1:40]`` is minutes and seconds, a number alone is seconds."""
    made = moves("1. e4 {[%clk 1:40]} e5 {[%clk 90:00.5]} 2. Nf3 {[%emt 0.01]} Nc6 {[%emt 7]} 3. Bb5 {[%clk 1:75]} *")
    assert [(move["clock"], move["thinking_time"]) for move in made] == [
        (100.0, None),
        (5400.5, None),
        (None, 0.01),
        (None, 7.0),
        (None, None),
    ]
    assert [move["commands"] for move in made] == [[], [], [], [], ["[%clk 1:75]"]]


def test_comments_glyphs_and_sidelines_go_with_their_move() -> None:
    """The main line is kept; sidelines are counted where they branch, nested ones in the game's total."""
    text = """{ Before.  } 1. e4 { one } $1 $146 ( 1. d4 d5 ( 1... Nf6 { no ) } ) 2. c4 ) ( 1. c4 ) { two
    lines } 1... e5 ; to the end ( of the line
    2. Nf3 {} 1/2-1/2 { after }"""
    game = one(text)
    first, second, third = payloads(game)
    assert sans(game) == "e4 e5 Nf3"
    assert some(first, "comment nags variations") == ["one two\n    lines", [1, 146], 2]
    assert some(second, "comment nags variations") == ["to the end ( of the line", [], 0]
    assert some(third, "comment nags variations") == ["after", [], 0]
    assert payloads(game, "GameStarted")[0]["comment"] == "Before."
    assert payloads(game, "GameEnded")[0]["variations_total"] == 3


def test_stray_signs_are_told_and_cost_nothing() -> None:
    """A bracket that closes nothing, a glyph that is none and a clock that cannot be read are warnings."""
    game = one("1. e4 ) e5 $999 $99999999999999999999 2. Nf3 {[%clk soon]} !?!? *")
    assert sans(game) == "e4 e5 Nf3"
    assert game.warnings == [
        "line 1: a ')' closes nothing",
        "line 1: there is no glyph '$999'",
        "line 1: there is no glyph '$99999999999'",
        "line 1: '[%clk soon]' cannot be read",
        "line 1: there is no glyph '!?!?'",
    ]


@pytest.mark.parametrize("command", ["[%emt 99:99:99]", "[%emt 0:60:00]", "[%clk 0:00:60]"])
def test_minutes_and_seconds_end_at_59(command: str) -> None:
    """A time with more minutes or seconds than there are cannot be read: a warning, and no time."""
    game = one(f"1. e4 {{{command}}} *")
    (move,) = payloads(game)
    assert some(move, "clock thinking_time commands") == [None, None, [command]]
    assert game.warnings == [f"line 1: {command!r} cannot be read"]


def test_commands_in_comments_are_read_and_the_rest_of_the_comment_is_kept() -> None:
    """Clocks and evaluations become fields; unknown commands are kept verbatim, the text without any."""
    (move,) = moves("1. e4 { sharp [%clk 0:09:59.25] [%eval -0.29,21] [%cal Ge2e4,Rd7d5] play } *")
    assert some(move, "clock evaluation comment commands") == [
        599.25,
        {"cp": -29, "depth": 21},
        "sharp play",
        ["[%cal Ge2e4,Rd7d5]"],
    ]


@cases(
    "command, evaluation",
    [
        ("0.25", {"cp": 25}),
        ("+1", {"cp": 100}),
        (".5,9", {"cp": 50, "depth": 9}),
        ("#3", {"mate": 3}),
        ("#-12,40", {"mate": -12, "depth": 40}),
        ("nan", None),
        ("99999999999999999999", None),
    ],
)
def test_an_evaluation_is_centipawns_or_moves_to_mate(command: str, evaluation: dict[str, int] | None) -> None:
    """From White's side; what cannot be read is kept as a command."""
    (move,) = moves(f"1. e4 {{[%eval {command}]}} *")
    assert move["evaluation"] == evaluation
    assert bool(move["commands"]) is (evaluation is None)


def test_thinking_time_is_the_emt_where_there_is_one() -> None:
    """It counts before the clocks, and sim_time is the sum so far."""
    game = one("1. e4 {[%emt 0:00:02.5] [%clk 0:05:00]} e5 {[%emt 0:01:00]} 2. Nf3 {[%emt 0:00:00.1]} 1-0")
    assert [move["thinking_time"] for move in payloads(game)] == [2.5, 60.0, 0.1]
    assert [draft["sim_time"] for draft in game.drafts] == [0.0, 2.5, 62.5, 62.6, 62.6]
    assert payloads(game, "GameStarted")[0]["sim_time_unit"] == "seconds"
    assert payloads(game, "GameEnded")[0]["thinking_time_total"] == 62.6


@cases(
    "control, times",
    [
        ("300+2", [3.0, 12.0, 6.5, 5.0]),
        ("300", [1.0, 10.0, 4.5, 3.0]),
        ("?", [None, None, 4.5, 3.0]),
        ("40/300+2:900", [3.0, 12.0, 6.5, 5.0]),
    ],
)
def test_thinking_time_is_the_difference_of_the_clocks_and_the_increment(
    control: str, times: list[float | None]
) -> None:
    """Each player has a clock; without a TimeControl the first move's time is unknown and the increment none."""
    text = "1. e4 {[%clk 0:04:59]} e5 {[%clk 0:04:50]} 2. Nf3 {[%clk 0:04:54.5]} Nc6 {[%clk 0:04:47]} *"
    game = one(f'[TimeControl "{control}"]\n\n{text}')
    assert [move["thinking_time"] for move in payloads(game)] == times
    assert [move["clock"] for move in payloads(game)] == [299.0, 290.0, 294.5, 287.0]
    plies = payloads(game, "GameStarted")[0]["sim_time_unit"] == "plies"
    assert plies is (None in times)


def test_the_next_period_of_the_time_control_is_no_negative_time() -> None:
    """After the moves of a period the clock rises by the next period's time."""
    text = "1. e4 {[%clk 0:00:50]} e5 {[%clk 0:00:40]} 2. Nf3 {[%clk 0:00:30]} Nc6 {[%clk 0:00:30]}"
    made = moves(f'[TimeControl "2/60:120"]\n\n{text} 3. d4 {{[%clk 0:02:20]}} d5 {{[%clk 0:02:00]}} *')
    assert [move["thinking_time"] for move in made] == [10.0, 20.0, 20.0, 10.0, 10.0, 30.0]


def test_a_clock_that_goes_up_leaves_the_time_unknown() -> None:
    """A negative difference is no thinking time: null, a warning, and plies as sim_time for the whole game."""
    game = one('[TimeControl "60"]\n\n1. e4 {[%clk 0:00:50]} e5 {[%clk 0:01:10]} 2. Nf3 {[%clk 0:00:45]} *')
    assert [move["thinking_time"] for move in payloads(game)] == [10.0, None, 5.0]
    assert [draft["sim_time"] for draft in game.drafts] == [0.0, 1.0, 2.0, 3.0]
    assert game.warnings == ["ply 2: the clock went up; thinking_time is unknown"]


def test_one_unknown_time_makes_plies_of_the_whole_games_sim_time() -> None:
    """Seconds and plies are never mixed within a game."""
    game = one("1. e4 {[%emt 0:00:02]} e5 2. Nf3 {[%emt 0:00:03]} 0-1")
    assert [move["thinking_time"] for move in payloads(game)] == [2.0, None, 3.0]
    assert [draft["sim_time"] for draft in game.drafts] == [0.0, 1.0, 2.0, 3.0, 3.0]
    assert payloads(game, "GameEnded")[0]["thinking_time_total"] is None


def test_a_player_against_itself_is_one_agent_of_two_colours() -> None:
    """Equal names are legal; player tells the colours apart."""
    game = one('[White "Ana"]\n[Black "Ana"]\n\n1. e4 e5 *')
    assert [some(move, "agent_id player") for move in payloads(game)] == [["Ana", "white"], ["Ana", "black"]]
