"""What a kind of worlds measures, so that runs can be set side by side: `Kind.measures` names one `Measures`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worldledger.effects import Effect
from worldledger.kinds import installed
from worldledger.world import WorldState


def _nothing(_: WorldState) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Measures:
    """The measures of a kind, and what tells its runs apart. All functions are pure.

    - ``values``: the numbers by name at the end of each unit, the first one that the ruleset declares (a turn, a round,
      a half-move). It is called with the state there and the effect that began the unit; a name may be missing.
    - ``outcome``: how a world stands in the end, by name; empty for nothing to tell.
    - ``labels``: by what runs are grouped, besides their configuration: a condition, a seed, a player.
    - ``left_out``: paths (`worldledger.comparing.parse_path`) of effects and states that equal runs need not have in
      common: when something happened by the clock, or which file it was read from.
    """

    values: Callable[[WorldState, Effect], Mapping[str, float]]
    outcome: Callable[[WorldState], Mapping[str, Any]] = _nothing
    labels: Callable[[WorldState], Mapping[str, Any]] = _nothing
    left_out: Sequence[str] = ()


def measures_of(ruleset: str) -> Measures | None:
    """Return the measures of a kind, None if it has none or is not installed. Raises InvalidKindError."""
    kind = installed().get(ruleset)
    return None if kind is None else kind.load("measures")
