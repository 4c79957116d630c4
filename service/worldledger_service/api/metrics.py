"""The metrics of the service, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import structlog
from fastapi import APIRouter, Depends
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from worldledger.errors import SimulationError
from worldledger_service.api.context import services
from worldledger_service.api.openapi import problems
from worldledger_service.api.parameters import once

if TYPE_CHECKING:
    from worldledger_service.projecting.engine import BuildStatus, Counters, ProjectionStatus
    from worldledger_service.runtime import Orchestrator
    from worldledger_service.runtime.worlds import Worlds
    from worldledger_service.store import Store


# -- of the open worlds ------------------------------------------------------------------------------------

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


MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Seconds after which the projections' numbers are left out.
_PATIENCE: Final = 2.0
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

log = structlog.get_logger("worldledger.api")

router = APIRouter(tags=["health"], dependencies=[Depends(once)])


class Metrics:
    """The counters of one application. They stand in the way of every request, so counting one is a few look-ups.

    ``appended``, ``intents_accepted``, ``observed``, ``limited`` and ``socket`` are called with how many are added.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.appended = Counter(
            "worldledger_effects_appended",
            "Effects appended over HTTP by this process; repetitions of accepted requests are not counted.",
            registry=self.registry,
        ).inc
        self._waiting = Gauge(
            "worldledger_effects_waiting", "Effects that wait for their commit in this process.", registry=self.registry
        )
        self._requests = Counter(
            "worldledger_http_requests",
            "Requests answered, by route and status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "worldledger_http_request_seconds",
            "Seconds until the answer began, by route.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.intents_accepted = Counter(
            "worldledger_intents_accepted",
            "Intents accepted over HTTP and WebSocket; repetitions are counted too.",
            registry=self.registry,
        ).inc
        self._rejected = Counter(
            "worldledger_intents_rejected", "Intents rejected, by the problem's code.", ["code"], registry=self.registry
        )
        self.observed = Counter(
            "worldledger_observations_sent", "Observations sent to agents, on whatever way.", registry=self.registry
        ).inc
        self.limited = Counter(
            "worldledger_http_requests_limited",
            "Requests and handshakes refused because their address had asked too often.",
            registry=self.registry,
        ).inc
        self._unasked = Counter(
            "worldledger_http_refused_early",
            "Refused on a connection before there was a whole request, by the problem's code; not among the requests.",
            ["code"],
            registry=self.registry,
        )
        self._connections = Gauge(
            "worldledger_http_connections",
            "Connections without a complete request: waiting for one, idle after an answer, lingering before the end.",
            ["state"],
            registry=self.registry,
        )
        self.socket = Gauge("worldledger_sockets_open", "WebSockets that are open.", registry=self.registry).inc
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def watch(self, store: Store, worlds: Worlds) -> None:
        """Show what waits in a store, and how its open worlds stand."""
        self._waiting.set_function(lambda: store.waiting)
        self.registry.register(OfWorlds(worlds))

    def watch_connections(self, states: Callable[[], Mapping[str, int]]) -> None:
        """Show how many connections are in each state."""
        for state in states():
            self._connections.labels(state).set_function(partial(_of_state, states, state))

    def intent_rejected(self, code: str) -> None:
        """Count an intent, or an atomic list of them, that was rejected with this code."""
        self._rejected.labels(code).inc()

    def refused_early(self, code: str) -> None:
        """Count what was refused with this code before there was a whole request."""
        self._unasked.labels(code).inc()

    def answered(self, method: str, scope: Scope, status: int, seconds: float) -> None:
        """Count a request whose answer begins. What matches no route, or has a method of its own, makes no series."""
        key = (
            method if method in _METHODS else "other",
            getattr(scope.get("route"), "path_format", "none"),
            status,
        )
        found = self._known.get(key)
        if found is None:
            found = self._requests.labels(key[0], key[1], str(status)), self._seconds.labels(key[0], key[1])
            self._known[key] = found
        found[0].inc()
        found[1].observe(seconds)


def _of_state(states: Callable[[], Mapping[str, int]], state: str) -> int:
    return states()[state]


# -- projections -------------------------------------------------------------------------------------------

#: Of a projection's live build: name, what it says, and how it is told from the status.
_OF_BUILDS: Final[tuple[tuple[str, str, Callable[[BuildStatus], float]], ...]] = (
    ("lag_effects", "Effects that the live build has still to read.", lambda build: build.effects_behind),
    ("lag_seconds", "Seconds since the first of them was noted.", lambda build: build.seconds_behind or 0.0),
    ("lag_worlds", "Worlds in which the live build has effects to read.", lambda build: build.worlds_behind),
    ("parked_worlds", "Worlds that the live build has set aside.", lambda build: build.parked),
    ("paused", "1 while the projection is paused.", lambda build: build.paused),
)


class _OfProjections(Collector):
    """The numbers of the projections at one moment, and of this process's runner since it began."""

    def __init__(self, statuses: Sequence[ProjectionStatus], counters: Counters | None) -> None:
        self._live = [(status.name, status.live) for status in statuses if status.live is not None]
        self._building = [(status.name, status.building is not None) for status in statuses]
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        """Return them all."""
        prefix, labels = "worldledger_projection", ["projection"]
        for name, what, value_of in _OF_BUILDS:
            gauge = GaugeMetricFamily(f"{prefix}_{name}", what, labels=labels)
            for projection, build in self._live:
                gauge.add_metric([projection], float(value_of(build)))
            yield gauge
        rebuilding = GaugeMetricFamily(f"{prefix}_rebuilding", "1 while another build is filled.", labels=labels)
        for projection, building in self._building:
            rebuilding.add_metric([projection], float(building))
        yield rebuilding
        fed = CounterMetricFamily(f"{prefix}_fed_effects", "Effects that the live build has read.", labels=labels)
        for projection, build in self._live:
            fed.add_metric([projection], build.effects_done)
        yield fed
        counters: dict[str, Any] = asdict(self._counters) if self._counters is not None else {}
        for name, value in counters.items():
            what = f"Counted by this service's runner since it was started: {name}; see the engine's counters."
            yield CounterMetricFamily(f"{prefix}_runner_{name}", what, value=value)


@router.get(
    "/metrics",
    operation_id="metrics",
    summary="Counters and gauges for Prometheus",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus' text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **problems(),
    },
)
async def metrics(request: Request) -> Response:
    """Return what this process counts, and how the projections stand.

    While the database is away, or does not answer within 2 seconds, the projections' numbers are left out; all
    else is given.
    """
    found = services(request)
    text = generate_latest(found.metrics.registry)
    try:
        statuses = await found.questions.ask(found.projections.status, _PATIENCE)
        text += generate_latest(
            _Registry(_OfProjections(statuses, found.projector.counters if found.projector else None))
        )
    except (TimeoutError, SimulationError) as error:
        log.warning("metrics without projections", error=str(error) or type(error).__name__)
    return Response(text, 200, {"Cache-Control": "no-store", "Content-Type": MEDIA_TYPE})


class _Registry(CollectorRegistry):
    """Holds one collector, for one answer."""

    def __init__(self, collector: Collector) -> None:
        super().__init__(auto_describe=False)
        self.register(collector)
