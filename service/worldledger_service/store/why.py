"""Causes and consequences of an effect, read from the log (`worldledger.causes`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from worldledger.aio import running
from worldledger.causes import (
    Context,
    Direction,
    Link,
    LinkKind,
    Node,
    Place,
    Refusal,
    Walk,
    Window,
    context_of,
    forked_from,
    misnamed_cause,
    recorded_links,
    refusal_of,
)
from worldledger.core_kinds import AGENT_REGISTERED_KIND
from worldledger.errors import SimulationError
from worldledger.folding import Fold
from worldledger.rulesets.base import Touched
from worldledger.staleness import shown_by
from worldledger.views import Views
from worldledger_service.store import statements

if TYPE_CHECKING:
    from worldledger.chain import StoredEffect
    from worldledger.effects import Effect
    from worldledger_service.store.records import WorldRecord
    from worldledger_service.store.store import Store

#: The largest values of what a caller may ask for (`Asked`).
MOST_DEPTH: Final = 100
MOST_WIDTH: Final = 1000
MOST_EFFECTS: Final = 10_000
MOST_WINDOW: Final = 20_000
#: Most agents whose views are made again, the ones nearest to the effect first.
MOST_AGENTS: Final = 8
#: Effects that are folded in one go, aside: others wait for their turn there, too.
_AT_ONCE: Final = 500
#: Most effects with a cause that are looked at after the window.
MOST_TOLD: Final = 4_000


class Asked(NamedTuple):
    """The options of a search: the direction, and how far to go.

    ``depth`` is in links, ``width`` in links of each kind at each effect, ``limit`` in effects in all. In a ``window``
    of so many effects before it (forward: after it) the log is folded again for what was touched and shown.
    """

    direction: Direction = "back"
    depth: int = 5
    width: int = 3
    limit: int = 100
    window: int = 200


class Found(NamedTuple):
    """An effect that was found, with its links.

    ``problem`` says what is wrong with what it records.
    """

    place: Place
    checksum: str
    kind: str
    source_id: str
    sim_time: float
    context: Context | None
    refused: Refusal | None
    problem: str | None
    node: Node


class Why(NamedTuple):
    """The way back or forward from an effect.

    ``from_seq`` and ``to_seq`` are the window. Forward, effects after it were looked at for their ``caused_by`` up to
    ``told_to_seq``. ``notes`` say what could not be looked at.
    """

    root: Place
    asked: Asked
    head_seq: int
    from_seq: int
    to_seq: int
    told_to_seq: int | None
    notes: list[str]
    effects: list[Found]


async def why(store: Store, world: WorldRecord, seq: int, asked: Asked) -> Why:
    """Return the causes of an effect, or its consequences. Raises EffectNotFoundError and StoreUnavailableError.

    In a world whose ruleset is not installed, or fails, only what effects record by themselves is known; the result
    says so.
    """
    await store.reader.effect(world.world_id, seq)
    return await _Search(store, world, Place(world.world_id, seq), asked).run()


class _Row(NamedTuple):
    checksum: bytes
    kind: str
    source_id: str
    sim_time: float
    #: the effect as it was read; empty if the text is none
    effect: dict[str, Any]
    first_seq: int | None


class _Stretch(NamedTuple):
    """A part of a world's log that was folded."""

    window: Window
    from_seq: int
    to_seq: int

    def has(self, seq: int) -> bool:
        """Return whether an effect lies in it."""
        return self.from_seq <= seq <= self.to_seq


