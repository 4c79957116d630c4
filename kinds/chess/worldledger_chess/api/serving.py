"""The arena of a service: opened with it, counted in its metrics; its games, as the routes find and describe them.

And what the WebSockets of games have in common.

Source: docs/reference/contracts.md, "Chess".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from fastapi import Path, Query
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from starlette.types import Receive, Send
from worldledger_service.api.context import Services
from worldledger_service.api.problems import PositionAheadError
from worldledger_service.settings import Amount, Seconds, refusal

from worldledger.errors import WorldNotFoundError
from worldledger.genesis import NAME_RULE, check_world_name
from worldledger_chess.api.problems import GameNotFoundError
from worldledger_chess.arena import LiveGame, NoSuchGameError
from worldledger_chess.arena.arena import Arena
from worldledger_chess.arena.record import taken_back
from worldledger_chess.arena.settings import MAX_GAMES, WATCH_IDLE, ArenaSettings
from worldledger_chess.projections.games import row_of_state
from worldledger_chess.rules import BoardState
from worldledger_chess.rules.endings import OTHER, Player
from worldledger_chess.rules.times import moment

if TYPE_CHECKING:
    import chess

# -- the settings of the service for games of chess -------------------------------------------------------


class ChessSettings(BaseSettings):
    """Settings from ``WORLDLEDGER_…`` variables, beside those of `worldledger_service.settings`."""

    model_config = SettingsConfigDict(env_prefix="WORLDLEDGER_", extra="ignore", frozen=True)

    max_games: Amount = Field(
        default=MAX_GAMES,
        description="Most games of chess that one process keeps in memory; others are read again.",
    )
    watch_idle: Seconds = Field(
        default=WATCH_IDLE,
        description="Seconds of silence after which the WebSocket of a game's watcher is closed.",
    )


def arena_settings() -> ArenaSettings:
    """Return the settings of the service's arena. Raises SimulationError for a variable that makes no sense."""
    try:
        return ArenaSettings(**ChessSettings().model_dump())
    except ValidationError as error:
        raise refusal(error) from None


# -- metrics of the live games of a process, for Prometheus ------------------------------------------------------


class OfGames(Collector):
    """The counters of an arena, and the games that it has in memory."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena

    def describe(self) -> list[Metric]:
        """Return nothing: the registry need not look at the games to know the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return them all."""
        counters, games = self._arena.counters, self._arena.games()
        for name, what, count in (
            ("created", "Games made by this process.", counters.created),
            ("completed", "Games that this process has brought to their ends.", counters.completed),
        ):
            yield CounterMetricFamily(f"worldledger_games_{name}", what, value=count)
        for name, what, value in (
            ("in_memory", "Games in memory, ended ones included.", len(games)),
            ("in_progress", "Live games in memory that are in progress.", sum(_goes_on(game) for game in games)),
            ("driven", "Games in which players of this process play.", self._arena.driven),
            ("watchers", "Watchers of games here.", sum(game.watchers for game in games)),
        ):
            yield GaugeMetricFamily(f"worldledger_games_{name}", what, value=value)


def _goes_on(game: LiveGame) -> bool:
    return game.live is not None and game.record.in_progress


_NAME = "chess"


@asynccontextmanager
async def open_arena(services: Services) -> AsyncIterator[Arena]:
    """Keep live games going for the length of the block."""
    arena = Arena(services.store, services.watcher, services.worlds, arena_settings(), clock=services.clock)
    services.metrics.registry.register(OfGames(arena))
    async with arena:
        yield arena


def arena_of(services: Services) -> Arena:
    """Return the arena of a service."""
    arena: Arena = services.of_kinds[_NAME]
    return arena


# -- finding a game in the arena, and describing its state by its log ---------------------------------------

GameId = Annotated[
    str,
    Path(
        description=f"The game's id: the name of its world ({NAME_RULE}).",
        json_schema_extra={"pattern": "^[A-Za-z0-9][A-Za-z0-9._~-]{0,199}$", "minLength": 1, "maxLength": 200},
    ),
]
WithTensor = Annotated[bool, Query(alias="tensor", description="Whether board_state has the board_tensor.")]
WithMoves = Annotated[bool, Query(alias="moves", description="Whether the answer has the move_history.")]

#: The Game's fields of a game without a position.
NOTHING: Final[Mapping[str, Any]] = dict.fromkeys(
    ("global_seq", "current_turn", "board_state", "agents", "clocks", "live", "move_deadline", "attempts_left")
)


@contextmanager
def of_games(game_id: str) -> Iterator[None]:
    """Raise GameNotFoundError where there is no such world, or no game in it."""
    try:
        yield
    except (WorldNotFoundError, NoSuchGameError) as error:
        raise GameNotFoundError(error.message, game_id=game_id) from None


async def game_of(found: Services, game_id: str) -> LiveGame:
    """Return a game, as far as its log is known here; what is due in it is done.

    Raises GameNotFoundError, InvalidNameError, StoreUnavailableError, TamperedError, FoldError.
    """
    with of_games(game_id):
        return await arena_of(found).game(check_world_name(game_id))


async def reach(found: Services, game: LiveGame, parameter: str, seq: int) -> None:
    """Follow a game up to a seq. Raises PositionAheadError for a seq that its log has not reached."""
    if seq > game.seq:
        await game.catch_up()
    if seq > game.seq:
        what = f"{parameter}: {seq} lies beyond the head of game {game.game_id!r}, which is {game.seq}"
        raise PositionAheadError(what, parameter=parameter, head_seq=game.seq, **{"in": "query"})


# -- telling -----------------------------------------------------------------------------------------------


def told(game: LiveGame, *, tensor: bool, moves: bool) -> dict[str, Any]:
    """Return what a Game has beyond a row of the projection ``games``."""
    record = game.record
    live, sides, board = record.live, record.entities, record.entities["board"]
    deadline = game.deadline_at
    shown = {
        "global_seq": game.seq,
        "current_turn": board["turn"],
        "board_state": known(lambda: board_told(game.board_state, tensor=tensor)),
        "agents": {player: _agent(game, player, record.own_side(player)) for player in OTHER},
        "clocks": {player: sides[player]["clock"] for player in OTHER},
        "live": None
        if live is None
        else live.model_dump(include={"max_illegal", "fallback", "deadline_s", "seed"}, mode="json"),
        "move_deadline": None if deadline is None else moment(deadline),
        "attempts_left": game.attempts_left if record.in_progress else None,
    }
    if moves:
        shown["move_history"] = known(lambda: [move.model_dump() for move in record.moves()])
    return shown


def game_row(game: LiveGame) -> dict[str, Any]:
    """Return a live game's row as the projection ``games`` will have it, made of the log as it is known here."""
    record, ended = game.record, game.ended
    return row_of_state(record.game_id, record.entities) | {
        "experiment": None if record.live is None else record.live.experiment,
        "started_seq": record.entries[0].seq if record.entries[0].kind == "GameStarted" else None,
        "ended_seq": None if ended is None else ended.global_seq,
    }


