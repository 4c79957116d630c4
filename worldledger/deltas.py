"""The form of what an agent sees: View, ObservationDelta, ObservedEvent.

Source: docs/reference/observation.md, "Deltas"; docs/reference/contracts.md, "Policies, validators and latency".
"""

from __future__ import annotations

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

    model_config = ConfigDict(frozen=True)

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
