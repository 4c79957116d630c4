"""A PGN file as bytes: which games it holds, in whatever dress, and what becomes of those that are broken."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from worldledger_chess.rules.pgn import BrokenGame, RecordedGame, read_games

from tests.cases import cases
from worldledger.errors import FileRefusedError

from .recorded import one, read, sans, whole

TAGS = '[Event "Évening"]\n[White "Ana"]\n[Black "Bo"]\n[Result "1-0"]\n'
MOVES = "1. e4 e5 {well, well} 2. Nf3 $1 (2. Nc3 Nf6) Nc6 1-0\n"
GAME = f"{TAGS}\n{MOVES}"


@pytest.mark.parametrize(
    "dress",
    [
        pytest.param(lambda text: text.encode(), id="utf-8"),
        pytest.param(lambda text: text.encode("utf-8-sig"), id="BOM"),
        pytest.param(lambda text: text.encode("latin-1"), id="latin-1"),
        pytest.param(lambda text: text.encode("utf-16"), id="utf-16"),
        pytest.param(lambda text: b"\xfe\xff" + text.encode("utf-16-be"), id="utf-16-be"),
        pytest.param(lambda text: text.replace("\n", "\r\n").encode(), id="CRLF"),
        pytest.param(lambda text: text.replace("\n", "\r").encode(), id="CR"),
        pytest.param(lambda text: text.rstrip().encode(), id="no newline at the end"),
        pytest.param(lambda text: b"\n\n  \n" + text.encode() + b"\n\n\n", id="blank lines around"),
        pytest.param(lambda text: text.replace(". ", ".").encode(), id="numbers without a blank"),
        pytest.param(lambda text: text.replace(" e5", "\n\ne5").encode(), id="blank line among the moves"),
        pytest.param(lambda text: text.replace(" e5", "\n% not for you\ne5").encode(), id="escaped line"),
        pytest.param(lambda text: text.replace('[White "', '[ White\n  "').encode(), id="tag over two lines"),
        pytest.param(lambda text: text.replace("]\n[", "] [").encode(), id="tags on one line"),
        pytest.param(lambda text: text.replace("]\n\n", "]\n").encode(), id="no blank line behind the tags"),
        pytest.param(lambda text: text.replace("]\n", "]\n\n").encode(), id="blank lines between the tags"),
        pytest.param(lambda text: text.replace("\n", " ").encode(), id="all on one line"),
    ],
)
def test_the_same_game_in_another_dress_is_the_same_game(dress: Callable[[str], bytes]) -> None:
    """Encoding, BOM, line endings and white space change neither digest, name nor drafts."""
    plain = one(GAME)
    game = one(dress(GAME))
    assert (game.digest, game.name, game.drafts) == (plain.digest, plain.name, plain.drafts)
    assert game.drafts[0]["payload"]["event"] == "Évening"


def test_white_space_inside_comments_is_kept_but_makes_no_other_game() -> None:
    """A comment that another program wrapped is verbatim in the drafts, and yet the same game by its digest."""
    plain, wide = one(GAME), one(GAME.replace(" ", "  \n"))
    assert (wide.digest, wide.name) == (plain.digest, plain.name)
    assert wide.drafts[2]["payload"]["comment"] == "well,  \nwell"


@cases(
    "old, new",
    [("Ana", "Anna"), ("Nc6", "Nf6"), ("well, well", "well"), ("Nc3", "d4"), ("$1", "$2"), ('"1-0"', '"0-1"')],
)
def test_another_tag_move_comment_or_sideline_makes_another_game(old: str, new: str) -> None:
    """What is content goes into the digest."""
    assert one(GAME.replace(old, new)).digest != one(GAME).digest


def test_a_name_is_a_slug_and_twelve_digits_of_the_digest() -> None:
    """The world's name keeps to [a-z0-9-], with its players cut and unknown parts of the date left out."""
    game = one('[White "Žofie Ångström-Smith von und zu Irgendwo"]\n[Black "Бобби"]\n[Date "2024.05.??"]\n\n1. e4 *')
    assert game.name == f"zofie-angstrom-smith-v-vs-black-2024-05-{game.digest[:12]}"


