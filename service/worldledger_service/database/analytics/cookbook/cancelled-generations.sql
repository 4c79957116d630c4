-- Generations that were cancelled
--
-- How often agents were told to stop thinking because their view had grown old, and how fast they were told, in
-- milliseconds.
--
-- :experiment text = null -- Only the worlds of this experiment.
select experiment, regexp_replace(reason, '\d+$', 'N') as reason, count(*) as times,
       count(distinct (world_id, agent_id)) as agents,
       percentile_cont(0.5) within group (order by latency_ms) as median_ms,
       percentile_cont(0.95) within group (order by latency_ms) as p95_ms
from generation_cancelled
where :experiment::text is null or experiment = :experiment
group by experiment, 2
order by times desc, experiment, reason
