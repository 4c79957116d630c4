"""Running on in forks: what came from outside in the parent is decided again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

import pytest
from worldledger_service.store import Store
from worldledger_service.store.forking import NewFork
from worldledger_service.store.rerunning import Asked, Report
from worldledger_service.store.why import Asked as Asking
from worldledger_service.store.why import why

from worldledger.effects import EffectDraft
from worldledger.errors import InvalidConfigError, MomentNotFoundError, PolicyFailedError, RerunConflictError
from worldledger.genesis import NewWorld
from worldledger.intents import check_intent, intent_draft, registration_draft
from worldledger.moments import Moment
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec

from .helpers import draft, effects_of


def _set(n: int, entity: str = "alice", **more: Any) -> Any:
    patch = [{"op": "replace", "path": "/gold", "value": n}]
    return draft(kind="EntityUpdated", payload={"entity_id": entity, "patch": patch}, sim_time=float(n), **more)


async def _parent(store: Store, world_id: str, count: int = 20) -> None:
    """Make a world with two entities, an agent and a digest; alice's gold is set again and again from seq 6 on."""
    await store.create_world(NewWorld(world_id=world_id, time_authority="client"))
    log = await store.log(world_id)
    for name in ("alice", "bob"):
        made = draft(kind="EntityCreated", payload={"entity_id": name, "entity_data": {"gold": 0}}, sim_time=0.0)
        await log.append(made)
    registered: Any = registration_draft("alice", policy_spec(ObservationPolicy()))
    await log.append_all([registered], system=True)
    await store.snapshot(world_id)
    await log.append_all([_set(n, caused_by=n + 4 if n > 1 else None) for n in range(1, count + 1)])


async def test_run_on_as_it_was_has_the_states_of_the_parent(store: Store, world_id: str) -> None:
    """Without a change everything is accepted, with its time and its cause mapped, and the states are alike."""
    await _parent(store, world_id)
    fork, _ = await store.fork(world_id, Moment(seq=10))
    report = await store.rerun(fork.world_id)
    assert (report.issued, report.accepted, report.refused, report.left_out) == (15, 15, 0, {})
    assert (report.after_seq, report.until_seq, report.differs_at) == (10, 25, None)
    assert report.head_seq == (await store.world(fork.world_id)).head_seq == 17
    own = (await effects_of(store, fork.world_id))[2:]
    theirs = (await effects_of(store, world_id))[10:]
    assert [each["payload"] for each in own] == [each["payload"] for each in theirs]
    assert [each["sim_time"] for each in own] == [each["sim_time"] for each in theirs]
    assert [each["source_metadata"]["rerun_of"] for each in own] == list(range(11, 26))
    assert [each["caused_by"] for each in own] == [1, *range(3, 17)]
    before = {"inherited_cause": {"world_id": world_id, "global_seq": 10}}
    assert [each["source_metadata"] for each in own[:2]] == [{"rerun_of": 11, **before}, {"rerun_of": 12}]
    assert {each["req_id"] for each in own} == {f"rerun:{seq}" for seq in range(11, 26)}
    state, parents = await store.states.state_at(fork.world_id, 17), await store.states.state_at(world_id, 25)
    assert state.state.entities == parents.state.entities


async def test_a_cause_of_before_the_fork_point_is_named(store: Store, world_id: str) -> None:
    """It verifies, the way back leads there, and a fork of the fork that is run on names the same effect."""
    await _parent(store, world_id)
    fork, _ = await store.fork(world_id, Moment(seq=10))
    await store.rerun(fork.world_id, until=Moment(seq=12))
    found = await why(store, await store.world(fork.world_id), 3, Asking(depth=1))
    assert ("told", (world_id, 10)) in [(link.kind, link.place) for link in found.effects[0].node.links]
    assert found.effects[0].problem is None
    young, _ = await store.fork(fork.world_id, Moment(seq=2))
    await store.rerun(young.world_id)
    names = {"inherited_cause": {"world_id": world_id, "global_seq": 10}}
    own = (await effects_of(store, young.world_id))[2:]
    assert [each["caused_by"] for each in own] == [1, 3]
    assert own[0]["source_metadata"] == {"rerun_of": 3, **names}
    found = await why(store, await store.world(young.world_id), 4, Asking(depth=2))
    assert [each.place for each in found.effects if each.node.depth][:2] == [(young.world_id, 3), (world_id, 10)]
    for name in (fork.world_id, young.world_id):
        assert (await store.reader.verify(name)).verified


