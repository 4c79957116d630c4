-- Engagement by round and condition
--
-- The mean feedback of all agents in each round, over all runs of a condition: does a condition make a difference, and
-- from which round on?
--
-- :experiment text = null -- Only the runs of this experiment.
select coalesce(r.condition, 'no condition told') as condition,
       f.round_number, count(distinct f.world_id) as runs, count(*) as feedbacks,
       avg(f.engagement) as engagement, avg(f.theoretical_alignment) as alignment,
       avg(f.contribution_value) as contribution
from feedback f
join social_runs r using (world_id)
where :experiment::text is null or f.experiment = :experiment
group by r.condition, f.round_number
order by r.condition, f.round_number
