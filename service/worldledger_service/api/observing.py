"""Observing over HTTP: an agent's view, and what changes in it, by long poll or as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import orjson
from fastapi import APIRouter, Depends, Query
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from worldledger.aio import QueueClosedError
from worldledger.canonical import MAX_INT
from worldledger.moments import HEAD, Moment
from worldledger_service.api.agents_of_worlds import (
    _DELTA,
    _EVENT,
    PAGE_BYTES,
    PATIENCE,
    AgentId,
    AgentView,
    ObservationDelta,
    ObservedEvent,
    Wait,
    delta_of,
    etag_of,
    observation_event,
    reading_on,
    sse,
    view_of,
    within,
)
from worldledger_service.api.answers import PRIVATE, not_modified, to_json
from worldledger_service.api.context import Services, services
from worldledger_service.api.openapi import Shape, header, json_of, problems
from worldledger_service.api.parameters import (
    AfterSeq,
    At,
    Kind,
    LastEventId,
    Limit,
    UntilSeq,
    WorldName,
    check_reached,
    next_link,
    once,
    one_moment,
    whole,
)
from worldledger_service.api.reading import EVENT_STREAM, KEEPALIVE, event_id
from worldledger_service.api.routing import EscapedRoute
from worldledger_service.api.streaming import Stream
from worldledger_service.runtime.guarding import guarded

if TYPE_CHECKING:
    from worldledger_service.runtime import Orchestrator, Subscription


# -- shapes ------------------------------------------------------------------------------------------------


class Observations(Shape):
    """The deltas that were due, in order."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"deltas": [_DELTA], "view_seq": 42}]})

    deltas: list[ObservationDelta]
    view_seq: int = Field(ge=0, description="The `after` of the next request.")
    view: AgentView | None = Field(
        default=None, description="The view that the first delta applies to, if the request named none."
    )


class ObservedEvents(Shape):
    """A page of events that an agent could see, ascending."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"events": [_EVENT], "through_seq": 42, "next_after_seq": None}]},
    )

    events: list[ObservedEvent]
    through_seq: int = Field(ge=0, description="Up to here the page has everything that was asked for.")
    next_after_seq: int | None = Field(description="The after_seq of the next page; null when this is the last.")


# -- routes -------------------------------------------------------------------------------------------------

router = APIRouter(route_class=EscapedRoute, tags=["agents"], dependencies=[Depends(once)])

_DEFAULT: Final = 100
#: Most deltas that are made into one chunk of a stream.
_AT_ONCE: Final = 64


@router.get(
    "/v1/worlds/{world}/agents/{agent_id}/view",
    operation_id="get_view",
    summary="The view of an agent",
    response_class=Response,
    responses={
        200: {
            **json_of(AgentView),
            "description": "The view.",
            "headers": {"ETag": header('`"<view_seq>:<first 16 digits of context_digest>"`')},
        },
        304: {"description": "The view is still the one that If-None-Match names."},
        **problems(404, 422, 503),
    },
)
async def get_view(
    request: Request,
    world: WorldName,
    agent_id: AgentId,
    at: At = None,
    at_seq: Annotated[
        int | None, whole(1), Query(ge=1, le=MAX_INT, description="The view that the agent had after this global_seq.")
    ] = None,
    turn: Annotated[
        int | None,
        whole(0),
        Query(
            ge=0,
            le=MAX_INT,
            description="The view that the agent had at the end of this turn, in a world that has turns.",
        ),
    ] = None,
) -> Response:
    """Return an agent's view: the latest that it may know, or the one that it had at a moment.

    Only the agent itself may keep it: shared caches are told not to.
    """
    moment = one_moment(at, at_seq=at_seq, turn=turn)
    found = services(request)
    if moment not in {HEAD, Moment(seq=at_seq)}:
        world, at_seq = await guarded(found.store.outages, _place_of(found, world, moment))
    inhabited = await found.worlds.get(world)
    await inhabited.fold_known(PATIENCE)
    view = await inhabited.view(agent_id, at_seq=at_seq)
    headers = {"ETag": etag_of(view), "Cache-Control": PRIVATE}
    return not_modified(request, headers) or Response(to_json(view_of(view)), 200, headers, "application/json")


async def _place_of(found: Services, world_id: str, moment: Moment) -> tuple[str, int]:
    record, seq = await found.store.states.place_at(await found.store.world(world_id), moment)
    return record.world_id, seq


@router.get(
    "/v1/worlds/{world}/agents/{agent_id}/observations",
    operation_id="get_observations",
    summary="The observations of an agent, by long poll or as a stream",
    response_class=Response,
    responses={
        200: {
            "description": "Observations in order. As events named `observation`, `id` is the view_seq and `data` the "
            "ObservationDelta; the first is a `view` where no position was named.",
            "content": {
                **json_of(Observations)["content"],
                EVENT_STREAM: {
                    "schema": {"type": "string"},
                    "example": 'event: observation\nid: 42\ndata: {"view_seq":42,"patches":[],"events":[]}\n\n',
                },
            },
        },
        **problems(404, 409, 422, 503),
    },
)
async def get_observations(
    request: Request,
    world: WorldName,
    agent_id: AgentId,
    after: Annotated[
        int | None,
        whole(0),
        Query(ge=0, le=MAX_INT, description="Begin after this view_seq, which is acknowledged; by default, with now."),
    ] = None,
    wait: Wait = 0.0,
    limit: Limit = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Return what an agent observes after a view that it has: patches that turn one view into the next, and events.

    Nothing is lost between two requests: each names as `after` the `view_seq` of the one before, and so acknowledges
    it. Where none is named, the answer has the present `view` to begin with. With `Accept: text/event-stream` it is a
    stream; a client that was cut off continues after the last `id` it got.
    """
    found = services(request)
    parameter, where = "after", "query"
    if last_event_id is not None:
        after, parameter, where = event_id(last_event_id), "Last-Event-ID", "header"
    inhabited = await found.worlds.get(world)
    await inhabited.fold_known(PATIENCE)
    with reading_on(parameter, where):
        subscription = await inhabited.subscribe(agent_id, view_seq=after)
    if after is not None:
        inhabited.acknowledge(agent_id, after)
    headers = {"Cache-Control": "private, no-store", "Vary": "Accept"}
    if EVENT_STREAM in request.headers.get("accept", "").lower():
        return Stream(
            _events(found, inhabited, subscription),
            EVENT_STREAM,
            {**headers, "X-Accel-Buffering": "no"},
            stopping=found.stopping,
            endless=True,
            on_end=subscription.close,
        )
    wanted = min(_DEFAULT if limit is None else limit, found.settings.page_limit)
    async with subscription:
        texts = await _poll(request, found, subscription, wait, wanted)
    parts = [b'{"deltas":[%b],"view_seq":%d' % (b",".join(texts), subscription.view_seq)]
    if subscription.view is not None:
        parts.append(b',"view":%b' % to_json(view_of(subscription.view)))
    return Response(b"".join([*parts, b"}"]), 200, headers, "application/json")


