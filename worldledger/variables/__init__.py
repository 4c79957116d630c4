"""Typed state variables: what an agent or the world has, of which type, within which bounds.

`check_definitions` reads definitions, `create_agent_state_model` and `create_global_state_model` make Pydantic models
of them, `validate_state` and `dump_state` lead from JSON to a model and back.

Source: docs/reference/contracts.md, "Variables". Behind the door:

- ``limits.py``: types, which fields belong to which, every limit
- ``cycles.py``, ``rules.py``, ``defaults.py``, ``patterns.py`` (``pattern_parser.py``): what is wrong with a definition
- ``definition.py``, ``checking.py``: one definition, a set of them
- ``annotations.py``, ``classes.py``, ``models.py``: the models
- ``keeping.py``: bounded caches by schema
- ``checks.py``: defaults, given or composed
- ``messages.py``: errors as text
"""

from worldledger.variables.definition import ObjectState, VariableDefinition, default_of, values_of
from worldledger.variables.messages import format_validation_error, loc_to_dot_notation, problems_of
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
