"""About games of chess."""

from __future__ import annotations

from typing import Final

#: How the games ended. From analytics.games.
ENDINGS: Final = """
select status, result, reason, count(*) as games
from analytics.games
where experiment = $1
group by status, result, reason
order by games desc, status collate "C", result collate "C", reason collate "C"
"""

#: Games by name, $2 of them. From analytics.games.
GAMES: Final = """
select world_id, white, black, result, status, plies, illegal_moves_attempted, date
from analytics.games
where experiment = $1
order by world_id
limit $2
"""

#: The players with the most games, $2 of them. From analytics.agent_stats.
PLAYERS: Final = """
select agent_id, sum(games_played)::bigint as games, sum(games_won)::bigint as won,
       sum(games_drawn)::bigint as drawn, sum(games_lost)::bigint as lost, sum(timeouts)::bigint as timeouts,
       sum(total_moves)::bigint as moves, sum(illegal_moves_attempted)::bigint as illegal,
       count(*) over () as players
from analytics.agent_stats
where experiment = $1
group by agent_id
order by games desc, agent_id
limit $2
"""

#: The players with the most illegal attempts, $2 of them. From analytics.agent_stats.
ILLEGAL: Final = """
select agent_id, sum(illegal_moves_attempted)::bigint as illegal, sum(total_moves)::bigint as moves,
       sum(games_played)::bigint as games, count(*) over () as players
from analytics.agent_stats
where experiment = $1
group by agent_id
having sum(illegal_moves_attempted) > 0
order by illegal desc, agent_id
limit $2
"""

#: How long players think over a move, those first with the most moves whose time is known; $2. From analytics.moves.
THINKING: Final = """
select agent_id, count(*) as moves,
       percentile_disc(0.1) within group (order by thinking_time_s) as low,
       percentile_disc(0.5) within group (order by thinking_time_s) as middle,
       percentile_disc(0.9) within group (order by thinking_time_s) as high,
       percentile_disc(0.99) within group (order by thinking_time_s) as far,
       max(thinking_time_s) as most, count(*) over () as players
from analytics.moves
where experiment = $1 and thinking_time_s is not null
group by agent_id
order by moves desc, agent_id
limit $2
"""

#: The lengths of the games that are over. From analytics.games.
LENGTHS: Final = """
select count(*) as games, min(plies) as least, percentile_disc(0.5) within group (order by plies) as middle,
       max(plies) as most
from analytics.games
where experiment = $1 and result is not null
"""

#: How many games that are over have how many half-moves, in steps of $2. From analytics.games.
LENGTHS_BY_STEP: Final = """
select plies / $2 as step, count(*) as games
from analytics.games
where experiment = $1 and result is not null
group by 1
order by 1
"""

#: How games went by their first two half-moves, the most frequent $3; only games from the position $2 of the variant
#: standard. From analytics.games and analytics.moves.
OPENINGS: Final = """
select moves, count(*) as games, count(*) filter (where result = 'white_wins') as white,
       count(*) filter (where result = 'draw') as drawn, count(*) filter (where result = 'black_wins') as black,
       count(*) over () as openings
from (
    select g.world_id, g.result, string_agg(m.san_notation, ' ' order by m.ply) as moves
    from analytics.games g
    join analytics.moves m on m.world_id = g.world_id and m.ply <= 2
    where g.experiment = $1 and g.result is not null and g.variant = 'standard' and g.initial_fen = $2
    group by g.world_id, g.result
    having count(*) = 2) o
group by moves
order by games desc, moves collate "C"
limit $3
"""
