"""The rules of definitions, checked on plain values, and the normal form of those that keep them.

Source: docs/reference/simulation-config.md, "Fields".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple
from unicodedata import normalize

from worldledger.canonical import MAX_INT, gate
from worldledger.errors import CircularSchemaError, InvalidEffectError, Path, Problem
from worldledger.near import nearest
from worldledger.variables import limits
from worldledger.variables.limits import MAX_DEFAULT_DEPTH, MAX_DEFAULT_VALUES
from worldledger.variables.patterns import PatternError, translate

# -- reading a default as it was written, within limits, with lists for tuples (docs/reference/simulations.md, "Values")


class DefaultError(ValueError):
    """A default that cannot be read: the path of what is wrong in it, and why."""

    def __init__(self, path: tuple[str | int, ...], reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def plain_default(value: Any, definition: Mapping[str, Any]) -> Any:
    """Return a default as a JSON value: tuples as lists, and the keys of a dict with whole numbers as strings.

    ``definition`` is the normal form of the default's definition. Raises DefaultError for what JSON or the log cannot
    hold, for keys that do not match the definition, and for too many or too deep values.
    """
    result = _Copier().copy(value, definition, ())
    try:
        gate(result)
    except InvalidEffectError as error:
        # The gate's paths begin with "$", which stands for the default itself.
        raise DefaultError((), error.reason if error.path == "$" else f"{error.path}: {error.reason}") from None
    return result


class _Copier:
    def __init__(self) -> None:
        self.left = MAX_DEFAULT_VALUES

    def copy(self, value: Any, definition: Any, path: tuple[str | int, ...]) -> Any:
        self.left -= 1
        if self.left < 0:
            raise DefaultError((), f"a default has at most {MAX_DEFAULT_VALUES:,} values, each use of one counted")
        if len(path) > MAX_DEFAULT_DEPTH:
            raise DefaultError(path, "nested deeper than any definition")
        if isinstance(value, Mapping):
            return self.members(value, definition, path)
        if isinstance(value, list | tuple):
            return [self.copy(item, _inner(definition, index), (*path, index)) for index, item in enumerate(value)]
        return value

    def members(self, value: Mapping[Any, Any], definition: Any, path: tuple[str | int, ...]) -> dict[str, Any]:
        whole = isinstance(definition, Mapping) and definition.get("key_type") == "int"
        result: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str) and not (whole and type(key) is int):
                raise DefaultError(path, f"the key {key!r} is no string: quote it")
            if str(key) in result:
                raise DefaultError(path, f"the key {key} stands there twice")
            result[str(key)] = self.copy(item, _inner(definition, key), (*path, key))
        return result


def _inner(definition: Any, key: str | int) -> Any:
    """Return the definition of a member or an element, None if there is none."""
    if not isinstance(definition, Mapping):
        return None
    if definition.get("schema") is not None:
        return definition["schema"].get(key)
    elements = definition.get("item_types")
    if elements is not None:
        return elements[key] if isinstance(key, int) and key < len(elements) else None
    return definition.get("value_type", definition.get("item_type"))


class _Levels(NamedTuple):
    """The number of dicts, lists and containers of any type around a definition."""

    dicts: int = 0
    lists: int = 0
    all: int = 0


class _TooManyError(Exception):
    """More definitions than one set of variables may have."""


class Rules:
    """Reads definitions and collects the problems with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._nodes = 0

    def wrong(self, path: Path, message: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(path, message))

    def variable(self, raw: Any, path: Path) -> dict[str, Any] | None:
        """Read the definition of a variable; return its normal form (plain JSON), or None if something is wrong."""
        before = len(self.problems)
        try:
            normal = self._definition(raw, path, _Levels())
        except _TooManyError:
            self.wrong(path, f"at most {limits.MAX_NODES:,} definitions in one set of variables, nested ones counted")
            return None
        return normal if len(self.problems) == before else None

    @property
    def is_full(self) -> bool:
        """True if no further definition is read."""
        return self._nodes > limits.MAX_NODES

    def name(self, name: Any, path: Path, reserved: Collection[str] = ()) -> bool:
        """Check the name of a variable or a field."""
        if not isinstance(name, str) or not name.isidentifier() or name[0] == "_" or len(name) > limits.MAX_NAME:
            self.wrong(
                path,
                f"{name!r} is no name: letters, digits and underscores, with a letter first, "
                f"1 to {limits.MAX_NAME} characters",
            )
            return False
        if name in reserved:
            self.wrong(path, f"{name!r} is reserved: an agent's own name stands there")
            return False
        return True

    def names(self, names: Iterable[Any], path: Path) -> None:
        """Refuse names that look the same: Unicode can write them in two ways (normal form NFC)."""
        first: dict[str, str] = {}
        for name in names:
            if isinstance(name, str):
                before = first.setdefault(normalize("NFC", name), name)
                if before != name:
                    what = f"reads like another name here: they are {before!a} and {name!a}"
                    self.wrong((*path, name), f"{name!r} {what}")

    # -- definitions -----------------------------------------------------------------------------------------

    def _definition(self, raw: Any, path: Path, levels: _Levels) -> dict[str, Any]:
        self._nodes += 1
        if self.is_full:
            raise _TooManyError
        raw = plain(raw)
        if not isinstance(raw, Mapping):
            hint = f": write {{type: {raw}}}" if raw in limits.BARE else ", such as {type: int, default: 0}"
            self.wrong(path, f"a definition is a mapping with a type{hint}")
            return {}
        kind = raw.get("type")
        if not isinstance(kind, str) or kind not in limits.TYPES:
            self.wrong((*path, "type"), "a type is missing" if kind is None else _unknown_type(kind))
            self._unknown_fields(raw, path)
            return {}
        # Null means that a field is not set; only for the default is it a value.
        given = {name: value for name, value in raw.items() if value is not None or name == "default"}
        self._unknown_fields(raw, path)
        for name in given:
            if name in limits.KNOWN_FIELDS - {"type", "default"} - limits.FIELDS[kind]:
                self.wrong((*path, name), f"{name} does not belong to type {kind}")
        before = len(self.problems)
        normal = {"type": kind, **self._fields(kind, given, path, levels)}
        if "default" in given and len(self.problems) == before:
            try:
                normal["default"] = plain_default(given["default"], normal)
            except DefaultError as error:
                self.wrong((*path, "default", *error.path), error.reason)
        return normal

    def _unknown_fields(self, names: Iterable[Any], path: Path) -> None:
        for name in names:
            if name not in limits.KNOWN_FIELDS:
                self.wrong((*path, str(name)), _unknown("field", name, sorted(limits.KNOWN_FIELDS)))

    def _fields(self, kind: str, given: dict[str, Any], path: Path, levels: _Levels) -> dict[str, Any]:
        match kind:
            case "float" | "int":
                return self._bounds(kind, given, path)
            case "categorical":
                return self._values(given.get("values"), (*path, "values"))
            case "str":
                longest = self._length(given, path, limits.LONGEST_STRING)
                return self._pattern(given.get("pattern"), (*path, "pattern")) | longest
            case "bool":
                return {}
        levels = _Levels(levels.dicts + (kind == "dict"), levels.lists + (kind == "list"), levels.all + 1)
        if not self._depth(path, levels):
            return {}
        match kind:
            case "dict":
                return self._dict(given, path, levels)
            case "list":
                item = self._required(given, "item_type", path, levels)
                return item | self._length(given, path, limits.MAX_ITEMS)
            case "tuple":
                return self._tuple(given.get("item_types"), (*path, "item_types"), levels)
        return self._schema(given.get("schema"), (*path, "schema"), levels)

    def _depth(self, path: Path, levels: _Levels) -> bool:
        for found, most, what in (
            (levels.dicts, limits.MAX_DICTS, "dict"),
            (levels.lists, limits.MAX_LISTS, "list"),
            (levels.all, limits.MAX_LEVELS, "definition"),
        ):
            if found > most:
                self.wrong(path, f"{what} nesting exceeds the maximum depth of {most} levels (got {found})")
                return False
        return True

    def _bounds(self, kind: str, given: dict[str, Any], path: Path) -> dict[str, Any]:
        bounds: dict[str, Any] = {}
        for name in ("min", "max"):
            value = given.get(name)
            if value is None:
                continue
            if type(value) not in {int, float}:
                self.wrong((*path, name), f"{name} is a number (got {value!r})")
            elif self._storable(value, (*path, name)):
                bounds[name] = value
        low, high = bounds.get("min", -math.inf), bounds.get("max", math.inf)
        if low > high:
            self.wrong((*path, "min"), f"min {low} is greater than max {high}")
        elif kind == "int" and whole(low, high)[0] > whole(low, high)[1]:
            self.wrong((*path, "min"), f"there is no whole number from {low} to {high}, within ±(2^53-1)")
        return bounds

    def _values(self, values: Any, path: Path) -> dict[str, Any]:
        if not isinstance(values, list | tuple) or not 1 <= len(values) <= limits.MAX_ITEMS:
            self.wrong(path, f"a categorical has values: a list of 1 to {limits.MAX_ITEMS} strings")
            return {}
        seen: set[str] = set()
        for index, value in enumerate(values):
            if not isinstance(value, str) or not 1 <= len(value) <= limits.MAX_CHARACTERS:
                self.wrong((*path, index), f"a value is a string, and not an empty one (got {value!r})")
            elif value in seen:
                self.wrong((*path, index), f"the value {value!r} stands there twice")
            elif self._storable(value, (*path, index)):
                seen.add(value)
        return {"values": list(values)}

    def _pattern(self, pattern: Any, path: Path) -> dict[str, Any]:
        if pattern is None:
            return {}
        if not isinstance(pattern, str):
            self.wrong(path, "a pattern is a string")
        elif self._storable(pattern, path):
            try:
                translate(pattern)
            except PatternError as error:
                self.wrong(path, str(error))
        return {"pattern": pattern}

    def _length(self, given: dict[str, Any], path: Path, most: int) -> dict[str, Any]:
        longest = given.get("max_length")
        if longest is None:
            return {}
        if type(longest) is not int or not 1 <= longest <= most:
            self.wrong((*path, "max_length"), f"max_length is a whole number > 0 and <= {most} (got {longest!r})")
        return {"max_length": longest}

    def _dict(self, given: dict[str, Any], path: Path, levels: _Levels) -> dict[str, Any]:
        dynamic = {"key_type", "value_type"} & given.keys()
        if "schema" in given:
            if dynamic:
                self.wrong(path, f"schema cannot be combined with {' and '.join(sorted(dynamic))}")
            return self._schema(given["schema"], (*path, "schema"), levels)
        if not dynamic:
            self.wrong(path, "a dict has either key_type and value_type, or a schema")
            return {}
        key = given.get("key_type")
        if not isinstance(key, str) or key not in {"str", "int"}:
            what = "missing" if key is None else f"{key!r}"
            self.wrong((*path, "key_type"), f"key_type is str or int, but is {what}")
        return {"key_type": key, **self._required(given, "value_type", path, levels)}

    def _tuple(self, elements: Any, path: Path, levels: _Levels) -> dict[str, Any]:
        if not isinstance(elements, list | tuple) or not 1 <= len(elements) <= limits.MAX_ITEMS:
            self.wrong(path, f"a tuple has item_types: a list of 1 to {limits.MAX_ITEMS} types, one per element")
            return {}
        return {"item_types": [self._element(raw, (*path, index), levels) for index, raw in enumerate(elements)]}

    def _schema(self, schema: Any, path: Path, levels: _Levels) -> dict[str, Any]:
        if not isinstance(schema, Mapping) or not 1 <= len(schema) <= limits.MAX_ITEMS:
            self.wrong(path, f"a schema is a mapping of 1 to {limits.MAX_ITEMS} fields to their definitions")
            return {}
        self.names(schema, path)
        fields = {}
        for name, raw in schema.items():
            if self.name(name, (*path, str(name))):
                fields[name] = self._definition(raw, (*path, name), levels)
        return {"schema": fields}

    def _required(self, given: dict[str, Any], name: str, path: Path, levels: _Levels) -> dict[str, Any]:
        if name not in given:
            self.wrong((*path, name), f"{name} is missing: the type of each {name.removesuffix('_type')}")
            return {}
        return {name: self._element(given[name], (*path, name), levels)}

    def _element(self, raw: Any, path: Path, levels: _Levels) -> Any:
        if not isinstance(raw, str):
            return self._definition(raw, path, levels)
        self._nodes += 1
        if raw not in limits.TYPES:
            self.wrong(path, _unknown_type(raw))
        elif raw not in limits.BARE:
            fields = " or ".join(sorted(limits.FIELDS[raw] - {"max_length"}))
            self.wrong(path, f"a {raw} cannot stand for itself: write {{type: {raw}, …}} with its {fields}")
        return raw

    def _storable(self, value: Any, path: Path) -> bool:
        try:
            gate(value)
        except InvalidEffectError as error:
            self.wrong(path, error.reason)
            return False
        return True


