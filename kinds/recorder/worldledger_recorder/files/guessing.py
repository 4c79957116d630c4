"""A mapping guessed from the names of a table's columns and its first rows, and a table shown by a mapping. Pure.

A guess is a suggestion: columns are taken for what their names say if their values allow it, and all others are members
of the payload. The state of entities is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from typing import Any, Final

from worldledger.drafts import MAX_WORD
from worldledger_recorder.files.mapping import (
    ISO,
    Csv,
    Entity,
    Named,
    Payload,
    SeesColumn,
    TableMapping,
    TimeColumn,
    Type,
    Unit,
    WorldColumn,
)
from worldledger_recorder.files.rows import READERS, RowRefusedError, seconds_of
from worldledger_recorder.files.tables import Record
from worldledger_recorder.rules import SOURCE

#: The names that columns have, the likeliest first; letters and digits of a name are compared.
_TIME: Final = ("time", "simtime", "timestamp", "datetime", "date", "ts", "t", "createdat", "when", "seconds")
_WORLD: Final = ("world", "worldid", "run", "runid", "episode", "episodeid", "game", "gameid", "simulation", "trial")
_STEP: Final = ("step", "turn", "round", "tick", "day", "period", "timestep", "iteration")
_AGENTS: Final = (
    "agent",
    "source",
    "actor",
    "player",
    "speaker",
    "sender",
    "trader",
    "bidder",
    "buyer",
    "seller",
    "voter",
    "villager",
    "citizen",
    "household",
    "firm",
    "worker",
    "customer",
    "character",
    "participant",
    "person",
    "author",
    "user",
)
_AGENT: Final = (*(f"{name}{ending}" for name in _AGENTS for ending in ("", "id", "name")), "name")
_KIND: Final = ("kind", "event", "eventtype", "eventname", "type", "action")
_SEES: Final = ("sees", "seenby", "audience", "recipients", "visibleto")
_JSON: Final = ("payload", "data", "body", "details", "json")

#: Endings of a time column's name that say its unit.
_ENDINGS: Final[Mapping[str, Unit]] = {
    "ms": "ms",
    "millis": "ms",
    "us": "us",
    "micros": "us",
    "ns": "ns",
    "nanos": "ns",
}
#: Least numbers that are epoch times of this century, by unit.
_EPOCHS: Final[Sequence[tuple[float, Unit]]] = ((1e18, "ns"), (1e15, "us"), (1e12, "ms"), (1e9, "s"))
#: Texts that stand for no value where all others of a column are numbers.
_MISSING: Final = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
#: Most kinds that a column can tell.
_MOST_KINDS: Final = 100


def guess(columns: Sequence[str], sample: Iterable[Record], dialect: Csv, *, texts: bool, stem: str) -> TableMapping:
    """Guess a mapping of columns. ``texts``: whether all values are texts, as in CSV; ``stem``: the file's name."""
    rows = [record.values for record in sample if not record.why]
    values = {name: [row[name] for row in rows if row.get(name) is not None] for name in columns}
    missing = _missing(values) if texts else []
    values = {name: [value for value in found if value not in missing] for name, found in values.items()}
    taken: set[str] = set()

    def find(names: Sequence[str], fits: Callable[[list[Any]], bool]) -> str | None:
        plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(columns) if name not in taken}
        for word in names:
            name = plain.get(word)
            if name is not None and values[name] and fits(values[name]):
                taken.add(name)
                return name
        return None

    world = find(_WORLD, lambda found: all(map(_is_word, found)))
    step = find(_STEP, _are_steps)
    time = _time(columns, values, taken)
    if time is None and step is not None:
        time = TimeColumn(column=step)
    kind = find(_KIND, _are_kinds)
    agent = find(_AGENT, lambda found: all(map(_is_word, found)))
    sees = find(_SEES, lambda found: all(isinstance(value, str | list) for value in found))
    json = find(_JSON, lambda found: all(map(_is_object, found)))
    default = SOURCE if agent is not None and len(values[agent]) < len(rows) else None
    return TableMapping(
        world=None if world is None else WorldColumn(column=world, prefix=f"{stem}-"),
        time=time,
        step=step,
        agent=None if agent is None else Named(column=agent, default=default),
        kind=None if kind is None else Named(column=kind, default="Row" if len(values[kind]) < len(rows) else None),
        sees=None if sees is None else SeesColumn(column=sees, separator=_separator(values[sees])),
        payload=Payload(json=json),
        types=_types({name: found for name, found in values.items() if name not in taken}) if texts else {},
        missing=None if missing in ([""], []) else missing,
        csv=dialect,
    )


def _missing(values: Mapping[str, list[Any]]) -> list[str]:
    """Return the texts that stand for no value in a column of numbers."""
    found: dict[str, None] = {"": None}
    for texts in values.values():
        odd = {text for text in texts if text in _MISSING}
        if odd - {""} and _numbers([text for text in texts if text not in odd]):
            found |= dict.fromkeys(text for text in _MISSING if text in odd)
    return list(found)


