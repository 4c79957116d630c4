"""Rows of a table as drafts of effects, by a mapping. Pure: what a row becomes depends on it and on the rows before it.

Of each world it is known how far its rows have come: the time and the step never go back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from hashlib import sha256
from operator import le
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from worldledger.canonical import MAX_INT, canonical_json, gate, parse_text
from worldledger.drafts import MAX_WORD, CheckedDraft, check_draft, json_name
from worldledger.effects import SCHEMA_VERSION
from worldledger.errors import InvalidEffectError
from worldledger.names import slug
from worldledger_recorder.files.mapping import (
    ISO,
    UNITS,
    Entity,
    Named,
    SeesColumn,
    TableMapping,
    TimeColumn,
    WorldColumn,
)
from worldledger_recorder.rules import ENTITY_SET, SOURCE, STEP_BEGAN

if TYPE_CHECKING:
    from worldledger_recorder.files.tables import Record, Table

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


class _OddError(Exception):
    """Rows that have to be looked at one by one."""


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
        self._readers = {name: READERS[kind] for name, kind in mapping.types.items()}
        #: the columns that are members of payloads, and how their texts are read; None until the first row shows them,
        #: or if each has its own
        self._members = None if mapping.payload.columns is None else self._read_by(mapping.payload.columns)
        self._are_fixed = table.null_is_missing
        #: kinds with sources that may be those of effects
        self._heads: set[tuple[str, str]] = set()
        self._missing = frozenset(mapping.missing if mapping.missing is not None else ("",) if table.texts else ())
        self._no_nan = "NaN" in self._missing
        self._null_is_missing = table.null_is_missing
        self._kind = mapping.kind or (None if mapping.entity is not None else Named(constant="Row"))
        time = mapping.time
        self._zone = None if time is None or time.zone is None else ZoneInfo(time.zone)
        self._per_second = 1.0 if time is None else UNITS.get(time.unit, 1.0)
        #: whether rows are one event each, of columns that say one thing
        self._is_plain = (
            self._kind is not None
            and mapping.payload.json_column is None
            and not any((mapping.world, mapping.step, mapping.sees, mapping.entity))
        )
        self._worlds: dict[str, _World] = {}
        self._names: dict[str, str] = {}

    def read_all(self, records: Sequence[Record]) -> Sequence[Row | str]:
        """Return what records that follow each other become, or why they are refused, as `read` does one by one."""
        rows = self._read_at_once(records) if self._is_plain and records else None
        return [self._read_or_refuse(record) for record in records] if rows is None else rows

    def _read_or_refuse(self, record: Record) -> Row | str:
        try:
            return record.why or self.read(record.number, record.values)
        except RowRefusedError as error:
            return str(error)

    # -- many rows at once: column by column, which takes a third of the time ----------------------------------

    def _read_at_once(self, records: Sequence[Record]) -> list[Row] | None:
        """Return what records become if each has a value in each column and none is refused; None else."""
        mapping = self._mapping
        values = [record.values for record in records]
        columns = (*values[0],)
        if not columns or [*map(tuple, values)].count(columns) < len(values):
            return None
        name = self._world
        world = self._worlds.get(name) or _World(name)
        zero, times = world.zero, [world.time]
        try:
            if mapping.time is not None:
                zero, times = self._times(mapping.time, values, world)
            agents = self._names_of(mapping.agent, values)
            kinds = self._names_of(self._kind, values)
            members = mapping.payload.columns
            if members is None:
                members = [column for column in columns if column not in self._used]
            cells = [self._cells(column, values, self._readers.get(column)) for column in members]
            sources = agents if mapping.agent is not None else [SOURCE] * len(values)
            for kind, source in set(zip(kinds, sources, strict=True)):
                self._check_head(kind, source)
            payloads = [dict(zip(members, row, strict=True)) for row in zip(*cells, strict=True)] or [{}] * len(values)
            bodies = [gate(payload, path="$.payload", level=2) for payload in payloads]
        except (_OddError, RowRefusedError, InvalidEffectError, KeyError):
            return None
        if max(map(len, bodies)) > self._most:
            return None
        stated = times if mapping.time is not None else [None] * len(values)
        drafts = [
            _tuple(CheckedDraft, (kind, bytes(memoryview(body)), source, SCHEMA_VERSION, time, 0, None, None, None))
            for kind, body, source, time in zip(kinds, bodies, sources, stated, strict=True)
        ]
        world.zero, world.time = zero, times[-1]
        self._worlds[name] = world
        return [
            _tuple(Row, (record.number, name, () if source == SOURCE else (source,), (draft,)))
            for record, source, draft in zip(records, sources, drafts, strict=True)
        ]

    def _cells(
        self, column: str, values: Sequence[Mapping[str, Any]], read: Callable[[str], Any] | None = None
    ) -> list[Any]:
        """Return a column's values. Raises _OddError unless each row has one, and RowRefusedError."""
        cells = [each[column] for each in values]
        types = set(map(type, cells))
        if types == {str}:
            if not self._missing.isdisjoint(cells):
                raise _OddError
            return cells if read is None else [*map(read, cells)]
        if self._no_nan or read is not None or str in types or type(None) in types:
            raise _OddError
        return cells

    def _names_of(self, named: Named | None, values: Sequence[Mapping[str, Any]]) -> list[str]:
        if named is None or named.column is None:
            return [(named and named.constant) or SOURCE] * len(values)
        names = self._cells(named.column, values)
        if set(map(type, names)) != {str} or "" in names:
            raise _OddError
        return names

    def _times(
        self, column: TimeColumn, values: Sequence[Mapping[str, Any]], world: _World
    ) -> tuple[float, list[float]]:
        """Return the zero and the times of rows. Raises _OddError where one goes back, and RowRefusedError."""
        own = [self._own_time(cell, column) for cell in self._cells(column.column, values)]
        zero = world.zero if world.zero is not None else self._zero(column, own[0])
        per_second = self._per_second
        times = [(each - zero) / per_second + 0.0 for each in own]
        if not (world.time <= times[0] and all(map(le, times, times[1:])) and times[-1] < math.inf):
            raise _OddError
        return zero, times

    # -- one row ---------------------------------------------------------------------------------------------------

    def read(self, number: int, values: Mapping[str, Any]) -> Row:
        """Return a row's drafts; how far its world has come changes only then. Raises RowRefusedError."""
        mapping = self._mapping
        name = self._world if mapping.world is None else self._world_of(mapping.world, values)
        world = self._worlds.get(name) or _World(name)
        zero, time, step, stated, agent, sees = world.zero, world.time, world.step, None, None, None
        if mapping.time is not None:
            zero, time = self._time(mapping.time, values, world)
            stated = time
        if mapping.step is not None:
            step = self._step(mapping.step, values, world)
        if mapping.agent is not None:
            agent = self._named("agent", mapping.agent, values)
        if mapping.sees is not None:
            sees = self._sees(mapping.sees, values)
        drafts: list[CheckedDraft] = []
        if step > world.step:
            drafts.append(self._draft(STEP_BEGAN, {"step": step}, SOURCE, stated))
        if self._kind is not None:
            kind = self._named("kind", self._kind, values)
            payload = self._payload(values)
            if sees is not None:
                payload["sees"] = sees
            drafts.append(self._draft(kind or "Row", payload, agent or SOURCE, stated))
        if mapping.entity is not None:
            state = self._state(mapping.entity, values)
            if state is not None:
                drafts.append(self._draft(ENTITY_SET, state, agent or SOURCE, stated))
        world.zero, world.time, world.step = zero, time, step
        self._worlds[name] = world
        agents = [] if agent is None or agent == SOURCE else [agent]
        return Row(number, name, agents + sees if sees else agents, drafts)

    # -- what a row is of --------------------------------------------------------------------------------------

    def _world_of(self, where: WorldColumn, values: Mapping[str, Any]) -> str:
        value = self._word(where.column, values)
        if value is None:
            raise RowRefusedError(f"no world: the column {where.column!r} has no value")
        name = self._names.get(value)
        if name is None:
            name = self._names[value] = _world_name(self._label + where.prefix, value)
        return name

    def _time(self, column: TimeColumn, values: Mapping[str, Any], world: _World) -> tuple[float | None, float]:
        raw = self._cell(column.column, values)
        if raw is MISSING or raw is None:
            return world.zero, world.time
        try:
            own = self._own_time(raw, column)
        except RowRefusedError as error:
            raise RowRefusedError(f"the time: {error}") from None
        zero = world.zero if world.zero is not None else self._zero(column, own)
        time = (own - zero) / self._per_second + 0.0
        if world.time <= time < math.inf:
            return zero, time
        if not math.isfinite(time):
            raise RowRefusedError(f"the time: {raw} is beyond any time")
        if column.backwards == "hold":
            return zero, world.time
        if time < 0 and not world.time:
            raise RowRefusedError(f"the time: {raw} is before the world's zero; time.zero of the mapping moves it")
        raise RowRefusedError(
            f"the time: {time:g} s comes after {world.time:g} s; with time.backwards: hold it is taken"
        )

    def _zero(self, column: TimeColumn, first: float) -> float:
        return first if column.zero == "first" else self._own_time(column.zero or "0", column, is_zero=True)

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

    def _step(self, column: str, values: Mapping[str, Any], world: _World) -> int:
        raw = self._cell(column, values)
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

    def _named(self, what: str, named: Named, values: Mapping[str, Any]) -> str | None:
        if named.column is None:
            return named.constant
        value = self._word(named.column, values) or named.default
        if value is None:
            raise RowRefusedError(
                f"no {what}: the column {named.column!r} has no value, and {what}.default none either"
            )
        return value

    def _word(self, column: str, values: Mapping[str, Any]) -> str | None:
        """Return the text of a cell; numbers are written as they are."""
        value = self._cell(column, values)
        if type(value) is str:
            return value
        if value is MISSING or value is None:
            return None
        if isinstance(value, float) and value.is_integer():  # a column with gaps, as dataframes have them
            value = int(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        raise RowRefusedError(f"the column {column!r} has {json_name(value)} where a name is needed")

    def _sees(self, column: SeesColumn, values: Mapping[str, Any]) -> list[str] | None:
        value = self._cell(column.column, values)
        if value is MISSING or value is None:
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
        if type(value) is str:
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

    def _read_by(self, names: Iterable[str]) -> list[tuple[str, Callable[[str], Any] | None]]:
        """Return columns with the functions that read their texts."""
        return [(name, self._readers.get(name)) for name in names]

    def _payload(self, values: Mapping[str, Any]) -> dict[str, Any]:
        members = self._members
        if members is None:
            members = self._read_by(name for name in values if name not in self._used)
            if self._are_fixed:
                self._members = members
        payload: dict[str, Any] = {}
        missing = self._missing
        for name, read in members:
            value = values.get(name)
            if type(value) is not str:  # few cells are anything else, or none
                value = self._value(name, values)
                if value is MISSING:
                    continue
            elif value in missing:
                continue
            elif read is not None:
                try:
                    value = read(value)
                except RowRefusedError as error:
                    raise RowRefusedError(f"the column {name!r}: {error}") from None
            payload[name] = value
        column = self._mapping.payload.json_column
        return payload if column is None else payload | self._object(column, values, payload)

    def _object(self, column: str, values: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members of the object in a column, none of which the payload has."""
        found = self._cell(column, values)
        if isinstance(found, str):
            try:
                found = _json(found)
            except RowRefusedError as error:
                raise RowRefusedError(f"the column {column!r}: {error}") from None
        if found is MISSING or found is None:
            return {}
        if not isinstance(found, dict):
            raise RowRefusedError(f"the column {column!r} has {json_name(found)}, not an object")
        for name in found:
            if name in payload:
                raise RowRefusedError(f"the object in the column {column!r} has a member {name!r}, as the row has")
        return found

    def _state(self, entity: Entity, values: Mapping[str, Any]) -> dict[str, Any] | None:
        name = self._word(entity.id, values)
        if name is None:
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
                self._check_head(kind, source)
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
        # The same as CheckedDraft(…) without calling a Python function.
        return _tuple(CheckedDraft, (kind, kept, source, SCHEMA_VERSION, time, 0, None, None, None))

    def _check_head(self, kind: str, source: str) -> None:
        """Raise InvalidEffectError unless an effect may be of this kind and source."""
        if (kind, source) in self._heads:
            return
        check_draft({"kind": kind, "payload": {}, "source_id": source, "schema_version": SCHEMA_VERSION})
        if len(self._heads) >= _MOST_HEADS:
            self._heads.clear()
        self._heads.add((kind, source))


_tuple: Final = tuple.__new__


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
        [
            b"%b%r\n%b\n" % (_HEADS.get((kind, source)) or _head(kind, source), time, payload)
            for kind, payload, source, _, time, *_ in row.drafts
        ]
    )


def _head(kind: str, source: str) -> bytes:
    if len(_HEADS) >= _MOST_HEADS:
        _HEADS.clear()
    found = _HEADS[kind, source] = canonical_json([kind, source])
    return found
