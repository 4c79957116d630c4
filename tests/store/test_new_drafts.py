"""Drafts that are new: the world's default priority for those without one, and versions that are semantic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from worldledger_service.store import EventLog, Store

from worldledger.config import OrchestratorConfig
from worldledger.drafts import REQUEST_DIGEST, effect_body_digest
from worldledger.errors import InvalidEffectError, RequestConflictError
from worldledger.genesis import NewWorld

from .exports import effect, export_of, genesis, restored, text
from .helpers import draft

Opener = Callable[..., Awaitable[Store]]


@pytest_asyncio.fixture(loop_scope="session")
async def urgent(store: Store, world_id: str) -> EventLog:
    """Return the log of a new world whose default priority is 3."""
    await store.create_world(NewWorld(world_id=world_id, orchestrator=OrchestratorConfig(default_priority=3)))
    return await store.log(world_id)


async def effects(log: EventLog) -> list[dict[str, Any]]:
    """Return a world's effects after its genesis."""
    return [dict(entry.effect) for entry in await log.get_entries_since(1)]


async def test_drafts_without_priority_have_the_world_s(urgent: EventLog, store: Store) -> None:
    """One draft, lists, judged drafts, requests of several and bulk: all have it; a stated priority counts, 0 too."""
    await urgent.append(draft(0))
    await urgent.append(draft(1, sim_time=None))
    await urgent.append_all([draft(2), draft(3, req_id="r3")])
    await urgent.append_judged([draft(4)], {0: lambda _: None})
    await urgent.append_request([draft(5), draft(6)], source_id="a1", req_id="both")
    await store.bulk_append(urgent.world_id, [draft(7)])
    await urgent.append_all([draft(8, priority=0), draft(9, priority=-1)])
    assert [each["priority"] for each in await effects(urgent)] == [3] * 8 + [0, -1]
    assert [each["payload"]["n"] for each in await effects(urgent)] == list(range(10))
    assert (await store.reader.verify(urgent.world_id)).verified


async def test_the_service_s_own_effects_keep_theirs(urgent: EventLog) -> None:
    """System effects have the priority 0, whatever that of drafts is."""
    made: Any = {"kind": "WorldNoted", "payload": {}, "source_id": "worldledger", "schema_version": "1.0.0"}
    await urgent.append_all([made], system=True)
    assert [each["priority"] for each in await effects(urgent)] == [0]


async def test_a_request_without_priority_is_one_effect(urgent: EventLog, open_store: Opener) -> None:
    """It is recognised by every process, in a list too, and its digest follows from its effect alone."""
    (first,) = await urgent.append_all([draft(1, req_id="r")])
    other = await (await open_store()).log(urgent.world_id)
    for log in (urgent, other):
        (again,) = await log.append_all([draft(1, req_id="r")])
        assert again == first._replace(replayed=True)
        assert await log.recall(draft(1, req_id="r")) == again
        with pytest.raises(RequestConflictError):
            await log.append(draft(2, req_id="r"))
    (one,) = await effects(urgent)
    digest = effect_body_digest(one, b"")
    assert one["source_metadata"] == {REQUEST_DIGEST: digest.hex()}
    several = [draft(3), draft(4)]
    made = await urgent.append_request(several, source_id="a1", req_id="s")
    again_made = await other.append_request(several, source_id="a1", req_id="s")
    assert again_made == [receipt._replace(replayed=True) for receipt in made]


async def test_a_request_of_an_earlier_version_is_recognised(store: Store, world_id: str) -> None:
    """What was written when such drafts had the priority 0 is answered with its first receipt, and stays as it is."""
    config = OrchestratorConfig(default_priority=3)
    await store.create_world(NewWorld(world_id=world_id, orchestrator=config))
    log = await store.log(world_id)
    log.default_priority = 0  # as versions before this one
    (first,) = await log.append_all([draft(1, req_id="r")])
    both = await log.append_request([draft(2), draft(3)], source_id="a1", req_id="both")
    log.default_priority = 3
    assert await log.append_all([draft(1, req_id="r")]) == [first._replace(replayed=True)]
    again = await log.append_request([draft(2), draft(3)], source_id="a1", req_id="both")
    assert again == [receipt._replace(replayed=True) for receipt in both]
    assert [each["priority"] for each in await effects(log)] == [0, 0, 0]


async def test_imports_keep_what_they_have(store: Store, world_id: str) -> None:
    """Drafts that come with a new world, and whole logs, keep versions that are not semantic, and their priorities."""
    world = NewWorld(world_id=world_id, orchestrator=OrchestratorConfig(default_priority=3))
    await store.import_world(world, [draft(1, schema_version="1"), draft(2, schema_version="latest")])
    log = await store.log(world_id)
    assert [(each["schema_version"], each["priority"]) for each in await effects(log)] == [("1", 0), ("latest", 0)]
    with pytest.raises(InvalidEffectError) as refused:
        await log.append(draft(3, schema_version="1"))
    assert refused.value.path == "$.schema_version"
    old = f"{world_id}-old"
    assert await restored(store, export_of([text(genesis(old)), text(effect(2, old, schema_version="1"))], old))
    assert (await store.reader.verify(old)).verified
    assert await (await store.log(old)).append(draft(3, sim_time=9.0)) == 3
