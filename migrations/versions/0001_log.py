"""The log: worlds, heads, effects and requests, what guards them, and the views that verify them.

Revision: 0001, after nothing. The statements are frozen: they are what they were on the day of this revision,
whatever the application says today. The reasons stand in the application, where the same things are written for
today (service/database/tables.py, guards.py, verification.py). The roles exist before any migration runs.
"""

from __future__ import annotations

from alembic import op
from alembic.util import CommandError

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = [
    """
create table worlds (
    world_id text collate "C" not null,
    world_uuid uuid not null,
    ruleset text collate "C" not null,
    ruleset_version integer not null,
    config json not null,
    experiment text collate "C",
    time_authority text collate "C" not null,
    created_at timestamp with time zone default now() not null,
    constraint worlds_pkey primary key (world_id),
    constraint worlds_world_id_check check (world_id <> ''),
    constraint worlds_ruleset_version_check check (ruleset_version >= 0)
)
""",
    "create index worlds_experiment_world_id_idx on worlds (experiment, world_id)",
    """
create table heads (
    world_id text collate "C" not null,
    head_seq bigint not null,
    head_checksum bytea,
    sim_time double precision not null,
    wall_time double precision not null,
    constraint heads_pkey primary key (world_id)
)
""",
    """
create table effects (
    world_id text collate "C" not null,
    global_seq bigint not null,
    effect json not null,
    checksum bytea not null,
    kind text collate "C" not null,
    source_id text collate "C" not null,
    sim_time double precision not null,
    recorded_at timestamp with time zone default now() not null,
    constraint effects_pkey primary key (world_id, global_seq)
) with (autovacuum_freeze_min_age = 0)
""",
    "create index effects_world_id_kind_global_seq_idx on effects (world_id, kind, global_seq)",
    """
create table requests (
    world_id text collate "C" not null,
    source_id text collate "C" not null,
    req_id text collate "C" not null,
    body_sha256 bytea not null,
    first_seq bigint not null,
    last_seq bigint not null,
    constraint requests_pkey primary key (world_id, source_id, req_id),
    constraint requests_body_sha256_check check (octet_length(body_sha256) = 32),
    constraint requests_seqs_check check (first_seq >= 1 and last_seq >= first_seq)
) with (autovacuum_freeze_min_age = 0)
""",
]

