"""Comparing worlds: two logs read side by side, and what became of the runs after they parted.

`worldledger.comparing` says what counts and how effects are aligned. Here logs are read in batches, so memory does not
grow with them; states are folded only where effects differ, for equal effects make equal states.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import combinations
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import orjson

from worldledger.chain import Finding, Position, Verifier
from worldledger.comparing import (
    LEFT_OUT,
    MOST_WORLDS,
    OF_EFFECTS,
    OWN_OF_STATES,
    SIM_TIME,
    Aligner,
    Difference,
    Divergence,
    FirstMoment,
    Ignored,
    Likeness,
    Path,
    Run,
    Sections,
    differences,
    genesis_differences,
    left_out_of,
    number_in,
    number_of,
    parse_path,
    state_differences,
    unit_of,
)
from worldledger.effects import is_system_kind
from worldledger.errors import NotComparableError, PolicyFailedError, UnknownAgentError
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_SEQ
from worldledger.measures import measures_of
from worldledger.moments import AUTO, STEP, Unit
from worldledger.near import near
from worldledger.views import Views
from worldledger_service.runtime.replays import Replay, policys_errors
from worldledger_service.store.prefetch import prefetch

if TYPE_CHECKING:
    from worldledger.chain import StoredRow
    from worldledger.effects import Effect
    from worldledger.measures import Measures
    from worldledger.observation import View
    from worldledger.rulesets import Ruleset
    from worldledger.rulesets.base import Touched
    from worldledger_service.store import Store, WorldRecord


# -- the course of a run: what its kind measures, unit by unit, and how it ended; and many runs by group


#: Most points of a series; of a longer run every second, fourth … unit is kept.
MOST_POINTS: Final = 2000
#: Effects that are folded on the event loop; more goes to a thread.
_FOLDED_AT_ONCE: Final = 100


class Course:
    """One run, folded from its first effect: ``points`` has the measures by the number of the unit.

    ``fold`` is that after the last effect that was read. At the genesis of a fork it is to be set to that of the fork.
    ``there`` is a fold at a place that is asked for, a world's seq.
    """

    def __init__(self, fold: Fold, measures: Measures, unit: Unit, place: tuple[str, int] | None = None) -> None:
        self.fold = fold
        self.points: dict[int, Mapping[str, float]] = {}
        self.there: Fold | None = None
        self._place = place
        self._measures = measures
        self._unit = unit
        self._began: tuple[int, Effect] | None = None
        self._every = 1

    @property
    def outcome(self) -> dict[str, Any]:
        """Return the outcome of the run, as its last state has it."""
        return dict(self._measures.outcome(self.fold.state))

    @property
    def labels(self) -> dict[str, Any]:
        """Return the labels by which the run can be grouped."""
        return dict(self._measures.labels(self.fold.state))

    def feed(self, rows: Sequence[Any]) -> None:
        """Fold the rows that follow, of one world; raises as `Fold.feed`."""
        fold = self.fold
        wanted = self._place[1] if self._place is not None and self._place[0] == fold.world_id else None
        start = 0
        for place, row in enumerate(rows):
            if row[3] in self._unit.kinds:
                effect = orjson.loads(row[1])
                number = number_in(self._unit, effect["payload"])
                if number is not None and (self._began is None or self._began[0] != int(number)):
                    fold.feed(rows[start:place])
                    start = place
                    self.note()
                    self._began = int(number), effect
            if row[0] == wanted:
                fold.feed(rows[start : place + 1])
                start = place + 1
                self.there = fold.copy()
        fold.feed(rows[start:])

    def note(self) -> None:
        """Note the measures of the unit that has begun: it ends here."""
        if self._began is None:
            return
        number, effect = self._began
        if number % self._every == 0:
            self.points[number] = self._measures.values(self.fold.state, effect)
        if len(self.points) > MOST_POINTS:
            self._every *= 2
            self.points = {number: values for number, values in self.points.items() if number % self._every == 0}


async def course_of(
    store: Store,
    logs: Logs,
    history: History,
    measures: Measures,
    unit: Unit,
    place: tuple[str, int] | None = None,
    seen: Callable[[Stretch, Sequence[Any]], object] = lambda stretch, rows: None,
) -> Course:
    """Return the course of a run through its history, with a fold at a place of it. Raises as `States.fold_at`.

    ``seen`` is shown each batch of effects, after it has been folded.
    """
    first = history[0]
    course = Course(await _fold_at(store, [first], first.record.world_id, first.after_seq), measures, unit, place)
    for stretch in history:
        if stretch is not first:
            course.fold = Fold(stretch.record.world_id, course.fold.ruleset, course.fold.state)
        async with prefetch(logs.rows([stretch])) as batches:
            async for batch in batches:
                if len(batch) <= _FOLDED_AT_ONCE:
                    course.feed(batch)
                else:
                    await store.aside.run(partial(course.feed, batch))
                seen(stretch, batch)
    course.note()
    return course


def series(courses: Sequence[Course]) -> list[dict[str, Any]]:
    """Return each measure side by side: the numbers of the units, and the values of each run (None: none there)."""
    names = dict.fromkeys(name for course in courses for values in course.points.values() for name in values)
    found = []
    for name in names:
        numbers = sorted({number for course in courses for number, values in course.points.items() if name in values})
        columns = [[course.points.get(number, {}).get(name) for number in numbers] for course in courses]
        found.append({"measure": name, "numbers": numbers, "values": columns})
    return found


def groups_of(records: Sequence[WorldRecord], courses: Sequence[Course], group: str) -> list[str]:
    """Return the group of each run by a label, or by a member of its configuration (``seed``, ``model.name``).

    Runs that do not have it are a group of their own. Raises NotComparableError if none has it.
    """
    found = [_group(record, course, group) for record, course in zip(records, courses, strict=True)]
    if not any(found):
        labels = {name for course in courses for name in course.labels}
        settings = {f"config.{name}" for record in records for name in record.config}
        known = ", ".join(sorted({*labels, *settings, "experiment"}))
        raise NotComparableError(f"none of the worlds has {group!r} to be grouped by; they have {known}")
    return [f"without {group}" if each is None else each for each in found]


def _group(record: WorldRecord, course: Course, group: str) -> str | None:
    value: Any = {**record.config, "experiment": record.experiment, **course.labels}
    for name in group.removeprefix("config.").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return None if value is None or isinstance(value, dict | list) else str(value)


def grouped(found: Sequence[Mapping[str, Any]], groups: Sequence[str]) -> list[dict[str, Any]]:
    """Return mean, quartiles and n of each measure by unit, for each group of runs."""
    rows = []
    for each in found:
        for group in dict.fromkeys(groups):
            mine = [values for values, name in zip(each["values"], groups, strict=True) if name == group]
            columns: dict[str, list[Any]] = defaultdict(list)
            for place, number in enumerate(each["numbers"]):
                told = [values[place] for values in mine if values[place] is not None]
                if not told:
                    continue
                low, middle, high = quantiles(told, n=4, method="inclusive") if len(told) > 1 else told * 3
                point = {
                    "numbers": number,
                    "n": len(told),
                    "mean": fmean(told),
                    "q1": low,
                    "median": middle,
                    "q3": high,
                }
                for name, value in point.items():
                    columns[name].append(value)
            rows.append({"measure": each["measure"], "group": group, **columns})
    return rows


# -- the histories of worlds that are compared: a fork's goes through its ancestors, and forks may share their past


#: Stretches of at most so many effects, or bytes, are read once and kept.
_SHORT: Final = 1000
_SHORT_BYTES: Final = 2**20


class Stretch(NamedTuple):
    """A part of a history: a world's effects after a seq, up to the head that its record names.

    Its checksums hold, unless it is not ``checked``: a fork was made of it although it did not verify.
    """

    record: WorldRecord
    after_seq: int = 0
    checked: bool = True

    @property
    def is_short(self) -> bool:
        """Return whether it has few effects."""
        return self.record.head_seq - self.after_seq <= _SHORT


#: The stretches of a history, the oldest first.
History: TypeAlias = Sequence[Stretch]


class Shared(NamedTuple):
    """The past that two histories share: its stretches, and what either history has after it.

    ``equal`` counts its effects, ``section`` is the one that both have come to (None: none yet).
    """

    past: History
    a: History
    b: History
    equal: int = 0
    section: float | None = None

    def sections(self, by: str, unit: Unit | None) -> tuple[Sections, Sections]:
        """Return what numbers the sections of either history after it."""
        return Sections(by, unit, self.section), Sections(by, unit, self.section)


class Logs:
    """Reads the effects of histories, for one comparison; short ones once. Each is checked when it is read first."""

    def __init__(self, store: Store) -> None:
        self._reader = store.reader
        self._chains: dict[str, Verifier] = {}
        #: by world, after which seq the rows begin
        self._kept: dict[str, tuple[int, Sequence[Any]]] = {}

    async def rows(self, history: History) -> AsyncGenerator[Sequence[Any], None]:
        """Yield the rows of a history as the driver returns them, in batches; a batch is of one world.

        Raises TamperedError before a batch whose checksums do not hold.
        """
        for stretch in history:
            record, after_seq, _ = stretch
            start, kept = self._kept.get(record.world_id, (0, ()))
            if start <= after_seq and record.head_seq <= start + len(kept):
                yield kept[after_seq - start : record.head_seq - start]
                continue
            batches = self._reader.records(record.world_id, after_seq=after_seq, until_seq=record.head_seq)
            last = after_seq
            async with aclosing(batches):
                async for batch in batches:
                    if stretch.checked:
                        await self._check(record.world_id, batch)
                    last = batch[-1][0]
                    is_all = len(batch) == record.head_seq - after_seq
                    if stretch.checked and is_all and sum(len(row[1]) for row in batch) <= _SHORT_BYTES:
                        self._kept[record.world_id] = after_seq, batch
                    yield batch
            if stretch.checked and last < record.head_seq:
                raise Finding(record.world_id, last + 1, "missing from the log").error()

    async def _check(self, world_id: str, rows: Sequence[Any]) -> None:
        """Raise TamperedError unless the checksums of rows hold that were not read before."""
        first, last = rows[0][0], rows[-1][0]
        chain = self._chains.get(world_id)
        if chain is None or chain.position.global_seq < first - 1:
            before = b"" if first == 1 else (await self._reader.effect(world_id, first - 1)).checksum
            chain = self._chains[world_id] = Verifier(world_id, start=Position(first - 1, before))
        if last > (reached := chain.position.global_seq):
            chain.feed_chain(rows[reached + 1 - first :])
        if chain.finding is not None:
            raise chain.finding.error()

    async def genesis(self, record: WorldRecord) -> bytes:
        """Return the text of a world's first effect."""
        whole = Stretch(record)
        if whole.is_short:
            async with aclosing(self.rows([whole])) as batches:
                async for batch in batches:
                    if batch:  # the head may say that there are none
                        text: bytes = batch[0][1]
                        return text
        return (await self._reader.effect(record.world_id, 1)).text

    async def counts(self, history: History) -> Counter[str]:
        """Return how many effects of each kind a history has that are compared."""
        counts: Counter[str] = Counter()
        for stretch in history:
            record = stretch.record
            if stretch.is_short:
                async for batch in self.rows([stretch]):
                    counts.update(row[3] for row in batch)
            else:
                counts.update(
                    await self._reader.kind_counts(
                        record.world_id, after_seq=stretch.after_seq, until_seq=record.head_seq
                    )
                )
        for kind in LEFT_OUT:
            del counts[kind]
        return counts


