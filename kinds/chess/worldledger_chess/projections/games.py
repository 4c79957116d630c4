"""Games of chess: one row for each world of that ruleset, with the game as it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from worldledger_projections.base import WORLD, Changes, Column, Projection, Row, WorldProjection, moment

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND
from worldledger_chess.projections.play import Play
from worldledger_chess.rules.claims import PLAYERS
from worldledger_chess.rules.endings import Player
from worldledger_chess.rules.state import BOARD

_COLUMNS: Final = (
    WORLD,
    Column("game_id", "text", "The game's id: the name of its world, since one world is one game."),
    Column("experiment", "text", "The label under which worlds are found together.", True),
    Column("white", "text", "The name of the player with the white pieces; null where unknown.", True),
    Column("black", "text", "The name of the player with the black pieces; null where unknown.", True),
    Column("white_agent_id", "text", "The agent that plays white; null before there is a game.", True),
    Column("black_agent_id", "text", "The agent that plays black; null before there is a game.", True),
    Column("variant", "text", "standard, chess960 or python-chess's name; null before there is a game.", True),
    Column("initial_fen", "text", "The position that the game began with; null before there is a game.", True),
    Column("fen", "text", "The position now; null before there is a game.", True),
    Column("turn", "text", "Whose turn it is, white or black; null before there is a game.", True),
    Column(
        "status",
        "text",
        "in_progress, checkmate, stalemate, draw, resigned or timeout; null before there is a game.",
        True,
    ),
    Column("result", "text", "white_wins, black_wins or draw; null while the game goes on.", True),
    Column("reason", "text", "How it ended, more closely than status; null where that is not told.", True),
    Column("raw_result", "text", "The result in the words of the record; null where there is none.", True),
    Column("plies", "bigint", "How many moves were made, by both players."),
    Column("illegal_moves_attempted", "bigint", "How many illegal moves were tried, by both players."),
    Column("thinking_time_white", "double precision", "Seconds: sum of the times that are known; null: none is.", True),
    Column("thinking_time_black", "double precision", "As thinking_time_white.", True),
    Column("event", "text", "The event, as recorded.", True),
    Column("site", "text", "Where it was played, as recorded.", True),
    Column("date", "text", "When it was played, as recorded.", True),
    Column("round", "text", "The round, as recorded.", True),
    Column("time_control", "text", "The time control, as recorded.", True),
    Column("started_at", "timestamptz", "The wall_time of the GameStarted; null before there is a game.", True),
    Column("ended_at", "timestamptz", "The wall_time of the GameEnded; null while the game goes on.", True),
    Column("last_updated", "timestamptz", "The wall_time of the last effect that counted for the game.", True),
    Column(
        "started_seq",
        "bigint",
        "The global_seq of the GameStarted; null before there is a game, and for that of a fork.",
        True,
    ),
    Column("ended_seq", "bigint", "The global_seq of the GameEnded; null while the game goes on.", True),
)


@dataclass(slots=True)
class _Game:
    """A row: a field for each column."""

    world_id: str
    game_id: str
    experiment: str | None = None
    white: str | None = None
    black: str | None = None
    white_agent_id: str | None = None
    black_agent_id: str | None = None
    variant: str | None = None
    initial_fen: str | None = None
    fen: str | None = None
    turn: Player | None = None
    status: str | None = None
    result: str | None = None
    reason: str | None = None
    raw_result: str | None = None
    plies: int = 0
    illegal_moves_attempted: int = 0
    thinking_time_white: float | None = None
    thinking_time_black: float | None = None
    event: str | None = None
    site: str | None = None
    date: str | None = None
    round: str | None = None
    time_control: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    last_updated: datetime | None = None
    started_seq: int | None = None
    ended_seq: int | None = None


_NAMES: Final = tuple(column.name for column in _COLUMNS)
_row_of: Final[Callable[[_Game], Row]] = attrgetter(*_NAMES)


class _World(WorldProjection):
    """The row is written anew from ``_game``, and from ``_play`` for what every move changes."""

    def __init__(self, world_id: str, rows: Sequence[Row], entities: Mapping[str, Any]) -> None:
        self._game = game = _Game(**dict(zip(_NAMES, rows[0], strict=True))) if rows else _of_state(world_id, entities)
        self._play = Play(game.variant, game.fen, game.turn, game.plies, game.status)
        self._updated_at: float | None = None  # epoch seconds, where newer than the row's
        self._changed = False

    def apply(self, effect: Effect) -> None:
        kind = effect["kind"]
        if kind == "MoveMade":
            if self._play.move(effect):
                self._updated_at = effect["wall_time"]
                self._changed = True
                if self._play.thinking_time is not None:
                    self._add_time(self._play.mover, self._play.thinking_time)
        elif kind == GENESIS_KIND:
            self._game.experiment = effect["payload"]["experiment"]
            self._changed = True
        elif kind == "GameStarted":
            self._start(effect)
        elif kind == "GameContinued":
            self._go_on(effect)
        elif kind == "MoveRejected":
            self._reject(effect)
        elif kind == "GameEnded":
            self._end(effect)

    def _add_time(self, player: Player, seconds: float) -> None:
        # Rounded as in the fold.
        game = self._game
        if player == "white":
            game.thinking_time_white = round((game.thinking_time_white or 0.0) + seconds, 6)
        else:
            game.thinking_time_black = round((game.thinking_time_black or 0.0) + seconds, 6)

    def _note(self, effect: Effect) -> None:
        self._updated_at = effect["wall_time"]
        self._changed = True

    def _start(self, effect: Effect) -> None:
        payload = effect["payload"]
        start = self._play.start(payload)
        if start is None:
            return
        self._note(effect)
        game = self._game
        game.white, game.black = start.names["white"], start.names["black"]
        game.white_agent_id, game.black_agent_id = start.agents["white"], start.agents["black"]
        game.variant, game.initial_fen = start.variant, start.fen
        game.event, game.site = _text(payload, "event"), _text(payload, "site")
        game.date, game.round = _text(payload, "date"), _text(payload, "round")
        game.time_control = _text(payload, "time_control")
        game.started_at, game.started_seq = moment(effect["wall_time"]), effect["global_seq"]

    def _go_on(self, effect: Effect) -> None:
        players = self._play.go_on(effect)
        if players is None:
            return
        self._note(effect)
        game, agents, names = self._game, *players
        game.white, game.black = names["white"], names["black"]
        game.white_agent_id, game.black_agent_id = agents["white"], agents["black"]

    def _reject(self, effect: Effect) -> None:
        rejected = self._play.reject(effect["payload"])
        if rejected is not None:
            self._note(effect)
            self._game.illegal_moves_attempted += rejected[1]

    def _end(self, effect: Effect) -> None:
        claim = self._play.end(effect["payload"])
        if claim is None:
            return
        self._note(effect)
        game = self._game
        game.result, game.reason = claim.result, claim.reason
        game.raw_result = _text(effect["payload"], "raw_result")
        game.ended_at, game.ended_seq = moment(effect["wall_time"]), effect["global_seq"]

    def take_changes(self) -> Changes:
        if not self._changed:
            return Changes()
        self._changed = False
        game, play = self._game, self._play
        if play.status is not None:
            game.fen, game.turn, game.plies, game.status = play.fen, play.turn, play.ply, play.status
        if self._updated_at is not None:
            game.last_updated = moment(self._updated_at)
            self._updated_at = None
        return Changes(upserts=[_row_of(game)])


def row_of_state(world_id: str, entities: Mapping[str, Any]) -> dict[str, Any]:
    """Return a game's row by the names of its columns, as far as the entities of the world's state tell it.

    The rest is null: the experiment, what was recorded besides, and the seqs.
    """
    return dict(zip(_NAMES, _row_of(_of_state(world_id, entities)), strict=True))


def _of_state(world_id: str, entities: Mapping[str, Any]) -> _Game:
    """Return the game of a state, such as the one with which a fork begins; one of nothing where there is none yet."""
    game = _Game(world_id, world_id)
    board = entities.get(BOARD)
    if board is None:
        return game
    for name in ("variant", "initial_fen", "fen", "turn", "status", "result", "reason"):
        setattr(game, name, board[name])
    game.plies = board["ply"]
    for player in PLAYERS:
        side = entities[player]
        setattr(game, player, side["name"])
        setattr(game, f"{player}_agent_id", side["agent_id"])
        if side["timed_moves"]:
            setattr(game, f"thinking_time_{player}", side["thinking_time"])
        game.illegal_moves_attempted += side["illegal_moves_attempted"]
    game.started_at, game.last_updated = moment(board["started_at"]), moment(board["last_updated"])
    game.ended_at = None if board["ended_at"] is None else moment(board["ended_at"])
    return game


def _text(payload: dict[str, Any], name: str) -> str | None:
    text = payload.get(name)
    return text if type(text) is str else None


class Games(Projection):
    """One row for each chess world, from its genesis on.

    What counts is what counts in the fold (`projections.play`): nothing before the GameStarted or after the
    GameEnded, and no effect that the fold takes as malformed. The game of a fork begins as it stands in the parent;
    what only the parent's effects say (the event, seqs) is null. Where it is played on, it is a game of those who do.
    """

    name = "games"
    version = 2
    comment = "Games of chess: one row for each world of that ruleset, with the game as it stands."
    columns = _COLUMNS
    key = ("world_id",)
    rulesets = frozenset({"chess"})
    kinds = frozenset({GENESIS_KIND, "GameStarted", "GameContinued", "MoveMade", "MoveRejected", "GameEnded"})
    published = MappingProxyType(
        {
            "thinking_time_white": "thinking_time_white_s",
            "thinking_time_black": "thinking_time_black_s",
            "last_updated": "last_updated_at",
        }
    )
    indexes = (("experiment", "world_id"), ("white_agent_id", "world_id"), ("black_agent_id", "world_id"))
    needs_rows = True
    needs_state = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the game's fold from its row on."""
        return _World(world_id, rows, {} if fold is None else fold.state.entities)
