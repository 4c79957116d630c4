"""The views that kinds of worlds bring: applied, proved and dropped.

A kind's part ``analytics`` (`worldledger.kinds`) is a folder with numbered files, ``0001_views.sql``, ``0002_….sql``,
of statements that make views over the log in the schema ``analytics``. The number of the last file is the version of
the kind's views. ``worldledger db upgrade`` runs the files beyond the version that the database has, as the owner of
the log, grants SELECT on the views to those who read, and notes version, digest and views in ``kind_analytics``.

Views are named without a schema, so that what they should be can be made beside them: for one transaction that is
rolled back, as temporary views, and both are compared (`findings`). So nothing but the package says what is right.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import asyncpg

from worldledger.errors import InvalidKindError, on_one_line
from worldledger.kinds import installed
from worldledger_service.database import catalogue
from worldledger_service.database.engine import connect_one
from worldledger_service.database.failures import explained, holders_of, name_holders
from worldledger_service.database.guards import GUEST_ROLE, OWNER_ROLE, READER_ROLE, SERVICE_ROLE, turn

if TYPE_CHECKING:
    from worldledger_service.database.engine import Connection, PooledConnection

#: How long the views of a kind wait for a lock, while everybody who reads them waits behind.
LOCK_TIMEOUT: Final = "10s"

#: Worlds that are named where a kind is dropped, at most.
_NAMED: Final = 5
_AGAIN: Final = "run `worldledger db upgrade`"
_APPLICATION: Final = "worldledger migration"
_RELATION: Final = "relation analytics."
_READERS: Final = (SERVICE_ROLE, READER_ROLE, GUEST_ROLE)
#: A view that a file makes, or says something of.
_VIEW: Final = re.compile(r"\bview\s+(\w+)", re.IGNORECASE)
_FILE: Final = re.compile(r"(\d{4})_\w+\.sql")

#: Views as a list without null, whatever somebody has put there.
_RECORDED: Final = """
select kind, version, digest, array(select view from unnest(views) view where view is not null) as views
from public.kind_analytics order by kind
"""
_HAS_TABLE: Final = "select to_regclass('public.kind_analytics') is not null"
_NOTE: Final = """
insert into public.kind_analytics (kind, version, digest, views) values ($1, $2, $3, $4)
on conflict (kind) do update
set version = excluded.version, digest = excluded.digest, views = excluded.views, applied_at = now()
"""
_FORGET: Final = "delete from public.kind_analytics where kind = $1"
_WORLDS: Final = """
select world_id, count(*) over () as worlds from public.worlds where ruleset = $1 order by world_id limit $2
"""
_OF_OWNER: Final = """
select relname from pg_catalog.pg_class
where relnamespace = 'analytics'::regnamespace and relkind = 'v' and relowner::regrole::text = 'worldledger_owner'
"""
_MAY_COMPARE: Final = "select has_database_privilege(current_database(), 'temporary')"
_TEMPORARY: Final = "select relname from pg_catalog.pg_class where relnamespace = pg_my_temp_schema() and relkind = 'v'"
#: What is made upon views ($1 their names) and is none of them, one upon the other.
_UPON: Final = """
with recursive own as (
    select oid from pg_catalog.pg_class where relnamespace = 'analytics'::regnamespace and relname = any ($1::text[])
), upon (oid) as (
    select oid from own
    union
    select r.ev_class
    from upon
    join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjid = upon.oid
    join pg_catalog.pg_rewrite r on d.classid = 'pg_catalog.pg_rewrite'::regclass and r.oid = d.objid
)
select format('%I.%I', n.nspname, c.relname) as view, c.relowner::regrole::text as owner
from pg_catalog.pg_class c join upon on upon.oid = c.oid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid not in (select oid from own) order by 1
"""


class Script(NamedTuple):
    """One numbered file."""

    file: str
    sql: str


class Analytics(NamedTuple):
    """The files that a kind brings, in order: that of version 1 first."""

    kind: str
    scripts: tuple[Script, ...]

    @property
    def version(self) -> int:
        """The version that they make."""
        return len(self.scripts)

    def digest(self, version: int) -> bytes:
        """Return the SHA-256 of the files up to a version."""
        return hashlib.sha256("".join(script.sql for script in self.scripts[:version]).encode()).digest()


class Recorded(NamedTuple):
    """What a database has of a kind's analytics."""

    kind: str
    version: int
    digest: bytes
    views: tuple[str, ...]


