"""States and projections: heads that tell of news, snapshots, the bookkeeping of projections, and their schema.

Revision: 0002, after 0001. The statements are frozen: they are what they were on the day of this revision, whatever
the application says today. The reasons stand in the application, where the same things are written for today
(service/database/tables.py, guards.py, projecting.py). All that this revision adds can be made again from the log, so
that its downgrade may drop it.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLES = [
    # The default is no expression that is computed for each row, so the table is not rewritten.
    "alter table heads add column moved boolean default true not null",
    "create index heads_moved_idx on heads (world_id) where moved",
    """
create table snapshots (
    world_id text collate "C" not null,
    global_seq bigint not null,
    checksum bytea not null,
    ruleset text collate "C" not null,
    ruleset_version integer not null,
    state_digest bytea not null,
    state json not null,
    state_bytes integer not null,
    created_at timestamp with time zone default now() not null,
    constraint snapshots_pkey primary key (world_id, global_seq),
    constraint snapshots_state_digest_check check (octet_length(state_digest) = 32)
)
""",
    """
create table projection_builds (
    build text collate "C" not null,
    projection text collate "C" not null,
    version integer not null,
    status text collate "C" not null,
    paused boolean default false not null,
    scanned_to text collate "C" default '',
    effects_total bigint,
    effects_done bigint default 0 not null,
    started_at timestamp with time zone default now() not null,
    finished_at timestamp with time zone,
    retired_at timestamp with time zone,
    check_report json,
    constraint projection_builds_pkey primary key (build),
    constraint projection_builds_status_check check (status in ('live', 'building', 'retired'))
)
""",
    "create unique index projection_builds_live_idx on projection_builds (projection) where status = 'live'",
    "create unique index projection_builds_building_idx on projection_builds (projection) where status = 'building'",
    """
create table projection_cursors (
    build text collate "C" not null,
    world_id text collate "C" not null,
    global_seq bigint not null,
    constraint projection_cursors_pkey primary key (build, world_id)
) with (fillfactor = 80)
""",
    """
create table projection_pending (
    build text collate "C" not null,
    world_id text collate "C" not null,
    head_seq bigint not null,
    since timestamp with time zone default clock_timestamp() not null,
    constraint projection_pending_pkey primary key (build, world_id)
)
""",
    """
create table projection_parked (
    build text collate "C" not null,
    world_id text collate "C" not null,
    global_seq bigint not null,
    kind text collate "C",
    error text not null,
    attempts integer default 1 not null,
    parked_at timestamp with time zone default now() not null,
    constraint projection_parked_pkey primary key (build, world_id)
)
""",
    """
create table projection_leases (
    name text collate "C" not null,
    holder text,
    token bigint default 0 not null,
    beats bigint default 0 not null,
    constraint projection_leases_pkey primary key (name)
)
""",
]

DERIVED = "snapshots, projection_builds, projection_cursors, projection_pending, projection_parked, projection_leases"

PRIVILEGES = [
    "grant update (moved) on heads to worldledger_service",
    f"revoke all on {DERIVED} from public",
    f"grant select, insert, update, delete on {DERIVED} to worldledger_service",
    f"grant select on {DERIVED} to worldledger_reader",
]

#: Only the user who migrates may be able to create a schema; the rest is done as its owner.
SCHEMA = [
    "set local role none",
    """
do $projections$
begin
    if to_regnamespace('projections') is null then
        create schema projections authorization worldledger_service;
    elsif not exists (select from pg_namespace
                      where nspname = 'projections' and nspowner::regrole::text = 'worldledger_service') then
        raise exception 'the database has a schema projections of somebody else'
            using errcode = 'duplicate_schema',
                  hint = 'Use another database, or rename that schema, or give it away: '
                         'ALTER SCHEMA projections OWNER TO worldledger_service';
    end if;
exception
    when insufficient_privilege then
        raise exception 'the user % may not create the schema projections', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Migrate as the owner of the database, or as an administrator: '
                         'CREATE SCHEMA projections AUTHORIZATION worldledger_service';
