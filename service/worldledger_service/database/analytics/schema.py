"""The schema ``analytics`` itself: whose it is, who reads it, and the functions that run somebody's query.

The schema is the service's, as the schema ``projections`` is, because the views over projections come and go with the
builds behind them. What stands here belongs to the owner of the log, so that the service can replace none of it.

**Readers.** ``worldledger_reader`` is for people: it may SELECT from the views of this schema and nothing else. Its own
settings (`guards.ROLES`) hold where somebody logs in as it. ``worldledger_guest`` has the same privileges and is for
queries that come through the service from somebody who has no login at all. Nobody logs in as it and no role is in it.

**A stranger's query.** SET ROLE alone is no wall: a SELECT can call ``set_config('role', 'none', …)``, or hide that in
``query_to_xml``. Inside of a SECURITY DEFINER function PostgreSQL refuses to change role and session user, whatever is
called from there. So ``open_query`` opens the query as a cursor and ``fetch_query`` reads on from it, both as the
guest; a cursor that was opened there must not be read elsewhere, because what it calls is called by whoever reads.

They belong to the guest and not to the reader: the owner of a function may alter it, and whoever could log in as that
owner could make it SECURITY INVOKER.
"""

from __future__ import annotations

from typing import Final

from worldledger_service.database.analytics import functions
from worldledger_service.database.analytics.definitions import literal
from worldledger_service.database.analytics.views import VIEWS

#: Rises when a column or view changes its meaning or goes; what is only added changes nothing for who is there.
VERSION: Final = 1
#: The name of the cursor.
CURSOR: Final = "worldledger_query"

_READERS: Final = "worldledger_reader, worldledger_guest"
_COMMENT: Final = (
    f"Version {VERSION}. What is in the log and what follows from it, for questions: typed columns, names that explain "
    "themselves."
)

#: Though it only reads, a query could fill the write-ahead log with messages; so nobody but a superuser may send any.
#: Who does not own PostgreSQL's functions cannot say so, and passes over it (docs/reference/analytics.md).
_MESSAGES: Final = """
do $messages$
declare
    what regprocedure;
begin
    for what in
        select oid from pg_catalog.pg_proc
        where pronamespace = 'pg_catalog'::regnamespace and proname = 'pg_logical_emit_message'
          and pg_has_role(proowner, 'usage')
    loop
        execute format('revoke execute on function %s from public', what);
    end loop;
end
$messages$
"""

#: As `projecting.SCHEMA`: by the user who migrates, then by the service's role.
SCHEMA: Final = [
    "set local role none",
    _MESSAGES,
    """
do $analytics$
begin
    if to_regnamespace('analytics') is null then
        create schema analytics authorization worldledger_service;
    elsif not exists (select from pg_namespace
                      where nspname = 'analytics' and nspowner::regrole::text = 'worldledger_service') then
        raise exception 'the database has a schema analytics of somebody else'
            using errcode = 'duplicate_schema',
                  hint = 'Use another database, or rename that schema, or give it away: '
                         'ALTER SCHEMA analytics OWNER TO worldledger_service';
    end if;
exception
    when insufficient_privilege then
        raise exception 'the user % may not create the schema analytics', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Migrate as the owner of the database, or as an administrator: '
                         'CREATE SCHEMA analytics AUTHORIZATION worldledger_service';
end
$analytics$
""",
    "set local role worldledger_service",
    f"grant usage on schema analytics to {_READERS}",
    "grant create, usage on schema analytics to worldledger_owner",
    f"alter default privileges in schema analytics grant select on tables to {_READERS}",
    f"comment on schema analytics is {literal(_COMMENT)}",
    "set local role worldledger_owner",
]

_OPEN: Final = f"""
create or replace function analytics.open_query(query text) returns void
language plpgsql security definer
set search_path = analytics, pg_temp
as $$
declare
    asked refcursor := '{CURSOR}';
begin
    if current_setting('transaction_read_only') <> 'on' then
        raise exception 'a query is run in a read-only transaction' using errcode = 'read_only_sql_transaction';
    end if;
    open asked no scroll for execute query;
end
$$
"""

_FETCH: Final = f"""
create or replace function analytics.fetch_query(most bigint) returns setof record
language plpgsql security definer
set search_path = analytics, pg_temp
as $$
begin
    return query execute format('fetch forward %s from {CURSOR}', most);
end
$$
"""

_ASKING: Final = {
    "open_query(text)": (_OPEN, "Opens a query as the guest, in a read-only transaction; read on by fetch_query."),
    "fetch_query(bigint)": (_FETCH, "The next rows of the query that open_query opened, at most so many."),
}

#: Only who may CREATE in a schema can own something there: for this moment.
_GUEST: Final = [
    "set local role worldledger_service",
    "grant create on schema analytics to worldledger_guest",
    "set local role worldledger_guest",
    *(
        statement
        for signature, (definition, comment) in _ASKING.items()
        for statement in (
            definition,
            f"revoke all on function analytics.{signature} from public",
            f"grant execute on function analytics.{signature} to worldledger_service, worldledger_reader",
            f"comment on function analytics.{signature} is {literal(comment)}",
        )
    ),
    "set local role worldledger_service",
    "revoke create on schema analytics from worldledger_guest",
    "set local role worldledger_owner",
]

_PRIVILEGES: Final = [f"grant select on analytics.{view.name} to worldledger_service, {_READERS}" for view in VIEWS]


def statements() -> list[str]:
    """Return every statement that makes the schema, in the order in which they are run by the owner of the log."""
    views = [statement for view in VIEWS for statement in view.statements()]
    return [*SCHEMA, *functions.statements(), *views, *_PRIVILEGES, *_GUEST]
