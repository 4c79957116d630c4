"""Snapshots of worlds over HTTP: which there are, and taking one."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from worldledger.canonical import MAX_INT
from worldledger.genesis import check_world_name
from worldledger.moments import HEAD, Moment
from worldledger_service.api.caching import REVALIDATE
from worldledger_service.api.context import services
from worldledger_service.api.hosts import refuse_other_sites
from worldledger_service.api.moments import At, once, one_moment
from worldledger_service.api.openapi import header, json_of, problems
from worldledger_service.api.parameters import Limit, WorldName, next_link, whole
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.runtime.guarding import doing, reading
from worldledger_service.store import Store

router = APIRouter(route_class=ReadingRoute, tags=["states"], dependencies=[Depends(once)])

_DEFAULT: Final = 100


@router.get(
    "/v1/worlds/{world}/snapshots",
    operation_id="list_snapshots",
    summary="The snapshots of a world",
    response_class=Response,
    responses={
        200: {
            **json_of("SnapshotPage"),
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
            **json_of("Snapshot"),
            "description": "Nothing has happened since the newest snapshot up to that moment: this is it.",
            "headers": {"Location": header("Where the state is.")},
        },
        201: {
            **json_of("Snapshot"),
            "description": "The snapshot that was taken; its digest stands in the log.",
            "headers": {"Location": header("Where the state is.")},
        },
        **problems(403, 404, 422, 503),
    },
)
async def take_snapshot(request: Request, world: WorldName, at: At = None) -> Response:
    """Keep the state at the head, or at another moment, and write its digest into the log as the effect `StateDigest`.

    Snapshots are taken by themselves as a world grows; one taken by hand proves later what the state was at this
    moment. The request has no body.
    """
    store = services(request).store
    moment = one_moment(at)
    with store.outages.silence.asked():
        seq = None if moment == HEAD else await reading(store.outages, _seq_at(store, world, moment))
        known = await reading(store.outages, store.states.newest(world, seq))
        record = await doing(store.outages, store.snapshot(world, seq=seq), "look at the snapshots, or send it again")
    headers = {"Location": f"/v1/worlds/{world}/state?at_seq={record.global_seq}", "Cache-Control": "no-store"}
    return Response(record.model_dump_json(), 200 if known == [record] else 201, headers, "application/json")


async def _seq_at(store: Store, world: str, moment: Moment) -> int:
    return await store.states.seq_at(await store.world(world), **moment._asdict())
