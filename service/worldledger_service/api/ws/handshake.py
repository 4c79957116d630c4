"""The route of an agent's WebSocket. Whatever a socket is refused for is told before it opens, as an HTTP problem."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import parse_qsl

from fastapi import APIRouter, Query
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from worldledger.canonical import MAX_INT
from worldledger.errors import SimulationError, StoreUnavailableError
from worldledger_service.api.agents_of_worlds import PATIENCE, AgentId, known_agent, reading_on, word
from worldledger_service.api.context import Services
from worldledger_service.api.openapi import problems
from worldledger_service.api.parameters import WorldName, whole
from worldledger_service.api.problems import (
    InvalidParameterError,
    SubprotocolRefusedError,
    UpgradeRequiredError,
    instance_of,
    not_whole,
    problem_response,
)
from worldledger_service.api.routing import EscapedRoute, EscapedWebSocketRoute
from worldledger_service.api.ws.connection import Connection, Outgoing
from worldledger_service.api.ws.messages import SUBPROTOCOL

router = APIRouter(route_class=EscapedRoute, tags=["agents"])

_PATH: Final = "/v1/worlds/{world}/agents/{agent_id}/ws"


@router.get(
    _PATH,
    operation_id="open_socket",
    summary="An agent's WebSocket",
    status_code=101,
    response_class=Response,
    responses={
        101: {"description": f"The socket is open and speaks `{SUBPROTOCOL}`."},
        **problems(400, 403, 404, 409, 422, 426, 503),
    },
)
async def open_socket(
    request: Request,
    world: WorldName,
    agent_id: AgentId,
    view_seq: Annotated[
        int | None,
        whole(0),
        Query(ge=0, le=MAX_INT, description="Observations begin after this view; by default, with the present one."),
    ] = None,
) -> Response:
    """Open a WebSocket (RFC 6455): intents in; acknowledgements, observations and cancellations out.

    The handshake offers the subprotocol `worldledger.v1.json`; docs/reference/http.md describes its messages. A request
    that is no handshake is 426.
    """
    del world, agent_id, view_seq
    raise UpgradeRequiredError(
        f"this is the address of a WebSocket; its subprotocol is {SUBPROTOCOL}", subprotocol=SUBPROTOCOL
    )


class AgentSocket:
    """Opens the sockets: an ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one handshake, and the socket that it opens."""
        await receive()  # websocket.connect
        found: Services = scope["app"].state.services
        try:
            connection = await _connect(found, scope, receive, send)
        except SimulationError as error:
            error.details.pop("head_seq", None)
            await problem_response(scope, error)(scope, receive, send)
            return
        await connection.run()


async def _connect(found: Services, scope: Scope, receive: Receive, send: Send) -> Connection:
    if SUBPROTOCOL not in scope["subprotocols"]:
        raise SubprotocolRefusedError(
            f"this socket speaks {SUBPROTOCOL}, which has to be offered in Sec-WebSocket-Protocol",
            subprotocol=SUBPROTOCOL,
        )
    view_seq = _view_seq(scope)
    world_id, agent_id = (scope["path_params"][name] for name in ("world", "agent_id"))
    world = await found.worlds.get(world_id)
    try:
        word(agent_id)
    except PydanticCustomError as error:
        raise InvalidParameterError("agent_id", error.message(), "path") from None
    await known_agent(found, world, agent_id)
    await world.fold_known(PATIENCE)  # what was acknowledged before the socket was opened is in its first view
    with reading_on("view_seq"):
        subscription = await world.subscribe(agent_id, view_seq=view_seq)
    if found.stopping.is_set():
        subscription.close()
        raise StoreUnavailableError("the service is stopping")
    out = Outgoing(send, world_id, agent_id, instance_of(scope))
    return Connection(found, world, subscription, receive, out)


def _view_seq(scope: Scope) -> int | None:
    values = [
        value
        for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if name == "view_seq"
    ]
    if not values:
        return None
    if len(values) > 1:
        raise InvalidParameterError("view_seq", "stands more than once")
    text = values[0]
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= MAX_INT):
        raise InvalidParameterError("view_seq", not_whole(0).message())
    return int(text)


#: The route that the application adds to its own.
ROUTE: Final = EscapedWebSocketRoute(_PATH, AgentSocket(), name="agent_socket")