def test_several_games_come_in_order_with_number_and_line() -> None:
    """Games are counted from 1, with the line each begins at."""
    games = whole(GAME + "\n" + GAME.replace("Ana", "Cy") + "\n\n" + GAME.replace("Ana", "Di"))
    assert [(game.index, game.line) for game in games] == [(1, 1), (2, 8), (3, 16)]
    assert [game.drafts[0]["payload"]["white"] for game in games] == ["Ana", "Cy", "Di"]
    assert len({game.digest for game in games}) == 3


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("1. e4 e5 *\n\n1. d4 d5 *\n", id="behind a result"),
        pytest.param("1. e4 e5 *\n1. d4 d5 *\n", id="on the next line"),
        pytest.param("1. e4 e5\n\n1. d4 d5\n", id="without results"),
        pytest.param('[Event "a"]\n\n1. e4 e5 1-0\n\nd4 d5 *', id="without numbers"),
        pytest.param('[Event "a"]\n[Result "*"]\n\n[Event "b"]\n[Result "*"]\n\n', id="tags only"),
        pytest.param('[White "a"]\n\n[White "b"]\n', id="a tag comes again"),
        pytest.param('[White "a"]\n1. e4\n[White "b"]\n1. d4', id="no blank lines"),
        pytest.param("\ufeff1. e4 *\n\ufeff1. d4 *", id="files with BOM put together"),
    ],
)
def test_games_are_told_apart(text: str) -> None:
    """A game ends where the next one begins, with or without tags, results and blank lines."""
    assert len(whole(text)) == 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('1. e4 {one\n\n1. d4 and\n\n[White "x"]\ntwo} e5 *', id="a comment"),
        pytest.param("1. e4 (1. d4\n\n1. c4 1-0\n) e5 *", id="a sideline"),
        pytest.param('1. e4 ; [Event "x"] 1-0\ne5 *', id="a comment to the end of the line"),
        pytest.param('1. e4 e5 *\n; the end\n{really\n\n[White "x"]}\n', id="behind the result"),
        pytest.param('1. e4 {see\n\n[Event "fake"]\n[White "x"]\n\n1. d4\nend} e5 *', id="a comment with a whole game"),
        pytest.param('1. e4 {see\n\n[event "fake"]} e5 *', id="a comment that ends on the tag's line"),
    ],
)
def test_what_looks_like_a_game_inside_another_is_none(text: str) -> None:
    """Tags, results and first moves inside comments and sidelines begin no game."""
    assert sans(one(text)) == "e4 e5"


def test_text_around_the_games_is_left_out_with_a_warning() -> None:
    """Text before the first tag and behind a result is no game."""
    first, second = whole(f"From: nobody\n1. Introduction\n\n{GAME}White did well.\n\n{GAME}")
    assert first.warnings == ["line 1: text before the game was left out", "line 10: text behind the game was left out"]
    assert not second.warnings
    assert first.digest == second.digest


def test_a_missing_tag_leaves_its_field_null_and_the_colour_for_the_player() -> None:
    """Without tags players are null and the agents are white and black; ? counts as missing."""
    for text in ("1. e4 e5 *", '[White "?"]\n[Black " "]\n\n1. e4 e5 *'):
        start, *moves = one(text).drafts
        assert start["payload"]["white"] is start["payload"]["black"] is start["payload"]["date"] is None
        assert start["payload"]["agents"] == {"white": "white", "black": "black"}
        assert [move["source_id"] for move in moves] == ["white", "black"]
        assert one(text).name.startswith("white-vs-black-")


def test_all_tags_are_kept_as_raw_strings() -> None:
    """Tags of any name are kept; escapes are undone, quotes inside and a backslash at the end are taken."""
    text = r"""
[Event "The \"Big\" \\ One"]
[Site "The "Small" One"]
[Annotator "C:\games\"]
[UTCDate "2024.01.02"]
[White_2 "007"]

1. e4 *
"""
    assert one(text).drafts[0]["payload"]["tags"] == {
        "Event": 'The "Big" \\ One',
        "Site": 'The "Small" One',
        "Annotator": "C:\\games\\",
        "UTCDate": "2024.01.02",
        "White_2": "007",
    }