def plain(raw: Any) -> Any:
    """Return a ready definition as the plain value that it is made from, anything else as it is."""
    to_value = getattr(raw, "to_value", None)
    return raw if isinstance(raw, Mapping) or to_value is None else to_value()


def whole(low: float, high: float) -> tuple[int, int]:
    """Return the least and the greatest whole number between two bounds, which may be infinite, within ±(2^53-1)."""
    return math.ceil(max(low, -MAX_INT)), math.floor(min(high, MAX_INT))


def _unknown(what: str, name: Any, known: Collection[str]) -> str:
    close = nearest(name, known) if isinstance(name, str) else None
    return f"unknown {what} {name!r}" + ("" if close is None else f"; did you mean {close!r}?")


def _unknown_type(name: Any) -> str:
    said = name.lower() if isinstance(name, str) else ""
    close: list[str] = [limits.OTHER_NAMES[said]] if said in limits.OTHER_NAMES else []
    close += get_close_matches(said, limits.TYPES, 1, 0.75)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"unknown type {name!r}; the types are {', '.join(limits.TYPES[:-1])} and {limits.TYPES[-1]}{meant}"


# -- schemas that contain themselves, found before anything else is checked: a depth-first search -------------------

_FIXES = """Suggested fixes:
  1. Use Optional[ForwardRef] for back-references
  2. Use string IDs instead of nested objects
  3. Flatten the schema structure"""


