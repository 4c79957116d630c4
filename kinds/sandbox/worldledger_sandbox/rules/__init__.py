"""The free sandbox: entities, positions, messages and relationships, without rules beyond its vocabulary.

- ``payloads.py``: reading the payload of each kind
- ``checks.py``: what is refused before it becomes an effect (decide), and how effects change the state (evolve)
"""

from typing import Any

from worldledger.effects import EffectDraft, own_draft
from worldledger.rulesets.base import Knowing, Ruleset
from worldledger.rulesets.reading import change_of
from worldledger.world import WorldState
from worldledger_sandbox.rules.checks import CHECKS, HANDLERS, STATEFUL, as_shown


class Sandbox(Ruleset):
    """Worlds of the ruleset ``sandbox``: the kinds of its vocabulary have a meaning, and any other is allowed."""

    name = "sandbox"
    version = 1
    handlers = HANDLERS
    checks = CHECKS
    stateful = STATEFUL

    def as_shown(
        self, kind: str, payload: dict[str, Any], agent_id: str, shown: WorldState, knowing: Knowing
    ) -> dict[str, Any]:
        """Leave out an EntityUpdated's statements about hidden fields, and entities that may or may not exist."""
        return as_shown(kind, payload, shown, knowing)

    def change(self, path: str, value: Any, state: WorldState) -> EffectDraft:
        """Return the EntityUpdated that sets a value of an entity."""
        entity_id, patch = change_of(path, value, state)
        return own_draft("EntityUpdated", {"entity_id": entity_id, "patch": patch})


RULESET = Sandbox()
