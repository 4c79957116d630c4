-- Social-RL runs: one view for each kind of effect, of every world. What is not of its column's type is null.

create view experiment_started as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,meta,experiment_id}' as experiment_id,
    e.effect #>> '{payload,meta,prar_run_id}' as prar_run_id,
    e.effect #>> '{payload,meta,framework}' as framework,
    e.effect #>> '{payload,meta,framework_option}' as framework_option,
    e.effect #>> '{payload,meta,model}' as model,
    analytics.json_double(e.effect #> '{payload,meta,performer_temperature}') as performer_temperature,
    analytics.json_double(e.effect #> '{payload,meta,coach_temperature}') as coach_temperature,
    e.effect #>> '{payload,meta,social_rl_version}' as social_rl_version,
    analytics.json_time(e.effect #> '{payload,meta,timestamp}') as run_at,
    e.effect #>> '{payload,extra,condition}' as condition,
    analytics.json_bigint(e.effect #> '{payload,extra,seed}') as seed,
    e.effect #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ExperimentStarted';
comment on view experiment_started is 'ExperimentStarted: a run of a social-RL experiment began: its meta block.';
comment on column experiment_started.world_id is 'The name of the world.';
comment on column experiment_started.experiment is 'The experiment that the world belongs to; null for none.';
comment on column experiment_started.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column experiment_started.sim_time_s is 'The world''s own time, in seconds.';
comment on column experiment_started.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column experiment_started.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column experiment_started.experiment_id is 'The name of the run in the record.';
comment on column experiment_started.prar_run_id is 'The run of PRAR that its policies come from.';
comment on column experiment_started.framework is 'The framework, for people.';
comment on column experiment_started.framework_option is 'The framework''s code: A to E.';
comment on column experiment_started.model is 'The language model.';
comment on column experiment_started.performer_temperature is 'The temperature of the agents.';
comment on column experiment_started.coach_temperature is 'The temperature of the coach.';
comment on column experiment_started.social_rl_version is 'The version of the record''s schema.';
comment on column experiment_started.run_at is 'When the run began, as recorded; UTC without an offset.';
comment on column experiment_started.condition is 'The condition of the experiment, where the record has one.';
comment on column experiment_started.seed is 'The seed of the run, where the record has one.';
comment on column experiment_started.extra is 'What the record has beyond the fields of the schema.';
comment on column experiment_started.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column experiment_started.payload is 'All that the effect says, also what has no column here.';

create view round_started as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(e.effect #> '{payload,round_number}') as round_number,
    e.effect #> '{payload,round_config}' as round_config,
    e.effect #> '{payload,meta}' as meta,
    e.effect #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RoundStarted';
comment on view round_started is 'RoundStarted: a round began.';
comment on column round_started.world_id is 'The name of the world.';
comment on column round_started.experiment is 'The experiment that the world belongs to; null for none.';
comment on column round_started.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column round_started.sim_time_s is 'The world''s own time, in seconds.';
comment on column round_started.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column round_started.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column round_started.round_number is 'The number of the round.';
comment on column round_started.round_config is 'The scenario, rules and tasks of the round.';
comment on column round_started.meta is 'The round file''s own meta block.';
comment on column round_started.extra is 'What the record has beyond the fields of the schema.';
comment on column round_started.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column round_started.payload is 'All that the effect says, also what has no column here.';

create view message_emitted as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    coalesce(e.effect #>> '{payload,agent_id}', e.source_id) as agent_id,
    coalesce(
        e.effect #>> '{payload,content}',
        e.effect #>> '{payload,text}',
        e.effect #>> '{payload,message}') as content,
    analytics.json_bigint(e.effect #> '{payload,round_number}') as round_number,
    analytics.json_bigint(e.effect #> '{payload,turn_number}') as turn_number,
    analytics.json_time(e.effect #> '{payload,timestamp}') as emitted_at,
    e.effect #>> '{payload,prar_cue_used}' as prar_cue_used,
    coalesce(
        analytics.json_boolean(e.effect #> '{payload,internal}'), false)
        or e.effect #> '{payload,extra,internal}' is not null as is_internal,
    e.effect #>> '{payload,role}' as role,
    e.effect #> '{payload,feedback_snapshot}' as feedback_snapshot,
    e.effect #> '{payload,validation_metadata}' as validation_metadata,
    e.effect #> '{payload,context_frame}' as context_frame,
    e.effect #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'MessageEmitted';
comment on view message_emitted is 'MessageEmitted: a message: of an agent of a social-RL round, or of anybody in a sandbox.';
comment on column message_emitted.world_id is 'The name of the world.';
comment on column message_emitted.experiment is 'The experiment that the world belongs to; null for none.';
comment on column message_emitted.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column message_emitted.sim_time_s is 'The world''s own time, in seconds.';
comment on column message_emitted.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column message_emitted.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column message_emitted.agent_id is 'Who wrote it: the source, where the payload names nobody.';
comment on column message_emitted.content is 'What was said.';
comment on column message_emitted.round_number is 'The number of the round.';
comment on column message_emitted.turn_number is 'The number of the turn in the round.';
comment on column message_emitted.emitted_at is 'When it was written, as recorded.';
comment on column message_emitted.prar_cue_used is 'The PRAR cue that was put before the agent.';
comment on column message_emitted.is_internal is 'Whether only coaches see it: it says that it is internal, or anything odd in that place.';
comment on column message_emitted.role is 'assistant, system or user; null where that is not told.';
comment on column message_emitted.feedback_snapshot is 'The agent''s feedback when it was written.';
comment on column message_emitted.validation_metadata is 'What the coach found.';
comment on column message_emitted.context_frame is 'The context that the agent was given.';
comment on column message_emitted.extra is 'What the record has beyond the fields of the schema.';
comment on column message_emitted.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column message_emitted.payload is 'All that the effect says, also what has no column here.';

create view feedback_recorded as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,agent_id}' as agent_id,
    analytics.json_bigint(e.effect #> '{payload,round_number}') as round_number,
    analytics.json_double(e.effect #> '{payload,engagement}') as engagement,
    analytics.json_double(e.effect #> '{payload,theoretical_alignment}') as theoretical_alignment,
    analytics.json_double(e.effect #> '{payload,contribution_value}') as contribution_value,
    analytics.json_bigint(e.effect #> '{payload,direct_references}') as direct_references,
    analytics.json_bigint(e.effect #> '{payload,response_received}') as response_received,
    e.effect #> '{payload,concepts_embodied}' as concepts_embodied,
    analytics.json_bigint(e.effect #> '{payload,analyst_mentions}') as analyst_mentions,
    analytics.json_double(e.effect #> '{payload,synthesis_inclusion}') as synthesis_inclusion,
    e.effect #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'FeedbackRecorded';
comment on view feedback_recorded is 'FeedbackRecorded: the feedback that an agent got for a round.';
comment on column feedback_recorded.world_id is 'The name of the world.';
comment on column feedback_recorded.experiment is 'The experiment that the world belongs to; null for none.';
comment on column feedback_recorded.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column feedback_recorded.sim_time_s is 'The world''s own time, in seconds.';
comment on column feedback_recorded.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column feedback_recorded.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column feedback_recorded.agent_id is 'The agent: Role+Name.';
comment on column feedback_recorded.round_number is 'The number of the round.';
comment on column feedback_recorded.engagement is 'How much it took part: 0 to 1.';
comment on column feedback_recorded.theoretical_alignment is 'How far it kept to the framework: 0 to 1.';
comment on column feedback_recorded.contribution_value is 'How much it contributed: 0 to 1.';
comment on column feedback_recorded.direct_references is 'How often others referred to it.';
comment on column feedback_recorded.response_received is 'How many answers it got.';
comment on column feedback_recorded.concepts_embodied is 'The concepts that were found in what it said: a list.';
comment on column feedback_recorded.analyst_mentions is 'How often the analyst mentioned it.';
comment on column feedback_recorded.synthesis_inclusion is 'How much of it came into the synthesis: 0 to 1.';
comment on column feedback_recorded.extra is 'What the record has beyond the fields of the schema.';
comment on column feedback_recorded.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column feedback_recorded.payload is 'All that the effect says, also what has no column here.';

create view policy_adapted as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,agent_id}' as agent_id,
    e.effect #>> '{payload,adaptation_type}' as adaptation_type,
    e.effect #>> '{payload,cue}' as cue,
    analytics.json_double(e.effect #> '{payload,intensity}') as intensity,
    e.effect #>> '{payload,reason}' as reason,
    analytics.json_bigint(e.effect #> '{payload,round_number}') as round_number,
    e.effect #> '{payload,feedback_trigger}' as feedback_trigger,
    e.effect #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'PolicyAdapted';
comment on view policy_adapted is 'PolicyAdapted: a cue of an agent was changed because of its feedback.';
comment on column policy_adapted.world_id is 'The name of the world.';
comment on column policy_adapted.experiment is 'The experiment that the world belongs to; null for none.';
comment on column policy_adapted.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column policy_adapted.sim_time_s is 'The world''s own time, in seconds.';
comment on column policy_adapted.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column policy_adapted.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column policy_adapted.agent_id is 'The agent: Role+Name.';
comment on column policy_adapted.adaptation_type is 'activate_cue, deactivate_cue or adjust_intensity.';
comment on column policy_adapted.cue is 'The cue.';
comment on column policy_adapted.intensity is 'Its intensity from here on; null where that is not told.';
comment on column policy_adapted.reason is 'Why, for people.';
comment on column policy_adapted.round_number is 'The number of the round.';
comment on column policy_adapted.feedback_trigger is 'The feedback that led to it.';
comment on column policy_adapted.extra is 'What the record has beyond the fields of the schema.';
comment on column policy_adapted.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column policy_adapted.payload is 'All that the effect says, also what has no column here.';

create view policy_state_recorded as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,framework_option}' as framework_option,
    e.effect #>> '{payload,framework_name}' as framework_name,
    e.effect #> '{payload,policies}' as policies,
    analytics.json_time(e.effect #> '{payload,timestamp}') as taken_at,
    e.effect #>> '{payload,source_run_id}' as source_run_id,
    e.effect #>> '{payload,social_rl_version}' as social_rl_version,
    e.effect #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'PolicyStateRecorded';
comment on view policy_state_recorded is 'PolicyStateRecorded: the policies of all roles at a moment, as PRAR gives them.';
comment on column policy_state_recorded.world_id is 'The name of the world.';
comment on column policy_state_recorded.experiment is 'The experiment that the world belongs to; null for none.';
comment on column policy_state_recorded.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column policy_state_recorded.sim_time_s is 'The world''s own time, in seconds.';
comment on column policy_state_recorded.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column policy_state_recorded.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column policy_state_recorded.framework_option is 'The framework''s code: A to E.';
comment on column policy_state_recorded.framework_name is 'The framework, for people.';
comment on column policy_state_recorded.policies is 'The policy of each role: its cues and their intensities.';
comment on column policy_state_recorded.taken_at is 'When it was taken, as recorded; UTC without an offset.';
comment on column policy_state_recorded.source_run_id is 'The run of PRAR that it comes from.';
comment on column policy_state_recorded.social_rl_version is 'The version of the record''s schema.';
comment on column policy_state_recorded.extra is 'What the record has beyond the fields of the schema.';
comment on column policy_state_recorded.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column policy_state_recorded.payload is 'All that the effect says, also what has no column here.';

create view round_synthesised as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(e.effect #> '{payload,round_number}') as round_number,
    e.effect #>> '{payload,synthesis}' as synthesis,
    e.effect #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RoundSynthesised';
comment on view round_synthesised is 'RoundSynthesised: the synthesis of a round.';
comment on column round_synthesised.world_id is 'The name of the world.';
comment on column round_synthesised.experiment is 'The experiment that the world belongs to; null for none.';
comment on column round_synthesised.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column round_synthesised.sim_time_s is 'The world''s own time, in seconds.';
comment on column round_synthesised.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column round_synthesised.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column round_synthesised.round_number is 'The number of the round.';
comment on column round_synthesised.synthesis is 'The synthesis.';
comment on column round_synthesised.extra is 'What the record has beyond the fields of the schema.';
comment on column round_synthesised.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column round_synthesised.payload is 'All that the effect says, also what has no column here.';

create view round_ended as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    analytics.json_bigint(e.effect #> '{payload,round_number}') as round_number,
    analytics.json_double(e.effect #> '{payload,duration_seconds}') as duration_s,
    e.effect #> '{payload,extra}' as extra,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'RoundEnded';
comment on view round_ended is 'RoundEnded: a round is over.';
comment on column round_ended.world_id is 'The name of the world.';
comment on column round_ended.experiment is 'The experiment that the world belongs to; null for none.';
comment on column round_ended.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column round_ended.sim_time_s is 'The world''s own time, in seconds.';
comment on column round_ended.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column round_ended.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column round_ended.round_number is 'The number of the round.';
comment on column round_ended.duration_s is 'How long it took, in seconds.';
comment on column round_ended.extra is 'What the record has beyond the fields of the schema.';
comment on column round_ended.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column round_ended.payload is 'All that the effect says, also what has no column here.';

create view artifact_recorded as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.sim_time as sim_time_s,
    analytics.json_time(e.effect #> '{wall_time}') as recorded_at,
    e.source_id,
    e.effect #>> '{payload,name}' as name,
    e.effect #> '{payload,content}' as content,
    case when starts_with(e.effect::text, '{"caused_by":')
        then analytics.json_bigint(e.effect #> '{caused_by}')
    end as caused_by,
    e.effect -> 'payload' as payload
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'ArtifactRecorded';
comment on view artifact_recorded is 'ArtifactRecorded: another file of a run''s folder.';
comment on column artifact_recorded.world_id is 'The name of the world.';
comment on column artifact_recorded.experiment is 'The experiment that the world belongs to; null for none.';
comment on column artifact_recorded.global_seq is 'The effect''s place in the world''s log: 1, 2, 3 …';
comment on column artifact_recorded.sim_time_s is 'The world''s own time, in seconds.';
comment on column artifact_recorded.recorded_at is 'When it was accepted: the effect''s wall_time.';
comment on column artifact_recorded.source_id is 'Who caused it; for an agent''s effects its agent_id.';
comment on column artifact_recorded.name is 'The file''s name.';
comment on column artifact_recorded.content is 'What stands in it.';
comment on column artifact_recorded.caused_by is 'The global_seq of the effect that led to it, where told.';
comment on column artifact_recorded.payload is 'All that the effect says, also what has no column here.';