end
$projections$
""",
    "set local role worldledger_service",
    "grant usage on schema projections to worldledger_reader",
    "alter default privileges in schema projections grant select on tables to worldledger_reader",
    "comment on schema projections is 'Tables for queries, made from the log by the service; they can be made again.'",
    "set local role worldledger_owner",
]

COMMENTS = {
    "column heads.moved": "True from an append until a projection runner has taken note of it.",
    "table snapshots": (
        "States of worlds at some places of their logs: a cache, which can be folded again from the log."
    ),
    "column snapshots.world_id": "The name of the world.",
    "column snapshots.global_seq": "The effect after which the world had this state.",
    "column snapshots.checksum": "The chain checksum of the effect at global_seq: ties the state to one history.",
    "column snapshots.ruleset": "The ruleset that folded the state.",
    "column snapshots.ruleset_version": "The version of the ruleset that folded it.",
    "column snapshots.state_digest": "SHA-256 of the state's text.",
    "column snapshots.state": (
        "The state's text in profile state/1, exactly as digested; json, because jsonb rewrites numbers."
    ),
    "column snapshots.state_bytes": "The length of the state's text in bytes.",
    "column snapshots.created_at": "When the snapshot was written, by the server's clock; informational.",
    "table projection_builds": (
        "The builds of projections: one row for each version of a projection that has, or had, a table."
    ),
    "column projection_builds.build": "The name of the build, and of its table in schema projections: games_2.",
    "column projection_builds.projection": "The projection that this is a build of.",
    "column projection_builds.version": "The version of the projection that fills the build.",
    "column projection_builds.status": (
        "building: being filled; live: the one that people read; retired: replaced by a later one."
    ),
    "column projection_builds.paused": "True: no runner works on it.",
    "column projection_builds.scanned_to": (
        "The last world_id that the first pass over all worlds has come to; null once it is finished."
    ),
    "column projection_builds.effects_total": "How many effects there were to read when the build began.",
    "column projection_builds.effects_done": "How many effects the build has read.",
    "column projection_builds.started_at": "When the build began.",
    "column projection_builds.finished_at": "When the build went live.",
    "column projection_builds.retired_at": "When the build was retired.",
    "column projection_builds.check_report": "What the last check of the build against the log found.",
    "table projection_cursors": (
        "How far each build has come in each world; written in one transaction with the rows of the build."
    ),
    "column projection_cursors.build": "The name of the build.",
    "column projection_cursors.world_id": "The name of the world.",
    "column projection_cursors.global_seq": "The last effect of the world that the build holds.",
    "table projection_pending": "The worlds that have effects which a build has still to read.",
    "column projection_pending.build": "The name of the build.",
    "column projection_pending.world_id": "The name of the world.",
    "column projection_pending.head_seq": "Where the world's log ended when this was last noted.",
    "column projection_pending.since": "Since when the build is behind in this world.",
    "table projection_parked": (
        "The worlds that a build has set aside, each because of one effect; the other worlds go on."
    ),
    "column projection_parked.build": "The name of the build.",
    "column projection_parked.world_id": "The name of the world.",
    "column projection_parked.global_seq": "The effect that could not be digested.",
    "column projection_parked.kind": "The kind of that effect, where it could be read.",
    "column projection_parked.error": "What went wrong.",
    "column projection_parked.attempts": "How often it was tried.",
    "column projection_parked.parked_at": "When it was set aside.",
    "table projection_leases": "Who may write projections: leases with fencing, which need no common clock.",
    "column projection_leases.name": "What is leased.",
    "column projection_leases.holder": "Who holds the lease, for people; null when it was given back.",
    "column projection_leases.token": (
        "Rises with every change of hands; who writes under the lease checks that it is still theirs."
    ),
    "column projection_leases.beats": (
        "Rises while the holder lives; when token and beats stand still, another may take over."
    ),
    "constraint snapshots_pkey on snapshots": "One snapshot at each place of a world's log.",
    "constraint snapshots_state_digest_check on snapshots": "A SHA-256 has 32 bytes.",
    "constraint projection_builds_pkey on projection_builds": "One build of a name.",
    "constraint projection_builds_status_check on projection_builds": "There are no other statuses.",
    "constraint projection_cursors_pkey on projection_cursors": "One cursor of each build in each world.",
    "constraint projection_pending_pkey on projection_pending": "A world is noted once for each build.",
    "constraint projection_parked_pkey on projection_parked": "A build stops at one effect of a world.",
    "constraint projection_leases_pkey on projection_leases": "One lease of a name.",
    "index heads_moved_idx": "Finds the worlds with news, for a runner that polls, without looking at idle ones.",
    "index projection_builds_live_idx": "Allows one live build for each projection, and finds it.",
    "index projection_builds_building_idx": "Allows one build at a time for each projection, and finds it.",
    "index snapshots_pkey": "The index of the primary key.",
    "index projection_builds_pkey": "The index of the primary key.",
    "index projection_cursors_pkey": "The index of the primary key.",
    "index projection_pending_pkey": "The index of the primary key.",
    "index projection_parked_pkey": "The index of the primary key.",
    "index projection_leases_pkey": "The index of the primary key.",
}

DROPS = [
    # No build begins from here on.
    "lock table projection_builds",
    "set local role worldledger_service",
    # Without CASCADE: what others made in the schema, or upon it, cannot be made again from the log.
    """
do $projections$
declare
    views text;
    tables text;
    what text;
begin
    select string_agg(format('projections.%I', relname), ', ') filter (where relkind = 'v'),
           string_agg(format('projections.%I', relname), ', ') filter (where relkind in ('r', 'p'))
    into views, tables
    from pg_class
    where relnamespace = to_regnamespace('projections') and relowner::regrole::text = 'worldledger_service';
    if views is not null then
        execute 'drop view ' || views;
    end if;
    if tables is not null then
        execute 'drop table ' || tables;
    end if;
    drop schema if exists projections;
exception
    when dependent_objects_still_exist then
        get stacked diagnostics what = pg_exception_detail;
        raise exception 'what no projection made depends on the schema projections: %', what
            using errcode = 'dependent_objects_still_exist',
                  hint = 'Drop it, or move it elsewhere, and run the downgrade again.';
end
$projections$
""",
    "set local role worldledger_owner",
    f"drop table {DERIVED}",
    "drop index heads_moved_idx",
    # Before PostgreSQL 16 the privilege would outlive the column.
    "revoke update (moved) on heads from worldledger_service",
    "alter table heads drop column moved",
]


def upgrade() -> None:
    connection = op.get_bind()
    for statement in (*TABLES, *PRIVILEGES, *SCHEMA):
        connection.exec_driver_sql(statement)
    for thing, text in COMMENTS.items():
        quoted = text.replace("'", "''")
        connection.exec_driver_sql(f"comment on {thing} is '{quoted}'")


def downgrade() -> None:
    connection = op.get_bind()
    for statement in DROPS:
        connection.exec_driver_sql(statement)
