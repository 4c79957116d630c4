"""One row for each move that was made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from worldledger_chess.projections.moves import Moves
from worldledger_chess.rules import RULESET

from tests.projections.chess.logs import chess_logs, effects_of, ended, moved, started, state_of
from tests.projections.playing import CUTS, Cuts, at, dicts, play
from worldledger.effects import Effect

MOVES = Moves()


def rows_of(log: list[Effect], cuts: Cuts = ()) -> list[dict[str, Any]]:
    """Return the rows that a log makes."""
    return dicts(MOVES, play(MOVES, log, RULESET, cuts))


def test_a_move_in_few_words_has_a_whole_row() -> None:
    """What follows from the position is worked out; what nobody told is null."""
    (row,) = rows_of(effects_of([started(), moved("e2e4")]))
    assert row == {
        "world_id": "w",
        "ply": 1,
        "player": "white",
        "agent_id": "Ann",
        "from_square": "e2",
        "to_square": "e4",
        "piece": "pawn",
        "is_capture": False,
        "is_castling": False,
        "is_promotion": False,
        "promotion_piece": None,
        "uci_notation": "e2e4",
        "san_notation": "e4",
        "timestamp": None,
        "thinking_time": None,
        "clock": None,
        "evaluation": None,
        "comment": None,
        "fen": "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1",
        "global_seq": 3,
        "sim_time": 3.0,
        "recorded_at": at(3),
    }


def test_a_row_has_what_was_recorded_besides() -> None:
    """Times, the recorder's words and the evaluation, an object as JSON text."""
    said: dict[str, Any] = {
        "timestamp": "2026-02-01T12:00:00.250+02:00",
        "thinking_time": 2,
        "clock": 178.5,
        "comment": "book",
        "evaluation": {"depth": 12, "cp": 35},
    }
    (row,) = rows_of(effects_of([started(), moved("e2e4", **said)]))
    assert row["timestamp"] == datetime(2026, 2, 1, 10, 0, 0, 250000, UTC)
    assert (row["thinking_time"], row["clock"], row["comment"]) == (2.0, 178.5, "book")
    assert row["evaluation"] == '{"cp":35,"depth":12}'


@pytest.mark.parametrize(
    ("stated", "read"),
    [
        ("2026-02-01T12:00:00Z", datetime(2026, 2, 1, 12, tzinfo=UTC)),
        ("2026-02-01T12:00:00", datetime(2026, 2, 1, 12, tzinfo=UTC)),  # as datetime.utcnow() is written
        ("0001-01-01T00:00:00+05:00", None),
        ("9999-12-31T23:59:59.999999Z", None),
        ("soon", None),
        (1.7e9, None),
    ],
)
def test_a_timestamp_is_iso_text_or_unknown(stated: Any, read: datetime | None) -> None:
    """Without an offset it is UTC; what is no time at all is null."""
    (row,) = rows_of(effects_of([started(), moved("e2e4", timestamp=stated)]))
    assert row["timestamp"] == read


def test_a_move_is_of_the_agent_whose_colour_it_is() -> None:
    """Whoever sent the effect, and whoever its payload names."""
    agents = {"white": "engine-1", "black": "engine-2"}
    moves = [moved("e2e4", agent_id="somebody else"), moved("e7e5")]
    rows = rows_of(effects_of([started(agents=agents), *({**move, "source_id": "referee"} for move in moves)]))
    assert [(row["player"], row["agent_id"]) for row in rows] == [("white", "engine-1"), ("black", "engine-2")]


def test_only_moves_that_were_made_have_rows() -> None:
    """Not those before the game, after it, out of turn or against the rules; plies have no gap."""
    drafts = [moved("a2a3"), started(), moved("e2e5"), moved("e2e4"), moved("e2e4"), moved("e7e5")]
    rows = rows_of(effects_of([*drafts, ended("draw", "draw"), moved("g1f3"), started(), moved("g1f3")]))
    assert [(row["ply"], row["san_notation"], row["global_seq"]) for row in rows] == [(1, "e4", 5), (2, "e5", 7)]


@given(chess_logs(), CUTS)
def test_rows_are_the_moves_of_the_fold_wherever_batches_end(log: list[Effect], cuts: Cuts) -> None:
    """There are as many as the state counts, of the same agents and times, and the last is its last move."""
    rows = rows_of(log, cuts)
    assert rows == rows_of(log)
    entities = state_of(log).entities
    if "board" not in entities:
        assert not rows
        return
    board = entities["board"]
    assert [row["ply"] for row in rows] == list(range(1, board["ply"] + 1))
    for color in ("white", "black"):
        own = [row for row in rows if row["player"] == color]
        assert len(own) == entities[color]["moves"]
        assert {row["agent_id"] for row in own} <= {entities[color]["agent_id"]}
        assert len([row for row in own if row["thinking_time"] is not None]) == entities[color]["timed_moves"]
        clocks = [row["clock"] for row in own if row["clock"] is not None]
        assert (clocks[-1] if clocks else None) == entities[color]["clock"]
    if rows:
        last = rows[-1]
        assert last["fen"] == board["fen"]
        assert {name: last[name] for name in board["last_move"]} == board["last_move"]
