"""Writing the arena's own effects of a game, so that each is in the log once even if several processes write it.

Everything is judged by the state that it will follow: of two processes that want to end a game, to count an illegal
attempt or to move for a player, the first one succeeds, and the other notices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from worldledger_service.runtime.guarding import SAME_REQUEST, guarded

from worldledger.effects import own_draft
from worldledger.errors import IllegalEffectError, RequestConflictError, SimulationError
from worldledger_chess.arena.record import ARENA
from worldledger_chess.rules.state import BOARD

if TYPE_CHECKING:
    from worldledger_service.store import Store

    from worldledger.world import WorldState
    from worldledger_chess.arena.table import Table
    from worldledger_chess.rules.endings import Ending, Player


# -- counters of an arena ---------------------------------------------------------------------------------------


@dataclass
class GameCounters:
    """The games that this process has made, and those that it has ended; over all processes each is counted once.

    A game that is made or ended by an ordinary append, past the arena, is not counted.
    """

    #: games made and games ended here
    created: int = 0
    completed: int = 0


class Written(NamedTuple):
    """The seq of an effect, and whether an earlier call of the same request has written it."""

    seq: int
    replayed: bool = False


class _OvertakenError(SimulationError):
    """The game has changed since it was checked: check again."""


#: Signs that another process was first: the state, the rules by it, or the request's own earlier effect.
OVERTAKEN = (_OvertakenError, IllegalEffectError, RequestConflictError)


class Writing:
    """Appends effects to the log of a game."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.counters = GameCounters()

    async def end(self, table: Table, ending: Ending) -> None:
        """Write that a game has ended, unless it has gone on or ended since. Raises as an append."""
        payload = {"status": ending.status, "result": ending.result, "reason": ending.reason}
        if await self._once(table, "GameEnded", payload, "end"):
            self.counters.completed += 1

    async def move_instead(self, table: Table, uci: str) -> None:
        """Make a move for the side to move, unless the game has gone on since. Raises as an append."""
        payload = {"uci_notation": uci, "comment": "made by the arena after too many illegal attempts"}
        await self._once(table, "MoveMade", payload, f"fallback:{table.record.ply + 1}")

    async def reject(
        self, table: Table, player: Player, attempt: Mapping[str, Any], req_id: str, *, illegal: bool
    ) -> Written:
        """Write a MoveRejected of the side to move. Raises one of `OVERTAKEN`, and as an append.

        ``illegal``: whether it counts as an illegal attempt in the state; no more of them are written than are allowed.
        """
        record = table.record
        most = record.allowed_illegal
        agent_id = record.agent(player)
        payload = {
            "player": player,
            "agent_id": agent_id,
            **attempt,
            "ply": record.ply + 1,
            "fen": record.entities[BOARD]["fen"],
        }
        goes_on = _goes_on(record.ply)

        def judge(state: WorldState) -> None:
            goes_on(state)
            if illegal and state.entities[player]["illegal_moves_attempted"] >= most:
                raise _OvertakenError("the attempts are used up")

        return await self._append(table, "MoveRejected", payload, agent_id, req_id, judge)

    async def _once(self, table: Table, kind: str, payload: Mapping[str, Any], req_id: str) -> bool:
        """Write an effect once; return whether this call has written it."""
        judge = _goes_on(table.record.ply)
        seq = table.record.seq
        try:
            written = await self._append(table, kind, payload, ARENA, req_id, judge)
        except OVERTAKEN:
            await table.catch_up()
            if table.record.seq == seq:  # no other process was first: the rules refuse it
                raise
            return False
        return not written.replayed

    async def _append(
        self,
        table: Table,
        kind: str,
        payload: Mapping[str, Any],
        source_id: str,
        req_id: str,
        judge: Callable[[WorldState], None],
    ) -> Written:
        draft = own_draft(kind, dict(payload), req_id, source_id=source_id)
        request = (source_id, req_id)

        async def write() -> Written:
            with table.in_use(), table.writing(request):
                event_log = await self._store.log(table.game_id)
                (receipt,) = await event_log.append_judged([draft], {0: judge})
                await table.reached(receipt.global_seq)
                return Written(receipt.global_seq, receipt.replayed)

        return await guarded(self._store.outages, write(), again=SAME_REQUEST, begun=lambda: table.is_writing(request))

    async def read_on(self, table: Table, seq: int) -> None:
        """Wait until a written effect is in the record. Raises StoreUnavailableError."""

        async def read() -> None:
            with table.in_use():
                await table.reached(seq)

        if table.record.seq < seq:
            await guarded(self._store.outages, read(), again=SAME_REQUEST, begun=lambda: True)


def _goes_on(ply: int) -> Callable[[WorldState], None]:
    """Return a judge that refuses unless the game goes on, and no move was made since."""

    def judge(state: WorldState) -> None:
        board = state.entities.get(BOARD)
        if board is None or board["status"] != "in_progress" or board["ply"] != ply:
            raise _OvertakenError("the game has gone on")

    return judge
