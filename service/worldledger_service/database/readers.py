"""What a reader's login may do besides reading, and how it is taken away.

A login has settings (read-only, timeouts: `guards.roles`), but whoever is logged in may set them otherwise. So they
are no wall: what a reader must not do has to be refused by privileges. PostgreSQL gives three things to everybody that
change something or hold somebody up: temporary tables, large objects, and advisory locks, for one of which migrations
wait. The first is the database owner's to take away, the others belong to the superuser: what could not be taken is
listed by ``worldledger db check``.

What nobody can take away, not even a superuser, is that a session lifts its own ``statement_timeout`` and
``idle_in_transaction_session_timeout``: PostgreSQL checks no privilege for these, nor for preparing a transaction,
which outlives its session. `beyond_privileges` says who could, and who has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from worldledger_service.database.embedded.cluster import CLUSTER_NAME
from worldledger_service.database.guards import (
    GUEST_ROLE,
    HAS_LIMITED_GRANTOR,
    OWNER_ROLE,
    READER_ROLE,
    READER_SESSIONS,
    READER_SETTINGS,
    SERVICE_ROLE,
    statements,
)
from worldledger_service.database.mending import runnable

if TYPE_CHECKING:
    from worldledger_service.database.engine import Connection

#: Functions of PostgreSQL that everybody may call, by what they are for. Nobody loses ``pg_advisory_unlock_all``, which
#: drivers call when they clean up.
_FUNCTIONS: Final = {
    "large objects": (
        "lo_creat",
        "lo_create",
        "lo_from_bytea",
        "lo_open",
        "lo_put",
        "lo_truncate",
        "lo_truncate64",
        "lo_unlink",
        "lowrite",
    ),
    "advisory locks": (
        "pg_advisory_lock",
        "pg_advisory_lock_shared",
        "pg_advisory_xact_lock",
        "pg_advisory_xact_lock_shared",
        "pg_try_advisory_lock",
        "pg_try_advisory_lock_shared",
        "pg_try_advisory_xact_lock",
        "pg_try_advisory_xact_lock_shared",
    ),
    "messages in the write-ahead log": ("pg_logical_emit_message",),
}

#: What everybody may do all the same, and so a reader: which kind of thing ($1 the kinds, $2 the names of functions).
_LEFT: Final = """
select u.kind from unnest($1::text[], $2::text[]) with ordinality as u (kind, name, n)
join pg_catalog.pg_proc p on p.proname = u.name and p.pronamespace = 'pg_catalog'::regnamespace
where has_function_privilege('public', p.oid, 'execute')
group by u.kind order by min(u.n)
"""
#: What readers were granted by name, which is left to people to revoke: the functions of each kind.
_GRANTED: Final = """
select u.kind, string_agg(distinct p.oid::regprocedure::text, ', ') as functions
from unnest($1::text[], $2::text[]) with ordinality as u (kind, name, n)
join pg_catalog.pg_proc p on p.proname = u.name and p.pronamespace = 'pg_catalog'::regnamespace
cross join lateral aclexplode(p.proacl) as acl
where acl.grantee in ('worldledger_reader'::regrole, 'worldledger_guest'::regrole)
group by u.kind order by min(u.n)
"""
_UNLIMITED: Final = "select rolconnlimit = -1 from pg_catalog.pg_roles where rolname = 'worldledger_reader'"
_TEMPORARY: Final = "select has_database_privilege('public', current_database(), 'temporary')"
#: What they were granted by name on databases: temporary tables here, and connections to others of the embedded server.
_GRANTED_DATABASES: Final = f"""
select quote_ident(datname) as name, privilege_type as privilege
from pg_catalog.pg_database cross join lateral aclexplode(datacl) as acl
where acl.grantee in ('worldledger_reader'::regrole, 'worldledger_guest'::regrole)
  and (datname = current_database() and privilege_type = 'TEMPORARY'
       or privilege_type = 'CONNECT' and datname <> current_database() and datname in ('postgres', 'template1')
          and current_setting('cluster_name') = '{CLUSTER_NAME}')
