"""From the options to the projections: what their commands have in common."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from worldledger.errors import StoreUnavailableError
from worldledger_service.cli.connect import Target, database, opened
from worldledger_service.collecting import collect_seldom
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger_service.projecting.engine import BuildStatus, Engine, ProjectionStatus
    from worldledger_service.settings import Settings
    from worldledger_service.store import Store

T = TypeVar("T")

Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME…", help="Projections' names.", show_default="with --all, every one")
]
All = Annotated[bool, typer.Option("--all", help="All projections.")]

#: Seconds between two looks at how far a build has come.
LOOK: Final = 0.1
#: Seconds between two attempts while the database is away.
PAUSE: Final = 0.5


@dataclass(frozen=True)
class Feeding:
    """Some projections on an open store."""

    store: Store
    engine: Engine
    url: str
    holder: str

    async def do(self, work: Awaitable[T]) -> T:
        """Do something with the engine; what the database raises comes out as StoreUnavailableError."""
        from worldledger_service.database.failures import explained  # noqa: PLC0415

        with explained(self.url):
            return await work

    async def status(self, names: Container[str] | None = None) -> dict[str, ProjectionStatus] | None:
        """Return how projections stand (by default all), by name; None while the database is away."""
        try:
            found = await self.do(self.engine.status())
        except StoreUnavailableError:
            return None
        return {status.name: status for status in found if names is None or status.name in names}

    def is_mine(self, build: BuildStatus) -> bool:
        """Tell whether this process holds a build's lease, or nobody does."""
        return build.holder in {None, self.holder}


def known(where: Target, names: Sequence[str]) -> list[str]:
    """Return the names, each once.

    Raises ProjectionNotFoundError, which lists those that there are, or says that only the database has it.
    """
    from worldledger_projections.errors import ProjectionNotFoundError  # noqa: PLC0415
    from worldledger_projections.registry import find  # noqa: PLC0415

    from worldledger_service.projecting.status import NAMED  # noqa: PLC0415

    try:
        return [find(name, where.settings.own_projections).name for name in dict.fromkeys(names)]
    except ProjectionNotFoundError as error:
        name = error.details["projection"]
        with suppress(StoreUnavailableError):
            if name in with_projections(where, (), _in_database):
                what = f"the projection {name!r} is in the database, but not in this program; {NAMED}"
                raise ProjectionNotFoundError(what, **error.details) from None
        raise


async def _in_database(feeding: Feeding) -> set[str]:
    return {status.name for status in await feeding.do(feeding.engine.status())}


def chosen(where: Target, names: Sequence[str] | None, *, every: bool) -> list[str]:
    """Return the names that a command is for. Raises BadParameter, or ProjectionNotFoundError as `known` does."""
    if bool(names) == every:
        raise typer.BadParameter("name projections, or give --all for every one")
    return every_name(where) if every else known(where, names or ())


def every_name(where: Target) -> list[str]:
    """Return the names of all projections."""
    from worldledger_service.projecting.engine import projections_of  # noqa: PLC0415

    return sorted(projections_of(where.settings))


def with_projections(
    where: Target,
    names: Sequence[str],
    work: Callable[[Feeding], Coroutine[Any, Any, T]],
    *,
    serving: bool = False,
) -> T:
    """Open the store and an engine that feeds these projections and no others, and do the work."""
    with database(where, serving=serving) as url:
        return run_blocking(_work(url, where.settings, names, work))


async def _work(
    url: str, settings: Settings, names: Sequence[str], work: Callable[[Feeding], Coroutine[Any, Any, T]]
) -> T:
    async with opened(url, settings) as store, _feeding(url, settings, store, names) as feeding:
        return await work(feeding)


@asynccontextmanager
async def _feeding(url: str, settings: Settings, store: Store, names: Sequence[str]) -> AsyncIterator[Feeding]:
    from worldledger_service.projecting.engine import Engine, projections_of  # noqa: PLC0415

    collect_seldom()
    holder = f"{socket.gethostname()}/{os.getpid()}"
    projections = projections_of(settings)
    only = [projections[name] for name in names]
    async with Engine.open(store, url, settings, only=only, holder=holder) as found:
        yield Feeding(store, found, url, holder)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Do something beside the block, and stop it at the end."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
