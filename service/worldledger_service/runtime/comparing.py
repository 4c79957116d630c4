"""Comparing worlds: two logs read side by side, and what became of the runs after they parted.

`worldledger.comparing` says what counts and how effects are aligned. Here logs are read in batches, so memory does not
grow with them; states are folded only where effects differ, for equal effects make equal states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from worldledger.comparing import (
    MOST_WORLDS,
    OWN_OF_STATES,
    Aligner,
    Difference,
    Divergence,
    Likeness,
    Path,
    differences,
    genesis_differences,
    left_out_of,
    parse_path,
    unit_of,
)
from worldledger.errors import NotComparableError, UnknownAgentError
from worldledger.kinds import installed
from worldledger.moments import AUTO
from worldledger.near import near
from worldledger_service.runtime.courses import Course, course_of, grouped, groups_of, series
from worldledger_service.runtime.histories import History, Shared, history_of, shared_past
from worldledger_service.runtime.origins import Origins
from worldledger_service.store.prefetch import prefetch

if TYPE_CHECKING:
    from worldledger.chain import StoredRow
    from worldledger.measures import Measures
    from worldledger.moments import Unit
    from worldledger.observation import View
    from worldledger.rulesets import Ruleset
    from worldledger.world import WorldState
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.states import StateAt

#: Most differences of states and views, and most names, that are listed.
MOST_LISTED: Final = 100
#: Most effects of a shared past whose measures are told, too.
MOST_REPEATED: Final = 10_000
#: Rows that are compared on the event loop; more goes to a thread.
_AT_ONCE: Final = 200
#: Members of an entity in the state's metadata that are told: names only.
_AGENTS: Final = "agents"

#: Called with the number of effects that have been read, of how many.
Progress = Callable[[int, int], None]


class Wanted(NamedTuple):
    """The options of a comparison: alignment, paths to ignore, the agent whose views are compared, and grouping."""

    by: str = AUTO
    ignore: Sequence[str] = ()
    view: str | None = None
    group: str | None = None


class _Asked(NamedTuple):
    """The checked options: the ruleset of all runs, its measures, the unit of alignment, and all paths to ignore."""

    ruleset: Ruleset
    measures: Measures | None
    by: str
    unit: Unit | None
    ignored: Sequence[Path]


async def compare(
    store: Store, records: Sequence[WorldRecord], wanted: Wanted | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Compare worlds up to the heads that their records name; return the answer of ``GET /v1/compare`` as an object.

    Raises NotComparableError for fewer than two worlds, more than twenty, worlds of different kinds, and a unit, path
    or group that does not exist; UnknownAgentError for an agent that no world has.
    """
    wanted = wanted or Wanted()
    asked = await _checked(store, records, wanted)
    total, done = sum(record.head_seq for record in records) * (len(records) - 1), 0
    pairs = []
    for a, b in combinations(records, 2):
        tell = None if progress is None else partial(_tell, progress, done, total)
        pairs.append(await _pair(store, a, b, asked, tell))
        done += a.head_seq + b.head_seq
    courses: list[Course] = []
    if asked.measures is not None and asked.ruleset.units:
        first = next(iter(asked.ruleset.units.values()))
        whole = [await history_of(store, record) for record in records]
        if len(records) == 2 and pairs[0].shared.equal > MOST_REPEATED:  # what follows is what is asked for
            whole = [pairs[0].shared.a, pairs[0].shared.b]
        courses = [await course_of(store, history, asked.measures, first) for history in whole]
    found: dict[str, Any] = {
        "worlds": [_world(record, courses[n] if courses else None) for n, record in enumerate(records)],
        "by": asked.by,
        "ignored": ["$" + "".join(f"[{_quoted(step)}]" for step in path) for path in asked.ignored],
        "pairs": [each.document(asked.by) for each in pairs],
        "series": series(courses),
        "series_unit": next(iter(asked.ruleset.units), None) if courses else None,
        "groups": None,
        "after": None,
        "states": None,
        "views": None,
    }
    if wanted.group is not None:
        if not courses:
            raise NotComparableError(f"worlds of {asked.ruleset.name} have no measures to be grouped")
        groups = groups_of(records, courses, wanted.group)
        found["groups"] = {"by": wanted.group, "of": groups, "series": grouped(found["series"], groups)}
    if len(records) == 2:
        found |= await _details(store, records, pairs[0], asked, wanted.view, courses)
    return found


