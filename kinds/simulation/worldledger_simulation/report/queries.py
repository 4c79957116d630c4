"""About simulations."""

from __future__ import annotations

from typing import Final

from worldledger_service.report.queries import within

#: The worlds with the most turns, $2 of them. From analytics.turns.
WORLDS: Final = """
select world_id, max(turn) as turns, count(ended_seq) as ended, sum(changes)::bigint as changes,
       count(*) over () as worlds
from analytics.turns
where experiment = $1
group by world_id
order by turns desc, world_id
limit $2
"""

#: Global variables that are numbers, those first that change most often; $2 of them. From analytics.state_variables.
VARIABLES: Final = """
select path, count(*) as changes, count(distinct world_id) as worlds, max(turn) as last_turn,
       min(number) as least, avg(number::numeric)::double precision as mean, max(number) as most,
       count(*) over () as variables
from analytics.state_variables
where experiment = $1 and agent = 'global' and number is not null
group by path
order by changes desc, path
limit $2
"""

#: How the variables $2 moved in the worlds $3: the last value in each $4 turns. From analytics.state_variables.
COURSES: Final = """
select distinct on (path, world_id, turn / $4) path, world_id, turn, number
from analytics.state_variables
where experiment = $1 and agent = 'global' and path = any($2) and world_id = any($3) and number is not null
order by path, world_id, turn / $4, turn desc
"""

#: The variables $2 in all worlds, every $3 turns. From analytics.state_variables_by_turn.
RANGES: Final = """
select path, turn, count(*) as worlds, min(number) as least, avg(number::numeric)::double precision as mean,
       max(number) as most
from analytics.state_variables_by_turn
where experiment = $1 and agent = 'global' and path = any($2) and turn % $3 = 0 and number is not null
group by path, turn
order by path, turn
"""

#: How often agents told their reasons, by model. From analytics.reasoning.
REASONING: Final = f"""
select model, count(*) as reasonings, count(distinct agent_id) as agents,
       {within("sum(token_count)", "bigint")} as tokens
from analytics.reasoning
where experiment = $1
group by model
order by reasonings desc, model
"""
