"""Agents' cursors: how far each has observed its world; read when one returns, written now and then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from worldledger_service.store import statements
from worldledger_service.store.reader import storable

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader


class AgentCursors:
    """Reads and moves agents' cursors. A cursor never goes back, in whatever order it is written."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def read(self, world_id: str, agent_ids: Sequence[str]) -> dict[str, int]:
        """Return the view_seq that each of these agents has acknowledged, if one is known."""
        asked = [agent_id for agent_id in agent_ids if storable(agent_id)]
        rows = await self._reader.fetch(statements.AGENT_CURSORS, world_id, asked)
        return {row["agent_id"]: row["view_seq"] for row in rows}

    async def move(self, world_id: str, cursors: Mapping[str, int]) -> None:
        """Write cursors of one world's agents. Raises StoreUnavailableError; writing them again is harmless."""
        if cursors:
            agents = list(cursors)
            await self._reader.fetch(
                statements.MOVE_CURSORS, [world_id] * len(agents), agents, [cursors[agent] for agent in agents]
            )
