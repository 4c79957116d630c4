"""JSON Schemas (2020-12) of payloads, from which forms are made and by which programs check what they will send.

A ruleset tells them by kind (`worldledger.rulesets.Ruleset.payloads`). What such a schema refuses the ruleset refuses,
too; not the other way round: whether an entity exists or a move is legal is beyond a schema. Members that a schema does
not name are allowed. A member that is ``readOnly`` is filled in where it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD

Schema: TypeAlias = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_WORD}
FLAG: Final[Schema] = {"type": "boolean"}
OBJECT: Final[Schema] = {"type": "object"}
NUMBER: Final[Schema] = {"type": "number"}
AMOUNT: Final[Schema] = {"type": "number", "minimum": 0}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_INT}
POINT: Final[Schema] = {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 3}
#: A value of which more is not asked.
ANY: Final[Schema] = {}
#: A JSON Patch (RFC 6902).
PATCH: Final[Schema] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"op": {"enum": ["add", "copy", "move", "remove", "replace", "test"]}, "path": TEXT},
        "required": ["op", "path"],
    },
}


def word_of(*words: str) -> Schema:
    """Return the schema of a text that is one of these."""
    return {"type": "string", "enum": [*words]}


def says(schema: Schema, description: str) -> Schema:
    """Return a schema that says what its value means."""
    return {**schema, "description": description}


def payload(
    description: str, required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, **more: Any
) -> Schema:
    """Return the schema of a payload; members that are optional may also be null."""
    properties = {**required, **{name: _or_null(schema) for name, schema in (optional or {}).items()}}
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": [*required],
        **more,
    }


def _or_null(schema: Schema) -> Schema:
    types = schema.get("type")
    if types is None:
        return schema
    nullable = {**schema, "type": [*([types] if isinstance(types, str) else types), "null"]}
    return {**nullable, "enum": [*schema["enum"], None]} if "enum" in schema else nullable


PRIVATE: Final[Mapping[str, Schema]] = {
    "private": says(FLAG, "Whether only the target gets it."),
    "target_id": says(ANY, "Whom it is meant for."),
}
#: What an agent may intend in worlds of any kind, besides the effects of its kind: see `worldledger.intents`.
INTENTS: Final[Mapping[str, Schema]] = {
    "Interact": payload("Interact with another one.", {"target_id": says(NAME, "With whom.")}),
    "Move": payload(
        "Move to a position.",
        {},
        {
            "to": says(POINT, "The target: 2 or 3 numbers."),
            "from": says(POINT, "Where the move begins."),
            "speed": AMOUNT,
        },
        anyOf=[{"required": ["to"]}, {"required": ["position"]}],
    ),
    "Speak": payload("Say something.", {"text": says(TEXT, "What is said.")}, PRIVATE),
}
