"""Why: the way back from an effect, and forward, in logs that are large, forged, or of a kind that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from worldledger_service.store import EventLog, Store
from worldledger_service.store import why as searching
from worldledger_service.store.forking import NewFork
from worldledger_service.store.why import Asked, Why, why

from worldledger.causes import Link, Place
from worldledger.effects import EffectDraft
from worldledger.errors import EffectNotFoundError
from worldledger.genesis import NewWorld
from worldledger.intents import registration_draft
from worldledger.moments import Moment
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec

from .helpers import draft, guards_down


async def search(store: Store, world_id: str, seq: int, of: str | None = None, **asked: Any) -> Why:
    """Search from an effect of a world, or of an ancestor."""
    return await why(store, await store.world(world_id), seq, Asked(**asked), of)


def seqs(found: Why) -> list[int]:
    """Return the seqs of the effects, in order."""
    return [each.place.global_seq for each in found.effects]


def links(found: Why, seq: int) -> list[tuple[str, int]]:
    """Return the kinds and ends of an effect's links."""
    (node,) = (each.node for each in found.effects if each.place.global_seq == seq)
    return [(link.kind, link.place.global_seq) for link in node.links]


def chain(count: int, source: str = "a1") -> Sequence[EffectDraft]:
    """Make drafts of which each names the one before as its cause, for a world of one effect."""
    return [draft(seq, source_id=source, caused_by=seq - 1) for seq in range(2, count + 2)]


@pytest.mark.both_servers
async def test_causes_are_followed_beyond_the_window(store: Store, log: EventLog) -> None:
    """What effects record themselves is followed to the genesis, however small the window is."""
    await store.bulk_append(log.world_id, chain(30))
    found = await search(store, log.world_id, 31, depth=100, window=5)
    assert seqs(found) == list(range(31, 0, -1))
    assert (found.from_seq, found.to_seq, found.notes) == (27, 31, [])
    assert [links(found, seq) for seq in (31, 26, 2, 1)] == [[("told", 30)], [("told", 25)], [("told", 1)], []]


async def test_what_came_of_an_effect_is_found_beyond_the_window(store: Store, log: EventLog) -> None:
    """Forward, told links are followed to the head."""
    await store.bulk_append(log.world_id, [*chain(30), draft(99)])
    found = await search(store, log.world_id, 3, direction="forward", depth=100, window=5)
    assert seqs(found) == list(range(3, 32))
    assert (found.from_seq, found.to_seq, found.told_to_seq, found.head_seq) == (3, 8, 32, 32)


async def test_each_link_carries_the_checksum_of_its_end(store: Store, log: EventLog) -> None:
    """A link and the effect that it leads to have the checksum that the chain has there."""
    await store.bulk_append(log.world_id, chain(3))
    told = searching.document(await search(store, log.world_id, 4))
    checksums = {
        row.global_seq: row.checksum.hex() async for batch in store.reader.batches(log.world_id) for row in batch
    }
    assert {each["global_seq"]: each["checksum"] for each in told["effects"]} == checksums
    ends = [link for each in told["effects"] for link in each["links"]]
    assert len(ends) == 3
    assert all(link["checksum"] == checksums[link["global_seq"]] for link in ends)


async def test_forward_is_the_inverse_of_back(store: Store, log: EventLog) -> None:
    """Every link that is found from an effect's causes is found from the effect, with the same kind and entities."""
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("EntityCreated", {"entity_id": "gate", "entity_data": {"open": False}}),
        ("EntityCreated", {"entity_id": "a1", "entity_data": {}, "position": [0, 0]}),
        ("Move", {"to": [1, 1]}),
        ("Interact", {"target_id": "gate"}),
        ("Speak", {"text": "open!"}),
    ]
    drafts = [draft(kind=kind, payload=payload) for kind, payload in kinds]
    await log.append_request(drafts, source_id="a1", req_id="r")
    await store.bulk_append(log.world_id, [draft(kind=kind, payload=payload) for kind, payload in kinds * 2])

    async def all_links(direction: Any) -> set[tuple[int, Link]]:
        found = [
            await search(store, log.world_id, seq, direction=direction, depth=1, width=1000) for seq in range(1, 17)
        ]
        return {(each.root.global_seq, link) for each in found for link in each.effects[0].node.links}

    back, forward = await all_links("back"), await all_links("forward")
    assert {kind for _, (kind, _, _) in back} == {"request", "same entity"}
    assert {(link.place.global_seq, link.kind, seq, link.entities) for seq, link in back} == {
        (seq, link.kind, link.place.global_seq, link.entities) for seq, link in forward
    }


