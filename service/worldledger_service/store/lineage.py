"""The lineage of forks in the database: reading where a fork begins, and whether its parent still stands there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from worldledger.chain import Finding, told_apart
from worldledger.errors import EffectNotFoundError, InvalidConfigError, InvalidNameError, ParentMissingError
from worldledger.genesis import GENESIS_SEQ, ForkPoint, NewWorld, recorded_genesis
from worldledger.lineage import Origin, fork_point, origin_problem
from worldledger.time_authority import FORK_OF
from worldledger_service.store import statements
from worldledger_service.store.authority import authority_at

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
    if len(rows) > 1:
        raise Finding(world_id, 1, f"it goes on from {where}, of which the database has {len(rows)} rows").error()
    if not rows or rows[0]["is_missing"]:
        what = f"world {world_id!r} goes on from {where}, which is not in this database; import "
        what += "a longer export of it" if rows else "that world, too"
        raise ParentMissingError(what, world_id=world_id, parent=fork_of.world_id, global_seq=fork_of.global_seq)
    (row,) = rows
    if row["world_uuid"] is None or row["world_uuid"].hex != fork_of.world_uuid:
        what = f"it goes on from {where}, but the world of that name is another one here: its uuid differs"
        raise Finding(world_id, 1, what).error()
    if row["checksum"] is None or row["checksum"].hex() != fork_of.checksum:
        ours, told = told_apart("" if row["checksum"] is None else row["checksum"].hex(), fork_of.checksum)
        found = f"the checksum {ours}" if ours else "no checksum"
        what = f"its parent was rewritten: {where} has {found}, the genesis says {told}"
        raise Finding(world_id, 1, what).error()
    try:
        return {"sim_time": row["sim_time"], "wall_time": float(row["wall_time"])}
    except (TypeError, ValueError):
        raise Finding(world_id, 1, f"its parent was rewritten: {where} has no wall_time").error() from None


async def check_inherited(reader: Reader, world_id: str) -> None:
    """Compare what a fork's genesis says of its parent with the log of the parent, which is there (`check_parent`).

    Raises TamperedError for what differs. If the genesis of either, or the effect at the fork point, cannot be read,
    nothing is compared: that is a finding in the log that it belongs to.
    """
    try:
        genesis, world = await _genesis(reader, world_id)
        if world.fork_of is None:
            return
        parent_id, seq = world.fork_of.world_id, world.fork_of.global_seq
        _, parent = await _genesis(reader, parent_id)
        sim_time = orjson.loads((await reader.effect(parent_id, seq)).text)["sim_time"]
        async with reader.connection() as connection:
            authority = await authority_at(connection, parent_id, seq)
    except (EffectNotFoundError, InvalidConfigError, InvalidNameError, ValueError, TypeError, KeyError):
        return
    problem = origin_problem(genesis, world, Origin(parent, sim_time, authority))
    if problem is not None:
        raise Finding(world_id, GENESIS_SEQ, problem).error()


async def _genesis(reader: Reader, world_id: str) -> tuple[dict[str, Any], NewWorld]:
    genesis = orjson.loads((await reader.effect(world_id, GENESIS_SEQ)).text)
    return genesis, recorded_genesis(genesis)