def _tell(progress: Progress, done: int, total: int, more: int) -> None:
    progress(done + more, total)


def _quoted(step: str) -> str:
    return "*" if step == "*" else f'"{step}"'


async def _checked(store: Store, records: Sequence[WorldRecord], wanted: Wanted) -> _Asked:
    if not 2 <= len(records) <= MOST_WORLDS:
        raise NotComparableError(f"give 2 to {MOST_WORLDS} worlds, not {len(records)}")
    if wanted.view is not None and len(records) > 2:
        raise NotComparableError("an agent's views are compared in two worlds, not in more")
    rulesets = {record.ruleset: record.world_id for record in reversed(records)}
    if len(rulesets) > 1:
        said = ", ".join(f"{world_id!r} is of the kind {ruleset}" for ruleset, world_id in reversed(rulesets.items()))
        raise NotComparableError(f"only worlds of one kind can be compared: {said}", rulesets=sorted(rulesets))
    ruleset = (await store.states.rules(records[0].world_id)).ruleset
    by, unit = unit_of(wanted.by, ruleset.units, ruleset.name)
    ignored = dict.fromkeys((*left_out_of(ruleset.name), *map(parse_path, wanted.ignore)))
    return _Asked(ruleset, measures_of(ruleset.name), by, unit, [*ignored])


def measures_of(ruleset: str) -> Measures | None:
    """Return the measures of a kind, None if it has none or is not installed. Raises InvalidKindError."""
    kind = installed().get(ruleset)
    return None if kind is None else kind.load("measures")


def _world(record: WorldRecord, course: Course | None) -> dict[str, Any]:
    return {
        "world_id": record.world_id,
        "ruleset": record.ruleset,
        "experiment": record.experiment,
        "head_seq": record.head_seq,
        "head_checksum": record.head_checksum,
        "outcome": None if course is None else course.outcome,
        "labels": {} if course is None else course.labels,
    }


# -- two logs ------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two runs and their differences: in their settings, in their beginnings, and the first divergence."""

    a: WorldRecord
    b: WorldRecord
    settings: Sequence[Difference]
    shared: Shared
    aligned: Aligner

    @property
    def is_equal(self) -> bool:
        """Return whether nothing differs at all."""
        return not (self.settings or self.aligned.beginnings or self.aligned.divergence)

    def document(self, by: str) -> dict[str, Any]:
        """Return the pair as it is written to JSON."""
        divergence = self.aligned.divergence
        return {
            "a": self.a.world_id,
            "b": self.b.world_id,
            "equal": self.is_equal,
            "equal_effects": self.shared.equal + self.aligned.equal,
            "shared_effects": self.shared.equal,
            "settings": [field.document() for field in self.settings],
            "beginnings": [_parted(each, by) for each in self.aligned.beginnings],
            "divergence": None if divergence is None else _parted(divergence, by),
        }


def _parted(found: Divergence, by: str) -> dict[str, Any]:
    return {
        "unit": by,
        "number": found.number,
        "a": _effect(found.a),
        "b": _effect(found.b),
        "fields": [field.document() for field in found.fields],
    }


def _effect(row: StoredRow | None) -> dict[str, Any] | None:
    if row is None:
        return None
    seq, text, checksum, kind, source_id, sim_time = row
    return {
        "world_id": _world_of(text),
        "global_seq": seq,
        "kind": kind,
        "source_id": source_id,
        "sim_time": sim_time,
        "checksum": checksum.hex(),
    }


