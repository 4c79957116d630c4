"""What the routes are handed: made once by the application's lifespan, found through the request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from worldledger_service.api.questions import Questions
from worldledger_service.api.room import Room
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.watch import HeadWatcher

if TYPE_CHECKING:
    from worldledger_service.api.jobs import Jobs
    from worldledger_service.api.metrics import Metrics
    from worldledger_service.api.querying import SqlDoor
    from worldledger_service.arrow.door import ArrowDoor
    from worldledger_service.feeding import Feeding
    from worldledger_service.projecting import Projections
    from worldledger_service.runtime.worlds import Worlds


#: The member of a request's scope with what is called when it is answered.
ON_END: Final = "worldledger.on_end"


@dataclass(frozen=True)
class Services:
    """The open store and what belongs to it."""

    settings: Settings
    store: Store
    watcher: HeadWatcher
    #: the worlds in which agents live, each opened when it is asked for
    worlds: Worlds
    projections: Projections
    #: what feeds the projections, where this service does
    feeding: Feeding | None
    jobs: Jobs
    metrics: Metrics
    arrow: ArrowDoor
    sql: SqlDoor
    #: epoch seconds
    clock: Callable[[], float] = time.time
    #: what installed kinds serve with, by the kind's name (`worldledger.kinds.Kind.serves`)
    of_kinds: dict[str, Any] = field(default_factory=dict)
    #: Seconds of silence after which a tail sends a comment.
    keepalive: float = 15.0
    #: Seconds that a read with min_seq waits for a projection.
    patience: float = 5.0
    #: what health and metrics ask the database
    questions: Questions = field(default_factory=Questions)
    #: what requests with large bodies share
    room: Room = field(default_factory=Room)
    #: Set when the service begins to stop: endless streams end.
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


def services(request: Request) -> Services:
    """Return the services of the application that the request came to."""
    found: Services = request.app.state.services
    return found
