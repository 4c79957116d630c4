"""The shapes of agents, their intents, observations and generations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue, RootModel

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_PRIORITY
from worldledger.intents import DEFAULT_PERMISSIONS, MAX_PERMISSIONS, MAX_WEIGHT
from worldledger.staleness import MAX_ABOUT, InterruptPolicy
from worldledger_service.api.schemas.base import (
    CHECKSUM,
    HEX32,
    HEX64,
    GlobalSeq,
    Problem,
    SemanticVersion,
    Shape,
    Word,
)
from worldledger_service.api.schemas.states import PatchOperation

ContextSeq = Annotated[int, Field(ge=0, le=MAX_INT)]
StalenessThreshold = Annotated[int, Field(ge=0, le=MAX_INT)]
About = Annotated[list[Word], Field(max_length=MAX_ABOUT)]

_UUID = "0b9a1f7c5d3e4f60a1b2c3d4e5f60718"
_POLICY: dict[str, Any] = {"name": "default", "version": 2, "config": {"distance_limit": 50.0}}
_AGENT: dict[str, Any] = {
    "agent_id": "alice",
    "policy": _POLICY,
    "permissions": sorted(DEFAULT_PERMISSIONS),
    "weight": 1,
    "registered_seq": 7,
}
_VIEW: dict[str, Any] = {
    "agent_id": "alice",
    "view_seq": 42,
    "context_digest": CHECKSUM,
    "visible_entities": {"alice": {"position": [1.0, 2.5, 0.0]}},
    "visible_relationships": {},
}
_SILENCE: dict[str, Any] = {
    "authority": "unity",
    "last_tick_seq": 57,
    "reason": "disconnected",
    "global_seq": 58,
}
_INTENT: dict[str, Any] = {
    "kind": "Move",
    "payload": {"to": [1.0, 2.5]},
    "context_seq": 41,
    "req_id": "turn-17-alice",
    "agent_id": "alice",
}
_ACCEPTED: dict[str, Any] = {
    "agent_id": "alice",
    "req_id": "turn-17-alice",
    "global_seq": 42,
    "uuid": _UUID,
    "replayed": False,
}
_HELD: dict[str, Any] = {
    "held": True,
    "agent_id": "alice",
    "req_id": "turn-17-alice",
    "tick": 17,
    "order": 1,
    "replayed": False,
}
_CLOSED: dict[str, Any] = {
    "global_seq": 43,
    "uuid": _UUID,
    "checksum": CHECKSUM,
    "replayed": False,
    "tick": 17,
    "accepted": 20,
    "refused": 1,
}
_EVENT: dict[str, Any] = {
    "global_seq": 42,
    "kind": "Speak",
    "source_id": "bob",
    "sim_time": 12.5,
    "payload": {"text": "Good morning"},
    "schema_version": "1.0.0",
}
_DELTA: dict[str, Any] = {
    "view_seq": 42,
    "patches": [{"op": "replace", "path": "/visible_entities/bob/position", "value": [1.0, 2.5, 0.0]}],
    "context_digest": CHECKSUM,
    "schema_version": "1.0.0",
    "events": [],
}
_GENERATION: dict[str, Any] = {
    "agent_id": "alice",
    "req_id": "turn-18-alice",
    "context_seq": 42,
    "cancelled": True,
    "reason": "stale_due_to_effect_43",
}


# -- agents ------------------------------------------------------------------------------------------------


class PolicySpec(Shape):
    """A registered observation policy."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_POLICY]})

    name: str = Field(description="The name that it is registered under; `default` is the one of every installation.")
    version: Annotated[int, Field(ge=1, le=MAX_INT)] | None = Field(default=None, description="The newest if null.")
    config: dict[str, JsonValue] | None = Field(
        default=None,
        description="Of `default`: `distance_limit`, `visibility_range`, `view_cone`, `relationship_filter`, "
        "`field_visibility`, `latency_model`, `remove_operations`, `rules`.",
    )


