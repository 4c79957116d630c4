-- Who beats whom
--
-- The results of each pair of agents, from the first one's side.
--
-- :experiment text = null -- Only the games of this experiment.
with sides as (
    select white_agent_id as agent_id, black_agent_id as opponent_id,
           (result = 'white_wins')::int as won, (result = 'draw')::int as drawn
    from games
    where result is not null and (:experiment::text is null or experiment = :experiment)
    union all
    select black_agent_id, white_agent_id, (result = 'black_wins')::int, (result = 'draw')::int
    from games
    where result is not null and (:experiment::text is null or experiment = :experiment)
)
select agent_id, opponent_id, count(*) as games, sum(won)::bigint as won, sum(drawn)::bigint as drawn,
       (count(*) - sum(won) - sum(drawn))::bigint as lost
from sides
group by agent_id, opponent_id
order by agent_id, opponent_id
