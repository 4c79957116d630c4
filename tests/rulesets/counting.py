"""What a ruleset could not read, counted."""

from __future__ import annotations

from worldledger.world import WorldState


def malformed(state: WorldState) -> int:
    """Return how many effects could not be read; none may have been unknown."""
    assert state.metadata["unknown_effects"] == 0
    count: int = state.metadata["malformed_effects"]
    return count
