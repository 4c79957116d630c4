"""Rounds of social-RL worlds over HTTP, and the policies of their agents at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response
from worldledger_service.api.answers import REVALIDATE, etag, not_modified, to_json
from worldledger_service.api.bodies import idempotency_key, read_json
from worldledger_service.api.context import services
from worldledger_service.api.openapi import REPLAYED, body_of, header, json_of, key_header, problems
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
from worldledger_service.api.problems import Answer
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.api.states import headers_of, responses_of_state, unchanged_of
from worldledger_service.runtime.guarding import SAME_REQUEST, guarded
from worldledger_service.store import WorldRecord
from worldledger_service.store.states import StateAt

from worldledger.canonical import MAX_INT, gate
from worldledger.errors import (
    IllegalEffectError,
    InvalidEffectError,
    MomentNotFoundError,
    OverloadedError,
    RecoveryAction,
    RequestConflictError,
    SimulationError,
)
from worldledger.time_authority import CLIENT, TimeAuthority
from worldledger_social_rl.api.shapes import Policy, Round, RoundPage, RoundReceipt, RoundResult
from worldledger_social_rl.rules import RULESET
from worldledger_social_rl.rules.errors import InvalidRunError
from worldledger_social_rl.rules.recording import round_drafts, write_run
from worldledger_social_rl.rules.words import ENTITY_TYPE, known
from worldledger_social_rl.store import RoundAt, Rounds, in_document, place_of, problem_of

if TYPE_CHECKING:
    from worldledger_service.api.context import Services

    from worldledger.effects import Effect, EffectDraft
    from worldledger.world import WorldState


# -- errors of the routes, and how errors of runs are answered --------------------------------------------


class RoundConflictError(SimulationError):
    """A round that cannot be the next one, or that is there with another content.

    Details: ``round_number``, ``last_round`` (0: none), ``expected`` (what the next one would be).
    """

    code = "round_conflict"
    recovery = RecoveryAction.MODIFY_INTENT


PROBLEMS: Final[Mapping[type[SimulationError], Answer]] = {
    InvalidRunError: Answer(422, "The round is refused"),
    RoundConflictError: Answer(409, "This is not the round that is wanted"),
}


# -- posting a whole round to a social-RL world: one unit of effects, once --------------------------------
#
# Source: docs/reference/social-rl.md, "Round". A round's number is its identity: the same round again is answered as
# it was the first time, whatever has become of the world since, and another one of that number is refused.


#: How often a round is put together anew because something else was written meanwhile.
_TRIES: Final = 20


class PostedRound(NamedTuple):
    """What became of a round: its first and last effect, the chain's checksum (hex) at the last, and how many.

    ``replayed`` says that an earlier request has written them.
    """

    round_number: int
    first_seq: int
    last_seq: int
    checksum: str
    effects: int
    replayed: bool


class _MovedError(SimulationError):
    """The world is not where it was when the round was put together."""

    code = "moved"


async def append_round(found: Services, world_id: str, value: Any, key: str | None) -> PostedRound:
    """Append a round; ``key`` is the request's own idempotency key, if it has one.

    Raises InvalidRunError with every problem, RoundConflictError, RequestConflictError for a key that was used with
    another body, WorldNotFoundError, OverloadedError or StoreUnavailableError.
    """
    for last in (*(False,) * (_TRIES - 1), True):
        record = await found.store.world(world_id)
        if record.ruleset != RULESET.name:
            what = f"world {world_id!r} is of the ruleset {record.ruleset}: rounds are posted to social-RL worlds"
            raise RoundConflictError(what, world_id=world_id, ruleset=record.ruleset)
        state = (await found.store.states.state_at(world_id, record.head_seq)).state
        drafts = _drafts(record, state, value)
        number: int = drafts[0]["payload"]["round_number"]
        _refuse_too_many(drafts, found.settings.max_unit)
        if known(state)["rounds"] and number <= known(state)["round_number"]:
            return await _made_before(found, record, state, number, drafts)
        _refuse_other_order(state, number)
        try:
            return await _append(found, record, drafts, number, key)
        except _MovedError:
            continue
        except RequestConflictError:
            if last or not await _has_round(found, world_id, number):
                raise
    raise OverloadedError(f"world {world_id!r} is written to by others all the time; try again later")


def _drafts(record: WorldRecord, state: WorldState, value: Any) -> list[EffectDraft]:
    """Return the drafts of a round that is to follow a world's head. Raises InvalidRunError."""
    authority = state.metadata.get("time_authority", record.time_authority)
    try:
        return round_drafts(
            value,
            strict=known(state)["strict"],
            now=None if authority != CLIENT else _own_time(state),
            first_seq=record.head_seq + 1,
            agents=[*state.entities, *state.metadata["agents"]],
        )
    except InvalidRunError as error:
        raise _in_body(error.problems) from None


def _own_time(state: WorldState) -> float:
    """Return the world's time as drafts state it where any may."""
    client = TimeAuthority(CLIENT, state.metadata.get("time_offset", 0.0))
    return client.own_time(state.metadata["last_effect_time"])


