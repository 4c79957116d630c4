"""Comparing the logs of two worlds: where the two runs part, effect by effect. Pure: rows in, the first difference out.

**What of an effect is compared**: kind, payload, priority, schema_version and source_id, and sim_time unless the wall
clock sets it in either world. Left out is what two equal runs do not have in common: uuid, req_id, wall_time, checksum,
global_seq, the world's name, ``source_metadata`` (the file that an effect was imported from, say), and ``caused_by``,
which is a seq of its own log. Effects that prove or measure are left out whole (StateDigest, ViewDigest), and so are
those that the making of a fork wrote by itself (`worldledger.lineage.GOING_ON`); of the payloads of other system kinds
their seqs, req_ids and latencies. A kind of worlds may leave out more (`worldledger.measures.Measures`).

**Alignment.** A log is cut into sections: its steps, the units of its kind (turns, rounds, half-moves), its sim_times,
or its single effects. In a section the effects of each source are paired in order: the first with the first, and so on.
So agents that act in another order within a turn make no difference. Where ``source_id`` is ignored, all of a section
are paired in order. What lies before the first section (settings, registrations) is how the run begins; differences
there are listed and do not end the comparison.

The answer depends on the two logs alone, not on the batches that they are read in, and it is the same with the two
logs exchanged.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import orjson

from worldledger.canonical import canonical_json, child
from worldledger.chain import StoredRow
from worldledger.core_kinds import VIEW_DIGEST_KIND
from worldledger.effects import DIGEST_KIND, SERVICE_SOURCE, Effect, is_system_kind
from worldledger.errors import NotComparableError
from worldledger.genesis import GENESIS_KIND
from worldledger.lineage import GOING_ON
from worldledger.measures import measures_of
from worldledger.moments import AUTO, STEP, Unit
from worldledger.patches import diff
from worldledger.rulesets.base import Touched
from worldledger.time_authority import FORK_OF, TIME_ZERO
from worldledger.world import WorldState

#: Alignments that every kind of world has, besides its units.
SEQ: Final = "seq"
SIM_TIME: Final = "sim_time"
#: Most worlds in one comparison.
MOST_WORLDS: Final = 20
#: Most differences in the beginnings of two worlds that are listed.
MOST_LISTED: Final = 20
#: Most bytes of a value that is told with a difference; a longer one is left out.
MOST_VALUE_BYTES: Final = 1000
#: Bytes of effects of one section that may wait for their partners; beyond, the section counts as ended.
_MOST_WAITING_BYTES: Final = 32 * 2**20
#: Differences before the first section among which the first ones are looked for.
_MOST_PARTED: Final = 1000

#: Kinds that are no part of what happened; the service alone writes them.
LEFT_OUT: Final = frozenset({GENESIS_KIND, DIGEST_KIND, VIEW_DIGEST_KIND})
#: Stands before the uuid of an effect of the service that the making of a fork wrote by itself.
_GOING_ON: Final = canonical_json({"source_metadata": {GOING_ON: True}})[1:-1]
#: Members of an effect that are compared, without sim_time.
_COMPARED: Final = ("kind", "payload", "priority", "schema_version", "source_id")
#: Members of the payloads of system kinds that are seqs, names or timings of one log alone.
_OWN: Final = frozenset({"req_id", "generation_id", "context_seq", "last_tick_seq", "latency_ms"})
#: Members of a genesis that are the world's identity, or the place that it came from.
_IDENTITY: Final = frozenset({"world_uuid", TIME_ZERO, "experiment", FORK_OF})

#: What a path into an effect begins with.
OF_EFFECTS: Final = frozenset((*_COMPARED, "sim_time"))
_STATES_OWN: Final = frozenset({"entities", "metadata", "relationships", "spatial_index"})
_VIEWS_OWN: Final = frozenset({"visible_entities", "visible_relationships"})
#: What states differ in where nothing in the worlds does: places and times of their own logs and clocks, and the key of
#: the noise that agents see.
OWN_OF_STATES: Final = (
    ("metadata", "last_effect_seq"),
    ("metadata", "last_effect_time"),
    ("metadata", "last_effect_kind"),
    ("metadata", "time_offset"),
    ("metadata", "time_authority_silent"),
    ("metadata", "leases"),
    ("metadata", "agents", "*", "registered_seq"),
    ("metadata", "agents", "*", "policy", "config", "noise_key"),
)


# -- paths -----------------------------------------------------------------------------------------------------

#: The names from the root of a document to a place in it; ``*`` stands for any.
Path: TypeAlias = tuple[str, ...]

_STEPS: Final = re.compile(r'\.([^.\[\]"]+)|\[([0-9]{1,9}|\*|"(?:[^"\\]|\\.)*")\]')


def parse_path(text: str) -> Path:
    """Read ``payload.clock``, ``$.payload["a b"]``, ``payload.moves[*].time`` or ``/entities/board/clock``.

    Raises NotComparableError for a text that is no path into an effect, a state or a view.
    """
    if text.startswith("/"):
        steps = [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]
    else:
        rest = text[1:] if text.startswith("$") else f".{text}"
        steps = []
        while rest:
            step = _STEPS.match(rest)
            if step is None:
                raise _no_path(text, f"it cannot be read from {rest!r} on")
            try:
                steps.append(json.loads(step[2]) if (step[2] or "").startswith('"') else step[1] or step[2])
            except ValueError:
                raise _no_path(text, f"{step[2]} is no JSON string") from None
            rest = rest[step.end() :]
    known = OF_EFFECTS | _STATES_OWN | _VIEWS_OWN
    if not steps or steps[0] not in known:
        raise _no_path(text, f"it begins with one of {', '.join(sorted(known))}")
    return tuple(steps)


def _no_path(text: str, why: str) -> NotComparableError:
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    return NotComparableError(f"{shown!r} is no path such as payload.clock or /entities/board/clock: {why}", path=shown)


class Ignored:
    """Paths of documents that make no difference."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        #: whether all that lies here is ignored
        self.is_whole = False
        self.below: dict[str, Ignored] = {}
        for path in paths:
            place = self
            for step in path:
                place = place.below.setdefault(step, Ignored())
            place.is_whole = True

    def at(self, steps: Iterable[str]) -> list[Ignored]:
        """Return what is ignored at a place of a document: in all, or with paths that go on from there."""
        found = [self]
        for step in steps:
            found = [below for each in found for name in (step, "*") if (below := each.below.get(name)) is not None]
            if not found or any(each.is_whole for each in found):
                break
        return found

    def without(self, value: Any) -> Any:
        """Return a value without what is ignored in it; an element of a list becomes null."""
        if isinstance(value, dict):
            value = dict(value)
            for name, below in self.below.items():
                for key in [*value] if name == "*" else [name] if name in value else []:
                    if below.is_whole:
                        del value[key]
                    else:
                        value[key] = below.without(value[key])
        elif isinstance(value, list):
            for name, below in self.below.items():
                value = [
                    item if name not in {"*", str(index)} else None if below.is_whole else below.without(item)
                    for index, item in enumerate(value)
                ]
        return value


