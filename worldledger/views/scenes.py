"""Scenes: what an agent sees, or several agents that see the same, updated from what each effect has touched.

The kinds of scene differ in what is in sight. For all of them that is what `ObservationPolicy.sees_entity` says; they
find it without visiting the whole world:

- `Scene`: everything
- `AskedScene`: whatever a policy with its own ``sees_entity`` says
- `NearScene`, `RelatedScene`: what is near, what the agent is related to

A scene's `Showing` decides how an entity looks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Final

from worldledger.deltas import Contents, Patch
from worldledger.observation import ObservationPolicy
from worldledger.patches import diff
from worldledger.space import FieldOfView
from worldledger.views.shown import Pieces, Showing, Shown, member_text, place_of
from worldledger.views.world_index import WorldIndex
from worldledger.world import state_text

_MIDDLE: Final = b'},"visible_relationships":{'
_END: Final = b"}}"


def head_of(agent_id: str) -> bytes:
    """Return the text before the entities in the text of an agent's view."""
    return b'{"agent_id":' + state_text(agent_id) + b',"visible_entities":{'


class Scene:
    """A scene with everything in sight, and the base of all kinds of scene.

    ``own`` is the id of the agent whose scene it is, None if several share it. ``entries`` has what the view shows,
    ``visible`` what is in sight now; they differ only if what goes out of sight is remembered.
    """

    __slots__ = (
        "_entities", "_index", "_related", "_tail", "_types", "entries", "own", "policy", "relations", "remembers",
        "showing", "visible",
    )  # fmt: skip

    def __init__(self, own: str | None, policy: ObservationPolicy, index: WorldIndex, showing: Showing) -> None:
        self.own = own
        self.policy = policy
        self.showing = showing
        self.remembers = not policy.remove_operations
        self.entries: dict[str, Shown] = {}
        self.visible: dict[str, Shown] = {} if self.remembers else self.entries
        self.relations: dict[str, list[str]] = {}
        self._types = frozenset(policy.relationship_filter)
        self._index = index
        self._entities = Pieces()
        self._related = Pieces()
        self._tail: bytes | None = None

    # -- what is in sight: here the kinds of scene differ -------------------------------------------------------

    def see(self, name: str) -> bool:
        """Return whether an entity is in sight now."""
        return name in self._index.state.entities

    def in_sight(self) -> Collection[str]:
        """Return the ids of all entities in sight now."""
        return self._index.state.entities

    def turnover(self) -> tuple[list[str], list[str]]:
        """Return what has come into sight and what has gone out of it, whatever was touched."""
        now, visible = self.in_sight(), self.visible
        return [name for name in now if name not in visible], [name for name in visible if name not in now]

    # -- the content ------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Begin with the entities in sight now."""
        state, look = self._index.state, self.showing.look
        self.showing.scenes += 1
        for name in self.in_sight():
            shown = self.entries[name] = self.visible[name] = look(name, state)
            shown.users += 1
        names = self.visible if len(self.visible) < len(state.relationships) else state.relationships
        for name in (*names, *(() if self.own is None else (self.own,))):
            if (name in self.visible or name == self.own) and (ends := self._ends(name)):
                self.relations[name] = ends
        self._write()

    def recall(self, contents: Contents) -> None:
        """Add what was seen before, as `worldledger.deltas.merge_last_seen` does."""
        entities, relations = contents
        for name, data in entities.items():
            if name not in self.entries:
                shown = self.entries[name] = Shown(name, data)
                shown.users = 1
        for name, ends in relations.items():
            if name not in self.visible and name != self.own:
                self.relations[name] = ends
            else:
                self.relations.setdefault(name, [])
        self._write()

    def leave(self) -> None:
        """End the scene: it has no viewers left."""
        self.showing.scenes -= 1
        for name, shown in self.entries.items():
            self.showing.drop(name, shown)

    def contents(self) -> Contents:
        """Return the contents of the view."""
        return {name: shown.data for name, shown in self.entries.items()}, self.relations.copy()

    def digest(self, head: bytes) -> str:
        """Return the digest of the view whose text begins with ``head`` (see `head_of`)."""
        if self._tail is None:
            self._tail = _MIDDLE + self._related.text() + _END
        text = sha256(head)
        text.update(self._entities.text())
        text.update(self._tail)
        return text.hexdigest()

    # -- the update -------------------------------------------------------------------------------------------

    def update(self, touched: Sequence[str], related: AbstractSet[str], *, anew: bool) -> Patch:
        """Update the scene after an effect; return what has changed. The patch may be shared with other scenes.

        ``touched``: ids in sorted order. Nothing else can look different, or have come or gone, unless ``anew``: the
        agent itself may have moved. ``related`` has the ids whose relationships have changed.
        """
        visible = self.visible
        stayed: list[str]
        if not (anew or related or self._types) and len(touched) == 1:  # the usual case
            name = touched[0]
            if self.see(name):
                if name in visible:
                    return self._stay(name)
                appeared, gone, stayed = [name], [], []
            elif name in visible:
                appeared, gone, stayed = [], [name], []
            else:
                return []
        else:
            appeared, gone = self.turnover() if anew else ([], [])
            stayed, turned = [], {*appeared, *gone}
            for name in touched:
                if name not in turned:
                    if self.see(name):
                        (stayed if name in visible else appeared).append(name)
                    elif name in visible:
                        gone.append(name)
        patch: Patch = []
        came, went = set(appeared), set(gone)
        for name in sorted((*stayed, *appeared, *gone)):
            patch += self._appear(name) if name in came else self._go(name) if name in went else self._stay(name)
        for name in sorted(self._affected(touched, related, (*appeared, *gone))):
            patch += self._relate(name)
        return patch

    def _stay(self, name: str) -> Patch:
        change = self.showing.change(name, self._index.state)
        if change is None:
            return []
        self._enter(name, change.after, self.entries[name])
        return change.patch

    def _appear(self, name: str) -> Patch:
        shown = self.showing.look(name, self._index.state)
        before = self.entries.get(name)
        self._enter(name, shown, before)
        place = place_of("visible_entities", name)
        if before is None:
            return [{"op": "add", "path": place, "value": shown.data}]
        return diff(before.data, shown.data, path=place)

    def _go(self, name: str) -> Patch:
        shown = self.visible.pop(name)
        if self.remembers:
            return []
        self.showing.drop(name, shown)
        self._entities.drop(name)
        return [{"op": "remove", "path": place_of("visible_entities", name)}]

    def _enter(self, name: str, shown: Shown, before: Shown | None) -> None:
        shown.users += 1
        if before is not None:
            self.showing.drop(name, before)
        self.entries[name] = self.visible[name] = shown
        self._entities.put(name, shown.piece, known=before is not None)

    # -- relationships ----------------------------------------------------------------------------------------

    def _affected(self, touched: Iterable[str], related: AbstractSet[str], turned: Iterable[str]) -> set[str]:
        """Return the ids whose visible relationships may have changed."""
        affected = self.visible.keys() & related
        affected.update(turned)
        if self.own is not None and self.own in related:
            affected.add(self.own)
        if self._types:
            affected.update(touched)  # whose relationships may have other types
        for name in turned:
            incoming = self._index.incoming.get(name)
            if incoming is None:
                continue
            if len(incoming) < len(self.visible):
                affected.update(other for other in incoming if other in self.visible)
            else:
                affected.update(other for other in self.visible if other in incoming)
            if self.own is not None and self.own in incoming:
                affected.add(self.own)
        return affected

    def _relate(self, name: str) -> Patch:
        before = self.relations.get(name)
        ends: list[str] = []
        if name in self.visible or name == self.own:
            ends = self._ends(name)
        elif self.remembers:
            return []
        place = place_of("visible_relationships", name)
        if not ends and (before is None or not self.remembers):
            if before is None:
                return []
            del self.relations[name]
            self._related.drop(name)
            self._tail = None
            return [{"op": "remove", "path": place}]
        if ends == before:
            return []
        self.relations[name] = ends
        self._related.put(name, member_text(name, ends), known=before is not None)
        self._tail = None
        return [{"op": "add" if before is None else "replace", "path": place, "value": ends}]

    def _ends(self, name: str) -> list[str]:
        """Return the ids that an id is visibly related to, sorted."""
        state, visible, own = self._index.state, self.visible, self.own
        ends = state.relationships.get(name)
        if not ends:
            return []
        if len(ends) <= len(visible):
            found = {end for end in ends if end in visible or end == own}
        else:
            incoming = self._index.incoming
            found = {end for end in visible if name in incoming.get(end, ())}
            if own is not None and name in incoming.get(own, ()):
                found.add(own)
        if self._types and found:
            types = state.metadata.get("relationships", {}).get(name, {})
            found = {end for end in found if not self._types.isdisjoint(types.get(end, ()))}
        return sorted(found)

    def _write(self) -> None:
        self._entities.fill({name: shown.piece for name, shown in self.entries.items()})
        self._related.fill({name: member_text(name, ends) for name, ends in self.relations.items()})
        self._tail = None


