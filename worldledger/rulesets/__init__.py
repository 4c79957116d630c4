"""Rulesets: one file, or a small folder, per kind of world.

A ruleset is found by name through the entry-point group ``worldledger.rulesets``, so that a third party adds one
by installing a package.
"""

from worldledger.rulesets.base import Ruleset
from worldledger.rulesets.registry import known_rulesets, load_ruleset

__all__ = ["Ruleset", "known_rulesets", "load_ruleset"]