class Difference(NamedTuple):
    """A place at which two documents differ: its JSON path, and both values (`MISSING` where there is none)."""

    path: str
    a: Any
    b: Any

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it: a value that is missing, or longer than MOST_VALUE_BYTES, is left out."""
        found: dict[str, Any] = {"path": self.path}
        for name, value in (("a", self.a), ("b", self.b)):
            if value is MISSING:
                found[f"{name}_missing"] = True
            elif (size := len(canonical_json(value))) > MOST_VALUE_BYTES:
                found[f"{name}_bytes"] = size
            else:
                found[name] = value
        return found


MISSING: Final = object()


def differences(a: Any, b: Any, ignored: Iterable[Path] | Ignored = ()) -> list[Difference]:
    """Return the places at which two JSON values differ, objects descended into; ignored paths are left out."""
    ignored = ignored if isinstance(ignored, Ignored) else Ignored(ignored)
    found = []
    for operation in diff(a, b):
        steps = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        one, other = _at(a, steps), _at(b, steps)
        here = ignored.at(steps)
        if here:
            if any(each.is_whole for each in here):
                continue
            for each in here:
                one, other = each.without(one), each.without(other)
            if not diff(one, other):
                continue
        path = "$"
        for step in steps:
            path = child(path, step)
        found.append(Difference(path, one, other))
    return found


def _at(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        value = value.get(step, MISSING)
        if value is MISSING:
            break
    return value


def genesis_differences(a: bytes, b: bytes, ignored: Iterable[Path] = ()) -> list[Difference]:
    """Return where the settings that two worlds began with differ, but for who they are."""
    own = [("payload", name) for name in _IDENTITY]
    one, other = ({"payload": orjson.loads(text)["payload"]} for text in (a, b))
    return differences(one, other, [*own, *ignored])


# -- two effects -----------------------------------------------------------------------------------------------

_KIND: Final = b'"kind":'
_UUID: Final = b',"uuid":"'
_PRIORITY: Final = b',"priority":'
_SCHEMA: Final = b',"schema_version":'
_SIM_TIME: Final = b',"sim_time":'
_SOURCE: Final = b',"source_id":'
_METADATA: Final = b'"source_metadata":'


class Likeness:
    """Says whether two effects are the same, and else where they differ.

    The keys of a stored text are sorted, so the compared parts can be cut out by position. Only effects whose parts
    differ as bytes are decoded. The cuts rely on this: a name in quotes cannot stand inside a JSON string, so before
    the first ``"kind":`` and after the last ``,"uuid":"`` of a text there are only members of the effect itself.
    """

    def __init__(self, *, with_sim_time: bool = True, ignored: Iterable[Path] = ()) -> None:
        self._with_sim_time = with_sim_time
        self._ignored = Ignored(ignored)
        #: whether it makes no difference whose an effect is
        self.ignores_sources = any(each.is_whole for each in self._ignored.at(["source_id"]))

    def same(self, a: bytes, b: bytes) -> bool:
        """Return whether two stored effects are the same in what is compared."""
        one = a[a.find(_KIND) : a.rfind(_UUID)]
        other = b[b.find(_KIND) : b.rfind(_UUID)]
        if one == other:
            return True
        if self._parts(one) == self._parts(other) is not None:
            return True
        return not self.differences(a, b)

    def _parts(self, text: bytes) -> bytes | None:
        """Cut out what is compared of an effect; None if that takes decoding."""
        if _METADATA in text:
            return None
        end = text.rfind(_PRIORITY)
        # After the last one there is one string that may have any characters, the req_id, and none with raw quotes.
        schema = text.find(_SCHEMA, end)
        if end < 0 or schema < 0:
            return None
        priority = text[end : text.find(b",", end + 1)]
        time, source = text.find(_SIM_TIME, schema), text.rfind(_SOURCE)
        if self._with_sim_time:
            return text[:end] + priority + text[schema:]
        return text[:end] + priority + text[schema:time] + text[source:]

    def differences(self, a: bytes, b: bytes) -> list[Difference]:
        """Return where two stored effects differ in what is compared."""
        return differences(self.compared(a), self.compared(b), self._ignored)

    def differs(self, a: bytes | None, b: bytes | None) -> list[Difference]:
        """Return where two stored effects differ; of one that only one run has, what its payload says."""
        if a is not None and b is not None:
            return self.differences(a, b)
        one, other = ({} if text is None else {"payload": self.compared(text)["payload"]} for text in (a, b))
        return differences({"payload": {}, **one}, {"payload": {}, **other}, self._ignored)

    def compared(self, text: bytes) -> dict[str, Any]:
        """Return what is compared of a stored effect."""
        effect = orjson.loads(text)
        names = (*_COMPARED, "sim_time") if self._with_sim_time else _COMPARED
        found = {name: effect.get(name) for name in names}
        if is_system_kind(found["kind"]) and isinstance(found["payload"], dict):
            found["payload"] = {name: value for name, value in found["payload"].items() if name not in _OWN}
        return found


def is_left_out(row: StoredRow) -> bool:
    """Return whether an effect is no part of what happened."""
    if row[4] != SERVICE_SOURCE:
        return False
    return row[3] in LEFT_OUT or row[1].endswith(_GOING_ON, 0, row[1].rfind(_UUID))


def left_out_of(ruleset: str) -> list[Path]:
    """Return the paths that equal runs of a kind need not have in common. Raises InvalidKindError."""
    measures = measures_of(ruleset)
    return [] if measures is None else [*map(parse_path, measures.left_out)]


# -- two states ------------------------------------------------------------------------------------------------


def state_differences(
    a: WorldState, b: WorldState, ignored: Ignored, touched: Collection[str] | None = None
) -> list[Difference]:
    """Return where two states differ; only among some entities and in the metadata, if entities are given.

    `OWN_OF_STATES` are to be among the ignored paths.
    """
    one, other = a.to_value(), b.to_value()
    if touched is not None:
        one, other = _only(one, touched), _only(other, touched)
    return differences(one, other, ignored)


def _only(state: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return what a state has of these entities, and its metadata."""
    parts = {part: {name: of[name] for name in names if name in of} for part, of in state.items() if part != "metadata"}
    return {**parts, "metadata": state["metadata"]}


