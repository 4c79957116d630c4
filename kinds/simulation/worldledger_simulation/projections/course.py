"""A simulation's turns and its present agents, as its effects tell them, for projections.

These are the handlers of the fold itself, applied to a state without values, so that projections and states agree on
which effects count, and which do not because they cannot be read. Values cost most of a fold and are left out.
"""

from __future__ import annotations

from typing import Any, Final

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND
from worldledger.rulesets.base import MalformedEffectError
from worldledger_simulation.rules.words import (
    AGENT_ADDED,
    AGENT_REMOVED,
    SIMULATION_STARTED,
    TURN,
    TURN_ENDED,
    TURN_STARTED,
)

#: The kinds that decide which turn it is.
TURN_KINDS: Final = frozenset({GENESIS_KIND, SIMULATION_STARTED, TURN_STARTED, TURN_ENDED})
#: The kinds that also decide which agents are there.
KINDS: Final = TURN_KINDS | {AGENT_ADDED, AGENT_REMOVED}

#: Stands for an entity.
_NO_VALUES: Final[dict[str, Any]] = {}


class Course:
    """A simulation, from a state on. It takes over the fold that it is made from."""

    def __init__(self, fold: Fold) -> None:
        self._ruleset = fold.ruleset
        self._state = fold.state
        self._forget_values()

    @property
    def turn(self) -> int:
        """The last turn that was started; 0 before the first one."""
        turn: int = self._state.metadata.get(TURN, 0)
        return turn

    def take(self, effect: Effect) -> bool:
        """Fold an effect of those kinds, or ReasoningRecorded; return whether it counts.

        A projection that passes only the `TURN_KINDS` knows the turn, but not the agents.
        """
        kind = effect["kind"]
        if kind == GENESIS_KIND:
            self._ruleset.begin(self._state, effect["payload"]["config"])
            return True
        try:
            self._ruleset.handlers[kind](self._state, effect)
        except MalformedEffectError:
            return False
        if kind in (SIMULATION_STARTED, AGENT_ADDED):
            self._forget_values()
        return True

    def _forget_values(self) -> None:
        self._state.entities = dict.fromkeys(self._state.entities, _NO_VALUES)