def _in_body(problems: Sequence[Mapping[str, Any]]) -> InvalidRunError:
    """Make the error of a body, which has no file's name."""
    return InvalidRunError([{"path": problem["path"], "message": problem["message"]} for problem in problems])


def _refuse_too_many(drafts: Sequence[EffectDraft], most: int) -> None:
    if len(drafts) > most:
        what = f"the round makes {len(drafts)} effects, and a request at most {most}: post its messages one by one"
        raise InvalidRunError([{"path": "$", "message": what}])


def _refuse_other_order(state: WorldState, number: int) -> None:
    """Raise RoundConflictError where a round may not begin, or not this one. It is one that has not begun yet."""
    here = known(state)
    last = here["round_number"] if here["rounds"] else 0
    wanted = last + 1
    if here["round_open"]:
        raise _conflict(f"round {last} is running; end it before round {number} is posted", number, last, wanted)
    if here["strict"] and number != wanted:
        before = f"after round {last} comes" if here["rounds"] else "the first round is"
        raise _conflict(f"{before} round {wanted}, not round {number}", number, last, wanted)


def _conflict(what: str, number: int, last: int, wanted: int) -> RoundConflictError:
    return RoundConflictError(what, round_number=number, last_round=last, expected=wanted)


async def _append(
    found: Services, record: WorldRecord, drafts: list[EffectDraft], number: int, key: str | None
) -> PostedRound:
    """Append the drafts right behind the head that they were made for, or raise _MovedError."""
    head = record.head_seq

    def begins(state: WorldState) -> None:
        if state.metadata["last_effect_seq"] != head:
            raise _MovedError("the head has moved")

    def goes_on(state: WorldState) -> None:
        # Where the request was made before, its first draft is not written again; then neither are the others.
        if state.metadata["last_effect_seq"] != head + 1:
            raise _MovedError("the round is there already")

    drafts[0]["req_id"] = key or f"round:{number}"
    log = await found.store.log(record.world_id)
    try:
        work = log.append_judged(drafts, {0: begins, 1: goes_on})
        receipts = await guarded(found.store.outages, work, again=SAME_REQUEST)
    except InvalidEffectError as error:
        raise InvalidRunError(_problems(drafts, error)) from None
    found.metrics.appended(len(receipts))
    first, last = receipts[0], receipts[-1]
    return PostedRound(number, first.global_seq, last.global_seq, last.checksum, len(receipts), False)


def _problems(drafts: Sequence[EffectDraft], error: InvalidEffectError) -> list[dict[str, Any]]:
    """Say where in the round's document that is which an effect is refused for."""
    told = error.details.get("problems") if isinstance(error, IllegalEffectError) else None
    if not told:
        problem = problem_of(drafts, error)
        return [{"path": problem["path"], "message": problem["message"]}]
    index = error.index or 0
    _, place = place_of(drafts[: index + 1])
    return [
        {"path": in_document(drafts[index], place, problem["path"]), "message": problem["message"]} for problem in told
    ]


async def _has_round(found: Services, world_id: str, number: int) -> bool:
    try:
        await Rounds(found.store.reader).at(await found.store.world(world_id), number)
    except MomentNotFoundError:
        return False
    return True


async def _made_before(
    found: Services, record: WorldRecord, state: WorldState, number: int, drafts: Sequence[EffectDraft]
) -> PostedRound:
    """Return the receipt of a round that is there already, the same one. Raises RoundConflictError for another."""
    here = known(state)
    last = here["round_number"]
    rounds = Rounds(found.store.reader)
    if here["round_open"] and number == last:
        what = f"round {number} is running: what belongs to it is posted one by one until it is ended"
        raise _conflict(what, number, last, last + 1)
    try:
        at = await rounds.at(record, number)
    except MomentNotFoundError:
        what = f"the world is at round {last}, and has no round {number}; the next is round {last + 1}"
        if await found.store.states.parent(record) is not None:
            what = f"round {number} is from before the fork, and cannot be posted here; the next is round {last + 1}"
        raise _conflict(what, number, last, last + 1) from None
    (file,) = write_run(cast("Sequence[Effect]", drafts))  # it looks at kinds and payloads alone
    if at.ended_seq is None or await rounds.document(record, at) != file.value:
        what = f"round {number} is there, with another content; the next is round {last + 1}"
        raise _conflict(what, number, last, last + 1)
    ended = await found.store.reader.effect(record.world_id, at.ended_seq)
    count = at.ended_seq - at.first_seq + 1
    return PostedRound(number, at.first_seq, at.ended_seq, ended.checksum.hex(), count, True)


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
            "headers": REPLAYED,
        },
        201: {
            **json_of(RoundReceipt),
            "description": "All of the round is durable.",
            "headers": {"Location": header("Where the round is.")},
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
    openapi_extra={
        "parameters": [key_header("The request's id; `round:` and the round's number where there is none.")],
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
    receipt = await append_round(found, world, value, key)
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
    responses=responses_of_state(
        Policy,
        "Each agent's cues, and the policy of each role.",
        unchanged="The policy is of the state that If-None-Match names; nothing was folded.",
    ),
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
