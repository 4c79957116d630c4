"""Projections over HTTP: how they stand, and what is to be done with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeVar

import structlog
from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model
from starlette.requests import Request
from starlette.responses import Response
from worldledger_projections.base import Projection as Definition
from worldledger_projections.base import ProjectionNotFoundError, ProjectionRefusedError
from worldledger_projections.tables import LONGEST_NAME, NAME_PATTERN

from worldledger.errors import SimulationError
from worldledger.genesis import check_world_name
from worldledger_service.api.answers import to_json
from worldledger_service.api.context import Services, services
from worldledger_service.api.hosts import refuse_other_sites
from worldledger_service.api.openapi import Shape, header, json_of, problems
from worldledger_service.api.parameters import NAMED, once
from worldledger_service.api.problems import InternalError, told
from worldledger_service.projecting.engine import BuildStatus, Progress, ProjectionStatus
from worldledger_service.runtime.guarding import guarded

# -- shapes ------------------------------------------------------------------------------------------------


class ProjectionBuild(Shape):
    """One table of one version of a projection."""

    build: str
    version: int
    paused: bool = Field(description="No process writes it until it is resumed.")
    scanning: bool = Field(description="It has not looked at every world yet.")
    worlds_behind: int = Field(description="In how many worlds it has effects to read.")
    effects_behind: int = Field(description="How many.")
    seconds_behind: float | None = Field(description="For how long the first of them has been due; null if none is.")
    parked: int = Field(description="How many worlds are set aside, each because of one effect.")
    skipped: int = Field(description="How many worlds are skipped because their kind is not installed.")
    effects_total: int | None = Field(description="How many effects there were when the build began.")
    effects_done: int = Field(description="How many it has read.")
    started_at: datetime
    finished_at: datetime | None = Field(description="When it went live.")
    check_report: dict[str, JsonValue] | None = Field(description="The result of the last check against the logs.")
    held_back: str | None = Field(description="Why a build that has caught up does not take over.")
    held: bool = Field(description="Whether a runner holds its lease.")


class ProjectionJob(Shape):
    """Work of this process that goes on after its request was answered."""

    status: Literal["running", "finished", "failed", "cancelled"]
    started_at: datetime
    effects_done: int
    effects_total: int | None
    error: dict[str, JsonValue] | None = Field(description="`code` and `detail`, if it failed.")


class WorldRebuild(ProjectionJob):
    """The rebuild of one world."""

    world_id: str


class ParkedWorld(Shape):
    """A world that a build has set aside."""

    build: str
    world_id: str
    global_seq: int = Field(description="The effect that could not be digested.")
    kind: str | None
    error: str
    attempts: int
    parked_at: datetime


class ProjectionSummary(Shape):
    """The status of a projection."""

    name: str
    version: int | None = Field(description="This program's version of it; null if it has none of that name.")
    note: str | None = Field(description="A remark for people, if anything is out of the ordinary.")
    live: ProjectionBuild | None = Field(description="The build that queries read.")
    building: ProjectionBuild | None = Field(description="The build that is to take its place.")
    verify: ProjectionJob | None = Field(description="The last check that this process made.")
    rebuild_of_world: WorldRebuild | None = Field(description="The last rebuild of one world by this process.")


class Projection(ProjectionSummary):
    """The status of a projection, with the worlds that it has set aside."""

    parked_worlds: list[ParkedWorld] = Field(description="The first 100.")


class ProjectionList(Shape):
    """All projections, by name."""

    projections: list[ProjectionSummary]


class Released(Shape):
    """The number of worlds that were released for another attempt."""

    released: int


_TYPES: Final[dict[str, Any]] = {
    "bigint": int,
    "boolean": bool,
    "double precision": float,
    "integer": int,
    "json": JsonValue,
    "text": str,
    "timestamptz": datetime,
}


def row_of(name: str, projection: Definition) -> type[BaseModel]:
    """Make the shape of a projection's rows of its columns."""
    fields: dict[str, Any] = {
        column.name: (
            _TYPES[column.type] | None if column.nullable else _TYPES[column.type],
            Field(description=column.comment),
        )
        for column in projection.columns
    }
    made: type[BaseModel] = create_model(
        name, __config__=ConfigDict(extra="forbid"), __doc__=projection.comment, **fields
    )
    return made


