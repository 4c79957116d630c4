"""Drafts in columns: the same drafts and the same texts as one by one, also for another process."""

from __future__ import annotations

import pickle
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldledger.canonical import canonical_json
from worldledger.drafts import CheckedDraft, PlainDrafts, check_draft, effect_text
from worldledger.effects import SCHEMA_VERSION

#: Numbers whose texts are odd among them, and texts with everything that JSON has to escape, line breaks first.
TIMES = st.floats(0, 1e300) | st.sampled_from([0.0, 1e16, 1e-7, 5e-324, 123456789.123, 1e22])
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
PAYLOADS = st.dictionaries(WORDS, WORDS | st.integers(-(2**53) + 1, 2**53 - 1) | TIMES, max_size=3)
COLUMNS = st.lists(st.tuples(WORDS, PAYLOADS, WORDS, TIMES), max_size=6)


def made(rows: list[tuple[str, dict[str, object], str, float]]) -> tuple[PlainDrafts, list[CheckedDraft]]:
    """Return the drafts of rows (kind, payload, source, time) in columns, and one by one."""
    plain = PlainDrafts()
    for kind, payload, source_id, sim_time in rows:
        plain.add(kind, canonical_json(payload), source_id, sim_time)
    names = ("kind", "payload", "source_id", "sim_time")
    drafts = [dict(zip(names, row, strict=True)) | {"schema_version": SCHEMA_VERSION} for row in rows]
    return plain, [check_draft(draft, system=True) for draft in drafts]


@given(COLUMNS)
def test_they_are_the_drafts(rows: list[tuple[str, dict[str, object], str, float]]) -> None:
    """One by one they are what the check of drafts makes of them, here and where they were sent to."""
    plain, checked = made(rows)
    sent = pickle.loads(pickle.dumps(plain))
    assert [*plain] == [*sent] == checked
    assert len(plain) == len(sent) == len(rows)


@given(COLUMNS, WORDS, st.floats(0, 1e12), st.integers(1, 2**53))
def test_their_texts(
    rows: list[tuple[str, dict[str, object], str, float]], world_id: str, wall_time: float, first: int
) -> None:
    """Each becomes the very bytes that the effect of such a draft has; every other one has the time before it."""
    plain, checked = made(rows)
    uuids, others = (map("{:032x}".format, count()) for _ in range(2))
    plain.sim_times[::2] = [None] * len(plain.sim_times[::2])
    written = plain.effects(
        world_id=world_id, first_seq=first, new_uuid=uuids.__next__, sim_time=7.5, wall_time=wall_time
    )
    times = [7.5, *(checked[at if at % 2 else at - 1].sim_time for at in range(1, len(checked)))]
    assert [*written] == [
        (
            effect_text(
                draft, world_id=world_id, global_seq=seq, uuid=next(others), sim_time=time or 0.0, wall_time=wall_time
            ),
            draft.kind,
            draft.source_id,
            time,
        )
        for seq, (draft, time) in enumerate(zip(checked, times[: len(checked)], strict=True), first)
    ]


def test_what_was_lost_is_noticed() -> None:
    """A payload that is none, with a line break in it, is an error where it arrives."""
    plain = PlainDrafts()
    plain.add("k", b'{"a":\n1}', "s", 0.0)
    sent = pickle.dumps(plain)
    with pytest.raises(ValueError, match="lost"):
        pickle.loads(sent)
