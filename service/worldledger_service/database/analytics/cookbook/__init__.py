"""The cookbook: questions that people ask again and again, each a file of SQL over the schema ``analytics``.

Kinds of worlds have their own (`worldledger.kinds`).

A file begins with comments: its title, after an empty one what it tells, and its parameters, each as

    -- :name type = default -- What it is.

without a default where it must be given. In the query ``:name`` stands for its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from worldledger.errors import InvalidKindError, QueryRefusedError, UnknownQueryError
from worldledger.kinds import parts

_FOLDER: Final = Path(__file__).parent
_PARAMETER: Final = re.compile(r":(?P<name>\w+) (?P<type>[a-z ]+?)(?: = (?P<default>\S+))? -- (?P<says>.+)")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query: its type as SQL names it, and its default as text, None for null."""

    name: str
    type: str
    is_required: bool
    default: str | None
    description: str


@dataclass(frozen=True)
class NamedQuery:
    """A question with a name. ``sql`` has ``:name`` for each parameter."""

    name: str
    title: str
    description: str
    parameters: tuple[Parameter, ...]
    sql: str

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a value for every parameter. Raises QueryRefusedError for one that lacks, or that there is not."""
        known = [parameter.name for parameter in self.parameters]
        for name in given:
            if name not in known:
                what = f"the query {self.name} has no parameter {name}; it has {', '.join(known) or 'none'}"
                raise QueryRefusedError(what, parameter=name)
        for parameter in self.parameters:
            if parameter.is_required and given.get(parameter.name) is None:
                what = f"the query {self.name} needs the parameter {parameter.name}: {parameter.description}"
                raise QueryRefusedError(what, parameter=parameter.name)
        return {parameter.name: given.get(parameter.name, parameter.default) for parameter in self.parameters}


@cache
def queries() -> Mapping[str, NamedQuery]:
    """Return all of them, by name: those over any worlds, and those of installed kinds.

    Raises InvalidKindError where a kind has one of a name that is taken.
    """
    found = {path.stem: _read(path) for path in _FOLDER.glob("*.sql")}
    for kind, folder in parts("queries").items():
        for path in folder.glob("*.sql"):
            if path.stem in found:
                what = f"kind {kind}: there is a query named {path.stem} already"
                raise InvalidKindError(what, kind=kind, part="queries")
            found[path.stem] = _read(path)
    return MappingProxyType(dict(sorted(found.items())))


def find(name: str) -> NamedQuery:
    """Return the query of that name. Raises UnknownQueryError."""
    query = queries().get(name)
    if query is None:
        raise UnknownQueryError(name, list(queries()))
    return query


def _read(path: Path) -> NamedQuery:
    lines = path.read_text(encoding="utf-8").splitlines()
    head = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
    title, told, parameters = head[0], [], []
    for line in head[1:]:
        found = _PARAMETER.fullmatch(line)
        if found is None:
            told.append(line)
            continue
        default = found["default"]
        is_required = default is None
        value = None if default in {None, "null"} else default
        parameters.append(Parameter(found["name"], found["type"], is_required, value, found["says"]))
    sql = "\n".join(line for line in lines if not line.startswith("--"))
    return NamedQuery(path.stem, title, " ".join(" ".join(told).split()), tuple(parameters), sql)
