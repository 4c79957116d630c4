"""Every rule of every field, each with its path; and that models are made of what has no fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from worldledger_social_rl.rules import models
from worldledger_social_rl.rules.fields import Fault
from worldledger_social_rl.rules.models import (
    adaptation_faults,
    feedback_faults,
    message_faults,
    meta_faults,
    policy_faults,
    round_faults,
)

from tests.cases import cases
from tests.rules.values import GOOD_JSON
from tests.rulesets.social_rl.documents import (
    ALICE,
    a_round,
    adaptation,
    context_frame,
    feedback,
    message,
    meta,
    objects,
    policy_state,
)

Judge = Callable[[Any], Iterator[Fault]]
_BAD_SHARES = [-0.01, 1.01, -1, 2, "0.5", None, True, [], float("nan"), float("inf")]
_BAD_COUNTS = [-1, 1.0, "1", None, True, 2**53]
_BAD_ROUNDS = [0, -1, 1.0, "1", None, False]
_BAD_TEXTS: list[Any] = [1, None, True, [], {}]
_BAD_OBJECTS: list[Any] = [None, [], "x", 1]
_NO_OBJECTS = [1, [], "x", True]
_BAD_AGENTS = ["", "Alice", "+Alice", "Worker+", "Worker+" + "x" * 200, 1, None, ["Worker+Alice"]]
#: Times of a day that there is, as ISO 8601 has them.
_MOMENTS = [
    *("2025-11-23T17:58:25.123456", "2024-02-29T00:00", "2000-02-29 23:59:59Z", "0001-01-01T00:00:00.123456789"),
    *("2025-11-23T17:58:25+05:30", "2025-11-23T17:58-2359", "9999-12-31T23:59:59-00:00"),
]
#: What only looks like it; and what not every clock knows: a leap second, and midnight as the end of a day.
_NO_MOMENTS = [
    *("2025-99-99T99:99:99", "2025-13-01T00:00:00", "2025-00-01T00:00:00", "2025-04-31T00:00:00", "2025-11-00T00:00"),
    *("2025-02-29T00:00:00", "1900-02-29T00:00:00", "0000-01-01T00:00:00", "2025-11-23T25:00:00", "2025-11-23T17:60"),
    *("2025-11-23T17:58:61", "2016-12-31T23:59:60Z", "2025-11-23T24:00:00", "2025-11-23T17:58:25+24:00"),
    *("2025-11-23T17:58:25+05:60", "2025-11-23T17:58:25Z\n", "\u0662025-11-23T17:58:25"),
]
_BAD_MOMENTS = ["", "yesterday", "2025-11-23", "23.11.2025 17:58", 1700000000.0, None, *_NO_MOMENTS]
_BAD_AMOUNTS = [-1, -0.5, float("inf"), float("nan"), "1", None, True]

#: What is judged, by which judge; field -> values that it may not have.
_CASES: list[tuple[Judge, dict[str, Any], dict[str, list[Any]]]] = [
    (
        meta_faults,
        meta(),
        {
            **dict.fromkeys(("experiment_id", "prar_run_id", "framework", "model", "social_rl_version"), _BAD_TEXTS),
            "framework_option": ["F", "", "a", "AB", 1, None],
            **dict.fromkeys(("performer_temperature", "coach_temperature"), _BAD_AMOUNTS),
            "timestamp": _BAD_MOMENTS,
        },
    ),
    (
        message_faults,
        message(context_frame=context_frame(), role="assistant", internal=False),
        {
            "agent_id": _BAD_AGENTS,
            "content": _BAD_TEXTS,
            "round_number": _BAD_ROUNDS,
            "turn_number": _BAD_ROUNDS,
            "timestamp": [*_BAD_AMOUNTS, 1e11, 1_763_990_161_412],
            "prar_cue_used": [1, [], True],
            **dict.fromkeys(("feedback_snapshot", "validation_metadata", "context_frame"), _NO_OBJECTS),
            "role": ["Assistant", "coach", "", 1],
            "internal": ["true", 1, 0, []],
        },
    ),
    (
        feedback_faults,
        feedback(),
        {
            "agent_id": _BAD_AGENTS,
            "round_number": _BAD_ROUNDS,
            **dict.fromkeys(
                ("engagement", "theoretical_alignment", "contribution_value", "synthesis_inclusion"), _BAD_SHARES
            ),
            **dict.fromkeys(("direct_references", "response_received", "analyst_mentions"), _BAD_COUNTS),
            "concepts_embodied": ["labor", {}, None, [1], ["a", None]],
        },
    ),
    (
        adaptation_faults,
        adaptation(adaptation_type="adjust_intensity", intensity=0.5),
        {
            "agent_id": _BAD_AGENTS,
            "adaptation_type": ["activate", "", "ACTIVATE_CUE", 1, None],
            "cue": ["", "x" * 201, 1, None],
            "reason": _BAD_TEXTS,
            "round_number": _BAD_ROUNDS,
            "feedback_trigger": _BAD_OBJECTS,
            "intensity": _BAD_SHARES,
        },
    ),
    (
        policy_faults,
        policy_state(),
        {
            "framework_option": ["F", None],
            **dict.fromkeys(("framework_name", "source_run_id", "social_rl_version"), _BAD_TEXTS),
            "policies": [None, {}, "x"],
            "timestamp": _BAD_MOMENTS,
        },
    ),
    (
        round_faults,
        a_round(),
        {
            "meta": _BAD_OBJECTS,
            "round_number": _BAD_ROUNDS,
            "round_config": _BAD_OBJECTS,
            "messages": [None, {}, "x"],
            "feedback": _BAD_OBJECTS,
            "policy_adaptations": [None, {}, "x"],
            "synthesis": _BAD_TEXTS,
            "duration_seconds": _BAD_AMOUNTS,
        },
    ),
]


@cases("judge, right, wrong", _CASES)
def test_a_value_that_a_field_may_not_have_is_told_with_its_path(
    judge: Judge, right: dict[str, Any], wrong: dict[str, list[Any]]
) -> None:
    """Each field has its type, its range or its words; what is told names the field, and nothing else is told."""
    assert list(judge(right)) == []
    for name, value in ((name, value) for name, values in wrong.items() for value in values):
        found = [fault for fault in judge({**right, name: value}) if fault.rule != "other_round"]
        assert [fault.path for fault in found] == [f"$.{name}"], value
        assert found[0].message.startswith(f"{name} is ")
        assert found[0].rule in ("type", "value"), (name, value)


@cases("moment", _MOMENTS)
def test_a_moment_is_one_that_there_is(moment: str) -> None:
    """Wherever the schema has a time in ISO 8601; Python's datetime reads all of them."""
    cue = {"cue_id": "c", "active": True, "last_triggered": moment}
    policies = [{"role": "Worker", "cue_states": {"c": cue}}]
    assert not list(meta_faults(meta(timestamp=moment)))
    assert not list(policy_faults(policy_state(timestamp=moment, policies=policies)))
    datetime.fromisoformat(moment)
    cue["last_triggered"] = _NO_MOMENTS[0]
    assert [fault.rule for fault in policy_faults(policy_state(policies=policies))] == ["value"]


