-- How much was said
--
-- Messages of each round, and how long they are, over all runs of a condition. Those for coaches only are counted apart, as
-- internal_messages; social_runs.messages counts both.
--
-- :experiment text = null -- Only the runs of this experiment.
select coalesce(r.condition, 'no condition told') as condition,
       m.round_number, count(*) filter (where not m.is_internal) as messages,
       count(*) filter (where m.is_internal) as internal_messages, count(distinct m.agent_id) as agents,
       avg(length(m.content)::double precision) filter (where not m.is_internal) as characters_per_message,
       count(m.prar_cue_used) as messages_with_a_cue
from messages m
join social_runs r using (world_id)
where :experiment::text is null or m.experiment = :experiment
group by r.condition, m.round_number
order by r.condition, m.round_number
