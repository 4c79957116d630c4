"""The database gone or frozen: the first who call are told so soon, and what they have begun goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from worldledger_service.runtime import Accepted, Orchestrator, OrchestratorConfig
from worldledger_service.runtime.worlds import Worlds
from worldledger_service.store.outages import Watchdog

from tests.store.proxy import Proxy
from tests.waiting import wait_for
from worldledger.errors import CircuitBreakerOpenError, SimulationError, StoreUnavailableError

from .conftest import Opening
from .helpers import ALL, created, draft, effects, message, near, refused, settle, start, whole

T = TypeVar("T")

#: Seconds, of which the tests take a small part only if nobody waits for them.
_LONG = 600.0
_QUOTA = 100


def _away(proxy: Proxy) -> None:
    proxy.refuse_all()
    proxy.cut_all()


#: How the database stops to answer, and how it comes back.
WAYS: dict[str, tuple[Callable[[Proxy], None], Callable[[Proxy], None]]] = {
    "away": (_away, Proxy.accept_again),
    "frozen": (Proxy.freeze, Proxy.thaw),
}


class Far:
    """The test's world behind a proxy, which can take the database away."""

    def __init__(self, world: Orchestrator, proxy: Proxy, way: str) -> None:
        self.world = world
        self._proxy = proxy
        self._way = WAYS[way]

    def leave(self) -> None:
        """Let the database answer nobody from now on, and its callers be patient for a moment only."""
        self._watchdog.patience = 0.1
        if self._watchdog._timer is not None:  # it was set for callers who are patient
            self._watchdog._timer.cancel()
            self._watchdog._timer = None
        self._way[0](self._proxy)

    async def come_back(self) -> None:
        """Let it answer again, and wait until the store has noticed; then callers are patient again."""
        self._way[1](self._proxy)
        await wait_for(lambda: not self._watchdog.expired, "it answers")
        self._watchdog.patience = _LONG

    @property
    def _watchdog(self) -> Watchdog:
        return self.world._follower._store.outages.watchdog


@pytest_asyncio.fixture(params=sorted(WAYS), loop_scope="session")
async def far(request: pytest.FixtureRequest, opening: Opening, database_url: str) -> AsyncIterator[Far]:
    """Return a world whose callers are patient until the database leaves, and whose store goes on trying for long."""
    config = OrchestratorConfig(staleness_threshold=1000, intents_per_s=1e-9, intents_burst=_QUOTA)
    async with Proxy(database_url).running() as proxy:
        times: dict[str, Any] = dict.fromkeys(("outage_patience", "append_deadline", "command_timeout"), _LONG)
        async with opening.until(url=proxy.url, config=config, **times) as world:
            far = Far(world, proxy, request.param)
            yield far
            await far.come_back()


