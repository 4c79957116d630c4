"""Rows of a table as drafts of effects, by a mapping. Pure: what a row becomes depends on it and on the rows before it.

Of each world it is known how far its rows have come: the time and the step never go back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from worldledger.canonical import MAX_INT, canonical_json, gate, parse_text
from worldledger.drafts import MAX_WORD, CheckedDraft, check_draft, json_name
from worldledger.effects import SCHEMA_VERSION
from worldledger.errors import InvalidEffectError
from worldledger.names import slug
from worldledger_recorder.files.mapping import ISO, UNITS, Named, TableMapping, TimeColumn
from worldledger_recorder.rules import ENTITY_SET, SOURCE, STEP_BEGAN

if TYPE_CHECKING:
    from worldledger_recorder.files.tables import Table

#: Bytes of an effect besides its payload, at most.
_AROUND: Final = 4096
_WORLD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]*\Z")
_MOST_WORLD: Final = 150
_HASH_DIGITS: Final = 8
#: Most kinds with sources that are remembered: the same few occur again and again.
_MOST_HEADS: Final = 4096
#: Longest integer that a time is read as.
_MOST_DIGITS: Final = 30
#: Stands for a cell without a value.
MISSING: Final = object()


class RowRefusedError(ValueError):
    """A row that cannot be taken; its text says why."""


class Row(NamedTuple):
    """The drafts that a row becomes: ``number`` is its place in the file, ``agents`` are the ones that it names."""

    number: int
    world: str
    agents: Sequence[str]
    drafts: Sequence[CheckedDraft]


# -- the texts of cells --------------------------------------------------------------------------------------


def _integer(text: str) -> int:
    try:
        value = int(text) if "_" not in text else None
    except ValueError:
        value = None
    if value is None:
        raise RowRefusedError(f"{_shown(text)} is no integer")
    if abs(value) > MAX_INT:
        raise RowRefusedError(f"{_shown(text)} is beyond ±(2^53-1); with the type text it stays as it is")
    return value


def _number(text: str) -> float:
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise RowRefusedError(f"{_shown(text)} is no finite number")
    return value + 0.0  # never -0.0


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in {"true", "false"}:
        raise RowRefusedError(f"{_shown(text)} is neither true nor false")
    return word == "true"


def _json(text: str) -> Any:
    try:
        return parse_text(text.encode("utf-8", "surrogatepass"))
    except InvalidEffectError as error:
        raise RowRefusedError(error.reason if error.path == "$" else str(error)) from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


#: What the text of a cell becomes, by type; RowRefusedError for one that cannot be.
READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "text": str,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "json": _json,
}


def seconds_of(text: str, zone: tzinfo | None) -> float:
    """Return the epoch seconds of an ISO 8601 time. Raises RowRefusedError."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is not None or zone is not None:
            return (moment.replace(tzinfo=zone) if moment.tzinfo is None else moment).timestamp()
    except (ValueError, OverflowError):
        raise RowRefusedError(f"{_shown(text)} is no ISO 8601 time") from None
    raise RowRefusedError(f"{_shown(text)} has no offset from UTC; time.zone of the mapping says in which zone it is")


