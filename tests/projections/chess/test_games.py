"""One row for each chess world, with the game as it stands."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import chess
import pytest
from hypothesis import given
from worldledger_chess.projections.games import Games, row_of_state
from worldledger_chess.rules import RULESET
from worldledger_projections.base import EARLIEST, LATEST

from tests.projections.chess.logs import chess_logs, effects_of, ended, moved, rejected, started, state_of
from tests.projections.playing import CUTS, Cuts, at, play, the_row
from worldledger.effects import Effect

GAMES = Games()


def row_of(log: list[Effect], cuts: Cuts = ()) -> dict[str, Any]:
    """Return the row that a log makes."""
    return the_row(GAMES, play(GAMES, log, RULESET, cuts))


def test_a_world_without_a_game_has_a_row_that_says_so() -> None:
    """The world is there from its genesis on, the game is not."""
    row = row_of(effects_of([moved("e2e4")], experiment="trial"))
    filled = {name: value for name, value in row.items() if value is not None}
    assert filled == {
        "world_id": "w",
        "game_id": "w",
        "experiment": "trial",
        "plies": 0,
        "illegal_moves_attempted": 0,
    }


def test_a_game_that_goes_on() -> None:
    """The row has what its GameStarted said and where the game stands."""
    facts = {"event": "Cup", "site": "Here", "date": "2026.01.01", "round": "3", "time_control": "180+2"}
    agents = {"white": "engine-1", "black": "engine-2"}
    moves = [moved("e2e4", thinking_time=1.5), moved("e7e5"), moved("g1f3", thinking_time=0.25)]
    row = row_of(effects_of([started(agents=agents, **facts), *moves]))
    assert row == {
        "world_id": "w",
        "game_id": "w",
        "experiment": None,
        "white": "Ann",
        "black": "Bob",
        "white_agent_id": "engine-1",
        "black_agent_id": "engine-2",
        "variant": "standard",
        "initial_fen": chess.STARTING_FEN,
        "fen": "rnbqkbnr/pppp1ppp/8/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R b KQkq - 1 2",
        "turn": "black",
        "status": "in_progress",
        "result": None,
        "reason": None,
        "raw_result": None,
        "plies": 3,
        "illegal_moves_attempted": 0,
        "thinking_time_white": 1.75,
        "thinking_time_black": None,
        **facts,
        "started_at": at(2),
        "ended_at": None,
        "last_updated": at(5),
        "started_seq": 2,
        "ended_seq": None,
    }


def test_a_game_that_is_over_stays_as_it_was() -> None:
    """Nothing counts after the GameEnded."""
    over = [started(), moved("e2e4"), ended("resigned", "white_wins", reason="resignation", raw_result="1-0")]
    log = effects_of([*over, moved("e7e5"), rejected(), ended("draw", "draw"), started(white="Eve")])
    row = row_of(log)
    assert row == row_of(log[:4])
    assert (row["status"], row["result"], row["reason"]) == ("resigned", "white_wins", "resignation")
    assert (row["raw_result"], row["ended_at"], row["ended_seq"], row["plies"]) == ("1-0", at(4), 4, 1)


@pytest.mark.parametrize("cut", range(1, 7))
def test_a_second_start_counts_for_nothing(cut: int) -> None:
    """One world is one game."""
    log = effects_of([started(), moved("e2e4"), started(white="Eve"), moved("e7e5")])
    row = row_of(log, [(cut, True)])
    assert (row["white"], row["plies"], row["started_seq"]) == ("Ann", 2, 2)


def test_what_cannot_be_read_counts_for_nothing() -> None:
    """As in the fold: a start without players, a move out of turn, an illegal one, an ending in other words."""
    drafts = [
        {"kind": "GameStarted", "payload": {"white": "Ann"}},
        started(),
        moved("e7e5"),
        moved("e2e5"),
        moved("e2e4", player="black"),
        rejected(player="nobody"),
        ended("lost", "white_wins"),
    ]
    row = row_of(effects_of(drafts))
    assert (row["started_seq"], row["plies"], row["status"], row["last_updated"]) == (3, 0, "in_progress", at(3))


def test_facts_of_another_type_are_unknown() -> None:
    """What an import said in numbers is no text."""
    log = effects_of([started(event=7, round=["1"]), ended("draw", "draw", raw_result=0.5)])
    row = row_of(log)
    assert (row["event"], row["round"], row["raw_result"]) == (None, None, None)


@pytest.mark.parametrize(("wall_time", "told"), [(1e300, LATEST), (-1e300, EARLIEST), (-1.5, None)])
def test_times_that_no_calendar_has_stand_at_its_ends(wall_time: float, told: datetime | None) -> None:
    """An export made by hand may have any number there."""
    row = row_of(effects_of([{**started(), "wall_time": wall_time}]))
    assert row["started_at"] == (told or datetime(1969, 12, 31, 23, 59, 58, 500000, UTC))


@given(chess_logs(), CUTS)
def test_the_row_is_what_the_fold_says_wherever_batches_end(log: list[Effect], cuts: Cuts) -> None:
    """Position, standing and counts are those of the state, and the row is the same however the log is cut."""
    row = row_of(log, cuts)
    assert row == row_of(log)
    entities = state_of(log).entities
    if "board" not in entities:
        assert row["status"] is row["started_at"] is row["last_updated"] is None
        return
    board, white, black = entities["board"], entities["white"], entities["black"]
    names = ("initial_fen", "variant", "fen", "turn", "status", "result", "reason")
    assert {name: row[name] for name in names} == {name: board[name] for name in names}
    assert row["plies"] == board["ply"] == white["moves"] + black["moves"]
    assert row["illegal_moves_attempted"] == white["illegal_moves_attempted"] + black["illegal_moves_attempted"]
    for color, player in (("white", white), ("black", black)):
        assert (row[color], row[f"{color}_agent_id"]) == (player["name"], player["agent_id"])
        assert row[f"thinking_time_{color}"] == (player["thinking_time"] if player["timed_moves"] else None)
    for name in ("started_at", "ended_at", "last_updated"):
        assert (row[name] and row[name].timestamp()) == board[name]
    told = row_of_state("w", entities)
    assert told.keys() == row.keys()
    assert {**row, **{name: value for name, value in told.items() if value is not None}} == row
