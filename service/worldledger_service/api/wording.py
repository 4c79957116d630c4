"""Plain words for what Pydantic finds wrong: always what a value must be, never what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import PydanticCustomError

from worldledger.canonical import MAX_INT

_WANTED: Final = {"model_type": "an object", "dict_type": "an object", "string_type": "a string"}
_SIMPLE: Final = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
}
_BOUNDS: Final = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
}
_JSON_NAMES: Final = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def not_whole(least: int) -> PydanticCustomError:
    """Make the error of a parameter that is no whole number from ``least`` to 2^53-1."""
    limits = {"least": least, "most": MAX_INT}
    return PydanticCustomError("whole_number", "must be a whole number from {least} to {most}", limits)


def reason(error: Mapping[str, Any]) -> str:
    """Say what one error of `ValidationError.errors` is about, to follow the name of what is wrong."""
    kind: str = error["type"]
    context: Mapping[str, Any] = error.get("ctx", {})
    if kind in _WANTED:
        return f"must be {_WANTED[kind]}, not {_JSON_NAMES.get(type(error['input']), 'something else')}"
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind == "string_too_short":
        least = context["min_length"]
        return "must not be empty" if least == 1 else f"must have at least {least} characters"
    if kind == "string_too_long":
        return f"must have at most {context['max_length']} characters"
    if kind in _BOUNDS:
        words, limit = _BOUNDS[kind]
        bound = context[limit]
        return f"must be {words} {int(bound) if float(bound).is_integer() else bound}"
    if kind == "literal_error":
        return f"must be {context['expected']}"
    return str(error["msg"])
