"""Playing chess over HTTP: making games, moving, resigning, sessions. Source: docs/reference/contracts.md, "Chess".

A game is a world of the ruleset chess: what is done here is done by effects of its log (`worldledger_chess.arena`).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from uuid import UUID, uuid4

from fastapi import APIRouter, Depends
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from worldledger_service.api.answers import REVALIDATE, to_json
from worldledger_service.api.bodies import idempotency_key, read_json
from worldledger_service.api.context import Services, services
from worldledger_service.api.openapi import REPLAYED, body_of, header, json_of, key_header, problems
from worldledger_service.api.parameters import once
from worldledger_service.api.problems import InvalidParameterError
from worldledger_service.api.routing import BodyRoute
from worldledger_service.runtime.guarding import guarded

from worldledger.canonical import gate
from worldledger.errors import (
    InvalidConfigError,
    InvalidEffectError,
    RequestConflictError,
    WorldExistsError,
    WorldNotFoundError,
)
from worldledger.moments import HEAD, UnreadableMomentError, parse_moment
from worldledger_chess.api import shapes
from worldledger_chess.api.serving import (
    GameId,
    WithMoves,
    WithTensor,
    arena_of,
    board_at,
    board_told,
    game_of,
    game_row,
    known,
    of_games,
    told,
)
from worldledger_chess.api.shapes import Game, MoveRequest, Resignation, ResignOutcome, SessionList
from worldledger_chess.arena import (
    Arena,
    ArenaFullError,
    GameNotLiveError,
    InvalidMoveRequestError,
    LiveGame,
    MoveOutcome,
    NewGame,
    NoSuchGameError,
    PlayFrom,
)
from worldledger_chess.rules import BoardState
from worldledger_chess.rules.live import LIVE


class _GameRoute(BodyRoute):
    """One whose body asks something of a game."""

    @staticmethod
    def refused(reason: str, path: str) -> InvalidMoveRequestError:
        """Make the error for a body."""
        return InvalidMoveRequestError(reason, path)


router = APIRouter(route_class=_GameRoute, tags=["games"], dependencies=[Depends(once)])

#: Where LiveConfig finds what is wrong, which here is the body itself.
_CONFIG: Final = f"$.config.{LIVE}"
_EFFECT: Final = {"Location": header("The address of the effect.")}
_REFUSALS: Final = problems(403, 404, 409, 413, 415, 422, 429, 503, 504)


_REQ_ID_KEY: Final = key_header(
    "The req_id, for clients that keep such keys in a header. Given twice the two must be equal."
)


# -- making a game -----------------------------------------------------------------------------------------


@router.post(
    "/v1/games",
    operation_id="create_game",
    summary="Begin a game",
    status_code=201,
    response_class=Response,
    responses={
        200: {
            **json_of(Game),
            "description": "A request with this Idempotency-Key has made the game before; it is told as it stands.",
            "headers": {"Location": header("The address of the game."), **REPLAYED},
        },
        201: {
            **json_of(Game),
            "description": "The game, which has begun.",
            "headers": {"Location": header("The address of the game.")},
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
    openapi_extra={
        "parameters": [key_header("The same key again gives the game that it has made.")],
        "requestBody": body_of(shapes.NewGame),
    },
)
async def create_game(request: Request, tensor: WithTensor = True, moves: WithMoves = True) -> Response:
    """Begin a game of two agents: a world of its own, with the game's start and both registrations, atomically.

    Players of the service begin to play; `external` ones are moved by clients. Programs cannot be named as
    players. With `fork_of` the world is a fork of another game, and these agents play on from a moment at which
    that was not over (else 409 `game_not_live`). With an `Idempotency-Key` the game's UUID follows from the key,
    unless the body has a `game_id`.
    """
    found = services(request)
    key = idempotency_key(request)
    new, play_from = _new_game(await _read(request, found), key)
    game, made = await _make(found, new, play_from, key)
    headers = {"Location": f"/v1/games/{game.game_id}", "Cache-Control": "no-store"}
    if not made:
        headers["Idempotency-Replayed"] = "true"
    answer = {**game_row(game), **told(game, tensor=tensor, moves=moves)}
    return Response(to_json(answer), 201 if made else 200, headers, "application/json")


async def _read(request: Request, found: Services) -> Any:
    try:
        value = await read_json(request, found.settings.max_body_bytes)
        gate(value)
    except InvalidEffectError as error:
        raise InvalidConfigError(f"{error.path}: {error.reason}", path=error.path) from None
    return value


def _new_game(value: Any, key: str | None) -> tuple[NewGame, PlayFrom | None]:
    """Read a game that is to be made, and what it goes on from. Raises InvalidConfigError with all that is wrong."""
    if type(value) is not dict:
        raise InvalidConfigError("$: a new game is an object", path="$")
    fork_of = value.get("fork_of")
    try:
        new = NewGame.of({LIVE: {name: said for name, said in value.items() if name != "fork_of"}}, new=True)
    except InvalidConfigError as error:
        found = [{**problem, "path": problem["path"].replace(_CONFIG, "$", 1)} for problem in error.details["problems"]]
        text = "; ".join(f"{problem['path']}: {problem['message']}" for problem in found)
        raise InvalidConfigError(text, path=found[0]["path"], problems=found) from None
    assert new is not None  # noqa: S101 - there is a configuration
    play_from = None if fork_of is None else _play_from(fork_of, new)
    if key is not None and new.game_id is None:
        new = new.model_copy(update={"game_id": _named(key)})
    return new, play_from


def _play_from(value: Any, new: NewGame) -> PlayFrom:
    path = "$.fork_of"
    for name in ("fen", "chess960"):
        if getattr(new, name):
            raise InvalidConfigError(f"$.{name}: a game that is played on has its own", path=f"$.{name}")
    try:
        said = shapes.GameForkOf.model_validate(value)
        path = "$.fork_of.at"
        return PlayFrom(said.world_id, parse_moment(said.at))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join([path, *map(str, first["loc"])])
        raise InvalidConfigError(f"{path}: {first['msg']}", path=path) from None
    except UnreadableMomentError as error:
        raise InvalidConfigError(f"{path}: {error}", path=path) from None


def _named(key: str) -> str:
    """Return the UUID4 of the game that is made by a request with this key."""
    return str(UUID(bytes=sha256(f"game:{key}".encode()).digest()[:16], version=4))


async def _make(found: Services, new: NewGame, play_from: PlayFrom | None, key: str | None) -> tuple[LiveGame, bool]:
    """Return the game, and whether it was made now. With a key it may have been made before.

    Raises as `Arena.create`; RequestConflictError where the key has made another game.
    """
    again = "look for the game before you make another" if new.game_id is None else "send it again"
    arena = arena_of(found)
    making = guarded(found.store.outages, arena.create(new, play_from), again=again, begun=lambda: arena.begins(new))
    try:
        return await making, True
    except (WorldExistsError, ArenaFullError, GameNotLiveError):
        if key is None or new.game_id is None:
            raise
        game = await _made_before(found, new.game_id)
        if game is None:
            raise
    if not await _is_same(arena, game, new, play_from):
        what = f"the Idempotency-Key {key!r} has made the game {game.game_id}, which is another one; use a new key"
        raise RequestConflictError(what, req_id=key, global_seq=1)
    return game, False


async def _is_same(arena: Arena, game: LiveGame, new: NewGame, play_from: PlayFrom | None) -> bool:
    """Return whether a game is the one that is asked for."""
    origin = game.record.fork_of
    if play_from is None or origin is None or game.live is None:
        return origin is None and game.live == new
    filled = {name: getattr(game.live, name) for name in ("fen", "chess960", "experiment") if not getattr(new, name)}
    if game.live != new.model_copy(update=filled):
        return False
    if play_from.at == HEAD:  # which may have moved on
        return origin.world_id == play_from.world_id
    parent, seq = await arena.place_of(play_from)
    return (origin.world_id, origin.global_seq) == (parent.world_id, seq)


async def _made_before(found: Services, game_id: str) -> LiveGame | None:
    try:
        return await arena_of(found).game(game_id)
    except (WorldNotFoundError, NoSuchGameError):
        return None


# -- moves -------------------------------------------------------------------------------------------------


@router.post(
    "/v1/games/{game_id}/moves",
    operation_id="make_move",
    summary="Attempt a move",
    status_code=201,
    response_class=Response,
    responses={
        200: {
            **json_of(shapes.MoveOutcome),
            "description": "The attempt was made before, and this is its answer again.",
            "headers": REPLAYED,
        },
        201: {
            **json_of(shapes.MoveOutcome),
            "description": "The attempt is in the log; `accepted` says whether it was a legal move.",
            "headers": _EFFECT,
        },
        **_REFUSALS,
    },
    openapi_extra={"parameters": [_REQ_ID_KEY]},
)
async def make_move(request: Request, game_id: GameId, body: MoveRequest, tensor: WithTensor = True) -> Response:
    """Attempt a move for an agent, in UCI or SAN. The answer comes once what became of it is durable.

    An attempt of the side to move that is no legal move is no error: it is recorded, and counts. Out of turn, after
    the end, and for agents that do not play, an attempt is 422 `illegal_effect`, whose `rule` says which. The same
    `req_id` of an agent again gets the same answer; without one an attempt that is sent again is another one.
    """
    found = services(request)
    req_id = _req_id(request, body)
    game = await game_of(found, game_id)
    agent_id = _agent_id(game, body)
    with of_games(game_id):
        outcome = await game.move(agent_id, body.move, thinking_time=body.thinking_time, req_id=req_id, ply=body.ply)
    answer = {**outcome.model_dump(), "board_state": _position(game, outcome, tensor=tensor)}
    return _done(game_id, outcome.global_seq, answer, replayed=outcome.replayed)


@router.post(
    "/v1/games/{game_id}/resign",
    operation_id="resign_game",
    summary="Give a game up",
    status_code=201,
    response_class=Response,
    responses={
        200: {**json_of(ResignOutcome), "description": "The agent had resigned before.", "headers": REPLAYED},
        201: {**json_of(ResignOutcome), "description": "The game has ended.", "headers": _EFFECT},
        **_REFUSALS,
    },
    openapi_extra={"parameters": [_REQ_ID_KEY]},
)
async def resign_game(request: Request, game_id: GameId, body: Resignation, tensor: WithTensor = True) -> Response:
    """Let an agent resign, whichever side is to move. The same `req_id` of the agent again gets the same answer."""
    found = services(request)
    req_id = _req_id(request, body)
    game = await game_of(found, game_id)
    agent_id = _agent_id(game, body)
    with of_games(game_id):
        outcome = await game.resign(agent_id, req_id=req_id)
    board_state = known(lambda: board_told(game.board_state, tensor=tensor))
    answer = {**outcome.model_dump(), "board_state": board_state}
    return _done(game_id, outcome.global_seq, answer, replayed=outcome.replayed)


def _req_id(request: Request, body: MoveRequest | Resignation) -> str:
    """Return the request's id, from the body or the header; a new one where it has none."""
    key, stated = idempotency_key(request), body.req_id
    if key is not None and stated is not None and stated != key:
        raise InvalidParameterError("Idempotency-Key", "differs from the req_id", "header")
    return key or stated or uuid4().hex


