-- Belief against truth, by observability level
--
-- What the agents of a simulation were shown of each other's numbers, against what these were: for every level and
-- noise of the observability matrix how many numbers were visible, and how far the shown ones lay from the truth, as a
-- share of it. A number that is kept within bounds may be shown a little nearer to the truth than it counts here, and
-- with the noise_scope value the errors are those of other draws of the same spread. Of a fork it tells the whole
-- history: what was shown in the parent with the parent's noise.
--
-- :world text -- The world.
-- :path text = null -- Only this variable.
-- :turn bigint = null -- Only this turn.
with registered as materialized (
    select e.generation, e.global_seq, e.payload ->> 'agent_id' as observer, e.payload #>> '{policy,name}' as policy,
           e.payload #> '{policy,config}' as config
    from effects_with_forks e
    where e.world_id = :world and e.kind = 'AgentRegistered'
), turned as materialized ( /* the turns of the history, each where it began */
    select t.turn, t.started_seq, l.generation
    from lineage l
    join turns_with_forks t on t.world_id = l.ancestor and not t.is_inherited
         and t.started_seq <= coalesce(l.until_seq, t.started_seq)
    where l.world_id = :world
), policies as ( /* a registration holds from the turn that ends after it to the one before the next registration's */
    select p.*, lead(p.from_turn, 1, 9223372036854775807)
                    over (partition by p.observer order by p.generation desc, p.global_seq) - 1 as until_turn
    from (
        select r.*, coalesce((select max(t.turn) from turned t
                              where t.generation > r.generation
                                 or t.generation = r.generation and t.started_seq < r.global_seq), 0) as from_turn
        from registered r
    ) p
), truth as materialized (
    select s.agent as target, s.variable, s.turn, s.number,
           '/' || replace(regexp_replace(s.path, '\[(\d+)\]', '.\1', 'g'), '.', '/') as pointer
    from state_variables_by_turn_with_forks s
    where s.world_id = :world and s.number is not null and s.number <> 0
      and (:path::text is null or s.path = :path) and (:turn::bigint is null or s.turn = :turn)
), cells as materialized (
    select c.*, c.cell ->> 0 as level, (c.cell ->> 1)::double precision as noise
    from (
        select p.observer, p.from_turn, p.until_turn, t.target, (p.config #>> '{noise_key}')::uuid as noise_key,
               coalesce(p.config #> '{internal}', '[]')::jsonb as internal,
               coalesce(p.config #> array['targets', t.target], p.config #> '{default}', '["unaware", 0.0]') as cell
        from policies p
        cross join (select distinct target from truth) t
        where p.policy = 'matrix' and t.target <> p.observer
    ) c
), shown as materialized (
    select c.level, c.noise,
           case when c.level = 'insider' or c.level = 'external' and not c.internal ? t.variable
                then c.noise * abs(noise(c.noise_key, c.observer, t.target, t.pointer, t.turn)) end as error
    from cells c
    join truth t on t.target = c.target and t.turn between c.from_turn and c.until_turn
)
select level, noise, count(*) as "values", count(error) as visible, avg(error) as mean_error,
       percentile_cont(0.9) within group (order by error) as p90_error
from shown
group by level, noise
order by level, noise
