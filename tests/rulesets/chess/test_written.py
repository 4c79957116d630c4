"""What the rules write of a move and of an end, which is everything; and logs from before they did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chess
import orjson
import pytest
from worldledger_chess.rules import RULESET, Move
from worldledger_chess.rules.moves import FACTS, play_move

from tests.cases import cases
from tests.rulesets.chess.recorded import one
from tests.rulesets.chess.worlds import Table, draft, effects, started, table
from worldledger.chain import StoredEffect
from worldledger.drafts import REQUEST_DIGEST, check_draft, effect_body_digest, effect_text
from worldledger.errors import IllegalEffectError
from worldledger.folding import Fold

BEFORE = Path(__file__).with_name("before_whole_payloads.jsonl")
FOOLS_MATE = ("f2f3", "e7e5", "g2g4", "d8h4")


def test_a_move_is_written_whole() -> None:
    """Of its notation comes all that is true of it."""
    assert table().ask("MoveMade", {"uci_notation": "e2e4"}, "ana") == {
        "ply": 1,
        "player": "white",
        "agent_id": "ana",
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
        "fen": "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1",
    }


@cases(
    "fen, variant, uci, facts",
    [
        (None, None, "g1f3", {"piece": "knight", "san_notation": "Nf3"}),
        ("4k3/8/8/8/8/8/8/4K2R w K - 0 1", None, "e1g1", {"is_castling": True, "san_notation": "O-O"}),
        ("4k3/P7/8/8/8/8/8/4K3 w - - 0 1", None, "a7a8r", {"is_promotion": True, "promotion_piece": "rook"}),
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1", None, "e5d6", {"is_capture": True, "san_notation": "exd6"}),
        ("nqrkbbnr/pppppppp/8/8/8/8/PPPPPPPP/NQRKBBNR w KQkq - 0 1", "chess960", "d1c1", {"to_square": "c1"}),
        ("4k3/8/8/8/8/8/8/4K3[Q] w - - 0 1", "crazyhouse", "Q@e4", {"from_square": None, "piece": "queen"}),
    ],
)
def test_it_is_what_the_pgn_reader_would_write(fen: str | None, variant: str | None, uci: str, facts: Any) -> None:
    """The facts are those of a recorded move, in every kind of game."""
    world = table(fen, variant)
    written = world.post("MoveMade", {"uci_notation": uci})
    assert {name: written[name] for name in facts} == facts
    assert written["fen"] == world.board["fen"]
    board = type(world_board(fen, variant))(written["fen"], chess960=variant == "chess960")
    assert board.fen() == written["fen"]
    before = world_board(fen, variant)
    recorded = play_move(before, before.parse_uci(uci), ply=1, agent_id="ana")
    assert written == {name: recorded[name] for name in (*FACTS, "player", "agent_id")}


def world_board(fen: str | None, variant: str | None) -> chess.Board:
    """Return python-chess's board for what a world begins with."""
    kind = chess.variant.CrazyhouseBoard if variant == "crazyhouse" else chess.Board
    return kind(fen or chess.STARTING_FEN, chess960=variant == "chess960")


def test_what_the_draft_says_besides_is_kept() -> None:
    """Times, comments, an intent's own kind, and what nobody here knows."""
    said = {"kind": "MoveMade", "uci_notation": "e2e4", "thinking_time": 2, "clock": 58.5, "comment": "!", "x": [None]}
    written = table().ask("MoveMade", said)
    assert {name: written[name] for name in said} == said
    null = table().ask("MoveMade", {"uci_notation": "e2e4", "fen": None, "player": None, "thinking_time": None})
    assert (null["player"], null["fen"][:8], null["thinking_time"]) == ("white", "rnbqkbnr", None)


@cases("loose", ["Nf3", "Ngf3", "Ng1f3", "Nf3+"])
def test_a_loose_san_is_written_as_it_should_be(loose: str) -> None:
    """As python-chess writes it, where there is no UCI beside it."""
    assert table().ask("MoveMade", {"san_notation": loose})["san_notation"] == "Nf3"


def test_a_whole_move_is_written_as_it_came() -> None:
    """What the PGN reader wrote is the very draft that was decided on."""
    game = one("1. e4 {x [%clk 0:01:00]} e5 $1 *")
    world = Table(game.drafts[0])
    checked = check_draft(game.drafts[1])
    assert RULESET.decide(checked, world.fold.state) is checked


def test_a_written_move_is_a_move() -> None:
    """It needs no board to be read."""
    posted = [started(), draft("MoveMade", table().ask("MoveMade", {"uci_notation": "e2e4", "thinking_time": 2.34}))]
    move = Move.of(effects(posted)[1])
    assert (move.san_notation, move.piece, move.thinking_time) == ("e4", "pawn", 2.34)