# -- routes -------------------------------------------------------------------------------------------------

router = APIRouter(tags=["projections"], dependencies=[Depends(once)])
#: Those that do something; none of them has a body.
_ORDERS: Final = [Depends(refuse_other_sites)]
T = TypeVar("T")

#: Most parked worlds that are told one by one.
_PARKED: Final = 100

Name = Annotated[
    str,
    Path(
        description="The projection's name.",
        examples=["entities"],
        json_schema_extra={"pattern": f"^{NAME_PATTERN}$", "maxLength": LONGEST_NAME},
    ),
]
World = Annotated[str | None, Query(description="Only this world.", examples=["market-town"], json_schema_extra=NAMED)]

_BEGUN: Final = {
    **json_of(Projection),
    "description": "It goes on by itself; this is the present status of the projection.",
    "headers": {"Location": header("The address of its progress.")},
}
_DONE: Final = {**json_of(Projection), "description": "The present status of the projection."}


@router.get(
    "/v1/projections",
    operation_id="list_projections",
    summary="The status of every projection",
    response_class=Response,
    responses={200: {**json_of(ProjectionList), "description": "All projections, by name."}, **problems(422, 503)},
)
async def list_projections(request: Request) -> Response:
    """Return how each projection stands: how far its live build is behind the logs, and what is being rebuilt."""
    found = services(request)
    told = [_told(found, status) for status in await guarded(found.store.outages, found.projections.status())]
    return _json({"projections": told})


@router.get(
    "/v1/projections/{name}",
    operation_id="get_projection",
    summary="The status of a projection",
    response_class=Response,
    responses={200: _DONE, **problems(404, 422, 503)},
)
async def get_projection(request: Request, name: Name) -> Response:
    """Return how one projection stands, with the worlds that it has set aside and why (the first 100)."""
    return await _answer(services(request), name)


@router.post(
    "/v1/projections/{name}/rebuild",
    operation_id="rebuild_projection",
    summary="Rebuild a projection from the logs",
    status_code=202,
    response_class=Response,
    dependencies=_ORDERS,
    responses={202: _BEGUN, **problems(403, 404, 409, 422, 503)},
)
async def rebuild(request: Request, name: Name, world: World = None) -> Response:
    """Begin a build beside the live one, which takes its place once it has caught up; queries read on meanwhile.

    The process that feeds the projection fills the build, which survives restarts; requested again, the build under way
    goes on. With `world`, this process recomputes that world's rows in the live build, in one transaction.
    """
    found = services(request)
    if world is None:
        await _ordered(found, found.projections.rebuild(name))
    else:
        found.projections.check(name)
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
    found.projections.check(name)
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
    """Fold every world again beside the live build and compare all rows: the first that differs is named.

    It goes on in this process; its result is in `live.check_report` afterwards.
    """
    found = services(request)
    found.projections.check(name)
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
    """Pause the projection until it is resumed: once this is answered, no process writes it."""
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
    """Resume a paused projection where it was."""
    found = services(request)
    await _ordered(found, found.projections.resume(name))
    return await _answer(found, name)


@router.post(
    "/v1/projections/{name}/retry",
    operation_id="retry_projection",
    summary="Try worlds again that were set aside",
    response_class=Response,
    dependencies=_ORDERS,
    responses={
        200: {**json_of(Released), "description": "How many worlds were released for another attempt."},
        **problems(403, 404, 422, 503),
    },
)
async def retry(request: Request, name: Name, world: World = None) -> Response:
    """Release the worlds that the projection has set aside, or one of them; what fails again is set aside again."""
    found = services(request)
    found.projections.check(name)
    if world is not None:
        await guarded(found.store.outages, found.store.world(world))
    return _json({"released": await _ordered(found, found.projections.retry(name, world))})


async def _ordered(found: Services, work: Coroutine[Any, Any, T]) -> T:
    """Return what an order comes to, unless the database falls silent: given again it does no harm."""
    return await guarded(found.store.outages, work, again="look how the projection stands, or send it again")


# -- telling -----------------------------------------------------------------------------------------------