def _agent_id(game: LiveGame, body: MoveRequest | Resignation) -> str:
    """Return the agent that a body names, by its id or by its colour."""
    if body.agent_id is not None and body.player is None:
        return body.agent_id
    if body.player is None or body.agent_id is not None:
        raise InvalidMoveRequestError("name the side by agent_id or by player: one of the two", "$.agent_id")
    if game.live is None:
        return body.player  # whom the arena refuses, as it does anybody in such a game
    return game.live.agents[body.player].agent_id


def _position(game: LiveGame, outcome: MoveOutcome, *, tensor: bool) -> dict[str, Any] | None:
    """Return the position that an attempt has led to, however much has happened since."""
    made = outcome.accepted or outcome.fallback is not None
    board = board_at(game, outcome.ply if made else outcome.ply - 1)
    try:
        return None if board is None else board_told(BoardState.from_board(board), tensor=tensor)
    except ValueError:
        return None


def _done(game_id: str, seq: int, answer: Mapping[str, Any], *, replayed: bool) -> Response:
    headers = {"Cache-Control": "no-store"}
    if replayed:
        headers["Idempotency-Replayed"] = "true"
    else:
        headers["Location"] = f"/v1/worlds/{game_id}/effects/{seq}"
    return Response(to_json(answer), 200 if replayed else 201, headers, "application/json")


# -- sessions ----------------------------------------------------------------------------------------------


@router.get(
    "/v1/sessions",
    operation_id="list_sessions",
    summary="The live games in memory",
    response_class=Response,
    responses={200: {**json_of(SessionList), "description": "The sessions of this process."}, **problems(422, 503)},
)
async def list_sessions(request: Request) -> Response:
    """Return the sessions of the live games that this process has in memory: their players and numbers of watchers.

    There may be more games: one that has left memory is loaded again on request.
    """
    sessions = [session.model_dump() for session in arena_of(services(request)).sessions()]
    return Response(to_json({"sessions": sessions}), 200, {"Cache-Control": REVALIDATE}, "application/json")
