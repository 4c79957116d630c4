"""The free sandbox: entities, positions and messages, with no rules but the vocabulary's."""

from worldledger.rulesets.base import Ruleset


class Sandbox(Ruleset):
    """Worlds of the ruleset ``sandbox``: any kind of effect is welcome."""

    name = "sandbox"
    version = 1


RULESET = Sandbox()