async def test_two_reruns_give_the_same(store: Store, world_id: str) -> None:
    """Two forks at one place, run on with the same changes, have the same effects but for uuid and wall_time."""
    await _parent(store, world_id)
    logs, digests = [], []
    for name in ("one", "two"):
        new = NewFork(world_id=f"{world_id}-{name}", changes={"bob/gold": 9})
        fork, _ = await store.fork(world_id, Moment(seq=8), new)
        report = await store.rerun(fork.world_id, asked=Asked(skip={12, 13}))
        assert (report.issued, report.accepted, report.left_out) == (15, 15, {"EntityUpdated": 2})
        assert (report.differs_after, report.differs_at) == (8, "$.entities.bob.gold")
        left_out = {"uuid", "wall_time", "world_id"}
        effects = await effects_of(store, fork.world_id)
        logs.append([{name: each[name] for name in each.keys() - left_out} for each in effects[1:]])
        digests.append((await store.states.state_at(fork.world_id, fork.head_seq)).state_digest)
    assert logs[0] == logs[1]
    assert digests[0] == digests[1]


async def test_what_the_forks_state_refuses_is_named(store: Store, world_id: str) -> None:
    """A draft whose entity is not there in the fork is refused with its reason; what was refused before may pass."""
    await _parent(store, world_id, 3)
    log = await store.log(world_id)
    await log.append(draft(kind="EntityRemoved", payload={"entity_id": "bob"}, sim_time=3.0))
    patch = [{"op": "add", "path": "/x", "value": 1}]
    refused: Any = {
        "kind": "IntentRejected",
        "payload": {
            "agent_id": "alice",
            "req_id": "r1",
            "kind": "Custom",
            "payload": {"kind": "EntityUpdated", "entity_id": "bob", "patch": patch},
            "context_seq": 8,
            "code": "illegal_effect",
            "reason": "there is no entity 'bob'",
            "rule": "unknown_entity",
        },
        "source_id": "worldledger",
        "schema_version": "1.0.0",
    }
    await log.append_all([refused], system=True)
    await log.append(_set(7))
    fork, _ = await store.fork(world_id, Moment(seq=7))
    gone = draft(kind="EntityRemoved", payload={"entity_id": "alice"}, sim_time=2.0)
    await (await store.log(fork.world_id)).append(gone)
    report = await store.rerun(fork.world_id, asked=Asked(skip={9}))
    assert [(each.seq, each.code) for each in report.refusals] == [(8, "illegal_effect"), (11, "illegal_effect")]
    assert "alice" in report.refusals[0].reason
    assert (report.accepted, report.newly_accepted) == (1, [10])
    assert (await effects_of(store, fork.world_id))[-1]["source_id"] == "alice"


async def test_effects_are_replaced(store: Store, world_id: str) -> None:
    """What is submitted in place of an effect has that effect's source and time; the states differ from there on."""
    await _parent(store, world_id)
    fork, _ = await store.fork(world_id, Moment(seq=10))
    payload = {"entity_id": "bob", "patch": [{"op": "replace", "path": "/gold", "value": 77}]}
    replace: Any = {15: {"payload": payload}}
    report = await store.rerun(fork.world_id, until=Moment(seq=16), asked=Asked(replace=replace))
    assert (report.accepted, report.differs_after, report.differs_at) == (6, 15, "$.entities.alice.gold")
    changed = (await effects_of(store, fork.world_id))[6]
    assert (changed["payload"], changed["sim_time"]) == (payload, 10.0)


async def test_agents_are_played_by_a_function(store: Store, world_id: str) -> None:
    """A policy of the user's is asked for each intent of an agent, with its view in the fork; None leaves it out."""
    await _parent(store, world_id, 2)
    log = await store.log(world_id)
    for n in range(4):
        intent = check_intent(
            {
                "kind": "Speak",
                "payload": {"text": f"word {n}"},
                "context_seq": 7 + n,
                "req_id": f"r{n}",
                "agent_id": "alice",
                "priority": 0,
                "schema_version": "1.0.0",
            }
        )
        await log.append(intent_draft(intent))
    fork, _ = await store.fork(world_id, Moment(seq=7), NewFork(changes={"alice/gold": 50}))
    seen = []

    def play(agent_id: str, view: Any, recorded: dict[str, Any]) -> Any:
        seen.append((agent_id, view.visible_entities["alice"]["gold"], recorded["payload"]["text"]))
        if len(seen) == 2:
            return None
        return {"kind": "Speak", "payload": {"text": f"rather {len(seen)}"}}

    report = await store.rerun(fork.world_id, asked=Asked(playing=play))
    assert seen == [("alice", 50, f"word {n}") for n in range(4)]
    assert (report.issued, report.accepted, report.refused, report.left_out) == (3, 3, 0, {"Speak": 1})
    said = [each for each in await effects_of(store, fork.world_id) if each["kind"] == "Speak"]
    assert [each["payload"]["text"] for each in said] == ["rather 1", "rather 3", "rather 4"]
    assert [each["source_metadata"]["context_seq"] for each in said] == [1, 1, 5]

    def fail(agent_id: str, view: Any, recorded: dict[str, Any]) -> Any:
        return 7 if recorded["payload"]["text"] == "word 0" else 1 / 0

    for skip, told in (
        (set[int](), "TypeError: it returned 7.* about seq "),
        ({8}, "ZeroDivisionError: .* about seq "),
    ):
        fork, _ = await store.fork(world_id, Moment(seq=7), NewFork(world_id=f"{world_id}-{len(skip)}"))
        with pytest.raises(PolicyFailedError, match=f"alice.*{told}"):
            await store.rerun(fork.world_id, asked=Asked(skip, playing=fail))
        assert (await store.world(fork.world_id)).head_seq == 2