async def _answer(found: Services, name: str, status: int = 200) -> Response:
    outages = found.store.outages
    parked = await guarded(outages, found.projections.parked(name, _PARKED))
    statuses = await guarded(outages, found.projections.status())
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
    """Return a build without the holder of its lease, which names a machine: only whether it is held."""
    return None if build is None else {**_shown(asdict(build), "holder"), "held": build.holder is not None}


def _shown(value: dict[str, Any], but: str) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name != but}


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(value), status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")


# -- work that goes on after its request was answered: checks, rebuilds of single worlds -------------------

What = Literal["verify", "rebuild"]

#: Jobs that run at the same time; others wait.
_AT_ONCE: Final = 2
#: Seconds in which a job that cannot be done is refused in the answer itself.
_AT_FIRST: Final = 0.25

log = structlog.get_logger("worldledger.api")


@dataclass
class Job:
    """One piece of work: ``done`` of ``total`` effects. ``error`` is the code and the reason where it failed."""

    what: What
    world_id: str | None
    started_at: datetime
    status: Literal["running", "finished", "failed", "cancelled"] = "running"
    done: int = 0
    total: int | None = None
    error: dict[str, Any] | None = None
    #: whether the request that began it was answered
    answered: bool = False
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def value(self) -> dict[str, Any]:
        """Return what is shown of the job."""
        return {
            "world_id": self.world_id,
            "status": self.status,
            "started_at": self.started_at,
            "effects_done": self.done,
            "effects_total": self.total,
            "error": self.error,
        }

    def progress(self, done: int, total: int) -> None:
        """Note how far it has come."""
        self.done, self.total = done, total


class Jobs:
    """The last job of each kind for each projection, in this process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[tuple[str, What], Job] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    def find(self, name: str, what: What) -> Job | None:
        """Return a projection's last job of a kind."""
        return self._jobs.get((name, what))

    async def start(
        self, name: str, what: What, work: Callable[[Progress], Awaitable[object]], world_id: str | None = None
    ) -> Job:
        """Start a job, unless the same one is running. Raises what refuses it at once.

        Raises ProjectionRefusedError where one of the kind is running for another world.
        """
        job = self._jobs.get((name, what))
        if job is not None and job.status == "running":
            if job.world_id == world_id:
                return job
            raise ProjectionRefusedError(
                f"projection {name}: world {job.world_id!r} is being rebuilt; cancel that, or wait for its end",
                projection=name,
                world_id=job.world_id,
            )
        before = job
        job = self._jobs[name, what] = Job(what, world_id, datetime.fromtimestamp(self._clock(), UTC))
        refused: list[SimulationError] = []
        job.task = asyncio.get_running_loop().create_task(self._run(name, job, work, refused))
        await asyncio.wait({job.task}, timeout=_AT_FIRST)
        job.answered = True
        if refused:
            if self._jobs.get((name, what)) is job:
                del self._jobs[name, what]
                if before is not None:
                    self._jobs[name, what] = before
            raise refused[0]
        return job

    async def cancel(self, name: str, what: What) -> bool:
        """End a job that is running; return whether there was one. What it had done is taken back."""
        job = self._jobs.get((name, what))
        if job is None or job.task is None or job.task.done():
            return False
        job.task.cancel()
        await asyncio.wait({job.task})
        return True

    async def close(self) -> None:
        """End all that is running."""
        for name, what in list(self._jobs):
            await self.cancel(name, what)

    async def _run(
        self,
        name: str,
        job: Job,
        work: Callable[[Progress], Awaitable[object]],
        refused: list[SimulationError],
    ) -> None:
        try:
            async with self._room:
                await work(job.progress)
            job.status = "finished"
        except asyncio.CancelledError:
            job.status = "cancelled"
            raise
        except SimulationError as error:
            job.status, job.error = "failed", {"code": error.code, "detail": told(error)}
            refused.append(error)
            if job.answered:  # else the answer says it
                log.warning("work on a projection failed", projection=name, what=job.what, error=error.message)
        except Exception:
            log.exception("work on a projection failed", projection=name, what=job.what)
            job.status, job.error = "failed", {"code": InternalError.code, "detail": told(InternalError(""))}
