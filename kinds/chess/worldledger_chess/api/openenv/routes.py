"""OpenEnv over HTTP. Unlike those of other servers its episodes last: each call names one by its ``episode_id``."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response
from worldledger_service.api.answers import to_json
from worldledger_service.api.bodies import members, read_json
from worldledger_service.api.context import Services, services
from worldledger_service.api.hosts import refuse_other_sites
from worldledger_service.api.openapi import body_of, header, json_of, problems
from worldledger_service.api.parameters import once
from worldledger_service.api.problems import InvalidParameterError

from worldledger.errors import InvalidConfigError, InvalidEffectError
from worldledger_chess.api.openenv.episodes import (
    NO_STATE,
    OpenEnvAction,
    OpenEnvHealth,
    OpenEnvMetadata,
    OpenEnvObservation,
    OpenEnvReset,
    OpenEnvResult,
    OpenEnvSchemas,
    OpenEnvState,
    OpenEnvStep,
    begin,
    episode_of,
    new_request_id,
    with_tensor,
)
from worldledger_chess.api.openenv.frames import Action, read_action, read_request_id, read_reset
from worldledger_chess.arena import InvalidMoveRequestError

router = APIRouter(prefix="/openenv/chess", tags=["openenv"], dependencies=[Depends(once)])

_METADATA: Final = {
    "name": "chess",
    "description": "Chess against a random player, an engine or oneself. Episodes are worlds of an append-only log: "
    "every attempt, legal or not, is recorded, and an episode goes on after any restart.",
    "version": version("worldledger"),
}
_SCHEMAS: Final = {
    name: shape.model_json_schema()
    for name, shape in (("action", OpenEnvAction), ("observation", OpenEnvObservation), ("state", OpenEnvState))
}
EpisodeId = Annotated[
    str | None,
    Query(
        description="The episode.",
        json_schema_extra={"pattern": "^[A-Za-z0-9][A-Za-z0-9._~-]{0,199}$", "minLength": 1, "maxLength": 200},
    ),
]
WithTensor = Annotated[
    bool, Query(alias="tensor", description="Whether the observation has a board_tensor in its metadata.")
]


@router.post(
    "/reset",
    operation_id="openenv_reset",
    summary="Begin an episode, or resume one",
    response_class=Response,
    responses={
        200: {**json_of(OpenEnvResult), "description": "The first observation."},
        **problems(403, 404, 409, 413, 415, 422, 503),
    },
    openapi_extra={"requestBody": {**body_of(OpenEnvReset), "required": False}},
    dependencies=[Depends(refuse_other_sites)],
)
async def openenv_reset(request: Request, tensor: WithTensor = False) -> Response:
    """Begin an episode: a live game, and so a world. Its `episode_id` is in the observation's `metadata`.

    If the agent is black the opponent has moved. With `resume` an episode goes on where it stands.
    """
    found = services(request)
    wanted = read_reset(await _reset_body(request, found))
    if wanted.new is not None:
        episode = await begin(found, wanted.new, wanted.play_from)
    else:
        assert wanted.episode_id is not None  # noqa: S101 - one of the two is there
        episode = await episode_of(found, wanted.episode_id)
    answer = episode.observe()
    return _json(with_tensor(answer) if tensor or wanted.tensor else answer)


async def _reset_body(request: Request, found: Services) -> dict[str, Any]:
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return {}
    try:
        value = await read_json(request, found.settings.max_body_bytes)
    except InvalidEffectError as error:
        raise InvalidConfigError(f"{error.path}: {error.reason}", path=error.path) from None
    if type(value) is not dict:
        raise InvalidConfigError("$: a reset is an object", path="$")
    return value


@router.post(
    "/step",
    operation_id="openenv_step",
    summary="Make a step in an episode",
    response_class=Response,
    responses={
        200: {
            **json_of(OpenEnvResult),
            "description": "The result of the attempt, legal or not.",
            "headers": {"Idempotency-Replayed": header("`true` if this request was made before.")},
        },
        **problems(403, 404, 409, 413, 415, 422, 429, 503, 504),
    },
    openapi_extra={"requestBody": body_of(OpenEnvStep)},
)
async def openenv_step(request: Request, episode_id: EpisodeId = None, tensor: WithTensor = False) -> Response:
    """Attempt a move. The answer comes once it is durable what became of it, and the opponent has moved.

    The same `request_id` again gets the same answer, also after a restart. After the end of the episode a step is 422
    `illegal_effect`, whose `rule` is `game_over`.
    """
    found = services(request)
    action, named, request_id = await _step_body(request, found)
    name = _one_of({"query": episode_id, "$.episode_id": named, "$.action.metadata.episode_id": action.episode_id})
    if name is None:
        what = "is missing: it is in the metadata of the observation that a reset is answered with"
        raise InvalidParameterError("episode_id", what)
    episode = await episode_of(found, name, whole=False)
    req_id = request_id or action.request_id or new_request_id()
    answer, replayed = await episode.step(action.move, req_id=req_id, thinking_time=action.thinking_time)
    return _json(with_tensor(answer) if tensor else answer, replayed=replayed)


async def _step_body(request: Request, found: Services) -> tuple[Action, Any, str | None]:
    """Return the action, and the episode's and the request's ids as the body has them."""
    try:
        body = await read_json(request, found.settings.max_body_bytes)
        members(body, "a step", ("action",), ("episode_id", "request_id", "timeout_s"))
    except InvalidEffectError as error:
        raise InvalidMoveRequestError(error.reason, error.path) from None
    patience = body.get("timeout_s")
    if patience is not None and not (type(patience) in {int, float} and patience > 0):
        raise InvalidMoveRequestError("timeout_s is a number of seconds", "$.timeout_s")
    action = read_action(body["action"], "$.action")
    return action, body.get("episode_id"), read_request_id(body.get("request_id"), "$.request_id")


def _one_of(places: dict[str, Any]) -> str | None:
    """Return the id that is given in any place. Raises InvalidMoveRequestError if two contradict each other."""
    found: str | None = None
    for place, value in places.items():
        if value is None:
            continue
        if type(value) is not str:
            raise InvalidMoveRequestError("an episode's id is a string", place)
        if found is not None and value != found:
            raise InvalidMoveRequestError(f"contradicts the episode_id {found!r} that is said elsewhere", place)
        found = value
    return found


@router.get(
    "/state",
    operation_id="openenv_state",
    summary="The state of an episode",
    response_class=Response,
    responses={
        200: {**json_of(OpenEnvState), "description": "The state of the episode."},
        **problems(404, 409, 422, 429, 503, 504),
    },
)
async def openenv_state(request: Request, episode_id: EpisodeId = None) -> Response:
    """Return the state of an episode; without an `episode_id` the state before the first reset."""
    if episode_id is None:
        return _json(NO_STATE)
    return _json((await episode_of(services(request), episode_id)).state())


@router.get(
    "/health",
    operation_id="openenv_health",
    summary="The health of the environment",
    response_class=Response,
    responses={200: {**json_of(OpenEnvHealth), "description": "It is."}, **problems()},
)
async def openenv_health() -> Response:
    """Answer without looking at the database, which `/readyz` does."""
    return _json({"status": "healthy"})


@router.get(
    "/metadata",
    operation_id="openenv_metadata",
    summary="The metadata of the environment",
    response_class=Response,
    responses={200: {**json_of(OpenEnvMetadata), "description": "Name, description and version."}, **problems()},
)
async def openenv_metadata() -> Response:
    """Return the metadata of this environment."""
    return _json(_METADATA)


@router.get(
    "/schema",
    operation_id="openenv_schema",
    summary="JSON Schemas of the environment",
    response_class=Response,
    responses={200: {**json_of(OpenEnvSchemas), "description": "The three schemas."}, **problems()},
)
async def openenv_schema() -> Response:
    """Return the JSON Schemas of `action`, `observation` and `state`."""
    return _json(_SCHEMAS)


def _json(value: Any, *, replayed: bool = False) -> Response:
    headers = {"Cache-Control": "no-store"}
    if replayed:
        headers["Idempotency-Replayed"] = "true"
    return Response(to_json(value), 200, headers, "application/json")
