"""The histories of worlds that are compared: a fork's goes through its ancestors, and forks may share their past."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from worldledger.comparing import LEFT_OUT, SIM_TIME, number_of
from worldledger.effects import is_system_kind
from worldledger.moments import STEP

if TYPE_CHECKING:
    from worldledger.chain import StoredEffect
    from worldledger.moments import Unit
    from worldledger_service.store import Store, WorldRecord


class Stretch(NamedTuple):
    """A part of a history: a world's effects after a seq, up to the head that its record names."""

    record: WorldRecord
    after_seq: int = 0

    def records(self, store: Store) -> AsyncGenerator[list[Any], None]:
        """Yield its rows as the driver returns them, in batches."""
        return store.reader.records(self.record.world_id, after_seq=self.after_seq, until_seq=self.record.head_seq)

    def batches(self, store: Store) -> AsyncGenerator[list[StoredEffect], None]:
        """Yield its rows, in batches."""
        return store.reader.batches(self.record.world_id, after_seq=self.after_seq, until_seq=self.record.head_seq)

    async def counts(self, store: Store, after_seq: int | None = None) -> Counter[str]:
        """Return how many effects of each kind it has that are compared; ``after_seq`` narrows it down."""
        since = self.after_seq if after_seq is None else after_seq
        found = await store.reader.kind_counts(self.record.world_id, after_seq=since, until_seq=self.record.head_seq)
        return Counter({kind: count for kind, count in found.items() if kind not in LEFT_OUT})


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


async def history_of(store: Store, record: WorldRecord) -> History:
    """Return the whole history of a world. Raises ParentMissingError or TamperedError for a fork without its parent."""
    return [Stretch(each) for each in await store.states.line(record)]


async def shared_past(store: Store, a: History, b: History, by: str, unit: Unit | None) -> Shared:
    """Return the shared past of two histories. Its effects are counted, and not read.

    A world's effects up to the earlier of two fork points are shared.
    """
    past: list[Stretch] = []
    for place, (one, other) in enumerate(zip(a, b, strict=False)):
        if one.record.world_id != other.record.world_id:
            break
        until = min(one.record.head_seq, other.record.head_seq)
        past.append(Stretch(one.record.model_copy(update={"head_seq": until})))
        if not (one.record.head_seq == other.record.head_seq and len(a) > place + 1 and len(b) > place + 1):
            break
    if not past or (len(a) == len(b) == 1):
        return Shared([], a, b)
    at = len(past) - 1
    until = past[-1].record.head_seq
    left, right = [[Stretch(history[at].record, until), *history[at + 1 :]] for history in (a, b)]
    counts: Counter[str] = Counter()
    for stretch in past:
        counts += await stretch.counts(store)
    section = await _section(store, past, counts, by, unit)
    return Shared(past, left, right, counts.total(), section)


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
