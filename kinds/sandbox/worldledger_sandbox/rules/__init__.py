"""The free sandbox: entities, positions, messages and relationships, with no rules but the vocabulary's.

- ``payloads.py``: what each kind's payload says, or why it cannot be read
- ``handlers.py``: what becomes of the state (evolve)
- ``checks.py``: what is refused before it becomes an effect (decide)
"""

from typing import Any

from worldledger.rulesets.base import Knowing, Ruleset
from worldledger.world import WorldState
from worldledger_sandbox.rules.checks import CHECKS, HANDLERS, STATEFUL, as_shown


class Sandbox(Ruleset):
    """Worlds of the ruleset ``sandbox``: the kinds of its vocabulary have a meaning, and any other is welcome."""

    name = "sandbox"
    version = 1
    handlers = HANDLERS
    checks = CHECKS
    stateful = STATEFUL

    def as_shown(
        self, kind: str, payload: dict[str, Any], agent_id: str, shown: WorldState, knowing: Knowing
    ) -> dict[str, Any]:
        """Leave out what an EntityUpdated says of hidden fields, and entities that may or may not be there."""
        return as_shown(kind, payload, shown, knowing)


RULESET = Sandbox()
