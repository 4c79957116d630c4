"""The view_seq of a view is the global_seq of the effect that made it, in whichever way the view is asked for."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from structlog.testing import capture_logs
from worldledger_service.runtime import ObservationPolicy, Orchestrator, OrchestratorConfig

from worldledger.errors import PolicyFailedError, UnknownAgentError
from worldledger.policies import register_policy
from worldledger.world import WorldState

from .conftest import Opening
from .helpers import ALL, created, draft, head_of, moved, near, read_until, refused, removed
from .stories import AGENTS, POLICIES, register_all, story


@register_policy("test-anxious")
class Anxious(ObservationPolicy):
    """Sees everything as long as there is no ghost."""

    def sees_entity(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Fail at one."""
        if entity_id == "ghost":
            raise ZeroDivisionError
        return super().sees_entity(world_state, agent_id, entity_id)


async def quiet(world: Orchestrator, count: int) -> None:
    """Let much happen that only ``x`` has to do with, in the distance."""
    await world._follower._store.bulk_append(world.world_id, [moved("x", 900.0 + n % 5, 0) for n in range(count)])
    await head_of(world)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(1, 4))])
async def test_at_every_seq_it_is_that_of_the_last_delta(opening: Opening, seed: int, thorough: bool) -> None:
    """Whatever agents and worlds do, registrations anew included: what attached agents were told says it for each."""
    random = Random(seed)
    world = await opening()
    for each in story(random.randrange(40), seed):
        await world.broadcast_event(each)
    await register_all(world)
    handles = dict(world.agent_handles)
    seqs = {name: [handle.view_seq] for name, handle in handles.items()}
    await head_of(world)
    readers = {name: await world.subscribe(name, view_seq=handle.view_seq) for name, handle in handles.items()}
    for each in story(40 if thorough else 12, seed + 100, list(world.world_state.entities)):
        await world.broadcast_event(each)
        what = random.random()
        if what < 0.1:  # another policy, that of another agent
            await world.register_agent(random.choice(AGENTS), POLICIES[random.choice(AGENTS)])
        elif what < 0.3:  # nothing that anybody sees
            await world.broadcast_event(draft("SimTick", {"agent_id": "nobody-there"}, "clock"))
    head = await head_of(world)
    for name, reader in readers.items():
        seqs[name] += [delta["view_seq"] for delta in reader.get_due()]
    anew = await opening()  # where nobody is attached
    for name in AGENTS:
        registered = (await world.agents())[name]["registered_seq"]
        assert seqs[name][0] == registered
        for seq in range(registered, head + 1):
            expected = max(each for each in seqs[name] if each <= seq)
            for here in (world, anew):
                view = await here.view(name, at_seq=seq)
                assert view.view_seq == expected, (name, seq)
                assert view == await world.view(name, at_seq=expected)
        for here in (world, anew):
            assert await here.view(name) == await here.view(name, at_seq=head)
        for one, other in pairwise(seqs[name]):
            async with await anew.subscribe(name, view_seq=(one + other) // 2) as reader:
                assert reader.get_due()[0]["view_seq"] == other
            assert (await anew.agent(name, view_seq=other - 1)).view_seq == one
        assert isinstance(await refused(world.view(name, at_seq=registered - 1)), UnknownAgentError)


async def test_it_is_found_however_long_ago_it_was(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches in which the agent sees nothing are gone back over, to the last delta or to its registration."""
    monkeypatch.setattr("worldledger_service.runtime.replays._FIRST", 7)
    monkeypatch.setattr("worldledger_service.runtime.observing._LOOKED_BACK", 400)
    world = await opening()
    for each in (created("a", 0, 0), created("x", 900, 0)):
        await world.broadcast_event(each)
    registered = (await world.register_agent("a", near(5.0))).view_seq
    await quiet(world, 300)
    seen = (await world.broadcast_event(created("y", 1, 1))).global_seq
    await quiet(world, 300)
    head = await head_of(world)
    for here in (world, await opening()):
        for seq in (registered, registered + 1, seen - 1):
            assert (await here.view("a", at_seq=seq)).view_seq == registered
        for seq in (seen, seen + 1, head):
            assert (await here.view("a", at_seq=seq)).view_seq == seen
        assert (await here.view("a")).view_seq == seen
        assert here._observing._origins._known.keys() <= {("a", seq) for seq in range(registered, head + 1)}


async def test_an_agent_from_far_away(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has missed more than is made one by one has the view_seq of what made its view, if that was lately."""
    monkeypatch.setattr("worldledger_service.runtime.observing._FAR", 50)
    world = await opening(config=OrchestratorConfig(view_digest_every=0))
    for each in (created("a", 0, 0), created("x", 900, 0)):
        await world.broadcast_event(each)
    registered = (await world.register_agent("a", near(5.0))).view_seq
    await quiet(world, 80)
    anew = await opening()
    view = await anew.view("a")
    assert (view.view_seq, view) == (registered, await anew.view("a", at_seq=await head_of(anew)))
    seen = (await world.broadcast_event(created("y", 1, 1))).global_seq
    assert [delta["view_seq"] for delta in await read_until(await anew.subscribe("a", view_seq=registered), seen)]
    await quiet(world, 80)
    assert (await (await opening()).view("a")).view_seq == seen


async def test_what_is_not_looked_for_is_known_once_somebody_asks(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that has seen nothing for long begins where its view was the same, until somebody asks for a seq."""
    monkeypatch.setattr("worldledger_service.runtime.observing._FAR", 50)
    monkeypatch.setattr("worldledger_service.runtime.replays._FIRST", 10)
    world = await opening()
    for each in (created("a", 0, 0), created("x", 900, 0)):
        await world.broadcast_event(each)
    registered = (await world.register_agent("a", near(5.0))).view_seq
    await quiet(world, 400)
    head = await head_of(world)
    anew = await opening()
    assert (await anew.view("a")).view_seq == head - 100
    assert (await anew.view("a", at_seq=head)).view_seq == registered
    assert (await anew.view("a")).view_seq == registered
    assert (await anew.agent("a", view_seq=head)).view_seq == registered


async def test_an_acknowledged_seq_that_made_nothing(opening: Opening) -> None:
    """A position between two observations may be gone on from; the view there is that of the effect before it."""
    async with opening.until() as world:
        await world.broadcast_event(created("a", 0, 0))
        await world.broadcast_event(created("x", 900, 0))
        registered = (await world.register_agent("a", near(5.0))).view_seq
        await quiet(world, 10)
        seen = (await world.broadcast_event(created("y", 1, 1))).global_seq
        world.acknowledge("a", seen - 2)
        assert await world.acknowledged("a") == seen - 2
    async with opening.until() as world:
        handle = await world.agent("a")
        assert handle.view_seq == registered
        assert [delta["view_seq"] for delta in await read_until(handle, seen)] == [seen]


async def test_a_policy_that_has_failed_in_between(opening: Opening) -> None:
    """The view is that of the first effect at which the policy did not fail any more, wherever it is asked for."""
    world = await opening()
    await world.broadcast_event(created("x", 1, 1))
    await world.register_agent("a", Anxious())
    with capture_logs():
        failed = (await world.broadcast_event(created("ghost"))).global_seq
    for n in range(30):
        await world.broadcast_event(moved("x", n, 1))
    gone = (await world.broadcast_event(removed("ghost"))).global_seq
    for n in range(30):
        await world.broadcast_event(draft("SimTick", {"agent_id": f"nobody-{n}"}, "clock"))
    last = (await world.broadcast_event(draft("TimeTold", {"agent_id": "x"}, "clock"))).global_seq
    for here in (world, await opening()):
        assert isinstance(await refused(here.view("a", at_seq=gone - 1)), PolicyFailedError)
        views = [await here.view("a", at_seq=seq) for seq in (failed - 1, gone, last - 1, last)]
        assert views[0].view_seq < failed
        assert views[1].view_seq == gone
        assert views[-1] == await here.view("a")
        assert views[-1].view_seq == last


async def test_nothing_is_looked_for_where_it_is_known(world: Orchestrator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an attached agent, whose last deltas are kept, no effect is read again."""
    await world.broadcast_event(created("a", 0, 0))
    await world.broadcast_event(created("x", 900, 0))
    registered = (await world.register_agent("a", ALL)).view_seq
    receipts = [await world.broadcast_event(moved("x", 900.0 + n, 0)) for n in range(3)]

    async def none(*_: object, **__: object) -> int:
        raise AssertionError

    monkeypatch.setattr(world._observing._origins, "find", none)
    found = [(await world.view("a", at_seq=seq)).view_seq for seq in range(registered, receipts[-1].global_seq + 1)]
    assert found == [registered, *(receipt.global_seq for receipt in receipts)]
