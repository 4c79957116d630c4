-- Illegal attempts by model
--
-- How often the players of each language model tried a move that is not legal: the model of a live game's configuration,
-- or the player's name where there is none. Forks of games are left out.
--
-- :experiment text = null -- Only the games of this experiment.
with players as (
    select g.world_id, p.agent_id, coalesce(nullif(p.model, ''), p.name, p.agent_id) as model
    from games g
    join worlds w using (world_id)
    cross join lateral (values
        (g.white_agent_id, g.white, w.config #>> '{live,white,model_name}'),
        (g.black_agent_id, g.black, w.config #>> '{live,black,model_name}')
    ) p (agent_id, name, model)
    where :experiment::text is null or g.experiment = :experiment
)
select p.model, count(distinct s.agent_id) as agents, count(distinct s.world_id) as games,
       sum(s.total_moves)::bigint as moves, sum(s.illegal_moves_attempted)::bigint as illegal_attempts,
       100 * sum(s.illegal_moves_attempted)::double precision
           / nullif(sum(s.total_moves + s.illegal_moves_attempted), 0) as percent_illegal
from (select distinct world_id, agent_id, model from players) p
join agent_stats s using (world_id, agent_id)
group by p.model
order by percent_illegal desc nulls last, p.model
