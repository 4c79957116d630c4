"""Forks: worlds that go on from the state of another one, and share its history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from worldledger_service.store import Store
from worldledger_service.store.forking import NewFork
from worldledger_service.store.replaying import check_replay

from worldledger.errors import (
    InvalidConfigError,
    MomentNotFoundError,
    ParentMissingError,
    TamperedError,
    WorldExistsError,
)
from worldledger.genesis import NewWorld
from worldledger.moments import HEAD, Moment, parse_moment
from worldledger.rulesets import load_ruleset
from worldledger.world import WorldState, state_digest

from .helpers import draft, effects_of, guards_down
from .states import moved, snapshots, world_of_moves

if TYPE_CHECKING:
    from .helpers import Connection


Opener = Callable[..., Awaitable[Store]]


#: What is said of a seq of a parent after the fork point, seq 11.
NOT_SHARED = (
    "seq 12 of {parent!r} is not in the history of {fork!r}: they share its effects up to seq 11, the fork point; "
    "for later ones ask {parent!r} itself"
)


async def _places(store: Store, world_id: str, *moments: str) -> list[tuple[str, int] | str]:
    """Return the place of each moment, or why there is none."""
    world = await store.world(world_id)
    found: list[tuple[str, int] | str] = []
    for moment in moments:
        try:
            record, seq = await store.states.place_at(world, parse_moment(moment))
            found.append((record.world_id, seq))
        except MomentNotFoundError as error:
            found.append(error.message)
    return found


def _own(state: WorldState) -> dict[str, Any]:
    """Return a state without what is counted in its world's own seqs."""
    value: dict[str, Any] = orjson.loads(state.text())
    for name in ("last_effect_seq", "last_effect_kind"):
        del value["metadata"][name]
    for known in value["metadata"]["agents"].values():
        del known["registered_seq"]
    return value


@pytest.mark.parametrize("at", [1, 17, 61])
async def test_a_fork_has_the_state_of_its_parent(store: Store, world_id: str, at: int) -> None:
    """The state at a fork's genesis is the parent's at the fork point, and its digest is the second effect."""
    await world_of_moves(store, world_id, 60, every=20)
    world, is_new = await store.fork(world_id, Moment(seq=at), NewFork(label="what if"))
    assert (world.world_id, is_new, world.head_seq) == (f"{world_id}~{at}", True, 2)
    before, after = await store.states.state_at(world_id, at), await store.states.state_at(world.world_id, 1)
    assert _own(after.state) == _own(before.state)
    assert after.state.metadata["last_effect_seq"] == 1
    genesis, digest = await effects_of(store, world.world_id)
    parent = await store.world(world_id)
    assert genesis["payload"]["fork_of"] == {
        "world_uuid": parent.world_uuid,
        "world_id": world_id,
        "global_seq": at,
        "checksum": before.checksum,
        "label": "what if",
    }
    assert (genesis["sim_time"], genesis["payload"]["ruleset"]) == (float(at - 1), "sandbox")
    assert digest["payload"]["at_seq"] == 1
    assert digest["payload"]["state_digest"] == after.state_digest == state_digest(after.text)
    assert [each.global_seq for each in await snapshots(store, world.world_id)] == [1]


async def test_a_fork_copies_nothing_and_goes_on(store: Store, world_id: str) -> None:
    """What is appended to a fork follows the parent's state; the parent and its other forks stay as they are."""
    await world_of_moves(store, world_id, 30)
    parent = await store.world(world_id)
    one, _ = await store.fork(world_id, Moment(seq=20), NewFork(world_id=f"{world_id}-one"))
    two, _ = await store.fork(world_id, Moment(seq=20), NewFork(world_id=f"{world_id}-two"))
    await (await store.log(one.world_id)).append_all([moved(7, sim_time=50.0)])
    at = await store.states.state_at(one.world_id, 3)
    assert at.state.spatial_index["a7"] == (7.0, 0.5, 2.0)
    assert at.state.spatial_index["a8"] == (18.0, 0.5, 2.0)
    assert (await store.states.state_at(two.world_id, 2)).state.spatial_index["a7"] == (17.0, 0.5, 2.0)
    assert await store.world(world_id) == parent
    assert len(await effects_of(store, one.world_id)) == 3


async def test_without_its_snapshot_it_is_folded_from_the_parent(
    store: Store, world_id: str, admin: Connection
) -> None:
    """A fork whose snapshots are lost has the same states; replaying it agrees with the digests in its log."""
    await world_of_moves(store, world_id, 40, every=10)
    world, _ = await store.fork(world_id, Moment(seq=33))
    await (await store.log(world.world_id)).append_all([moved(n, sim_time=99.0) for n in range(5)])
    wanted = await store.states.state_at(world.world_id, 7)
    await admin.execute("delete from snapshots where world_id = $1", world.world_id)
    assert await store.states.state_at(world.world_id, 7) == wanted
    record = await store.world(world.world_id)
    beginning = await store.states.fold_at(world.world_id, 0)
    verdict = await check_replay(store.reader, record, load_ruleset("sandbox"), beginning=beginning)
    assert (verdict.agreed, verdict.digests) == (True, 1)


