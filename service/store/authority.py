"""Who sets a world's sim_time: its genesis says so first, and a later WorldTimeAuthoritySet anew.

A process that writes a world remembers the authority. It stays true as long as nobody else moves the head; so
whoever reads the head anew, or takes its lock, looks for a later word in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.store import statements
from worldledger.core_kinds import TIME_AUTHORITY_KIND

if TYPE_CHECKING:
    from service.database.engine import PooledConnection
    from service.store.sealing import Sealer


async def look_up_authority(connection: PooledConnection, sealer: Sealer, head_seq: int) -> None:
    """Bring what a sealer knows of the time authority up to the head, as this connection sees it."""
    said = await connection.fetchval(
        statements.LAST_AUTHORITY, sealer.world_id, TIME_AUTHORITY_KIND, sealer.authority_seq
    )
    if said is not None:
        sealer.authority = said
    sealer.authority_seq = head_seq
