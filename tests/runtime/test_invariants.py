"""docs/reference/contracts.md, "Invariants", under the load of many agents at once in two processes."""

from __future__ import annotations

import asyncio
import itertools
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import jsonpatch
import pytest
from worldledger_sandbox.rules import RULESET
from worldledger_service.runtime import Orchestrator, OrchestratorConfig

from worldledger.deltas import ObservationDelta, View
from worldledger.effects import Effect, Intent
from worldledger.errors import SimulationError
from worldledger.folding import Fold
from worldledger.intents import Accepted
from worldledger.world import WorldState

from .conftest import Opening
from .helpers import ALL, created, custom, head_of, message, move, near, patched, speak

pytestmark = pytest.mark.group("invariants")  # one load for all of them

AGENTS = [f"agent-{n}" for n in range(6)]
#: Intents that each agent submits.
ROUNDS = 15
POLICIES = [ALL, near(8.0), near(8.0, remove_operations=False)]


class Bounds:
    """A validator that keeps everybody near the middle, and lets nobody speak who stands to the left of it."""

    def validate_intent(self, intent: Intent, world_state: WorldState) -> bool:
        """Tell whether the agent may."""
        if intent["kind"] == "Move":
            return all(abs(number) <= 10 for number in intent["payload"]["to"])
        x, *_ = world_state.spatial_index.get(intent["agent_id"], (0.0,))
        return intent["kind"] != "Speak" or x >= 0


class Sent(NamedTuple):
    """An intent, and what became of it."""

    intent: dict[str, Any]
    result: Accepted | SimulationError


class Seen(NamedTuple):
    """An observation, with the view before it, and where its agent and the process stood after it."""

    agent_id: str
    before: View
    delta: ObservationDelta
    view_seq: int
    followed: int


@dataclass
class Load:
    """Agents that observe, generate and act as fast as they can, and some who only disturb; and what came of it."""

    worlds: list[Orchestrator]
    sent: list[Sent] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    #: the agents' last views, and their digests by the log
    views: dict[str, View] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    #: a view_seq that was asked for or shown, and the head after that
    shown: list[tuple[int, int]] = field(default_factory=list)
    #: what validate_integrity said of the log while it grew, and at the end
    intact: list[bool] = field(default_factory=list)
    #: the log
    effects: list[Effect] = field(default_factory=list)

    async def run(self) -> None:
        """Run to the end."""
        for n, name in enumerate(AGENTS):
            if n % 2:
                await self.worlds[0].broadcast_event(created(name, n, 0, hp=n))
            await self.worlds[n % 2].register_agent(name, POLICIES[n % len(POLICIES)])
        await self.worlds[1].reached(await head_of(self.worlds[0]))
        acting = [asyncio.create_task(self._act(n, name)) for n, name in enumerate(AGENTS)]
        acting += [asyncio.create_task(self._disturb(n)) for n in range(2)]
        await asyncio.gather(self._watch(), self._validate(acting), *acting)
        head = await head_of(self.worlds[0])
        await self.worlds[1].reached(head)
        for world in self.worlds:
            await world.flush()
            self.intact += [await world.event_log.validate_integrity(), not world.broken]
        for n, name in enumerate(AGENTS):
            shown = await self.worlds[n % 2].view(name, at_seq=self.views[name].view_seq)
            self.digests[name] = shown.context_digest
        self.effects = [entry.effect for entry in await self.worlds[0].event_log.get_entries_since(0)]

    async def _watch(self) -> None:
        """Look at how far agents are, now and then."""
        for _ in range(20):
            for world in self.worlds:
                seqs = [handle.view_seq for handle in world.agent_handles.values()]
                seqs += [(await world.view(name)).view_seq for name in world.agent_handles]
                head = (await world._follower._store.world(world.world_id)).head_seq
                self.shown += [(seq, head) for seq in seqs]
            await asyncio.sleep(0.01)

    async def _validate(self, acting: list[asyncio.Task[None]]) -> None:
        """Validate the log from either process for as long as it grows."""
        while not all(each.done() for each in acting):
            self.intact += [await world.event_log.validate_integrity() for world in self.worlds]

    async def _act(self, n: int, name: str) -> None:
        random = Random(n)
        world = self.worlds[n % 2]
        handle = world.agent_handles[name]
        assert handle.initial_view is not None
        self.views[name] = handle.initial_view
        for step in range(ROUNDS):
            while len(handle._subscription) and step % 5:
                delta = await handle.next_observation()
                self.seen.append(Seen(name, self.views[name], delta, handle.get_view_seq(), world._follower.seq))
                self.views[name] = patched(self.views[name], delta)
            req_id = f"{name}-{step}"
            handle.issue_cancel_token(req_id)
            await asyncio.sleep(0)
            intent = {
                **random.choice(
                    [
                        speak(f"{name} {step}"),
                        move(random.randrange(-12, 13), 0),
                        move(1, 1, start=(random.randrange(3), 0)),
                        custom("EntityCreated", {"entity_id": f"e{random.randrange(20)}", "entity_data": {}}),
                        custom("EntityRemoved", {"entity_id": f"e{random.randrange(20)}"}),
                        custom("Waved"),
                    ]
                ),
                "req_id": req_id,
                "context_seq": handle.view_seq,
                "agent_id": name,
            }
            again = [world.submit_intent(intent) for _ in range(random.choice([1, 1, 2]))]
            for result in await asyncio.gather(*again, return_exceptions=True):
                assert isinstance(result, Accepted | SimulationError), result
                self.sent.append(Sent(intent, result))

    async def _disturb(self, n: int) -> None:
        for step in range(ROUNDS):
            await self.worlds[n].broadcast_event(message(f"{n} {step}", f"voice-{n}"))
            await asyncio.sleep(0)

    @property
    def accepted(self) -> list[Sent]:
        """What was accepted."""
        return [sent for sent in self.sent if isinstance(sent.result, Accepted)]