VIEWS = [
    """
create function chain_checksum(previous bytea, effect json) returns bytea
language sql stable parallel safe
return sha256(convert_to(coalesce(encode(previous, 'hex'), '') || effect::text, 'UTF8'))
""",
    "create type effect_fields as (world_id text, global_seq text, kind text, source_id text, sim_time text)",
    """
create function effect_problem(
    previous_seq bigint, previous_checksum bytea,
    world_id text, global_seq bigint, effect json, checksum bytea, kind text, source_id text,
    sim_time double precision
) returns text
language plpgsql stable
as $$
declare
    fields public.effect_fields;
begin
    if global_seq is distinct from greatest(previous_seq, 0) + 1 then
        return case when global_seq > greatest(previous_seq, 0)
                    then format('global_seq missing: expected %s', greatest(previous_seq, 0) + 1)
                    else 'global_seq out of order' end;
    elsif effect is null then
        return 'effect is missing';
    elsif checksum is distinct from public.chain_checksum(previous_checksum, effect) then
        return 'checksum differs';
    elsif json_typeof(effect) <> 'object' then
        return 'effect is not a JSON object';
    end if;
    fields := json_populate_record(null::public.effect_fields, effect);
    return case
        when world_id is distinct from fields.world_id then 'world_id column differs from the effect'
        when global_seq::text is distinct from fields.global_seq then 'global_seq column differs from the effect'
        when kind is distinct from fields.kind then 'kind column differs from the effect'
        when source_id is distinct from fields.source_id then 'source_id column differs from the effect'
        when sim_time is distinct from fields.sim_time::double precision
            then 'sim_time column differs from the effect'
    end;
exception when others then
    return 'effect cannot be read: ' || left(sqlerrm, 200);
end
$$
""",
    """
create function world_problem(
    genesis json, world_uuid uuid, ruleset text, ruleset_version integer, config json, experiment text,
    time_authority text
) returns text
language plpgsql stable
as $$
declare
    made json;
begin
    if genesis is null then
        return null;  -- that effect 1 is missing is said of the effect
    elsif genesis ->> 'kind' is distinct from 'WorldCreated' then
        return 'effect 1 is not WorldCreated';
    end if;
    made := genesis -> 'payload';
    return case
        when made ->> 'world_uuid' is distinct from replace(world_uuid::text, '-', '')
            then 'worlds row differs from genesis: world_uuid'
        when made ->> 'ruleset' is distinct from ruleset then 'worlds row differs from genesis: ruleset'
        when made ->> 'ruleset_version' is distinct from ruleset_version::text
            then 'worlds row differs from genesis: ruleset_version'
        when (made -> 'config')::text is distinct from config::text then 'worlds row differs from genesis: config'
        when made ->> 'experiment' is distinct from experiment then 'worlds row differs from genesis: experiment'
        when made ->> 'time_authority' is distinct from time_authority
            then 'worlds row differs from genesis: time_authority'
    end;
exception when others then
    return 'worlds row or genesis cannot be read: ' || left(sqlerrm, 200);
end
$$
""",
    """
create function head_problem(
    last_seq bigint, last_effect json, last_checksum bytea, last_sim_time double precision,
    head_seq bigint, head_checksum bytea, sim_time double precision, wall_time double precision
) returns text
language plpgsql stable
as $$
begin
    return case
        when head_seq is null and last_seq is null then 'the world has no effects'
        when head_seq is null then 'the world has no heads row'
        when last_seq is null then format('the head names seq %s but the log is empty', head_seq)
        when head_seq > last_seq then format('the head names seq %s but the log ends at %s', head_seq, last_seq)
        when head_seq < last_seq then format('the head names seq %s but the log goes on to %s', head_seq, last_seq)
        when head_checksum is distinct from last_checksum then 'heads row differs from the last effect: head_checksum'
        when sim_time is distinct from last_sim_time then 'heads row differs from the last effect: sim_time'
        when wall_time is distinct from (last_effect ->> 'wall_time')::double precision
            then 'heads row differs from the last effect: wall_time'
    end;
exception when others then
    return 'last effect cannot be read: ' || left(sqlerrm, 200);
end
$$
""",
    """
create view effect_verification as
select linked.world_id,
       linked.global_seq,
       case when linked.global_seq > greatest(linked.previous_seq, 0) then greatest(linked.previous_seq, 0) + 1
            else linked.global_seq end as expected_seq,
       effect_problem(linked.previous_seq, linked.previous_checksum, linked.world_id, linked.global_seq,
                      linked.effect, linked.checksum, linked.kind, linked.source_id, linked.sim_time) as problem
from (
    select effects.*,
           lag(effects.global_seq) over log as previous_seq,
           lag(effects.checksum) over log as previous_checksum
    from effects
    window log as (partition by effects.world_id order by effects.global_seq)
) as linked
""",
    """
create view verification as
select log.world_id,
       coalesce(case when worlds.world_id is null then 'the world has no worlds row' end,
                substr(log.problem, strpos(log.problem, ' ') + 1), genesis.problem, head.problem) is null as verified,
       log.effects,
       heads.head_seq,
       encode(substr(heads.head_checksum, 1, 32), 'hex') as head_checksum,
       case when worlds.world_id is null then null
            when genesis.problem is not null and coalesce(split_part(log.problem, ' ', 1)::bigint, 2) > 1 then 1
            when log.problem is not null then split_part(log.problem, ' ', 1)::bigint
            when head.problem is null or heads.world_id is null then null
            when heads.head_seq = log.last_seq then log.last_seq
            else least(heads.head_seq, coalesce(log.last_seq, 0)) + 1 end as problem_seq,
       case when worlds.world_id is null then 'the world has no worlds row'
            when genesis.problem is not null and coalesce(split_part(log.problem, ' ', 1)::bigint, 2) > 1
                then genesis.problem
            when log.problem is not null then substr(log.problem, strpos(log.problem, ' ') + 1)
            else head.problem end as problem
from (
    select parts.world_id,
           sum(parts.effects)::bigint as effects,
           max(parts.last_seq) as last_seq,
           min(parts.problem) as problem
    from (
        select worlds.world_id, 0::bigint as effects, null::bigint as last_seq, null::text as problem from worlds
        union all
        select heads.world_id, 0::bigint as effects, null::bigint as last_seq, null::text as problem from heads
        union all
        select effect_verification.world_id,
               count(*) as effects,
               max(effect_verification.global_seq) as last_seq,
               min(to_char(coalesce(effect_verification.expected_seq, 0), 'FM0000000000000000000')
                   || ' ' || effect_verification.problem) as problem
        from effect_verification
        group by effect_verification.world_id
    ) as parts
    group by parts.world_id
) as log
left join worlds on worlds.world_id = log.world_id
left join heads on heads.world_id = log.world_id
left join lateral (
    select effects.effect from effects where effects.world_id = log.world_id and effects.global_seq = 1 limit 1
) as first on true
left join lateral (
    select effects.effect, effects.checksum, effects.sim_time
    from effects where effects.world_id = log.world_id and effects.global_seq = log.last_seq limit 1
) as last on true
left join lateral world_problem(
    first.effect, worlds.world_uuid, worlds.ruleset, worlds.ruleset_version, worlds.config, worlds.experiment,
    worlds.time_authority
) as genesis (problem) on true
left join lateral head_problem(
    log.last_seq, last.effect, last.checksum, last.sim_time,
    heads.head_seq, heads.head_checksum, heads.sim_time, heads.wall_time
) as head (problem) on true
""",
]

