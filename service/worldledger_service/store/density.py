"""Density: how many effects of each kind there are along a world's log, in bins.

Short logs are counted effect by effect. For long ones the projection ``effect_counts`` has the counts of every stretch
of 1,024 effects, and bins end where stretches do; what it has not come to yet is counted, up to a limit.

A log that was tampered with may have any numbers for times, and effects may be missing: it has a density all the same,
and `worldledger verify` names it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import orjson
from worldledger_projections.effect_counts import STRETCH

from worldledger.canonical import MAX_INT
from worldledger_service.store import statements
from worldledger_service.store.reader import ViewMissingError, fetch_views

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord

#: Effects that are counted from the log: a few tens of milliseconds.
COUNTED: Final = 65_536
#: Effects whose times are read for each span of a world's activity.
_TIMES_OF_A_SPAN: Final = 2
#: Kinds that are told apart, the most frequent ones.
MOST_KINDS: Final = 100


@dataclass(slots=True)
class Marks:
    """Places of a log where bins may end: seqs, ascending, and the sim_time at each.

    ``counts`` are the kinds from one mark to the next; None where every effect is a mark, to be counted for itself.
    """

    seqs: Sequence[int]
    sim_times: Sequence[float]
    counts: list[Mapping[str, int]] | None = None
    step: int = 1


@dataclass(slots=True)
class Density:
    """Bins, as columns of the same length: where they end, and how many effects of each kind they have."""

    through_seq: int
    step: int
    end_seq: list[int] = field(default_factory=list)
    end_sim_time: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    kinds: dict[str, list[int]] = field(default_factory=dict)
    other_kinds: list[int] = field(default_factory=list)


async def marks_of(reader: Reader, world: WorldRecord) -> Marks:
    """Return where bins of a world may end. If the projection cannot be read, that is not far."""
    name, head = world.world_id, world.head_seq
    if head <= COUNTED:
        (row,) = await reader.fetch(statements.SIM_TIMES, name, head)
        return Marks(row["seqs"] or (), rising(row["sim_times"] or ()))
    rows: list[Any] = []
    with suppress(ViewMissingError):
        rows += await fetch_views(reader, statements.STRETCHES, name, head)
    through = rows[-1]["last_seq"] if rows else 0
    # The last stretch may have grown since, so what follows may be part of it.
    rows += await reader.fetch(statements.COUNT_STRETCHES, name, through, min(head, through + COUNTED), STRETCH)
    counts = [
        Counter(orjson.loads(row["kinds"])) + Counter({"": row["other_kinds"]} if row["other_kinds"] else ())
        for row in rows
    ]
    times = rising([row["last_sim_time"] for row in rows])
    return Marks([row["last_seq"] for row in rows], times, [*counts], STRETCH)


def rising(times: Sequence[float]) -> list[float]:
    """Return the times of effects as a log has them: finite, and never going back.

    One that is neither was written by no service; the time before it stands for it.
    """
    last = next(filter(isfinite, times), 0.0)
    risen = []
    for time in times:
        if last < time and isfinite(time):
            last = time
        risen.append(last)
    return risen


async def density(
    reader: Reader, world: WorldRecord, marks: Marks, bins: int, by: str, units: Sequence[tuple[int, int]] = ()
) -> Density:
    """Return the density of a world in at most so many bins, each as wide as the others.

    They are as wide in effects (``by`` is "seq"), in sim_time, or else in ``units``: the number and first seq of each.
    """
    through = marks.seqs[-1] if marks.seqs else 0
    found = Density(through, marks.step)
    if not through:
        return found
    ends = _ends(marks, bins, by, units)
    found.end_seq = [marks.seqs[index] if index >= 0 else 0 for index, _ in ends]
    found.end_sim_time = [marks.sim_times[max(index, 0)] for index, _ in ends]
    found.end = [end for _, end in ends]
    if marks.counts is None:
        counted = await reader.fetch(statements.COUNT_BY_ENDS, world.world_id, through, found.end_seq)
        counts = [(row["bin"], row["kind"], row["effects"]) for row in counted]
    else:
        places = [index for index, _ in ends]
        counts = [
            (bisect_left(places, index), kind, effects)
            for index, each in enumerate(marks.counts)
            for kind, effects in each.items()
        ]
    _spread(found, counts)
    return found


def _ends(marks: Marks, bins: int, by: str, units: Sequence[tuple[int, int]]) -> list[tuple[int, float]]:
    """Return the mark at which each bin ends, as an index (-1: before the first), and its end in what it is by."""
    count = len(marks.seqs)
    if by == "seq":
        bins = min(bins, count)
        indexes = [count * (n + 1) // bins - 1 for n in range(bins)]
        return [(index, marks.seqs[index]) for index in indexes]
    if by == "sim_time":
        first, last = marks.sim_times[0], marks.sim_times[-1]
        upper = [_between(first, last, (n + 1) / bins) for n in range(bins - 1)]
        return [*((bisect_right(marks.sim_times, time) - 1, time) for time in upper), (count - 1, last)]
    through = marks.seqs[-1]
    known = [(number, first) for number, first in units if first <= through]
    bins = min(bins, len(known))
    following = [len(known) * (n + 1) // bins for n in range(bins)]
    return [
        (
            count - 1 if index == len(known) else bisect_right(marks.seqs, known[index][1] - 1) - 1,
            known[index - 1][0],
        )
        for index in following
    ]


def _spread(found: Density, counts: Sequence[tuple[int, str, int]]) -> None:
    """Add the counts of kinds in bins; the empty kind is that of all others."""
    totals: Counter[str] = Counter()
    for _, kind, effects in counts:
        totals[kind] += effects
    totals.pop("", None)
    shown = [kind for kind, _ in sorted(totals.items(), key=lambda each: (-each[1], each[0]))[:MOST_KINDS]]
    width = len(found.end_seq)
    found.kinds = {kind: [0] * width for kind in shown}
    found.other_kinds = [0] * width
    for place, kind, effects in counts:
        found.kinds.get(kind, found.other_kinds)[place] += effects


async def activity(reader: Reader, worlds: Mapping[str, int], bins: int) -> dict[str, list[int]]:
    """Return how many effects each world has in each of so many equal spans of its sim_time, given the worlds' heads.

    The spans begin with the effect after the genesis. The times of a few effects for each are read, in one statement;
    between them time is taken to pass evenly.
    """
    heads = [min(head, MAX_INT) for head in worlds.values()]
    rows = await reader.fetch(statements.SPREAD_TIMES, [*worlds], heads, bins * _TIMES_OF_A_SPAN)
    return {row["world_id"]: _per_span(row["seqs"], rising(row["sim_times"]), bins) for row in rows}


def _between(first: float, last: float, part: float) -> float:
    """Return the time after a part of a span, however long that is."""
    return first * (1 - part) + last * part


def _per_span(seqs: Sequence[int], times: Sequence[float], bins: int) -> list[int]:
    first, last = times[0], times[-1]

    def reached(time: float) -> int:
        """Return how many effects there are up to a time before the last."""
        index = bisect_right(times, time)
        if index in {0, len(times)}:  # at the ends numbers may be rounded
            return seqs[index - 1] if index else 0
        part = (time - times[index - 1]) / (times[index] - times[index - 1])
        return seqs[index - 1] + int(part * (seqs[index] - seqs[index - 1]))

    ends = [reached(_between(first, last, n / bins)) if last > first else 0 for n in range(1, bins)]
    return [end - before for before, end in pairwise([0, *ends, seqs[-1]])]
