"""Causes: from an effect back to what it came of, and forward to what came of it.

Source: docs/how-to-why.md. A link is made from what is recorded, and from nothing else. Its kind says from what:

- ``told``: the effect itself names its cause: by ``caused_by``, in a fork perhaps by `INHERITED_CAUSE`, as the sighting
  that cancelled a generation, or, as the genesis of a fork, the effect of the parent that it goes on from
- ``request``: the same agent and req_id: a generation, refusals, the effect; in a request of many, the first of them
- ``context``: the view that an intent or a generation was made from, and the effects by which its agent was shown what
  it then saw
- ``same entity``: the last earlier effect that may have changed the same entity

`recorded_links` reads the links that the effect itself has. A `Window` knows a stretch of a `History` as it was folded,
and has all four. `Walk` goes from link to link.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from worldledger.canonical import MAX_INT
from worldledger.core_kinds import GENERATION_CANCELLED_KIND, GENERATION_STARTED_KIND, INTENT_REJECTED_KIND
from worldledger.genesis import GENESIS_KIND, ForkPoint
from worldledger.lineage import fork_point
from worldledger.rulesets.base import Touched
from worldledger.staleness import stale_by

LinkKind: TypeAlias = Literal["told", "request", "context", "same entity"]
#: The surest first.
LINK_KINDS: Final[tuple[LinkKind, ...]] = get_args(LinkKind)
Direction: TypeAlias = Literal["back", "forward"]

#: The member of ``source_metadata`` in which an effect of a fork names a cause of before the fork point, as
#: ``{"world_id": …, "global_seq": …}``. Its ``caused_by`` is the genesis then, which took over what lies before.
INHERITED_CAUSE: Final = "inherited_cause"
#: Most attempts of one request that are kept.
_ATTEMPTS: Final = 100

#: An agent and the req_id of what it asked for.
_Request: TypeAlias = tuple[str, str]


class Place(NamedTuple):
    """The place of an effect: a world, and a seq in its log."""

    world_id: str
    global_seq: int


class Link(NamedTuple):
    """A link to another effect; ``entities`` are those that it is about, sorted, where it is about any."""

    kind: LinkKind
    place: Place
    entities: tuple[str, ...] = ()


class Context(NamedTuple):
    """The view that something was made from: whose it was, and its ``view_seq``."""

    agent_id: str
    view_seq: int


class Refusal(NamedTuple):
    """Why something was refused: the error's code and its message; of a generation, why it was cancelled."""

    code: str | None
    reason: str | None


class History:
    """A world's history as one line: its ancestors up to the fork points, the oldest first, and its own log.

    It is counted through, from 1 on: in a world that is no fork a place has its seq as its number. ``ancestors`` are
    their names, each with the fork point.
    """

    def __init__(self, world_id: str, ancestors: Iterable[tuple[str, int]] = ()) -> None:
        #: by world: the number before its first effect, and its last effect that belongs to the history
        self._spans: dict[str, tuple[int, int]] = {}
        end = 0
        for name, until_seq in [*ancestors, (world_id, MAX_INT)]:
            self._spans[name] = end, until_seq
            end += until_seq
        self._names = [*self._spans]
        self._before = [before for before, _ in self._spans.values()]

    def number(self, place: Place) -> int | None:
        """Return the number of a place; None if it is no part of this history."""
        before, until_seq = self._spans.get(place.world_id, (0, 0))
        return before + place.global_seq if 1 <= place.global_seq <= until_seq else None

    def place(self, number: int) -> Place:
        """Return the place with a number."""
        index = bisect_left(self._before, number) - 1
        return Place(self._names[index], number - self._before[index])

    def nearest(self, place: Place, links: list[Link]) -> list[Link]:
        """Return links, those to the nearest places first, those that lead out of this history last."""
        if len(links) < 2:
            return links
        here = self.number(place)

        def distance(link: Link) -> tuple[bool, int]:
            there = self.number(link.place)
            if here is None or there is None:
                return True, abs(place.global_seq - link.place.global_seq)
            return False, abs(here - there)

        return sorted(links, key=distance)

    def inherited(self, place: Place, effect: Mapping[str, Any]) -> Place | None:
        """Return the earlier effect of an ancestor that the effect at a place names as its cause; None if none."""
        named = inherited_cause(effect)
        if named is None or named.world_id == place.world_id:
            return None
        here, there = self.number(place), self.number(named)
        return None if here is None or there is None or there > here else named


# -- what an effect records ----------------------------------------------------------------------------------------


def told_cause(effect: Mapping[str, Any], seq: int) -> int | None:
    """Return the seq that the effect at ``seq`` names as its cause; None if it names none, or none before it."""
    named = effect.get("caused_by")
    if named is None and _kind(effect) == GENERATION_CANCELLED_KIND:
        named = stale_by(_payload(effect).get("reason"))
    return named if type(named) is int and 1 <= named < seq else None


