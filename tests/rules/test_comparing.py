"""Comparing two logs: what counts, how effects are aligned, and that the answer depends on the logs alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worldledger_simulation.rules import RULESET as SIMULATION

from worldledger.canonical import canonical_json
from worldledger.chain import StoredRow
from worldledger.comparing import (
    SEQ,
    SIM_TIME,
    Aligner,
    Difference,
    FirstMoment,
    Ignored,
    Likeness,
    Sections,
    differences,
    genesis_differences,
    parse_path,
    unit_of,
)
from worldledger.effects import Effect
from worldledger.errors import NotComparableError
from worldledger.moments import STEP, Unit
from worldledger.rulesets.base import Touched

TURN = Unit(("TurnStarted",), "turn")
UNITS = {"turn": TURN}


def effect(seq: int, kind: str, source: str, payload: dict[str, Any], *, run: str, **more: Any) -> StoredRow:
    """Make a stored row of a run; what is the run's own has its name in it."""
    value = {
        "global_seq": seq,
        "kind": kind,
        "payload": payload,
        "priority": 0,
        "req_id": f'{run}-"{seq}',
        "schema_version": "1.0.0",
        "sim_time": float(seq),
        "source_id": source,
        "uuid": f"{hash((run, seq)) & (2**128 - 1):032x}",
        "wall_time": 1.7e9 + len(run) + seq,
        "world_id": run,
        **more,
    }
    return seq, canonical_json(value), b"", kind, source, value["sim_time"]


#: What happens: a kind, a source and a value.
Happening = tuple[str, str, Any]


def log(happenings: Sequence[Happening], run: str) -> list[StoredRow]:
    """Make a log: a genesis, then what happens; a turn has its number as its value."""
    rows = [effect(1, "WorldCreated", "worldledger", {"world_uuid": run}, run=run)]
    for seq, (kind, source, value) in enumerate(happenings, 2):
        payload = {"turn": value} if kind == "TurnStarted" else {"value": value}
        rows.append(effect(seq, kind, source, payload, run=run))
    return rows


def align(a: list[StoredRow], b: list[StoredRow], by: str = "turn", batch: int = 1000, **like: Any) -> Aligner:
    """Compare two logs, fed in batches."""
    name, unit = unit_of(by, UNITS, "test")
    aligner = Aligner(Likeness(**{"with_sim_time": False, **like}), name, unit)
    rest = [list(a), list(b)]
    while not aligner.is_done:
        parts = []
        for which, is_hungry in enumerate(aligner.hungry):
            parts.append(rest[which][:batch] if is_hungry else [])
            rest[which] = rest[which][len(parts[-1]) :]
        assert any(aligner.hungry)
        aligner.feed(*parts, a_over=not rest[0], b_over=not rest[1])
    return aligner


def told(aligner: Aligner) -> tuple[Any, ...] | None:
    """Return where two runs part: the section, both seqs, and the fields."""
    found = aligner.divergence
    if found is None:
        return None
    return found.number, found.a and found.a[0], found.b and found.b[0], [field.path for field in found.fields]


