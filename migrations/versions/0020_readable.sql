create or replace function analytics.readable(value json) returns json
language sql immutable parallel safe
return case
    when strpos(value::text, '\') = 0 then value
    when value::text not like '%\\u%' then value
    when value::text !~ '\\u(0000|[dD][89a-fA-F])' then value
    when regexp_replace(value::text, '\\([^u]|u[dD][89abAB]..\\u[dD][c-fC-F])', '', 'g') !~ '\\u(0000|[dD][89a-fA-F])' then value
end
-- next
revoke all on function analytics.readable(json) from public
-- next
grant execute on function analytics.readable(json) to worldledger_service, worldledger_reader, worldledger_guest
-- next
comment on function analytics.readable(json) is 'A JSON value; null where PostgreSQL cannot read it: it has \u0000, or half a surrogate pair. Never raises.'
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
        analytics.readable(value) #>> '{}',
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
create or replace view analytics."forks" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    analytics.readable(e.effect) #>> '{payload,fork_of,world_id}' as "parent",
    analytics.readable(e.effect) #>> '{payload,fork_of,world_uuid}' as "parent_uuid",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,fork_of,global_seq}') as "parent_seq",
    analytics.readable(e.effect) #>> '{payload,fork_of,checksum}' as "parent_checksum",
    coalesce(analytics.json_bigint(analytics.readable(e.effect) #> '{payload,fork_of,depth}'), 1) as "depth",
    analytics.readable(e.effect) #>> '{payload,fork_of,label}' as "label"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.global_seq = 1 and strpos(e.effect::text, '"fork_of":{') > 0
  and case when strpos(e.effect::text, '"fork_of":{') > 0 then json_typeof(analytics.readable(e.effect) #> '{payload,fork_of}') = 'object' else false end
-- next
create or replace view analytics."effects" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.kind as "kind",
    e.source_id as "source_id",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.recorded_at as "stored_at",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) #>> '{req_id}' as "req_id",
    analytics.json_bigint(analytics.readable(e.effect) #> '{priority}') as "priority",
    analytics.readable(e.effect) #>> '{schema_version}' as "schema_version",
    analytics.readable(e.effect) #>> '{uuid}' as "uuid",
    analytics.readable(e.effect) -> 'payload' as "payload",
    analytics.readable(e.effect) -> 'source_metadata' as "source_metadata",
    e.effect as "effect",
    encode(e.checksum, 'hex') as "checksum"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."effects_with_forks" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.kind as "kind",
    e.source_id as "source_id",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.recorded_at as "stored_at",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) #>> '{req_id}' as "req_id",
    analytics.json_bigint(analytics.readable(e.effect) #> '{priority}') as "priority",
    analytics.readable(e.effect) #>> '{schema_version}' as "schema_version",
    analytics.readable(e.effect) #>> '{uuid}' as "uuid",
    analytics.readable(e.effect) -> 'payload' as "payload",
    analytics.readable(e.effect) -> 'source_metadata' as "source_metadata",
    e.effect as "effect",
    encode(e.checksum, 'hex') as "checksum",
    e.is_inherited as "is_inherited",
    e.inherited_from as "inherited_from",
    e.generation as "generation"
from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) e
left join public.worlds w on w.world_id = e.world_id
-- next
create or replace view analytics."intents" as
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
        e.world_id, w.experiment, e.global_seq, e.source_id as agent_id, analytics.readable(e.effect) #>> '{req_id}' as req_id,
        true as is_accepted, analytics.readable(e.effect) #>> '{source_metadata,intent}' as intent_kind, e.kind as effect_kind,
        analytics.json_bigint(analytics.readable(e.effect) #> '{source_metadata,context_seq}') as context_seq,
        null::text as code, null::text as rule, null::text as reason, e.sim_time,
        analytics.readable(e.effect) #> '{wall_time}' as wall_time, analytics.readable(e.effect) -> 'payload' as payload
    from public.effects e
    left join public.worlds w on w.world_id = e.world_id
    where case when strpos(e.effect::text, '"source_metadata":{') > 0
               then analytics.readable(e.effect) #>> '{source_metadata,intent}' end is not null
      and e.world_id not in (select f.world_id from analytics.forks f)
    union all
    select
        e.world_id, w.experiment, e.global_seq, analytics.readable(e.effect) #>> '{payload,agent_id}' as agent_id,
        analytics.readable(e.effect) #>> '{payload,req_id}' as req_id, false as is_accepted,
        analytics.readable(e.effect) #>> '{payload,kind}' as intent_kind, null::text as effect_kind,
        analytics.json_bigint(analytics.readable(e.effect) #> '{payload,context_seq}') as context_seq,
        analytics.readable(e.effect) #>> '{payload,code}' as code, analytics.readable(e.effect) #>> '{payload,rule}' as rule,
        analytics.readable(e.effect) #>> '{payload,reason}' as reason, e.sim_time, analytics.readable(e.effect) #> '{wall_time}' as wall_time,
        analytics.readable(e.effect) #> '{payload,payload}' as payload
    from public.effects e
    left join public.worlds w on w.world_id = e.world_id
    where e.kind = 'IntentRejected'
      and e.world_id not in (select f.world_id from analytics.forks f)
) intended
-- next
create or replace view analytics."intents_with_forks" as
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
    intended.payload as "payload",
    intended.is_inherited as "is_inherited",
    intended.inherited_from as "inherited_from",
    intended.generation as "generation"
from (
    select
        e.world_id, w.experiment, e.global_seq, e.is_inherited, e.inherited_from, e.generation, e.source_id as agent_id, analytics.readable(e.effect) #>> '{req_id}' as req_id,
        true as is_accepted, analytics.readable(e.effect) #>> '{source_metadata,intent}' as intent_kind, e.kind as effect_kind,
        analytics.json_bigint(analytics.readable(e.effect) #> '{source_metadata,context_seq}') as context_seq,
        null::text as code, null::text as rule, null::text as reason, e.sim_time,
        analytics.readable(e.effect) #> '{wall_time}' as wall_time, analytics.readable(e.effect) -> 'payload' as payload
    from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) e
    left join public.worlds w on w.world_id = e.world_id
    where case when strpos(e.effect::text, '"source_metadata":{') > 0
               then analytics.readable(e.effect) #>> '{source_metadata,intent}' end is not null
    union all
    select
        e.world_id, w.experiment, e.global_seq, e.is_inherited, e.inherited_from, e.generation, analytics.readable(e.effect) #>> '{payload,agent_id}' as agent_id,
        analytics.readable(e.effect) #>> '{payload,req_id}' as req_id, false as is_accepted,
        analytics.readable(e.effect) #>> '{payload,kind}' as intent_kind, null::text as effect_kind,
        analytics.json_bigint(analytics.readable(e.effect) #> '{payload,context_seq}') as context_seq,
        analytics.readable(e.effect) #>> '{payload,code}' as code, analytics.readable(e.effect) #>> '{payload,rule}' as rule,
        analytics.readable(e.effect) #>> '{payload,reason}' as reason, e.sim_time, analytics.readable(e.effect) #> '{wall_time}' as wall_time,
        analytics.readable(e.effect) #> '{payload,payload}' as payload
    from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) e
    left join public.worlds w on w.world_id = e.world_id
    where e.kind = 'IntentRejected'
) intended
-- next
create or replace view analytics."observations" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    analytics.readable(e.effect) #>> '{payload,agent_id}' as "agent_id",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,at_seq}') as "view_seq",
    analytics.readable(e.effect) #>> '{payload,digest}' as "view_digest",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ViewDigest' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."observations_with_forks" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    analytics.readable(e.effect) #>> '{payload,agent_id}' as "agent_id",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,at_seq}') as "view_seq",
    analytics.readable(e.effect) #>> '{payload,digest}' as "view_digest",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.is_inherited as "is_inherited",
    e.inherited_from as "inherited_from",
    e.generation as "generation"
from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ViewDigest'
-- next
create or replace view analytics."world_created" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,world_uuid}' as "world_uuid",
    analytics.readable(e.effect) #>> '{payload,ruleset}' as "ruleset",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,ruleset_version}') as "ruleset_version",
    analytics.readable(e.effect) #>> '{payload,time_authority}' as "time_authority",
    analytics.json_time(analytics.readable(e.effect) #> '{payload,time_zero}') as "time_zero_at",
    analytics.readable(e.effect) #>> '{payload,canonical_profile}' as "canonical_profile",
    analytics.readable(e.effect) #> '{payload,config}' as "config",
    analytics.readable(e.effect) #> '{payload,orchestrator}' as "orchestrator",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,snapshot_every}') as "snapshot_every",
    analytics.readable(e.effect) #>> '{payload,parent,world_id}' as "parent_world_id",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,parent,global_seq}') as "parent_seq",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldCreated' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."state_digest" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,at_seq}') as "at_seq",
    analytics.readable(e.effect) #>> '{payload,state_digest}' as "state_digest",
    analytics.readable(e.effect) #>> '{payload,ruleset}' as "ruleset",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,ruleset_version}') as "ruleset_version",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'StateDigest' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."view_digest" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,agent_id}' as "agent_id",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,at_seq}') as "at_seq",
    analytics.readable(e.effect) #>> '{payload,digest}' as "digest",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ViewDigest' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."agent_registered" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,agent_id}' as "agent_id",
    analytics.readable(e.effect) #>> '{payload,policy,name}' as "policy_name",
    analytics.readable(e.effect) #>> '{payload,policy,version}' as "policy_version",
    analytics.readable(e.effect) #> '{payload,policy,config}' as "policy_config",
    analytics.readable(e.effect) #> '{payload,permissions}' as "permissions",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,weight}') as "weight",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentRegistered' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."world_time_set" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,adapter}' as "adapter",
    analytics.json_double(analytics.readable(e.effect) #> '{payload,time}') as "time_s",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,tick}') as "tick",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldTimeSet' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."world_time_authority_set" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,authority}' as "authority",
    analytics.json_double(analytics.readable(e.effect) #> '{payload,offset}') as "offset_s",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldTimeAuthoritySet' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."world_time_authority_silent" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,authority}' as "authority",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,last_tick_seq}') as "last_tick_seq",
    analytics.readable(e.effect) #>> '{payload,reason}' as "reason",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldTimeAuthoritySilent' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."intent_rejected" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,agent_id}' as "agent_id",
    analytics.readable(e.effect) #>> '{payload,req_id}' as "req_id",
    analytics.readable(e.effect) #>> '{payload,kind}' as "intent_kind",
    analytics.readable(e.effect) #> '{payload,payload}' as "intent_payload",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,context_seq}') as "context_seq",
    analytics.readable(e.effect) #>> '{payload,code}' as "code",
    analytics.readable(e.effect) #>> '{payload,reason}' as "reason",
    analytics.readable(e.effect) #>> '{payload,rule}' as "rule",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'IntentRejected' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."generation_started" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,agent_id}' as "agent_id",
    analytics.readable(e.effect) #>> '{payload,req_id}' as "req_id",
    analytics.readable(e.effect) #>> '{payload,generation_id}' as "generation_id",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,context_seq}') as "context_seq",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationStarted' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."generation_cancelled" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,agent_id}' as "agent_id",
    analytics.readable(e.effect) #>> '{payload,req_id}' as "req_id",
    analytics.readable(e.effect) #>> '{payload,generation_id}' as "generation_id",
    analytics.readable(e.effect) #>> '{payload,reason}' as "reason",
    analytics.json_double(analytics.readable(e.effect) #> '{payload,latency_ms}') as "latency_ms",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationCancelled' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."generation_finished" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,agent_id}' as "agent_id",
    analytics.readable(e.effect) #>> '{payload,req_id}' as "req_id",
    analytics.readable(e.effect) #>> '{payload,generation_id}' as "generation_id",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationFinished' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."generation_reported" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,agent_id}' as "agent_id",
    analytics.readable(e.effect) #>> '{payload,req_id}' as "req_id",
    analytics.readable(e.effect) #>> '{payload,outcome}' as "outcome",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,tokens_in}') as "tokens_in",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,tokens_out}') as "tokens_out",
    analytics.readable(e.effect) #>> '{payload,counted}' as "counted",
    analytics.json_double(analytics.readable(e.effect) #> '{payload,price}') as "price",
    analytics.readable(e.effect) #>> '{payload,currency}' as "currency",
    analytics.json_double(analytics.readable(e.effect) #> '{payload,first_token_ms}') as "first_token_ms",
    analytics.json_double(analytics.readable(e.effect) #> '{payload,took_ms}') as "took_ms",
    analytics.readable(e.effect) #>> '{payload,finish}' as "finish",
    analytics.readable(e.effect) #> '{payload,intents}' as "intents",
    analytics.readable(e.effect) #>> '{payload,error,code}' as "error_code",
    analytics.readable(e.effect) #>> '{payload,error,message}' as "error",
    analytics.readable(e.effect) #>> '{payload,recalled,world_id}' as "recalled_world_id",
    analytics.readable(e.effect) #>> '{payload,recalled,req_id}' as "recalled_req_id",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationReported' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."generation_text" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,agent_id}' as "agent_id",
    analytics.readable(e.effect) #>> '{payload,req_id}' as "req_id",
    analytics.readable(e.effect) #>> '{payload,part}' as "part",
    analytics.readable(e.effect) #>> '{payload,text}' as "text",
    analytics.readable(e.effect) #>> '{payload,salt}' as "salt",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationText' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."generation_leased" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    analytics.readable(e.effect) #>> '{payload,agent_id}' as "agent_id",
    analytics.readable(e.effect) #>> '{payload,holder}' as "holder",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,number}') as "number",
    analytics.json_double(analytics.readable(e.effect) #> '{payload,seconds}') as "seconds",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}') end as "caused_by",
    analytics.readable(e.effect) -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GenerationLeased' and e.world_id not in (select f.world_id from analytics.forks f)
-- next
create or replace view analytics."generations" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.agent_id as "agent_id",
    e.req_id as "req_id",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "started_at",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,context_seq}') as "context_seq",
    analytics.readable(e.effect) #>> '{payload,model,name}' as "model",
    analytics.readable(e.effect) #> '{payload,model,parameters}' as "parameters",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,model,seed}') as "seed",
    analytics.readable(e.effect) #>> '{payload,model,prompt_digest}' as "prompt_digest",
    coalesce(analytics.readable(r.effect) #>> '{payload,outcome}', case when c.global_seq > coalesce(f.global_seq, 0) then 'cancelled' when f.global_seq is not null then 'finished' end) as "outcome",
    analytics.readable(c.effect) #>> '{payload,reason}' as "cancel_reason",
    substring(analytics.readable(c.effect) #>> '{payload,reason}' from '^stale_due_to_effect_([0-9]{1,15})$')::bigint as "interrupted_by_seq",
    analytics.json_double(analytics.readable(c.effect) #> '{payload,latency_ms}') as "cancel_latency_ms",
    analytics.json_bigint(analytics.readable(r.effect) #> '{payload,tokens_in}') as "tokens_in",
    analytics.json_bigint(analytics.readable(r.effect) #> '{payload,tokens_out}') as "tokens_out",
    analytics.readable(r.effect) #>> '{payload,counted}' as "counted",
    analytics.json_double(analytics.readable(r.effect) #> '{payload,price}') as "price",
    analytics.readable(r.effect) #>> '{payload,currency}' as "currency",
    analytics.json_double(analytics.readable(r.effect) #> '{payload,first_token_ms}') as "first_token_ms",
    analytics.json_double(analytics.readable(r.effect) #> '{payload,took_ms}') as "took_ms",
    analytics.readable(r.effect) #>> '{payload,finish}' as "finish",
    analytics.readable(r.effect) #> '{payload,intents}' as "intents",
    analytics.readable(r.effect) #>> '{payload,error,code}' as "error_code",
    analytics.readable(r.effect) #>> '{payload,error,message}' as "error",
    analytics.readable(r.effect) #>> '{payload,recalled,world_id}' as "recalled_world_id",
    analytics.readable(r.effect) #>> '{payload,recalled,req_id}' as "recalled_req_id"
from (
    select distinct on (e.world_id, e.source_id, analytics.readable(e.effect) #>> '{payload,req_id}')
           e.world_id, e.source_id as agent_id, analytics.readable(e.effect) #>> '{payload,req_id}' as req_id,
           e.global_seq, e.sim_time, e.effect
    from public.effects e
    where e.kind = 'GenerationStarted' and e.world_id not in (select f.world_id from analytics.forks f)
    order by e.world_id, e.source_id, analytics.readable(e.effect) #>> '{payload,req_id}', e.global_seq
) e
left join public.worlds w on w.world_id = e.world_id
left join (
    select distinct on (r.world_id, r.source_id, analytics.readable(r.effect) #>> '{payload,req_id}')
           r.world_id, r.source_id as agent_id, analytics.readable(r.effect) #>> '{payload,req_id}' as req_id,
           r.global_seq, r.sim_time, r.effect
    from public.effects r
    where r.kind = 'GenerationReported' and r.world_id not in (select f.world_id from analytics.forks f)
    order by r.world_id, r.source_id, analytics.readable(r.effect) #>> '{payload,req_id}', r.global_seq
) r on r.world_id = e.world_id and r.agent_id = e.agent_id and r.req_id = e.req_id
left join (
    select distinct on (c.world_id, c.source_id, analytics.readable(c.effect) #>> '{payload,req_id}')
           c.world_id, c.source_id as agent_id, analytics.readable(c.effect) #>> '{payload,req_id}' as req_id,
           c.global_seq, c.sim_time, c.effect
    from public.effects c
    where c.kind = 'GenerationCancelled' and c.world_id not in (select f.world_id from analytics.forks f)
    order by c.world_id, c.source_id, analytics.readable(c.effect) #>> '{payload,req_id}', c.global_seq desc
) c on c.world_id = e.world_id and c.agent_id = e.agent_id and c.req_id = e.req_id
left join (
    select distinct on (f.world_id, f.source_id, analytics.readable(f.effect) #>> '{payload,req_id}')
           f.world_id, f.source_id as agent_id, analytics.readable(f.effect) #>> '{payload,req_id}' as req_id,
           f.global_seq, f.sim_time, f.effect
    from public.effects f
    where f.kind = 'GenerationFinished' and f.world_id not in (select f.world_id from analytics.forks f)
    order by f.world_id, f.source_id, analytics.readable(f.effect) #>> '{payload,req_id}', f.global_seq desc
) f on f.world_id = e.world_id and f.agent_id = e.agent_id and f.req_id = e.req_id
-- next
create or replace view analytics."generations_with_forks" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.agent_id as "agent_id",
    e.req_id as "req_id",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as "started_at",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,context_seq}') as "context_seq",
    analytics.readable(e.effect) #>> '{payload,model,name}' as "model",
    analytics.readable(e.effect) #> '{payload,model,parameters}' as "parameters",
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,model,seed}') as "seed",
    analytics.readable(e.effect) #>> '{payload,model,prompt_digest}' as "prompt_digest",
    coalesce(analytics.readable(r.effect) #>> '{payload,outcome}', case when c.global_seq > coalesce(f.global_seq, 0) then 'cancelled' when f.global_seq is not null then 'finished' end) as "outcome",
    analytics.readable(c.effect) #>> '{payload,reason}' as "cancel_reason",
    substring(analytics.readable(c.effect) #>> '{payload,reason}' from '^stale_due_to_effect_([0-9]{1,15})$')::bigint as "interrupted_by_seq",
    analytics.json_double(analytics.readable(c.effect) #> '{payload,latency_ms}') as "cancel_latency_ms",
    analytics.json_bigint(analytics.readable(r.effect) #> '{payload,tokens_in}') as "tokens_in",
    analytics.json_bigint(analytics.readable(r.effect) #> '{payload,tokens_out}') as "tokens_out",
    analytics.readable(r.effect) #>> '{payload,counted}' as "counted",
    analytics.json_double(analytics.readable(r.effect) #> '{payload,price}') as "price",
    analytics.readable(r.effect) #>> '{payload,currency}' as "currency",
    analytics.json_double(analytics.readable(r.effect) #> '{payload,first_token_ms}') as "first_token_ms",
    analytics.json_double(analytics.readable(r.effect) #> '{payload,took_ms}') as "took_ms",
    analytics.readable(r.effect) #>> '{payload,finish}' as "finish",
    analytics.readable(r.effect) #> '{payload,intents}' as "intents",
    analytics.readable(r.effect) #>> '{payload,error,code}' as "error_code",
    analytics.readable(r.effect) #>> '{payload,error,message}' as "error",
    analytics.readable(r.effect) #>> '{payload,recalled,world_id}' as "recalled_world_id",
    analytics.readable(r.effect) #>> '{payload,recalled,req_id}' as "recalled_req_id",
    e.is_inherited as "is_inherited",
    e.inherited_from as "inherited_from",
    e.generation as "generation"
from (
    select distinct on (e.world_id, e.source_id, analytics.readable(e.effect) #>> '{payload,req_id}')
           e.world_id, e.source_id as agent_id, analytics.readable(e.effect) #>> '{payload,req_id}' as req_id,
           e.global_seq, e.sim_time, e.effect, e.is_inherited, e.inherited_from, e.generation
    from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) e
    where e.kind = 'GenerationStarted'
    order by e.world_id, e.source_id, analytics.readable(e.effect) #>> '{payload,req_id}', e.generation desc, e.global_seq
) e
left join public.worlds w on w.world_id = e.world_id
left join (
    select distinct on (r.world_id, r.source_id, analytics.readable(r.effect) #>> '{payload,req_id}')
           r.world_id, r.source_id as agent_id, analytics.readable(r.effect) #>> '{payload,req_id}' as req_id,
           r.global_seq, r.sim_time, r.effect, r.is_inherited, r.inherited_from, r.generation
    from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) r
    where r.kind = 'GenerationReported'
    order by r.world_id, r.source_id, analytics.readable(r.effect) #>> '{payload,req_id}', r.generation desc, r.global_seq
) r on r.world_id = e.world_id and r.agent_id = e.agent_id and r.req_id = e.req_id
left join (
    select distinct on (c.world_id, c.source_id, analytics.readable(c.effect) #>> '{payload,req_id}')
           c.world_id, c.source_id as agent_id, analytics.readable(c.effect) #>> '{payload,req_id}' as req_id,
           c.global_seq, c.sim_time, c.effect, c.is_inherited, c.inherited_from, c.generation
    from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) c
    where c.kind = 'GenerationCancelled'
    order by c.world_id, c.source_id, analytics.readable(c.effect) #>> '{payload,req_id}', c.generation, c.global_seq desc
) c on c.world_id = e.world_id and c.agent_id = e.agent_id and c.req_id = e.req_id
left join (
    select distinct on (f.world_id, f.source_id, analytics.readable(f.effect) #>> '{payload,req_id}')
           f.world_id, f.source_id as agent_id, analytics.readable(f.effect) #>> '{payload,req_id}' as req_id,
           f.global_seq, f.sim_time, f.effect, f.is_inherited, f.inherited_from, f.generation
    from (
    select o.world_id, o.global_seq, o.effect, o.checksum, o.kind, o.source_id, o.sim_time, o.recorded_at,
           false as is_inherited, null::text as inherited_from, 0 as generation
    from public.effects o
    union all
    select f.world_id, i.global_seq, i.effect, i.checksum, i.kind, i.source_id, i.sim_time, i.recorded_at,
           true as is_inherited, a.ancestor as inherited_from, a.generation
    from analytics.forks f
    cross join lateral analytics.ancestry(f.world_id) a
    join public.effects i on i.world_id = a.ancestor and i.global_seq <= a.until_seq
) f
    where f.kind = 'GenerationFinished'
    order by f.world_id, f.source_id, analytics.readable(f.effect) #>> '{payload,req_id}', f.generation, f.global_seq desc
) f on f.world_id = e.world_id and f.agent_id = e.agent_id and f.req_id = e.req_id
-- next
create or replace function analytics.place_at(world text, moment text) returns table (world_id text, global_seq bigint)
language plpgsql stable strict parallel safe rows 1
as $$
declare
    logs text[];  -- those of its history, the youngest first
    ends bigint[];  -- the last effect of each that is its history
    said constant text := moment;
    word text;
    rest text;
    seconds double precision;
    instant timestamptz;
    number bigint;
    rules text;
    kinds text[];
    member text;
    has_zero boolean;
    begun bigint;
    low bigint;
    high bigint;
    middle bigint;
    many bigint;
    is_before boolean;
begin
    select array_agg(l.name order by l.generation), array_agg(l.last_seq order by l.generation) into logs, ends
    from (
        select w.world_id as name, 0 as generation, w.head_seq as last_seq from analytics.worlds w where w.world_id = world
        union all
        select a.ancestor, a.generation, a.until_seq from analytics.ancestry(world) a
    ) l;
    if logs is null then
        return;
    end if;
    while starts_with(moment, 'parent:') loop
        if cardinality(logs) = 1 then
            raise exception 'world % is no fork: it has no parent', logs[1] using errcode = 'no_data_found';
        end if;
        logs := logs[2:];
        ends := ends[2:];
        moment := substr(moment, length('parent:') + 1);
    end loop;

    moment := case
        when moment = 'head' then 'seq:' || ends[1]
        when moment ~ '^[0-9]+$' then 'seq:' || moment
        when moment ~ '^[0-9]{4}-' then 'wall:' || moment
        else moment
    end;
    word := split_part(moment, ':', 1);
    rest := substr(moment, length(word) + 2);
    if word = 'sim' then
        seconds := case when rest ~ '^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?$' then rest end;
    elsif word = 'wall' then
        instant := case when rest ~ 'T.*(Z|[+-][0-9]{2}:?[0-9]{2})$' then analytics.json_time(to_json(rest)) end;
    elsif word ~ '^[a-z][a-z_]{0,63}$' then
        number := case when rest ~ '^[0-9]{1,18}$' then rest end;
    end if;
    if num_nonnulls(seconds, instant, number) = 0 then
        raise exception '% is no moment: give seq:N (or N), head, step:N or another unit, sim:SECONDS, a time with its offset, or parent:MOMENT', quote_literal(said)
            using errcode = 'invalid_parameter_value';
    end if;

    if word = 'seq' then
        if number not between 1 and ends[1] then
            if logs[1] <> world then
                raise exception 'seq % of % is not in the history of %: they share its effects up to seq %, the fork point',
                    number, logs[1], world, ends[1] using errcode = 'no_data_found';
            end if;
            raise exception 'world % has no seq %; its head is %', logs[1], number, ends[1] using errcode = 'no_data_found';
        end if;
        return query select logs[1], number;
        return;
    end if;

    if number is null then  -- times never go back in a log
        for nth in 1 .. cardinality(logs) loop
            low := 0;
            high := ends[nth];
            while low < high loop
                middle := (low + high + 1) / 2;
                select case when instant is null then e.sim_time_s <= seconds else e.recorded_at <= instant end into is_before
                from analytics.effects_with_forks e
                where e.world_id = logs[nth] and not e.is_inherited and e.global_seq = middle;
                if is_before is null then
                    raise exception 'effect % of world % has no time that can be read', middle, logs[nth]
                        using errcode = 'no_data_found';
                elsif is_before then
                    low := middle;
                else
                    high := middle - 1;
                end if;
            end loop;
            if low > 0 then
                return query select logs[nth], low;
                return;
            end if;
        end loop;
        raise exception 'world % has no effect at or before %', logs[1], said using errcode = 'no_data_found';
    end if;

    select w.ruleset into rules from analytics.worlds w where w.world_id = logs[1];
    if to_regclass(format('analytics.%I', rules || '_units')) is not null then
        execute format('select u.kinds, u.member, u.has_zero from analytics.%I u where u.unit = $1', rules || '_units')
            into kinds, member, has_zero using word;
    end if;
    if kinds is null and word = 'step' then  -- an effect that is not of a system kind, and the rest up to the next one
        low := 0;
        for nth in reverse cardinality(logs) .. 1 loop
            select count(*) into many
            from analytics.effects_with_forks e
            where e.world_id = logs[nth] and not e.is_inherited and e.global_seq <= ends[nth] and not (starts_with(e.kind, 'World') or starts_with(e.kind, 'Intent') or starts_with(e.kind, 'Generation') or e.kind in ('AgentRegistered', 'StateDigest', 'ViewDigest'));
            if number <= low + many then
                select e.global_seq into begun
                from analytics.effects_with_forks e
                where e.world_id = logs[nth] and not e.is_inherited and e.global_seq <= ends[nth] and not (starts_with(e.kind, 'World') or starts_with(e.kind, 'Intent') or starts_with(e.kind, 'Generation') or e.kind in ('AgentRegistered', 'StateDigest', 'ViewDigest'))
                order by e.global_seq offset number - low limit 1;
                return query select logs[nth], coalesce(begun - 1, ends[nth]);
                return;
            end if;
            low := low + many;
        end loop;
        raise exception 'world % has no step %; its last is %', logs[1], number, low using errcode = 'no_data_found';
    elsif kinds is null then
        raise exception 'world % has no % %; worlds of % have no such unit', logs[1], word, number, rules
            using errcode = 'no_data_found', hint = format('The view analytics.%I has those that there are.', rules || '_units');
    elsif member is null then
        raise exception 'the number of a % is no field of an effect: it cannot be asked for in SQL', word
            using errcode = 'invalid_parameter_value',
                  hint = format('worldledger state %s --at %s says at which seq it is.', world, said);
    end if;

    for nth in 1 .. cardinality(logs) loop
        select max(e.global_seq) into begun
        from analytics.effects_with_forks e
        where e.world_id = logs[nth] and not e.is_inherited and e.global_seq <= ends[nth] and e.kind = any (kinds)
          and e.payload ->> member = number::text;
        if begun is null and number = 0 and has_zero and nth = cardinality(logs) then
            begun := 0;
        end if;
        continue when begun is null;
        for later in reverse nth .. 1 loop  -- what is under way at a fork point goes on in the fork
            select min(e.global_seq) into middle
            from analytics.effects_with_forks e
            where e.world_id = logs[later] and not e.is_inherited and e.kind = any (kinds)
              and e.global_seq > begun and e.global_seq <= ends[later];
            if middle is not null or later = 1 then
                return query select logs[later], coalesce(middle - 1, ends[later]);
                return;
            end if;
            begun := 0;
        end loop;
    end loop;
    raise exception 'world % has no % %', logs[1], word, number using errcode = 'no_data_found';
end
$$
