"""A simulation's course as its effects tell it, for the projections that follow it: its turns, and who is there.

These are the handlers of the fold itself, put to a state that has no values, so that projections and states agree:
which effects count, and which do not because they cannot be read. Values cost most of a fold and are not followed.
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

#: What decides which turn it is.
TURN_KINDS: Final = frozenset({GENESIS_KIND, SIMULATION_STARTED, TURN_STARTED, TURN_ENDED})
#: What decides who is there as well.
KINDS: Final = TURN_KINDS | {AGENT_ADDED, AGENT_REMOVED}

#: What stands for an entity.
_NO_VALUES: Final[dict[str, Any]] = {}


class Course:
    """A simulation, from where it stands on. It takes the fold that it is made of for its own."""

    def __init__(self, fold: Fold) -> None:
        self._ruleset = fold.ruleset
        self._state = fold.state
        self._forget_values()

    @property
    def turn(self) -> int:
        """The last turn that was started; 0 before the first."""
        turn: int = self._state.metadata.get(TURN, 0)
        return turn

    def take(self, effect: Effect) -> bool:
        """Take an effect of those kinds, or ReasoningRecorded; tell whether it counts.

        A projection that takes those of `TURN_KINDS` alone knows the turn, and not who is there.
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
