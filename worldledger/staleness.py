"""Staleness: when what an agent was shown invalidates what it is about to do; the settings, and what sightings concern.

A *sighting* of an agent is one of its own deltas whose effect is another's, is not of a system kind and did not come
from the same list of intents. An intent or a generation is stale when more than ``staleness_threshold`` sightings
follow the view that it was made from; with null it never is. If the interrupt policy is ``only_conflict``, only the
sightings that concern it count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from worldledger.canonical import MAX_INT, child
from worldledger.deltas import PARTS, ObservationDelta
from worldledger.drafts import MAX_WORD
from worldledger.effects import Effect, is_system_kind
from worldledger.errors import InvalidEffectError

#: The sightings that count: all of them, or those that concern what the agent is about to do.
InterruptPolicy: TypeAlias = Literal["always", "only_conflict"]
INTERRUPT_POLICIES: Final[tuple[InterruptPolicy, ...]] = get_args(InterruptPolicy)
#: Most ids that an intent or a generation names in ``about``.
MAX_ABOUT: Final = 1000

_RELATIONSHIPS: Final = PARTS[1]
#: The kinds that set or remove one relationship.
_RELATING: Final = frozenset({"RelationshipSet", "RelationshipRemoved"})
#: Members of a payload that name entities.
NAMING: Final = ("agent_id", "entity_id", "target_id", "from_entity", "to_entity")


_REASON: Final = re.compile("stale_due_to_effect_([0-9]{1,16})")


def stale_reason(seq: int) -> str:
    """Return the reason with which a generation is cancelled that the effect at ``seq`` has made stale."""
    return f"stale_due_to_effect_{seq}"


def stale_by(reason: object) -> int | None:
    """Return the effect that such a reason names; None for any other reason."""
    found = _REASON.fullmatch(reason) if isinstance(reason, str) else None
    return None if found is None else int(found[1])


class NotGiven(Enum):
    """Stands for a setting that is left out, if null is a value of its own."""

    NOT_GIVEN = "not given"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN

#: A threshold: this many sightings, None for any number, or left to the less specific setting.
Threshold: TypeAlias = int | NotGiven | None


# -- what a sighting concerns ----------------------------------------------------------------------------------


class Sight(NamedTuple):
    """One sighting: its effect's global_seq, and the ids that its delta shows (None: it replaces everything)."""

    seq: int
    shown: frozenset[str] | None

    def concerns(self, agent_id: str, names: frozenset[str]) -> bool:
        """Return whether it shows the agent itself or one of these ids."""
        return self.shown is None or agent_id in self.shown or not names.isdisjoint(self.shown)


def is_news(effect: Effect, agent_id: str) -> bool:
    """Return whether a delta by this effect may be a sighting: the effect is not the agent's own, nor the service's."""
    return effect["source_id"] != agent_id and not is_system_kind(effect["kind"])


def shown_by(delta: ObservationDelta, effect: Effect) -> frozenset[str] | None:
    """Return the ids that a delta shows: in the paths of its patches, at both ends of relationships, in its events.

    None if it replaces a whole part of the view. An effect that sets or removes one relationship names its ends, which
    the agent sees if its view changes by it; for others, the ends that a patch lists are taken.
    """
    names: set[str] = set()
    for operation in delta["patches"]:
        steps = operation["path"].split("/", 3)
        if len(steps) < 3 or steps[1] not in PARTS:
            return None
        names.add(steps[2].replace("~1", "/").replace("~0", "~"))
        if steps[1] == _RELATIONSHIPS:
            if effect["kind"] in _RELATING:
                names.update(names_of(effect["payload"]))
            elif isinstance(ends := operation.get("value"), list):
                names.update(ends)
    for event in delta["events"]:
        names.add(event["source_id"])
        names.update(names_of(event["payload"]))
    return frozenset(names)


def names_of(payload: Mapping[str, Any]) -> list[str]:
    """Return the ids in the usual members of a payload."""
    return [name for key in NAMING if isinstance(name := payload.get(key), str)]


# -- settings --------------------------------------------------------------------------------------------------