class Registration(Shape):
    """An agent to be registered."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"agent_id": "alice", "policy": _POLICY}]}
    )

    agent_id: Word
    policy: PolicySpec | None = Field(default=None, description="What it sees; everything if null.")
    permissions: Annotated[list[Word], Field(max_length=MAX_PERMISSIONS)] | None = Field(
        default=None, description="What it may do; the usual five if null."
    )
    weight: Annotated[int, Field(ge=1, le=MAX_WEIGHT)] | None = Field(
        default=None, description="Its share among those that wait; 1 if null."
    )
    staleness_threshold: StalenessThreshold | None = Field(
        default=None,
        description="Sightings after which what it is about to do is stale; null: it never is. The world's if absent.",
    )
    interrupt_policy: InterruptPolicy | None = Field(
        default=None, description="Which sightings count; what the world says if null."
    )


class WorldAgent(Shape):
    """An agent that is registered in a world."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_AGENT]})

    agent_id: Word
    policy: PolicySpec
    permissions: list[Word]
    weight: int
    registered_seq: GlobalSeq = Field(description="The effect that registered it first.")
    staleness_threshold: StalenessThreshold | None = Field(
        default=None, description="Its own, where it has one; null: what it is about to do is never stale."
    )
    interrupt_policy: InterruptPolicy | None = Field(default=None, description="Its own, where it has one.")


class WorldAgentPage(Shape):
    """A page of a world's agents by name."""

    agents: list[WorldAgent]
    next_after: str | None = Field(description="The `after` of the next page; null when this is the last.")


class AgentView(Shape):
    """What an agent sees of the world."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_VIEW]})

    agent_id: Word
    view_seq: GlobalSeq = Field(description="The effect that made the view what it is.")
    context_digest: str = Field(
        pattern=HEX64, description="SHA-256 of the view without `view_seq` and itself, in the profile `state/1`."
    )
    visible_entities: dict[str, JsonValue] = Field(description="Each entity without the fields that are hidden.")
    visible_relationships: dict[str, list[str]] = Field(description="Each entity's related ones, sorted.")


class ObservingAgent(WorldAgent):
    """A registered agent, and where its observations go on."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{**_AGENT, "view_seq": 42}]})

    view_seq: GlobalSeq = Field(description="The view that it has acknowledged; at first, that of its registration.")


class RegisteredAgent(ObservingAgent):
    """A registered agent, with its view where its observations go on."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{**_AGENT, "view_seq": 42, "view": _VIEW}]}
    )

    view: AgentView


# -- intents -----------------------------------------------------------------------------------------------


class Intent(Shape):
    """What an agent wants to do."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_INTENT]})

    kind: Literal["Speak", "Move", "Interact", "Custom"]
    payload: dict[str, JsonValue] = Field(
        description="Speak: `text`. Move: `to` (2 or 3 numbers), `from`, `speed`. Interact: `target_id`. Custom: "
        "`kind` of the effect. Any may have `token_count`, and whatever else."
    )
    context_seq: ContextSeq | None = Field(
        default=None,
        description="The view_seq of the view that it was made from. Null or absent: that of the generation of its "
        "req_id; where none is under way none is recorded, which only a staleness_threshold of null allows. Over a "
        "WebSocket, absent means the newest that was handed out there.",
    )
    req_id: Word = Field(description="Idempotency key, unique per agent.")
    agent_id: Word
    priority: Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] | None = Field(
        default=None, description="Higher goes first among those that wait; the world's usual one if null."
    )
    schema_version: SemanticVersion | None = None
    order: Annotated[int, Field(ge=-MAX_INT, le=MAX_INT)] | None = Field(
        default=None,
        description="Its place among the agent's own of a tick, in a world whose `order` is `tick`; its count within "
        "the tick if null.",
    )
    staleness_threshold: StalenessThreshold | None = Field(
        default=None,
        description="Sightings after which it is stale; null: it never is. The generation's, the agent's or the "
        "world's if absent.",
    )
    about: About | None = Field(
        default=None, description="Ids that it concerns besides those of its payload, for `only_conflict`."
    )