async def history_of(store: Store, record: WorldRecord) -> History:
    """Return the whole history of a world. Raises ParentMissingError or TamperedError for a fork without its parent."""
    found: list[Stretch] = []
    checked = True
    for each in reversed(await store.states.line(record)):
        found.insert(0, Stretch(each, checked=checked))
        fork_of = (await store.states.rules(each.world_id)).fork_of
        checked = checked and (fork_of is None or not fork_of.unverified)
    return found


async def shared_past(store: Store, logs: Logs, a: History, b: History, by: str, unit: Unit | None) -> Shared:
    """Return the shared past of two histories. Its effects are counted, and not read.

    A world's effects up to the earlier of two fork points are shared.
    """
    past: list[Stretch] = []
    for place, (one, other) in enumerate(zip(a, b, strict=False)):
        if one.record.world_id != other.record.world_id:
            break
        until = min(one.record.head_seq, other.record.head_seq)
        record = one.record.model_copy(update={"head_seq": until})
        past.append(Stretch(record, one.after_seq, one.checked or other.checked))
        if not (one.record.head_seq == other.record.head_seq and len(a) > place + 1 and len(b) > place + 1):
            break
    if not past or (len(a) == len(b) == 1):
        return Shared([], a, b)
    at = len(past) - 1
    until = past[-1].record.head_seq
    left, right = [[history[at]._replace(after_seq=until), *history[at + 1 :]] for history in (a, b)]
    counts = await logs.counts(past)
    section = await _section(store, past, counts, by, unit)
    return Shared(past, left, right, counts.total(), section)


