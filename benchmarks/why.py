"""Why: the way back and forward from random effects of worlds of a million, and over a fork point, over HTTP."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Iterable, Iterator
from http.client import HTTPConnection

from worldledger_service.store import Store
from worldledger_service.store.forking import NewFork

from benchmarks.harness import Goal, Report, say
from benchmarks.states import server
from worldledger.effects import EffectDraft
from worldledger.genesis import NewWorld
from worldledger.intents import registration_draft
from worldledger.moments import Moment
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec

EFFECTS = 1_000_000
AGENTS = 20
#: Links that are followed, and effects that are shown.
DEPTH, LIMIT = 20, 100
REQUESTS = 400
#: Where the fork begins, its effects, and how near to the fork point the effects are that are asked about.
FORK_POINT, FORK_EFFECTS, NEAR = 500_000, 100_000, 100


def decided() -> Iterator[EffectDraft]:
    """Yield decisions from the views of 20 agents that see each other, after these agents are there."""
    for number in range(AGENTS):
        data = {"entity_id": f"agent-{number}", "entity_data": {"coins": 9}, "position": [number, 0.0, 0.0]}
        yield {"kind": "EntityCreated", "payload": data, "source_id": "operator", "schema_version": "1.0.0"}
    yield from moves(range(2 + 2 * AGENTS, EFFECTS + 1))


def moves(seqs: Iterable[int]) -> Iterator[EffectDraft]:
    """Yield what the agents decide at these seqs from their views; every tenth effect names a cause, too."""
    for seq in seqs:
        made: EffectDraft = {
            "kind": "Move",
            "payload": {"to": [seq * 0.25, 2.25, 0.0], "note": "n" * 52},
            "source_id": f"agent-{seq * 7919 % AGENTS}",
            "schema_version": "1.0.0",
            "source_metadata": {"intent": "Move", "context_seq": seq - 1 - seq % 5},
        }
        if seq % 10 == 0:
            made["caused_by"] = seq - 1 - seq % 7
        yield made


def told() -> Iterator[EffectDraft]:
    """Yield effects that each name one of the ten before them."""
    for seq in range(2, EFFECTS + 1):
        cause = max(seq - 1 - seq * 7919 % 10, 1)
        yield {"kind": "Said", "payload": {}, "source_id": "a", "schema_version": "1.0.0", "caused_by": cause}


async def run(report: Report, url: str, store: Store) -> None:
    """Measure both directions in both worlds, on a server of its own."""
    say("why")
    for world in ("decided", "told"):
        await store.create_world(NewWorld(world_id=world))
    spec = policy_spec(ObservationPolicy())
    agents = [registration_draft(f"agent-{number}", spec) for number in range(AGENTS)]
    await (await store.log("decided")).append_all(agents, system=True)
    for world, drafts in (("decided", decided()), ("told", told())):
        await store.bulk_append(world, drafts)
        start = time.perf_counter()
        await store.states.state_at(world, EFFECTS)
        say(f"  first state of {world}: {time.perf_counter() - start:.1f} s")
    await store.fork("decided", Moment(seq=FORK_POINT), NewFork(world_id="forked"))
    await store.bulk_append("forked", moves(range(3, FORK_EFFECTS)))
    async with server(url, projections=False) as port:
        times = await asyncio.to_thread(_ask, port)
    for (world, direction), found in times.items():
        p99 = statistics.quantiles(found, n=100)[98] * 1000
        say(f"  {world}, {direction}: median {statistics.median(found) * 1000:.1f} ms, p99 {p99:.1f} ms")
        where = "over a fork point" if world == "forked" else f"from a random effect of 1M ({world})"
        what = f"why, {direction} {DEPTH} links {where}: p99"
        report.note(Goal(what, p99, 100, at_least=False, unit="ms"))


def _ask(port: int) -> dict[tuple[str, str], list[float]]:
    pick = random.Random(1)
    connection = HTTPConnection("127.0.0.1", port)
    times: dict[tuple[str, str], list[float]] = {}
    for number in range(REQUESTS + 20):
        for world in ("decided", "told", "forked"):
            for direction in ("back", "forward"):
                start = time.perf_counter()
                seq = str(pick.randint(1, EFFECTS))
                if world == "forked":
                    near = pick.randint(3, NEAR)
                    seq = str(near) if direction == "back" else f"parent:{FORK_POINT - near}"
                path = f"/v1/worlds/{world}/effects/{seq}/why"
                connection.request("GET", f"{path}?direction={direction}&depth={DEPTH}&limit={LIMIT}")
                answer = connection.getresponse()
                body = answer.read()
                assert answer.status == 200, body
                if number >= 20:
                    times.setdefault((world, direction), []).append(time.perf_counter() - start)
    return times
