"""A live game as its players and watchers use it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from worldledger.errors import MomentNotFoundError
from worldledger_chess.arena.errors import NoSuchGameError
from worldledger_chess.arena.outcomes import GameEnd, MoveOutcome, ResignOutcome, end_of
from worldledger_chess.rules.board import BoardState
from worldledger_chess.rules.entities import Game

if TYPE_CHECKING:
    import chess

    from worldledger_chess.arena.events import GameEvent
    from worldledger_chess.arena.moving import Moving
    from worldledger_chess.arena.record import Record
    from worldledger_chess.arena.table import Table
    from worldledger_chess.rules.live import LiveConfig

#: Events that a watcher is given before the event loop runs other tasks.
_EVENTS_AT_ONCE: Final = 50


class LiveGame:
    """One game. Get it from `Arena.game` or `Arena.create`; it can be used as long as the arena is open.

    The game may be dropped from memory meanwhile: the next call loads it again from the log.
    """

    def __init__(self, table: Table, seat: Callable[[str], Awaitable[Table]], moving: Moving) -> None:
        self._table = table
        self._seat = seat
        self._moving = moving
        self._told: tuple[int, Game] | None = None
        #: the name of its world
        self.game_id = table.game_id

    # -- its state -----------------------------------------------------------------------------------------

    @property
    def state(self) -> Game:
        """The game as far as it is known here, perhaps behind other processes (see `reached`, `catch_up`).

        Raises NoSuchGameError for a record that is not a Game: of a variant, or with null moves.
        """
        record = self.record
        if self._told is None or self._told[0] != record.seq:
            self._told = (record.seq, _game_of(record))
        return self._told[1]

    @property
    def seq(self) -> int:
        """The last effect of its log that is known here."""
        return self.record.seq

    @property
    def live(self) -> LiveConfig | None:
        """Its configuration; None for an imported game, which is not played."""
        return self.record.live

    @property
    def board(self) -> chess.Board:
        """A copy of the board, with its moves."""
        board = self.record.board
        assert board is not None  # noqa: S101 - a game without a start is not given out
        return board.copy()

    @property
    def board_state(self) -> BoardState:
        """The position. Raises NoSuchGameError for that of a variant."""
        return _board_state(self.record)

    @property
    def ended(self) -> GameEnd | None:
        """How it ended; None while it goes on."""
        return end_of(self.record)

    @property
    def attempts_left(self) -> int | None:
        """How many more attempts in a row the side to move may get wrong; None if there is no such limit."""
        record = self.record
        return None if record.live is None else max(record.live.max_illegal - record.rejected, 0)

    @property
    def deadline_at(self) -> float | None:
        """When the time of the side to move runs out, in epoch seconds; None if there is no limit."""
        return self.record.deadline_at

    @property
    def watchers(self) -> int:
        """The number of its watchers here."""
        return self._table.watchers

    async def reached(self, seq: int) -> None:
        """Wait until an effect is known here; use `asyncio.timeout` for a limit."""
        table = await self._come()
        with table.in_use():
            await table.reached(seq)

    async def turn_of(self, *agent_ids: str) -> None:
        """Wait until one of these agents is to move, or the game has ended; use `asyncio.timeout` for a limit."""
        table = await self._come()
        with table.in_use():
            while table.record.in_progress and table.record.agent(table.record.turn) not in agent_ids:
                await table.changed()

    async def catch_up(self) -> None:
        """Wait until everything that is in the log now is known here. Raises StoreUnavailableError."""
        table = await self._come()
        with table.in_use():
            await table.catch_up()

    # -- playing -------------------------------------------------------------------------------------------

    async def move(
        self,
        agent_id: str,
        move_text: str,
        *,
        thinking_time: float | None = None,
        req_id: str,
        ply: int | None = None,
    ) -> MoveOutcome:
        """Attempt a move for an agent: UCI (in Chess960, castling may also go to the rook's square) or SAN.

        ``thinking_time`` is in seconds. With ``ply`` the attempt counts only as the move of that number (1 is the
        first). Once this returns, the outcome of the attempt is durable; the same ``req_id`` of the agent again returns
        the same answer, in any process. An attempt of the side to move that is not a legal move is not an error: it is
        recorded, and the outcome says why; after ``max_illegal`` of them in a row the game's fallback follows.

        Raises IllegalEffectError for an attempt out of turn, after the end (``game_over``), or by another agent
        (``not_a_player``), which the log has as IntentRejected; RequestConflictError for a req_id that was used for
        another move; InvalidMoveRequestError, GameNotLiveError, and the errors of `Orchestrator.submit_intent`.
        """
        table = await self._come()
        with table.in_use():
            return await self._moving.move(
                table, agent_id, move_text, thinking_time=thinking_time, req_id=req_id, ply=ply
            )

    async def resign(self, agent_id: str, *, req_id: str) -> ResignOutcome:
        """Let an agent resign, whichever side is to move. Idempotent, and raises, as `move`."""
        table = await self._come()
        with table.in_use():
            return await self._moving.resign(table, agent_id, req_id=req_id)

    # -- watching ------------------------------------------------------------------------------------------

    async def watch(self, after_seq: int | None = 0) -> AsyncGenerator[GameEvent, None]:
        """Yield the game's events after a seq, then new ones, until it has ended; None begins from now on.

        Each watcher goes at its own pace and has no queue: a slow one delays no other and misses nothing. It can
        continue after the last ``global_seq`` that it had, here or in another process. Raises MomentNotFoundError for a
        seq beyond the log, and StoreUnavailableError once the arena closes.
        """
        table = await self._come()
        with table.watched():
            record = table.record
            if after_seq is not None and after_seq > record.seq:
                await table.catch_up()
            seq = record.seq if after_seq is None else max(after_seq, 0)
            if seq > record.seq:
                what = f"game {self.game_id!r} has come to seq {record.seq}, not to {seq}"
                raise MomentNotFoundError(what, world_id=self.game_id, head_seq=record.seq)
            while True:
                events = record.events(seq, _EVENTS_AT_ONCE)
                for event in events:
                    seq = event.global_seq
                    yield event
                if not events:
                    if not record.in_progress:
                        return
                    await table.changed()

    @property
    def record(self) -> Record:
        """The game's record as far as it is known here; read-only."""
        return self._table.record

    async def _come(self) -> Table:
        """Return the table, loaded again if the game was dropped from memory."""
        self._table = await self._seat(self.game_id)
        return self._table


def _board_state(record: Record) -> BoardState:
    try:
        # As when the game began: the square that a pawn passed follows from the last move in an entity.
        begun = record.board if not record.ply else None
        return BoardState.of(record.entities) if begun is None else BoardState.from_board(begun)
    except ValueError as error:
        raise _no_game(record, error) from None


def _game_of(record: Record) -> Game:
    try:
        return Game.from_entities(record.entities, record.moves(), game_id=record.game_id, board=_board_state(record))
    except ValueError as error:
        raise _no_game(record, error) from None


def _no_game(record: Record, error: ValueError) -> NoSuchGameError:
    first = str(error).splitlines()[0]
    what = f"the record of {record.game_id!r} is no game of standard chess or Chess960 by the rules: {first}"
    return NoSuchGameError(what, game_id=record.game_id)
