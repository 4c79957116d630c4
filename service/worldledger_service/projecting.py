"""The engine of the projections as the service uses it: on connections of its own, its errors explained."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from worldledger_projections.base import ANALYTICS
from worldledger_projections.engine import Engine, ParkedWorld, ProjectionStatus, Report
from worldledger_projections.errors import InvalidProjectionError
from worldledger_projections.registry import known

from worldledger_service.database.analytics.views import VIEWS
from worldledger_service.database.engine import connect_pool
from worldledger_service.database.failures import explained
from worldledger_service.store.outages import is_outage

if TYPE_CHECKING:
    from worldledger_projections.base import Projection

    from worldledger_service.settings import Settings
    from worldledger_service.store import Store

T = TypeVar("T")

#: Told how many effects are done, and of how many.
Progress = Callable[[int, int], None]

#: Enough for a runner and its beat, for those who ask, and for two who check or rebuild at the same time.
_CONNECTIONS: Final = 8
APPLICATION_NAME: Final = "worldledger projections"


def projections_of(settings: Settings) -> Mapping[str, Projection]:
    """Return all projections by name, those of the settings among them.

    Raises InvalidProjectionError for one that cannot be used.
    """
    projections = known(settings.own_projections)
    ours = {view.name for view in VIEWS}
    for each in projections.values():
        names = [each.name] if each.published is not None else []
        for name in [*names, *(view.name for view in each.views if view.schema == ANALYTICS)]:
            if name in ours:
                what = f"projection {each.name}: there is a view analytics.{name} already; choose another name"
                raise InvalidProjectionError(what, projection=each.name)
    return projections


class Projections:
    """The projections of this program on a store's database.

    It works whether or not anybody feeds them (`worldledger_service.feeding` does). What the database raises comes out
    as StoreUnavailableError or SchemaVersionError, whatever else is the matter as the engine says it.
    """

    def __init__(self, engine: Engine, database_url: str) -> None:
        self.engine = engine
        self._url = database_url

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: Store,
        database_url: str,
        settings: Settings,
        *,
        only: Iterable[Projection] | None = None,
        holder: str | None = None,
    ) -> AsyncIterator[Projections]:
        """Connect, and close at the end; ``only`` (by default all) and ``holder`` are the engine's.

        Raises StoreUnavailableError or SchemaVersionError, and InvalidProjectionError as `projections_of` does.
        """
        if only is None:
            only = projections_of(settings).values()
        pool = await connect_pool(
            database_url,
            max_size=_CONNECTIONS,
            command_timeout=settings.command_timeout,
            application_name=APPLICATION_NAME,
        )
        try:
            engine = Engine(
                pool,
                store.reader,
                store.states,
                only,
                poll_interval=settings.poll_interval,
                lease_ttl=settings.projection_lease_ttl,
                holder=holder,
            )
            yield cls(engine, database_url)
        finally:
            await pool.close()

    # -- how they stand ------------------------------------------------------------------------------------

    async def status(self) -> list[ProjectionStatus]:
        """Return how each projection stands, by name."""
        return await self._read(self.engine.status)

    async def parked(self, name: str, limit: int = 100) -> list[ParkedWorld]:
        """Return the worlds that a projection has set aside. Raises ProjectionNotFoundError."""
        return await self._read(lambda: self.engine.parked(name, limit))

    async def wait_for(self, name: str, world_id: str, seq: int, timeout: float) -> int:
        """Wait until a projection has come to a world's seq; return where it is. See `Engine.wait_for`."""
        return await self._read(lambda: self.engine.wait_for(name, world_id, seq, timeout))

    # -- what is to be done with them ----------------------------------------------------------------------

    async def ensure(self) -> None:
        """See `Engine.ensure`."""
        with explained(self._url):
            await self.engine.ensure()

    async def pause(self, name: str) -> None:
        """See `Engine.pause`."""
        with explained(self._url):
            await self.engine.pause(name)

    async def resume(self, name: str) -> None:
        """See `Engine.resume`."""
        with explained(self._url):
            await self.engine.resume(name)

    async def retry(self, name: str, world_id: str | None = None) -> int:
        """See `Engine.retry`."""
        with explained(self._url):
            return await self.engine.retry(name, world_id)

    async def rebuild(self, name: str) -> str:
        """See `Engine.rebuild`."""
        with explained(self._url):
            return await self.engine.rebuild(name)

    async def rebuild_world(self, name: str, world_id: str, progress: Progress | None = None) -> int:
        """See `Engine.rebuild_world`."""
        with explained(self._url):
            return await self.engine.rebuild_world(name, world_id, progress)

    async def cancel(self, name: str) -> bool:
        """See `Engine.cancel`."""
        with explained(self._url):
            return await self.engine.cancel(name)

    async def verify(self, name: str, progress: Progress | None = None) -> Report:
        """See `Engine.verify`."""
        with explained(self._url):
            return await self.engine.verify(name, progress)

    async def _read(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask, and once more where a pooled connection turned out to be dead: reading twice does no harm."""
        with explained(self._url):
            try:
                return await ask()
            except Exception as error:
                if not is_outage(error):
                    raise
            return await ask()
