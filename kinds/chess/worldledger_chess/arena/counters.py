"""What an arena has counted since it was opened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class GameCounters:
    """Games that this process has made and brought to their ends; over all processes each is counted once.

    A game that is made, or whose end is appended, as any world's effect is, past the arena, is not counted.
    """

    #: games that were made, and games that ended, here
    created: int = 0
    completed: int = 0
