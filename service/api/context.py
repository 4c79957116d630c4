"""What the routes are handed: made once by the application's lifespan, found through the request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from starlette.requests import Request

from service.settings import Settings
from service.store import Store
from service.store.watch import HeadWatcher


@dataclass(frozen=True)
class Services:
    """The open store and what belongs to it."""

    settings: Settings
    store: Store
    watcher: HeadWatcher
    #: Seconds of silence after which a tail sends a comment.
    keepalive: float = 15.0
    #: Set when the service begins to stop: endless streams end.
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


def services(request: Request) -> Services:
    """Give the services of the application that the request came to."""
    found: Services = request.app.state.services
    return found
