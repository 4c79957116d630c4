"""Keeping the views of many agents: who is told what, what it costs, and what happens when a policy fails."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rulesets import chess_worlds
from tests.rulesets.sandboxes import Said, effects_of
from worldledger.effects import Effect
from worldledger.errors import FoldError, UnknownAgentError, UnregisteredPolicyError
from worldledger.folding import Fold
from worldledger.observation import (
    DistanceLatency,
    FixedLatency,
    LatencyModel,
    ObservationPolicy,
    ObservedEvent,
    PolicyConfig,
    View,
    apply_delta,
)
from worldledger.policies import register_latency_model, register_policy
from worldledger.rulesets.chess import RULESET as CHESS
from worldledger.rulesets.sandbox import RULESET
from worldledger.views import Sighting, Views
from worldledger.world import WorldState

from .seeing import long_story, registered


class World:
    """A world whose views are kept."""

    def __init__(self, *said: Said) -> None:
        self.views = Views(Fold("w", RULESET))
        for one in said:
            self.does(*one)

    def does(self, kind: str, payload: dict[str, Any], source: str = "god") -> dict[str, Sighting]:
        """Let something happen; give what is seen of it, by agent."""
        (effect,) = effects_of([(kind, payload, source)], self.views.seq + 1)
        return {sighting.agent_id: sighting for sighting in self.views.apply(effect)}

    def agent(self, agent_id: str, policy: type[ObservationPolicy] = ObservationPolicy, **config: Any) -> View:
        """Register an agent and attach it."""
        self.does(*registered(agent_id, policy(policy.config_class(**config))))
        return self.views.attach(agent_id)

    def moves(self, name: str, *to: float) -> dict[str, Sighting]:
        """Let an entity stand somewhere else."""
        return self.does("Move", {"to": list(to)}, name)


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
    kept = [stage._members, stage._shared, stage._showings, stage.onlookers, stage.wholes, stage.askers, stage.showers]
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


# -- other policies ------------------------------------------------------------------------------------------


def test_a_new_registration_changes_the_view() -> None:
    """The delta leads to what the new policy shows; the same policy again is no change."""
    world = World(("Move", {"to": [0, 0]}, "ann"), ("Move", {"to": [3, 0]}, "bob"), ("Move", {"to": [9, 0]}, "far"))
    old = world.agent("ann", distance_limit=5.0)
    assert world.does(*registered("ann", world.views.policy("ann"), weight=3)) == {}
    policy = ObservationPolicy(PolicyConfig(field_visibility={"position": False}, distance_limit=None))  # type: ignore[arg-type]  # as from JSON
    (sighting,) = world.does(*registered("ann", policy)).values()
    view = apply_delta(old, sighting.delta)
    assert view == world.views.view("ann")
    assert view.context_digest == policy.filter_world_state(world.views.fold.state, "ann").context_digest
    assert set(view.visible_entities) == {"ann", "bob", "far"}
    assert world.does(*registered("bob", policy)) == {}


def test_a_new_policy_forgets_what_the_old_one_remembered() -> None:
    """What is out of sight under a new policy is removed, even if it has no remove operations itself."""
    world = World(("Move", {"to": [0, 0]}, "ann"), ("Move", {"to": [3, 0]}, "bob"))
    world.agent("ann", distance_limit=5.0, remove_operations=False)
    world.moves("bob", 50.0, 0.0)
    assert set(world.views.view("ann").visible_entities) == {"ann", "bob"}
    policy = ObservationPolicy(PolicyConfig(distance_limit=6.0, remove_operations=False))
    (sighting,) = world.does(*registered("ann", policy)).values()
    assert sighting.delta["patches"] == [{"op": "remove", "path": "/visible_entities/bob"}]


def test_a_policy_that_is_not_known_here_turns_its_agent_out() -> None:
    """An attached agent that is registered with one is detached, with the error; the others go on."""
    world = World()
    world.agent("ann")
    world.agent("bob")
    payload = registered("ann", ObservationPolicy())[1]
    payload["policy"]["name"] = "unheard-of"
    world.does("AgentRegistered", payload)
    assert world.views.attached == ["bob"]
    assert isinstance(world.views.failed["ann"], UnregisteredPolicyError)
    with pytest.raises(UnregisteredPolicyError):
        world.views.attach("ann")
    assert list(world.moves("cat", 1.0, 1.0)) == ["bob"]


class _Touchy(ObservationPolicy):
    """Fails as soon as there is an entity called bad."""


@register_policy("test-touchy-sees")
class TouchySees(_Touchy):
    """Fails to tell whether it sees it."""

    def sees_entity(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Fail."""
        if entity_id == "bad":
            raise ArithmeticError("bad")
        return True


@register_policy("test-touchy-shows")
class TouchyShows(_Touchy):
    """Fails to show it."""

    def show_entity(self, entity: Mapping[str, Any]) -> dict[str, Any]:
        """Fail."""
        if "bad" in entity:
            raise ArithmeticError("bad")
        return dict(entity)


@register_policy("test-touchy-filter")
class TouchyFilter(_Touchy):
    """Fails to make a view."""

    def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
        """Fail."""
        if "bad" in world_state.entities:
            raise ArithmeticError("bad")
        return super().filter_world_state(world_state, agent_id)


