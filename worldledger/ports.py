"""The few Protocols at which the rooms of the house meet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from worldledger.chain import StoredEffect


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
        """Give rows with after_seq < global_seq <= until_seq, ascending, in batches of bounded size."""
        ...

    async def head_seqs(self, world_ids: list[str]) -> dict[str, int]:
        """Give the present head_seq of each of these worlds that exists."""
        ...
