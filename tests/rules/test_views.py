"""Keeping the views of many agents: who is told what, and how agents come and go."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rules.seeing import World, long_story, registered
from tests.rulesets.sandbox.worlds import effects_of
from worldledger.errors import UnknownAgentError
from worldledger.observation import DistanceLatency, FixedLatency, ObservationPolicy, PolicyConfig
from worldledger.policies import register_policy

# -- who is told what ----------------------------------------------------------------------------------------


def test_who_sees_an_effect_is_told_of_it() -> None:
    """Each one in sight of it gets a delta at its seq, in the order of the agents' ids; the others get nothing."""
    world = World()
    for name, x in (("cat", 2.0), ("bob", 1.0), ("ann", 0.0), ("far", 99.0)):
        world.moves(name, x, 0.0)
    for name in ("cat", "far", "ann", "bob"):
        world.agent(name, distance_limit=5.0)
    seen = world.moves("bob", 1.0, 1.0)
    assert list(seen) == ["ann", "bob", "cat"]
    for name, sighting in seen.items():
        assert (sighting.agent_id, sighting.delta["view_seq"], sighting.delay) == (name, world.views.seq, 0.0)
        assert world.views.view(name).view_seq == world.views.seq
    assert world.views.view("far").view_seq < world.views.seq
    assert seen["ann"].delta["patches"] == [
        {"op": "replace", "path": "/visible_entities/bob/last_move_time", "value": world.views.seq / 4},
        {"op": "replace", "path": "/visible_entities/bob/position", "value": [1.0, 1.0, 0.0]},
    ]
    assert list(world.moves("bob", 97.0, 0.0)) == ["ann", "bob", "cat", "far"]
    assert list(world.does("Speak", {"text": "hi"}, "bob")) == ["bob", "far"]


def test_words_come_as_events_and_changes_as_patches() -> None:
    """Speaking changes the speaker and is an event; moving is told by patches alone."""
    world = World()
    world.agent("ann")
    (spoken,) = world.does("Speak", {"text": "hi"}, "bob").values()
    assert [event["payload"] for event in spoken.delta["events"]] == [{"text": "hi"}]
    assert spoken.delta["patches"][0]["path"] == "/visible_entities/bob"
    (moved,) = world.moves("bob", 1.0, 1.0).values()
    assert moved.delta["events"] == []
    (traded,) = world.does("Trade", {"with": 5}, "bob").values()
    assert (traded.delta["patches"], len(traded.delta["events"])) == ([], 1)
    assert traded.delta["context_digest"] == moved.delta["context_digest"]


def test_what_shows_nothing_is_not_told() -> None:
    """An effect that changes hidden fields only, nothing at all, or is the service's own, makes no delta."""
    world = World(("Move", {"to": [0, 0]}, "bob"))
    world.agent("ann", field_visibility={"position": False, "last_move_time": False})
    assert world.moves("bob", 1.0, 1.0) == {}
    assert world.does("EntityRemoved", {"entity_id": "nobody"}) == {}
    assert world.does("IntentRejected", {"agent_id": "ann"}, "ann") == {}
    assert world.does("Move", {"to": "nowhere"}, "bob") == {}
    assert world.views.view("ann").visible_entities == {"bob": {}}


def test_delays_are_those_of_each_agents_model() -> None:
    """By the positions after the effect, and never endless."""
    world = World(("Move", {"to": [0, 0]}, "ann"), ("Move", {"to": [3, 4]}, "bob"), ("Move", {"to": [0, 0]}, "cat"))
    world.agent("ann", latency_model=DistanceLatency(0.5))
    world.agent("cat", latency_model=FixedLatency(2.0))
    world.agent("dog")
    delays = {name: sighting.delay for name, sighting in world.does("Speak", {"text": "x"}, "bob").items()}
    assert delays == {"ann": 2.5, "cat": 2.0, "dog": 0.0}
    assert world.does("Speak", {"text": "x"}, "ann")["ann"].delay == 0.0
    assert world.moves("bob", 1e308, 1e308)["ann"].delay == 1e9


