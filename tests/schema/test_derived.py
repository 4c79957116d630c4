"""Snapshots and projections: who may do what with them, and what their tables refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest

from .helpers import DERIVED, undone, write_derived, write_world

if TYPE_CHECKING:
    from .helpers import Connection

pytestmark = pytest.mark.both_servers

SERVICE, READER, OWNER = "worldledger_service", "worldledger_reader", "worldledger_owner"


@pytest.fixture
async def derived(admin: Connection) -> Connection:
    """Return a superuser's connection to a database with one world and all that is derived from it."""
    await write_world(admin, "w")
    await admin.execute(f"set role {SERVICE}")
    await write_derived(admin)
    await admin.execute("reset role")
    return admin


async def _refused(connection: Connection, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with connection.transaction():
            await connection.execute(statement)


async def _column(connection: Connection, table: str) -> str:
    return str(
        await connection.fetchval(
            "select attname from pg_attribute where attrelid = $1::text::regclass and attnum = 1", table
        )
    )


async def test_service_writes(derived: Connection, subtests: pytest.Subtests) -> None:
    """The service may insert, update and delete: nothing derived is append-only."""
    for table in DERIVED:
        with subtests.test(table=table):
            async with undone(derived):
                column = await _column(derived, table)
                await derived.execute(f"set role {SERVICE}")
                assert await derived.execute(f"update {table} set {column} = {column} || 'x'") == "UPDATE 1"
                assert await derived.execute(f"delete from {table}") == "DELETE 1"


async def test_reader_may_nothing(derived: Connection, subtests: pytest.Subtests) -> None:
    """The reader may not even select: what there is of it to ask stands in the schema analytics."""
    for table in DERIVED:
        with subtests.test(table=table):
            async with undone(derived):
                column = await _column(derived, table)
                await derived.execute(f"set role {READER}")
                for statement in (
                    f"select from {table}",
                    f"insert into {table} select * from {table}",
                    f"update {table} set {column} = ''",
                    f"delete from {table}",
                    f"truncate {table}",
                    f"select * from {table} for update",
                ):
                    await _refused(derived, statement)


async def test_only_the_owner_alters(derived: Connection, subtests: pytest.Subtests) -> None:
    """The tables are the owner's: neither the service nor the reader alters or drops them."""
    for table in DERIVED:
        with subtests.test(table=table):
            async with undone(derived):
                for role in (SERVICE, READER):
                    await derived.execute(f"set role {role}")
                    for statement in (
                        f"alter table {table} add extra int",
                        f"drop table {table}",
                        f"create index on {table} ((1))",
                        f"comment on table {table} is 'mine'",
                    ):
                        await _refused(derived, statement)
                await derived.execute(f"set role {OWNER}")
                await derived.execute(f"alter table {table} add extra int")


async def test_service_makes_projections(derived: Connection) -> None:
    """The service creates, fills, renames and drops tables and views of projections; the reader sees none of them."""
    await derived.execute(f"set role {SERVICE}")
    await derived.execute(
        """
        create table projections.games_2 as select world_id, 2 as version from projections.games_1;
        create or replace view projections.moves as select * from projections.games_2;
        """
    )
    assert await derived.fetchval("select version from projections.moves") == 2
    await derived.execute(f"set role {READER}")
    for statement in (
        "select from projections.moves",
        "create table projections.mine (x int)",
        "insert into projections.games_2 values ('x', 3)",
        "drop view projections.moves",
        "drop table projections.games_2",
    ):
        await _refused(derived, statement)
    await derived.execute(f"set role {SERVICE}")
    await derived.execute("drop view projections.moves, projections.games; drop table projections.games_1")
    await derived.execute("alter table projections.games_2 rename to games_3; drop table projections.games_3")


async def test_owner_and_projections(derived: Connection) -> None:
    """The schema of projections is the service's: the owner of the log makes nothing there."""
    await derived.execute(f"set role {OWNER}")
    await _refused(derived, "create table projections.mine (x int)")
    await _refused(derived, "drop schema projections cascade")


async def test_service_notes_news(derived: Connection) -> None:
    """A new head counts as news; the service takes note of it; the reader may not."""
    assert await derived.fetchval("select moved from heads where world_id = 'w'")
    await derived.execute(f"set role {SERVICE}")
    assert await derived.execute("update heads set moved = false where moved") == "UPDATE 1"
    assert await derived.fetch("select from heads where moved") == []
    await derived.execute(f"set role {READER}")
    await _refused(derived, "update heads set moved = true")


async def test_news_are_found_by_index(derived: Connection) -> None:
    """A runner that polls reads the index of worlds with news, not all heads."""
    await derived.execute("set local enable_seqscan = off; set local enable_bitmapscan = off")
    plan = await derived.fetch("explain (costs off) select world_id, head_seq from heads where moved order by world_id")
    assert "Index Scan using heads_moved_idx on heads" in plan[0][0]


async def test_appends_stay_hot(derived: Connection) -> None:
    """An append to a world that has news already changes no index; the first one after a note does."""
    hot = "select pg_stat_get_xact_tuples_hot_updated('heads'::regclass)"
    append = "update heads set head_seq = head_seq + 1, moved = true where world_id = 'w'"
    before = await derived.fetchval(hot)
    for _ in range(5):
        await derived.execute(append)
    assert await derived.fetchval(hot) == before + 5
    await derived.execute("update heads set moved = false")
    await derived.execute(append)
    assert await derived.fetchval(hot) == before + 5
    await derived.execute(append)
    assert await derived.fetchval(hot) == before + 6


async def test_defaults(derived: Connection) -> None:
    """A build begins unpaused before the first world; a lease begins with nobody ever having held it."""
    build = await derived.fetchrow("select * from projection_builds")
    assert build is not None
    assert (build["paused"], build["scanned_to"], build["effects_total"], build["effects_done"]) == (False, "", None, 0)
    assert build["started_at"] is not None
    assert (build["finished_at"], build["retired_at"], build["check_report"]) == (None, None, None)
    lease = await derived.fetchrow("select token, beats from projection_leases")
    assert tuple(lease or ()) == (0, 0)
    assert await derived.fetchval("select attempts from projection_parked") == 1
    assert await derived.fetchval("select since is not null from projection_pending")


async def test_snapshots_keep_their_text(derived: Connection) -> None:
    """The text of a state comes back byte by byte, so that its digest holds."""
    text = '{"b":1.0,"a":1e2,  "a":"ä"}'
    await derived.execute(
        "insert into snapshots values ('w', 1, sha256(''), 'r', 1, sha256(convert_to($1, 'UTF8')), $1::text::json, 1)",
        text,
    )
    row = await derived.fetchrow(
        "select state::text as state, sha256(convert_to(state::text, 'UTF8')) = state_digest as same"
        " from snapshots where global_seq = 1"
    )
    assert tuple(row or ()) == (text, True)


_BUILD = "insert into projection_builds (build, projection, version, status) values "
BAD_ROWS = {
    "a digest that is none": "insert into snapshots values ('w', 1, sha256(''), 'r', 1, 'short', '{}', 2)",
    "a place twice": "insert into snapshots select * from snapshots",
    "a state that is no JSON": "insert into snapshots values ('w', 1, sha256(''), 'r', 1, sha256(''), '{', 1)",
    "a build twice": _BUILD + "('games_1', 'other', 1, 'building')",
    "an unknown status": _BUILD + "('games_2', 'games', 2, 'ready')",
    "two live builds": _BUILD + "('games_2', 'games', 2, 'live')",
    "two builds at a time": _BUILD + "('games_2', 'games', 2, 'building'), ('games_3', 'games', 3, 'building')",
    "a cursor twice": "insert into projection_cursors values ('games_1', 'w', 9)",
    "a world noted twice": "insert into projection_pending values ('games_1', 'w', 9)",
    "a world set aside twice": "insert into projection_parked values ('games_1', 'w', 9, null, 'again')",
    "a lease twice": "insert into projection_leases values ('projections')",
}


async def test_constraints(derived: Connection, subtests: pytest.Subtests) -> None:
    """Rows that cannot be right are refused by the tables themselves."""
    for row, statement in BAD_ROWS.items():
        with (
            subtests.test(row=row),
            pytest.raises((asyncpg.IntegrityConstraintViolationError, asyncpg.InvalidTextRepresentationError)),
        ):
            async with undone(derived):
                await derived.execute(statement)


async def test_builds_side_by_side(derived: Connection) -> None:
    """A projection may have one live build, one being filled and any number of retired ones."""
    await derived.execute(
        _BUILD + "('games_2', 'games', 2, 'building'), ('games_a', 'games', 0, 'retired'),"
        " ('games_b', 'games', 0, 'retired'), ('moves_1', 'moves', 1, 'live'), ('moves_2', 'moves', 2, 'building')"
    )
    assert await derived.fetchval("select count(*) from projection_builds") == 6
