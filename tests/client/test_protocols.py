"""Policies, configurations and latency models that subclass nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest

from worldledger.client import World
from worldledger.deltas import DeltaMembers, View
from worldledger.effects import Effect
from worldledger.errors import InvalidPolicyError, UnregisteredPolicyError
from worldledger.observation import ObservationPolicy, PolicyConfig
from worldledger.patches import diff
from worldledger.policies import policy_from_spec, policy_spec, register_latency_model, register_policy
from worldledger.protocols import LatencyModelProtocol, ObservationPolicyProtocol, PolicyConfigProtocol
from worldledger.world import WorldState

from .helpers import after, emitted, entity, same_view, soon, speak, texts


@register_latency_model("test-short-wait")
class ShortWait:
    """Everything is seen a little later."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def calculate_delay(self, from_agent: str, to_agent: str, effect: Effect) -> float:
        """Return the same for all."""
        return self.seconds


@dataclass
class Config:
    """A configuration with the four attributes."""

    distance_limit: float = inf
    relationship_filter: list[str] = field(default_factory=list)
    field_visibility: dict[str, bool] = field(default_factory=dict)
    latency_model: LatencyModelProtocol = field(default_factory=lambda: ShortWait(0.0))


@register_policy("test-own-policy")
class OwnPolicy:
    """A policy: three methods, four attributes."""

    def __init__(self, config: PolicyConfigProtocol) -> None:
        self.distance_limit = config.distance_limit
        self.relationship_filter = config.relationship_filter
        self.field_visibility = config.field_visibility
        self.latency_model = config.latency_model

    def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
        """Show the entities, without fields that are not to be seen."""
        seen = {
            name: {key: value for key, value in data.items() if self.field_visibility.get(key, True)}
            for name, data in world_state.entities.items()
        }
        return View(agent_id=agent_id, view_seq=0, visible_entities=seen, visible_relationships={}, context_digest="")

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Observe what others say."""
        return effect["source_id"] != agent_id

    def calculate_observation_delta(self, old_view: View, new_view: View) -> DeltaMembers:
        """Return the four members."""
        before, now = ({"visible_entities": view.visible_entities} for view in (old_view, new_view))
        return {
            "view_seq": new_view.view_seq,
            "patches": diff(before, now),
            "context_digest": new_view.context_digest,
            "schema_version": "1.0.0",
        }


def made(**settings: Any) -> ObservationPolicyProtocol:
    """Make the policy."""
    return OwnPolicy(Config(**settings))


async def test_a_policy_by_protocol_is_lived_by(world: World) -> None:
    """An agent with such a policy sees, hears and acts; its views of the past are made again from the log."""
    policy = made(field_visibility={"secret": False}, latency_model=ShortWait(0.001))
    alice = await world.register_agent("alice", policy)
    known = (await world.agents())["alice"]["policy"]
    assert (known["name"], known["version"]) == ("test-own-policy", 1)
    assert known["config"]["latency_model"] == {
        "name": "test-short-wait",
        "version": 1,
        "config": {"seconds": 0.001},
    }
    view = alice.initial_view
    assert view is not None
    await world.broadcast_event(entity("lamp", lit=True, secret=7))
    await world.broadcast_event(emitted("hello", "bob"))
    first, second = await soon(alice.next_observation()), await soon(alice.next_observation())
    assert texts(second) == ["hello"]
    view = after(view, first, second)
    assert view.visible_entities["lamp"] == {"lit": True}
    assert await same_view(world, view)
    await alice.submit_intent(speak("good morning"))
    own = await soon(alice.next_observation())
    assert own.events == []
    await world.register_agent("alice", made(latency_model=ShortWait(0.0)))
    assert (await world.view("alice")).visible_entities["lamp"] == {"lit": True, "secret": 7}


async def test_a_configuration_by_protocol(world: World) -> None:
    """A policy of ours goes by any object that has the four attributes."""
    config = Config(distance_limit=5, field_visibility={"hp": False}, latency_model=ShortWait(0.25))
    policy = ObservationPolicy(config)
    same = ObservationPolicy(
        PolicyConfig(distance_limit=5.0, field_visibility={"hp": False}, latency_model=ShortWait(0.25))  # type: ignore[arg-type]
    )
    assert policy_spec(policy) == policy_spec(same)
    await world.register_agent("alice", policy)
    again = policy_from_spec((await world.agents())["alice"]["policy"])
    assert (again.distance_limit, again.field_visibility) == (5.0, {"hp": False})
    state = WorldState()
    effect: Any = {"kind": "Said", "source_id": "b", "payload": {}}
    assert again.latency_model.delay("b", "alice", effect, state) == 0.25


def test_what_is_missing_is_told() -> None:
    """At registration the class's methods, where an agent is registered the attributes; names of both."""

    class Deaf:
        def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
            raise NotImplementedError

    with pytest.raises(TypeError, match="lacks should_observe_event, calculate_observation_delta"):
        register_policy("test-deaf")(Deaf)
    with pytest.raises(TypeError, match="lacks calculate_delay"):
        register_latency_model("test-timeless")(Config)
    with pytest.raises(TypeError, match="is no class"):
        register_policy("test-none")(made())  # type: ignore[type-var]
    with pytest.raises(InvalidPolicyError, match="Deaf is no observation policy: it lacks should_observe_event"):
        policy_spec(Deaf())  # type: ignore[arg-type]
    half = made()
    del half.latency_model
    with pytest.raises(InvalidPolicyError, match="OwnPolicy lacks latency_model"):
        policy_spec(half)
    with pytest.raises(InvalidPolicyError, match="lacks distance_limit"):
        ObservationPolicy(object())  # type: ignore[arg-type]
    with pytest.raises(InvalidPolicyError):
        ObservationPolicy(Config(distance_limit=-1.0))


def test_a_class_without_a_name_cannot_be_stored() -> None:
    """A policy or model by protocol needs a registered name, as others do."""

    class Nameless(OwnPolicy):
        """Another class."""

    class NamelessModel(ShortWait):
        """Another class."""

    with pytest.raises(UnregisteredPolicyError, match="Nameless"):
        policy_spec(Nameless(Config()))
    with pytest.raises(UnregisteredPolicyError, match="NamelessModel"):
        policy_spec(made(latency_model=NamelessModel(1.0)))
