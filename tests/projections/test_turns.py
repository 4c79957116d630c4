"""One row for each turn of a simulation."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from worldledger_simulation.projections.turns import Turns
from worldledger_simulation.rules import RULESET

from tests.projections.playing import CUTS, Cuts, at, dicts, play
from tests.projections.simulations import (
    changed,
    reasoned,
    simulation,
    simulation_logs,
    started,
    turn_ended,
    turn_started,
    values_by_turn,
    world_changed,
)
from worldledger.effects import Effect
from worldledger.folding import Fold

TURNS = Turns()


def rows_of(log: list[Effect], cuts: Cuts = ()) -> list[dict[str, Any]]:
    """Return the rows that a log makes."""
    return dicts(TURNS, play(TURNS, log, RULESET, cuts))


def test_a_row_says_when_a_turn_was_and_what_it_changed() -> None:
    """From its start to the effect before the next; the end is told by the TurnEnded."""
    log = simulation(
        started({"Ann": {"gold": 1}}),
        turn_started(1),
        changed("Ann", gold=2),
        reasoned("Ann", "why"),
        world_changed(price=2),
        turn_ended(1),
        world_changed(price=3),
        turn_started(2),
    )
    first, second, third = rows_of(log)
    assert second == {
        "world_id": "w",
        "turn": 1,
        "started_seq": 3,
        "ended_seq": 7,
        "last_seq": 8,
        "started_sim_time": 3.0,
        "ended_sim_time": 7.0,
        "started_at": at(3),
        "ended_at": at(7),
        "changes": 3,
    }
    assert (first["turn"], first["started_seq"], first["ended_seq"], first["last_seq"]) == (0, 2, None, 2)
    assert (third["turn"], third["started_seq"], third["last_seq"], third["changes"]) == (2, 9, None, 0)


def test_only_turns_of_the_simulation_have_rows() -> None:
    """Not one that was started before it began, nor one that was before, nor one that is not the present one."""
    log = simulation(
        turn_started(4),
        world_changed(price=1),
        started(turn=2),
        turn_started(2),
        turn_started(5),
        turn_ended(2),
        started(turn=9),
    )
    assert [(row["turn"], row["started_seq"], row["ended_seq"], row["changes"]) for row in rows_of(log)] == [
        (2, 4, None, 0),
        (5, 6, None, 0),
    ]


@given(simulation_logs(), CUTS)
def test_rows_are_the_turns_of_the_fold_wherever_batches_end(log: list[Effect], cuts: Cuts) -> None:
    """A turn's span is the effects after which the state has that turn, and no effect is in two."""
    rows = rows_of(log, cuts)
    assert rows == rows_of(log)
    assert [row["turn"] for row in rows] == sorted(values_by_turn(log))
    folded = Fold("w", RULESET)
    seqs: dict[int, list[int]] = {}
    for effect in log:
        folded.apply(effect)
        if "global" in folded.state.entities:
            seqs.setdefault(folded.state.metadata["turn"], []).append(effect["global_seq"])
    ends = [(row["started_seq"], row["last_seq"] or len(log)) for row in rows]
    assert ends == [(seqs[turn][0], seqs[turn][-1]) for turn in sorted(seqs)]
    assert [row["last_seq"] is None for row in rows] == [False] * (len(rows) - 1) + [True] * bool(rows)
    for row, (start, end) in zip(rows, ends, strict=True):
        kinds = [effect["kind"] for effect in log[start - 1 : end]]
        assert row["changes"] == kinds.count("AgentStateChanged") + kinds.count("GlobalStateChanged")
