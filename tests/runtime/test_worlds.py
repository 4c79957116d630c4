"""The worlds of a service: opened when they are asked for, kept while somebody needs them, closed in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import pytest_asyncio
from worldledger_service.runtime import Orchestrator, QueueClosedError
from worldledger_service.runtime.worlds import Worlds
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.watch import HeadWatcher

from tests.conftest import NEVER
from tests.waiting import wait_for
from worldledger.errors import FoldError, StoreUnavailableError, WorldNotFoundError
from worldledger.genesis import NewWorld

from .helpers import ALL, created, effects, message, refused, settle, start, whole


@pytest_asyncio.fixture(loop_scope="session")
async def shelf(database_url: str, world_id: str) -> AsyncIterator[Shelf]:
    """Return a store with twelve worlds."""
    async with (
        Store.open(database_url, Settings(pool_size=8, snapshot_every=NEVER)) as store,
        HeadWatcher.over(store, interval=0.1, url=database_url) as watcher,
    ):
        names = [f"{world_id}-{n:02}" for n in range(12)]
        for name in names:
            await store.create_world(NewWorld(world_id=name))
        yield Shelf(store, watcher, names)


class Shelf:
    """Worlds that may be opened."""

    def __init__(self, store: Store, watcher: HeadWatcher, names: list[str]) -> None:
        self.store = store
        self.watcher = watcher
        self.names = names

    @asynccontextmanager
    async def worlds(self, idle: int = 64, grace: float = 0.0) -> AsyncIterator[Worlds]:
        """Open them."""
        worlds = Worlds(self.store, self.watcher, idle=idle, grace=grace)
        try:
            yield worlds
        finally:
            await worlds.close()

    @staticmethod
    def open(worlds: Worlds) -> list[str]:
        """Return the names of those that are open, without the tests' own part."""
        return [world.world_id[-2:] for world in worlds]


def busy(world: Orchestrator) -> bool:
    """Tell whether somebody needs a world."""
    return world.in_use


