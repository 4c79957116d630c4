"""Far more intents at once than may wait, whatever is to become of those for which there is no room."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from worldledger_service.runtime import Orchestrator
from worldledger_service.settings import Settings

from tests.conftest import NEVER
from worldledger.config import BackpressurePolicy, OrchestratorConfig
from worldledger.errors import BackpressureError, SimulationError
from worldledger.intents import Accepted

from .living import ALL, PATIENT, Mind, Service, event, intent, judged, living, right, serving, wired

pytestmark = pytest.mark.slow

_AGENTS: Final = tuple(f"agent-{n}" for n in range(10))
#: However busy the machine is, what is slow is no outage.
_PATIENT: Final[dict[str, Any]] = dict.fromkeys(("append_deadline", "command_timeout", "outage_patience"), 120.0)
_POLICIES: Final[tuple[BackpressurePolicy, ...]] = ("defer", "shed_oldest", "drop_newest")


@pytest.fixture
def each(thorough: bool) -> int:
    """Return the intents of each agent: over HTTP one half, over its socket the other."""
    return 1000 if thorough else 40


def _config(policy: BackpressurePolicy, each: int) -> OrchestratorConfig:
    """Return little room: most of the intents have to wait, or there is none for them."""
    return OrchestratorConfig(
        staleness_threshold=PATIENT,
        backpressure_policy=policy,
        max_in_flight=each // 20,
        max_pending=each,
        max_pending_per_agent=each * 3 // 20,
        max_queued_deltas=100_000,
        view_digest_every=0,
    )


def _intents(name: str, numbers: Iterable[int]) -> list[dict[str, Any]]:
    return [intent(name, f"{name}-{n}", "Speak", text=f"{n}") | {"priority": n % 5} for n in numbers]


def _reconcile(policy: BackpressurePolicy, results: dict[str, Accepted | SimulationError], each: int) -> list[Accepted]:
    """Check that everybody was answered as the policy says; return what was accepted."""
    assert len(results) == each * len(_AGENTS)
    accepted = {req_id: result for req_id, result in results.items() if isinstance(result, Accepted)}
    refused = [result for result in results.values() if not isinstance(result, Accepted)]
    assert all(result.req_id == req_id for req_id, result in accepted.items())
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
async def test_in_process(database_url: str, policy: BackpressurePolicy, each: int) -> None:
    """All are answered, what is acknowledged is in the log, and who listens has heard all of it."""
    settings = Settings(pool_size=4, snapshot_every=NEVER, **_PATIENT)
    config = _config(policy, each)
    async with Orchestrator.open(database_url, world_id="town", config=config, settings=settings) as world:
        for name in _AGENTS:
            await world.register_agent(name, ALL)
        listener = Mind(await world.register_agent("listener", ALL))
        listener.read()
        wanted = [one for name in _AGENTS for one in _intents(name, range(each))]
        submitting = asyncio.gather(*map(world.submit_intent, wanted), return_exceptions=True)
        most = await _most_waiting(world, submitting)
        results = await submitting
        assert most == config.max_pending
        assert world.waiting == 0
        end = await world.broadcast_event(event("end"))
        await listener.come_to(end.global_seq)
    told: dict[str, Accepted | SimulationError] = {}
    for one, result in zip(wanted, results, strict=True):
        assert isinstance(result, Accepted | SimulationError), result
        told[one["req_id"]] = result
    accepted = _reconcile(policy, told, each)
    await _judge(database_url, "town", accepted)
    assert sorted(one["global_seq"] for one in listener.heard[:-1]) == sorted(one.global_seq for one in accepted)


async def _most_waiting(world: Orchestrator, submitting: asyncio.Future[Any]) -> int:
    """Return how many have waited at most."""
    most = 0
    while not submitting.done():
        most = max(most, world.waiting)
        await asyncio.sleep(0)
    return most


@pytest.mark.thorough  # what the others show in process
async def test_over_the_wire(database_url: str, tmp_path: Path, subtests: pytest.Subtests, each: int) -> None:
    """The same over HTTP and WebSockets at once; a listener on a socket hears all of it."""
    async with serving(database_url, tmp_path, **_PATIENT) as service:
        for policy in _POLICIES:
            with subtests.test(policy=policy):
                await _flood(service, database_url, policy, each)


async def _flood(service: Service, database_url: str, policy: BackpressurePolicy, each: int) -> None:
    async with living(service, policy, max_queued=100_000) as world:
        await world.create_world(orchestrator=_config(policy, each))
        for name in _AGENTS:
            (await world.register_agent(name, ALL)).close()
        listener = Mind(await world.register_agent("listener", ALL))
        listener.read()
        told: dict[str, Accepted | SimulationError] = {}

        async def over_http(name: str) -> None:
            wanted = _intents(name, range(each // 2))
            for one, result in zip(wanted, await world.submit_intents(wanted), strict=True):
                told[one["req_id"]] = result

        async def over_socket(name: str) -> None:
            wanted = _intents(name, range(each // 2, each))
            async with wired(service, name, listener.began_at, policy) as wire:

                async def send() -> None:
                    for one in wanted:
                        await wire.send("intent", id=one["req_id"], intent=one)

                _, answers = await asyncio.gather(send(), wire.answers(len(wanted)))
            for answer in answers:
                assert answer["id"] not in told
                told[answer["id"]] = _result(answer)

        await asyncio.gather(*map(over_http, _AGENTS), *map(over_socket, _AGENTS))
        end = await world.broadcast_event(event("end"))
        await listener.come_to(end.global_seq)
    accepted = _reconcile(policy, told, each)
    await _judge(database_url, policy, accepted)
    assert sorted(one["global_seq"] for one in listener.heard[:-1]) == sorted(one.global_seq for one in accepted)
    await right(database_url, policy, listener)


def _result(answer: dict[str, Any]) -> Accepted | SimulationError:
    if answer["type"] == "accepted":
        return Accepted(answer["uuid"], global_seq=answer["global_seq"], req_id=answer["req_id"])
    problem = answer["problem"]
    assert problem["code"] == "backpressure", problem
    return BackpressureError(problem["agent_id"], problem["policy"])
