"""Causes: from an effect back to what it came of, and forward to what came of it.

Source: docs/how-to-why.md. A link is made from what is recorded, and from nothing else. Its kind says from what:

- ``told``: the effect itself names its cause: by ``caused_by``, as the sighting that cancelled a generation, or, as the
  genesis of a fork, the effect of the parent that it goes on from
- ``request``: the same agent and req_id: a generation, refusals, the effect; in a request of many, the first of them
- ``context``: the view that an intent or a generation was made from, and the effects by which its agent was shown what
  it then saw
- ``same entity``: the last earlier effect that may have changed the same entity

`recorded_links` reads the links that the effect itself has. A `Window` knows a stretch of the log as it was folded, and
has all four. `Walk` goes from link to link.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from worldledger.core_kinds import GENERATION_CANCELLED_KIND, GENERATION_STARTED_KIND, INTENT_REJECTED_KIND
from worldledger.genesis import GENESIS_KIND, ForkPoint
from worldledger.lineage import fork_point
from worldledger.rulesets.base import Touched

LinkKind: TypeAlias = Literal["told", "request", "context", "same entity"]
#: The surest first.
LINK_KINDS: Final[tuple[LinkKind, ...]] = get_args(LinkKind)
Direction: TypeAlias = Literal["back", "forward"]

#: The reason of a generation that was cancelled as stale, before the seq of the sighting.
_STALE: Final = "stale_due_to_effect_"
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


# -- what an effect records ----------------------------------------------------------------------------------------


def told_cause(effect: Mapping[str, Any], seq: int) -> int | None:
    """Return the seq that the effect at ``seq`` names as its cause; None if it names none, or none before it."""
    named = effect.get("caused_by")
    if named is None and _kind(effect) == GENERATION_CANCELLED_KIND:
        reason = _payload(effect).get("reason")
        digits = reason.removeprefix(_STALE) if isinstance(reason, str) and reason.startswith(_STALE) else ""
        named = int(digits) if 0 < len(digits) < 17 and digits.isascii() and digits.isdigit() else None
    return named if type(named) is int and 1 <= named < seq else None


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


def recorded_links(place: Place, effect: Mapping[str, Any], first_seq: int | None = None) -> list[Link]:
    """Return the links back that an effect has by itself; ``first_seq`` is the first effect of its request."""
    world_id, seq = place
    context = context_of(effect)
    found: list[tuple[LinkKind, int | None]] = [
        ("told", told_cause(effect, seq)),
        ("request", first_seq),
        ("context", None if context is None else context.view_seq),
    ]
    links = [Link(kind, Place(world_id, cause)) for kind, cause in found if cause is not None and 1 <= cause < seq]
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
    """A stretch of one world's log, from which its links are known in both directions.

    `back` and `forward` are inverse to each other: what one finds from either end, the other finds from the other. Only
    the link from the genesis of a fork to its parent is found from the genesis alone.
    """

    def __init__(self, world_id: str) -> None:
        self.world_id = world_id
        #: by direction: seq -> the seqs that it is linked to, with the entities of each
        self._links: dict[tuple[Direction, LinkKind], defaultdict[int, dict[int, list[str]]]] = {
            (direction, kind): defaultdict(dict) for direction in get_args(Direction) for kind in LINK_KINDS
        }
        #: the effect of the parent that the genesis goes on from
        self._parent: Place | None = None
        self._touched: dict[str, int] = {}
        #: the last effect that may have changed any entity, and the entities that there were after it
        self._any: tuple[int, Collection[str]] = (0, ())
        #: by request: the effects of its attempts; and the first and the last effect of the newest one
        self._attempts: defaultdict[_Request, deque[int]] = defaultdict(lambda: deque(maxlen=_ATTEMPTS))
        self._runs: dict[_Request, tuple[int, int]] = {}
        self._contexts: dict[int, Context] = {}
        #: by agent: (view_seq, the seq of what was made from that view), ascending
        self._made_from: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        #: by agent and entity: the effects by which the agent was shown it, ascending
        self._shown: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        #: by seq: to whom it showed which entities
        self._showed: defaultdict[int, dict[str, Collection[str]]] = defaultdict(dict)

    def begin_request(self, source_id: str, req_id: str, first_seq: int, last_seq: int) -> None:
        """Say that the window begins inside a request of many effects: its first, and its last before the window."""
        self._runs[source_id, req_id] = (first_seq, last_seq)

    def take(
        self,
        seq: int,
        effect: Mapping[str, Any],
        touched: Touched = (),
        shown: Mapping[str, Collection[str]] | None = None,
        entities: Collection[str] = (),
    ) -> None:
        """Add the next effect.

        ``touched`` are the entities that it may have changed; if it is None, ``entities`` are all that there are after
        it. ``shown`` says which entities it showed to which agents.
        """
        if (cause := told_cause(effect, seq)) is not None:
            self._link("told", seq, cause)
        if (parent := forked_from(effect, seq)) is not None:
            self._parent = Place(parent.world_id, parent.global_seq)
        self._take_request(seq, effect)
        self._take_touched(seq, touched, entities)
        for agent_id, names in (shown or {}).items():
            if names:
                self._showed[seq][agent_id] = names
            for name in names:
                self._shown[agent_id][name].append(seq)
        if (context := context_of(effect)) is not None and context.view_seq < seq:
            self._contexts[seq] = context
            insort(self._made_from[context.agent_id], (context.view_seq, seq))

    def back(self, seq: int) -> list[Link]:
        """Return the links from an effect to what it came of."""
        context = self._contexts.get(seq)
        causes: dict[int, list[str]] = {}
        if context is not None:
            causes[context.view_seq] = []
            for name, seqs in self._shown_to(context.agent_id).items():
                if count := bisect_right(seqs, context.view_seq):
                    causes.setdefault(seqs[count - 1], []).append(name)
        parents = [Link("told", self._parent)] if seq == 1 and self._parent is not None else []
        return [*parents, *self._of("back", seq), *self._as_links("context", causes)]

    def forward(self, seq: int) -> list[Link]:
        """Return the links from an effect to what came of it."""
        led_to: dict[int, list[str]] = {}
        for agent_id, made in self._made_from.items():
            for _, later in made[bisect_left(made, (seq, 0)) : bisect_left(made, (seq + 1, 0))]:
                led_to.setdefault(later, [])
            for name in self._showed[seq].get(agent_id, ()) if seq in self._showed else ():
                seqs = self._shown[agent_id][name]
                after = bisect_right(seqs, seq)
                # Until it is shown the entity again, this is what it saw of it.
                end = (seqs[after], 0) if after < len(seqs) else (made[-1][0] + 1, 0)
                for _, later in made[bisect_left(made, (seq, 0)) : bisect_left(made, end)]:
                    if later > seq:
                        led_to.setdefault(later, []).append(name)
        return [*self._of("forward", seq), *self._as_links("context", led_to)]

    def last_touched(self) -> list[Link]:
        """Return links to the effects that may have changed each entity last: a fork that begins here takes it over."""
        any_seq, there = self._any
        last = dict.fromkeys(there, any_seq)
        for name, seq in self._touched.items():
            last[name] = max(seq, last.get(name, 0))
        found: defaultdict[int, list[str]] = defaultdict(list)
        for name, seq in last.items():
            found[seq].append(name)
        return self._as_links("same entity", found)

    def _shown_to(self, agent_id: str) -> Mapping[str, list[int]]:
        return self._shown.get(agent_id, {})

    def _of(self, direction: Direction, seq: int) -> Iterable[Link]:
        for kind in LINK_KINDS:
            yield from self._as_links(kind, self._links[direction, kind].get(seq, {}))

    def _as_links(self, kind: LinkKind, found: Mapping[int, Sequence[str]]) -> list[Link]:
        return [Link(kind, Place(self.world_id, seq), tuple(sorted(names))) for seq, names in found.items()]

    def _link(self, kind: LinkKind, seq: int, cause: int, name: str | None = None) -> None:
        for direction, start, end in (("back", seq, cause), ("forward", cause, seq)):
            names = self._links[direction, kind][start].setdefault(end, [])  # type: ignore[index]
            if name is not None:
                names.append(name)

    def _take_request(self, seq: int, effect: Mapping[str, Any]) -> None:
        request = request_of(effect)
        if request is None:
            return
        is_asked = effect.get("req_id") == request[1]  # else it is a generation, or a refusal
        first, last = self._runs.get(request, (0, 0))
        if is_asked and first and last == seq - 1:
            self._link("request", seq, first)
            self._runs[request] = (first, seq)
            return
        attempts = self._attempts[request]
        for earlier in attempts:
            self._link("request", seq, earlier)
        attempts.append(seq)
        if is_asked:
            self._runs[request] = (seq, seq)

    def _take_touched(self, seq: int, touched: Touched, entities: Collection[str]) -> None:
        if touched is None:
            self._any = (seq, frozenset(entities))
            return
        any_seq, there = self._any
        for name in sorted({touched} if isinstance(touched, str) else {*touched}):
            last = max(self._touched.get(name, 0), any_seq if name in there else 0)
            if last:
                self._link("same entity", seq, last, name)
            self._touched[name] = seq


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
    taken, those to the nearest effects. Ask for the links of every place in ``wanted`` and pass them to `take`, until
    nothing is wanted.
    """

    def __init__(self, root: Place, *, depth: int, width: int, most: int) -> None:
        self.nodes = {root: Node(root, 0)}
        self.wanted = [root] if depth > 0 else []
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
            every = sorted(by_kind[kind], key=lambda link: _distance(node.place, link.place))
            chosen += every[: self._width]
            if len(every) > self._width:
                node.left_out[kind] = len(every) - self._width
        return chosen


def _distance(one: Place, other: Place) -> tuple[bool, int]:
    """Return a key by which the nearest places of the same world come first."""
    return one.world_id != other.world_id, abs(one.global_seq - other.global_seq)
