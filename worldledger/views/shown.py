"""How entities look to agents, computed once for all that see them alike, with the canonical text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from worldledger.effects import Effect
from worldledger.observation import ObservationPolicy, ObservedEvent
from worldledger.patches import diff
from worldledger.world import WorldState, state_text


def place_of(part: str, name: str) -> str:
    """Return the JSON Pointer of a member of a part of a view (RFC 6901)."""
    return f"/{part}/{name.replace('~', '~0').replace('/', '~1')}"


class Shown:
    """An entity as it is shown: an immutable value, and its text as a member of an object."""

    __slots__ = ("data", "piece", "users")

    def __init__(self, entity_id: str, data: dict[str, Any]) -> None:
        self.data = data
        self.piece = member_text(entity_id, data)
        #: The number of scenes that have it.
        self.users = 0

    def again(self) -> Shown:
        """Return a copy for the scenes of another Showing."""
        other = Shown.__new__(Shown)
        other.data, other.piece, other.users = self.data, self.piece, 0
        return other


class Change(NamedTuple):
    """The change of a shown entity by an effect."""

    before: Shown
    after: Shown
    patch: list[dict[str, Any]]


class Showing:
    """The looks of entities and effects for all policies that show them alike.

    The look of a touched entity is recomputed once, on demand. If a policy shows things differently to each agent,
    ``agent_id`` is the agent whose looks these are.
    """

    __slots__ = ("_agent_id", "_changes", "_event", "_event_seq", "_now", "_policy", "_stale", "scenes")

    def __init__(self, policy: ObservationPolicy, agent_id: str | None = None) -> None:
        self._policy = policy
        self._agent_id = agent_id
        self._now: dict[str, Shown] = {}
        self._stale: set[str] = set()
        self._changes: dict[str, Change] = {}
        self._event: ObservedEvent | None = None
        self._event_seq = 0
        #: The number of scenes that show things this way.
        self.scenes = 0

    def begin(self, touched: Iterable[str]) -> None:
        """Note the entities that the next effect has touched."""
        now = self._now
        for entity_id in self._stale:  # which were not requested
            now.pop(entity_id, None)
        self._stale = {entity_id for entity_id in touched if entity_id in now}
        self._changes.clear()

    def take(self, looks: Mapping[str, Shown]) -> None:
        """Take over present looks that another Showing of the same policy has computed."""
        now = self._now
        for entity_id, shown in looks.items():
            if entity_id not in now:
                now[entity_id] = shown.again()

    def look(self, entity_id: str, state: WorldState) -> Shown:
        """Return the present look of an entity of the world."""
        if entity_id in self._stale:
            self.change(entity_id, state)
        shown = self._now.get(entity_id)
        if shown is None:
            shown = self._now[entity_id] = Shown(entity_id, self._show(entity_id, state))
        return shown

    def change(self, entity_id: str, state: WorldState) -> Change | None:
        """Return the change of an entity's look by this effect; None if there is none, or it is unknown."""
        if entity_id in self._stale:
            before = self._now[entity_id]
            data = self._show(entity_id, state)
            patch = diff(before.data, data, path=place_of("visible_entities", entity_id))
            if patch:
                after = self._now[entity_id] = Shown(entity_id, data)
                self._changes[entity_id] = Change(before, after, patch)
            self._stale.remove(entity_id)
        return self._changes.get(entity_id)

    def _show(self, entity_id: str, state: WorldState) -> dict[str, Any]:
        if self._agent_id is None:
            return self._policy.show_entity(state.entities[entity_id])
        return self._policy.show_entity_to(state, self._agent_id, entity_id)

    def event(self, effect: Effect, state: WorldState) -> ObservedEvent | None:
        """Return the look of an effect, given the state after it; None if it is not an event."""
        if self._event_seq != effect["global_seq"]:
            if self._agent_id is None:
                self._event = self._policy.show_event(effect)
            else:
                self._event = self._policy.show_event_to(effect, self._agent_id, state)
            self._event_seq = effect["global_seq"]
        return self._event

    def drop(self, entity_id: str, shown: Shown) -> None:
        """Note that a scene does not show this entity any more."""
        shown.users -= 1
        if not shown.users and self._now.get(entity_id) is shown:
            del self._now[entity_id]
            self._stale.discard(entity_id)


class Pieces:
    """The text of an object in the profile ``state/1``, kept in one piece for each member."""

    __slots__ = ("_names", "_pieces", "_text")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._pieces: list[bytes] = []
        self._text: bytes | None = b""

    def fill(self, pieces: dict[str, bytes]) -> None:
        """Begin with these pieces."""
        self._names = sorted(pieces)
        self._pieces = [pieces[name] for name in self._names]
        self._text = None

    def put(self, name: str, piece: bytes, *, known: bool) -> None:
        """Set a member's piece; ``known`` tells whether the object already has that member."""
        at = bisect_left(self._names, name)
        if known:
            self._pieces[at] = piece
        else:
            self._names.insert(at, name)
            self._pieces.insert(at, piece)
        self._text = None

    def drop(self, name: str) -> None:
        """Remove an existing member."""
        at = bisect_left(self._names, name)
        del self._names[at], self._pieces[at]
        self._text = None

    def text(self) -> bytes:
        """Return the object's text without its braces."""
        if self._text is None:
            self._text = b",".join(self._pieces)
        return self._text


_COLON: Final = b":"


def member_text(name: str, value: Any) -> bytes:
    """Return the text of an object's member: the name, a colon, the value."""
    return state_text(name) + _COLON + state_text(value)
