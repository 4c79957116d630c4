set local role none
-- next
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
-- next
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
-- next
set local role worldledger_service
-- next
grant usage on schema analytics to worldledger_reader, worldledger_guest
-- next
grant create, usage on schema analytics to worldledger_owner
-- next
alter default privileges in schema analytics grant select on tables to worldledger_reader, worldledger_guest
-- next
comment on schema analytics is 'Version 1. What is in the log and what follows from it, for questions: typed columns, names that explain themselves.'
-- next
set local role worldledger_owner
-- next
create or replace function analytics.json_bigint(value json) returns bigint
language plpgsql immutable strict parallel safe
as $$
begin
    if json_typeof(value) <> 'number' or value::text !~ '^-?[0-9]{1,18}$' then
        return null;
    end if;
    return value::text::bigint;
end
$$
-- next
revoke all on function analytics.json_bigint(json) from public
-- next
grant execute on function analytics.json_bigint(json) to worldledger_service, worldledger_reader, worldledger_guest
-- next
comment on function analytics.json_bigint(json) is 'A JSON value as a whole number; null where it is anything else. Never raises.'
-- next
create or replace function analytics.json_double(value json) returns double precision
language plpgsql immutable strict parallel safe
as $$
declare
    size numeric;
begin
    if json_typeof(value) <> 'number' or length(value::text) > 300 then
        return null;
    elsif value::text ~ '[eE]' then
        if value::text !~ '^[-0-9.]{1,40}[eE][-+]?[0-9]{1,3}$' then
            return null;
        end if;
        size := abs(value::text::numeric);
        if size > 1.7976931348623157e308 or size < 5e-324 and size <> 0 then
            return null;
        end if;
    end if;
    return value::text::double precision;
end
$$
-- next
revoke all on function analytics.json_double(json) from public
-- next
grant execute on function analytics.json_double(json) to worldledger_service, worldledger_reader, worldledger_guest
-- next
comment on function analytics.json_double(json) is 'A JSON value as a number; null where it is anything else. Never raises.'
-- next
create or replace function analytics.json_boolean(value json) returns boolean
language plpgsql immutable strict parallel safe
as $$
begin
    return case when json_typeof(value) = 'boolean' then value::text = 'true' end;
end
$$
-- next
revoke all on function analytics.json_boolean(json) from public
-- next
grant execute on function analytics.json_boolean(json) to worldledger_service, worldledger_reader, worldledger_guest
-- next
comment on function analytics.json_boolean(json) is 'A JSON value as true or false; null where it is anything else. Never raises.'
-- next
create or replace function analytics.json_time(value json) returns timestamptz
language plpgsql immutable strict parallel safe
as $$
declare
    parts text[];
    seconds double precision;
    month integer;
begin
    if json_typeof(value) = 'number' then
        seconds := analytics.json_double(value);
        return case when seconds >= -62135596800 and seconds < 253402300800 then to_timestamp(seconds) end;
    elsif json_typeof(value) <> 'string' then
        return null;
    end if;
    parts := regexp_match(
        value #>> '{}',
        '^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d(?:\.\d{1,9})?))?)?(?:Z|([-+])(\d\d):?(\d\d)?)?$');
    month := parts[2]::integer;
    if parts is null or parts[1]::integer not between 2 and 9998 or month not between 1 and 12
       or parts[3]::integer not between 1 and (case
           when month in (4, 6, 9, 11) then 30
           when month <> 2 then 31
           when parts[1]::integer % 4 = 0 and (parts[1]::integer % 100 <> 0 or parts[1]::integer % 400 = 0) then 29
           else 28 end)
       or parts[4]::integer > 23 or parts[5]::integer > 59 or parts[6]::double precision >= 60
       or parts[8]::integer > 15 or parts[9]::integer > 59 then
        return null;
    end if;
    return format('%s-%s-%s %s:%s:%s%s%s:%s', parts[1], parts[2], parts[3],
                  coalesce(parts[4], '00'), coalesce(parts[5], '00'), coalesce(parts[6], '00'),
                  coalesce(parts[7], '+'), coalesce(parts[8], '00'), coalesce(parts[9], '00'))::timestamptz;
end
$$
-- next
revoke all on function analytics.json_time(json) from public
-- next
grant execute on function analytics.json_time(json) to worldledger_service, worldledger_reader, worldledger_guest
-- next
comment on function analytics.json_time(json) is 'A JSON value as a moment: epoch seconds, or ISO 8601, UTC without an offset; else null. Never raises.'
-- next
create or replace function analytics.noise(world_uuid uuid, observer text, target text, path text, turn bigint) returns double precision
language plpgsql immutable strict parallel safe
as $$
declare
    digest bytea := sha256(convert_to(
        '[' || to_json(replace(world_uuid::text, '-', ''))::text || ',' || to_json(observer)::text || ','
        || to_json(target)::text || ',' || to_json(path)::text || ',' || turn || ']', 'UTF8'));
begin
    return (256 * get_byte(digest, 0) + get_byte(digest, 1) + 256 * get_byte(digest, 2) + get_byte(digest, 3) + 256 * get_byte(digest, 4) + get_byte(digest, 5) + 256 * get_byte(digest, 6) + get_byte(digest, 7) + 256 * get_byte(digest, 8) + get_byte(digest, 9) + 256 * get_byte(digest, 10) + get_byte(digest, 11) + 256 * get_byte(digest, 12) + get_byte(digest, 13) + 256 * get_byte(digest, 14) + get_byte(digest, 15) + 256 * get_byte(digest, 16) + get_byte(digest, 17) + 256 * get_byte(digest, 18) + get_byte(digest, 19) + 256 * get_byte(digest, 20) + get_byte(digest, 21) + 256 * get_byte(digest, 22) + get_byte(digest, 23) + 256 * get_byte(digest, 24) + get_byte(digest, 25) + 256 * get_byte(digest, 26) + get_byte(digest, 27) + 256 * get_byte(digest, 28) + get_byte(digest, 29) + 256 * get_byte(digest, 30) + get_byte(digest, 31) - 524280) * (0.8660254037844386::double precision / 65536);
end
$$
-- next
revoke all on function analytics.noise(uuid,text,text,text,bigint) from public
-- next
grant execute on function analytics.noise(uuid,text,text,text,bigint) to worldledger_service, worldledger_reader, worldledger_guest
-- next
comment on function analytics.noise(uuid,text,text,text,bigint) is 'The draw g of one number in one turn, for the policy matrix: observed = value * (1.0 + noise * g).'
-- next
create view analytics."worlds" as
select
    w.world_id as "world_id",
    w.experiment as "experiment",
    w.world_uuid as "world_uuid",
    w.ruleset as "ruleset",
    w.ruleset_version as "ruleset_version",
    w.time_authority as "time_authority",
    w.config as "config",
    w.created_at as "created_at",
    h.head_seq as "head_seq",
    encode(h.head_checksum, 'hex') as "head_checksum",
    h.sim_time as "last_sim_time_s",
    case when h.wall_time >= -62135596800 and h.wall_time < 253402300800 then to_timestamp(h.wall_time) end as "last_recorded_at"
from public.worlds w
left join public.heads h on h.world_id = w.world_id
-- next
comment on view analytics."worlds" is 'Every world, with where its log ends.'
-- next
comment on column analytics."worlds"."world_id" is 'The name of the world: its key everywhere.'
-- next
comment on column analytics."worlds"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."worlds"."world_uuid" is 'Random identity: tells two worlds of the same name apart.'
-- next
comment on column analytics."worlds"."ruleset" is 'The ruleset that decides and folds the world.'
-- next
comment on column analytics."worlds"."ruleset_version" is 'The version of the ruleset when the world was made.'
-- next
comment on column analytics."worlds"."time_authority" is 'Who sets sim_time: wall, client, or the name of an adapter.'
-- next
comment on column analytics."worlds"."config" is 'The world''s configuration.'
-- next
comment on column analytics."worlds"."created_at" is 'When the world''s row was written, by the server''s clock.'
-- next
comment on column analytics."worlds"."head_seq" is 'The global_seq of the last effect: how many effects the world has.'
-- next
comment on column analytics."worlds"."head_checksum" is 'The chain checksum of that effect, in hex.'
-- next
comment on column analytics."worlds"."last_sim_time_s" is 'The sim_time of that effect, in seconds.'
-- next
comment on column analytics."worlds"."last_recorded_at" is 'The wall_time of that effect.'
-- next
create view analytics."experiments" as
select
    w.experiment as "experiment",
    count(*) as "worlds",
    string_agg(distinct w.ruleset, ', ' order by w.ruleset) as "rulesets",
    coalesce(sum(h.head_seq), 0)::bigint as "effects",
    min(w.created_at) as "first_created_at",
    max(w.created_at) as "last_created_at",
    case when max(h.wall_time) >= -62135596800 and max(h.wall_time) < 253402300800 then to_timestamp(max(h.wall_time)) end as "last_recorded_at"
