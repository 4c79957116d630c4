"""Delivery: from the commit of an effect to the agents who see it, over WebSocket, and the same without a log."""

from __future__ import annotations

import statistics
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson
from worldledger_service.store import Store

from benchmarks.agents_sockets import Found, Seat, Task, play
from benchmarks.agents_town import Crowd, Server, process, settled
from benchmarks.harness import Goal, Report, say

ROUNDS = 3
SECONDS = 3.0
#: Bytes of the echo's frames: about those of an observation here.
BYTES = 420


@dataclass(frozen=True)
class Load:
    """How many see what is done, how often something is, and how soon they are to see it (milliseconds)."""

    name: str
    groups: int
    rate: float
    median: float | None
    p99: float

    @property
    def together(self) -> Crowd:
        """Ten in each group, who act and see each other, and themselves."""
        return Crowd(self.groups, acting=10)

    @property
    def apart(self) -> Crowd:
        """Ten in each group who only look on, at one more who acts."""
        return Crowd(self.groups, acting=1, looking_on=10)

    def world(self, servers: int) -> str:
        """Name the world for so many servers."""
        return f"delivery-{self.groups}-{servers}"


LOADS = (
    Load("10 agents, 50 effects/s", 1, 50.0, 5.0, 20.0),
    Load("100 agents, 500 effects/s", 10, 500.0, None, 50.0),
)


@dataclass
class Lags:
    """Milliseconds from a moment to that at which an agent's client had the observation; one list for each round."""

    rounds: list[list[float]] = field(default_factory=list)

    def median(self) -> float:
        """The median of the rounds' medians."""
        return statistics.median(statistics.median(each) for each in self.rounds)

    def p99(self) -> float:
        """The median of the rounds' 99th percentiles."""
        return statistics.median(statistics.quantiles(each, n=100)[98] for each in self.rounds)

    def __str__(self) -> str:
        return f"median {self.median():.1f} ms, p99 {self.p99():.1f} ms"


class Measured:
    """The lags of one way of delivery.

    - ``sealed``: from the effect's wall_time. That is when the service has put the effect together, just before the
      statement that commits it; so the commit itself is in it.
    - ``sent``: from the sending of the intent.
    - ``acknowledged``: from the moment at which the sender had the acknowledgement; negative where others were sooner.
    """

    def __init__(self) -> None:
        self.sealed, self.sent, self.acknowledged = Lags(), Lags(), Lags()
        self._late: list[float] = []
        self._cores: list[list[float]] = []

    def add(self, found: Found, seats: Sequence[Seat], sealed: dict[int, float] | None = None) -> None:
        """Take in a round."""
        came: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        for number, view_seq, at in found.observations:
            came[number].append((view_seq, at))
        alone = all(seat.acts for seat in seats)
        watching: defaultdict[int, list[int]] = defaultdict(list)
        for number, seat in enumerate(seats):
            if alone or not seat.acts:
                watching[seat.group].append(number)
        rows = []
        for sender, global_seq, sent, acknowledged in found.intents:
            for number in watching[seats[sender].group]:
                index = bisect_left(came[number], (global_seq, 0.0))  # one delta may stand for several
                if index == len(came[number]):
                    raise RuntimeError(f"{seats[number].agent_id} has not seen effect {global_seq}")
                at = came[number][index][1]
                rows.append((at - sent, at - acknowledged, 0.0 if sealed is None else at - sealed[global_seq]))
        for lags, column in zip((self.sent, self.acknowledged, self.sealed), zip(*rows, strict=True), strict=True):
            lags.rounds.append([1000 * lag for lag in column])
        self._late += found.late
        self._cores.append(found.cores)

    def __str__(self) -> str:
        late = 1000 * statistics.quantiles(self._late, n=100)[98]
        cores = " + ".join(f"{statistics.median(each):.2f}" for each in zip(*self._cores, strict=True))
        return (
            f"from the sending {self.sent}; from the acknowledgement {self.acknowledged};\n"
            f"    intents {late:.1f} ms late (p99); client and servers: {cores} of a core"
        )


async def run(report: Report, store: Store, url: str, servers: Sequence[Server]) -> None:
    """Measure each load on one server, with agents and writers on two, and with the peer."""
    say("delivery")
    for load in LOADS:
        await settled(url, load.world(1), load.together)
        await settled(url, load.world(2), load.apart)
    measured: defaultdict[tuple[str, str], Measured] = defaultdict(Measured)
    async with process("benchmarks.agents_relay", "{port}", str(BYTES)) as peer:
        for _ in range(ROUNDS):
            for load in LOADS:
                await _served(measured[load.name, ""], load, store, servers[:1])
                await _served(measured[load.name, ", writer on another server"], load, store, servers)
                await _relayed(measured[load.name, ", echo"], load, peer)
    for (name, where), found in measured.items():
        say(f"  {name}{where}: {found}")
    for load in LOADS:
        for where in ("", ", writer on another server"):
            found, what = measured[load.name, where], f"delivery, {load.name}{where}"
            if load.median is not None:
                report.note(Goal(f"{what}: median", found.sealed.median(), load.median, at_least=False, unit="ms"))
            report.note(Goal(f"{what}: p99", found.sealed.p99(), load.p99, at_least=False, unit="ms"))
            report.tell(f"{what}: median from the sending of the intent", found.sent.median(), "ms")
            report.tell(f"{what}: p99 from the sending of the intent", found.sent.p99(), "ms")
        echo = measured[load.name, ", echo"].sent
        report.tell(f"delivery, {load.name}, by a bare echo: median", echo.median(), "ms")
        report.tell(f"delivery, {load.name}, by a bare echo: p99", echo.p99(), "ms")


async def _served(measured: Measured, load: Load, store: Store, servers: Sequence[Server]) -> None:
    world_id = load.world(len(servers))
    crowd = load.apart if len(servers) > 1 else load.together
    seats = crowd.seats(servers[0].world(world_id), servers[-1].world(world_id))
    found = await play(Task(seats, SECONDS, [server.pid for server in servers], rate=load.rate))
    offset = time.time() - time.perf_counter()
    first = min(global_seq for _, global_seq, _, _ in found.intents)
    sealed = {
        row.global_seq: orjson.loads(row.text)["wall_time"] - offset
        async for batch in store.reader.batches(world_id, after_seq=first - 1)
        for row in batch
    }
    measured.add(found, seats, sealed)


async def _relayed(measured: Measured, load: Load, peer: Server) -> None:
    seats = load.together.seats(peer.world("echo"))
    measured.add(await play(Task(seats, SECONDS, [peer.pid], rate=load.rate)), seats)
