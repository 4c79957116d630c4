"""One row for each stretch of a world's log: how many effects of each kind it has."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import orjson
from hypothesis import given
from hypothesis import strategies as st
from worldledger_projections.effect_counts import MAX_KINDS, STRETCH, EffectCounts

from tests.projections.playing import CUTS, Cuts, dicts, effects_of, play

COUNTS = EffectCounts()


def test_stretches_are_aligned() -> None:
    """A stretch has 1,024 effects, the last one those that there are."""
    rows = dicts(COUNTS, play(COUNTS, effects_of([{"kind": "Move"}] * STRETCH)))
    assert [(row["stretch"], row["last_seq"], row["last_sim_time"], row["kinds"]) for row in rows] == [
        (0, 1024, 1024.0, '{"Move":1023,"WorldCreated":1}'),
        (1, 1025, 1025.0, '{"Move":1}'),
    ]


def test_kinds_beyond_the_limit_are_counted_together() -> None:
    """However many kinds there are, a row stays small and no effect is left out."""
    drafts = [{"kind": f"Kind{number}"} for number in range(MAX_KINDS + 20)]
    (row,) = dicts(COUNTS, play(COUNTS, effects_of(drafts), cuts=[(50, True)] * 2))
    assert len(orjson.loads(row["kinds"])) == MAX_KINDS
    assert row["other_kinds"] == 21


@given(st.lists(st.sampled_from(["Move", "Speak", "Trade", "Čas"]), max_size=30), st.integers(1, 9), CUTS)
def test_every_effect_is_counted_once(kinds: list[str], stretch: int, cuts: Cuts) -> None:
    """However the log is cut into batches, and wherever a fold goes on from the rows that there are."""
    log = effects_of({"kind": kind} for kind in kinds)
    with mock.patch("worldledger_projections.effect_counts.STRETCH", stretch):
        rows = dicts(COUNTS, play(COUNTS, log, cuts=cuts))
    for number, row in enumerate(rows):
        part = log[number * stretch : (number + 1) * stretch]
        assert (row["stretch"], row["last_seq"]) == (number, part[-1]["global_seq"])
        assert orjson.loads(row["kinds"]) == Counter(effect["kind"] for effect in part)
    assert rows[-1]["last_seq"] == len(log)
