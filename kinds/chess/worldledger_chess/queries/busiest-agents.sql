-- Who did most
--
-- Agents by how many effects they have caused, over all worlds.
--
-- :experiment text = null -- Only the worlds of this experiment.
-- :most bigint = 50 -- At most so many agents.
select agent_id, count(*) as worlds, sum(effects)::bigint as effects, min(first_seen_at) as first_seen_at,
       max(last_seen_at) as last_seen_at
from agents
where :experiment::text is null or experiment = :experiment
group by agent_id
order by effects desc, agent_id
limit :most::bigint
