"""The schema as a whole: migrate a database, make a fresh one, and tell whether one is as it should be (`db check`).

The roles come first, in a transaction of their own, by whoever migrates (``guards.roles``); everything after
that is done under the owner's role. Alembic gets a connection that is already so.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection as SyncConnection
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from worldledger_projections.registry import known

from worldledger.errors import SchemaVersionError
from worldledger_service.database import guards, mending, readers, verification
from worldledger_service.database.address import describe
from worldledger_service.database.analytics import of_kinds
from worldledger_service.database.analytics import views as analytics
from worldledger_service.database.catalogue import catalogue, compare, expected
from worldledger_service.database.engine import connect_one
from worldledger_service.database.failures import explained, has_state, name_holders, origin
from worldledger_service.database.guards import SERVICE_ROLE
from worldledger_service.database.odd_rows import breaking_rows, odd_rows
from worldledger_service.database.readers import beyond_privileges, beyond_reading, other_settings
from worldledger_service.database.revision import REVISIONS, SchemaState, require_current, revision_state
from worldledger_service.database.tables import METADATA
from worldledger_service.database.view_checks import (
    LACKING,
    foreign,
    grant_again,
    planted,
    privilege_findings,
    strangers,
    view_findings,
    views_for_users,
)

if TYPE_CHECKING:
    from worldledger_projections.base import Projection

    from worldledger_service.database.engine import Connection


# -- comparing a database with what this program expects: `worldledger db check` --------------------------


#: Settings without which "acknowledged" does not mean "durable": off for the server, or for this database and those who
#: work as the service in it; and the role as which sessions begin here. Each with what turns it on again.
_DURABILITY: Final = """
with given as (
    select d.setrole, d.setdatabase, split_part(s.setting, '=', 1) as name,
           substr(s.setting, strpos(s.setting, '=') + 1) as value
    from pg_db_role_setting d cross join unnest(d.setconfig) as s (setting)
    where d.setdatabase in (0, (select oid from pg_database where datname = current_database()))
      and (d.setrole = 0 or d.setrole in (
          select oid from pg_roles
          where rolname = session_user
             or rolcanlogin and not rolsuper and pg_has_role(oid, 'worldledger_service', 'member')))
)
select name, value, case when name = 'role' then 'set role none; ' else '' end ||
                    case when setrole = 0 then 'alter database ' || quote_ident(current_database())
                         else format('alter role %s', setrole::regrole)
                              || case when setdatabase <> 0 then ' in database ' || quote_ident(current_database())
                                      else '' end end || ' reset ' || name as mended
from given
where name = 'synchronous_commit' and value ~* '^(off?|f|fa|fal|fals|false|no?|0)$'
   or name = 'role' and setrole = 0 and value <> 'none'
union all
select name, 'off', case when source = 'command line' then null
                         else format('alter system set %s = on; select pg_reload_conf()', name) end
from pg_settings
where name in ('fsync', 'full_page_writes', 'synchronous_commit')
  and setting = 'off' and source not in ('database', 'user', 'database user', 'session')
order by 1, 3
"""


#: The program's tables ($1) that are in another schema, where public has nothing of the name.
_ELSEWHERE: Final = """
select format('moved %I.%I: belongs in the schema public', nspname, relname)
from pg_class join pg_namespace n on n.oid = relnamespace
where relkind = 'r' and relname = any ($1) and relowner::regrole::text = 'worldledger_owner'
  and to_regclass('public.' || relname) is null