def touched_by(*each: Touched) -> set[str] | None:
    """Return the entities that any of several effects may have changed; None: any of them."""
    found: set[str] = set()
    for touched in each:
        if touched is None:
            return None
        found.update([touched] if isinstance(touched, str) else touched)
    return found


# -- alignment -------------------------------------------------------------------------------------------------

#: The section of what lies before the first one.
_BEGINNING: Final = -math.inf
_END: Final = math.inf


def unit_of(by: str, units: Mapping[str, Unit], ruleset: str) -> tuple[str, Unit | None]:
    """Return the name of the alignment that is meant, and the unit of the kind that it counts in.

    ``auto`` is the first unit that a kind declares, or else its steps. Raises NotComparableError for an unknown name.
    """
    if by == AUTO:
        by = next(iter(units), STEP)
    if by not in units and by not in {SEQ, STEP, SIM_TIME}:
        known = ", ".join(dict.fromkeys((AUTO, SEQ, STEP, SIM_TIME, *units)))
        raise NotComparableError(f"worlds of {ruleset} cannot be aligned by {by!r}: give one of {known}", by=by)
    return by, units.get(by)


def number_of(unit: Unit, text: bytes) -> float | None:
    """Return the number of the unit that a stored effect begins; None if it tells none."""
    return number_in(unit, orjson.loads(text)["payload"])


