"""One row for each value that a turn left other than the turn before."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from worldledger_simulation.projections.state_variables import MAX_KEY, StateVariables
from worldledger_simulation.rules import RULESET

from tests.projections.playing import CUTS, Cuts, Rows, at, dicts, play
from tests.projections.simulations import (
    added,
    changed,
    last_changes,
    removed,
    simulation,
    simulation_logs,
    started,
    turn_ended,
    turn_started,
    values_by_turn,
    world_changed,
    written,
)
from worldledger.effects import Effect

VARIABLES = StateVariables()


def rows_of(log: list[Effect], cuts: Cuts = ()) -> list[dict[str, Any]]:
    """Return the rows that a log makes."""
    return dicts(VARIABLES, play(VARIABLES, log, RULESET, cuts))


def told(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Return some columns of rows."""
    return [tuple(row[name] for name in names) for row in rows]


def dense(rows: Rows, turns: list[int]) -> dict[int, dict[tuple[str, str], str]]:
    """Return the value of each path in each of the turns, from the rows alone."""
    found: dict[int, dict[tuple[str, str], str]] = {turn: {} for turn in turns}
    for row in dicts(VARIABLES, rows):  # a path's turns follow one another
        for turn in turns:
            if turn < row["turn"]:
                continue
            if row["removed"]:
                del found[turn][row["agent"], row["path"]]
            else:
                found[turn][row["agent"], row["path"]] = row["value"]
    return found


def test_a_row_says_what_a_turn_left() -> None:
    """The value and its type, what it was before, and the effect that changed it."""
    log = simulation(started({"Ann": {"gold": 1.5}}), turn_started(1), changed("Ann", gold=2.5))
    first, second = rows_of(log)
    assert second == {
        "world_id": "w",
        "turn": 1,
        "agent": "Ann",
        "variable": "gold",
        "path": "gold",
        "value": "2.5",
        "number": 2.5,
        "text": None,
        "flag": None,
        "removed": False,
        "previous": "1.5",
        "global_seq": 4,
        "sim_time": 4.0,
        "recorded_at": at(4),
    }
    assert first == {
        **second,
        "turn": 0,
        "value": "1.5",
        "number": 1.5,
        "previous": None,
        "global_seq": 2,
        "sim_time": 2.0,
        "recorded_at": at(2),
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, ("3", 3.0, None, None)),
        (2**53 - 1, ("9007199254740991", 9007199254740991.0, None, None)),
        (-0.25, ("-0.25", -0.25, None, None)),
        ("žluť", ('"žluť"', None, "žluť", None)),
        ("", ('""', None, "", None)),
        (True, ("true", None, None, True)),
        (False, ("false", None, None, False)),
        (None, ("null", None, None, None)),
        ({}, ("{}", None, None, None)),
        ([], ("[]", None, None, None)),
    ],
)
def test_a_value_stands_in_the_column_of_its_type(value: Any, expected: tuple[Any, ...]) -> None:
    """Whole numbers are numbers too; null, {} and [] are told by the JSON alone."""
    (row,) = rows_of(simulation(started(world={"x": value})))
    assert (row["value"], row["number"], row["text"], row["flag"]) == expected
    assert (row["agent"], row["variable"], row["removed"]) == ("global", "x", False)


def test_leaves_have_rows_under_their_paths() -> None:
    """Objects and lists are their leaves; a key that would make a path ambiguous is quoted."""
    world = {
        "inventory": {"food": 1, "Agriculture Town": {"population": 2}},
        "history": [3, [4]],
        "prices": {"a.b": 5, "a": {"b": 6}, "": 7, "[0]": 8, 'q"': 9},
        "agents": {"Trader_1": {"gold": 10}},
    }
    rows = rows_of(simulation(started(world=world)))
    assert dict(told(rows, "path", "value")) == {
        "inventory.food": "1",
        "inventory.Agriculture Town.population": "2",
        "history[0]": "3",
        "history[1][0]": "4",
        'prices["a.b"]': "5",
        "prices.a.b": "6",
        'prices[""]': "7",
        'prices["[0]"]': "8",
        'prices["q\\""]': "9",
        "agents[Trader_1].gold": "10",
    }
    assert {row["path"]: row["variable"] for row in rows}["history[1][0]"] == "history"


