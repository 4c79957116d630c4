"""The vocabulary: Intent, EffectDraft, Effect and EventLogEntry, and the kinds that only the service writes.

Source: docs/reference/effects.md; docs/reference/contracts.md, "Event log".
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict  # Pydantic on Python 3.11 needs this one

#: The schema_version of effects that the service itself writes (semantic versioning).
SCHEMA_VERSION = "1.0.0"

#: The source_id of effects that the service itself writes.
SERVICE_SOURCE = "worldledger"

#: The system effect with the digest of a world's state (source: docs/explanation.md, "Why snapshots are caches, and
#: digests are in the chain").
DIGEST_KIND: Final = "StateDigest"
#: System kinds: these names and prefixes; see `is_system_kind`.
RESERVED_NAMES = frozenset({DIGEST_KIND, "ViewDigest", "AgentRegistered"})
RESERVED_PREFIXES = ("World", "Intent", "Generation")

#: The kinds whose whole meaning is a change of the state, unless a ruleset says otherwise: patches tell it, so they are
#: not events besides.
TOLD_BY_PATCHES = frozenset(
    {"EntityCreated", "EntityUpdated", "EntityRemoved", "Move", "RelationshipSet", "RelationshipRemoved"}
)


@lru_cache(maxsize=4096)
def is_system_kind(kind: str) -> bool:
    """Return whether only the service may write effects of this kind.

    System kinds are WorldCreated and every other ``World…``, ``Intent…`` and ``Generation…`` kind,
    StateDigest, ViewDigest and AgentRegistered. They are folded by the core, whatever the ruleset.
    """
    return kind.startswith(RESERVED_PREFIXES) or kind in RESERVED_NAMES


class Intent(TypedDict):
    """What an agent wants to do, and when it is stale (`worldledger.staleness`).

    - ``context_seq``: null where it is not known what the intent was made from.
    - ``order``: its place among the agent's own intents of a tick, in a world that is ordered by ticks.
    """

    kind: Literal["Speak", "Move", "Interact", "Custom"]
    payload: dict[str, Any]
    context_seq: int | None
    req_id: str
    agent_id: str
    priority: int
    schema_version: str
    order: NotRequired[int | None]
    about: NotRequired[list[str]]
    staleness_threshold: NotRequired[int | None]


class EffectDraft(TypedDict):
    """An effect before it is accepted: four fields, and what the caller may add.

    - ``sim_time``: seconds of the world's own time; accepted only where the world's time authority allows it.
    - ``priority``: higher goes first among drafts that wait together with the same sim_time. Default 0.
    - ``req_id``: the idempotency key, unique per (world, source_id).
    - ``caused_by``: the global_seq of an earlier effect of the same world.
    - ``source_metadata``: facts about the source (file, adapter version …), kept inside the effect.
    """

    kind: str
    payload: dict[str, Any]
    source_id: str
    schema_version: str
    sim_time: NotRequired[float | None]
    priority: NotRequired[int]
    req_id: NotRequired[str | None]
    caused_by: NotRequired[int | None]
    source_metadata: NotRequired[dict[str, Any]]


def own_draft(
    kind: str, payload: dict[str, Any], req_id: str | None = None, *, source_id: str = SERVICE_SOURCE
) -> EffectDraft:
    """Return the draft of an effect that the service writes, in its own name or another's; a req_id makes it one."""
    draft = EffectDraft(kind=kind, payload=payload, source_id=source_id, schema_version=SCHEMA_VERSION)
    if req_id is not None:
        draft["req_id"] = req_id
    return draft


class Effect(TypedDict):
    """An accepted effect, as it stands in the log: seven fields and the audited facts around them.

    ``sim_time`` and ``wall_time`` (epoch seconds) never decrease along ``global_seq``.
    """

    uuid: str
    kind: str
    payload: dict[str, Any]
    global_seq: int
    sim_time: float
    source_id: str
    schema_version: str
    world_id: str
    priority: int
    req_id: str | None
    wall_time: float
    caused_by: NotRequired[int]
    source_metadata: NotRequired[dict[str, Any]]


class EventLogEntry(BaseModel):
    """One row of the log as programs see it; ``checksum`` is lower-case hex of 32 bytes."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    global_seq: int
    sim_time: float
    wall_time: float
    effect: Effect
    source_metadata: dict[str, Any] = Field(default_factory=dict)
    checksum: str
    req_id: str = ""

    @classmethod
    def of(cls, effect: Effect, checksum: str) -> EventLogEntry:
        """Make the entry of an accepted effect and its chain checksum."""
        return cls(
            global_seq=effect["global_seq"],
            sim_time=effect["sim_time"],
            wall_time=effect["wall_time"],
            effect=effect,
            source_metadata=effect.get("source_metadata", {}),
            checksum=checksum,
            req_id=effect["req_id"] or "",
        )


def order_key(sim_time: float, priority: int, source_id: str) -> tuple[float, int, str]:
    """Return the key by which units that wait together are sorted, higher priority first.

    Units with equal keys keep the order of their arrival.
    """
    return (sim_time, -priority, source_id)


#: The kinds that carry messages.
_MESSAGES = frozenset({"Speak", "SpeakResponse", "MessageEmitted"})


def is_private(effect: Effect) -> bool:
    """Return whether an effect is only for its source and the ``target_id`` of its payload: ``private`` is true.

    In a message any other value of ``private``, except for false and null, counts as true: a mistake must show too
    little, not too much. Without a target it is for its source alone.
    """
    private = effect["payload"].get("private")
    return private is True or (effect["kind"] in _MESSAGES and private not in (None, False))


def audience_of(effect: Effect) -> frozenset[str] | None:
    """Return the agents that an effect is for, its source among them; None if it has no audience.

    The list ``sees`` of its payload names them: they observe the effect, and nobody else does, whatever their policies
    say. Anything but a list is a member like any other, and system kinds have no audience.
    """
    named = effect["payload"].get("sees")
    if type(named) is not list or is_system_kind(effect["kind"]):
        return None
    return frozenset([effect["source_id"], *(name for name in named if type(name) is str)])
