"""JSON Schemas of simulations' files: configurations, their variables, and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from worldledger_service.api.published import Published, document

from worldledger.canonical import MAX_INT
from worldledger.effects import SERVICE_SOURCE
from worldledger.variables import VariableDefinition, limits
from worldledger_simulation.rules import SimulationConfig
from worldledger_simulation.rules.checkpoint import FORMAT, ORIGIN
from worldledger_simulation.rules.sections import MAX_AGENTS, MAX_NAME
from worldledger_simulation.rules.words import GLOBAL

TITLES: Final = {
    "checkpoint": "A checkpoint of a simulation",
    "simulation-config": "The configuration of a simulation",
    "variable-definition": "The definition of a state variable",
}
#: Matches every identifier of Python, and little else: the exact rule depends on Unicode.
_IDENTIFIER: Final[dict[str, Any]] = {
    "pattern": r"^[^\s!-@\[-`{-~][^\s!-/:-@\[-^`{-~]*$",
    "minLength": 1,
    "maxLength": limits.MAX_NAME,
}
_NULL: Final[dict[str, Any]] = {"type": "null"}
_DEFINITION: Final[dict[str, Any]] = {"$ref": "#/$defs/VariableDefinition"}
#: The type of a collection's elements: the bare name of a type, or a definition.
_ELEMENT: Final[dict[str, Any]] = {"anyOf": [{"enum": list(limits.BARE)}, _DEFINITION]}
_LENGTH: Final[dict[str, Any]] = {"type": ["integer", "null"], "minimum": 1}
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "propertyNames": _IDENTIFIER,
    "additionalProperties": _DEFINITION,
    "minProperties": 1,
    "maxProperties": limits.MAX_ITEMS,
}
_VALUES: Final[dict[str, Any]] = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": limits.MAX_CHARACTERS},
    "minItems": 1,
    "maxItems": limits.MAX_ITEMS,
    "uniqueItems": True,
}
#: The JSON forms of a default of each type; numbers are also read from texts, as Pydantic does.
_DEFAULTS: Final[Mapping[str, list[str]]] = {
    "float": ["number", "string", "boolean", "null"],
    "int": ["number", "string", "boolean", "null"],
    "bool": ["boolean", "number", "string", "null"],
    "categorical": ["string", "null"],
    "str": ["string", "null"],
    "dict": ["object", "null"],
    "object": ["object", "null"],
    "list": ["array", "null"],
    "tuple": ["array", "null"],
}
#: The members that are required besides the type.
_REQUIRED: Final[Mapping[str, list[str]]] = {
    "categorical": ["values"],
    "list": ["item_type"],
    "tuple": ["item_types"],
    "object": ["schema"],
}
#: A valid name of an agent.
_AGENT_NAME: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_NAME,
    "not": {"enum": [GLOBAL, SERVICE_SOURCE]},
}
_NOISE: Final[dict[str, Any]] = {"type": "number", "minimum": 0}
_TURN: Final[dict[str, Any]] = {"type": "integer", "minimum": 0, "maximum": MAX_INT}


@cache
def variable_definition() -> dict[str, Any]:
    """Return the schema of the definition of one state variable."""
    made = VariableDefinition.model_json_schema()
    return document(
        "variable-definition", TITLES["variable-definition"], _DEFINITION, {"VariableDefinition": _definition(made)}
    )


@cache
def simulation_config() -> dict[str, Any]:
    """Return the schema of a simulation's configuration."""
    made = SimulationConfig.model_json_schema()
    definitions = made.pop("$defs")
    definitions["VariableDefinition"] = _definition({"$defs": definitions})
    agent, entry = definitions["AgentConfig"], definitions["ObservabilityEntry"]
    agent["properties"]["name"] = _AGENT_NAME
    agent["properties"]["state"]["propertyNames"] = {**_IDENTIFIER, "not": {"const": "name"}}
    made["properties"]["agents"] |= {
        "items": {"anyOf": [_AGENT_NAME, {"$ref": "#/$defs/AgentConfig"}]},
        "minItems": 1,
        "maxItems": MAX_AGENTS,
    }
    for name in ("agent_vars", "global_vars"):
        variables = definitions["StateVariablesConfig"]["properties"][name]
        variables["propertyNames"] = {**_IDENTIFIER, **({"not": {"const": "name"}} if name == "agent_vars" else {})}
    entry["properties"]["noise"] = {"anyOf": [_NOISE, _NULL]}
    definitions["DefaultObservability"]["properties"]["noise"] = _NOISE
    definitions["VariableVisibilityConfig"]["properties"]["external"]["minItems"] = 1
    definitions["ObservabilityConfig"]["properties"]["matrix"]["items"] = {
        "anyOf": [{"$ref": "#/$defs/ObservabilityEntryList"}, {"$ref": "#/$defs/ObservabilityEntry"}]
    }
    definitions["ObservabilityEntryList"] = {
        "type": "array",
        "description": "`[observer, target, level, noise]`",
        "prefixItems": [entry["properties"][name] for name in ("observer", "target", "level", "noise")],
        "minItems": 4,
        "maxItems": 4,
    }
    for one in (made, *definitions.values()):
        _allow_null(one)
    return document("simulation-config", TITLES["simulation-config"], made, definitions)


