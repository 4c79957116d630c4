"""The table ``requests`` follows from the log: whatever is done to it is found, and made good again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from worldledger_service.store import Store, statements
from worldledger_service.store.repairing import repair_requests
from worldledger_service.store.verification import every_world, verify_world

from worldledger.chain import ORIGIN, Position
from worldledger.errors import WorldNotFoundError
from worldledger.genesis import NewWorld
from worldledger.time_authority import TIME_AUTHORITY_KIND

from .exports import exported, restored
from .helpers import draft, guards_down

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]

_R5 = "where world_id = '{w}' and req_id = 'r5'"
_PLANT = "insert into requests values ('{w}', 'a1', 'new', sha256('x'), %s, %s)"

#: What is done to the rows; the seq that the library names and what it says; what the view says.
TAMPERINGS: dict[str, tuple[str, int, str, str]] = {
    "a row is deleted": ("delete from requests " + _R5, 5, "no row for req_id 'r5' of 'a1'", "no row for the req_id"),
    "a digest is changed": (
        "update requests set body_sha256 = sha256('x') " + _R5,
        5,
        "another body_sha256 for req_id 'r5'",
        "differs from the effects: body_sha256",
    ),
    "a row names another effect": (
        "update requests set first_seq = 4, last_seq = 4 " + _R5,
        4,
        "a row for req_id 'r5' of 'a1' (seq 4 to 4), which is not in the log there",
        "differs from the effects: first_seq",
    ),
    "a row names more effects": ("update requests set last_seq = 6 " + _R5, 5, "last_seq is 6, not 5", "first_seq"),
    "a row names fewer effects": (
        "update requests set last_seq = 11 where world_id = '{w}' and req_id = 'several'",
        10,
        "last_seq is 11, not 12",
        "first_seq, last_seq",
    ),
    "a row is another request's": (
        "update requests set req_id = 'x' " + _R5,
        5,
        "a row for req_id 'x' of 'a1' (seq 5 to 5)",
        "requests has",
    ),
    "a row is another source's": ("update requests set source_id = 'b' " + _R5, 5, "'r5' of", "requests has"),
    "a row is planted": (
        _PLANT % (5, 5),
        5,
        "a row for req_id 'new' of 'a1'",
        "a row of which the log has no effect",
    ),
    "a row is planted beyond the head": (
        _PLANT % (900, 901),
        900,
        "beyond the head",
        "a row of which the log has no effect",
    ),
    "a row reaches beyond the head": (
        "update requests set last_seq = 900 " + _R5,
        5,
        "beyond the head",
        "first_seq, last_seq",
    ),
    "all rows are deleted": ("delete from requests where world_id = '{w}'", 2, "no row for req_id 'r2'", "no row"),
    "everything is wrong": (
        """
        update requests set body_sha256 = sha256('x'), first_seq = last_seq, last_seq = last_seq + 1
        where world_id = '{w}'
        """,
        2,
        "last_seq is 3, not 2",
        "requests row differs",
    ),
}


@pytest.fixture
def other_url(make_database: Callable[..., str]) -> str:
    """Return the address of an empty database, to import into."""
    return make_database()


async def _filled(store: Store, world_id: str) -> str:
    """Make a world with requests of one effect (2 to 9) and of several (10 to 12), and effects without (1, 13)."""
    await store.create_world(NewWorld(world_id=world_id, time_authority="client"))
    log = await store.log(world_id)
    await log.append_all([draft({"n": n, "é": 1e16}, req_id=f"r{n}", sim_time=n / 4) for n in range(2, 10)])
    await log.append_request([draft(n) for n in range(3)], source_id="a1", req_id="several")
    await log.append(draft(13, source_metadata={"priority": 1}))
    return world_id


@pytest_asyncio.fixture(loop_scope="session")
async def world(store: Store, world_id: str) -> str:
    """Return such a world."""
    return await _filled(store, world_id)


async def _tamper(url: str, world_id: str, statement: str) -> None:
    async with guards_down(url) as connection:
        await connection.execute(statement.replace("{w}", world_id))


async def _rows(admin: Connection, world_id: str) -> list[tuple[object, ...]]:
    return [
        tuple(row)
        for row in await admin.fetch("select * from requests where world_id = $1 order by first_seq, req_id", world_id)
    ]


async def _seen(admin: Connection, world_id: str) -> tuple[bool, str]:
    row = await admin.fetchrow("select verified, problem from verification where world_id = $1", world_id)
    assert row is not None
    return row["verified"], str(row["problem"])


@pytest.mark.both_servers
async def test_what_is_done_is_found_and_repaired(
    store: Store,
    world: str,
    admin: Connection,
    database_url: str,
    open_store: Opener,
    other_url: str,
) -> None:
    """Each tampering is found by the library and by the view; the repair mends it, and the export imports again."""
    rows = await _rows(admin, world)
    head = (await store.reader.verify(world)).position
    assert await _seen(admin, world) == (True, "None")
    for name, (done, seq, what, seen) in TAMPERINGS.items():
        await _tamper(database_url, world, done)
        found = (await store.reader.verify(world)).finding
        assert found is not None, name
        assert (found.global_seq, what in found.what) == (seq, True), (name, found)
        verified, problem = await _seen(admin, world)
        assert (verified, seen in problem) == (False, True), (name, problem)

        changed = await _rows(admin, world)
        told = await repair_requests(store.reader, database_url, world, dry_run=True)
        assert (told.changed, await _rows(admin, world)) == (True, changed), name
        assert await repair_requests(store.reader, database_url, world) == told
        assert await _rows(admin, world) == rows, name
        assert (await store.reader.verify(world)).verified, name
        assert await _seen(admin, world) == (True, "None"), name
    assert not (await repair_requests(store.reader, database_url, world)).changed
    assert (await store.reader.verify(world)).position == head
    other = await open_store(other_url)
    assert await restored(other, await exported(store, world))
    assert (await other.reader.verify(world)).verified


async def test_requests_wait_in_a_file_for_rows_that_come_in_chunks(
    store: Store, world: str, database_url: str, monkeypatch: pytest.MonkeyPatch, thorough: bool
) -> None:
    """However few requests fit into memory, and rows into a chunk, the same is found as ever."""
    rows = [row async for batch in store.reader.batches(world) for row in batch]
    starts = [ORIGIN, *(Position(row.global_seq, row.checksum) for row in rows)]
    monkeypatch.setattr("worldledger_service.store.request_rows._BATCHES_KEPT", 0)
    monkeypatch.setattr("worldledger_service.store.reader._MOST_ROWS", 2)
    for chunk in (1, 3, 9) if thorough else (2,):
        monkeypatch.setattr("worldledger_service.store.request_rows._ROWS", chunk)
        for start in starts:
            assert (await verify_world(store.reader, world, start=start)).verified, (chunk, start)
        for name in ("a row is deleted", "a row is planted", "everything is wrong"):
            done, seq, what, _ = TAMPERINGS[name]
            await _tamper(database_url, world, done)
            found = (await store.reader.verify(world)).finding
            assert found is not None, name
            assert (found.global_seq, what in found.what) == (seq, True), (name, found)
            await repair_requests(store.reader, database_url, world)
            assert (await store.reader.verify(world)).verified, name


@pytest.mark.both_servers
async def test_the_guards_stand_again(store: Store, world: str, database_url: str, admin: Connection) -> None:
    """A repair leaves the privileges and triggers of the table as they were."""
    guards = """
        select relacl::text, (select string_agg(tgname || tgenabled::text, ' ' order by tgname) from pg_trigger
                              where tgrelid = c.oid) from pg_class c where c.oid = 'requests'::regclass
    """
    before = await admin.fetchrow(guards)
    await _tamper(database_url, world, "delete from requests where world_id = '{w}' and req_id = 'r3'")
    assert (await repair_requests(store.reader, database_url, world)).written == 1
    assert await admin.fetchrow(guards) == before


async def test_a_damaged_log_is_not_made_a_table_of(
    store: Store, world: str, admin: Connection, database_url: str
) -> None:
    """Where the log itself does not hold, as when a req_id was used twice, nothing is written; the seq is named."""
    await _tamper(database_url, world, "delete from requests " + _R5)
    await (await store.log(world)).append(draft(5, req_id="r5"))  # which the missing row should have answered
    found = (await store.reader.verify(world)).finding
    assert found is not None
    what = "the req_id was used before, by seq 5, and other effects stand between"
    assert (found.global_seq, found.what) == (14, what)
    assert await _seen(admin, world) == (False, "the req_id comes again after other effects")
    before = await _rows(admin, world)
    done = await repair_requests(store.reader, database_url, world)
    assert (done.finding, done.changed) == (found, False)
    assert await _rows(admin, world) == before


async def test_rows_that_agree_with_a_req_id_used_twice(
    store: Store, world: str, admin: Connection, database_url: str
) -> None:
    """A req_id that was used twice is told, also where the primary key is gone and the rows say the same as the log."""
    kept = "create temp table kept as select * from requests where world_id = '{w}' and req_id = 'r5'"
    async with guards_down(database_url) as connection:
        await connection.execute(kept.replace("{w}", world))
        await connection.execute("delete from requests " + _R5.replace("{w}", world))
        await (await store.log(world)).append(draft(5, req_id="r5"))
        await connection.execute("alter table requests drop constraint requests_pkey")
        await connection.execute("insert into requests select * from kept")
        found = (await store.reader.verify(world)).finding
        await connection.execute("delete from requests q using kept k where q = k")
        await connection.execute("alter table requests add primary key (world_id, source_id, req_id)")
    assert found is not None
    what = "the req_id was used before, by seq 5, and other effects stand between"
    assert (found.global_seq, found.what) == (14, what)


async def test_one_look_is_enough_for_a_world_that_holds(
    store: Store, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all is well, the rows are those of the effects' requests, from any position on."""
    log = await store.log(world)
    await log.append(draft(14, source_id="été", req_id="💡" + "é" * 9))
    await log.append_request([draft(n) for n in range(2)], source_id="a1", req_id="last")
    rows = [row async for batch in store.reader.batches(world) for row in batch]
    monkeypatch.setattr("worldledger_service.store.verification._Log.verified", None)  # which would look again
    for start in (ORIGIN, *(Position(row.global_seq, row.checksum) for row in rows)):
        verdict = await verify_world(store.reader, world, start=start)
        assert (verdict.finding, verdict.position.global_seq) == (None, 16), start


