-- Sandbox worlds: one view for each kind of effect, of every world. What is not of its column's type is null.

create view entity_created as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,entity_id}' as entity_id,
    e.effect #> '{payload,entity_data}' as entity_data,
    coalesce(
        analytics.json_double(e.effect #> '{payload,position,0}'),
        analytics.json_double(e.effect #> '{payload,entity_data,position,0}')) as x,
    coalesce(
        analytics.json_double(e.effect #> '{payload,position,1}'),
        analytics.json_double(e.effect #> '{payload,entity_data,position,1}')) as y,
    coalesce(
        analytics.json_double(e.effect #> '{payload,position,2}'),
        analytics.json_double(e.effect #> '{payload,entity_data,position,2}')) as z,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'EntityCreated';
comment on view entity_created is 'EntityCreated: an entity came into a world.';
comment on column entity_created.world_id is 'The name of the world.';
comment on column entity_created.experiment is 'The experiment that the world belongs to; null for none.';
comment on column entity_created.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column entity_created.sim_time_s is 'The world''s own time, in seconds.';
comment on column entity_created.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column entity_created.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column entity_created.entity_id is 'The entity''s id, unique in its world.';
comment on column entity_created.entity_data is 'What is known of it.';
comment on column entity_created.x is 'Where it stands; null where it has no place.';
comment on column entity_created.y is 'As x.';
comment on column entity_created.z is 'As x.';
comment on column entity_created.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column entity_created.payload is 'All that the effect says, also what has no column here.';

create view entity_updated as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,entity_id}' as entity_id,
    e.effect #> '{payload,patch}' as patch,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'EntityUpdated';
comment on view entity_updated is 'EntityUpdated: an entity was changed.';
comment on column entity_updated.world_id is 'The name of the world.';
comment on column entity_updated.experiment is 'The experiment that the world belongs to; null for none.';
comment on column entity_updated.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column entity_updated.sim_time_s is 'The world''s own time, in seconds.';
comment on column entity_updated.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column entity_updated.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column entity_updated.entity_id is 'The entity''s id, unique in its world.';
comment on column entity_updated.patch is 'What changes: RFC 6902.';
comment on column entity_updated.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column entity_updated.payload is 'All that the effect says, also what has no column here.';

create view entity_removed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,entity_id}' as entity_id,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'EntityRemoved';
comment on view entity_removed is 'EntityRemoved: an entity is gone.';
comment on column entity_removed.world_id is 'The name of the world.';
comment on column entity_removed.experiment is 'The experiment that the world belongs to; null for none.';
comment on column entity_removed.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column entity_removed.sim_time_s is 'The world''s own time, in seconds.';
comment on column entity_removed.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column entity_removed.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column entity_removed.entity_id is 'The entity''s id, unique in its world.';
comment on column entity_removed.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column entity_removed.payload is 'All that the effect says, also what has no column here.';

create view move as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as agent_id,
    coalesce(
        analytics.json_double(e.effect #> '{payload,to,0}'),
        analytics.json_double(e.effect #> '{payload,position,0}')) as to_x,
    coalesce(
        analytics.json_double(e.effect #> '{payload,to,1}'),
        analytics.json_double(e.effect #> '{payload,position,1}')) as to_y,
    coalesce(
        analytics.json_double(e.effect #> '{payload,to,2}'),
        analytics.json_double(e.effect #> '{payload,position,2}')) as to_z,
    analytics.json_double(e.effect #> '{payload,from,0}') as from_x,
    analytics.json_double(e.effect #> '{payload,from,1}') as from_y,
    analytics.json_double(e.effect #> '{payload,from,2}') as from_z,
    analytics.json_double(e.effect #> '{payload,speed}') as speed,
    analytics.json_bigint(e.effect #> '{payload,token_count}') as token_count,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'Move';
comment on view move is 'Move: an agent moved.';
comment on column move.world_id is 'The name of the world.';
comment on column move.experiment is 'The experiment that the world belongs to; null for none.';
comment on column move.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column move.sim_time_s is 'The world''s own time, in seconds.';
comment on column move.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column move.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column move.agent_id is 'Who moved: the source, where the payload names nobody.';
comment on column move.to_x is 'Where it moved to.';
comment on column move.to_y is 'As to_x.';
comment on column move.to_z is 'As to_x.';
comment on column move.from_x is 'Where it came from; null where that is not told.';
comment on column move.from_y is 'As from_x.';
comment on column move.from_z is 'As from_x.';
comment on column move.speed is 'How fast; null where that is not told.';
comment on column move.token_count is 'The LLM tokens that making it has cost; null where not told.';
comment on column move.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column move.payload is 'All that the effect says, also what has no column here.';

create view speak as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,text}' as text,
    analytics.json_bigint(e.effect #> '{payload,token_count}') as token_count,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'Speak';
comment on view speak is 'Speak: an agent spoke.';
comment on column speak.world_id is 'The name of the world.';
comment on column speak.experiment is 'The experiment that the world belongs to; null for none.';
comment on column speak.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column speak.sim_time_s is 'The world''s own time, in seconds.';
comment on column speak.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column speak.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column speak.text is 'What was said.';
comment on column speak.token_count is 'The LLM tokens that making it has cost; null where not told.';
comment on column speak.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column speak.payload is 'All that the effect says, also what has no column here.';

create view speak_response as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,text}' as text,
    analytics.json_bigint(e.effect #> '{payload,token_count}') as token_count,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'SpeakResponse';
comment on view speak_response is 'SpeakResponse: an agent answered.';
comment on column speak_response.world_id is 'The name of the world.';
comment on column speak_response.experiment is 'The experiment that the world belongs to; null for none.';
comment on column speak_response.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column speak_response.sim_time_s is 'The world''s own time, in seconds.';
comment on column speak_response.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column speak_response.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column speak_response.text is 'What was said.';
comment on column speak_response.token_count is 'The LLM tokens that making it has cost; null where not told.';
comment on column speak_response.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column speak_response.payload is 'All that the effect says, also what has no column here.';

create view interact as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,target_id}' as target_id,
    analytics.json_bigint(e.effect #> '{payload,token_count}') as token_count,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'Interact';
comment on view interact is 'Interact: an agent met another.';
comment on column interact.world_id is 'The name of the world.';
comment on column interact.experiment is 'The experiment that the world belongs to; null for none.';
comment on column interact.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column interact.sim_time_s is 'The world''s own time, in seconds.';
comment on column interact.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column interact.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column interact.target_id is 'With whom.';
comment on column interact.token_count is 'The LLM tokens that making it has cost; null where not told.';
comment on column interact.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column interact.payload is 'All that the effect says, also what has no column here.';

create view relationship_set as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(e.effect #>> '{payload,from_entity}', e.source_id) as from_entity,
    e.effect #>> '{payload,to_entity}' as to_entity,
    e.effect #>> '{payload,relationship_type}' as relationship_type,
    analytics.json_double(e.effect #> '{payload,strength}') as strength,
    e.effect #> '{payload,metadata}' as metadata,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RelationshipSet';
comment on view relationship_set is 'RelationshipSet: a relationship, one way.';
comment on column relationship_set.world_id is 'The name of the world.';
comment on column relationship_set.experiment is 'The experiment that the world belongs to; null for none.';
comment on column relationship_set.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column relationship_set.sim_time_s is 'The world''s own time, in seconds.';
comment on column relationship_set.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column relationship_set.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column relationship_set.from_entity is 'Whose relationship it is: the source, where the payload names nobody.';
comment on column relationship_set.to_entity is 'To whom.';
comment on column relationship_set.relationship_type is 'What kind of relationship.';
comment on column relationship_set.strength is 'How strong; 1.0 is meant where it is null.';
comment on column relationship_set.metadata is 'What else is known of it.';
comment on column relationship_set.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column relationship_set.payload is 'All that the effect says, also what has no column here.';

create view relationship_removed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(e.effect #>> '{payload,from_entity}', e.source_id) as from_entity,
    e.effect #>> '{payload,to_entity}' as to_entity,
    e.effect #>> '{payload,relationship_type}' as relationship_type,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RelationshipRemoved';
comment on view relationship_removed is 'RelationshipRemoved: a relationship is gone.';
comment on column relationship_removed.world_id is 'The name of the world.';
comment on column relationship_removed.experiment is 'The experiment that the world belongs to; null for none.';
comment on column relationship_removed.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column relationship_removed.sim_time_s is 'The world''s own time, in seconds.';
comment on column relationship_removed.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column relationship_removed.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column relationship_removed.from_entity is 'Whose relationship it was: the source, where the payload names nobody.';
comment on column relationship_removed.to_entity is 'To whom.';
comment on column relationship_removed.relationship_type is 'What kind of relationship; null: all of the two.';
comment on column relationship_removed.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column relationship_removed.payload is 'All that the effect says, also what has no column here.';
