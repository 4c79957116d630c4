"""The steps of a move: from the attempt of an agent, or of a player of this service, to an effect in the log.

1. *the same request*: a repeated request gets its earlier answer, from the log
2. *what is due* (`worldledger_chess.arena.settling`): a game that is over is ended first
3. *the turn*: an attempt out of turn goes to the world's pipeline, which refuses it and records that
4. *the move*: a legal one goes through the pipeline (`worldledger_service.runtime`) as its agent's intent, so that
   permissions, quotas and idempotency are those of all intents; any other becomes the agent's MoveRejected, under its
   req_id
5. *what is due* now: the end of the game, or the fallback

Every step is judged by the log: whichever other processes play, the answer is what the log has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from worldledger.drafts import check_req_id
from worldledger.errors import (
    IllegalEffectError,
    InvalidEffectError,
    RequestConflictError,
    SimulationError,
    StaleContextError,
)
from worldledger.intents import check_agent_id
from worldledger_chess.arena.attempts import kept, read_attempt
from worldledger_chess.arena.errors import GameNotLiveError, InvalidMoveRequestError, NoSuchGameError
from worldledger_chess.arena.outcomes import MoveOutcome, ResignOutcome, move_outcome, resign_outcome
from worldledger_chess.arena.writing import OVERTAKEN, Written
from worldledger_chess.rules.board import is_uci
from worldledger_chess.rules.claims import MAX_SECONDS
from worldledger_chess.rules.endings import OTHER, WINS, Player

if TYPE_CHECKING:
    import chess
    from worldledger_service.runtime.worlds import Worlds

    from worldledger_chess.arena.record import Entry, Record
    from worldledger_chess.arena.settling import Settling
    from worldledger_chess.arena.table import Table
    from worldledger_chess.arena.writing import Writing

#: The tries of an attempt, repeated if the game has changed meanwhile: whether each is the last.
_TRIES: Final = (*[False] * 19, True)
#: Longest text that is read as a move, in characters.
_MAX_TEXT: Final = 10_000

log = structlog.get_logger("worldledger.arena")


class Moving:
    """Makes moves in games."""

    def __init__(self, worlds: Worlds, writing: Writing, settling: Settling) -> None:
        self._worlds = worlds
        self._writing = writing
        self._settling = settling

    async def move(
        self,
        table: Table,
        agent_id: str,
        text: str,
        *,
        thinking_time: float | None,
        req_id: str,
        ply: int | None = None,
    ) -> MoveOutcome:
        """Take an attempt; see `worldledger_chess.arena.LiveGame.move`."""
        _check_request(agent_id, req_id)
        if type(text) is not str or len(text) > _MAX_TEXT:
            raise InvalidMoveRequestError(f"a move is a text of at most {_MAX_TEXT} characters", "$.move")
        seconds = _seconds(thinking_time)
        timed: dict[str, Any] = {} if seconds is None else {"thinking_time": seconds}

        async def attempt(player: Player) -> Written:
            found = read_attempt(_board(table.record), text)
            if found.move is not None:
                move = {"uci_notation": _board(table.record).uci(found.move), "ply": table.record.ply + 1}
                return await self._submit(table, agent_id, {"kind": "MoveMade", **move, **timed}, req_id)
            rejected = {"attempted": kept(text), "reason": "illegal_move", "detail": found.why, **timed}
            return await self._writing.reject(table, player, rejected, req_id, illegal=True)

        async def out_of_turn() -> Written:
            # The pipeline refuses and records it; or accepts it, if it is that agent's turn by now.
            name = "uci_notation" if is_uci(text) else "san_notation"
            return await self._submit(table, agent_id, {"kind": "MoveMade", name: kept(text)}, req_id)

        asked = _Asked(agent_id, req_id, lambda entry: _is_same(table.record, entry, text), attempt, out_of_turn)
        return await self._take(table, asked, ply)

    async def fail(self, table: Table, player: Player, error: SimulationError, *, req_id: str, ply: int) -> MoveOutcome:
        """Record that a player of this service has no move; it counts as a rejected attempt."""
        said = {"attempted": None, "reason": "player_failed", "detail": kept(error.message)}

        async def attempt(player: Player) -> Written:
            return await self._writing.reject(table, player, said, req_id, illegal=False)

        async def out_of_turn() -> Written:
            raise _gone_on(table.record, ply)

        asked = _Asked(table.record.agent(player), req_id, lambda _: True, attempt, out_of_turn)
        return await self._take(table, asked, ply)

    async def _take(self, table: Table, asked: _Asked, ply: int | None) -> MoveOutcome:
        """Take an attempt through the steps, again and again while the game changes meanwhile.

        One without ``ply`` counts as the move that its side was to make when it came.
        """
        _must_be_live(table)
        arrived_at = self._settling.clock()
        caught_up = False
        meant = ply
        for last in _TRIES:
            record = table.record
            known = record.request(asked.agent_id, asked.req_id)
            if known is None or record.unsettled:
                await self._settling.settle(table)
                known = record.request(asked.agent_id, asked.req_id)
            if known is not None:
                if not asked.is_same(known):
                    raise _conflict(asked.req_id, known)
                return move_outcome(record, known, replayed=True)
            player = _to_move(record, asked.agent_id)
            if ply is None and meant is not None and meant <= record.ply and record.moved_at(meant) < arrived_at:
                meant = None  # that move was made before this attempt came: it was not known here then
            if player is None or (meant is not None and meant != record.ply + 1):
                if not caught_up:  # it may be this agent's turn since a moment ago
                    await table.catch_up()
                    caught_up = True
                    continue
                if player is not None:
                    raise _gone_on(record, meant)
            else:
                meant = record.ply + 1
            seq = record.seq
            try:
                made = await (asked.out_of_turn() if player is None else asked.attempt(player))
            except StaleContextError:
                if last:
                    raise
                await table.catch_up()
            except OVERTAKEN:
                await table.catch_up()
                told = record.request(asked.agent_id, asked.req_id) is not None
                if last or record.seq == seq or (player is None and not told):
                    raise
            else:
                await self._settle_what_follows(table)
                return move_outcome(record, _entry(record, made.seq), replayed=made.replayed)
        raise AssertionError  # the last try returns or raises

    async def _settle_what_follows(self, table: Table) -> None:
        """Do what is due after an attempt; what cannot be done now is done later, by the next call or timer."""
        try:
            await self._settling.settle(table)
        except SimulationError as error:
            log.warning("what is due in a game is done later", game_id=table.game_id, error=error.message)

    async def _submit(self, table: Table, agent_id: str, payload: dict[str, Any], req_id: str) -> Written:
        """Submit an intent of an agent; return its effect's seq, once it is in the record."""
        world = await self._worlds.get(table.game_id)
        intent = {
            "kind": "Custom",
            "payload": payload,
            "agent_id": agent_id,
            "req_id": req_id,
            "context_seq": table.record.seq,
        }
        accepted = await world.submit_intent(intent)
        await self._writing.read_on(table, accepted.global_seq)
        return Written(accepted.global_seq, accepted.replayed)

    async def resign(self, table: Table, agent_id: str, *, req_id: str) -> ResignOutcome:
        """Let an agent resign; see `worldledger_chess.arena.LiveGame.resign`."""
        _check_request(agent_id, req_id)
        _must_be_live(table)
        record = table.record
        for last in _TRIES:
            known = record.request(agent_id, req_id)
            if known is not None:
                if known.kind != "GameEnded":
                    raise _conflict(req_id, known)
                return resign_outcome(record, known, replayed=True)
            await self._settling.settle(table)
            colour = next((colour for colour in OTHER if record.agent(colour) == agent_id), None)
            result = None if colour is None else WINS[OTHER[colour]]
            payload = {"kind": "GameEnded", "status": "resigned", "result": result, "reason": "resignation"}
            try:
                made = await self._submit(table, agent_id, payload, req_id)
            except (*OVERTAKEN, StaleContextError) as error:
                await table.catch_up()
                if record.request(agent_id, req_id) is None and (last or not isinstance(error, StaleContextError)):
                    raise
                continue
            if not made.replayed:
                self._writing.counters.completed += 1
            return resign_outcome(record, _entry(record, made.seq), replayed=made.replayed)
        raise AssertionError  # the last try returns or raises


