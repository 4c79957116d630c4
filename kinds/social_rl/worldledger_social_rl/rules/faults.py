"""What strict checks find wrong with documents of a run: every fault, each with its JSON path.

Source: docs/reference/social-rl.md, "Documents". Pure and hand-written: no models are made, so a round of any size is
judged in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypedDict

from worldledger.canonical import child
from worldledger.drafts import json_name
from worldledger.errors import InvalidRunError
from worldledger.errors.social_rl import MAX_PROBLEMS
from worldledger_social_rl.rules.fields import (
    ADAPTATION,
    CONTEXT_FRAME,
    CUE_STATE,
    FEEDBACK,
    MESSAGE,
    META,
    POLICY_STATE,
    ROLE_POLICY,
    ROUND,
    Fields,
)

_SHOWN: Final = 60


class Fault(NamedTuple):
    """One thing that is wrong: where, what in words, and by which rule.

    Rules: ``missing``, ``type``, ``value``, ``unknown_field``, ``other_round``, ``other_agent``.
    """

    path: str
    message: str
    rule: str


def field_faults(value: Any, fields: Fields, path: str, what: str = "this") -> Iterator[Fault]:
    """Return what is wrong with an object's fields, one after another; ``what`` is its name in words."""
    if type(value) is not dict:
        yield Fault(path, f"{what} is an object, not {json_name(value)}", "type")
        return
    for name, field in fields.items():
        if name not in value:
            if field.required:
                yield Fault(child(path, name), f"{name} is missing; it is {field.what}", "missing")
            continue
        found = value[name]
        if type(found) not in field.types:
            yield Fault(child(path, name), f"{name} is {field.what}, not {json_name(found)}", "type")
        elif field.rule is not None and not field.rule(found):
            yield Fault(child(path, name), f"{name} is {field.what}{_not(found)}", "value")
    for name in value:
        if name not in fields:
            yield Fault(child(path, name), f"{name} is no field of {what}", "unknown_field")


def _not(value: Any) -> str:
    if isinstance(value, list | dict):
        return ""
    text = repr(value)
    return f", not {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"


def meta_faults(value: Any, path: str = "$") -> Iterator[Fault]:
    """Return what is wrong with a meta block."""
    yield from field_faults(value, META, path, "a meta block")


def message_faults(value: Any, path: str = "$", number: int | None = None) -> Iterator[Fault]:
    """Return what is wrong with a message of the round of that number (None: of any)."""
    yield from field_faults(value, MESSAGE, path, "a message")
    if type(value) is dict:
        yield from _round_faults(value, path, number)
        if type(value.get("context_frame")) is dict:
            yield from field_faults(value["context_frame"], CONTEXT_FRAME, f"{path}.context_frame", "a context frame")


def feedback_faults(
    value: Any, path: str = "$", number: int | None = None, agent: str | None = None
) -> Iterator[Fault]:
    """Return what is wrong with a feedback vector of the agent, in the round of that number (None: of any)."""
    yield from field_faults(value, FEEDBACK, path, "a feedback vector")
    if type(value) is dict:
        yield from _round_faults(value, path, number)
        said = value.get("agent_id")
        if agent is not None and type(said) is str and said != agent:
            what = f"this is the feedback of {agent!r}, not of {said!r}"
            yield Fault(f"{path}.agent_id", what, "other_agent")


def adaptation_faults(value: Any, path: str = "$", number: int | None = None) -> Iterator[Fault]:
    """Return what is wrong with a policy adaptation of the round of that number (None: of any)."""
    yield from field_faults(value, ADAPTATION, path, "a policy adaptation")
    if type(value) is dict:
        yield from _round_faults(value, path, number)


