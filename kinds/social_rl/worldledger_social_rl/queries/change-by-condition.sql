-- What a condition changed over a run
--
-- For each condition the mean of the agents' first feedback and of their last, and how much it rose, with its spread
-- over agents. One row compares conditions at a glance.
--
-- :experiment text = null -- Only the runs of this experiment.
with ordered as (
    select f.world_id, f.agent_id, f.engagement, f.theoretical_alignment,
           row_number() over agents as place, count(*) over (partition by f.world_id, f.agent_id) as places
    from feedback f
    where :experiment::text is null or f.experiment = :experiment
    window agents as (partition by f.world_id, f.agent_id order by f.global_seq)
), changes as (
    select l.world_id, l.agent_id, b.engagement as engagement_first, l.engagement as engagement_last,
           b.theoretical_alignment as alignment_first, l.theoretical_alignment as alignment_last
    from ordered l join ordered b using (world_id, agent_id)
    where b.place = 1 and l.place = l.places and l.places > 1
)
select coalesce(r.condition, 'no condition told') as condition, count(distinct c.world_id) as runs, count(*) as agents,
       avg(engagement_first) as engagement_first, avg(engagement_last) as engagement_last,
       avg(engagement_last - engagement_first) as engagement_rise,
       stddev_samp(engagement_last - engagement_first) as engagement_rise_sd,
       avg(alignment_last - alignment_first) as alignment_rise,
       stddev_samp(alignment_last - alignment_first) as alignment_rise_sd
from changes c join social_runs r using (world_id)
group by r.condition
order by r.condition
