"""Who sets a world's sim_time: its genesis says so first, and a later WorldTimeAuthoritySet anew.

A process that writes a world remembers the authority. It stays true as long as nobody else moves the head; so
whoever reads the head anew, or takes its lock, looks for a later word in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from service.store import statements
from worldledger.core_kinds import TIME_AUTHORITY_KIND
from worldledger.time_authority import TimeAuthority

if TYPE_CHECKING:
    from service.database.engine import PooledConnection
    from service.store.sealing import Sealer


async def look_up_authority(connection: PooledConnection, sealer: Sealer, head_seq: int) -> None:
    """Bring what a sealer knows of the time authority up to the head, as this connection sees it."""
    found = await _last_setting(connection, sealer.world_id, sealer.authority_seq, head_seq)
    if found is None and sealer.authority_seq == 0:
        found = await _of_genesis(connection, sealer.world_id)
    if found is not None:
        sealer.authority = found
    sealer.authority_seq = head_seq


async def authority_at(connection: PooledConnection, world_id: str, seq: int) -> TimeAuthority | None:
    """Return who sets sim_time after the effect at ``seq``; None for a world without a genesis."""
    found = await _last_setting(connection, world_id, 0, seq)
    return await _of_genesis(connection, world_id) if found is None else found


async def _last_setting(
    connection: PooledConnection, world_id: str, after_seq: int, until_seq: int
) -> TimeAuthority | None:
    """Return what the last setting in a range says; one that cannot be read sets nothing, as in the fold."""
    while True:
        row = await connection.fetchrow(statements.LAST_AUTHORITY, world_id, TIME_AUTHORITY_KIND, after_seq, until_seq)
        if row is None:
            return None
        try:
            return TimeAuthority.of_setting(orjson.loads(row["payload"]))
        except ValueError:
            until_seq = row["global_seq"] - 1


async def _of_genesis(connection: PooledConnection, world_id: str) -> TimeAuthority | None:
    payload = await connection.fetchval(statements.GENESIS_PAYLOAD, world_id)
    return None if payload is None else TimeAuthority.of_genesis(orjson.loads(payload))
