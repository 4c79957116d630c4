"""Worlds: what is kept of them, their listing, and how many one process remembers."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from worldledger_service.store import EventLog, Store

from worldledger.errors import SchemaVersionError, StoreUnavailableError
from worldledger.genesis import NewWorld, Parent

from .helpers import assert_sound, draft

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


@pytest.mark.both_servers
async def test_a_worlds_record_says_what_its_genesis_says(store: Store, world_id: str) -> None:
    """What was asked for stands in the record and in the genesis; the head is the genesis."""
    config: dict[str, Any] = {"strict": False, "b": 1e16, "a": [None, True, "é", {"z": {}}], "size": 8}
    made = await store.create_world(
        NewWorld(world_id=world_id, ruleset="social_rl", config=config, experiment="exp", time_authority="unity")
    )
    assert made == await store.world(world_id)
    assert (made.ruleset, made.config, made.experiment, made.time_authority) == ("social_rl", config, "exp", "unity")
    genesis = await store.reader.effect(world_id, 1)
    payload = orjson.loads(genesis.text)["payload"]
    assert payload["world_uuid"] == made.world_uuid
    assert payload["config"] == config
    assert (made.head_seq, made.head_checksum) == (1, genesis.checksum.hex())
    assert (await store.reader.verify(world_id)).verified


async def test_a_fork_keeps_its_parent(store: Store, log: EventLog) -> None:
    """The parent of a fork stands in its genesis, and the fork verifies."""
    record = await store.world(log.world_id)
    parent = Parent(world_uuid=record.world_uuid, world_id=record.world_id, global_seq=1, checksum=record.head_checksum)
    fork = f"{log.world_id}.fork"
    await store.create_world(NewWorld(world_id=fork, parent=parent))
    genesis = orjson.loads((await store.reader.effect(fork, 1)).text)
    assert genesis["payload"]["parent"] == parent.model_dump()
    assert (await store.reader.verify(fork)).verified


@pytest.mark.both_servers
async def test_worlds_are_listed_by_name(store: Store, world_id: str) -> None:
    """Worlds come in pages by name, all or those of an experiment."""
    names = sorted(f"{world_id}.{letter}" for letter in "bBa-~_09")
    for number, name in enumerate(reversed(names)):
        await store.create_world(NewWorld(world_id=name, experiment=f"{world_id}.exp" if number % 2 else None))
    first = await store.worlds(after=f"{world_id}.", limit=3)
    assert [world.world_id for world in first] == names[:3]
    second = await store.worlds(after=first[-1].world_id, limit=100)
    assert [world.world_id for world in second if world.world_id.startswith(f"{world_id}.")] == names[3:]
    mine = [world.world_id async for world in store.every_world(experiment=f"{world_id}.exp")]
    assert mine == names[0::2]
    # Other tests have damaged worlds of this database.
    every = [world.world_id async for world in store.every_world(unreadable=lambda _: None)]
    assert every == sorted(every)
    assert set(names) <= set(every)


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800"])
async def test_texts_that_no_world_can_have_find_none(store: Store, log: EventLog, text: str) -> None:
    """Asking by texts that PostgreSQL cannot hold finds nothing, as asking by any other that is not there."""
    assert await store.worlds(experiment=text) == []
    assert await store.reader.head_seqs([text, log.world_id]) == {log.world_id: 1}
    for filters in ({"kind": text}, {"source_id": text}, {"kind": text, "source_id": "a"}):
        assert [batch async for batch in log.batches(**filters)] == []  # type: ignore[arg-type]


async def test_a_log_is_one_for_all_its_callers(store: Store, log: EventLog) -> None:
    """Whoever asks for a world's log, at the same time or later, gets the same."""
    logs = await asyncio.gather(*(store.log(log.world_id) for _ in range(5)))
    assert all(one is log for one in logs)


async def test_only_so_many_idle_worlds_are_remembered(
    open_store: Opener, world_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least recently used worlds are forgotten, and come back as they are; memory does not grow with worlds."""
    store = await open_store()
    monkeypatch.setattr(store._logs, "most", 3)
    names = [f"{world_id}.{n}" for n in range(8)]
    remembered = []
    for name in names:
        await store.create_world(NewWorld(world_id=name))
        remembered.append(weakref.ref(await store.log(name)))
        await (await store.log(names[0])).append(draft(name))
    gc.collect()
    assert [log() is not None for log in remembered] == [True, False, False, False, False, False, True, True]
    assert await (await store.log(names[1])).append(draft("back")) == 2
    assert await assert_sound(store, names[0]) == names


async def test_a_log_that_somebody_holds_stays_the_worlds_only_one(
    open_store: Opener, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that a caller still holds is given to the next caller too, however many worlds were used since."""
    store = await open_store()
    log = await store.log(log.world_id)
    monkeypatch.setattr(store._logs, "most", 1)
    for n in range(3):
        await store.create_world(NewWorld(world_id=f"{log.world_id}.{n}"))
        await store.log(f"{log.world_id}.{n}")
    again = await store.log(log.world_id)
    assert again is log
    await asyncio.gather(*(of.append(draft(n)) for n in range(10) for of in (log, again)))
    assert len(await assert_sound(store, log.world_id)) == 20


async def test_a_ping_answers_when_database_and_schema_fit(store: Store) -> None:
    """A store that can be used answers a ping."""
    await store.ping()


async def test_a_database_without_tables_is_a_clear_error(empty_database_url: str, open_store: Opener) -> None:
    """A store on a database that was never migrated does not open, and says what to run."""
    with pytest.raises(SchemaVersionError, match="worldledger db upgrade"):
        await open_store(empty_database_url)


async def test_a_server_that_is_absent_is_a_clear_error(open_store: Opener) -> None:
    """A store whose server is not there does not open, and says so without the password."""
    with pytest.raises(StoreUnavailableError) as caught:
        await open_store("postgresql://postgres:hush@127.0.0.1:1/postgres")
    assert "cannot be reached" in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.both_servers
async def test_the_service_works_under_its_role(store: Store, admin: Connection) -> None:
    """Whatever user the address names, the store works as the service's role."""
    async with store.reader.connection() as connection:
        assert await connection.fetchval("select current_user") == "worldledger_service"
        assert await connection.fetchval("select session_user") != "worldledger_service"
    assert await admin.fetchval("select current_user") != "worldledger_service"