def brought() -> dict[str, Analytics]:
    """Return what the installed kinds bring, by name. Raises InvalidKindError for files that are not well numbered."""
    return {name: _read(name, kind.load("analytics")) for name, kind in installed().items() if kind.analytics}


def _read(kind: str, folder: Path) -> Analytics:
    files = sorted(folder.glob("*.sql"))
    for number, file in enumerate(files, 1):
        named = _FILE.fullmatch(file.name)
        if named is None or int(named[1]) != number:
            what = f"kind {kind}: {file} should be named {number:04}_….sql: files are numbered from 0001, without a gap"
            raise InvalidKindError(what, kind=kind, part="analytics")
    # In universal newlines: the digest is the same wherever the files were unpacked.
    return Analytics(kind, tuple(Script(file.name, file.read_text(encoding="utf-8")) for file in files))


async def recorded(connection: Connection | PooledConnection) -> dict[str, Recorded]:
    """Return what the database has, by kind; nothing where it is of a revision that had none of it."""
    if not await connection.fetchval(_HAS_TABLE):
        return {}
    rows = await connection.fetch(_RECORDED)
    return {row["kind"]: Recorded(row["kind"], row["version"], row["digest"], tuple(row["views"])) for row in rows}


def state(bring: Analytics | None, record: Recorded | None) -> str:
    """Say how what an installed kind brings and what the database has of it compare.

    ``current``, ``missing`` and ``older`` (`worldledger db upgrade` applies it), ``newer`` (of a later package),
    ``changed`` (the files are not those that were run), or ``left`` (the package is not installed).
    """
    if record is None:
        return "missing"
    if bring is None:
        return "left"
    if bring.version < record.version:
        return "newer"
    if bring.digest(record.version) != record.digest:
        return "changed"
    return "older" if bring.version > record.version else "current"


async def pending(connection: Connection | PooledConnection) -> bool:
    """Tell whether `apply` has something to do."""
    records = await recorded(connection)
    return any(each.version > _version(records.get(kind)) for kind, each in brought().items())


def _version(record: Recorded | None) -> int:
    return 0 if record is None else record.version


# -- applying and dropping -----------------------------------------------------------------------------------


async def apply(url: str) -> None:
    """Bring the views of all installed kinds to the version that these bring: each kind's all or nothing.

    Where views of a kind are missing, or others than its files make, all of the kind are made again. A kind that cannot
    be applied does not keep the others from it. Raises InvalidKindError, which says what to do for
    each that cannot be; or StoreUnavailableError.
    """
    connection = await connect_one(url, application_name=_APPLICATION)
    try:
        with explained(url):
            is_pending = await pending(connection)
            try:
                await connection.execute(f"set role {OWNER_ROLE}")
            except asyncpg.InsufficientPrivilegeError:
                if is_pending:
                    raise
                return  # `findings` lists what is damaged
            damaged = await _damaged(connection)
            if (not damaged and not is_pending) or await _apply_to_new(connection):
                return
            refused: list[InvalidKindError] = []
            for bring in brought().values():
                try:
                    async with connection.transaction():
                        if bring.kind in damaged:
                            await connection.execute(turn())
                            await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
                            await _drop(connection, damaged[bring.kind])
                        await _apply(connection, bring)
                except InvalidKindError as error:
                    refused.append(error)
    finally:
        await connection.close()
    if refused:
        raise InvalidKindError("; ".join(error.message for error in refused), kind=refused[0].details["kind"])