def _world_of(text: bytes) -> str:
    found: str = orjson.loads(text)["world_id"]
    return found


async def _pair(
    store: Store, a: WorldRecord, b: WorldRecord, asked: _Asked, tell: Callable[[int], None] | None
) -> Pair:
    one, other = [await store.reader.effect(record.world_id, 1) for record in (a, b)]
    settings = genesis_differences(one.text, other.text, asked.ignored)
    # Where a clock sets sim_time, it is no part of what happened.
    with_sim_time = "wall" not in {a.time_authority, b.time_authority}
    likeness = Likeness(with_sim_time=with_sim_time, ignored=asked.ignored)
    shared = await shared_past(store, await history_of(store, a), await history_of(store, b), asked.by, asked.unit)
    aligner = Aligner(likeness, asked.by, asked.unit, since=shared.section)
    await _align(store, aligner, shared.a, shared.b, tell)
    return Pair(a, b, settings, shared, aligner)


async def _align(store: Store, aligner: Aligner, a: History, b: History, tell: Callable[[int], None] | None) -> None:
    """Feed an aligner both histories, a batch of either at a time, until it is done."""
    read = 0
    async with prefetch(_rows(store, a)) as ones, prefetch(_rows(store, b)) as others:
        while not aligner.is_done:
            fed: list[Sequence[Any] | None] = [
                await anext(batches, None) if is_hungry else ()
                for batches, is_hungry in zip((ones, others), aligner.hungry, strict=True)
            ]
            rows = [batch or () for batch in fed]
            over = [batch is None for batch in fed]
            work = partial(aligner.feed, *rows, a_over=over[0], b_over=over[1])
            if sum(map(len, rows)) <= _AT_ONCE:
                work()
            else:
                await store.aside.run(work)
            read += sum(map(len, rows))
            if tell is not None:
                tell(read)


async def _rows(store: Store, history: History) -> AsyncGenerator[list[Any], None]:
    for stretch in history:
        async with aclosing(stretch.records(store)) as batches:
            async for batch in batches:
                yield batch


class At(NamedTuple):
    """A world's state at a seq."""

    world_id: str
    global_seq: int
    state: WorldState


async def _at(store: Store, world_id: str, seq: int) -> At:
    return At(world_id, seq, (await store.states.fold_at(world_id, seq)).state)


# -- what came of it -----------------------------------------------------------------------------------------


async def _details(
    store: Store,
    records: Sequence[WorldRecord],
    pair: Pair,
    asked: _Asked,
    agent: str | None,
    courses: Sequence[Course],
) -> dict[str, Any]:
    """Return the differences after the divergence: counts, names, states, and the views of an agent if one is named."""
    if pair.is_equal and agent is None:
        return {"states": {"divergence": None, "head": listed([])}}
    ignored = [*OWN_OF_STATES, *asked.ignored]
    if courses:  # which end at the heads
        heads = [
            At(record.world_id, record.head_seq, course.state) for record, course in zip(records, courses, strict=True)
        ]
    else:
        heads = [await _at(store, record.world_id, record.head_seq) for record in records]
    found: dict[str, Any] = {"after": None, "views": None}
    there: list[At] | None = None
    divergence = pair.aligned.divergence
    if divergence is not None:
        shared = pair.shared
        places = [
            _place(row, record, shared.past) for row, record in ((divergence.a_at, pair.a), (divergence.b_at, pair.b))
        ]
        there = [await _at(store, *place) for place in places]
        counts = [
            await _since(store, history, place, has_one=row is not None)
            for history, place, row in zip((shared.a, shared.b), places, (divergence.a, divergence.b), strict=True)
        ]
        found["after"] = {
            "effects": {kind: [each[kind] for each in counts] for kind in sorted({*counts[0], *counts[1]})},
            "entities": _only(*(head.state.entities for head in heads)),
            "agents": _only(*(head.state.metadata.get(_AGENTS, {}) for head in heads)),
        }
    found["states"] = {
        "divergence": None if there is None else _states(there, ignored),
        "head": _states(heads, ignored),
    }
    if agent is not None:
        found["views"] = await _views(store, agent, there, heads, asked.ignored)
    return found


