"""What a batch takes of what is due: some worlds, in turn, so that no world waits for ever behind a large one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from worldledger.ports import Span
from worldledger_projections.folds import Target
from worldledger_projections.tables import Table

if TYPE_CHECKING:
    from asyncpg import Record

_FEWEST_WORLDS: Final = 32
_MOST_WORLDS: Final = 2000


@dataclass(slots=True)
class Lane:
    """Builds that are fed together: how far the present round through the worlds has come.

    ``worlds`` is how many worlds of each build are looked at for one batch: about as many as it turns out to take.
    ``builds`` are those of the last batch, ``writing`` is that batch while it is being written. ``progressed`` tells
    whether the round got anywhere.
    """

    after: str = ""
    worlds: int = 256
    builds: tuple[str, ...] = ()
    progressed: bool = False
    writing: asyncio.Task[None] | None = None

    async def settle(self) -> None:
        """Wait until the batch before is written; raise what came of it."""
        writing, self.writing = self.writing, None
        if writing is not None:
            await writing

    async def abandon(self) -> None:
        """Stop writing; nothing of that batch is kept, unless it was just being committed."""
        writing, self.writing = self.writing, None
        if writing is not None:
            writing.cancel()
            await asyncio.wait([writing])
            if not writing.cancelled():
                writing.exception()  # it is known now

    def go_on(self, choice: Choice) -> None:
        """Note where the next batch begins, and how many worlds it is likely to take."""
        self.after = choice.after
        if choice.short:
            self.worlds = min(self.worlds * 2, _MOST_WORLDS)
        elif choice.worlds < self.worlds // 4:
            self.worlds = max(self.worlds // 2, _FEWEST_WORLDS)


@dataclass(slots=True)
class Choice:
    """What a batch is made of.

    ``spans`` say what to read, and which targets stand there. ``past`` are worlds in which nothing is due, each with
    the head up to which that is so, ``parked`` those that are set aside. ``short``: there was room for more worlds.
    """

    spans: list[tuple[Span, list[Target]]] = field(default_factory=list)
    past: list[tuple[str, str, int]] = field(default_factory=list)
    parked: list[tuple[str, str]] = field(default_factory=list)
    worlds: int = 0
    after: str = ""
    short: bool = False

    @property
    def thrown_away(self) -> int:
        """How many worlds need not be looked at again."""
        return len(self.past) + len(self.parked)


def choose(due: Sequence[Record], tables: Mapping[str, Table], worlds: int, batch: int) -> Choice:
    """Take worlds from the rows of DUE until a batch is full.

    ``worlds`` is the limit for each build that DUE was asked with. Beyond the last world of a build that has more the
    others wait for it, so that builds that stand at the same place stay together.
    """
    choice = Choice()
    until = _common_end(due, worlds)
    share = max(1, batch // 2)
    effects = 0
    here = ""
    for world_id, rows in groupby(due, key=itemgetter("world_id")):
        if until is not None and world_id > until:
            break
        if effects >= batch:
            choice.after = here
            return _capped(choice, share)
        here = world_id
        choice.worlds += 1
        effects += _take(choice, list(rows), tables, share)
    choice.after = until or ""
    choice.short = until is not None
    return _capped(choice, share if choice.worlds > 1 else batch)


def _common_end(due: Sequence[Record], worlds: int) -> str | None:
    counts: dict[str, int] = {}
    last: dict[str, str] = {}
    for row in due:
        counts[row["build"]] = counts.get(row["build"], 0) + 1
        last[row["build"]] = row["world_id"]
    return min((last[build] for build, count in counts.items() if count >= worlds), default=None)


def _take(choice: Choice, rows: Sequence[Record], tables: Mapping[str, Table], share: int) -> int:
    """Take what is due in one world; give about how many effects that are."""
    here: dict[int, tuple[int, list[Target]]] = {}
    for build, world_id, head, cursor, ruleset, parked in rows:
        table = tables[build]
        seq = cursor or 0
        if parked is not None:
            choice.parked.append((build, world_id))
        elif head <= seq or not table.reads(ruleset):
            choice.past.append((build, world_id, head))
        else:
            most, together = here.get(seq, (0, []))
            together.append(Target(table, world_id, ruleset, seq, head, fresh=cursor is None))
            here[seq] = max(most, head), together
    for seq, (head, together) in here.items():
        choice.spans.append((Span(together[0].world_id, seq, head), together))
    return sum(min(head - seq, share) for seq, (head, _) in here.items())


def _capped(choice: Choice, most: int) -> Choice:
    choice.spans = [
        (span._replace(until_seq=min(span.until_seq, span.after_seq + most)), together)
        for span, together in choice.spans
    ]
    return choice
