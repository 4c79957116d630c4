"""The database away for a while: who is told at once, who waits, and that nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest_asyncio
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from tests.store.proxy import Proxy
from tests.waiting import wait_for
from worldledger.errors import CircuitBreakerOpenError, RecoveryAction, StoreUnavailableError

from .conftest import Opening
from .helpers import ALL, created, effects, head_of, kept, message, near, read_until, refused, speak, start, whole


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    """Return a proxy before the server."""
    async with Proxy(database_url).running() as running:
        yield running


def away(proxy: Proxy) -> None:
    """Take the database away."""
    proxy.refuse_all()
    proxy.cut_all()


@pytest_asyncio.fixture(loop_scope="session")
async def far(opening: Opening, proxy: Proxy) -> Orchestrator:
    """Return the test's world behind the proxy; appends give up soon, and the breaker opens after three of them."""
    config = OrchestratorConfig(breaker_failures=3, breaker_recovery_s=3600.0, intents_per_s=1e-9, intents_burst=100)
    return await opening(url=proxy.url, config=config, append_deadline=0.1)


async def test_after_some_failures_intents_are_refused_at_once(far: Orchestrator, proxy: Proxy) -> None:
    """The breaker opens, says when to come again and leaves the database alone; when it is back, one call tries it."""
    a = await far.register_agent("a", ALL)
    away(proxy)
    first = whole("a", a.view_seq)
    assert isinstance(await refused(far.submit_intent(first)), StoreUnavailableError)
    results = await asyncio.gather(
        *(far.submit_intent(whole("a", a.view_seq)) for _ in range(5)), return_exceptions=True
    )
    assert all(isinstance(result, StoreUnavailableError | CircuitBreakerOpenError) for result in results)
    breaker = far._admission.guard.breaker
    assert breaker.state == "OPEN"
    (status,) = far.quotas.status("a")

    proxy.accept_again()  # nobody has noticed yet: it is not asked
    error = await refused(far.submit_intent(whole("a", a.view_seq)))
    assert isinstance(error, CircuitBreakerOpenError)
    assert error.recovery is RecoveryAction.RETRY_WITH_DELAY
    assert error.retry_after_s is not None
    assert 0 < error.retry_after_s <= 3600
    assert isinstance(await refused(far.broadcast_event(message())), CircuitBreakerOpenError)
    assert far.quotas.status("a")[0].remaining == status.remaining  # what was not even tried is not charged

    breaker.recovery_timeout = 0.0
    accepted = await far.submit_intent(first)
    assert (breaker.state, breaker.failure_count) == ("CLOSED", 0)
    await far.reached(accepted.global_seq)
    assert [effect["req_id"] for effect in await effects(far, "Speak")] == [first["req_id"]]


async def test_a_failed_probe_opens_it_again(far: Orchestrator, proxy: Proxy) -> None:
    """While one call tries the database the others are refused; if it fails, so is everybody for a while."""
    a = await far.register_agent("a", ALL)
    away(proxy)
    for _ in range(3):
        await refused(far.submit_intent(whole("a", a.view_seq)))
    breaker = far._admission.guard.breaker
    assert breaker.state == "OPEN"
    breaker.recovery_timeout = 0.0
    probe = start(far.submit_intent(whole("a", a.view_seq)))
    await wait_for(lambda: breaker.state == "HALF_OPEN", "it is tried")
    assert isinstance(await refused(far.submit_intent(whole("a", a.view_seq))), CircuitBreakerOpenError)
    breaker.recovery_timeout = 3600.0
    assert isinstance(await refused(asyncio.wait_for(probe, 120)), StoreUnavailableError)
    assert breaker.state == "OPEN"


async def test_refusals_are_no_failures(far: Orchestrator) -> None:
    """What the pipeline or the ruleset refuses says nothing about the database."""
    a = await far.register_agent("a", ALL, permissions=[])
    for _ in range(10):
        assert (await refused(a.submit_intent(speak()))).code == "permission_denied"
        assert (await refused(far.broadcast_event(created("")))).code != "circuit_open"
    assert (far._admission.guard.breaker.state, far._admission.guard.breaker.failure_count) == ("CLOSED", 0)


