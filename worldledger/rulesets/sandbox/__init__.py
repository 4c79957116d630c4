"""The free sandbox: entities, positions, messages and relationships, with no rules but the vocabulary's.

- ``payloads.py``: what each kind's payload says, or why it cannot be read
- ``handlers.py``: what becomes of the state (evolve)
- ``checks.py``: what is refused before it becomes an effect (decide)
"""

from worldledger.rulesets.base import Ruleset
from worldledger.rulesets.sandbox.checks import CHECKS, STATEFUL
from worldledger.rulesets.sandbox.handlers import HANDLERS


class Sandbox(Ruleset):
    """Worlds of the ruleset ``sandbox``: the kinds of its vocabulary have a meaning, and any other is welcome."""

    name = "sandbox"
    version = 1
    handlers = HANDLERS
    checks = CHECKS
    stateful = STATEFUL


RULESET = Sandbox()