def test_an_agents_name_is_no_variable() -> None:
    """But a global variable of that name is one."""
    rows = rows_of(simulation(started({"Ann": {"gold": 1}}, {"name": "Town"})))
    assert told(rows, "agent", "path") == [("Ann", "gold"), ("global", "name")]


def test_a_turn_has_the_last_of_its_values() -> None:
    """However often a value changes in it, wherever a batch ends."""
    log = simulation(started({"Ann": {"gold": 1}}), turn_started(1), changed("Ann", gold=2), changed("Ann", gold=3))
    for cuts in ([], [(4, False)], [(4, True)]):
        assert told(rows_of(log, cuts)[1:], "turn", "value", "previous", "global_seq") == [(1, "3", "1", 5)]


def test_what_changed_back_within_its_turn_has_no_row() -> None:
    """Not even where its row was written before a restart; in the next turn the comparison begins anew."""
    log = simulation(
        started({"Ann": {"gold": 1}}),
        turn_started(1),
        changed("Ann", gold=2),
        changed("Ann", gold=1),
        turn_started(2),
        changed("Ann", gold=2),
    )
    for cuts in ([], [(4, False)], [(4, True)], [(4, True), (1, True), (1, True)]):
        assert told(rows_of(log, cuts), "turn", "value", "previous") == [(0, "1", None), (2, "2", "1")]


def test_a_row_comes_and_goes_within_its_turn() -> None:
    """As often as batches end between two values; what is not there is not deleted, what is deleted may come again."""
    gold = (2, 1, 3, 1, 2, 3, 1, 4)
    log = simulation(started({"Ann": {"gold": 1}}), turn_started(1), *(changed("Ann", gold=value) for value in gold))
    for forget in (False, True):
        for sizes in ([4, 2, 1], [4, 1, 1, 1, 2, 1], [5, 1, 3], [4, 1, 2, 1]):
            rows = rows_of(log, [(size, forget) for size in sizes])
            assert told(rows, "turn", "value", "global_seq") == [(0, "1", 2), (1, "4", 11)]


def test_a_row_names_the_effect_that_changed_the_value() -> None:
    """Not a later one of the turn that changed something else of the agent, or set the same."""
    log = simulation(
        started({"Ann": {"gold": 1, "bag": {"food": 1}}}),
        turn_started(1),
        changed("Ann", bag={"food": 2}),
        changed("Ann", gold=2, bag={"food": 2}),
        changed("Ann", gold=2),
    )
    assert told(rows_of(log), "path", "turn", "global_seq") == [
        ("bag.food", 0, 2),
        ("bag.food", 1, 4),
        ("gold", 0, 2),
        ("gold", 1, 5),
    ]


def test_the_same_value_of_another_type_is_another_value() -> None:
    """1, 1.0 and true are told apart, as in the log."""
    log = simulation(
        started(world={"x": 1}), turn_started(1), world_changed(x=1.0), turn_started(2), world_changed(x=True)
    )
    assert told(rows_of(log), "turn", "value") == [(0, "1"), (1, "1.0"), (2, "true")]


def test_a_leaf_that_is_gone_has_a_row_that_says_so() -> None:
    """And so has what became an object, or stopped being one."""
    log = simulation(
        started({"Ann": {"bag": {"food": 1}, "box": {}}}),
        turn_started(1),
        changed("Ann", {"op": "remove", "path": "/bag/food"}, box={"a": 1}),
        turn_started(2),
        changed("Ann", bag=5),
    )
    assert told(rows_of(log), "path", "turn", "value", "removed", "previous") == [
        ("bag", 1, "{}", False, None),
        ("bag", 2, "5", False, "{}"),
        ("bag.food", 0, "1", False, None),
        ("bag.food", 1, None, True, "1"),
        ("box", 0, "{}", False, None),
        ("box", 1, None, True, "{}"),
        ("box.a", 1, "1", False, None),
    ]


