"""Comparing the views that people query with what this program makes.

The service's role owns them, for they follow the builds: so whoever works as that role may put others in their place,
which leave a world out, say. What a view should be is not taken from anywhere: it is made beside it, for one
transaction that is rolled back, and PostgreSQL's own texts of both are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import asyncpg
from worldledger_projections.base import ANALYTICS, Projection
from worldledger_projections.tables import Table, further_views, place

from worldledger_service.database.catalogue import compare
from worldledger_service.database.mending import differences, step
from worldledger_service.database.odd_rows import IS_BUILD

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

#: What PostgreSQL says of a schema, table or column that is missing.
LACKING: Final = (asyncpg.InvalidSchemaNameError, asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError)
_MADE: Final = "pg_temp.made_by_this_program"
_RESTORED: Final = "pg_temp.restored_from_a_dump"
_TABLE_MADE: Final = "table_made_by_this_program"
LIVE_BUILD: Final = f"""
select build, version, paused from projection_builds where projection = $1 and status = 'live' and {IS_BUILD}
"""
#: Which of the relations $1, qualified, are there.
THERE: Final = "select place from unnest($1::text[]) as n (place) where to_regclass(place) is not null"
#: Whether a place ($1) is a view, and one as the engine leaves views, without options, rules, triggers and defaults; no
#: row where nothing is there.
IS_VIEW: Final = """
select relkind = 'v' as is_view,
       case relkind when 'm' then 'a materialized view' when 'S' then 'a sequence' when 'f' then 'a foreign table'
                    else 'a table' end as kind,
       reloptions is null
       and not exists (select from pg_rewrite where ev_class = c.oid and rulename <> '_RETURN')
       and not exists (select from pg_trigger where tgrelid = c.oid and not tgisinternal)
       and not exists (select from pg_attrdef where adrelid = c.oid) as is_plain
from pg_class c where oid = to_regclass($1)
"""
#: Whether a place ($1) is a table that keeps the rows that are written, also in a crash, and shows them to whoever may
#: read it.
IS_PLAIN_TABLE: Final = """
select exists (select from pg_class c where c.oid = to_regclass($1) and c.relkind = 'r' and not c.relrowsecurity
               and c.relpersistence = 'p'
               and not exists (select from pg_rewrite where ev_class = c.oid)
               and not exists (select from pg_trigger where tgrelid = c.oid and not tgisinternal)
               and not exists (select from pg_inherits where inhparent = c.oid or inhrelid = c.oid))
"""
#: The columns, constraints and indexes of a table ($1), each with the number of it, the name of a constraint or index
#: left out. Whether a program that feeds or reads the table needs it is in ``is_bound``: not so an index of its own.
#: PostgreSQL 18 lists NOT NULL as constraints too; they stand with the columns here.
PARTS: Final = """
with parts as (
    select format('column %I %s%s%s%s', attname, format_type(atttypid, atttypmod),
                  (select format(' collate %I', collname) from pg_collation c
                   where c.oid = attcollation and attcollation <> t.typcollation),
                  case when attnotnull then ' not null' end,
                  case when atthasdef or attidentity <> '' then ' with a value of its own' end) as what,
           true as is_bound
    from pg_attribute join pg_type t on t.oid = atttypid
    where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
    union all
    select pg_get_constraintdef(oid) || case when convalidated then '' else ' not valid' end, true
    from pg_constraint where conrelid = to_regclass($1) and contype not in ('n', 't')
    union all
    select case when indisunique then 'unique ' else '' end || 'index'
               || substring(pg_get_indexdef(indexrelid) from ' USING .*')
               || case when indisvalid and indisready and indislive then '' else ' not valid' end, indisunique
    from pg_index where indrelid = to_regclass($1) and not indisprimary
)
select what, is_bound, count(*) as many from parts group by 1, 2 order by 1
"""
SAME_VIEW: Final = "select pg_get_viewdef(to_regclass($1)) = pg_get_viewdef(to_regclass($2))"
#: The views of the schemas that the service's role owns.
VIEWS_OF_SERVICE: Final = """
select format('%s."%s"', n.nspname, replace(c.relname, '"', '""')) as place
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('projections', 'analytics') and c.relkind in ('v', 'm')
  and pg_get_userbyid(c.relowner) = 'worldledger_service'
