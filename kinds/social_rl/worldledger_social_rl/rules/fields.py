"""What the fields of a run's documents may hold: types with their rules, and the table of a model's fields.

A field is written once, in its model (`worldledger_social_rl.rules.models`): name, type, default, meaning. `fields_of`
makes of a model the table that serves the checks, the reader of run folders and docs/reference/social-rl.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from math import inf, isfinite, nextafter
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import BaseModel
from pydantic import Field as Bounds
from pydantic.fields import FieldInfo

from worldledger.canonical import MAX_INT, child
from worldledger.drafts import MAX_WORD, json_name
from worldledger_social_rl.rules.errors import MAX_PROBLEMS, InvalidRunError

#: The version of the documents' schemas.
SCHEMA_VERSION: Final = "0.2.0"

AdaptationType: TypeAlias = Literal["activate_cue", "deactivate_cue", "adjust_intensity"]
MessageRole: TypeAlias = Literal["assistant", "system", "user"]
FrameworkOption: TypeAlias = Literal["A", "B", "C", "D", "E"]
ADAPTATION_TYPES: Final[tuple[AdaptationType, ...]] = get_args(AdaptationType)
MESSAGE_ROLES: Final[tuple[MessageRole, ...]] = get_args(MessageRole)

Rule: TypeAlias = Callable[[Any], bool]

#: Timestamps from here on (the year 5138) are no seconds, but milliseconds or less.
LATEST_SECONDS: Final = 1e11
_JUST_BEFORE: Final = nextafter(LATEST_SECONDS, 0)
#: A day, a time of day that every clock knows (neither 24:00 nor a second 60), and an offset of less than a day.
_MOMENT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ]"
    r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?"
    r"(Z|[+-]([01]\d|2[0-3]):?[0-5]\d)?\Z",
    re.ASCII,
)
#: The days of each month; those of February in a leap year.
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


# -- types ---------------------------------------------------------------------------------------------------


class Is(NamedTuple):
    """A type: ``what`` describes it, to be read after "is"; ``rule`` is what strict checks ask besides its bounds."""

    what: str
    rule: Rule | None = None


class Mark(Enum):
    """How a field differs in a document from what it is in Python."""

    #: Its default is for those who make a document; one that is read must have it.
    NEEDED = auto()
    #: None in Python, left out of a document, never null.
    LEFT_OUT = auto()
    #: None in Python, null in documents; where they are written, it is left out instead.
    WRITTEN_IF_SAID = auto()


def role_and_name(agent_id: str) -> tuple[str | None, str]:
    """Return the role and the name in an agent id; the role is None where the id is not of the form Role+Name."""
    role, plus, name = agent_id.partition("+")
    return (role, name) if plus and role and name else (None, agent_id)


def _is_agent_id(value: str) -> bool:
    return role_and_name(value)[0] is not None


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


T = TypeVar("T")
Needed: TypeAlias = Annotated[T, Mark.NEEDED]
LeftOut: TypeAlias = Annotated[T | None, Mark.LEFT_OUT]
IfSaid: TypeAlias = Annotated[T | None, Mark.WRITTEN_IF_SAID]

AgentId: TypeAlias = Annotated[
    str,
    Bounds(max_length=MAX_WORD),
    Is(f"a string of the form Role+Name, of at most {MAX_WORD} characters", _is_agent_id),
]
Word: TypeAlias = Annotated[
    str, Bounds(min_length=1, max_length=MAX_WORD), Is(f"a string of 1 to {MAX_WORD} characters")
]
Moment: TypeAlias = Annotated[str, Is("a time in ISO 8601", _is_moment)]
Share: TypeAlias = Annotated[float, Bounds(ge=0, le=1), Is("a number from 0 to 1")]
Amount: TypeAlias = Annotated[float, Bounds(ge=0), Is("a number from 0 on", isfinite)]
Seconds: TypeAlias = Annotated[float, Bounds(ge=0, le=_JUST_BEFORE), Is("a number of seconds since 1970")]
Count: TypeAlias = Annotated[int, Bounds(ge=0, le=MAX_INT), Is("a whole number from 0 on")]
Ordinal: TypeAlias = Annotated[int, Bounds(ge=1, le=MAX_INT), Is("a whole number from 1 on")]
Texts: TypeAlias = Annotated[list[str], Is("a list of strings", lambda value: all(type(item) is str for item in value))]


# -- a model's fields ----------------------------------------------------------------------------------------


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


Fields: TypeAlias = Mapping[str, Field]

_PLAIN: Final[Mapping[type, tuple[frozenset[type], str]]] = {
    str: (frozenset({str}), "a string"),
    bool: (frozenset({bool}), "true or false"),
    int: (frozenset({int}), "a whole number"),
    float: (frozenset({int, float}), "a number"),
    list: (frozenset({list}), "a list"),
    dict: (frozenset({dict}), "an object"),
}


def fields_of(model: type[BaseModel]) -> Fields:
    """Return the fields of a model's document, by name, in the order in which they are written."""
    return {name: _field(info) for name, info in model.model_fields.items()}


