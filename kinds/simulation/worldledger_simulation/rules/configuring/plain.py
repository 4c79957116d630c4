"""Any value as plain JSON, before it is looked at: what JSON does not have is a problem that knows its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from worldledger import canonical
from worldledger.canonical import gate
from worldledger.errors import InvalidEffectError, Problem
from worldledger.errors.simulations import Path
from worldledger.variables import VariableDefinition

#: Deepest nesting that is read: a configuration stands two levels down in a world's first effect.
MAX_DEPTH: Final = canonical.MAX_DEPTH - 2
#: Most values that are read, shared ones counted once.
MAX_NODES: Final = 1_000_000

_VARIABLES: Final = "state_variables"


class Plain:
    """Copies a value; ``problems`` has what is wrong with it, ``broken`` the top-level members it is wrong in.

    Two things pass, because the types of the variables decide: keys that are whole numbers, in defaults of variables
    and first values of agents; and definitions of variables that contain themselves. What is shared stays shared.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.broken: set[str | int] = set()
        self._made: dict[tuple[int, bool], Any] = {}
        self._kept: list[Any] = []  # so that no id is given away again
        self._within: set[int] = set()

    def copy(self, value: Any, path: Path = ()) -> Any:
        """Return a copy of a value; None stands for what cannot be copied."""
        if isinstance(value, BaseModel):
            value = _dumped(value)
        if not isinstance(value, Mapping | list | tuple):
            return self._scalar(value, path)
        key = id(value), _takes_int_keys(path)
        if id(value) in self._within and path[0] != _VARIABLES:
            return self._wrong(path, "it contains itself")
        if key in self._made:
            return self._made[key]
        if len(path) >= MAX_DEPTH or len(self._kept) >= MAX_NODES:
            return self._wrong(path, f"nested deeper than {MAX_DEPTH} levels, or more than {MAX_NODES} values")
        made: Any = {} if isinstance(value, Mapping) else []
        self._made[key] = made
        self._kept.append(value)
        self._within.add(id(value))
        if isinstance(value, Mapping):
            for name, item in value.items():
                if self._is_key(name, path):
                    made[name] = self.copy(item, (*path, name))
        else:
            made.extend([self.copy(item, (*path, index)) for index, item in enumerate(value)])
        self._within.discard(id(value))
        return made

    def _is_key(self, name: Any, path: Path) -> bool:
        if type(name) is str:
            try:
                gate(name)
            except InvalidEffectError as error:
                self._wrong(path, f"the key {name!r}: {error.reason}")
                return False
            return True
        if type(name) is int and _takes_int_keys(path):
            return True
        self.problems.append(Problem((*path, name if type(name) is int else str(name)), "keys are strings: quote it"))
        return False

    def _scalar(self, value: Any, path: Path) -> Any:
        try:
            gate(value)
        except InvalidEffectError as error:
            return self._wrong(path, error.reason)
        return value

    def _wrong(self, path: Path, message: str) -> None:
        self.problems.append(Problem(path, message))
        self.broken.update(path[:1])


def _takes_int_keys(path: Path) -> bool:
    """Tell whether a mapping at this path may have keys that are whole numbers, if its type says so."""
    if path[:1] == (_VARIABLES,):
        return "default" in path[3:]
    return path[:1] == ("agents",) and path[2:3] == ("state",) and len(path) > 3


def _dumped(value: BaseModel) -> Any:
    if isinstance(value, VariableDefinition):
        return value.to_value()
    return {name: getattr(value, name) for name in type(value).model_fields if name in value.model_fields_set}