order by 1
"""
#: What the service's role may make in the schemas that views look names up in, and what nothing of ours is: where the
#: types of its arguments match exactly it goes before PostgreSQL's own, and the text of a view does not show which.
PLANTED: Final = """
select case prokind when 'a' then 'aggregate' else 'function' end || ' ' || p.oid::regprocedure as what
from pg_proc p
where pronamespace = 'projections'::regnamespace
   or pronamespace in ('public'::regnamespace, 'analytics'::regnamespace)
      and pg_get_userbyid(proowner) = 'worldledger_service'
union all
select 'operator ' || o.oid::regoperator from pg_operator o
where oprnamespace in ('public'::regnamespace, 'projections'::regnamespace, 'analytics'::regnamespace)
  and (oprnamespace <> 'public'::regnamespace or pg_get_userbyid(oprowner) = 'worldledger_service')
union all
select 'type ' || t.oid::regtype from pg_type t left join pg_class c on c.oid = t.typrelid
where typnamespace in ('projections'::regnamespace, 'analytics'::regnamespace) and typelem = 0
  and (typtype <> 'c' or c.relkind = 'c')
order by 1
"""
#: What only a superuser can have put where every statement of the program looks names up first, or has made to run
#: beside its statements. PostgreSQL's own has lower oids; what belongs to an extension is its administrator's choice.
FOREIGN: Final = """
with there as (
    select 'pg_proc'::regclass as classid, oid, case prokind when 'a' then 'aggregate' else 'function' end as kind,
           'pg_catalog.' || oid::regprocedure as name, 'statements may call it' as how
    from pg_proc where pronamespace = 'pg_catalog'::regnamespace
    union all
    select 'pg_operator'::regclass, oid, 'operator', format('%s.%s', oprnamespace::regnamespace, regexp_replace(
               oid::regoperator::text, '^public[.]', '')), 'statements may call it'
    from pg_operator
    where oprnamespace = 'pg_catalog'::regnamespace
       or oprnamespace = 'public'::regnamespace and pg_get_userbyid(oprowner) <> 'worldledger_service'
    union all
    select 'pg_type'::regclass, oid, 'type', 'pg_catalog.' || quote_ident(typname), 'statements may name it'
    from pg_type where typnamespace = 'pg_catalog'::regnamespace and typelem = 0 and typrelid = 0
    union all
    select 'pg_class'::regclass, oid, 'relation', 'pg_catalog.' || quote_ident(relname),
           case relkind when 'r' then 'table' when 'v' then 'view' when 'm' then 'materialized view' else 'table' end
           || ', statements may read it instead of the program''s; nothing else can be compared before it is gone'
    from pg_class where relnamespace = 'pg_catalog'::regnamespace and relkind in ('r', 'v', 'm', 'p', 'f')
    union all
    select 'pg_cast'::regclass, oid, 'cast', format('(%s as %s)', castsource::regtype, casttarget::regtype),
           'statements may call it'
    from pg_cast where castsource < 16384 and casttarget < 16384
    union all
    select 'pg_event_trigger'::regclass, oid, 'event trigger', quote_ident(evtname),
           format('it runs %s at %s', evtfoid::regprocedure, evtevent)
    from pg_event_trigger where evtenabled <> 'D'
)
select format('%s %s: unexpected: %s', kind, name, how) as finding from there
where oid >= 16384
  and not exists (select from pg_depend d where d.classid = there.classid and d.objid = there.oid and d.deptype = 'e')
order by 1
"""
#: Whose the relations in schema projections are, and the views of projections in schema analytics ($1); what else is in
#: the others is in the catalogue, with its owners.
OWNERS: Final = """
select format('owner of %s.%I: %s', nspname, relname, relowner::regrole) as owner,
       format('owner of %s.%I: worldledger_service', nspname, relname) as wanted
from pg_class c join pg_namespace n on n.oid = relnamespace
where (nspname = 'projections' and relkind in ('r', 'v', 'm', 'p', 'f', 'S')
       or nspname = 'analytics' and relkind = 'v' and relname = any ($1))
  and not exists (select from pg_depend d
                  where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'e', 'i'))
