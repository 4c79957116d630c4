"""Worlds with agents of every kind of policy, and logs in which much comes into sight and goes again."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from worldledger_service.runtime import Orchestrator

from worldledger.effects import EffectDraft
from worldledger.observation import ObservationPolicy, PolicyConfig

from .helpers import ALL, created, draft, message, moved, near, removed

POLICIES = {
    "all": ALL,
    "near": near(10.0),
    "related": ObservationPolicy(PolicyConfig(relationship_filter=["friend"])),
    "hidden": ObservationPolicy(PolicyConfig(field_visibility={"hp": False})),
    "remembering": near(10.0, remove_operations=False),
}
AGENTS = sorted(POLICIES)


def related(one: str, other: str, name: str = "friend") -> EffectDraft:
    """Relate two entities."""
    payload = {"from_entity": one, "to_entity": other, "relationship_type": name, "strength": 1.0, "metadata": {}}
    return draft("RelationshipSet", payload)


def story(steps: int, seed: int = 4, there: Iterable[str] = ()) -> list[EffectDraft]:
    """Return effects by which much comes into sight and goes out of it, the agents moving too."""
    random = Random(seed)
    there = set(there)
    said: list[EffectDraft] = []
    for _ in range(steps):
        name = random.choice(["x", "y", "z/~1", *AGENTS])
        x, y = random.randrange(-15, 16), random.randrange(-15, 16)
        what = random.random()
        if name not in there:
            said.append(created(name, x, y, hp=random.randrange(9)))
            there.add(name)
        elif what < 0.5:
            said.append(moved(name, x, y))
        elif what < 0.6:
            said.append(removed(name))
            there.remove(name)
        elif what < 0.8:
            said.append(related(name, random.choice(sorted(there)), random.choice(["friend", "foe"])))
        else:
            said.append(message("hey", name))
    return said


async def register_all(world: Orchestrator) -> None:
    """Register an agent with each policy."""
    for name in AGENTS:
        await world.register_agent(name, POLICIES[name])