def after(history: History, world_id: str, seq: int) -> History:
    """Return what a history has after an effect of one of its worlds."""
    at = next((at for at, stretch in enumerate(history) if stretch.record.world_id == world_id), None)
    return history if at is None else [history[at]._replace(after_seq=seq), *history[at + 1 :]]


async def _fold_at(store: Store, history: History, world_id: str, seq: int) -> Fold:
    """Return a fold at a place of a history, or of a world's own log; only what is checked must verify.

    Raises as `States.fold_at`.
    """
    if seq > 0 and any(not each.checked for each in history if each.record.world_id == world_id):
        return (await store.states.base_at(world_id, seq, check=False)).fold
    return await store.states.fold_at(world_id, seq)


async def _section(store: Store, past: History, counts: Counter[str], by: str, unit: Unit | None) -> float | None:
    """Return the number of the section that a shared past has come to."""
    last = past[-1].record
    if by == SIM_TIME:
        return (await store.reader.effect(last.world_id, last.head_seq)).sim_time
    if unit is not None:
        for stretch in reversed(past):
            text = await store.reader.last_of_kinds(
                stretch.record.world_id, unit.kinds, until_seq=stretch.record.head_seq
            )
            if text is not None:
                return number_of(unit, text)
        return None
    found = sum(count for kind, count in counts.items() if by != STEP or not is_system_kind(kind))
    return found or None