async def test_a_hundred_thousand_effects_of_one(store: Store, log: EventLog) -> None:
    """As many are shown as were asked for; the others are counted as far as was looked, and it is said how far."""
    await store.bulk_append(log.world_id, (draft(n, caused_by=1) for n in range(100_000)))
    found = await search(store, log.world_id, 1, direction="forward", width=4)
    assert seqs(found) == [1, 2, 3, 4, 5]
    looked = Asked().window + searching.MOST_TOLD
    assert (found.told_to_seq, found.head_seq) == (1 + looked, 100_001)
    assert found.effects[0].node.left_out == {"told": looked - 4}
    found = await search(store, log.world_id, 1, direction="forward", width=1000, limit=50)
    assert len(found.effects) == 50
    assert found.effects[0].node.left_out == {"told": looked - 49}


async def test_forged_causes(store: Store, log: EventLog, database_url: str) -> None:
    """A caused_by that names no earlier effect is said and not followed; an effect that cannot be read is said too."""
    await store.bulk_append(log.world_id, chain(6))
    async with guards_down(database_url) as intruder:
        for seq, forged in ((3, "-1"), (4, "5"), (5, '"4"'), (6, "99999999999999999999")):
            await intruder.execute(
                "update effects set effect = replace(effect::text, $3, $4)::json"
                " where world_id = $1 and global_seq = $2",
                log.world_id,
                seq,
                f'{{"caused_by":{seq - 1},',
                f'{{"caused_by":{forged},',
            )
        await intruder.execute("update effects set effect = '[]' where world_id = $1 and global_seq = 7", log.world_id)
    for seq in (3, 4, 5, 6):
        for window in (1, 1000):
            found = await search(store, log.world_id, seq, window=window)
            assert seqs(found) == [seq]
            problem = found.effects[0].problem or ""
            assert problem.startswith("caused_by does not name an earlier effect; checksum differs: stored ")
    for seq in (1, 2, 3, 4, 5, 6):
        found = await search(store, log.world_id, seq, direction="forward", window=1)
        assert seqs(found) == ([1, 2] if seq == 1 else [seq])
    found = await search(store, log.world_id, 7)
    assert (found.effects[0].problem or "").startswith("checksum differs: ")
    assert found.notes


async def test_checksums_that_do_not_hold(store: Store, log: EventLog, database_url: str) -> None:
    """A text or a column that was changed is said at its effect, and a checksum that was made anew in the window."""
    await store.bulk_append(log.world_id, chain(30))
    assert not (await search(store, log.world_id, 31, depth=100, window=5)).tampered
    change = "update effects set {} where world_id = $1 and global_seq = $2"
    async with guards_down(database_url) as intruder:
        for seq, what in ((8, "effect = replace(effect::text, '\"n\":8', '\"n\":80')::json"), (12, "kind = 'Other'")):
            await intruder.execute(change.format(what), log.world_id, seq)
        await intruder.execute(change.format("checksum = sha256('')"), log.world_id, 29)
    found = await search(store, log.world_id, 31, depth=100, window=5)
    problems = {each.place.global_seq: each.problem for each in found.effects if each.problem}
    assert {seq: problem.split(":")[0] for seq, problem in problems.items()} == {
        30: "checksum differs",
        29: "checksum differs",
        12: "column kind is 'Other', the effect says 'Said'",
        8: "checksum differs",
    }
    assert found.tampered
    said = f"the window does not hold: world {log.world_id}, seq 29: checksum differs:"
    assert said in [note.split(" stored")[0] for note in found.notes]
    found = await search(store, log.world_id, 31, depth=0, window=5)  # in the window alone
    assert (found.tampered, found.effects[0].problem) == (True, None)
    async with guards_down(database_url) as intruder:
        await intruder.execute("update heads set head_checksum = sha256('') where world_id = $1", log.world_id)
        await intruder.execute("delete from effects where world_id = $1 and global_seq = 20", log.world_id)
    found = await search(store, log.world_id, 31, depth=0, window=1)
    assert (found.effects[0].problem or "").startswith("the head's checksum is ")
    found = await search(store, log.world_id, 21, depth=0, window=1)
    assert found.effects[0].problem == "the effect before it is missing from the log"