"""
#: The relations that the service's role owns in the schemas of projections.
_OF_SERVICE: Final = """
with ours as (
    select c.oid, relowner, relacl, nspname, format('%s.%I', nspname, relname) as name
    from pg_class c join pg_namespace n on n.oid = relnamespace
    where nspname in ('projections', 'analytics') and relkind in ('r', 'v', 'm', 'p', 'f')
      and pg_get_userbyid(relowner) = 'worldledger_service'
)"""
#: Who may do what with them, as the lines of the catalogue: the owner everything (MAINTAIN came with PostgreSQL 17).
PRIVILEGES: Final = f"""{_OF_SERVICE}, granted as (
    select 'relation ' || name as what, relowner, acl.* from ours,
           aclexplode(coalesce(relacl, acldefault('r', relowner))) as acl
    union all
    select format('column %s.%I', name, attname), relowner, acl.*
    from ours join pg_attribute on attrelid = ours.oid and not attisdropped, aclexplode(attacl) as acl
)
select format('privilege on %s: %s may %s%s', what,
              case when grantee = 0 then 'everybody' else grantee::regrole::text end,
              privilege_type, case when is_grantable and grantee <> relowner then ' and grant it' end)
from granted where not (privilege_type = 'MAINTAIN' and grantee = relowner)
"""
#: The same as this program grants it: besides the owner's, readers read what is in analytics.
WANTED_PRIVILEGES: Final = f"""{_OF_SERVICE}
select format('privilege on relation %s: %s may %s', name, grantee::regrole, privilege_type)
from ours, aclexplode(acldefault('r', relowner)) where privilege_type <> 'MAINTAIN'
union all
select format('privilege on relation %s: %s may SELECT', name, reader)
from ours, unnest(array['worldledger_reader', 'worldledger_guest']) as r (reader) where nspname = 'analytics'
"""


class ViewFinding(NamedTuple):
    """A view, or a build's table, that is not as this program makes it; ``name`` is the projection, if it has one.

    ``lacks`` is PostgreSQL's error if a view could not be made for comparison, because what it is made from is missing.
    """

    name: str | None
    place: str
    what: str
    lacks: asyncpg.PostgresError | None = None


async def view_findings(connection: Connection, projections: Iterable[Projection]) -> list[ViewFinding]:
    """Compare the views of projections, and the tables that they read; to be run as the service's role.

    Views of builds of another version than this program's cannot be compared, and are found, too.
    """
    work = connection.transaction()
    await work.start()
    try:
        await connection.execute("set local search_path = projections, public")
        found: list[ViewFinding] = []
        for projection in projections:
            found += await _of_projection(connection, projection)
        return found
    finally:
        await work.rollback()


async def planted(connection: Connection) -> list[str]:
    """Return the functions, operators and types with which a view can be made to mean something else than it says.

    A text such as ``lead(turn)`` is resolved by the types of its arguments: what stands in a schema that the view looks
    in, and matches them exactly, goes before PostgreSQL's own.
    """
    return [row["what"] for row in await connection.fetch(PLANTED)]


async def foreign(connection: Connection) -> list[str]:
    """Say what a superuser has put beside PostgreSQL's own, where it changes what the program's statements do."""
    return [row["finding"] for row in await connection.fetch(FOREIGN)]


async def strangers(connection: Connection, projections: Iterable[Projection]) -> list[str]:
    """Return the views that the service's role owns and that belong to none of these projections."""
    known = {view for projection in projections for view in _places(projection)}
    return [row["place"] for row in await connection.fetch(VIEWS_OF_SERVICE) if row["place"] not in known]


def views_for_users(projections: Iterable[Projection]) -> frozenset[str]:
    """Return the names of the views of projections in schema analytics."""
    views = (view for projection in projections for view in further_views(projection))
    return frozenset(view.name for view in views if view.schema == ANALYTICS)


async def privilege_findings(connection: Connection, views: Collection[str]) -> list[str]:
    """Say which privileges on the tables and views of projections are missing, and what is not the program's.

    That is privileges, and tables and views that another role owns than the service's: in schema projections, and
    those ``views`` (`views_for_users`) in schema analytics.
    """
    owners = await connection.fetch(OWNERS, list(views))
    found = compare([row["owner"] for row in owners], [row["wanted"] for row in owners])
    return [*found, *compare(*await _privileges(connection))]


