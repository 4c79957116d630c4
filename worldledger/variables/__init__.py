"""Typed state variables: the values of an agent or of the world, with types and bounds.

`check_definitions` reads definitions, `create_agent_state_model` and `create_global_state_model` make Pydantic models
from them, `validate_state` and `dump_state` convert between JSON and a model.

Source: docs/reference/contracts.md, "Variables". The modules:

- ``limits.py``: types, the fields of each, every limit
- ``rules.py``, ``patterns.py``: what can be wrong with a definition
- ``definition.py``: one definition, its default and the type of its values; errors as text
- ``models.py``: a set of definitions, and the models made from them
"""

from worldledger.variables.definition import (
    ObjectState,
    VariableDefinition,
    default_of,
    format_validation_error,
    loc_to_dot_notation,
    problems_of,
    values_of,
)
from worldledger.variables.models import (
    AgentState,
    GlobalState,
    StateInvalidError,
    check_definitions,
    create_agent_state_model,
    create_global_state_model,
    dump_state,
    validate_state,
)

__all__ = [
    "AgentState",
    "GlobalState",
    "ObjectState",
    "StateInvalidError",
    "VariableDefinition",
    "check_definitions",
    "create_agent_state_model",
    "create_global_state_model",
    "default_of",
    "dump_state",
    "format_validation_error",
    "loc_to_dot_notation",
    "problems_of",
    "validate_state",
    "values_of",
]
