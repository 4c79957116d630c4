"""Rounds of social-RL worlds over HTTP, and the policies of their agents at any moment."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response
from worldledger_service.api.answers import REVALIDATE, etag, not_modified, to_json
from worldledger_service.api.bodies import idempotency_key, read_json
from worldledger_service.api.context import services
from worldledger_service.api.openapi import body_of, header, json_of, problems
from worldledger_service.api.parameters import (
    AfterSeq,
    At,
    AtSeq,
    AtSimTime,
    AtWallTime,
    Limit,
    WorldName,
    next_link,
    once,
    one_moment,
    whole,
)
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.api.states import headers_of, unchanged_of
from worldledger_service.store import WorldRecord
from worldledger_service.store.states import StateAt

from worldledger.canonical import MAX_INT, gate
from worldledger.errors import InvalidEffectError, MomentNotFoundError
from worldledger_social_rl.api.round_posts import post_round as post
from worldledger_social_rl.api.shapes import Policy, Round, RoundPage, RoundReceipt, RoundResult
from worldledger_social_rl.rules import RULESET
from worldledger_social_rl.rules.errors import InvalidRunError
from worldledger_social_rl.rules.words import ENTITY_TYPE, known
from worldledger_social_rl.store.rounds import RoundAt, Rounds

router = APIRouter(route_class=ReadingRoute, tags=["rounds"], dependencies=[Depends(once)])

_DEFAULT: Final = 100


@router.post(
    "/v1/worlds/{world}/rounds",
    operation_id="post_round",
    summary="Append a whole round of a social-RL run",
    status_code=201,
    response_class=Response,
    responses={
        200: {
            **json_of(RoundReceipt),
            "description": "The same round is there already; this is its first receipt.",
            "headers": {"Idempotency-Replayed": header("`true`")},
        },
        201: {
            **json_of(RoundReceipt),
            "description": "All of the round is durable.",
            "headers": {"Location": header("Where the round is.")},
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
    openapi_extra={
        "parameters": [
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "The request's id; `round:` and the round's number where there is none.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
            }
        ],
        "requestBody": body_of(RoundResult),
    },
)
async def post_round(request: Request, world: WorldName) -> Response:
    """Append a round as one unit: its start, messages, feedback, adaptations, synthesis and end, or nothing of it.

    The body is what a file `roundN_social_rl.json` holds. It is the round after the last one, which has ended. The same
    round again is answered with the first receipt, whatever has come since; another one of its number is 409
    `round_conflict`, which says what is `expected`. What is not as it should be is 422 `invalid_run`, and `problems`
    has all of it; worlds whose configuration has `"strict": false` take such a round, as far as they can.
    """
    found = services(request)
    key = idempotency_key(request)
    try:
        value = await read_json(request, found.settings.max_body_bytes)
        gate(value)
    except InvalidEffectError as error:
        raise InvalidRunError([{"path": error.path, "message": error.reason}]) from None
    receipt = await post(found, world, value, key)
    headers = {"Cache-Control": "no-store"}
    if receipt.replayed:
        headers["Idempotency-Replayed"] = "true"
    else:
        headers["Location"] = f"/v1/worlds/{world}/rounds/{receipt.round_number}"
    body = to_json({"world_id": world, **receipt._asdict()})
    return Response(body, 200 if receipt.replayed else 201, headers, "application/json")


@router.get(
    "/v1/worlds/{world}/rounds",
    operation_id="list_rounds",
    summary="The rounds of a social-RL run",
    response_class=Response,
    responses={
        200: {
            **json_of(RoundPage),
            "description": "A page of rounds.",
            "headers": {"Link": header('`rel="next"`: the next page, if there is one.')},
        },
        **problems(404, 422, 503),
    },
)
async def list_rounds(request: Request, world: WorldName, after_seq: AfterSeq = 0, limit: Limit = None) -> Response:
    """Return the rounds that begin after a `global_seq`, in the order of the log: where each stands and what is in it.

    A world of another ruleset has none, and is 404 `moment_not_found`.
    """
    found = services(request)
    record = await _social_world(request, world)
    wanted = min(_DEFAULT if limit is None else limit, found.settings.page_limit)
    rounds = await Rounds(found.store.reader).page(record, after=after_seq, limit=wanted + 1)
    more = len(rounds) > wanted
    page = rounds[:wanted]
    following = page[-1].first_seq if more else None
    headers = {"Cache-Control": REVALIDATE, **({} if following is None else next_link(request, after_seq=following))}
    body = {"world_id": world, "rounds": [_told(at) for at in page], "next_after_seq": following}
    return Response(to_json(body), 200, headers, "application/json")


@router.get(
    "/v1/worlds/{world}/rounds/{round_number}",
    operation_id="get_round",
    summary="A round of a social-RL run, as its file has it",
    response_class=Response,
    responses={
        200: {
            **json_of(Round),
            "description": "The round, whole or as far as it has come.",
            "headers": {"ETag": header('`"<world>:<last_seq>:<first 8 digits of the checksum>"`')},
        },
        304: {"description": "The round is as the client that sent If-None-Match has it."},
        **problems(404, 422, 503),
    },
)
async def get_round(
    request: Request,
    world: WorldName,
    round_number: Annotated[int, whole(0), Path(ge=0, le=MAX_INT, description="The round's number.")],
) -> Response:
    """Return where a round begins and ends in the log, and what its file `roundN_social_rl.json` holds as `result`.

    A round with more than 64 MiB in the log is 404: its effects can be read.
    """
    found = services(request)
    record = await found.store.world(world)
    rounds = Rounds(found.store.reader)
    at = await rounds.at(record, round_number)
    last = await found.store.reader.effect(world, at.last_seq)
    checksum = last.checksum.hex()
    headers = {"ETag": etag(world, at.last_seq, checksum), "Cache-Control": REVALIDATE}
    unchanged = not_modified(request, headers)
    if unchanged is not None:
        return unchanged
    result = await rounds.document(record, at)
    value = {"world_id": world, **_told(at), "checksum": checksum, "result": result}
    return Response(await asyncio.to_thread(to_json, value), 200, headers, "application/json")


@router.get(
    "/v1/worlds/{world}/policy",
    operation_id="get_policy",
    summary="The cues of the agents of a social-RL run at any moment",
    response_class=Response,
    responses={
        200: {
            **json_of(Policy),
            "description": "Each agent's cues, and the policy of each role.",
            "headers": {
                "ETag": header('`"<world>:<seq>:<first 8 digits of the checksum>:<ruleset><ruleset_version>"`')
            },
        },
        304: {"description": "The policy is of the state that If-None-Match names; nothing was folded."},
        **problems(404, 422, 503),
    },
)
async def get_policy(
    request: Request,
    world: WorldName,
    at: At = None,
    at_seq: AtSeq = None,
    at_sim_time: AtSimTime = None,
    at_wall_time: AtWallTime = None,
) -> Response:
    """Return which cues each agent has, how strongly and since which round, at a moment.

    They follow from the adaptations and policy states up to there. `roles` has the last policy state of each role.
    """
    moment = one_moment(at, at_seq=at_seq, at_sim_time=at_sim_time, at_wall_time=at_wall_time)
    found = services(request)
    record = await _social_world(request, world)
    record, seq = await found.store.states.place_at(record, moment)
    unchanged = await unchanged_of(request, found, record, seq)
    if unchanged is not None:
        return unchanged
    state = await found.store.states.state_at(record.world_id, seq)
    return Response(await asyncio.to_thread(to_json, _policy(state)), 200, headers_of(state), "application/json")


async def _social_world(request: Request, world_id: str) -> WorldRecord:
    """Return a world of the ruleset. Raises WorldNotFoundError, and MomentNotFoundError for a world of another one."""
    record = await services(request).store.world(world_id)
    if record.ruleset != RULESET.name:
        what = f"world {world_id!r} has no rounds and no policies of cues: its ruleset is {record.ruleset}"
        raise MomentNotFoundError(what, world_id=world_id, head_seq=record.head_seq)
    return record


def _told(at: RoundAt) -> dict[str, Any]:
    value = at._asdict()
    number = value.pop("round_number")
    return {"round_number": number, "status": "open" if at.ended_seq is None else "ended", **value}


def _policy(found: StateAt) -> dict[str, Any]:
    here = known(found.state)
    latest = here["policy_state"]
    agents = {
        name: {"role": entity["role"], "name": entity["name"], "cues": entity["cues"]}
        for name, entity in sorted(found.state.entities.items())
        if entity["type"] == ENTITY_TYPE
    }
    return {
        "world_id": found.world_id,
        "global_seq": found.global_seq,
        "checksum": found.checksum,
        "round_number": here["round_number"] if here["rounds"] else None,
        "round_open": here["round_open"],
        "agents": agents,
        "roles": {} if latest is None else latest["policies"],
        "policy_state": None if latest is None else {name: latest[name] for name in latest if name != "policies"},
    }
