"""Frames: one whole state, or view of an agent, and what each later moment changes in it. Pure.

The **keyframe** is whole. Each **frame** is a later moment: its seq, and the JSON Patch operations that turn the moment
before into it. They are columns and not objects, so that a thousand frames are small, and read quickly:

- ``frames``: ``seq``, and of states ``sim_time`` and ``kind``. They stand for the members `TOLD` of the metadata, which
  every effect sets: these are never among the operations.
- ``paths``: each place that is changed, once, as a JSON Pointer (RFC 6901) along members of objects alone.
- ``patches``: ``frame`` and ``path`` (indexes into these), ``op`` ("add", "remove" or "replace"), ``value`` (null for
  "remove"), in order.

Source: docs/reference/states.md, "Frames".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from orjson import OPT_SORT_KEYS, Fragment, dumps, loads

from worldledger.chain import StoredEffect
from worldledger.core_kinds import AGENT_REGISTERED_KIND
from worldledger.effects import Effect
from worldledger.errors import PolicyFailedError
from worldledger.folding import Fold
from worldledger.patches import diff
from worldledger.rulesets.base import Touched
from worldledger.views import Views
from worldledger.world import WorldState

#: Effects in a block. Blocks are aligned: the first one has the seqs 1 to 1,024.
BLOCK: Final = 1024
#: The members of a state's metadata that the columns of ``frames`` tell: seq, sim_time and kind of the last effect.
TOLD: Final = ("last_effect_seq", "last_effect_time", "last_effect_kind")


def block_end(seq: int) -> int:
    """Return the last seq of the block that a seq lies in."""
    return -(-seq // BLOCK) * BLOCK


class Patches:
    """The columns ``paths`` and ``patches``. A value that was added must not be changed afterwards."""

    __slots__ = ("frames", "indexes", "operations", "pointers", "values")

    def __init__(self) -> None:
        self.frames: list[int] = []
        self.operations: list[str] = []
        self.indexes: list[int] = []
        self.values: list[Any] = []
        self.pointers: dict[str, int] = {}

    def path(self, pointer: str) -> int:
        """Return the index of a path, which is new or known."""
        return self.pointers.setdefault(pointer, len(self.pointers))

    def add(self, frame: int, operation: str, path: int, value: Any = None) -> None:
        """Add one operation."""
        self.frames.append(frame)
        self.operations.append(operation)
        self.indexes.append(path)
        self.values.append(value)

    def extend(self, frame: int, operations: Iterable[Mapping[str, Any]]) -> None:
        """Add the operations of a JSON Patch."""
        for each in operations:
            self.add(frame, each["op"], self.path(each["path"]), each.get("value"))

    def columns(self) -> dict[str, Any]:
        """Return the columns, for `orjson.dumps`."""
        patches = {"frame": self.frames, "op": self.operations, "path": self.indexes, "value": self.values}
        return {"paths": [*self.pointers], "patches": patches}


# -- states, effect by effect --------------------------------------------------------------------------------


_MISSING: Final = object()
_COPIED: Final[frozenset[type]] = frozenset({dict, list, tuple})
_SCALARS: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None)})
#: Bytes of an object's text from which on its members are compared, rather than all of it replaced.
_LARGE: Final = 256
#: Members of the metadata that an effect changes only for what it has touched, or that are told by ``frames``.
_APART: Final = frozenset({*TOLD, "agents", "relationships"})


class _Object:
    """An object of the state as it was after the last frame.

    ``known`` has its members: a scalar as it is; a list or an object as its text, or as a value that nobody changes; a
    large object, once it has changed, as an _Object.
    """

    __slots__ = ("known", "patches", "paths", "place", "text")

    def __init__(self, patches: Patches, place: str, known: dict[str, Any]) -> None:
        self.patches = patches
        self.place = place
        self.known = known
        self.paths: dict[str, int] = {}
        self.text = b""

    def compare(self, frame: int, now: Mapping[str, Any]) -> None:
        """Add what has changed in any member."""
        known = self.known
        for name, value in now.items():
            old = known.get(name, _MISSING)
            if old is value:
                continue
            if type(old) is _Object and type(value) is dict:
                text = _text(value)
                if text != old.text:
                    old.text = text
                    old.compare(frame, value)
            else:
                self.change(frame, name, old, value)
        if len(known) > len(now):
            for name in sorted(known.keys() - now.keys()):
                self.member(frame, name, now)

    def member(self, frame: int, name: str, now: Mapping[str, Any]) -> None:
        """Add what has changed in one member, which may have come or gone."""
        value, old = now.get(name, _MISSING), self.known.get(name, _MISSING)
        if type(old) is _Object and type(value) is dict:
            old.compare(frame, value)
        elif value is not _MISSING:
            self.change(frame, name, old, value)
        elif old is not _MISSING:
            del self.known[name]
            self.patches.add(frame, "remove", self.path(name))

    def change(self, frame: int, name: str, old: Any, value: Any) -> None:
        """Add a member that is there now, if it is not as it was."""
        if value.__class__ in _SCALARS:
            if old.__class__ is value.__class__ and old == value and (value or str(old) == str(value)):  # not -0.0
                return
            self.known[name] = value
        else:
            text = _text(value)
            if old.__class__ in _COPIED:
                old = _text(old)
            if text == old:
                return
            if len(text) > _LARGE and old.__class__ is bytes and old[:1] == text[:1] == b"{":
                large = self.known[name] = _Object(self.patches, f"{self.place}/{_escaped(name)}", loads(old))
                large.text = text
                large.compare(frame, value)
                return
            self.known[name] = text
            value = Fragment(text)
        self.patches.add(frame, "add" if old is _MISSING else "replace", self.path(name), value)

    def path(self, name: str) -> int:
        """Return the index of a member's path."""
        path = self.paths.get(name)
        if path is None:
            path = self.paths[name] = self.patches.path(f"{self.place}/{_escaped(name)}")
        return path


