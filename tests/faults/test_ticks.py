"""Ticks can be repeated: whatever order intents arrive in, and whoever dies, a tick makes the same of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import asyncpg
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from worldledger_service.runtime import Orchestrator
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.conftest import NEVER
from tests.store.helpers import assert_sound
from worldledger.client import Client
from worldledger.config import OrchestratorConfig
from worldledger.errors import CircuitBreakerOpenError, SimTimeOrderError, StoreUnavailableError
from worldledger.intents import Held

from .living import ALL, PATIENT, Service, entity, intent, living, serving

AGENTS: Final = ("ada", "bea", "cy")
CONFIG: Final = OrchestratorConfig(
    staleness_threshold=PATIENT,
    view_digest_every=0,
    record_rejections=True,
    intents_per_s=4.0,
    max_pending=100_000,
)
_SETTINGS: Final = Settings(pool_size=4, snapshot_every=NEVER)
_names = itertools.count(1)


class Deed(NamedTuple):
    """What is sent together: one intent, or several as a list."""

    intents: tuple[dict[str, Any], ...]
    atomic: bool
    ordered: bool


def deed(number: int, wishes: Sequence[tuple[int, int, int, int]], atomic: bool, ordered: bool) -> Deed:
    """Make a deed of wishes: whose, its order, its priority, and where it wants to go (0: it only speaks)."""
    made = []
    for n, (who, order, priority, place) in enumerate(wishes):
        name = AGENTS[who]
        # Who wants to go says from where: what is accepted depends on what came before.
        payload: dict[str, Any] = {"text": f"{number}"} if place == 0 else {"to": [place, 0], "from": [place - 1, 0]}
        kind = "Speak" if place == 0 else "Move"
        made.append(intent(name, f"{number}-{n}", kind, **payload) | {"order": order, "priority": priority})
    return Deed(tuple(made), atomic, ordered)


_WISH = st.tuples(st.integers(0, 2), st.integers(-2, 2), st.integers(-1, 1), st.integers(0, 2))
_DEED = st.tuples(st.lists(_WISH, min_size=1, max_size=3), st.booleans(), st.booleans())
_TICKS = st.lists(st.lists(_DEED, max_size=6), min_size=1, max_size=3)


class Runs:
    """Runs of one story, each in a world of its own."""

    def __init__(self, url: str, ticks: Sequence[Sequence[Deed]]) -> None:
        self.url = url
        self.ticks = ticks

    async def calm(self) -> str:
        """Tell the story where all happens in one process, one after the other; return the world's name."""
        world_id = f"calm-{next(_names)}"
        async with opened(self.url, world_id) as world:
            await settle(world)
            for number, deeds in enumerate(self.ticks, 1):
                for each in deeds:
                    await hold(world, each)
                await world.tick("unity", float(number))
        return world_id

    async def storm(self, random: Random, cuts: bool) -> str:
        """Tell it in two processes, in any order, cut off now and then, both closing every tick."""
        world_id = f"storm-{next(_names)}"
        async with opened(self.url, world_id) as one, opened(self.url, world_id) as other:
            worlds = (one, other)
            await settle(one)
            for number, deeds in enumerate(self.ticks, 1):
                shuffled = random.sample(deeds, len(deeds))
                holding = [self._hold(worlds, each, random.randrange(1 << 30)) for each in shuffled]
                cutting = [cut_all(self.url)] if cuts and random.random() < 0.5 else []
                await asyncio.gather(*holding, *cutting)
                closing = [close(world, float(number)) for world in random.sample(worlds, 2)]
                cutting = [cut_all(self.url)] if cuts and random.random() < 0.5 else []
                closers = asyncio.gather(*closing)
                await asyncio.gather(closers, *cutting)
                assert sum(closers.result()) <= 1  # where the answer was lost, nobody may have been told
        return world_id

    @staticmethod
    async def _hold(worlds: Sequence[Orchestrator], each: Deed, seed: int) -> None:
        """Hold a deed at one process; one that has gone away meanwhile is asked at the other."""
        random = Random(seed)
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)
        if random.random() < 0.3:
            task = asyncio.ensure_future(hold(random.choice(worlds), each))
            for _ in range(random.randrange(30)):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await hold(random.choice(worlds), each)


def opened(url: str, world_id: str, config: OrchestratorConfig = CONFIG) -> AbstractAsyncContextManager[Orchestrator]:
    """Open a world that is ordered by ticks on a store of its own, as a process of its own would."""
    return Orchestrator.open(
        url, world_id=world_id, config=config, settings=_SETTINGS, time_authority="unity", order="tick"
    )


async def settle(world: Orchestrator | Client) -> None:
    """Put everybody into the world."""
    for name in AGENTS:
        draft = entity(name, 0.0, 0.0)
        draft["req_id"] = name
        await world.broadcast_event(draft)
        await world.register_agent(name, ALL)


