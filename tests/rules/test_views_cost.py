"""What it costs to keep views: nothing for what is out of sight."""

from __future__ import annotations

import gc
import sys
from typing import Any

from tests.rules.seeing import World
from tests.rulesets.sandbox.worlds import Said, effects_of


def _calls(world: World, said: list[Said]) -> int:
    """Count the calls that keeping up with these effects takes."""
    effects = effects_of(said, world.views.seq + 1)
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    gc.disable()  # Hypothesis times collections by calls of its own
    sys.setprofile(note)
    try:
        for effect in effects:
            world.views.apply(effect)
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def _village(strangers: int) -> World:
    world = World()
    for number in range(strangers):
        place = {"position": [1e4 + number, number % 97]}
        world.does("EntityCreated", {"entity_id": f"stranger-{number}", "entity_data": {}, **place})
        if number:
            world.does("Interact", {"target_id": f"stranger-{number - 1}"}, f"stranger-{number}")
    for number in range(10):
        world.moves(f"agent-{number}", number, 0.0)
        world.agent(f"agent-{number}", distance_limit=3.0)
    for number in range(10, 13):
        world.agent(f"agent-{number}", relationship_filter=["interact"])
        world.does("Interact", {"target_id": "agent-1"}, f"agent-{number}")
    return world


def test_an_effect_costs_the_same_whatever_is_out_of_sight() -> None:
    """As many calls are made for it, be it seen by some or by none, with many strangers as with few."""
    told: list[Said] = [
        ("Move", {"to": [1.5, 1.0]}, "agent-1"),
        ("Move", {"to": [6.5, 1.0]}, "agent-1"),
        ("Speak", {"text": "hi"}, "agent-2"),
        ("Trade", {"target_id": "agent-3"}, "agent-2"),
        ("Interact", {"target_id": "agent-3"}, "agent-2"),
        ("EntityCreated", {"entity_id": "new", "entity_data": {}, "position": [2, 2]}, "god"),
        ("EntityRemoved", {"entity_id": "new"}, "god"),
        ("Move", {"to": [10002.0, 5.0]}, "stranger-2"),
        ("Speak", {"text": "hi"}, "stranger-2"),
    ]
    _calls(_village(20), told)  # so that what is remembered between worlds is there for both
    few, many = _village(20), _village(800)
    assert len(many.views.view("agent-5").visible_entities) == len(few.views.view("agent-5").visible_entities) < 10
    assert _calls(few, told) == _calls(many, told)


def test_agents_of_many_different_ranges() -> None:
    """However different their distances are, each sees as far as it should, and far in a world of a few grids."""
    limits = [0.001 * 4**power for power in range(16)]
    world = World()
    for number, limit in enumerate(limits):
        world.moves(f"agent-{number}", 0.0, 0.0)
        world.agent(f"agent-{number}", distance_limit=limit)
    for limit in limits:
        seen = world.moves("bob", limit, 0.0)
        assert {f"agent-{number}" for number, its in enumerate(limits) if its >= limit} <= seen.keys()
    state = world.views.fold.state
    for number in range(len(limits)):
        name = f"agent-{number}"
        assert world.views.view(name).context_digest == (
            world.views.policy(name).filter_world_state(state, name).context_digest
        )
        world.moves(name, 5.0 * number, 1.0)
        assert world.views.view(name).context_digest == (
            world.views.policy(name).filter_world_state(state, name).context_digest
        )
