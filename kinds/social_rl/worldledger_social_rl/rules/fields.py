"""The fields of the documents of a run: what each holds, and what strict checks ask of it.

One table serves the checks, the reader of run folders and docs/reference/social-rl.md, "Documents". Fields that a run
may do without are not required, nor are the parts of a round that older runs do not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD

#: The version of the documents' schemas.
SCHEMA_VERSION: Final = "0.2.0"

AdaptationType: TypeAlias = Literal["activate_cue", "deactivate_cue", "adjust_intensity"]
MessageRole: TypeAlias = Literal["assistant", "system", "user"]
FrameworkOption: TypeAlias = Literal["A", "B", "C", "D", "E"]
ADAPTATION_TYPES: Final[tuple[AdaptationType, ...]] = get_args(AdaptationType)
MESSAGE_ROLES: Final[tuple[MessageRole, ...]] = get_args(MessageRole)
FRAMEWORK_OPTIONS: Final[tuple[FrameworkOption, ...]] = get_args(FrameworkOption)

Rule: TypeAlias = Callable[[Any], bool]

#: Timestamps from here on (the year 5138) are no seconds, but milliseconds or less.
LATEST_SECONDS: Final = 1e11
#: A day, a time of day that every clock knows (neither 24:00 nor a second 60), and an offset of less than a day.
_MOMENT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ]"
    r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?"
    r"(Z|[+-]([01]\d|2[0-3]):?[0-5]\d)?\Z",
    re.ASCII,
)
#: The days of each month; those of February in a leap year.
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NUMBER: Final = frozenset({int, float})
_WHOLE: Final = frozenset({int})
_TEXT: Final = frozenset({str})
_OBJECT: Final = frozenset({dict})
_LIST: Final = frozenset({list})
_NULL: Final = frozenset({type(None)})


class Field(NamedTuple):
    """A field of a document.

    - ``types``: what its value may be at all; a value of any other type does not fit and is kept in ``extra``.
    - ``rule``: what strict checks ask besides; None for nothing.
    - ``what``: both in words, to follow "is". ``meaning``: for the docs.
    """

    types: frozenset[type]
    what: str
    meaning: str
    required: bool = True
    rule: Rule | None = None


def role_and_name(agent_id: str) -> tuple[str | None, str]:
    """Return the role and the name in an agent id; the role is None where the id is not of the form Role+Name."""
    role, plus, name = agent_id.partition("+")
    return (role, name) if plus and role and name else (None, agent_id)


def _is_agent_id(value: str) -> bool:
    return len(value) <= MAX_WORD and role_and_name(value)[0] is not None


def _is_count(value: int) -> bool:
    return 0 <= value <= MAX_INT


def _is_turn(value: int) -> bool:
    return 1 <= value <= MAX_INT


def _is_share(value: float) -> bool:
    return 0 <= value <= 1


def _is_amount(value: float) -> bool:
    return value >= 0 and isfinite(value)


def _is_seconds(value: float) -> bool:
    return 0 <= value < LATEST_SECONDS


def _is_moment(value: str) -> bool:
    """Tell whether a text is a moment that there is, as Python's datetime holds it."""
    found = _MOMENT.match(value)
    return found is not None and _is_day(int(found[1]), int(found[2]), int(found[3]))


def is_naive(value: Any) -> bool:
    """Tell whether a value is a moment without an offset from UTC."""
    found = _MOMENT.match(value) if type(value) is str and _is_moment(value) else None
    return found is not None and found[7] is None


def _is_day(year: int, month: int, day: int) -> bool:
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1]):
        return False
    return (month, day) != (2, 29) or (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))


def _is_name(value: str) -> bool:
    return 0 < len(value) <= MAX_WORD


def _are_texts(value: list[Any]) -> bool:
    return all(type(item) is str for item in value)


def _one_of(known: tuple[str, ...], *, null: bool = False) -> Rule:
    words = frozenset(known)
    return lambda value: value in words or (null and value is None)


def _agent(meaning: str) -> Field:
    what = f"a string of the form Role+Name, of at most {MAX_WORD} characters"
    return Field(_TEXT, what, meaning, rule=_is_agent_id)


def _share(meaning: str, *, required: bool = True) -> Field:
    return Field(_NUMBER, "a number from 0 to 1", meaning, required, _is_share)


def _count(meaning: str) -> Field:
    return Field(_WHOLE, "a whole number from 0 on", meaning, required=False, rule=_is_count)


def _round(meaning: str) -> Field:
    return Field(_WHOLE, "a whole number from 1 on", meaning, rule=_is_turn)


def _text(meaning: str, *, required: bool = True) -> Field:
    return Field(_TEXT, "a string", meaning, required)


def _may_be(types: frozenset[type], what: str, meaning: str, rule: Rule | None = None) -> Field:
    return Field(types | _NULL, f"{what} or null", meaning, required=False, rule=rule)


def _options(meaning: str) -> Field:
    return Field(_TEXT, f"one of {', '.join(FRAMEWORK_OPTIONS)}", meaning, rule=_one_of(FRAMEWORK_OPTIONS))


def _temperature(meaning: str) -> Field:
    return Field(_NUMBER, "a number from 0 on", meaning, required=False, rule=_is_amount)


def _moment(meaning: str, *, required: bool = True) -> Field:
    return Field(_TEXT, "a time in ISO 8601", meaning, required, _is_moment)


Fields: TypeAlias = Mapping[str, Field]

