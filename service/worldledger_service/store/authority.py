"""A world's time authority: first the one in its genesis, then changed by the kinds of `worldledger.time_authority`.

A process that writes a world remembers the authority. That is valid as long as no other process moves the head; so
code that reads the head again, or takes its lock, looks for later changes in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from worldledger.time_authority import TIME_KINDS, WALL, TimeAuthority
from worldledger_service.store import statements
from worldledger_service.store.records import genesis_payload

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.store.sealing import Sealer

_KINDS: Final = sorted(TIME_KINDS)


async def look_up_authority(connection: PooledConnection, sealer: Sealer, head_seq: int) -> None:
    """Update a sealer's time authority to the head, as this connection sees it."""
    known = sealer.authority
    if sealer.authority_seq == 0:
        known = await _of_genesis(connection, sealer.world_id, known)
    sealer.authority = await _moved_on(connection, sealer.world_id, known, sealer.authority_seq, head_seq)
    sealer.authority_seq = head_seq


async def authority_at(connection: PooledConnection, world_id: str, seq: int) -> TimeAuthority:
    """Return the authority over sim_time after the effect at ``seq``."""
    known = await _of_genesis(connection, world_id, TimeAuthority(WALL))
    return await _moved_on(connection, world_id, known, 0, seq)


async def _moved_on(
    connection: PooledConnection, world_id: str, known: TimeAuthority, after_seq: int, until_seq: int
) -> TimeAuthority:
    """Return the authority after a range of effects; one that cannot be read changes nothing, as in the fold."""
    for row in await connection.fetch(statements.LAST_OF_AUTHORITY, world_id, _KINDS, after_seq, until_seq):
        try:
            known = known.after(row["kind"], orjson.loads(row["payload"]), row["global_seq"])
        except ValueError:
            known = await _moved_on(connection, world_id, known, after_seq, row["global_seq"] - 1)
    return known


async def _of_genesis(connection: PooledConnection, world_id: str, otherwise: TimeAuthority) -> TimeAuthority:
    text = await connection.fetchval(statements.GENESIS, world_id)
    return otherwise if text is None else TimeAuthority.of_genesis(genesis_payload(world_id, text))
