"""Projections over HTTP: how they stand, and what is to be done with them."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response
from worldledger_projections.engine import BuildStatus, ProjectionStatus
from worldledger_projections.errors import ProjectionNotFoundError

from worldledger.genesis import check_world_name
from worldledger_service.api.context import Services, services
from worldledger_service.api.hosts import refuse_other_sites
from worldledger_service.api.moments import once
from worldledger_service.api.openapi import header, json_of, problems
from worldledger_service.api.parameters import NAMED
from worldledger_service.api.projected import to_json
from worldledger_service.runtime.guarding import doing, reading

router = APIRouter(tags=["projections"], dependencies=[Depends(once)])
#: Those that do something; none of them has a body.
_ORDERS: Final = [Depends(refuse_other_sites)]
T = TypeVar("T")

#: Most parked worlds that are told one by one.
_PARKED: Final = 100

Name = Annotated[str, Path(description="The projection's name.", examples=["games"])]
World = Annotated[str | None, Query(description="Only this world.", examples=["market-town"], json_schema_extra=NAMED)]

_BEGUN: Final = {
    **json_of("Projection"),
    "description": "It goes on by itself; this is how the projection stands.",
    "headers": {"Location": header("Where its progress is seen.")},
}
_DONE: Final = {**json_of("Projection"), "description": "How the projection stands now."}


@router.get(
    "/v1/projections",
    operation_id="list_projections",
    summary="How every projection stands",
    response_class=Response,
    responses={200: {**json_of("ProjectionList"), "description": "All projections, by name."}, **problems(422, 503)},
)
async def list_projections(request: Request) -> Response:
    """Return how each projection stands: how far its live build is behind the logs, and what is being rebuilt."""
    found = services(request)
    told = [_told(found, status) for status in await reading(found.store.outages, found.projections.status())]
    return _json({"projections": told})


@router.get(
    "/v1/projections/{name}",
    operation_id="get_projection",
    summary="How a projection stands",
    response_class=Response,
    responses={200: _DONE, **problems(404, 422, 503)},
)
async def get_projection(request: Request, name: Name) -> Response:
    """Return how one projection stands, with the worlds that it has set aside and why (the first 100)."""
    return await _answer(services(request), name)


@router.post(
    "/v1/projections/{name}/rebuild",
    operation_id="rebuild_projection",
    summary="Build a projection anew from the logs",
    status_code=202,
    response_class=Response,
    dependencies=_ORDERS,
    responses={202: _BEGUN, **problems(403, 404, 409, 422, 503)},
)
async def rebuild(request: Request, name: Name, world: World = None) -> Response:
    """Begin a build beside the live one, which takes its place once it has caught up; people read on meanwhile.

    Whoever feeds the projection fills the build, which survives restarts; asked for again, the one under way goes on.
    With `world`, this process makes that world's rows anew in the live build, in one transaction.
    """
    found = services(request)
    if world is None:
        await _ordered(found, found.projections.rebuild(name))
    else:
        found.projections.engine.check(name)
        check_world_name(world)
        work = partial(found.projections.rebuild_world, name, world)
        await found.jobs.start(name, "rebuild", work, world)
    return await _answer(found, name, 202)


@router.delete(
    "/v1/projections/{name}/rebuild",
    operation_id="cancel_rebuild",
    summary="Cancel a rebuild",
    response_class=Response,
    responses={200: _DONE, **problems(404, 409, 422, 503)},
)
async def cancel_rebuild(request: Request, name: Name) -> Response:
    """Drop the build under way, and end a rebuild of one world by this process; the live build stays as it is."""
    found = services(request)
    found.projections.engine.check(name)
    await found.jobs.cancel(name, "rebuild")
    await _ordered(found, found.projections.cancel(name))
    return await _answer(found, name)


@router.post(
    "/v1/projections/{name}/verify",
    operation_id="verify_projection",
    summary="Check a projection against the logs",
    status_code=202,
    response_class=Response,
    dependencies=_ORDERS,
    responses={202: _BEGUN, **problems(403, 404, 409, 422, 503)},
)
async def verify(request: Request, name: Name) -> Response:
    """Fold every world anew beside the live build and compare all rows: the first that differs is named.

    It goes on in this process; what it found stands in `live.check_report` afterwards.
    """
    found = services(request)
    found.projections.engine.check(name)
    await found.jobs.start(name, "verify", partial(found.projections.verify, name))
    return await _answer(found, name, 202)


@router.post(
    "/v1/projections/{name}/pause",
    operation_id="pause_projection",
    summary="Pause a projection",
    response_class=Response,
    dependencies=_ORDERS,
    responses={200: _DONE, **problems(403, 404, 422, 503)},
)
async def pause(request: Request, name: Name) -> Response:
    """Let nobody write the projection until it is resumed: once this is answered, nobody does."""
    found = services(request)
    await _ordered(found, found.projections.pause(name))
    return await _answer(found, name)


@router.post(
    "/v1/projections/{name}/resume",
    operation_id="resume_projection",
    summary="Resume a projection",
    response_class=Response,
    dependencies=_ORDERS,
    responses={200: _DONE, **problems(403, 404, 422, 503)},
)
async def resume(request: Request, name: Name) -> Response:
    """Let a paused projection go on where it was."""
    found = services(request)
    await _ordered(found, found.projections.resume(name))
    return await _answer(found, name)


@router.post(
    "/v1/projections/{name}/retry",
    operation_id="retry_projection",
    summary="Try again what was set aside",
    response_class=Response,
    dependencies=_ORDERS,
    responses={
        200: {**json_of("Released"), "description": "How many worlds were released for another attempt."},
        **problems(403, 404, 422, 503),
    },
)
async def retry(request: Request, name: Name, world: World = None) -> Response:
    """Release the worlds that the projection has set aside, or one of them; what fails again is set aside again."""
    found = services(request)
    found.projections.engine.check(name)
    if world is not None:
        await reading(found.store.outages, found.store.world(world))
    return _json({"released": await _ordered(found, found.projections.retry(name, world))})


async def _ordered(found: Services, work: Coroutine[Any, Any, T]) -> T:
    """Return what an order comes to, unless the database falls silent: given again it does no harm."""
    return await doing(found.store.outages, work, "look how the projection stands, or send it again")


# -- telling -----------------------------------------------------------------------------------------------


async def _answer(found: Services, name: str, status: int = 200) -> Response:
    outages = found.store.outages
    parked = await reading(outages, found.projections.parked(name, _PARKED))
    statuses = await reading(outages, found.projections.status())
    stands = next((each for each in statuses if each.name == name), None)
    if stands is None:
        raise ProjectionNotFoundError(f"no projection named {name!r}", projection=name)
    value = {**_told(found, stands), "parked_worlds": [_shown(asdict(world), "projection") for world in parked]}
    return _json(value, status, {} if status == 200 else {"Location": f"/v1/projections/{name}"})


def _told(found: Services, status: ProjectionStatus) -> dict[str, Any]:
    checking, rebuilding = (found.jobs.find(status.name, what) for what in ("verify", "rebuild"))
    return {
        "name": status.name,
        "version": status.version,
        "note": status.note,
        "live": _build(status.live),
        "building": _build(status.building),
        "verify": None if checking is None else _shown(checking.value(), "world_id"),
        "rebuild_of_world": None if rebuilding is None else rebuilding.value(),
    }


def _build(build: BuildStatus | None) -> dict[str, Any] | None:
    """Tell of a build; who holds its lease is a name of a machine, so only that somebody does."""
    return None if build is None else {**_shown(asdict(build), "holder"), "held": build.holder is not None}


def _shown(value: dict[str, Any], but: str) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name != but}


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(value), status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")