async def _damaged(connection: Connection) -> dict[str, Recorded]:
    """Return the kinds whose views are of the right version, and not what their files make."""
    found: dict[str, Recorded] = {}
    if not await connection.fetchval(_MAY_COMPARE):
        return found
    bringing, records = brought(), await recorded(connection)
    current = [kind for kind, record in records.items() if state(bringing.get(kind), record) == "current"]
    if await _are_as_made(connection, [(bringing[kind], records[kind]) for kind in current]):
        return found
    for kind in current:
        bring, record = bringing[kind], records[kind]
        work = connection.transaction()
        await work.start()
        try:
            if await _differences(connection, bring, record.version, record.views):
                found[kind] = record
        except asyncpg.PostgresError:  # told by `findings`
            continue
        finally:
            await work.rollback()
    return found


async def _apply_to_new(connection: Connection) -> bool:
    """Apply all that is brought to a database that has nothing of it; return whether it did, without any fault.

    To compare the views of all kinds at once takes half of the time. Nobody reads these views yet, or waits for them.
    """
    if await recorded(connection) or not await connection.fetchval(_MAY_COMPARE):
        return False
    work = connection.transaction()
    await work.start()
    is_kept = False
    try:
        bringing = brought()
        for bring in bringing.values():
            await _apply(connection, bring, is_compared=False)
        records = await recorded(connection)
        is_kept = await _are_as_made(connection, [(bringing[kind], record) for kind, record in records.items()])
    except InvalidKindError:  # told when each kind is applied by itself
        pass
    finally:
        await (work.commit() if is_kept else work.rollback())
    return is_kept


async def _apply(connection: Connection, bring: Analytics, *, is_compared: bool = True) -> None:
    await connection.execute(turn())
    await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
    record = (await recorded(connection)).get(bring.kind)
    version, own = _version(record), set(record.views if record else ())
    if bring.version <= version:
        return
    if state(bring, record) == "changed":
        raise _refusal(bring.kind, _changed(bring, version))
    if record is None and await connection.fetchval(_MAY_COMPARE):
        await _drop_leftovers(connection, bring)
    others = await _views(connection) - own
    for script in bring.scripts[version:]:
        await connection.execute("set local search_path = analytics, pg_temp")
        try:
            async with connection.transaction():
                await connection.execute(script.sql)
        except asyncpg.InsufficientPrivilegeError:
            raise
        except asyncpg.PostgresError as error:
            await name_holders(error, connection)
            raise await _explained(connection, bring, script, error, own) from error
    await connection.execute("set local search_path = default")
    own = await _views(connection) - others
    if own:
        named = ", ".join(f'analytics."{view}"' for view in sorted(own))
        await connection.execute(f"grant select on {named} to {', '.join(_READERS)}")
    await connection.execute(_NOTE, bring.kind, bring.version, bring.digest(bring.version), sorted(own))
    if is_compared and await connection.fetchval(_MAY_COMPARE):
        for found in await _differences(connection, bring, bring.version, own):
            raise _refusal(bring.kind, found)


async def _drop_leftovers(connection: Connection, bring: Analytics) -> None:
    """Drop views of a kind that the database does not know of, if they are the owner's and what the kind's files make.

    Such are left where the schema public was dropped by hand, and with it the table that says what was applied.
    """
    named = {name for script in bring.scripts for name in _VIEW.findall(script.sql)}
    there = (await _views(connection) & named) - await _of_others(connection, bring.kind)
    if not there or await _upon(connection, there):
        return
    try:
        names, wanted = await _wanted(connection, bring, bring.version, among=there)
    except InvalidKindError:
        return  # the files themselves say more
    if names and not catalogue.compare(await catalogue.views_of_kind(connection, names), wanted):
        await connection.execute("drop view " + ", ".join(f'analytics."{view}"' for view in names))


async def _of_others(connection: Connection, kind: str) -> set[str]:
    """Return the names of what is the program's own, or another kind's."""
    records = (await recorded(connection)).values()
    own = {line.partition(": ")[0].removeprefix(_RELATION) for line in catalogue.expected()}
    return own.union(*(record.views for record in records if record.kind != kind))


async def _views(connection: Connection) -> set[str]:
    return {row["relname"] for row in await connection.fetch(_OF_OWNER)}


class Dropped(NamedTuple):
    """What `drop` has dropped, how many worlds of the kind are left, and some of their names."""

    views: tuple[str, ...]
    worlds: int
    names: tuple[str, ...]


