"""The answers of a language model in a game's log: each one is a generation of its agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog

from worldledger.aio import Backoff
from worldledger.errors import RecoveryAction, SimulationError

if TYPE_CHECKING:
    from worldledger_service.runtime.worlds import Worlds

    from worldledger.aio import CancelToken
    from worldledger_chess.arena.table import Table

T = TypeVar("T")

#: Seconds between two attempts to write while the database is away.
_PAUSE_SECONDS: Final = (0.1, 2.0)
#: Seconds for which a player that is told to stop still writes.
_LAST_SECONDS: Final = 5.0

log = structlog.get_logger("worldledger.arena")


class GameDiary:
    """The `Diary` of one answer: of an agent of a game, under the req_id of its attempt."""

    def __init__(self, worlds: Worlds, table: Table, agent_id: str, req_id: str) -> None:
        self._worlds = worlds
        self._table = table
        self._agent_id = agent_id
        self._req_id = req_id

    async def begun(self, model: Mapping[str, Any]) -> CancelToken:
        """Begin the generation, from the game as it stands."""

        async def begin() -> CancelToken:
            world, seq = await self._worlds.get(self._table.game_id), self._table.record.seq
            await world.reached(seq)
            return world.issue_cancel_token(self._agent_id, self._req_id, seq, model=model)

        return await _persisted(begin)

    async def ended(self, report: Mapping[str, Any], texts: Sequence[Mapping[str, Any]]) -> None:
        """Report the generation, however long the database is away; if the game ends meanwhile, not for long."""
        task = asyncio.current_task()
        is_leaving = task is not None and task.cancelling() > 0

        async def write() -> None:
            world = await self._worlds.get(self._table.game_id)
            await world.report_generation(self._agent_id, self._req_id, report, texts)

        try:
            async with asyncio.timeout(_LAST_SECONDS if is_leaving else None):
                await _persisted(write)
        except (SimulationError, TimeoutError) as error:
            log.warning("what a model used is not in the log", game_id=self._table.game_id, error=str(error))


async def _persisted(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call again while the database is away."""
    backoff = Backoff(*_PAUSE_SECONDS)
    while True:
        try:
            return await call()
        except SimulationError as error:
            if error.recovery not in {RecoveryAction.RETRY, RecoveryAction.RETRY_WITH_DELAY}:
                raise
        await backoff.wait()
