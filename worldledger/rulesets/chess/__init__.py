"""Chess worlds: one world is one game. Source: seeds/chess_openenv.md."""

from types import MappingProxyType

from worldledger.rulesets.base import Ruleset
from worldledger.rulesets.chess import rules, state


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


RULESET = Chess()