@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32), st.integers(0, 25), st.integers(0, 61))
def test_days_and_times_are_those_of_the_calendar(year: int, month: int, day: int, hour: int, minute: int) -> None:
    """What is taken is just what makes a datetime."""
    try:
        datetime(year, month, day, hour, minute)  # noqa: DTZ001 - the schema's times need no offset
        there_is = True
    except ValueError:
        there_is = False
    text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00"
    assert there_is == (not list(meta_faults(meta(timestamp=text))))


@cases("judge, right", [case[:2] for case in _CASES])
def test_fields_that_are_missing_or_unknown_are_told(judge: Judge, right: dict[str, Any]) -> None:
    """A required field may not be left out, others may; a field that is not documented is none."""
    required = {name for name in right if [fault.rule for fault in judge(_without(right, name))] == ["missing"]}
    optional = {name for name in right if not list(judge(_without(right, name)))}
    assert required | optional | {"intensity"} == right.keys() | {"intensity"}
    assert required
    (unknown,) = judge({**right, "mood": 1})
    assert (unknown.path, unknown.rule) == ("$.mood", "unknown_field")
    (none,) = judge([])
    assert (none.path, none.rule) == ("$", "type")


def _without(value: dict[str, Any], name: str) -> dict[str, Any]:
    return {each: item for each, item in value.items() if each != name}