async def test_a_rerun_that_was_stopped_goes_on(store: Store, world_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rerun again continues behind what is written already, and gives no effect twice."""
    await _parent(store, world_id)
    monkeypatch.setattr("worldledger_service.store.rerunning._BATCH", 4)
    fork, _ = await store.fork(world_id, Moment(seq=10))
    await store.rerun(fork.world_id, until=Moment(seq=14))
    report = await store.rerun(fork.world_id)
    assert (report.resumed_after, report.issued, report.accepted) == (14, 15, 15)
    assert (report.differs_after, report.differs_at) == (None, None)
    with pytest.raises(RerunConflictError, match=r"seq 12 was issued .* by an earlier rerun"):
        await store.rerun(fork.world_id, asked=Asked(skip={12}))
    with pytest.raises(RerunConflictError, match=r"seq 12 was issued .*; make another fork to replace it"):
        await store.rerun(fork.world_id, asked=Asked(replace={12: cast("EffectDraft", {"kind": "Noted"})}))
    again = await store.rerun(fork.world_id)
    assert (again.resumed_after, again.issued, again.accepted) == (25, 15, 15)
    own = await effects_of(store, fork.world_id)
    assert [each["source_metadata"]["rerun_of"] for each in own[2:]] == list(range(11, 26))
    assert own[7]["caused_by"] == 7


def _told(report: Report) -> dict[str, Any]:
    """Return a report without what is the fork's own."""
    return {name: value for name, value in asdict(report).items() if name not in {"world_id", "resumed_after"}}


def _play(agent_id: str, view: Any, recorded: dict[str, Any]) -> Any:
    text = recorded["payload"].get("text")
    if text is None:
        return recorded
    if text == "nothing":
        return None
    illegal = {"kind": "EntityRemoved", "payload": {"entity_id": "nobody"}}
    return illegal if text == "illegal" else {"kind": "Speak", "payload": {"text": f"rather {text}"}}


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, Asked()),
        pytest.param({"bob/gold": 9}, Asked(), marks=pytest.mark.thorough),
        pytest.param({}, Asked({13}), marks=pytest.mark.thorough),
        ({}, Asked({12}, {15: cast("EffectDraft", {"kind": "Noted"})})),
        ({}, Asked(playing=_play)),
    ],
)
async def test_a_rerun_that_goes_on_reports_the_whole(
    store: Store, world_id: str, changes: dict[str, Any], asked: Asked
) -> None:
    """Wherever it was stopped: what was refused, what was left out, and where the states first differed."""
    await _parent(store, world_id, 3)
    log = await store.log(world_id)
    removed = draft(kind="EntityRemoved", payload={"entity_id": "carol"}, sim_time=5.0)
    made = draft(kind="EntityCreated", payload={"entity_id": "carol", "entity_data": {"gold": 0}}, sim_time=3.0)
    await log.append_all([*[_set(3)] * 4, made, _set(3, "carol"), *[_set(4)] * 3, _set(5, "carol"), removed])
    said = [
        {"kind": "Speak", "payload": {"text": text}, "req_id": f"r{n}", "priority": 0, "schema_version": "1.0.0"}
        for n, text in enumerate(("illegal", "nothing", "well", "illegal"))
    ]
    intents = [intent_draft(check_intent({**each, "agent_id": "alice", "context_seq": 8})) for each in said]
    refused: Any = {
        "kind": "IntentRejected",
        "payload": {
            "agent_id": "alice",
            "req_id": "r0",
            "kind": "Custom",
            "payload": {"kind": "EntityCreated", "entity_id": "dora", "entity_data": {}},
            "context_seq": 8,
            "code": "quota_exceeded",
            "reason": "not now",
            "rule": None,
        },
        "source_id": "worldledger",
        "schema_version": "1.0.0",
        "sim_time": 5.0,
    }
    await log.append_all([refused], system=True)
    await log.append_all([{**each, "sim_time": 6.0} for each in intents])
    whole, _ = await store.fork(world_id, Moment(seq=9), NewFork(world_id=f"{world_id}-whole", changes=changes))
    wanted = await store.rerun(whole.world_id, asked=asked)
    assert (wanted.newly_accepted, wanted.differs_at is None) == ([20], False)
    for stop in (12, 14, 19, 20, 22, 23, 24):
        new = NewFork(world_id=f"{world_id}-{stop}", changes=changes)
        fork, _ = await store.fork(world_id, Moment(seq=9), new)
        skip = {seq for seq in asked.skip if seq <= stop}
        replace = {seq: replaced for seq, replaced in asked.replace.items() if seq <= stop}
        await store.rerun(fork.world_id, until=Moment(seq=stop), asked=Asked(skip, replace, asked.playing))
        report = await store.rerun(fork.world_id, asked=asked)
        assert report.resumed_after is not None
        assert _told(report) == _told(wanted), stop
    again = await store.rerun(whole.world_id, asked=asked._replace(skip=()))
    assert _told(again) == _told(wanted)
    for seq, replaced in asked.replace.items():
        other = {seq: cast("EffectDraft", {**replaced, "payload": {"n": 1}})}
        with pytest.raises(RerunConflictError, match=rf"seq {seq} was issued .*; make another fork to replace it"):
            await store.rerun(whole.world_id, asked=asked._replace(skip=(), replace=other))
    for seq in asked.skip:
        noted = {**asked.replace, seq: cast("EffectDraft", {"kind": "Noted"})}
        with pytest.raises(RerunConflictError, match=rf"seq {seq} was left out .*; make another fork to replace it"):
            await store.rerun(whole.world_id, asked=asked._replace(skip=(), replace=noted))