class Staleness(NamedTuple):
    """The settings that apply to an intent or a generation.

    ``setting`` is the origin of the threshold: the "intent", the "generation", the "agent" or the "world".
    """

    threshold: int | None
    interrupt_policy: InterruptPolicy
    setting: str

    def details(self) -> dict[str, Any]:
        """Return the details for a refusal."""
        return {
            "setting": self.setting,
            "staleness_threshold": self.threshold,
            "interrupt_policy": self.interrupt_policy,
        }


class WorldStaleness(NamedTuple):
    """A world's settings; no threshold may exceed ``maximum`` (None: unlimited), and null exceeds any number."""

    threshold: int | None
    interrupt_policy: InterruptPolicy
    maximum: int | None

    def set_anew(self, changes: Mapping[str, Any] | None) -> WorldStaleness:
        """Return the settings after WorldStalenessSet effects, as the state has them in ``metadata["staleness"]``."""
        if not changes:
            return self
        return WorldStaleness(
            changes.get("staleness_threshold", self.threshold),
            changes.get("interrupt_policy", self.interrupt_policy),
            changes.get("max_staleness_threshold", self.maximum),
        )

    def exceeded_by(self, threshold: int | None) -> bool:
        """Return whether a threshold exceeds the maximum."""
        return self.maximum is not None and (threshold is None or threshold > self.maximum)

    def check(self, threshold: Threshold, path: str = "$.staleness_threshold") -> None:
        """Raise InvalidEffectError for an invalid threshold, or one over the maximum."""
        if threshold is NOT_GIVEN or not self.exceeded_by(check_threshold(threshold, path)):
            return
        raise InvalidEffectError(
            f"staleness_threshold {_told(threshold)} exceeds the world's max_staleness_threshold, {self.maximum}", path
        )

    def of(self, agent: Mapping[str, Any], given: Threshold = NOT_GIVEN, by: str = "intent") -> Staleness:
        """Return the settings for something that an agent does: the most specific threshold, within the maximum.

        ``agent`` is its entry in the state, ``given`` the settings of the intent or the generation (``by``) itself.
        """
        policy: InterruptPolicy = agent.get("interrupt_policy", self.interrupt_policy)
        threshold, setting = self.threshold, "world"
        if given is not NOT_GIVEN:
            threshold, setting = given, by
        elif "staleness_threshold" in agent:
            threshold, setting = agent["staleness_threshold"], "agent"
        if self.exceeded_by(threshold):  # the maximum was set later
            threshold, setting = self.maximum, "world"
        return Staleness(threshold, policy, setting)


def check_threshold(value: Any, path: str = "$.staleness_threshold") -> int | None:
    """Return a threshold if it is valid: a whole number from 0 on, or None. Raises InvalidEffectError."""
    if value is not None and (type(value) is not int or not 0 <= value <= MAX_INT):
        raise InvalidEffectError("a staleness threshold is a whole number of sightings from 0 on, or null", path)
    threshold: int | None = value
    return threshold


def check_interrupt_policy(value: Any, path: str = "$.interrupt_policy") -> InterruptPolicy:
    """Return an interrupt policy if it is valid. Raises InvalidEffectError."""
    for policy in INTERRUPT_POLICIES:
        if value == policy:
            return policy
    raise InvalidEffectError(f"interrupt_policy is one of {', '.join(INTERRUPT_POLICIES)}", path)


def check_about(value: Any, path: str = "$.about") -> frozenset[str]:
    """Return the ids that an intent or a generation is about; None means none. Raises InvalidEffectError."""
    if value is None:
        return frozenset()
    if not isinstance(value, list | tuple | set | frozenset):
        raise InvalidEffectError("about is a list of ids", path)
    if len(value) > MAX_ABOUT:
        raise InvalidEffectError(f"about names at most {MAX_ABOUT} ids", path)
    for index, name in enumerate(value):
        if type(name) is not str or not 0 < len(name) <= MAX_WORD:
            raise InvalidEffectError(f"an id is a string of 1 to {MAX_WORD} characters", child(path, index))
    return frozenset(value)


def about_of(about: Iterable[str], payload: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids that an intent is about: its own statement, and those in the usual members of its payload."""
    return frozenset([*about, *names_of(payload)])


def _told(threshold: int | None) -> str:
    return "null" if threshold is None else str(threshold)
