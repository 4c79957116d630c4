"""What every ruleset is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from worldledger.drafts import CheckedDraft


class Ruleset:
    """The rules of one kind of world; subclass it and name an instance in the entry points.

    ``name`` is how worlds refer to it. ``version`` rises whenever the same log would give another state; it
    stands in each world's genesis.
    """

    name: str = "base"
    version: int = 1

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Raise InvalidConfigError if a world cannot be made with this config. The base takes any."""

    def decide(self, drafts: Sequence[CheckedDraft]) -> Sequence[CheckedDraft]:
        """Give the drafts that are to be written for those of one unit: one for each, in their order.

        It is asked when the unit's turn has come, and again if another process was first, so it must be pure. A
        SimulationError refuses the whole unit; a request that was accepted before is answered all the same. The base
        passes drafts through. Imports do not ask: what they bring has happened already.
        """
        return drafts
