"""Remaking the table ``requests`` from the log, if it was tampered with.

The table refuses every change, so its owner removes the guard and restores it in the transaction that changes rows;
writers of requests wait for that moment. Only wrong rows are touched.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from worldledger.chain import Finding
from worldledger_service.database.engine import connect_one
from worldledger_service.database.failures import explained
from worldledger_service.database.guards import OWNER_ROLE
from worldledger_service.store import statements
from worldledger_service.store.verification import Progress, verified_log

if TYPE_CHECKING:
    from worldledger_service.database.engine import Connection
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.request_rows import Difference

#: Most rows that one transaction changes: it blocks others from writing requests.
_CHUNK: Final = 10_000
#: Most passes over one world.
_PASSES: Final = 3
_APPLICATION: Final = "worldledger repair"


@dataclass
class Repaired:
    """The result for one world's requests: rows that were removed and written, or why none was touched."""

    world_id: str
    removed: int = 0
    written: int = 0
    finding: Finding | None = None

    @property
    def changed(self) -> bool:
        """True if any row was wrong."""
        return bool(self.removed or self.written)


async def repair_requests(
    reader: Reader, url: str, world_id: str, *, dry_run: bool = False, progress: Progress | None = None
) -> Repaired:
    """Make the rows of a world's requests those that follow from its log; ``dry_run`` only counts wrong ones.

    The log is verified first: if it does not hold nothing is changed, and the finding says why. ``url`` is an address
    whose user may work as the owner of the tables. Chunks that were written stay if a later one fails. Raises
    WorldNotFoundError if there is no trace of the world, StoreUnavailableError as the store does.
    """
    done = Repaired(world_id)
    # Of rows that are there twice both go, and the one that is right is written in the next pass.
    for _ in range(_PASSES):
        if not await _repair(done, reader, url, progress, dry_run=dry_run):
            break
    return done


async def _repair(done: Repaired, reader: Reader, url: str, progress: Progress | None, *, dry_run: bool) -> bool:
    """Make one pass; return whether it removed rows without writing as many, so that another is to follow."""
    world_id = done.world_id
    surplus = done.removed - done.written
    async with verified_log(reader, world_id, progress) as (verdict, rows):
        if verdict.finding is not None and not await _only_requests(reader, world_id):
            done.finding = verdict.finding
            return False
        chunk: list[Difference] = []
        async with aclosing(rows.differences()) as differences:
            async for difference in differences:
                done.removed += difference.row is not None
                done.written += difference.request is not None
                if dry_run:
                    continue
                chunk.append(difference)
                if len(chunk) >= _CHUNK:
                    await _apply(url, world_id, chunk)
                    chunk = []
        if chunk:
            await _apply(url, world_id, chunk)
    # Of a world that never was nothing is left to look at.
    return not dry_run and verdict.finding is None and done.removed - done.written > surplus


async def _only_requests(reader: Reader, world_id: str) -> bool:
    """Return whether a world never existed: there are only requests for it, which are forged."""
    extent, *_ = await reader.fetch(statements.EXTENT, world_id)
    return (
        extent["head_seq"] is None and extent["last_seq"] is None and not await reader.fetch(statements.WORLD, world_id)
    )


async def _apply(url: str, world_id: str, differences: Sequence[Difference]) -> None:
    rows = [row for row, _ in differences if row is not None]
    requests = [request for _, request in differences if request is not None]
    with explained(url):
        async with _unguarded(url) as connection:
            await connection.execute(
                statements.REMOVE_REQUESTS,
                world_id,
                *([row[name] for row in rows] for name in statements.REQUEST_COLUMNS[1:]),
            )
            if any(row["source_id"] is None or row["req_id"] is None for row in rows):
                await connection.execute(statements.REMOVE_UNNAMED_REQUESTS, world_id)
            await connection.execute(
                statements.WRITE_REQUESTS_OF_EFFECTS,
                world_id,
                [request.body_sha256 for request in requests],
                [request.first_seq for request in requests],
                [request.last_seq for request in requests],
            )


@asynccontextmanager
async def _unguarded(url: str) -> AsyncIterator[Connection]:
    """Lend the owner's connection in a transaction in which rows of ``requests`` may be removed."""
    connection = await connect_one(url, role=OWNER_ROLE, application_name=_APPLICATION)
    try:
        async with connection.transaction():
            for statement in statements.GUARDS_OF_REQUESTS_DOWN:
                await connection.execute(statement)
            yield connection
            for statement in statements.GUARDS_OF_REQUESTS_UP:
                await connection.execute(statement)
    finally:
        await connection.close()
