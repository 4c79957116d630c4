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
comment on column analytics."world_created"."time_zero_at" is 'From when sim_time counts under the wall clock; null elsewhere, and where it counts from 1970.'
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
grant select on analytics.world_created to worldledger_service, worldledger_reader, worldledger_guest
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
    analytics.json_double(e.effect #> '{payload,time}') as "time_s",
    analytics.json_bigint(e.effect #> '{payload,tick}') as "tick",
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
comment on column analytics."world_time_set"."time_s" is 'The time as the adapter stated it, in seconds; null where not told.'
-- next
comment on column analytics."world_time_set"."tick" is 'The number of the tick that it closes; null where intents are not held.'
-- next
comment on column analytics."world_time_set"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."world_time_set"."payload" is 'All that the effect says, also what has no column here.'
-- next
grant select on analytics.world_time_set to worldledger_service, worldledger_reader, worldledger_guest
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
    analytics.json_double(e.effect #> '{payload,offset}') as "offset_s",
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
comment on column analytics."world_time_authority_set"."offset_s" is 'What is added to its own time, in seconds; null: nothing.'
-- next
comment on column analytics."world_time_authority_set"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."world_time_authority_set"."payload" is 'All that the effect says, also what has no column here.'
-- next
grant select on analytics.world_time_authority_set to worldledger_service, worldledger_reader, worldledger_guest
-- next
create view analytics."world_time_authority_silent" as
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
comment on view analytics."world_time_authority_silent" is 'WorldTimeAuthoritySilent: the adapter that sets sim_time is not heard any more.'
-- next
comment on column analytics."world_time_authority_silent"."world_id" is 'The name of the world.'
-- next
comment on column analytics."world_time_authority_silent"."experiment" is 'The experiment that the world belongs to; null for none.'
-- next
comment on column analytics."world_time_authority_silent"."global_seq" is 'The effect''s place in the world''s log: 1, 2, 3 …'
-- next
comment on column analytics."world_time_authority_silent"."sim_time_s" is 'The world''s own time, in seconds.'
-- next
comment on column analytics."world_time_authority_silent"."recorded_at" is 'When it was accepted: the effect''s wall_time.'
-- next
comment on column analytics."world_time_authority_silent"."source_id" is 'Who caused it; for an agent''s effects its agent_id.'
-- next
comment on column analytics."world_time_authority_silent"."authority" is 'The adapter.'
-- next
comment on column analytics."world_time_authority_silent"."last_tick_seq" is 'Its last tick; null where none came since it took over.'
-- next
comment on column analytics."world_time_authority_silent"."reason" is 'disconnected or no_tick.'
-- next
comment on column analytics."world_time_authority_silent"."caused_by" is 'The global_seq of the effect that led to it, where told.'
-- next
comment on column analytics."world_time_authority_silent"."payload" is 'All that the effect says, also what has no column here.'
-- next
grant select on analytics.world_time_authority_silent to worldledger_service, worldledger_reader, worldledger_guest
