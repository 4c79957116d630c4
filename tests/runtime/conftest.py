"""Orchestrators on a real database: one database for the folder, a world for each test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from tests.conftest import quick_settings

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


class Opening:
    """Opens this test's world, each time on a store of its own, as a process of its own would."""

    def __init__(self, url: str, world_id: str, stack: AsyncExitStack) -> None:
        self.url = url
        self.world_id = world_id
        self._stack = stack

    async def __call__(self, **how: Any) -> Orchestrator:
        """Open the world until the test ends; see `until`."""
        return await self._stack.enter_async_context(self.until(**how))

    def until(
        self,
        url: str | None = None,
        *,
        config: OrchestratorConfig | None = None,
        validator: EffectValidator | None = None,
        ruleset: str = "sandbox",
        time_authority: str = "wall",
        order: Literal["arrival", "tick"] = "arrival",
        **settings: Any,
    ) -> AbstractAsyncContextManager[Orchestrator]:
        """Open the world until the block ends."""
        return Orchestrator.open(
            url or self.url,
            world_id=self.world_id,
            config=config,
            effect_validator=validator,
            ruleset=ruleset,
            time_authority=time_authority,
            order=order,
            settings=quick_settings(**settings),
        )


@pytest.fixture
async def opening(database_url: str, world_id: str) -> AsyncIterator[Opening]:
    """Return what opens the test's world."""
    async with AsyncExitStack() as stack:
        yield Opening(database_url, world_id, stack)


@pytest.fixture
async def world(opening: Opening) -> Orchestrator:
    """Return the test's world, open in this process, with the usual configuration."""
    return await opening()
