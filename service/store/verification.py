"""Verifying worlds in the database with the library's Verifier: chain, query columns, genesis and head."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING

import orjson

from service.store import statements
from service.store.ahead import ahead
from service.store.records import WorldRecord
from worldledger.chain import ORIGIN, Finding, Position, StoredEffect, Verdict, Verifier
from worldledger.errors import WorldNotFoundError
from worldledger.genesis import genesis_problem

if TYPE_CHECKING:
    import asyncpg

    from service.store.reader import Reader

#: Told how many effects were checked, and how many there are.
Progress = Callable[[int, int], None]


async def verify_world(
    reader: Reader,
    world_id: str,
    *,
    start: Position = ORIGIN,
    noted: Iterable[Position] = (),
    progress: Progress | None = None,
) -> Verdict:
    """Verify one world from ``start`` to the head it has when the check begins.

    Looked at are every link of the chain, every query column, the world's row against its genesis, the head
    against the last effect, and that nothing stands beyond the head. ``noted`` are positions that someone kept:
    the chain must pass through each. Raises WorldNotFoundError if there is no trace of the world.
    """
    async with reader.connection() as connection:
        extent = await connection.fetchrow(statements.EXTENT, world_id)
        row = await connection.fetchrow(statements.WORLD, world_id)
    assert extent is not None  # noqa: S101 - the statement always gives a row
    if row is None and extent["head_seq"] is None and extent["last_seq"] is None:
        raise WorldNotFoundError(f"no world named {world_id!r}", world_id=world_id)
    if row is None or extent["head_seq"] is None:
        missing = "worlds" if row is None else "heads"
        what = f"the row of this world is missing from the table {missing}"
        return Verdict(world_id, start, 0, Finding(world_id, 1, what))

    verifier = Verifier(world_id, start=start, heads=noted)
    end = Position(extent["head_seq"], extent["head_checksum"])
    total = max(end.global_seq - start.global_seq, 0)
    last: StoredEffect | None = None
    rows = reader.batches(world_id, after_seq=start.global_seq, until_seq=end.global_seq)
    async with ahead(rows) as batches:
        async for batch in batches:
            holds = verifier.feed(batch)
            if last is None and start == ORIGIN and verifier.position.global_seq > 0:
                problem = genesis_problem(batch[0].text, WorldRecord.of(row).genesis_columns())
                if problem is not None:
                    return Verdict(world_id, ORIGIN, 0, Finding(world_id, 1, problem))
            if not holds:
                break
            last = batch[-1]
            if progress is not None:
                progress(verifier.effects, total)
    verdict = verifier.finish(end)
    finding = verdict.finding or _ending_problem(world_id, extent, last)
    return Verdict(world_id, verdict.position, verdict.effects, finding)


def _ending_problem(world_id: str, extent: asyncpg.Record, last: StoredEffect | None) -> Finding | None:
    """Look at what the chain alone does not tell: the head's clocks, and rows beyond the head."""
    head_seq = extent["head_seq"]
    if extent["last_seq"] is not None and extent["last_seq"] > head_seq:
        return Finding(world_id, head_seq + 1, f"the log goes on beyond its head (seq {head_seq})")
    if extent["first_seq"] is not None and extent["first_seq"] < 1:
        return Finding(world_id, extent["first_seq"], "an effect stands before seq 1")
    if head_seq == 0:
        return Finding(world_id, 1, "the log is empty: there is no genesis")
    if last is not None:
        effect = orjson.loads(last.text)
        for name in ("sim_time", "wall_time"):
            if effect[name] != extent[name]:
                what = f"the head's {name} is {extent[name]!r}, the last effect's is {effect[name]!r}"
                return Finding(world_id, head_seq, what)
    return None


async def every_world(reader: Reader) -> AsyncIterator[str]:
    """Give every name that stands anywhere in the log's tables, so that no orphan escapes verification."""
    position = ""
    while True:
        async with reader.connection() as connection:
            names = [row["world_id"] for row in await connection.fetch(statements.EVERY_WORLD, position)]
        for name in names:
            yield name
        if not names:
            return
        position = names[-1]