def test_agents_who_see_the_same_share_it() -> None:
    """Whoever sees everything, unfiltered, gets the very same patches, and a digest of its own."""
    world = World(("Move", {"to": [0, 0]}, "bob"))
    for name in ("ann", "eve", "joe"):
        world.agent(name)
    seen = world.moves("bob", 1.0, 1.0)
    patches = [sighting.delta["patches"] for sighting in seen.values()]
    assert patches[0] is patches[1] is patches[2]
    assert len({sighting.delta["context_digest"] for sighting in seen.values()}) == 3
    assert len({id(sighting.delta) for sighting in seen.values()}) == 3


def test_an_agent_that_gets_a_position_sees_only_so_far() -> None:
    """Without one it saw everything; where it stands, it sees what is near; without one again, everything."""
    world = World(("Move", {"to": [0, 0]}, "near"), ("Move", {"to": [50, 0]}, "far"))
    assert set(world.agent("ann", distance_limit=10.0).visible_entities) == {"near", "far"}
    (sighting,) = world.moves("ann", 1.0, 0.0).values()
    assert [each["path"] for each in sighting.delta["patches"]] == ["/visible_entities/ann", "/visible_entities/far"]
    assert set(world.views.view("ann").visible_entities) == {"ann", "near"}
    world.does("EntityUpdated", {"entity_id": "ann", "patch": [{"op": "remove", "path": "/position"}]})
    assert set(world.views.view("ann").visible_entities) == {"ann", "near", "far"}


# -- attaching -----------------------------------------------------------------------------------------------


def test_only_registered_agents_are_attached() -> None:
    """Anybody else is unknown, and has no view."""
    world = World()
    with pytest.raises(UnknownAgentError):
        world.views.attach("ann")
    for ask in (world.views.view, world.views.policy):
        with pytest.raises(KeyError):
            ask("ann")
    world.does(*registered("ann", ObservationPolicy()))
    with pytest.raises(KeyError):
        world.views.view("ann")
    assert world.views.attached == []


def test_a_view_has_the_seq_that_it_is_said_to_have() -> None:
    """The fold's unless told otherwise; attaching once more changes nothing."""
    world = World(*[("Speak", {"text": "x"}, "bob")] * 5)
    assert world.agent("ann").view_seq == 6
    world.does(*registered("cat", ObservationPolicy()))
    assert world.views.attach("cat", view_seq=5).view_seq == 5
    assert world.views.attach("cat", view_seq=3) == world.views.view("cat")
    assert world.views.view("cat").view_seq == 5
    assert world.views.attached == ["ann", "cat"]


def test_who_is_detached_is_told_no_more() -> None:
    """Detaching once more does no harm; without anybody the fold may go on by itself."""
    world = World()
    world.agent("ann")
    world.agent("cat", distance_limit=3.0)
    world.views.detach("ann")
    world.views.detach("ann")
    assert list(world.moves("bob", 0.0, 0.0)) == ["cat"]
    world.views.detach("cat")
    assert world.moves("bob", 1.0, 1.0) == {}
    world.views.fold.apply(effects_of([("Speak", {"text": "x"}, "new")], world.views.seq + 1)[0])
    assert set(world.views.attach("ann").visible_entities) == {"bob", "new"}


def test_nothing_is_kept_for_who_is_gone() -> None:
    """When the last agents leave, in whatever order, no scene, look or watcher is left."""
    random = Random(5)
    world = World(*long_story(random, 80))
    names = list(world.views.fold.state.metadata["agents"])
    for name in names:
        world.views.attach(name)
    for one in long_story(random, 40):
        world.does(*one)
    stage = world.views._stage
    assert stage is not None
    random.shuffle(names)
    for name in names:
        world.views.detach(name)
    kept = [
        stage._members,
        stage._shared,
        stage._showings,
        stage.viewers,
        stage.recomputed,
        stage.filtered,
        stage.rendered,
    ]
    audience = stage._audience
    kept += [audience.watchers, audience._everyone, audience._near, audience._reach, audience._related]
    assert not any(kept)
    assert world.views._stage is None
    assert world.views._policies == {}


