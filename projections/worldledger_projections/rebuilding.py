"""Making the rows of one world anew, in the live build, in one transaction.

Readers see the old rows until it is done. The other worlds go on being fed; this one waits, because its cursor is
locked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from worldledger.errors import WorldNotFoundError
from worldledger_projections import feeding_statements, statements
from worldledger_projections.base import Projection
from worldledger_projections.errors import ProjectionRefusedError
from worldledger_projections.folds import Target
from worldledger_projections.outages import transaction
from worldledger_projections.refolding import Refolding, Whole
from worldledger_projections.tables import Table
from worldledger_projections.writing import columns

if TYPE_CHECKING:
    from worldledger_projections.outages import Pool

#: A batch that has the cursor is waited for; a process that hangs with it is not.
_BEGIN = "begin; set local lock_timeout = 10000"


async def rebuild_world(
    pool: Pool,
    refolding: Refolding,
    projection: Projection,
    world_id: str,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Fold a world anew into the live build, up to its head, which is given; a world set aside goes on from there.

    Raises ProjectionFailedError for an effect that cannot be digested (then all is as it was), ProjectionRefusedError
    where the live build is of another version, and WorldNotFoundError.
    """
    async with transaction(pool, begin=_BEGIN) as connection:
        build = await connection.fetchrow(statements.LIVE_BUILD, projection.name)
        if build is None or build["version"] != projection.version or build["paused"]:
            why = "it is paused" if build is not None and build["paused"] else "its live build is of another version"
            raise ProjectionRefusedError(
                f"projection {projection.name} cannot be rebuilt for one world: {why}", projection=projection.name
            )
        table = Table(projection, build["build"])
        ruleset: str | None = await connection.fetchval(statements.RULESET, world_id)
        if ruleset is None:
            raise WorldNotFoundError(f"no world named {world_id!r}", world_id=world_id)
        if not table.reads(ruleset):
            raise ProjectionRefusedError(
                f"projection {projection.name} does not read worlds of ruleset {ruleset}",
                projection=projection.name,
                world_id=world_id,
            )
        await connection.execute(feeding_statements.NEW_CURSORS, *columns([(table.build, world_id, 0)], 3))
        await connection.fetchval(statements.LOCK_CURSOR, table.build, world_id)
        head: int = await connection.fetchval(statements.HEAD, world_id)  # as of now, under the lock
        await connection.execute(f"delete from {table.place} where world_id = $1", world_id)
        done = 0

        def count(effects: int) -> None:
            nonlocal done
            done += effects
            if progress is not None:
                progress(done, head)

        await refolding.fill(connection, table, table.place, [Whole(world_id, ruleset, head)], count)
        target = Target(table, world_id, ruleset, 0, head, fresh=False)
        await connection.execute(statements.SET_CURSOR, *target.key, head)
        await connection.execute(statements.UNPARK, *target.key)
        await connection.execute(feeding_statements.NOT_DUE, *columns([(*target.key, head)], 3))
        # The runner may hold a fold of the rows as they were.
        await connection.execute(statements.REVOKE, f"build:{table.build}")
    return head
