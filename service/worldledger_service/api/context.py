"""The services that routes use: made once by the application's lifespan, found through the request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.requests import Request

from worldledger.aio import SingleFlight
from worldledger.lru import Lru
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.watch import HeadWatcher

if TYPE_CHECKING:
    from worldledger_service.api.bodies import Room
    from worldledger_service.api.metrics import Metrics
    from worldledger_service.api.projections import Jobs
    from worldledger_service.api.sql import SqlPool
    from worldledger_service.arrow.pool import ArrowPool
    from worldledger_service.projecting.engine import Engine
    from worldledger_service.projecting.process import ProjectorProcess
    from worldledger_service.runtime.worlds import Worlds


T = TypeVar("T")

#: The member of a request's scope with what is called when it is answered.
ON_END: Final = "worldledger.on_end"
#: Answers with coarse frames that a process keeps.
_COARSE_FRAMES: Final = 4
#: Reports of worlds that a process keeps.
_REPORTS: Final = 4


class Questions:
    """The questions to the database that are under way, each asked by one task for all requests.

    Cancelling a call of the driver may itself take as long as the database is silent. So a request that has waited long
    enough ends without the answer; the task ends by itself, and until then requests with the same question wait for it.
    """

    def __init__(self) -> None:
        self._flights: SingleFlight[Callable[[], Coroutine[Any, Any, Any]], Any] = SingleFlight()

    async def ask(self, question: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
        """Return the answer; questions that compare equal are the same.

        Raises TimeoutError if it has not come after so many seconds, and whatever the question raises.
        """
        answer: T = await self._flights.join(question, question, seconds)
        return answer


class Answers:
    """The last answers that are costly to make, by their ETag. Each is made by one task for all requests for it."""

    def __init__(self, most: int) -> None:
        self._kept: Lru[str, bytes] = Lru(most)
        self._flights: SingleFlight[str, bytes] = SingleFlight()

    async def get(self, tag: str, make: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
        """Return the answer for a tag, made if it is not kept. Raises what ``make`` raises."""

        async def made() -> bytes:
            body = self._kept[tag] = await make()
            return body

        kept = self._kept.use(tag)
        return await self._flights.join(tag, made) if kept is None else kept


@dataclass(frozen=True)
class Services:
    """The open store and what belongs to it."""

    settings: Settings
    store: Store
    watcher: HeadWatcher
    #: the worlds with agents, each opened on demand
    worlds: Worlds
    projections: Engine
    #: the process that feeds the projections, if this service has one
    projector: ProjectorProcess | None
    jobs: Jobs
    metrics: Metrics
    arrow: ArrowPool
    sql: SqlPool
    #: the memory that requests with large bodies share
    room: Room
    #: epoch seconds
    clock: Callable[[], float] = time.time
    #: the services of installed kinds, by the kind's name (`worldledger.kinds.Kind.serves`)
    of_kinds: dict[str, Any] = field(default_factory=dict)
    #: Seconds of silence after which a tail sends a comment.
    keepalive: float = 15.0
    #: Seconds that a read with min_seq waits for a projection.
    patience: float = 5.0
    #: the questions of health and metrics to the database
    questions: Questions = field(default_factory=Questions)
    #: coarse frames: of a long world they take a second, and up to 4 MB
    coarse_frames: Answers = field(default_factory=lambda: Answers(_COARSE_FRAMES))
    #: reports of worlds: the whole log is read for one, and plots are drawn
    reports: Answers = field(default_factory=lambda: Answers(_REPORTS))
    #: held while plots are drawn, which the settings of the library allow to one at a time
    drawing: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Set when the service begins to stop: endless streams end.
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


def services(request: Request) -> Services:
    """Return the services of the application that the request came to."""
    found: Services = request.app.state.services
    return found