def marks_of(info: FieldInfo) -> frozenset[Mark]:
    """Return how a field differs in a document from what it is in Python."""
    return frozenset(item for item in info.metadata if isinstance(item, Mark))


def _field(info: FieldInfo) -> Field:
    marks = marks_of(info)
    base, facts, null = _bare(info.annotation)
    origin = get_origin(base) or base
    facts += info.metadata
    if origin is Literal:
        known = frozenset(get_args(base))
        types, what = _PLAIN[str][0], f"one of {', '.join(get_args(base))}"
        facts.append(Is(what, known.__contains__))
    else:
        types, what = _PLAIN[dict if issubclass(origin, BaseModel) else origin]
    what = next((fact.what for fact in facts if isinstance(fact, Is)), what)
    rule = _rule(facts)
    if null and Mark.LEFT_OUT not in marks:
        types, what = types | {NoneType}, f"{what.replace(' or ', ', ') if base is bool else what} or null"
        rule = _or_null(rule)
    return Field(types, what, info.description or "", info.is_required() or Mark.NEEDED in marks, rule)


def _bare(annotation: Any) -> tuple[Any, list[Any], bool]:
    """Return a type without what is annotated to it, those annotations, and whether it may be None."""
    facts: list[Any] = []
    null = False
    while (origin := get_origin(annotation)) in (Annotated, Union, UnionType):
        if origin is Annotated:
            annotation, *more = get_args(annotation)
            facts += (part for fact in more for part in (fact.metadata if isinstance(fact, FieldInfo) else [fact]))
        else:
            null = True
            (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
    return annotation, facts, null


def _rule(facts: Sequence[Any]) -> Rule | None:
    """Return what is asked of a value by all that is annotated to its type."""
    meant = [fact for fact in facts if isinstance(fact, Is)]
    low = _bound(facts, "ge", -inf)
    high = _bound(facts, "le", inf)
    least, most = _bound(facts, "min_length", 0), _bound(facts, "max_length", inf)
    rules = [fact.rule for fact in meant if fact.rule is not None]
    if (least, most) != (0, inf):
        rules.append(lambda value: least <= len(value) <= most)
    if (low, high) != (-inf, inf):
        rules.append(lambda value: low <= value <= high)
    if len(rules) > 1:
        return lambda value: all(rule(value) for rule in rules)
    return rules[0] if rules else None


def _bound(facts: Sequence[Any], name: str, default: float) -> float:
    return next((getattr(fact, name) for fact in facts if hasattr(fact, name)), default)


def _or_null(rule: Rule | None) -> Rule | None:
    return None if rule is None else lambda value: value is None or rule(value)


def types_of(fields: Fields) -> Mapping[str, frozenset[type]]:
    """Return what the value of each field may be, for a fast look."""
    return {name: field.types for name, field in fields.items()}


def required_of(fields: Fields) -> frozenset[str]:
    """Return the fields that may not be left out."""
    return frozenset(name for name, field in fields.items() if field.required)


# What strict checks find wrong with the fields of a document, each fault with its JSON path; and what becomes of it.
#
# What is wrong with each document is in `worldledger_social_rl.rules.models`.


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
