"""The client: worlds of a service, from any program that can reach it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from worldledger.client.transport import Transport
from worldledger.client.world import RemoteWorld


class Client(RemoteWorld):
    """One world of the service at ``url``: an async context manager, to be used on one event loop.

    ``url`` begins with http:// or https:// and names a host; ValueError is raised for any other.

    ``timeout``: seconds that an answer over HTTP may take. ``patience``: seconds for which a service that cannot be
    reached is tried again before a call raises ServiceUnavailableError; what goes over an agent's own connection waits
    for it as long as it takes. ``max_queued``: most observations that wait for a reader before they collapse.
    """

    def __init__(
        self,
        url: str,
        world_id: str = "default",
        *,
        timeout: float = 60.0,
        patience: float = 10.0,
        max_queued: int = 1000,
    ) -> None:
        super().__init__(Transport(url, timeout=timeout, patience=patience), world_id, max_queued=max_queued)
        self._worlds: dict[str, RemoteWorld] = {}

    @property
    def url(self) -> str:
        """The service's address."""
        return self._transport.url

    def world(self, world_id: str) -> RemoteWorld:
        """Give another world of the service, over the same connections; always the same one for a name."""
        if world_id == self.world_id:
            return self
        if world_id not in self._worlds:
            self._worlds[world_id] = RemoteWorld(self._transport, world_id, max_queued=self._max_queued)
        return self._worlds[world_id]

    async def close(self) -> None:
        """Close all connections; generations that are live are cancelled, handles and subscriptions end."""
        for world in (self, *self._worlds.values()):
            await world.shut()
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