@dataclass
class _Step:
    """A definition on the current path: where it is, its name, and the parts still to visit."""

    definition: Mapping[Any, Any]
    path: Path
    #: The last name on the path to it: of a variable, or of a field.
    name: str
    #: How the one before leads to it.
    edge: str
    children: Iterator[tuple[Path, str, str, Any]]


def refuse_cycles(variables: Mapping[Any, Any], where: Path) -> None:
    """Raise CircularSchemaError if a definition contains itself, by Python reference or by YAML alias.

    Shared definitions that do not contain themselves are fine. Objects are compared by identity; each is visited once,
    so the time grows with the number of objects, not with the number of their uses.
    """
    names = {id(definition): str(name) for name, definition in variables.items() if isinstance(definition, Mapping)}
    finished: set[int] = set()
    stack: list[_Step] = []
    waiting: dict[int, int] = {}  # object on the path -> its place on the stack

    def enter(path: Path, name: str, edge: str, definition: Mapping[Any, Any]) -> None:
        names.setdefault(id(definition), name)
        waiting[id(definition)] = len(stack)
        stack.append(_Step(definition, path, name, edge, _children(definition, path, name)))

    for top, definition in variables.items():
        if isinstance(definition, Mapping) and id(definition) not in finished:
            enter((*where, str(top)), str(top), str(top), definition)
        while stack:
            child = next(stack[-1].children, None)
            if child is None:
                done = stack.pop().definition
                finished.add(id(done))
                del waiting[id(done)]
                continue
            path, name, edge, inner = child
            if id(inner) in waiting:
                raise _told(stack[waiting[id(inner)] :], edge, path, names)
            if id(inner) not in finished:
                enter(path, name, edge, inner)