def test_policies_that_nobody_has_any_more_are_let_go() -> None:
    """An agent that changes its policy again and again leaves no trail."""
    world = World(("Move", {"to": [0, 0]}, "ann"))
    world.agent("ann")
    for limit in range(200):
        world.does(*registered("ann", ObservationPolicy(PolicyConfig(distance_limit=float(limit)))))
    assert len(world.views._policies) < 50
    assert world.views.policy("ann").distance_limit == 199.0


# -- taking over ---------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_a_view_is_taken_over_where_it_is(seed: int) -> None:
    """It has the same content, seq and digest, what it remembers too, and the same deltas from there on."""
    random = Random(seed)
    said = long_story(random, 80)
    cut = random.randint(8, 70)
    old = World(*said[:7])
    for name in old.views.fold.state.metadata["agents"]:
        old.views.attach(name)
    for one in said[7:cut]:
        old.does(*one)
    new = World(*said[:cut])
    for name in old.views.attached:
        assert new.views.adopt(name, old.views) == old.views.view(name)
    for one in said[cut:]:
        assert old.does(*one) == new.does(*one)
    for name in old.views.attached:
        assert new.views.view(name) == old.views.view(name)


def test_only_a_view_of_the_same_moment_is_taken_over() -> None:
    """At another seq it is refused, and an agent that is not attached there has none."""
    world, other = World(), World()
    for each in (world, other):
        each.agent("ann")
    other.moves("bob", 1.0, 1.0)
    with pytest.raises(ValueError, match="seq 2 cannot be taken over at seq 1"):
        world.views.adopt("ann", other.views)
    world.moves("bob", 1.0, 1.0)
    with pytest.raises(KeyError):
        world.views.adopt("bob", other.views)
    assert world.views.adopt("ann", world.views) == other.views.view("ann")


# -- what is not worked out twice ----------------------------------------------------------------------------


@register_policy("test-counting")
class Counting(ObservationPolicy):
    """Counts how often it is asked how an entity looks."""

    asked = 0

    def show_entity(self, entity: Mapping[str, Any]) -> dict[str, Any]:
        """Show it as it is."""
        Counting.asked += 1
        return super().show_entity(entity)


def test_a_view_that_is_taken_over_is_not_made_again() -> None:
    """How entities look was worked out where the view was begun; what changes later is looked at where it is now."""
    here, there = World(), World()
    for world in (here, there):
        for n in range(30):
            world.moves(f"e{n}", n, 0.0)
        world.does(*registered("ann", Counting()))
    there.views.attach("ann")
    Counting.asked = 0
    view = here.views.adopt("ann", there.views)
    assert (Counting.asked, view) == (0, there.views.view("ann"))
    for world in (here, there):
        world.moves("e3", 0.0, 9.0)
    assert here.views.view("ann") == there.views.view("ann")
    assert Counting.asked == 2
    here.views.detach("ann")
    assert here.views.attach("ann") == there.views.view("ann")


def test_deltas_have_no_digest_where_none_is_wanted() -> None:
    """The view's own is right all the same, whenever it is asked for."""
    here, there = World(), World()
    for world in (here, there):
        world.agent("ann")
        world.moves("bob", 1.0, 1.0)
    (effect,) = effects_of([("Move", {"to": [2.0, 0.0, 0.0]}, "bob")], here.views.seq + 1)
    ((_, with_digest, _),) = here.views.apply(effect)
    ((_, without, _),) = there.views.apply(effect, digests=False)
    assert (without.context_digest, without.patches) == ("", with_digest.patches)
    assert there.views.view("ann").context_digest == with_digest["context_digest"]