def test_an_end_has_the_position_and_the_plies() -> None:
    """Also where the draft does not say them; the rest stays as it came."""
    world = table().move(*FOOLS_MATE)
    end = {"status": "checkmate", "result": "black_wins", "note": 1}
    assert world.ask("GameEnded", end) == {**end, "final_fen": world.board["fen"], "plies": 4}
    resigned = {"kind": "GameEnded", "status": "resigned", "result": "white_wins", "reason": "resignation"}
    assert table().ask("GameEnded", resigned, "bo") == {**resigned, "final_fen": chess.STARTING_FEN, "plies": 0}


@pytest.mark.parametrize(
    ("kind", "payload"),
    [("MoveMade", {"uci_notation": "e2e4"}), ("GameEnded", {"status": "draw", "result": "draw"})],
)
def test_the_same_request_is_known_again(kind: str, payload: Any) -> None:
    """The digest of what was asked for is kept with what was written."""
    world = table()
    asked = check_draft({**draft(kind, payload), "req_id": "r"})
    written = RULESET.decide(asked, world.fold.state)
    assert written.payload != asked.payload
    text = effect_text(written, world_id="w", global_seq=2, uuid="u", sim_time=0.0, wall_time=0.0)
    effect = orjson.loads(text)
    assert effect["source_metadata"][REQUEST_DIGEST] == asked.body_digest().hex()
    assert effect_body_digest(effect, text) == asked.body_digest()
    other = check_draft({**draft(kind, {**payload, "note": 1}), "req_id": "r"})
    assert effect_body_digest(effect, text) != other.body_digest()


@cases(
    "fen, variant, uci, rule",
    [
        (None, None, "e2e5", "illegal_move"),
        (None, None, "e2e2", "illegal_move"),
        (None, None, "e2e9", "illegal_move"),
        (None, None, "e7e5", "illegal_move"),
        (None, None, "0000", "illegal_move"),
        (None, None, "e2e4q", "illegal_move"),
        ("4k3/P7/8/8/8/8/8/4K3 w - - 0 1", None, "a7a8", "illegal_move"),
        ("4k3/P7/8/8/8/8/8/4K3 w - - 0 1", None, "a7a8k", "illegal_move"),
        ("4k3/8/8/8/8/8/8/4K2R w K - 0 1", None, "e1h1", "field_mismatch"),
        ("4k3/8/8/8/8/8/8/4K2R w K - 0 1", "chess960", "e1g1", "field_mismatch"),
    ],
)
def test_what_is_not_written(fen: str | None, variant: str | None, uci: str, rule: str) -> None:
    """No such square, promotion missing or superfluous, null moves, castling in the other kind's notation."""
    refusal = table(fen, variant).refused("MoveMade", {"uci_notation": uci})
    assert (refusal.details["rule"], refusal.path) == (rule, "$.payload.uci_notation")


def test_a_log_from_before_folds_to_the_same_state() -> None:
    """Its moves say as little as they were posted with; the state's digest is what it was when it was recorded."""
    lines = BEFORE.read_bytes().splitlines()
    recorded = orjson.loads(lines.pop())
    fold = Fold("w", RULESET)
    for line in lines:
        effect = orjson.loads(line)
        fold.feed([StoredEffect(effect["global_seq"], line, b"", effect["kind"], "", effect["sim_time"])])
    assert (RULESET.version, fold.state.metadata["malformed_effects"]) == (1, 5)
    assert fold.state.digest() == recorded["state_digest"]


def test_what_is_written_now_folds_to_that_state_too() -> None:
    """But for how many effects could not be read, which the rules would have refused."""
    *lines, last = BEFORE.read_bytes().splitlines()
    world = Table()
    for line in lines:
        effect = orjson.loads(line)
        if effect["source_metadata"]["good"]:
            world.post(effect["kind"], effect["payload"], effect["source_id"])
    found = orjson.loads(last)
    assert {name: world.board[name] for name in ("fen", "ply", "status", "result", "last_move")} == found["board"]


def test_a_timestamp_is_a_moment_or_none() -> None:
    """What a draft says of when it was made is a time with its offset; anything else is refused."""
    said: Any
    for said in ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+02:00", None):
        payload = {"uci_notation": "e2e4", "timestamp": said}
        assert table().ask("MoveMade", payload, "ana")["timestamp"] == said
    for said in ("noon", "2026-01-31T12:00:00", "99999-01-01T00:00:00Z", 5, 5.0, True, [], {}):
        with pytest.raises(IllegalEffectError, match="timestamp is a time in ISO 8601"):
            table().ask("MoveMade", {"uci_notation": "e2e4", "timestamp": said}, "ana")