class _World:
    """How far the rows of a world have come."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.zero: float | None = None
        self.time = 0.0
        self.step = 0


class RowReader:
    """Makes the drafts of rows. ``world`` is the name of the world of all rows, unless the mapping names a column.

    ``label`` comes before the names that a column gives.
    """

    def __init__(
        self,
        mapping: TableMapping,
        table: Table,
        *,
        world: str,
        label: str = "",
        max_effect_bytes: int,
    ) -> None:
        self._mapping = mapping
        self._world = world
        self._label = label
        self._most = max_effect_bytes - _AROUND
        self._used = mapping.used()
        #: the columns that are members of payloads; None until the first row shows them, or if each has its own
        self._members = mapping.payload.columns
        self._are_fixed = table.null_is_missing
        #: kinds with sources that may be those of effects
        self._heads: set[tuple[str, str]] = set()
        self._readers = {name: READERS[kind] for name, kind in mapping.types.items()}
        self._missing = frozenset(mapping.missing if mapping.missing is not None else ("",) if table.texts else ())
        self._no_nan = "NaN" in self._missing
        self._null_is_missing = table.null_is_missing
        self._kind = mapping.kind or (None if mapping.entity is not None else Named(constant="Row"))
        time = mapping.time
        self._zone = None if time is None or time.zone is None else ZoneInfo(time.zone)
        self._worlds: dict[str, _World] = {}
        self._names: dict[str, str] = {}

    def read(self, number: int, values: Mapping[str, Any]) -> Row:
        """Return a row's drafts; how far its world has come changes only then. Raises RowRefusedError."""
        name = self._world_of(values)
        world = self._worlds.get(name) or _World(name)
        zero, time = self._time(values, world)
        step = self._step(values, world)
        agent = self._named("agent", self._mapping.agent, values)
        sees = self._sees(values)
        drafts: list[CheckedDraft] = []
        stated = time if self._mapping.time is not None else None
        if step > world.step:
            drafts.append(self._draft(STEP_BEGAN, {"step": step}, SOURCE, stated))
        if self._kind is not None:
            kind = self._named("kind", self._kind, values)
            payload = self._payload(values)
            if sees is not None:
                payload["sees"] = sees
            drafts.append(self._draft(kind or "Row", payload, agent or SOURCE, stated))
        state = self._state(values)
        if state is not None:
            drafts.append(self._draft(ENTITY_SET, state, agent or SOURCE, stated))
        world.zero, world.time, world.step = zero, time, step
        self._worlds[name] = world
        agents = [] if agent is None or agent == SOURCE else [agent]
        return Row(number, name, agents + (sees or []), drafts)

    # -- what a row is of --------------------------------------------------------------------------------------

    def _world_of(self, values: Mapping[str, Any]) -> str:
        where = self._mapping.world
        if where is None:
            return self._world
        value = self._word(where.column, values)
        if value is None:
            raise RowRefusedError(f"no world: the column {where.column!r} has no value")
        name = self._names.get(value)
        if name is None:
            name = self._names[value] = _world_name(self._label + where.prefix, value)
        return name

    def _time(self, values: Mapping[str, Any], world: _World) -> tuple[float | None, float]:
        column = self._mapping.time
        raw = MISSING if column is None else self._cell(column.column, values)
        if column is None or raw is MISSING or raw is None:
            return world.zero, world.time
        try:
            own = self._own_time(raw, column)
        except RowRefusedError as error:
            raise RowRefusedError(f"the time: {error}") from None
        zero = world.zero
        if zero is None:
            zero = own if column.zero == "first" else self._own_time(column.zero or "0", column, is_zero=True)
        time = (own - zero) / UNITS.get(column.unit, 1.0) + 0.0
        if not math.isfinite(time):
            raise RowRefusedError(f"the time: {raw} is beyond any time")
        if time >= world.time:
            return zero, time
        if column.backwards == "hold":
            return zero, world.time
        if time < 0 and not world.time:
            raise RowRefusedError(f"the time: {raw} is before the world's zero; time.zero of the mapping moves it")
        raise RowRefusedError(
            f"the time: {time:g} s comes after {world.time:g} s; with time.backwards: hold it is taken"
        )

    def _own_time(self, raw: Any, column: TimeColumn, *, is_zero: bool = False) -> float:
        if column.unit == ISO:
            if is_zero and raw == "0":
                return 0.0
            if not isinstance(raw, str):
                raise RowRefusedError(f"it is {json_name(raw)}, and time.unit is iso")
            return seconds_of(raw, self._zone)
        if isinstance(raw, str):  # nanoseconds since 1970 are exact as an integer only
            return int(raw) if raw.isdecimal() and len(raw) <= _MOST_DIGITS else _number(raw)
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
            raise RowRefusedError(f"{raw!r} is no number")
        return raw

    def _step(self, values: Mapping[str, Any], world: _World) -> int:
        column = self._mapping.step
        raw = MISSING if column is None else self._cell(column, values)
        if raw is MISSING or raw is None:
            return world.step
        try:
            step = _integer(raw) if isinstance(raw, str) else raw
        except RowRefusedError as error:
            raise RowRefusedError(f"the step: {error}") from None
        if isinstance(step, float) and step.is_integer():
            step = int(step)
        if type(step) is not int or not 0 <= step <= MAX_INT:
            raise RowRefusedError(f"the step: {raw!r} is no whole number from 0 on")
        if step < world.step:
            raise RowRefusedError(f"the step: {step} comes after {world.step}")
        return step

    def _named(self, what: str, named: Named | None, values: Mapping[str, Any]) -> str | None:
        if named is None or named.column is None:
            return None if named is None else named.constant
        value = self._word(named.column, values) or named.default
        if value is None:
            raise RowRefusedError(
                f"no {what}: the column {named.column!r} has no value, and {what}.default none either"
            )
        return value

    def _word(self, column: str, values: Mapping[str, Any]) -> str | None:
        """Return the text of a cell; numbers are written as they are."""
        value = self._cell(column, values)
        if value is MISSING or value is None:
            return None
        if isinstance(value, float) and value.is_integer():  # a column with gaps, as dataframes have them
            value = int(value)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        raise RowRefusedError(f"the column {column!r} has {json_name(value)} where a name is needed")

    def _sees(self, values: Mapping[str, Any]) -> list[str] | None:
        column = self._mapping.sees
        value = MISSING if column is None else self._cell(column.column, values)
        if column is None or value is MISSING or value is None:
            return None
        if isinstance(value, str):
            value = _json(value) if value.lstrip().startswith("[") else _split(value, column.separator)
        if not isinstance(value, list) or not all(
            isinstance(name, str) and 0 < len(name) <= MAX_WORD for name in value
        ):
            raise RowRefusedError(
                f"the column {column.column!r} has no list of names, of at most {MAX_WORD} characters"
            )
        return value

    # -- what it says ------------------------------------------------------------------------------------------

    def _cell(self, column: str, values: Mapping[str, Any]) -> Any:
        """Return the text or value of a cell as the file has it."""
        value = values.get(column, MISSING)
        if isinstance(value, str):
            return MISSING if value in self._missing else value
        if value is None:
            return MISSING if self._null_is_missing else None
        return MISSING if self._no_nan and value != value else value  # noqa: PLR0124 - only NaN is not itself

    def _value(self, column: str, values: Mapping[str, Any]) -> Any:
        """Return the value of a cell, its text read as the mapping says."""
        value = self._cell(column, values)
        read = self._readers.get(column)
        if read is None or value is MISSING or value is None:
            return value
        if isinstance(value, str):
            try:
                return read(value)
            except RowRefusedError as error:
                raise RowRefusedError(f"the column {column!r}: {error}") from None
        return str(value) if read is str else value

    def _payload(self, values: Mapping[str, Any]) -> dict[str, Any]:
        names = self._members
        if names is None:
            names = [name for name in values if name not in self._used]
            if self._are_fixed:
                self._members = names
        payload: dict[str, Any] = {}
        for name in names:
            value = self._value(name, values)
            if value is not MISSING:
                payload[name] = value
        column = self._mapping.payload.json_column
        if column is not None:
            found = self._cell(column, values)
            if isinstance(found, str):
                try:
                    found = _json(found)
                except RowRefusedError as error:
                    raise RowRefusedError(f"the column {column!r}: {error}") from None
            if found is not MISSING and found is not None:
                if not isinstance(found, dict):
                    raise RowRefusedError(f"the column {column!r} has {json_name(found)}, not an object")
                for name in found:
                    if name in payload:
                        raise RowRefusedError(
                            f"the object in the column {column!r} has a member {name!r}, as the row has"
                        )
                payload |= found
        return payload

    def _state(self, values: Mapping[str, Any]) -> dict[str, Any] | None:
        entity = self._mapping.entity
        name = None if entity is None else self._word(entity.id, values)
        if entity is None or name is None:
            return None
        state: dict[str, Any] = {}
        for field, columns in entity.fields.items():
            if isinstance(columns, str):
                value = self._value(columns, values)
            else:
                value = [self._value(column, values) for column in columns]
                value = MISSING if any(each is MISSING for each in value) else value
            if value is not MISSING:
                state[field] = value
        return {"entity_id": name, "values": state} if state else None

    def _draft(self, kind: str, payload: dict[str, Any], source: str, time: float | None) -> CheckedDraft:
        """Return a draft that passes the gate; -0.0, which simulations write for 0.0, becomes that."""
        try:
            if (kind, source) not in self._heads:
                check_draft({"kind": kind, "payload": {}, "source_id": source, "schema_version": SCHEMA_VERSION})
                if len(self._heads) >= _MOST_HEADS:
                    self._heads.clear()
                self._heads.add((kind, source))
            try:
                body = gate(payload, path="$.payload", level=2)
            except InvalidEffectError as error:
                if not error.reason.startswith("-0.0"):
                    raise
                body = gate(_positive(payload), path="$.payload", level=2)
        except InvalidEffectError as error:
            raise RowRefusedError(f"{error.path.removeprefix('$.payload.')}: {error.reason}") from None
        if len(body) > self._most:
            size = f"{len(body)} bytes of payload, at most {self._most}"
            raise RowRefusedError(f"{size}; WORLDLEDGER_MAX_EFFECT_BYTES may be set to more")
        kept = bytes(memoryview(body))  # a text of orjson's has a kilobyte, and a chunk many of them
        return CheckedDraft(kind, kept, source, SCHEMA_VERSION, time, 0, None, None, None)


