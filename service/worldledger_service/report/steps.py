"""Round steps for histograms and axes."""

from __future__ import annotations

from math import sqrt


def step_of(least: int, most: int, steps: int) -> int:
    """Return the smallest of 1, 2, 5, 10, 20 … that parts least to most into no more than so many steps."""
    size = 1
    while True:
        for step in (1, 2, 5):
            if most // (size * step) - least // (size * step) < steps:
                return size * step
        size *= 10


def edges(step: int, most: int, least: int = 0) -> list[int]:
    """Return the edges of the steps from that of ``least`` to that of ``most``: one more than there are steps."""
    return [*range(least // step * step, most // step * step + step + 1, step)]


def steps_for(values: int, most: int) -> int:
    """Tell into how many steps so many values may be parted, so that a step has some of them."""
    return max(8, min(most, round(2.5 * sqrt(values))))
