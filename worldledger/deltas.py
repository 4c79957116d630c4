"""What an agent sees: View, ObservationDelta, ObservedEvent; and one delta in place of several.

Source: docs/reference/observation.md, "Deltas"; docs/reference/contracts.md, "Policies, validators and latency".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired, TypeAlias, overload

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict  # Pydantic on Python 3.11 needs this one

from worldledger.patches import apply_patch
from worldledger.world import state_digest, state_text

#: The schema_version of deltas and of the views that they apply to (semantic versioning).
DELTA_VERSION: Final = "1.0.0"
#: Operations of RFC 6902, in order.
Patch = list[dict[str, Any]]
#: The parts of a view: entities, and their relationships.
Contents = tuple[dict[str, Any], dict[str, list[str]]]
#: The members of a view that hold its contents.
PARTS: Final = ("visible_entities", "visible_relationships")


class View(BaseModel):
    """What one agent sees of the world.

    - ``view_seq``: the global_seq of the effect that made the view what it is.
    - ``visible_entities``: entity_id -> its data, without hidden fields.
    - ``visible_relationships``: entity_id -> the ids it is related to, sorted; empty lists occur only if an agent's
      policy has no remove operations.
    - ``context_digest``: the digest of the view without ``view_seq``, see `View.of`.

    Values inside a view may be shared with other views: do not change them.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    agent_id: str
    view_seq: int
    visible_entities: dict[str, Any]
    visible_relationships: dict[str, list[str]]
    context_digest: str

    @classmethod
    def of(cls, agent_id: str, view_seq: int, entities: dict[str, Any], relationships: dict[str, list[str]]) -> View:
        """Make a view and its digest.

        That is the SHA-256, as 64 lower-case hex digits, of the object {agent_id, visible_entities,
        visible_relationships} in the profile ``state/1``.
        """
        seen: dict[str, Any] = {
            "agent_id": agent_id,
            "visible_entities": entities,
            "visible_relationships": relationships,
        }
        digest = state_digest(state_text(seen))
        return cls.model_construct(view_seq=view_seq, context_digest=digest, **seen)


class ObservedEvent(TypedDict):
    """An event as an agent may know it: parts of the Effect of that ``global_seq``."""

    global_seq: int
    kind: str
    source_id: str
    sim_time: float
    payload: dict[str, Any]
    schema_version: str


class DeltaMembers(TypedDict):
    """The members of an ObservationDelta, as a plain object: what a policy of your own may return."""

    view_seq: int
    patches: Patch
    context_digest: str
    schema_version: str
    events: NotRequired[list[ObservedEvent]]
    collapsed: NotRequired[int]
    events_dropped: NotRequired[int]


class ObservationDelta(dict[str, Any]):
    """What an agent observes by one effect, or by several that were collapsed.

    It is a dict, for JSON and for ``delta["view_seq"]``; its members can be read as attributes too, ``delta.view_seq``:

    - ``view_seq``: the global_seq of the (last) effect; it is the view's own after the delta.
    - ``patches``: RFC 6902 operations on the View as an object: ``/visible_entities/<id>[/<field>…]`` and
      ``/visible_relationships/<id>``, ids escaped as RFC 6901 says; "add", "remove" and "replace" only.
    - ``context_digest``: the view's after the delta.
    - ``events``: what happened that the patches do not tell, in order.
    - ``collapsed``: how many deltas this one stands for; as a member, if more than one.
    - ``events_dropped``: how many of their events it does not have; as a member, if any.

    Values inside a delta may be shared with other deltas: do not change them.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, key: Literal["view_seq", "collapsed", "events_dropped"]) -> int: ...
        @overload
        def __getitem__(self, key: Literal["context_digest", "schema_version"]) -> str: ...
        @overload
        def __getitem__(self, key: Literal["patches"]) -> Patch: ...
        @overload
        def __getitem__(self, key: Literal["events"]) -> list[ObservedEvent]: ...
        @overload
        def __getitem__(self, key: str) -> Any: ...
        def __getitem__(self, key: str) -> Any: ...

    @property
    def view_seq(self) -> int:
        """The global_seq of the (last) effect."""
        return self["view_seq"]

    @property
    def patches(self) -> Patch:
        """RFC 6902 operations on the view."""
        return self["patches"]

    @property
    def context_digest(self) -> str:
        """The digest of the view after the delta."""
        return self["context_digest"]

    @property
    def schema_version(self) -> str:
        """The version of this form (semantic versioning)."""
        return self["schema_version"]

    @property
    def events(self) -> list[ObservedEvent]:
        """What happened that the patches do not tell."""
        return self["events"]

    @property
    def collapsed(self) -> int:
        """How many deltas this one stands for, usually 1."""
        count: int = self.get("collapsed", 1)
        return count

    @property
    def events_dropped(self) -> int:
        """How many of their events it does not have, usually 0."""
        count: int = self.get("events_dropped", 0)
        return count

    def copy(self) -> ObservationDelta:
        """Return a shallow copy, an ObservationDelta like this one."""
        return ObservationDelta(self)


#: A delta in either form.
AnyDelta: TypeAlias = ObservationDelta | DeltaMembers


def apply_delta(view: View, delta: AnyDelta) -> View:
    """Return the view that results from the delta that follows it; the view stays as it is.

    Raises ValueError if the delta is older than the view, which includes it already; if a patch cannot be applied; or
    if the result does not have the digest that the delta promises: then a delta is missing, and the view has to be
    fetched again.
    """
    if delta["view_seq"] < view.view_seq:
        raise ValueError(f"the delta of seq {delta['view_seq']} is older than the view at seq {view.view_seq}: skip it")
    seen: Any = {"visible_entities": view.visible_entities, "visible_relationships": view.visible_relationships}
    # A view may be of any size; the patches only add, remove and replace, so they need no limit.
    seen = apply_patch(seen, delta["patches"], max_bytes=2**63)
    if not isinstance(seen, dict) or not all(isinstance(seen.get(name), dict) for name in PARTS):
        raise ValueError(f"after the delta of seq {delta['view_seq']} there is no view left")
    after = View.of(view.agent_id, delta["view_seq"], *(seen[name] for name in PARTS))
    if after.context_digest != delta["context_digest"]:
        raise ValueError(
            f"the view of {view.agent_id!r} at seq {view.view_seq} is not the one that the delta of seq "
            f"{delta['view_seq']} follows: their digests differ"
        )
    return after


def merge_last_seen(old: View, new: View) -> View:
    """Return the new view, with entities of the old one that are out of sight or gone as last seen.

    Relationships of entities out of sight stay likewise. An entity in sight without visible relationships keeps an
    empty list, because nothing is ever removed.
    """
    known = {
        name: [] if name in new.visible_entities or name == new.agent_id else ends
        for name, ends in old.visible_relationships.items()
    }
    return View.of(
        new.agent_id,
        new.view_seq,
        {**old.visible_entities, **new.visible_entities},
        {**known, **new.visible_relationships},
    )


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