TRIGGERS = [
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
    """
create trigger worlds_append_only before update or delete on worlds
for each row execute function refuse_change()
""",
    """
create trigger worlds_no_truncate before truncate on worlds
for each statement execute function refuse_change()
""",
    "alter table worlds enable always trigger worlds_append_only",
    "alter table worlds enable always trigger worlds_no_truncate",
    """
create trigger effects_append_only before update or delete on effects
for each row execute function refuse_change()
""",
    """
create trigger effects_no_truncate before truncate on effects
for each statement execute function refuse_change()
""",
    "alter table effects enable always trigger effects_append_only",
    "alter table effects enable always trigger effects_no_truncate",
    """
create trigger requests_append_only before update or delete on requests
for each row execute function refuse_change()
""",
    """
create trigger requests_no_truncate before truncate on requests
for each statement execute function refuse_change()
""",
    "alter table requests enable always trigger requests_append_only",
    "alter table requests enable always trigger requests_no_truncate",
    "create trigger heads_no_delete before delete on heads for each row execute function refuse_change()",
    "create trigger heads_no_truncate before truncate on heads for each statement execute function refuse_change()",
    "alter table heads enable always trigger heads_no_delete",
    "alter table heads enable always trigger heads_no_truncate",
]

PRIVILEGES = [
    "revoke all on worlds, heads, effects, requests from public",
    "revoke all on effect_verification, verification from public",
    "revoke update, delete, truncate on worlds, heads, effects, requests from worldledger_owner",
    "grant select, insert on worlds, heads, effects, requests to worldledger_service",
    "grant update (head_seq, head_checksum, sim_time, wall_time) on heads to worldledger_service",
    "grant select on worlds, heads, effects, requests to worldledger_reader",
    "grant select on effect_verification, verification to worldledger_service, worldledger_reader",
    "revoke all on function refuse_change from public",
    "revoke all on function chain_checksum from public",
    "grant execute on function chain_checksum to worldledger_service, worldledger_reader",
    "revoke all on function effect_problem from public",
    "grant execute on function effect_problem to worldledger_service, worldledger_reader",
    "revoke all on function world_problem from public",
    "grant execute on function world_problem to worldledger_service, worldledger_reader",
    "revoke all on function head_problem from public",
    "grant execute on function head_problem to worldledger_service, worldledger_reader",
    "revoke all on alembic_version from public",
    "grant select on alembic_version to worldledger_service, worldledger_reader",
]

