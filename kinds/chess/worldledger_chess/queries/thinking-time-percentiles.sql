-- Thinking time percentiles
--
-- How long agents think about a move, in seconds; over the moves whose time is known.
--
-- :experiment text = null -- Only the games of this experiment.
select m.agent_id, count(*) as moves, avg(m.thinking_time_s) as mean_s,
       percentile_cont(0.5) within group (order by m.thinking_time_s) as median_s,
       percentile_cont(0.9) within group (order by m.thinking_time_s) as p90_s,
       percentile_cont(0.99) within group (order by m.thinking_time_s) as p99_s, max(m.thinking_time_s) as most_s
from moves m
where m.thinking_time_s is not null and (:experiment::text is null or m.experiment = :experiment)
group by m.agent_id
order by median_s desc, m.agent_id
