create or replace view analytics."experiments" as
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
create or replace view analytics."effects" as
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
create or replace view analytics."observations" as
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
create or replace view analytics."world_created" as
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
    analytics.json_time(e.effect #> '{payload,time_zero}') as "time_zero_at",
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
comment on column analytics."world_created"."parent_world_id" is 'The world that it is a fork of; null for none.'
-- next
create or replace view analytics."state_digest" as
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
create or replace view analytics."view_digest" as
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
create or replace view analytics."agent_registered" as
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
create or replace view analytics."world_time_set" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,adapter}' as "adapter",
    analytics.json_double(e.effect #> '{payload,time}') as "time_s",
    analytics.json_bigint(e.effect #> '{payload,tick}') as "tick",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldTimeSet'
-- next
create or replace view analytics."world_time_authority_set" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,authority}' as "authority",
    analytics.json_double(e.effect #> '{payload,offset}') as "offset_s",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldTimeAuthoritySet'
-- next
create or replace view analytics."world_time_authority_silent" as
select
    e.world_id as "world_id",
    w.experiment as "experiment",
    e.global_seq as "global_seq",
    e.sim_time as "sim_time_s",
    analytics.json_time(e.effect #> '{wall_time}') as "recorded_at",
    e.source_id as "source_id",
    e.effect #>> '{payload,authority}' as "authority",
    analytics.json_bigint(e.effect #> '{payload,last_tick_seq}') as "last_tick_seq",
    e.effect #>> '{payload,reason}' as "reason",
    case when starts_with(e.effect::text, '{"caused_by":') then analytics.json_bigint(e.effect #> '{caused_by}') end as "caused_by",
    e.effect -> 'payload' as "payload"
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'WorldTimeAuthoritySilent'
-- next
create or replace view analytics."intent_rejected" as
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
create or replace view analytics."generation_started" as
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
create or replace view analytics."generation_cancelled" as
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
create or replace view analytics."generation_finished" as
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
set local role worldledger_service
-- next
comment on schema analytics is 'Version 1. What is in the log and what follows from it, for questions: typed columns, names that explain themselves.'
-- next
set local role worldledger_owner
