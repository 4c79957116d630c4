"""Writing a batch: rows, cursors and everything else of it in one transaction, under a fence.

Exactly once: a cursor is moved in the transaction that writes the rows, and only from where the fold began. A cursor
that another runner holds, or has moved, is left alone. The last statement checks that the leases are still held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from worldledger_projections.base import SCHEMA, Row
from worldledger_projections.folds import Key, Target
from worldledger_projections.tables import Table, arrays

from worldledger_service.projecting import statements
from worldledger_service.projecting.outages import FOREIGN, RefusedRowsError, brief, transaction

if TYPE_CHECKING:
    from worldledger_service.projecting.outages import Connection, Pool


#: From this number of rows on, a COPY, which takes two more round trips, is faster than a statement.
_MANY: Final = 200
#: Batches without COPY after one failed: asyncpg's may hang if both sides find fault with rows.
_SHUNNED: Final = 20
#: asyncpg's COPY waits for room in the connection's buffer, for ever if the connection breaks meanwhile: so the buffer
#: has room for all. The rows of a batch are in memory anyway.
_ROOM: Final = 2**30
#: A server that waits for the rest of a COPY does not notice by itself that the network is gone.
_NOTICE: Final = """
set local tcp_keepalives_idle = 5; set local tcp_keepalives_interval = 5; set local tcp_keepalives_count = 3
"""

Pieces = list[list[tuple[Any, ...]]]


class CursorsMovedError(Exception):
    """Another runner holds, or held, the cursors of these targets: nothing was written."""

    def __init__(self, keys: set[Key]) -> None:
        super().__init__(f"{len(keys)} cursors are not where they were")
        self.keys = keys


class LeasesLostError(Exception):
    """This runner may no longer write these builds: nothing was written."""

    def __init__(self, builds: set[str]) -> None:
        super().__init__(f"no longer to be written here: {', '.join(sorted(builds))}")
        self.builds = builds


class Written:
    """The results of some targets, as the parameters of statements. Making it is pure computation.

    ``copying`` allows COPY for large numbers of rows that need nothing else.
    """

    def __init__(self, targets: Sequence[Target], *, copying: bool = False) -> None:
        self.targets = targets
        upserts: dict[str, list[Row]] = {}
        deletes: dict[str, list[Row]] = {}
        tables: dict[str, Table] = {}
        self.effects: dict[str, int] = {}
        for target in targets:
            build = target.table.build
            tables[build] = target.table
            upserts.setdefault(build, []).extend(target.changes.upserts)
            deletes.setdefault(build, []).extend(target.changes.deletes)
            self.effects[build] = self.effects.get(build, 0) + target.reached - target.seq
        self.statements: list[tuple[str, Pieces]] = []
        self.copies: list[tuple[str, list[Row]]] = []
        for build, table in tables.items():
            self.statements.append((table.delete, list(arrays(deletes[build]))))
            if copying and table.projection.append_only and len(upserts[build]) >= _MANY:
                self.copies.append((build, upserts[build]))
            else:
                self.statements.append((table.upsert, list(arrays(upserts[build]))))
        worlds = [(*target.key, target.reached, target.fresh) for target in targets]
        parked = [
            (*target.key, target.poison.global_seq, target.poison.kind, target.poison.error)
            for target in targets
            if target.poison is not None
        ]
        self.worlds = columns(worlds, 4)
        self.parked = columns(parked, 5)


class Writer:
    """Writes batches for one runner."""

    def __init__(self, pool: Pool, *, idle: float, lock: float) -> None:
        self._pool = pool
        self._begin = brief(idle=idle, lock=lock)
        self._shunning = 0

    @property
    def copying(self) -> bool:
        """Whether COPY may be used: not for some time after one failed, because it has faults of its own."""
        self._shunning = max(self._shunning - 1, 0)
        return not self._shunning

    async def write(self, written: Written, tokens: Mapping[str, int]) -> None:
        """Write it, completely or not at all. ``tokens``: each build's lease.

        Raises CursorsMovedError, LeasesLostError, or the database's errors.
        """
        async with transaction(self._pool, begin=self._begin) as connection:
            await _take_cursors(connection, written.targets)
            for statement, pieces in written.statements:
                for piece in pieces:
                    await connection.execute(statement, *piece)
            try:
                await _copy(connection, written.copies)
            except Exception:
                self._shunning = _SHUNNED
                raise
            builds = list(written.effects)
            held = await connection.fetch(
                statements.FINISH,
                builds,
                [tokens.get(build, -1) for build in builds],
                list(written.effects.values()),
                *written.worlds,
                *written.parked,
            )
            lost = set(builds) - {row["build"] for row in held}
            if lost:
                raise LeasesLostError(lost)


async def _take_cursors(connection: Connection, targets: Iterable[Target]) -> None:
    known = {target.key: target.seq for target in targets if not target.fresh}
    fresh = [(*target.key, target.reached) for target in targets if target.fresh]
    moved: set[Key] = set()
    if known:
        rows = await connection.fetch(statements.LOCK_CURSORS, *columns(list(known), 2))
        found = {(row["build"], row["world_id"]): row["global_seq"] for row in rows}
        moved.update(key for key, seq in known.items() if found.get(key) != seq)
    if fresh:
        rows = await connection.fetch(statements.NEW_CURSORS, *columns(fresh, 3))
        moved.update({(build, world_id) for build, world_id, _ in fresh}.difference(map(tuple, rows)))
    if moved:
        raise CursorsMovedError(moved)


async def _copy(connection: Connection, copies: Iterable[tuple[str, list[Row]]]) -> None:
    for build, rows in copies:
        await connection.execute(_NOTICE)
        connection._transport.set_write_buffer_limits(high=_ROOM)  # type: ignore[attr-defined]  # noqa: SLF001
        try:
            await connection.copy_records_to_table(build, schema_name=SCHEMA, records=rows)
        except (*FOREIGN, asyncio.CancelledError):
            raise
        except Exception as error:  # raised by the driver's encoders
            raise RefusedRowsError(f"{type(error).__name__}: {error}") from error


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[tuple[Any, ...]]:
    """Return rows as arrays, one for each of their columns, even without rows."""
    return list(zip(*rows, strict=True)) if rows else [()] * width