def inherited_cause(effect: Mapping[str, Any]) -> Place | None:
    """Return the effect before the fork point that an effect of a fork names as its cause; None if it names none.

    Whether that is a place of the fork's history is for `History` to say.
    """
    metadata = effect.get("source_metadata")
    named = metadata.get(INHERITED_CAUSE) if isinstance(metadata, dict) else None
    if not isinstance(named, dict):
        return None
    world_id, seq = named.get("world_id"), named.get("global_seq")
    return Place(world_id, seq) if isinstance(world_id, str) and type(seq) is int and 1 <= seq <= MAX_INT else None


def misnamed_cause(effect: Mapping[str, Any], seq: int) -> bool:
    """Return whether ``caused_by`` is there and does not name an earlier effect, as in a log that was forged."""
    return effect.get("caused_by") is not None and told_cause(effect, seq) is None


def forked_from(effect: Mapping[str, Any], seq: int) -> ForkPoint | None:
    """Return the effect of the parent that the genesis of a fork goes on from; None for any other effect."""
    if seq != 1 or _kind(effect) != GENESIS_KIND:
        return None
    try:
        return fork_point(_payload(effect))
    except ValueError:
        return None


def context_of(effect: Mapping[str, Any]) -> Context | None:
    """Return the view that an intent's effect, a refused intent or a generation was made from; None if not recorded."""
    agent_id: Any
    if _kind(effect) in {GENERATION_STARTED_KIND, INTENT_REJECTED_KIND}:
        payload = _payload(effect)
        agent_id, view_seq = payload.get("agent_id"), payload.get("context_seq")
    else:
        made_from = effect.get("source_metadata")
        if not isinstance(made_from, dict) or "intent" not in made_from:
            return None
        agent_id, view_seq = effect.get("source_id"), made_from.get("context_seq")
    if isinstance(agent_id, str) and type(view_seq) is int and view_seq >= 1:
        return Context(agent_id, view_seq)
    return None


def request_of(effect: Mapping[str, Any]) -> _Request | None:
    """Return the agent and the req_id of what an effect belongs to: a request, a generation for one, or its refusal."""
    of_payload = _kind(effect).startswith("Generation") or _kind(effect) == INTENT_REJECTED_KIND
    agent_id, req_id = (
        map(_payload(effect).get, ("agent_id", "req_id"))
        if of_payload
        else (effect.get("source_id"), effect.get("req_id"))
    )
    return (agent_id, req_id) if isinstance(agent_id, str) and isinstance(req_id, str) else None


def recorded_links(
    place: Place, effect: Mapping[str, Any], first_seq: int | None = None, history: History | None = None
) -> list[Link]:
    """Return the links back that an effect has by itself.

    ``first_seq`` is the first effect of its request; ``history`` is needed for causes of before a fork point.
    """
    world_id, seq = place
    context = context_of(effect)
    inherited = None if history is None else history.inherited(place, effect)
    found: list[tuple[LinkKind, int | None]] = [
        ("told", told_cause(effect, seq) if inherited is None else None),
        ("request", first_seq),
        ("context", None if context is None else context.view_seq),
    ]
    links = [] if inherited is None else [Link("told", inherited)]
    links += [Link(kind, Place(world_id, cause)) for kind, cause in found if cause is not None and 1 <= cause < seq]
    if (parent := forked_from(effect, seq)) is not None:
        links.append(Link("told", Place(parent.world_id, parent.global_seq)))
    return links


def refusal_of(effect: Mapping[str, Any]) -> Refusal | None:
    """Return why an intent was refused or a generation cancelled; None for other effects."""
    if _kind(effect) not in {INTENT_REJECTED_KIND, GENERATION_CANCELLED_KIND}:
        return None
    code, reason = map(_payload(effect).get, ("code", "reason"))
    return Refusal(code if isinstance(code, str) else None, reason if isinstance(reason, str) else None)


def _kind(effect: Mapping[str, Any]) -> str:
    kind = effect.get("kind")
    return kind if isinstance(kind, str) else ""


def _payload(effect: Mapping[str, Any]) -> Mapping[str, Any]:
    payload = effect.get("payload")
    return payload if isinstance(payload, dict) else {}


# -- a stretch of the log ------------------------------------------------------------------------------------------


