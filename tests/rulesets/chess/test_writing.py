"""A game's log as PGN: what is written is read as the same effects again, by us and by python-chess."""

from __future__ import annotations

import io
import logging
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import chess
import chess.pgn
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from worldledger_chess.rules.gamelog import GameLog
from worldledger_chess.rules.pgn import RecordedGame
from worldledger_chess.rules.writing import WrittenGame, plain_remarks, remarks_of, write_game

from tests.rulesets.chess.recorded import one, payloads, read, whole
from tests.rulesets.chess.test_pgn_properties import STARTS, playout
from tests.rulesets.chess.worlds import EXAMPLES, REAL, effects, games_in, moved, pgn_of, started
from worldledger.errors import FileRefusedError


def written(game: RecordedGame) -> WrittenGame:
    """Write what a recorded game became."""
    return write_game(GameLog.of(effects(game.drafts)))


def content(game: RecordedGame) -> list[Any]:
    """Return everything of a game's effects but the digest."""
    start, *rest = game.drafts
    known = {name: value for name, value in start["payload"].items() if name != "digest"}
    return [{**start, "payload": known}, *rest]


def python_chess(text: str) -> list[tuple[dict[str, str], list[str]]]:
    """Return tags and moves of every game as python-chess reads them by itself."""
    logging.getLogger("chess.pgn").setLevel(logging.CRITICAL)
    stream = io.StringIO(text)
    found = []
    while (game := chess.pgn.read_game(stream)) is not None:
        found.append((dict(game.headers), [move.uci() for move in game.mainline_moves()]))
    return found


def check(games: Sequence[RecordedGame]) -> list[WrittenGame]:
    """Check that games, written one behind the other, are read as they were by us and by python-chess."""
    texts = [written(game) for game in games]
    file = "\n".join(game.text for game in texts)
    again = whole(file)
    assert [content(game) for game in again] == [content(game) for game in games]
    for game, text, back in zip(games, texts, again, strict=True):
        assert text.same_digest == (back.digest == game.digest)
    for game, (tags, moves) in zip(games, python_chess(file), strict=True):
        assert moves == [move["uci_notation"] for move in payloads(game)]
        for name, value in payloads(game, "GameStarted")[0]["tags"].items():
            if "\n" not in value:  # python-chess undoes no escapes
                assert tags[name] == value.replace("\\", "\\\\").replace('"', '\\"')
    return texts


# -- recorded games ------------------------------------------------------------------------------------------


def test_the_example_games_come_back() -> None:
    """All of them, and all but the one that had sidelines with their digests, so that they are known again."""
    games = games_in(EXAMPLES)
    texts = check(games)
    assert [bool(text.same_digest) for text in texts] == [
        not any(move["variations"] for move in payloads(game)) for game in games
    ]
    assert {text.result for text in texts} >= {"1-0", "0-1", "1/2-1/2", "*", "Illegal move (h1e1) by Hasty Hal"}


@pytest.mark.skipif(not REAL.is_dir(), reason="the recorded games are not at hand")
def test_sixty_real_games_come_back_with_their_digests() -> None:
    """Four of them end by an illegal move, which stands in their Result."""
    texts = check(games_in(REAL))
    assert len(texts) == 60
    assert all(text.same_digest for text in texts)
    assert sum(text.result.startswith("Illegal move") for text in texts) == 4


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(STARTS), st.integers(0, 2**32), st.integers(0, 120))
def test_any_playout_comes_back(kind: str, seed: int, plies: int) -> None:
    """Random games from several beginnings, with comments, glyphs, clocks and sidelines."""
    game = one(str(playout(kind, random.Random(seed), plies)))
    (text,) = check([game])
    assert text.same_digest or any(move["variations"] for move in payloads(game))