class AskedScene(Scene):
    """What a policy with its own ``sees_entity`` lets its agent see."""

    __slots__ = ()

    def see(self, name: str) -> bool:  # noqa: D102 - as the base says, and so on below
        return name in self._index.state.entities and self.policy.sees_entity(self._index.state, self.own or "", name)

    def in_sight(self) -> Collection[str]:  # noqa: D102
        return {name: None for name in self._index.state.entities if self.see(name)}


# -- scenes that are only told of effects that may concern them: by distance, and by relationships ------------------

#: entity_id -> the scenes that watch it.
Watchers = dict[str, dict[Scene, None]]


class _WatchingScene(Scene):
    """A scene that is only told what may concern it: it names the entities that it watches."""

    __slots__ = ("_watched", "_watchers")

    def __init__(
        self, own: str, policy: ObservationPolicy, index: WorldIndex, showing: Showing, watchers: Watchers
    ) -> None:
        super().__init__(own, policy, index, showing)
        self._watchers = watchers
        self._watched: set[str] = set()

    def leave(self) -> None:
        super().leave()
        for name in tuple(self._watched):
            self._unwatch(name)

    def _watch(self, name: str) -> None:
        self._watched.add(name)
        self._watchers.setdefault(name, {})[self] = None

    def _unwatch(self, name: str) -> None:
        self._watched.remove(name)
        scenes = self._watchers[name]
        del scenes[self]
        if not scenes:
            del self._watchers[name]


