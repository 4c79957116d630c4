-- How long rounds took
--
-- The spread of the rounds' durations by condition and model, in seconds.
--
-- :experiment text = null -- Only the runs of this experiment.
select coalesce(s.condition, 'no condition told') as condition,
       s.model, count(*) as rounds, min(r.duration_s) as least_s,
       percentile_cont(0.5) within group (order by r.duration_s) as median_s,
       percentile_cont(0.9) within group (order by r.duration_s) as p90_s, max(r.duration_s) as most_s
from rounds r
join social_runs s using (world_id)
where r.duration_s is not null and (:experiment::text is null or r.experiment = :experiment)
group by s.condition, s.model
order by s.condition, s.model
