"""Pydantic's errors about values, in this project's words.

Source: docs/reference/contracts.md, "Variables".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from worldledger.errors import Path, Problem, dotted, told

#: Pydantic's names of Python types -> the names in JSON and YAML.
_TEXTS = {
    "dict_type": "Input should be a mapping of keys to values",
    "model_type": "Input should be a mapping of fields to values",
    "model_attributes_type": "Input should be a mapping of fields to values",
    "tuple_type": "Input should be a list, with one value per element",
}


def loc_to_dot_notation(loc: tuple[str | int, ...]) -> str:
    """Write ``("agents", "Trader_1", "inventory", "food")`` as ``agents[Trader_1].inventory.food``."""
    return dotted(loc)


def format_validation_error(error: ValidationError, prefix: tuple[str | int, ...] = ()) -> str:
    """Write a validation error as text, one line a problem: ``PATH: MESSAGE``.

    If a collection or a string exceeds its size, its field is named once more at the end. ``prefix`` is the path of the
    value that was checked.
    """
    return format_problems(problems_of(error, prefix))


def format_problems(problems: list[tuple[Path, str]]) -> str:
    """Write problems as `format_validation_error` does."""
    return "\n".join(told(Problem(path, message)) for path, message in problems)


def problems_of(error: ValidationError, prefix: Path = ()) -> list[tuple[Path, str]]:
    """Return the path and the message of each problem."""
    return [_problem(found, prefix) for found in error.errors(include_url=False)]


def _problem(found: Mapping[str, Any], prefix: Path) -> tuple[Path, str]:
    path: Path = (*prefix, *found["loc"])
    context = found.get("ctx", {})
    value = found["input"]
    message = _TEXTS.get(found["type"], found["msg"])
    match found["type"]:
        case "too_long" if context["field_type"] == "Tuple":
            message = f"Tuple should have {context['max_length']} elements (got {context['actual_length']})"
        case "too_long":
            kind = "Dict" if context["field_type"] == "Dictionary" else context["field_type"]
            count = context["actual_length"] or _length(value)
            message = f"{kind} exceeds maximum size of {context['max_length']} items (got {count} items)"
        case "string_too_long":
            most = context["max_length"]
            message = f"String exceeds maximum length of {most} characters (got {_length(value)} characters)"
        case "missing" if isinstance(path[-1], int):
            message = "Tuple is too short: this element is missing"
    if path and path[-1] == "[key]":
        path = path[:-1]
        message = f"the key {path[-1]!r}: {message}" if found["type"] != "whole_key" else message
    return path, message


def _length(value: Any) -> int | str:
    return len(value) if hasattr(value, "__len__") else "more"