async def _poll(
    request: Request, found: Services, subscription: Subscription, seconds: float, limit: int
) -> list[bytes]:
    """Return the deltas that are due; where there are none, wait for one and give it with those that come with it."""
    texts: list[bytes] = []
    size = 0
    # A subscription that is closed belongs to a world that is being closed: the client comes again.
    with suppress(QueueClosedError):
        due = subscription.get_due(1)
        if not due and seconds > 0:
            delta = await within(request, found.stopping, seconds, subscription.get())
            due = [] if delta is None else [delta]
        while due:
            texts.append(orjson.dumps(delta_of(due[0])))
            size += len(texts[-1])
            due = subscription.get_due(1) if len(texts) < limit and size < PAGE_BYTES else []
    found.metrics.observed(len(texts))
    return texts


async def _events(found: Services, world: Orchestrator, subscription: Subscription) -> AsyncGenerator[bytes, None]:
    """Return chunks of whole events, and a comment where there is nothing to tell for long."""
    yield b": after %d\n\n" % subscription.view_seq
    view = subscription.view
    if view is not None:
        yield sse("view", view.view_seq, to_json(view_of(view)))
    while True:
        try:
            async with asyncio.timeout(found.keepalive):
                deltas = [await subscription.get()]
            deltas += subscription.get_due(_AT_ONCE - 1)
        except TimeoutError:
            if world.broken:
                return
            yield KEEPALIVE
        except QueueClosedError:
            return
        else:
            found.metrics.observed(len(deltas))
            yield b"".join(map(observation_event, deltas))


@router.get(
    "/v1/worlds/{world}/agents/{agent_id}/events",
    operation_id="get_observed_events",
    summary="Events that an agent could see",
    response_class=Response,
    responses={
        200: {
            **json_of(ObservedEvents),
            "description": "A page of events, ascending.",
            "headers": {"Link": header('`rel="next"`: the next page, if there is one.')},
        },
        **problems(404, 409, 422, 503),
    },
)
async def get_observed_events(
    request: Request,
    world: WorldName,
    agent_id: AgentId,
    after_seq: AfterSeq = 0,
    until_seq: UntilSeq = None,
    kind: Kind = None,
    limit: Limit = None,
) -> Response:
    """Return events of the past as the agent observed them, from the log: what its policy hides is left out.

    What is told by patches alone (entities that came, changed, moved or went) is no event.
    """
    found = services(request)
    record = await guarded(found.store.outages, found.store.world(world))
    check_reached("after_seq", after_seq, record)
    until = record.head_seq if until_seq is None else min(until_seq, record.head_seq)
    inhabited = await found.worlds.get(world)
    await inhabited.reached(until, PATIENCE)
    wanted = min(_DEFAULT if limit is None else limit, found.settings.page_limit)
    events, through = await inhabited.observed_events(
        agent_id, after_seq=after_seq, until_seq=until, kinds=None if kind is None else [kind], limit=wanted
    )
    texts: list[bytes] = []
    size = 0
    for event in events:
        texts.append(orjson.dumps(event))
        size += len(texts[-1])
        if size >= PAGE_BYTES:
            through = event["global_seq"]
            break
    following = through if through < until else None
    body = b'{"events":[%b],"through_seq":%d,"next_after_seq":%b}' % (
        b",".join(texts),
        through,
        b"null" if following is None else b"%d" % following,
    )
    headers = {"Cache-Control": PRIVATE, **({} if following is None else next_link(request, after_seq=following))}
    return Response(body, 200, headers, "application/json")
