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
        """Give the drafts that are to be written for the drafts that came.

        What comes from the operator (posted drafts, imports) is taken as it is.
        """
        return drafts
