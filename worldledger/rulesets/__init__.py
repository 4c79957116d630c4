"""Rulesets: one file, or a small folder, per kind of world.

A ruleset is found by name through the entry-point group ``worldledger.rulesets``, so that a third party adds one
by installing a package.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from worldledger.errors import UnknownRulesetError
from worldledger.kinds import installed
from worldledger.rulesets.base import Ruleset

#: The entry-point group in which packages offer rulesets.
GROUP = "worldledger.rulesets"


@cache
def _offered() -> dict[str, EntryPoint]:
    """Return the places of rulesets, by name: of installed kinds, and of packages that offer one without a kind."""
    kinds = installed().values()
    found = {kind.name: EntryPoint(kind.name, kind.ruleset, GROUP) for kind in kinds if kind.ruleset is not None}
    return found | {point.name: point for point in entry_points(group=GROUP)}


def known_rulesets() -> list[str]:
    """Return the names of all installed rulesets, sorted."""
    return sorted(_offered())


@cache
def load_ruleset(name: str) -> Ruleset:
    """Return the ruleset of that name. Raises UnknownRulesetError, which names the installed ones."""
    point = _offered().get(name)
    if point is None:
        known = known_rulesets()
        what = f"the ruleset {name!r} is not installed here: install the package of this kind of worlds, "
        what += f"where the service and the commands run; installed: {', '.join(known) or 'none'}"
        raise UnknownRulesetError(what, ruleset=name, known=known)
    try:
        loaded = point.load()
    except Exception as error:
        raise UnknownRulesetError(
            f"ruleset {name!r} ({point.value}) cannot be loaded: {error}", ruleset=name
        ) from error
    if not isinstance(loaded, Ruleset):
        raise UnknownRulesetError(f"ruleset {name!r} ({point.value}) is no Ruleset", ruleset=name)
    return loaded


__all__ = ["Ruleset", "known_rulesets", "load_ruleset"]
