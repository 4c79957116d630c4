"""Views: what an effect costs to show must not grow with what nobody sees."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from typing import Any, cast

from benchmarks.agents_town import POLICY
from benchmarks.harness import Figure, Report, say
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.policies import policy_spec
from worldledger.rulesets import load_ruleset
from worldledger.views import Views

ROUNDS = 7
EFFECTS = 2000
AGENTS = 100
#: Entities where the agents walk about, and how large that place is (each side).
NEAR, SIDE = 2000, 400.0
FEW, MANY = 10_000, 100_000
WANTED = 1.5


class World:
    """A world with agents in one place, and entities that they do not see in another."""

    def __init__(self, far: int) -> None:
        self._pick = random.Random(1)
        self._views = Views(Fold("views", load_ruleset("sandbox")))
        self._seq = 0
        self._places = {f"agent-{number}": self._place() for number in range(AGENTS)}
        self._far = [f"far-{number}" for number in range(far)]
        for number in range(NEAR):
            self._create(f"near-{number}", self._place())
        for name in self._far:
            self._create(name, self._far_away())
        policy = policy_spec(POLICY)
        for name, place in self._places.items():
            self._do("Move", {"to": place}, name)
            self._do("AgentRegistered", {"agent_id": name, "policy": policy, "permissions": [], "weight": 1}, "x")
            self._views.attach(name)

    def _place(self) -> list[float]:
        return [self._pick.uniform(0, SIDE), self._pick.uniform(0, SIDE), 0.0]

    def _far_away(self) -> list[float]:
        return [self._pick.uniform(1e5, 2e5), self._pick.uniform(0, 1e5), 0.0]

    def _create(self, name: str, place: list[float]) -> None:
        data = {"name": name, "hp": 100, "kind": "tree", "tags": ["a", "b"]}
        self._do("EntityCreated", {"entity_id": name, "entity_data": data, "position": place}, "operator")

    def _do(self, kind: str, payload: dict[str, Any], source: str) -> int:
        return len(self._views.apply(self._effect(kind, payload, source)))

    def _effect(self, kind: str, payload: dict[str, Any], source: str) -> Effect:
        self._seq += 1
        effect = {
            "uuid": "0",
            "kind": kind,
            "payload": payload,
            "global_seq": self._seq,
            "sim_time": self._seq / 4,
            "source_id": source,
            "schema_version": "1.0.0",
            "world_id": "views",
            "priority": 0,
            "req_id": None,
            "wall_time": 1e9,
        }
        return cast(Effect, effect)

    def _doings(self) -> Iterator[Effect]:
        """Agents step and speak; what they do not see moves about, too."""
        for number in range(EFFECTS):
            name = self._pick.choice(list(self._places))
            if number % 5 == 4:
                yield self._effect("Move", {"to": self._far_away()}, self._pick.choice(self._far))
            elif number % 5 == 3:
                yield self._effect("Speak", {"text": "Good morning, how are you?"}, name)
            else:
                here = self._places[name]
                here = self._places[name] = [min(SIDE, max(0.0, x + self._pick.uniform(-2, 2))) for x in here[:2]]
                here.append(0.0)
                yield self._effect("Move", {"to": here}, name)

    def rate(self) -> tuple[float, float]:
        """Return the effects per second that are folded and shown, and how many see each."""
        effects = list(self._doings())
        apply = self._views.apply
        start = time.perf_counter()
        shown = sum(len(apply(effect)) for effect in effects)
        return EFFECTS / (time.perf_counter() - start), shown / EFFECTS


def run(report: Report) -> None:
    """Measure both worlds in turn."""
    say("views")
    worlds = {f"view updates with {far:,} entities out of sight": World(far) for far in (FEW, MANY)}
    gc.collect()
    for name, world in worlds.items():
        report.figures[name] = Figure(name)
        world.rate()
    for _ in range(ROUNDS):
        for name, world in worlds.items():
            rate, seen = world.rate()
            report.figures[name].rates.append(rate)
    for name in worlds:
        say(f"  {name}: {report.figures[name].rate:,.0f}/s, seen by {seen:.1f} agents each")
    few, many = worlds
    report.ratio(
        "view update: time with 100k entities out of sight over that with 10k", many, few, WANTED, inverse=True
    )
