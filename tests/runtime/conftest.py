"""Orchestrators on a real database: one database and one store for the folder, a world for each test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest
import pytest_asyncio
from worldledger_service.runtime import Orchestrator, OrchestratorConfig
from worldledger_service.store import Store
from worldledger_service.store.watch import HeadWatcher

from tests.conftest import quick_settings
from worldledger.genesis import NewWorld

if TYPE_CHECKING:
    from tests.conftest import Servers
    from worldledger.validation import EffectValidator

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_url(servers: Servers, server_kind: str) -> Iterator[str]:
    """Return a superuser's address of one database for all tests of this folder."""
    url = servers.create(server_kind, servers.template(server_kind))
    yield url
    servers.drop(server_kind, url)


@pytest.fixture
def database_url(shared_url: str) -> str:
    """Return the shared database's address."""
    return shared_url


@pytest.fixture
def world_id() -> str:
    """Return the name of a world that only this test uses."""
    return f"w-{next(_numbers)}"


class Shared(NamedTuple):
    """A store and what looks after its worlds' heads."""

    store: Store
    watcher: HeadWatcher


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(shared_url: str) -> AsyncIterator[Shared]:
    """Open a store that the tests share."""
    settings = quick_settings()
    async with (
        Store.open(shared_url, settings) as store,
        HeadWatcher.over(store, interval=settings.poll_interval, url=shared_url) as watcher,
    ):
        yield Shared(store, watcher)


class Opening:
    """Opens this test's world: first on the store that the tests share, then on ones of its own, as processes would."""

    def __init__(self, url: str, world_id: str, stack: AsyncExitStack, shared: Shared | None = None) -> None:
        self.url = url
        self.world_id = world_id
        self._shared = shared
        self._stack = stack

    async def __call__(self, **how: Any) -> Orchestrator:
        """Open the world until the test ends; see `until`."""
        return await self._stack.enter_async_context(self.until(**how))

    @asynccontextmanager
    async def until(
        self,
        url: str | None = None,
        *,
        config: OrchestratorConfig | None = None,
        validator: EffectValidator | None = None,
        ruleset: str = "sandbox",
        time_authority: str = "wall",
        order: Literal["arrival", "tick"] = "arrival",
        **settings: Any,
    ) -> AsyncIterator[Orchestrator]:
        """Open the world until the block ends; at an address or with settings it is on a store of its own, too."""
        shared, self._shared = self._shared, None
        new: dict[str, Any] = {"ruleset": ruleset, "time_authority": time_authority, "order": order}
        if shared is None or url is not None or settings:
            how: dict[str, Any] = {
                "config": config,
                "effect_validator": validator,
                "settings": quick_settings(**settings),
            }
            async with Orchestrator.open(url or self.url, world_id=self.world_id, **new, **how) as world:
                yield world
        else:
            await shared.store.ensure_world(NewWorld(world_id=self.world_id, orchestrator=config, **new))
            async with Orchestrator.over(*shared, self.world_id, config=config, effect_validator=validator) as world:
                yield world


@pytest_asyncio.fixture(loop_scope="session")
async def opening(database_url: str, world_id: str, shared: Shared) -> AsyncIterator[Opening]:
    """Return what opens the test's world."""
    async with AsyncExitStack() as stack:
        yield Opening(database_url, world_id, stack, shared)


@pytest_asyncio.fixture(loop_scope="session")
async def world(opening: Opening) -> Orchestrator:
    """Return the test's world, open in this process, with the usual configuration."""
    return await opening()
