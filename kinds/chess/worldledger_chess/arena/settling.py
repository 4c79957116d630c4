"""Settling: doing what is due in a game besides the players' moves: its end, a deadline, a fallback.

It is done on every occasion: a call, a timer, the loading of a game whose process was killed. Doing it twice, here or
in another process, is harmless.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import structlog

from worldledger.errors import SimulationError
from worldledger_chess.arena.players import RandomPlayer
from worldledger_chess.rules.endings import resignation, timed_out

if TYPE_CHECKING:
    from worldledger_chess.arena.record import Record
    from worldledger_chess.arena.table import Table
    from worldledger_chess.arena.writing import Writing
    from worldledger_chess.rules.endings import Reason


#: Most steps in which everything that is due at one time must be done: a fallback may cause the end.
_STEPS: Final = 20


class Settling:
    """Does what is due. ``clock`` gives epoch seconds, those of ``wall_time``."""

    def __init__(self, writing: Writing, clock: Callable[[], float]) -> None:
        self._writing = writing
        self.clock = clock

    def expired(self, record: Record) -> bool:
        """Return whether the time of the side to move has run out."""
        deadline = record.deadline_at
        return deadline is not None and self.clock() >= deadline

    async def settle(self, table: Table) -> None:
        """Do everything that is due now. Raises as an append."""
        for _ in range(_STEPS):
            if not await self._step(table):
                return

    async def _step(self, table: Table) -> bool:
        record = table.record
        live, board = record.live, record.board
        if live is None or board is None or not record.in_progress:
            return False
        if record.due_end is not None:
            await self._writing.end(table, record.due_end)
        elif self.expired(record):
            await self._writing.end(table, timed_out(board, record.turn))
        elif record.rejected >= live.max_illegal:
            if live.fallback == "random":
                await self._writing.move_instead(table, await self._random_move(record))
            else:
                await self._writing.end(table, resignation(record.turn, _why_given_up(record)))
        else:
            return False
        return True

    async def _random_move(self, record: Record) -> str:
        """Return a move drawn by the game's seed: the same in every process."""
        assert record.live is not None  # noqa: S101 - only live games are settled
        seed = record.live.seed
        player = RandomPlayer(record.game_id if seed is None else seed)
        return await player.move(record.position())


def _why_given_up(record: Record) -> Reason:
    """Return the reason: illegal moves, unless the player gave no move in one of the attempts."""
    attempts = takewhile(lambda entry: entry.kind == "MoveRejected", reversed(record.entries))
    reasons = {entry.effect["payload"].get("reason") for entry in attempts}
    return "illegal_move" if reasons <= {None, "illegal_move"} else "abandoned"


# -- deadlines: each game is checked when the time of its side to move runs out --------------------------------
#
# Only the times of checks are kept here: whether a time has run out is computed from the log then. So nothing is lost
# with a process, and nothing ends too early because of what another process has done meanwhile.

#: Longest sleep in seconds: the wall clock may be set, and the process suspended.
_LONGEST_SLEEP_SECONDS: Final = 1.0
#: Seconds after which a failed check is repeated.
_RETRY_SECONDS: Final = 1.0
#: Most games that are checked at the same time.
_GAMES_AT_ONCE: Final = 8

log = structlog.get_logger("worldledger.arena")


class Deadlines:
    """Calls ``look`` for each game at its time; ``clock`` gives epoch seconds."""

    def __init__(self, clock: Callable[[], float], look: Callable[[str], Awaitable[None]]) -> None:
        self._clock = clock
        self._look = look
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._sooner = asyncio.Event()
        self._room = asyncio.Semaphore(_GAMES_AT_ONCE)
        self._looking: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        """Return the number of games that are to be checked."""
        return len(self._at)

    def at(self, game_id: str) -> float | None:
        """Return when a game is to be checked."""
        return self._at.get(game_id)

    def set(self, game_id: str, at: float | None) -> None:
        """Set the time at which a game is checked, replacing an earlier one; None for never."""
        if at is None:
            self._at.pop(game_id, None)
        elif self._at.get(game_id) != at:
            self._at[game_id] = at
            heapq.heappush(self._heap, (at, game_id))
            if self._heap[0][1] == game_id:
                self._sooner.set()
            if len(self._heap) > 64 + 4 * len(self._at):  # most entries are outdated
                self._heap = [(at, game_id) for game_id, at in self._at.items()]
                heapq.heapify(self._heap)

    async def run(self) -> None:
        """Check games at their times, for ever."""
        while True:
            delay = self._begin_due()
            try:
                async with asyncio.timeout(delay):
                    await self._sooner.wait()
            except TimeoutError:
                continue
            self._sooner.clear()

    async def close(self) -> None:
        """Stop all checks."""
        tasks = list(self._looking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin_due(self) -> float:
        """Begin to check all games that are due; return the seconds until the next one."""
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            at, game_id = heapq.heappop(self._heap)
            if self._at.get(game_id) != at or game_id in self._looking:
                continue
            del self._at[game_id]
            task = self._looking[game_id] = asyncio.get_running_loop().create_task(self._look_at(game_id))
            task.add_done_callback(partial(self._looked, game_id))
        return min(self._heap[0][0] - now, _LONGEST_SLEEP_SECONDS) if self._heap else _LONGEST_SLEEP_SECONDS

    async def _look_at(self, game_id: str) -> None:
        async with self._room:
            try:
                await self._look(game_id)
            except SimulationError as error:
                log.debug("a game is looked at later", game_id=game_id, error=error.message)
                self._at.setdefault(game_id, self._clock() + _RETRY_SECONDS)
            except Exception:
                log.exception("looking at a game failed", game_id=game_id)
                self._at.setdefault(game_id, self._clock() + 10 * _RETRY_SECONDS)

    def _looked(self, game_id: str, _: object) -> None:
        """Reschedule a game that is to be checked again."""
        del self._looking[game_id]
        at = self._at.pop(game_id, None)
        if at is not None:
            self.set(game_id, at)
