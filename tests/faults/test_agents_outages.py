"""The database cut off from services that agents live by, for a while: from all of them, or from one of several."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from worldledger_service.runtime import Orchestrator
from worldledger_service.settings import Settings

from tests.conftest import NEVER
from tests.store.proxy import Proxy
from tests.waiting import wait_for
from worldledger.chain import StoredEffect
from worldledger.client import Client
from worldledger.config import OrchestratorConfig
from worldledger.errors import CircuitBreakerOpenError, SimulationError, StoreUnavailableError

from .living import ALL, PATIENT, Mind, Service, entity, event, intent, judged, living, near, right, serving

pytestmark = pytest.mark.slow

_AGENTS: Final = ("ada", "bea", "cy")
#: Appends give up soon, and then the database is left alone for a moment.
_CONFIG: Final = OrchestratorConfig(staleness_threshold=PATIENT, breaker_failures=2, breaker_recovery_s=0.5)
_DEADLINE: Final = 0.3
_ENOUGH: Final = 8


def cut(proxy: Proxy) -> None:
    """Take the database away from who reaches it by this proxy."""
    proxy.refuse_all()
    proxy.cut_all()


class Talk:
    """An agent's program that speaks and moves without end, by intents of its own."""

    def __init__(self, mind: Mind) -> None:
        self.mind = mind
        self.done = 0
        self._stop = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def end(self) -> None:
        """Stop, once what is under way is accepted."""
        self._stop = True
        await self._task

    async def _run(self) -> None:
        name = self.mind.agent_id
        while not self._stop:
            n = self.done
            deed: dict[str, Any] = {"kind": "Speak", "text": f"{n}"}
            if n % 3 == 0:
                deed = {"kind": "Move", "to": [n % 20 - 10, len(name)]}
            await self.mind.act(intent(name, f"{name}-{n}", **deed))
            self.done += 1


async def refused_at_once(service_url: str) -> None:
    """Submit over HTTP until the service says that it leaves the database alone, and look at how it says so."""
    async with httpx2.AsyncClient(base_url=service_url, timeout=60) as http:
        codes: list[str] = []
        while True:
            wanted = intent("ada", f"http-{len(codes)}", "Speak", text="over HTTP")
            answer = await http.post("/v1/worlds/town/intents", json=wanted)
            assert answer.status_code == 503, answer.text
            problem = answer.json()
            codes.append(problem["code"])
            if codes[-1] == "circuit_open":
                break
            assert codes[-1] == "store_unavailable"
        assert int(answer.headers["Retry-After"]) >= 1
        # The breaker says when it tries again; a database that answers nobody is asked again after a second.
        assert 0 < problem["retry_after_s"] <= max(_CONFIG.breaker_recovery_s, 1.0)
        assert problem["recovery"] == "retry_with_delay"
        assert (await http.get("/livez")).status_code == 200
        assert (await http.get("/readyz")).status_code == 503
        # What is in memory can be had all the same.
        assert (await http.get("/v1/worlds/town/agents/ada/view")).status_code == 200


async def test_an_outage_in_the_middle_of_a_conversation(database_url: str, tmp_path: Path) -> None:
    """Cut off twice while agents act, the service says so at once; nothing acknowledged is lost, and none is twice."""
    async with (
        Proxy(database_url).running() as proxy,
        serving(proxy.url, tmp_path, append_deadline=_DEADLINE) as service,
        living(service) as world,
    ):
        await world.create_world(orchestrator=_CONFIG)
        for n, name in enumerate(_AGENTS):
            await world.broadcast_event(entity(name, 3.0 * n, 0.0))
        policies = (ALL, near(6.0), near(6.0, remove_operations=False))
        minds = [Mind(await world.register_agent(name, policy)) for name, policy in zip(_AGENTS, policies, strict=True)]
        for mind in minds:
            mind.read()
        talks = [Talk(mind) for mind in minds]
        for _ in range(2):
            await further(talks)
            cut(proxy)
            before = [talk.mind.refusals["circuit_open"] for talk in talks]
            await refused_at_once(service.url)
            await wait_for(
                lambda: all(
                    talk.mind.refusals["circuit_open"] > was + 3
                    for talk, was in zip(talks, before, strict=True)  # noqa: B023
                ),
                "everybody is refused at once",
            )
            proxy.accept_again()
        await further(talks)
        for talk in talks:
            await talk.end()
        end = await told(world, "end")
        for mind in minds:
            await mind.come_to(end)
        await wait_for(lambda: _told_of(service) >= 2, "the log tells of it")
    accepted = [each for mind in minds for each in mind.accepted.values()]
    effects = await judged(database_url, "town", accepted)
    written = Counter(f"{effect['req_id']}" for effect in effects if effect["kind"] in {"Speak", "Move"})
    # What was asked over HTTP and refused for want of an answer may be there; but then once.
    assert {req_id for req_id in written if not req_id.startswith("http-")} == {each.req_id for each in accepted}
    assert set(written.values()) == {1}
    await right(database_url, "town", *minds)


def _told_of(service: Service) -> int:
    """Return how many outages the service's log tells of, from one end to the other."""
    away, back = (service.said().count(f"the database is {where}") for where in ("away", "back"))
    return back if away == back else 0


async def further(talks: list[Talk]) -> None:
    """Wait until everybody has been acknowledged some more."""
    enough = [talk.done + _ENOUGH for talk in talks]
    await wait_for(lambda: all(talk.done >= least for talk, least in zip(talks, enough, strict=True)), "they go on")


async def told(world: Client, text: str) -> int:
    """Have everybody hear something; return its seq."""
    while True:
        try:
            return (await world.broadcast_event({**event(text), "req_id": text})).global_seq
        except CircuitBreakerOpenError:
            await asyncio.sleep(0.02)