def number_in(unit: Unit, payload: Mapping[str, Any]) -> float | None:
    """Return the same of its payload."""
    found = payload.get(unit.number) if isinstance(unit.number, str) else unit.number(payload)
    return found if type(found) in {int, float} else None


class Sections:
    """Numbers the sections of a log, whose rows are shown to it in order.

    ``label`` is the section of the last row, ``count`` the number of rows that have been counted. The log may be shown
    from a place on only: ``since`` is the section that it has come to there.
    """

    def __init__(self, by: str, unit: Unit | None, since: float | None = None) -> None:
        self.label = _BEGINNING if since is None else since
        self.count = int(since) if since is not None and unit is None and by != SIM_TIME else 0
        self._by = by
        self._unit = unit

    def of(self, row: StoredRow) -> float:
        """Return the section of the next row."""
        if is_left_out(row):
            return self.label
        if self._by == SIM_TIME:
            self.label = row[5]
        elif self._unit is not None:
            if row[3] in self._unit.kinds and (number := number_of(self._unit, row[1])) is not None:
                self.label = number
        elif self._by == SEQ or not is_system_kind(row[3]):
            self.count += 1
            self.label = self.count
        return self.label


class Divergence(NamedTuple):
    """Where two runs part: the section's number, and the effect of each that the other does not have.

    ``number`` is None before the first section. ``a`` and ``b`` are rows as they are stored; None where a run has no
    effect there, because it has ended or done less. ``fields`` says where the two effects differ, or what the payload
    of the only one says. ``a_at`` and ``b_at`` are the rows after which the states of both are to be compared; None
    where nothing of a log has been passed.
    """

    number: float | None
    a: StoredRow | None
    b: StoredRow | None
    fields: Sequence[Difference]
    a_at: StoredRow | None
    b_at: StoredRow | None

    def sections(self, by: str, unit: Unit | None) -> tuple[Sections, Sections]:
        """Return what numbers the sections of either log after ``a_at`` and ``b_at``."""
        return _sections_after(self.number, self.a, self.b, by, unit), _sections_after(
            self.number, self.b, self.a, by, unit
        )


