"""Reading: batches of bounded size, filters and limits, single effects, heads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import orjson
import pytest
import pytest_asyncio
from worldledger_service.store import EventLog, Store
from worldledger_service.store.verification import every_world

from worldledger.errors import EffectNotFoundError
from worldledger.genesis import NewWorld

from .helpers import draft

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


@pytest_asyncio.fixture(loop_scope="session")
async def filled(log: EventLog) -> EventLog:
    """Return a log with 20 effects of three kinds by two sources after its genesis."""
    await log.append_all([draft(n, kind=f"K{n % 3}", source_id=f"s{n % 2}", sim_time=n) for n in range(20)])
    return log


async def _seqs(log: EventLog, **filters: object) -> list[int]:
    return [row.global_seq async for batch in log.batches(**filters) for row in batch]  # type: ignore[arg-type]


@pytest.mark.both_servers
async def test_rows_are_as_they_are_stored(filled: EventLog, store: Store, admin: Connection) -> None:
    """A row has the stored bytes, the checksum and the columns; one effect alone is the same row."""
    rows = [row async for batch in filled.batches() for row in batch]
    stored = await admin.fetch("select * from effects where world_id = $1 order by global_seq", filled.world_id)
    for row, there in zip(rows, stored, strict=True):
        assert row.text == there["effect"].encode()
        assert tuple(row) == (
            there["global_seq"],
            row.text,
            *(there[n] for n in ("checksum", "kind", "source_id", "sim_time")),
        )
        assert await store.reader.effect(filled.world_id, row.global_seq) == row


FILTERS: list[tuple[dict[str, object], Iterable[int]]] = [
    ({}, range(1, 22)),
    ({"after_seq": 18}, [19, 20, 21]),
    ({"after_seq": -5, "until_seq": 3}, [1, 2, 3]),
    ({"after_seq": 4, "until_seq": 4}, []),
    ({"after_seq": 5, "until_seq": 4}, []),
    ({"after_seq": 21}, []),
    ({"after_seq": 2**70}, []),
    ({"until_seq": 2**70, "after_seq": 20}, [21]),
    ({"limit": 0}, []),
    ({"limit": -1}, []),
    ({"limit": 2}, [1, 2]),
    ({"limit": 2**70}, range(1, 22)),
    ({"kind": "K1"}, range(3, 22, 3)),
    ({"source_id": "s1"}, range(3, 22, 2)),
    ({"kind": "K1", "source_id": "s1"}, range(3, 22, 6)),
    ({"kind": "K1", "after_seq": 3, "until_seq": 12, "limit": 2}, [6, 9]),
    ({"kind": "WorldCreated"}, [1]),
    ({"kind": "k1"}, []),
    ({"source_id": ""}, []),
]


@pytest.mark.both_servers
async def test_filters_and_limits(filled: EventLog, subtests: pytest.Subtests) -> None:
    """Rows are those after and until the given seqs, of the kind and source asked for, as many as asked for."""
    for filters, seqs in FILTERS:
        with subtests.test(filters=filters):
            assert await _seqs(filled, **filters) == list(seqs)


async def test_batches_are_bounded_by_bytes(open_store: Opener, world_id: str) -> None:
    """A batch holds about as many bytes as the settings say, at least one row, and none is left out."""
    store = await open_store(read_batch_bytes=4000)
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    sizes = [10, 10, 9000, 10, 3000, 3000, 10, 20000, 20000, 10]
    await log.append_all([draft("x" * size) for size in sizes])
    batches = [batch async for batch in log.batches()]
    assert [row.global_seq for batch in batches for row in batch] == list(range(1, 12))
    for batch in batches:
        assert sum(len(row.text) for row in batch[:-1]) < 4000
    assert len(batches) > 4


async def test_batches_are_bounded_by_rows(log: EventLog, store: Store) -> None:
    """A batch never holds more than a thousand rows, filtered or not."""
    await store.bulk_append(log.world_id, (draft(n) for n in range(2100)))
    assert [len(batch) async for batch in log.batches(after_seq=1)] == [1000, 1000, 100]
    assert [len(batch) async for batch in log.batches(kind="Said", limit=1500)] == [1000, 500]


async def test_a_reader_holds_no_connection_between_batches(open_store: Opener, world_id: str) -> None:
    """Many slow readers at once need no connection each, and leave room for writing."""
    store = await open_store(pool_size=2, read_batch_bytes=1024)
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    await log.append_all([draft("x" * 500) for _ in range(10)])
    readers = [log.batches() for _ in range(10)]
    for reader in readers:
        assert (await anext(reader))[0].global_seq == 1
    assert await log.append(draft()) == 12
    for reader in readers:
        assert [row.global_seq async for batch in reader for row in batch][-1] == 12


async def test_what_is_appended_meanwhile_is_seen(log: EventLog, store: Store) -> None:
    """A reader that is on its way comes to what was appended since, unless it was told where to end."""
    await store.bulk_append(log.world_id, (draft(n) for n in range(1500)))
    open_end, closed = log.batches(), log.batches(until_seq=1501)
    await anext(open_end)
    await anext(closed)
    await log.append(draft())
    assert [row.global_seq async for batch in open_end for row in batch][-1] == 1502
    assert [row.global_seq async for batch in closed for row in batch][-1] == 1501


async def test_an_effect_that_is_not_there(filled: EventLog, store: Store, subtests: pytest.Subtests) -> None:
    """An effect that the world does not have is an error that names the head."""
    for seq in (0, -1, 22, 2**62, 2**63, 2**70):
        with subtests.test(seq=seq):
            with pytest.raises(EffectNotFoundError) as caught:
                await store.reader.effect(filled.world_id, seq)
            assert caught.value.details == {"world_id": filled.world_id, "global_seq": seq, "head_seq": 21}


@pytest.mark.both_servers
async def test_heads_of_many_worlds(filled: EventLog, store: Store) -> None:
    """The heads of worlds are given for those that exist."""
    assert await store.reader.head_seqs([filled.world_id, "nobodys", ""]) == {filled.world_id: 21}
    assert await store.reader.head_seqs([]) == {}


async def test_a_world_that_is_not_there_has_no_rows(store: Store) -> None:
    """Reading a world that nobody made gives nothing."""
    for name in ("nobodys", "", "a b", "\x00", "\ud800"):
        assert [batch async for batch in store.reader.batches(name)] == []


@pytest.mark.both_servers
async def test_every_name_that_stands_anywhere_is_found(
    store: Store, admin: Connection, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every world is found for verification, also one of which only effects, or only a head, are left."""
    name = log.world_id
    await admin.execute(
        "insert into heads select $1, head_seq, head_checksum, 0, 0 from heads where world_id = $2",
        f"{name}.head",
        name,
    )
    await admin.execute(
        "insert into effects select $1, 7, effect, checksum, kind, source_id, 0 from effects where world_id = $2",
        *(f"{name}.effect", name),
    )
    for size in (1, 2, 500):
        from worldledger_service.store import statements  # noqa: PLC0415 - its page size is turned down

        monkeypatch.setattr(statements, "EVERY_WORLD", statements.EVERY_WORLD.replace("500", str(size)))
        found = [world async for world in every_world(store.reader)]
        assert found == sorted(found)
        assert len(found) == len(set(found))
        assert {name, f"{name}.head", f"{name}.effect"} <= set(found)
        monkeypatch.undo()


@pytest.mark.both_servers
async def test_text_comes_back_to_the_byte(log: EventLog, store: Store, admin: Connection) -> None:
    """A stored text comes back byte for byte, also one that another writer of the profile would spell otherwise."""
    text = '{"a":1e16,"b":"\\u00e9é\U0001f600","c":100000000000000000000.0}'
    await admin.execute("set session_replication_role = replica")
    await admin.execute(
        "insert into effects values ($1, 2, $2::text::json, $3, 'k', 's', 0)", log.world_id, text, bytes(32)
    )
    row = await store.reader.effect(log.world_id, 2)
    assert row.text == text.encode()
    assert orjson.loads(row.text)["a"] == 1e16
