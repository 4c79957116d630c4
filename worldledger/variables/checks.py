"""Values that stand for definitions' values: defaults, given or composed, and whether they are of their type.

Source: docs/reference/simulation-config.md, "Fields".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import TypeAdapter, ValidationError

from worldledger.errors.simulations import Path, Problem
from worldledger.variables.annotations import annotation_of, is_nullable
from worldledger.variables.keeping import kept
from worldledger.variables.messages import problems_of

if TYPE_CHECKING:
    from worldledger.variables.definition import VariableDefinition

#: Stands for "no default".
_NONE: Any = object()


def default_of(definition: VariableDefinition) -> Any:
    """Return the value that a variable begins with, as JSON value: a new one each time.

    Without a ``default`` of its own: ``{}`` for a dict with dynamic keys, ``[]`` for a list, null for a string, and for
    what has a schema or is a tuple the defaults of its parts. Raises KeyError if there is none: a value is required.
    """
    text = default_text(definition)
    if text is None:
        raise KeyError("default")
    return orjson.loads(text)


@kept(1024)
def default_text(definition: VariableDefinition) -> bytes | None:
    """Return the JSON text of the default, every value of its exact type; None if there is none."""
    found = _default(definition)
    if found is _NONE:
        return None
    adapter = adapter_of(definition)
    return json_text(adapter.dump_json(adapter.validate_python(found)))


def adapter_of(definition: VariableDefinition) -> TypeAdapter[Any]:
    """Return what checks the values of a variable."""
    return TypeAdapter(annotation_of(definition))


def json_text(text: bytes) -> bytes:
    """Return a JSON text without the number -0.0, which the log refuses: 0.0 is written instead."""
    return orjson.dumps(_unsigned(orjson.loads(text))) if b"-0.0" in text else text


def _unsigned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unsigned(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_unsigned(item) for item in value]
    return 0.0 if type(value) is float and value == 0.0 and math.copysign(1.0, value) < 0 else value


def default_problems(definition: VariableDefinition, path: Path) -> list[Problem]:
    """Return what is wrong with the defaults in a definition, those of nested definitions too."""
    return [
        Problem((*where, "default", *inside), message)
        for where, inner in _nodes(definition, path)
        if inner.has_default and inner.default is not None
        for inside, message in _refused(inner)
    ]


@kept(1024)
def _refused(definition: VariableDefinition) -> tuple[tuple[Path, str], ...]:
    """Return what is wrong with a definition's own default."""
    try:
        adapter_of(definition).validate_python(_default(definition))
    except ValidationError as error:
        return tuple(problems_of(error))
    return ()


def _nodes(definition: VariableDefinition, path: Path) -> Iterator[tuple[Path, VariableDefinition]]:
    yield path, definition
    for name, inner in (definition.schema_ or {}).items():
        yield from _nodes(inner, (*path, "schema", name))
    for where, item in _elements(definition):
        if not isinstance(item, str):
            yield from _nodes(item, (*path, *where))


def _elements(definition: VariableDefinition) -> Iterator[tuple[Path, str | VariableDefinition]]:
    if definition.value_type is not None:
        yield ("value_type",), definition.value_type
    if definition.item_type is not None:
        yield ("item_type",), definition.item_type
    for index, inner in enumerate(definition.item_types or ()):
        yield ("item_types", index), inner


def _default(definition: VariableDefinition, *, element: bool = False) -> Any:
    """Return the default as it was given, or composed; `_NONE` if there is none."""
    if definition.has_default:
        # An empty default of a dict with a schema says: the defaults of its fields, if each has one.
        if definition.type != "dict" or definition.schema_ is None or definition.default != {}:
            return definition.default
        composed = _composed(definition)
        return {} if composed is _NONE else composed
    if is_nullable(definition, element=element):
        return None
    if definition.type == "list" or (definition.type == "dict" and definition.schema_ is None):
        return [] if definition.type == "list" else {}
    return _composed(definition)


def _composed(definition: VariableDefinition) -> Any:
    if definition.schema_ is not None:
        fields = {name: _default(inner) for name, inner in definition.schema_.items()}
        return _NONE if any(value is _NONE for value in fields.values()) else fields
    if definition.item_types is not None:
        items = [_NONE if isinstance(inner, str) else _default(inner, element=True) for inner in definition.item_types]
        return _NONE if any(value is _NONE for value in items) else items
    return _NONE
