-- Who was heard
--
-- How often others referred to an agent and answered it, and how much of it came into the syntheses, beside how much it
-- said itself.
--
-- :experiment text = null -- Only the runs of this experiment.
-- :most bigint = 50 -- At most so many agents.
with said as (
    select m.world_id, m.agent_id, count(*) as messages
    from messages m
    where not m.is_internal and (:experiment::text is null or m.experiment = :experiment)
    group by m.world_id, m.agent_id
), heard as (
    select f.world_id, f.agent_id, sum(f.direct_references)::bigint as direct_references,
           sum(f.response_received)::bigint as responses, avg(f.synthesis_inclusion) as synthesis_inclusion
    from feedback f
    where :experiment::text is null or f.experiment = :experiment
    group by f.world_id, f.agent_id
)
select world_id, agent_id, coalesce(s.messages, 0) as messages, h.direct_references, h.responses,
       h.synthesis_inclusion, h.direct_references::double precision / nullif(s.messages, 0) as references_per_message
from heard h left join said s using (world_id, agent_id)
order by h.direct_references desc nulls last, world_id, agent_id
limit :most::bigint
