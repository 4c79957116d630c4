-- As before, except: the columns of an effect that PostgreSQL has stored and cannot read are null.

create or replace view entity_created as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,entity_id}' as entity_id,
    analytics.readable(e.effect) #> '{payload,entity_data}' as entity_data,
    coalesce(
        analytics.json_double(analytics.readable(e.effect) #> '{payload,position,0}'),
        analytics.json_double(analytics.readable(e.effect) #> '{payload,entity_data,position,0}')) as x,
    coalesce(
        analytics.json_double(analytics.readable(e.effect) #> '{payload,position,1}'),
        analytics.json_double(analytics.readable(e.effect) #> '{payload,entity_data,position,1}')) as y,
    coalesce(
        analytics.json_double(analytics.readable(e.effect) #> '{payload,position,2}'),
        analytics.json_double(analytics.readable(e.effect) #> '{payload,entity_data,position,2}')) as z,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'EntityCreated'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view entity_updated as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,entity_id}' as entity_id,
    analytics.readable(e.effect) #> '{payload,patch}' as patch,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'EntityUpdated'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view entity_removed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,entity_id}' as entity_id,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'EntityRemoved'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view move as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(analytics.readable(e.effect) #>> '{payload,agent_id}', e.source_id) as agent_id,
    coalesce(
        analytics.json_double(analytics.readable(e.effect) #> '{payload,to,0}'),
        analytics.json_double(analytics.readable(e.effect) #> '{payload,position,0}')) as to_x,
    coalesce(
        analytics.json_double(analytics.readable(e.effect) #> '{payload,to,1}'),
        analytics.json_double(analytics.readable(e.effect) #> '{payload,position,1}')) as to_y,
    coalesce(
        analytics.json_double(analytics.readable(e.effect) #> '{payload,to,2}'),
        analytics.json_double(analytics.readable(e.effect) #> '{payload,position,2}')) as to_z,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,from,0}') as from_x,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,from,1}') as from_y,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,from,2}') as from_z,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,speed}') as speed,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,token_count}') as token_count,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'Move'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view speak as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,text}' as text,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,token_count}') as token_count,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'Speak'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view speak_response as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,text}' as text,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,token_count}') as token_count,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'SpeakResponse'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view interact as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,target_id}' as target_id,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,token_count}') as token_count,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'Interact'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view relationship_set as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(analytics.readable(e.effect) #>> '{payload,from_entity}', e.source_id) as from_entity,
    analytics.readable(e.effect) #>> '{payload,to_entity}' as to_entity,
    analytics.readable(e.effect) #>> '{payload,relationship_type}' as relationship_type,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,strength}') as strength,
    analytics.readable(e.effect) #> '{payload,metadata}' as metadata,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RelationshipSet'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view relationship_removed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(analytics.readable(e.effect) #>> '{payload,from_entity}', e.source_id) as from_entity,
    analytics.readable(e.effect) #>> '{payload,to_entity}' as to_entity,
    analytics.readable(e.effect) #>> '{payload,relationship_type}' as relationship_type,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RelationshipRemoved'
  and e.world_id not in (select f.world_id from analytics.forks f);