group by 1, 2 order by 1, 2
"""
#: Where readers may make tables of their own: in this database, or in a schema that is none of the program's (the
#: privileges on those are in the catalogue).
_CREATING: Final = """
select format('database %I', current_database()) as place
where has_database_privilege('worldledger_reader', current_database(), 'create')
   or has_database_privilege('worldledger_guest', current_database(), 'create')
union all
select format('schema %I', nspname) from pg_catalog.pg_namespace
where nspname !~ '^pg_' and nspname not in ('public', 'projections', 'analytics', 'information_schema')
  and (has_schema_privilege('worldledger_reader', oid, 'create')
       or has_schema_privilege('worldledger_guest', oid, 'create'))
order by 1
"""
#: The relations outside of the program's schemas (the privileges on those are compared) that readers may write to, and
#: how. Everybody may UPDATE pg_settings, which is SET. What belongs to an extension is its administrator's choice.
_WRITING: Final = """
select format('%I.%I', nspname, relname) as place, relkind = 'S' as is_sequence,
       relowner in ('worldledger_reader'::regrole, 'worldledger_guest'::regrole) as is_readers,
       string_agg(privilege, ', ' order by n) as privileges
from pg_catalog.pg_class c join pg_catalog.pg_namespace s on s.oid = relnamespace
cross join unnest(array['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'USAGE']) with ordinality as p (privilege, n)
where relkind in ('r', 'v', 'p', 'f', 'S') and c.oid <> 'pg_catalog.pg_settings'::regclass
  and nspname not in ('public', 'analytics')
  and not (nspname = 'projections' and relowner = 'worldledger_service'::regrole)
  and not exists (select from pg_catalog.pg_depend d
                  where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
  and exists (select from unnest(array['worldledger_reader', 'worldledger_guest']) as r (name)
              where has_schema_privilege(r.name, s.oid, 'usage')
                and case when relkind = 'S'
                         then privilege in ('UPDATE', 'USAGE') and has_sequence_privilege(r.name, c.oid, privilege)
                         when privilege in ('INSERT', 'UPDATE') then has_any_column_privilege(r.name, c.oid, privilege)
                         when privilege <> 'USAGE' then has_table_privilege(r.name, c.oid, privilege)
                    end)
group by 1, 2, 3
order by 1
"""
#: The functions and procedures outside of the program's schemas (those in it are compared) that readers may call, and
#: that do what another role may do.
_DEFINERS: Final = """
select format('%I.%I(%s)', nspname, proname, pg_get_function_identity_arguments(p.oid)) as routine,
       proowner::regrole::text as owner
from pg_catalog.pg_proc p join pg_catalog.pg_namespace s on s.oid = pronamespace
where prosecdef and prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
  and nspname not in ('public', 'projections', 'analytics')
  and proowner not in ('worldledger_reader'::regrole, 'worldledger_guest'::regrole)
  and not exists (select from pg_catalog.pg_depend d
                  where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  and exists (select from unnest(array['worldledger_reader', 'worldledger_guest']) as r (name)
              where has_schema_privilege(r.name, s.oid, 'usage') and has_function_privilege(r.name, p.oid, 'execute'))
order by 1
"""
_FROM_READERS: Final = f"FROM PUBLIC, {READER_ROLE}, {GUEST_ROLE}"
#: Settings of the server that were granted to readers, or to everybody, and how (SET, ALTER SYSTEM).
_PARAMETERS: Final = """
select quote_ident(a.parname) as name, string_agg(distinct acl.privilege_type, ', ') as privileges
from pg_catalog.pg_parameter_acl a, aclexplode(a.paracl) as acl
where acl.grantee in (0, 'worldledger_reader'::regrole, 'worldledger_guest'::regrole)
group by 1 order by 1
"""
#: The databases besides this one that PostgreSQL makes with the embedded server, and that readers may connect to.
_EMBEDDED_OTHERS: Final = f"""
select datname from pg_catalog.pg_database
where current_setting('cluster_name') = '{CLUSTER_NAME}' and datname in ('postgres', 'template1')
  and datname <> current_database() and has_database_privilege('public', oid, 'connect')
order by datname
"""


#: The condition that settings d hold in this database.
_IN_DATABASE: Final = """
d.setdatabase in (0, (select oid from pg_catalog.pg_database where datname = current_database()))
"""
#: The settings of the reader's role in this database, those for it alone first: name, value, and for which it is.
_SETTINGS: Final = f"""
select split_part(s.setting, '=', 1) as name, substr(s.setting, strpos(s.setting, '=') + 1) as value,
       case when d.setdatabase <> 0 then format(' IN DATABASE %I', current_database()) else '' end as place
from pg_catalog.pg_db_role_setting d
cross join unnest(d.setconfig) as s (setting)
where d.setrole = (select oid from pg_catalog.pg_roles where rolname = 'worldledger_reader') and {_IN_DATABASE}
order by 1, d.setdatabase desc
"""


#: The condition that a role r is a reader's, or may become one, and is no other of the program's.
_IS_READER: Final = f"""
not r.rolsuper and pg_has_role(r.oid, '{READER_ROLE}', 'member')
  and not pg_has_role(r.oid, '{SERVICE_ROLE}', 'member') and not pg_has_role(r.oid, '{OWNER_ROLE}', 'member')
"""
#: PostgreSQL's own roles whose members may do more than read and look: those of the program's roles are compared.
_POWERFUL: Final = (
    "pg_checkpoint",
    "pg_create_subscription",
    "pg_execute_server_program",
    "pg_maintain",
    "pg_read_server_files",
    "pg_signal_autovacuum_worker",
    "pg_signal_backend",
    "pg_use_reserved_connections",
    "pg_write_all_data",
    "pg_write_server_files",
)
#: The readers' logins that are members of such roles ($1), or the groups by which they are.
_POWERS: Final = f"""
select quote_ident(m.rolname) as member, p.rolname as power,
       case when {HAS_LIMITED_GRANTOR}
            then format(' GRANTED BY %s', a.grantor::regrole) else '' end as granted_by
from pg_catalog.pg_auth_members a
join pg_catalog.pg_roles p on p.oid = a.roleid join pg_catalog.pg_roles m on m.oid = a.member
where p.rolname = any ($1) and m.rolname not in ('{READER_ROLE}', '{GUEST_ROLE}')
  and exists (select from pg_catalog.pg_roles r
              where r.rolcanlogin and pg_has_role(r.oid, m.oid, 'member') and {_IS_READER})
order by 1, 2, 3
"""


#: What only a superuser may set, and `db check` itself advises for other logins.
_BOUNDS: Final = ("temp_file_limit",)


def bounds() -> str:
    """Return the statement that takes away what readers may do beyond reading, as far as the user may."""
    functions = ", ".join(f"'{name}'" for names in _FUNCTIONS.values() for name in names)
    (statement,) = statements("readers", functions=functions, embedded_others=_EMBEDDED_OTHERS)
    return statement


async def other_settings(connection: Connection) -> list[str]:
    """Return the settings of the reader's role that differ from those it is made with; the role may change any."""
    rows = await connection.fetch(_SETTINGS)
    found = {row["name"]: (row["value"], row["place"]) for row in reversed(rows)}
    lines = []
    for name, wanted in READER_SETTINGS.items():
        value, place = found.get(name, (None, ""))
        if value != wanted:
            what = "is not set" if value is None else f"is {value!r}"
            mended = runnable(f"ALTER ROLE {READER_ROLE}{place} SET {name} TO '{wanted}'")
            lines.append(f"reader: {name} {what} for the role, not {wanted!r}: {mended}")
    for name, value, place in rows:
        if name not in READER_SETTINGS and name not in _BOUNDS:
            mended = runnable(f"ALTER ROLE {READER_ROLE}{place} RESET {name}")
            lines.append(f"reader: {name} is {value!r} for the role: {mended}")
    return lines


async def beyond_reading(connection: Connection) -> list[str]:
    """Say what a reader's login may do besides reading, a line for each, and who can take it away."""
    found = []
    if await connection.fetchval(_TEMPORARY):
        what = "may make temporary tables, which fill the disk"
        found.append(f"reader: {what}: run `worldledger db upgrade` as the owner of the database")
    if await connection.fetchval(_UNLIMITED):
        what = "may have any number of sessions, and leave none to others"
        found.append(f"reader: {what}: ALTER ROLE {READER_ROLE} CONNECTION LIMIT {READER_SESSIONS}")
    for row in await connection.fetch(_CREATING):
        mended = runnable(f"REVOKE CREATE ON {row['place']} {_FROM_READERS}")
        found.append(f"reader: may make tables in the {row['place']}: {mended}")
    for row in await connection.fetch(_WRITING):
        on = f"{'SEQUENCE ' if row['is_sequence'] else ''}{row['place']}"
        mended = runnable(f"REVOKE {row['privileges']} ON {on} {_FROM_READERS}")
        if row["is_readers"]:
            mended = runnable(f"ALTER TABLE {row['place']} OWNER TO CURRENT_USER")
        found.append(f"reader: may write to {row['place']} ({row['privileges']}): {mended}")
    for row in await connection.fetch(_DEFINERS):
        mended = runnable(f"REVOKE EXECUTE ON ROUTINE {row['routine']} {_FROM_READERS}")
        found.append(f"reader: may call {row['routine']}, which does what {row['owner']} may: {mended}")
    for row in await connection.fetch(_PARAMETERS):
        mended = runnable(f"REVOKE {row['privileges']} ON PARAMETER {row['name']} {_FROM_READERS}")
        found.append(f"reader: may change the server's setting {row['name']}: {mended}")
    if others := [row["datname"] for row in await connection.fetch(_EMBEDDED_OTHERS)]:
        what = f"may connect to {' and '.join(others)} on this server, and write there"
        found.append(f"reader: {what}: run `worldledger db upgrade` as a superuser")
    for row in await connection.fetch(_GRANTED_DATABASES):
        mended = f"REVOKE {row['privilege']} ON DATABASE {row['name']} FROM {READER_ROLE}, {GUEST_ROLE}"
        found.append(f"reader: was granted {row['privilege']} on the database {row['name']}: {runnable(mended)}")
    pairs = [(kind, name) for kind, names in _FUNCTIONS.items() for name in names]
    kinds, names = [kind for kind, _ in pairs], [name for _, name in pairs]
    for row in await connection.fetch(_GRANTED, kinds, names):
        mended = f"REVOKE EXECUTE ON FUNCTION {row['functions']} FROM {READER_ROLE}, {GUEST_ROLE}"
        found.append(f"reader: was granted functions of PostgreSQL for {row['kind']}: {mended}")
    for row in await connection.fetch(_POWERS, _POWERFUL):
        mended = runnable(f"REVOKE {row['power']} FROM {row['member']}{row['granted_by']}")
        found.append(f"reader: {runnable(row['member'])} may do what {row['power']} may: {mended}")
    for row in await connection.fetch(_LEFT, kinds, names):
        what = f"may use functions of PostgreSQL for {row['kind']}"
        found.append(f"reader: {what}: run `worldledger db upgrade` as a superuser")
    return found


#: The limits that such logins have lifted, or had lifted, for themselves: by setting them to what is none.
_LIFTED: Final = rf"""
select quote_ident(r.rolname) as login, s.name, s.value, s.place
from pg_catalog.pg_roles r
cross join lateral (
    select distinct on (1) split_part(c.setting, '=', 1) as name,
           substr(c.setting, strpos(c.setting, '=') + 1) as value,
           case when d.setdatabase <> 0 then format(' IN DATABASE %I', current_database()) else '' end as place
    from pg_catalog.pg_db_role_setting d cross join unnest(d.setconfig) as c (setting)
    where d.setrole = r.oid and {_IN_DATABASE}
    order by 1, d.setdatabase desc
) s
where r.rolcanlogin and r.rolname <> '{READER_ROLE}' and {_IS_READER}
  and (s.name like '%\_timeout' and s.value ~ '^0+ *[a-z]*$'
       or s.name = 'default_transaction_read_only' and s.value ~* '^(0|off?|f|fa|fal|fals|false|no?)$')
  and s.name = any ($1)
order by 1, 2
"""
#: The logins that are readers, and those of their sessions whose statement or transaction has outlasted the limits of
#: `READER_SETTINGS`. Times are null where the user may not see them.
_LOGINS: Final = f"""
select quote_ident(r.rolname) as name,
       r.rolname <> '{READER_ROLE}' and not exists (
           select from pg_catalog.pg_db_role_setting d cross join unnest(d.setconfig) as s (setting)
           where d.setrole = r.oid and starts_with(s.setting, 'statement_timeout=') and {_IN_DATABASE}
       ) as is_unlimited,
       not coalesce(r.rolconfig::text, '') ~ 'temp_file_limit' as is_without_files,
       array(select a.pid from pg_catalog.pg_stat_activity a
             where a.usesysid = r.oid and a.datname = current_database()
               and (a.state = 'active' and a.query_start < clock_timestamp() - interval '60 s'
                    or a.state like 'idle in transaction%' and a.state_change < clock_timestamp() - interval '5 min')
             order by a.query_start) as overdue,
       array(select quote_ident(d.datname) from pg_catalog.pg_database d
             where d.datallowconn and d.datname <> current_database()
               and has_database_privilege(r.oid, d.oid, 'connect')
             order by d.datname) as elsewhere
from pg_catalog.pg_roles r
where r.rolcanlogin and {_IS_READER}
order by r.rolname
"""
#: What makes a reader, or a group of readers, more than one: attributes of roles.
_ATTRIBUTES: Final = f"""
select quote_ident(r.rolname) as name, string_agg(a.name, ', ' order by a.name) as said,
       string_agg('NO' || a.name, ' ' order by a.name) as without
from pg_catalog.pg_roles r cross join lateral (values
    ('BYPASSRLS', r.rolbypassrls), ('CREATEDB', r.rolcreatedb), ('CREATEROLE', r.rolcreaterole),
    ('REPLICATION', r.rolreplication)) as a (name, has)
where a.has and r.rolname not in ('{READER_ROLE}', '{GUEST_ROLE}') and {_IS_READER}
group by 1 order by 1
"""
#: What was granted to a reader, or to a group of readers, by name, where readers have it not: on this database, on
#: functions ($1 their names), and on settings of the server.
_BY_NAME: Final = f"""
with r as (
    select r.oid, r.rolname from pg_catalog.pg_roles r
    where r.rolname not in ('{READER_ROLE}', '{GUEST_ROLE}') and {_IS_READER}),
granted as (
    select format('DATABASE %I', datname) as place, acl.grantee, acl.privilege_type as privilege
    from pg_catalog.pg_database, aclexplode(datacl) as acl
    where datname = current_database() and acl.privilege_type in ('CREATE', 'TEMPORARY')
    union all
    select format('FUNCTION %s', p.oid::regprocedure), acl.grantee, acl.privilege_type
    from pg_catalog.pg_proc p, aclexplode(p.proacl) as acl
    where p.proname = any ($1) and p.pronamespace = 'pg_catalog'::regnamespace
    union all
    select format('PARAMETER %I', a.parname), acl.grantee, acl.privilege_type
    from pg_catalog.pg_parameter_acl a, aclexplode(a.paracl) as acl)
select quote_ident(r.rolname) as name, g.place, string_agg(distinct g.privilege, ', ') as privileges
from granted g join r on r.oid = g.grantee
group by 1, 2 order by 1, 2
"""
_PREPARABLE: Final = "select current_setting('max_prepared_transactions')::int"
#: Transactions that readers have prepared; they are ended in the database in which they were begun.
_PREPARED: Final = f"""
select quote_ident(r.rolname) as name, quote_literal(x.gid) as transaction
from pg_catalog.pg_prepared_xacts x join pg_catalog.pg_roles r on r.rolname = x.owner
where x.database = current_database() and {_IS_READER}
order by x.prepared
"""


#: Other databases that are named of those that a login can connect to.
_MOST_NAMED: Final = 3


async def beyond_privileges(connection: Connection) -> list[str]:
    """Return what no privilege can limit: of each reader's login, and its sessions that are older than their limits.

    What it may do more than other readers, and transactions that readers may prepare, or have prepared, are among it.
    """
    lines = []
    for row in await connection.fetch(_LOGINS):
        name = runnable(row["name"])
        what = f"{name} can lift its statement_timeout, which PostgreSQL lets nobody forbid"
        if row["is_unlimited"]:
            what += f"; it has none yet: ALTER ROLE {name} SET statement_timeout TO '60s'"
        if row["is_without_files"]:
            what += (
                f"; and fill the disk by sorting, until a superuser runs ALTER ROLE {name} SET temp_file_limit = '4GB'"
            )
        lines.append(what)
        if row["elsewhere"]:
            some = ", ".join(row["elsewhere"][:_MOST_NAMED]) + (", …" if row["elsewhere"][_MOST_NAMED:] else "")
            what = f"{name} can connect to other databases of this server ({some}), and make temporary tables and large"
            lines.append(f"{what} objects there, until their owners run REVOKE CONNECT ON DATABASE … FROM PUBLIC")
        if row["overdue"]:
            ends = ", ".join(f"SELECT pg_terminate_backend({pid})" for pid in row["overdue"])
            lines.append(f"{name} has sessions that have outlasted the limits; to end them: {ends}")
    for row in await connection.fetch(_LIFTED, list(READER_SETTINGS)):
        login, name, value, place = row
        mended = runnable(f"ALTER ROLE {login}{place} SET {name} TO '{READER_SETTINGS[name]}'")
        lines.append(f"{runnable(login)} logs in with {name} {value!r}: {mended}")
    for row in await connection.fetch(_ATTRIBUTES):
        mended = runnable(f"ALTER ROLE {row['name']} {row['without']}")
        lines.append(f"{runnable(row['name'])} may do more than other readers, for it has {row['said']}: {mended}")
    for row in await connection.fetch(_BY_NAME, [name for names in _FUNCTIONS.values() for name in names]):
        mended = runnable(f"REVOKE {row['privileges']} ON {row['place']} FROM {row['name']}")
        lines.append(f"{runnable(row['name'])} may do more than other readers: {mended}")
    if most := await connection.fetchval(_PREPARABLE):
        what = f"readers can prepare transactions, for max_prepared_transactions is {most}: these keep locks, and keep"
        what += " deleted rows from being removed, until they are ended, whatever becomes of the session"
        mended = "ALTER SYSTEM SET max_prepared_transactions = 0"
        lines.append(f"{what}; unless another program needs them: {mended}, and restart the server")
    for row in await connection.fetch(_PREPARED):
        ended = runnable(f"ROLLBACK PREPARED {row['transaction']}")
        lines.append(f"{runnable(row['name'])} has left a transaction prepared; to end it: {ended}")
    return lines
