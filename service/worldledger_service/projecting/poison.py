"""Indigestible effects: finding the one at fault, and setting its world aside.

Everything before that effect is written. The world's other projections, and the projection's other worlds, go on; the
world that was set aside waits until it is released (`retry`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from worldledger_projections.folds import Poison, Target, carefully

from worldledger.chain import StoredEffect
from worldledger.errors import UnknownRulesetError
from worldledger.protocols import Span
from worldledger_service.projecting.beginnings import Beginnings
from worldledger_service.projecting.outages import is_datas_fault
from worldledger_service.projecting.writing import CursorsMovedError, Writer, Written


class Isolation:
    """Feeds one target separately and carefully."""

    def __init__(self, beginnings: Beginnings, writer: Writer) -> None:
        self._beginnings = beginnings
        self._writer = writer

    async def again(self, target: Target, rows: Sequence[StoredEffect]) -> Target:
        """Fold again from the cursor, an effect at a time; the result ends before the first that fails."""
        fresh = target.anew()
        await self._beginnings.load([fresh])
        if fresh.poison is None:
            upcasting = self._beginnings.upcasting(target.ruleset)
            await asyncio.to_thread(carefully, fresh, rows, upcasting)
        elif rows:
            fresh.poison = fresh.poison._replace(kind=rows[0].kind)
        return fresh

    async def write(self, target: Target, rows: Sequence[StoredEffect], tokens: Mapping[str, int]) -> list[Target]:
        """Write a target of a batch whose rows the database refused; return what was written.

        If this target is at fault, fewer and fewer effects are tried, down to the one whose rows are refused.
        """
        if not rows:
            await self._writer.write(Written([target]), tokens)
            return [target]
        done: list[Target] = []
        most = len(rows)
        while rows:
            piece = rows[:most]
            fresh = await self.again(target, piece)
            try:
                await self._writer.write(Written([fresh]), tokens)
            except CursorsMovedError:
                break
            except Exception as error:
                if not is_datas_fault(error):
                    raise
                if most > 1:
                    most = max(1, min(most, fresh.reached - fresh.seq) // 2)
                    continue
                fresh = target.anew()
                fresh.reached, fresh.poison = target.seq, Poison.of(piece[0], error)
                await self._writer.write(Written([fresh]), tokens)
            done.append(fresh)
            if fresh.poison is not None:
                break
            rows = rows[len(piece) :]
            target = target.anew(fresh.reached)
        return done


def is_skipped(poison: Poison) -> bool:
    """Return whether a world is only skipped until its kind is installed: its effects are not at fault."""
    return poison.error.startswith(UnknownRulesetError.__name__ + ":")


def missing(span: Span, rows: Sequence[StoredEffect]) -> Poison:
    """Set the target aside because its next effect is missing, though the head, or a later effect, is past it."""
    what = f"the next effect in the log is seq {rows[0].global_seq}" if rows else "the log ends before it"
    return Poison(span.after_seq + 1, None, f"the effect is missing: {what}; run `worldledger verify`")


def contiguous(rows: list[StoredEffect], seq: int) -> list[StoredEffect]:
    """Return the rows that follow a seq without a gap."""
    if not rows or (rows[0].global_seq == seq + 1 and rows[-1].global_seq == seq + len(rows)):
        return rows
    return [row for n, row in enumerate(rows, seq + 1) if row.global_seq == n]
