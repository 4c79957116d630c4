-- Simulations: one view for each kind of effect, of every world. What is not of its column's type is null.

create view simulation_started as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(e.effect #> '{payload,turn}') as turn,
    e.effect #> '{payload,agents}' as agents,
    e.effect #> '{payload,global_state}' as global_state,
    e.effect #> '{payload,paused}' as paused,
    e.effect #> '{payload,checkpoint}' as checkpoint,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'SimulationStarted';
comment on view simulation_started is 'SimulationStarted: a simulation began, with every value of its beginning.';
comment on column simulation_started.world_id is 'The name of the world.';
comment on column simulation_started.experiment is 'The experiment that the world belongs to; null for none.';
comment on column simulation_started.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column simulation_started.sim_time_s is 'The world''s own time, in seconds.';
comment on column simulation_started.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column simulation_started.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column simulation_started.turn is 'The turn that it began with: 0, or its checkpoint''s.';
comment on column simulation_started.agents is 'Each agent''s variables, by name.';
comment on column simulation_started.global_state is 'The global variables.';
comment on column simulation_started.paused is 'Who was paused, and until which turn.';
comment on column simulation_started.checkpoint is 'The checkpoint that it was begun with; null for none.';
comment on column simulation_started.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column simulation_started.payload is 'All that the effect says, also what has no column here.';

create view turn_started as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(e.effect #> '{payload,turn}') as turn,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'TurnStarted';
comment on view turn_started is 'TurnStarted: a turn of a simulation began.';
comment on column turn_started.world_id is 'The name of the world.';
comment on column turn_started.experiment is 'The experiment that the world belongs to; null for none.';
comment on column turn_started.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column turn_started.sim_time_s is 'The world''s own time, in seconds.';
comment on column turn_started.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column turn_started.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column turn_started.turn is 'The number of the turn.';
comment on column turn_started.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column turn_started.payload is 'All that the effect says, also what has no column here.';

create view turn_ended as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(e.effect #> '{payload,turn}') as turn,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'TurnEnded';
comment on view turn_ended is 'TurnEnded: a turn of a simulation is over.';
comment on column turn_ended.world_id is 'The name of the world.';
comment on column turn_ended.experiment is 'The experiment that the world belongs to; null for none.';
comment on column turn_ended.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column turn_ended.sim_time_s is 'The world''s own time, in seconds.';
comment on column turn_ended.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column turn_ended.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column turn_ended.turn is 'The number of the turn.';
comment on column turn_ended.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column turn_ended.payload is 'All that the effect says, also what has no column here.';

create view agent_state_changed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as agent_id,
    e.effect #> '{payload,patch}' as patch,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentStateChanged';
comment on view agent_state_changed is 'AgentStateChanged: variables of an agent changed.';
comment on column agent_state_changed.world_id is 'The name of the world.';
comment on column agent_state_changed.experiment is 'The experiment that the world belongs to; null for none.';
comment on column agent_state_changed.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column agent_state_changed.sim_time_s is 'The world''s own time, in seconds.';
comment on column agent_state_changed.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column agent_state_changed.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column agent_state_changed.agent_id is 'The agent whose variables they are.';
comment on column agent_state_changed.patch is 'What changes of the variables: RFC 6902.';
comment on column agent_state_changed.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column agent_state_changed.payload is 'All that the effect says, also what has no column here.';

create view global_state_changed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #> '{payload,patch}' as patch,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'GlobalStateChanged';
comment on view global_state_changed is 'GlobalStateChanged: global variables changed.';
comment on column global_state_changed.world_id is 'The name of the world.';
comment on column global_state_changed.experiment is 'The experiment that the world belongs to; null for none.';
comment on column global_state_changed.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column global_state_changed.sim_time_s is 'The world''s own time, in seconds.';
comment on column global_state_changed.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column global_state_changed.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column global_state_changed.patch is 'What changes of the variables: RFC 6902.';
comment on column global_state_changed.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column global_state_changed.payload is 'All that the effect says, also what has no column here.';

create view reasoning_recorded as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as agent_id,
    e.effect #>> '{payload,reasoning}' as reasoning,
    e.effect #>> '{payload,model}' as model,
    analytics.json_bigint(e.effect #> '{payload,token_count}') as token_count,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ReasoningRecorded';
comment on view reasoning_recorded is 'ReasoningRecorded: what an agent said of its reasons.';
comment on column reasoning_recorded.world_id is 'The name of the world.';
comment on column reasoning_recorded.experiment is 'The experiment that the world belongs to; null for none.';
comment on column reasoning_recorded.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column reasoning_recorded.sim_time_s is 'The world''s own time, in seconds.';
comment on column reasoning_recorded.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column reasoning_recorded.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column reasoning_recorded.agent_id is 'The agent whose reasoning it is.';
comment on column reasoning_recorded.reasoning is 'The reasoning: a text as it is, anything else as JSON text.';
comment on column reasoning_recorded.model is 'The model that reasoned; null where that is not told.';
comment on column reasoning_recorded.token_count is 'How many tokens it took; null where that is not told.';
comment on column reasoning_recorded.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column reasoning_recorded.payload is 'All that the effect says, also what has no column here.';

create view agent_added as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as agent_id,
    e.effect #> '{payload,state}' as state,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentAdded';
comment on view agent_added is 'AgentAdded: an agent came into a simulation.';
comment on column agent_added.world_id is 'The name of the world.';
comment on column agent_added.experiment is 'The experiment that the world belongs to; null for none.';
comment on column agent_added.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column agent_added.sim_time_s is 'The world''s own time, in seconds.';
comment on column agent_added.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column agent_added.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column agent_added.agent_id is 'The agent that it is about: the source, where the payload names none.';
comment on column agent_added.state is 'Its variables, as far as they are not the defaults.';
comment on column agent_added.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column agent_added.payload is 'All that the effect says, also what has no column here.';

create view agent_removed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as agent_id,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentRemoved';
comment on view agent_removed is 'AgentRemoved: an agent is gone from a simulation.';
comment on column agent_removed.world_id is 'The name of the world.';
comment on column agent_removed.experiment is 'The experiment that the world belongs to; null for none.';
comment on column agent_removed.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column agent_removed.sim_time_s is 'The world''s own time, in seconds.';
comment on column agent_removed.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column agent_removed.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column agent_removed.agent_id is 'The agent that it is about: the source, where the payload names none.';
comment on column agent_removed.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column agent_removed.payload is 'All that the effect says, also what has no column here.';

create view agent_paused as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as agent_id,
    analytics.json_bigint(e.effect #> '{payload,turns}') as turns,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentPaused';
comment on view agent_paused is 'AgentPaused: an agent does not act for a while.';
comment on column agent_paused.world_id is 'The name of the world.';
comment on column agent_paused.experiment is 'The experiment that the world belongs to; null for none.';
comment on column agent_paused.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column agent_paused.sim_time_s is 'The world''s own time, in seconds.';
comment on column agent_paused.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column agent_paused.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column agent_paused.agent_id is 'The agent that it is about: the source, where the payload names none.';
comment on column agent_paused.turns is 'For how many turns; null: until it is resumed.';
comment on column agent_paused.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column agent_paused.payload is 'All that the effect says, also what has no column here.';

create view agent_resumed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as agent_id,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'AgentResumed';
comment on view agent_resumed is 'AgentResumed: an agent acts again.';
comment on column agent_resumed.world_id is 'The name of the world.';
comment on column agent_resumed.experiment is 'The experiment that the world belongs to; null for none.';
comment on column agent_resumed.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column agent_resumed.sim_time_s is 'The world''s own time, in seconds.';
comment on column agent_resumed.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column agent_resumed.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column agent_resumed.agent_id is 'The agent that it is about: the source, where the payload names none.';
comment on column agent_resumed.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column agent_resumed.payload is 'All that the effect says, also what has no column here.';
