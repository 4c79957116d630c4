"""Reading what projections have made of games and their agents (see `worldledger_service.store.reader`)."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

from worldledger_service.report.wording import counted
from worldledger_service.store.outcomes import Outcomes
from worldledger_service.store.reader import Row, fetch_views

from worldledger.near import near
from worldledger_chess.rules.endings import MARKERS

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader, Row


# -- statements --------------------------------------------------------------------------------------------

GAME: Final = "select * from projections.games where world_id = $1"

#: Moves of a game by number, of a fork with those of its ancestors: $1 world_id, $2 after ply, $3 limit.
MOVES: Final = """
select m.* from (
    select $1::text as world_id, null::bigint as until_seq
    union all
    select a.ancestor, a.until_seq from analytics.ancestry($1) a) l
join projections.moves m on m.world_id = l.world_id and (l.until_seq is null or m.global_seq <= l.until_seq)
where m.ply > $2 order by m.ply limit $3
"""

#: Agents by name, each with what it did in all worlds together: $1 after agent_id, $2 limit.
AGENTS: Final = "select * from projections.agent_directory where agent_id > $1 order by agent_id limit $2"

#: AgentStats, over all games.
AGENT_STATS: Final = """
select agent_id, games_played, games_won, games_lost, games_drawn, total_moves, average_thinking_time,
       illegal_moves_attempted, timeouts
from projections.agent_totals where agent_id = $1
"""

#: The same over the games of an experiment: $1 agent_id, $2 experiment. As the view agent_totals has it.
AGENT_STATS_OF_EXPERIMENT: Final = """
select agent_id, sum(games_played)::bigint as games_played, sum(games_won)::bigint as games_won,
       sum(games_lost)::bigint as games_lost, sum(games_drawn)::bigint as games_drawn,
       sum(total_moves)::bigint as total_moves,
       coalesce((sum(total_thinking_time::numeric) / nullif(sum(timed_moves), 0))::double precision, 0)
           as average_thinking_time,
       sum(illegal_moves_attempted)::bigint as illegal_moves_attempted, sum(timeouts)::bigint as timeouts
from projections.agent_stats join worlds using (world_id)
where agent_id = $1 and experiment = $2 and not is_fork
group by agent_id
"""

_GUESSED: Final = 1000
AGENT_KNOWN: Final = "select 1 from projections.agents where agent_id = $1 limit 1"


def _games(*, experiment: bool, status: bool, agent: bool) -> str:
    """Return the statement for a page of games by name, with only the conditions that are asked for.

    One statement with optional conditions would leave the choice of the index to chance. An agent's games are found
    by two indexes, of white's and of black's. $1 after world_id, $2 limit, then experiment, status and agent_id.
    """
    wanted = ["world_id > $1"]
    for name, asked in (("experiment", experiment), ("status", status)):
        if asked:
            wanted.append(f"{name} = ${2 + len(wanted)}")
    page = "order by world_id limit $2"
    if not agent:
        return f"select * from projections.games where {' and '.join(wanted)} {page}"
    sides = [
        f"(select world_id from projections.games where {' and '.join(wanted)} and {colour}_agent_id = "
        f"${2 + len(wanted)} {page})"
        for colour in ("white", "black")
    ]
    return f"select g.* from ({' union '.join(sides)}) of_agent join projections.games g using (world_id) {page}"


#: By whether experiment, status and agent are asked for.
GAMES: Final = {
    asked: _games(experiment=asked[0], status=asked[1], agent=asked[2]) for asked in product((False, True), repeat=3)
}


# -- reading -----------------------------------------------------------------------------------------------

#: How games stand, and if their moves are commented: $1 their names.
STANDINGS: Final = """
select world_id, coalesce(white, white_agent_id) as white, coalesce(black, black_agent_id) as black,
       status, result, reason, turn, plies, coalesce(comments, 0) as comments
from projections.games left join (
    select world_id, count(nullif(comment, '')) as comments
    from projections.moves where world_id = any($1::text[]) group by world_id
) commented using (world_id)
where world_id = any($1::text[]) and status is not null
"""


class ReadModels:
    """Reads the views. Every method raises ViewMissingError or StoreUnavailableError."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def games(
        self,
        *,
        experiment: str | None = None,
        status: str | None = None,
        agent_id: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[Row]:
        """Return a page of games by name, those after ``after``: of an experiment, of a status, of an agent."""
        filters = (experiment, status, agent_id)
        statement = GAMES[tuple(value is not None for value in filters)]
        return await self._fetch(statement, after, limit, *(value for value in filters if value is not None))

    async def game(self, world_id: str) -> Row | None:
        """Return a game; None where the projection knows none of that name."""
        rows = await self._fetch(GAME, world_id)
        return rows[0] if rows else None

    async def moves(self, world_id: str, *, after: int = 0, limit: int = 100) -> list[Row]:
        """Return a page of a game's moves, in order; those of before a fork have the name of the ancestor's world."""
        return await self._fetch(MOVES, world_id, after, limit)

    async def agents(self, *, after: str = "", limit: int = 100) -> list[Row]:
        """Return a page of agents by name, each with what it did in all worlds together."""
        return await self._fetch(AGENTS, after, limit)

    async def near_agents(self, agent_id: str) -> list[str]:
        """Return the agents, of the first 1,000 by name, that may have been meant by one that is not there."""
        if await self._fetch(AGENT_KNOWN, agent_id):
            return []
        return near(agent_id, [row["agent_id"] for row in await self.agents(limit=_GUESSED)])

    async def agent_stats(self, agent_id: str, *, experiment: str | None = None) -> Row | None:
        """Return an agent's AgentStats over all games, or those of an experiment; None where no projection knows it.

        An agent that played no game has zeros. Source: docs/reference/contracts.md, "Chess".
        """
        asked = (AGENT_STATS, agent_id) if experiment is None else (AGENT_STATS_OF_EXPERIMENT, agent_id, experiment)
        for row in await self._fetch(*asked):
            return row
        if not await self._fetch(AGENT_KNOWN, agent_id):
            return None
        return {
            "agent_id": agent_id,
            "games_played": 0,
            "games_won": 0,
            "games_lost": 0,
            "games_drawn": 0,
            "total_moves": 0,
            "average_thinking_time": 0.0,
            "illegal_moves_attempted": 0,
            "timeouts": 0,
        }

    async def _fetch(self, statement: str, *arguments: Any) -> list[Row]:
        return await fetch_views(self._reader, statement, *arguments)


# -- how games stand, in a line each -----------------------------------------------------------------------


def standing(game: Row) -> str:
    """Return how a game stands, such as ``1-0, checkmate: Ann - Bob, 3 comments``; lists cut at the end."""
    players = f"{game['white'] or '?'} - {game['black'] or '?'}"
    if game["comments"]:
        players += f", {counted(game['comments'], 'comment')}"
    if game["result"] is None:
        return f"*, {game['turn']} to move after {counted(game['plies'], 'half-move')}: {players}"
    how = game["reason"] if game["reason"] not in {None, "unknown"} else game["status"]
    return f"{MARKERS[game['result']]}, {how.replace('_', ' ')}: {players}"


OUTCOMES: Final = Outcomes(STANDINGS, standing)