COMMENTS = [
    "{so}", "{ a  b }", "{a\n\nb}", "{[%clk 0:01:02.5]}", "{[%emt 0:00:03]}", "{[%clk 0:01:00] hm [%emt 0:00:01.25]}",
    "{[%eval -0.29]}", "{[%eval #-3,12] bad [%csl Ra1,Gb2]}", "{[%clk never]}", "{}", "; to the end } of it\n", ";x\n",
    "{one} {two}", "$1", "!?", "$3 $14", "(1. e4 {x (y} (d4))", "()", "% no comment\n", "{[%clk 99:00:00]}", "{1-0}",
    "{[%clk 1:40]}", "{[%emt 0.01] quick}", '{a\n\n[Event "x"]\n\n1. e4}',
]  # fmt: skip
RESULTS = [
    "1-0", "0-1", "1/2-1/2", "*", "?", "½-½", " 0-1 ", "Illegal move (h2h4) by Ana", "Illegal move by black",
    "who knows", "Draw by agreement", "Ana resigned", "", "1 - 0", "0:1", "1/2 - 1/2", "1-0 forfeit",
    "0-1 Ana resigned", "0-0",
]  # fmt: skip
VALUES = [
    "Ana", "Bo", "?", "", "2024.01.02", "60+1", "3/60:60", "normal", "illegal move (e1e8)", "time forfeit", "ä b",
    '"Q"', "a\\", " x ", "[%",
]  # fmt: skip
TAGS = st.dictionaries(
    st.sampled_from(
        [
            "Event",
            "White",
            "white",
            "Black",
            "Date",
            "TimeControl",
            "Termination",
            "Annotator",
            "a+b",
            "WhiteElo",
            "result",
        ]
    ),
    st.sampled_from(VALUES),
)


@st.composite
def recordings(draw: st.DrawFn) -> str:
    """Make the text of a game from pieces that are hard to write."""
    tags = draw(TAGS)
    result = draw(st.sampled_from(RESULTS))
    if draw(st.booleans()):
        tags["Result"] = result
    board = chess.Board()
    words = [draw(st.sampled_from(["", "", *COMMENTS]))]
    for _ in range(draw(st.integers(0, 8))):
        move = draw(st.sampled_from(sorted(board.legal_moves, key=chess.Move.uci)))
        words.append(board.san_and_push(move))
        words += draw(st.lists(st.sampled_from(COMMENTS), max_size=2))
        if board.is_game_over():
            break
    escaped = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in tags.items()}
    head = "".join(f'[{name} "{value}"]\n' for name, value in escaped.items())
    end = draw(st.sampled_from(["1-0", "*", "", result if "who" not in result and result != "?" else ""]))
    return f"{head}\n{' '.join(words)} {end}\n"


def check_one(game: RecordedGame) -> None:
    """Check that a game comes back, unless it had to be changed to be told from others."""
    (back,) = whole(written(game).text)
    start = payloads(game, "GameStarted")[0]
    if not start["tags"] and (start["comment"] or not game.moves):
        return  # it gets a tag, so that it can be told from the game before it
    if game.status == "in_progress" or game.raw_result is not None or game.moves:
        assert content(back) == content(game)
    ((_, moves),) = python_chess(written(game).text)
    if "Result" not in start["tags"] and not game.moves:
        return  # python-chess takes the move of "Illegal move (h2h4)" for one
    assert moves == [move["uci_notation"] for move in payloads(game)]


@settings(max_examples=300, deadline=None)
@given(recordings())
@example('[Result "0-1"]\n\n1. e4 Illegal move (e7e4) by black')
@example('[FEN "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"]\n\n{x}')
@example("1. f3 e5 2. g4 Qh4#")
@example("1. e4 {[%clk never]} {[%clk 0:00:03]} *")
@example("{x} 1. e4 {a\nb c}; d} e\n{f} *")
def test_whatever_was_recorded_comes_back(text: str) -> None:
    """Comments of both kinds, commands, odd results, tags with quotes, missing tags: kinds, payloads and times."""
    with suppress(FileRefusedError):
        for game in read(text):
            if isinstance(game, RecordedGame):
                check_one(game)


def test_what_was_written_is_written_again() -> None:
    """Reading and writing once more changes nothing: the digest of what was written is that of its own writing."""
    for game in games_in(EXAMPLES):
        text = written(game).text
        again = written(one(text))
        assert (again.text, again.same_digest) == (text, True)