async def test_a_cause_that_is_gone(store: Store, log: EventLog, database_url: str) -> None:
    """An effect that was taken out of the log is not shown, and what names it is."""
    await store.bulk_append(log.world_id, chain(4))
    async with guards_down(database_url) as intruder:
        await intruder.execute("delete from effects where world_id = $1 and global_seq = 3", log.world_id)
    found = await search(store, log.world_id, 4, window=1)
    assert (seqs(found), links(found, 4)) == ([4], [])
    with pytest.raises(EffectNotFoundError):
        await search(store, log.world_id, 3)


async def test_a_kind_that_is_not_installed(store: Store, world_id: str, database_url: str) -> None:
    """What effects record is followed all the same; what was touched and shown is not known, and that is said."""
    await store.import_world(NewWorld(world_id=world_id), [draft(1, caused_by=1), draft(2, req_id="r")])
    async with guards_down(database_url) as intruder:
        await intruder.execute("update worlds set ruleset = 'from-mars' where world_id = $1", world_id)
    found = await search(store, world_id, 2)
    assert (seqs(found), links(found, 2)) == ([2, 1], [("told", 1)])
    (note,) = found.notes
    assert "'from-mars'" in note


async def test_a_request_of_many_leads_to_its_first(store: Store, log: EventLog) -> None:
    """Also where the first lies before the window, and before that."""
    await log.append_request([draft(n) for n in range(20)], source_id="a1", req_id="bulk")
    for window in (1, 3, 1000):
        found = await search(store, log.world_id, 21, window=window)
        assert (seqs(found), links(found, 21)) == ([21, 2], [("request", 2)])


async def test_more_agents_than_are_looked_at(store: Store, log: EventLog) -> None:
    """What was shown is known for the agents that decided last; of the others the view is linked, and that is said."""
    names = [f"agent-{n:02}" for n in range(searching.MOST_AGENTS + 2)]
    spec = policy_spec(ObservationPolicy())
    await log.append_all([registration_draft(name, spec) for name in names], system=True)
    made = await log.append_all(
        [draft(kind="EntityCreated", payload={"entity_id": "gate", "entity_data": {}}), draft()]
    )
    gate, view_seq = (receipt.global_seq for receipt in made)
    decided = {"intent": "Custom", "context_seq": view_seq}
    said = await log.append_all([draft(source_id=name, source_metadata=decided) for name in reversed(names)])
    last = said[-1].global_seq
    found = await search(store, log.world_id, last, depth=1)
    assert links(found, last) == [("context", view_seq), ("context", gate)]
    (note,) = found.notes
    assert note.startswith("10 agents decided something in the window")
    forward = await search(store, log.world_id, gate, depth=1, direction="forward", width=100)
    shown = {seq for kind, seq in links(forward, gate) if kind == "context"}
    assert shown == {receipt.global_seq for receipt in said[: searching.MOST_AGENTS]}


def places(found: Why) -> list[Place]:
    """Return the places of the effects, in order."""
    return [each.place for each in found.effects]


async def line_of_three(store: Store, log: EventLog) -> tuple[str, str, str]:
    """Make a world with a gate, a fork of it, and a fork of that one in which the gate is opened again."""
    grandparent = log.world_id
    gate = {"entity_id": "gate", "entity_data": {"open": False}}
    opened = {"entity_id": "gate", "patch": [{"op": "replace", "path": "/open", "value": True}]}
    await log.append_all(
        [draft(kind="EntityCreated", payload=gate), draft(kind="EntityUpdated", payload=opened), draft()]
    )
    parent, child = f"{grandparent}-2", f"{grandparent}-3"
    await store.fork(grandparent, Moment(seq=3), NewFork(world_id=parent))
    await (await store.log(parent)).append_all([draft(caused_by=1)])
    await store.fork(parent, Moment(seq=3), NewFork(world_id=child))
    await (await store.log(child)).append_all([draft(kind="EntityUpdated", payload=opened)])
    return grandparent, parent, child


