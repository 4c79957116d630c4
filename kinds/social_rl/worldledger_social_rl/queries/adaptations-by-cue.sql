-- How policies were adapted
--
-- Which cues were activated, deactivated or adjusted, in which condition, how often, for how many agents, and how strong
-- they were made.
--
-- :experiment text = null -- Only the runs of this experiment.
select coalesce(r.condition, 'no condition told') as condition,
       p.cue, p.adaptation_type, count(*) as times, count(distinct (p.world_id, p.agent_id)) as agents,
       avg(p.intensity) as intensity, min(p.round_number) as first_round, max(p.round_number) as last_round
from policy_adaptations p
join social_runs r using (world_id)
where :experiment::text is null or p.experiment = :experiment
group by r.condition, p.cue, p.adaptation_type
order by r.condition, times desc, p.cue, p.adaptation_type
