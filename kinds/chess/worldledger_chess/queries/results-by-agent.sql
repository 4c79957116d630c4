-- Results by agent
--
-- Games won, drawn and lost, illegal attempts and time for a move, of each agent over all its games; forks of games are left out.
--
-- :experiment text = null -- Only the games of this experiment.
select agent_id, sum(games_played)::bigint as games, sum(games_won)::bigint as won, sum(games_drawn)::bigint as drawn,
       sum(games_lost)::bigint as lost,
       (sum(games_won) + 0.5 * sum(games_drawn))::double precision / nullif(sum(games_played), 0) as score,
       sum(total_moves)::bigint as moves, sum(illegal_moves_attempted)::bigint as illegal_attempts,
       sum(timeouts)::bigint as timeouts, sum(total_thinking_time_s) / nullif(sum(timed_moves), 0) as seconds_per_move
from agent_stats
where :experiment::text is null or experiment = :experiment
group by agent_id
order by score desc nulls last, games desc, agent_id
