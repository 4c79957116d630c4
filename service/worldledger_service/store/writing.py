"""Sending groups to the database: which statement for which shape of group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import asyncpg

from worldledger_service.store import statements
from worldledger_service.store.sealing import Group

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection


async def write_groups(connection: asyncpg.Connection | PooledConnection, groups: list[Group]) -> set[str]:
    """Write groups, each if its head is still the known one; return the worlds that were written."""
    if len(groups) == 1 and not groups[0].requests:
        group = groups[0]
        before, after = group.before, group.after
        if len(group.texts) == 1:
            status = await connection.execute(
                statements.APPEND_ONE,
                group.world_id,
                before.seq,
                group.texts[0],
                after.checksum,
                after.sim_time,
                after.wall_time,
                group.kinds[0],
                group.sources[0],
            )
        else:
            status = await connection.execute(
                statements.APPEND_MANY,
                group.world_id,
                before.seq,
                after.checksum,
                after.sim_time,
                after.wall_time,
                group.texts,
                group.checksums,
                group.kinds,
                group.sources,
                group.sim_times,
            )
        return {group.world_id} if status != "INSERT 0 0" else set()
    effects: list[tuple[str, int, str, bytes, str, str, float]] = []
    requests: list[tuple[str, str, str, bytes, int, int]] = []
    for group in groups:
        seqs = range(group.before.seq + 1, group.after.seq + 1)
        names = [group.world_id] * len(seqs)
        effects += zip(
            names, seqs, group.texts, group.checksums, group.kinds, group.sources, group.sim_times, strict=True
        )
        requests += [(group.world_id, *request) for request in group.requests]
    rows = await connection.fetch(
        statements.APPEND_GROUPS,
        [group.world_id for group in groups],
        [group.before.seq for group in groups],
        [group.after.seq for group in groups],
        [group.after.checksum for group in groups],
        [group.after.sim_time for group in groups],
        [group.after.wall_time for group in groups],
        *_columns(effects, 7),
        *_columns(requests, 6),
    )
    return {row["world_id"] for row in rows}


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width