COMMENTS = {
    "table worlds": "One row for each world, written once; a copy of its genesis effect (global_seq 1) for queries.",
    "column worlds.world_id": "The name of the world: its key everywhere.",
    "column worlds.world_uuid": "Random identity of the world, made with it: tells two worlds of the same name apart.",
    "column worlds.ruleset": "The ruleset that decides and folds this world.",
    "column worlds.ruleset_version": "The version of the ruleset at creation.",
    "column worlds.config": "The world's configuration, as text exactly as in genesis.",
    "column worlds.experiment": "The experiment that the world belongs to, if any.",
    "column worlds.time_authority": "Who sets sim_time: wall, client, or a named adapter such as unity.",
    "column worlds.created_at": "When the row was written, by the server's clock; informational.",
    "table heads": "Where each world's log ends: the row that every append moves forward, and that readers follow.",
    "column heads.world_id": "The name of the world.",
    "column heads.head_seq": "The highest global_seq of the world.",
    "column heads.head_checksum": "The checksum of the effect at head_seq; null before the first.",
    "column heads.sim_time": "The sim_time of the effect at head_seq.",
    "column heads.wall_time": "The wall_time of the effect at head_seq.",
    "table effects": "The log: every effect of every world, append-only, chained by checksum within its world.",
    "column effects.world_id": "The world; a copy of the effect's field.",
    "column effects.global_seq": "Place in the world's log: 1, 2, 3 … without a gap; a copy of the effect's field.",
    "column effects.effect": "The canonical text exactly as hashed; json, because jsonb rewrites numbers.",
    "column effects.checksum": "SHA-256 over the hex of the previous checksum (nothing for the first) and the text.",
    "column effects.kind": "What kind of effect; a copy of the effect's field.",
    "column effects.source_id": "Who caused it; a copy of the effect's field.",
    "column effects.sim_time": "Seconds of the world's own time; a copy likewise.",
    "column effects.recorded_at": "When the writing transaction began, by the server's clock; informational.",
    "table requests": "Every accepted request that had a req_id: the same request twice is one effect.",
    "column requests.world_id": "The name of the world.",
    "column requests.source_id": "Who asked; for intents the agent_id.",
    "column requests.req_id": "The caller's name for the request: its idempotency key.",
    "column requests.body_sha256": "SHA-256 of the request's body.",
    "column requests.first_seq": "The global_seq of the request's first effect.",
    "column requests.last_seq": "The global_seq of the request's last effect.",
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
    "trigger heads_no_delete on heads": "Refuses DELETE to everyone.",
    "trigger heads_no_truncate on heads": "Refuses TRUNCATE to everyone.",
    "function refuse_change": "Trigger: refuses to change what has been written.",
    "index worlds_pkey": "The index of the primary key.",
    "index effects_pkey": "The index of the primary key.",
    "index requests_pkey": "The index of the primary key.",
    "index heads_pkey": "The index of the primary key.",
    "trigger worlds_append_only on worlds": "Refuses UPDATE and DELETE to everyone.",
    "trigger effects_append_only on effects": "Refuses UPDATE and DELETE to everyone.",
    "trigger requests_append_only on requests": "Refuses UPDATE and DELETE to everyone.",
    "trigger worlds_no_truncate on worlds": "Refuses TRUNCATE to everyone.",
    "trigger effects_no_truncate on effects": "Refuses TRUNCATE to everyone.",
    "trigger requests_no_truncate on requests": "Refuses TRUNCATE to everyone.",
    "type effect_fields": "The fields of an effect that stand in columns too, read as text.",
    "column effect_fields.world_id": "The effect's world.",
    "column effect_fields.global_seq": "The effect's place in the log.",
    "column effect_fields.kind": "The effect's kind.",
    "column effect_fields.source_id": "Who caused the effect.",
    "column effect_fields.sim_time": "The effect's time in the world.",
    "function chain_checksum": "SHA-256 over the hex of the previous checksum (nothing if null) and the text.",
    "function effect_problem": "What is wrong with a row of effects after the one before, or null. Never raises.",
    "function world_problem": "What in a row of worlds differs from the genesis effect, or null. Never raises.",
    "function head_problem": "What in a row of heads differs from the last effect, or null. Never raises.",
    "view effect_verification": "Every effect with what is wrong with it: chain, order, columns against the text.",
    "column effect_verification.world_id": "The name of the world.",
    "column effect_verification.global_seq": "The place that the row claims.",
    "column effect_verification.expected_seq": "The place that a log without gap has here.",
    "column effect_verification.problem": "What does not hold; null when all does.",
    "view verification": "One row for each world: does its log hold, and do worlds and heads agree with it?",
    "column verification.world_id": "The name of the world.",
    "column verification.verified": "True when everything holds.",
    "column verification.effects": "How many effects the log holds.",
    "column verification.head_seq": "The global_seq at which the log ends, by the row of heads.",
    "column verification.head_checksum": "The head's checksum in hex; kept elsewhere, it exposes a rewritten log.",
    "column verification.problem_seq": "The first global_seq that does not hold, where one can be named.",
    "column verification.problem": "What does not hold there; null when all does.",
    "table alembic_version": "Which version of the schema this database has (kept by Alembic).",
    "column alembic_version.version_num": "The revision that `worldledger db upgrade` reached last.",
    "constraint alembic_version_pkc on alembic_version": "The name that Alembic gives its key.",
    "index alembic_version_pkc": "The index of the primary key.",
}

DROPS = [
    "drop view verification",
    "drop view effect_verification",
    "drop table requests",
    "drop table effects",
    "drop table heads",
    "drop table worlds",
    "drop function refuse_change",
    "drop function chain_checksum",
    "drop function effect_problem",
    "drop function world_problem",
    "drop function head_problem",
    "drop type effect_fields",
]


def upgrade() -> None:
    connection = op.get_bind()
    for statement in (*TABLES, *VIEWS, *TRIGGERS, *PRIVILEGES):
        connection.exec_driver_sql(statement)
    for thing, text in COMMENTS.items():
        quoted = text.replace("'", "''")
        connection.exec_driver_sql(f"comment on {thing} is '{quoted}'")


def downgrade() -> None:
    connection = op.get_bind()
    # Locks the table as LOCK TABLE would, for which the owner lacks the privilege.
    connection.exec_driver_sql("drop trigger effects_append_only on effects")
    if connection.exec_driver_sql("select exists (select from effects)").scalar():
        raise CommandError("the log holds effects, and this downgrade would drop them: drop the database instead")
    for statement in DROPS:
        connection.exec_driver_sql(statement)
