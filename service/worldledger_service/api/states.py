"""States of worlds over HTTP: at any moment, what differs between two, and snapshots."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Depends, Query
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from worldledger.canonical import MAX_INT
from worldledger.errors import MomentNotFoundError
from worldledger.genesis import check_world_name
from worldledger.kinds import DEFAULT
from worldledger.moments import HEAD, Moment, parse_moment
from worldledger.patches import diff
from worldledger.world import WorldState, state_text
from worldledger_service.api.answers import REVALIDATE, checksum_at, not_modified
from worldledger_service.api.context import Services, services
from worldledger_service.api.hosts import refuse_other_sites
from worldledger_service.api.openapi import CHECKSUM, HEX64, GlobalSeq, PatchOperation, Shape, header, json_of, problems
from worldledger_service.api.parameters import (
    NAMED,
    At,
    AtSeq,
    AtSimTime,
    AtTurn,
    AtWallTime,
    From,
    Limit,
    Text,
    To,
    WorldName,
    check_one,
    next_link,
    once,
    one_moment,
    whole,
)
from worldledger_service.api.problems import InvalidParameterError
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.runtime.guarding import guarded
from worldledger_service.store import Store, WorldRecord
from worldledger_service.store.snapshots import SnapshotRecord
from worldledger_service.store.states import StateAt

# -- shapes ------------------------------------------------------------------------------------------------

_STATE: dict[str, Any] = {
    "world_id": "market-town",
    "global_seq": 42,
    "checksum": CHECKSUM,
    "ruleset": DEFAULT,
    "ruleset_version": 1,
    "state_digest": CHECKSUM,
    "state": {
        "entities": {"alice": {"position": [1.0, 2.5, 0.0]}},
        "metadata": {"last_effect_seq": 42},
        "relationships": {},
        "spatial_index": {"alice": [1.0, 2.5, 0.0]},
    },
}


class State(Shape):
    """The state of a world at a place in its chain."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_STATE]})

    world_id: str
    global_seq: GlobalSeq = Field(description="The effect after which the world had this state.")
    checksum: str = Field(pattern=HEX64, description="The chain checksum of that effect.")
    ruleset: str = Field(description="The ruleset that folded the state …")
    ruleset_version: int = Field(description="… in this version.")
    state_digest: str = Field(pattern=HEX64, description="SHA-256 of the bytes of `state`, as they stand here.")
    state: WorldState = Field(description="In the canonical profile `state/1`.")


class StateDiff(Shape):
    """The patch that turns one state of a world into another."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "market-town",
                    "from_seq": 41,
                    "to_seq": 42,
                    "from_digest": CHECKSUM,
                    "to_digest": CHECKSUM,
                    "patch": [{"op": "replace", "path": "/entities/alice/position", "value": [1.0, 2.5, 0.0]}],
                }
            ]
        },
    )

    world_id: str
    from_seq: GlobalSeq
    to_seq: GlobalSeq
    to_world: str | None = Field(default=None, description="The world of the other state, where `to_world` named one.")
    from_digest: str = Field(pattern=HEX64, description="The digest of the state that the patch applies to.")
    to_digest: str = Field(pattern=HEX64, description="The digest of the state that it gives.")
    patch: list[PatchOperation]


class Snapshot(SnapshotRecord):
    """A state that is kept: see `state`."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SnapshotPage(Shape):
    """A page of a world's snapshots, ascending."""

    world_id: str
    snapshots: list[Snapshot]
    next_after_seq: int | None = Field(description="The after_seq of the next page; null when this is the last.")


# -- routes -------------------------------------------------------------------------------------------------

router = APIRouter(route_class=ReadingRoute, tags=["states"], dependencies=[Depends(once)])


def responses_of_state(shape: type[Shape], what: str, *, unchanged: str, seq: str = "seq") -> dict[int | str, Any]:
    """Return the responses of a route whose answer is made of one state: ``seq`` is what its place is called there."""
    tag = f'`"<world>:<{seq}>:<first 8 digits of the checksum>:<ruleset><ruleset_version>"`'
    return {
        200: {**json_of(shape), "description": what, "headers": {"ETag": header(tag)}},
        304: {"description": unchanged},
        **problems(404, 422, 503),
    }