def _time(columns: Sequence[str], values: Mapping[str, list[Any]], taken: set[str]) -> TimeColumn | None:
    def rank(name: str) -> int:
        words = re.sub(r"[^a-z0-9]", "", name.lower())
        for ending in _ENDINGS:
            if words.removesuffix(ending) in _TIME:
                words = words.removesuffix(ending)
        return _TIME.index(words) if words in _TIME else len(_TIME)

    for name in sorted((name for name in columns if name not in taken), key=rank):
        found = values[name]
        is_named = rank(name) < len(_TIME)
        if not found:
            continue
        if is_named and (numbers := _numbers(found)):
            taken.add(name)
            ending = re.split(r"[^a-z0-9]", name.lower())[-1]
            epoch = next((unit for least, unit in _EPOCHS if min(numbers) >= least), None)
            unit = _ENDINGS.get(ending, epoch or "s")
            return TimeColumn(column=name, unit=unit, zero="first" if epoch else None)
        if all(isinstance(value, str) and _is_iso(value) for value in found):
            taken.add(name)
            is_local = not all(_is_iso(value, local=False) for value in found)
            return TimeColumn(column=name, unit=ISO, zero="first", zone="UTC" if is_local else None)
    return None


def _is_iso(text: str, *, local: bool = True) -> bool:
    try:
        seconds_of(text, UTC if local else None)
    except RowRefusedError:
        return False
    return not text.strip().isdecimal()  # 20260131 may be any number


def _numbers(found: Sequence[Any]) -> list[float]:
    """Return the numbers that values are; none if one of them is no number."""
    numbers = []
    for value in found:
        number = _read("number", value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            return []
        numbers.append(float(number))
    return numbers


def _are_steps(found: list[Any]) -> bool:
    numbers = _numbers(found)
    return bool(numbers) and all(number >= 0 and number.is_integer() for number in numbers)


def _are_kinds(found: list[Any]) -> bool:
    return all(map(_is_word, found)) and len(set(found)) <= _MOST_KINDS and not _numbers(found)


def _is_word(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and 0 < len(str(value)) <= MAX_WORD


def _is_object(value: Any) -> bool:
    return isinstance(_read("json", value) if isinstance(value, str) else value, dict)


def _separator(found: Sequence[Any]) -> str:
    texts = [value for value in found if isinstance(value, str)]
    return max(",;|", key=lambda sign: sum(text.count(sign) for text in texts))


def _read(kind: Type, text: str) -> Any:
    with suppress(RowRefusedError):
        return READERS[kind](text)
    return None


def _types(values: Mapping[str, list[Any]]) -> dict[str, Type]:
    """Return the types of columns that are not texts; a number with a zero before it is a text."""
    found: dict[str, Type] = {}
    for name, texts in values.items():
        if not texts or any(re.match(r"[+-]?0[0-9]", text) for text in texts):
            continue
        for kind in ("integer", "number", "boolean"):
            if all(_read(kind, text) is not None for text in texts):
                found[name] = kind
                break
        else:
            if all(text[:1] in {"{", "["} and _read("json", text) is not None for text in texts):
                found[name] = "json"
    return found


# -- a table as a mapping sees it ----------------------------------------------------------------------------


def uses(mapping: TableMapping, columns: Sequence[str]) -> dict[str, str]:
    """Return what each column is used for, in words."""
    found: dict[str, list[str]] = {name: [] for name in columns}

    def note(name: str, what: str) -> None:
        found.setdefault(name, []).append(what)

    if mapping.world is not None:
        note(mapping.world.column, "world")
    if mapping.time is not None:
        note(mapping.time.column, f"time ({mapping.time.unit})")
    if mapping.step is not None:
        note(mapping.step, "step")
    for what, named in (("agent", mapping.agent), ("kind", mapping.kind)):
        if named is not None and named.column is not None:
            note(named.column, what)
    if mapping.sees is not None:
        note(mapping.sees.column, "sees")
    if mapping.entity is not None:
        _note_entity(mapping.entity, note)
    if mapping.payload.json_column is not None:
        note(mapping.payload.json_column, "payload")
    members = mapping.payload.columns
    used = mapping.used()
    is_event = mapping.kind is not None or mapping.entity is None
    for name in columns:
        if is_event and (name not in used if members is None else name in members):
            kind = mapping.types.get(name)
            note(name, f"payload ({kind})" if kind else "payload")
    return {name: ", ".join(what) or "left out" for name, what in found.items()}


def _note_entity(entity: Entity, note: Callable[[str, str], object]) -> None:
    note(entity.id, "entity")
    for field, names in entity.fields.items():
        for name in [names] if isinstance(names, str) else names:
            note(name, f"state {field}")