class NearScene(_WatchingScene):
    """What is in the field of view of a position, and what has no position. It watches the former."""

    __slots__ = ("field_of_view",)

    def __init__(
        self,
        own: str,
        policy: ObservationPolicy,
        index: WorldIndex,
        showing: Showing,
        watchers: Watchers,
        field_of_view: FieldOfView,
    ) -> None:
        super().__init__(own, policy, index, showing, watchers)
        self.field_of_view = field_of_view

    def see(self, name: str) -> bool:  # noqa: D102
        point = self._index.placed.get(name)
        # An agent's own entity is at the agent's position, which is in sight.
        near = point is not None and self.field_of_view.holds(point)
        if near != (name in self._watched):
            (self._watch if near else self._unwatch)(name)
        return near or (point is None and name in self._index.unplaced)

    def in_sight(self) -> Collection[str]:  # noqa: D102
        self.turnover()
        return self._watched | self._index.unplaced

    def turnover(self) -> tuple[list[str], list[str]]:  # noqa: D102
        # What has no position is in sight wherever the agent goes, so only entities with one are checked.
        now = set(self._index.within_view(self.field_of_view))
        came, went = now - self._watched, self._watched - now
        for name in came:
            self._watch(name)
        for name in went:
            self._unwatch(name)
        visible, unplaced = self.visible, self._index.unplaced
        return (
            [name for name in came if name not in visible],
            [name for name in went if name in visible and name not in unplaced],
        )


class RelatedScene(_WatchingScene):
    """What the agent is related to by the types that its policy names, within its distance. It watches all of it."""

    __slots__ = ()

    def see(self, name: str) -> bool:  # noqa: D102
        seen = self.policy.sees_entity(self._index.state, self.own or "", name)
        if seen != (name in self._watched):
            (self._watch if seen else self._unwatch)(name)
        return seen

    def in_sight(self) -> Collection[str]:  # noqa: D102
        names = self._index.neighbours(self.own or "") | self._watched
        names.add(self.own or "")
        return {name: None for name in names if self.see(name)}
