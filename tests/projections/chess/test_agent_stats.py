"""One row for each chess game and agent, by the rules of AgentStats."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from worldledger_chess.projections.agent_stats import AgentStats
from worldledger_chess.rules import RULESET

from tests.projections.chess.logs import Draft, chess_logs, effects_of, ended, moved, rejected, started, state_of
from tests.projections.playing import CUTS, Cuts, dicts, play
from worldledger.effects import Effect

STATS = AgentStats()


def rows_of(log: list[Effect], cuts: Cuts = ()) -> dict[str, dict[str, Any]]:
    """Return the rows that a log makes, by agent."""
    return {row["agent_id"]: row for row in dicts(STATS, play(STATS, log, RULESET, cuts))}


def counts(row: dict[str, Any]) -> dict[str, Any]:
    """Return what there is to count, without zeros."""
    return {name: value for name, value in row.items() if value and name not in {"world_id", "agent_id"}}


def test_an_unfinished_game_is_not_played() -> None:
    """Its players have rows from the start, and what they did counts at once."""
    rows = rows_of(effects_of([started(), moved("e2e4", thinking_time=1.5), moved("e7e5"), moved("g1f3")]))
    assert counts(rows["Ann"]) == {
        "total_moves": 2,
        "timed_moves": 1,
        "total_thinking_time": 1.5,
        "average_thinking_time": 1.5,
    }
    assert rows["Bob"] == {
        "world_id": "w",
        "agent_id": "Bob",
        "games_played": 0,
        "games_won": 0,
        "games_lost": 0,
        "games_drawn": 0,
        "total_moves": 1,
        "timed_moves": 0,
        "total_thinking_time": 0.0,
        "average_thinking_time": 0.0,
        "illegal_moves_attempted": 0,
        "timeouts": 0,
        "is_fork": False,
    }


@pytest.mark.parametrize(
    ("ending", "white", "black"),
    [
        (ended("checkmate", "white_wins"), "games_won", "games_lost"),
        (ended("resigned", "black_wins"), "games_lost", "games_won"),
        (ended("stalemate", "draw"), "games_drawn", "games_drawn"),
    ],
)
def test_a_finished_game_is_won_lost_or_drawn(ending: Draft, white: str, black: str) -> None:
    """The result says who won, whatever the status."""
    rows = rows_of(effects_of([started(), ending]))
    assert counts(rows["Ann"]) == {"games_played": 1, white: 1}
    assert counts(rows["Bob"]) == {"games_played": 1, black: 1}


def test_a_timeout_is_a_game_lost_on_time() -> None:
    """Only the one who lost ran out of time; in a draw nobody lost."""
    rows = rows_of(effects_of([started(), ended("timeout", "white_wins")]))
    assert counts(rows["Ann"]) == {"games_played": 1, "games_won": 1}
    assert counts(rows["Bob"]) == {"games_played": 1, "games_lost": 1, "timeouts": 1}
    drawn = rows_of(effects_of([started(), ended("timeout", "draw")]))
    assert [row["timeouts"] for row in drawn.values()] == [0, 0]


def test_illegal_moves_count_for_who_tried_them() -> None:
    """Without a player it is the one to move; a move rejected for another reason is not illegal."""
    drafts = [started(), rejected(), moved("e2e4"), rejected(reason="illegal_move"), rejected(player="white")]
    rows = rows_of(effects_of([*drafts, rejected(reason="too late")]))
    assert [row["illegal_moves_attempted"] for row in rows.values()] == [2, 1]


def test_the_average_is_over_known_times() -> None:
    """Moves whose time nobody told do not make anybody faster, and sums of milliseconds come out whole."""
    moves = [moved("e2e4", thinking_time=0.1), moved("e7e5"), moved("g1f3", thinking_time=0.2), moved("b8c6")]
    rows = rows_of(effects_of([started(), *moves, moved("f1b5")]))
    assert (rows["Ann"]["total_moves"], rows["Ann"]["timed_moves"]) == (3, 2)
    assert (rows["Ann"]["total_thinking_time"], rows["Ann"]["average_thinking_time"]) == (0.3, 0.15)
    assert rows["Bob"]["average_thinking_time"] == 0.0


def test_a_game_against_oneself_counts_once_for_each_side() -> None:
    """One row, in which won + lost + drawn = played all the same."""
    moves = [moved("e2e4", thinking_time=1.0), moved("e7e5", thinking_time=2.0)]
    (row,) = rows_of(effects_of([started(black="Ann"), *moves, rejected(), ended("timeout", "black_wins")])).values()
    assert counts(row) == {
        "games_played": 2,
        "games_won": 1,
        "games_lost": 1,
        "total_moves": 2,
        "timed_moves": 2,
        "total_thinking_time": 3.0,
        "average_thinking_time": 1.5,
        "illegal_moves_attempted": 1,
        "timeouts": 1,
    }


@given(chess_logs(), CUTS)
def test_rows_are_what_the_fold_counts_wherever_batches_end(log: list[Effect], cuts: Cuts) -> None:
    """The rows say what the state says, and are the same however the log is cut."""
    rows = rows_of(log, cuts)
    assert rows == rows_of(log)
    entities = state_of(log).entities
    sides = [entities[color] for color in ("white", "black") if color in entities]
    assert set(rows) == {side["agent_id"] for side in sides}
    for agent_id, row in rows.items():
        own = [side for side in sides if side["agent_id"] == agent_id]
        assert row["games_won"] + row["games_lost"] + row["games_drawn"] == row["games_played"]
        assert row["games_played"] == (len(own) if entities["board"]["status"] != "in_progress" else 0)
        assert row["total_moves"] == sum(side["moves"] for side in own)
        assert row["timed_moves"] == sum(side["timed_moves"] for side in own)
        assert row["total_thinking_time"] == round(sum(side["thinking_time"] for side in own), 6)
        assert row["illegal_moves_attempted"] == sum(side["illegal_moves_attempted"] for side in own)
