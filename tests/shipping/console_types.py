"""The types of the service's answers for the console, made from the OpenAPI document.

They are of the routes that the console's sources ask by ``get("PATH"`` and ``post("PATH"``. ``make docs`` writes them
(`.tables`); a test compares them with what is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from worldledger_service.app import create_app
from worldledger_service.settings import Settings

from .project import ROOT

SOURCES: Final = ROOT / "console" / "src"
FILE: Final = SOURCES / "core" / "api.ts"

_HEAD: Final = """\
// Generated from the service's OpenAPI document by `make docs`: do not edit.
/** What the service answers, by the path of the route. */

import type { Json, Obj } from "./json.ts";
"""
_REFERENCE: Final = "#/components/schemas/"
_PLAIN: Final = {
    "boolean": "boolean",
    "integer": "number",
    "null": "null",
    "number": "number",
    "string": "string",
}


def types() -> str:
    """Return what the file is to hold."""
    document = _document()
    shapes = document["components"]["schemas"]
    sources = "".join(path.read_text() for path in sorted(SOURCES.rglob("*.ts*")) if path != FILE)
    answers = {
        method: {
            path: _answer(document["paths"][path][method])
            for path in sorted(set(re.findall(rf'\b{method}\(\s*"(/[^"]+)"', sources)))
        }
        for method in ("get", "post")
    }
    wanted = [each for of_method in answers.values() for answer in of_method.values() for each in _named(answer)]
    found: dict[str, Any] = {}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = shapes[name]
            wanted += _named(shapes[name])
    parts = [_HEAD]
    for method, of_method in answers.items():
        members = "".join(f'  "{path}": {_type(answer)};\n' for path, answer in of_method.items())
        parts.append(f"export interface {method.capitalize()}s {{\n{members}}}\n")
    parts += [_shape(name, shape) for name, shape in sorted(found.items()) if name != "JsonValue"]
    return "\n".join(parts)


@cache
def _document() -> dict[str, Any]:
    return create_app(Settings(), "postgresql://nobody@localhost/nothing").openapi()


def _answer(operation: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the JSON that tells of success."""
    found: list[Any] = []
    for status, response in operation["responses"].items():
        schema = response.get("content", {}).get("application/json", {}).get("schema")
        if status.startswith("2") and schema is not None and schema not in found:
            found.append(schema)
    return found[0] if len(found) == 1 else {"anyOf": found}


def _named(value: Any) -> Iterator[str]:
    """Return the names of the shapes to which a schema refers."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].removeprefix(_REFERENCE)
        for name, member in value.items():
            if name != "examples":
                yield from _named(member)
    elif isinstance(value, list):
        for member in value:
            yield from _named(member)


def _shape(name: str, shape: dict[str, Any]) -> str:
    comment = _comment(shape, "")
    if "properties" in shape:
        return f"{comment}export interface {name} {_members(shape)}\n"
    return f"{comment}export type {name} = {_type(shape)};\n"


def _members(shape: dict[str, Any]) -> str:
    lines = []
    for name, schema in shape["properties"].items():
        mark = "" if name in shape.get("required", ()) else "?"
        lines.append(f"{_comment(schema, '  ')}  {name}{mark}: {_type(schema)};\n")
    if shape.get("additionalProperties") is True:
        lines.append("  [other: string]: unknown;\n")
    return f"{{\n{''.join(lines)}}}"


def _comment(schema: dict[str, Any], indent: str) -> str:
    text = " ".join(schema.get("description", "").replace("*/", "* /").replace("``", "`").split())
    return f"{indent}/** {text} */\n" if text else ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name: str = schema["$ref"].removeprefix(_REFERENCE)
        return "Json" if name == "JsonValue" else name
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " | ".join(dict.fromkeys(part for each in schema[several] for part in _type(each).split(" | ")))
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "array":
        item = _type(schema.get("items", {}))
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "object":
        values = schema.get("additionalProperties", True)
        value = "Json" if values is True else _type(values)
        return "Obj" if value == "Json" else f"Record<string, {value}>"
    return _PLAIN.get(kind or "", "Json")