async def test_observations_go_on_where_they_were_cut_off(opening: Opening, far: Orchestrator, proxy: Proxy) -> None:
    """What others have written meanwhile is told when the database is back: every delta, once."""
    near_by = await opening()
    handle = await far.register_agent("a", near(10.0, remove_operations=False))
    token = far.issue_cancel_token("a", "r")
    for n in range(5):
        await near_by.broadcast_event(created(f"before-{n}"))
    await far.reached(await head_of(near_by))
    away(proxy)
    receipts = [await near_by.broadcast_event(created(f"meanwhile-{n}")) for n in range(5)]
    assert not await far.reached(receipts[0].global_seq, 0.3)
    assert token.reason is not None  # by what came before
    fresh = far.issue_cancel_token("a", "r-2")
    assert fresh.reason is None
    proxy.accept_again()
    receipts.append(await near_by.broadcast_event(created("after")))
    found = await read_until(handle, receipts[-1].global_seq)
    assert len(found) == 11
    assert kept(handle.initial_view, found) == await near_by.view("a")
    assert fresh.reason == f"stale_due_to_effect_{receipts[0].global_seq}"


async def test_what_is_in_memory_can_be_had_meanwhile(far: Orchestrator, proxy: Proxy) -> None:
    """Views and observations of attached agents are there, and tokens are issued; what needs the log is refused."""
    a = await far.register_agent("a", ALL)
    receipt = await far.broadcast_event(created("x"))
    (await far.register_agent("gone", ALL)).close()
    far._attachments.drop("gone")
    away(proxy)
    assert (await far.view("a")).visible_entities == {"x": {}}
    assert (await a.next_observation())["view_seq"] == receipt.global_seq
    async with await far.subscribe("a", view_seq=receipt.global_seq - 1) as reader:
        assert [delta["view_seq"] for delta in reader.get_due()] == [receipt.global_seq]
    token = a.issue_cancel_token("r")
    provisional = far.issue_cancel_token("gone", "r")
    needs_the_log: list[Coroutine[Any, Any, Any]] = [
        far.view("a", at_seq=a.view_seq - 1),
        far.agent("gone"),
        far.view("nobody"),
        far.observed_events("a"),
        far.register_agent("new", ALL),
        far.tick("unity", 1.0),
    ]
    for error in await asyncio.gather(*map(refused, needs_the_log)):
        assert isinstance(error, StoreUnavailableError)
    assert not token.cancelled
    assert not provisional.cancelled
    proxy.accept_again()
    receipt = await far.broadcast_event(created("y"))
    assert {token.reason, provisional.reason} == {f"stale_due_to_effect_{receipt.global_seq}"}
    await far.agent("gone")


async def test_what_follows_is_written_when_it_is_back(opening: Opening, far: Orchestrator, proxy: Proxy) -> None:
    """Effects of generations wait, in their order, each written once; cursors are written too."""
    a = await far.register_agent("a", ALL)
    receipt = await far.broadcast_event(message())
    await a.next_observation()
    await far.flush()
    away(proxy)
    tokens = [a.issue_cancel_token(f"r-{n}") for n in range(300)]
    far.acknowledge("a", receipt.global_seq)
    for token in tokens[:100]:
        token.cancel("no more")
    await wait_for(lambda: far._follower._store.outages.watchdog.away, "it has failed once")
    assert len(far._outbox) == 400
    assert far.in_use
    proxy.accept_again()
    await far.flush()
    near_by = await opening()
    told = [
        (effect["kind"], effect["payload"]["req_id"]) for effect in await effects(near_by) if effect["source_id"] == "a"
    ]
    assert told == [("GenerationStarted", f"r-{n}") for n in range(300)] + [
        ("GenerationCancelled", f"r-{n}") for n in range(100)
    ]
    await far._observing._acknowledged._write()
    assert (await near_by.agent("a")).view_seq == receipt.global_seq


async def test_closing_while_it_is_away(opening: Opening, proxy: Proxy) -> None:
    """It does not hang; what could not be written is given up, and the next process goes on from what was."""
    async with opening.until(url=proxy.url, append_deadline=0.1) as world:
        a = await world.register_agent("a", ALL)
        receipt = await world.broadcast_event(message())
        await a.next_observation()
        await world.flush()
        away(proxy)
        token = a.issue_cancel_token("r")
        submitting = start(world.submit_intent(whole("a", receipt.global_seq)))
    assert token.reason == "orchestrator_closed"
    assert isinstance(await refused(asyncio.wait_for(submitting, 120)), StoreUnavailableError)
    again = await opening()
    handle = await again.agent("a")
    assert handle.view_seq <= receipt.global_seq
    await read_until(handle, receipt.global_seq) if handle.view_seq < receipt.global_seq else None
    assert not await effects(again, "GenerationStarted", "Speak")
    await handle.submit_intent(speak())
