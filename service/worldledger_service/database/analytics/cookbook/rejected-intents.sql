-- Rejected intents by reason
--
-- What agents were not allowed to do: by the error's code and the ruleset's rule, with one of the messages.
--
-- :experiment text = null -- Only the worlds of this experiment.
-- :world text = null -- Only this world.
select code, rule, intent_kind, count(*) as times, count(distinct (world_id, agent_id)) as agents,
       count(distinct world_id) as worlds, min(reason) as for_example
from intents
where not is_accepted and (:experiment::text is null or experiment = :experiment)
  and (:world::text is null or world_id = :world)
group by code, rule, intent_kind
order by times desc, code, rule, intent_kind
