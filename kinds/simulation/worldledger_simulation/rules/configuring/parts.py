"""Reading the parts of a configuration by their models, every problem kept with its path."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from worldledger.drafts import json_name
from worldledger.errors import Problem
from worldledger.errors.simulations import Path
from worldledger.near import nearest

#: What Pydantic's errors say is expected.
_EXPECTED: Final = {
    "string_type": "a string",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "list_type": "a list",
    "model_type": "a mapping",
}
#: After so many problems no nearest names are looked for, which takes time.
_MOST_HINTS: Final = 100
_Model = TypeVar("_Model", bound=BaseModel)


class Parts:
    """Reads parts; ``problems`` has what is wrong with those that were read."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def optional(self, model: type[_Model], value: Any, path: Path) -> _Model | None:
        """Read one model of a part that may be left out."""
        return self.required(model, {} if value is None else value, path)

    def required(self, model: type[_Model], value: Any, path: Path) -> _Model | None:
        """Read one model, None if it cannot be. Fields that may be left out may be null."""
        if value is None:
            self.wrong(path, "required")
            return None
        if isinstance(value, dict):
            self.known(value, tuple(model.model_fields), path)
            fields = model.model_fields
            value = {
                name: item
                for name, item in value.items()
                if name in fields and (item is not None or fields[name].is_required())
            }
        try:
            return model.model_validate(value)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                self.wrong((*path, *each["loc"]), _told(each))
            return None

    def known(self, value: Mapping[str, Any], names: Collection[str], path: Path) -> None:
        """Refuse the members that a part does not have, and name the nearest that it has."""
        for name in value:
            if name not in names:
                self.wrong((*path, name), f"unknown field {name!r}; {self.hint(name, names)}")

    def hint(self, name: str, names: Collection[str], otherwise: str = "") -> str:
        """Say which name is nearest; else ``otherwise``, or which names there are."""
        close = nearest(str(name), names) if len(self.problems) < _MOST_HINTS else None
        return f"did you mean {close!r}?" if close else otherwise or f"known are {', '.join(names)}"

    def is_mapping(self, value: Any, path: Path) -> bool:
        """Tell whether a part is a mapping, and say so if it is not."""
        if isinstance(value, dict):
            return True
        self.wrong(path, f"must be a mapping, not {kind_of(value)}")
        return False

    def wrong(self, path: Path, message: str) -> None:
        """Keep a problem."""
        self.problems.append(Problem(path, message))


def kind_of(value: Any) -> str:
    """Return what YAML calls this kind of value."""
    return "a mapping" if isinstance(value, dict) else json_name(value)


def _told(error: ErrorDetails) -> str:
    """Say what Pydantic found, in this project's words."""
    kind, given = error["type"], error["input"]
    if kind in _EXPECTED:
        shown = repr(given) if isinstance(given, float) else kind_of(given)
        return f"must be {_EXPECTED[kind]}, not {shown}"
    if kind == "missing":
        return "required"
    if kind == "literal_error":
        return f"must be {error['ctx']['expected']}, not {given!r}"
    return error["msg"].removeprefix("Value error, ").replace("Input should", "must", 1)