def _place(row: StoredRow | None, record: WorldRecord, past: History) -> tuple[str, int]:
    """Return the world and the seq of a row; where there is none, the end of the shared past, or the genesis."""
    if row is not None:
        return _world_of(row[1]), row[0]
    return (past[-1].record.world_id, past[-1].record.head_seq) if past else (record.world_id, 1)


async def _since(store: Store, history: History, place: tuple[str, int], *, has_one: bool) -> Counter[str]:
    """Return how many effects of each kind a history has from a place on; with it if it is an effect of the run's."""
    worlds = [stretch.record.world_id for stretch in history]
    at = worlds.index(place[0]) if place[0] in worlds else 0
    counts: Counter[str] = Counter()
    for number, stretch in enumerate(history[at:]):
        since = None if number or place[0] not in worlds else place[1] - has_one
        counts += await stretch.counts(store, since)
    return counts


def _only(a: Iterable[str], b: Iterable[str]) -> dict[str, Any]:
    """Return the names that only one of the runs has."""
    one, other = {*a}, {*b}
    left = [sorted(one - other), sorted(other - one)]
    return {
        "a": left[0][:MOST_LISTED],
        "b": left[1][:MOST_LISTED],
        "more": sum(max(len(x) - MOST_LISTED, 0) for x in left),
    }


def _states(states: Sequence[At], ignored: Iterable[Path]) -> dict[str, Any]:
    a, b = states
    found = differences(a.state.to_value(), b.state.to_value(), ignored)
    return {"a_seq": a.global_seq, "b_seq": b.global_seq, **listed(found)}


def listed(found: Sequence[Difference]) -> dict[str, Any]:
    """Return differences as written to JSON: whether there are none, the first MOST_LISTED, and how many more."""
    return {
        "equal": not found,
        "differences": [each.document() for each in found[:MOST_LISTED]],
        "more": max(len(found) - MOST_LISTED, 0),
    }


# -- views ---------------------------------------------------------------------------------------------------


async def view_at(store: Store, found: At | StateAt, agent: str) -> View | None:
    """Return the view that an agent had at a state's seq; None if it was not registered by then."""
    known = found.state.metadata["agents"].get(agent)
    if known is None:
        return None
    origins = Origins(store, found.world_id)
    return await origins.view(agent, found.global_seq, registered_seq=known["registered_seq"])


async def _views(
    store: Store, agent: str, there: Sequence[At] | None, heads: Sequence[At], ignored: Iterable[Path]
) -> dict[str, Any]:
    if not any(agent in head.state.metadata["agents"] for head in heads):
        head = heads[0]
        known: Mapping[str, Any] = head.state.metadata["agents"]
        raise UnknownAgentError(agent, head.world_id, at_seq=head.global_seq, near=near(agent, known))
    return {
        "agent_id": agent,
        "divergence": None if there is None else await _seen(store, agent, there, ignored),
        "head": await _seen(store, agent, heads, ignored),
    }


async def _seen(store: Store, agent: str, states: Sequence[At], ignored: Iterable[Path]) -> dict[str, Any]:
    views = [await view_at(store, state, agent) for state in states]
    a, b = [None if view is None else visible(view) for view in views]
    return {"a_seq": states[0].global_seq, "b_seq": states[1].global_seq, **listed(differences(a, b, ignored))}


def visible(view: View) -> dict[str, Any]:
    """Return the parts of a view that are compared."""
    return {"visible_entities": view.visible_entities, "visible_relationships": view.visible_relationships}
