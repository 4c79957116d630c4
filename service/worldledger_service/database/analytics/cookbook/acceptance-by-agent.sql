-- How many intents were accepted
--
-- Of each agent's intents how many became effects and how many were refused, in one world.
--
-- :world text -- The world.
select agent_id, count(*) as intents, count(*) filter (where is_accepted) as accepted,
       count(*) filter (where not is_accepted) as rejected,
       count(*) filter (where is_accepted)::double precision / count(*) as share_accepted,
       max(global_seq - context_seq) filter (where is_accepted and context_seq > 0) as oldest_context
from intents_with_forks
where world_id = :world
group by agent_id
order by intents desc, agent_id