async def test_nobody_waits_for_what_cannot_come(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An effect that was acknowledged but not seen yet when the database went away holds no intent up."""
    config = OrchestratorConfig(staleness_threshold=PATIENT, breaker_failures=1, breaker_recovery_s=3600.0)
    settings = Settings(pool_size=2, snapshot_every=NEVER, append_deadline=0.2)
    async with (
        Proxy(database_url).running() as proxy,
        Orchestrator.open(proxy.url, world_id="town", config=config, settings=settings) as world,
    ):
        ada = await world.register_agent("ada", ALL)
        monkeypatch.setattr(world._follower._tail, "_read", _read_nothing)
        unseen = await ada.submit_intent(intent("ada", "unseen", "Speak", text="did you hear?"))
        monkeypatch.setattr("worldledger_service.runtime.admission._PATIENCE", 0.1)
        cut(proxy)
        with pytest.raises(StoreUnavailableError):
            await world.submit_intent(intent("ada", "fails", "Speak", text="hello?"))
        monkeypatch.setattr("worldledger_service.runtime.admission._PATIENCE", 3600.0)
        for context_seq in (0, unseen.global_seq, unseen.global_seq + 100):
            with pytest.raises(CircuitBreakerOpenError):
                wanted = intent("ada", f"refused-{context_seq}", "Speak", context_seq, text="hello?")
                await asyncio.wait_for(world.submit_intent(wanted), 60)
        assert await world.submit_intent(intent("ada", "unseen", "Speak", text="did you hear?")) == unseen


async def _read_nothing(_: int) -> list[StoredEffect]:
    raise StoreUnavailableError("not now")


@pytest.mark.thorough  # in process: tests/runtime/test_two_orchestrators.py
async def test_a_partition(database_url: str, tmp_path: Path) -> None:
    """Of two services one is cut off, and the other goes on; then the first one's agents catch up and are stopped."""
    config = OrchestratorConfig(breaker_failures=2, breaker_recovery_s=0.5)
    async with (
        Proxy(database_url).running() as proxy,
        serving(proxy.url, tmp_path, "a", append_deadline=_DEADLINE) as one,
        serving(database_url, tmp_path, "b") as two,
        living(one) as there,
        living(two) as here,
    ):
        await here.create_world(orchestrator=config)
        for name, at in (("ada", 0.0), ("bea", 4.0), ("cy", 100.0)):
            await here.broadcast_event(entity(name, at, 0.0))
        ada = Mind(await there.register_agent("ada", ALL))
        cy = Mind(await there.register_agent("cy", near(6.0)))
        bea = Mind(await here.register_agent("bea", ALL))
        for mind in (ada, cy, bea):
            mind.read()
        ready = await here.broadcast_event(event("ready"))
        await wait_for(lambda: all(mind.view.view_seq == ready.global_seq for mind in (ada, cy, bea)), "all are ready")
        thinking = ada.handle.issue_cancel_token("thought")
        untouched = cy.handle.issue_cancel_token("quiet thought")
        await until_kinds(here, "GenerationStarted", 2)

        cut(proxy)
        refused: list[SimulationError] = []
        while not any(isinstance(error, CircuitBreakerOpenError) for error in refused):
            with pytest.raises(SimulationError) as caught:
                await ada.handle.submit_intent(intent("ada", "stale", "Speak", ready.global_seq, text="hello?"))
            refused.append(caught.value)
        first = None
        for n in range(60):
            deed: dict[str, Any] = {"kind": "Move", "to": [4.0, n]} if n % 2 else {"kind": "Speak", "text": f"{n}"}
            moved = await bea.handle.submit_intent(intent("bea", f"bea-{n}", context_seq=bea.view.view_seq, **deed))
            first = first or moved.global_seq
            await wait_for(lambda: bea.view.view_seq >= moved.global_seq, "bea sees what it does")  # noqa: B023
        # There nothing is known of it.
        assert ada.view.view_seq == cy.view.view_seq == ready.global_seq
        assert not thinking.cancelled
        assert (await there.view("ada")).view_seq == ready.global_seq

        proxy.accept_again()
        await asyncio.wait_for(thinking.wait_cancelled(), 60)
        assert thinking.reason == f"stale_due_to_effect_{first}"
        assert not untouched.cancelled
        await wait_for(lambda: ada.view.view_seq >= moved.global_seq, "ada has caught up")
        assert not cy.heard[1:]  # nobody has disturbed cy
        end = await here.broadcast_event(event("end"))
        for mind in (ada, cy, bea):
            await mind.come_to(end.global_seq)
        await asyncio.wait_for(untouched.wait_cancelled(), 60)
        assert untouched.reason == f"stale_due_to_effect_{end.global_seq}"
        assert ada.view.visible_entities == bea.view.visible_entities
        await ada.act(intent("ada", "fresh", "Speak", end.global_seq, text="I am back"))
        await until_kinds(here, "GenerationCancelled", 2)
    effects = await judged(database_url, "town", [*ada.accepted.values()])
    assert Counter(effect["kind"] for effect in effects)["GenerationStarted"] == 2
    assert [each["payload"]["text"] for each in ada.heard if each["kind"] == "Speak"] == [
        f"{n}" for n in range(0, 60, 2)
    ]
    await right(database_url, "town", ada, cy, bea)


async def until_kinds(world: Client, kind: str, count: int) -> None:
    """Wait until so many effects of a kind are in the log."""
    while [each.effect["kind"] for each in await world.event_log.get_entries_since(0)].count(kind) < count:
        await asyncio.sleep(0.01)