class _Search:
    """One search."""

    def __init__(self, store: Store, world: WorldRecord, root: Place, asked: Asked) -> None:
        self._store = store
        self._world = world
        self._root = root
        self._asked = asked
        self._notes: list[str] = []
        self._rows: dict[Place, _Row] = {}
        #: by world; back, a fork's window goes on in its ancestors
        self._stretches: dict[str, _Stretch] = {}
        self._left = asked.window
        #: forward, causes and what they led to after the window
        self._told: defaultdict[int, list[int]] = defaultdict(list)
        self._told_to_seq: int | None = None

    async def run(self) -> Why:
        """Search."""
        root, is_back = self._root, self._asked.direction == "back"
        if is_back:
            stretch = await self._look_before(root)
        else:
            to_seq = max(min(root.global_seq + self._asked.window, self._world.head_seq), root.global_seq)
            async with running(self._look_further(to_seq)) as further:  # by the database, while this process folds
                stretch = await self._look(root.world_id, root.global_seq, to_seq)
                await further
        walk = Walk(root, depth=self._asked.depth, width=self._asked.width, most=self._asked.limit)
        while walk.wanted:
            if is_back:
                await self._fetch(walk.wanted)
                for place in walk.wanted:
                    await self._look_on(place)
            walk.take({place: self._links(place) for place in walk.wanted})
        await self._fetch(walk.nodes)
        walk.forget([place for place in walk.nodes if place not in self._rows])
        effects = [self._found(node) for node in walk.nodes.values()]
        return Why(
            root,
            self._asked,
            self._world.head_seq,
            stretch.from_seq,
            stretch.to_seq,
            self._told_to_seq,
            self._notes,
            effects,
        )

    def _links(self, place: Place) -> Iterable[Link]:
        world_id, seq = place
        stretch = self._stretches.get(world_id)
        window = stretch.window if stretch is not None and stretch.has(seq) else None
        if self._asked.direction == "forward":
            found = [] if window is None else window.forward(seq)
            return [*found, *(Link("told", Place(world_id, later)) for later in self._told.get(seq, ()))]
        if window is not None:
            return [*window.back(seq), *self._taken_over(self._parent_of(place))]
        row = self._rows.get(place)
        return [] if row is None else recorded_links(place, row.effect, row.first_seq)

    def _parent_of(self, place: Place) -> Place | None:
        """Return the effect that a fork goes on from, if this is the place of its genesis."""
        row = self._rows.get(place)
        parent = None if row is None else forked_from(row.effect, place.global_seq)
        return None if parent is None else Place(parent.world_id, parent.global_seq)

    def _taken_over(self, parent: Place | None) -> list[Link]:
        """Return links to what made the state that a fork goes on from, as far as the window reaches."""
        stretch = None if parent is None else self._stretches.get(parent.world_id)
        if stretch is None or parent is None or stretch.to_seq != parent.global_seq:
            return []
        return stretch.window.last_touched()

    # -- the window ----------------------------------------------------------------------------------------

    async def _look_on(self, place: Place) -> None:
        """Go on with the window in the world of a place, and in the parent that a fork goes on from."""
        for each in (place, self._parent_of(place)):
            if each is not None and each.world_id not in self._stretches and self._left > 0:
                await self._fetch([each])
                if each in self._rows:
                    await self._look_before(each)

    async def _look_before(self, place: Place) -> _Stretch:
        """Read and fold what is left of the window, up to an effect."""
        stretch = await self._look(place.world_id, max(place.global_seq - self._left + 1, 1), place.global_seq)
        self._left -= stretch.to_seq - stretch.from_seq + 1
        return stretch

    async def _look(self, world_id: str, from_seq: int, to_seq: int) -> _Stretch:
        """Read and fold a stretch of a log."""
        rows: list[StoredEffect] = []
        async for batch in self._store.reader.batches(world_id, after_seq=from_seq - 1, until_seq=to_seq):
            rows += batch
        fold: Fold | None = None
        try:
            fold = await self._store.states.fold_at(world_id, max(from_seq - 1, 1))
        except SimulationError as error:
            self._notes.append(f"touched entities and views are not known: {error.message}")
        effects = [_read(row.text) for row in rows]
        for row, effect in zip(rows, effects, strict=True):
            place = Place(world_id, row.global_seq)
            self._rows[place] = _Row(row.checksum, row.kind, row.source_id, row.sim_time, effect, None)
        stretch = self._stretches[world_id] = _Stretch(Window(world_id), from_seq, to_seq)
        if rows and from_seq > 1:
            await self._begin_request(stretch, rows[0].source_id, effects[0].get("req_id"))
        aside = self._store.aside.run
        replay = None if fold is None else await aside(partial(_Replay, fold, self._agents(effects)))
        taken = [(row.global_seq, effect) for row, effect in zip(rows, effects, strict=True)]
        for start in range(0, len(taken), _AT_ONCE):
            await aside(partial(_fill, stretch.window, replay, taken[start : start + _AT_ONCE]))
        if replay is not None:
            self._notes += replay.notes()
        return stretch

    async def _begin_request(self, stretch: _Stretch, source_id: str, req_id: Any) -> None:
        """Tell a window in which request it begins."""
        if not isinstance(req_id, str):
            return
        world_id = stretch.window.world_id
        for row in await self._store.reader.fetch(statements.KNOWN_REQUESTS, world_id, [source_id], [req_id]):
            if row["first_seq"] < stretch.from_seq:
                stretch.window.begin_request(source_id, req_id, row["first_seq"], stretch.from_seq - 1)

    def _agents(self, effects: Sequence[dict[str, Any]]) -> list[str]:
        """Return the agents whose views something was made from, those nearest to the effect first."""
        nearest_first = reversed(effects) if self._asked.direction == "back" else iter(effects)
        agents = dict.fromkeys(found.agent_id for effect in nearest_first if (found := context_of(effect)) is not None)
        if len(agents) > MOST_AGENTS:
            self._notes.append(
                f"{len(agents)} agents decided something in the window; what was shown is known for the nearest "
                f"{MOST_AGENTS}, of the others only the effect that made their view"
            )
        return [*agents][:MOST_AGENTS]

    # -- beyond it -----------------------------------------------------------------------------------------

    async def _look_further(self, to_seq: int) -> None:
        """Forward: look for what names its cause after the window."""
        self._told_to_seq = to_seq
        if to_seq >= self._world.head_seq:
            return
        *found, (last_seq, looked, _) = await self._store.reader.fetch(
            statements.EFFECTS_CAUSED, self._root.world_id, to_seq, self._root.global_seq, MOST_TOLD
        )
        self._told_to_seq = self._world.head_seq if looked < MOST_TOLD else last_seq
        for later, cause, _ in found:
            self._told[cause].append(later)

    async def _fetch(self, places: Iterable[Place]) -> None:
        """Read the effects of places that have not been read; what is not in the log is left out."""
        missing = [place for place in places if place not in self._rows]
        if not missing:
            return
        worlds, seqs = zip(*missing, strict=True)
        for row in await self._store.reader.fetch(statements.EFFECTS_AT, list(worlds), list(seqs)):
            world_id, seq, text, checksum, kind, source_id, sim_time, first_seq = row
            self._rows[Place(world_id, seq)] = _Row(checksum, kind, source_id, sim_time, _read(text), first_seq)

    def _found(self, node: Node) -> Found:
        row = self._rows[node.place]
        effect = row.effect
        return Found(
            node.place,
            row.checksum.hex(),
            row.kind,
            row.source_id,
            row.sim_time,
            context_of(effect),
            refusal_of(effect),
            self._problem(node.place, effect),
            node,
        )

    def _problem(self, place: Place, effect: Mapping[str, Any]) -> str | None:
        if not effect:
            return "the stored text is not an effect"
        if misnamed_cause(effect, place.global_seq):
            return "caused_by does not name an earlier effect"
        parent = forked_from(effect, place.global_seq)
        if parent is None:
            return None
        row = self._rows.get(Place(parent.world_id, parent.global_seq))
        if row is not None and row.checksum.hex() != parent.checksum:
            return "the effect that it was forked from has another checksum here"
        return None


