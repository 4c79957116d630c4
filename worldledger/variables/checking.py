"""Checking a whole set of variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldledger.errors.simulations import InvalidDefinitionError, Path, Problem
from worldledger.variables.cycles import refuse_cycles
from worldledger.variables.definition import VariableDefinition, read
from worldledger.variables.rules import Rules

#: An agent's own name stands beside its variables.
RESERVED = {"agent_vars": frozenset({"name"})}


def check_definitions(raw: Mapping[str, Any], where: str | Path = "agent_vars") -> dict[str, VariableDefinition]:
    """Make the definitions of a set of variables from JSON or YAML values (or from definitions).

    ``where`` is the way to them, and its last part says whose they are: among ``agent_vars``, ``name`` is reserved.
    Cycles are looked for first. Raises CircularSchemaError, or InvalidDefinitionError with all that is wrong.
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