def test_of_a_doubled_tag_the_last_counts_with_a_warning() -> None:
    """A tag that is given twice is not silently dropped."""
    game = one('[White "Ana"]\n[White "Bea"]\n\n1. e4 *')
    assert game.drafts[0]["payload"]["white"] == "Bea"
    assert game.warnings == ["the tag White is given twice; the last one counts"]


def test_a_malformed_tag_is_left_out_with_a_warning() -> None:
    """One bad tag costs that tag only, and the warning names its line."""
    game = one('[White "Ana"]\n[Black Bo]\n[Round "3]\n[Site "x"]\n\n1. e4 *')
    assert game.drafts[0]["payload"]["tags"] == {"White": "Ana", "Site": "x"}
    assert game.warnings == ["line 2: not a tag, left out: '[Black Bo]'", "line 3: not a tag, left out: '[Round \"3]'"]


def test_a_nul_character_is_replaced_with_a_warning() -> None:
    """PostgreSQL and the write gate know no NUL."""
    game = one('[White "A\0na"]\n\n1. e4 *')
    assert game.drafts[0]["payload"]["white"] == "A\ufffdna"
    assert game.warnings == ["NUL characters were replaced by U+FFFD"]


def test_a_name_too_long_for_a_source_is_cut() -> None:
    """source_id has at most 200 characters; the tag itself is kept whole."""
    start, move = one(f'[White "{"x" * 300}"]\n\n1. e4 *').drafts
    assert len(move["source_id"]) == 200
    assert len(start["payload"]["white"]) == 300


@cases(
    "middle, reason",
    [
        ("1. e4 e5 2. Ke3 Nc6 *", "line 11: move 2. 'Ke3' is not legal in "),
        ("1. e4 e5\n2. Nf3 Nc6 3. Ne2 *", "line 12: move 3. 'Ne2' is not legal in "),
        ("1. Nf3 e5 2. d3 h6 3. Nd2 *", "line 11: move 3. 'Nd2' is ambiguous in "),
        ("1. e4 e5 2. Sf3 *", "line 11: move 2. 'Sf3' cannot be read as a move"),
        ("1. e4 white resigns here", "line 11: move 1... 'white' cannot be read as a move"),
        ("1. e4 e5 1-0 2. Nf3 *", "line 11: 'Nf3' stands behind the result 1-0"),
        ("1. e4 e5 1-0 0-1", "line 11: a second result, '0-1', in one game"),
        ("1. e4 } e5 *", "line 11: '}' does not belong in the moves"),
        ("1. e4 (1. d4 e5 *", "the sideline that line 11 opens is never closed"),
        ("1. e4 {never closed", "the comment that line 11 opens is never closed"),
        ("1. e4 e5 2. Bb5 Ke7 3. Nf3 f6 4. d4 d6 5. Nxe5 Kf7", "line 11: move 5... 'Kf7' is not legal in "),
        ("1. e4 f5 2. Qh5+ -- *", "line 11: move 2... '--' is not legal in "),
    ],
)
def test_a_broken_game_is_named_and_the_others_go_in(middle: str, reason: str) -> None:
    """An illegal or unreadable move breaks its game whole, naming number, line and move; its neighbours are taken."""
    first, broken, third = read(f'{GAME}\n[Event "broken"]\n[Result "*"]\n\n{middle}\n\n{GAME}')
    assert isinstance(first, RecordedGame)
    assert isinstance(third, RecordedGame)
    assert isinstance(broken, BrokenGame)
    assert (broken.index, broken.line) == (2, 8)
    assert broken.reason.startswith(reason)
    assert third.index == 3


@cases(
    "tags, reason",
    [
        ('[FEN "not a position"]', "the FEN tag cannot be read: "),
        ('[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]', "the position of the FEN tag cannot be played: "),
        ('[FEN "k1K5/8/8/8/8/8/8/7P w - - 0 1"]', "the position of the FEN tag cannot be played: pawns on backrank"),
        ('[FEN "k6R/8/8/8/8/8/8/7K w - - 0 1"]', "the position of the FEN tag cannot be played: opposite check"),
        ('[FEN "k7/8/8/8/8/8/8/7K w - - 0 1]', "line 3: a tag that the position hangs on cannot be read: "),
        ('[Variant "Xiangqi"]', "the variant 'Xiangqi' is not one that can be played"),
    ],
)
def test_a_position_that_cannot_be_played_breaks_the_game(tags: str, reason: str) -> None:
    """Neither an impossible position nor an unknown variant is guessed at."""
    (broken,) = read(f'[White "Ana"]\n[Black "Bo"]\n{tags}\n\n1. e4 *')
    assert isinstance(broken, BrokenGame)
    assert broken.reason.startswith(reason)