def _sections_after(
    number: float | None, row: StoredRow | None, other: StoredRow | None, by: str, unit: Unit | None
) -> Sections:
    if number is not None and row is None and other is not None and unit is None and by != SIM_TIME:
        # Sections are counted effects, and this log has one less.
        number = number if by == STEP and is_system_kind(other[3]) else number - 1 or None
    return Sections(by, unit, number)


class _Waiting(NamedTuple):
    place: int
    row: StoredRow


class _Side:
    """One log: the rows that have been read and not been compared, and the section that it has come to."""

    def __init__(self, sections: Sections) -> None:
        self.rows: Sequence[StoredRow] = ()
        self.next = 0
        self.is_over = False
        self.sections = sections
        self.place = 0
        self.seen: StoredRow | None = None
        self.is_peeked = False

    def feed(self, rows: Sequence[StoredRow], *, is_over: bool) -> None:
        self.rows = [*self.rows[self.next :], *rows] if self.next < len(self.rows) else rows
        self.next = 0
        self.is_over = is_over

    @property
    def is_hungry(self) -> bool:
        """Whether it must be fed before the comparison can go on."""
        return self.next >= len(self.rows) and not self.is_over

    def skip(self) -> None:
        """Pass over what is not compared."""
        while not self.is_peeked and self.next < len(self.rows) and is_left_out(self.rows[self.next]):
            self.next += 1

    def section(self) -> float:
        """Return the section of the next row; infinite at the end of the log. It is not hungry."""
        if self.next >= len(self.rows):
            return _END
        if not self.is_peeked:
            self.sections.of(self.rows[self.next])
            self.is_peeked = True
        return self.sections.label

    def take(self) -> _Waiting:
        """Return the next row with its place in the section."""
        row = self.rows[self.next]
        self.next += 1
        self.is_peeked = False
        self.place += 1
        self.seen = row
        return _Waiting(self.place, row)


class _FedInOrder(ABC):
    """Looks at two logs that are fed to it in order."""

    is_done = False

    def __init__(self, a: Sections, b: Sections) -> None:
        self._sides = _Side(a), _Side(b)

    @property
    def hungry(self) -> tuple[bool, bool]:
        """Which of the logs must be fed before it can go on."""
        return self._sides[0].is_hungry, self._sides[1].is_hungry

    def feed(
        self,
        a: Sequence[StoredRow] = (),
        b: Sequence[StoredRow] = (),
        *,
        a_over: bool = False,
        b_over: bool = False,
    ) -> bool:
        """Take the rows that follow in either log, ``over`` where they are the last; return whether it is done."""
        for side, rows, over in zip(self._sides, (a, b), (a_over, b_over), strict=True):
            if rows or over:
                side.feed(rows, is_over=over or side.is_over)
        while not self.is_done and self._go_on():
            pass
        return self.is_done

    @abstractmethod
    def _go_on(self) -> bool:
        """Do a piece of work; return False if nothing can be done before a log is fed."""


