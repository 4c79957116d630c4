"""Causes and consequences of an effect, read from the log (`worldledger.causes`)."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from worldledger.aio import running
from worldledger.causes import (
    INHERITED_CAUSE,
    Context,
    Direction,
    History,
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
from worldledger.chain import Finding, Position, StoredEffect, Verifier, read_row, told_apart
from worldledger.core_kinds import AGENT_REGISTERED_KIND
from worldledger.deltas import DELTA_VERSION, ObservationDelta
from worldledger.errors import ParentMissingError, SimulationError, TamperedError
from worldledger.folding import Fold
from worldledger.rulesets.base import Touched
from worldledger.staleness import shown_by
from worldledger.views import Views
from worldledger_service.store import statements

if TYPE_CHECKING:
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
#: Most logs that a window is made of, which goes on over fork points.
MOST_LOGS: Final = 8
#: Effects that are folded in one go, aside: others wait for their turn there, too.
_AT_ONCE: Final = 500
#: Most effects with a cause that are looked at after the window.
MOST_TOLD: Final = 4_000
#: What a note says of a window whose chain does not hold.
_BROKEN: Final = "the window does not hold"


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


class Onward(NamedTuple):
    """A fork that the way forward goes on in: its head, or the fork point where that is left again.

    The window reaches to ``to_seq`` (0: not so far), and causes were looked for up to ``told_to_seq``.
    """

    world_id: str
    head_seq: int
    to_seq: int
    told_to_seq: int


class Why(NamedTuple):
    """The way back or forward from an effect.

    ``from_seq`` and ``to_seq`` are the window. Forward, effects after it were looked at for their ``caused_by`` up to
    ``told_to_seq``, and ``forks`` are those in which it goes on. ``notes`` say what could not be looked at.
    ``tampered``: a checksum does not hold, in the effects that were found or in the window (docs/how-to-why.md, "What
    is checked").
    """

    root: Place
    asked: Asked
    head_seq: int
    from_seq: int
    to_seq: int
    told_to_seq: int | None
    forks: list[Onward]
    notes: list[str]
    effects: list[Found]
    tampered: bool


async def why(store: Store, world: WorldRecord, seq: int, asked: Asked, of: str | None = None) -> Why:
    """Return the causes of an effect, or its consequences. Raises EffectNotFoundError and StoreUnavailableError.

    It is an effect of the world's log, or with ``of`` of this ancestor's, up to the fork point: what came of it there,
    and after the fork point in the world. In a world whose ruleset is not installed, or fails, only what effects record
    by themselves is known; the result says so.
    """
    return await _Search(store, world, Place(of or world.world_id, seq), asked).run()


class _Row(NamedTuple):
    stored: StoredEffect
    #: the checksum before it; None if the log has no effect there
    previous: bytes | None
    #: the effect as it was read; empty if the text is none
    effect: dict[str, Any]
    first_seq: int | None


class _Stretch(NamedTuple):
    """A part of one world's log that is folded."""

    world_id: str
    from_seq: int
    to_seq: int

    def has(self, place: Place) -> bool:
        """Return whether an effect lies in it."""
        return place.world_id == self.world_id and self.from_seq <= place.global_seq <= self.to_seq


class _Search:
    """One search."""

    def __init__(self, store: Store, world: WorldRecord, root: Place, asked: Asked) -> None:
        self._store = store
        self._root = root
        self._asked = asked
        self._notes: list[str] = []
        self._is_tampered = False
        #: the world after its ancestors, each with the fork point as its head
        self._line = [world]
        self._history = History(world.world_id)
        self._rows: dict[Place, _Row] = {}
        #: the window, and the parts of logs that it is made of, the oldest first
        self._window = Window(self._history)
        self._stretches: list[_Stretch] = []
        #: forward, by world the causes that effects after the window name, ascending, and the seqs of these effects
        self._caused: dict[str, tuple[Sequence[int], Sequence[int]]] = {}
        #: of them, those whose cause lies before a fork point; what other causes led to; and by world up to where they
        #: were looked for
        self._elsewhere: set[Place] = set()
        self._told: defaultdict[Place, list[Place]] = defaultdict(list)
        self._told_to: dict[str, int] = {}

    async def run(self) -> Why:
        """Search."""
        is_back = self._asked.direction == "back"
        await self._read_lineage()
        worlds = [record.world_id for record in self._line]
        at = worlds.index(self._root.world_id)
        if is_back:
            self._stretches = self._behind(self._line[: at + 1])
            await self._look()
        else:
            self._stretches = self._ahead(self._line[at:])
            async with running(self._look_further(self._line[at:])) as further:  # by the database, while this one folds
                await self._look()
                await further
        asked = self._asked
        walk = Walk(self._root, depth=asked.depth, width=asked.width, most=asked.limit, history=self._history)
        while walk.wanted:
            if is_back:
                await self._fetch(walk.wanted)
            walk.take({place: self._links(place) for place in walk.wanted})
        await self._fetch(walk.nodes)
        walk.forget([place for place in walk.nodes if place not in self._rows])
        effects = [self._found(node) for node in walk.nodes.values()]
        (stretch,) = (each for each in self._stretches if each.has(self._root))
        reached = {each.world_id: each.to_seq for each in self._stretches}
        return Why(
            self._root,
            self._asked,
            self._line[at].head_seq,
            stretch.from_seq,
            stretch.to_seq,
            None if is_back else self._told_to[self._root.world_id],
            []
            if is_back
            else [
                Onward(each.world_id, each.head_seq, reached.get(each.world_id, 0), self._told_to[each.world_id])
                for each in self._line[at + 1 :]
            ],
            self._notes,
            effects,
            self._is_tampered or any(each.problem for each in effects),
        )

    def _links(self, place: Place) -> Iterable[Link]:
        is_in_window = any(stretch.has(place) for stretch in self._stretches)
        number = self._history.number(place) if is_in_window else None
        if self._asked.direction == "forward":
            found = [] if number is None else self._window.forward(number)
            return [*found, *(Link("told", later) for later in self._led_to(place))]
        if number is not None:
            return self._window.back(number)
        row = self._rows.get(place)
        return [] if row is None else recorded_links(place, row.effect, row.first_seq, self._history)

    async def _read_lineage(self) -> None:
        """Find out which ancestors the world has, and up to where; those of a fork that is not whole are not known."""
        (world,) = self._line
        try:
            self._line = await self._store.states.line(world)
        except (ParentMissingError, TamperedError) as error:
            self._fail("what lies before the fork point is not known", error)
        self._history = History(world.world_id, ((each.world_id, each.head_seq) for each in self._line[:-1]))
        self._window = Window(self._history)

    def _note(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)

    def _fail(self, what: str, error: SimulationError) -> None:
        """Note what is not known because of an error."""
        self._note(f"{what}: {error.message}")
        self._is_tampered = self._is_tampered or isinstance(error, TamperedError)

    # -- the window ----------------------------------------------------------------------------------------

    def _behind(self, line: Sequence[WorldRecord]) -> list[_Stretch]:
        """Return the window before the effect, which goes on in the ancestors as far as it reaches."""
        found: list[_Stretch] = []
        left, to_seq = self._asked.window, self._root.global_seq
        for record in self._nearest([*reversed(line)]):
            to_seq = record.head_seq if found else to_seq
            from_seq = max(to_seq - left + 1, 1)
            found.insert(0, _Stretch(record.world_id, from_seq, to_seq))
            left -= to_seq - from_seq + 1
            if left <= 0:
                break
        return found

    def _ahead(self, line: Sequence[WorldRecord]) -> list[_Stretch]:
        """Return the window after the effect, which goes on in the forks as far as it reaches."""
        found: list[_Stretch] = []
        left, from_seq = self._asked.window + 1, self._root.global_seq
        for record in self._nearest(line):
            # Of a fork the genesis is looked at in any case: by it the fork takes over what there was.
            to_seq = max(min(from_seq + max(left, 1) - 1, record.head_seq), from_seq)
            found.append(_Stretch(record.world_id, from_seq, to_seq))
            left -= to_seq - from_seq + 1
            if to_seq < record.head_seq:
                break
            from_seq = 1
        return found

    def _nearest(self, line: Sequence[WorldRecord]) -> Iterator[WorldRecord]:
        """Yield the nearest logs, and say if there are more."""
        yield from line[:MOST_LOGS]
        if len(line) > MOST_LOGS:
            self._note(
                f"only the nearest {MOST_LOGS} logs are looked at whole, to that of {line[MOST_LOGS - 1].world_id}"
            )

    async def _look(self) -> None:
        """Read and fold the window. Raises EffectNotFoundError if the log does not have the effect."""
        first = self._stretches[0]
        async with running(self._fold_before(first)) as folding:
            read = await asyncio.gather(*map(self._read_stretch, self._stretches))
            if self._root not in self._rows:
                await self._store.reader.effect(*self._root)
            fold = await folding
        agents = self._agents([effect for effects in read for _, effect in effects])
        if first.from_seq > 1 and read[0]:
            await self._begin_request(first, read[0][0][1])
        replay: _Replay | None = None
        for stretch, effects in zip(self._stretches, read, strict=True):
            # A fork goes on from what its parent's effects have made, unless they could not be folded.
            if replay is None or replay.is_broken:
                fold = fold if stretch is first else await self._fold_before(stretch)
                replay = None if fold is None else _Replay(fold, agents)
            before = self._number(Place(stretch.world_id, stretch.from_seq)) - stretch.from_seq
            for start in range(0, len(effects), _AT_ONCE):
                part = effects[start : start + _AT_ONCE]
                await self._store.aside.run(partial(_fill, self._window, replay, stretch.world_id, before, part))
            for note in () if replay is None else replay.notes():
                self._note(note)

    async def _fold_before(self, stretch: _Stretch) -> Fold | None:
        """Return the fold before a stretch (of a whole log, after its genesis); None if there is none."""
        try:
            return await self._store.states.fold_at(stretch.world_id, max(stretch.from_seq - 1, 1))
        except SimulationError as error:
            self._fail("touched entities and views are not known", error)
            return None

    def _number(self, place: Place) -> int:
        number = self._history.number(place)
        assert number is not None  # noqa: S101 - it lies in one of the stretches
        return number

    async def _read_stretch(self, stretch: _Stretch) -> list[tuple[int, dict[str, Any]]]:
        """Read a stretch, and check its chain; return its effects, each with its seq."""
        world_id, from_seq, to_seq = stretch
        found: list[tuple[int, dict[str, Any]]] = []
        last = from_seq - 1
        previous = None if last else b""
        chain: Verifier | None = None
        # The effect before the first is read for its checksum.
        async for batch in self._store.reader.batches(world_id, after_seq=max(last - 1, 0), until_seq=to_seq):
            rows = batch
            if chain is None:
                if previous is None and rows[0].global_seq == last:
                    previous, rows = rows[0].checksum, rows[1:]
                if previous is None:
                    self._fail(_BROKEN, Finding(world_id, last, "missing from the log").error())
                chain = Verifier(world_id, start=Position(last, previous or b""))
            chain.feed_chain(rows)
            for row in rows:
                effect = _read(row.text)
                seen = previous if row.global_seq == last + 1 else None
                self._rows[Place(world_id, row.global_seq)] = _Row(row, seen, effect, None)
                found.append((row.global_seq, effect))
                last, previous = row.global_seq, row.checksum
        if chain is not None and chain.finding is not None:
            self._fail(_BROKEN, chain.finding.error())
        return found

    async def _begin_request(self, stretch: _Stretch, effect: Mapping[str, Any]) -> None:
        """Tell the window in which request it begins."""
        source_id, req_id = effect.get("source_id"), effect.get("req_id")
        if not isinstance(source_id, str) or not isinstance(req_id, str):
            return
        world_id = stretch.world_id
        for row in await self._store.reader.fetch(statements.KNOWN_REQUESTS, world_id, [source_id], [req_id]):
            if row["first_seq"] < stretch.from_seq:
                first, last = (self._number(Place(world_id, seq)) for seq in (row["first_seq"], stretch.from_seq - 1))
                self._window.begin_request(source_id, req_id, first, last)

    def _agents(self, effects: Sequence[dict[str, Any]]) -> list[str]:
        """Return the agents whose views something was made from, those nearest to the effect first."""
        nearest_first = reversed(effects) if self._asked.direction == "back" else iter(effects)
        agents = dict.fromkeys(found.agent_id for effect in nearest_first if (found := context_of(effect)) is not None)
        if len(agents) > MOST_AGENTS:
            self._note(
                f"{len(agents)} agents decided something in the window; what was shown is known for the nearest "
                f"{MOST_AGENTS}, of the others only the effect that made their view"
            )
        return [*agents][:MOST_AGENTS]

    # -- beyond it -----------------------------------------------------------------------------------------

    async def _look_further(self, line: Sequence[WorldRecord]) -> None:
        """Forward: look for what names its cause after the window, here and in the forks."""
        reached = {stretch.world_id: stretch.to_seq for stretch in self._stretches}
        left = MOST_TOLD
        for record, following in zip_longest(line, line[1:]):
            world_id, after = record.world_id, reached.get(record.world_id, 0)
            self._told_to[world_id] = after
            if following is not None and following.world_id not in reached:
                self._told[Place(world_id, record.head_seq)].append(Place(following.world_id, 1))
            if after >= record.head_seq or left <= 0:
                continue
            since = self._root.global_seq if world_id == self._root.world_id else 1
            ((last_seq, looked, *told),) = await self._store.reader.fetch(
                statements.EFFECTS_CAUSED, world_id, after, since, left, record.head_seq
            )
            self._told_to[world_id] = record.head_seq if looked < left else last_seq
            left -= looked
            seqs, causes, inheriting, inherited = (each or () for each in told)
            self._caused[world_id] = causes, seqs
            for later, said in zip(inheriting, inherited, strict=True):
                place = Place(world_id, later)
                named = self._history.inherited(place, {"source_metadata": {INHERITED_CAUSE: orjson.loads(said)}})
                if named is not None:
                    self._elsewhere.add(place)
                    self._told[named].append(place)

    def _led_to(self, place: Place) -> Iterator[Place]:
        """Yield the effects after the window that name an effect as their cause."""
        world_id, seq = place
        causes, seqs = self._caused.get(world_id, ((), ()))
        for later in seqs[bisect_left(causes, seq) : bisect_right(causes, seq)]:
            if (found := Place(world_id, later)) not in self._elsewhere:
                yield found
        yield from self._told.get(place, ())

    async def _fetch(self, places: Iterable[Place]) -> None:
        """Read the effects of places that have not been read; what is not in the log is left out."""
        missing = [place for place in places if place not in self._rows]
        if not missing:
            return
        worlds, seqs = zip(*missing, strict=True)
        for row in await self._store.reader.fetch(statements.EFFECTS_AT, list(worlds), list(seqs)):
            world_id, *stored, first_seq, previous = row
            effect = StoredEffect(*stored)
            self._rows[Place(world_id, effect.global_seq)] = _Row(effect, previous, _read(effect.text), first_seq)

    def _found(self, node: Node) -> Found:
        row = self._rows[node.place]
        stored, effect = row.stored, row.effect
        return Found(
            node.place,
            stored.checksum.hex(),
            stored.kind,
            stored.source_id,
            stored.sim_time,
            context_of(effect),
            refusal_of(effect),
            "; ".join(self._problems(node.place, row)) or None,
            node,
        )

    def _problems(self, place: Place, row: _Row) -> Iterator[str]:
        """Yield what is wrong with an effect: with what it records, and with its place in the chain."""
        effect, checksum = row.effect, row.stored.checksum
        if effect and misnamed_cause(effect, place.global_seq):
            yield "caused_by does not name an earlier effect"
        if (parent := forked_from(effect, place.global_seq)) is not None:
            there = self._rows.get(Place(parent.world_id, parent.global_seq))
            if there is not None and there.stored.checksum.hex() != parent.checksum:
                yield "the effect that it was forked from has another checksum here"
        if row.previous is None:
            yield "the effect before it is missing from the log"
        elif isinstance(what := read_row(row.stored, place.world_id, row.previous), str):
            yield what
        head = next((each.head for each in self._line if each.world_id == place.world_id), None)
        if head is not None and head.seq == place.global_seq and head.checksum != checksum:
            told, ours = told_apart(head.checksum.hex(), checksum.hex())
            yield f"the head's checksum is {told}, the log's is {ours}"


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
    """The fold of stretches that follow one another, with the views of some agents, each from its registration on."""

    def __init__(self, fold: Fold, agents: Sequence[str]) -> None:
        self._agents = agents
        self._failed: dict[str, Exception] = {}
        self._broken: Exception | None = None
        self._is_new = True
        self._begin(fold)

    @property
    def is_broken(self) -> bool:
        """Return whether there was an effect that cannot be folded."""
        return self._broken is not None

    def apply(self, place: Place, effect: dict[str, Any]) -> _Seen:
        """Fold the next effect. Nothing is known of one that cannot be folded, and of all after it."""
        seq = place.global_seq
        try:
            if self._is_new:  # it may take long, and is done where effects are folded
                self._is_new = False
                self._look()
            if self._broken is None and place.world_id != self._fold.world_id:
                self._go_on(place.world_id, effect)
            if self._broken is not None or seq < self._fold.seq:
                return _NOTHING
            if seq == self._fold.seq:  # what a world begins with comes of its genesis
                return _Seen(None, {}, frozenset(self._fold.state.entities))
            return self._apply(effect)
        except Exception as error:  # noqa: BLE001 - what is stored may be forged, and no effect at all
            self._broken = error
            return _NOTHING

    def _begin(self, fold: Fold) -> None:
        self._fold = _NotingFold(fold.world_id, fold.ruleset, fold.state, fold.seq)
        self._views = Views(self._fold)

    def _go_on(self, world_id: str, genesis: dict[str, Any]) -> None:
        """Go on in a fork, which begins with the state of its parent; its agents see what they saw there."""
        before = self._views
        self._begin(Fold(world_id, self._fold.ruleset, self._fold.state))
        self._views.apply(genesis, digests=False)  # type: ignore[arg-type]
        self._failed |= before.failed
        self._look(before)

    def _look(self, before: Views | None = None) -> None:
        """Attach the agents that are registered; of those that a parent's views have, these go on."""
        for agent_id in self._agents:
            if agent_id in self._fold.state.metadata["agents"] and agent_id not in self._failed:
                self._attach(agent_id, before)

    def _apply(self, effect: dict[str, Any]) -> _Seen:
        shown: dict[str, Collection[str]] = {}
        alike: dict[tuple[int, int], Collection[str]] = {}  # agents that see the same share patches and events
        for agent_id, patch, event in self._views.observe(effect):  # type: ignore[arg-type]
            parts = id(patch), id(event)
            if parts not in alike:
                delta = ObservationDelta(
                    view_seq=self._fold.seq,
                    patches=patch,
                    context_digest="",
                    schema_version=DELTA_VERSION,
                    events=[] if event is None else [event],
                )
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

    def _attach(self, agent_id: str, before: Views | None = None) -> None:
        try:
            if before is None or agent_id not in before.attached:
                self._views.attach(agent_id)
            else:
                self._views.inherit(agent_id, before)
        except Exception as error:  # noqa: BLE001 - a third party's policy may raise anything
            self._failed[agent_id] = error

    def _names(self, agent_id: str, shown: Collection[str] | None) -> Collection[str]:
        """Return the entities that were shown: all of a view that was replaced."""
        return frozenset(self._views.view(agent_id).visible_entities) if shown is None else shown


def _fill(
    window: Window, replay: _Replay | None, world_id: str, before: int, effects: Iterable[tuple[int, dict[str, Any]]]
) -> None:
    """Add effects of one world, whose seq 1 comes after the number ``before``, with what folding them has told."""
    for seq, effect in effects:
        seen = _NOTHING if replay is None else replay.apply(Place(world_id, seq), effect)
        window.take(before + seq, effect, *seen)


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
        "forks": [each._asdict() for each in found.forks],
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