@cases(
    "data, reason",
    [
        (b"", "some.pgn:1: the file is empty"),
        (b" \n\n\r\n", "some.pgn:1: there is no game in the file, only blank lines"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "some.pgn:1: not a PGN file but binary data"),
        (b"\xff\xfe\0\0[\0\0\0", "some.pgn:1: not a PGN file but binary data"),
        (b"Dear all,\n1. First things first.\n* and more\n", "some.pgn:1: not a PGN file: no tag and no move in it"),
        (b'{"games": [1, 2]}\n', "some.pgn:1: not a PGN file: no tag and no move in it"),
        (b"x" * 10_000, "some.pgn:1: not a PGN file: no tag and no move in its first 5000 bytes"),
    ],
)
def test_what_is_no_pgn_is_refused(data: bytes, reason: str) -> None:
    """A file without any tag or move is refused by name."""
    with pytest.raises(FileRefusedError) as refused:
        read(data, max_game_bytes=5000)
    assert refused.value.message == reason
    assert refused.value.details == {"file": "some.pgn", "line": 1}


class Endless(io.RawIOBase):
    """A stream that is made while it is read, so that the test does not hold it either."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def read(self, size: int = -1, /) -> Any:
        """Return the next part, whatever the size."""
        return next(self._parts, b"")


def test_a_line_of_50_megabytes_breaks_its_game_in_bounded_memory() -> None:
    """The reader passes over what is too large and goes on with the next game."""

    def parts() -> Iterator[bytes]:
        yield f'{GAME}\n[Event "large"]\n\n1. e4 {{'.encode()
        for _ in range(800):
            yield b"x" * 65536
        yield f"}} e5 *\n\n{GAME}".encode()

    tracemalloc.start()
    try:
        games: list[Any] = list(read_games(Endless(parts()), name="large.pgn"))  # type: ignore[arg-type]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [type(game) for game in games] == [RecordedGame, BrokenGame, RecordedGame]
    assert games[1].reason == "the game is larger than 4194304 bytes"
    assert games[2].line == 12
    assert peak < 40 * 1024 * 1024


def test_a_file_is_read_game_by_game() -> None:
    """A game comes out before the rest of the file is read, so that a file of any size takes the memory of one game."""
    asked = 0

    def parts() -> Iterator[bytes]:
        nonlocal asked
        while True:
            asked += 1
            yield f"{GAME}\n".encode()

    games = read_games(Endless(parts()), name="endless.pgn")  # type: ignore[arg-type]
    assert [next(games).index for _ in range(5)] == [1, 2, 3, 4, 5]
    assert asked < 10


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_game_bytes": 100}, "the game is larger than 100 bytes"),
        ({"max_plies": 3}, "line 6: the game has more than 3 plies"),
    ],
)
def test_limits_are_settable(limits: dict[str, int], reason: str) -> None:
    """A game over a limit is broken, whatever it holds."""
    (broken,) = read(GAME, **limits)
    assert isinstance(broken, BrokenGame)
    assert broken.reason == reason


def test_a_game_with_an_effect_over_the_logs_limit_is_broken() -> None:
    """A comment that would not go through the write gate is found before anything is appended."""
    broken, game = read(f"1. e4 {{{'é' * 600_000}}} *\n\n{GAME}")
    assert isinstance(broken, BrokenGame)
    assert broken.reason == "ply 1 with its comment would make an effect of more than 1048576 bytes"
    assert isinstance(game, RecordedGame)


def test_an_unclosed_comment_costs_its_own_game_only() -> None:
    """An Event tag behind a blank line ends a comment that was never closed."""
    broken, game = read(f'[Event "x"]\n\n1. e4 {{oh\n\n{GAME}')
    assert isinstance(broken, BrokenGame)
    assert broken.reason == "the comment that line 3 opens is never closed"
    assert isinstance(game, RecordedGame)


def test_where_a_comment_that_was_never_closed_ends() -> None:
    """It ends before the Event tag behind which another comment begins, or none: all games behind it are whole."""
    open_game = '[Event "x"]\n\n1. e4 {oh\n\n'
    bare = '[Event "y"]\n[Result "*"]\n\n1. d4 d5 *\n\n'
    for text, count in (
        (open_game + 3 * bare, 4),
        (open_game + bare + GAME + "\n" + GAME, 4),
        (2 * open_game + bare, 3),
    ):
        games = read(text)
        assert [isinstance(game, RecordedGame) for game in games] == [
            index >= text.count("{oh") for index in range(count)
        ]
        assert [game.line for game in games] == [
            number for number, line in enumerate(text.splitlines(), 1) if line.startswith("[Event")
        ]
        assert "is never closed" in getattr(games[0], "reason", "")


def test_what_is_held_of_a_comment_that_was_never_closed_is_bounded() -> None:
    """Where no brace comes within the limit the comment was never closed, and the games behind it come out."""
    asked = 0

    def parts() -> Iterator[bytes]:
        nonlocal asked
        yield b'[Event "x"]\n\n1. e4 {oh\n\n'
        while True:
            asked += 1
            yield b'[Event "y"]\n\n1. d4 d5 *\n\n' * 10

    games = read_games(Endless(parts()), name="endless.pgn", max_game_bytes=2000)  # type: ignore[arg-type]
    assert [isinstance(next(games), RecordedGame) for _ in range(50)] == [False, *[True] * 49]
    assert asked < 20


def test_windows_1252_is_recognised() -> None:
    """What is no UTF-8 is Windows-1252, and Latin-1 only where a byte is no character of that."""
    for raw, name in ((b"OM\x92Kelly \x80", "OM\u2019Kelly €"), (b"J\xf6rg", "Jörg"), (b"\x81\x92", "\x81\x92")):
        assert one(b'[White "' + raw + b'"]\n\n1. e4 *').drafts[0]["payload"]["white"] == name


def test_tags_that_are_read_are_read_in_any_case() -> None:
    """The position, the players and the result count by their names in any case; the tags are kept as they stand."""
    fen = "qrknnbbr/pppppppp/8/8/8/8/PPPPPPPP/QRKNNBBR w KQkq - 0 1"
    tags = {"white": "Ana", "BLACK": "Bo", "result": "0-1", "variant": "Chess960", "Fen": fen, "setup": "1"}
    game = one("".join(f'[{name} "{value}"]\n' for name, value in tags.items()) + "\n1. e4 e5")
    start = game.drafts[0]["payload"]
    assert (start["tags"], start["white"], start["black"]) == (tags, "Ana", "Bo")
    assert (start["variant"], start["initial_fen"], game.result) == ("chess960", fen, "black_wins")
    assert not game.warnings
    both = one(f'[FEN "{fen}"]\n[Fen "nonsense"]\n[Variant "Chess960"]\n\n1. e4 *')
    assert both.drafts[0]["payload"]["initial_fen"] == fen
    (broken,) = read('[White "Ana"]\n[Fen "8/8]\n\n1. e4 *')
    assert isinstance(broken, BrokenGame)


def test_chess960_without_a_start_position_is_told_and_strictly_refused() -> None:
    """It is taken from the usual position with a warning; in strict mode any warning refuses the game."""
    text = '[White "Ana"]\n[Variant "Chess960"]\n[SetUp "1"]\n\n1. e4 e5 *'
    game = one(text)
    (warning,) = game.warnings
    assert warning.startswith("Chess960 without a start position")
    broken, good = read(f"{text}\n\n{GAME}", strict=True)
    assert broken == BrokenGame(1, 1, warning)
    assert isinstance(good, RecordedGame)
    assert isinstance(read(GAME.encode("utf-16"), strict=True)[0], RecordedGame)


def test_a_piece_of_a_game_starts_at_another_number() -> None:
    """Move numbers are no content, but a wrong one is told once."""
    game = one("1. e4 e5 3. Nf3 Nc6 5. Bb5 *")
    assert sans(game) == "e4 e5 Nf3 Nc6 Bb5"
    assert game.warnings == ["line 1: move number 3 where 2 comes next"]
