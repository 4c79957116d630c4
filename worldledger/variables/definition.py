"""The definition of one state variable.

Source: docs/reference/simulation-config.md, "Fields".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import orjson
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from worldledger.errors.simulations import told
from worldledger.variables.checks import default_problems
from worldledger.variables.cycles import refuse_cycles
from worldledger.variables.limits import TypeName
from worldledger.variables.rules import Rules, plain

#: Everything but ``default``, whose null is a value.
_FIELDS = (
    "min",
    "max",
    "values",
    "key_type",
    "value_type",
    "item_type",
    "item_types",
    "pattern",
    "max_length",
)


class VariableDefinition(BaseModel):
    """Definition of a single state variable: its type, and what belongs to that type.

    ``schema_`` is called ``schema`` in YAML and JSON; both names are taken. Elements (``value_type``, ``item_type``,
    ``item_types``) are the bare name of a scalar type, or definitions. Making one checks every rule: ValidationError,
    with a line for each problem, or CircularSchemaError. Two definitions are equal if their `to_value` are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    type: TypeName
    min: int | float | None = None
    max: int | float | None = None
    values: tuple[str, ...] | None = None
    default: Any = None
    key_type: Literal["str", "int"] | None = None
    value_type: str | VariableDefinition | None = None
    item_type: str | VariableDefinition | None = None
    item_types: tuple[str | VariableDefinition, ...] | None = None
    schema_: dict[str, VariableDefinition] | None = Field(default=None, alias="schema")
    pattern: str | None = None
    max_length: int | None = None

    _text: bytes | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _keep_the_rules(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        if "schema_" in data and "schema" not in data:
            data = {"schema" if name == "schema_" else name: value for name, value in data.items()}
        refuse_cycles({"definition": data}, ())
        rules = Rules()
        normal = rules.variable(data, ())
        if normal is None:
            raise _refused([told(problem) for problem in rules.problems])
        return {"schema" if name == "schema_" else name: value for name, value in _fields(normal).items()}

    @model_validator(mode="after")
    def _keep_the_type(self) -> VariableDefinition:
        problems = default_problems(self, ())
        if problems:
            raise _refused([told(problem) for problem in problems])
        return self

    @model_serializer(mode="wrap")
    def _only_what_was_set(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = handler(self)
        return {
            "schema" if name == "schema_" else name: value
            for name, value in dumped.items()
            if (value is not None if name != "default" else self.has_default)
        }

    @property
    def has_default(self) -> bool:
        """Whether a default was given, be it null."""
        return "default" in self.model_fields_set

    def to_value(self) -> dict[str, Any]:
        """Return the definition as plain JSON value, only what was set; the same definition is made from it again."""
        value: dict[str, Any] = {"type": self.type}
        for name in _FIELDS:
            found = getattr(self, name)
            if found is not None:
                value[name] = _value(found)
        if self.schema_ is not None:
            value["schema"] = {name: inner.to_value() for name, inner in self.schema_.items()}
        if self.has_default:
            value["default"] = orjson.loads(orjson.dumps(self.default))
        return value

    @property
    def text(self) -> bytes:
        """The JSON text of `to_value`: what tells two definitions apart."""
        text = self._text
        if text is None:
            text = self._text = orjson.dumps(self.to_value(), option=orjson.OPT_SORT_KEYS)
        return text

    @property
    def size(self) -> int:
        """The number of bytes of the text."""
        return len(self.text)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, VariableDefinition) else NotImplemented

    def __copy__(self) -> VariableDefinition:
        copied = super().__copy__()
        copied._text = None  # noqa: SLF001 - a copy may be given other fields
        return copied

    def __hash__(self) -> int:
        return self.text.__hash__()


def definition_of(normal: Mapping[str, Any]) -> VariableDefinition:
    """Make a definition of the normal form that `Rules` gave, without checking it again."""
    fields = _fields(normal)
    return VariableDefinition.model_construct(set(fields), **fields)


def read(raw: Any, path: tuple[str | int, ...], rules: Rules) -> VariableDefinition | None:
    """Read the definition of a variable, its defaults too; what is wrong is added to the problems of the rules."""
    normal = rules.variable(plain(raw), path)
    if normal is None:
        return None
    definition = definition_of(normal)
    problems = default_problems(definition, path)
    rules.problems += problems
    return None if problems else definition


def _fields(normal: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a definition: nested normal forms as definitions, ``schema`` under its Python name."""
    fields: dict[str, Any] = {}
    for name, value in normal.items():
        match name:
            case "schema":
                fields["schema_"] = {field: definition_of(inner) for field, inner in value.items()}
            case "item_types":
                fields[name] = tuple(map(_element, value))
            case "value_type" | "item_type":
                fields[name] = _element(value)
            case "values":
                fields[name] = tuple(value)
            case _:
                fields[name] = value
    return fields


def _element(value: Any) -> Any:
    return value if isinstance(value, str) else definition_of(value)


def _value(found: Any) -> Any:
    if isinstance(found, VariableDefinition):
        return found.to_value()
    return [_value(item) for item in found] if isinstance(found, tuple) else found


def _refused(lines: list[str]) -> PydanticCustomError:
    return PydanticCustomError("invalid_definition", "{problems}", {"problems": "\n".join(lines)})