async def test_many_rows_are_sorted_only_where_they_lie_in_another_order(
    open_store: Opener, other_url: str, world_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in the order of the log are compared as they are stored; others, and wrong ones, as if they were few."""
    store = await open_store(other_url)  # a new database has no room between older rows, which new ones would take
    world = await _filled(store, world_id)
    monkeypatch.setattr("worldledger_service.store.request_rows._FEW", 0)
    with monkeypatch.context() as patch:
        patch.setattr(statements, "COPY_OF_REQUESTS", "")
        assert (await verify_world(store.reader, world)).verified
    done, seq, what, _ = TAMPERINGS["a digest is changed"]
    await _tamper(other_url, world, done)
    found = (await verify_world(store.reader, world)).finding
    assert found is not None
    assert (found.global_seq, what in found.what) == (seq, True)
    await repair_requests(store.reader, other_url, world)  # which writes the row behind the others
    with monkeypatch.context() as patch:
        patch.setattr("worldledger_service.store.verification._Log.verified", None)  # which would look again
        assert (await verify_world(store.reader, world)).verified


@pytest.mark.both_servers
async def test_rows_of_a_world_that_never_was(
    store: Store, world_id: str, admin: Connection, database_url: str
) -> None:
    """Rows for a world to come, which would swallow its first requests, are found by its name, and removed."""
    await admin.execute("insert into requests values ($1, 'a1', 'first', sha256('x'), 2, 2)", world_id)
    assert world_id in {name async for name in every_world(store.reader)}
    verdict = await verify_world(store.reader, world_id)
    assert verdict.finding is not None
    assert (await _seen(admin, world_id))[0] is False
    assert (await repair_requests(store.reader, database_url, world_id)).removed == 1
    with pytest.raises(WorldNotFoundError):
        await repair_requests(store.reader, database_url, world_id)


async def test_a_check_from_a_position_looks_at_what_came_since(
    store: Store, world: str, admin: Connection, database_url: str
) -> None:
    """Requests after the position are compared, also where it lies inside of one; those before it are not."""
    rows = [row async for batch in store.reader.batches(world) for row in batch]
    starts = [Position(rows[seq - 1].global_seq, rows[seq - 1].checksum) for seq in (1, 4, 5, 10, 11, 12)]

    async def verified() -> list[int]:
        return [start[0] for start in starts if (await verify_world(store.reader, world, start=start)).verified]

    assert await verified() == [1, 4, 5, 10, 11, 12]
    await _tamper(database_url, world, "delete from requests " + _R5)
    assert await verified() == [5, 10, 11, 12]
    await _tamper(database_url, world, TAMPERINGS["a row names fewer effects"][0])
    assert await verified() == [10, 11, 12]
    await _tamper(database_url, world, _PLANT % (13, 13))
    assert await verified() == []


async def test_what_the_service_adds_to_a_request_is_no_part_of_it(store: Store, world: str) -> None:
    """The offset of an authority over time is written with the digest of what was asked, so that it can be compared."""
    asked = draft(kind=TIME_AUTHORITY_KIND, payload={"authority": "unity"}, source_id="worldledger", req_id="time")
    log = await store.log(world)
    (first,) = await log.append_all([asked], system=True)
    (again,) = await log.append_all([asked], system=True)
    assert (again.global_seq, again.replayed) == (first.global_seq, True)
    assert (await verify_world(store.reader, world)).verified
