"""The few Protocols at which the rooms of the house meet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from worldledger.chain import StoredEffect
from worldledger.folding import Fold


class Span(NamedTuple):
    """Some of a world's effects: those with after_seq < global_seq <= until_seq."""

    world_id: str
    after_seq: int
    until_seq: int


class WorldHead(NamedTuple):
    """A world, the ruleset that folds it, and how far its log has come."""

    world_id: str
    ruleset: str
    head_seq: int


class LogReader(Protocol):
    """Reads worlds' logs; whoever folds effects is handed one."""

    def batches(
        self,
        world_id: str,
        *,
        after_seq: int = 0,
        until_seq: int | None = None,
        kind: str | None = None,
        source_id: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[list[StoredEffect]]:
        """Return rows with after_seq < global_seq <= until_seq, ascending, in batches of bounded size."""
        ...

    async def head_seqs(self, world_ids: list[str]) -> dict[str, int]:
        """Return the present head_seq of each of these worlds that exists."""
        ...

    async def gather(self, spans: Sequence[Span], *, limit: int) -> list[list[StoredEffect]]:
        """Return the first rows of each span, in one query: a list for each span, in their order.

        At most about ``limit`` rows are given in all, so a span may come back short or empty; ask again from where
        it ended. At least one row is given if any span has one.
        """
        ...

    async def world_heads(self, *, after: str = "", limit: int = 1000) -> list[WorldHead]:
        """Return worlds by name, those after ``after``, with their present heads."""
        ...


class StateReader(Protocol):
    """Gives states; who needs a world's state at some seq is handed one."""

    async def fold_at(self, world_id: str, global_seq: int) -> Fold:
        """Return a fold of one's own at this seq. Raises WorldNotFoundError or MomentNotFoundError."""
        ...