async def test_the_way_back_crosses_fork_points(store: Store, log: EventLog) -> None:
    """From a fork of a fork it goes over each genesis to the parent, whose entities and causes are known there."""
    grandparent, parent, child = await line_of_three(store, log)
    found = await search(store, child, 3)
    assert places(found) == [(child, 3), (child, 1), (parent, 3), (parent, 1), (grandparent, 3), (grandparent, 2)]
    steps = [[(link.kind, *link.place, link.entities) for link in each.node.links] for each in found.effects]
    assert steps == [
        [("same entity", child, 1, ("gate",))],
        [("told", parent, 3, ()), ("same entity", parent, 1, ("gate",))],
        [("told", parent, 1, ())],
        [("told", grandparent, 3, ()), ("same entity", grandparent, 3, ("gate",))],
        [("same entity", grandparent, 2, ("gate",))],
        [],
    ]
    assert [each.problem for each in found.effects] == [None] * 6
    small = await search(store, child, 3, window=3)
    assert places(small) == [(child, 3), (child, 1), (parent, 3), (parent, 1), (grandparent, 3)]


async def test_the_way_forward_crosses_fork_points(store: Store, log: EventLog) -> None:
    """From an effect before the fork points it goes on in the forks, to all that the way back from there passes."""
    grandparent, parent, child = await line_of_three(store, log)
    found = await search(store, child, 2, of=grandparent, direction="forward", depth=6)
    assert places(found) == [
        (grandparent, 2), (grandparent, 3), (parent, 1), (parent, 3), (child, 1), (child, 3)
    ]  # fmt: skip
    assert [(link.kind, link.place) for link in found.effects[1].node.links] == [
        ("told", (parent, 1)),
        ("same entity", (parent, 1)),
    ]
    assert (found.head_seq, found.to_seq, found.told_to_seq) == (3, 3, 3)
    assert [(*each,) for each in found.forks] == [(parent, 3, 3, 3), (child, 3, 3, 3)]
    for one, other in (("back", "forward"), ("forward", "back")):
        for place in places(found):
            asked = {"direction": one, "depth": 1, "width": 1000}
            for link in (await search(store, child, place[1], of=place[0], **asked)).effects[0].node.links:
                of, seq = link.place
                inverse = await search(store, child, seq, of=of, direction=other, depth=1, width=1000)
                assert (link.kind, place, link.entities) in inverse.effects[0].node.links
    alone = await search(store, grandparent, 2, direction="forward", depth=6)
    assert ({place[0] for place in places(alone)}, alone.forks) == ({grandparent}, [])