# -- folding with views ----------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """The entities that an effect touched, those that it showed to each agent, and all, if it may have touched any."""

    touched: Touched
    shown: Mapping[str, Collection[str]]
    entities: Collection[str]


_NOTHING: Final = _Seen((), {}, ())


class _NotingFold(Fold):
    """A fold that keeps the entities that the last effect touched."""

    __slots__ = ("touched",)

    def apply(self, effect: Effect) -> Touched:
        self.touched = super().apply(effect)
        return self.touched


class _Replay:
    """The fold of a stretch with the views of some agents, each from its registration on."""

    def __init__(self, fold: Fold, agents: Sequence[str]) -> None:
        self._fold = _NotingFold(fold.world_id, fold.ruleset, fold.state, fold.seq)
        self._views = Views(self._fold)
        self._agents = frozenset(agents)
        self._failed: dict[str, Exception] = {}
        self._broken: Exception | None = None
        for agent_id in agents:
            if agent_id in fold.state.metadata["agents"]:
                self._attach(agent_id)

    def apply(self, seq: int, effect: dict[str, Any]) -> _Seen:
        """Fold the next effect. Nothing is known of one that cannot be folded, and of all after it."""
        if seq == self._fold.seq == 1:  # what a world begins with comes of its genesis
            return _Seen(None, {}, frozenset(self._fold.state.entities))
        if self._broken is not None or seq <= self._fold.seq:
            return _NOTHING
        try:
            return self._apply(effect)
        except Exception as error:  # noqa: BLE001 - what is stored may be forged, and no effect at all
            self._broken = error
            return _NOTHING

    def _apply(self, effect: dict[str, Any]) -> _Seen:
        shown: dict[str, Collection[str]] = {}
        alike: dict[tuple[int, ...], Collection[str]] = {}  # agents that see the same share patches and events
        for agent_id, delta, _ in self._views.apply(effect, digests=False):  # type: ignore[arg-type]
            parts = (id(delta["patches"]), *map(id, delta["events"]))
            if parts not in alike:
                alike[parts] = self._names(agent_id, shown_by(delta, effect))  # type: ignore[arg-type]
            shown[agent_id] = alike[parts]
        if effect["kind"] == AGENT_REGISTERED_KIND and (agent_id := effect["payload"].get("agent_id")) in self._agents:
            self._attach(agent_id)
        touched = self._fold.touched
        return _Seen(touched, shown, frozenset(self._fold.state.entities) if touched is None else ())

    def notes(self) -> list[str]:
        """Return notes on effects that could not be folded, and on agents whose policies failed."""
        found = []
        if self._broken is not None:
            why = self._broken.message if isinstance(self._broken, SimulationError) else "the log cannot be folded"
            found.append(f"touched entities and views are known only to seq {self._fold.seq}: {why}")
        failed = {**self._failed, **self._views.failed}
        found += [f"what {agent_id} was shown is not known: {error}" for agent_id, error in sorted(failed.items())]
        return found

    def _attach(self, agent_id: str) -> None:
        try:
            self._views.attach(agent_id)
        except Exception as error:  # noqa: BLE001 - a third party's policy may raise anything
            self._failed[agent_id] = error

    def _names(self, agent_id: str, shown: Collection[str] | None) -> Collection[str]:
        """Return the entities that were shown: all of a view that was replaced."""
        return frozenset(self._views.view(agent_id).visible_entities) if shown is None else shown


