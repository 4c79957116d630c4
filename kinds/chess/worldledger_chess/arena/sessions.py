"""Sessions: the GameSession of a game that is in memory. Pure. Source: docs/reference/contracts.md, "Chess"."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import UUID

from worldledger_chess.arena.outcomes import end_of
from worldledger_chess.rules.agents import Agent, AgentStats
from worldledger_chess.rules.endings import WINS, Player
from worldledger_chess.rules.entities import GameSession
from worldledger_chess.rules.times import moment

if TYPE_CHECKING:
    from worldledger_chess.arena.record import Record
    from worldledger_chess.arena.table import Table


def session_of(table: Table) -> GameSession | None:
    """Return the session of a live game; None for any other.

    Its ``session_id`` follows from the world, so that it is the same in every process, and after the game was read into
    memory again. The agents' ``stats`` are of this game alone; over all games projections tell them.
    """
    record = table.record
    if record.live is None or not record.started:
        return None
    return GameSession(
        session_id=session_id(record.world_uuid),
        game_id=record.game_id,
        websocket_connections=table.watchers,
        agent_white=Agent.of(record.live.white, _stats(record, "white")),
        agent_black=Agent.of(record.live.black, _stats(record, "black")),
        created_at=moment(record.started_at),
        is_active=record.in_progress,
    )


def session_id(world_uuid: str) -> str:
    """Return the UUID4 of a world's session."""
    return str(UUID(bytes=sha256(f"session:{world_uuid}".encode()).digest()[:16], version=4))


def _stats(record: Record, player: Player) -> AgentStats:
    side = record.entities[player]
    ended = end_of(record)
    result = None if ended is None else ended.result
    return AgentStats.from_counts(
        games_won=int(result == WINS[player]),
        games_lost=int(result in WINS.values() and result != WINS[player]),
        games_drawn=int(result == "draw"),
        total_moves=side["moves"],
        total_thinking_time=side["thinking_time"],
        timed_moves=side["timed_moves"],
        illegal_moves_attempted=side["illegal_moves_attempted"],
        timeouts=int(ended is not None and ended.reason == "timeout" and player == record.turn),
    )