def _positive(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _positive(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_positive(item) for item in value]
    return value + 0.0 if isinstance(value, float) else value


def _split(text: str, separator: str) -> list[str]:
    return [name for name in map(str.strip, text.split(separator)) if name]


def _world_name(before: str, value: str) -> str:
    """Return the name of the world of a value: the value itself if it may be, else its letters and some of its hash."""
    if _WORLD.match(value) and len(value) <= _MOST_WORLD:
        return before + value
    digits = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    words = slug(value, _MOST_WORLD - _HASH_DIGITS - 1)
    return f"{before}{words}-{digits}" if words else f"{before}{digits}"


# -- what was imported ---------------------------------------------------------------------------------------

_HEADS: Final[dict[tuple[str, str], bytes]] = {}


def content_of(row: Row) -> bytes:
    """Return the bytes by which a row is known again: what it becomes, without its place."""
    return b"".join(
        b"%b%r\n%b\n" % (_head(draft.kind, draft.source_id), draft.sim_time, draft.payload) for draft in row.drafts
    )


def _head(kind: str, source: str) -> bytes:
    found = _HEADS.get((kind, source))
    if found is None:
        if len(_HEADS) >= _MOST_HEADS:
            _HEADS.clear()
        found = _HEADS[kind, source] = canonical_json([kind, source])
    return found
