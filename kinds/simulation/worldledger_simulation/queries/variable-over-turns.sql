-- A variable over the turns
--
-- How a variable went, turn by turn, over all worlds of an experiment and all agents that have it. Mean and
-- median are those of the numbers within ±1e150.
--
-- :path text -- The variable's place: gold, inventory.food. See state_variables.
-- :experiment text = null -- Only the worlds of this experiment.
-- :agent text = null -- Only this agent; global for a global variable.
select turn, count(distinct world_id) as worlds, count(*) as "values", min(number) as least,
       avg(number) filter (where abs(number) <= 1e150) as mean,
       percentile_cont(0.5) within group (order by number) filter (where abs(number) <= 1e150) as median,
       max(number) as most
from state_variables_by_turn
where path = :path and number is not null and (:agent::text is null or agent = :agent)
  and (:experiment::text is null or experiment = :experiment)
group by turn
order by turn
