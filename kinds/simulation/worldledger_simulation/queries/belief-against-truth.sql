-- Belief against truth, by observability level
--
-- What the agents of a simulation were shown of each other's numbers, against what these were: for every level and noise
-- of the observability matrix how many numbers were visible, and how far the shown ones lay from the truth, as a share
-- of it. A number that is kept within bounds may be shown a little nearer to the truth than it counts here.
--
-- :world text -- The world.
-- :path text = null -- Only this variable.
-- :turn bigint = null -- Only this turn.
with matrix as (
    select distinct on (a.agent_id) a.world_id, a.agent_id as observer, a.policy_config as config
    from agent_registered a
    where a.world_id = :world and a.policy_name = 'matrix'
    order by a.agent_id, a.global_seq desc
), cells as materialized (
    select c.observer, c.target, c.noise_key, c.internal, c.cell ->> 0 as level,
           (c.cell ->> 1)::double precision as noise
    from (
        select m.observer, t.target, (m.config #>> '{noise_key}')::uuid as noise_key,
               coalesce(m.config #> '{internal}', '[]')::jsonb as internal,
               coalesce(m.config #> array['targets', t.target], m.config #> '{default}', '["unaware", 0.0]') as cell
        from matrix m
        cross join (select distinct s.agent as target from state_variables s where s.world_id = :world) t
        where t.target <> m.observer
    ) c
), truth as materialized (
    select s.agent as target, s.variable, s.turn, s.number,
           '/' || replace(regexp_replace(s.path, '\[(\d+)\]', '.\1', 'g'), '.', '/') as pointer
    from state_variables_by_turn s
    where s.world_id = :world and s.number is not null and s.number <> 0
      and (:path::text is null or s.path = :path) and (:turn::bigint is null or s.turn = :turn)
), shown as materialized (
    select c.level, c.noise,
           case when c.level = 'insider' or c.level = 'external' and not c.internal ? t.variable
                then c.noise * abs(noise(c.noise_key, c.observer, t.target, t.pointer, t.turn)) end as error
    from cells c
    join truth t using (target)
)
select level, noise, count(*) as "values", count(error) as visible, avg(error) as mean_error,
       percentile_cont(0.9) within group (order by error) as p90_error
from shown
group by level, noise
order by level, noise
