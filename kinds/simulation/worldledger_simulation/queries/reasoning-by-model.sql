-- What reasoning costs
--
-- How often agents of simulations said their reasons, how long, and how many tokens that took, by model.
--
-- :experiment text = null -- Only the worlds of this experiment.
select coalesce(model, '(not told)') as model, count(*) as reasonings, count(distinct (world_id, agent_id)) as agents,
       sum(token_count)::bigint as tokens, avg(token_count)::double precision as tokens_per_reasoning,
       avg(length(reasoning))::double precision as characters_per_reasoning
from reasoning
where :experiment::text is null or experiment = :experiment
group by model
order by reasonings desc, model
