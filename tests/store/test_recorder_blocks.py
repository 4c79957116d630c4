"""Blocks of a recording: written once, in one transaction, with steps, times and agents."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from worldledger_recorder.rules import RULESET, NotRecordedError
from worldledger_recorder.store import Written, begin, write_block
from worldledger_service.settings import Settings
from worldledger_service.store import Store, bulk
from worldledger_service.store.forking import NewFork
from worldledger_service.store.replaying import check_replay
from worldledger_service.store.snapshots import Forward

from tests.cases import cases
from worldledger.errors import InvalidEffectError, WorldNotFoundError
from worldledger.genesis import NewWorld
from worldledger.moments import parse_moment


async def create(store: Store, world_id: str, **more: Any) -> None:
    """Create a world that is recorded."""
    await store.create_world(NewWorld(world_id=world_id, ruleset="recorder", time_authority="client", **more))


async def effects(store: Store, world_id: str) -> list[dict[str, Any]]:
    """Return the effects after the genesis."""
    log = await store.log(world_id)
    return [orjson.loads(row.text) async for batch in log.batches(after_seq=1) for row in batch]


async def test_a_block_is_written_in_its_order(store: Store, world_id: str) -> None:
    """Agents that it names are registered before it; entities, steps and audiences become what they are."""
    await create(store, world_id)
    lines = [
        ["Spoke", "alice", 0.5, {"text": "hello", "sees": ["bob"]}],
        [".set", "town", 0.75, {"gold": 3}],
        [".step", None, 1.0, {}],
        [".remove", "town", 1.5, {}],
        ["Move", None, 1.25, {"to": "anywhere"}],
    ]
    written = await write_block(store, world_id, "b-1", lines, base=10.0)
    found = await effects(store, world_id)
    assert written == Written(found[-1]["global_seq"], 11.5, is_repeated=False)
    assert [(each["kind"], each["source_id"], each["sim_time"], each["payload"]) for each in found[2:]] == [
        ("Spoke", "alice", 10.5, {"text": "hello", "sees": ["bob"]}),
        ("EntitySet", "recorder", 10.75, {"entity_id": "town", "values": {"gold": 3}}),
        ("StepBegan", "recorder", 11.0, {"step": 1}),
        ("EntityRemoved", "recorder", 11.5, {"entity_id": "town"}),
        ("Move", "recorder", 11.5, {"to": "anywhere"}),  # no time goes back
    ]
    assert [each["payload"]["agent_id"] for each in found[:2]] == ["alice", "bob"]
    assert (await store.reader.verify(world_id)).verified


async def test_the_same_block_is_written_once(store: Store, world_id: str) -> None:
    """Whoever sends it, one after the other or at the same time; the first line's agent makes no difference."""
    await create(store, world_id)
    block: list[Any] = [["Ate", "alice", None, {"figs": 1}], ["Ate", "bob", None, {"figs": 2}]]
    first = await asyncio.gather(*(write_block(store, world_id, "b", block) for _ in range(4)))
    again = await write_block(store, world_id, "b", block)
    assert sorted(each.is_repeated for each in first) == [False, True, True, True]
    assert again.is_repeated
    assert sum(each["kind"] == "Ate" for each in await effects(store, world_id)) == 2
    assert not (await write_block(store, world_id, "b-2", block)).is_repeated


async def test_steps_are_numbered_by_the_world(store: Store, world_id: str) -> None:
    """Whichever processes count: a block's steps follow the world's last, unless they have numbers."""
    await create(store, world_id)
    step: list[Any] = [".step", None, None, {}]
    await write_block(store, world_id, "a", [["Ate", None, None, {}], step, ["Ate", None, None, {}], step])
    await write_block(store, world_id, "b", [step, [".step", None, None, {"step": 10}], step])
    numbers = [each["payload"]["step"] for each in await effects(store, world_id) if each["kind"] == "StepBegan"]
    assert numbers == [1, 2, 3, 10, 11]
    assert (await begin(store, world_id)).step == 11
    world = await store.world(world_id)
    places = [(await store.states.place_at(world, parse_moment(f"step:{n}")))[1] for n in (0, 1, 2, 11)]
    assert places == [2, 4, 5, world.head_seq]


async def test_a_fork_goes_on_with_its_parent_s_agents_and_steps(store: Store, world_id: str) -> None:
    """Neither is told by its own log; an agent keeps the policy that it has."""
    await create(store, world_id)
    await write_block(store, world_id, "a", [["Ate", "alice", 1.0, {}], [".step", None, 2.0, {}]])
    name = f"{world_id}-fork"
    await store.fork(world_id, fork=NewFork(world_id=name))
    assert (await begin(store, name)).step == 1
    await write_block(store, name, "a", [["Ate", "alice", 0.5, {}], [".step", None, 1.0, {}]], base=2.0)
    kinds = [each["kind"] for each in await effects(store, name)]
    assert [kind for kind in kinds if kind != "StateDigest"] == ["Ate", "StepBegan"]
    assert (await begin(store, name))[1:] == (3.0, 2)


