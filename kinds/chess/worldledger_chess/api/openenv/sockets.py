"""The WebSocket of OpenEnv: exactly one answer to each message, in order, and nothing unasked.

After an error the socket can still be used, except for three codes: CAPACITY_REACHED, FACTORY_ERROR and SESSION_ERROR
close it. It has one episode at a time; one that it has left can be resumed. Source: the wire contract of OpenEnv.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message as Event
from starlette.types import Receive, Scope, Send
from worldledger_service.api.openapi import problems
from worldledger_service.api.parameters import once
from worldledger_service.api.problems import (
    UpgradeRequiredError,
    answer_for,
    encode,
    instance_of,
    problem_response,
    told,
)
from worldledger_service.api.routing import EscapedRoute, EscapedWebSocketRoute

from worldledger.aio import first_of
from worldledger.errors import (
    IllegalEffectError,
    InvalidConfigError,
    InvalidNameError,
    RecoveryAction,
    SimulationError,
    StoreUnavailableError,
)
from worldledger_chess.api.openenv.episodes import NO_STATE, begin, episode_of, new_request_id, with_tensor
from worldledger_chess.api.openenv.frames import Message, RefusedError, read_action, read_message, read_reset
from worldledger_chess.api.serving import End, Socket, arena_of
from worldledger_chess.arena import ArenaFullError, InvalidMoveRequestError
from worldledger_chess.arena.players import InvalidPlayerError, UnknownPlayerError

if TYPE_CHECKING:
    from worldledger_service.api.context import Services

router = APIRouter(route_class=EscapedRoute, tags=["openenv"], dependencies=[Depends(once)])

_PATH: Final = "/openenv/chess/ws"
#: Errors that are the client's fault.
_INVALID: Final = (
    InvalidConfigError,
    InvalidMoveRequestError,
    InvalidNameError,
    InvalidPlayerError,
    UnknownPlayerError,
)
_AGAIN: Final = frozenset({RecoveryAction.RETRY, RecoveryAction.RETRY_WITH_DELAY})

log = structlog.get_logger("worldledger.api")


class _Answer(NamedTuple):
    """The answer to a message, and whether the socket is closed after it."""

    text: str | None
    end: End | None = None


_CLOSED: Final = _Answer(None, End(1000, "the client has closed"))
_STOPPING: Final = End(1012, "the service is stopping; come again, and resume the episode")
#: The codes of errors that close the socket, with the closing codes.
_ENDS: Final = {
    "CAPACITY_REACHED": End(1013, "too many games are being played; come again"),
    "FACTORY_ERROR": End(1011, "no episode can be made; the service's log says why"),
    "SESSION_ERROR": End(1011, "an internal error; the service's log says more"),
}


@router.get(
    _PATH,
    operation_id="openenv_socket",
    summary="The WebSocket of OpenEnv",
    status_code=101,
    response_class=Response,
    responses={101: {"description": "The socket is open."}, **problems(403, 422, 426, 503)},
)
async def openenv_socket(request: Request) -> Response:
    """Open a WebSocket (RFC 6455) that speaks as the environments of OpenEnv do, for their clients.

    docs/reference/http.md describes the messages. A request that is no handshake is 426.
    """
    raise UpgradeRequiredError("this is the address of a WebSocket; any subprotocol will do", subprotocol=None)


class OpenEnvSocket:
    """Opens the sockets: an ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one handshake, and the socket that it opens."""
        await receive()  # websocket.connect
        found: Services = scope["app"].state.services
        if found.stopping.is_set():
            error = StoreUnavailableError("the service is stopping")
            await problem_response(scope, error)(scope, receive, send)
            return
        await _Session(found, receive, send, instance_of(scope)).run()


class _Session(Socket):
    """Serves one socket: a message is answered before the next one is read."""

    def __init__(self, found: Services, receive: Receive, send: Send, instance: str) -> None:
        super().__init__(found, receive, send, instance)
        self._episode_id: str | None = None
        self._tensor = False
        #: an attempt with an unknown outcome, and its id: the same move again is the same attempt
        self._unsure: tuple[str, str] | None = None

    async def _serve(self) -> End | None:
        while True:
            event = await self._next()
            if isinstance(event, End):
                return event
            if event["type"] == "websocket.disconnect":
                return None
            answer = await self._answer(event.get("text"))
            if answer.text is not None:
                await self._out({"type": "websocket.send", "text": answer.text})
            if answer.end is not None:
                return answer.end

    async def _next(self) -> Event | End:
        """Return the client's next message, or the reason why none is waited for."""
        idle = arena_of(self._found).settings.watch_idle
        received, _ = await first_of(self._received(), self._found.stopping.wait(), timeout=idle)
        if self._found.stopping.is_set():
            return _STOPPING
        if received is None:
            return End(1001, f"nothing was asked for {idle:g} seconds; come again, and resume the episode")
        event: Event = received.result()
        return event

    async def _received(self) -> Event:
        return await self._receive()

    async def _answer(self, text: str | None) -> _Answer:
        kind = ""
        try:
            message = read_message(text)
            kind = message.type
            if kind == "close":
                return _CLOSED
            return _Answer(_frame("state" if kind == "state" else "observation", await self._do(message)))
        except RefusedError as error:
            return _error(error.code, error.reason)
        except SimulationError as error:
            return _error(self._code(error, kind), told(error))
        except Exception:
            log.exception("a socket of OpenEnv broke off", path=self._instance)
            return _error("SESSION_ERROR", "an internal error; the service's log says more")

    async def _do(self, message: Message) -> dict[str, Any]:
        if message.type == "reset":
            return await self._reset(message.data)
        if message.type == "step":
            return await self._step(message.data)
        if self._episode_id is None:
            return NO_STATE
        return (await episode_of(self._found, self._episode_id)).state()

    async def _reset(self, data: dict[str, Any]) -> dict[str, Any]:
        wanted = read_reset(data)
        if wanted.new is not None:
            episode = await begin(self._found, wanted.new, wanted.play_from)
        else:
            assert wanted.episode_id is not None  # noqa: S101 - one of the two is there
            episode = await episode_of(self._found, wanted.episode_id)
        self._episode_id, self._tensor, self._unsure = episode.game.game_id, wanted.tensor, None
        return self._shown(episode.observe())

    async def _step(self, data: dict[str, Any]) -> dict[str, Any]:
        action = read_action(data)
        if self._episode_id is None:
            what = "no episode was begun on this socket: reset first, or resume one by its episode_id"
            raise IllegalEffectError(what, "$", rule="game_not_started")
        if action.episode_id is not None and action.episode_id != self._episode_id:
            what = f"this socket plays the episode {self._episode_id!r}: resume another one first"
            raise InvalidMoveRequestError(what, "$.metadata.episode_id")
        again = self._unsure[1] if self._unsure is not None and self._unsure[0] == action.move else None
        req_id = action.request_id or again or new_request_id()
        self._unsure = action.move, req_id
        try:
            episode = await episode_of(self._found, self._episode_id, whole=False)
            answer, _ = await episode.step(action.move, req_id=req_id, thinking_time=action.thinking_time)
        except SimulationError as error:
            if error.recovery not in _AGAIN:
                self._unsure = None
            raise
        self._unsure = None
        return self._shown(answer)

    def _shown(self, answer: dict[str, Any]) -> dict[str, Any]:
        return with_tensor(answer) if self._tensor else answer

    def _code(self, error: SimulationError, kind: str) -> str:
        """Return OpenEnv's code for one of our errors."""
        if isinstance(error, _INVALID):
            return "VALIDATION_ERROR"
        if isinstance(error, ArenaFullError):
            return "CAPACITY_REACHED"
        if kind == "reset" and answer_for(error).status >= 500 and error.recovery not in _AGAIN:
            log.error("no episode can be made", path=self._instance, error=error.message, code=error.code)
            return "FACTORY_ERROR"
        return "EXECUTION_ERROR"


def _frame(kind: str, data: dict[str, Any]) -> str:
    return encode({"type": kind, "data": data}).decode()


def _error(code: str, message: str) -> _Answer:
    return _Answer(_frame("error", {"message": message[:1000], "code": code}), _ENDS.get(code))


#: The route for the application.
ROUTE: Final = EscapedWebSocketRoute(_PATH, OpenEnvSocket(), name="openenv_socket")