class IntentList(Shape):
    """Several intents, in this order."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"intents": [_INTENT], "atomic": True}]})

    intents: Annotated[list[Intent], Field(min_length=1, max_length=1000)]
    atomic: bool = Field(default=False, description="Whether all are accepted or none.")
    ordered: bool = Field(
        default=True,
        description="Whether the list keeps its inner order in a tick, where the world is ordered by them.",
    )


class Intents(RootModel[Annotated[list[Intent], Field(min_length=1, max_length=1000)]]):
    """Several intents, in this order, each accepted or refused by itself."""

    model_config = ConfigDict(json_schema_extra={"examples": [[_INTENT]]})


class AcceptedIntent(Shape):
    """An intent that is an effect now."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_ACCEPTED]})

    agent_id: Word
    req_id: Word
    global_seq: GlobalSeq
    uuid: str = Field(pattern=HEX32, description="The effect's.")
    replayed: bool = Field(description="Whether an earlier request with this req_id made the effect.")


class HeldIntent(Shape):
    """An intent that is held until the next tick decides it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_HELD]})

    held: Literal[True]
    agent_id: Word
    req_id: Word
    tick: int = Field(ge=1, description="The number of the tick that decides it.")
    order: int = Field(description="Its place among the agent's own of that tick.")
    replayed: bool = Field(description="Whether it was held already.")


class IntentResults(Shape):
    """What became of each intent of a list, in its order: accepted, held, or a problem."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"results": [_ACCEPTED]}]})

    results: list[AcceptedIntent | HeldIntent | Problem]


# -- observations ------------------------------------------------------------------------------------------


class ObservedEvent(Shape):
    """Something that happened, as an agent may know it: parts of the effect of that `global_seq`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EVENT]})

    global_seq: GlobalSeq
    kind: Word
    source_id: Word
    sim_time: float
    payload: dict[str, JsonValue]
    schema_version: Word


class ObservationDelta(Shape):
    """What an agent observes by one effect, or by several that were put together."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_DELTA]})

    view_seq: GlobalSeq = Field(description="The view's own, after the patches.")
    patches: list[PatchOperation] = Field(description="To be applied to the view (RFC 6902).")
    context_digest: str = Field(pattern=HEX64, description="The view's own, after the patches.")
    schema_version: Word
    events: list[ObservedEvent] = Field(description="What happened that the patches do not tell.")
    collapsed: int = Field(default=1, ge=1, description="How many deltas this one stands for.")
    events_dropped: int = Field(default=0, ge=0, description="How many of their events it does not have.")


class Observations(Shape):
    """The deltas that were due, in order."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"deltas": [_DELTA], "view_seq": 42}]})

    deltas: list[ObservationDelta]
    view_seq: int = Field(ge=0, description="The `after` of the next request.")
    view: AgentView | None = Field(
        default=None, description="The view that the first delta applies to, where the request named none."
    )


class ObservedEvents(Shape):
    """A page of events that an agent could see, ascending."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"events": [_EVENT], "through_seq": 42, "next_after_seq": None}]},
    )

    events: list[ObservedEvent]
    through_seq: int = Field(ge=0, description="Up to here the page has everything that was asked for.")
    next_after_seq: int | None = Field(description="The after_seq of the next page; null when this is the last.")


# -- generations and time ----------------------------------------------------------------------------------


class NewGeneration(Shape):
    """A generation that begins."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"req_id": "turn-18-alice", "context_seq": 42}]}
    )

    req_id: Word = Field(description="The same as of the intent that it is to lead to.")
    context_seq: ContextSeq | None = Field(default=None, description="The view it is made from; the latest if null.")
    staleness_threshold: StalenessThreshold | None = Field(
        default=None,
        description="Sightings after which it is stale; null: it never is. The agent's or the world's if absent.",
    )
    about: About | None = Field(default=None, description="Ids that it concerns, for `only_conflict`.")


class Generation(Shape):
    """A generation and whether it is cancelled."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_GENERATION]})

    agent_id: Word
    req_id: Word
    context_seq: ContextSeq | None = Field(description="The view it is made from; null where it runs elsewhere.")
    cancelled: bool
    reason: str | None = Field(description="Why it is cancelled.")
    setting: Literal["generation", "agent", "world"] | None = Field(
        default=None, description="Where it is cancelled as stale: whose threshold decided."
    )
    staleness_threshold: StalenessThreshold | None = Field(default=None, description="That threshold.")
    interrupt_policy: InterruptPolicy | None = Field(default=None, description="Which sightings count.")


