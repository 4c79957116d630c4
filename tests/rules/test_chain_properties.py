"""Hypothesis: whatever single thing is done to any row of a chain, verification names the right seq."""

from __future__ import annotations

import math
from typing import Any

import orjson
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from worldledger.chain import Position, StoredEffect, verify

from .chains import chained, end, honest, make_effect, recomputed, verdicts
from .values import GOOD_OBJECTS

_CHANGES = st.sampled_from(["text", "checksum", "global_seq", "kind", "source_id", "sim_time"])


@st.composite
def _worlds(draw: st.DrawFn) -> list[StoredEffect]:
    payloads = draw(st.lists(GOOD_OBJECTS, min_size=1, max_size=7))
    times = sorted(draw(st.lists(st.floats(0, 1e9), min_size=len(payloads), max_size=len(payloads))))
    return chained(
        make_effect("w", seq, payload=payload, sim_time=sim_time)
        for seq, (payload, sim_time) in enumerate(zip(payloads, times, strict=True), 1)
    )


def _changed_bytes(draw: st.DrawFn, old: bytes) -> bytes:
    at = draw(st.integers(0, len(old) - 1))
    new = bytes([draw(st.integers(0, 255))])
    done = draw(st.sampled_from([old[:at] + new + old[at + 1 :], old[:at] + old[at + 1 :], old[:at] + new + old[at:]]))
    assume(done != old)
    return done


def _changed(draw: st.DrawFn, row: StoredEffect, what: str) -> StoredEffect:
    value: Any = getattr(row, what)
    new: Any
    if what in {"text", "checksum"}:
        new = _changed_bytes(draw, value)
    elif what == "global_seq":
        new = value + draw(st.integers(-9, 9).filter(bool))
    elif what == "sim_time":
        nearest = [math.nextafter(value, math.inf), math.nextafter(value, -math.inf)]
        new = draw((st.floats() | st.sampled_from(nearest)).filter(lambda other: other != value))
    else:
        new = draw(st.text().filter(lambda text: text != value))
    return row._replace(**{what: new})


@settings(max_examples=200, deadline=None)
@given(_worlds())
def test_an_honest_log_verifies_whatever_the_batches(rows: list[StoredEffect]) -> None:
    """A log that nobody touched verifies, in batches of any size and from any position in it."""
    head = end(rows)
    for start in range(len(rows) + 1):
        noted = [end(rows[:at]) for at in range(start + 1, len(rows) + 1)]
        assert verdicts(rows[start:], start=end(rows[:start]), head=head, noted=noted).verified


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_single_change_is_found_at_its_seq(data: st.DataObject) -> None:
    """Any one change of any one field of any one row is found, at the seq where that row belongs."""
    rows = data.draw(_worlds())
    at = data.draw(st.integers(0, len(rows) - 1))
    rows_then = list(rows)
    rows_then[at] = data.draw(st.composite(lambda draw: _changed(draw, rows[at], draw(_CHANGES)))())
    verdict = verdicts(rows_then, head=end(rows))
    assert verdict.finding is not None
    assert verdict.finding.global_seq == at + 1
    assert verdict.position == end(rows[:at])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_move_of_rows_is_found_at_the_first_that_moved(data: st.DataObject) -> None:
    """Rows deleted, repeated or in another order are found at the first seq that is not where it belongs."""
    rows = honest(6)
    moved = data.draw(st.lists(st.sampled_from(rows), max_size=8))
    assume(moved != rows)
    verdict = verdicts(moved, head=end(rows))
    first = next((at for at, row in enumerate(moved) if at >= len(rows) or row != rows[at]), len(moved))
    assert verdict.finding is not None
    assert verdict.finding.global_seq == first + 1


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_recomputed_chain_misses_every_later_position(data: st.DataObject) -> None:
    """A chain recomputed after any change has, from there on, no checksum that anybody noted before."""
    rows = data.draw(_worlds())
    at = data.draw(st.integers(0, len(rows) - 1))
    payload = data.draw(GOOD_OBJECTS)
    assume(orjson.dumps(payload, option=orjson.OPT_SORT_KEYS) not in rows[at].text)
    forged = recomputed(rows, at, payload=payload)
    assert verify("w", forged, head=end(forged)).verified
    for seq in range(at + 1, len(rows) + 1):
        verdict = verdicts(forged, head=end(forged), noted=[Position(seq, rows[seq - 1].checksum)])
        assert verdict.finding is not None
        assert verdict.finding.global_seq == seq
