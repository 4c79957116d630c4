"""The models of agents and of the world's variables, made from definitions and cached by them.

Source: docs/reference/contracts.md, "Variables"; docs/reference/simulations.md, "Values".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import orjson
from pydantic import Field, ValidationError
from pydantic_core import PydanticSerializationError

from worldledger.errors import InvalidDefinitionError, Path, Problem
from worldledger.variables.definition import (
    ObjectState,
    VariableDefinition,
    adapter_of,
    annotation_of,
    default_text,
    format_problems,
    json_text,
    kept,
    make_class,
    problems_of,
    read,
)
from worldledger.variables.rules import Rules, refuse_cycles

# -- checking a whole set of variables ---------------------------------------------------------------------------

#: An agent's own name is a member beside its variables.
RESERVED = {"agent_vars": frozenset({"name"})}


def check_definitions(raw: Mapping[str, Any], where: str | Path = "agent_vars") -> dict[str, VariableDefinition]:
    """Make the definitions of a set of variables from JSON or YAML values (or from definitions).

    ``where`` is the path to them; its last part says whose they are: in ``agent_vars``, ``name`` is reserved. Cycles
    are looked for first. Raises CircularSchemaError, or InvalidDefinitionError with all problems.
    """
    way: Path = (where,) if isinstance(where, str) else tuple(where)
    if not isinstance(raw, Mapping):
        raise InvalidDefinitionError([Problem(way, "variables are a mapping of names to definitions")])
    refuse_cycles(raw, way)
    rules = Rules()
    reserved = RESERVED.get(str(way[-1]) if way else "", frozenset())
    rules.names(raw, way)
    found: dict[str, VariableDefinition] = {}
    for name, definition in raw.items():
        path = (*way, str(name))
        if rules.is_full:
            break
        if rules.name(name, path, reserved):
            made = read(definition, path, rules)
            if made is not None:
                found[name] = made
    if rules.problems:
        raise InvalidDefinitionError(rules.problems)
    return found


_State = TypeVar("_State", bound=ObjectState)


class AgentState(ObjectState):
    """The state of an agent: its name, and its variables."""

    name: str = Field(min_length=1)


class GlobalState(ObjectState):
    """The variables of the world."""


class StateInvalidError(ValueError):
    """A value that is not a state of its model; ``problems`` has the path and the message of each problem."""

    def __init__(self, problems: list[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__(format_problems(problems))
        self.problems = problems


@dataclass(frozen=True)
class _Key:
    """The cache key of a class: its kind and the hash of its schema."""

    kind: str
    digest: bytes
    size: int = field(compare=False)
    variables: Mapping[str, VariableDefinition] = field(compare=False)


def create_agent_state_model(variables: Mapping[str, VariableDefinition]) -> type[AgentState]:
    """Return the model ``DynamicAgentState``: ``name``, then the variables in their order.

    A variable without a default is required. Values are coerced as Pydantic does; unknown ones are refused. The last
    256 models are cached by the hash of their schema (few of very large ones). Raises InvalidDefinitionError for an
    invalid definition, and for a variable ``name``.
    """
    return _agent_model(_key("agent", _checked(variables, "agent_vars")))


def create_global_state_model(variables: Mapping[str, VariableDefinition]) -> type[GlobalState]:
    """Return the model ``DynamicGlobalState`` of the world's variables; otherwise as `create_agent_state_model`."""
    return _global_model(_key("global", _checked(variables, "global_vars")))


def _checked(variables: Mapping[str, VariableDefinition], where: str) -> Mapping[str, VariableDefinition]:
    """Return the variables as they are if they were checked before; those of plain JSON are checked here."""
    are_made = all(isinstance(each, VariableDefinition) for each in variables.values())
    if are_made and RESERVED.get(where, frozenset()).isdisjoint(variables):
        return variables
    return check_definitions(variables, where)


def _key(kind: str, variables: Mapping[str, VariableDefinition]) -> _Key:
    # Neither names nor the compact JSON text contain line breaks: the pieces cannot run together.
    text = b"".join(b"%b\n%b\n" % (name.encode(), definition.text) for name, definition in variables.items())
    return _Key(kind, hashlib.sha256(text).digest(), len(text), dict(variables))


@kept(256)
def _agent_model(key: _Key) -> type[AgentState]:
    return make_class("DynamicAgentState", AgentState, key.variables, _fields(key.variables))


@kept(256)
def _global_model(key: _Key) -> type[GlobalState]:
    return make_class("DynamicGlobalState", GlobalState, key.variables, _fields(key.variables))


def _fields(variables: Mapping[str, VariableDefinition]) -> dict[str, tuple[Any, dict[str, Any]]]:
    return {name: (annotation_of(definition), _default(definition)) for name, definition in variables.items()}


def _default(definition: VariableDefinition) -> dict[str, Any]:
    text = default_text(definition)
    if text is None:
        return {}
    value = orjson.loads(text)
    if isinstance(value, list | dict):
        return {"default_factory": partial(adapter_of(definition).validate_json, text)}
    return {"default": value}


def validate_state(model_class: type[_State], value: Any) -> _State:
    """Make an instance of the model from a JSON value (or from Python values). Raises StateInvalidError."""
    try:
        return model_class.model_validate(value)
    except ValidationError as error:
        raise StateInvalidError(problems_of(error)) from None


def dump_state(state: ObjectState) -> dict[str, Any]:
    """Return a state as a plain JSON value: tuples as lists, whole-numbered keys as strings, nulls written.

    Every value has its exact type, whatever was assigned: validating it gives an equal state, and dumping that the same
    value. Raises StateInvalidError if something was assigned that the model refuses.
    """
    try:
        text = state.__pydantic_serializer__.to_json(state, warnings=False)
        checked = state.__pydantic_validator__.validate_json(text)
    except PydanticSerializationError as error:
        raise StateInvalidError([((), str(error))]) from None
    except ValidationError as error:
        raise StateInvalidError(problems_of(error)) from None
    value: dict[str, Any] = orjson.loads(json_text(checked.__pydantic_serializer__.to_json(checked)))
    return value
