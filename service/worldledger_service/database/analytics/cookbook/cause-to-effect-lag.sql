-- Lag between cause and effect
--
-- From an effect to what it led to (caused_by): how many effects lie between, and how much time passed in the world. In a
-- world whose time is the wall clock's that is real time.
--
-- :experiment text = null -- Only the worlds of this experiment.
-- :world text = null -- Only this world.
select c.kind as cause, l.kind as effect, count(*) as times,
       percentile_cont(0.5) within group (order by l.global_seq - c.global_seq - 1) as median_effects_between,
       percentile_cont(0.5) within group (order by l.sim_time_s - c.sim_time_s) as median_s,
       percentile_cont(0.9) within group (order by l.sim_time_s - c.sim_time_s) as p90_s,
       max(l.sim_time_s - c.sim_time_s) as most_s
from effects l
join effects c on c.world_id = l.world_id and c.global_seq = l.caused_by
where starts_with(l.effect::text, '{"caused_by":') /* as the index effects_caused_idx has it: keys stand sorted */
  and (:experiment::text is null or l.experiment = :experiment) and (:world::text is null or l.world_id = :world)
group by c.kind, l.kind
order by times desc, cause, effect