@router.get(
    "/v1/worlds/{world}/state",
    operation_id="get_state",
    summary="The state of a world at any moment",
    response_class=Response,
    responses=responses_of_state(
        State,
        "The state, and the place in the chain that it is of.",
        unchanged="The state is the one that If-None-Match names; nothing was folded.",
    ),
)
async def get_state(
    request: Request,
    world: WorldName,
    at: At = None,
    at_seq: AtSeq = None,
    at_sim_time: AtSimTime = None,
    at_wall_time: AtWallTime = None,
    at_turn: AtTurn = None,
) -> Response:
    """Return the state at a moment: after a `global_seq`, at the end of a step, turn or round, at a time, or now.

    The state is folded from the log alone. `state` stands in the answer in the canonical profile `state/1`, so that
    `state_digest` is the SHA-256 of its bytes. A state is only ever one of a ruleset's version: where a later version
    of the ruleset folds the same effects otherwise, the ETag is another one, and no answer is immutable.
    """
    moment = one_moment(at, at_seq=at_seq, at_sim_time=at_sim_time, at_wall_time=at_wall_time, at_turn=at_turn)
    found = services(request)
    record = await found.store.world(world)
    record, seq = await found.store.states.place_at(record, moment)
    unchanged = await unchanged_of(request, found, record, seq)
    if unchanged is not None:
        return unchanged
    state = await found.store.states.state_at(record.world_id, seq)
    return Response(_body(state), 200, headers_of(state), "application/json")


def _body(state: StateAt) -> bytes:
    return (
        b'{"world_id":"%b","global_seq":%d,"checksum":"%b","ruleset":%b,"ruleset_version":%d,"state_digest":"%b",'
        b'"state":%b}'
    ) % (
        state.world_id.encode(),
        state.global_seq,
        state.checksum.encode(),
        orjson.dumps(state.ruleset),
        state.ruleset_version,
        state.state_digest.encode(),
        state.text,
    )


@router.get(
    "/v1/worlds/{world}/diff",
    operation_id="get_diff",
    summary="The difference between two states of a world",
    response_class=Response,
    responses={
        200: {
            **json_of(StateDiff),
            "description": "A JSON Patch (RFC 6902) that turns the one state into the other.",
            "headers": {"ETag": header("Stands for both places in the chain and the ruleset's version.")},
        },
        304: {"description": "The difference is the one that If-None-Match names; nothing was folded."},
        **problems(404, 422, 503),
    },
)
async def get_diff(
    request: Request,
    world: WorldName,
    start: From = None,
    end: To = None,
    from_seq: Annotated[
        int | None, whole(1), Query(ge=1, le=MAX_INT, description="The same as `from`, as a global_seq.")
    ] = None,
    to_seq: Annotated[
        int | None, whole(1), Query(ge=1, le=MAX_INT, description="The same as `to`, as a global_seq.")
    ] = None,
    to_world: Annotated[
        Text | None,
        Query(
            min_length=1,
            max_length=200,
            description="The other state is one of this world.",
            json_schema_extra=NAMED,
        ),
    ] = None,
) -> Response:
    """Return the patch from one state to another, earlier or later, or of another world.

    It has the operations `add`, `remove` and `replace` only, objects are descended into in the order of their keys,
    and lists are replaced whole: the same two states always give the same patch.
    """
    check_one(**{"from": start, "from_seq": from_seq})
    check_one(to=end, to_seq=to_seq)
    if start is None and from_seq is None:
        raise InvalidParameterError("from", "is missing")
    moments = [Moment(seq) if at is None else parse_moment(at) for at, seq in ((start, from_seq), (end, to_seq))]
    found = services(request)
    record = await found.store.world(world)
    other = record if to_world is None else await found.store.world(to_world)
    older, since = await found.store.states.place_at(record, moments[0])
    newer, until = await found.store.states.place_at(other, moments[1])
    same = older.world_id == newer.world_id
    if same:
        unchanged = await unchanged_of(request, found, older, since, until)
        if unchanged is not None:
            return unchanged
    before = await found.store.states.state_at(older.world_id, since)
    after = before if same and since == until else await found.store.states.state_at(newer.world_id, until)
    named = b"" if to_world is None else b'"to_world":"%b",' % to_world.encode()
    body = b'{"world_id":"%b","from_seq":%d,"to_seq":%d,%b"from_digest":"%b","to_digest":"%b","patch":%b}' % (
        world.encode(),
        since,
        until,
        named,
        before.state_digest.encode(),
        after.state_digest.encode(),
        await asyncio.to_thread(_patch, before.state, after.state),
    )
    headers = headers_of(before, after) if other.world_id == record.world_id else {"Cache-Control": REVALIDATE}
    return Response(body, 200, headers, "application/json")


def _patch(before: WorldState, after: WorldState) -> bytes:
    """Write the difference, its values as they stand in the states' own texts."""
    return state_text(diff(before.to_value(), after.to_value()))


# -- validators --------------------------------------------------------------------------------------------


