"""Schemas that contain themselves, found before anything else looks at them.

Source: docs/reference/contracts.md, "Variables": depth-first search with the stack of the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from worldledger.errors.simulations import CircularSchemaError, Path, Problem

_FIXES = """Suggested fixes:
  1. Use Optional[ForwardRef] for back-references
  2. Use string IDs instead of nested objects
  3. Flatten the schema structure"""


@dataclass
class _Step:
    """A definition on the way: where it stands, what it is called, and what of it is still to be looked at."""

    definition: Mapping[Any, Any]
    path: Path
    #: The last name on the way to it: of a variable, or of a field.
    name: str
    #: How it is reached from the one before it.
    edge: str
    children: Iterator[tuple[Path, str, str, Any]]


def refuse_cycles(variables: Mapping[Any, Any], where: Path) -> None:
    """Raise CircularSchemaError if a definition contains itself, by Python reference or by YAML alias.

    Shared definitions that do not contain themselves are fine. Objects are told apart by identity; each is looked at
    once, so the time grows with the number of objects, not with the number of their uses.
    """
    names = {id(definition): str(name) for name, definition in variables.items() if isinstance(definition, Mapping)}
    finished: set[int] = set()
    stack: list[_Step] = []
    waiting: dict[int, int] = {}  # object on the way -> its place on the stack

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
    """Return the definitions that stand within one: path, name, edge and object."""
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
    """Tell a cycle: ``way`` from its first definition to the last, ``closing`` leads from there to the first."""
    edges = [step.edge for step in way[1:]] + [closing]
    # What holds named fields is shown; a list between two of them is told by the field that it is the type of.
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
