"""How simulations stand, in a line each: the turn that they have come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from worldledger_service.store.outcomes import Outcomes

if TYPE_CHECKING:
    from worldledger_service.store.reader import Row

#: The last turns of the simulations of some names: $1.
TURNS: Final = """
select w.world_id, t.turn, t.ended_seq
from unnest($1::text[]) w(world_id)
cross join lateral (
    select turn, ended_seq from projections.turns where world_id = w.world_id order by turn desc limit 1) t
"""


def line(last: Row) -> str:
    """Return how a simulation stands, such as ``turn 20``."""
    is_open = last["turn"] > 0 and last["ended_seq"] is None
    return f"turn {last['turn']}{', not ended' if is_open else ''}"


OUTCOMES: Final = Outcomes(TURNS, line)
