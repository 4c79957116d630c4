"""Two services of one world: agents who live by both, and generations of one that the other ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.waiting import wait_for
from worldledger.client import Client
from worldledger.config import OrchestratorConfig
from worldledger.effects import Effect
from worldledger.errors import IllegalEffectError, RequestConflictError
from worldledger.intents import Accepted

from .living import ALL, PATIENT, Mind, Two, entity, event, intent, judged, living, near, right, serving

pytestmark = [pytest.mark.slow, pytest.mark.group("two services")]

_AGENTS: Final = ("ada", "bea", "cy", "dan")
_EACH: Final = 12


@asynccontextmanager
async def both(two: Two, world_id: str) -> AsyncIterator[tuple[Client, Client]]:
    """Talk to a world by each of two services."""
    async with living(two.one, world_id) as a, living(two.two, world_id) as b:
        yield a, b


async def test_racing_intents(two: Two) -> None:
    """Whoever comes by whichever service: one log, one effect for a request, one winner, and the same views."""
    async with both(two, "racing") as (a, b):
        minds, accepted = await _all_race(a, b)
    effects = await judged(two.url, "racing", accepted)
    written = Counter(effect["req_id"] for effect in effects if effect["source_id"] in _AGENTS)
    assert set(written) == {each.req_id for each in accepted}
    assert set(written.values()) == {1}
    made = [effect["payload"]["entity_id"] for effect in effects if effect["kind"] == "EntityCreated"]
    assert sorted(made) == sorted([*_AGENTS, *(f"thing-{n}" for n in range(0, _EACH, 4))])
    await right(two.url, "racing", *minds)


async def _all_race(a: Client, b: Client) -> tuple[list[Mind], list[Accepted]]:
    """Have everybody do everything by both; return them, and what was accepted."""
    await a.create_world(orchestrator=OrchestratorConfig(staleness_threshold=PATIENT))
    minds: list[Mind] = []
    policies = (ALL, near(6.0), near(6.0, remove_operations=False), near(20.0))
    for n, (name, policy) in enumerate(zip(_AGENTS, policies, strict=True)):
        await b.broadcast_event(entity(name, 2.0 * n, 0.0))
        here = Mind(await a.register_agent(name, policy))
        there = Mind(await b.agent(name, view_seq=here.view.view_seq))
        assert there.view == here.view
        minds += [here, there]
    for mind in minds:
        mind.read()
    results = await asyncio.gather(*(_race(a, b, n, name) for n in range(_EACH) for name in _AGENTS))
    end = await a.broadcast_event(event("end"))
    for mind in minds:
        await mind.come_to(end.global_seq)
    for here, there in zip(minds[::2], minds[1::2], strict=True):
        assert here.view == there.view
        assert here.heard == there.heard
    return minds, [each for some in results for each in some]


async def _race(a: Client, b: Client, n: int, name: str) -> list[Accepted]:
    """Do a thing by both services at once: a request of each, one of both, one that differs, or what only one can."""
    if n % 4 == 0:  # everybody makes the same thing
        payload: dict[str, Any] = {"kind": "EntityCreated", "entity_id": f"thing-{n}", "entity_data": {}}
        wanted = [intent(name, f"{n}-{name}-{by}", "Custom") | {"payload": payload} for by in "ab"]
    elif n % 4 == 1:
        wanted = [intent(name, f"{n}-{name}", "Move", to=[n % 12, len(name)])] * 2
    elif n % 4 == 2:
        wanted = [intent(name, f"{n}-{name}", "Speak", text=f"{name} says {by}") for by in "ab"]
    else:
        wanted = [intent(name, f"{n}-{name}-{by}", "Speak", text=f"{name} says {by}") for by in "ab"]
    results = await asyncio.gather(a.submit_intent(wanted[0]), b.submit_intent(wanted[1]), return_exceptions=True)
    accepted = [result for result in results if isinstance(result, Accepted)]
    refused = [result for result in results if not isinstance(result, Accepted)]
    if n % 4 == 0:
        assert all(isinstance(error, IllegalEffectError) for error in refused), refused
    elif n % 4 == 1:
        assert not refused
        assert accepted[0] == accepted[1]
        assert sorted(each.replayed for each in accepted) == [False, True]
    elif n % 4 == 2:
        assert len(accepted) == 1
        assert isinstance(refused[0], RequestConflictError)
    else:
        assert not refused
    return accepted


async def _thinking(here: Client, there: Client) -> Mind:
    """Have ada be ready to think by one service, with bea at the other."""
    await here.create_world()
    await there.register_agent("bea", ALL)
    ada = Mind(await here.register_agent("ada", ALL))
    ada.read()
    ready = await there.broadcast_event(event("ready"))
    await wait_for(lambda: ada.view.view_seq == ready.global_seq, "ada is ready")
    return ada


async def _told(world: Client, kind: str, req_id: str) -> Effect:
    """Wait for the effect that tells of a generation; there is one alone."""
    while True:
        found = [
            entry.effect
            for entry in await world.event_log.get_entries_since(0)
            if entry.effect["kind"] == kind and entry.effect["payload"]["req_id"] == req_id
        ]
        if found:
            (effect,) = found
            return effect
        await asyncio.sleep(0.01)


async def test_an_effect_of_one_interrupts_a_generation_of_the_other(two: Two) -> None:
    """What comes to the one service stops who thinks at the other; so does a cancellation, and an intent ends it."""
    async with both(two, "interrupted") as (here, there):
        ada = await _thinking(here, there)
        stale = ada.handle.issue_cancel_token("stale")
        begun = await _told(there, "GenerationStarted", "stale")
        cause = await there.submit_intent(intent("bea", "wait", "Speak", ada.view.view_seq, text="Wait!"))
        await asyncio.wait_for(stale.wait_cancelled(), 60)
        assert stale.reason == f"stale_due_to_effect_{cause.global_seq}"
        ended = await _told(there, "GenerationCancelled", "stale")
        assert ended["payload"]["generation_id"] == begun["payload"]["generation_id"]
        assert ended["payload"]["reason"] == stale.reason

        await wait_for(lambda: ada.view.view_seq >= cause.global_seq, "ada has heard it")
        unwanted = ada.handle.issue_cancel_token("unwanted")
        await _told(there, "GenerationStarted", "unwanted")
        await there.cancel_generation("ada", "unwanted")
        await asyncio.wait_for(unwanted.wait_cancelled(), 60)
        assert unwanted.reason == "user_requested"
        assert (await _told(there, "GenerationCancelled", "unwanted"))["payload"]["reason"] == "user_requested"

        spoken = ada.handle.issue_cancel_token("spoken")
        await _told(there, "GenerationStarted", "spoken")
        await there.submit_intent(intent("ada", "spoken", "Speak", ada.view.view_seq, text="By the other door"))
        assert await _told(there, "GenerationFinished", "spoken")
        assert not spoken.cancelled
        await ada.stop()
    await judged(two.url, "interrupted", [cause])


async def test_the_owner_of_a_generation_is_killed(two: Two, tmp_path: Path) -> None:
    """Who thought at a service that was killed goes on at another: the old generation can be ended, a new one begun."""
    async with (
        serving(two.url, tmp_path) as owner,
        living(owner, "owned") as here,
        living(two.two, "owned") as there,
    ):
        ada = await _thinking(here, there)
        for req_id in ("left behind", "taken up", "spoken at once"):
            ada.handle.issue_cancel_token(req_id)
            await _told(there, "GenerationStarted", req_id)
        await owner.kill()
        await ada.stop()
        await there.cancel_generation("ada", "left behind")
        assert (await _told(there, "GenerationCancelled", "left behind"))["payload"]["reason"] == "user_requested"

        ada.handle = await there.agent("ada", view_seq=ada.view.view_seq)
        assert ada.handle.initial_view == ada.view
        ada.read()
        again = ada.handle.issue_cancel_token("taken up")
        cause = await there.submit_intent(intent("bea", "wait", "Speak", ada.view.view_seq, text="Wait!"))
        await asyncio.wait_for(again.wait_cancelled(), 60)
        assert again.reason == f"stale_due_to_effect_{cause.global_seq}"
        await wait_for(lambda: ada.view.view_seq >= cause.global_seq, "ada has heard it")
        said = await ada.act(intent("ada", "spoken at once", "Speak", ada.view.view_seq, text="As I was saying"))
        end = await there.broadcast_event(event("end"))
        await ada.come_to(end.global_seq)
    effects = await judged(two.url, "owned", [cause, said])
    started = [effect["payload"] for effect in effects if effect["kind"] == "GenerationStarted"]
    assert Counter(payload["req_id"] for payload in started) == {"left behind": 1, "taken up": 2, "spoken at once": 1}
    assert len({payload["generation_id"] for payload in started}) == 4
    await right(two.url, "owned", ada)
