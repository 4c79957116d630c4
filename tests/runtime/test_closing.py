"""Closing a world, or giving up opening it, at any moment: who waits is told, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig, QueueClosedError
from worldledger_service.settings import Settings

from tests.waiting import wait_for
from worldledger.errors import CircuitBreakerOpenError, StoreUnavailableError
from worldledger.intents import Accepted

from .conftest import Opening
from .helpers import ALL, created, effects, head_of, message, refused, settle, start, whole

# Each test has a loop of its own, on which nothing runs besides it.
pytestmark = pytest.mark.asyncio(loop_scope="function")


@pytest.fixture
async def opening(database_url: str, world_id: str) -> AsyncIterator[Opening]:
    """Return what opens the test's world on stores of its own, which are closed with it."""
    async with AsyncExitStack() as stack:
        yield Opening(database_url, world_id, stack)


def others() -> set[asyncio.Task[Any]]:
    """Return the tasks that run besides the test."""
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


@pytest.mark.parametrize("steps", [0, 3, 30, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 10))])
async def test_intents_in_flight(opening: Opening, steps: int) -> None:
    """Each is accepted, and stands in the log, or is refused, and does not; those that wait in line too."""
    async with opening.until(config=OrchestratorConfig(max_in_flight=3, staleness_threshold=1000)) as world:
        (await world.register_agent("a", ALL)).close()
        intents = [whole("a", 2) for _ in range(60)]
        submitting = [start(world.submit_intent(intent)) for intent in intents]
        for _ in range(steps):
            await asyncio.sleep(0.0005)
    results = await asyncio.wait_for(asyncio.gather(*submitting, return_exceptions=True), 30)
    again = await opening()
    written = {effect["req_id"]: effect["uuid"] for effect in await effects(again, "Speak")}
    for intent, result in zip(intents, results, strict=True):
        assert isinstance(result, Accepted | StoreUnavailableError | CircuitBreakerOpenError)
        assert written.get(intent["req_id"]) == (result if isinstance(result, Accepted) else None)


async def test_readers_are_told(opening: Opening) -> None:
    """Handles and subscriptions that wait end; so do those who wait for an effect."""
    async with opening.until() as world:
        handle = await world.register_agent("a", ALL)
        subscription = await world.subscribe("a")
        reading = [start(handle.next_observation()), start(subscription.get())]
        reaching = start(world.reached(10_000))
        await settle()
    for task in reading:
        with pytest.raises(QueueClosedError):
            await asyncio.wait_for(task, 120)
    assert isinstance(await refused(asyncio.wait_for(reaching, 120)), StoreUnavailableError)
    assert world.agent_handles == {}
    with pytest.raises(QueueClosedError):
        subscription.get_due()
    subscription.close()


async def test_nothing_is_done_afterwards(opening: Opening) -> None:
    """A world that is closed says so, whatever is asked of it, and begins nothing new."""
    before = others()
    async with opening.until() as world:
        handle = await world.register_agent("a", ALL)
    asked: list[Coroutine[Any, Any, Any]] = [
        world.agent("a"),
        world.register_agent("b", ALL),
        world.view("a"),
        world.view("a", at_seq=2),
        world.subscribe("a"),
        world.submit_intent(whole("a", 2)),
        world.broadcast_event(message()),
        world.tick("unity", 1.0),
        world.observed_events("a"),
        world.agents(),
        handle.submit_intent({"kind": "Speak", "payload": {"text": ""}}),
        handle.view(),
    ]
    for each in asked:
        assert isinstance(await refused(each), StoreUnavailableError)
    with pytest.raises(StoreUnavailableError):
        world.issue_cancel_token("a", "r")
    world.acknowledge("a", 2)
    handle.close()
    await settle()
    assert others() == before


