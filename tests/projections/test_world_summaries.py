"""One row for each world: what it is and how far it has come."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worldledger_projections.world_summaries import MAX_KINDS, WorldSummaries

from tests.projections.playing import BEGINNING, CUTS, Cuts, at, effects_of, play, the_row

SUMMARIES = WorldSummaries()


def test_a_world_has_a_row_from_its_genesis_on() -> None:
    """The genesis says what the world is."""
    row = the_row(SUMMARIES, play(SUMMARIES, effects_of([], ruleset="sandbox", experiment="trial")))
    assert row == {
        "world_id": "w",
        "ruleset": "sandbox",
        "ruleset_version": 1,
        "experiment": "trial",
        "time_authority": "client",
        "effects": 1,
        "kinds": '{"WorldCreated":1}',
        "other_kinds": 0,
        "created_at": at(1),
        "last_effect_at": at(1),
        "first_sim_time": 1.0,
        "last_sim_time": 1.0,
        "last_seq": 1,
        "parent": None,
        "parent_seq": None,
        "depth": 0,
        "last_kind": "WorldCreated",
    }


def test_the_row_follows_the_world() -> None:
    """Counts and last moments are those of the log."""
    drafts: list[dict[str, Any]] = [
        {"kind": "Speak"},
        {"kind": "Move", "sim_time": 7.25},
        {"kind": "Speak", "sim_time": 8.5},
    ]
    row = the_row(SUMMARIES, play(SUMMARIES, effects_of(drafts)))
    assert (row["effects"], row["last_seq"], row["last_kind"]) == (4, 4, "Speak")
    assert row["kinds"] == '{"Move":1,"Speak":2,"WorldCreated":1}'
    assert (row["first_sim_time"], row["last_sim_time"]) == (1.0, 8.5)
    assert (row["created_at"], row["last_effect_at"]) == (at(1), at(4))


def test_kinds_beyond_the_limit_are_counted_together() -> None:
    """However many kinds there are, the row stays small and no effect is left out."""
    drafts = [{"kind": f"Kind{number % (MAX_KINDS + 20)}"} for number in range(3 * (MAX_KINDS + 20))]
    row = the_row(SUMMARIES, play(SUMMARIES, effects_of(drafts), cuts=[(50, True)] * 8))
    kinds = orjson.loads(row["kinds"])
    assert len(kinds) == MAX_KINDS
    assert kinds["Kind0"] == 3
    assert row["other_kinds"] == 3 * 21
    assert sum(kinds.values()) + row["other_kinds"] == row["effects"] == len(drafts) + 1


def test_a_log_without_a_genesis_is_refused() -> None:
    """There is nothing to say of a world that never began."""
    with pytest.raises(ValueError, match="the world's first effect is Speak, not WorldCreated"):
        SUMMARIES.begin("w", [], None).apply(effects_of([{"kind": "Speak"}])[1])


@given(st.lists(st.sampled_from("abc"), max_size=30), CUTS)
def test_batches_do_not_matter(kinds: list[str], cuts: Cuts) -> None:
    """However the log is cut, and wherever the runner forgets all but the rows, the row is the same."""
    log = effects_of(
        {"kind": kind, "wall_time": BEGINNING + number / 7, "sim_time": number / 3} for number, kind in enumerate(kinds)
    )
    assert play(SUMMARIES, log, cuts=cuts) == play(SUMMARIES, log)
