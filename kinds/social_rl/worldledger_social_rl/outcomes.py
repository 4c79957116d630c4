"""How runs of social-RL experiments stand, in a line each: their rounds and messages, and the condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from worldledger_service.report.wording import counted
from worldledger_service.store.outcomes import Outcomes

if TYPE_CHECKING:
    from worldledger_service.store.reader import Row

#: The runs of some names: $1.
RUNS: Final = """
select world_id, rounds, messages, agents, condition from projections.social_runs where world_id = any($1::text[])
"""


def line(run: Row) -> str:
    """Return how a run stands, such as ``condition B: 12 rounds, 48 messages of 4 agents``."""
    condition = "" if run["condition"] is None else f"condition {run['condition']}: "
    counts = f"{counted(run['rounds'], 'round')}, {counted(run['messages'], 'message')}"
    return f"{condition}{counts} of {counted(run['agents'], 'agent')}"


OUTCOMES: Final = Outcomes(RUNS, line)