def swapped(found: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """Return the same with the runs exchanged."""
    return None if found is None else (found[0], found[2], found[1], found[3])


happenings = st.lists(
    st.one_of(
        st.tuples(st.just("Move"), st.sampled_from("xyz"), st.integers(0, 2)),
        st.tuples(st.just("TurnStarted"), st.just("engine"), st.integers(0, 4)),
        st.tuples(st.just("StateDigest"), st.just("worldledger"), st.integers(0, 99)),
        st.tuples(st.just("AgentRegistered"), st.just("worldledger"), st.integers(0, 2)),
    ),
    max_size=14,
)
alignments = st.sampled_from(["turn", SEQ, STEP, SIM_TIME])


@given(happenings, happenings, alignments, st.integers(1, 5))
def test_two_logs_have_one_answer_in_either_order_and_in_any_batches(
    a: list[Happening], b: list[Happening], by: str, batch: int
) -> None:
    """Exchanged logs give the exchanged answer, and the batches that they are read in do not matter."""
    one, other = log(a, "one"), log(b, "another")
    found, back = align(one, other, by), align(other, one, by)
    assert told(back) == swapped(told(found))
    assert back.equal == found.equal
    assert [each.number for each in back.beginnings] == [each.number for each in found.beginnings]
    in_batches = align(one, other, by, batch)
    assert (told(in_batches), in_batches.equal) == (told(found), found.equal)


@given(happenings, alignments, st.integers(1, 5))
def test_a_run_equals_itself_under_another_name(a: list[Happening], by: str, batch: int) -> None:
    """What is a world's identity makes no difference: names, uuids, req_ids and wall times."""
    found = align(log(a, "one"), log(a, "another"), by, batch)
    assert found.divergence is None
    assert found.beginnings == []
    assert found.equal == sum(kind != "StateDigest" for kind, _, _ in a)


@given(happenings, st.integers(0, 13), alignments)
def test_a_changed_value_is_found(a: list[Happening], place: int, by: str) -> None:
    """One value that differs is found wherever it is, and named."""
    moves = [n for n, (kind, _, _) in enumerate(a) if kind == "Move"]
    if not moves:
        return
    at = moves[place % len(moves)]
    b = [*a[:at], ("Move", a[at][1], 7), *a[at + 1 :]]
    found = align(log(a, "one"), log(b, "another"), by)
    parted = [found.divergence] if found.divergence else found.beginnings
    assert [field.path for each in parted for field in each.fields] == ["$.payload.value"]


def test_the_order_of_sources_in_a_turn_makes_no_difference() -> None:
    """Two agents that act in another order in a turn have done the same; by seq they have not."""
    a = log([("TurnStarted", "e", 1), ("Move", "x", 1), ("Move", "y", 2), ("TurnStarted", "e", 2)], "one")
    b = log([("TurnStarted", "e", 1), ("Move", "y", 2), ("Move", "x", 1), ("TurnStarted", "e", 2)], "two")
    assert told(align(a, b)) is None
    assert told(align(a, b, SEQ)) == (2, 3, 3, ["$.payload.value", "$.source_id"])


def test_a_prefix_parts_where_it_ends() -> None:
    """A run that has only ended earlier is equal up to there: it is said what the other's next effect says."""
    a = [("TurnStarted", "e", 1), ("Move", "x", 1), ("TurnStarted", "e", 2)]
    found = align(log(a, "one"), log([*a, ("Move", "x", 2)], "two"))
    assert (told(found), found.equal) == ((2, None, 5, ["$.payload.value"]), 3)
    assert found.divergence is not None
    a_at, b_at = found.divergence.a_at, found.divergence.b_at
    assert (a_at and a_at[0], b_at and b_at[0]) == (4, 5)


def test_a_turn_that_only_one_run_has() -> None:
    """A turn that was left out is named by its number; the turns after it are not taken for it."""
    a = [("TurnStarted", "e", 1), ("TurnStarted", "e", 2), ("TurnStarted", "e", 3)]
    assert told(align(log(a, "one"), log([a[0], a[2]], "two"))) == (2, 3, None, ["$.payload.turn"])


def test_differences_before_the_first_turn_are_listed_and_do_not_end_it() -> None:
    """Runs that begin otherwise are compared on: where they part comes later."""
    a = log([("Move", "x", 1), ("Move", "y", 1), ("TurnStarted", "e", 1), ("Move", "x", 1)], "one")
    b = log([("Move", "x", 2), ("Move", "y", 2), ("TurnStarted", "e", 1), ("Move", "x", 2)], "two")
    found = align(a, b)
    assert [[field.path for field in each.fields] for each in found.beginnings] == [["$.payload.value"]] * 2
    assert told(found) == (1, 5, 5, ["$.payload.value"])


def test_logs_without_any_turn_part_where_they_first_differ() -> None:
    """Where no section ever begins, what lies before it is all there is."""
    assert told(align(log([("Move", "x", 1)], "one"), log([("Move", "x", 2)], "two"))) == (
        None, 2, 2, ["$.payload.value"],
    )  # fmt: skip


def test_an_effect_is_shown_beside_what_another_source_did_instead() -> None:
    """A move by another agent is told as a difference of source and payload, not as two effects without a partner."""
    a = log([("TurnStarted", "e", 1), ("Move", "x", 1)], "one")
    b = log([("TurnStarted", "e", 1), ("Move", "y", 1)], "two")
    assert told(align(a, b)) == (1, 3, 3, ["$.source_id"])


def test_sim_time_counts_unless_the_wall_clock_sets_it() -> None:
    """Two effects at different sim_times differ only where that is compared."""
    a, b = (effect(2, "Move", "x", {}, run=run, sim_time=time) for run, time in (("one", 1.0), ("two", 2.0)))
    assert Likeness(with_sim_time=False).same(a[1], b[1])
    assert not Likeness().same(a[1], b[1])
    assert [each.path for each in Likeness().differences(a[1], b[1])] == ["$.sim_time"]


HARD = [
    {},
    {"kind": "x", "uuid": "y", "priority": 9, "sim_time": 5.0, "source_metadata": {"a": 1}},
    {"deep": {"priority": 1, "req_id": "a", "schema_version": "9", "source_id": "z"}},
    {"text": ',"priority":5,"req_id":"\\'},
]


@pytest.mark.parametrize("payload", HARD)
@pytest.mark.parametrize("metadata", [None, {"uuid": "a", "priority": 3, "x": ',"uuid":"'}])
@pytest.mark.parametrize("change", [{}, {"priority": 1}, {"schema_version": "2.0.0"}, {"payload": {"z": 1}}])
def test_the_parts_are_cut_rightly(payload: dict[str, Any], metadata: Any, change: dict[str, Any]) -> None:
    """Whatever names payload, metadata and req_id hold, cutting bytes says what comparing values says."""
    more = {} if metadata is None else {"source_metadata": metadata, "caused_by": 1}
    a = effect(2, "Move", "x", payload, run="one")
    change = {"payload": payload, **change}
    b = effect(3, "Move", "x", run="two", **{**more, **change})
    for with_sim_time in (True, False):
        like = Likeness(with_sim_time=with_sim_time)
        assert like.same(a[1], b[1]) == (like.compared(a[1]) == like.compared(b[1])) == like.same(b[1], a[1])


def test_numbers_and_truths_are_told_apart() -> None:
    """1, 1.0 and true are three values, as in the log."""
    a, b, c = (effect(2, "Move", "x", {"v": value}, run="one") for value in (1, 1.0, True))
    assert not any(Likeness().same(x[1], y[1]) for x, y in ((a, b), (b, c), (a, c)))


def test_seqs_and_latencies_of_system_effects_are_left_out() -> None:
    """A generation that took longer, of another request, is the same generation; one with another reason is not."""
    payload = {"agent_id": "x", "req_id": "a", "latency_ms": 2.5, "reason": "stale"}
    a = effect(2, "GenerationCancelled", "worldledger", payload, run="one")
    b = effect(2, "GenerationCancelled", "worldledger", {**payload, "req_id": "b", "latency_ms": 9.0}, run="two")
    c = effect(2, "GenerationCancelled", "worldledger", {**payload, "reason": "user_requested"}, run="two")
    like = Likeness(with_sim_time=False)
    assert like.same(a[1], b[1])
    assert [each.path for each in like.differences(a[1], c[1])] == ["$.payload.reason"]


def test_what_is_ignored_makes_no_difference() -> None:
    """A path of any spelling takes away what it names, in objects and in lists."""
    a = effect(2, "Move", "x", {"clock": 1, "m": [{"t": 1, "u": 1}], "a b": 1}, run="one")
    b = effect(2, "Move", "x", {"clock": 2, "m": [{"t": 2, "u": 1}], "a b": 2}, run="two")
    paths = ["payload.clock", "$.payload.m[*].t", 'payload["a b"]']
    assert not Likeness(ignored=map(parse_path, paths[:2])).same(a[1], b[1])
    assert Likeness(ignored=map(parse_path, paths)).same(a[1], b[1])
    assert Likeness(ignored=map(parse_path, ["/payload/clock", "/payload/m/0/t", "/payload/a b"])).same(a[1], b[1])
    assert Likeness(ignored=[parse_path("payload.*")]).same(a[1], b[1])


@pytest.mark.parametrize(
    "text", ["", "$", "payload..x", "payload[", "payload[x]", 'payload["', "paylod.x", "/", "p" * 999]
)
def test_a_malformed_path_is_refused(text: str) -> None:
    """A text that is no path is refused with a sentence; it is repeated only in part where it is long."""
    with pytest.raises(NotComparableError, match="is no path such as") as caught:
        parse_path(text)
    assert len(caught.value.message) < 400


def test_settings_are_compared_but_not_who_the_worlds_are() -> None:
    """Of two genesis effects the configuration counts; uuid, experiment and parent do not."""
    one, two = (
        effect(1, "WorldCreated", "w", {"config": {"seed": n}, "world_uuid": f"{n}", "experiment": f"{n}"}, run=f"{n}")
        for n in (1, 2)
    )
    assert [each.path for each in genesis_differences(one[1], two[1])] == ["$.payload.config.seed"]
    assert genesis_differences(one[1], two[1], [parse_path("payload.config")]) == []


def test_the_alignment_of_a_kind() -> None:
    """By default a kind's first unit aligns its worlds, else steps; an unknown one is refused with those there are."""
    assert unit_of("auto", SIMULATION.units, "simulation")[0] == "turn"
    assert unit_of("auto", {}, "sandbox") == (STEP, None)
    with pytest.raises(
        NotComparableError, match="cannot be aligned by 'round': give one of auto, seq, step, sim_time, turn"
    ):
        unit_of("round", SIMULATION.units, "simulation")


def test_values_are_told_up_to_a_limit() -> None:
    """A difference of megabytes is told by its path and its size."""
    (found,) = differences({"text": "a" * 2**20}, {"text": "b"})
    assert found.document() == {"path": "$.text", "a_bytes": 2**20 + 2, "b": "b"}
    (found,) = differences({}, {"text": None})
    assert found.document() == {"path": "$.text", "a_missing": True, "b": None}
    assert orjson.dumps(found.document())


def test_a_section_that_is_too_large_ends_where_memory_does() -> None:
    """Effects that wait for partners are dropped beyond a limit; then the runs have parted at the first of them."""
    blob = "x" * 2**20
    a = log([("TurnStarted", "e", 1), *[("Move", "x", blob)] * 40], "one")
    b = log([("TurnStarted", "e", 1), *[("Move", "y", blob)] * 40], "two")
    assert told(align(a, b, batch=3)) == (1, 3, 3, ["$.source_id"])


def test_what_a_fork_is_made_to_go_on_with_is_no_part_of_what_happened() -> None:
    """What the service wrote while it made a fork is passed over, of any kind; other effects are not."""
    said = [("TurnStarted", "engine", 1), ("Said", "ann", 1)]
    plain, fork = log(said, "a"), log(said, "b")
    mark = {"source_metadata": {"going_on": True}}
    for kind, source, more, is_equal in (
        ("AgentRegistered", "worldledger", mark, True),
        ("GameContinued", "worldledger", mark, True),
        ("AgentRegistered", "worldledger", {}, False),
        ("GameContinued", "engine", mark, False),
        ("AgentRegistered", "worldledger", {"source_metadata": {**mark["source_metadata"], "rerun_of": 3}}, False),
    ):
        own = effect(4, kind, source, {"agent_id": "ann", **mark}, run="b", **more)
        for a, b in ((plain, [*fork, own]), ([*fork, own], plain)):
            assert (align(a, b).divergence is None) is is_equal


def test_whose_effects_are_may_make_no_difference() -> None:
    """Where source_id is ignored, the effects of a turn are paired in order, and another one's first value is found."""
    a = log([("TurnStarted", "e", 1), ("Said", "x", 1), ("Said", "x", 2)], "one")
    b = log([("TurnStarted", "e", 1), ("Said", "y", 1), ("Said", "z", 3)], "two")
    assert told(align(a, b)) == (1, 3, 3, ["$.source_id"])
    for one, other in ((a, b), (b, a)):
        found = align(one, other, ignored=[parse_path("source_id")])
        assert (told(found), found.equal) == ((1, 4, 4, ["$.payload.value"]), 2)


class Sums:
    """A run whose state is the sum of what each source has said."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()

    def apply(self, effect: Effect) -> Touched:
        """Add a value."""
        self.of[effect["source_id"]] += effect["payload"].get("value", 0)
        return effect["source_id"]


def first_moment(
    a: list[StoredRow], b: list[StoredRow], by: str = "turn", batch: int = 1000, **more: Any
) -> tuple[FirstMoment, Any]:
    """Look for the first moment at which the sums of two logs differ; return it, and the seqs of both runs there."""
    runs = Sums(), Sums()

    def differ(touched: Collection[str] | None) -> list[Difference]:
        one, other = ({name: run.of[name] for name in sorted(touched or run.of)} for run in runs)
        return differences(one, other)

    name, unit = unit_of(by, UNITS, "test")
    search = FirstMoment(runs, differ, (Sections(name, unit), Sections(name, unit)), **{"most": 10**6, **more})
    rest = [list(a), list(b)]
    while not search.is_done:
        parts = []
        for which, is_hungry in enumerate(search.hungry):
            parts.append(rest[which][:batch] if is_hungry else [])
            rest[which] = rest[which][len(parts[-1]) :]
        search.feed(*parts, a_over=not rest[0], b_over=not rest[1])
    return search, [row and row[0] for row in search.seen]


@given(happenings, happenings, alignments, st.integers(1, 5))
def test_the_first_moment_is_the_same_in_either_order_and_in_any_batches(
    a: list[Happening], b: list[Happening], by: str, batch: int
) -> None:
    """Exchanged logs differ at the same moment, and the batches that they are read in do not matter."""
    one, other = log(a, "one"), log(b, "another")
    found, seqs = first_moment(one, other, by)
    for again, back in (
        (first_moment(one, other, by, batch), seqs),
        (first_moment(other, one, by, batch), seqs[::-1]),
    ):
        assert (again[0].number, again[0].is_whole, again[1]) == (found.number, found.is_whole, back)
        assert [each.path for each in again[0].differences] == [each.path for each in found.differences]


moves = st.lists(st.tuples(st.just("Move"), st.sampled_from("xy"), st.integers(-1, 1)), max_size=8)


@given(moves, moves)
def test_the_first_moment_at_which_sums_differ(a: list[Happening], b: list[Happening]) -> None:
    """By seq it is the first n for which the sums of n effects differ, where a run that has ended stays as it is."""

    def sums(run: list[Happening]) -> list[dict[str, int]]:
        adding = accumulate(run, lambda of, each: {**of, each[1]: of[each[1]] + each[2]}, initial={"x": 0, "y": 0})
        found = list(adding)
        return found + [found[-1]] * (max(len(a), len(b)) + 1 - len(found))

    wanted = next((n for n, (one, other) in enumerate(zip(sums(a), sums(b), strict=True)) if one != other), None)
    found, _ = first_moment(log(a, "one"), log(b, "two"), SEQ)
    assert (found.number if found.differences else None) == wanted


def test_what_differs_only_within_a_turn_is_no_first_moment() -> None:
    """Runs are alike at the end of a turn in which they took different ways; they differ at the end of the next."""
    turn = [("TurnStarted", "e", 2), ("Move", "x", 1)]
    a = log([("TurnStarted", "e", 1), ("Move", "x", 1), ("Move", "x", 2), *turn], "one")
    b = log([("TurnStarted", "e", 1), ("Move", "x", 2), ("Move", "x", 1), *turn, ("Move", "y", 3)], "two")
    assert told(align(a, b)) == (1, 3, 3, ["$.payload.value"])
    found, seqs = first_moment(a, b)
    assert (found.number, seqs, [each.path for each in found.differences]) == (2, [6, 7], ["$.y"])


def test_a_search_for_the_first_moment_has_a_bound() -> None:
    """After so many effects it is given up, and says up to where it looked; it may also look at one section alone."""
    a = log([("TurnStarted", "e", n) for n in range(1, 20)], "one")
    found, _ = first_moment(a, a, most=11)  # two genesis effects, and four turns of each run
    assert (found.number, found.is_whole, found.read) == (4, False, 11)
    found, _ = first_moment(a, a, one=True)
    assert (found.number, found.is_whole, found.read) == (None, True, 2)
    found, _ = first_moment(a, a)
    assert (found.number, found.is_whole, found.differences) == (19, True, [])


def test_sections_go_on_after_a_divergence() -> None:
    """A run that has one effect less goes on with the same number of a step as the other."""
    a, b = log([("Move", "x", 1)], "one"), log([("Move", "x", 1), ("Move", "x", 2)], "two")
    found = align(a, b, STEP).divergence
    assert found is not None
    one, other = found.sections(STEP, None)
    row = effect(4, "Move", "x", {}, run="one")
    assert (found.number, one.of(row), other.of(row)) == (2, 2, 3)


paths = st.lists(st.lists(st.sampled_from(["a", "b", "*", "0"]), min_size=1, max_size=3).map(tuple), max_size=3)
values = st.recursive(
    st.integers(0, 1),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)


@given(values, values, paths)
def test_ignored_paths_are_left_out_wherever_values_differ(a: Any, b: Any, ignored: list[tuple[str, ...]]) -> None:
    """Differences are those of the values without what is ignored."""
    found, without = differences(a, b, ignored), Ignored(ignored).without
    cut = differences(without(a), without(b))
    assert [each.document() for each in found] == [each.document() for each in cut]
