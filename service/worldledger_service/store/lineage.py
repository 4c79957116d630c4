"""The lineage of forks in the database: reading where a fork begins, and whether its parent still stands there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from worldledger.chain import Finding
from worldledger.errors import ParentMissingError
from worldledger.genesis import FORK_OF, ForkPoint
from worldledger.lineage import fork_point
from worldledger_service.store import statements

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader


def read_fork_point(world_id: str, text: str | None) -> ForkPoint | None:
    """Read the member of a stored genesis that says where a fork begins. Raises TamperedError if it cannot be read."""
    try:
        return fork_point({FORK_OF: None if text is None else orjson.loads(text)})
    except ValueError as error:
        raise Finding(world_id, 1, str(error)).error() from None


async def check_parent(reader: Reader, world_id: str, fork_of: ForkPoint) -> dict[str, Any]:
    """Return the times of the effect that a fork goes on from: sim_time and wall_time.

    Raises ParentMissingError if the parent, or that effect, is not in the database, and TamperedError if another world
    or another effect stands in its place.
    """
    rows = await reader.fetch(statements.FORK_POINT, fork_of.world_id, fork_of.global_seq)
    where = f"seq {fork_of.global_seq} of world {fork_of.world_id!r}"
    if not rows or rows[0]["checksum"] is None:
        what = f"world {world_id!r} goes on from {where}, which is not in this database; import "
        what += "a longer export of it" if rows else "that world, too"
        raise ParentMissingError(what, world_id=world_id, parent=fork_of.world_id, global_seq=fork_of.global_seq)
    (row,) = rows
    if row["world_uuid"].hex != fork_of.world_uuid:
        what = f"it goes on from {where}, but the world of that name is another one here: its uuid differs"
        raise Finding(world_id, 1, what).error()
    if row["checksum"].hex() != fork_of.checksum:
        found = row["checksum"].hex()[:16]
        what = f"its parent was rewritten: {where} has the checksum {found}…, the genesis says {fork_of.checksum[:16]}…"
        raise Finding(world_id, 1, what).error()
    return {"sim_time": row["sim_time"], "wall_time": row["wall_time"]}