def test_a_line_break_in_a_result_becomes_a_blank() -> None:
    """PGN has none in a tag, and python-chess would take what is behind it for moves; the digest stays."""
    game = one('[White "Ana"]\n[Result "Illegal move (e2e4)\nby Ana"]\n\n1. e4 e5')
    text = written(game)
    assert '[Result "Illegal move (e2e4) by Ana"]\n' in text.text
    ((tags, moves),) = python_chess(text.text)
    assert (tags["Result"], moves) == ("Illegal move (e2e4) by Ana", ["e2e4", "e7e5"])
    back = one(text.text)
    assert (back.digest, payloads(back, "MoveRejected")) == (game.digest, payloads(game, "MoveRejected"))


def test_python_chess_reads_no_moves_in_a_result() -> None:
    """Where it would, the words stand in the tag alone, and 1-0 behind the moves."""
    for words, moves in (("Illegal move (e7e4) by Bishop e5", "1. e4"), ("Illegal move (e2e5) by white", "")):
        game = one(f'[Black "Bishop e5"]\n[Result "{words}"]\n\n{moves} {words}')
        check([game])
        assert written(game).text.split()[-1] in {"1-0", "0-1"}


def test_several_games_without_tags_stay_several() -> None:
    """Where a game without tags could not be told from the one before it, it gets its Result."""
    games = [one("1. e4 e5 1-0"), one("{hello} 1. d4 *"), one("0-1"), one("1. c4"), one("1. Nf3 Nf6 *")]
    back = whole("\n".join(written(game).text for game in games))
    assert [game.moves for game in back] == [2, 1, 0, 1, 2]
    assert [payloads(game, "GameStarted")[0]["tags"] for game in back] == [
        {},
        {"Result": "*"},
        {"Result": "0-1"},
        {},
        {},
    ]


# -- comments ------------------------------------------------------------------------------------------------


def test_comments_with_braces_are_cut() -> None:
    """A } makes it a comment to the end of the line; what no file can hold is changed a little."""
    assert plain_remarks("a } b") == ["; a } b\n"]
    assert plain_remarks("a\nb c } d") == ["{ a\nb }", "; c } d\n"]
    assert plain_remarks("a}\nb") == ["{ a)\nb }"]
    assert plain_remarks('a\n\n[Event "x"]') == ['{ a\n\n[Event "x"] }']
    assert plain_remarks('a\n\n[Event "x"] {') == ['{ a\n[Event "x"] { }']
    assert plain_remarks("  ") == []
    assert remarks_of({"comment": "a } b", "clock": 1}, elapsed=None) == ["; a } b\n", "{ [%clk 0:00:01] }"]


_WORDS = st.text(st.sampled_from("a }{[%]\n;("), max_size=12)


@given(_WORDS, st.none() | st.floats(0, 1e9), st.none() | st.integers(0, 10**9), st.booleans())
def test_any_comment_leaves_the_game_whole(text: str, clock: float | None, took: int | None, first: bool) -> None:
    """Whatever somebody says in it, the file has the same moves and clocks, but for those that PGN cannot write."""
    remarks = "".join(remarks_of({"comment": text, "clock": clock}, elapsed=took, commands_first=first))
    (back,) = whole(f"1. e4 {remarks} 1... e5 *")
    assert [move["uci_notation"] for move in payloads(back)] == ["e2e4", "e7e5"]
    assert payloads(back)[0]["thinking_time"] == (None if took is None or took >= 99_999 * 3600_000 else took / 1000)
    written_clock = None if clock is None or clock >= 99_999 * 3600 else round(clock * 1000) / 1000
    assert payloads(back)[0]["clock"] == written_clock
    (back,) = whole(pgn_of([started(), moved("e2e4", comment=text, clock=clock), moved("e7e5")]))
    assert [move["uci_notation"] for move in payloads(back)] == ["e2e4", "e7e5"]
    assert payloads(back)[0]["clock"] == written_clock
