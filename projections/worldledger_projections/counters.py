"""What an engine has done so far, for metrics: plain numbers that only rise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Counters of one engine, since it was made.

    - ``effects``: effects fed, counted once for each build that was handed them
    - ``batches``: transactions that wrote rows; ``rows``: rows that they wrote or deleted
    - ``seconds``: seconds spent on feeding
    - ``parked``: worlds set aside; ``failures``: rounds that ended in an error, an outage included
    - ``conflicts``: times that another runner had moved a cursor or taken a lease
    - ``swaps``: builds that took the place of another
    """

    effects: int = 0
    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    parked: int = 0
    failures: int = 0
    conflicts: int = 0
    swaps: int = 0
