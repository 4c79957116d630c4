"""Driving: the service's own players move in their games in the same way as external ones.

One task for each game asks the player to move. A game is driven by the process in which it began; if nothing has
happened for a while, another one takes over (`worldledger_chess.arena.arena`). If two drive one game, the first move
counts, and the second driver steps back until nothing happens any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog

from worldledger.aio import Backoff, first_of
from worldledger.errors import IllegalEffectError, RecoveryAction, RequestConflictError, SimulationError
from worldledger_chess.arena.players import ModelPlayer, PlayerError, make_player
from worldledger_chess.arena.players import Player as Moves
from worldledger_chess.rules.live import EXTERNAL

if TYPE_CHECKING:
    from worldledger_service.runtime.worlds import Worlds

    from worldledger.aio import CancelToken
    from worldledger_chess.arena.moving import Moving
    from worldledger_chess.arena.outcomes import MoveOutcome
    from worldledger_chess.arena.settings import ArenaSettings
    from worldledger_chess.arena.table import Table
    from worldledger_chess.rules.endings import Player

T = TypeVar("T")

#: Seconds between two attempts to write while the database is away.
_PAUSE_SECONDS: Final = (0.1, 2.0)
#: Seconds for which a player that is told to stop still writes.
_LAST_SECONDS: Final = 5.0

#: The log message about a player that failed.
NO_MOVE: Final = "a player has no move"

log = structlog.get_logger("worldledger.arena")


def driven(players: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return those of a game's players that the service plays, by colour."""
    return {
        colour: spec
        for colour, spec in players.items()
        if spec != EXTERNAL and not (isinstance(spec, Mapping) and spec.get("name") == EXTERNAL)
    }


class Driver:
    """Plays one game for its players that are the service's own."""

    def __init__(
        self, table: Table, moving: Moving, worlds: Worlds, settings: ArenaSettings, clock: Callable[[], float]
    ) -> None:
        """Make the players; engines start at their first move. Raises as `make_player` does."""
        live = table.record.live
        assert live is not None  # noqa: S101 - only live games are driven
        self._table = table
        self._moving = moving
        self._worlds = worlds
        self._settings = settings
        self._clock = clock
        self._players: dict[Player, Moves] = {
            colour: make_player(
                spec,
                seed=table.game_id if live.seed is None else live.seed,
                path=f"$.players.{colour}",
                allow_programs=settings.allow_programs,
            )
            for colour, spec in driven(live.players).items()
        }

    async def run(self) -> None:
        """Play until the game is over; in any case close the players at the end."""
        async with AsyncExitStack() as closing:
            for player in self._players.values():
                closing.push_async_callback(player.close)
            await self._play()

    async def _play(self) -> None:
        table = self._table
        while table.record.in_progress:
            record = table.record
            player = self._players.get(record.turn)
            if player is None or record.unsettled:
                await table.changed()
            elif not await self._move(player):
                await self._step_back()

    async def _move(self, player: Moves) -> bool:
        """Let a player make a move, or fail to; return False if another process has made it."""
        record = self._table.record
        ply, colour, agent_id = record.ply + 1, record.turn, record.agent(record.turn)
        req_id = f"player:{ply}:{record.rejected}"
        deadline = record.deadline_at
        remaining = None if deadline is None else max(deadline - self._clock(), 0.0)
        if isinstance(player, ModelPlayer):
            player.diary = GameDiary(self._worlds, self._table, agent_id, req_id)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        asked, gone = await first_of(player.move(record.position(remaining_s=remaining)), self._gone(ply))
        if asked is None:
            if gone is not None:
                gone.result()
            return True  # the game has gone on without the answer
        error = asked.exception()
        thinking_time = round(loop.time() - begun, 6)
        if error is None:
            text = asked.result()
            return await self._write(
                lambda: self._moving.move(
                    self._table, agent_id, text, thinking_time=thinking_time, req_id=req_id, ply=ply
                ),
                ply,
            )
        failure = error if isinstance(error, PlayerError) else PlayerError(player.name, "failed", f"failed: {error!r}")
        log.warning(NO_MOVE, game_id=record.game_id, ply=ply, error=failure.message)
        return await self._write(lambda: self._moving.fail(self._table, colour, failure, req_id=req_id, ply=ply), ply)

    async def _gone(self, ply: int) -> None:
        """Wait until the game no longer waits for this move. Raises the error that ends the following."""
        table = self._table
        while table.record.in_progress and table.record.ply + 1 == ply:
            await table.changed()

    async def _write(self, write: Callable[[], Any], ply: int) -> bool:
        """Write a move, however long the database is away; return False if another process was first."""
        table = self._table
        backoff, again = Backoff(*_PAUSE_SECONDS), False
        while True:
            try:
                outcome: MoveOutcome = await write()
            except (IllegalEffectError, RequestConflictError):
                return not table.record.in_progress
            except SimulationError as error:
                if error.recovery not in {RecoveryAction.RETRY, RecoveryAction.RETRY_WITH_DELAY}:
                    raise
                again = True
            else:
                return again or not outcome.replayed
            await backoff.wait()
            if not table.record.in_progress or table.record.ply + 1 != ply:
                return True

    async def _step_back(self) -> None:
        """Leave the game to its other driver, until nothing happens any more."""
        table = self._table
        while table.record.in_progress:
            try:
                async with asyncio.timeout(self._settings.adopt_after):
                    await table.changed()
            except TimeoutError:
                return


# -- the answers of a language model in a game's log -------------------------------------------------------------


class GameDiary:
    """The `Diary` of one answer, which is a generation: of an agent of a game, under the req_id of its attempt."""

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