order by 1
"""
#: Errors where something that views and rows are compared by is missing, which is told by then.
_MISSING: Final = (*LACKING, asyncpg.UndefinedFunctionError, asyncpg.UndefinedObjectError)
#: A place whose name is quoted, and would be the same without.
_NEEDS_NO_QUOTES: Final = re.compile(r'[a-z]+\."[a-z_][a-z0-9_]*"\Z')

#: Worlds that are marked as beginnings alone, and are none: an import brings one up to where a fork goes on from it.
_NO_BEGINNINGS: Final = """
select quote_literal(p.world_id) as name, h.head_seq
from public.prefixes p left join public.heads h on h.world_id = p.world_id
where not exists (select from analytics.forks f where f.parent = p.world_id and f.parent_seq = h.head_seq)
order by p.world_id
"""


async def check(url: str, own_projections: str = "") -> list[str]:
    """Compare a database with what this program expects; no findings means that all is as it should be.

    Findings name the revision when it does not fit, or relations that stand in the place of the program's (and then
    nothing else), every table, column, constraint,
    index, trigger, function, view, comment, privilege, schema and role that is missing, changed or foreign, every view
    of a kind of worlds or over a projection that is not what this program makes, what readers may do beyond reading
    and settings of their role that are others (these begin with "reader"), what a superuser has put beside
    PostgreSQL's own, marks of the table prefixes that no fork accounts for (these begin with "mark"), rows beside the
    log with values out of range and rows that break a lost constraint ("row"), and settings of the server that give up
    durability ("setting").

    Raises:
        StoreUnavailableError: the database cannot be reached.
    """
    connection = await connect_one(url)
    try:
        with explained(url):
            try:
                require_current(await revision_state(connection))
            except SchemaVersionError as error:
                return [await _wrong_revision(connection) or error.message]
            beside = await foreign(connection)
            if in_place := [line for line in beside if line.startswith("relation ")]:
                return in_place
            weak = [_setting(*row) for row in await connection.fetch(_DURABILITY)]
            projections = known(own_projections).values()
            views = views_for_users(projections)
            found = compare(await catalogue(connection, views), expected())
            found += [row[0] for row in await connection.fetch(_ELSEWHERE, sorted(mending.tables()))]
            with suppress(*_MISSING) if found else nullcontext():
                found += await of_kinds.findings(connection)
                found += await _views(connection, projections, found)
            return [
                *found,
                *await privilege_findings(connection, views),
                *beside,
                *await _as_service(connection, _marks),
                *await beyond_reading(connection),
                *await other_settings(connection),
                *await _as_service(connection, odd_rows),
                *await _as_service(connection, lambda service: breaking_rows(service, found)),
                *weak,
            ]
    finally:
        await connection.close()


async def notes(url: str) -> list[str]:
    """Say what is no difference, but as PostgreSQL has it: what logins of readers can do that no privilege forbids."""
    connection = await connect_one(url)
    try:
        with explained(url):
            return await beyond_privileges(connection)
    finally:
        await connection.close()


async def _wrong_revision(connection: Connection) -> str | None:
    """Return how to correct the table alembic_version if the schema is in fact this program's; None if it is not.

    An older schema lacks something that this one has.
    """
    state = await revision_state(connection)
    if state.status not in {"older", "newer"} or set(expected()) - set(await catalogue(connection)):
        return None
    return (
        f"the table alembic_version says revision {state.current}, but the schema is that of {state.head}: run as an "
        f"administrator: DELETE FROM public.alembic_version; INSERT INTO public.alembic_version VALUES ('{state.head}')"
    )


def _setting(name: str, value: str, mended: str | None) -> str:
    """Return the finding about a setting that gives up durability, or about the role that sessions begin with."""
    what = f"setting {name}: is {value}: "
    if name == "role":
        what += "sessions begin as this role, which may lack what a command needs: "
    else:
        what += "an acknowledged effect may be lost when the server crashes: "
    return what + (mended or "it is on the server's command line: start the server without")


async def _views(connection: Connection, projections: Collection[Projection], told: Iterable[str]) -> list[str]:
    """Say which views of the service's role are not those that this program makes."""
    await connection.execute(f"set role {SERVICE_ROLE}")
    try:
        found = [f"view {_plain(view.place)}: {view.what}" for view in await view_findings(connection, projections)]
        unknown = "unexpected, or of a projection that is not known here (--projection names one)"
        named = {finding.partition(": ")[0].partition(" ")[2] for finding in told}
        found += [
            f"{what}: unexpected: views may call it"
            for what in await planted(connection)
            if what.partition(" ")[2] not in named
        ]
        return [*found, *(f"view {_plain(view)}: {unknown}" for view in await strangers(connection, projections))]
    except asyncpg.InsufficientPrivilegeError as error:
        return [f"views over projections: cannot be compared: {error}"]
    finally:
        await connection.execute("reset role")


async def _as_service(connection: Connection, look: Callable[[Connection], Awaitable[list[str]]]) -> list[str]:
    """Return the findings of a look by the service's role; none where it may not look, or where there is nothing."""
    await connection.execute(f"set role {SERVICE_ROLE}")
    try:
        return await look(connection)
    except (*_MISSING, asyncpg.InsufficientPrivilegeError):
        return []  # told by now
    finally:
        await connection.execute("reset role")