def _fill(window: Window, replay: _Replay | None, effects: Iterable[tuple[int, dict[str, Any]]]) -> None:
    """Add effects to a window, with what folding them has told."""
    for seq, effect in effects:
        window.take(seq, effect, *(_NOTHING if replay is None else replay.apply(seq, effect)))


def _read(text: bytes) -> dict[str, Any]:
    """Return a stored effect; empty if the text is none."""
    try:
        effect = orjson.loads(text)
    except ValueError:
        return {}
    return effect if isinstance(effect, dict) else {}


# -- as JSON ---------------------------------------------------------------------------------------------------


def document(found: Why) -> dict[str, Any]:
    """Return the answer as it is written to JSON, the same by the command and over HTTP."""
    checksums = {each.place: each.checksum for each in found.effects}
    return {
        "world_id": found.root.world_id,
        "global_seq": found.root.global_seq,
        "direction": found.asked.direction,
        "depth": found.asked.depth,
        "width": found.asked.width,
        "limit": found.asked.limit,
        "head_seq": found.head_seq,
        "from_seq": found.from_seq,
        "to_seq": found.to_seq,
        "told_to_seq": found.told_to_seq,
        "notes": found.notes,
        "effects": [_of_effect(each, checksums) for each in found.effects],
    }


def _of_effect(each: Found, checksums: Mapping[Place, str]) -> dict[str, Any]:
    left_out: Mapping[LinkKind, int] = each.node.left_out
    return {
        **each.place._asdict(),
        "checksum": each.checksum,
        "kind": each.kind,
        "source_id": each.source_id,
        "sim_time": each.sim_time,
        "depth": each.node.depth,
        "context": None if each.context is None else each.context._asdict(),
        "refused": None if each.refused is None else each.refused._asdict(),
        "problem": each.problem,
        "is_expanded": each.node.is_expanded,
        "links": [
            {"kind": kind, **place._asdict(), "checksum": checksums[place], "entities": [*entities]}
            for kind, place, entities in each.node.links
        ],
        "left_out": left_out,
    }
