"""What SQLAlchemy cannot say about the tables of the log: roles, privileges, append-only triggers, comments.

Each constant is a list of single statements, because a prepared statement takes one. The order is ``ROLES``
(by whoever migrates, before anything), then under the owner's role the tables, ``verification.VIEWS``,
``TRIGGERS``, ``PRIVILEGES``, ``COMMENTS``, what ``projecting``, ``delivery``, ``holding`` and ``analytics.schema``
have of the same, and ``VERSION_TABLE`` once Alembic has made its table.

History is protected twice (docs/architecture.md, promise 6): privileges refuse the service, the reader and even
the owner; triggers refuse everyone else, superusers included. Either holds alone: Citus has no triggers.
"""

from __future__ import annotations

from typing import Final

OWNER_ROLE: Final = "worldledger_owner"
SERVICE_ROLE: Final = "worldledger_service"
READER_ROLE: Final = "worldledger_reader"
GUEST_ROLE: Final = "worldledger_guest"

_WRITTEN_ONCE: Final = ("worlds", "effects", "requests")
_TABLES: Final = (*_WRITTEN_ONCE, "heads")

#: Settings of the reader's role, for those who log in as it.
READER_SETTINGS: Final = {
    "default_transaction_read_only": "on",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "5min",
    "search_path": "analytics",
}


def comments(texts: dict[str, str]) -> list[str]:
    """Make the statements that comment on things: ``{"table worlds": "One row …"}``."""
    return [f"comment on {thing} is '{text.replace(chr(39), chr(39) * 2)}'" for thing, text in texts.items()]


#: Waits for the lock of migrations/env.py: within one database only one at a time. Once readers may take no such locks
#: (`readers.BOUNDS`), the owner still may.
TURN: Final = """
do $turn$
declare
    before constant text := current_setting('role');
begin
    perform pg_advisory_xact_lock(512919627634);
exception
    when insufficient_privilege then
        perform set_config('role', 'worldledger_owner', true);
        perform pg_advisory_xact_lock(512919627634);
        perform set_config('role', before, true);
end
$turn$
"""

#: Roles belong to the cluster, not to one database: two databases may be migrated at the same moment, and each
#: of them may find the role absent, present, or coming. So every step looks first, and a step that lost a race
#: (duplicate_object, unique_violation, or "tuple concurrently updated", which is an internal_error) is fine.
#: A user without CREATEROLE goes on when an administrator has made the roles and granted them.
ROLES: Final = [
    TURN,
    """
do $roles$
declare
    may_set constant text :=
        case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end;
    wanted record;
begin
    for wanted in
        select * from (values
            ('worldledger_owner', 'Worldledger: owns and migrates the schema; may not change history either.'),
            ('worldledger_service', 'Worldledger: what the service works as; adds to the log, moves heads.'),
            ('worldledger_reader', 'Worldledger: for people who ask; reads the schema analytics and nothing else.'),
            ('worldledger_guest', 'Worldledger: for queries by way of the service; reads the same as the reader.')
        ) as roles (name, comment)
    loop
        if to_regrole(wanted.name) is null then
            begin
                execute format('create role %I nologin', wanted.name);
            exception
                when duplicate_object or unique_violation then null;
                when insufficient_privilege then
                    raise exception 'the role % is missing, and % may not create it', wanted.name, current_user
                        using errcode = 'insufficient_privilege',
                              hint = format('As an administrator: CREATE ROLE %I NOLOGIN; GRANT %I TO %I',
                                            wanted.name, wanted.name, current_user);
            end;
        end if;
        if not pg_has_role(current_user, wanted.name, may_set) then
            begin
                execute format('grant %I to current_user', wanted.name);
            exception
                when insufficient_privilege or unique_violation or internal_error then null;
            end;
        end if;
        if not pg_has_role(current_user, wanted.name, may_set) then
            raise exception 'the user % is no member of the role %', current_user, wanted.name
                using errcode = 'insufficient_privilege',
                      hint = format('As an administrator: GRANT %I TO %I', wanted.name, current_user);
        end if;
        if shobj_description(to_regrole(wanted.name), 'pg_authid') is distinct from wanted.comment then
            begin
                execute format('comment on role %I is %L', wanted.name, wanted.comment);
            exception
                when insufficient_privilege or unique_violation or internal_error then null;
            end;
        end if;
    end loop;
end
$roles$
""",
    # Settings of a role hold where somebody logs in as it, and for nobody who is only a member. What an administrator
    # has set stays. By the role itself, which needs no right over roles; the limit of connections does.
    f"""
do $reader$
declare
    before constant text := current_setting('role');
    wanted record;
begin
    for wanted in
        select * from (values
            {", ".join(f"('{name}', '{value}')" for name, value in READER_SETTINGS.items())}
        ) as settings (name, value)
    loop
        if not exists (select from pg_db_role_setting, unnest(setconfig) as s (setting)
                       where setdatabase = 0 and setrole = 'worldledger_reader'::regrole
                         and starts_with(s.setting, wanted.name || '=')) then
            begin
                perform set_config('role', 'worldledger_reader', true);
                execute format('alter role worldledger_reader set %I to %L', wanted.name, wanted.value);
            exception
                when insufficient_privilege or unique_violation or internal_error then null;
            end;
            perform set_config('role', before, true);
        end if;
    end loop;
    if exists (select from pg_roles where rolname = 'worldledger_reader' and rolconnlimit = -1) then
        begin
            alter role worldledger_reader connection limit 20;
        exception
            when insufficient_privilege or internal_error then null;
        end;
    end if;
end
$reader$
""",
    # The reader and the guest read nothing there, but what they read calls functions that stand there.
    """
do $schema$
begin
    if not has_schema_privilege('worldledger_owner', 'public', 'create')
       or not has_schema_privilege('worldledger_owner', 'public', 'usage')
       or not has_schema_privilege('worldledger_service', 'public', 'usage')
       or not has_schema_privilege('worldledger_reader', 'public', 'usage')
       or not has_schema_privilege('worldledger_guest', 'public', 'usage') then
        grant create, usage on schema public to worldledger_owner;
        grant usage on schema public to worldledger_service, worldledger_reader, worldledger_guest;
    end if;
    if not has_schema_privilege('worldledger_owner', 'public', 'create') then
        raise exception 'the user % may not let worldledger_owner create tables in schema public', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Migrate as the owner of the database, or as an administrator: '
                         'GRANT CREATE, USAGE ON SCHEMA public TO worldledger_owner';
    end if;
end
$schema$
""",
]

