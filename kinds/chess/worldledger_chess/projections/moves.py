"""Moves of chess games: one row for each move that was made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import MappingProxyType

import orjson
from worldledger_projections.base import AppendingWorld, Column, Projection, Row, WorldProjection
from worldledger_projections.moments import EARLIEST, moment, stated_moment

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.world import WorldState
from worldledger_chess.projections.play import Play, facts_of
from worldledger_chess.rules.claims import PLAYERS
from worldledger_chess.rules.endings import Player


class _World(AppendingWorld):
    def __init__(self, world_id: str, state: WorldState) -> None:
        super().__init__(world_id)
        self._play = Play.of(state)
        self._agents: dict[Player, str] = {
            player: state.entities[player]["agent_id"] for player in PLAYERS if player in state.entities
        }
        # Effects that were written together have one wall_time.
        self._wall_time: float | None = None
        self._moment: datetime = EARLIEST

    def apply(self, effect: Effect) -> None:
        kind = effect["kind"]
        if kind == "MoveMade":
            if self._play.move(effect):
                self._add(effect)
        elif kind == "GameStarted":
            start = self._play.start(effect["payload"])
            if start is not None:
                self._agents = start.agents
        elif kind == "GameEnded":
            self._play.end(effect["payload"])

    def _add(self, effect: Effect) -> None:
        play, payload = self._play, effect["payload"]
        wall_time = effect["wall_time"]
        if wall_time != self._wall_time:
            self._wall_time, self._moment = wall_time, moment(wall_time)
        timestamp, comment, evaluation = payload.get("timestamp"), payload.get("comment"), payload.get("evaluation")
        self._rows.append(
            (
                self._world_id,
                play.ply,
                play.mover,
                self._agents[play.mover],
                *facts_of(play.uci, play.san),
                play.uci,
                play.san,
                None if timestamp is None else stated_moment(timestamp),
                play.thinking_time,
                play.clock,
                orjson.dumps(evaluation, option=orjson.OPT_SORT_KEYS).decode() if type(evaluation) is dict else None,
                comment if type(comment) is str else None,
                play.fen,
                effect["global_seq"],
                effect["sim_time"],
                self._moment,
            )
        )


class Moves(Projection):
    """One row for each move that the fold of a chess world takes as made (see `projections.play`).

    So a move has a row that is whole even where its payload was not: what follows from the notations and the position
    is worked out. ``agent_id`` is the agent of the colour that moved, whoever sent the effect.
    """

    name = "moves"
    version = 1
    comment = "Moves of chess games: one row for each move that was made."
    columns = (
        Column("world_id", "text", "The name of the world, and so of the game."),
        Column("ply", "bigint", "The number of the move in the game: 1 is the first, by either player."),
        Column("player", "text", "Who moved: white or black."),
        Column("agent_id", "text", "The agent that plays that colour."),
        Column("from_square", "text", "Like e2; null for a null move, and for a piece dropped from the hand.", True),
        Column("to_square", "text", "Like e4; null for a null move.", True),
        Column("piece", "text", "pawn, knight, bishop, rook, queen or king; null for a null move.", True),
        Column("is_capture", "boolean", "Whether a piece was taken, en passant included."),
        Column("is_castling", "boolean", "Whether it was castling."),
        Column("is_promotion", "boolean", "Whether a pawn became another piece."),
        Column("promotion_piece", "text", "What the pawn became; null where there was no promotion.", True),
        Column("uci_notation", "text", "The move as in UCI: e2e4, e7e8q, N@f3; 0000 is a null move."),
        Column("san_notation", "text", "The move in algebraic notation: e4, Nf3, O-O, exd5; -- is a null move."),
        Column("timestamp", "timestamptz", "When it was made, where the effect tells it; UTC without an offset.", True),
        Column("thinking_time", "double precision", "Seconds that the move took; null where unknown.", True),
        Column("clock", "double precision", "Seconds left on the player's clock after it; null where unknown.", True),
        Column(
            "evaluation", "json", "The position's worth for white, as recorded: {cp | mate, depth}; null: none.", True
        ),
        Column("comment", "text", "The recorder's comment; null where there is none.", True),
        Column("fen", "text", "The position after the move."),
        Column("global_seq", "bigint", "The effect that tells of the move."),
        Column("sim_time", "double precision", "The sim_time of that effect, in seconds."),
        Column("recorded_at", "timestamptz", "The wall_time of that effect."),
    )
    key = ("world_id", "ply")
    rulesets = frozenset({"chess"})
    published = MappingProxyType(
        {"timestamp": "made_at", "thinking_time": "thinking_time_s", "clock": "clock_s", "sim_time": "sim_time_s"}
    )
    indexes = (("agent_id", "world_id"),)
    kinds = frozenset({"GameStarted", "MoveMade", "GameEnded"})
    needs_state = True
    append_only = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the moves' fold from the state's position on."""
        if fold is None:
            raise ValueError("moves are followed from the world's state on")
        return _World(world_id, fold.state)
