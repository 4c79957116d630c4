-- Activity over time
--
-- How many effects were written in each hour, by the server's clock, in how many worlds, by how many sources. An import
-- counts when it was made.
--
-- :since timestamptz = null -- From this moment on.
-- :experiment text = null -- Only the worlds of this experiment.
with parts as (
    select date_trunc('hour', stored_at) as hour_at, world_id, source_id, count(*) as effects
    from effects
    where (:since::timestamptz is null or stored_at >= :since) and (:experiment::text is null or experiment = :experiment)
    group by 1, 2, 3
)
select hour_at, sum(effects)::bigint as effects, count(distinct world_id) as worlds, count(distinct source_id) as sources
from parts
group by hour_at
order by hour_at