#: ENABLE ALWAYS, or ``session_replication_role = replica`` would pass them by. Row triggers, because replication
#: workers fire no statement triggers for rows. None is for INSERT: an append pays nothing.
TRIGGERS: Final = [
    """
create function refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'history is append-only: % of % is refused', tg_op, tg_table_name
        using errcode = 'restrict_violation',
              hint = 'What has happened stays in the log; append an effect that corrects it.';
end
$$
""",
    *(
        statement.format(table=table)
        for table in _WRITTEN_ONCE
        for statement in (
            """
create trigger {table}_append_only before update or delete on {table}
for each row execute function refuse_change()
""",
            """
create trigger {table}_no_truncate before truncate on {table}
for each statement execute function refuse_change()
""",
            "alter table {table} enable always trigger {table}_append_only",
            "alter table {table} enable always trigger {table}_no_truncate",
        )
    ),
    "create trigger heads_no_delete before delete on heads for each row execute function refuse_change()",
    "create trigger heads_no_truncate before truncate on heads for each statement execute function refuse_change()",
    "alter table heads enable always trigger heads_no_delete",
    "alter table heads enable always trigger heads_no_truncate",
]

#: Also without a single trigger nobody below a superuser changes history. The owner could grant itself
#: the privileges again; `worldledger db check` would show it.
PRIVILEGES: Final = [
    "revoke all on worlds, heads, effects, requests from public",
    "revoke all on effect_verification, request_verification, verification from public",
    "revoke update, delete, truncate on worlds, heads, effects, requests from worldledger_owner",
    "grant select, insert on worlds, heads, effects, requests to worldledger_service",
    "grant update (head_seq, head_checksum, sim_time, wall_time, moved) on heads to worldledger_service",
    "grant select on effect_verification, request_verification, verification to worldledger_service",
    "revoke all on function refuse_change from public",
    *(
        statement.format(function=function)
        for function in (
            "chain_checksum",
            "effect_fields_of",
            "effect_body_sha256",
            "effect_problem",
            "world_problem",
            "head_problem",
        )
        for statement in (
            "revoke all on function {function} from public",
            "grant execute on function {function} to worldledger_service, worldledger_reader, worldledger_guest",
        )
    ),
]

COMMENTS: Final = comments(
    {
        "constraint worlds_pkey on worlds": "One world of a name in this database.",
        "constraint worlds_world_id_check on worlds": "A world has a name.",
        "constraint worlds_ruleset_version_check on worlds": "Versions count from 0.",
        "constraint heads_pkey on heads": "One head for each world.",
        "constraint effects_pkey on effects": "One effect at each place of a world's log.",
        "constraint requests_pkey on requests": "A req_id is used once by each source in a world.",
        "constraint requests_body_sha256_check on requests": "A SHA-256 has 32 bytes.",
        "constraint requests_seqs_check on requests": "A request made at least one effect.",
        "index worlds_experiment_world_id_idx": "Lists the worlds of an experiment by name.",
        "index effects_world_id_kind_global_seq_idx": "Finds a world's effects of one kind, in order.",
        "index effects_caused_idx": "Finds the effects that name their cause (caused_by), in order.",
        "index heads_moved_idx": "Finds the worlds with news, for a runner that polls, without looking at idle ones.",
        "trigger heads_no_delete on heads": "Refuses DELETE to everyone.",
        "trigger heads_no_truncate on heads": "Refuses TRUNCATE to everyone.",
        "function refuse_change": "Trigger: refuses to change what has been written.",
        **{f"index {table}_pkey": "The index of the primary key." for table in _TABLES},
        **{
            f"trigger {table}_append_only on {table}": "Refuses UPDATE and DELETE to everyone."
            for table in _WRITTEN_ONCE
        },
        **{f"trigger {table}_no_truncate on {table}": "Refuses TRUNCATE to everyone." for table in _WRITTEN_ONCE},
    }
)

VERSION_TABLE: Final = [
    "revoke all on alembic_version from public",
    "grant select on alembic_version to worldledger_service",
    *comments(
        {
            "table alembic_version": "Which version of the schema this database has (kept by Alembic).",
            "column alembic_version.version_num": "The revision that `worldledger db upgrade` reached last.",
            "constraint alembic_version_pkc on alembic_version": "The name that Alembic gives its key.",
            "index alembic_version_pkc": "The index of the primary key.",
        }
    ),
]