def test_a_removed_agents_values_are_gone() -> None:
    """One that comes back in the same turn with the same values was never away."""
    log = simulation(
        started({"Ann": {"gold": 1, "bag": {"food": 2}}}),
        turn_started(1),
        removed("Ann"),
        turn_started(2),
        added("Ann", gold=1),
        turn_started(3),
        removed("Ann"),
        added("Ann", gold=1),
    )
    assert told(rows_of(log), "path", "turn", "value", "removed") == [
        ("bag.food", 0, "2", False),
        ("bag.food", 1, None, True),
        ("gold", 0, "1", False),
        ("gold", 1, None, True),
        ("gold", 2, "1", False),
    ]


def test_what_the_fold_cannot_read_changes_nothing() -> None:
    """A patch that fails, somebody who is not there, a turn that was before."""
    log = simulation(
        started({"Ann": {"gold": 1}}),
        turn_started(3),
        turn_started(2),
        changed("Ann", {"op": "replace", "path": "/silver", "value": 1}, gold=2),
        changed("Eve", gold=2),
        changed("Ann", name="Eve"),
        changed("Ann", gold=4),
        turn_ended(3),
    )
    assert told(rows_of(log), "turn", "value") == [(0, "1"), (3, "4")]


def test_a_simulation_from_a_checkpoint_begins_in_its_turn() -> None:
    """Its first rows are those of the turn that it begins with."""
    log = simulation(started({"Ann": {"gold": 1}}, turn=7), turn_started(8), changed("Ann", gold=2))
    assert told(rows_of(log), "turn", "value") == [(7, "1"), (8, "2")]


def test_a_path_too_long_for_a_key_is_refused() -> None:
    """It is told before the database would refuse the row, by bytes, with the agent's name."""
    fits = "x" * (MAX_KEY - len("global") - len("bag."))
    assert len(rows_of(simulation(started(world={"bag": {fits: 1}})))) == 1
    with pytest.raises(ValueError, match=r"agent 'global' and the path 'bag\.x+'… have 2301 bytes together; a row can"):
        rows_of(simulation(started(world={"bag": {fits + "x": 1}})))
    with pytest.raises(ValueError, match="a row can have 2300"):
        rows_of(simulation(started(world={"bag": {"ž" * (len(fits) // 2 + 1): 1}})))


@given(simulation_logs(), CUTS)
def test_rows_are_what_turns_changed_wherever_batches_end(log: list[Effect], cuts: Cuts) -> None:
    """They are the same however the log is cut, none repeats the turn before, and they give every turn's values."""
    rows = play(VARIABLES, log, RULESET, cuts)
    assert rows == play(VARIABLES, log, RULESET)
    expected = values_by_turn(log)
    turns = sorted(expected)
    assert dense(rows, turns) == {
        turn: {(agent, written(keys)): text for (agent, keys), text in values.items()}
        for turn, values in expected.items()
    }
    last: dict[tuple[str, str], str | None] = {}
    for row in sorted(dicts(VARIABLES, rows), key=lambda row: row["turn"]):
        leaf = row["agent"], row["path"]
        assert row["value"] != last.get(leaf)
        assert row["previous"] == last.get(leaf)
        assert row["removed"] == (row["value"] is None)
        assert row["turn"] in turns
        if row["value"] is not None:
            value = orjson.loads(row["value"])
            by_type = {bool: row["flag"], str: row["text"], int: row["number"], float: row["number"]}
            assert by_type.get(type(value)) == (value if type(value) in by_type else None)
        last[leaf] = row["value"]
    changes = last_changes(log)
    assert all(row["global_seq"] == changes[row["turn"], row["agent"], row["path"]] for row in dicts(VARIABLES, rows))