@register_policy("test-touchy-observes")
class TouchyObserves(_Touchy):
    """Fails to tell whether it observes it."""

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Fail."""
        if "bad" in world_state.entities:
            raise ArithmeticError("bad")
        return True


@register_policy("test-touchy-event")
class TouchyEvent(_Touchy):
    """Fails to show events about it."""

    def show_event(self, effect: Effect) -> ObservedEvent | None:
        """Fail."""
        if effect["payload"].get("entity_id") == "bad":
            raise ArithmeticError("bad")
        return super().show_event(effect)


@register_latency_model("test-touchy-latency")
class TouchyLatency(LatencyModel):
    """Fails to say how long it takes."""

    def calculate_delay(self, from_agent: str, to_agent: str, effect: Effect) -> float:
        """Fail."""
        if effect["payload"].get("entity_id") == "bad":
            raise ArithmeticError("bad")
        return 1.0


_BAD: Said = ("EntityCreated", {"entity_id": "bad", "entity_data": {"bad": True}, "position": [1.0, 1.0]}, "god")


@pytest.mark.parametrize("limit", [float("inf"), 9.0])
@pytest.mark.parametrize("policy", [TouchySees, TouchyShows, TouchyFilter, TouchyObserves, TouchyEvent, None])
def test_a_policy_that_fails_turns_its_agents_out(policy: type[ObservationPolicy] | None, limit: float) -> None:
    """They are detached with what was raised; the others go on, and see what they would have seen."""
    world, alone = World(), World()
    for each in (world, alone):
        for name in ("ann", "bob", "cat"):
            each.moves(name, 0.0, 0.0)
        each.agent("bob", distance_limit=limit)
    for name in ("ann", "cat"):
        if policy is None:
            world.agent(name, distance_limit=limit, latency_model=TouchyLatency())
        else:
            world.agent(name, policy, distance_limit=limit)
        alone.does("Trade", {})
    assert set(world.moves("bob", 1.0, 0.0)) == {"ann", "bob", "cat"}
    alone.moves("bob", 1.0, 0.0)
    assert world.does(*_BAD) == alone.does(*_BAD)
    assert world.views.attached == ["bob"]
    assert {name: str(error) for name, error in world.views.failed.items()} == {"ann": "bad", "cat": "bad"}
    assert world.moves("bad", 2.0, 0.0) == alone.moves("bad", 2.0, 0.0)
    if policy in {TouchySees, TouchyShows, TouchyFilter}:
        with pytest.raises(ArithmeticError):
            world.views.attach("ann")
        assert world.views.attached == ["bob"]
    world.does("EntityRemoved", {"entity_id": "bad"})
    assert world.views.attach("ann").visible_entities == world.views.view("bob").visible_entities
    assert world.views.failed.keys() == {"cat"}


def test_a_fold_that_fails_is_told_to_the_caller() -> None:
    """The views end where the fold ends."""
    world = World()
    world.agent("ann")
    with pytest.raises(FoldError):
        world.does("WorldCreated", {})


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


# -- worlds of another kind ----------------------------------------------------------------------------------


def test_a_chess_game_is_seen_move_by_move() -> None:
    """Both players and a spectator see the board; who is shown no clocks sees none; each move is an event."""
    drafts = [chess_worlds.started(), *[chess_worlds.moved(uci, clock=60.0) for uci in ("e2e4", "e7e5", "g1f3")]]
    views = Views(Fold("w", CHESS))
    policies = {
        "ana": ObservationPolicy(),
        "bo": ObservationPolicy(PolicyConfig(field_visibility={"clock": False, "thinking_time": False})),
        "fan": ObservationPolicy(PolicyConfig(distance_limit=1.0)),
    }
    for effect in effects_of([registered(*item) for item in policies.items()]):
        views.apply(effect)
    for name in policies:
        assert views.attach(name).visible_entities == {}
    kept = {name: views.view(name) for name in policies}
    for seq, posted in enumerate(drafts, 4):
        sightings = views.apply(chess_worlds.effects([posted] * seq)[-1])
        assert [sighting.agent_id for sighting in sightings] == ["ana", "bo", "fan"]
        for agent_id, delta, _ in sightings:
            kept[agent_id] = apply_delta(kept[agent_id], delta)
            assert [event["kind"] for event in delta["events"]] == [posted["kind"]]
            assert "clock" not in delta["events"][0]["payload"] or agent_id != "bo"
    for name, policy in policies.items():
        expected = policy.filter_world_state(views.fold.state, name)
        assert kept[name] == views.view(name) == expected
    assert kept["ana"].visible_entities["board"]["last_move"]["uci_notation"] == "g1f3"
    assert kept["ana"].visible_entities["white"]["clock"] == 60.0
    assert "clock" not in kept["bo"].visible_entities["white"]


# -- cost ----------------------------------------------------------------------------------------------------


def _calls(world: World, said: list[Said]) -> int:
    """Count the calls that keeping up with these effects takes."""
    effects = effects_of(said, world.views.seq + 1)
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for effect in effects:
            world.views.apply(effect)
    finally:
        sys.setprofile(before)
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