class Aligner(_FedInOrder):
    """Finds the first divergence of two logs that are fed to it in order, in memory bounded by one section.

    ``divergence`` is where they part; None if they do not, or as long as `is_done` is False. ``beginnings`` are the
    differences before the first section, at most MOST_LISTED. ``equal`` counts the effects that both have in common.

    ``since`` is the section that both logs have come to, if they are known to be equal up to there and are fed from
    there on only.
    """

    def __init__(self, likeness: Likeness, by: str, unit: Unit | None, *, since: float | None = None) -> None:
        self.divergence: Divergence | None = None
        self.beginnings: list[Divergence] = []
        self.equal = 0
        self._like = likeness
        self._by = by
        self._unit = unit
        self._kinds = frozenset(() if unit is None else unit.kinds)
        self._by_source = by != SEQ and not likeness.ignores_sources
        super().__init__(Sections(by, unit, since), Sections(by, unit, since))
        self._a, self._b = self._sides
        self._section = self._a.sections.label
        self._waiting: dict[str, tuple[deque[_Waiting], deque[_Waiting]]] = {}
        self._waiting_bytes = 0
        self._parted: list[tuple[int, str, _Waiting, _Waiting]] = []
        #: the pairs of the section that are the same, until it is known that they come before any difference
        self._same: list[tuple[int, str]] = []

    # -- sections ------------------------------------------------------------------------------------------

    def _go_on(self) -> bool:
        """Do a piece of work; return False if nothing can be done before a log is fed."""
        a, b = self._a, self._b
        if not (self._waiting or self._parted or a.is_peeked or b.is_peeked) and a.sections.label == b.sections.label:
            self._run(a, b)
        a.skip()
        b.skip()
        if a.is_hungry or b.is_hungry:
            # What waits has the other log's answer still to come, however far this one has been read.
            return False
        sections = a.section(), b.section()
        if self._section not in sections:
            if self._close():
                return False
            if sections == (_END, _END):
                if self._section == _BEGINNING and self.beginnings:  # it is all that there is
                    self.divergence = self.beginnings.pop(0)
                self.is_done = True
                return False
            self._section = min(sections)
            a.place = b.place = 0
        first = sections[0] == self._section and (sections[1] != self._section or a.place <= b.place)
        self._pair(0 if first else 1)
        if self._is_decided():
            return not self._close()
        return True

    def _run(self, a: _Side, b: _Side) -> None:
        """Pass over rows that are the same and stand at the same place: the common case, in one loop."""
        rows, others = a.rows, b.rows
        i, j = a.next, b.next
        most, its_most = len(rows), len(others)
        same, kinds, unit = self._like.same, self._kinds, self._unit
        by_time, numbered = self._by == SIM_TIME, self._unit is None
        label, count, equal = a.sections.label, a.sections.count, 0
        while i < most and j < its_most:
            one, other = rows[i], others[j]
            kind = one[3]
            if one[4] == SERVICE_SOURCE and is_left_out(one):
                i += 1
                continue
            if other[4] == SERVICE_SOURCE and is_left_out(other):
                j += 1
                continue
            if kind != other[3] or not same(one[1], other[1]) or (by_time and one[5] != other[5]):
                break
            if numbered:
                if by_time:
                    label = one[5]
                elif self._by == SEQ or not is_system_kind(kind):
                    count += 1
                    label = count
            elif kind in kinds and unit is not None:
                number, its = number_of(unit, one[1]), number_of(unit, other[1])
                if number != its:
                    break
                label = label if number is None else number
            i += 1
            j += 1
            equal += 1
        if equal:
            a.seen, b.seen = rows[i - 1], others[j - 1]
            for sections in (a.sections, b.sections):
                sections.label, sections.count = label, count
            self._section = label
            self.equal += equal
        a.next, b.next = i, j

    def _pair(self, which: int) -> None:
        """Take the next row of a log and pair it with what waits of its source in the other, or let it wait."""
        taken = (self._a, self._b)[which].take()
        source = taken.row[4] if self._by_source else ""
        queues = self._waiting.setdefault(source, (deque(), deque()))
        if not queues[1 - which]:
            queues[which].append(taken)
            self._waiting_bytes += len(taken.row[1])
            return
        partner = queues[1 - which].popleft()
        self._waiting_bytes -= len(partner.row[1])
        if not any(queues):
            del self._waiting[source]
        a, b = (partner, taken) if which else (taken, partner)
        if self._like.same(a.row[1], b.row[1]):
            self._same.append((min(a.place, b.place), source))
            if not (self._waiting or self._parted):
                self._count()
        elif self._section != _BEGINNING or len(self._parted) < _MOST_PARTED:
            self._parted.append((min(a.place, b.place), source, a, b))

    def _count(self, until: tuple[int, str] | None = None) -> None:
        """Count the pairs that are the same, of those up to a place."""
        self.equal += len(self._same) if until is None else sum(each < until for each in self._same)
        self._same = []

    def _is_decided(self) -> bool:
        """Return whether nothing that is still to come of this section can change where the logs part."""
        if self._waiting_bytes > _MOST_WAITING_BYTES:
            return True
        if not self._parted or self._section == _BEGINNING:
            return False
        place, source, _, _ = min(self._parted, key=lambda each: each[:2])
        if any(side.place <= place for side in (self._a, self._b)):
            return False
        waiting = [(queue[0].place, name) for name, queues in self._waiting.items() for queue in queues if queue]
        return all(each > (place, source) for each in waiting)

    def _close(self) -> bool:
        """End the section; return whether the logs have parted in it."""
        found = [self._divergence(place, source, a, b) for place, source, a, b in self._parted]
        # What has no partner of its own source is shown beside what the other log has instead.
        left = [
            sorted((each.place, name, each) for name, queues in self._waiting.items() for each in queues[which])
            for which in (0, 1)
        ]
        for n in range(max(map(len, left))):
            one, other = (queue[n][2] if n < len(queue) else None for queue in left)
            there = [queue[n][:2] for queue in left if n < len(queue)]
            found.append(self._divergence(*min(there), one, other))
            if n == MOST_LISTED:
                break
        self._parted, self._waiting, self._waiting_bytes = [], {}, 0
        found.sort(key=lambda each: each[:2])
        self._count(found[0][:2] if found and self._section != _BEGINNING else None)
        if not found:
            return False
        if self._section == _BEGINNING:
            self.beginnings += [each for _, _, each in found][:MOST_LISTED]
            return False
        self.divergence = found[0][2]
        self.is_done = True
        return True

    def _divergence(
        self, place: int, source: str, a: _Waiting | None, b: _Waiting | None
    ) -> tuple[int, str, Divergence]:
        one, other = None if a is None else a.row, None if b is None else b.row
        fields = self._like.differs(None if one is None else one[1], None if other is None else other[1])
        number = None if self._section == _BEGINNING else self._section
        found = Divergence(number, one, other, fields, one or self._a.seen, other or self._b.seen)
        return place, source, found


