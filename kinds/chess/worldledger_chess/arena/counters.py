"""What an arena has counted since it was opened. Source: seeds/chess_openenv.md, StateManager, "Metrics"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class GameCounters:
    """Games that this process has made and brought to their ends; over all processes each is counted once.

    A game that is made, or whose end is appended, as any world's effect is, past the arena, is not counted.
    """

    #: the seed's total_games_created and total_games_completed
    created: int = 0
    completed: int = 0