async def test_a_world_is_opened_once(shelf: Shelf) -> None:
    """Also for those who ask at the same moment; one that is not there is an error for each of them."""
    async with shelf.worlds() as worlds:
        found = await asyncio.gather(*(worlds.get(shelf.names[0]) for _ in range(5)))
        assert len(set(map(id, found))) == 1
        assert await worlds.get(shelf.names[0]) is found[0]
        results = await asyncio.gather(*(worlds.get("never-made") for _ in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [WorldNotFoundError] * 3
        assert shelf.open(worlds) == ["00"]


async def test_who_asks_may_go_away(shelf: Shelf) -> None:
    """The world is opened for the others all the same."""
    async with shelf.worlds() as worlds:
        asking = [start(worlds.get(shelf.names[0])) for _ in range(2)]
        await settle()
        asking[0].cancel()
        assert (await asking[1]).world_id == shelf.names[0]
        assert asking[0].cancelled()


async def test_worlds_that_nobody_needs_are_closed(shelf: Shelf) -> None:
    """Beyond a number the one that was asked for longest ago goes first, but none that is in use."""
    async with shelf.worlds(idle=2) as worlds:
        busy = await worlds.get(shelf.names[0])
        handle = await busy.register_agent("a", ALL)
        for n in range(1, 5):
            await worlds.get(shelf.names[n])
        assert shelf.open(worlds) == ["00", "04"]
        await worlds.get(shelf.names[0])
        handle.close()
        assert not busy.in_use
        await worlds.get(shelf.names[5])
        assert shelf.open(worlds) == ["00", "05"]
        await worlds.get(shelf.names[6])
        assert shelf.open(worlds) == ["05", "06"]
        await wait_for(lambda: busy.broken, "it is closed")
        assert isinstance(await refused(busy.agent("a")), StoreUnavailableError)
        again = await worlds.get(shelf.names[0])
        assert again is not busy
        assert (await again.agent("a")).view_seq == handle.view_seq


async def test_a_world_that_was_just_given_is_not_closed(shelf: Shelf) -> None:
    """Of more worlds than may stay idle, all asked for at the same moment, each can be used."""
    async with shelf.worlds(idle=1, grace=3600.0) as worlds:

        async def use(name: str) -> None:
            world = await worlds.get(name)
            await settle()
            await world.register_agent("a", ALL)
            world.agent_handles["a"].close()
            accepted = await world.submit_intent(whole("a", 2))
            await world.reached(accepted.global_seq)

        await asyncio.gather(*map(use, shelf.names))
        assert len(shelf.open(worlds)) == len(shelf.names)
        worlds._grace = 0.0
        await worlds.get(shelf.names[3])
        assert shelf.open(worlds) == ["03"]


@pytest.mark.parametrize("what", ["subscription", "token", "waiting"])
async def test_what_keeps_a_world_open(shelf: Shelf, what: str) -> None:
    """A reader, a generation, and an intent in line, for as long as they are there."""
    async with shelf.worlds(idle=1) as worlds, AsyncExitStack() as need:
        world = await worlds.get(shelf.names[0])
        (await world.register_agent("a", ALL)).close()
        world._attachments.drop("a")
        assert not busy(world)
        if what == "subscription":
            await need.enter_async_context(await world.subscribe("a"))
        elif what == "token":
            need.callback(world.issue_cancel_token("a", "r").cancel, "done")
        else:
            world._admission.scheduler._most = 1
            turn = world._admission.scheduler.turn("somebody")
            submitting = start(world.submit_intent(whole("a", 2)))
            need.push_async_callback(asyncio.wait, [submitting])
            await need.enter_async_context(turn)
            await settle()
        await world.flush()
        assert busy(world)
        await worlds.get(shelf.names[1])
        assert "00" in shelf.open(worlds)
        await need.aclose()
        await world.flush()
        await wait_for(lambda: not world.in_use, "nobody needs it")
        await worlds.get(shelf.names[2])
        assert "00" not in shelf.open(worlds)


async def test_what_is_under_way_keeps_a_world_open(shelf: Shelf) -> None:
    """An agent that is being attached, an authority that is being set, an effect that is to follow."""
    async with shelf.worlds() as worlds:
        world = await worlds.get(shelf.names[0])
        (await world.register_agent("a", ALL)).close()
        world._attachments.drop("a")
        viewing = start(world.view("a"))
        while not (world._observing.in_use or viewing.done()):
            await asyncio.sleep(0)
        assert world._observing.in_use
        await viewing
        setting = world.set_sim_time_authority("unity")
        assert busy(world)
        await setting
        assert not busy(world)
        world.issue_cancel_token("a", "r").cancel("done")
        assert busy(world)
        await world.flush()
        assert not busy(world)


async def test_a_world_whose_log_was_damaged_is_looked_at_again(shelf: Shelf) -> None:
    """What has ended the following of a world is told to those who use it; whoever asks next gets it opened anew."""
    async with shelf.worlds() as worlds:
        world = await worlds.get(shelf.names[0])
        handle = await world.register_agent("a", ALL)
        waiting = start(handle.next_observation())
        await settle()
        world._follower.end(FoldError("it cannot be folded"))
        assert world.broken
        for use in (world.view("a"), world.submit_intent(whole("a", 2)), world.broadcast_event(message())):
            assert isinstance(await refused(use), FoldError)
        again = await worlds.get(shelf.names[0])
        assert again is not world
        with pytest.raises(QueueClosedError):
            await asyncio.wait_for(waiting, 120)
        assert not await effects(again, "MessageEmitted")
        receipt = await again.broadcast_event(created("x"))
        assert (await again.view("a")).view_seq == receipt.global_seq


async def test_closing_all(shelf: Shelf) -> None:
    """What has happened is still written; who asks meanwhile or afterwards is told that the service is stopping."""
    worlds = Worlds(shelf.store, shelf.watcher)
    world = await worlds.get(shelf.names[0])
    await world.register_agent("a", ALL)
    token = world.issue_cancel_token("a", "r")
    asking = [start(worlds.get(name)) for name in shelf.names[1:]]
    await settle()
    await worlds.close()
    for result in await asyncio.gather(*asking, return_exceptions=True):
        assert isinstance(result, StoreUnavailableError) or result.broken  # type: ignore[union-attr]
    assert token.reason == "orchestrator_closed"
    assert isinstance(await refused(worlds.get(shelf.names[0])), StoreUnavailableError)
    assert shelf.open(worlds) == []
    async with shelf.worlds() as later:
        again = await later.get(shelf.names[0])
        kinds = [effect["kind"] for effect in await effects(again)]
        assert kinds == ["AgentRegistered", "GenerationStarted", "GenerationCancelled"]
    await worlds.close()
