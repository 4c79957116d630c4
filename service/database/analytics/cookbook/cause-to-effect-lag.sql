-- Lag between cause and effect
--
-- From an effect to what it led to (caused_by): how many effects lie between, and how much time passed in the world. In a
-- world whose time is the wall clock's that is real time.
--
-- :experiment text = null -- Only the worlds of this experiment.
-- :world text = null -- Only this world.
with links as materialized (
    select e.world_id, e.global_seq, e.caused_by, e.kind, e.sim_time_s
    from effects e
    where e.caused_by is not null and (:experiment::text is null or e.experiment = :experiment)
      and (:world::text is null or e.world_id = :world)
)
select c.kind as cause, l.kind as effect, count(*) as times,
       percentile_cont(0.5) within group (order by l.global_seq - l.caused_by) as median_effects_between,
       percentile_cont(0.5) within group (order by l.sim_time_s - c.sim_time_s) as median_s,
       percentile_cont(0.9) within group (order by l.sim_time_s - c.sim_time_s) as p90_s,
       max(l.sim_time_s - c.sim_time_s) as most_s
from links l
cross join lateral (
    select c.kind, c.sim_time_s from effects c where c.world_id = l.world_id and c.global_seq = l.caused_by limit 1
) c
group by c.kind, l.kind
order by times desc, cause, effect
