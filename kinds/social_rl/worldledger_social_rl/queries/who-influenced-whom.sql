-- Who influenced whom
--
-- Between any two agents, as far as the log tells: whose effects led to effects of the other (caused), who interacted
-- with whom (interacted), and who spoke right after whom in a round of a social-RL run (answered); with the time between,
-- in the world's own time, where there is one. Where a payload names an agent, that is who is meant. Forks are
-- left out, unless one is asked for: then with what it inherits.
--
-- :experiment text = null -- Only the worlds of this experiment.
-- :world text = null -- Only this world.
with told as materialized ( /* so that each effect is read as JSON once */
    select e.world_id, e.caused_by, coalesce(e.payload ->> 'agent_id', e.source_id) as influenced, e.sim_time_s
    from effects e
    where starts_with(e.effect::text, '{"caused_by":') /* as the index effects_caused_idx has it: keys stand sorted */
      and (:experiment::text is null or e.experiment = :experiment) and (:world::text is null or e.world_id = :world)
), fork as materialized ( /* asked once: where it is empty, nothing is read of the views with forks */
    select f.world_id
    from forks f
    where f.world_id = :world and (:experiment::text is null or f.experiment = :experiment)
), told_in_fork as materialized (
    select e.generation, coalesce(e.payload ->> 'agent_id', e.source_id) as influenced, e.sim_time_s,
           e.source_metadata #>> '{inherited_cause,world_id}' as cause_in, /* null: in the effect's own log */
           coalesce(analytics.json_bigint(e.source_metadata #> '{inherited_cause,global_seq}'), e.caused_by) as cause
    from effects_with_forks e
    where starts_with(e.effect::text, '{"caused_by":') and e.world_id = :world and exists (table fork)
), caused as (
    select coalesce(c.payload ->> 'agent_id', c.source_id) as influencer, e.influenced, 'caused' as how,
           e.sim_time_s - c.sim_time_s as lag_s
    from told e
    join effects c on c.world_id = e.world_id and c.global_seq = e.caused_by
    union all
    select coalesce(c.payload ->> 'agent_id', c.source_id), e.influenced, 'caused', e.sim_time_s - c.sim_time_s
    from told_in_fork e
    join effects_with_forks c
      on c.global_seq = e.cause
     and case when e.cause_in is null then c.generation = e.generation else c.inherited_from = e.cause_in end
    where c.world_id = :world and exists (table fork)
), interacted as (
    select i.source_id as influencer, i.target_id as influenced, 'interacted' as how, null::double precision as lag_s
    from interact i
    where (:experiment::text is null or i.experiment = :experiment) and (:world::text is null or i.world_id = :world)
    union all
    select e.source_id, e.payload ->> 'target_id', 'interacted', null
    from effects_with_forks e
    where e.kind = 'Interact' and e.world_id = :world and exists (table fork)
), answered as (
    select lag(m.agent_id) over talk as influencer, m.agent_id as influenced, 'answered' as how,
           extract(epoch from m.emitted_at - lag(m.emitted_at) over talk)::double precision as lag_s
    from messages m
    where not m.is_internal and (:experiment::text is null or m.experiment = :experiment)
      and (:world::text is null or m.world_id = :world)
    window talk as (partition by m.world_id, m.round_number order by m.global_seq)
    union all
    select lag(m.agent_id) over talk, m.agent_id, 'answered',
           extract(epoch from m.emitted_at - lag(m.emitted_at) over talk)::double precision
    from messages_with_forks m
    where not m.is_internal and m.world_id = :world and exists (table fork)
    window talk as (partition by m.round_number order by m.generation desc, m.global_seq)
)
select influencer, influenced, how, count(*) as times,
       percentile_cont(0.5) within group (order by lag_s) as median_lag_s
from (table caused union all table interacted union all table answered) pairs
where influencer <> influenced
group by influencer, influenced, how
order by times desc, influencer, influenced, how