async def test_forks_of_one_moment_begin_with_a_state_that_is_read_once(
    store: Store, world_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent's state is read for the first fork that is folded, and each fold has a state of its own."""
    await world_of_moves(store, world_id, 40, every=10)
    forks = [(await store.fork(world_id, Moment(seq=30), NewFork(world_id=f"{world_id}-{n}")))[0] for n in range(3)]
    read, before = [], store.states.snapshots.before

    async def counted(*arguments: Any) -> Any:
        read.append(arguments[0])
        return await before(*arguments)

    monkeypatch.setattr(store.states.snapshots, "before", counted)
    wanted = (await store.states.state_at(world_id, 30)).text
    for fork in forks:
        fold = await store.states.fold_at(fork.world_id, 0)
        assert fold.state.text() == wanted
        fold.state.entities["a7"]["here"] = fold.state.metadata["agents"]["me"] = {}
    assert read == [world_id, world_id]  # the first is this test's own


async def test_worlds_are_known_at_once(
    store: Store, world_id: str, open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many worlds are folded is read by one statement; a world that is not there is left out."""
    await world_of_moves(store, world_id, 20)
    fork, _ = await store.fork(world_id, Moment(seq=10))
    other = await open_store()
    await other.states.know([world_id, fork.world_id, f"{world_id}-nowhere"])

    async def refused(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(other.reader, "fetch", refused)
    await other.states.know([world_id, fork.world_id])
    assert (await other.states.rules(world_id)).fork_of is None
    point = (await other.states.rules(fork.world_id)).fork_of
    assert point is not None
    assert (point.world_id, point.global_seq) == (world_id, 10)


async def test_forks_of_forks(store: Store, world_id: str) -> None:
    """A fork of a fork goes on from its state; its line of ancestors has each up to the next one's fork point."""
    await world_of_moves(store, world_id, 10)
    child, _ = await store.fork(world_id, Moment(seq=5))
    await (await store.log(child.world_id)).append_all([moved(3, sim_time=9.0), moved(4, sim_time=9.5)])
    grandchild, _ = await store.fork(child.world_id, Moment(seq=3))
    genesis = (await effects_of(store, grandchild.world_id))[0]
    assert genesis["payload"]["fork_of"]["depth"] == 2
    line = await store.states.line(grandchild)
    assert [(each.world_id, each.head_seq) for each in line] == [
        (world_id, 5),
        (child.world_id, 3),
        (grandchild.world_id, 2),
    ]
    state = (await store.states.state_at(grandchild.world_id, 2)).state
    assert state.spatial_index["a3"] == (3.0, 0.5, 2.0)
    assert "a4" in state.spatial_index  # the parent's own
    assert state.spatial_index["a4"] == (4.0, 0.5, 2.0)


async def test_moments_before_the_fork_lie_in_the_parent(store: Store, world_id: str) -> None:
    """History is one line: a time or step of before the fork is the parent's, and parent: names its moments."""
    await world_of_moves(store, world_id, 20)
    child, _ = await store.fork(world_id, Moment(seq=11))
    name = child.world_id
    await (await store.log(name)).append_all([moved(1, sim_time=30.0), moved(2, sim_time=31.0)])
    assert await _places(store, name, "sim:3", "sim:10", "sim:30", "sim:99", "head", "2") == [
        (world_id, 4),
        (name, 2),
        (name, 3),
        (name, 4),
        (name, 4),
        (name, 2),
    ]
    assert await _places(store, name, "step:3", "step:10", "step:11", "step:12", "step:13") == [
        (world_id, 4),
        (world_id, 11),
        (name, 3),
        (name, 4),
        f"world {name!r} has no step 13; its last is 12",
    ]
    assert await _places(store, name, "parent:7", "parent:head", "parent:sim:4", "parent:12", "parent:parent:1") == [
        (world_id, 7),
        (world_id, 11),
        (world_id, 5),
        NOT_SHARED.format(parent=world_id, fork=name),
        f"world {world_id!r} is no fork: it has no parent",
    ]


async def test_a_moment_of_an_ancestor_makes_a_fork_of_that_ancestor(store: Store, world_id: str) -> None:
    """Who forks a fork at a moment of before its fork point has forked the parent."""
    await world_of_moves(store, world_id, 20)
    child, _ = await store.fork(world_id, Moment(seq=11))
    other, _ = await store.fork(child.world_id, parse_moment("sim:4"))
    assert other.world_id == f"{world_id}~5"


async def test_the_same_request_again_finds_the_same_fork(store: Store, world_id: str) -> None:
    """A repeated request makes nothing; another at the same place gets another name, or is told that it is taken."""
    await world_of_moves(store, world_id, 10)
    first, is_new = await store.fork(world_id, Moment(seq=5))
    again, is_newer = await store.fork(world_id, Moment(seq=5))
    assert (is_new, is_newer, again) == (True, False, first)
    changed, _ = await store.fork(world_id, Moment(seq=5), NewFork(changes={"a1/position": [0.0, 0.0, 0.0]}))
    assert changed.world_id == f"{world_id}~5.2"
    again, is_newer = await store.fork(world_id, Moment(seq=5), NewFork(changes={"a1/position": [0.0, 0.0, 0.0]}))
    assert (is_newer, again) == (False, changed)
    with pytest.raises(WorldExistsError, match="it is not this fork"):
        await store.fork(world_id, Moment(seq=6), NewFork(world_id=first.world_id))


async def test_changes_are_effects_that_the_rules_let_pass(store: Store, world_id: str) -> None:
    """What is set in a fork is an effect after its genesis, decided by the rules; a refused one leaves no fork."""
    await store.create_world(NewWorld(world_id=world_id))
    data = {"gold": 3, "bag": {"a/b": 1}}
    made = draft(kind="EntityCreated", payload={"entity_id": "alice", "entity_data": data})
    await (await store.log(world_id)).append(made)
    changes = {"alice/gold": 6, "/alice/bag/a~1b": None}
    world, _ = await store.fork(world_id, HEAD, NewFork(world_id=f"{world_id}-rich", changes=changes))
    kinds = [effect["kind"] for effect in await effects_of(store, world.world_id)]
    assert kinds == ["WorldCreated", "StateDigest", "EntityUpdated", "EntityUpdated"]
    state = (await store.states.state_at(world.world_id, 4)).state
    assert state.entities["alice"] == {"gold": 6, "bag": {"a/b": None}}
    for path, why in (("bob/gold", "no entity 'bob'"), ("alice", "names no value"), ("alice/x/y", "nothing at /x")):
        with pytest.raises(InvalidConfigError, match=why):
            await store.fork(world_id, HEAD, NewFork(world_id=f"{world_id}-bad", changes={path: 1}))
    assert await store.worlds_beginning(f"{world_id}-bad", 5) == []


async def test_two_processes_make_one_fork(store: Store, world_id: str, open_store: Opener) -> None:
    """Of requests for the same fork at the same time one makes it, and each is answered with it."""
    await world_of_moves(store, world_id, 10)
    other = await open_store()
    asked = [each.fork(world_id, Moment(seq=4), NewFork(world_id=f"{world_id}-x")) for each in (store, other) * 3]
    made = await asyncio.gather(*asked)
    assert {world.world_id for world, _ in made} == {f"{world_id}-x"}
    assert sum(is_new for _, is_new in made) == 1
    unnamed = [each.fork(world_id, Moment(seq=4), NewFork(label=str(n))) for n, each in enumerate((store, other) * 3)]
    names = sorted(world.world_id for world, _ in await asyncio.gather(*unnamed))
    assert names == [f"{world_id}~4", *(f"{world_id}~4.{n}" for n in range(2, 7))]


async def test_a_rewritten_parent_is_found_out(store: Store, world_id: str, database_url: str) -> None:
    """A parent whose effect at the fork point has another checksum now has no states for its fork, nor a new fork."""
    await world_of_moves(store, world_id, 10)
    child, _ = await store.fork(world_id, Moment(seq=5))
    async with guards_down(database_url) as admin:
        await admin.execute(
            "update effects set checksum = sha256('x') where world_id = $1 and global_seq = 5", world_id
        )
    with pytest.raises(TamperedError, match="its parent was rewritten"):
        await store.states.place_at(child, parse_moment("parent:3"))
    with pytest.raises(TamperedError, match="checksum"):
        await store.fork(world_id, Moment(seq=5), NewFork(world_id=f"{world_id}-new"))
    async with guards_down(database_url) as admin:
        await admin.execute("delete from effects where world_id = $1 and global_seq >= 5", world_id)
        await admin.execute("delete from snapshots where world_id = $1", child.world_id)
    with pytest.raises(ParentMissingError, match="not in this database"):
        await store.states.state_at(child.world_id, 2)


async def test_time_goes_on(store: Store, world_id: str) -> None:
    """A fork's sim_time begins with that of the fork point, under the wall clock to the last digit, and goes on."""
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    await log.append_all([draft(n) for n in range(3)])
    await asyncio.sleep(0.05)
    child, _ = await store.fork(world_id, Moment(seq=3))
    await (await store.log(child.world_id)).append(draft(9))
    before = (await effects_of(store, world_id))[2]
    own = await effects_of(store, child.world_id)
    assert own[0]["sim_time"] == own[1]["sim_time"] == before["sim_time"]
    assert 0 <= own[2]["sim_time"] - before["sim_time"] < 30
    assert own[0]["wall_time"] > before["wall_time"]