async def hold(world: Orchestrator, each: Deed) -> None:
    """Hold a deed until it is held."""
    while True:
        try:
            if len(each.intents) == 1:
                await world.hold_intent(each.intents[0])
                return
            answers = await world.hold_intents(each.intents, atomic=each.atomic, ordered=each.ordered)
        except (StoreUnavailableError, CircuitBreakerOpenError):
            pass
        else:
            assert all(isinstance(answer, Held) for answer in answers), answers
            return
        await asyncio.sleep(0.05)


async def close(world: Orchestrator, time: float) -> bool:
    """Close a tick; return False if it was closed already."""
    while True:
        try:
            await world.tick("unity", time)
        except SimTimeOrderError:
            return False
        except (StoreUnavailableError, CircuitBreakerOpenError):
            await asyncio.sleep(0.05)
        else:
            return True


async def cut_all(url: str) -> None:
    """Cut every connection to the database but this one."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
    finally:
        await connection.close()


async def written(store: Store, world_id: str) -> list[dict[str, Any]]:
    """Return the effects of a world without what may differ, having verified it; nothing is held any more."""
    assert (await store.reader.verify(world_id)).verified
    (held,) = await store.reader.fetch(
        "select count(*) from held_intents where world_id = $1 and outcome is null", world_id
    )
    assert held[0] == 0
    entries = await (await store.log(world_id)).get_entries_since(1)
    left_out = {"uuid", "wall_time", "world_id"}
    return [{name: value for name, value in entry.effect.items() if name not in left_out} for entry in entries]


@examples(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ticks=_TICKS, seed=st.integers(0, 1 << 30), cuts=st.booleans())
def test_the_same_intents_make_the_same_effects(
    database_url: str, ticks: list[list[tuple[list[tuple[int, int, int, int]], bool, bool]]], seed: int, cuts: bool
) -> None:
    """The same intents make the same effects, in whatever order and wherever they arrive, and whatever is cut off.

    All of each effect is the same, but for its uuid and wall_time: even the seqs, for refusals are written in order.
    """
    numbers = itertools.count(1)
    story = Runs(database_url, [[deed(next(numbers), *each) for each in deeds] for deeds in ticks])

    async def both() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        calm, storm = await story.calm(), await story.storm(Random(seed), cuts)
        async with Store.open(database_url, _SETTINGS) as store:
            return await written(store, calm), await written(store, storm)

    calm, storm = asyncio.run(both())
    assert storm == calm


EACH: Final = 40


def rounds(count: int) -> list[list[dict[str, Any]]]:
    """Return what is intended in each round of a longer story."""
    random = Random(11)
    made = []
    for number in range(1, count + 1):
        wishes = [
            (random.randrange(3), random.randrange(-5, 20), random.randrange(2), random.randrange(3))
            for _ in range(EACH)
        ]
        made.append([deed(number * 1000 + n, [wish], False, True).intents[0] for n, wish in enumerate(wishes)])
    return made


@pytest.mark.slow
async def test_a_closer_is_killed(database_url: str, tmp_path: Path, thorough: bool) -> None:
    """Services killed while they hold and close lose nothing, and do nothing twice: the log is as without kills."""
    story = rounds(3 if thorough else 2)
    config = CONFIG.model_copy(update={"intents_per_s": 0.0})
    async with opened(database_url, "calm", config) as world:
        await settle(world)
        for number, intents in enumerate(story, 1):
            await asyncio.gather(*(world.hold_intent(each) for each in intents))
            await world.tick("unity", float(number))
    random = Random(5)
    async with (
        serving(database_url, tmp_path, "one") as one,
        serving(database_url, tmp_path, "two") as two,
        living(one, "storm") as first,
        living(two, "storm") as second,
    ):
        await first.create_world(orchestrator=config, time_authority="unity", order="tick")
        await settle(first)
        for number, intents in enumerate(story, 1):
            shuffled = random.sample(intents, len(intents))
            holding = [asyncio.ensure_future((first, second)[n % 2].hold_intent(i)) for n, i in enumerate(shuffled)]
            if number == 1:
                await asyncio.wait(holding, return_when=asyncio.FIRST_COMPLETED)
                await again(one)
            await asyncio.gather(*holding)
            closing = asyncio.ensure_future(tick(first, float(number)))
            if number == 2 or (number == 1 and thorough):  # before, in the middle, or after the commit
                await asyncio.sleep(random.uniform(0.0, 0.02))
                await again(one)
            await closing
            with pytest.raises(SimTimeOrderError):
                await second.tick("unity", float(number))
    async with Store.open(database_url, _SETTINGS) as store:
        assert await written(store, "storm") == await written(store, "calm")
        await assert_sound(store, "storm")


async def tick(world: Client, time: float) -> None:
    """Close a tick over HTTP; one that was closed before its answer was lost is closed."""
    with suppress(SimTimeOrderError):
        await world.tick("unity", time)


async def again(service: Service) -> None:
    """Kill a service, and start it anew."""
    await service.kill()
    await service.start()
