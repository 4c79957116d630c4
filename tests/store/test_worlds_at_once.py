"""Many worlds by one transaction: each whole or not at all, and whoever is refused is told alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from worldledger_service.store import Store
from worldledger_service.store.bulk import Row, SealedWorld, WorldsAtOnce, bulk_transaction, claim

from worldledger.drafts import CheckedDraft, PlainDrafts, check_draft
from worldledger.errors import (
    EffectTooLargeError,
    SimTimeOrderError,
    TamperedError,
    TimeAuthorityError,
    WorldExistsError,
)
from worldledger.genesis import NewWorld

from .helpers import assert_sound, draft

if TYPE_CHECKING:
    from .helpers import Connection


@pytest.fixture
def worlds(store: Store) -> WorldsAtOnce:
    """Return what makes worlds in the store's database."""
    return WorldsAtOnce(store.reader, max_effect_bytes=2000)


def sealed(worlds: WorldsAtOnce, name: str, numbers: range = range(3), **fields: Any) -> SealedWorld:
    """Return a world, sealed, with a draft of each number, whose time it is, too."""
    drafts = [check_draft(draft(n, sim_time=float(n))) for n in numbers]
    return worlds.seal(NewWorld(world_id=name, time_authority="client", **fields), drafts)


def in_columns(drafts: list[CheckedDraft]) -> PlainDrafts:
    """Return the same drafts in columns."""
    plain = PlainDrafts()
    for each in drafts:
        plain.add(each.kind, each.payload, each.source_id, each.sim_time or 0.0)
    return plain


def said(row: Row) -> tuple[Any, ...]:
    """Return what of a row does not follow from the moment at which it was made, nor from chance."""
    world_id, seq, text, _, kind, source_id, sim_time = row
    effect = orjson.loads(text)
    del effect["uuid"], effect["wall_time"]
    effect["payload"].pop("world_uuid", None)
    return world_id, seq, effect, kind, source_id, sim_time


@pytest.mark.both_servers
async def test_worlds_are_made_together(store: Store, worlds: WorldsAtOnce, world_id: str) -> None:
    """All are there, sound, as by themselves; those that were there, or come twice, are told and left alone."""
    await store.create_world(NewWorld(world_id=f"{world_id}-b"))
    names = [f"{world_id}-{letter}" for letter in "cbac"]
    found = await worlds.write([sealed(worlds, name, range(5), experiment=world_id) for name in names])
    assert [type(error) for error in found] == [type(None), WorldExistsError, type(None), WorldExistsError]
    for name in (f"{world_id}-a", f"{world_id}-c"):
        assert await assert_sound(store, name) == list(range(5))
        assert (await store.world(name)).experiment == world_id
    assert await assert_sound(store, f"{world_id}-b") == []
    await (await store.log(f"{world_id}-a")).append(draft(5, sim_time=9.0))
    assert await assert_sound(store, f"{world_id}-a") == list(range(6))


async def test_nothing_to_make(worlds: WorldsAtOnce) -> None:
    """No worlds are made of none."""
    assert await worlds.write([]) == []


def test_what_sealing_refuses(worlds: WorldsAtOnce) -> None:
    """Time that goes back and an effect that is too large are refused, by the draft's number."""
    world = NewWorld(world_id="any", time_authority="client")
    for bad, error in (
        (draft(1, sim_time=0.5), SimTimeOrderError),
        (draft("n" * 2000, sim_time=2.0), EffectTooLargeError),
    ):
        with pytest.raises(error) as caught:
            worlds.seal(world, drafts := [check_draft(draft(0, sim_time=1.0)), check_draft(bad)])
        assert caught.value.details["index"] == 1
        with pytest.raises(error) as again:
            worlds.seal(world, in_columns(drafts))
        assert again.value.details == caught.value.details


def test_drafts_in_columns(worlds: WorldsAtOnce) -> None:
    """They are sealed as they are one by one, whoever sets the world's time."""
    drafts = [check_draft(draft(n, sim_time=float(n))) for n in range(3)]
    world = NewWorld(world_id="any", time_authority="client")
    one, other = worlds.seal(world, drafts), worlds.seal(world, in_columns(drafts))
    assert [said(row) for row in one.rows] == [said(row) for row in other.rows]
    assert (one.head.seq, one.head.sim_time) == (other.head.seq, other.head.sim_time) == (4, 2.0)
    with pytest.raises(TimeAuthorityError):
        worlds.seal(NewWorld(world_id="any"), in_columns(drafts))


@pytest.mark.both_servers
async def test_an_effect_beyond_the_log(store: Store, worlds: WorldsAtOnce, admin: Connection, world_id: str) -> None:
    """Where somebody has put an effect of a world that is none, that world is refused, and the others are made."""
    insert = (
        "insert into effects (world_id, global_seq, effect, checksum, kind, source_id, sim_time)"
        " values ($1, 2, '{}', '', 'k', 's', 0)"
    )
    await admin.execute(insert, f"{world_id}-b")
    found = await worlds.write([sealed(worlds, f"{world_id}-{letter}") for letter in "abc"])
    assert [type(error) for error in found] == [type(None), TamperedError, type(None)]
    for name in (f"{world_id}-a", f"{world_id}-c"):
        assert await assert_sound(store, name) == list(range(3))
    assert await store.reader.head_seqs([f"{world_id}-b"]) == {}


@pytest.mark.both_servers
async def test_claims(store: Store, admin: Connection, world_id: str) -> None:
    """A name is claimed by one transaction at a time, in whatever order the names come, and no row of it is left."""
    held: Counter[str] = Counter()

    async def work(number: int) -> int:
        names = [f"{world_id}-{letter}" for letter in ("abc", "cba", "bd", "db", "ca")[number % 5]]
        async with bulk_transaction(store.reader) as connection:
            await claim(connection, names)
            held.update(names)
            await connection.execute("select")  # others run meanwhile
            most = max(held[name] for name in names)
            held.subtract(names)
        return most

    assert await asyncio.gather(*map(work, range(20))) == [1] * 20
    assert await admin.fetch("select from projection_leases where starts_with(name, 'claim:')") == []
