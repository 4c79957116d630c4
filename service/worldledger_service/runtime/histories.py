"""The histories of worlds that are compared: a fork's goes through its ancestors, and forks may share their past."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from worldledger.comparing import LEFT_OUT, SIM_TIME, Sections, number_of
from worldledger.effects import is_system_kind
from worldledger.moments import STEP

if TYPE_CHECKING:
    from worldledger.moments import Unit
    from worldledger_service.store import Store, WorldRecord


#: Stretches of at most so many effects, or bytes, are read once and kept.
_SHORT: Final = 1000
_SHORT_BYTES: Final = 2**20


class Stretch(NamedTuple):
    """A part of a history: a world's effects after a seq, up to the head that its record names."""

    record: WorldRecord
    after_seq: int = 0

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
    """Reads the effects of histories, for one comparison; short ones once."""

    def __init__(self, store: Store) -> None:
        self._reader = store.reader
        #: by world, after which seq the rows begin
        self._kept: dict[str, tuple[int, Sequence[Any]]] = {}

    async def rows(self, history: History) -> AsyncGenerator[Sequence[Any], None]:
        """Yield the rows of a history as the driver returns them, in batches; a batch is of one world."""
        for record, after_seq in history:
            start, kept = self._kept.get(record.world_id, (0, ()))
            if start <= after_seq and record.head_seq <= start + len(kept):
                yield kept[after_seq - start : record.head_seq - start]
                continue
            batches = self._reader.records(record.world_id, after_seq=after_seq, until_seq=record.head_seq)
            async with aclosing(batches):
                async for batch in batches:
                    is_all = len(batch) == record.head_seq - after_seq
                    if is_all and sum(len(row[1]) for row in batch) <= _SHORT_BYTES:
                        self._kept[record.world_id] = after_seq, batch
                    yield batch

    async def genesis(self, record: WorldRecord) -> bytes:
        """Return the text of a world's first effect."""
        whole = Stretch(record)
        if whole.is_short:
            async with aclosing(self.rows([whole])) as batches:
                async for batch in batches:
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
    return [Stretch(each) for each in await store.states.line(record)]


async def shared_past(store: Store, logs: Logs, a: History, b: History, by: str, unit: Unit | None) -> Shared:
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
    counts = await logs.counts(past)
    section = await _section(store, past, counts, by, unit)
    return Shared(past, left, right, counts.total(), section)


def after(history: History, world_id: str, seq: int) -> History:
    """Return what a history has after an effect of one of its worlds."""
    at = next((at for at, stretch in enumerate(history) if stretch.record.world_id == world_id), None)
    return history if at is None else [history[at]._replace(after_seq=seq), *history[at + 1 :]]


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