async def drop(url: str, kind: str, *, force: bool = False) -> Dropped:
    """Drop the views of a kind; its worlds and their logs stay.

    Raises InvalidKindError where it has none, where the kind is installed, unless by ``force``, or where others have
    made something upon the views.
    """
    connection = await connect_one(url, application_name=_APPLICATION)
    try:
        with explained(url):
            await connection.execute(f"set role {OWNER_ROLE}")
            async with connection.transaction():
                await connection.execute(turn())
                await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
                records = await recorded(connection)
                if kind not in records:
                    having = f"those of {', '.join(records)}" if records else "none"
                    raise _refusal(kind, f"the database has no views of it; it has {having}")
                if kind in installed() and not force:
                    what = "it is installed, and the next `worldledger db upgrade` makes its views again"
                    raise _refusal(kind, f"{what}; use --force to drop them all the same")
                await _drop(connection, records[kind])
                rows = await connection.fetch(_WORLDS, kind, _NAMED)
                return Dropped(
                    records[kind].views, rows[0]["worlds"] if rows else 0, tuple(row["world_id"] for row in rows)
                )
    finally:
        await connection.close()


async def _drop(connection: Connection, record: Recorded) -> None:
    there = sorted({*record.views} & await _views(connection) - await _of_others(connection, record.kind))
    if upon := await _upon(connection, there):
        raise _refusal(record.kind, f"its views cannot be dropped: {upon}; drop that first, and run this again")
    if there:
        try:
            await connection.execute("drop view " + ", ".join(f'analytics."{view}"' for view in there))
        except asyncpg.LockNotAvailableError as error:
            await name_holders(error, connection)
            raise
    await connection.execute(_FORGET, record.kind)


async def _upon(connection: Connection, views: Collection[str]) -> str | None:
    """Say what others have made upon views, with its owner; None: nothing."""
    rows = await connection.fetch(_UPON, list(views))
    return ", ".join(f"{row['view']} of {row['owner']} is made upon them" for row in rows) or None


def _refusal(kind: str, what: str) -> InvalidKindError:
    return InvalidKindError(f"kind {kind}: {what}", kind=kind, part="analytics")


def _changed(bring: Analytics, version: int) -> str:
    files = bring.scripts[0].file if version == 1 else f"{bring.scripts[0].file} to {bring.scripts[version - 1].file}"
    return (
        f"{files} of its package cannot be what was applied here as version {version}: their digest is another. A "
        f"change is a new file; to apply these anew, run `worldledger kind drop {bring.kind} --force` and "
        "`worldledger db upgrade`"
    )


async def _explained(
    connection: Connection, bring: Analytics, script: Script, error: asyncpg.PostgresError, own: Collection[str]
) -> InvalidKindError:
    """Say why a file could not be run, and what to do."""
    said = str(error.args[0])
    place = getattr(error, "position", None)
    where = f"{script.file}:{script.sql[: int(place)].count(chr(10)) + 1}" if place else script.file
    if isinstance(error, asyncpg.DependentObjectsStillExistError):
        upon = await _upon(connection, own) or error.detail or said
        todo = f"drop that, {_AGAIN}, and make it anew (`select pg_get_viewdef('…')` shows its definition)"
    elif isinstance(error, asyncpg.DuplicateTableError):
        upon, todo = said, f"rename or drop what others have made there, and {_AGAIN}"
    elif isinstance(error, asyncpg.LockNotAvailableError):
        upon, todo = f"{said}, {holders_of(error) or 'held by another session'}", f"then {_AGAIN}"
    else:
        upon, todo = said, "this is a mistake in the package"
    return _refusal(bring.kind, f"{where} cannot be applied: {upon}: {todo}")


# -- proving -------------------------------------------------------------------------------------------------


