"""Settling: what is due in a game besides the players' moves is done: its end, a deadline, a fallback.

It is done by whoever looks: a call, a timer, a game that is read into memory after its process was killed. Doing it
twice, here or in another process, does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from worldledger_chess.arena.players import RandomPlayer
from worldledger_chess.rules.deciding import resignation, timed_out

if TYPE_CHECKING:
    from worldledger_chess.arena.record import Record
    from worldledger_chess.arena.table import Table
    from worldledger_chess.arena.writing import Writing
    from worldledger_chess.rules.endings import Reason

#: Steps in which everything that is due at one time must be done: a fallback may bring about the end.
_STEPS: Final = 20


class Settling:
    """Does what is due. ``clock`` gives epoch seconds, those of ``wall_time``."""

    def __init__(self, writing: Writing, clock: Callable[[], float]) -> None:
        self._writing = writing
        self._clock = clock

    def now(self) -> float:
        """Return the time, in epoch seconds."""
        return self._clock()

    def expired(self, record: Record) -> bool:
        """Tell whether the time of the side to move is over."""
        deadline = record.deadline_at
        return deadline is not None and self._clock() >= deadline

    async def settle(self, table: Table) -> None:
        """Do all that is due now. Raises as an append does."""
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
        """Return a move by the game's seed: the same in every process."""
        assert record.live is not None  # noqa: S101 - only live games are settled
        seed = record.live.seed
        player = RandomPlayer(record.game_id if seed is None else seed)
        return await player.move(record.position())


def _why_given_up(record: Record) -> Reason:
    """Return the reason: illegal moves, unless among the attempts the player gave no move at all."""
    attempts = takewhile(lambda entry: entry.kind == "MoveRejected", reversed(record.entries))
    reasons = {entry.effect["payload"].get("reason") for entry in attempts}
    return "illegal_move" if reasons <= {None, "illegal_move"} else "abandoned"