class StateFrames:
    """The frames of a world after a keyframe: what each effect changes in the state.

    What an effect may have changed follows from what its handler has touched, so that the cost of a frame does not grow
    with the state. Only the members of the metadata that are the ruleset's own are compared after each effect.
    """

    def __init__(self, fold: Fold, keyframe: bytes) -> None:
        """Begin at a fold, which is used up; ``keyframe`` is the text of its state."""
        before = loads(keyframe)
        metadata = before["metadata"]
        own = {name: value for name, value in metadata.items() if name not in _APART}
        self.patches = Patches()
        self._fold = fold
        self._frames: list[StoredEffect] = []
        self._frame = 0
        self._entities = _Object(self.patches, "/entities", before["entities"])
        points = {name: tuple(point) for name, point in before["spatial_index"].items()}
        self._points = _Object(self.patches, "/spatial_index", points)
        self._related = _Object(self.patches, "/relationships", before["relationships"])
        self._details = _Object(self.patches, "/metadata/relationships", metadata["relationships"])
        self._agents = _Object(self.patches, "/metadata/agents", metadata["agents"])
        self._own = _Object(self.patches, "/metadata", own)

    def feed(self, rows: Sequence[StoredEffect]) -> None:
        """Fold the stored rows that follow, each of which is a frame. Raises as `Fold.feed`."""
        self._frames += rows
        self._fold.feed_each(rows, self._seen)

    def _seen(self, effect: Effect, touched: Touched) -> None:
        """Add a frame."""
        state, frame = self._fold.state, self._frame
        if isinstance(touched, str):
            self._touched(frame, state, touched)
        elif touched is None:
            self._anything(frame, state)
        else:
            for name in dict.fromkeys(touched):
                self._touched(frame, state, name)
        metadata, own = state.metadata, self._own.known
        if effect["kind"] == AGENT_REGISTERED_KIND:
            self._registered(frame, effect["payload"].get("agent_id"), metadata["agents"])
        self._frame = frame + 1
        for name, value in own.items():
            if metadata.get(name, _MISSING) is not value:
                break
        else:
            if len(metadata) == len(own) + len(_APART):
                return
        self._own.compare(frame, {name: value for name, value in metadata.items() if name not in _APART})

    def columns(self) -> dict[str, Any]:
        """Return the columns, for `orjson.dumps`."""
        rows = self._frames
        told = {
            "seq": [row.global_seq for row in rows],
            "sim_time": [row.sim_time for row in rows],
            "kind": [row.kind for row in rows],
        }
        return {"frames": told, **self.patches.columns()}

    def _touched(self, frame: int, state: WorldState, name: str) -> None:
        entities, entity = self._entities, state.entities.get(name)
        old = entities.known.get(name)
        # What `_Object.member` does, written out for the usual case, a small entity: this is what a frame costs.
        if type(old) is bytes and type(entity) is dict and len(text := _text(entity)) <= _LARGE:
            if text != old:
                entities.known[name] = text
                self.patches.add(frame, "replace", entities.path(name), Fragment(text))
        else:
            entities.member(frame, name, state.entities)
        points, point = self._points, state.spatial_index.get(name)
        before = points.known.get(name)
        if point is not before:
            if type(point) is tuple and type(before) is tuple and point != before:  # a tuple does not have to be copied
                points.known[name] = point
                self.patches.add(frame, "replace", points.path(name), point)
            else:
                points.member(frame, name, state.spatial_index)
        if state.relationships or self._related.known:
            self._related.member(frame, name, state.relationships)
            self._details.member(frame, name, state.metadata["relationships"])

    def _anything(self, frame: int, state: WorldState) -> None:
        parts = [
            (self._entities, state.entities),
            (self._points, state.spatial_index),
            (self._related, state.relationships),
            (self._details, state.metadata["relationships"]),
            (self._agents, state.metadata["agents"]),
        ]
        for before, now in parts:
            before.compare(frame, now)

    def _registered(self, frame: int, agent_id: object, agents: Mapping[str, Any]) -> None:
        if isinstance(agent_id, str):
            self._agents.member(frame, agent_id, agents)