async def test_a_window_goes_on_over_few_fork_points(
    store: Store, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond them only what effects record themselves is followed, and that is said."""
    monkeypatch.setattr(searching, "MOST_LOGS", 2)
    grandparent, parent, child = await line_of_three(store, log)
    back = await search(store, child, 3)
    assert places(back) == [(child, 3), (child, 1), (parent, 3), (parent, 1), (grandparent, 3)]
    assert back.notes == [f"only the nearest 2 logs are looked at whole, to that of {parent}"]
    forward = await search(store, child, 2, of=grandparent, direction="forward")
    assert places(forward) == [(grandparent, 2), (grandparent, 3), (parent, 1), (parent, 3), (child, 1)]
    assert [(*each,) for each in forward.forks] == [(parent, 3, 3, 3), (child, 3, 0, 3)]
    assert forward.notes == back.notes


async def test_causes_of_before_the_fork_point_are_found_beyond_the_window(store: Store, log: EventLog) -> None:
    """Forward, told links lead over the fork point however small the window is; each has its checksum."""
    await store.bulk_append(log.world_id, chain(30))
    child = f"{log.world_id}-2"
    await store.fork(log.world_id, Moment(seq=20), NewFork(world_id=child))
    named = {"inherited_cause": {"world_id": log.world_id, "global_seq": 5}}
    drafts = [draft(caused_by=1), draft(caused_by=1, source_metadata=named), draft(caused_by=4), draft(caused_by=2)]
    await store.bulk_append(child, drafts)
    for window in (1, 1000):
        found = await search(store, child, 5, of=log.world_id, direction="forward", depth=2, window=window)
        assert places(found) == [(log.world_id, 5), (log.world_id, 6), (child, 4), (log.world_id, 7), (child, 5)]
        assert [(link.kind, *link.place) for link in found.effects[0].node.links] == [
            ("told", log.world_id, 6),
            ("told", child, 4),
        ]
    far = await search(store, child, 5, of=log.world_id, direction="forward", depth=100, window=1)
    assert set(places(far)) == {*((log.world_id, seq) for seq in range(5, 21)), *((child, seq) for seq in (1, 3, 4, 5))}
    assert [(*each,) for each in far.forks] == [(child, 6, 0, 6)]
    told = searching.document(far)
    checksums = {
        (name, row.global_seq): row.checksum.hex()
        for name in (log.world_id, child)
        async for batch in store.reader.batches(name)
        for row in batch
    }
    ends = [link for each in told["effects"] for link in each["links"]]
    assert all(link["checksum"] == checksums[link["world_id"], link["global_seq"]] for link in ends)
    back = await search(store, child, 4, depth=1, window=1)
    assert places(back) == [(child, 4), (log.world_id, 5)]


async def test_what_was_shown_before_the_fork_point_leads_to_decisions_after_it(store: Store, log: EventLog) -> None:
    """An agent that decides in the fork from what it saw before is reached from there, and leads back there."""
    await log.append_all([registration_draft("ann", policy_spec(ObservationPolicy()))], system=True)
    gate = draft(kind="EntityCreated", payload={"entity_id": "gate", "entity_data": {}})
    shown = (await log.append_all([gate]))[0].global_seq
    child = f"{log.world_id}-2"
    await store.fork(log.world_id, Moment(seq=shown), NewFork(world_id=child))
    decided = draft(source_id="ann", source_metadata={"intent": "Custom", "context_seq": 1})
    said = (await (await store.log(child)).append_all([decided]))[0].global_seq
    back = await search(store, child, said, depth=1)
    assert [(link.kind, link.place) for link in back.effects[0].node.links] == [
        ("context", (child, 1)),
        ("context", (log.world_id, shown)),
    ]
    forward = await search(store, child, shown, of=log.world_id, direction="forward", depth=1)
    assert ("context", (child, said), ("gate",)) in forward.effects[0].node.links


async def test_a_parent_that_was_rewritten(store: Store, log: EventLog, database_url: str) -> None:
    """A fork whose parent has another effect there, or is gone, is told so, and the way back ends or says it."""
    await store.bulk_append(log.world_id, chain(3))
    child = f"{log.world_id}-2"
    await store.fork(log.world_id, Moment(seq=3), NewFork(world_id=child))
    async with guards_down(database_url) as intruder:
        await intruder.execute(
            "update effects set checksum = sha256('') where world_id = $1 and global_seq = 3", log.world_id
        )
    found = await search(store, child, 1)
    assert found.effects[0].problem == "the effect that it was forked from has another checksum here"
    assert found.tampered
    async with guards_down(database_url) as intruder:
        await intruder.execute("delete from effects where world_id = $1", log.world_id)
    assert places(await search(store, child, 1)) == [(child, 1)]


async def test_searching_changes_nothing(store: Store, log: EventLog) -> None:
    """The log is read only: its head and its texts stay as they are."""
    await store.bulk_append(log.world_id, chain(10))
    before = [row async for batch in store.reader.batches(log.world_id) for row in batch]
    await search(store, log.world_id, 5)
    await search(store, log.world_id, 5, direction="forward")
    assert [row async for batch in store.reader.batches(log.world_id) for row in batch] == before


async def test_an_effect_that_is_not_there(store: Store, log: EventLog) -> None:
    """A seq beyond the head, or before 1, is refused, naming the head."""
    for seq in (0, -1, 2, 2**62):
        with pytest.raises(EffectNotFoundError):
            await search(store, log.world_id, seq)