@pytest.mark.parametrize("what", ["agent", "subscribe", "view", "events", "token"])
@pytest.mark.parametrize("steps", [5, *(pytest.param(n, marks=pytest.mark.thorough) for n in (0, 2))])
async def test_while_agents_are_being_attached(opening: Opening, what: str, steps: int) -> None:
    """Who waits for an agent gets it or is told; a reader that came through is closed with the world."""
    before = others()
    async with opening.until() as world:
        (await world.register_agent("a", ALL)).close()
        await asyncio.gather(*(world.broadcast_event(created(f"e{n}")) for n in range(20)))
        world._attachments.drop("a")
        work: dict[str, Any] = {
            "agent": world.agent,
            "subscribe": lambda name: world.subscribe(name, view_seq=2),
            "view": world.view,
            "events": world.observed_events,
            "token": _issued(world),
        }
        attaching = [start(work[what]("a")) for _ in range(3)]
        for _ in range(steps):
            await asyncio.sleep(0.001)
    for result in await asyncio.wait_for(asyncio.gather(*attaching, return_exceptions=True), 30):
        assert isinstance(result, StoreUnavailableError) or not isinstance(result, BaseException), result
    await settle()
    assert others() == before


def _issued(world: Orchestrator) -> Any:
    async def issue(name: str) -> None:
        world.issue_cancel_token(name, "r")

    return issue


async def test_an_event_that_was_written_is_not_denied(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller gets the receipt, though the world is closed before this process has followed it there."""
    async with opening.until() as world:
        blocked = asyncio.Event()

        async def never(_: int) -> None:
            await blocked.wait()

        await world.register_agent("a", ALL)
        monkeypatch.setattr(world._follower._tail, "_read", never)
        await world._follower._store.log(world.world_id)
        first = start(world.broadcast_event(message()))
        second = start(world.broadcast_event(message()))
        await wait_for(lambda: world._follower._waiting, "it is written")
        await asyncio.sleep(0.05)
    receipts = await asyncio.gather(first, second)
    again = await opening()
    assert {receipt.uuid for receipt in receipts} == {
        effect["uuid"] for effect in await effects(again, "MessageEmitted")
    }


@pytest.mark.parametrize("steps", [1, 6, *(pytest.param(n, marks=pytest.mark.thorough) for n in (0, 2, 3, 4, 5, 7))])
async def test_closing_is_broken_off(opening: Opening, steps: int) -> None:
    """Whoever closes the world may be cancelled himself; nothing goes on running then either."""
    before = others()

    async def live(ready: asyncio.Event) -> None:
        async with opening.until() as world:
            handle = await world.register_agent("a", ALL)
            handle.issue_cancel_token("r")
            await world.broadcast_event(created("x"))
            await handle.next_observation()
            world.set_sim_time_authority("unity")
            ready.set()

    ready = asyncio.Event()
    living = start(live(ready))
    await ready.wait()
    for _ in range(steps):
        await asyncio.sleep(0.0005)
    living.cancel()
    await asyncio.wait([living])
    await wait_for(lambda: others() == before, "nothing is left")
    again = await opening()
    assert await again.event_log.validate_integrity()
    assert list(await again.agents()) == ["a"]


@pytest.mark.parametrize(
    "steps", [5, 15, 30, *(pytest.param(n, marks=pytest.mark.thorough) for n in (0, 10, 20, 25, 35))]
)
async def test_opening_is_broken_off(opening: Opening, steps: int) -> None:
    """However far it has come, nothing is left of it, and the next one opens the world."""
    before = others()

    async def live() -> None:
        async with opening.until():
            await asyncio.sleep(3600.0)

    living = start(live())
    for _ in range(steps):
        await asyncio.sleep(0.001)
    living.cancel()
    await asyncio.wait([living])
    await wait_for(lambda: others() == before, "nothing is left")
    world = await opening()
    assert await head_of(world) == 1


async def test_a_database_that_is_not_there() -> None:
    """Opening says so, and leaves nothing behind."""
    before = others()
    url = "postgresql://nobody:nothing@127.0.0.1:1/nowhere"
    with pytest.raises(StoreUnavailableError):
        async with Orchestrator.open(url, settings=Settings(append_deadline=0.1)):
            pass
    assert others() == before
