"""Finding what is due: the worlds that have news, and, for a new build, every world once.

A runner that polls looks at the worlds that have moved, by an index that holds no others: 100,000 idle worlds cost
it nothing. What it finds is written down for every build (projection_pending) in the statement that takes note of it,
so that no news is lost whoever dies, and each build takes its time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from worldledger_projections import statements
from worldledger_projections.builds import Build
from worldledger_projections.outages import brief, transaction
from worldledger_projections.tables import Table

if TYPE_CHECKING:
    from worldledger.protocols import LogReader
    from worldledger_projections.outages import Pool

#: Most worlds in one look, whose heads are locked for its time.
WORLDS_AT_ONCE: Final = 1000
#: Pages of the first pass in one go, so that the worlds with news need not wait for its end.
_PAGES: Final = 5


class Discovery:
    """Looks for what is due, for one runner."""

    def __init__(self, pool: Pool, log: LogReader, *, idle: float) -> None:
        self._pool = pool
        self._log = log
        self._begin = brief(idle=idle, lock=1.0)
        self._after = ""

    async def news(self, tables: Iterable[Table]) -> bool:
        """Note the worlds that have moved; return whether there may be more."""
        after = self._after
        async with transaction(self._pool, begin=self._begin) as connection:
            found = await connection.fetch(statements.DISCOVER, after, WORLDS_AT_ONCE, *reading(tables))
        count, last = found[0]
        self._after = last if count == WORLDS_AT_ONCE else ""  # so that no world has to wait behind busier ones
        return self._after != after

    async def scan(self, table: Table, build: Build) -> bool:
        """Go on with a build's first pass over all worlds; return whether it is not at its end."""
        rulesets = table.projection.rulesets
        position = build.scanned_to
        if position == "":
            names = None if rulesets is None else sorted(rulesets)
            await self._pool.execute(statements.COUNT_TOTAL, build.name, names)
        for _ in range(_PAGES):
            if position is None:
                break
            page = await self._log.world_heads(after=position, limit=WORLDS_AT_ONCE)
            worlds = [world for world in page if table.reads(world.ruleset)]
            after = page[-1].world_id if len(page) == WORLDS_AT_ONCE else None
            await self._pool.execute(
                statements.SCAN,
                build.name,
                position,
                after,
                [world.world_id for world in worlds],
                [world.head_seq for world in worlds],
            )
            position = after
        return position is not None


def reading(tables: Iterable[Table]) -> tuple[list[str], list[str], list[str]]:
    """Say which worlds builds read, for statements: the builds that do not read all, and their rulesets in pairs."""
    choosy = [table for table in tables if table.projection.rulesets is not None]
    pairs = [(table.build, ruleset) for table in choosy for ruleset in sorted(table.projection.rulesets or ())]
    return [table.build for table in choosy], [build for build, _ in pairs], [ruleset for _, ruleset in pairs]