class Window:
    """A stretch of one world's history, from which its links are known in both directions.

    Places are given by their numbers in the history. `back` and `forward` are inverse to each other: what one finds
    from either end, the other finds from the other. Only the link from the genesis of a fork to a parent that is not in
    the history is found from the genesis alone.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        #: by direction: number -> the numbers that it is linked to, with the entities of each
        self._links: dict[tuple[Direction, LinkKind], defaultdict[int, dict[int, list[str]]]] = {
            (direction, kind): defaultdict(dict) for direction in get_args(Direction) for kind in LINK_KINDS
        }
        #: by genesis: the effect that it goes on from, in a parent that is not in the history
        self._parents: dict[int, Place] = {}
        self._touched: dict[str, int] = {}
        #: the last effect that may have changed any entity, and the entities that there were after it
        self._any: tuple[int, Collection[str]] = (0, ())
        #: by request: the effects of its attempts; and the first and the last effect of the newest one
        self._attempts: defaultdict[_Request, deque[int]] = defaultdict(lambda: deque(maxlen=_ATTEMPTS))
        self._runs: dict[_Request, tuple[int, int]] = {}
        #: by number: whose view something was made from, and the number of that view
        self._contexts: dict[int, tuple[str, int]] = {}
        #: by the number of a view: what was made from it
        self._decided_from: defaultdict[int, list[int]] = defaultdict(list)
        #: by agent: (the number of a view, that of what was made from it), ascending
        self._made_from: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        #: by agent and entity: the effects by which the agent was shown it, ascending
        self._shown: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        #: by number: to whom an effect showed which entities
        self._showed: defaultdict[int, dict[str, Collection[str]]] = defaultdict(dict)

    def begin_request(self, source_id: str, req_id: str, first: int, last: int) -> None:
        """Say that the window begins inside a request of many effects: its first, and its last before the window."""
        self._runs[source_id, req_id] = (first, last)

    def take(
        self,
        number: int,
        effect: Mapping[str, Any],
        touched: Touched = (),
        shown: Mapping[str, Collection[str]] | None = None,
        entities: Collection[str] = (),
    ) -> None:
        """Add the next effect.

        ``touched`` are the entities that it may have changed; if it is None, ``entities`` are all that there are after
        it. ``shown`` says which entities it showed to which agents.
        """
        place = self._history.place(number)
        before = number - place.global_seq
        if (inherited := self._history.inherited(place, effect)) is not None:
            self._link("told", number, self._history.number(inherited) or 0)
        elif (cause := told_cause(effect, place.global_seq)) is not None:
            self._link("told", number, before + cause)
        if (parent := forked_from(effect, place.global_seq)) is not None:
            self._go_on(number, Place(parent.world_id, parent.global_seq))
        self._take_request(number, effect)
        self._take_touched(number, touched, entities)
        for agent_id, names in (shown or {}).items():
            if names:
                self._showed[number][agent_id] = names
            for name in names:
                self._shown[agent_id][name].append(number)
        if (context := context_of(effect)) is not None and context.view_seq < place.global_seq:
            view = before + context.view_seq
            self._contexts[number] = (context.agent_id, view)
            self._decided_from[view].append(number)
            insort(self._made_from[context.agent_id], (view, number))

    def back(self, number: int) -> list[Link]:
        """Return the links from an effect to what it came of."""
        causes: dict[int, list[str]] = {}
        if number in self._contexts:
            agent_id, view = self._contexts[number]
            causes[view] = []
            for name, seen in self._shown_to(agent_id).items():
                if count := bisect_right(seen, view):
                    causes.setdefault(seen[count - 1], []).append(name)
        parents = [Link("told", self._parents[number])] if number in self._parents else []
        return [*parents, *self._of("back", number), *self._as_links("context", causes)]

    def forward(self, number: int) -> list[Link]:
        """Return the links from an effect to what came of it."""
        led_to: dict[int, list[str]] = {}
        for later in self._decided_from.get(number, ()):
            led_to[later] = []
        for agent_id, names in self._showed.get(number, {}).items():
            if agent_id not in self._made_from:
                continue
            made = self._made_from[agent_id]
            start = bisect_left(made, (number, 0))
            for name in names:
                seen = self._shown[agent_id][name]
                after = bisect_right(seen, number)
                # Until it is shown the entity again, this is what it saw of it.
                end = bisect_left(made, (seen[after], 0)) if after < len(seen) else len(made)
                for _, later in made[start:end]:
                    if later > number:
                        led_to.setdefault(later, []).append(name)
        return [*self._of("forward", number), *self._as_links("context", led_to)]

    def _go_on(self, genesis: int, parent: Place) -> None:
        """Go on in a fork, which takes over its parent's state; requests that were accepted before are done with."""
        if self._history.number(parent) != genesis - 1:
            self._parents[genesis] = parent
            return
        self._link("told", genesis, genesis - 1)
        for name in sorted({*self._any[1], *self._touched}):
            self._link("same entity", genesis, self._last_touched(name), name)
        for request in self._runs:
            self._attempts.pop(request, None)
        self._runs.clear()

    def _shown_to(self, agent_id: str) -> Mapping[str, list[int]]:
        return self._shown.get(agent_id, {})

    def _of(self, direction: Direction, number: int) -> Iterable[Link]:
        for kind in LINK_KINDS:
            yield from self._as_links(kind, self._links[direction, kind].get(number, {}))

    def _as_links(self, kind: LinkKind, found: Mapping[int, Sequence[str]]) -> list[Link]:
        place = self._history.place
        return [
            Link(kind, place(number), tuple(sorted(names)) if len(names) > 1 else tuple(names))
            for number, names in found.items()
        ]

    def _link(self, kind: LinkKind, number: int, cause: int, name: str | None = None) -> None:
        for direction, start, end in (("back", number, cause), ("forward", cause, number)):
            names = self._links[direction, kind][start].setdefault(end, [])  # type: ignore[index]
            if name is not None:
                names.append(name)

    def _take_request(self, number: int, effect: Mapping[str, Any]) -> None:
        request = request_of(effect)
        if request is None:
            return
        is_asked = effect.get("req_id") == request[1]  # else it is a generation, or a refusal
        first, last = self._runs.get(request, (0, 0))
        if is_asked and first and last == number - 1:
            self._link("request", number, first)
            self._runs[request] = (first, number)
            return
        attempts = self._attempts[request]
        for earlier in attempts:
            self._link("request", number, earlier)
        attempts.append(number)
        if is_asked:
            self._runs[request] = (number, number)

    def _take_touched(self, number: int, touched: Touched, entities: Collection[str]) -> None:
        if touched is None:
            self._any = (number, frozenset(entities))
            return
        for name in sorted({touched} if isinstance(touched, str) else {*touched}):
            if last := self._last_touched(name):
                self._link("same entity", number, last, name)
            self._touched[name] = number

    def _last_touched(self, name: str) -> int:
        """Return the last effect that may have changed an entity; 0 if there is none in the window."""
        any_number, there = self._any
        return max(self._touched.get(name, 0), any_number if name in there else 0)


