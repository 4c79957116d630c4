"""How games of chess stand, in a line each: the result, how it came about, the players, and if moves are commented."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from worldledger_service.report.wording import counted
from worldledger_service.store.outcomes import Outcomes

from worldledger_chess.rules.endings import MARKERS

if TYPE_CHECKING:
    from worldledger_service.store.reader import Row

#: The games of some names: $1.
GAMES: Final = """
select world_id, coalesce(white, white_agent_id) as white, coalesce(black, black_agent_id) as black,
       status, result, reason, turn, plies, coalesce(comments, 0) as comments
from projections.games left join (
    select world_id, count(nullif(comment, '')) as comments
    from projections.moves where world_id = any($1::text[]) group by world_id
) commented using (world_id)
where world_id = any($1::text[]) and status is not null
"""


def line(game: Row) -> str:
    """Return how a game stands, such as ``1-0, checkmate: Ann - Bob, 3 comments``; lists cut at the end."""
    players = f"{game['white'] or '?'} - {game['black'] or '?'}"
    if game["comments"]:
        players += f", {counted(game['comments'], 'comment')}"
    if game["result"] is None:
        return f"*, {game['turn']} to move after {counted(game['plies'], 'half-move')}: {players}"
    how = game["reason"] if game["reason"] not in {None, "unknown"} else game["status"]
    return f"{MARKERS[game['result']]}, {how.replace('_', ' ')}: {players}"


OUTCOMES: Final = Outcomes(GAMES, line)
