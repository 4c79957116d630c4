"""The outcomes of attempts to move, computed from the log, so that asking again gives the same. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from worldledger_chess.rules.endings import OTHER, Player, Reason, Result, Status
from worldledger_chess.rules.entities import Move

if TYPE_CHECKING:
    from worldledger_chess.arena.record import Entry, Record

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class GameEnd(BaseModel):
    """The end of a game, in the terms of `worldledger_chess.rules.endings`, and its place in the log."""

    model_config = _FROZEN

    status: Status
    result: Result
    reason: Reason | None
    global_seq: int


class MoveOutcome(BaseModel):
    """The outcome of an attempt.

    - ``accepted``: whether it was a legal move, which is then ``move``; else ``reason`` (illegal_move, or player_failed
      if a player of this service gave no move) and ``detail`` say why not, and ``attempted`` what it was.
    - ``global_seq``: the effect that it has become, a MoveMade or a MoveRejected. ``ply``: the move's number, or the
      number that it would have had. ``fen``: the position now, as in the log.
    - ``attempts_left``: how many more attempts may be rejected before the fallback; None for a legal move.
    - ``fallback``: the move that was made instead, if this was one attempt too many and the game's fallback is a move.
    - ``ended``: how this has ended the game, if it has.
    - ``replayed``: whether the request was made before, and this is its answer again.
    """

    model_config = _FROZEN

    game_id: str
    agent_id: str
    player: Player
    accepted: bool
    global_seq: int
    ply: int
    fen: str | None = None
    move: Move | None = None
    attempted: str | None = None
    reason: str | None = None
    detail: str | None = None
    attempts_left: int | None = None
    fallback: Move | None = None
    ended: GameEnd | None = None
    replayed: bool = False


class ResignOutcome(BaseModel):
    """A resignation that was accepted; ``replayed`` as for a move."""

    model_config = _FROZEN

    game_id: str
    agent_id: str
    player: Player
    global_seq: int
    ended: GameEnd
    replayed: bool = False


def end_of(record: Record) -> GameEnd | None:
    """Return how a game ended; None while it goes on."""
    if not record.started or record.in_progress:
        return None
    board = record.entities["board"]
    last = record.entries[-1]
    return GameEnd(status=board["status"], result=board["result"], reason=board["reason"], global_seq=last.seq)


def move_outcome(record: Record, entry: Entry, *, replayed: bool = False) -> MoveOutcome:
    """Return the outcome of the attempt that made this effect."""
    made = entry.kind == "MoveMade"
    ply = entry.ply if made else entry.ply + 1
    player = _player_of(record, ply)
    payload = entry.effect["payload"]
    told = MoveOutcome(
        game_id=record.game_id,
        agent_id=record.agent(player),
        player=player,
        accepted=made,
        global_seq=entry.seq,
        ply=ply,
        fen=payload.get("fen"),
        replayed=replayed,
    )
    if made:
        ended = end_of(record) if entry.ply == record.ply and record.due_end is not None else None
        return told.model_copy(update={"move": record.move_at(ply), "ended": ended})
    most = record.live.max_illegal if record.live is not None else entry.rejected
    left = max(most - entry.rejected, 0)
    following = record.next_entry(entry.seq) if not left else None
    fallback = following is not None and following.kind == "MoveMade"
    given_up = following is not None and following.kind == "GameEnded"
    return told.model_copy(
        update={
            "attempted": payload.get("attempted"),
            "reason": payload.get("reason"),
            "detail": payload.get("detail"),
            "attempts_left": left,
            "fallback": record.move_at(ply) if fallback else None,
            "ended": end_of(record) if given_up or (fallback and _ended_by(record, ply)) else None,
        }
    )


def resign_outcome(record: Record, entry: Entry, *, replayed: bool = False) -> ResignOutcome:
    """Return the outcome of the resignation that made this effect."""
    effect = entry.effect
    agent_id = effect["source_id"]
    ended = end_of(record)
    assert ended is not None  # noqa: S101 - this effect has ended it
    player: Player = "white" if record.agent("white") == agent_id else "black"
    return ResignOutcome(
        game_id=record.game_id,
        agent_id=agent_id,
        player=player,
        global_seq=entry.seq,
        ended=ended,
        replayed=replayed,
    )


def _ended_by(record: Record, ply: int) -> bool:
    return ply == record.ply and record.due_end is not None


def _player_of(record: Record, ply: int) -> Player:
    """Return the colour that moved at a ply, counted back from the side to move."""
    return record.turn if (record.ply + 1 - ply) % 2 == 0 else OTHER[record.turn]