async def findings(connection: Connection) -> list[str]:
    """Compare the views of kinds with what the installed kinds make, a finding for each difference."""
    found: list[str] = []
    bringing, records = brought(), await recorded(connection)
    comparable = [kind for kind, record in records.items() if state(bringing.get(kind), record) in {"current", "older"}]
    if await _are_as_made(connection, [(bringing[kind], records[kind]) for kind in comparable]):
        comparable = []
    for kind in sorted({*bringing, *records}):
        bring, record = bringing.get(kind), records.get(kind)
        if what := _told(kind, bring, record):
            found.append(on_one_line(f"kind {kind}: {what}"))
        if bring is None or record is None or kind not in comparable:
            continue
        work = connection.transaction()
        await work.start()
        try:
            await connection.execute(f"set local role {OWNER_ROLE}")
            found += await _differences(connection, bring, record.version, record.views)
        except asyncpg.PostgresError as error:
            found.append(f"kind {kind}: its views cannot be compared: {error.args[0]}")
        finally:
            await work.rollback()
    return found


def _told(kind: str, bring: Analytics | None, record: Recorded | None) -> str | None:
    """Say what is not as it should be with versions."""
    has = "has none of its views" if record is None else f"has version {record.version} of its views"
    brings = "" if bring is None else f"its package brings version {bring.version}"
    match state(bring, record):
        case "missing" | "older":
            return f"the database {has}, {brings}: run `worldledger db upgrade`"
        case "newer":
            return f"the database {has}, {brings}: install a newer package"
        case "left":
            return f"the database {has}, its package is not installed: install it, or `worldledger kind drop {kind}`"
        case "changed" if bring and record:
            return _changed(bring, record.version)
    return None


async def _are_as_made(connection: Connection, pairs: Collection[tuple[Analytics, Recorded]]) -> bool:
    """Tell whether the views of all these kinds are what their files make, without saying which are not.

    To compare all at once takes half of the time of comparing those of one kind after the other.
    """
    if not pairs:
        return True
    work = connection.transaction()
    await work.start()
    try:
        await connection.execute(f"set local role {OWNER_ROLE}")
        live = await catalogue.views_of_kind(connection, [view for _, record in pairs for view in record.views])
        made: set[str] = set()
        for bring, record in pairs:
            await _run_temporarily(connection, bring, record.version)
            there = {row["relname"] for row in await connection.fetch(_TEMPORARY)}
            if there - made != set(record.views):
                return False
            made = there
        return not catalogue.compare(live, await _described(connection, made))
    except (asyncpg.PostgresError, InvalidKindError):
        return False
    finally:
        await work.rollback()


async def _differences(connection: Connection, bring: Analytics, version: int, views: Collection[str]) -> list[str]:
    """Compare views with what the files of a kind make; in a transaction, as the owner."""
    live = await catalogue.views_of_kind(connection, views)
    try:
        _, wanted = await _wanted(connection, bring, version)
    except InvalidKindError as error:
        return [error.message]
    return catalogue.compare(live, wanted)


async def _wanted(
    connection: Connection, bring: Analytics, version: int, among: Collection[str] | None = None
) -> tuple[list[str], list[str]]:
    """Return the names of the views that the files of a kind make (those ``among`` others), and what they are to be.

    In a transaction, as the owner. Raises InvalidKindError where the files cannot be run.
    """
    made = connection.transaction()
    await made.start()
    try:
        await _run_temporarily(connection, bring, version)
        names = [row["relname"] for row in await connection.fetch(_TEMPORARY)]
        names = [name for name in names if among is None or name in among]
        return names, await _described(connection, names)
    finally:
        await made.rollback()


async def _run_temporarily(connection: Connection, bring: Analytics, version: int) -> None:
    for script in bring.scripts[:version]:
        await connection.execute("set local search_path = pg_temp, analytics")
        try:
            await connection.execute(script.sql)
        except asyncpg.PostgresError as error:
            what = f"{script.file} cannot be run beside it: {error.args[0]}; are views named without a schema?"
            raise _refusal(bring.kind, what) from error


async def _described(connection: Connection, made: Collection[str]) -> list[str]:
    """Return what views that were made temporarily are to be, with what those who read may do."""
    wanted = await catalogue.views_of_kind(connection, made, made=True)
    granted = [
        f"privilege on relation analytics.{name}: {role} may SELECT"
        for name in (line.partition(": ")[0].removeprefix(_RELATION) for line in wanted if line.startswith(_RELATION))
        for role in _READERS
    ]
    return sorted([*wanted, *granted])