# -- going from link to link ---------------------------------------------------------------------------------------


@dataclass
class Node:
    """An effect on the way: how many links it lies from the beginning, and its own links.

    ``is_expanded`` is False where the walk ended, at its depth. ``left_out`` counts links that were too many, by kind.
    """

    place: Place
    depth: int
    is_expanded: bool = False
    links: list[Link] = field(default_factory=list)
    left_out: dict[LinkKind, int] = field(default_factory=dict)


class Walk:
    """A walk along links in one direction, the nearest first: level by level, each effect once.

    It ends at ``depth`` links from the root, or with ``most`` effects. Of each kind, ``width`` links of an effect are
    taken, those to the nearest effects in the ``history``. Ask for the links of every place in ``wanted`` and pass them
    to `take`, until nothing is wanted.
    """

    def __init__(self, root: Place, *, depth: int, width: int, most: int, history: History | None = None) -> None:
        self.nodes = {root: Node(root, 0)}
        self.wanted = [root] if depth > 0 else []
        self._history = History(root.world_id) if history is None else history
        self._depth = depth
        self._width = width
        self._most = most

    def take(self, found: Mapping[Place, Iterable[Link]]) -> None:
        """Go on along the links of the places that were wanted; a place that is missing has none."""
        following: list[Place] = []
        for place in self.wanted:
            node = self.nodes[place]
            node.is_expanded = True
            for link in self._nearest(node, found.get(place, ())):
                if link.place in self.nodes:
                    node.links.append(link)
                elif len(self.nodes) < self._most:
                    node.links.append(link)
                    self.nodes[link.place] = Node(link.place, node.depth + 1)
                    following.append(link.place)
                else:
                    node.left_out[link.kind] = node.left_out.get(link.kind, 0) + 1
        self.wanted = [place for place in following if self.nodes[place].depth < self._depth]

    def forget(self, places: Collection[Place]) -> None:
        """Drop nodes that turned out not to be there, and the links to them."""
        for place in places:
            del self.nodes[place]
        for node in self.nodes.values():
            node.links = [link for link in node.links if link.place not in places]

    def _nearest(self, node: Node, links: Iterable[Link]) -> list[Link]:
        by_kind: defaultdict[LinkKind, list[Link]] = defaultdict(list)
        for link in links:
            by_kind[link.kind].append(link)
        chosen: list[Link] = []
        for kind in LINK_KINDS:
            every = self._history.nearest(node.place, by_kind[kind])
            chosen += every[: self._width]
            if len(every) > self._width:
                node.left_out[kind] = len(every) - self._width
        return chosen