def policy_faults(value: Any, path: str = "$") -> Iterator[Fault]:
    """Return what is wrong with a PRAR policy state."""
    yield from field_faults(value, POLICY_STATE, path, "a policy state")
    policies = value.get("policies") if type(value) is dict else None
    for index, policy in enumerate(policies if type(policies) is list else ()):
        where = child(f"{path}.policies", index)
        yield from field_faults(policy, ROLE_POLICY, where, "a role's policy")
        states = policy.get("cue_states") if type(policy) is dict else None
        for cue, state in (states if type(states) is dict else {}).items():
            place = child(f"{where}.cue_states", cue)
            yield from field_faults(state, CUE_STATE, place, "a cue's state")
            said = state.get("cue_id") if type(state) is dict else None
            if type(said) is str and said != cue:
                yield Fault(f"{place}.cue_id", f"this is the state of {cue!r}, not of {said!r}", "value")


def round_faults(value: Any, path: str = "$", number: int | None = None) -> Iterator[Fault]:
    """Return what is wrong with a whole round, its messages, feedback and adaptations included.

    ``number`` is the one that it must have, None for any.
    """
    yield from field_faults(value, ROUND, path, "a round")
    if type(value) is not dict:
        return
    yield from _round_faults(value, path, number)
    if number is None:
        number = number_of(value)
    if type(value.get("meta")) is dict:
        yield from meta_faults(value["meta"], f"{path}.meta")
    for index, message in enumerate(_list(value, "messages")):
        yield from message_faults(message, child(f"{path}.messages", index), number)
    feedback = value.get("feedback")
    for agent, vector in (feedback if type(feedback) is dict else {}).items():
        yield from feedback_faults(vector, child(f"{path}.feedback", agent), number, agent)
    for index, adaptation in enumerate(_list(value, "policy_adaptations")):
        yield from adaptation_faults(adaptation, child(f"{path}.policy_adaptations", index), number)


def number_of(value: Mapping[str, Any]) -> int | None:
    """Return the number of a round, None where it is none: then nothing can be of another round."""
    said, field = value.get("round_number"), ROUND["round_number"]
    return said if type(said) is int and field.rule is not None and field.rule(said) else None


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    return found if type(found) is list else []


def _round_faults(value: Mapping[str, Any], path: str, number: int | None) -> Iterator[Fault]:
    said = value.get("round_number")
    if number is not None and type(said) is int and said != number:
        yield Fault(f"{path}.round_number", f"this is of round {number}, not {said}", "other_round")


# What becomes of faults: problems of a run that is refused, or notices of one that is taken as it was found.

_PLACE: Final = re.compile(r"\[(?:[0-9]+|\"(?:[^\"\\]|\\.)*\")\]")


class Notice(TypedDict):
    """Something odd about a file: where it first was, what, and how many times something of the sort was found."""

    file: str
    path: str
    message: str
    count: int


class Judge:
    """Gathers faults, file by file; ``strict`` says what becomes of them."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.problems: list[dict[str, Any]] = []
        self._notices: dict[tuple[str, str, str], Notice] = {}

    @property
    def notices(self) -> list[Notice]:
        """What was odd and taken all the same, the like of it told once for each file."""
        return list(self._notices.values())

    def take(self, file: str, faults: Iterable[Fault]) -> None:
        """Take faults of a file: problems in strict mode, else notices."""
        for fault in faults:
            if self.strict:
                self.refuse(file, fault.path, fault.message)
            else:
                key = (file, _PLACE.sub("[*]", fault.path), fault.rule)
                notice = self._notices.get(key)
                if notice is None:
                    self._notices[key] = {"file": file, "path": fault.path, "message": fault.message, "count": 1}
                else:
                    notice["count"] += 1

    def refuse(self, file: str, path: str, message: str) -> None:
        """Note a problem that no mode takes; ``file`` is empty where there is none."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(({"file": file} if file else {}) | {"path": path, "message": message})

    def decide(self) -> None:
        """Raise InvalidRunError if there is any problem."""
        if self.problems:
            raise InvalidRunError(self.problems)
