"""Ten thousand intents at once, whatever is to become of those for which there is no room."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from service.runtime import Orchestrator
from service.settings import Settings
from tests.conftest import NEVER
from worldledger.config import BackpressurePolicy, OrchestratorConfig
from worldledger.errors import BackpressureError, SimulationError
from worldledger.intents import Accepted

from .living import ALL, PATIENT, Mind, Service, event, intent, judged, living, right, serving, wired

pytestmark = pytest.mark.slow

_AGENTS: Final = tuple(f"agent-{n}" for n in range(10))
#: Intents of each agent: over HTTP one half, over its socket the other.
_EACH: Final = 1000
#: However busy the machine is, what is slow is no outage.
_PATIENT: Final[dict[str, Any]] = dict.fromkeys(("append_deadline", "command_timeout", "outage_patience"), 120.0)
_POLICIES: Final[tuple[BackpressurePolicy, ...]] = ("defer", "shed_oldest", "drop_newest")


def _config(policy: BackpressurePolicy) -> OrchestratorConfig:
    """Give little room: most of ten thousand have to wait, or there is none for them."""
    return OrchestratorConfig(
        staleness_threshold=PATIENT,
        backpressure_policy=policy,
        max_in_flight=50,
        max_pending=1000,
        max_pending_per_agent=150,
        max_queued_deltas=100_000,
        view_digest_every=0,
    )


def _intents(name: str, numbers: Iterable[int]) -> list[dict[str, Any]]:
    return [intent(name, f"{name}-{n}", "Speak", text=f"{n}") | {"priority": n % 5} for n in numbers]


def _reconcile(policy: BackpressurePolicy, results: dict[str, Accepted | SimulationError]) -> list[Accepted]:
    """Check that everybody was answered as the policy says; give what was accepted."""
    assert len(results) == _EACH * len(_AGENTS)
    accepted = {req_id: each for req_id, each in results.items() if isinstance(each, Accepted)}
    refused = [each for each in results.values() if not isinstance(each, Accepted)]
    assert all(each.req_id == req_id for req_id, each in accepted.items())
    assert [error for error in refused if not isinstance(error, BackpressureError) or error.policy != policy] == []
    assert accepted
    assert bool(refused) == (policy != "defer")
    return list(accepted.values())


async def _judge(database_url: str, world_id: str, accepted: list[Accepted]) -> None:
    """Check that the log has what was acknowledged, once, and nothing that was refused."""
    effects = await judged(database_url, world_id, accepted)
    written = Counter(effect["req_id"] for effect in effects if effect["kind"] == "Speak")
    assert written == Counter(each.req_id for each in accepted)


@pytest.mark.parametrize("policy", _POLICIES)
async def test_in_process(database_url: str, policy: BackpressurePolicy) -> None:
    """All are answered, what is acknowledged is in the log, and who listens has heard all of it."""
    settings = Settings(pool_size=4, snapshot_every=NEVER, **_PATIENT)
    async with Orchestrator.open(database_url, world_id="town", config=_config(policy), settings=settings) as world:
        for name in _AGENTS:
            await world.register_agent(name, ALL)
        listener = Mind(await world.register_agent("listener", ALL))
        listener.read()
        wanted = [each for name in _AGENTS for each in _intents(name, range(_EACH))]
        results = await asyncio.gather(*map(world.submit_intent, wanted), return_exceptions=True)
        assert world.waiting == 0
        end = await world.broadcast_event(event("end"))
        await listener.come_to(end.global_seq)
    told: dict[str, Accepted | SimulationError] = {}
    for each, result in zip(wanted, results, strict=True):
        assert isinstance(result, Accepted | SimulationError), result
        told[each["req_id"]] = result
    accepted = _reconcile(policy, told)
    await _judge(database_url, "town", accepted)
    assert sorted(each["global_seq"] for each in listener.heard[:-1]) == sorted(each.global_seq for each in accepted)


@pytest.fixture
async def service(database_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    """Serve from a process of its own."""
    async with serving(database_url, tmp_path, **_PATIENT) as made:
        yield made


@pytest.mark.parametrize("policy", _POLICIES)
async def test_over_the_wire(service: Service, database_url: str, policy: BackpressurePolicy) -> None:
    """The same over HTTP and WebSockets at once; a listener on a socket hears all of it."""
    async with living(service, max_queued=100_000) as world:
        await world.create_world(orchestrator=_config(policy))
        for name in _AGENTS:
            (await world.register_agent(name, ALL)).close()
        listener = Mind(await world.register_agent("listener", ALL))
        listener.read()
        told: dict[str, Accepted | SimulationError] = {}

        async def over_http(name: str) -> None:
            wanted = _intents(name, range(_EACH // 2))
            for each, result in zip(wanted, await world.submit_intents(wanted), strict=True):
                told[each["req_id"]] = result

        async def over_socket(name: str) -> None:
            wanted = _intents(name, range(_EACH // 2, _EACH))
            async with wired(service, name, listener.began_at) as wire:

                async def send() -> None:
                    for each in wanted:
                        await wire.send("intent", id=each["req_id"], intent=each)

                _, answers = await asyncio.gather(send(), wire.answers(len(wanted)))
            for each in answers:
                assert each["id"] not in told
                told[each["id"]] = _result(each)

        await asyncio.gather(*map(over_http, _AGENTS), *map(over_socket, _AGENTS))
        end = await world.broadcast_event(event("end"))
        await listener.come_to(end.global_seq)
    accepted = _reconcile(policy, told)
    await _judge(database_url, "town", accepted)
    assert sorted(each["global_seq"] for each in listener.heard[:-1]) == sorted(each.global_seq for each in accepted)
    await right(database_url, "town", listener)


def _result(answer: dict[str, Any]) -> Accepted | SimulationError:
    if answer["type"] == "accepted":
        return Accepted(answer["uuid"], global_seq=answer["global_seq"], req_id=answer["req_id"])
    problem = answer["problem"]
    assert problem["code"] == "backpressure", problem
    return BackpressureError(problem["agent_id"], problem["policy"])
