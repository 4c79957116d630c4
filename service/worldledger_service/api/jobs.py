"""Work on projections that goes on after its request was answered: checks, and rebuilds of single worlds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

import structlog
from worldledger_projections.errors import ProjectionRefusedError

from worldledger.errors import SimulationError
from worldledger_service.api.errors import InternalError
from worldledger_service.api.problems import told
from worldledger_service.projecting import Progress

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
