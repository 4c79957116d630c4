-- Rejected intents by reason
--
-- What agents were not allowed to do: by the error's code and the ruleset's rule, with one of the messages. Forks are left
-- out, unless one is asked for: then with what it inherits.
--
-- :experiment text = null -- Only the worlds of this experiment.
-- :world text = null -- Only this world.
with rejected as (
    select world_id, agent_id, intent_kind, code, rule, reason
    from intents
    where not is_accepted and (:experiment::text is null or experiment = :experiment)
      and (:world::text is null or world_id = :world)
    union all
    select world_id, agent_id, intent_kind, code, rule, reason
    from intents_with_forks
    where not is_accepted and (:experiment::text is null or experiment = :experiment) and world_id = :world
      and exists (select from forks where world_id = :world) /* asked once: of other worlds nothing is read here */
)
select code, rule, intent_kind, count(*) as times, count(distinct (world_id, agent_id)) as agents,
       count(distinct world_id) as worlds, min(reason) as for_example
from rejected
group by code, rule, intent_kind
order by times desc, code, rule, intent_kind
