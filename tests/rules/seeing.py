"""Worlds with agents for tests of views: policies of every kind, logs in which much comes into sight and goes again."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from random import Random
from typing import Any

from hypothesis import strategies as st
from worldledger_sandbox.rules import RULESET

from tests.rulesets.sandbox.worlds import NAMES, SAID, Said, effects_of
from worldledger.deltas import ObservationDelta, ObservedEvent, View
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.latency import DistanceLatency, FixedLatency
from worldledger.observability import MatrixPolicy, MatrixPolicyConfig
from worldledger.observability.config import ObservabilityLevel, Sight
from worldledger.observability.policy import FirstMatrixPolicy, FirstMatrixPolicyConfig
from worldledger.observation import FirstObservationPolicy, FirstPolicyConfig, ObservationPolicy, PolicyConfig, ViewCone
from worldledger.policies import policy_spec, register_policy
from worldledger.space import FieldOfView
from worldledger.views import Sighting, Views
from worldledger.world import WorldState


@register_policy("test-healthy")
class Healthy(ObservationPolicy):
    """Sees entities by their own data, the agent's and what is between both."""

    def sees_entity(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Tell by the points of both, and whether the agent is related to the entity."""
        if entity_id == agent_id or entity_id not in world_state.entities:
            return entity_id in world_state.entities
        mine = world_state.entities.get(agent_id, {}).get("hp", 0)
        return mine <= world_state.entities[entity_id].get("hp", 0) or entity_id in world_state.relationships.get(
            agent_id, ()
        )


@register_policy("test-wholesale")
class Wholesale(ObservationPolicy):
    """Makes views of its own, of the state's very objects."""

    def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
        """Show what has a name as long as the number of entities."""
        count = len(world_state.entities)
        seen = {name: entity for name, entity in world_state.entities.items() if len(name) <= count}
        return View.of(agent_id, world_state.metadata["last_effect_seq"], seen, {"entities": [str(count)]})


@register_policy("test-own-delta")
class OwnDelta(ObservationPolicy):
    """Tells of everything by one operation."""

    def calculate_observation_delta(self, old_view: View, new_view: View) -> ObservationDelta:
        """Replace all entities if any is another."""
        delta = super().calculate_observation_delta(old_view, new_view)
        if delta["patches"]:
            after = View.of(new_view.agent_id, new_view.view_seq, new_view.visible_entities, {"new": []})
            delta["patches"] = [
                {"op": "replace", "path": "/visible_entities", "value": after.visible_entities},
                {"op": "replace", "path": "/visible_relationships", "value": after.visible_relationships},
            ]
            delta["context_digest"] = after.context_digest
        return delta


@register_policy("test-masked")
class Masked(ObservationPolicy):
    """Shows entities and events in its own way, and observes events of its own choice."""

    def show_entity(self, entity: Mapping[str, Any]) -> dict[str, Any]:
        """Show how much there is, and whether it stands to the right."""
        position = entity.get("position")
        return {"size": len(entity), "right": position is not None and position[0] > 0}

    def show_event(self, effect: Effect) -> ObservedEvent | None:
        """Show every kind, without a payload."""
        return {
            "global_seq": effect["global_seq"],
            "kind": effect["kind"],
            "source_id": "somebody",
            "sim_time": 0.0,
            "payload": {},
            "schema_version": "2.0.0",
        }


@register_policy("test-personal")
class Personal(ObservationPolicy):
    """Shows entities and events to each agent in its own way, by the turn."""

    def show_entity_to(self, world_state: WorldState, agent_id: str, entity_id: str) -> dict[str, Any]:
        """Show who looks, when and at what."""
        turn = world_state.metadata.get("turn", 0)
        return {"to": agent_id, "of": entity_id, "turn": turn, "size": len(world_state.entities[entity_id])}

    def show_event_to(self, effect: Effect, agent_id: str, world_state: WorldState) -> ObservedEvent | None:
        """Show every event as one of whom it is shown to; of moves, one of those of every second agent."""
        event = super().show_event_to(effect, agent_id, world_state)
        return None if event is None or len(agent_id) % 2 else {**event, "payload": {"to": agent_id}}


@register_policy("test-choosy")
class Choosy(ObservationPolicy):
    """Observes by turns."""

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Observe what comes at an even seq."""
        return effect["global_seq"] % 2 == 0


@register_policy("test-squinting")
class Squinting(ObservationPolicy):
    """Sees as far as it has points, and is aware of nobody by name."""

    def field_of_view(self, world_state: WorldState, agent_id: str) -> FieldOfView | None:
        """See from where the agent stands."""
        here = world_state.spatial_index.get(agent_id)
        if here is None:
            return None
        x, y, z = here
        return FieldOfView((x, y, z), float(world_state.entities[agent_id].get("hp", 1)))

    def is_aware_of(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Know of those with short names."""
        return len(entity_id) < 4


OWN = (Healthy, Masked, Personal, Choosy, Squinting, OwnDelta, Wholesale)

_CONES = st.one_of(
    st.none(),
    st.none(),
    st.builds(
        ViewCone,
        angle=st.sampled_from([0.0, 90.0, 180.0, 360.0]),
        range=st.sampled_from([None, 0.0, 2.0]),
        direction=st.sampled_from([None, None, [1.0, 0.0], [0.0, -1.0, 0.0]]),
    ),
)

_FIRST: dict[str, st.SearchStrategy[Any]] = {
    "distance_limit": st.sampled_from([inf, 0.0, 1.0, 2.0, 2.5, 1e5, 1e200]),
    "relationship_filter": st.sampled_from([[], [], ["x"], ["interact", "y"]]),
    "field_visibility": st.sampled_from(
        [{}, {}, {"position": False}, {"*": False, "hp": True}, {"*": False}, {"text": False, "hp": True}]
    ),
    "latency_model": st.sampled_from([None, FixedLatency(0.5), DistanceLatency(0.25, 1.0, 9.0)]).map(
        lambda model: PolicyConfig().latency_model if model is None else model
    ),
    "remove_operations": st.sampled_from([True, True, False]),
}
#: Configurations of every kind.
CONFIGS: st.SearchStrategy[PolicyConfig] = st.builds(
    PolicyConfig,
    **_FIRST,
    visibility_range=st.booleans(),
    view_cone=_CONES,
    rules=st.sampled_from([1, 2, 2, 2]),
)
#: Names of agents; eve has no entity unless an effect makes one.
AGENTS = st.one_of(NAMES, st.just("eve"))
#: The key of the noise in tests.
KEY = "0123456789abcdef0123456789abcdef"
_SIGHTS: st.SearchStrategy[Sight] = st.tuples(
    st.sampled_from(list(ObservabilityLevel)), st.sampled_from([0.0, 0.0, 0.1, 3.0])
)
#: Rows of matrices.
MATRICES: st.SearchStrategy[MatrixPolicyConfig] = st.builds(
    MatrixPolicyConfig,
    distance_limit=st.sampled_from([inf, inf, 2.0]),
    relationship_filter=st.sampled_from([[], [], ["x"]]),
    field_visibility=st.sampled_from([{}, {}, {"position": False}]),
    remove_operations=st.sampled_from([True, True, False]),
    targets=st.dictionaries(AGENTS, _SIGHTS, max_size=3),
    default=_SIGHTS,
    internal=st.sampled_from([[], ["hp"], ["hp", "text", "position"]]),
    bounds=st.sampled_from([{}, {"*": {"hp": {"min": 0, "max": 9}}}, {"*": {"hp": {"max": 2}}, "ann": {}}]),
    noise_key=st.just(KEY),
    noise_scope=st.sampled_from(["turn", "value"]),
    visibility_range=st.booleans(),
    view_cone=_CONES,
)
#: Policies of every kind.
POLICIES: st.SearchStrategy[ObservationPolicy] = st.one_of(
    st.builds(ObservationPolicy, CONFIGS),
    st.builds(ObservationPolicy, CONFIGS),
    st.sampled_from(OWN).flatmap(lambda cls: st.builds(cls, CONFIGS)),
    st.builds(MatrixPolicy, MATRICES),
    st.builds(FirstObservationPolicy, st.builds(FirstPolicyConfig, **_FIRST)),
    MATRICES.map(
        lambda row: FirstMatrixPolicy(
            FirstMatrixPolicyConfig(**{name: getattr(row, name) for name in FirstMatrixPolicyConfig.model_fields})
        )
    ),
)


def registered(agent_id: str, policy: ObservationPolicy, weight: int = 1) -> Said:
    """Return the registration of an agent."""
    payload = {"agent_id": agent_id, "policy": policy_spec(policy), "permissions": [], "weight": weight}
    return ("AgentRegistered", payload, "worldledger")


_SMALL = st.lists(st.integers(-2, 2).map(float), min_size=2, max_size=2)
_DATA = st.fixed_dictionaries(
    {},
    optional={
        "hp": st.integers(0, 2),
        "visibility_range": st.sampled_from([0, 1.0, 2.5, -1, "far", True]),
        "direction": st.sampled_from([[1, 0], [0.0, 1.0, 0.0], [-1.0, 0.5], [0, 0], "north"]),
    },
)


def whispered(source: str, target: str, text: str = "a", kind: str = "Speak") -> Said:
    """Return a private message as the sandbox writes it."""
    audience = sorted({source, target})
    return (kind, {"text": text, "private": True, "target_id": target, "audience": audience}, source)


#: Effects by which something comes into sight or goes: all in a small place.
STIR: st.SearchStrategy[Said] = st.one_of(
    st.tuples(st.just("Move"), st.fixed_dictionaries({"to": _SMALL}), AGENTS),
    st.tuples(st.just("Move"), st.fixed_dictionaries({"to": _SMALL}), AGENTS),
    st.tuples(st.just("Speak"), st.fixed_dictionaries({"text": st.sampled_from("ab")}), AGENTS),
    st.tuples(
        st.just("EntityCreated"),
        st.fixed_dictionaries(
            {"entity_id": AGENTS, "entity_data": _DATA},
            optional={"position": _SMALL},
        ),
        AGENTS,
    ),
    st.tuples(st.just("EntityRemoved"), st.fixed_dictionaries({"entity_id": AGENTS}), AGENTS),
    st.tuples(
        st.just("RelationshipSet"),
        st.fixed_dictionaries(
            {"from_entity": AGENTS, "to_entity": AGENTS, "relationship_type": st.sampled_from("xyz")}
        ),
        AGENTS,
    ),
    st.tuples(
        st.just("RelationshipRemoved"),
        st.fixed_dictionaries(
            {"from_entity": AGENTS, "to_entity": AGENTS}, optional={"relationship_type": st.sampled_from("xyz")}
        ),
        AGENTS,
    ),
    st.tuples(st.just("Trade"), st.fixed_dictionaries({}, optional={"target_id": AGENTS, "hp": st.just(1)}), AGENTS),
    st.builds(whispered, AGENTS, AGENTS, kind=st.sampled_from(["Speak", "MessageEmitted", "Trade"])),
    st.tuples(
        st.sampled_from(["Trade", "Speak", "Blast"]),
        st.fixed_dictionaries(
            {
                "text": st.just("a"),
                "sees": st.one_of(
                    st.lists(st.one_of(AGENTS, AGENTS, st.sampled_from(["nobody", 7, None, ["ann"]])), max_size=3),
                    st.sampled_from(["ann", None, {"ann": True}]),
                ),
            },
            optional={"target_id": AGENTS, "position": _SMALL},
        ),
        st.one_of(AGENTS, st.just("engine")),
    ),
    st.tuples(
        st.just("Blast"),
        st.fixed_dictionaries(
            {"position": st.one_of(_SMALL, _SMALL, st.sampled_from([[1e9, 0.0], [1], "here", [True, 0]]))},
            optional={"target_id": AGENTS, "entity_id": AGENTS},
        ),
        st.one_of(AGENTS, st.just("engine")),
    ),
    st.tuples(
        st.just("EntityUpdated"),
        st.builds(
            lambda name, field, value: {"entity_id": name, "patch": [{"op": "add", "path": field, "value": value}]},
            AGENTS,
            st.sampled_from(["/visibility_range", "/direction"]),
            st.sampled_from([0, 1.5, 3.0, [1, 0], [0.0, -1.0]]),
        ),
        AGENTS,
    ),
    st.tuples(st.just("Whisper"), st.fixed_dictionaries({"text": st.sampled_from("ab")}), AGENTS),
    st.tuples(st.just("TurnStarted"), st.fixed_dictionaries({"turn": st.integers(0, 3)}), st.just("engine")),
    st.builds(registered, AGENTS, POLICIES),
)


def long_story(random: Random, length: int) -> list[Said]:
    """Return a long log in which the same few come and go; shorter to draw than by strategies, and cannot be shrunk."""
    names = ["ann", "bob", "café", "a/b~c", "10", "eve", "zoe"]
    visibility = [{}, {}, {"position": False}, {"*": False, "hp": True}, {"*": False}, {"text": False}]

    def sight() -> Sight:
        return random.choice(list(ObservabilityLevel)), random.choice([0.0, 0.1, 3.0])

    def policy() -> ObservationPolicy:
        if random.random() < 0.15:
            return MatrixPolicy(
                MatrixPolicyConfig(
                    distance_limit=random.choice([inf, inf, 2.0]),
                    remove_operations=random.random() < 0.7,
                    targets={name: sight() for name in names if random.random() < 0.5},
                    default=sight(),
                    internal=random.choice([[], ["hp"]]),
                    bounds=random.choice([{}, {"*": {"hp": {"min": 0, "max": 2}}}]),
                    noise_key=KEY,
                )
            )
        cls = random.choice([ObservationPolicy] * 12 + list(OWN))
        cone = ViewCone(
            angle=random.choice([45.0, 90.0, 180.0, 360.0]),
            range=random.choice([None, 2.0]),
            direction=random.choice([None, None, [1.0, 0.0]]),
        )
        return cls(
            PolicyConfig(
                visibility_range=random.random() < 0.3,
                view_cone=cone if random.random() < 0.3 else None,
                rules=1 if random.random() < 0.2 else 2,
                distance_limit=random.choice([inf, inf, 0.0, 1.0, 1.5, 2.0, 3.0, 1e200]),
                relationship_filter=random.choice([[], [], ["x"], ["interact", "y"]]),
                field_visibility=random.choice(visibility),
                remove_operations=random.random() < 0.7,
            )
        )

    def point() -> list[float]:
        return [float(random.randint(-2, 2)) for _ in range(random.choice([2, 2, 3]))]

    said: list[Said] = [registered(name, policy()) for name in names]
    while len(said) < length:
        name, other = random.choice(names), random.choice(names)
        kind = random.choice("MMMMMSSICCCUURXXYYTTGWNBBPF")
        ends = {"from_entity": name, "to_entity": other}
        data: dict[str, Any] = {"hp": random.randint(0, 2)} if random.random() < 0.5 else {}
        if kind == "M":
            said.append(("Move", {"to": point()}, name))
        elif kind == "S":
            said.append(("Speak", {"text": random.choice("ab")}, name))
        elif kind == "I":
            said.append(("Interact", {"target_id": other}, name))
        elif kind == "C":
            place = {"position": point()} if random.random() < 0.5 else {}
            said.append(("EntityCreated", {"entity_id": other, "entity_data": data, **place}, name))
        elif kind == "U":
            operation = random.choice(
                [
                    {"op": "remove", "path": "/position"},
                    {"op": "add", "path": "/position", "value": point()},
                    {"op": "add", "path": "/hp", "value": random.randint(0, 2)},
                ]
            )
            said.append(("EntityUpdated", {"entity_id": other, "patch": [operation]}, name))
        elif kind == "R":
            said.append(("EntityRemoved", {"entity_id": other}, name))
        elif kind == "X":
            said.append(("RelationshipSet", {**ends, "relationship_type": random.choice("xyz")}, name))
        elif kind == "Y":
            one = {"relationship_type": random.choice("xyz")} if random.random() < 0.5 else {}
            said.append(("RelationshipRemoved", {**ends, **one}, name))
        elif kind == "T":
            said.append(("Trade", {**random.choice([{}, {"target_id": other}]), **data}, random.choice([name, "fog"])))
        elif kind == "W":
            said.append(("Whisper", {"text": "a"}, name))
        elif kind == "P":
            said.append(whispered(name, other, kind=random.choice(["Speak", "SpeakResponse", "Trade"])))
        elif kind == "B":
            said.append(("Blast", {"position": point(), **random.choice([{}, {"target_id": other}])}, name))
        elif kind == "F":
            look = random.choice([("direction", point()), ("visibility_range", float(random.randint(0, 4)))])
            patch = [{"op": "add", "path": f"/{look[0]}", "value": look[1]}]
            said.append(("EntityUpdated", {"entity_id": other, "patch": patch}, name))
        elif kind == "N":
            said.append(("TurnStarted", {"turn": random.randint(0, 3)}, "engine"))
        elif random.random() < 0.3:
            said.append(registered(name, policy()))
    return said


#: What happens in a world with agents.
HAPPENINGS: st.SearchStrategy[list[Said]] = st.lists(st.one_of(STIR, STIR, STIR, SAID), max_size=30)


class World:
    """A world whose views are kept."""

    def __init__(self, *said: Said) -> None:
        self.views = Views(Fold("w", RULESET))
        for one in said:
            self.does(*one)

    def does(self, kind: str, payload: dict[str, Any], source: str = "god") -> dict[str, Sighting]:
        """Let something happen; return what is seen of it, by agent."""
        (effect,) = effects_of([(kind, payload, source)], self.views.seq + 1)
        return {sighting.agent_id: sighting for sighting in self.views.apply(effect)}

    def agent(self, agent_id: str, policy: type[ObservationPolicy] = ObservationPolicy, **config: Any) -> View:
        """Register an agent and attach it."""
        self.does(*registered(agent_id, policy(policy.config_class(**config))))
        return self.views.attach(agent_id)

    def moves(self, name: str, *to: float) -> dict[str, Sighting]:
        """Let an entity stand somewhere else."""
        return self.does("Move", {"to": list(to)}, name)
