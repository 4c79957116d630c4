-- Lag between cause and effect
--
-- From an effect to what it led to (caused_by): how many effects lie between, and how much time passed in the world. In a
-- world whose time is the wall clock's that is real time. Forks are left out, unless one is asked for: then with what it
-- inherits, and with causes of before the fork point (inherited_cause); the effects between those are not counted.
--
-- :experiment text = null -- Only the worlds of this experiment.
-- :world text = null -- Only this world.
with lags as (
    select c.kind as cause, l.kind as effect, l.global_seq - c.global_seq - 1 as effects_between,
           l.sim_time_s - c.sim_time_s as lag_s
    from effects l
    join effects c on c.world_id = l.world_id and c.global_seq = l.caused_by
    where starts_with(l.effect::text, '{"caused_by":') /* as the index effects_caused_idx has it: keys stand sorted */
      and (:experiment::text is null or l.experiment = :experiment) and (:world::text is null or l.world_id = :world)
    union all
    select c.kind, l.kind, case when c.generation = l.generation then l.global_seq - c.global_seq - 1 end,
           l.sim_time_s - c.sim_time_s
    from effects_with_forks l
    join effects_with_forks c
      on c.world_id = l.world_id
     and c.global_seq = coalesce(
             analytics.json_bigint(l.source_metadata #> '{inherited_cause,global_seq}'), l.caused_by)
     and case when l.source_metadata #> '{inherited_cause}' is null then c.generation = l.generation
              else c.inherited_from = l.source_metadata #>> '{inherited_cause,world_id}' end
    where starts_with(l.effect::text, '{"caused_by":') and (:experiment::text is null or l.experiment = :experiment)
      and l.world_id = :world and c.world_id = :world
      and exists (select from forks where world_id = :world) /* asked once: of other worlds nothing is read here */
)
select cause, effect, count(*) as times,
       percentile_cont(0.5) within group (order by effects_between) as median_effects_between,
       percentile_cont(0.5) within group (order by lag_s) as median_s,
       percentile_cont(0.9) within group (order by lag_s) as p90_s,
       max(lag_s) as most_s
from lags
group by cause, effect
order by times desc, cause, effect