async def test_who_claims_to_be_run_again_is_not(store: Store, world_id: str) -> None:
    """An effect of the user's own with a rerun_of that no rerun could have written is taken for none of a rerun's."""
    await _parent(store, world_id, 5)
    fork, _ = await store.fork(world_id, Moment(seq=8))
    claims = [draft(kind="Noted", sim_time=3.0, source_metadata={"rerun_of": seq}) for seq in (3, 8, -1)]
    await (await store.log(fork.world_id)).append_all(claims)
    report = await store.rerun(fork.world_id)
    assert (report.resumed_after, report.accepted) == (None, 2)


async def test_who_else_writes_is_noticed(store: Store, world_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rerun stops where somebody else writes to the fork; what it had written stays, and it may go on."""
    await _parent(store, world_id)
    monkeypatch.setattr("worldledger_service.store.rerunning._BATCH", 4)
    fork, _ = await store.fork(world_id, Moment(seq=10))
    log = await store.log(fork.world_id)
    was_read = False
    taken = store.states.fold_at

    async def fold_at(name: str, seq: int) -> Any:
        nonlocal was_read
        found = await taken(name, seq)
        if name == fork.world_id and not was_read:
            was_read = True
            await log.append(draft(kind="Noted", sim_time=50.0))
        return found

    monkeypatch.setattr(store.states, "fold_at", fold_at)
    with pytest.raises(RerunConflictError, match="was written to meanwhile"):
        await store.rerun(fork.world_id)
    monkeypatch.setattr(store.states, "fold_at", taken)
    report = await store.rerun(fork.world_id, until=Moment(seq=10))
    assert report.head_seq == 3


async def test_what_cannot_be_run_on(store: Store, world_id: str) -> None:
    """A world that is no fork has nothing to run on; a moment before the fork point is none of a rerun."""
    await _parent(store, world_id, 3)
    with pytest.raises(InvalidConfigError, match="is no fork"):
        await store.rerun(world_id)
    fork, _ = await store.fork(world_id, Moment(seq=7))
    with pytest.raises(MomentNotFoundError, match="before the fork point, seq 7"):
        await store.rerun(fork.world_id, until=Moment(seq=6))
    report = await store.rerun(fork.world_id, until=Moment(seq=7))
    assert (report.issued, report.head_seq) == (0, 2)
    for seq in (7, 9, 99):
        with pytest.raises(RerunConflictError, match=f"seq {seq} of .* skipped: what is run again is seq 8 to 8"):
            await store.rerun(fork.world_id, asked=Asked(skip={seq}))
    with pytest.raises(RerunConflictError, match="nothing is run again, for seq 7 is where the fork begins"):
        await store.rerun(fork.world_id, until=Moment(seq=7), asked=Asked(skip={8}))
    await store.snapshot(world_id)
    with pytest.raises(RerunConflictError, match=r"seq 9 of .* a rerun never issues a StateDigest: the service"):
        await store.rerun(fork.world_id, asked=Asked(replace={9: _set(9)}))
    assert (await store.world(fork.world_id)).head_seq == 2
    await (await store.log(fork.world_id)).append(_set(9))
    with pytest.raises(RerunConflictError, match=r"has gone on by itself to sim_time 9\.0"):
        await store.rerun(fork.world_id)
