-- As before, except: the columns of an effect that PostgreSQL has stored and cannot read are null.

create or replace view game_started as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,white}' as white,
    analytics.readable(e.effect) #>> '{payload,black}' as black,
    analytics.readable(e.effect) #>> '{payload,agents,white}' as white_agent_id,
    analytics.readable(e.effect) #>> '{payload,agents,black}' as black_agent_id,
    analytics.readable(e.effect) #>> '{payload,event}' as event,
    analytics.readable(e.effect) #>> '{payload,site}' as site,
    analytics.readable(e.effect) #>> '{payload,date}' as date,
    analytics.readable(e.effect) #>> '{payload,round}' as round,
    analytics.readable(e.effect) #>> '{payload,time_control}' as time_control,
    analytics.readable(e.effect) #>> '{payload,variant}' as variant,
    analytics.readable(e.effect) #>> '{payload,initial_fen}' as initial_fen,
    analytics.readable(e.effect) #> '{payload,tags}' as tags,
    analytics.readable(e.effect) #>> '{payload,comment}' as comment,
    analytics.readable(e.effect) #>> '{payload,sim_time_unit}' as sim_time_unit,
    analytics.readable(e.effect) #>> '{payload,digest}' as digest,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GameStarted'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view move_made as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,ply}') as ply,
    analytics.readable(e.effect) #>> '{payload,player}' as player,
    coalesce(analytics.readable(e.effect) #>> '{payload,agent_id}', e.source_id) as agent_id,
    analytics.readable(e.effect) #>> '{payload,from_square}' as from_square,
    analytics.readable(e.effect) #>> '{payload,to_square}' as to_square,
    analytics.readable(e.effect) #>> '{payload,piece}' as piece,
    analytics.readable(e.effect) #>> '{payload,uci_notation}' as uci_notation,
    analytics.readable(e.effect) #>> '{payload,san_notation}' as san_notation,
    analytics.json_boolean(analytics.readable(e.effect) #> '{payload,is_capture}') as is_capture,
    analytics.json_boolean(analytics.readable(e.effect) #> '{payload,is_castling}') as is_castling,
    analytics.json_boolean(analytics.readable(e.effect) #> '{payload,is_promotion}') as is_promotion,
    analytics.readable(e.effect) #>> '{payload,promotion_piece}' as promotion_piece,
    analytics.json_boolean(analytics.readable(e.effect) #> '{payload,is_null}') as is_null,
    analytics.json_time(analytics.readable(e.effect) #> '{payload,timestamp}') as made_at,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,thinking_time}') as thinking_time_s,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,clock}') as clock_s,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,evaluation,cp}') as evaluation_cp,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,evaluation,mate}') as evaluation_mate,
    analytics.readable(e.effect) #>> '{payload,comment}' as comment,
    analytics.readable(e.effect) #>> '{payload,fen}' as fen,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'MoveMade'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view move_rejected as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,player}' as player,
    coalesce(analytics.readable(e.effect) #>> '{payload,agent_id}', e.source_id) as agent_id,
    analytics.readable(e.effect) #>> '{payload,attempted}' as attempted,
    analytics.readable(e.effect) #>> '{payload,reason}' as reason,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,ply}') as ply,
    analytics.readable(e.effect) #>> '{payload,fen}' as fen,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'MoveRejected'
  and e.world_id not in (select f.world_id from analytics.forks f);

create or replace view game_ended as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(analytics.readable(e.effect) #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.readable(e.effect) #>> '{payload,status}' as status,
    analytics.readable(e.effect) #>> '{payload,result}' as result,
    analytics.readable(e.effect) #>> '{payload,reason}' as reason,
    analytics.readable(e.effect) #>> '{payload,raw_result}' as raw_result,
    analytics.readable(e.effect) #>> '{payload,final_fen}' as final_fen,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,plies}') as plies,
    analytics.json_double(analytics.readable(e.effect) #> '{payload,thinking_time_total}') as thinking_time_total_s,
    analytics.json_bigint(analytics.readable(e.effect) #> '{payload,variations_total}') as variations_total,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(analytics.readable(e.effect) #> '{caused_by}')
    end as caused_by,
    analytics.readable(e.effect) -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GameEnded'
  and e.world_id not in (select f.world_id from analytics.forks f);
