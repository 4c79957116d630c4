"""Checking a live build against the log: every world is folded again beside it, and the rows are compared.

The check only reads what is live. It goes world by world, each in a transaction that sees one moment: it reads the
cursor's position, folds the log to exactly there, and compares as texts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
from worldledger_projections.base import Projection, ProjectionFailedError, ProjectionRefusedError
from worldledger_projections.folds import Group, Poison, Target, carefully, fold
from worldledger_projections.tables import Table, arrays

from worldledger.chain import StoredEffect
from worldledger.errors import WorldNotFoundError
from worldledger.protocols import Span
from worldledger_service.database.view_checks import LACKING, LIVE_BUILD, planted, view_findings
from worldledger_service.projecting import statements
from worldledger_service.projecting.batch import Beginnings, columns, contiguous, missing
from worldledger_service.projecting.outages import transaction
from worldledger_service.store.records import Head
from worldledger_service.store.statements import HEAD

if TYPE_CHECKING:
    from worldledger.protocols import LogReader
    from worldledger_service.projecting.outages import Connection, Pool


# -- refolding worlds from their first effect into a table: for a check, or to replace the rows of one world -------

#: Effects that are read and folded at a time.
_BATCH: Final = 5000


@dataclass(slots=True)
class Whole:
    """A world that is to be folded from its first effect to ``until``."""

    world_id: str
    ruleset: str
    until: int


class Refolding:
    """Folds worlds again."""

    def __init__(self, log: LogReader, beginnings: Beginnings) -> None:
        self._log = log
        self._beginnings = beginnings

    async def fill(
        self,
        connection: Connection,
        table: Table,
        into: str,
        worlds: Sequence[Whole],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Write the rows of worlds into the table ``into``, which has none of theirs, in bounded memory.

        Raises ProjectionFailedError for the first effect that cannot be digested, and the errors of the database.
        ``progress`` is called now and then with the number of folded effects.
        """
        upsert, delete = table.upsert_into(into), table.delete_from(into)
        left = [Target(table, world.world_id, world.ruleset, 0, world.until, fresh=True) for world in worlds]
        await self._beginnings.load(left)
        for target in left:
            if target.poison is not None:
                raise failed(target, target.poison)
        while left := [target for target in left if target.reached < target.head]:
            spans = [Span(target.world_id, target.reached, target.head) for target in left]
            read = await self._log.gather(spans, limit=_BATCH)
            groups = [
                Group(self._sound(target, span, rows), [target], self._beginnings.upcasting(target.ruleset))
                for target, span, rows in zip(left, spans, read, strict=True)
                if rows
            ]
            if not groups:
                raise failed(left[0], missing(spans[0], []))
            await asyncio.to_thread(fold, groups)
            for rows, (target,), _ in groups:
                if target.failed:
                    raise await self._which(target, rows)
            targets = [target for _, (target,), _ in groups]
            for piece in arrays([key for target in targets for key in target.changes.deletes]):
                await connection.execute(delete, *piece)
            for piece in arrays([row for target in targets for row in target.changes.upserts]):
                await connection.execute(upsert, *piece)
            if progress is not None:
                progress(sum(len(rows) for rows, _, _ in groups))

    @staticmethod
    def _sound(target: Target, span: Span, rows: list[StoredEffect]) -> list[StoredEffect]:
        good = contiguous(rows, span.after_seq)
        if not good:
            raise failed(target, missing(span, rows))
        return good

    async def _which(self, target: Target, rows: list[StoredEffect]) -> ProjectionFailedError:
        """Return the effect at which folding failed, among the last that were read."""
        rest = target.anew()
        await self._beginnings.load([rest])
        poison = Poison(rows[0].global_seq, rows[0].kind, "it failed, but not when it was tried again")
        async for batch in self._log.batches(target.world_id, until_seq=rows[-1].global_seq):
            await asyncio.to_thread(carefully, rest, batch, self._beginnings.upcasting(target.ruleset))
            if rest.poison is not None:
                poison = rest.poison
                break
        return failed(target, poison)


def failed(target: Target, poison: Poison) -> ProjectionFailedError:
    """Make the error that names the indigestible effect."""
    projection = target.table.projection.name
    return ProjectionFailedError(
        f"projection {projection} cannot digest world {target.world_id}, seq {poison.global_seq}: {poison.error}",
        projection=projection,
        world_id=target.world_id,
        global_seq=poison.global_seq,
        kind=poison.kind,
    )


#: Small worlds are compared together: at most this many, with about this many effects.
_WORLDS: Final = 200
_EFFECTS: Final = 20_000
#: Seconds that one comparison may take.
_COMPARISON_SECONDS: Final = 3600.0
_SHADOW: Final = "projection_shadow"
_SNAPSHOT: Final = "begin isolation level repeatable read"

#: The report of a check: JSON-able, see `Checking.check`.
Report = dict[str, Any]