async def test_an_agent_may_have_a_policy_of_its_own(store: Store, world_id: str) -> None:
    """It keeps it, whatever it does then; another registration replaces it."""
    await create(store, world_id)
    near = {"name": "default", "config": {"distance_limit": 5.0}}
    await write_block(store, world_id, "a", [[".agent", "alice", None, {"policy": near}], ["Ate", "bob", None, {}]])
    await write_block(store, world_id, "b", [["Ate", "alice", None, {}], [".agent", "bob", None, {"policy": near}]])
    head = (await store.world(world_id)).head_seq
    agents = (await store.states.state_at(world_id, head)).state.metadata["agents"]
    assert {name: agent["policy"]["config"]["distance_limit"] for name, agent in agents.items()} == {
        "alice": 5.0,
        "bob": 5.0,
    }
    kinds = [each["kind"] for each in await effects(store, world_id)]
    assert kinds == ["AgentRegistered", "AgentRegistered", "Ate", "Ate", "AgentRegistered"]


@cases(
    "lines, index",
    [
        ([], None),
        ([["Ate", None, None, {}], "Ate"], 1),
        ([["Ate", None, None]], 0),
        ([["Ate", None, None, {}], ["Ate", None, None, []]], 1),
        ([["Ate", 7, None, {}]], 0),
        ([["Ate", "x" * 201, None, {}]], 0),
        ([["Ate", None, "now", {}]], 0),
        ([["Ate", None, None, {}, True]], 0),
        ([[".fly", None, None, {}]], 0),
        ([["", None, None, {}]], 0),
        ([["AgentRegistered", None, None, {}]], 0),
        ([["IntentRejected", "alice", None, {}]], 0),
        ([["Ate", "worldledger", None, {}]], 0),
        ([[".set", None, None, {}]], 0),
        ([[".agent", "alice", None, {}]], 0),
        ([["Ate", "alice", None, {}], [".agent", "bob", None, {"policy": {"name": "unheard-of"}}]], 1),
        ([["Ate", "alice", None, {}], [["a list"], "bob", None, {}]], 1),
        ([["Ate", "\x00", None, {}]], 0),
        ([[".step", None, None, {"step": 0}]], 0),
        ([["Ate", "alice", None, {}], ["Ate", "bob", None, {"text": "x" * 2**20}]], 1),
        ([["Ate", "alice", None, {}], ["x" * 201, "bob", None, {}]], 1),
    ],
)
async def test_a_refusal_names_the_line(store: Store, world_id: str, lines: list[Any], index: int | None) -> None:
    """Nothing of its block is written, also where agents would have been registered before it."""
    await store.ensure_world(NewWorld(world_id=world_id, ruleset="recorder", time_authority="client"))
    with pytest.raises(InvalidEffectError) as refused:
        await write_block(store, world_id, "b", lines)
    assert refused.value.index == index
    assert await effects(store, world_id) == []


async def test_states_follow_blocks_without_reading_them_again(
    shared_url: str, world_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those of a block with too many effects are; the digests in the log are those of a replay."""
    monkeypatch.setattr(bulk, "MOST_RECENT_BYTES", 20_000)
    sizes = [10, 30, 20, 300, 5, 40]
    read: list[int] = []
    async with Store.open(shared_url, Settings(pool_size=3, snapshot_every=10)) as store:
        forward = store.states.forward

        async def counted(world_id: str, until: int, keep: Any) -> Forward:
            read.append(until)
            return await forward(world_id, until, keep)

        monkeypatch.setattr(store.states, "forward", counted)
        await create(store, world_id)
        for number, size in enumerate(sizes):
            lines: list[Any] = [[".set", f"a-{at % 7}", None, {"n": at, "of": number}] for at in range(size)]
            await write_block(store, world_id, f"b-{number}", lines)
            while store._snapshotter._running:
                await asyncio.sleep(0.005)
    async with Store.open(shared_url, Settings(pool_size=3)) as store:
        digests = [each for each in await effects(store, world_id) if each["kind"] == "StateDigest"]
        verdict = await check_replay(store.reader, await store.world(world_id), RULESET)
    assert len(read) == 2
    assert verdict.agreed, verdict.finding
    assert verdict.digests == len(digests) > 3


async def test_only_recorded_worlds_take_blocks(store: Store, world_id: str) -> None:
    """A world of another ruleset is judged by that, and one that is not there is not made."""
    line: list[Any] = ["Ate", None, None, {}]
    with pytest.raises(WorldNotFoundError):
        await write_block(store, world_id, "b", [line])
    await store.create_world(NewWorld(world_id=world_id))
    with pytest.raises(NotRecordedError, match="of the ruleset sandbox"):
        await write_block(store, world_id, "b", [line])
    with pytest.raises(NotRecordedError):
        await begin(store, world_id)


async def test_where_the_world_sets_its_time_a_block_does_not(store: Store, world_id: str) -> None:
    """A world under the wall clock takes blocks, too: their effects have the time of their writing."""
    await store.create_world(NewWorld(world_id=world_id, ruleset="recorder"))
    await write_block(store, world_id, "b", [["Ate", None, 5000.0, {}], ["Ate", None, None, {}, 9000.0]])
    assert all(each["sim_time"] < 1000 for each in await effects(store, world_id))
