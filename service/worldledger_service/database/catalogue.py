r"""What a database's schema really is, read from the catalogue, and how it differs from what it should be.

Migrations, ``create_all`` and Alembic's own comparison see tables and columns. They miss what protects the log:
triggers and whether they are enabled, privileges, owners, functions, rules. ``catalogue`` lists all of that, one
line for each fact, the same on every supported version of PostgreSQL; ``schema.py`` compares the list with the file
``catalogue.txt``, which travels with the package and is written by

    python -m worldledger_service.database.catalogue postgresql://…/A_FRESHLY_MIGRATED_DATABASE \
        > service/worldledger_service/database/catalogue.txt

(a test fails when it is not up to date). The views that kinds of worlds bring are no part of it: ``views_of_kind``
lists those of one kind (`analytics.of_kinds`).
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from worldledger_service.database.engine import connect_one
from worldledger_service.database.guards import HAS_LIMITED_GRANTOR

if TYPE_CHECKING:
    from worldledger_service.database.engine import Connection

_SNAPSHOT: Final = Path(__file__).with_name("catalogue.txt")

#: Each query gives lines "what: how it is". Objects that belong to an extension are left out. What is in schema
#: analytics and the service's comes and goes with the projections, like the schema projections.
_OURS: Final = """
with ours as (
    select c.*, c.oid::regclass::text as name from pg_class c
    where (c.relnamespace = 'public'::regnamespace
           or c.relnamespace = to_regnamespace('analytics')
              and c.relowner::regrole::text <> 'worldledger_service')
      and not exists (select from pg_depend d
                      where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
)"""

_OTHERS: Final = """, functions as (
    select p.*, p.oid::regprocedure::text as signature
    from pg_proc p
    where (p.pronamespace = 'public'::regnamespace or p.pronamespace = to_regnamespace('analytics'))
      and not exists (select from pg_depend d
                      where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
), types as (
    select t.* from pg_type t
    where t.typnamespace = 'public'::regnamespace and t.typelem = 0
      and (t.typrelid = 0 or exists (select from ours where ours.oid = t.typrelid and ours.relkind = 'c'))
      and not exists (select from pg_depend d
                      where d.classid = 'pg_type'::regclass and d.objid = t.oid and d.deptype = 'e')
), roles as (
    select r.* from pg_roles r
    where r.rolname in ('worldledger_owner', 'worldledger_service', 'worldledger_reader', 'worldledger_guest')
)
"""

_RELATIONS: Final = """
select format('relation %s: %s, owner %s, %s, options %s, row security %s, replica identity %s', name,
              case relkind when 'r' then 'table' when 'v' then 'view' when 'c' then 'type' else relkind::text end,
              relowner::regrole, case relpersistence when 'p' then 'permanent' else 'not permanent' end,
              coalesce(reloptions::text, '{}'), relrowsecurity, relreplident)
from ours where relkind not in ('i', 'I')
"""

_COLUMNS: Final = """
select format('column %s.%s: %s%s%s%s%s%s', ours.name, attname, format_type(atttypid, atttypmod),
              case when attcollation <> typcollation
                   then (select ' collate ' || quote_ident(collname) from pg_collation where oid = attcollation) end,
              case when attnotnull then ' not null' end,
              ' default ' || pg_get_expr(adbin, adrelid),
              case when attidentity <> '' or attgenerated <> ''
                   then format(' identity %L generated %L', attidentity, attgenerated) end,
              case when attstorage <> typstorage or attcompression <> ''
                   then format(' storage %s compression %L', attstorage, attcompression) end)
from ours
join pg_attribute on attrelid = ours.oid and attnum > 0 and not attisdropped
join pg_type on pg_type.oid = atttypid
left join pg_attrdef on adrelid = attrelid and adnum = attnum
where relkind not in ('i', 'I')
"""

#: The tables and views in schema projections come and go with the builds, and are not looked at.
_SCHEMAS: Final = """
select format('schema %s: owner %s', nspname, nspowner::regrole) from pg_namespace
where nspname in ('projections', 'analytics')
"""

#: PostgreSQL 18 lists NOT NULL as constraints too; they stand with the columns here, unless rows may violate them.
#: Those of triggers are listed with these.
_CONSTRAINTS: Final = """
select format('constraint %s on %s: %s%s', conname, ours.name, pg_get_constraintdef(pg_constraint.oid),
              case when not convalidated then ' not valid' end)
from ours join pg_constraint on conrelid = ours.oid where contype <> 't' and (contype <> 'n' or not convalidated)
"""

_INDEXES: Final = """
select format('index %s: %s%s', ours.name, pg_get_indexdef(ours.oid),
              case when not (indisvalid and indisready and indislive) then ' not valid' end)
from ours join pg_index on indexrelid = ours.oid
"""

_TRIGGERS: Final = """
select format('trigger %s on %s: %s, %s', tgname, ours.name, pg_get_triggerdef(pg_trigger.oid),
              case tgenabled when 'A' then 'always' when 'O' then 'not in replicas' when 'R' then 'only in replicas'
                             else 'disabled' end)
from ours join pg_trigger on tgrelid = ours.oid where not tgisinternal
union all
select format('rule %s on %s: %s', rulename, ours.name, pg_get_ruledef(pg_rewrite.oid))
from ours join pg_rewrite on ev_class = ours.oid where rulename <> '_RETURN'
union all
select format('policy %s on %s: %s', polname, ours.name, polcmd)
from ours join pg_policy on polrelid = ours.oid
union all
select format('inheritance: %s from %s', inhrelid::regclass, inhparent::regclass)
from pg_inherits where inhparent in (select oid from ours) or inhrelid in (select oid from ours where relkind <> 'i')
"""

#: Before PostgreSQL 16 a view over one relation names it before each column: "linked", "intended" and "sides". A view
#: of values that was restored from a dump is printed with another blank.
_CODE: Final = r"""
select format('view %s: %s', name,
              replace(regexp_replace(regexp_replace(pg_get_viewdef(oid), '\y(linked|intended|sides)\.', '', 'g'),
                                     '\s+', ' ', 'g'), '( VALUES', '(VALUES'))
from ours where relkind in ('v', 'm')
union all
select format('function %s: takes %s, returns %s, %s, %s, %s%s, parallel %s, owner %s, settings %s, %s', signature,
              pg_get_function_arguments(functions.oid), pg_get_function_result(functions.oid), lanname,
              case provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
              case when prosecdef then 'security definer' else 'security invoker' end,
              case when proisstrict then ', strict' end, proparallel, proowner::regrole,
              coalesce(proconfig::text, '{}'),
              replace(coalesce(pg_get_function_sqlbody(functions.oid), prosrc), E'\n', '\n'))
from functions join pg_language on pg_language.oid = prolang
union all
select format('type %s: %s, owner %s', quote_ident(typname), typtype, typowner::regrole) from types
"""

#: An owner's own MAINTAIN came with PostgreSQL 17. USAGE of the schemas may be given to anybody.
_PRIVILEGES: Final = """
, granted as (
    select 'relation ' || name as what, relowner as owner, acl.* from ours,
           aclexplode(coalesce(relacl, acldefault('r', relowner))) as acl
    where relkind in ('r', 'v', 'm', 'p', 'f')
      and (relnamespace = 'public'::regnamespace or grantee <> relowner)  -- nobody is in doubt about a view's owner
    union all
    select format('column %s.%s', name, attname), relowner, acl.*
    from ours join pg_attribute on attrelid = ours.oid and attacl is not null and not attisdropped,
         aclexplode(attacl) as acl
    union all
    select 'function ' || signature, proowner, acl.*
    from functions, aclexplode(coalesce(proacl, acldefault('f', proowner))) as acl
    union all
    select 'type ' || quote_ident(typname), typowner, acl.*
    from types, aclexplode(coalesce(typacl, acldefault('T', typowner))) as acl
    union all
    select 'schema ' || nspname, nspowner, acl.*
    from pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) as acl
    where (nspname in ('projections', 'analytics') or nspname = 'public' and grantee <> nspowner)
      and (privilege_type <> 'USAGE' or grantee in (select oid from roles))
)
select format('privilege on %s: %s may %s%s', what,
              case when grantee = 0 then 'everybody' else grantee::regrole::text end,
              privilege_type, case when is_grantable and grantee <> owner then ' and grant it' end)
from granted where not (privilege_type = 'MAINTAIN' and grantee = owner)
union all
select format('default privileges of %s%s on %s: %s may %s%s%s', defaclrole::regrole, ' in schema ' || nspname,
              case defaclobjtype when 'r' then 'relations' when 'S' then 'sequences' when 'f' then 'functions'
                                 when 'T' then 'types' when 'n' then 'schemas' when 'L' then 'large objects'
                                 else defaclobjtype::text end,
              case when grantee = 0 then 'everybody' else grantee::regrole::text end,
              lacks, privilege_type, case when is_grantable then ' and grant it' end)
from pg_default_acl left join pg_namespace on pg_namespace.oid = defaclnamespace
cross join lateral (  -- those for all schemas stand in the place of PostgreSQL's usual ones, those for one beside them
    select case defaclnamespace when 0 then acldefault(
        case defaclobjtype when 'S' then 's' else defaclobjtype end, defaclrole) end as usual
) as u
cross join lateral (
    (select null as lacks, grantee, privilege_type, is_grantable from aclexplode(defaclacl)
     except select null, grantee, privilege_type, is_grantable from aclexplode(usual))
    union all
    (select 'not ', grantee, privilege_type, is_grantable from aclexplode(usual)
     except select 'not ', grantee, privilege_type, is_grantable from aclexplode(defaclacl))
) as differing
where (defaclnamespace = 0 or nspname in ('public', 'projections', 'analytics'))
  and defaclrole in (select oid from roles)
"""

#: Objects with lower numbers are PostgreSQL's own, five thousand of them with a comment.
_COMMENTS: Final = r"""
select format('comment on %s %s: %s', named.type,
              regexp_replace(named.identity, '(public|pg_catalog)\.', '', 'g'), description)
from pg_description, pg_identify_object(classoid, objoid, objsubid) as named
where objoid >= 16384
  and (named.identity ~ '\ypublic\.' or (named.type = 'schema' and named.identity in ('projections', 'analytics'))
       or (named.identity ~ '^analytics\.' and not exists (
           select from pg_class c
           where classoid = 'pg_class'::regclass and c.oid = objoid
             and c.relowner::regrole::text = 'worldledger_service')))
  and not exists (select from pg_depend d where d.classid = classoid and d.objid = objoid and d.deptype = 'e')
union all
select format('comment on role %s: %s', rolname, shobj_description(oid, 'pg_authid')) from roles
"""

#: An administrator may let people log in as the reader. Its other settings are theirs to choose; that it writes nothing
#: unless it asks to is not.
_ROLES: Final = f"""
select format('role %s: %ssuperuser %s, createrole %s, createdb %s, replication %s, bypassrls %s', rolname,
              case when rolname <> 'worldledger_reader' then format('login %s, ', rolcanlogin) end,
              rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls)
from roles
union all
select format('setting of role %s%s: %s', rolname, place, setting)
from roles join pg_db_role_setting on setrole = roles.oid, unnest(setconfig) as s (setting),
     lateral (select case when setdatabase <> 0 then format(' in database %I', current_database()) end) as p (place)
where starts_with(setting, 'default_transaction_read_only=')
  and (setdatabase = 0 or rolname <> 'worldledger_reader'
       and setdatabase = (select oid from pg_database where datname = current_database()))
union all
-- From PostgreSQL 16 on a role may be a member by several grants, and each is revoked by itself.
select format('membership: %s in %s%s', rolname, roleid::regrole,
              case when {HAS_LIMITED_GRANTOR} then format(', granted by %s', grantor::regrole) end)
from roles join pg_auth_members on member = roles.oid
"""

_QUERIES: Final = (
    _RELATIONS,
    _COLUMNS,
    _SCHEMAS,
    _CONSTRAINTS,
    _INDEXES,
    _TRIGGERS,
    _CODE,
    _PRIVILEGES,
    _COMMENTS,
    _ROLES,
)

#: The views of one kind, $1 their names: as they are, and as its files make them, temporarily.
_LIVE, _MADE = (
    f"""
with ours as (
    select c.*, 'analytics.' || quote_ident(relname) as name from pg_class c
    where relnamespace = {place} and relname = any ($1::text[])
)"""
    for place in ("'analytics'::regnamespace", "pg_my_temp_schema()")
)

_COMMENTS_OF_VIEWS: Final = """
select format('comment on view %s: %s', name, obj_description(oid, 'pg_class')) from ours
where obj_description(oid, 'pg_class') is not null
union all
select format('comment on view column %s.%s: %s', name, quote_ident(attname), col_description(attrelid, attnum))
from ours join pg_attribute on attrelid = ours.oid and attnum > 0 where col_description(attrelid, attnum) is not null
"""
_QUERIES_OF_VIEWS: Final = (_RELATIONS, _COLUMNS, _TRIGGERS, _CODE, _PRIVILEGES, _COMMENTS_OF_VIEWS)

_HAS_KINDS: Final = """
select exists (select from pg_attribute
               where attrelid = to_regclass('public.kind_analytics') and attname = 'views' and not attisdropped)
"""
_VIEWS_OF_KINDS: Final = "select quote_ident(unnest(views)) from public.kind_analytics"
#: The relation of the schema analytics that a line is about.
_ABOUT: Final = re.compile(r'(?!(?:privilege on |comment on )?function ).*?\banalytics\.(\w+|"(?:[^"]|"")+")')


async def catalogue(connection: Connection, others: Collection[str] = ()) -> list[str]:
    """Describe the schemas public and analytics, the roles, and schema projections itself: sorted "what: how it is".

    Without the views that are noted as those of kinds, and ``others`` of the schema analytics, unless they have the
    name of one of the program's own.
    """
    async with connection.transaction(readonly=True):
        # Definitions name objects with their schema unless it is on the path. What this reads must be PostgreSQL's own
        # catalogue, and not what somebody has put beside the tables under its names.
        await connection.execute("set local search_path = pg_catalog, public")
        lines = sorted([row[0] for query in _QUERIES for row in await connection.fetch(_OURS + _OTHERS + query)])
        has_kinds = await connection.fetchval(_HAS_KINDS)
        noted = {row[0] for row in await connection.fetch(_VIEWS_OF_KINDS)} if has_kinds else set()
    noted |= set(others)
    return [line for line in lines if _about(line) not in noted - _own_views()] if noted else lines


async def views_of_kind(connection: Connection, views: Collection[str], *, made: bool = False) -> list[str]:
    """Describe views of the schema analytics as `catalogue` does: sorted; the transaction's search path is changed.

    With ``made``, the temporary views of these names instead, as if they stood there.
    """
    await connection.execute("set local search_path = pg_catalog")
    beginning = _MADE if made else _LIVE
    lines = [
        row[0]
        for query in _QUERIES_OF_VIEWS
        for row in await connection.fetch(beginning + _OTHERS + query, list(views))
    ]
    lines = [line for line in lines if _about(line) is not None]
    if made:
        lines = [line.replace("not permanent", "permanent", 1) for line in lines]
    # A view that is made from another one of the kind names it with its schema, a temporary one does not.
    texts = [(what, text.replace("analytics.", "")) for what, _, text in (line.partition(": ") for line in lines)]
    return sorted(f"{what}: {text}" for what, text in texts)


def _about(line: str) -> str | None:
    found = _ABOUT.match(line.partition(": ")[0])
    return None if found is None else found[1]


@cache
def _own_views() -> frozenset[str | None]:
    """Return the names of the program's own views in the schema analytics."""
    return frozenset(_about(line) for line in expected() if line.startswith("relation "))


def expected() -> list[str]:
    """Return the catalogue that this version of the program makes."""
    return _SNAPSHOT.read_text(encoding="utf-8").splitlines()


def compare(found: list[str], wanted: list[str]) -> list[str]:
    """Say how one catalogue differs from the wanted one, a finding for each line."""
    missing, extra = set(wanted) - set(found), set(found) - set(wanted)
    replaced = {line.split(": ", 1)[0] for line in missing} & {line.split(": ", 1)[0] for line in extra}
    findings = []
    for verdict, lines in (("missing", missing), ("unexpected", extra)):
        for line in lines:
            what, _, how = line.partition(": ")
            changed = what in replaced and not what.startswith(("privilege", "default privileges", "membership"))
            label = {"missing": "should be", "unexpected": "but is"}[verdict] if changed else verdict
            text = how if len(how) <= 300 else f"{how[:300]}…"
            findings.append((what, not changed or verdict == "unexpected", f"{what}: {label}: {text}"))
    return [finding for _, _, finding in sorted(findings)]


async def _print(url: str) -> None:
    connection = await connect_one(url)
    try:
        sys.stdout.write("".join(f"{line}\n" for line in await catalogue(connection)))
    finally:
        await connection.close()


if __name__ == "__main__":
    asyncio.run(_print(sys.argv[1]))
