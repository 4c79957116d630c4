"""The field's words: log entries as programs see them, the order of units, and the error tree."""

from __future__ import annotations

import itertools
from typing import Any, cast

from tests.cases import cases
from worldledger import errors
from worldledger.effects import Effect, EventLogEntry, order_key
from worldledger.errors import RecoveryAction, SimulationError

from .chains import make_effect


def test_an_entry_has_the_documented_fields() -> None:
    """A log entry has the fields of EventLogEntry; no req_id is the empty string, no metadata is {}."""
    entry = EventLogEntry.of(cast("Effect", make_effect("w", 3)), "ab" * 32)
    assert (entry.global_seq, entry.sim_time, entry.wall_time) == (3, 0.75, 1.7e9 + 3)
    assert (entry.req_id, entry.source_metadata, entry.checksum) == ("", {}, "ab" * 32)
    more = make_effect("w", 3, req_id="r", source_metadata={"file": "x"}, caused_by=1)
    entry = EventLogEntry.of(cast("Effect", more), "ab" * 32)
    assert (entry.req_id, entry.source_metadata, entry.effect["caused_by"]) == ("r", {"file": "x"}, 1)


def test_units_are_ordered_by_time_priority_and_source() -> None:
    """Earlier goes first, then higher priority, then the smaller source_id."""
    ordered = [
        order_key(0.0, 0, "b"),
        order_key(1.0, 9, "z"),
        order_key(1.0, 2, "a"),
        order_key(1.0, 2, "b"),
        order_key(1.0, -1, "a"),
        order_key(2.5, 9, "a"),
    ]
    for shuffled in itertools.permutations(ordered):
        assert sorted(shuffled) == ordered


def _tree(error: type[SimulationError]) -> list[type[SimulationError]]:
    return [error, *(found for child in error.__subclasses__() for found in _tree(child))]


def test_every_error_has_a_code_of_its_own() -> None:
    """Programs tell errors apart by code; each also says what a caller can do about it."""
    tree = [error for error in _tree(SimulationError) if error.__module__.startswith("worldledger.")]
    found = [error for error in tree if not error.__module__.startswith("worldledger.client.")]  # which has a few more
    codes = [error.code for error in found]
    assert len(codes) == len(set(codes))
    assert all(isinstance(error.recovery, RecoveryAction) for error in found)
    assert {error.__name__ for error in found} == {
        name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, SimulationError)
    }


@cases("value", [0, "", False, [], "x"])
def test_details_keep_every_fact_but_none(value: Any) -> None:
    """An error's details leave out only what was not given."""
    assert SimulationError("no", fact=value, nothing=None).details == {"fact": value}
