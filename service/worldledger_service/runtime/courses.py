"""The course of a run: what its kind measures, unit by unit, and how it ended; and many runs by group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, Any, Final

import orjson

from worldledger.comparing import number_in
from worldledger.errors import NotComparableError
from worldledger.folding import Fold
from worldledger.moments import Unit
from worldledger_service.store.prefetch import prefetch

if TYPE_CHECKING:
    from worldledger.effects import Effect
    from worldledger.measures import Measures
    from worldledger_service.runtime.histories import History, Logs
    from worldledger_service.store import Store, WorldRecord

#: Most points of a series; of a longer run every second, fourth … unit is kept.
MOST_POINTS: Final = 2000
#: Effects that are folded on the event loop; more goes to a thread.
_AT_ONCE: Final = 100


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
) -> Course:
    """Return the course of a run through its history, with a fold at a place of it. Raises as `States.fold_at`."""
    first = history[0]
    course = Course(await store.states.fold_at(first.record.world_id, first.after_seq), measures, unit, place)
    for stretch in history:
        if stretch is not first:
            course.fold = Fold(stretch.record.world_id, course.fold.ruleset, course.fold.state)
        async with prefetch(logs.rows([stretch])) as batches:
            async for batch in batches:
                if len(batch) <= _AT_ONCE:
                    course.feed(batch)
                else:
                    await store.aside.run(partial(course.feed, batch))
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
