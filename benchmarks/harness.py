"""Measuring: interleaved rounds, medians, ratios, and the table that goes into docs/benchmarks.md."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

ROUNDS = 5

Work = Callable[[], Awaitable[int]]


@dataclass
class Figure:
    """One measured rate, in operations a second: the median of its rounds."""

    name: str
    rates: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """The median."""
        return statistics.median(self.rates)


@dataclass
class Goal:
    """A ratio of two figures and the bound that it is to keep; ``at_least`` False means at most."""

    what: str
    value: float
    bound: float
    at_least: bool = True
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the bound is kept."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def line(self) -> str:
        """Return the goal as a row of a Markdown table."""
        sign = "at least" if self.at_least else "at most"
        unit = f" {self.unit}" if self.unit else ""
        verdict = "kept" if self.met else "**missed**"
        return f"| {self.what} | {self.value:.2f}{unit} | {sign} {self.bound:g}{unit} | {verdict} |"


@dataclass
class Report:
    """What a run found."""

    figures: dict[str, Figure] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)
    #: what was found besides, without a goal: what, value, unit
    found: list[tuple[str, float, str]] = field(default_factory=list)

    async def compare(self, works: dict[str, Work], *, rounds: int = ROUNDS, slices: int = 1) -> None:
        """Run the works in turn, round after round, so that noise falls on all of them alike.

        Each work gives the number of operations that it did; one unmeasured round goes before. In a round each work
        has as many turns as there are slices.
        """
        for name, work in works.items():
            await work()
            self.figures[name] = Figure(name)
        for _ in range(rounds):
            counts = dict.fromkeys(works, 0)
            times = dict.fromkeys(works, 0.0)
            for _ in range(slices):
                for name, work in works.items():
                    start = time.perf_counter()
                    counts[name] += await work()
                    times[name] += time.perf_counter() - start
            for name in works:
                self.figures[name].rates.append(counts[name] / times[name])
        for name in works:
            say(f"  {name}: {self.figures[name].rate:,.0f}/s")

    def ratio(self, what: str, name: str, peer: str, bound: float, *, inverse: bool = False) -> None:
        """Note the ratio of two rates, with the bound of the issue; ``inverse`` compares times: at most."""
        if inverse:
            goal = Goal(what, self.figures[peer].rate / self.figures[name].rate, bound, at_least=False)
        else:
            goal = Goal(what, self.figures[name].rate / self.figures[peer].rate, bound)
        self.note(goal)

    def note(self, goal: Goal) -> None:
        """Keep and show a goal."""
        self.goals.append(goal)
        say(f"  {goal.what}: {goal.value:.2f} ({'kept' if goal.met else 'MISSED'})")

    def tell(self, what: str, value: float, unit: str) -> None:
        """Keep and show something that has no goal."""
        self.found.append((what, value, unit))
        say(f"  {what}: {value:.2f} {unit}".rstrip())


def say(text: str) -> None:
    """Tell the person who waits."""
    print(text, file=sys.stderr, flush=True)


def draft(index: int) -> dict[str, object]:
    """Return a draft whose effect has about 370 bytes."""
    return {
        "kind": "Move",
        "payload": {
            "to": [1.5, 2.25, 0.0],
            "from": [1.0, 2.0, 0.0],
            "speed": 1.25,
            "agent_id": f"agent-{index % 10}",
            "note": "n" * 52,
        },
        "source_id": f"agent-{index % 10}",
        "schema_version": "1.0.0",
    }