async def done(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do something again and again until it is done."""
    while True:
        try:
            return await work()
        except (StoreUnavailableError, CircuitBreakerOpenError):
            await asyncio.sleep(0.01)


def unknown(error: SimulationError) -> bool:
    """Tell whether an error says that its call may come to be written."""
    return isinstance(error, StoreUnavailableError) and error.details.get("outcome") == "unknown"


async def test_intents(far: Far) -> None:
    """All who came at first are told to come again; each intent is one effect, and is charged once."""
    world = far.world
    a = await world.register_agent("a", ALL)
    intents = [whole("a", a.view_seq) for _ in range(50)]
    far.leave()
    results = await asyncio.gather(*map(world.submit_intent, intents), return_exceptions=True)
    assert all(isinstance(error, StoreUnavailableError) and unknown(error) for error in results)
    assert {error.details["retry_after_s"] for error in results if isinstance(error, SimulationError)} == {1.0}
    # While it is silent: the same again is under way, and another is not begun.
    assert unknown(await refused(world.submit_intent(intents[0])))
    late = whole("a", a.view_seq)
    assert isinstance(await refused(world.submit_intent(late)), CircuitBreakerOpenError)
    assert [each.remaining for each in world.quotas.status("a")] == [_QUOTA - len(intents)]
    assert not world._admission.guard.closed

    await far.come_back()
    wanted = [*intents, late]
    given = await asyncio.gather(
        *(done(lambda intent=intent: world.submit_intent(intent)) for intent in wanted)  # type: ignore[misc]
    )
    found = {effect["req_id"]: effect["uuid"] for effect in await effects(world, "Speak")}
    assert found == {intent["req_id"]: str(each) for intent, each in zip(wanted, given, strict=True)}
    assert len(await effects(world, "Speak")) == len(wanted)
    assert [each.remaining for each in world.quotas.status("a")] == [_QUOTA - len(wanted)]
    assert world._admission.guard.closed


async def test_what_was_begun_is_written_though_nobody_asks(far: Far) -> None:
    """It is an effect when the database is back, in the order of its agent, and its generation has ended."""
    world = far.world
    a = await world.register_agent("a", ALL)
    intent = whole("a", a.view_seq)
    token = world.issue_cancel_token("a", intent["req_id"])
    await world.flush()
    far.leave()
    assert unknown(await refused(world.submit_intent(intent)))
    await far.come_back()
    delta = await a.next_observation()
    assert [event["kind"] for event in delta["events"]] == ["Speak"]
    assert not token.cancelled
    await wait_for(lambda: not world._follower._store.outages.watchdog.working, "nothing is left")
    assert (await world.submit_intent(intent)).global_seq == delta["view_seq"]


async def test_a_list_that_is_atomic(far: Far) -> None:
    """It goes on as a whole; sent again, it is answered with the same effects, and charged once."""
    world = far.world
    a = await world.register_agent("a", ALL)
    intents = [whole("a", a.view_seq) for _ in range(5)]
    far.leave()
    assert unknown(await refused(world.submit_intents(intents, atomic=True)))
    assert isinstance(await refused(world.submit_intents(intents, atomic=True)), CircuitBreakerOpenError)
    await far.come_back()
    given = await done(lambda: world.submit_intents(intents, atomic=True))
    assert [str(each) for each in given] == [effect["uuid"] for effect in await effects(world, "Speak")]
    assert [each.remaining for each in world.quotas.status("a")] == [_QUOTA - len(intents)]


async def test_drafts_of_the_operator(far: Far) -> None:
    """One with a req_id is let go of like an intent; one without waits: nothing could tell later what it became."""
    world = far.world
    far.leave()
    patient = start(world.broadcast_event(message("patient")))
    assert unknown(await refused(world.broadcast_event({**message("once"), "req_id": "r"})))
    assert isinstance(await refused(world.broadcast_event(message("late"))), CircuitBreakerOpenError)
    await settle()
    assert not patient.done()
    await far.come_back()
    written = (await patient).global_seq
    again = await done(lambda: world.broadcast_event({**message("once"), "req_id": "r"}))
    texts = Counter(effect["payload"]["text"] for effect in await effects(world, "MessageEmitted"))
    assert texts == {"patient": 1, "once": 1}
    assert written != again.global_seq


async def test_reading(far: Far) -> None:
    """What is in memory is given as ever; what has to be read is refused soon, and read when the database is back."""
    world = far.world
    await world.broadcast_event(created("a", 0, 0))
    a = await world.register_agent("a", near(5.0))
    (await world.register_agent("gone", ALL)).close()
    world._attachments.drop("gone")
    last = (await world.broadcast_event(created("x", 1, 1))).global_seq
    await world.reached(last)
    far.leave()
    working = start(world.submit_intent(whole("a", a.view_seq)))
    needs_the_log: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: world.view("gone"),
        lambda: world.agent("gone"),
        lambda: world.subscribe("gone"),
        lambda: world.acknowledged("gone"),
        lambda: world.view("a", at_seq=a.view_seq),
        lambda: world.observed_events("a"),
        lambda: world.cancel_generation("a", "nobody's"),
    ]
    first = await asyncio.gather(*(refused(each()) for each in needs_the_log))
    assert {type(error) for error in first} == {StoreUnavailableError}
    (error,) = await asyncio.gather(working, return_exceptions=True)
    assert isinstance(error, SimulationError)
    assert unknown(error)
    for each in needs_the_log:
        assert isinstance(await refused(each()), StoreUnavailableError)
    assert isinstance(await refused(world.register_agent("new", ALL)), CircuitBreakerOpenError)
    view = await world.view("a")
    assert sorted(view.visible_entities) == ["a", "x"]
    assert view == await world.view("a", at_seq=last)
    async with await world.subscribe("a", view_seq=last - 1) as reader:
        assert [delta["view_seq"] for delta in reader.get_due()] == [last]
    async with await world.subscribe("a") as reader:
        assert reader.view == view
    assert await world.acknowledged("a") == a.view_seq
    world.issue_cancel_token("gone", "r")
    await world.flush(_LONG)  # nobody waits for a database that is silent
    await world.fold_known(_LONG)
    assert not await world.reached(10_000, _LONG)

    await far.come_back()
    await world.flush()
    assert (await world.agent("gone")).initial_view is not None
    await wait_for(lambda: not world._follower._store.outages.watchdog.working, "nothing is left")
    assert sum(len(each.subscriptions) for each in world._attachments) == 2  # of the two handles that are open


async def test_a_registration(far: Far) -> None:
    """It is refused soon, and is one effect when it is sent again."""
    world = far.world
    far.leave()
    assert isinstance(await refused(world.register_agent("a", ALL)), StoreUnavailableError)
    await far.come_back()
    handle = await done(lambda: world.register_agent("a", ALL))
    assert [effect["global_seq"] for effect in await effects(world, "AgentRegistered")] == [handle.view_seq]


async def test_worlds_that_are_not_open(opening: Opening, database_url: str) -> None:
    """Whoever asks for one is told soon, and the opening goes on."""
    (await opening()).world_id  # noqa: B018 - there is such a world
    times: dict[str, Any] = {"outage_patience": 0.3, "append_deadline": _LONG, "command_timeout": _LONG}
    async with Proxy(database_url).running() as proxy, opening.until(url=proxy.url, **times) as world:
        store, watcher = world._follower._store, world._follower._watcher
        store._logs.clear()
        worlds = Worlds(store, watcher)
        proxy.freeze()
        assert isinstance(await refused(worlds.get(opening.world_id)), StoreUnavailableError)
        proxy.thaw()
        assert (await done(lambda: worlds.get(opening.world_id))).world_id == opening.world_id
        await worlds.close()


async def test_a_blip(opening: Opening, database_url: str) -> None:
    """What the store settles before its callers' patience is over, nobody is told of."""
    times: dict[str, Any] = {"outage_patience": 60.0, "append_deadline": _LONG}
    times["config"] = OrchestratorConfig(staleness_threshold=1000)
    async with Proxy(database_url).running() as proxy, opening.until(url=proxy.url, **times) as world:
        a = await world.register_agent("a", ALL)
        for leave, come_back in WAYS.values():
            leave(proxy)
            submitting = [start(world.submit_intent(whole("a", a.view_seq))) for _ in range(10)]
            telling = start(world.broadcast_event(draft("Told", {}, req_id=f"told-{leave}")))
            await asyncio.sleep(0.2)
            come_back(proxy)
            given = await asyncio.gather(*submitting, return_exceptions=True)
            assert all(isinstance(each, Accepted) for each in given), given
            a = await world.agent("a", view_seq=(await telling).global_seq)


async def test_closing_in_the_middle(opening: Opening, database_url: str) -> None:
    """What nobody waits for any more is settled, or given up, before the store is closed; nothing goes on running."""
    before = asyncio.all_tasks()
    async with Proxy(database_url).running() as proxy:
        async with opening.until(url=proxy.url, outage_patience=0.2, append_deadline=0.5) as world:
            a = await world.register_agent("a", ALL)
            _away(proxy)
            assert unknown(await refused(world.submit_intent(whole("a", a.view_seq))))
        await settle()
    assert not asyncio.all_tasks() - before