async def _marks(connection: Connection) -> list[str]:
    """Say which worlds are marked as beginnings alone without a fork that was imported along with them."""
    lines = []
    for row in await connection.fetch(_NO_BEGINNINGS):
        why = "there is no such world"
        if row["head_seq"] is not None:
            why = f"no fork here goes on from its last effect, seq {row['head_seq']}: unless an import was interrupted "
            why += "(repeat it), the mark is wrong"
        lines.append(f"mark {row['name']}: by the table prefixes only the beginning of this world is here, and {why}")
    return lines


def _plain(place: str) -> str:
    return place.replace('"', "") if _NEEDS_NO_QUOTES.match(place) else place


__all__ = [
    "REVISIONS",
    "SchemaState",
    "catalogue",
    "check",
    "create_fresh",
    "downgrade",
    "migrations_dir",
    "require_current",
    "revision_state",
    "upgrade",
]

#: What a statement makes, and its name.
_CREATED: Final = re.compile(r"\s*create (?:or replace )?(view|function|trigger|type) ([\w.\"]+)")
#: SQLSTATEs, or classes, with which a statement of an upgrade may be refused while others are not: what it needs is
#: missing or somebody else's, rows are in its way, something was made upon what it would drop.
_REFUSED: Final = ("0A", "23", "2BP01", "42", "55000")
#: Characters of a refused statement that are shown.
_SHOWN: Final = 100
_WITHOUT_ROWS: Final = re.compile(r"\s*(?:alter|comment|create|do|drop|grant|revoke)\b", re.IGNORECASE)
_OLDEST_SERVER: Final = 150000
_MIGRATING: Final = "worldledger migration"

#: How long a migration waits for a lock of a table, while everybody else waits behind it.
LOCK_TIMEOUT: Final = "10s"

#: Alembic keeps what it is doing in globals: in one process only one database is migrated at a time. A lock of
#: threads, because callers may have an event loop each.
_ALEMBIC: Final = threading.Lock()


def migrations_dir() -> Path:
    """Return the folder of the migrations: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parents[1] / "migrations"


def _config(connection: SyncConnection) -> Config:
    config = Config()
    # A percent sign in a path would be taken for interpolation.
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["metadata"] = METADATA
    config.attributes["lock_timeout"] = LOCK_TIMEOUT
    return config


async def _as_owner(url: str, work: Callable[[SyncConnection], Any]) -> None:
    """Run ``work`` on a SQLAlchemy connection under the owner's role, and explain what goes wrong."""

    async def connect(*_: Any, **__: Any) -> Any:
        return await connect_one(url, role=guards.OWNER_ROLE, application_name=_MIGRATING)

    # asyncpg reads the address, so every form that it knows (sockets, several hosts) works here too.
    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    statements = _Statements()
    event.listen(engine.sync_engine, "do_execute", statements.take)
    event.listen(engine.sync_engine, "commit", statements.execute)
    while not _ALEMBIC.acquire(blocking=False):  # noqa: ASYNC110 - an event belongs to one loop only
        await asyncio.sleep(0.05)
    try:
        with explained(url, SQLAlchemyError):
            try:
                async with engine.connect() as connection:
                    await connection.exec_driver_sql("select 1")  # what begins the transaction
                    await connection.run_sync(work)
                    await connection.commit()
            except (SQLAlchemyError, asyncpg.PostgresError) as error:
                await _name_holders(url, origin(error))
                raise
    except CommandError as error:
        raise SchemaVersionError(f"{describe(url)}: {error}") from error
    finally:
        _ALEMBIC.release()
        await engine.dispose()


