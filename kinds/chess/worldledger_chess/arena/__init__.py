"""The arena: live chess games and their players. Games survive every process, because the log has them.

    async with Arena(store, watcher, worlds) as arena:
        game = await arena.create(NewGame(white=AgentSpec(agent_id="ann"), black=AgentSpec(agent_id="bob")))
        outcome = await game.move("ann", "e2e4", req_id="1")
        async for event in game.watch():
            ...

Source: docs/reference/contracts.md, "Chess"; docs/architecture-agents.md, "Live games".
"""

from worldledger_chess.arena.arena import Arena, NewGame, PlayFrom
from worldledger_chess.arena.errors import ArenaFullError, GameNotLiveError, InvalidMoveRequestError, NoSuchGameError
from worldledger_chess.arena.events import EVENT_TYPES, EventType, GameEvent
from worldledger_chess.arena.games import LiveGame
from worldledger_chess.arena.outcomes import GameEnd, MoveOutcome, ResignOutcome
from worldledger_chess.arena.settings import ArenaSettings

__all__ = [
    "EVENT_TYPES",
    "Arena",
    "ArenaFullError",
    "ArenaSettings",
    "EventType",
    "GameEnd",
    "GameEvent",
    "GameNotLiveError",
    "InvalidMoveRequestError",
    "LiveGame",
    "MoveOutcome",
    "NewGame",
    "NoSuchGameError",
    "PlayFrom",
    "ResignOutcome",
]