def board_told(state: BoardState, *, tensor: bool) -> dict[str, Any]:
    """Return a position as it is shown."""
    return state.model_dump(mode="json", exclude=None if tensor else {"board_tensor"})


def board_at(game: LiveGame, ply: int) -> chess.Board | None:
    """Return the board after so many moves; None where the game has not come so far, or cannot be taken back so far."""
    board = game.record.board
    back = game.record.ply - ply
    if board is None or not 0 <= back <= len(board.move_stack):
        return None
    return taken_back(board, back)


def _agent(game: LiveGame, player: Player, side: Mapping[str, Any]) -> dict[str, Any]:
    live = game.live
    settings = None if live is None else live.agents[player]
    return {
        "agent_id": side["agent_id"],
        "name": side["name"],
        "personality": None if settings is None else settings.personality,
        "model_name": None if settings is None else settings.model_name,
        "player": None if live is None else live.players[player],
        "total_moves": side["moves"],
        "illegal_moves_attempted": side["illegal_moves_attempted"],
        "thinking_time": side["thinking_time"],
    }


def known(tell: Any) -> Any:
    """Return what is told; None where the record is no Game: of a variant, or with null moves."""
    try:
        return tell()
    except (ValueError, NoSuchGameError):
        return None


# -- WebSockets ----------------------------------------------------------------------------------------------------


class End(NamedTuple):
    """The code and reason with which a socket is closed (RFC 6455, section 7.4)."""

    code: int
    reason: str


class Socket(ABC):
    """Serves one socket."""

    def __init__(self, found: Services, receive: Receive, send: Send, instance: str) -> None:
        self._found = found
        self._receive = receive
        self._send = send
        self._instance = instance

    async def run(self, subprotocol: str | None = None) -> None:
        """Open the socket, and serve until either side closes it."""
        self._found.metrics.socket(1)
        try:
            await self._out({"type": "websocket.accept", "subprotocol": subprotocol, "headers": []})
            end = await self._serve()
            if end is not None:
                await self._out({"type": "websocket.close", "code": end.code, "reason": end.reason})
        finally:
            self._found.metrics.socket(-1)

    @abstractmethod
    async def _serve(self) -> End | None:
        """Serve until something ends it; return the reason, or None if the client has left."""

    async def _out(self, message: dict[str, Any]) -> None:
        """Send, once the client has taken what was sent before; a client that has left is sent nothing more."""
        try:
            await self._send(message)
        except OSError:
            return
