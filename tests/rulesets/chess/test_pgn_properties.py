"""What holds for every game and for any bytes."""

from __future__ import annotations

import io
import random

import chess
import chess.pgn
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from worldledger_chess.rules.pgn import BrokenGame, RecordedGame, read_games

from worldledger.drafts import check_draft
from worldledger.errors import FileRefusedError

from .recorded import one, payloads

STARTS = ("standard", "chess960", "endgame")


def start(kind: str, rng: random.Random) -> chess.Board:
    """Return a position to start from."""
    if kind == "chess960":
        return chess.Board.from_chess960_pos(rng.randrange(960))
    return chess.Board("8/P2k4/8/2pP4/8/8/4p1PP/R3K2R w KQ c6 0 1") if kind == "endgame" else chess.Board()


def playout(kind: str, rng: random.Random, plies: int) -> chess.pgn.Game:
    """Play random legal moves, with a comment, a glyph, a clock and a sideline here and there."""
    board = start(kind, rng)
    game = chess.pgn.Game()
    game.setup(board)
    game.headers.update({"White": rng.choice(["Ana", "Žofie", '"Q"', "?"]), "Black": "Bo", "Date": "2024.01.02"})
    node: chess.pgn.GameNode = game
    while not board.is_game_over() and board.ply() < plies:
        legal = list(board.legal_moves)
        move = rng.choice(legal)
        node = node.add_variation(move)
        if rng.random() < 0.1 and len(legal) > 1:
            node.parent.add_variation(rng.choice([other for other in legal if other != move]), comment="else (1. e4")
        if rng.random() < 0.1:
            node.comment = rng.choice(["so", "1-0 [not a tag]", '\n\n[White "x"]\n', "; % ("])
        if rng.random() < 0.2:
            node.set_clock(rng.randrange(100_000) / 10)
            node.nags.add(rng.randrange(1, 140))
        board.push(move)
    game.headers["Result"] = board.result()
    return game


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(STARTS), st.integers(0, 2**32), st.integers(0, 120))
def test_any_playout_that_python_chess_writes_comes_back(kind: str, seed: int, plies: int) -> None:
    """The moves, the last position, the result and the number of sidelines are what python-chess wrote."""
    game = playout(kind, random.Random(seed), plies)
    read = one(str(game))
    board = game.end().board()
    assert [move["uci_notation"] for move in payloads(read)] == [move.uci() for move in board.move_stack]
    assert [move["variations"] for move in payloads(read)] == [
        len(node.parent.variations) - 1 for node in game.mainline()
    ]
    assert read.final_fen == board.fen()
    outcome = board.outcome()
    if outcome is None:
        assert read.status == "in_progress"
    else:
        winner = {None: "draw", True: "white_wins", False: "black_wins"}[outcome.winner]
        assert read.result == winner
    assert [warning for warning in read.warnings if "the clock went up" not in warning] == []
    check(read)


def check(game: RecordedGame) -> None:
    """Check what is promised of every game's drafts."""
    times = [draft["sim_time"] or 0.0 for draft in game.drafts]
    assert times == sorted(times)
    kinds = [draft["kind"] for draft in game.drafts]
    assert kinds[0] == "GameStarted"
    assert kinds[1 : game.moves + 1] == ["MoveMade"] * game.moves
    assert kinds[game.moves + 1 :] in ([], ["GameEnded"], ["MoveRejected", "GameEnded"])
    for draft in game.drafts:
        check_draft(draft)


def take(data: bytes) -> None:
    """Read bytes, of which every game must be whole or broken, or the file refused."""
    try:
        for game in read_games(io.BytesIO(data), name="any", max_game_bytes=2000):
            if isinstance(game, BrokenGame):
                assert game.reason
            else:
                check(game)
    except FileRefusedError:
        pass


@given(st.binary(max_size=400))
@example(b"\xff\xfe")
@example(b'\xff\xfe[\0A\0 \0"\0\0\xd8"\0]\0')
@example(b"[A\n")
@example(b'[A "')
def test_any_bytes_give_games_broken_games_or_a_refusal(data: bytes) -> None:
    """Nothing but FileRefusedError is ever raised."""
    take(data)


PIECES = [
    '[White "A"]', '[Result "Illegal move by A"]', '[FEN "4k3/8/8/8/8/8/8/4K2R w K - 0 1"]', '[Variant "Atomic"]',
    '[Variant "Crazyhouse"]', '[TimeControl "2/60+1:60"]', "[", "]", '"', "\\", "\n", "\n\n", "\r", " ", "%", ";", "{",
    "}", "(", ")", "1.", "1...", "e4", "e5", "Nf3", "Nc6", "O-O", "e8=Q", "--", "P@e4", "Kxe1", "1-0", "*", "1/2-1/2",
    "Illegal move (a1a1) by A", "Illegal ", "$1", "$999999", "?!", "+-", "[%clk 0:00:10]", "[%emt 9:99:99.9]",
    "[%eval #-1]", "[%", "\0", "\ufeff", "é", "½-½", "٣",
]  # fmt: skip


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from(["", " "]), st.sampled_from(["utf-8", "utf-16"]))
def test_any_pieces_of_pgn_give_games_broken_games_or_a_refusal(pieces: list[str], glue: str, encoding: str) -> None:
    """The same for what looks more like PGN; what comes out whole passes the write gate."""
    take(glue.join(pieces).encode(encoding))