def _text(value: Any) -> bytes:
    """Return a value as JSON, in memory of its size: `dumps` takes a KiB for the shortest, which would be kept."""
    return b"%b" % dumps(value, None, OPT_SORT_KEYS)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


# -- views of an agent, effect by effect -----------------------------------------------------------------------


class ViewFrames:
    """The frames of an agent's view after a keyframe: one for each effect that changes it.

    The column ``observed_seqs`` has the other effects that gave the agent a delta: these are view_seqs, too.
    """

    def __init__(self, views: Views, agent_id: str) -> None:
        """Begin at the views of a world, to which only this agent is attached."""
        self.patches = Patches()
        self._views = views
        self._agent_id = agent_id
        self._seqs: list[int] = []
        self._observed: list[int] = []

    def feed(self, rows: Sequence[StoredEffect]) -> None:
        """Fold the stored rows that follow. Raises as `Fold.apply`, and PolicyFailedError."""
        apply = self._views.apply
        for row in rows:
            for _, delta, _ in apply(loads(row.text), digests=False):
                if delta["patches"]:
                    self.patches.extend(len(self._seqs), delta["patches"])
                    self._seqs.append(row.global_seq)
                else:
                    self._observed.append(row.global_seq)
        failed = self._views.failed.get(self._agent_id)
        if failed is not None:
            raise PolicyFailedError(self._agent_id, failed) from failed

    def columns(self) -> dict[str, Any]:
        """Return the columns, for `orjson.dumps`."""
        return {"frames": {"seq": self._seqs}, "observed_seqs": self._observed, **self.patches.columns()}


# -- coarse frames ---------------------------------------------------------------------------------------------


class Steps:
    """Frames that are far apart: each is compared as a whole with the one before."""

    def __init__(self, keyframe: Any) -> None:
        """Begin with a JSON value, which must not be changed any more."""
        self.patches = Patches()
        self.count = 0
        self._last = keyframe

    def add(self, value: Any) -> list[dict[str, Any]]:
        """Add a frame: a JSON value, which must not be changed any more. Return its operations."""
        operations = diff(self._last, value)
        self.patches.extend(self.count, operations)
        self.count += 1
        self._last = value
        return operations


def without_told(state: WorldState) -> dict[str, Any]:
    """Return a state as an object, without what the columns of ``frames`` tell."""
    metadata = {name: value for name, value in state.metadata.items() if name not in TOLD}
    return {**state.to_value(), "metadata": metadata}


def nearest(places: Sequence[int], moments: Iterable[int]) -> list[int]:
    """Return the place that is nearest to each moment, each once; ``places`` ascend, and so do the moments."""
    found: dict[int, None] = {}
    for moment in moments:
        after = bisect_left(places, moment)
        around = places[max(after - 1, 0) : after + 1]
        found[min(around, key=lambda place: abs(place - moment))] = None
    return [*found]
