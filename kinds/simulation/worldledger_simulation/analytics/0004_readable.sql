-- As before, except: the columns of an effect that PostgreSQL has stored and cannot read are null.

create or replace view simulation_started as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,turn}') as turn,
    analytics.readable(e.effect) #> '{payload,agents}' as agents,
    analytics.readable(e.effect) #> '{payload,global_state}' as global_state,
    analytics.readable(e.effect) #> '{payload,paused}' as paused,
    analytics.readable(e.effect) #> '{payload,checkpoint}' as checkpoint,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'SimulationStarted'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view turn_started as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,turn}') as turn,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'TurnStarted'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view turn_ended as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,turn}') as turn,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'TurnEnded'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view agent_state_changed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(analytics.readable(e.effect) #>> '{payload,agent_id}', e.source_id) as agent_id,
    analytics.readable(e.effect) #> '{payload,patch}' as patch,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentStateChanged'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view global_state_changed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #> '{payload,patch}' as patch,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GlobalStateChanged'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view reasoning_recorded as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(analytics.readable(e.effect) #>> '{payload,agent_id}', e.source_id) as agent_id,
    analytics.readable(e.effect) #>> '{payload,reasoning}' as reasoning,
    analytics.readable(e.effect) #>> '{payload,model}' as model,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,token_count}') as token_count,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ReasoningRecorded'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view agent_added as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(analytics.readable(e.effect) #>> '{payload,agent_id}', e.source_id) as agent_id,
    analytics.readable(e.effect) #> '{payload,state}' as state,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentAdded'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view agent_removed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(analytics.readable(e.effect) #>> '{payload,agent_id}', e.source_id) as agent_id,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentRemoved'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view agent_paused as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(analytics.readable(e.effect) #>> '{payload,agent_id}', e.source_id) as agent_id,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,turns}') as turns,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentPaused'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view agent_resumed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(analytics.readable(e.effect) #>> '{payload,agent_id}', e.source_id) as agent_id,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentResumed'
  and e.world_id not in (select f.world_id from analytics.forks f);
