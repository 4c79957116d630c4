"""A database that neither answers nor fails: what watches the service is answered all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx2
import pytest
from worldledger_service.api import health, metrics
from worldledger_service.api.context import Questions, Services
from worldledger_service.projecting.engine import Engine
from worldledger_service.store import Store

from tests.waiting import wait_for

from .helpers import problem


class Silence:
    """A call that never ends, not even when it is cancelled, until it is released."""

    def __init__(self) -> None:
        self.calls = self.cancelled = self.ended = 0
        self.released = asyncio.Event()

    def method(self) -> Callable[[Any], Coroutine[Any, Any, None]]:
        """Return it as the method of a class."""

        async def silent(_: Any) -> None:
            await self.wait()

        return silent

    async def wait(self) -> None:
        """Wait for the release."""
        self.calls += 1
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
        self.ended += 1


@pytest.fixture
async def silence(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Silence]:
    """Return a silence, and little patience with it."""
    for module, name in ((health, "_PATIENCE"), (health, "_SHORT_PATIENCE"), (metrics, "_PATIENCE")):
        assert getattr(module, name) <= 3.0
        monkeypatch.setattr(module, name, 0.05)
    made = Silence()
    try:
        yield made
    finally:
        made.released.set()
        await wait_for(lambda: made.ended == made.calls, "the calls end")


async def test_readiness_does_not_wait_for_long(
    client: httpx2.AsyncClient, silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request is told in time; one task asks for all of them, is not cancelled, and ends by itself."""
    with monkeypatch.context() as patched:
        patched.setattr(Store, "ping", silence.method())
        async with asyncio.timeout(100):
            for _ in range(3):
                problem(await client.get("/readyz"), 503, "store_unavailable")
            for answer in await asyncio.gather(*(client.get("/readyz") for _ in range(5))):
                problem(answer, 503, "store_unavailable")
    assert (silence.calls, silence.cancelled, silence.ended) == (1, 0, 0)
    silence.released.set()
    await wait_for(lambda: silence.ended == 1, "the question ends")
    monkeypatch.setattr(health, "_PATIENCE", 30.0)
    assert (await client.get("/readyz")).status_code == 200


async def test_projections_that_are_not_told_are_left_out(
    client: httpx2.AsyncClient, silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metrics and readiness go without them, and wait for the same task."""
    monkeypatch.setattr(health, "_PATIENCE", 30.0)
    monkeypatch.setattr(Engine, "status", silence.method())
    async with asyncio.timeout(100):
        for _ in range(3):
            told = await client.get("/metrics")
            assert told.status_code == 200
            assert "worldledger_effects_appended_total" in told.text
            assert "worldledger_projection" not in told.text
            assert (await client.get("/readyz")).json() == {"status": "ready", "projections": None}
    assert (silence.calls, silence.cancelled) == (1, 0)


async def test_a_request_that_the_stopping_service_gives_up(
    client: httpx2.AsyncClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered, and nothing is raised that the server would log; without a stop who cancels is obeyed."""
    asked = asyncio.Event()

    async def silent(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Store, "world", silent)
    for stopping in (False, True):
        asked.clear()
        request = asyncio.create_task(client.get("/v1/worlds/town"))
        await asked.wait()
        if stopping:
            services.stopping.set()
        request.cancel()
        await asyncio.wait([request])
        assert request.cancelled() is not stopping
    problem(request.result(), 503, "store_unavailable", outcome="unknown")


async def test_a_request_that_is_given_up_cancels_nothing(services: Services, silence: Silence) -> None:
    """A client that leaves does not take the question along; the next one has its answer."""
    questions = services.questions
    first = asyncio.create_task(questions.ask(silence.wait, 30))
    await wait_for(lambda: silence.calls == 1, "it is asked")
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    second = asyncio.create_task(questions.ask(silence.wait, 30))
    await asyncio.sleep(0)
    silence.released.set()
    await second
    assert (silence.calls, silence.cancelled) == (1, 0)


async def test_an_error_is_everybodys_and_is_asked_anew() -> None:
    """All who wait have the error; whoever asks afterwards asks again."""
    questions = Questions()
    calls = 0

    async def fail() -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        raise ConnectionResetError

    async def ask() -> None:
        with pytest.raises(ConnectionResetError):
            await questions.ask(fail, 30)

    await asyncio.gather(ask(), ask())
    await ask()
    assert calls == 2