class Checking:
    """Checks live builds."""

    def __init__(self, pool: Pool, refolding: Refolding) -> None:
        self._pool = pool
        self._refolding = refolding

    async def check(self, projection: Projection, progress: Callable[[int, int], None] | None = None) -> Report:
        """Check the live build, store the report with the build, and return it.

        The report: ``projection``, ``build``, ``version``, ``checked_at``, the numbers of compared ``worlds`` and
        ``rows``, ``verified``, and ``finding``: None, or the first difference, with ``world_id``, ``key`` (column ->
        text), ``column``, ``live`` and ``expected`` (texts), and ``what`` in words. If all rows are right, the table's
        definition and the views that read it are compared with those that this program makes. ``progress`` is called
        with the number of folded effects, and the total.

        Raises ProjectionRefusedError if there is nothing to check, SchemaVersionError or PostgreSQL's error if a table
        or column is missing that is no part of the projection, ProjectionFailedError and StoreUnavailableError.
        """
        build = await self._pool.fetchrow(LIVE_BUILD, projection.name)
        if build is None or build["version"] != projection.version:
            version = "none" if build is None else f"version {build['version']}"
            raise ProjectionRefusedError(
                f"projection {projection.name} cannot be checked: its live build has {version}, this program version "
                f"{projection.version}",
                projection=projection.name,
            )
        table = Table(projection, build["build"])
        try:
            worlds, rows, finding = await self._all_worlds(table, progress)
            if finding is None:
                async with self._pool.acquire() as connection:
                    beside = [f"{what} is unexpected: views may call it; drop it" for what in await planted(connection)]
                    views = await view_findings(connection, [projection])
                for view in views:
                    if view.lacks is not None:
                        raise view.lacks
                if whats := [*beside, *(f"{found.place} {found.what}" for found in views)]:
                    finding = _finding(None, what=whats[0])
        except LACKING:
            worlds, rows, finding = 0, 0, await self._lost(table)
            if finding is None:
                raise
        if not await self._pool.fetch(statements.STILL_LIVE, table.build):
            raise ProjectionRefusedError(
                f"build {table.build} was replaced while it was checked: check the new one", projection=projection.name
            )
        report: Report = {
            "projection": projection.name,
            "build": table.build,
            "version": projection.version,
            "checked_at": await self._pool.fetchval(statements.NOW),
            "worlds": worlds,
            "rows": rows,
            "verified": finding is None,
            "finding": finding,
        }
        await self._pool.execute(statements.SET_REPORT, table.build, orjson.dumps(report).decode())
        return report

    async def _lost(self, table: Table) -> Report | None:
        """Return a finding that names the missing part of the build; None if nothing is missing."""
        name = table.projection.name
        order = f"`worldledger projections rebuild {name}`"
        if not await self._pool.fetchval(statements.HAS_SCHEMA):
            return _finding(None, what=f"the schema projections is missing; `worldledger db upgrade`, then {order}")
        columns = {row["name"] for row in await self._pool.fetch(statements.COLUMNS_OF, table.place)}
        lost = [column.name for column in table.projection.columns if column.name not in columns]
        if not lost:
            return None
        what = f"the column {lost[0]} of the table {table.place}" if columns else f"the table {table.place}"
        return _finding(None, what=f"{what} is missing; {order} makes the table anew")

    async def _all_worlds(
        self, table: Table, progress: Callable[[int, int], None] | None
    ) -> tuple[int, int, Report | None]:
        total: int = await self._pool.fetchval(statements.EXTENT, table.build)
        worlds = rows = done = 0
        after = ""

        def count(effects: int) -> None:
            nonlocal done
            done += effects
            if progress is not None:
                progress(min(done, total), total)

        while page := await self._page(table.build, after):
            some_rows, finding = await self._compare(table, page, count)
            worlds += len(page)
            rows += some_rows
            if finding is not None:
                return worlds, rows, finding
            after = page[-1]
        return worlds, rows, await self._strays(table) or await self._overlooked(table)

    async def _page(self, build: str, after: str) -> list[str]:
        """Return the next worlds that are compared together."""
        page: list[str] = []
        effects = 0
        for row in await self._pool.fetch(statements.CURSOR_PAGE, build, after, _WORLDS):
            if page and effects + row["global_seq"] > _EFFECTS:
                break
            effects += row["global_seq"]
            page.append(row["world_id"])
        return page

    async def _compare(
        self, table: Table, names: Sequence[str], count: Callable[[int], None]
    ) -> tuple[int, Report | None]:
        async with transaction(self._pool, begin=_SNAPSHOT) as connection:
            await connection.execute(table.shadow(_SHADOW))
            cursors = await connection.fetch(statements.CURSORS_OF, table.build, list(names))
            for row in cursors:
                world_id, seq, head = row["world_id"], row["global_seq"], row["head_seq"]
                if head is not None and seq > head:
                    order = f"worldledger projections rebuild {table.projection.name} --world {world_id}"
                    what = f"the position is seq {seq}, beyond the head, which is {head}; `{order}` makes it anew"
                    return 0, _finding(world_id, what=what)
            worlds = [Whole(row["world_id"], row["ruleset"] or "", row["global_seq"]) for row in cursors]
            failure = None
            try:
                await self._refolding.fill(connection, table, _SHADOW, [w for w in worlds if w.until], count)
            except ProjectionFailedError as error:
                failure = _finding(error.details["world_id"], what=error.message)
            if failure is not None:
                return 0, failure
            await connection.execute(f"analyze {_SHADOW}")
            rows = await connection.fetchval(
                f"select count(*) from {table.place} where world_id = any($1::text[])",
                list(names),
                timeout=_COMPARISON_SECONDS,
            )
            found = await connection.fetchrow(table.difference(_SHADOW), list(names), timeout=_COMPARISON_SECONDS)
            if found is not None:
                return rows, _difference(table, found)
            twice = None
            if rows != await connection.fetchval(f"select count(*) from {_SHADOW}"):
                twice = await connection.fetchrow(table.repeated(), list(names), timeout=_COMPARISON_SECONDS)
        if twice is None:
            return rows, None
        *key, count = twice.values()
        what = f"there are {count} rows with this key, for the table has lost its primary key"
        order = f"`worldledger projections rebuild {table.projection.name}` makes it anew"
        return rows, _finding(key[0], key=dict(zip(table.projection.key, key, strict=True)), what=f"{what}; {order}")

    async def _strays(self, table: Table) -> Report | None:
        row = await self._pool.fetchrow(table.stray(), table.build, timeout=_COMPARISON_SECONDS)
        if row is None:
            return None
        texts = _texts(table, row, "l")
        return _finding(
            texts["world_id"],
            key={name: texts[name] for name in table.projection.key},
            what="the row is extra: the build holds nothing of this world",
        )

    async def _overlooked(self, table: Table) -> Report | None:
        rulesets = table.projection.rulesets
        names = None if rulesets is None else sorted(rulesets)
        row = await self._pool.fetchrow(statements.OVERLOOKED, table.build, names, timeout=_COMPARISON_SECONDS)
        if row is None:
            return None
        what = f"the log ends at seq {row['head_seq']}, the build at {row['global_seq']}, and nothing is noted as due"
        return _finding(row["world_id"], what=what)


