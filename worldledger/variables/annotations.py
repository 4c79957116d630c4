"""What Pydantic is told about the values of a definition: native constraints only, so that checking is quick.

Source: docs/reference/contracts.md, "Variables".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, GetPydanticSchema, StringConstraints
from pydantic_core import CoreSchema, core_schema

from worldledger.canonical import MAX_INT
from worldledger.variables.classes import ObjectState, make_class
from worldledger.variables.keeping import kept
from worldledger.variables.limits import MAX_CHARACTERS, MAX_ITEMS
from worldledger.variables.patterns import translate
from worldledger.variables.rules import whole

if TYPE_CHECKING:
    from worldledger.variables.definition import VariableDefinition

#: A whole number as JSON has it for a key. "01", "+1" and "-0" would be other keys for the same number.
_KEY_PATTERN: Final = r"\A(?:0|-?[1-9][0-9]{0,15})\z"


def _key_schema() -> CoreSchema:
    number = core_schema.int_schema(ge=-MAX_INT, le=MAX_INT)
    return core_schema.union_schema(
        [
            core_schema.chain_schema([core_schema.str_schema(pattern=_KEY_PATTERN, strict=True), number]),
            core_schema.int_schema(ge=-MAX_INT, le=MAX_INT, strict=True),
        ],
        mode="left_to_right",
        custom_error_type="whole_key",
        custom_error_message="A key should be a whole number, such as 12, within ±(2^53-1)",
    )


_INT_KEY: Final[Any] = Annotated[int, GetPydanticSchema(lambda _source, _handler: _key_schema())]

#: The elements that stand there by their bare name, without bounds.
_BARE: Final[dict[str, Any]] = {
    "float": Annotated[float, Field(allow_inf_nan=False)],
    "int": Annotated[int, Field(ge=-MAX_INT, le=MAX_INT)],
    "bool": bool,
    "str": Annotated[str, StringConstraints(max_length=MAX_CHARACTERS)],
}


def is_nullable(definition: VariableDefinition, *, element: bool = False) -> bool:
    """Tell whether null is a value: its default is null, or it is a string with no default (as no element is)."""
    if definition.has_default:
        return definition.default is None
    return definition.type == "str" and not element


def annotation_of(definition: VariableDefinition, *, element: bool = False) -> Any:
    """Return the type of a variable's or a field's values, or of an element's."""
    found = _annotation(definition)
    return found | None if is_nullable(definition, element=element) else found


def _annotation(definition: VariableDefinition) -> Any:
    found: Any = bool
    match definition.type:
        case "float":
            found = Annotated[float, Field(ge=definition.min, le=definition.max, allow_inf_nan=False)]
        case "int":
            low, high = (
                whole(-math.inf if definition.min is None else definition.min, math.inf)[0],
                whole(-math.inf, math.inf if definition.max is None else definition.max)[1],
            )
            found = Annotated[int, Field(ge=low, le=high)]
        case "categorical":
            found = Literal[definition.values]
        case "str":
            found = _string(definition)
        case "dict" if definition.schema_ is None:
            key = str if definition.key_type == "str" else _INT_KEY
            held: Any = dict.__class_getitem__((key, _element(definition.value_type)))
            found = Annotated[held, Field(max_length=MAX_ITEMS)]
        case "list":
            most = definition.max_length or MAX_ITEMS
            found = Annotated[list[_element(definition.item_type)], Field(max_length=most)]  # type: ignore[misc]
        case "tuple":
            found = tuple[*map(_element, definition.item_types or ())]  # type: ignore[misc]
        case "dict" | "object":
            found = nested_model(definition)
    return found


def _element(element: Any) -> Any:
    return _BARE[element] if isinstance(element, str) else annotation_of(element, element=True)


def _string(definition: VariableDefinition) -> Any:
    most = definition.max_length or MAX_CHARACTERS
    pattern = definition.pattern
    if pattern is None:
        return Annotated[str, StringConstraints(max_length=most)]
    # The error names the pattern as it was written, not its translation.
    matching = core_schema.custom_error_schema(
        core_schema.str_schema(pattern=translate(pattern)),
        custom_error_type="pattern",
        custom_error_message="String does not match the pattern '{pattern}'",
        custom_error_context={"pattern": pattern},
    )
    schema = core_schema.chain_schema([core_schema.str_schema(max_length=most), matching])
    return Annotated[str, GetPydanticSchema(lambda _source, _handler: schema)]


@kept(256)
def nested_model(definition: VariableDefinition) -> type[ObjectState]:
    """Return the model of a dict with a schema, or of an object; the same one for equal definitions while it is kept.

    All fields are required but those whose default is null.
    """
    fields = definition.schema_ or {}
    return make_class(
        "DynamicObjectState",
        ObjectState,
        fields,
        {
            name: (annotation_of(inner), {"default": None} if is_nullable(inner) else {})
            for name, inner in fields.items()
        },
    )