META: Final[Fields] = {
    "experiment_id": _text("Unique experiment identifier (directory name)."),
    "prar_run_id": _text("Source PRAR output directory."),
    "framework": _text("Human-readable framework name."),
    "framework_option": _options("Framework option code."),
    "model": _text("LLM model identifier."),
    "performer_temperature": _temperature("Temperature for agent generation."),
    "coach_temperature": _temperature("Temperature for validation."),
    "social_rl_version": _text("Schema or code version; one for a whole run.", required=False),
    "timestamp": _moment("When the run was made.", required=False),
}

CONTEXT_FRAME: Final[Fields] = {
    name: _may_be(_TEXT, "a string", meaning)
    for name, meaning in {
        "base_scenario": "The scenario as everybody has it.",
        "concept_a_manifestation": "How the first concept shows.",
        "concept_b_manifestation": "How the second concept shows.",
        "experiential_cue": "What the agent is made to notice.",
        "social_feedback_summary": "What the agent is told of its feedback.",
        "prar_cue": "The PRAR cue.",
    }.items()
}

MESSAGE: Final[Fields] = {
    "agent_id": _agent("Who speaks."),
    "content": _text("What is said."),
    "round_number": _round("The running round."),
    "turn_number": Field(_WHOLE, "a whole number from 1 on", "Turn within the round.", rule=_is_turn),
    "timestamp": Field(_NUMBER, "a number of seconds since 1970", "Unix timestamp.", rule=_is_seconds),
    "prar_cue_used": _may_be(_TEXT, "a string", "PRAR reasoning cue injected."),
    "feedback_snapshot": _may_be(_OBJECT, "an object", "Feedback at the time of the message."),
    "validation_metadata": _may_be(_OBJECT, "an object", "Coach validation details."),
    "context_frame": _may_be(_OBJECT, "an object", "Dynamic context injection details."),
    "role": _may_be(_TEXT, f"one of {', '.join(MESSAGE_ROLES)}", "Message role.", _one_of(MESSAGE_ROLES, null=True)),
    "internal": _may_be(frozenset({bool}), "true, false", "Whether it is for coaches only."),
}

FEEDBACK: Final[Fields] = {
    "agent_id": _agent("Whose feedback it is."),
    "round_number": _round("The round that it is about."),
    "engagement": _share("Participation level."),
    "theoretical_alignment": _share("Framework adherence."),
    "contribution_value": _share("Substantive contribution."),
    "direct_references": _count("Times referenced by others."),
    "response_received": _count("Responses to this agent."),
    "concepts_embodied": Field(
        _LIST, "a list of strings", "Detected concept expressions.", required=False, rule=_are_texts
    ),
    "analyst_mentions": _count("Mentions by the analyst."),
    "synthesis_inclusion": _share("Inclusion in the synthesis.", required=False),
}

ADAPTATION: Final[Fields] = {
    "agent_id": _agent("Whose policy changes."),
    "adaptation_type": Field(
        _TEXT, f"one of {', '.join(ADAPTATION_TYPES)}", "What becomes of the cue.", rule=_one_of(ADAPTATION_TYPES)
    ),
    "cue": Field(_TEXT, f"a string of 1 to {MAX_WORD} characters", "The cue.", rule=_is_name),
    "reason": _text("Human-readable explanation."),
    "round_number": _round("When it happened."),
    "feedback_trigger": Field(_OBJECT, "an object", "The feedback values that triggered it."),
    "intensity": _share("The cue's intensity from here on, where it is told.", required=False),
}

CUE_STATE: Final[Fields] = {
    "cue_id": Field(_TEXT, f"a string of 1 to {MAX_WORD} characters", "The cue.", rule=_is_name),
    "active": Field(frozenset({bool}), "true or false", "Whether it is used."),
    "intensity": _share("How strongly.", required=False),
    "last_triggered": _may_be(_TEXT, "a time in ISO 8601", "When it last was.", lambda v: v is None or _is_moment(v)),
}

ROLE_POLICY: Final[Fields] = {
    "role": Field(_TEXT, f"a string of 1 to {MAX_WORD} characters", "The role of the agents.", rule=_is_name),
    "cues_active": Field(_LIST, "a list of strings", "The cues in use.", required=False, rule=_are_texts),
    "cue_states": Field(_OBJECT, "an object", "Cue -> its state.", required=False),
    "feedback_snapshot": _may_be(_OBJECT, "an object", "Feedback at that time."),
}

POLICY_STATE: Final[Fields] = {
    "framework_option": _options("Framework option code."),
    "framework_name": _text("Human-readable framework name."),
    "policies": Field(_LIST, "a list", "One policy for each role."),
    "timestamp": _moment("When it was recorded."),
    "source_run_id": _text("The PRAR run that it comes from."),
    "social_rl_version": _text("Schema or code version."),
}

ROUND: Final[Fields] = {
    "meta": Field(_OBJECT, "an object", "What experiment it is of.", required=False),
    "round_number": _round("The number of the round; the file's name has it too."),
    "round_config": Field(_OBJECT, "an object", "Scenario, rules, tasks: free.", required=False),
    "messages": Field(_LIST, "a list", "The messages in order."),
    "feedback": Field(_OBJECT, "an object", "Agent -> its feedback.", required=False),
    "policy_adaptations": Field(_LIST, "a list", "The adaptations in order.", required=False),
    "synthesis": _text("What the round came to.", required=False),
    "duration_seconds": Field(_NUMBER, "a number from 0 on", "How long it took.", required=False, rule=_is_amount),
}


def types_of(fields: Fields) -> Mapping[str, frozenset[type]]:
    """Return what the value of each field may be, for a fast look."""
    return {name: field.types for name, field in fields.items()}


def required_of(fields: Fields) -> frozenset[str]:
    """Return the fields that may not be left out."""
    return frozenset(name for name, field in fields.items() if field.required)