@cases(
    "path, change",
    [
        ("$.messages[1]", lambda value: value["messages"].__setitem__(1, "hello")),
        ("$.messages[0].round_number", lambda value: value["messages"][0].update(round_number=2)),
        ("$.messages[0].context_frame.cue", lambda value: value["messages"][0].update(context_frame={"cue": "x"})),
        (
            "$.messages[0].context_frame.prar_cue",
            lambda value: value["messages"][0].update(context_frame={"prar_cue": 1}),
        ),
        ("$.meta.model", lambda value: value["meta"].pop("model")),
        ('$.feedback["Owner+Marta"].agent_id', lambda value: value["feedback"].update({"Owner+Marta": feedback()})),
        ('$.feedback["Worker+Alice"].round_number', lambda value: value["feedback"][ALICE].update(round_number=2)),
        ("$.policy_adaptations[0].round_number", lambda value: value["policy_adaptations"][0].update(round_number=3)),
    ],
)
def test_what_hangs_together_is_judged_together(path: str, change: Callable[[Any], Any]) -> None:
    """Parts of a round are of its number, and feedback is of its agent."""
    value = deepcopy(a_round())
    change(value)
    assert [fault.path for fault in round_faults(value)] == [path]


@cases("number", [-1, 0, "1", None])
def test_nothing_is_of_another_round_than_one_that_is_none(number: Any) -> None:
    """A round's number that cannot be one is told once, and not again of each of its parts."""
    assert [fault.path for fault in round_faults({**a_round(), "round_number": number})] == ["$.round_number"]


@cases(
    "path, policy",
    [
        ("$.policies[0]", 1),
        ("$.policies[0].role", {}),
        ("$.policies[0].role", {"role": ""}),
        ("$.policies[0].cues_active", {"role": "Worker", "cues_active": [1]}),
        ("$.policies[0].cue_states.c", {"role": "Worker", "cue_states": {"c": True}}),
        ("$.policies[0].cue_states.c.active", {"role": "Worker", "cue_states": {"c": {"cue_id": "c"}}}),
        ("$.policies[0].cue_states.c.cue_id", {"role": "W", "cue_states": {"c": {"cue_id": "d", "active": True}}}),
        (
            "$.policies[0].cue_states.c.intensity",
            {"role": "W", "cue_states": {"c": {"cue_id": "c", "active": True, "intensity": 2}}},
        ),
        (
            "$.policies[0].cue_states.c.last_triggered",
            {"role": "W", "cue_states": {"c": {"cue_id": "c", "active": True, "last_triggered": "soon"}}},
        ),
    ],
)
def test_a_policy_state_is_judged_to_its_cues(path: str, policy: Any) -> None:
    """Roles, cues in use, and the state of each cue."""
    assert [fault.path for fault in policy_faults(policy_state(policies=[policy]))] == [path]


_ODD = st.one_of(
    objects(models.ROUND, messages=st.lists(objects(models.MESSAGE), max_size=2)),
    st.builds(lambda name, value: a_round(**{name: value}), st.sampled_from(sorted(models.ROUND)), GOOD_JSON),
    st.builds(
        lambda name, value: a_round(messages=[message(**{name: value})], feedback={}, policy_adaptations=[]),
        st.sampled_from(sorted(models.MESSAGE)),
        GOOD_JSON,
    ),
    st.builds(
        lambda name, value: a_round(feedback={ALICE: feedback(**{name: value})}),
        st.sampled_from(sorted(models.FEEDBACK)),
        GOOD_JSON,
    ),
)


@settings(max_examples=100, deadline=None)
@given(_ODD)
def test_what_has_no_fault_makes_a_model(value: Any) -> None:
    """Whatever the checks let through, the typed models take; what the models refuse has a fault."""
    faults = list(round_faults(value))
    try:
        models.RoundResult.model_validate(value)
    except ValidationError:
        assert faults
    else:
        if not faults:
            assert models.RoundResult.from_value(value).to_value()["round_number"] == value["round_number"]
