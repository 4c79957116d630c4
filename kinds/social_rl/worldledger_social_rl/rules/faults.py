"""What strict checks find wrong with the fields of a document, each fault with its JSON path; and what becomes of it.

What is wrong with each document is in `worldledger_social_rl.rules.models`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypedDict

from worldledger.canonical import child
from worldledger.drafts import json_name
from worldledger_social_rl.rules.errors import MAX_PROBLEMS, InvalidRunError
from worldledger_social_rl.rules.fields import Fields

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


# -- what becomes of them: problems of a run that is refused, or notices of one that is taken as it was found ---

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


def refuse(faults: Iterable[Fault], *, file: str | None = None) -> None:
    """Raise InvalidRunError if there is any fault."""
    problems: list[Mapping[str, Any]] = [
        {"path": fault.path, "message": fault.message} | ({} if file is None else {"file": file}) for fault in faults
    ]
    if problems:
        raise InvalidRunError(problems)
