"""Chess worlds: one world is one game. Source: seeds/chess_openenv.md."""

from worldledger.rulesets.base import Ruleset


class Chess(Ruleset):
    """Worlds of the ruleset ``chess``: GameStarted, MoveMade, MoveRejected, GameEnded."""

    name = "chess"
    version = 1


RULESET = Chess()
