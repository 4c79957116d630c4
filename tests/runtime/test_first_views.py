"""An agent's first view, or first intent, in a process: made of the state as it is, not of all that has happened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from worldledger_service.runtime import Orchestrator, OrchestratorConfig
from worldledger_service.store.reader import Reader
from worldledger_service.store.states import States

from worldledger.errors import StaleContextError, StoreUnavailableError
from worldledger.latency import FixedLatency
from worldledger.observation import ObservationPolicy, PolicyConfig

from .conftest import Opening
from .helpers import ALL, as_folded, created, draft, head_of, kept, message, moved, near, refused, whole
from .stories import AGENTS, POLICIES, register_all, story

#: So that the effects that are counted are the story's.
QUIET = OrchestratorConfig(view_digest_every=0)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gather the seqs of all effects that are read from the log."""
    seqs: list[int] = []
    batches = Reader.batches

    async def counting(self: Reader, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async with aclosing(batches(self, *args, **kwargs)) as found:
            async for batch in found:
                seqs.extend(row.global_seq for row in batch)
                yield batch

    monkeypatch.setattr(Reader, "batches", counting)
    return seqs


async def long_world(
    opening: Opening, policy: ObservationPolicy = ALL, *, before: int = 500, since: int = 150
) -> Orchestrator:
    """Make a world in which five agents were registered long ago, with a snapshot in the middle of many effects."""
    world = await opening(config=QUIET)
    for each in (created("a0", 0, 0), created("x", 1, 1)):
        await world.broadcast_event(each)
    for n in range(5):
        (await world.register_agent(f"a{n}", policy)).close()
    store = world._follower._store
    await store.bulk_append(world.world_id, [moved("x", n % 7, 1) for n in range(before)])
    await store.snapshot(world.world_id)
    await store.bulk_append(world.world_id, [moved("x", n % 7, 1) for n in range(since)])
    await head_of(world)
    return world


async def test_it_reads_no_more_than_two_states_do(
    opening: Opening, read: list[int], subtests: pytest.Subtests
) -> None:
    """However much has happened since the agent was registered: what lies behind the newest snapshot is not read."""
    await long_world(opening)
    for what in ("view", "events", "intent"):
        with subtests.test(what=what):
            async with opening.until(config=QUIET) as world:
                read.clear()
                if what == "view":
                    assert (await world.view("a1")).view_seq == world._follower.seq
                elif what == "intent":
                    await world.submit_intent(whole("a1", world._follower.seq))
                else:
                    await (await world.subscribe("a1")).__aexit__(None, None, None)
                assert min(read) > 500
                assert len(read) <= 2 * 150 + 10


async def test_agents_that_come_together_share_a_state(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read from the database for the first of them."""
    await long_world(opening)
    world = await opening(config=QUIET)
    asked: list[int] = []
    fold_at = States.fold_at

    async def counting(self: States, world_id: str, seq: int) -> Any:
        asked.append(seq)
        return await fold_at(self, world_id, seq)

    monkeypatch.setattr(States, "fold_at", counting)
    for n in range(5):
        view = await world.view(f"a{n}")
        assert view == await as_folded(world, f"a{n}", ALL, world._follower.seq)
        await world.broadcast_event(moved("x", 3, n))
        await head_of(world)
    assert len(asked) == 1 + 5  # those of `as_folded`


async def test_it_is_the_view_that_replaying_everything_gives(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every kind of policy, and so are the deltas that follow, also those that came before it was asked for."""
    monkeypatch.setattr("worldledger_service.runtime.observing._LOOKED_BACK", 5)
    world = await opening(config=QUIET)
    await register_all(world)
    for each in story(120, seed=21):
        await world.broadcast_event(each)
    head = await head_of(world)
    here = await opening(config=QUIET)
    readers = {}
    for name in AGENTS:
        first = await here.view(name)
        exact = await world.view(name, at_seq=head)
        assert first.context_digest == exact.context_digest, name
        assert first.visible_entities == exact.visible_entities, name
        assert exact.view_seq <= first.view_seq <= max(exact.view_seq, head - 5), name
        registered = (await here.agents())[name]["registered_seq"]
        missed = await here.subscribe(name, view_seq=registered)
        readers[name] = (registered, missed, await here.subscribe(name))
    for each in story(30, seed=22, there=list(here.world_state.entities)):
        await world.broadcast_event(each)
    await here.reached(await head_of(world))
    for name, (registered, missed, following) in readers.items():
        last = await world.view(name, at_seq=await head_of(world))
        begun = await here.view(name, at_seq=registered)
        assert kept(begun, missed.get_due()).context_digest == last.context_digest, name
        assert kept(following.view, following.get_due()).context_digest == last.context_digest, name
        missed.close()
        following.close()


async def test_who_has_missed_too_much_is_sent_the_whole_view(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One delta stands for all of them."""
    monkeypatch.setattr("worldledger_service.runtime.observing._FAR", 100)
    await long_world(opening)
    world = await opening(config=QUIET)
    reader = await world.subscribe("a1", view_seq=8)
    (delta,) = reader.get_due()
    assert delta["collapsed"] == world._follower.seq - 8
    assert delta["context_digest"] == (await world.view("a1")).context_digest
    reader.close()


async def test_an_old_view_that_is_still_the_latest_is_not_stale(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What made it lies beyond what is looked at to attach the agent, and is looked for before it is refused."""
    monkeypatch.setattr("worldledger_service.runtime.observing._LOOKED_BACK", 5)
    world = await opening(config=QUIET)
    for each in (created("a", 0, 0), created("x", 900, 0)):
        await world.broadcast_event(each)
    seen = (await world.register_agent("a", near(5.0))).view_seq
    store = world._follower._store
    await store.bulk_append(world.world_id, [moved("x", 900.0 + n % 5, 0) for n in range(60)])
    await head_of(world)
    other = await opening(config=QUIET)
    assert (await other.view("a")).view_seq == other._follower.seq - 5
    await other.submit_intent(whole("a", seen))
    await other.broadcast_event(moved("x", 1.0, 0))
    assert isinstance(await refused((await opening(config=QUIET)).submit_intent(whole("a", seen))), StaleContextError)


async def test_what_is_still_on_its_way_is_not_seen_early(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent with a latency model is looked after from where nothing is under way any more."""
    monkeypatch.setattr("worldledger_service.runtime.observing._LOOKED_BACK", 5)
    world = await opening(config=QUIET)
    slow = ObservationPolicy(PolicyConfig(latency_model=FixedLatency(3600.0)))
    await world.broadcast_event(created("x", 1, 1))
    registered = (await world.register_agent("a", slow)).view_seq
    for n in range(40):
        await world.broadcast_event(message(str(n)))
    await head_of(world)
    here = await opening(config=QUIET)
    assert (await here.view("a")).view_seq == registered
    async with await here.subscribe("a") as reader:
        assert (len(reader), reader.get_due()) == (40, [])


async def test_a_replay_that_an_outage_interrupts_goes_on_where_it_was(
    opening: Opening, monkeypatch: pytest.MonkeyPatch, read: list[int]
) -> None:
    """What an agent remembers is worked out from its registration once, whatever happens on the way."""
    await long_world(opening, near(5.0, remove_operations=False), before=1000)
    world = await opening(config=QUIET)
    counted = Reader.batches

    async def breaking(self: Reader, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async with aclosing(counted(self, *args, **kwargs)) as found:
            async for batch in found:
                yield batch
                if len(batch) == 1000:
                    raise StoreUnavailableError("away")

    with monkeypatch.context() as patching:
        patching.setattr(Reader, "batches", breaking)
        assert isinstance(await refused(world.view("a1")), StoreUnavailableError)
    read.clear()
    view = await world.view("a1")
    assert min(read) > 1000
    assert set(view.visible_entities) == {"a0", "x"}
    await world.broadcast_event(draft("EntityRemoved", {"entity_id": "x"}))
    await head_of(world)
    assert set((await world.view("a1")).visible_entities) == {"a0", "x"}


async def test_agents_that_nobody_needs_go_where_much_is_seen(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views are kept up for as many as may be, not for each that ever came; what an agent remembers is kept."""
    monkeypatch.setattr("worldledger_service.runtime.attachments._SEEN", 10)
    world = await opening(config=QUIET)
    for n in range(4):
        await world.broadcast_event(created(f"x{n}", 1, n))
    for name in ("all", "hidden", "more", "remembering"):
        (await world.register_agent(name, POLICIES.get(name, ALL))).close()
    reader = await world.subscribe("all")
    for name in ("remembering", "hidden", "more"):
        await world.view(name)
    await world.view("remembering")
    assert sorted(each.agent_id for each in world._attachments) == ["all", "more", "remembering"]
    assert sorted(world._follower.views.attached) == ["all", "more", "remembering"]
    assert len((await world.view("hidden")).visible_entities) == 4
    assert sorted(each.agent_id for each in world._attachments) == ["all", "hidden", "remembering"]
    reader.close()