async def grant_again(connection: Connection) -> None:
    """Grant the privileges on the tables and views of projections that are missing; to be run as the service's role."""
    for difference in differences(*await _privileges(connection)):
        if difference.wanted is not None:
            await connection.execute(step(difference).sql)


async def _privileges(connection: Connection) -> tuple[list[str], list[str]]:
    there, wanted = [[row[0] for row in await connection.fetch(query)] for query in (PRIVILEGES, WANTED_PRIVILEGES)]
    return there, wanted


def _places(projection: Projection) -> list[str]:
    return [place(projection.name), *(place(view.name, view.schema) for view in further_views(projection))]


async def _of_projection(connection: Connection, projection: Projection) -> list[ViewFinding]:
    name = projection.name
    build = await connection.fetchrow(LIVE_BUILD, name)
    if build is None or build["version"] != projection.version:
        there = await connection.fetch(THERE, _places(projection))
        version = "no build is live" if build is None else f"the live build has version {build['version']}"
        what = f"cannot be compared: {version}, this program makes version {projection.version}"
        return [ViewFinding(name, row["place"], what) for row in there]
    table = Table(projection, build["build"])
    found: list[ViewFinding] = []
    mended = f"`worldledger projections rebuild {name}` makes it anew"
    if not await connection.fetchval(IS_PLAIN_TABLE, table.place):
        found.append(ViewFinding(name, table.place, "is no table that keeps all of its rows and shows them"))
    elif differing := await _differing(connection, table):
        found.append(
            ViewFinding(name, table.place, f"the table is not as this program makes it: {differing}; {mended}")
        )
    for view, select, upon in table.selects():
        stands = await connection.fetchrow(IS_VIEW, view)
        missing = {*upon} - {row["place"] for row in await connection.fetch(THERE, upon)}
        if stands is None:
            if not missing:
                found.append(ViewFinding(name, view, "is missing"))
        elif not stands["is_view"]:
            found.append(ViewFinding(name, view, f"is not the view that this program makes: it is {stands['kind']}"))
        else:
            lacks: asyncpg.PostgresError | None = None
            try:
                is_as_made = stands["is_plain"] and await _is_as_made(connection, view, select)
            except LACKING as error:
                is_as_made, lacks = False, None if missing else error
            if not is_as_made:
                found.append(ViewFinding(name, view, f"is not the view that this program makes; {mended}", lacks))
    now = await connection.fetchrow(LIVE_BUILD, name) if found else build
    # Of a build that was replaced meanwhile, the views are those of the next one.
    return found if now is not None and now["build"] == table.build else await _of_projection(connection, projection)


async def _differing(connection: Connection, table: Table) -> str:
    """Describe how a build's table differs from the one that this program makes; an empty text if it does not."""
    inner = connection.transaction()
    await inner.start()
    try:
        for statement in table.temporary(_TABLE_MADE):
            await connection.execute(statement)
        wanted = {row["what"]: row["many"] for row in await connection.fetch(PARTS, f"pg_temp.{_TABLE_MADE}")}
        there = {row["what"]: row for row in await connection.fetch(PARTS, table.place)}
    finally:
        await inner.rollback()
    missing = [what for what, many in wanted.items() if what not in there or there[what]["many"] < many]
    added = [what for what, row in there.items() if row["is_bound"] and row["many"] > wanted.get(what, 0)]
    return ", ".join([*(f"{what} is missing" for what in missing), *(f"{what} is unexpected" for what in added)])


async def _is_as_made(connection: Connection, view: str, select: str) -> bool:
    inner = connection.transaction()
    await inner.start()
    try:
        await connection.execute(f"create temp view {_MADE.split('.')[1]} as {select}")
        if await connection.fetchval(SAME_VIEW, view, _MADE):
            return True
        # A dump has a view as PostgreSQL prints it; made from that, it may be printed in another way.
        printed = await connection.fetchval("select pg_get_viewdef(to_regclass($1))", _MADE)
        await connection.execute(f"create temp view {_RESTORED.split('.')[1]} as {printed}")
        return bool(await connection.fetchval(SAME_VIEW, view, _RESTORED))
    finally:
        await inner.rollback()
