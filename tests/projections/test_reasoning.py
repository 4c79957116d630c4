"""One row for each reasoning that was recorded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from worldledger_simulation.projections.turns import Reasoning
from worldledger_simulation.rules import RULESET

from tests.projections.playing import CUTS, Cuts, at, dicts, play, the_row
from tests.projections.simulations import (
    added,
    changed,
    reasoned,
    removed,
    simulation,
    simulation_logs,
    started,
    turn_started,
)
from worldledger.effects import Effect
from worldledger.folding import Fold

REASONING = Reasoning()


def test_a_row_says_what_was_recorded() -> None:
    """Who reasoned in which turn, the text, and what is told of the model."""
    log = simulation(
        started({"Ann": {"gold": 1}}),
        turn_started(3),
        reasoned("engine", "Food is dear: I sell.", agent_id="Ann", model="m-1", token_count=17),
    )
    assert the_row(REASONING, play(REASONING, log, RULESET)) == {
        "world_id": "w",
        "global_seq": 4,
        "turn": 3,
        "agent_id": "Ann",
        "reasoning": "Food is dear: I sell.",
        "content": '"Food is dear: I sell."',
        "model": "m-1",
        "token_count": 17,
        "sim_time": 4.0,
        "recorded_at": at(4),
    }


@pytest.mark.parametrize(
    ("reasoning", "text"),
    [({"b": [1.0, "ž"], "a": None}, '{"a":null,"b":[1.0,"ž"]}'), ([], "[]"), ("", "")],
)
def test_reasoning_may_be_an_object_or_a_list(reasoning: Any, text: str) -> None:
    """Then its text is its JSON; nothing is told of a model that nobody named."""
    log = simulation(started({"Ann": {}}), reasoned("Ann", reasoning))
    row = the_row(REASONING, play(REASONING, log, RULESET))
    assert (row["reasoning"], row["content"]) == (text, text or '""')
    assert (row["turn"], row["model"], row["token_count"]) == (0, None, None)


def test_what_the_fold_cannot_read_has_no_row() -> None:
    """Nor has the reasoning of somebody who is not there: not yet, or not any more."""
    log = simulation(
        reasoned("Ann", "too early"),
        started({"Ann": {"gold": 1}}),
        reasoned("Ann", 5),
        reasoned("Ann", "a", token_count=-1),
        reasoned("Ann", "a", model=""),
        reasoned("Bob", "not there"),
        added("Bob"),
        reasoned("Bob", "here"),
        removed("Bob"),
        reasoned("Bob", "gone"),
        changed("Ann", gold=2),
        reasoned("Ann", "still here"),
    )
    for cuts in ([], [(n, True) for n in (2, 1, 4, 2, 2)]):
        rows = dicts(REASONING, play(REASONING, log, RULESET, cuts))
        assert [(row["agent_id"], row["reasoning"]) for row in rows] == [("Bob", "here"), ("Ann", "still here")]


@given(simulation_logs(), CUTS)
def test_rows_are_what_the_fold_takes_wherever_batches_end(log: list[Effect], cuts: Cuts) -> None:
    """A reasoning has a row in the turn that the state has, unless the fold counts it as malformed."""
    folded = Fold("w", RULESET)
    expected = []
    for effect in log:
        malformed = folded.state.metadata["malformed_effects"]
        folded.apply(effect)
        if effect["kind"] == "ReasoningRecorded" and folded.state.metadata["malformed_effects"] == malformed:
            expected.append((effect["global_seq"], folded.state.metadata["turn"], effect["source_id"]))
    rows = dicts(REASONING, play(REASONING, log, RULESET, cuts))
    assert [(row["global_seq"], row["turn"], row["agent_id"]) for row in rows] == expected