# -- the first moment at which the runs differ --------------------------------------------------------------------


class Run(Protocol):
    """A run that is folded on, effect by effect."""

    def apply(self, effect: Effect) -> Touched:
        """Take the next effect; return what it may have changed of what is looked at."""
        ...


class FirstMoment(_FedInOrder):
    """Finds the first section at whose end two runs differ in what is looked at: their states, or what an agent saw.

    It is fed the logs from where the runs stand, in any section, as an `Aligner` is. A run that has no such section
    stands where it was. ``differ`` returns where the runs differ, given what may have changed since it was last asked
    (None: anything).

    When it is done, ``differences`` are those at the end of the section ``number`` (None: before the first one), and
    ``seen`` is the last row of each run up to there (None: where it stood first). Without any difference ``is_whole``
    says whether all was looked at: the logs to their ends, or only ``one`` section. Otherwise it was given up after
    ``most`` effects; then ``number`` is the last section that was looked at.
    """

    def __init__(
        self,
        runs: tuple[Run, Run],
        differ: Callable[[Collection[str] | None], list[Difference]],
        sections: tuple[Sections, Sections],
        *,
        most: int,
        one: bool = False,
    ) -> None:
        self.differences: list[Difference] = []
        self.number: float | None = None
        self.seen: tuple[StoredRow | None, StoredRow | None] = None, None
        self.is_whole = False
        self.read = 0
        self._runs = runs
        super().__init__(*sections)
        self._section = max(each.label for each in sections)
        self._differ = differ
        self._most = most
        self._one = one
        self._touched: set[str] | None = None

    def _go_on(self) -> bool:
        if any(self.hungry):
            return False
        sections = [side.section() for side in self._sides]
        if self._section not in sections:
            self.number = None if self._section == _BEGINNING else self._section
            self.seen = self._sides[0].seen, self._sides[1].seen
            self.differences = self._differ(self._touched)
            self._touched = set()
            self._section = min(sections)
            self.is_whole = self._one or self._section == _END
            self.is_done = self.is_whole or bool(self.differences)
        elif self.read >= self._most:
            self.is_done = True
        else:
            which = sections.index(self._section)
            touched = touched_by(self._runs[which].apply(orjson.loads(self._sides[which].take().row[1])))
            if touched is None or self._touched is None:
                self._touched = None
            else:
                self._touched |= touched
            self.read += 1
        return True