@cache
def checkpoint() -> dict[str, Any]:
    """Return the schema of a checkpoint; its variables depend on the configuration that it is used with."""
    return document(
        "checkpoint",
        TITLES["checkpoint"],
        {
            "type": "object",
            "description": "The state of a simulation, for another simulation to begin with.",
            "properties": {
                "turn": {**_TURN, "description": "The last turn."},
                "agents": {
                    "type": "object",
                    "description": "Each agent's variables by its name; those left out have their defaults.",
                    "additionalProperties": {"type": "object", "properties": {"name": {"type": "string"}}},
                },
                "global_state": {"type": "object", "description": "The global variables.", "default": {}},
                "reasoning_chains": {"description": "Not looked at."},
                ORIGIN: {"anyOf": [{"$ref": "#/$defs/Origin"}, _NULL]},
            },
            "required": ["turn", "agents"],
            "additionalProperties": False,
        },
        {
            "Origin": {
                "type": "object",
                "description": "Where the checkpoint was taken, and the digest of the rest. May be left out, or null.",
                "properties": {
                    "format": {"const": FORMAT},
                    "world_id": {"description": "The world's name …"},
                    "world_uuid": {"description": "… and its uuid, 32 hex digits."},
                    "global_seq": {"description": "The effect after which the state was this …"},
                    "checksum": {"description": "… and the checksum of the chain there."},
                    "variables_digest": {"description": "Tells one schema of variables from another."},
                    "paused": {
                        "type": "object",
                        "description": "The paused agents, and the turn that each resumes in; null: until it is told.",
                        "additionalProperties": {"anyOf": [_TURN, _NULL]},
                    },
                    "digest": {
                        "description": "SHA-256 of everything but itself: another one means that it was edited."
                    },
                },
                "required": ["format"],
            }
        },
    )


def _definition(made: Mapping[str, Any]) -> dict[str, Any]:
    """Extend the model's schema of a variable's definition by the rules of each type."""
    found: dict[str, Any] = made["$defs"]["VariableDefinition"]
    properties = found["properties"]
    properties["type"] = {"enum": list(limits.TYPES)}
    for name in ("min", "max"):
        properties[name] = {"type": ["number", "null"]}
    properties["values"] = {"anyOf": [_VALUES, _NULL]}
    properties["default"] = {"description": "Null makes the variable optional, whatever its type."}
    for name in ("value_type", "item_type"):
        properties[name] = {"anyOf": [*_ELEMENT["anyOf"], _NULL]}
    elements = {"type": "array", "items": _ELEMENT, "minItems": 1, "maxItems": limits.MAX_ITEMS}
    properties["item_types"] = {"anyOf": [elements, _NULL]}
    properties["schema"] = {"anyOf": [_SCHEMA, _NULL]}
    properties["pattern"] = {"type": ["string", "null"], "maxLength": limits.MAX_PATTERN}
    properties["max_length"] = {**_LENGTH, "maximum": limits.LONGEST_STRING}
    found["description"] = "A state variable, or a part of one: its type, and what belongs to that type."
    found["allOf"] = [_by_type(kind) for kind in limits.TYPES]
    return found


def _by_type(kind: str) -> dict[str, Any]:
    """Return the rules for definitions of one type: fields of other types are not set, its own are there."""
    foreign = limits.KNOWN_FIELDS - {"type", "default"} - limits.FIELDS[kind]
    then: dict[str, Any] = {
        "properties": {
            **dict.fromkeys(sorted(foreign), _NULL),
            "default": {"type": _DEFAULTS[kind]},
            **({"max_length": {"maximum": limits.MAX_ITEMS}} if kind == "list" else {}),
        }
    }
    if kind == "dict":
        dynamic, fixed = ["key_type", "value_type"], ["schema"]
        then["oneOf"] = [_set(dynamic, but=fixed), _set(fixed, but=dynamic)]
    elif kind in _REQUIRED:
        then |= {"required": _REQUIRED[kind]}
        then["properties"] |= {name: {"not": _NULL} for name in _REQUIRED[kind]}
    return {"if": {"properties": {"type": {"const": kind}}, "required": ["type"]}, "then": then}


def _set(names: list[str], *, but: list[str]) -> dict[str, Any]:
    """Return the rule that some fields are set, and others are not."""
    return {"required": names, "properties": {**{name: {"not": _NULL} for name in names}, **dict.fromkeys(but, _NULL)}}


def _allow_null(schema: dict[str, Any]) -> None:
    """Allow null for the optional fields of an object."""
    for name, field in schema.get("properties", {}).items():
        choices = field.get("anyOf", [])
        if name not in schema.get("required", ()) and _NULL not in choices and "null" not in field.get("type", ()):
            told = {key: field[key] for key in ("description", "default") if key in field}
            rest = {key: value for key, value in field.items() if key not in told}
            if rest:
                schema["properties"][name] = {"anyOf": [rest, _NULL], **told}


#: The schemas by name.
SCHEMAS: Final[Mapping[str, Published]] = {
    "checkpoint": Published(TITLES["checkpoint"], checkpoint),
    "simulation-config": Published(TITLES["simulation-config"], simulation_config),
    "variable-definition": Published(TITLES["variable-definition"], variable_definition),
}
