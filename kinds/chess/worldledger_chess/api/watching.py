"""The WebSocket of a game: its watchers are sent the game's events.

Each message is one event of the log (`worldledger_chess.arena.events`), less than 64 KiB of JSON. A watcher continues
after the ``global_seq`` that it had last; each goes at its own pace, and a slow one delays neither the game nor others.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Annotated, Final
from urllib.parse import parse_qsl

import structlog
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from worldledger_service.api.bodies import members, parse
from worldledger_service.api.context import Services
from worldledger_service.api.openapi import problems
from worldledger_service.api.parameters import once, whole
from worldledger_service.api.problems import (
    InvalidMessageError,
    InvalidParameterError,
    UpgradeRequiredError,
    enclosed_problem,
    instance_of,
    not_whole,
    problem_response,
)
from worldledger_service.api.routing import EscapedRoute, EscapedWebSocketRoute
from worldledger_service.api.ws.connection import MOST_UNREADABLE
from worldledger_service.api.ws.messages import SUBPROTOCOL, write, write_problem

from worldledger.aio import first_of
from worldledger.canonical import MAX_INT, gate
from worldledger.drafts import MAX_WORD
from worldledger.errors import InvalidEffectError, SimulationError, StoreUnavailableError
from worldledger_chess.api.serving import End, GameId, Socket, arena_of, game_of, reach
from worldledger_chess.arena import LiveGame

router = APIRouter(route_class=EscapedRoute, tags=["games"], dependencies=[Depends(once)])

_PATH: Final = "/v1/games/{game_id}/watch"
_AFTER: Final = "after_seq"
#: Messages of the client after which others on the event loop have their turn.
_AT_ONCE: Final = 64

log = structlog.get_logger("worldledger.api")


@router.get(
    _PATH,
    operation_id="watch_game",
    summary="A game's WebSocket",
    status_code=101,
    response_class=Response,
    responses={
        101: {"description": "The socket is open: an event of the game in each message."},
        **problems(400, 403, 404, 409, 422, 426, 503),
    },
)
async def watch_game(
    request: Request,
    game_id: GameId,
    after_seq: Annotated[
        int, whole(0), Query(ge=0, le=MAX_INT, description="Events after this global_seq; all if absent.")
    ] = 0,
) -> Response:
    """Open a WebSocket (RFC 6455) and be told what happens in a game: starts, moves, rejected attempts, the end.

    docs/reference/http.md describes the messages. A request that is no handshake is 426.
    """
    del game_id, after_seq
    raise UpgradeRequiredError("this is the address of a WebSocket; any subprotocol will do", subprotocol=None)


class WatchingSocket:
    """Opens the sockets: an ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one handshake, and the socket that it opens."""
        await receive()  # websocket.connect
        found: Services = scope["app"].state.services
        try:
            after_seq = _after_seq(scope)
            game = await game_of(found, scope["path_params"]["game_id"])
            await reach(found, game, _AFTER, after_seq)
            if found.stopping.is_set():
                raise StoreUnavailableError("the service is stopping")
        except SimulationError as error:
            await problem_response(scope, error)(scope, receive, send)
            return
        watcher = _Watcher(found, game, after_seq, receive, send, instance_of(scope))
        await watcher.run(SUBPROTOCOL if SUBPROTOCOL in scope["subprotocols"] else None)


def _after_seq(scope: Scope) -> int:
    """Read the query. Raises InvalidParameterError."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        if name != _AFTER:
            raise InvalidParameterError(name, f"is no parameter of this route: it has {_AFTER}")
        if name in found:
            raise InvalidParameterError(name, "stands more than once")
        found[name] = value
    text = found.get(_AFTER, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= MAX_INT):
        raise InvalidParameterError(_AFTER, not_whole(0).message())
    return int(text)


_STOPPING: Final = End(1012, "the service is stopping; come again with after_seq")
_FAILED: Final = End(1011, "an internal error; the service's log says more")


class _Watcher(Socket):
    """Serves one socket: one task tells what happens, another reads what the client says."""

    def __init__(
        self, found: Services, game: LiveGame, after_seq: int, receive: Receive, send: Send, instance: str
    ) -> None:
        super().__init__(found, receive, send, instance)
        self._game = game
        self._after_seq = after_seq
        self._stirred_at = asyncio.get_running_loop().time()

    async def _serve(self) -> End | None:
        for task in await first_of(self._tell(), self._read(), self._look(), self._stopped()):
            if task is None:
                continue
            error = task.exception()
            if error is None:
                end: End | None = task.result()
                return end
            if isinstance(error, StoreUnavailableError):
                return _STOPPING
            log.error("watching a game broke off", path=self._instance, exc_info=error)
            return _FAILED
        return None

    async def _tell(self) -> End:
        """Send events as they come, until the game has ended."""
        async with aclosing(self._game.watch(self._after_seq)) as events:
            async for event in events:
                await self._say(event.text.decode())
        return End(1000, "the game has ended")

    async def _look(self) -> End:
        """Wait until nothing was said for long."""
        loop, idle = asyncio.get_running_loop(), arena_of(self._found).settings.watch_idle
        while True:
            left = self._stirred_at + idle - loop.time()
            if left <= 0:
                return End(1001, f"nothing happened for {idle:g} seconds; come again with after_seq")
            await asyncio.sleep(left)

    async def _stopped(self) -> End:
        await self._found.stopping.wait()
        return _STOPPING

    async def _read(self) -> End | None:
        """Answer the client's pings until it leaves."""
        unreadable = taken = 0
        while True:
            event = await self._receive()
            if event["type"] == "websocket.disconnect":
                return None
            text = event.get("text")
            if text is None:
                return End(1003, "messages are text frames")
            try:
                answer = write("pong", _ping(text))
                unreadable = 0
            except InvalidEffectError as error:
                unreadable += 1
                problem = enclosed_problem(InvalidMessageError(error.reason, error.path), self._instance)
                answer = write_problem("error", None, problem)
            assert answer is not None  # noqa: S101 - an id has its limit
            await self._say(answer)
            if unreadable >= MOST_UNREADABLE:
                return End(1008, f"{unreadable} messages in a row could not be read")
            taken += 1
            if taken % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _say(self, text: str) -> None:
        await self._out({"type": "websocket.send", "text": text})
        self._stirred_at = asyncio.get_running_loop().time()


def _ping(text: str) -> str | int | float | None:
    """Return the id of a ping. Raises InvalidEffectError for anything else: nothing else is said to a game."""
    message = members(parse(text.encode()), "a message to a game", ("type",), ("id",))
    if message["type"] != "ping":
        raise InvalidEffectError("nothing but a ping is taken here; moves are made over HTTP", "$.type")
    found = message.get("id")
    kind = type(found)
    if found is None or kind is int or kind is float or (kind is str and len(found) <= MAX_WORD):
        gate(found, path="$.id")
        told: str | int | float | None = found
        return told
    raise InvalidEffectError(f"an id is a number, or a string of at most {MAX_WORD} characters", "$.id")


#: The route that the application adds to its own.
ROUTE: Final = EscapedWebSocketRoute(_PATH, WatchingSocket(), name="game_socket")