def _difference(table: Table, row: Any) -> Report:
    live, expected = _texts(table, row, "l"), _texts(table, row, "e")
    there = expected if row["missing"] else live
    key = {name: there[name] for name in table.projection.key}
    world_id = there["world_id"] or ""
    if row["missing"]:
        return _finding(world_id, key=key, what="the row is missing")
    if row["extra"]:
        return _finding(world_id, key=key, what="the row is extra: the log does not give it")
    column = next(name for name in live if live[name] != expected[name])
    return _finding(
        world_id,
        key=key,
        column=column,
        live=live[column],
        expected=expected[column],
        what=f"column {column} differs",
    )


def _texts(table: Table, row: Any, side: str) -> dict[str, str | None]:
    return {column.name: row[f"{side}{n}"] for n, column in enumerate(table.projection.columns)}


def _finding(world_id: str | None, *, what: str, **rest: Any) -> Report:
    empty: Report = {"world_id": world_id, "key": None, "column": None, "live": None, "expected": None}
    return {**empty, **rest, "what": what}


# -- rebuilding the rows of one world in the live build, in one transaction --------------------------------------
#
# Readers see the old rows until it is done. The other worlds are still fed; this one waits, because its cursor is
# locked.

#: A batch that holds the cursor is waited for; a process that hangs with it is not.
_BEGIN_REBUILD = "begin; set local lock_timeout = 10000"


async def rebuild_world(
    pool: Pool,
    refolding: Refolding,
    projection: Projection,
    world_id: str,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Fold a world again into the live build; return its head, up to which that goes. A parked world is released.

    Raises ProjectionFailedError for an effect that cannot be digested (then everything is as before),
    ProjectionRefusedError if the live build is of another version, and WorldNotFoundError.
    """
    async with transaction(pool, begin=_BEGIN_REBUILD) as connection:
        build = await connection.fetchrow(LIVE_BUILD, projection.name)
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
        await connection.execute(statements.NEW_CURSORS, *columns([(table.build, world_id, 0)], 3))
        await connection.fetchval(statements.LOCK_CURSOR, table.build, world_id)
        row = await connection.fetchrow(HEAD, world_id)  # the present one, under the lock
        head = Head.of(world_id, row).seq
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
        await connection.execute(statements.NOT_DUE, *columns([(*target.key, head)], 3))
        # The runner may hold a fold of the former rows.
        await connection.execute(statements.REVOKE, f"build:{table.build}")
    return head