class _Statements:
    """Statements without parameters and rows, sent together before the next other statement, or the commit.

    SQLAlchemy prepares each statement first, of which an upgrade has 1,500: that takes three messages.
    """

    def __init__(self) -> None:
        self._waiting: list[str] = []

    def take(self, _cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        """Keep a statement for later if it may be, and return whether it may; else execute those that were kept."""
        if parameters or not _WITHOUT_ROWS.match(statement):
            self.execute(context.root_connection)
            return False
        self._waiting.append(statement)
        return True

    def execute(self, connection: SyncConnection) -> None:
        """Execute what was kept, one statement after the other."""
        if self._waiting:
            script, self._waiting = "\n;\n".join(self._waiting), []
            driver: Any = connection.connection.dbapi_connection
            driver.run_async(lambda asyncpg_connection: asyncpg_connection.execute(script))


async def _name_holders(url: str, error: BaseException) -> None:
    if isinstance(error, asyncpg.LockNotAvailableError):
        connection = await connect_one(url, application_name=_MIGRATING)
        try:
            await name_holders(error, connection)
        finally:
            await connection.close()


async def _prepare(url: str, revision: str) -> bool:
    """Make the roles and let the owner work in schema public; return False if nothing is to do for the revision.

    A database that is up to date is not touched, so that a user who may not migrate can still ask for it.
    """
    connection = await connect_one(url, application_name=_MIGRATING)
    try:
        with explained(url):
            version = await connection.fetchval("select current_setting('server_version_num')::int")
            if version < _OLDEST_SERVER:
                raise SchemaVersionError(f"PostgreSQL {version // 10000} is too old: 15 or newer is needed")
            encoding = await connection.fetchval("select current_setting('server_encoding')")
            if encoding != "UTF8":
                raise SchemaVersionError(
                    f"the database's encoding is {encoding}: create one with "
                    "`createdb --encoding UTF8 --template template0 NAME`"
                )
            state = await revision_state(connection)
            if state.status in {"newer", "lost", "moved"}:
                require_current(state)
            if state.status == "current" and revision in {"head", state.head}:
                return False
            async with connection.transaction():
                for statement in guards.roles():
                    await connection.execute(statement)
            return True
    finally:
        await connection.close()


async def upgrade(url: str, revision: str = "head") -> list[str]:
    """Bring a database to a revision; a database that is there already is left as it is.

    Two upgrades at once queue up; the second finds nothing to do. All or nothing. What readers may do beyond reading is
    taken away at every upgrade, as far as the user may (`readers.bounds`). In a database that is up to date, whatever
    is missing or changed is made again as far as no row is lost (`mending`): what cannot be is returned, and keeps
    nothing else from it.
    At the newest revision the views that the installed kinds of worlds bring are applied, too, those of each kind by
    themselves (`analytics.of_kinds`).

    Raises:
        SchemaVersionError: the server is older than PostgreSQL 15, the database is not in UTF-8, or its
            revision is unknown to this program.
        StoreUnavailableError: not reachable, or the user may not do it; the message says what an
            administrator has to run.
        InvalidKindError: the views of a kind cannot be applied; all the rest is.
    """
    refused: list[str] = []
    if await _prepare(url, revision):
        await _as_owner(url, lambda connection: command.upgrade(_config(connection), revision))
    elif revision == "head":
        refused += await _remake(url)
    await _bound_readers(url)
    if revision in {"head", REVISIONS[-1]}:
        try:
            await of_kinds.apply(url)
        except SchemaVersionError as error:
            if not refused:
                raise
            refused.append(f"the views of kinds of worlds: {error.message}")
        await _grant_views(url)
    return refused


async def _remake(url: str) -> list[str]:
    """Make again what can be made without losing a row, where anything of the schema is not as it should be.

    Returns what was refused, and why.
    """
    connection = await connect_one(url, application_name=_MIGRATING)
    try:
        with explained(url):
            found = await catalogue(connection)
            if not compare(found, expected()):
                return []
            if tables := [METADATA.tables[name] for name in mending.missing_tables(found) if name in METADATA.tables]:
                await _as_owner(url, lambda owner: METADATA.create_all(owner, tables=tables))
                found = await catalogue(connection)
            refused = [
                f"{each.what}: {found_step.sql.removeprefix('-- ')}"
                for each in mending.differences(found, expected())
                if each.was is None and not (found_step := mending.step(each)).is_upgrades
            ]
            try:
                async with connection.transaction():
                    await connection.execute(guards.turn())
                    await connection.execute(f"set local role {guards.OWNER_ROLE}")
                    await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
                    for statement in mending.mends(found, first=True):
                        refused += await _tried(connection, statement, is_anybodys=True)
                    for statement in (*_made(), *guards.statements("version_table")):
                        if statement.startswith("set local role "):  # what follows is for this role alone
                            await connection.execute(statement)
                        else:
                            refused += await _tried(connection, statement)
                    for statement in mending.mends(found, first=False):
                        await _tried(connection, statement, is_anybodys=True)
            except asyncpg.InsufficientPrivilegeError as error:
                refused.append(f"what this user may not make: {error.args[0]}")
            return refused
    finally:
        await connection.close()


async def _tried(
    connection: asyncpg.Connection[asyncpg.Record], statement: str, *, is_anybodys: bool = False
) -> list[str]:
    """Make something again under the owner's role; return why it is refused, if it is.

    ``is_anybodys``: a statement that leaves the owner of what it is about; it is tried as the user of the address, too.
    """
    why = ""
    for role in (guards.OWNER_ROLE, "none") if is_anybodys else (guards.OWNER_ROLE,):
        try:
            async with connection.transaction():
                if role != guards.OWNER_ROLE:
                    await connection.execute(f"set local role {role}")
                await _make_again(connection, statement)
                if role != guards.OWNER_ROLE:
                    await connection.execute(f"set local role {guards.OWNER_ROLE}")
        except asyncpg.PostgresError as error:
            if not has_state(error, _REFUSED):
                raise
            why = str(error.args[0])
            if not isinstance(error, asyncpg.InsufficientPrivilegeError):
                break
        else:
            return []
    if statement.startswith("comment "):
        return []  # about what is told to be missing
    return [f"{' '.join(statement.split())[:_SHOWN]}: {why}"]


async def _make_again(connection: asyncpg.Connection[asyncpg.Record], statement: str) -> None:
    made = _CREATED.match(statement)
    if made is None:
        await connection.execute(statement)
        return
    what, name = made.groups()
    try:
        async with connection.transaction():
            again = "create" if what == "type" else "create or replace"
            await connection.execute(_CREATED.sub(rf"{again} \1 \2", statement, count=1))
    except asyncpg.DuplicateObjectError:  # a type
        return
    except (
        asyncpg.InvalidTableDefinitionError,
        asyncpg.InvalidFunctionDefinitionError,
        asyncpg.InsufficientPrivilegeError,
    ):
        # What has other columns, or belongs to somebody else: it goes, where the user may see to that.
        role = await connection.fetchval("select current_user")
        await connection.execute(f"set local role none; drop {what} {name}; set local role {role}")
        await connection.execute(statement)


async def _bound_readers(url: str) -> None:
    connection = await connect_one(url, application_name=_MIGRATING)
    try:
        with explained(url):
            if not await readers.beyond_reading(connection):
                return
            with suppress(asyncpg.InsufficientPrivilegeError):  # `check` lists what stays
                async with connection.transaction():
                    await connection.execute(guards.turn())
                    await connection.execute(readers.bounds())
    finally:
        await connection.close()


async def _grant_views(url: str) -> None:
    connection = await connect_one(url, application_name=_MIGRATING)
    try:
        with explained(url), suppress(asyncpg.InsufficientPrivilegeError):  # `check` lists what stays
            async with connection.transaction():
                await connection.execute(f"set local role {SERVICE_ROLE}")
                await grant_again(connection)
    finally:
        await connection.close()


async def downgrade(url: str, revision: str) -> None:
    """Take a database back to an older revision (``base``: no tables). Roles stay; what is derived goes.

    Raises:
        SchemaVersionError: the log has effects and the downgrade would drop them: history is not to be lost.
        StoreUnavailableError: as ``upgrade``, or something that no projection made stands in the way.
    """
    await _prepare(url, revision)
    await _as_owner(url, lambda connection: command.downgrade(_config(connection), revision))


def _made() -> list[str]:
    """Return the statements that make all but the tables."""
    return [
        *verification.statements(),
        *guards.statements("log"),
        *guards.statements("tables"),
        *analytics.statements(),
    ]


async def create_fresh(url: str) -> None:
    """Make the newest schema without the migrations, for comparison with what they make."""

    def create(connection: SyncConnection) -> None:
        METADATA.create_all(connection)
        for statement in _made():
            connection.exec_driver_sql(statement)
        command.stamp(_config(connection), "head")
        for statement in guards.statements("version_table"):
            connection.exec_driver_sql(statement)

    await _prepare(url, "head")
    await _as_owner(url, create)
    await _bound_readers(url)
    await of_kinds.apply(url)
