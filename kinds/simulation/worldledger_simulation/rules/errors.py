"""Errors of simulations' configurations."""

from __future__ import annotations

from typing import ClassVar, Final

from worldledger.errors import InvalidDefinitionError


class InvalidSimulationConfigError(InvalidDefinitionError):
    """A simulation's configuration that cannot be used; details: ``problems``, with file, line and column if known."""

    code: ClassVar[str] = "invalid_simulation_config"


#: What a client makes again of the answers of a service.
ERRORS: Final = (InvalidSimulationConfigError,)