class _Asked(NamedTuple):
    """A request: whose, how to recognise it as repeated, and what it attempts."""

    agent_id: str
    req_id: str
    is_same: Callable[[Entry], bool]
    attempt: Callable[[Player], Awaitable[Written]]
    out_of_turn: Callable[[], Awaitable[Written]]


def _check_request(agent_id: Any, req_id: Any) -> None:
    for name, check, value in (("agent_id", check_agent_id, agent_id), ("req_id", check_req_id, req_id)):
        try:
            check(value)
        except InvalidEffectError as error:
            raise InvalidMoveRequestError(error.reason, f"$.{name}") from None


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if (type(value) is float or type(value) is int) and 0 <= value <= MAX_SECONDS:
        return float(value)
    what = f"thinking_time is a number of seconds from 0 to {MAX_SECONDS:.0f}"
    raise InvalidMoveRequestError(what, "$.thinking_time")


def _must_be_live(table: Table) -> None:
    if table.record.live is None:
        what = f"{table.game_id} is no live game: it can be read, and is not played here"
        raise GameNotLiveError(what, game_id=table.game_id)


def _board(record: Record) -> chess.Board:
    if record.board is None:
        raise NoSuchGameError(f"no game has begun in the world {record.game_id!r}", game_id=record.game_id)
    return record.board


def _to_move(record: Record, agent_id: str) -> Player | None:
    """Return the colour of an agent that is to move; None for any other agent."""
    return record.turn if record.in_progress and record.agent(record.turn) == agent_id else None


def _entry(record: Record, seq: int) -> Entry:
    entry = record.entry(seq)
    assert entry is not None  # noqa: S101 - it was accepted by the rules, so it counts
    return entry


def _is_same(record: Record, entry: Entry, text: str) -> bool:
    """Return whether an attempt is the one that a request made before: the same move in any notation."""
    if entry.kind == "MoveRejected":
        return bool(entry.effect["payload"].get("attempted") == kept(text))
    if entry.kind != "MoveMade" or record.board is None:
        return False
    return read_attempt(record.board_before(entry.ply), text).move == record.board.move_stack[entry.ply - 1]


def _conflict(req_id: str, entry: Entry) -> RequestConflictError:
    what = f"req_id {req_id!r} was used before for something else (it made seq {entry.seq}); use a new req_id for a new"
    return RequestConflictError(f"{what} attempt", req_id=req_id, global_seq=entry.seq)


def _gone_on(record: Record, ply: int | None) -> IllegalEffectError:
    what = f"the game has gone on: the next move is number {record.ply + 1}, and this was meant as number {ply}"
    return IllegalEffectError(what, "$.ply", rule="not_your_turn", ply=record.ply + 1)