T = TypeVar("T")

#: Most differences of states and views, and most names, that are listed.
MOST_LISTED: Final = 100
#: Most effects of a shared past whose measures are told, too.
MOST_REPEATED: Final = 10_000
#: Most effects of both runs that are folded to find the first moment at which states, or views, differ.
MOST_SEARCHED: Final = 20_000
#: Rows, and entities of a state, that are compared on the event loop; more goes to a thread.
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
    """The checked options: the ruleset of all runs, its measures, the unit of alignment, and all paths to ignore.

    ``overlooks``: the caller ignores something of effects, so effects that count as equal may make different states.
    """

    ruleset: Ruleset
    measures: Measures | None
    by: str
    unit: Unit | None
    ignored: Sequence[Path]
    overlooks: bool


async def compare(
    store: Store, records: Sequence[WorldRecord], wanted: Wanted | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Compare worlds up to the heads that their records name; return the answer of ``GET /v1/compare`` as an object.

    Raises NotComparableError for fewer than two worlds, more than twenty, worlds of different kinds, and a unit, path
    or group that does not exist; UnknownAgentError for an agent that no world has; TamperedError where the checksum of
    an effect that is read does not hold.
    """
    wanted = wanted or Wanted()
    asked = await _checked(store, records, wanted)
    logs = Logs(store)
    histories = whole = [await history_of(store, record) for record in records]
    total, done = sum(record.head_seq for record in records) * (len(records) - 1), 0
    pairs = []
    for a, b in combinations(histories, 2):
        tell = None if progress is None else partial(_tell, progress, done, total)
        pairs.append(await _pair(store, logs, a, b, asked, tell))
        done += a[-1].record.head_seq + b[-1].record.head_seq
    courses: list[Course] = []
    if asked.measures is not None and asked.ruleset.units:
        first = next(iter(asked.ruleset.units.values()))
        if len(records) == 2 and pairs[0].shared.equal > MOST_REPEATED:  # what follows is what is asked for
            histories = [pairs[0].shared.a, pairs[0].shared.b]
        places = pairs[0].places if len(records) == 2 else None
        courses = [
            await course_of(store, logs, history, asked.measures, first, place)
            for history, place in zip(histories, places or (None,) * len(histories), strict=True)
        ]
    points = sum(len(course.points) for course in courses)
    found: dict[str, Any] = {
        "worlds": [_world(history, courses[n] if courses else None) for n, history in enumerate(whole)],
        "by": asked.by,
        "ignored": ["$" + "".join(f"[{_quoted(step)}]" for step in path) for path in asked.ignored],
        "pairs": [each.document(asked.by) for each in pairs],
        "series": await _beside(store, points, partial(series, courses)),
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
        by_group = await _beside(store, points, partial(grouped, found["series"], groups))
        found["groups"] = {"by": wanted.group, "of": groups, "series": by_group}
    if len(records) == 2:
        found |= await _details(store, logs, pairs[0], asked, wanted.view, courses)
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
    kinds, own = left_out_of(ruleset.name), [*map(parse_path, wanted.ignore)]
    overlooks = any(path[0] in OF_EFFECTS and path not in kinds for path in own)
    return _Asked(ruleset, measures_of(ruleset.name), by, unit, [*dict.fromkeys((*kinds, *own))], overlooks)


def _world(history: History, course: Course | None) -> dict[str, Any]:
    record = history[-1].record
    parent = None if len(history) == 1 else history[-2].record
    return {
        "world_id": record.world_id,
        "ruleset": record.ruleset,
        "experiment": record.experiment,
        "head_seq": record.head_seq,
        "head_checksum": record.head_checksum,
        "fork_of": parent and {"world_id": parent.world_id, "global_seq": parent.head_seq},
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

    @property
    def places(self) -> list[tuple[str, int]] | None:
        """Return the world and the seq of either run after which their states are compared; None if they do not part.

        Where nothing of a log has been passed it is the end of the shared past, or the genesis.
        """
        divergence, past = self.aligned.divergence, self.shared.past
        if divergence is None:
            return None
        found = []
        for row, record in ((divergence.a_at, self.a), (divergence.b_at, self.b)):
            if row is not None:
                found.append((_world_of(row[1]), row[0]))
            elif past:
                found.append((past[-1].record.world_id, past[-1].record.head_seq))
            else:
                found.append((record.world_id, 1))
        return found

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
    store: Store, logs: Logs, a: History, b: History, asked: _Asked, tell: Callable[[int], None] | None
) -> Pair:
    one, other = a[-1].record, b[-1].record
    settings = genesis_differences(await logs.genesis(one), await logs.genesis(other), asked.ignored)
    # Where a clock sets sim_time, it is no part of what happened.
    with_sim_time = "wall" not in {one.time_authority, other.time_authority}
    likeness = Likeness(with_sim_time=with_sim_time, ignored=asked.ignored)
    shared = await shared_past(store, logs, a, b, asked.by, asked.unit)
    aligner = Aligner(likeness, asked.by, asked.unit, since=shared.section)
    await _feed(store, aligner, logs.rows(shared.a), logs.rows(shared.b), tell)
    return Pair(one, other, settings, shared, aligner)


async def _feed(
    store: Store,
    search: Aligner | FirstMoment,
    a: AsyncIterator[Sequence[Any]],
    b: AsyncIterator[Sequence[Any]],
    tell: Callable[[int], None] | None = None,
    *,
    weight: int = 1,
) -> None:
    """Feed both logs to a search, a batch of either at a time, until it is done; a row is ``weight`` pieces of work."""
    read = 0
    async with prefetch(a) as ones, prefetch(b) as others:
        while not search.is_done:
            fed: list[Sequence[Any] | None] = [
                await anext(batches, None) if is_hungry else ()
                for batches, is_hungry in zip((ones, others), search.hungry, strict=True)
            ]
            rows = [batch or () for batch in fed]
            over = [batch is None for batch in fed]
            count = sum(map(len, rows))
            await _beside(store, count * weight, partial(search.feed, *rows, a_over=over[0], b_over=over[1]))
            read += count
            if tell is not None:
                tell(read)


async def _beside(store: Store, size: int, work: Callable[[], T]) -> T:
    """Do work at once if it is little, and in a thread if it is more."""
    return work() if size <= _AT_ONCE else await store.aside.run(work)


class At(NamedTuple):
    """Where a run stands at a seq of one of its worlds."""

    world_id: str
    global_seq: int
    fold: Fold


async def _at(store: Store, history: History, place: tuple[str, int], fold: Fold | None = None) -> At:
    return At(*place, fold or await _fold_at(store, history, *place))


# -- what came of it -----------------------------------------------------------------------------------------


async def _details(
    store: Store, logs: Logs, pair: Pair, asked: _Asked, agent: str | None, courses: Sequence[Course]
) -> dict[str, Any]:
    """Return the differences after the divergence: counts, names, states, and the views of an agent if one is named."""
    if pair.is_equal and agent is None and not asked.overlooks:
        return {"states": {"divergence": None, "first": None, "stopped": None, "head": listed([])}}
    found: dict[str, Any] = {"after": None, "views": None}
    heads = [  # where courses end
        await _at(store, (), (record.world_id, record.head_seq), None if course is None else course.fold)
        for record, course in zip((pair.a, pair.b), courses or (None, None), strict=True)
    ]
    there: Sequence[At] | None = None
    divergence, places, shared = pair.aligned.divergence, pair.places, pair.shared
    if divergence is not None and places is not None:
        there = [
            await _at(store, [*shared.past, *history], place, None if course is None else course.there)
            for history, place, course in zip((shared.a, shared.b), places, courses or (None, None), strict=True)
        ]
        counts = [
            await logs.counts(after(history, world_id, seq - (row is not None)))
            for history, (world_id, seq), row in zip(
                (shared.a, shared.b), places, (divergence.a, divergence.b), strict=True
            )
        ]
        found["after"] = {
            "effects": {kind: [each[kind] for each in counts] for kind in sorted({*counts[0], *counts[1]})},
            "entities": _only(*(head.fold.state.entities for head in heads)),
            "agents": _only(*(head.fold.state.metadata.get(_AGENTS, {}) for head in heads)),
        }
    looking = _Looking(store, logs, pair, asked, there, heads)
    if agent is not None:
        if not any(agent in head.fold.state.metadata[_AGENTS] for head in heads):
            head = heads[0]
            known: Mapping[str, Any] = head.fold.state.metadata[_AGENTS]
            raise UnknownAgentError(agent, head.world_id, at_seq=head.global_seq, near=near(agent, known))
        found["views"] = {"agent_id": agent, **await looking.views(agent)}
    found["states"] = await looking.states()
    return found


def _only(a: Iterable[str], b: Iterable[str]) -> dict[str, Any]:
    """Return the names that only one of the runs has."""
    one, other = {*a}, {*b}
    left = [sorted(one - other), sorted(other - one)]
    return {
        "a": left[0][:MOST_LISTED],
        "b": left[1][:MOST_LISTED],
        "more": sum(max(len(x) - MOST_LISTED, 0) for x in left),
    }


def listed(found: Sequence[Difference]) -> dict[str, Any]:
    """Return differences as written to JSON: whether there are none, the first MOST_LISTED, and how many more."""
    return {
        "equal": not found,
        "differences": [each.document() for each in found[:MOST_LISTED]],
        "more": max(len(found) - MOST_LISTED, 0),
    }


# -- states and views, where the runs part and where they first differ -----------------------------------------


class _Looked(Run, Protocol):
    """A run that is folded on, and what is looked at of it."""

    def differences(self, other: Any, ignored: Ignored, touched: Collection[str] | None = None) -> list[Difference]:
        """Return where it differs from another run, if only this may have changed since they were alike."""
        ...


class _StateRun:
    """A run, whose states are looked at."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold

    def apply(self, effect: Effect) -> Touched:
        """Fold the next effect, or the genesis of a fork."""
        if _is_forks(effect, self.fold.seq):
            self.fold = _fork(self.fold, effect)
        return self.fold.apply(effect)

    def differences(
        self, other: _StateRun, ignored: Ignored, touched: Collection[str] | None = None
    ) -> list[Difference]:
        """Return where the states differ, among the entities that were touched (None: anywhere)."""
        return state_differences(self.fold.state, other.fold.state, ignored, touched)


class _ViewRun:
    """A run, of which is looked at what an agent sees."""

    def __init__(self, views: Views, agent: str) -> None:
        self._views = views
        self._agent = agent

    @classmethod
    async def begin(cls, store: Store, agent: str, at: At) -> _ViewRun:
        """Begin where a run stands. Raises as `Replay.begin`."""
        fold = at.fold.copy()
        if agent not in fold.state.metadata[_AGENTS]:
            return cls(Views(fold), agent)
        return cls((await Replay.begin(store, at.world_id, agent, at.global_seq, fold=fold)).views, agent)

    def apply(self, effect: Effect) -> Touched:
        """Fold the next effect, or the genesis of a fork. Raises PolicyFailedError."""
        agent, older = self._agent, self._views
        if _is_forks(effect, older.seq):
            self._views = Views(_fork(older.fold, effect))
            self._views.apply(effect, digests=False)
            if agent in older.attached:
                self._views.inherit(agent, older)
            return None
        is_changed = any(delta["patches"] for _, delta, _ in older.apply(effect, digests=False))
        failed = older.failed.get(agent)
        if failed is not None:
            raise PolicyFailedError(agent, failed) from failed
        if agent not in older.attached and agent in older.fold.state.metadata[_AGENTS]:
            with policys_errors(agent):
                older.attach(agent)
            is_changed = True
        return None if is_changed else ()

    def seen(self) -> dict[str, Any] | None:
        """Return what the agent sees; None if it is not registered."""
        return visible(self._views.view(self._agent)) if self._agent in self._views.attached else None

    def differences(
        self, other: _ViewRun, ignored: Ignored, touched: Collection[str] | None = None
    ) -> list[Difference]:
        """Return where the views differ, if either has changed (None)."""
        return [] if touched is not None else differences(self.seen(), other.seen(), ignored)


def _is_forks(effect: Effect, seq: int) -> bool:
    """Return whether an effect, after others of a line of worlds, is the genesis of a fork."""
    return effect["global_seq"] == GENESIS_SEQ and seq > 0


def _fork(fold: Fold, genesis: Effect) -> Fold:
    """Return the fold of a fork, which goes on from its parent's."""
    return Fold(genesis["world_id"], fold.ruleset, fold.state)


def visible(view: View) -> dict[str, Any]:
    """Return the parts of a view that are compared."""
    return {"visible_entities": view.visible_entities, "visible_relationships": view.visible_relationships}


#: Begins to look at a run where it stands.
_Begin: TypeAlias = Callable[[At], Awaitable[_Looked]]


class _Looking:
    """Looks at two runs: where they part, where what is looked at first differs, and in the end.

    ``there`` is where they part (None: nowhere). Looking for the first difference takes its folds on.
    """

    def __init__(
        self, store: Store, logs: Logs, pair: Pair, asked: _Asked, there: Sequence[At] | None, heads: Sequence[At]
    ) -> None:
        self._store = store
        self._logs = logs
        self._pair = pair
        self._asked = asked
        self._there = there
        self._heads = heads
        self._ignored = Ignored((*OWN_OF_STATES, *asked.ignored))

    async def states(self) -> dict[str, Any]:
        """Return the differences of states."""

        async def begin(at: At) -> _StateRun:
            return _StateRun(at.fold)

        return await self._compared(begin, whole=self._asked.overlooks)

    async def views(self, agent: str) -> dict[str, Any]:
        """Return the differences of an agent's views, which may differ by the policy alone: by its noise, say."""
        one, other = (head.fold.state.metadata[_AGENTS].get(agent, {}).get("policy") for head in self._heads)
        whole = self._asked.overlooks or one != other
        return await self._compared(partial(_ViewRun.begin, self._store, agent), whole=whole)

    async def _compared(self, begin: _Begin, *, whole: bool) -> dict[str, Any]:
        """Look everywhere; where effects are equal only if the ``whole`` runs may differ all the same."""
        found = {"divergence": None, "first": None, "stopped": None, "head": await self._looked(self._heads, begin)}
        if self._there is not None:
            found["divergence"] = await self._looked(self._there, begin)
        asked, shared, divergence = self._asked, self._pair.shared, self._pair.aligned.divergence
        if whole or self._pair.settings or self._pair.aligned.beginnings:
            start = [
                await _at(self._store, each, (each[0].record.world_id, each[0].after_seq))
                for each in (shared.a, shared.b)
            ]
            found |= await self._first(start, begin, shared.sections(asked.by, asked.unit), one=not whole)
        if not (whole or found["first"] or found["stopped"] or self._there is None or divergence is None):
            found |= await self._first(self._there, begin, divergence.sections(asked.by, asked.unit))
        return found

    async def _looked(self, places: Sequence[At], begin: _Begin) -> dict[str, Any]:
        """Return where the runs differ at some place."""
        one, other = [await begin(at) for at in places]
        size = sum(len(at.fold.state.entities) for at in places)
        found = await _beside(self._store, size, partial(one.differences, other, self._ignored))
        return _differing([at[:2] for at in places], found)

    async def _first(
        self, start: Sequence[At], begin: _Begin, sections: tuple[Sections, Sections], *, one: bool = False
    ) -> dict[str, Any]:
        """Return the first difference from a place on, or where the search for it was stopped."""
        a, b = [await begin(at) for at in start]
        search = FirstMoment((a, b), partial(a.differences, b, self._ignored), sections, most=MOST_SEARCHED, one=one)
        shared = self._pair.shared
        ones, others = (
            self._logs.rows(after(each, *at[:2])) for each, at in zip((shared.a, shared.b), start, strict=True)
        )
        await _feed(self._store, search, ones, others, weight=4)  # each is folded, and states are compared
        if search.differences:
            places = [
                at[:2] if row is None else (_world_of(row[1]), row[0])
                for row, at in zip(search.seen, start, strict=True)
            ]
            found = _differing(places, search.differences)
            return {"first": {"unit": self._asked.by, "number": search.number, **found}}
        if search.is_whole:
            return {}
        return {"stopped": {"unit": self._asked.by, "number": search.number, "effects": search.read}}


def _differing(places: Sequence[tuple[str, int]], found: Sequence[Difference]) -> dict[str, Any]:
    (a, a_seq), (b, b_seq) = places
    return {"a_world_id": a, "a_seq": a_seq, "b_world_id": b, "b_seq": b_seq, **listed(found)}