@pytest.fixture(scope="module")
def load(shared_url: str) -> Load:
    """Return what came of agents who lived in a world that was open twice."""
    config = OrchestratorConfig(
        staleness_threshold=12, max_in_flight=4, token_budget=10**6, view_digest_every=20, max_queued_deltas=40
    )

    async def live() -> Load:
        async with AsyncExitStack() as stack:
            opening = Opening(shared_url, "invariants", stack)
            load = Load([await opening(config=config, validator=Bounds()) for _ in range(2)])
            await load.run()
            return load

    return asyncio.run(live())


def test_1_monotonic_ordering(load: Load) -> None:
    """``global_seq`` is strictly increasing: in the log without a gap, for every observer, and for every writer."""
    assert [effect["global_seq"] for effect in load.effects] == list(range(1, len(load.effects) + 1))
    for name in AGENTS:
        seqs = [seen.delta["view_seq"] for seen in load.seen if seen.agent_id == name]
        assert seqs
        assert all(one < two for one, two in itertools.pairwise(seqs))
        written = [sent.result.global_seq for sent in load.accepted if sent.intent["agent_id"] == name]  # type: ignore[union-attr]
        assert written == sorted(written)
    assert len(load.accepted) > len(AGENTS)


def test_2_view_consistency(load: Load) -> None:
    """``AgentHandle.view_seq`` never lies beyond the log's head, and neither does any view or context."""
    assert load.shown
    assert all(seq <= head for seq, head in load.shown)
    assert load.seen
    for seen in load.seen:
        assert seen.delta["view_seq"] == seen.view_seq <= seen.followed
    assert {name: view.context_digest for name, view in load.views.items()} == load.digests


def test_3_patch_validity(load: Load) -> None:
    """Patches only name places that exist: what is replaced or removed is there, what is added is not."""
    operations = 0
    for seen in load.seen:
        view = seen.before
        for operation in seen.delta["patches"]:
            operations += 1
            value = view.model_dump()
            assert there(value, operation["path"].rpartition("/")[0])
            assert there(value, operation["path"]) == (operation["op"] != "add")
            view = patched_by_one(view, operation)
    assert operations > 100


def there(value: Any, path: str) -> bool:
    """Tell whether a document has a place."""
    for token in path.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def patched_by_one(view: View, operation: dict[str, Any]) -> View:
    """Return the view after one operation of a delta."""
    value = jsonpatch.apply_patch(view.model_dump(), [operation])
    return View.of(view.agent_id, view.view_seq, value["visible_entities"], value["visible_relationships"])


def test_4_two_phase_integrity(load: Load) -> None:
    """Every accepted intent is one effect that was right where it stands; of a refused one there is no trace."""
    genesis, *found = load.effects
    by_request: dict[Any, list[Effect]] = {}
    for effect in found:
        if effect["req_id"] is not None and effect["source_id"] in AGENTS:
            by_request.setdefault(effect["req_id"], []).append(effect)
    assert all(len(made) == 1 for made in by_request.values())
    accepted = {sent.intent["req_id"]: sent.result for sent in load.accepted}
    assert {req_id: made[0]["uuid"] for req_id, made in by_request.items()} == accepted
    refused = {sent.intent["req_id"] for sent in load.sent} - accepted.keys()
    assert refused
    codes = {sent.result.code for sent in load.sent if isinstance(sent.result, SimulationError)}
    assert codes >= {"intent_refused", "illegal_effect", "intent_conflict"}

    fold, validator = Fold(genesis["world_id"], RULESET), Bounds()
    fold.apply(genesis)
    intents = {sent.intent["req_id"]: sent.intent for sent in load.accepted}
    for effect in found:
        intent: Any = intents.get(effect["req_id"]) if effect["source_id"] in AGENTS else None
        if intent is not None:
            state = fold.state
            intent["payload"] = effect["payload"]
            assert validator.validate_intent(intent, state)
            start = effect["payload"].get("from") if effect["kind"] == "Move" else None
            assert start is None or tuple(start) == state.spatial_index.get(effect["source_id"], tuple(start))
        malformed = fold.state.metadata["malformed_effects"]
        fold.apply(effect)
        assert fold.state.metadata["malformed_effects"] == malformed


def test_5_log_integrity(load: Load) -> None:
    """``validate_integrity`` verifies the whole hash chain, also while it grows, and from either process."""
    assert len(load.intact) > 4
    assert all(load.intact)


def test_6_uuid_uniqueness(load: Load) -> None:
    """Every ``Effect.uuid`` is a UUID of version 4 in hex, and no two effects have the same."""
    found = [effect["uuid"] for effect in load.effects]
    assert len(found) == len(set(found))
    assert all(re.fullmatch("[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}", uuid) for uuid in found)
    assert {str(sent.result) for sent in load.accepted} <= set(found)