from public.worlds w
left join public.heads h on h.world_id = w.world_id
where w.experiment is not null
group by w.experiment
-- next
comment on view analytics."experiments" is 'Every experiment: the label under which worlds are found together.'
-- next
comment on column analytics."experiments"."experiment" is 'The experiment.'
-- next
comment on column analytics."experiments"."worlds" is 'How many worlds it has.'
-- next
comment on column analytics."experiments"."rulesets" is 'Their rulesets, by name.'
-- next
comment on column analytics."experiments"."effects" is 'How many effects those worlds have in all.'
-- next
comment on column analytics."experiments"."first_created_at" is 'When the first of those worlds was made.'
-- next
comment on column analytics."experiments"."last_created_at" is 'When the last of those worlds was made.'
-- next
comment on column analytics."experiments"."last_recorded_at" is 'When the last effect of any of them was accepted.'
-- next
create view analytics."effects" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.kind as "kind",
    e.source_id as "source_id",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.recorded_at as "stored_at",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect #>> '{req_id}' as "req_id",
    analytics.json_bigint(e.effect #> '{priority}') as "priority",
    e.effect #>> '{schema_version}' as "schema_version",
    e.effect #>> '{uuid}' as "uuid",
    e.effect -> 'payload' as "payload",
    e.effect -> 'source_metadata' as "source_metadata",
    e.effect as "effect",
    encode(e.checksum, 'hex') as "checksum"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
-- next
comment on view analytics."effects" is 'The log: every effect of every world, with its payload. Views of single kinds have typed columns.'
-- next
comment on column analytics."effects"."world_id" is 'The name of the world.'
-- next
comment on column analytics."effects"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."effects"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."effects"."kind" is 'What happened. The view of the kind is its name in snake_case.'
-- next
comment on column analytics."effects"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."effects"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."effects"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."effects"."stored_at" is 'When the row was written, by the server''s clock; cheaper to ask for.'
-- next
comment on column analytics."effects"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."effects"."req_id" is 'The idempotency key of the request; null for none.'
-- next
comment on column analytics."effects"."priority" is 'Among drafts that waited together, higher went first.'
-- next
comment on column analytics."effects"."schema_version" is 'The version of the payload''s shape.'
-- next
comment on column analytics."effects"."uuid" is 'The effect''s identity: 32 hex digits.'
-- next
comment on column analytics."effects"."payload" is 'The facts.'
-- next
comment on column analytics."effects"."source_metadata" is 'Facts about the source, where there are any.'
-- next
comment on column analytics."effects"."effect" is 'The whole effect: the canonical text, exactly as hashed.'
-- next
comment on column analytics."effects"."checksum" is 'The chain checksum, in hex.'
-- next
create view analytics."intents" as
select
    intended.world_id as "world_id",
    intended.experiment as "experiment",
    intended.global_seq as "global_seq",
    intended.agent_id as "agent_id",
    intended.req_id as "req_id",
    intended.is_accepted as "is_accepted",
    intended.intent_kind as "intent_kind",
    intended.effect_kind as "effect_kind",
    intended.context_seq as "context_seq",
    intended.code as "code",
    intended.rule as "rule",
    intended.reason as "reason",
    intended.sim_time as "sim_time_s",
    analytics.json_time(intended.wall_time) as "recorded_at",
    intended.payload as "payload"
from (
    select
        e.world_id, w.experiment, e.global_seq, e.source_id as agent_id, e.effect #>> '{req_id}' as req_id,
        true as is_accepted, e.effect #>> '{source_metadata,intent}' as intent_kind, e.kind as effect_kind,
        analytics.json_bigint(e.effect #> '{source_metadata,context_seq}') as context_seq,
        null::text as code, null::text as rule, null::text as reason, e.sim_time,
        e.effect #> '{wall_time}' as wall_time, e.effect -> 'payload' as payload
    from public.effects e
    left join public.worlds w on w.world_id = e.world_id
    where case when strpos(e.effect::text, '"source_metadata":{') > 0
               then e.effect #>> '{source_metadata,intent}' end is not null
    union all
    select
        e.world_id, w.experiment, e.global_seq, e.effect #>> '{payload,agent_id}' as agent_id,
        e.effect #>> '{payload,req_id}' as req_id, false as is_accepted, e.effect #>> '{payload,kind}' as intent_kind,
        null::text as effect_kind, analytics.json_bigint(e.effect #> '{payload,context_seq}') as context_seq,
        e.effect #>> '{payload,code}' as code, e.effect #>> '{payload,rule}' as rule,
        e.effect #>> '{payload,reason}' as reason, e.sim_time, e.effect #> '{wall_time}' as wall_time,
        e.effect #> '{payload,payload}' as payload
    from public.effects e
    left join public.worlds w on w.world_id = e.world_id
    where e.kind = 'IntentRejected'
) intended
-- next
comment on view analytics."intents" is 'What agents intended, and what became of it: the effect of that intent, or its rejection.'
-- next
comment on column analytics."intents"."world_id" is 'The name of the world.'
-- next
comment on column analytics."intents"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."intents"."global_seq" is 'The effect that the intent became, or the IntentRejected.'
-- next
comment on column analytics."intents"."agent_id" is 'The agent that intended it.'
-- next
comment on column analytics."intents"."req_id" is 'The intent''s idempotency key.'
-- next
comment on column analytics."intents"."is_accepted" is 'Whether it became an effect.'
-- next
comment on column analytics."intents"."intent_kind" is 'Speak, Move, Interact or Custom.'
-- next
comment on column analytics."intents"."effect_kind" is 'The kind of the effect that it became; null where it was rejected.'
-- next
comment on column analytics."intents"."context_seq" is 'The view_seq of the view that it was made from; 0: of none.'
-- next
comment on column analytics."intents"."code" is 'The code of the error where it was rejected: permission_denied, illegal_effect …'
-- next
comment on column analytics."intents"."rule" is 'The ruleset''s rule that refused it; null where it was no rule.'
-- next
comment on column analytics."intents"."reason" is 'The message of the error where it was rejected.'
-- next
comment on column analytics."intents"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."intents"."recorded_at" is 'When it was accepted or refused: the wall_time.'
-- next
comment on column analytics."intents"."payload" is 'The intent''s payload.'
-- next
create view analytics."observations" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    analytics.json_bigint(e.effect #> '{payload,at_seq}') as "view_seq",
    e.effect #>> '{payload,digest}' as "view_digest",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ViewDigest'
-- next
comment on view analytics."observations" is 'What agents were shown, as far as the log has digests of it: which view, after which effect.'
-- next
comment on column analytics."observations"."world_id" is 'The name of the world.'
-- next
comment on column analytics."observations"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."observations"."global_seq" is 'The ViewDigest that tells of it.'
-- next
comment on column analytics."observations"."agent_id" is 'The agent.'
-- next
comment on column analytics."observations"."view_seq" is 'The effect after which the agent was shown the view.'
-- next
comment on column analytics."observations"."view_digest" is 'SHA-256 of the view''s text, in hex.'
-- next
comment on column analytics."observations"."sim_time_s" is 'The world''s own time when that was written, in seconds.'
-- next
comment on column analytics."observations"."recorded_at" is 'When that was written: the effect''s wall_time.'
-- next
create view analytics."observers" as
select
    c.world_id as "world_id",
    w.experiment as "experiment",
    c.agent_id as "agent_id",
    c.view_seq as "view_seq",
    greatest(h.head_seq - c.view_seq, 0) as "effects_behind",
    c.updated_at as "noted_at"
from public.agent_cursors c
left join public.worlds w on w.world_id = c.world_id
left join public.heads h on h.world_id = c.world_id
-- next
comment on view analytics."observers" is 'How far each agent that is attached, or was, has come in observing its world.'
-- next
comment on column analytics."observers"."world_id" is 'The name of the world.'
-- next
comment on column analytics."observers"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."observers"."agent_id" is 'The agent.'
-- next
comment on column analytics."observers"."view_seq" is 'The last view that the agent has acknowledged, as noted now and then.'
-- next
comment on column analytics."observers"."effects_behind" is 'How many effects the world has beyond that.'
-- next
comment on column analytics."observers"."noted_at" is 'When that was noted, by the server''s clock.'
-- next
create view analytics."snapshots" as
select
    s.world_id as "world_id",
    w.experiment as "experiment",
    s.global_seq as "global_seq",
    s.ruleset as "ruleset",
    s.ruleset_version as "ruleset_version",
    encode(s.state_digest, 'hex') as "state_digest",
    s.state_bytes as "state_bytes",
    s.state as "state",
    s.created_at as "created_at"
from public.snapshots s
left join public.worlds w on w.world_id = s.world_id
-- next
comment on view analytics."snapshots" is 'States of worlds at some places of their logs: a cache, which can be folded again from the log.'
-- next
comment on column analytics."snapshots"."world_id" is 'The name of the world.'
-- next
comment on column analytics."snapshots"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."snapshots"."global_seq" is 'The effect after which the world had this state.'
-- next
comment on column analytics."snapshots"."ruleset" is 'The ruleset that folded it.'
-- next
comment on column analytics."snapshots"."ruleset_version" is 'The version of that ruleset.'
-- next
comment on column analytics."snapshots"."state_digest" is 'SHA-256 of the state''s text, in hex.'
-- next
comment on column analytics."snapshots"."state_bytes" is 'The length of the state''s text.'
-- next
comment on column analytics."snapshots"."state" is 'The state: entities, relationships, spatial_index, metadata.'
-- next
comment on column analytics."snapshots"."created_at" is 'When the snapshot was written, by the server''s clock.'
-- next
create view analytics."projection_backlog" as
select
    d.world_id as "world_id",
    w.experiment as "experiment",
    b.projection as "projection",
    b.build as "build",
    w.ruleset as "ruleset",
    coalesce(c.global_seq, 0) as "reached_seq",
    d.head_seq as "head_seq",
    d.head_seq - coalesce(c.global_seq, 0) as "effects_behind",
    k.build is not null as "is_parked",
    d.since as "behind_since_at"
from (
    select n.build, n.world_id, max(n.head_seq) as head_seq, min(n.since) as since
    from (
        select p.build, p.world_id, p.head_seq, p.since from public.projection_pending p
        union all
        select m.build, h.world_id, h.head_seq, null::timestamptz
        from public.heads h cross join public.projection_builds m
        where h.moved and m.status <> 'retired'
        union all
        select k.build, k.world_id, h.head_seq, k.parked_at
        from public.projection_parked k join public.heads h on h.world_id = k.world_id
    ) n
    group by n.build, n.world_id
) d
join public.projection_builds b on b.build = d.build and b.status <> 'retired'
left join public.worlds w on w.world_id = d.world_id
left join public.projection_cursors c on c.build = d.build and c.world_id = d.world_id
left join public.projection_parked k on k.build = d.build and k.world_id = d.world_id
where d.head_seq > coalesce(c.global_seq, 0)
-- next
comment on view analytics."projection_backlog" is 'The worlds in which a projection is behind the log; its rows and those of the world do not agree there.'
-- next
comment on column analytics."projection_backlog"."world_id" is 'The name of the world.'
-- next
comment on column analytics."projection_backlog"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."projection_backlog"."projection" is 'The projection.'
-- next
comment on column analytics."projection_backlog"."build" is 'The build that is behind.'
-- next
comment on column analytics."projection_backlog"."ruleset" is 'The world''s ruleset; while nobody has noted the news, the projection may read others.'
-- next
comment on column analytics."projection_backlog"."reached_seq" is 'The last effect of the world that the build holds.'
-- next
comment on column analytics."projection_backlog"."head_seq" is 'Where the world''s log ended when that was looked at.'
-- next
comment on column analytics."projection_backlog"."effects_behind" is 'How many effects it has still to read.'
-- next
comment on column analytics."projection_backlog"."is_parked" is 'Whether it has set the world aside because of an effect.'
-- next
comment on column analytics."projection_backlog"."behind_since_at" is 'Since when; null where nobody has noted it yet.'
-- next
create view analytics."projections" as
select
    b.projection as "projection",
    b.version as "version",
    b.build as "build",
    b.status as "status",
    b.paused as "is_paused",
    b.scanned_to is not null as "is_scanning",
    coalesce(l.worlds, 0) as "worlds_behind",
    coalesce(l.effects, 0) as "effects_behind",
    coalesce(l.parked, 0) as "worlds_parked",
    b.started_at as "started_at",
    b.finished_at as "finished_at"
from public.projection_builds b
left join (
    select g.build, count(*) as worlds, sum(g.effects_behind)::bigint as effects,
           count(*) filter (where g.is_parked) as parked
    from analytics.projection_backlog g
    group by g.build
) l on l.build = b.build
where b.status <> 'retired'
-- next
comment on view analytics."projections" is 'The builds of projections: one row for each that is live or being filled.'
-- next
comment on column analytics."projections"."projection" is 'The projection: the name of its view.'
-- next
comment on column analytics."projections"."version" is 'The version of the projection that fills the build.'
-- next
comment on column analytics."projections"."build" is 'The build.'
-- next
comment on column analytics."projections"."status" is 'live: the one that people read; building: being filled.'
-- next
comment on column analytics."projections"."is_paused" is 'Whether no runner works on it.'
-- next
comment on column analytics."projections"."is_scanning" is 'Whether its first pass over all worlds is still going on.'
-- next
comment on column analytics."projections"."worlds_behind" is 'In how many worlds it is behind: see projection_backlog.'
-- next
comment on column analytics."projections"."effects_behind" is 'How many effects it has still to read there.'
-- next
comment on column analytics."projections"."worlds_parked" is 'How many of those worlds it has set aside.'
-- next
comment on column analytics."projections"."started_at" is 'When the build began.'
-- next
comment on column analytics."projections"."finished_at" is 'When it went live; null while it is being filled.'
-- next
create view analytics."verification" as
select
    v.world_id as "world_id",
    w.experiment as "experiment",
    v.verified as "is_verified",
    v.effects as "effects",
    v.head_seq as "head_seq",
    v.head_checksum as "head_checksum",
    v.problem_seq as "problem_seq",
    v.problem as "problem"
from public.verification v
left join public.worlds w on w.world_id = v.world_id
-- next
comment on view analytics."verification" is 'Does each world''s log hold, and do worlds and heads agree with it? Worked out anew for each row asked for.'
-- next
comment on column analytics."verification"."world_id" is 'The name of the world.'
-- next
comment on column analytics."verification"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."verification"."is_verified" is 'Whether everything holds.'
-- next
comment on column analytics."verification"."effects" is 'How many effects the log holds.'
-- next
comment on column analytics."verification"."head_seq" is 'The global_seq at which the log ends.'
-- next
comment on column analytics."verification"."head_checksum" is 'The head''s checksum in hex; kept elsewhere, it exposes a rewritten log.'
-- next
comment on column analytics."verification"."problem_seq" is 'The first global_seq that does not hold, where one can be named.'
-- next
comment on column analytics."verification"."problem" is 'What does not hold there; null when all does.'
-- next
create view analytics."effect_verification" as
select
    v.world_id as "world_id",
    w.experiment as "experiment",
    v.global_seq as "global_seq",
    v.expected_seq as "expected_seq",
    v.problem as "problem"
from public.effect_verification v
left join public.worlds w on w.world_id = v.world_id
-- next
comment on view analytics."effect_verification" is 'Every effect with what is wrong with it: chain, order, columns against the text.'
-- next
comment on column analytics."effect_verification"."world_id" is 'The name of the world.'
-- next
comment on column analytics."effect_verification"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."effect_verification"."global_seq" is 'The place that the row claims.'
-- next
comment on column analytics."effect_verification"."expected_seq" is 'The place that a log without gap has here.'
-- next
comment on column analytics."effect_verification"."problem" is 'What does not hold; null when all does.'
-- next
create view analytics."world_created" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,world_uuid}' as "world_uuid",
    e.effect #>> '{payload,ruleset}' as "ruleset",
    analytics.json_bigint(e.effect #> '{payload,ruleset_version}') as "ruleset_version",
    e.effect #>> '{payload,time_authority}' as "time_authority",
    e.effect #>> '{payload,canonical_profile}' as "canonical_profile",
    e.effect #> '{payload,config}' as "config",
    e.effect #> '{payload,orchestrator}' as "orchestrator",
    analytics.json_bigint(e.effect #> '{payload,snapshot_every}') as "snapshot_every",
    e.effect #>> '{payload,parent,world_id}' as "parent_world_id",
    analytics.json_bigint(e.effect #> '{payload,parent,global_seq}') as "parent_seq",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldCreated'
-- next
comment on view analytics."world_created" is 'WorldCreated: the genesis of a world, its effect 1.'
-- next
comment on column analytics."world_created"."world_id" is 'The name of the world.'
-- next
comment on column analytics."world_created"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."world_created"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."world_created"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."world_created"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."world_created"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."world_created"."world_uuid" is 'Random; tells two worlds of the same name apart. 32 hex digits.'
-- next
comment on column analytics."world_created"."ruleset" is 'The ruleset that decides and folds the world.'
-- next
comment on column analytics."world_created"."ruleset_version" is 'The version of that ruleset.'
-- next
comment on column analytics."world_created"."time_authority" is 'Who sets sim_time: wall, client, or the name of an adapter.'
-- next
comment on column analytics."world_created"."canonical_profile" is 'How effects are written as text: orjson-sorted/1.'
-- next
comment on column analytics."world_created"."config" is 'The ruleset''s own settings.'
-- next
comment on column analytics."world_created"."orchestrator" is 'How its agents are served; null where nothing was said.'
-- next
comment on column analytics."world_created"."snapshot_every" is 'Effects between two snapshots, at least; null where nothing was said.'
-- next
comment on column analytics."world_created"."parent_world_id" is 'The world that it is a fork of; null for none.'
-- next
comment on column analytics."world_created"."parent_seq" is 'The position at which it left that world.'
-- next
comment on column analytics."world_created"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."world_created"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."state_digest" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.json_bigint(e.effect #> '{payload,at_seq}') as "at_seq",
    e.effect #>> '{payload,state_digest}' as "state_digest",
    e.effect #>> '{payload,ruleset}' as "ruleset",
    analytics.json_bigint(e.effect #> '{payload,ruleset_version}') as "ruleset_version",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'StateDigest'
-- next
comment on view analytics."state_digest" is 'StateDigest: what state a world had at a place of its log.'
-- next
comment on column analytics."state_digest"."world_id" is 'The name of the world.'
-- next
comment on column analytics."state_digest"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."state_digest"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."state_digest"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."state_digest"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."state_digest"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."state_digest"."at_seq" is 'The effect after which the world had that state.'
-- next
comment on column analytics."state_digest"."state_digest" is 'SHA-256 of the state''s text, in hex.'
-- next
comment on column analytics."state_digest"."ruleset" is 'The ruleset that folded it.'
-- next
comment on column analytics."state_digest"."ruleset_version" is 'The version of that ruleset.'
-- next
comment on column analytics."state_digest"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."state_digest"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."view_digest" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    analytics.json_bigint(e.effect #> '{payload,at_seq}') as "at_seq",
    e.effect #>> '{payload,digest}' as "digest",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ViewDigest'
-- next
comment on view analytics."view_digest" is 'ViewDigest: what an agent was shown at a place of the log.'
-- next
comment on column analytics."view_digest"."world_id" is 'The name of the world.'
-- next
comment on column analytics."view_digest"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."view_digest"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."view_digest"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."view_digest"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."view_digest"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."view_digest"."agent_id" is 'The agent.'
-- next
comment on column analytics."view_digest"."at_seq" is 'The effect after which the agent was shown that view.'
-- next
comment on column analytics."view_digest"."digest" is 'SHA-256 of the view''s text, in hex.'
-- next
comment on column analytics."view_digest"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."view_digest"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."agent_registered" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,policy,name}' as "policy_name",
    e.effect #>> '{payload,policy,version}' as "policy_version",
    e.effect #> '{payload,policy,config}' as "policy_config",
    e.effect #> '{payload,permissions}' as "permissions",
    analytics.json_bigint(e.effect #> '{payload,weight}') as "weight",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentRegistered'
-- next
comment on view analytics."agent_registered" is 'AgentRegistered: an agent was let into a world, or registered anew.'
-- next
comment on column analytics."agent_registered"."world_id" is 'The name of the world.'
-- next
comment on column analytics."agent_registered"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."agent_registered"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."agent_registered"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."agent_registered"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."agent_registered"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."agent_registered"."agent_id" is 'The agent.'
-- next
comment on column analytics."agent_registered"."policy_name" is 'The observation policy that says what it is shown.'
-- next
comment on column analytics."agent_registered"."policy_version" is 'The version of that policy.'
-- next
comment on column analytics."agent_registered"."policy_config" is 'The settings of that policy.'
-- next
comment on column analytics."agent_registered"."permissions" is 'What it may do: a list of names.'
-- next
comment on column analytics."agent_registered"."weight" is 'Its share in the round-robin of intents that wait.'
-- next
comment on column analytics."agent_registered"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."agent_registered"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."world_time_set" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,adapter}' as "adapter",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldTimeSet'
-- next
comment on view analytics."world_time_set" is 'WorldTimeSet: an adapter moved sim_time on.'
-- next
comment on column analytics."world_time_set"."world_id" is 'The name of the world.'
-- next
comment on column analytics."world_time_set"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."world_time_set"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."world_time_set"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."world_time_set"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."world_time_set"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."world_time_set"."adapter" is 'The adapter.'
-- next
comment on column analytics."world_time_set"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."world_time_set"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."world_time_authority_set" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,authority}' as "authority",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldTimeAuthoritySet'
-- next
comment on view analytics."world_time_authority_set" is 'WorldTimeAuthoritySet: who sets sim_time from here on.'
-- next
comment on column analytics."world_time_authority_set"."world_id" is 'The name of the world.'
-- next
comment on column analytics."world_time_authority_set"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."world_time_authority_set"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."world_time_authority_set"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."world_time_authority_set"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."world_time_authority_set"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."world_time_authority_set"."authority" is 'wall, client, or the name of an adapter.'
-- next
comment on column analytics."world_time_authority_set"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."world_time_authority_set"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."intent_rejected" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,req_id}' as "req_id",
    e.effect #>> '{payload,kind}' as "intent_kind",
    e.effect #> '{payload,payload}' as "intent_payload",
    analytics.json_bigint(e.effect #> '{payload,context_seq}') as "context_seq",
    e.effect #>> '{payload,code}' as "code",
    e.effect #>> '{payload,reason}' as "reason",
    e.effect #>> '{payload,rule}' as "rule",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'IntentRejected'
-- next
comment on view analytics."intent_rejected" is 'IntentRejected: an intent that permissions, a conflict, the validator or the ruleset refused.'
-- next
comment on column analytics."intent_rejected"."world_id" is 'The name of the world.'
-- next
comment on column analytics."intent_rejected"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."intent_rejected"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."intent_rejected"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."intent_rejected"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."intent_rejected"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."intent_rejected"."agent_id" is 'The agent that intended it.'
-- next
comment on column analytics."intent_rejected"."req_id" is 'The intent''s req_id.'
-- next
comment on column analytics."intent_rejected"."intent_kind" is 'The intent''s kind: Speak, Move, Interact or Custom.'
-- next
comment on column analytics."intent_rejected"."intent_payload" is 'The intent''s payload.'
-- next
comment on column analytics."intent_rejected"."context_seq" is 'The view_seq of the view that it was made from; 0: of none.'
-- next
comment on column analytics."intent_rejected"."code" is 'The code of the error: permission_denied, illegal_effect …'
-- next
comment on column analytics."intent_rejected"."reason" is 'The message of the error.'
-- next
comment on column analytics."intent_rejected"."rule" is 'The ruleset''s rule that refused it; null where it was no rule.'
-- next
comment on column analytics."intent_rejected"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."intent_rejected"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."generation_started" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,req_id}' as "req_id",
    e.effect #>> '{payload,generation_id}' as "generation_id",
    analytics.json_bigint(e.effect #> '{payload,context_seq}') as "context_seq",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationStarted'
-- next
comment on view analytics."generation_started" is 'GenerationStarted: an agent began to make an intent.'
-- next
comment on column analytics."generation_started"."world_id" is 'The name of the world.'
-- next
comment on column analytics."generation_started"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."generation_started"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."generation_started"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."generation_started"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."generation_started"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."generation_started"."agent_id" is 'The agent.'
-- next
comment on column analytics."generation_started"."req_id" is 'The req_id of the intent that is being made.'
-- next
comment on column analytics."generation_started"."generation_id" is 'Tells two generations of one req_id apart.'
-- next
comment on column analytics."generation_started"."context_seq" is 'The view_seq of the view that it was made from; 0: of none.'
-- next
comment on column analytics."generation_started"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."generation_started"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."generation_cancelled" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,req_id}' as "req_id",
    e.effect #>> '{payload,generation_id}' as "generation_id",
    e.effect #>> '{payload,reason}' as "reason",
    analytics.json_double(e.effect #> '{payload,latency_ms}') as "latency_ms",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationCancelled'
-- next
comment on view analytics."generation_cancelled" is 'GenerationCancelled: an agent was told to stop making an intent.'
-- next
comment on column analytics."generation_cancelled"."world_id" is 'The name of the world.'
-- next
comment on column analytics."generation_cancelled"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."generation_cancelled"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."generation_cancelled"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."generation_cancelled"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."generation_cancelled"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."generation_cancelled"."agent_id" is 'The agent.'
-- next
comment on column analytics."generation_cancelled"."req_id" is 'The req_id of the intent that is being made.'
-- next
comment on column analytics."generation_cancelled"."generation_id" is 'Tells two generations of one req_id apart.'
-- next
comment on column analytics."generation_cancelled"."reason" is 'Why: stale_due_to_effect_<seq>, or what whoever cancelled it has said.'
-- next
comment on column analytics."generation_cancelled"."latency_ms" is 'From what made it stale until it was cancelled, in milliseconds.'
-- next
comment on column analytics."generation_cancelled"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."generation_cancelled"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."generation_finished" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,req_id}' as "req_id",
    e.effect #>> '{payload,generation_id}' as "generation_id",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationFinished'
-- next
comment on view analytics."generation_finished" is 'GenerationFinished: an agent has made an intent, or given up.'
-- next
comment on column analytics."generation_finished"."world_id" is 'The name of the world.'
-- next
comment on column analytics."generation_finished"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."generation_finished"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."generation_finished"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."generation_finished"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."generation_finished"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."generation_finished"."agent_id" is 'The agent.'
-- next
comment on column analytics."generation_finished"."req_id" is 'The req_id of the intent that is being made.'
-- next
comment on column analytics."generation_finished"."generation_id" is 'Tells two generations of one req_id apart.'
-- next
comment on column analytics."generation_finished"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."generation_finished"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."entity_created" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,entity_id}' as "entity_id",
    e.effect #> '{payload,entity_data}' as "entity_data",
    coalesce(analytics.json_double(e.effect #> '{payload,position,0}'), analytics.json_double(e.effect #> '{payload,entity_data,position,0}')) as "x",
    coalesce(analytics.json_double(e.effect #> '{payload,position,1}'), analytics.json_double(e.effect #> '{payload,entity_data,position,1}')) as "y",
    coalesce(analytics.json_double(e.effect #> '{payload,position,2}'), analytics.json_double(e.effect #> '{payload,entity_data,position,2}')) as "z",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'EntityCreated'
-- next
comment on view analytics."entity_created" is 'EntityCreated: an entity came into a world.'
-- next
comment on column analytics."entity_created"."world_id" is 'The name of the world.'
-- next
comment on column analytics."entity_created"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."entity_created"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."entity_created"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."entity_created"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."entity_created"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."entity_created"."entity_id" is 'The entity''s id, unique in its world.'
-- next
comment on column analytics."entity_created"."entity_data" is 'What is known of it.'
-- next
comment on column analytics."entity_created"."x" is 'Where it stands; null where it has no place.'
-- next
comment on column analytics."entity_created"."y" is 'As x.'
-- next
comment on column analytics."entity_created"."z" is 'As x.'
-- next
comment on column analytics."entity_created"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."entity_created"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."entity_updated" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,entity_id}' as "entity_id",
    e.effect #> '{payload,patch}' as "patch",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'EntityUpdated'
-- next
comment on view analytics."entity_updated" is 'EntityUpdated: an entity was changed.'
-- next
comment on column analytics."entity_updated"."world_id" is 'The name of the world.'
-- next
comment on column analytics."entity_updated"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."entity_updated"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."entity_updated"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."entity_updated"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."entity_updated"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."entity_updated"."entity_id" is 'The entity''s id, unique in its world.'
-- next
comment on column analytics."entity_updated"."patch" is 'What changes: RFC 6902.'
-- next
comment on column analytics."entity_updated"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."entity_updated"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."entity_removed" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,entity_id}' as "entity_id",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'EntityRemoved'
-- next
comment on view analytics."entity_removed" is 'EntityRemoved: an entity is gone.'
-- next
comment on column analytics."entity_removed"."world_id" is 'The name of the world.'
-- next
comment on column analytics."entity_removed"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."entity_removed"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."entity_removed"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."entity_removed"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."entity_removed"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."entity_removed"."entity_id" is 'The entity''s id, unique in its world.'
-- next
comment on column analytics."entity_removed"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."entity_removed"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."move" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as "agent_id",
    coalesce(analytics.json_double(e.effect #> '{payload,to,0}'), analytics.json_double(e.effect #> '{payload,position,0}')) as "to_x",
    coalesce(analytics.json_double(e.effect #> '{payload,to,1}'), analytics.json_double(e.effect #> '{payload,position,1}')) as "to_y",
    coalesce(analytics.json_double(e.effect #> '{payload,to,2}'), analytics.json_double(e.effect #> '{payload,position,2}')) as "to_z",
    analytics.json_double(e.effect #> '{payload,from,0}') as "from_x",
    analytics.json_double(e.effect #> '{payload,from,1}') as "from_y",
    analytics.json_double(e.effect #> '{payload,from,2}') as "from_z",
    analytics.json_double(e.effect #> '{payload,speed}') as "speed",
    analytics.json_bigint(e.effect #> '{payload,token_count}') as "token_count",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'Move'
-- next
comment on view analytics."move" is 'Move: an agent moved.'
-- next
comment on column analytics."move"."world_id" is 'The name of the world.'
-- next
comment on column analytics."move"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."move"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."move"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."move"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."move"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."move"."agent_id" is 'Who moved: the source, where the payload names nobody.'
-- next
comment on column analytics."move"."to_x" is 'Where it moved to.'
-- next
comment on column analytics."move"."to_y" is 'As to_x.'
-- next
comment on column analytics."move"."to_z" is 'As to_x.'
-- next
comment on column analytics."move"."from_x" is 'Where it came from; null where that is not told.'
-- next
comment on column analytics."move"."from_y" is 'As from_x.'
-- next
comment on column analytics."move"."from_z" is 'As from_x.'
-- next
comment on column analytics."move"."speed" is 'How fast; null where that is not told.'
-- next
comment on column analytics."move"."token_count" is 'The LLM tokens that making it has cost; null where not told.'
-- next
comment on column analytics."move"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."move"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."speak" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,text}' as "text",
    analytics.json_bigint(e.effect #> '{payload,token_count}') as "token_count",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'Speak'
-- next
comment on view analytics."speak" is 'Speak: an agent spoke.'
-- next
comment on column analytics."speak"."world_id" is 'The name of the world.'
-- next
comment on column analytics."speak"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."speak"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."speak"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."speak"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."speak"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."speak"."text" is 'What was said.'
-- next
comment on column analytics."speak"."token_count" is 'The LLM tokens that making it has cost; null where not told.'
-- next
comment on column analytics."speak"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."speak"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."speak_response" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,text}' as "text",
    analytics.json_bigint(e.effect #> '{payload,token_count}') as "token_count",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'SpeakResponse'
-- next
comment on view analytics."speak_response" is 'SpeakResponse: an agent answered.'
-- next
comment on column analytics."speak_response"."world_id" is 'The name of the world.'
-- next
comment on column analytics."speak_response"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."speak_response"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."speak_response"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."speak_response"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."speak_response"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."speak_response"."text" is 'What was said.'
-- next
comment on column analytics."speak_response"."token_count" is 'The LLM tokens that making it has cost; null where not told.'
-- next
comment on column analytics."speak_response"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."speak_response"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."interact" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,target_id}' as "target_id",
    analytics.json_bigint(e.effect #> '{payload,token_count}') as "token_count",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'Interact'
-- next
comment on view analytics."interact" is 'Interact: an agent met another.'
-- next
comment on column analytics."interact"."world_id" is 'The name of the world.'
-- next
comment on column analytics."interact"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."interact"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."interact"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."interact"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."interact"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."interact"."target_id" is 'With whom.'
-- next
comment on column analytics."interact"."token_count" is 'The LLM tokens that making it has cost; null where not told.'
-- next
comment on column analytics."interact"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."interact"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."relationship_set" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    coalesce(e.effect #>> '{payload,from_entity}', e.source_id) as "from_entity",
    e.effect #>> '{payload,to_entity}' as "to_entity",
    e.effect #>> '{payload,relationship_type}' as "relationship_type",
    analytics.json_double(e.effect #> '{payload,strength}') as "strength",
    e.effect #> '{payload,metadata}' as "metadata",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RelationshipSet'
-- next
comment on view analytics."relationship_set" is 'RelationshipSet: a relationship, one way.'
-- next
comment on column analytics."relationship_set"."world_id" is 'The name of the world.'
-- next
comment on column analytics."relationship_set"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."relationship_set"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."relationship_set"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."relationship_set"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."relationship_set"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."relationship_set"."from_entity" is 'Whose relationship it is: the source, where the payload names nobody.'
-- next
comment on column analytics."relationship_set"."to_entity" is 'To whom.'
-- next
comment on column analytics."relationship_set"."relationship_type" is 'What kind of relationship.'
-- next
comment on column analytics."relationship_set"."strength" is 'How strong; 1.0 is meant where it is null.'
-- next
comment on column analytics."relationship_set"."metadata" is 'What else is known of it.'
-- next
comment on column analytics."relationship_set"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."relationship_set"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."relationship_removed" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    coalesce(e.effect #>> '{payload,from_entity}', e.source_id) as "from_entity",
    e.effect #>> '{payload,to_entity}' as "to_entity",
    e.effect #>> '{payload,relationship_type}' as "relationship_type",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RelationshipRemoved'
-- next
comment on view analytics."relationship_removed" is 'RelationshipRemoved: a relationship is gone.'
-- next
comment on column analytics."relationship_removed"."world_id" is 'The name of the world.'
-- next
comment on column analytics."relationship_removed"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."relationship_removed"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."relationship_removed"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."relationship_removed"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."relationship_removed"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."relationship_removed"."from_entity" is 'Whose relationship it was: the source, where the payload names nobody.'
-- next
comment on column analytics."relationship_removed"."to_entity" is 'To whom.'
-- next
comment on column analytics."relationship_removed"."relationship_type" is 'What kind of relationship; null: all of the two.'
-- next
comment on column analytics."relationship_removed"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."relationship_removed"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."game_started" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,white}' as "white",
    e.effect #>> '{payload,black}' as "black",
    e.effect #>> '{payload,agents,white}' as "white_agent_id",
    e.effect #>> '{payload,agents,black}' as "black_agent_id",
    e.effect #>> '{payload,event}' as "event",
    e.effect #>> '{payload,site}' as "site",
    e.effect #>> '{payload,date}' as "date",
    e.effect #>> '{payload,round}' as "round",
    e.effect #>> '{payload,time_control}' as "time_control",
    e.effect #>> '{payload,variant}' as "variant",
    e.effect #>> '{payload,initial_fen}' as "initial_fen",
    e.effect #> '{payload,tags}' as "tags",
    e.effect #>> '{payload,comment}' as "comment",
    e.effect #>> '{payload,sim_time_unit}' as "sim_time_unit",
    e.effect #>> '{payload,digest}' as "digest",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GameStarted'
-- next
comment on view analytics."game_started" is 'GameStarted: a game of chess has begun.'
-- next
comment on column analytics."game_started"."world_id" is 'The name of the world.'
-- next
comment on column analytics."game_started"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."game_started"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."game_started"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."game_started"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."game_started"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."game_started"."white" is 'The name of the player with the white pieces; null where unknown.'
-- next
comment on column analytics."game_started"."black" is 'The name of the player with the black pieces; null where unknown.'
-- next
comment on column analytics."game_started"."white_agent_id" is 'The agent that plays white; null: it is called as in white.'
-- next
comment on column analytics."game_started"."black_agent_id" is 'The agent that plays black; null: it is called as in black.'
-- next
comment on column analytics."game_started"."event" is 'The event, as recorded.'
-- next
comment on column analytics."game_started"."site" is 'Where it was played, as recorded.'
-- next
comment on column analytics."game_started"."date" is 'When it was played, as recorded.'
-- next
comment on column analytics."game_started"."round" is 'The round, as recorded.'
-- next
comment on column analytics."game_started"."time_control" is 'The time control, as recorded.'
-- next
comment on column analytics."game_started"."variant" is 'standard, chess960 or python-chess''s name; null: standard.'
-- next
comment on column analytics."game_started"."initial_fen" is 'The position that it began with; null: the variant''s usual one.'
-- next
comment on column analytics."game_started"."tags" is 'All tags of the record.'
-- next
comment on column analytics."game_started"."comment" is 'What stands before the first move of the record.'
-- next
comment on column analytics."game_started"."sim_time_unit" is 'What sim_time counts in a recorded game: seconds or plies.'
-- next
comment on column analytics."game_started"."digest" is 'The identity of a recorded game: SHA-256 in hex.'
-- next
comment on column analytics."game_started"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."game_started"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."move_made" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.json_bigint(e.effect #> '{payload,ply}') as "ply",
    e.effect #>> '{payload,player}' as "player",
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as "agent_id",
    e.effect #>> '{payload,from_square}' as "from_square",
    e.effect #>> '{payload,to_square}' as "to_square",
    e.effect #>> '{payload,piece}' as "piece",
    e.effect #>> '{payload,uci_notation}' as "uci_notation",
    e.effect #>> '{payload,san_notation}' as "san_notation",
    analytics.json_boolean(e.effect #> '{payload,is_capture}') as "is_capture",
    analytics.json_boolean(e.effect #> '{payload,is_castling}') as "is_castling",
    analytics.json_boolean(e.effect #> '{payload,is_promotion}') as "is_promotion",
    e.effect #>> '{payload,promotion_piece}' as "promotion_piece",
    analytics.json_boolean(e.effect #> '{payload,is_null}') as "is_null",
    analytics.json_time(e.effect #> '{payload,timestamp}') as "made_at",
    analytics.json_double(e.effect #> '{payload,thinking_time}') as "thinking_time_s",
    analytics.json_double(e.effect #> '{payload,clock}') as "clock_s",
    analytics.json_double(e.effect #> '{payload,evaluation,cp}') as "evaluation_cp",
    analytics.json_double(e.effect #> '{payload,evaluation,mate}') as "evaluation_mate",
    e.effect #>> '{payload,comment}' as "comment",
    e.effect #>> '{payload,fen}' as "fen",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'MoveMade'
-- next
comment on view analytics."move_made" is 'MoveMade: a move of a game of chess, as it was told. The projection moves has what is left out there.'
-- next
comment on column analytics."move_made"."world_id" is 'The name of the world.'
-- next
comment on column analytics."move_made"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."move_made"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."move_made"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."move_made"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."move_made"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."move_made"."ply" is 'The number of the move in the game: 1 is the first, by either player.'
-- next
comment on column analytics."move_made"."player" is 'The colour: white or black.'
-- next
comment on column analytics."move_made"."agent_id" is 'The agent that moved.'
-- next
comment on column analytics."move_made"."from_square" is 'Like e2; null for a null move, and for a piece dropped from the hand.'
-- next
comment on column analytics."move_made"."to_square" is 'Like e4; null for a null move.'
-- next
comment on column analytics."move_made"."piece" is 'pawn, knight, bishop, rook, queen or king; null for a null move.'
-- next
comment on column analytics."move_made"."uci_notation" is 'The move as in UCI: e2e4, e7e8q, N@f3; 0000 is a null move.'
-- next
comment on column analytics."move_made"."san_notation" is 'The move in algebraic notation: e4, Nf3, O-O, exd5; -- is a null move.'
-- next
comment on column analytics."move_made"."is_capture" is 'Whether a piece was taken, en passant included.'
-- next
comment on column analytics."move_made"."is_castling" is 'Whether it was castling.'
-- next
comment on column analytics."move_made"."is_promotion" is 'Whether a pawn became another piece.'
-- next
comment on column analytics."move_made"."promotion_piece" is 'What the pawn became; null where there was no promotion.'
-- next
comment on column analytics."move_made"."is_null" is 'Whether it is no move at all, which recorded games may have.'
-- next
comment on column analytics."move_made"."made_at" is 'When it was made, where that is told.'
-- next
comment on column analytics."move_made"."thinking_time_s" is 'Seconds that the move took; null where unknown.'
-- next
comment on column analytics."move_made"."clock_s" is 'Seconds left on the player''s clock after it; null where unknown.'
-- next
comment on column analytics."move_made"."evaluation_cp" is 'The recorder''s evaluation in centipawns, from White''s side.'
-- next
comment on column analytics."move_made"."evaluation_mate" is 'Moves to the mate that the recorder saw.'
-- next
comment on column analytics."move_made"."comment" is 'The recorder''s comment.'
-- next
comment on column analytics."move_made"."fen" is 'The position after the move.'
-- next
comment on column analytics."move_made"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."move_made"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."move_rejected" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,player}' as "player",
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as "agent_id",
    e.effect #>> '{payload,attempted}' as "attempted",
    e.effect #>> '{payload,reason}' as "reason",
    analytics.json_bigint(e.effect #> '{payload,ply}') as "ply",
    e.effect #>> '{payload,fen}' as "fen",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'MoveRejected'
-- next
comment on view analytics."move_rejected" is 'MoveRejected: a move that was tried and not made.'
-- next
comment on column analytics."move_rejected"."world_id" is 'The name of the world.'
-- next
comment on column analytics."move_rejected"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."move_rejected"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."move_rejected"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."move_rejected"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."move_rejected"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."move_rejected"."player" is 'The colour: white or black.'
-- next
comment on column analytics."move_rejected"."agent_id" is 'The agent that tried.'
-- next
comment on column analytics."move_rejected"."attempted" is 'What was tried; null where unknown.'
-- next
comment on column analytics."move_rejected"."reason" is 'Why it was rejected; null: it was illegal.'
-- next
comment on column analytics."move_rejected"."ply" is 'The number that the move would have had.'
-- next
comment on column analytics."move_rejected"."fen" is 'The position in which it was tried.'
-- next
comment on column analytics."move_rejected"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."move_rejected"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."game_ended" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,status}' as "status",
    e.effect #>> '{payload,result}' as "result",
    e.effect #>> '{payload,reason}' as "reason",
    e.effect #>> '{payload,raw_result}' as "raw_result",
    e.effect #>> '{payload,final_fen}' as "final_fen",
    analytics.json_bigint(e.effect #> '{payload,plies}') as "plies",
    analytics.json_double(e.effect #> '{payload,thinking_time_total}') as "thinking_time_total_s",
    analytics.json_bigint(e.effect #> '{payload,variations_total}') as "variations_total",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GameEnded'
-- next
comment on view analytics."game_ended" is 'GameEnded: a game of chess is over.'
-- next
comment on column analytics."game_ended"."world_id" is 'The name of the world.'
-- next
comment on column analytics."game_ended"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."game_ended"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."game_ended"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."game_ended"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."game_ended"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."game_ended"."status" is 'How it ended: checkmate, stalemate, resigned, timeout …'
-- next
comment on column analytics."game_ended"."result" is 'white_wins, black_wins or draw.'
-- next
comment on column analytics."game_ended"."reason" is 'How it ended, more closely than status; null where that is not told.'
-- next
comment on column analytics."game_ended"."raw_result" is 'The result in the words of the record.'
-- next
comment on column analytics."game_ended"."final_fen" is 'The last position of a recorded game.'
-- next
comment on column analytics."game_ended"."plies" is 'How many moves a recorded game has, by both players.'
-- next
comment on column analytics."game_ended"."thinking_time_total_s" is 'Seconds: of all moves of a recorded game; null unless every one is known.'
-- next
comment on column analytics."game_ended"."variations_total" is 'Sidelines of the record that were left out.'
-- next
comment on column analytics."game_ended"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."game_ended"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."simulation_started" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.json_bigint(e.effect #> '{payload,turn}') as "turn",
    e.effect #> '{payload,agents}' as "agents",
    e.effect #> '{payload,global_state}' as "global_state",
    e.effect #> '{payload,paused}' as "paused",
    e.effect #> '{payload,checkpoint}' as "checkpoint",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'SimulationStarted'
-- next
comment on view analytics."simulation_started" is 'SimulationStarted: a simulation began, with every value of its beginning.'
-- next
comment on column analytics."simulation_started"."world_id" is 'The name of the world.'
-- next
comment on column analytics."simulation_started"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."simulation_started"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."simulation_started"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."simulation_started"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."simulation_started"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."simulation_started"."turn" is 'The turn that it began with: 0, or its checkpoint''s.'
-- next
comment on column analytics."simulation_started"."agents" is 'Each agent''s variables, by name.'
-- next
comment on column analytics."simulation_started"."global_state" is 'The global variables.'
-- next
comment on column analytics."simulation_started"."paused" is 'Who was paused, and until which turn.'
-- next
comment on column analytics."simulation_started"."checkpoint" is 'The checkpoint that it was begun with; null for none.'
-- next
comment on column analytics."simulation_started"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."simulation_started"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."turn_started" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.json_bigint(e.effect #> '{payload,turn}') as "turn",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'TurnStarted'
-- next
comment on view analytics."turn_started" is 'TurnStarted: a turn of a simulation began.'
-- next
comment on column analytics."turn_started"."world_id" is 'The name of the world.'
-- next
comment on column analytics."turn_started"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."turn_started"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."turn_started"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."turn_started"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."turn_started"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."turn_started"."turn" is 'The number of the turn.'
-- next
comment on column analytics."turn_started"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."turn_started"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."turn_ended" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.json_bigint(e.effect #> '{payload,turn}') as "turn",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'TurnEnded'
-- next
comment on view analytics."turn_ended" is 'TurnEnded: a turn of a simulation is over.'
-- next
comment on column analytics."turn_ended"."world_id" is 'The name of the world.'
-- next
comment on column analytics."turn_ended"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."turn_ended"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."turn_ended"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."turn_ended"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."turn_ended"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."turn_ended"."turn" is 'The number of the turn.'
-- next
comment on column analytics."turn_ended"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."turn_ended"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."agent_state_changed" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as "agent_id",
    e.effect #> '{payload,patch}' as "patch",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentStateChanged'
-- next
comment on view analytics."agent_state_changed" is 'AgentStateChanged: variables of an agent changed.'
-- next
comment on column analytics."agent_state_changed"."world_id" is 'The name of the world.'
-- next
comment on column analytics."agent_state_changed"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."agent_state_changed"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."agent_state_changed"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."agent_state_changed"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."agent_state_changed"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."agent_state_changed"."agent_id" is 'The agent whose variables they are.'
-- next
comment on column analytics."agent_state_changed"."patch" is 'What changes of the variables: RFC 6902.'
-- next
comment on column analytics."agent_state_changed"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."agent_state_changed"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."global_state_changed" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #> '{payload,patch}' as "patch",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GlobalStateChanged'
-- next
comment on view analytics."global_state_changed" is 'GlobalStateChanged: global variables changed.'
-- next
comment on column analytics."global_state_changed"."world_id" is 'The name of the world.'
-- next
comment on column analytics."global_state_changed"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."global_state_changed"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."global_state_changed"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."global_state_changed"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."global_state_changed"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."global_state_changed"."patch" is 'What changes of the variables: RFC 6902.'
-- next
comment on column analytics."global_state_changed"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."global_state_changed"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."reasoning_recorded" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as "agent_id",
    e.effect #>> '{payload,reasoning}' as "reasoning",
    e.effect #>> '{payload,model}' as "model",
    analytics.json_bigint(e.effect #> '{payload,token_count}') as "token_count",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ReasoningRecorded'
-- next
comment on view analytics."reasoning_recorded" is 'ReasoningRecorded: what an agent said of its reasons.'
-- next
comment on column analytics."reasoning_recorded"."world_id" is 'The name of the world.'
-- next
comment on column analytics."reasoning_recorded"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."reasoning_recorded"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."reasoning_recorded"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."reasoning_recorded"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."reasoning_recorded"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."reasoning_recorded"."agent_id" is 'The agent whose reasoning it is.'
-- next
comment on column analytics."reasoning_recorded"."reasoning" is 'The reasoning: a text as it is, anything else as JSON text.'
-- next
comment on column analytics."reasoning_recorded"."model" is 'The model that reasoned; null where that is not told.'
-- next
comment on column analytics."reasoning_recorded"."token_count" is 'How many tokens it took; null where that is not told.'
-- next
comment on column analytics."reasoning_recorded"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."reasoning_recorded"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."agent_added" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as "agent_id",
    e.effect #> '{payload,state}' as "state",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentAdded'
-- next
comment on view analytics."agent_added" is 'AgentAdded: an agent came into a simulation.'
-- next
comment on column analytics."agent_added"."world_id" is 'The name of the world.'
-- next
comment on column analytics."agent_added"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."agent_added"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."agent_added"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."agent_added"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."agent_added"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."agent_added"."agent_id" is 'The agent that it is about: the source, where the payload names none.'
-- next
comment on column analytics."agent_added"."state" is 'Its variables, as far as they are not the defaults.'
-- next
comment on column analytics."agent_added"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."agent_added"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."agent_removed" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as "agent_id",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentRemoved'
-- next
comment on view analytics."agent_removed" is 'AgentRemoved: an agent is gone from a simulation.'
-- next
comment on column analytics."agent_removed"."world_id" is 'The name of the world.'
-- next
comment on column analytics."agent_removed"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."agent_removed"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."agent_removed"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."agent_removed"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."agent_removed"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."agent_removed"."agent_id" is 'The agent that it is about: the source, where the payload names none.'
-- next
comment on column analytics."agent_removed"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."agent_removed"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."agent_paused" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as "agent_id",
    analytics.json_bigint(e.effect #> '{payload,turns}') as "turns",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentPaused'
-- next
comment on view analytics."agent_paused" is 'AgentPaused: an agent does not act for a while.'
-- next
comment on column analytics."agent_paused"."world_id" is 'The name of the world.'
-- next
comment on column analytics."agent_paused"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."agent_paused"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."agent_paused"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."agent_paused"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."agent_paused"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."agent_paused"."agent_id" is 'The agent that it is about: the source, where the payload names none.'
-- next
comment on column analytics."agent_paused"."turns" is 'For how many turns; null: until it is resumed.'
-- next
comment on column analytics."agent_paused"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."agent_paused"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."agent_resumed" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as "agent_id",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentResumed'
-- next
comment on view analytics."agent_resumed" is 'AgentResumed: an agent acts again.'
-- next
comment on column analytics."agent_resumed"."world_id" is 'The name of the world.'
-- next
comment on column analytics."agent_resumed"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."agent_resumed"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."agent_resumed"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."agent_resumed"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."agent_resumed"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."agent_resumed"."agent_id" is 'The agent that it is about: the source, where the payload names none.'
-- next
comment on column analytics."agent_resumed"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."agent_resumed"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."experiment_started" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,meta,experiment_id}' as "experiment_id",
    e.effect #>> '{payload,meta,prar_run_id}' as "prar_run_id",
    e.effect #>> '{payload,meta,framework}' as "framework",
    e.effect #>> '{payload,meta,framework_option}' as "framework_option",
    e.effect #>> '{payload,meta,model}' as "model",
    analytics.json_double(e.effect #> '{payload,meta,performer_temperature}') as "performer_temperature",
    analytics.json_double(e.effect #> '{payload,meta,coach_temperature}') as "coach_temperature",
    e.effect #>> '{payload,meta,social_rl_version}' as "social_rl_version",
    analytics.json_time(e.effect #> '{payload,meta,timestamp}') as "run_at",
    e.effect #>> '{payload,extra,condition}' as "condition",
    analytics.json_bigint(e.effect #> '{payload,extra,seed}') as "seed",
    e.effect #> '{payload,extra}' as "extra",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ExperimentStarted'
-- next
comment on view analytics."experiment_started" is 'ExperimentStarted: a run of a social-RL experiment began: its meta block.'
-- next
comment on column analytics."experiment_started"."world_id" is 'The name of the world.'
-- next
comment on column analytics."experiment_started"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."experiment_started"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."experiment_started"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."experiment_started"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."experiment_started"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."experiment_started"."experiment_id" is 'The name of the run in the record.'
-- next
comment on column analytics."experiment_started"."prar_run_id" is 'The run of PRAR that its policies come from.'
-- next
comment on column analytics."experiment_started"."framework" is 'The framework, for people.'
-- next
comment on column analytics."experiment_started"."framework_option" is 'The framework''s code: A to E.'
-- next
comment on column analytics."experiment_started"."model" is 'The language model.'
-- next
comment on column analytics."experiment_started"."performer_temperature" is 'The temperature of the agents.'
-- next
comment on column analytics."experiment_started"."coach_temperature" is 'The temperature of the coach.'
-- next
comment on column analytics."experiment_started"."social_rl_version" is 'The version of the record''s schema.'
-- next
comment on column analytics."experiment_started"."run_at" is 'When the run began, as recorded; UTC without an offset.'
-- next
comment on column analytics."experiment_started"."condition" is 'The condition of the experiment, where the record has one.'
-- next
comment on column analytics."experiment_started"."seed" is 'The seed of the run, where the record has one.'
-- next
comment on column analytics."experiment_started"."extra" is 'What the record has beyond the fields of the schema.'
-- next
comment on column analytics."experiment_started"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."experiment_started"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."round_started" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.json_bigint(e.effect #> '{payload,round_number}') as "round_number",
    e.effect #> '{payload,round_config}' as "round_config",
    e.effect #> '{payload,meta}' as "meta",
    e.effect #> '{payload,extra}' as "extra",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RoundStarted'
-- next
comment on view analytics."round_started" is 'RoundStarted: a round began.'
-- next
comment on column analytics."round_started"."world_id" is 'The name of the world.'
-- next
comment on column analytics."round_started"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."round_started"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."round_started"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."round_started"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."round_started"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."round_started"."round_number" is 'The number of the round.'
-- next
comment on column analytics."round_started"."round_config" is 'The scenario, rules and tasks of the round.'
-- next
comment on column analytics."round_started"."meta" is 'The round file''s own meta block.'
-- next
comment on column analytics."round_started"."extra" is 'What the record has beyond the fields of the schema.'
-- next
comment on column analytics."round_started"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."round_started"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."message_emitted" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as "agent_id",
    coalesce(e.effect #>> '{payload,content}', e.effect #>> '{payload,text}', e.effect #>> '{payload,message}') as "content",
    analytics.json_bigint(e.effect #> '{payload,round_number}') as "round_number",
    analytics.json_bigint(e.effect #> '{payload,turn_number}') as "turn_number",
    analytics.json_time(e.effect #> '{payload,timestamp}') as "emitted_at",
    e.effect #>> '{payload,prar_cue_used}' as "prar_cue_used",
    coalesce(analytics.json_boolean(e.effect #> '{payload,internal}'), false) or e.effect #> '{payload,extra,internal}' is not null as "is_internal",
    e.effect #>> '{payload,role}' as "role",
    e.effect #> '{payload,feedback_snapshot}' as "feedback_snapshot",
    e.effect #> '{payload,validation_metadata}' as "validation_metadata",
    e.effect #> '{payload,context_frame}' as "context_frame",
    e.effect #> '{payload,extra}' as "extra",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'MessageEmitted'
-- next
comment on view analytics."message_emitted" is 'MessageEmitted: a message: of an agent of a social-RL round, or of anybody in a sandbox.'
-- next
comment on column analytics."message_emitted"."world_id" is 'The name of the world.'
-- next
comment on column analytics."message_emitted"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."message_emitted"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."message_emitted"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."message_emitted"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."message_emitted"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."message_emitted"."agent_id" is 'Who wrote it: the source, where the payload names nobody.'
-- next
comment on column analytics."message_emitted"."content" is 'What was said.'
-- next
comment on column analytics."message_emitted"."round_number" is 'The number of the round.'
-- next
comment on column analytics."message_emitted"."turn_number" is 'The number of the turn in the round.'
-- next
comment on column analytics."message_emitted"."emitted_at" is 'When it was written, as recorded.'
-- next
comment on column analytics."message_emitted"."prar_cue_used" is 'The PRAR cue that was put before the agent.'
-- next
comment on column analytics."message_emitted"."is_internal" is 'Whether only coaches see it: it says that it is internal, or anything odd in that place.'
-- next
comment on column analytics."message_emitted"."role" is 'assistant, system or user; null where that is not told.'
-- next
comment on column analytics."message_emitted"."feedback_snapshot" is 'The agent''s feedback when it was written.'
-- next
comment on column analytics."message_emitted"."validation_metadata" is 'What the coach found.'
-- next
comment on column analytics."message_emitted"."context_frame" is 'The context that the agent was given.'
-- next
comment on column analytics."message_emitted"."extra" is 'What the record has beyond the fields of the schema.'
-- next
comment on column analytics."message_emitted"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."message_emitted"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."feedback_recorded" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    analytics.json_bigint(e.effect #> '{payload,round_number}') as "round_number",
    analytics.json_double(e.effect #> '{payload,engagement}') as "engagement",
    analytics.json_double(e.effect #> '{payload,theoretical_alignment}') as "theoretical_alignment",
    analytics.json_double(e.effect #> '{payload,contribution_value}') as "contribution_value",
    analytics.json_bigint(e.effect #> '{payload,direct_references}') as "direct_references",
    analytics.json_bigint(e.effect #> '{payload,response_received}') as "response_received",
    e.effect #> '{payload,concepts_embodied}' as "concepts_embodied",
    analytics.json_bigint(e.effect #> '{payload,analyst_mentions}') as "analyst_mentions",
    analytics.json_double(e.effect #> '{payload,synthesis_inclusion}') as "synthesis_inclusion",
    e.effect #> '{payload,extra}' as "extra",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'FeedbackRecorded'
-- next
comment on view analytics."feedback_recorded" is 'FeedbackRecorded: the feedback that an agent got for a round.'
-- next
comment on column analytics."feedback_recorded"."world_id" is 'The name of the world.'
-- next
comment on column analytics."feedback_recorded"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."feedback_recorded"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."feedback_recorded"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."feedback_recorded"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."feedback_recorded"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."feedback_recorded"."agent_id" is 'The agent: Role+Name.'
-- next
comment on column analytics."feedback_recorded"."round_number" is 'The number of the round.'
-- next
comment on column analytics."feedback_recorded"."engagement" is 'How much it took part: 0 to 1.'
-- next
comment on column analytics."feedback_recorded"."theoretical_alignment" is 'How far it kept to the framework: 0 to 1.'
-- next
comment on column analytics."feedback_recorded"."contribution_value" is 'How much it contributed: 0 to 1.'
-- next
comment on column analytics."feedback_recorded"."direct_references" is 'How often others referred to it.'
-- next
comment on column analytics."feedback_recorded"."response_received" is 'How many answers it got.'
-- next
comment on column analytics."feedback_recorded"."concepts_embodied" is 'The concepts that were found in what it said: a list.'
-- next
comment on column analytics."feedback_recorded"."analyst_mentions" is 'How often the analyst mentioned it.'
-- next
comment on column analytics."feedback_recorded"."synthesis_inclusion" is 'How much of it came into the synthesis: 0 to 1.'
-- next
comment on column analytics."feedback_recorded"."extra" is 'What the record has beyond the fields of the schema.'
-- next
comment on column analytics."feedback_recorded"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."feedback_recorded"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."policy_adapted" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,agent_id}' as "agent_id",
    e.effect #>> '{payload,adaptation_type}' as "adaptation_type",
    e.effect #>> '{payload,cue}' as "cue",
    analytics.json_double(e.effect #> '{payload,intensity}') as "intensity",
    e.effect #>> '{payload,reason}' as "reason",
    analytics.json_bigint(e.effect #> '{payload,round_number}') as "round_number",
    e.effect #> '{payload,feedback_trigger}' as "feedback_trigger",
    e.effect #> '{payload,extra}' as "extra",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'PolicyAdapted'
-- next
comment on view analytics."policy_adapted" is 'PolicyAdapted: a cue of an agent was changed because of its feedback.'
-- next
comment on column analytics."policy_adapted"."world_id" is 'The name of the world.'
-- next
comment on column analytics."policy_adapted"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."policy_adapted"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."policy_adapted"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."policy_adapted"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."policy_adapted"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."policy_adapted"."agent_id" is 'The agent: Role+Name.'
-- next
comment on column analytics."policy_adapted"."adaptation_type" is 'activate_cue, deactivate_cue or adjust_intensity.'
-- next
comment on column analytics."policy_adapted"."cue" is 'The cue.'
-- next
comment on column analytics."policy_adapted"."intensity" is 'Its intensity from here on; null where that is not told.'
-- next
comment on column analytics."policy_adapted"."reason" is 'Why, for people.'
-- next
comment on column analytics."policy_adapted"."round_number" is 'The number of the round.'
-- next
comment on column analytics."policy_adapted"."feedback_trigger" is 'The feedback that led to it.'
-- next
comment on column analytics."policy_adapted"."extra" is 'What the record has beyond the fields of the schema.'
-- next
comment on column analytics."policy_adapted"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."policy_adapted"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."policy_state_recorded" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,framework_option}' as "framework_option",
    e.effect #>> '{payload,framework_name}' as "framework_name",
    e.effect #> '{payload,policies}' as "policies",
    analytics.json_time(e.effect #> '{payload,timestamp}') as "taken_at",
    e.effect #>> '{payload,source_run_id}' as "source_run_id",
    e.effect #>> '{payload,social_rl_version}' as "social_rl_version",
    e.effect #> '{payload,extra}' as "extra",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'PolicyStateRecorded'
-- next
comment on view analytics."policy_state_recorded" is 'PolicyStateRecorded: the policies of all roles at a moment, as PRAR gives them.'
-- next
comment on column analytics."policy_state_recorded"."world_id" is 'The name of the world.'
-- next
comment on column analytics."policy_state_recorded"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."policy_state_recorded"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."policy_state_recorded"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."policy_state_recorded"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."policy_state_recorded"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."policy_state_recorded"."framework_option" is 'The framework''s code: A to E.'
-- next
comment on column analytics."policy_state_recorded"."framework_name" is 'The framework, for people.'
-- next
comment on column analytics."policy_state_recorded"."policies" is 'The policy of each role: its cues and their intensities.'
-- next
comment on column analytics."policy_state_recorded"."taken_at" is 'When it was taken, as recorded; UTC without an offset.'
-- next
comment on column analytics."policy_state_recorded"."source_run_id" is 'The run of PRAR that it comes from.'
-- next
comment on column analytics."policy_state_recorded"."social_rl_version" is 'The version of the record''s schema.'
-- next
comment on column analytics."policy_state_recorded"."extra" is 'What the record has beyond the fields of the schema.'
-- next
comment on column analytics."policy_state_recorded"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."policy_state_recorded"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."round_synthesised" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.json_bigint(e.effect #> '{payload,round_number}') as "round_number",
    e.effect #>> '{payload,synthesis}' as "synthesis",
    e.effect #> '{payload,extra}' as "extra",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RoundSynthesised'
-- next
comment on view analytics."round_synthesised" is 'RoundSynthesised: the synthesis of a round.'
-- next
comment on column analytics."round_synthesised"."world_id" is 'The name of the world.'
-- next
comment on column analytics."round_synthesised"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."round_synthesised"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."round_synthesised"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."round_synthesised"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."round_synthesised"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."round_synthesised"."round_number" is 'The number of the round.'
-- next
comment on column analytics."round_synthesised"."synthesis" is 'The synthesis.'
-- next
comment on column analytics."round_synthesised"."extra" is 'What the record has beyond the fields of the schema.'
-- next
comment on column analytics."round_synthesised"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."round_synthesised"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."round_ended" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.json_bigint(e.effect #> '{payload,round_number}') as "round_number",
    analytics.json_double(e.effect #> '{payload,duration_seconds}') as "duration_s",
    e.effect #> '{payload,extra}' as "extra",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RoundEnded'
-- next
comment on view analytics."round_ended" is 'RoundEnded: a round is over.'
-- next
comment on column analytics."round_ended"."world_id" is 'The name of the world.'
-- next
comment on column analytics."round_ended"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."round_ended"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."round_ended"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."round_ended"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."round_ended"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."round_ended"."round_number" is 'The number of the round.'
-- next
comment on column analytics."round_ended"."duration_s" is 'How long it took, in seconds.'
-- next
comment on column analytics."round_ended"."extra" is 'What the record has beyond the fields of the schema.'
-- next
comment on column analytics."round_ended"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."round_ended"."payload" is 'All that the effect says, also what has no column here.'
-- next
create view analytics."artifact_recorded" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,name}' as "name",
    e.effect #> '{payload,content}' as "content",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ArtifactRecorded'
-- next
comment on view analytics."artifact_recorded" is 'ArtifactRecorded: another file of a run''s folder.'
-- next
comment on column analytics."artifact_recorded"."world_id" is 'The name of the world.'
-- next
comment on column analytics."artifact_recorded"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."artifact_recorded"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."artifact_recorded"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."artifact_recorded"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."artifact_recorded"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."artifact_recorded"."name" is 'The file''s name.'
-- next
comment on column analytics."artifact_recorded"."content" is 'What stands in it.'
-- next
comment on column analytics."artifact_recorded"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."artifact_recorded"."payload" is 'All that the effect says, also what has no column here.'
-- next
grant select on analytics.worlds to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.experiments to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.effects to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.intents to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.observations to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.observers to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.snapshots to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.projection_backlog to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.projections to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.verification to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.effect_verification to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.world_created to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.state_digest to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.view_digest to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.agent_registered to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.world_time_set to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.world_time_authority_set to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.intent_rejected to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.generation_started to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.generation_cancelled to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.generation_finished to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.entity_created to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.entity_updated to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.entity_removed to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.move to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.speak to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.speak_response to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.interact to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.relationship_set to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.relationship_removed to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.game_started to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.move_made to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.move_rejected to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.game_ended to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.simulation_started to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.turn_started to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.turn_ended to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.agent_state_changed to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.global_state_changed to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.reasoning_recorded to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.agent_added to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.agent_removed to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.agent_paused to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.agent_resumed to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.experiment_started to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.round_started to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.message_emitted to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.feedback_recorded to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.policy_adapted to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.policy_state_recorded to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.round_synthesised to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.round_ended to worldledger_service, worldledger_reader, worldledger_guest
-- next
grant select on analytics.artifact_recorded to worldledger_service, worldledger_reader, worldledger_guest
-- next
set local role worldledger_service
-- next
grant create on schema analytics to worldledger_guest
-- next
set local role worldledger_guest
-- next
create or replace function analytics.open_query(query text) returns void
language plpgsql security definer
set search_path = analytics, pg_temp
as $$
declare
    asked refcursor := 'worldledger_query';
begin
    if current_setting('transaction_read_only') <> 'on' then
        raise exception 'a query is run in a read-only transaction' using errcode = 'read_only_sql_transaction';
    end if;
    open asked no scroll for execute query;
end
$$
-- next
revoke all on function analytics.open_query(text) from public
-- next
grant execute on function analytics.open_query(text) to worldledger_service, worldledger_reader
-- next
comment on function analytics.open_query(text) is 'Opens a query as the guest, in a read-only transaction; read on by fetch_query.'
-- next
create or replace function analytics.fetch_query(most bigint) returns setof record
language plpgsql security definer
set search_path = analytics, pg_temp
as $$
begin
    return query execute format('fetch forward %s from worldledger_query', most);
end
$$
-- next
revoke all on function analytics.fetch_query(bigint) from public
-- next
grant execute on function analytics.fetch_query(bigint) to worldledger_service, worldledger_reader
-- next
comment on function analytics.fetch_query(bigint) is 'The next rows of the query that open_query opened, at most so many.'
-- next
set local role worldledger_service
-- next
revoke create on schema analytics from worldledger_guest
-- next
set local role worldledger_owner
