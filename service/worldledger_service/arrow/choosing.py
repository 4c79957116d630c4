"""Choosing effects: worlds as they are at one moment, and parts of their logs. Needs no Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from worldledger.chain import Finding
from worldledger_service.store.reader import storable
from worldledger_service.store.records import SEVERAL_ROWS, head_problem

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader

_WORLDS: Final = """
select w.world_id, w.world_uuid, w.experiment, h.head_seq, h.head_checksum
from worlds w left join heads h using (world_id)
where $1::text is null or w.experiment = $1
order by w.world_id
"""


class WorldSpan(NamedTuple):
    """The effects of a world with after_seq < global_seq <= until_seq."""

    world_id: str
    experiment: str | None
    after_seq: int
    until_seq: int

    @property
    def effects(self) -> int:
        """The number of effects: a log has no gaps."""
        return max(self.until_seq - self.after_seq, 0)


class ChosenWorld(NamedTuple):
    """A world, and the end of its log when it was chosen. The checksum is 32 bytes, the uuid 32 hex digits."""

    world_id: str
    world_uuid: str
    experiment: str | None
    head_seq: int
    head_checksum: bytes

    def span(self, after_seq: int = 0, until_seq: int | None = None) -> WorldSpan:
        """Return the part of its log after a seq, up to another one or its head."""
        until = self.head_seq if until_seq is None else min(until_seq, self.head_seq)
        return WorldSpan(self.world_id, self.experiment, after_seq, until)


async def choose(reader: Reader, *, experiment: str | None = None) -> list[ChosenWorld]:
    """Return worlds by name as they are now: all, or those of an experiment. Raises TamperedError for a wrong head."""
    if experiment is not None and not storable(experiment):
        return []
    rows = await reader.fetch(_WORLDS, experiment)
    worlds = [ChosenWorld(row[0], row[1].hex, *row[2:]) for row in rows]
    check(worlds)
    return worlds


def check(worlds: Sequence[ChosenWorld]) -> None:
    """Raise TamperedError for the first world, by name, with an end that no log has, or with several."""
    for n, world in enumerate(worlds):
        problem = head_problem(world.world_id, world.head_seq, world.head_checksum)
        if n and worlds[n - 1].world_id == world.world_id:
            problem = Finding(world.world_id, 1, SEVERAL_ROWS)
        if problem is not None:
            raise problem.error()
