-- As before, except: the columns of an effect that PostgreSQL has stored and cannot read are null.

create or replace view experiment_started as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,meta,experiment_id}' as experiment_id,
    analytics.readable(e.effect) #>> '{payload,meta,prar_run_id}' as prar_run_id,
    analytics.readable(e.effect) #>> '{payload,meta,framework}' as framework,
    analytics.readable(e.effect) #>> '{payload,meta,framework_option}' as framework_option,
    analytics.readable(e.effect) #>> '{payload,meta,model}' as model,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,meta,performer_temperature}') as performer_temperature,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,meta,coach_temperature}') as coach_temperature,
    analytics.readable(e.effect) #>> '{payload,meta,social_rl_version}' as social_rl_version,
    analytics.json_time(analytics.readable(e.effect) #> '{payload,meta,timestamp}') as run_at,
    analytics.readable(e.effect) #>> '{payload,extra,condition}' as condition,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,extra,seed}') as seed,
    analytics.readable(e.effect) #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ExperimentStarted'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view round_started as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,round_number}') as round_number,
    analytics.readable(e.effect) #> '{payload,round_config}' as round_config,
    analytics.readable(e.effect) #> '{payload,meta}' as meta,
    analytics.readable(e.effect) #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RoundStarted'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view message_emitted as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(analytics.readable(e.effect) #>> '{payload,agent_id}', e.source_id) as agent_id,
    coalesce(
        analytics.readable(e.effect) #>> '{payload,content}',
        analytics.readable(e.effect) #>> '{payload,text}',
        analytics.readable(e.effect) #>> '{payload,message}') as content,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,round_number}') as round_number,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,turn_number}') as turn_number,
    analytics.json_time(analytics.readable(e.effect) #> '{payload,timestamp}') as emitted_at,
    analytics.readable(e.effect) #>> '{payload,prar_cue_used}' as prar_cue_used,
    coalesce(
        analytics.json_boolean(analytics.readable(e.effect) #> '{payload,internal}'), false)
        or analytics.readable(e.effect) #> '{payload,extra,internal}' is not null as is_internal,
    analytics.readable(e.effect) #>> '{payload,role}' as role,
    analytics.readable(e.effect) #> '{payload,feedback_snapshot}' as feedback_snapshot,
    analytics.readable(e.effect) #> '{payload,validation_metadata}' as validation_metadata,
    analytics.readable(e.effect) #> '{payload,context_frame}' as context_frame,
    analytics.readable(e.effect) #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'MessageEmitted'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view feedback_recorded as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,agent_id}' as agent_id,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,round_number}') as round_number,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,engagement}') as engagement,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,theoretical_alignment}') as theoretical_alignment,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,contribution_value}') as contribution_value,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,direct_references}') as direct_references,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,response_received}') as response_received,
    analytics.readable(e.effect) #> '{payload,concepts_embodied}' as concepts_embodied,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,analyst_mentions}') as analyst_mentions,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,synthesis_inclusion}') as synthesis_inclusion,
    analytics.readable(e.effect) #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'FeedbackRecorded'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view policy_adapted as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,agent_id}' as agent_id,
    analytics.readable(e.effect) #>> '{payload,adaptation_type}' as adaptation_type,
    analytics.readable(e.effect) #>> '{payload,cue}' as cue,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,intensity}') as intensity,
    analytics.readable(e.effect) #>> '{payload,reason}' as reason,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,round_number}') as round_number,
    analytics.readable(e.effect) #> '{payload,feedback_trigger}' as feedback_trigger,
    analytics.readable(e.effect) #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'PolicyAdapted'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view policy_state_recorded as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,framework_option}' as framework_option,
    analytics.readable(e.effect) #>> '{payload,framework_name}' as framework_name,
    analytics.readable(e.effect) #> '{payload,policies}' as policies,
    analytics.json_time(analytics.readable(e.effect) #> '{payload,timestamp}') as taken_at,
    analytics.readable(e.effect) #>> '{payload,source_run_id}' as source_run_id,
    analytics.readable(e.effect) #>> '{payload,social_rl_version}' as social_rl_version,
    analytics.readable(e.effect) #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'PolicyStateRecorded'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view round_synthesised as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,round_number}') as round_number,
    analytics.readable(e.effect) #>> '{payload,synthesis}' as synthesis,
    analytics.readable(e.effect) #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RoundSynthesised'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view round_ended as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,round_number}') as round_number,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,duration_seconds}') as duration_s,
    analytics.readable(e.effect) #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RoundEnded'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view artifact_recorded as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,name}' as name,
    analytics.readable(e.effect) #> '{payload,content}' as content,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ArtifactRecorded'
  and e.world_id not in (select f.world_id from analytics.forks f);
