"""How the errors of social-RL runs are answered over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from worldledger_service.api.problems import Answer

from worldledger.errors import SimulationError
from worldledger_social_rl.api.errors import RoundConflictError

PROBLEMS: Final[Mapping[type[SimulationError], Answer]] = {
    RoundConflictError: Answer(409, "This is not the round that is wanted"),
}