def headers_of(*states: StateAt) -> dict[str, str]:
    """Return the headers of an answer that is made of these states of one world."""
    first = states[0]
    places = [(state.global_seq, state.checksum) for state in states]
    return _validators(first.world_id, places, f"{first.ruleset}{first.ruleset_version}")


def _validators(world_id: str, places: list[tuple[int, str]], rules: str) -> dict[str, str]:
    at = ":".join(f"{seq}:{checksum[:8]}" for seq, checksum in places)
    return {"ETag": f'"{world_id}:{at}:{quote(rules, safe="")}"', "Cache-Control": REVALIDATE}


async def unchanged_of(request: Request, found: Services, record: WorldRecord, *seqs: int) -> Response | None:
    """Return a 304 where the client has the states at these seqs, before anything is folded."""
    if "if-none-match" not in request.headers:
        return None
    ruleset = (await found.store.states.rules(record.world_id)).ruleset
    places = [(seq, await checksum_at(found.store, record, seq)) for seq in seqs]
    return not_modified(request, _validators(record.world_id, places, f"{ruleset.name}{ruleset.version}"))


# -- snapshots ---------------------------------------------------------------------------------------------


_DEFAULT: Final = 100


@router.get(
    "/v1/worlds/{world}/snapshots",
    operation_id="list_snapshots",
    summary="The snapshots of a world",
    response_class=Response,
    responses={
        200: {
            **json_of(SnapshotPage),
            "description": "A page of snapshots, ascending.",
            "headers": {"Link": header('`rel="next"`: the next page, if there is one.')},
        },
        **problems(404, 422, 503),
    },
)
async def list_snapshots(
    request: Request,
    world: WorldName,
    after_seq: Annotated[int, whole(0), Query(ge=0, le=MAX_INT, description="Give snapshots after this seq.")] = 0,
    limit: Limit = None,
) -> Response:
    """Return a page of a world's snapshots: the states that are kept, from which all others are folded.

    They are a cache, so the list changes: old ones are thinned out, and those that do not hold are made again.
    """
    found = services(request)
    wanted = min(_DEFAULT if limit is None else limit, found.settings.page_limit)
    records = await found.store.states.page(check_world_name(world), after=after_seq, limit=wanted + 1)
    shown = records[:wanted]
    more = len(records) > wanted
    position = shown[-1].global_seq if more else None
    headers = {"Cache-Control": REVALIDATE, **(next_link(request, after_seq=position) if more else {})}
    texts = ",".join(record.model_dump_json() for record in shown)
    following = "null" if position is None else str(position)
    body = f'{{"world_id":"{world}","snapshots":[{texts}],"next_after_seq":{following}}}'
    return Response(body, 200, headers, "application/json")


@router.post(
    "/v1/worlds/{world}/snapshots",
    operation_id="take_snapshot",
    summary="Take a snapshot of a world, now or at an earlier moment",
    status_code=201,
    response_class=Response,
    dependencies=[Depends(refuse_other_sites)],
    responses={
        200: {
            **json_of(Snapshot),
            "description": "Nothing has happened since the newest snapshot up to that moment: this is it.",
            "headers": {"Location": header("The address of the state.")},
        },
        201: {
            **json_of(Snapshot),
            "description": "The snapshot that was taken; its digest is in the log.",
            "headers": {"Location": header("The address of the state.")},
        },
        **problems(403, 404, 409, 422, 503),
    },
)
async def take_snapshot(request: Request, world: WorldName, at: At = None) -> Response:
    """Keep the state at the head, or at another moment, and write its digest into the log as the effect `StateDigest`.

    Snapshots are taken by themselves as a world grows; one taken by hand proves later what the state was at this
    moment. The request has no body.
    """
    store = services(request).store
    moment = one_moment(at)
    with store.outages.watchdog.asked():
        seq = None if moment == HEAD else await guarded(store.outages, _seq_at(store, world, moment))
        known = await guarded(store.outages, store.states.newest(world, seq))
        record = await guarded(
            store.outages, store.snapshot(world, seq=seq), again="look at the snapshots, or send it again"
        )
    headers = {"Location": f"/v1/worlds/{world}/state?at_seq={record.global_seq}", "Cache-Control": "no-store"}
    return Response(record.model_dump_json(), 200 if known == [record] else 201, headers, "application/json")


async def _seq_at(store: Store, world: str, moment: Moment) -> int:
    found, seq = await store.states.place_at(await store.world(world), moment)
    if found.world_id != world:
        what = f"that moment lies before world {world!r} was forked: ask its parent, {found.world_id!r}"
        raise MomentNotFoundError(what, world_id=world, parent=found.world_id, global_seq=seq)
    return seq
