"""What folds begin with: the present rows of a world, its state, and the upcasters for its old effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog
from worldledger_projections.base import Row
from worldledger_projections.folds import Poison, Target, described

from worldledger.errors import UnknownRulesetError
from worldledger.rulesets import Ruleset
from worldledger.upcasting import Upcasters
from worldledger_service.projecting.outages import is_worth_waiting_for

if TYPE_CHECKING:
    from worldledger.protocols import StateReader
    from worldledger_service.projecting.outages import Pool


log = structlog.get_logger("worldledger.projections")

LoadRuleset = Callable[[str], Ruleset]


class Beginnings:
    """Loads what folds begin with."""

    def __init__(self, pool: Pool, states: StateReader, load_ruleset: LoadRuleset) -> None:
        self._pool = pool
        self._states = states
        self._load_ruleset = load_ruleset
        #: rulesets that the log of this process has named as missing
        self._told: set[str] = set()

    def upcasting(self, ruleset: str) -> Upcasters | None:
        """Return the upcasters of a world's ruleset; None if it has none or is not installed."""
        try:
            found = self._load_ruleset(ruleset).upcasting
        except UnknownRulesetError:
            return None  # effects are read as they are
        return found if found.kinds else None

    def has(self, ruleset: str) -> bool:
        """Return whether a ruleset is installed."""
        try:
            self._load_ruleset(ruleset)
        except UnknownRulesetError:
            return False
        return True

    async def load(self, targets: Sequence[Target]) -> None:
        """Load what targets begin with. A target whose world has no state is set aside with the error."""
        by_build: dict[str, list[Target]] = {}
        for target in targets:
            projection = target.table.projection
            if projection.needs_state:
                await self._load_state(target)
            if projection.needs_rows and target.seq:
                by_build.setdefault(target.table.build, []).append(target)
        for together in by_build.values():
            found: dict[str, list[Row]] = {}
            for row in await self._pool.fetch(together[0].table.load, [target.world_id for target in together]):
                found.setdefault(row["world_id"], []).append(tuple(row))
            for target in together:
                target.rows = found.get(target.world_id, ())

    async def _load_state(self, target: Target) -> None:
        try:
            self._load_ruleset(target.ruleset)
            target.fold = await self._states.fold_at(target.world_id, target.seq)
        except Exception as error:
            if is_worth_waiting_for(error):
                raise
            if isinstance(error, UnknownRulesetError) and target.ruleset not in self._told:
                self._told.add(target.ruleset)
                log.warning("worlds are skipped until their kind is installed", error=error.message)
            target.reached = target.seq
            target.poison = Poison(target.seq + 1, None, described(error))
