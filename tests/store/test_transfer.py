"""Export and import of worlds: a restored world is the same to the byte."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import asyncpg
import orjson
import pytest
import pytest_asyncio
from worldledger_service.store import Store, transfer
from worldledger_service.store.transfer import export_world, import_export

from tests.rules.chains import chained
from worldledger.chain import StoredEffect
from worldledger.config import OrchestratorConfig
from worldledger.errors import FileRefusedError, RequestConflictError, TamperedError, WorldExistsError
from worldledger.genesis import NewWorld

from .exports import checked, effect, export_of, exported, genesis, restored, text, texts
from .helpers import draft, guards_down

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]

_TABLES = {
    "worlds": "world_id, world_uuid, ruleset, ruleset_version, config::text, experiment, time_authority",
    "heads": "world_id, head_seq, head_checksum, sim_time, wall_time",
    "effects": "world_id, global_seq, effect::text, checksum, kind, source_id, sim_time",
    "requests": "world_id, source_id, req_id, body_sha256, first_seq, last_seq",
}


async def contents(url: str, world_id: str) -> dict[str, list[tuple[object, ...]]]:
    """Return all that the tables have of a world."""
    connection = await asyncpg.connect(url)
    try:
        return {
            table: [
                tuple(row)
                for row in await connection.fetch(
                    f"select {columns} from {table} where world_id = $1 order by {columns}", world_id
                )
            ]
            for table, columns in _TABLES.items()
        }
    finally:
        await connection.close()


@pytest.fixture
def other_url(make_database: Callable[..., str]) -> str:
    """Return the address of an empty database, to import into."""
    return make_database()


@pytest_asyncio.fixture(loop_scope="session")
async def other(other_url: str, open_store: Opener) -> Store:
    """Open a store on it."""
    return await open_store(other_url)


async def filled(store: Store, world_id: str) -> None:
    """Make a world with effects of all sorts, requests of one and of several drafts among them."""
    await store.create_world(
        NewWorld(
            world_id=world_id,
            experiment="ünï",
            time_authority="client",
            config={"a": 1e16, "ä": [None, {}]},
            orchestrator=OrchestratorConfig(max_agents=7, default_priority=2),
        )
    )
    log = await store.log(world_id)
    await log.append_all([draft("€\u2028\x7f", sim_time=0.1), draft(1e16, req_id="r1"), draft({"n": [1.5e-7]})])
    await log.append_request([draft(1), draft(2), draft(3)], source_id="a1", req_id="r3")
    await log.append_request([draft(4)], source_id="a1", req_id="r4")
    await log.append(draft(5, caused_by=2, priority=-3, source_metadata={"file": "x"}))
    await log.append(draft(6, source_id="a2", req_id="r4"))


@pytest.mark.both_servers
async def test_an_export_is_the_stored_bytes_and_a_trailer(store: Store, world_id: str, admin: Connection) -> None:
    """Line n is the text of effect n as the table has it; the trailer says what the world and its head are."""
    await filled(store, world_id)
    *lines, last = (await exported(store, world_id)).splitlines()
    rows = await admin.fetch("select effect::text from effects where world_id = $1 order by global_seq", world_id)
    assert [line.decode() for line in lines] == [row[0] for row in rows]
    record = await store.world(world_id)
    said = orjson.loads(last)["trailer"]
    marks = said.pop("marks")
    assert said == {
        "format": "worldledger-export/1",
        "profile": "orjson-sorted/1",
        "world_id": world_id,
        "world_uuid": record.world_uuid,
        "ruleset": "sandbox",
        "count": record.head_seq,
        "head_seq": record.head_seq,
        "head_checksum": record.head_checksum,
    }
    assert marks["checksums"].endswith(record.head_checksum[:8])


@pytest.mark.both_servers
async def test_a_restored_world_is_identical(
    store: Store, world_id: str, database_url: str, other: Store, other_url: str
) -> None:
    """Every table has the same of the restored world as of the first one, it verifies, and exports the same file."""
    await filled(store, world_id)
    data = await exported(store, world_id)
    assert await restored(other, data) is True
    assert await contents(other_url, world_id) == await contents(database_url, world_id)
    assert (await other.reader.verify(world_id)).verified
    assert await exported(other, world_id) == data


@pytest.mark.both_servers
async def test_requests_are_known_after_a_restore(store: Store, world_id: str, other: Store) -> None:
    """Requests sent again to the restored world are answered with their first effects; another body is refused."""
    await filled(store, world_id)
    await restored(other, await exported(store, world_id))
    log = await other.log(world_id)
    (receipt,) = await log.append_all([draft(1e16, req_id="r1")])
    assert (receipt.global_seq, receipt.replayed) == (3, True)
    receipts = await log.append_request([draft(1), draft(2), draft(3)], source_id="a1", req_id="r3")
    assert [(receipt.global_seq, receipt.replayed) for receipt in receipts] == [(5, True), (6, True), (7, True)]
    with pytest.raises(RequestConflictError):
        await log.append(draft(5, source_id="a2", req_id="r4"))
    assert await log.append(draft(7, req_id="new")) == 11


async def test_an_export_ends_at_the_head_it_began_with(store: Store, world_id: str) -> None:
    """Effects that are appended while an export runs are left out of it."""
    await filled(store, world_id)
    record = await store.world(world_id)
    await (await store.log(world_id)).append(draft("late"))
    parts: list[bytes] = []
    trailer = await export_world(store.reader, record, parts.append)
    assert trailer.head == record.head.position
    assert checked(io.BytesIO(b"".join(parts))).trailer.count == record.head_seq


async def test_the_same_log_again_changes_nothing(store: Store, world_id: str, database_url: str) -> None:
    """Importing what is there already is no error and writes nothing."""
    await filled(store, world_id)
    before = await contents(database_url, world_id)
    assert await restored(store, await exported(store, world_id)) is False
    assert await contents(database_url, world_id) == before


async def test_other_logs_of_that_name_are_told_apart(store: Store, world_id: str, other: Store) -> None:
    """Where another log of that name is, the error says which is ahead, or from which seq on they differ."""
    lines = texts(5, world_id)
    await restored(store, export_of(lines, world_id))
    changed = [*lines[:3], text(effect(4, world_id, payload={"n": "other"})), lines[4]]
    stranger = [text(genesis(world_id, world_uuid="f" * 32)), *lines[1:]]
    for data, how in {
        export_of(lines[:3], world_id): "has the whole file and goes on, to seq 5; the file ends at seq 3",
        export_of([*lines, text(effect(6, world_id))], world_id): "ends at seq 5, where the file goes on to seq 6",
        export_of(changed, world_id): "differs from seq 4 on",
        export_of(stranger, world_id): "is another one from its genesis on",
    }.items():
        with pytest.raises(WorldExistsError) as caught:
            await restored(store, data)
        assert how in caught.value.message
    assert (await store.world(world_id)).head_seq == 5
    assert await restored(other, export_of(changed, world_id))


async def test_a_refused_file_leaves_nothing(store: Store, world_id: str) -> None:
    """A file that does not hold is refused before the database is touched."""
    data = export_of(texts(5, world_id), world_id)
    with pytest.raises(FileRefusedError):
        await restored(store, data.replace(b'"n":4', b'"n":5'))
    assert await store.reader.head_seqs([world_id]) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b'"n":4}', b'"n":5}', id="edited"),
        pytest.param(b'"n":4}', b'"n":4', id="broken"),
        pytest.param(b'"n":4}', b'"n":4}' + b" " * 5000, id="longer"),
    ],
)
async def test_a_file_that_changes_meanwhile_leaves_nothing(
    store: Store, world_id: str, before: bytes, after: bytes
) -> None:
    """A file that is no longer the one that was checked is refused, and nothing of it is kept."""
    data = export_of(texts(5, world_id), world_id)
    as_it_was = checked(io.BytesIO(data))
    with pytest.raises(FileRefusedError, match="changed while it was being imported"):
        await import_export(store.reader, io.BytesIO(data.replace(before, after)), as_it_was, name="f")
    with pytest.raises(FileRefusedError, match="changed while it was being imported"):
        await import_export(store.reader, io.BytesIO(data[:300]), as_it_was, name="f")
    assert await store.reader.head_seqs([world_id]) == {}


@pytest.mark.both_servers
async def test_text_of_another_orjson_is_kept_to_the_letter(store: Store, world_id: str, database_url: str) -> None:
    """Floats spelt otherwise, in the config too, stay as they are, and the world verifies in Python and in SQL: its
    request, too, whose digest is that of the text as it is spelt.
    """
    first = text(genesis(world_id, config={"x": 1e16}))
    second = text(effect(2, world_id, payload={"x": 1e16}, req_id="r"))
    lines = [line.replace(b"1e+16", b"1e16") for line in (first, second)]
    data = export_of(lines, world_id)
    assert b"1e+16" not in data
    assert await restored(store, data)
    assert await exported(store, world_id) == data
    assert (await store.reader.verify(world_id)).verified
    connection = await asyncpg.connect(database_url)
    try:
        assert await connection.fetchval("select verified from verification where world_id = $1", world_id)
    finally:
        await connection.close()


async def test_a_world_of_an_unknown_ruleset_is_restored(store: Store, world_id: str) -> None:
    """A log is a log: its ruleset need not be installed where it is imported."""
    data = export_of([text(genesis(world_id, ruleset="from-mars"))], world_id)
    assert await restored(store, data)
    assert (await store.world(world_id)).ruleset == "from-mars"


@pytest.mark.parametrize(
    ("req_ids", "line"),
    [("aabba", 6), ("a-a", 4), ("-a--b-a", 8)],
    ids=["after another request", "after an effect without one", "far away"],
)
async def test_a_request_that_comes_back_is_refused_by_line(
    store: Store, world_id: str, req_ids: str, line: int
) -> None:
    """A file in which a req_id comes back after other effects is refused, naming the line; nothing is kept."""
    asked = [None if req_id == "-" else req_id for req_id in req_ids]
    lines = [text(genesis(world_id)), *(text(effect(seq, world_id, req_id=req)) for seq, req in enumerate(asked, 2))]
    with pytest.raises(FileRefusedError, match="the req_id was used before, by seq") as caught:
        await restored(store, export_of(lines, world_id))
    assert caught.value.details["line"] == line
    assert await store.reader.head_seqs([world_id]) == {}


@pytest.mark.both_servers
async def test_requests_are_found_across_chunks(
    store: Store, world_id: str, monkeypatch: pytest.MonkeyPatch, admin: Connection
) -> None:
    """A request whose effects come in two chunks is still one."""
    monkeypatch.setattr(transfer, "_CHUNK", 3)
    made: list[int] = []
    lines = [
        text(genesis(world_id)),
        *(text(effect(seq, world_id, req_id=req)) for seq, req in enumerate("aaabbbc", 2)),
    ]
    stream = io.BytesIO(export_of(lines, world_id))
    await import_export(store.reader, stream, checked(stream), name="f", progress=made.append)
    rows = await admin.fetch(
        "select req_id, first_seq, last_seq from requests where world_id = $1 order by 1", world_id
    )
    assert [tuple(row) for row in rows] == [("a", 2, 4), ("b", 5, 7), ("c", 8, 8)]
    assert made == [3, 6, 8]


async def test_a_tampered_log_makes_no_export(store: Store, world_id: str, other: Store, other_url: str) -> None:
    """The chain is checked on the way out: the export stops at the effect that was changed."""
    await filled(other, world_id)
    connection = await asyncpg.connect(other_url)
    try:
        await connection.execute("alter table effects disable trigger all")
        await connection.execute("update effects set effect = '{}' where world_id = $1 and global_seq = 3", world_id)
    finally:
        await connection.close()
    with pytest.raises(TamperedError, match="seq 3: checksum differs"):
        await exported(other, world_id)


_GONE = "left out"


async def _write_over(connection: Connection, world_id: str, rows: Sequence[StoredEffect]) -> None:
    await connection.executemany(
        "update effects set effect = $3::text::json, checksum = $4, kind = $5, source_id = $6"
        " where world_id = $1 and global_seq = $2",
        [(world_id, row.global_seq, row.text.decode(), row.checksum, row.kind, row.source_id) for row in rows],
    )
    await connection.execute("update heads set head_checksum = $2 where world_id = $1", world_id, rows[-1].checksum)


async def test_a_log_that_breaks_its_own_rules_makes_no_export(store: Store, world_id: str, database_url: str) -> None:
    """A log of which the chain was made anew, and what it says cannot be, makes no export, as `verify` refuses it."""
    await filled(store, world_id)
    before = [row async for batch in store.reader.batches(world_id) for row in batch]
    async with guards_down(database_url) as connection:
        for seq, changes, what in (
            (6, {"wall_time": 5.0}, "seq 6: $.wall_time: 5.0 is lower than"),
            (6, {"uuid": "0" * 32}, "seq 6: the uuid is that of seq 4, too"),
            (10, {"req_id": "r1", "source_id": "a1"}, "seq 10: the req_id was used before, by seq 3"),
            (5, {"uuid": _GONE}, "seq 5: the stored text is not an effect"),
            (5, {"uuid": "x"}, "seq 5: $.uuid: not 32 hex digits"),
            (7, {"kind": "WorldCreated"}, "seq 7: $.kind: WorldCreated stands at seq 1 alone"),
        ):
            loaded = [orjson.loads(row.text) for row in before]
            loaded[3]["uuid"] = "0" * 32
            loaded[seq - 1] = {name: value for name, value in (loaded[seq - 1] | changes).items() if value != _GONE}
            await _write_over(connection, world_id, chained(loaded))
            with pytest.raises(TamperedError) as caught:
                await exported(store, world_id)
            assert what in caught.value.message
            finding = (await store.reader.verify(world_id)).finding
            assert finding is not None
            assert finding.error().message == caught.value.message
        await _write_over(connection, world_id, before)
    assert (await store.reader.verify(world_id)).verified
