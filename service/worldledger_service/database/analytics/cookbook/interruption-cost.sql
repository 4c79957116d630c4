-- What interruptions cost
--
-- Each generation of a model that was cut off, or came too late: by what it was overtaken, and the tokens, money and
-- time that had gone into it by then.
--
-- :world text = null -- Only this world.
-- :experiment text = null -- Only the worlds of this experiment.
select g.world_id, g.global_seq, g.agent_id, g.model, g.outcome, g.interrupted_by_seq,
       e.source_id as interrupted_by, e.kind as interrupted_by_kind,
       g.tokens_in, g.tokens_out, g.price, g.currency, g.took_ms
from generations g
left join effects e on e.world_id = g.world_id and e.global_seq = g.interrupted_by_seq
where g.outcome in ('interrupted', 'stale')
  and (:world::text is null or g.world_id = :world)
  and (:experiment::text is null or g.experiment = :experiment)
order by g.world_id, g.global_seq