class Staleness(Shape):
    """When what agents of a world are about to do is stale; what is absent stays as it is."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "minProperties": 1,
            "examples": [{"staleness_threshold": 3, "interrupt_policy": "only_conflict"}],
        },
    )

    staleness_threshold: StalenessThreshold | None = Field(
        default=None, description="Sightings after which it is stale; null: it never is."
    )
    interrupt_policy: InterruptPolicy | None = Field(default=None, description="Which sightings count.")
    max_staleness_threshold: StalenessThreshold | None = Field(
        default=None, description="Largest threshold of the world, an agent, an intent or a generation; null: none."
    )


class WorldStaleness(Staleness):
    """When what agents of a world are about to do is stale, as it stands."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"staleness_threshold": 3, "interrupt_policy": "only_conflict", "max_staleness_threshold": None}
            ]
        },
    )

    global_seq: GlobalSeq | None = Field(default=None, description="The effect that has set it just now.")


class Tick(Shape):
    """A step of a world's own time."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"adapter": "unity", "sim_time": 12.5}]})

    adapter: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$", description="Who has the authority.")
    sim_time: float = Field(
        description="Seconds of the adapter's own time; with its offset never lower than the world's."
    )


class TickClosing(Shape):
    """Who closes a tick."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"source": "referee"}]})

    source: str = Field(
        pattern=r"^[a-z][a-z0-9_-]{0,62}$",
        description="The adapter that has the authority over time; anybody where none has.",
    )


class ClosedTick(Shape):
    """What is told of a tick of a world that is ordered by ticks, once it is closed."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_CLOSED]})

    global_seq: GlobalSeq
    uuid: str = Field(pattern=HEX32)
    checksum: str = Field(pattern=HEX64, description="SHA-256 over the previous checksum (hex) and the effect's bytes.")
    replayed: bool
    tick: int = Field(ge=1, description="The number of the tick.")
    accepted: int = Field(ge=0, description="How many intents became effects.")
    refused: int = Field(ge=0, description="How many did not.")


class TimeAuthority(Shape):
    """Who is to set sim_time."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"authority": "unity"}]})

    authority: str = Field(
        pattern=r"^[a-z][a-z0-9_-]{0,62}$",
        description="`none` (or `wall`): the clock; `client`: any draft; or the name of an adapter.",
    )
    zero: float | None = Field(
        default=None,
        description="The world's sim_time at which the authority's own 0.0 lies. By default where the world stands; "
        "for `client` 0.0. Not for `none`, which goes on from where the world stands.",
    )
    force: bool = Field(
        default=True, description="False: an adapter takes over only from another one that is silent (409 else)."
    )


class AuthoritySilence(Shape):
    """That the adapter with the time authority is not heard any more."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_SILENCE]})

    authority: str
    last_tick_seq: GlobalSeq | None = Field(description="Its last tick; null where none came since it took over.")
    reason: str = Field(
        description="`disconnected`: the connection of its last tick or take-over ended; `no_tick`: none came."
    )
    global_seq: GlobalSeq = Field(description="The effect WorldTimeAuthoritySilent.")


class TimeAuthorityNow(Shape):
    """Who sets sim_time."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"authority": "unity", "offset": 12.5, "since_seq": 43, "last_tick_seq": 57, "silence": _SILENCE}
            ]
        },
    )

    authority: str = Field(description="`wall` (the clock), `client` (any draft) or the name of an adapter.")
    offset: float = Field(description="What is added to the authority's own time: sim_time is the sum.")
    since_seq: GlobalSeq = Field(description="The effect that named it.")
    last_tick_seq: GlobalSeq | None = Field(description="The last tick since then.")
    silence: AuthoritySilence | None = Field(description="That it is not heard any more, until its next tick.")


class TimeAuthoritySet(Shape):
    """Who sets sim_time, and from which effect on."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"authority": "unity", "offset": 12.5, "global_seq": 43}]}
    )

    authority: str = Field(description="`none` (or `wall`), `client` or the name of an adapter, as it was asked for.")
    offset: float = Field(description="What is added to the authority's own time: sim_time is the sum.")
    global_seq: GlobalSeq
