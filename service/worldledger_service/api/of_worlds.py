"""What the open worlds of a process tell Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from worldledger_service.runtime import Orchestrator
    from worldledger_service.runtime.worlds import Worlds

#: The members of MemoryStats, in words.
_MEMORY: Final = {
    "entities": "Entities in the states of open worlds.",
    "attached_agents": "Agents whose views are kept up.",
    "seen_entities": "Entities in those views.",
    "queued_deltas": "Observations queued for readers.",
    "kept_deltas": "Observations kept for readers that come back.",
    "live_tokens": "Generations under way.",
    "remembered_requests": "Answers kept for requests that are sent again.",
    "estimated_bytes": "Bytes that all of this takes, roughly.",
}


class OfWorlds(Collector):
    """The numbers of the worlds that are open, summed at the moment of asking."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds
        self._cancelled = 0
        #: how many cancelled generations of a world are counted already: worlds close, and a counter never falls
        self._counted: WeakKeyDictionary[Orchestrator, int] = WeakKeyDictionary()

    def describe(self) -> list[Metric]:
        """Return nothing: the registry need not look at the worlds to know the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return them all."""
        worlds = [world for world in self._worlds if not world.broken]
        stats = [world.memory_stats()._asdict() for world in worlds]
        for world in worlds:
            self._cancelled += world.generations_cancelled - self._counted.get(world, 0)
            self._counted[world] = world.generations_cancelled
        yield GaugeMetricFamily("worldledger_worlds_open", "Worlds that are open for agents.", value=len(worlds))
        waiting = sum(world.waiting for world in worlds)
        yield GaugeMetricFamily("worldledger_intents_waiting", "Intents that wait for their turn.", value=waiting)
        for name, what in _MEMORY.items():
            yield GaugeMetricFamily(f"worldledger_memory_{name}", what, value=sum(each[name] for each in stats))
        what = "Generations cancelled in this process, as far as their worlds were open when this was asked."
        yield CounterMetricFamily("worldledger_generations_cancelled", what, value=self._cancelled)
