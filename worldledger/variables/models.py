"""The models of agents and of the world's variables, made from definitions and kept by what they were made from.

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

from worldledger.variables.annotations import annotation_of
from worldledger.variables.checking import RESERVED, check_definitions
from worldledger.variables.checks import adapter_of, default_text, json_text
from worldledger.variables.classes import ObjectState, make_class
from worldledger.variables.definition import VariableDefinition
from worldledger.variables.keeping import kept
from worldledger.variables.messages import format_problems, problems_of

_State = TypeVar("_State", bound=ObjectState)


class AgentState(ObjectState):
    """The state of an agent: its name, and its variables."""

    name: str = Field(min_length=1)


class GlobalState(ObjectState):
    """The variables of the world."""


class StateInvalidError(ValueError):
    """A value that is no state of its model; ``problems`` has the path and the message of each thing wrong."""

    def __init__(self, problems: list[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__(format_problems(problems))
        self.problems = problems


@dataclass(frozen=True)
class _Key:
    """What a class is kept by: its kind and the hash of its schema."""

    kind: str
    digest: bytes
    size: int = field(compare=False)
    variables: Mapping[str, VariableDefinition] = field(compare=False)


def create_agent_state_model(variables: Mapping[str, VariableDefinition]) -> type[AgentState]:
    """Return the model ``DynamicAgentState``: ``name``, then the variables in their order.

    A variable without a default is required. Values are coerced as Pydantic does;
    unknown ones are refused. The last 256 models are kept by the hash of their schema (few of very large ones).
    Raises InvalidDefinitionError for what is no definition, and for a variable ``name``.
    """
    return _agent_model(_key("agent", _checked(variables, "agent_vars")))


def create_global_state_model(variables: Mapping[str, VariableDefinition]) -> type[GlobalState]:
    """Return the model ``DynamicGlobalState`` of the world's variables; otherwise as `create_agent_state_model`."""
    return _global_model(_key("global", _checked(variables, "global_vars")))


def _checked(variables: Mapping[str, VariableDefinition], where: str) -> Mapping[str, VariableDefinition]:
    """Return the variables as they are, where they were checked before; those of plain JSON are checked here."""
    are_made = all(isinstance(each, VariableDefinition) for each in variables.values())
    if are_made and RESERVED.get(where, frozenset()).isdisjoint(variables):
        return variables
    return check_definitions(variables, where)


def _key(kind: str, variables: Mapping[str, VariableDefinition]) -> _Key:
    # No name has a line break, and neither has the text, which is compact JSON: the pieces cannot run together.
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
    """Make an instance of the model of a JSON value (or of Python values). Raises StateInvalidError."""
    try:
        return model_class.model_validate(value)
    except ValidationError as error:
        raise StateInvalidError(problems_of(error)) from None


def dump_state(state: ObjectState) -> dict[str, Any]:
    """Return a state as plain JSON value: tuples as lists, whole-numbered keys as strings, nulls written.

    Every value is of its exact type, whatever was assigned: validating it gives an equal state, and dumping that the
    same value. Raises StateInvalidError if something was assigned that the model refuses.
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
