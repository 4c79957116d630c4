"""Chess worlds: one world is one game. Source: seeds/chess_openenv.md."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from worldledger.rulesets.base import Ruleset
from worldledger.rulesets.chess import rules, state
from worldledger.world import WorldState


class Chess(Ruleset):
    """Worlds of the ruleset ``chess``: GameStarted, MoveMade, MoveRejected, GameEnded."""

    name = "chess"
    version = 1
    handlers = MappingProxyType(
        {
            "GameStarted": state.game_started,
            "MoveMade": state.move_made,
            "MoveRejected": state.move_rejected,
            "GameEnded": state.game_ended,
        }
    )
    checks = MappingProxyType(
        {
            "GameStarted": rules.check_game_started,
            "MoveMade": rules.check_move_made,
            "MoveRejected": rules.check_move_rejected,
            "GameEnded": rules.check_game_ended,
        }
    )
    stateful = frozenset(checks)
    records_rejections = True

    def check_intent(self, kind: str, payload: Mapping[str, Any], agent_id: str, state: WorldState) -> None:
        """Players move, and resign; everything else about a game is said by whoever runs it."""
        if kind in self.checks:
            rules.check_players_intent(kind, payload, agent_id, state)


RULESET = Chess()
