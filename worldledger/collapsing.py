"""Collapsing observations: one delta or patch in place of several, and a delta that applies to any earlier view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from worldledger.deltas import DELTA_VERSION, PARTS, ObservationDelta, ObservedEvent, Patch, View

# -- composing patches: two that follow each other become one (RFC 6902) ----------------------------------


_NOTHING: Final = object()


def compose(first: Iterable[dict[str, Any]], then: Iterable[dict[str, Any]]) -> Patch:
    """Return the patch that has the effect of two patches, one after the other. See `Composition`."""
    composition = Composition()
    composition.follow(first)
    composition.follow(then)
    return composition.patch()


class Composition:
    """Consecutive patches as one.

    It takes patches that only "add", "remove" and "replace" members of objects, whose "add" adds a missing member, and
    whose "remove" and "replace" name an existing one, such as `worldledger.patches.diff` makes. The result is such a
    patch too. It has at most one operation for a place and none for places below it, ordered by the paths' keys; what
    was added and removed again is not in it. (It may replace a value by an equal one: the first value is not known.)
    Values are shared with the patches that went in; none of them is changed.
    """

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root = _Place()

    def follow(self, patch: Iterable[dict[str, Any]]) -> None:
        """Add the next patch. Raises ValueError if it cannot follow; then this composition must not be used again."""
        for operation in patch:
            name, pointer = operation["op"], operation["path"]
            if name not in {"add", "remove", "replace"}:
                raise ValueError(f"{name!r} cannot be put together with anything")
            tokens = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
            if not tokens:
                raise ValueError(f"the operation {name} is not about a member of an object")
            self._take(name, tokens, operation.get("value"), pointer)

    def patch(self) -> Patch:
        """Return the one patch."""
        return list(self._root.operations(""))

    def _take(self, name: str, tokens: list[str], value: Any, pointer: str) -> None:
        place = self._root
        trail = []
        for depth, token in enumerate(tokens):
            if place.name:
                place.change(name, tokens[depth:], value, pointer)
                return
            trail.append((place, token))
            below = place.below.get(token)
            if below is None:
                below = place.below[token] = _Place()
            place = below
        if name == "remove":
            if place.name == "remove":
                raise ValueError(f"{pointer} was removed before")
            if place.name == "add":
                _forget(trail)
                return
            place.set("remove", _NOTHING)
        elif place.name == "add":
            place.set("add", value)
        elif place.name or place.below or name == "replace":
            if name == "replace" and place.name == "remove":
                raise ValueError(f"{pointer} was removed before")
            place.set("replace", value)
        else:
            place.set("add", value)


class _Place:
    """The change of one place: it is set or removed as a whole (``name``), or changed below."""

    __slots__ = ("below", "name", "own", "value")

    def __init__(self) -> None:
        self.name = ""
        self.value: Any = _NOTHING
        #: The objects in the value that are copies of this place's own and may be changed, by their ids. They are kept
        #: here even when they have left the value, so that no other object gets such an id.
        self.own: dict[int, Any] = {}
        self.below: dict[str, _Place] = {}

    def set(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value
        self.own.clear()
        self.below.clear()

    def change(self, name: str, tokens: list[str], value: Any, pointer: str) -> None:
        """Change the value of this place, at the tokens' place below it."""
        found = self.value = self._copied(self.value, pointer)
        for token in tokens[:-1]:
            found[token] = self._copied(found.get(token), pointer)
            found = found[token]
        last = tokens[-1]
        if (last in found) == (name == "add"):
            raise ValueError(f"{name} cannot follow: {pointer} is {'there already' if name == 'add' else 'not there'}")
        if name == "remove":
            del found[last]
        else:
            found[last] = value

    def _copied(self, value: Any, pointer: str) -> Any:
        """Return an object that may be changed."""
        if id(value) in self.own:
            return value
        if type(value) is dict:
            copied = value.copy()
            self.own[id(copied)] = copied
            return copied
        raise ValueError(f"{pointer} is not below an object")

    def operations(self, path: str) -> Iterator[dict[str, Any]]:
        if self.name:
            self.own.clear()  # from here on the value is shared
            yield {"op": self.name, "path": path} | ({} if self.value is _NOTHING else {"value": self.value})
        for token, place in sorted(self.below.items()):
            yield from place.operations(f"{path}/{token.replace('~', '~0').replace('/', '~1')}")


def _forget(trail: list[tuple[_Place, str]]) -> None:
    """Drop a place, and every place above it without another change."""
    for place, token in reversed(trail):
        del place.below[token]
        if place.below:
            return


#: Most events that a collapsed delta keeps, the newest; each may be as large as an effect.
MOST_EVENTS: Final = 100


def collapse(deltas: Sequence[ObservationDelta]) -> ObservationDelta:
    """Return one delta with the effect of these one after another; a single one stays as it is.

    It says how many deltas it stands for, and how many of their events it leaves out.
    """
    if len(deltas) == 1:
        return deltas[0]
    composition = Composition()
    for delta in deltas:
        composition.follow(delta["patches"])
    events: list[ObservedEvent] = [event for delta in deltas for event in delta["events"]]
    dropped = sum(delta.get("events_dropped", 0) for delta in deltas) + max(len(events) - MOST_EVENTS, 0)
    collapsed = ObservationDelta(
        view_seq=deltas[-1]["view_seq"],
        patches=composition.patch(),
        context_digest=deltas[-1]["context_digest"],
        schema_version=DELTA_VERSION,
        events=events[-MOST_EVENTS:],
        collapsed=sum(delta.get("collapsed", 1) for delta in deltas),
    )
    if dropped:
        collapsed["events_dropped"] = dropped
    return collapsed


def beginning(view: View) -> ObservationDelta:
    """Return the delta that turns any view of the agent, or none, into this one."""
    return ObservationDelta(
        view_seq=view.view_seq,
        patches=replacing(view.visible_entities, view.visible_relationships),
        context_digest=view.context_digest,
        schema_version=DELTA_VERSION,
        events=[],
    )


def replacing(entities: dict[str, Any], relationships: dict[str, list[str]]) -> Patch:
    """Return the patch that replaces everything that a view shows by these contents."""
    contents = dict(zip(PARTS, (entities, relationships), strict=True))
    return [{"op": "replace", "path": f"/{part}", "value": value} for part, value in contents.items()]


def whole(view: View, *, stands_for: int) -> ObservationDelta:
    """Return the delta that turns any view of the agent into this one, for a reader whose deltas cannot be continued.

    ``stands_for``: the most deltas that it may stand for; as many events may be missing.
    """
    return ObservationDelta(beginning(view), collapsed=stands_for, events_dropped=stands_for)