def _children(definition: Mapping[Any, Any], path: Path, name: str) -> Iterator[tuple[Path, str, str, Any]]:
    """Return the definitions directly within one: path, name, edge and object."""
    schema = definition.get("schema")
    if isinstance(schema, Mapping):
        for field, inner in schema.items():
            if isinstance(inner, Mapping):
                yield (*path, "schema", str(field)), str(field), str(field), inner
    for edge in ("value_type", "item_type"):
        inner = definition.get(edge)
        if isinstance(inner, Mapping):
            yield (*path, edge), name, edge, inner
    elements = definition.get("item_types")
    if isinstance(elements, list | tuple):
        for index, inner in enumerate(elements):
            if isinstance(inner, Mapping):
                yield (*path, "item_types", index), name, f"item_types[{index}]", inner


def _told(way: list[_Step], closing: str, path: Path, names: Mapping[int, str]) -> CircularSchemaError:
    """Describe a cycle: ``way`` from its first definition to the last, ``closing`` leads from there to the first."""
    edges = [step.edge for step in way[1:]] + [closing]
    # Containers of named fields are shown; a list between two of them is named by the field whose type it is.
    shown = [index for index, step in enumerate(way) if isinstance(step.definition.get("schema"), Mapping)]
    shown = shown or list(range(len(way)))
    called = [names[id(way[index].definition)] for index in shown]
    fields = [f"{name}.{edges[index]}" for name, index in zip(called, shown, strict=True)]
    message = (
        "Circular reference detected in schema definitions:\n"
        f"  Cycle: {' -> '.join([*called, called[0]])}\n"
        f"  Fields: {' -> '.join([*fields, called[0]])}\n\n{_FIXES}"
    )
    return CircularSchemaError([Problem(path, f"this definition contains itself: {' -> '.join(called)}")], message)
