"""The database refuses to change history: by privilege for every role, by trigger for everyone else."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg
import pytest
from worldledger_service.database.revision import REVISIONS

from .helpers import DERIVED, undone, write_world

if TYPE_CHECKING:
    from .helpers import Connection

pytestmark = pytest.mark.both_servers

HISTORY = ("worlds", "effects", "requests")
ROLES = ("worldledger_service", "worldledger_reader", "worldledger_owner")
CHANGES = {
    **{f"update {table}": f"update {table} set world_id = world_id || 'x'" for table in HISTORY},
    **{f"delete {table}": f"delete from {table}" for table in HISTORY},
    **{f"truncate {table}": f"truncate {table}" for table in (*HISTORY, "heads")},
    "update one column": "update effects set recorded_at = now()",
    "upsert": (
        "insert into effects select * from effects on conflict (world_id, global_seq) do update set kind = 'Other'"
    ),
    "truncate all": "truncate worlds, heads, effects, requests cascade",
    "delete heads": "delete from heads",
}
#: Of heads only rows that go are refused by trigger: every append updates them, and a trigger would slow it down.
RENAME = {"rename a head": "update heads set world_id = 'x'"}


@pytest.fixture
async def world(admin: Connection) -> Connection:
    """Return a superuser's connection to a database with one world."""
    await write_world(admin, "w")
    return admin


@pytest.mark.parametrize("triggers", ["with triggers", "without triggers"])
async def test_privileges(world: Connection, triggers: str, subtests: pytest.Subtests) -> None:
    """Service, reader and owner lack the privilege, whether or not there are triggers (Citus has none)."""
    if triggers == "without triggers":
        found = await world.fetch(
            "select tgname, tgrelid::regclass::text as name from pg_trigger where not tgisinternal"
        )
        for row in found:
            await world.execute(f"drop trigger {row['tgname']} on {row['name']}")
    for role, (change, statement) in product(ROLES, (CHANGES | RENAME).items()):
        with subtests.test(role=role, change=change):
            async with undone(world):
                await world.execute(f"set role {role}")
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await world.execute(statement)


async def test_triggers(world: Connection, subtests: pytest.Subtests) -> None:
    """A superuser is refused by trigger, even one who asks for triggers to be passed by."""
    for replication, (change, statement) in product(("origin", "replica", "local"), CHANGES.items()):
        with subtests.test(replication=replication, change=change):
            async with undone(world):
                await world.execute(f"set session_replication_role = {replication}")
                with pytest.raises(asyncpg.RestrictViolationError, match="history is append-only") as caught:
                    await world.execute(statement)
                assert caught.value.hint


async def test_merge_is_refused(world: Connection) -> None:
    """MERGE goes through the same triggers."""
    with pytest.raises(asyncpg.RestrictViolationError):
        await world.execute("merge into effects e using worlds w on e.world_id = w.world_id when matched then delete")


async def test_service_appends(world: Connection) -> None:
    """The service can lock and move a head, and insert effects, requests and whole worlds, in one transaction."""
    await world.execute("set role worldledger_service")
    async with world.transaction():
        await world.execute("select * from heads where world_id = 'w' for update")
        await world.execute(
            "update heads set head_seq = 10, head_checksum = sha256('a'), sim_time = 3, wall_time = 2e9"
        )
        await world.execute("insert into effects values ('w', 10, '{}', sha256('a'), 'k', 's', 3)")
        await world.execute("insert into requests values ('w', 's', 'r', sha256('b'), 10, 10)")
    await write_world(world, "w2")
    await world.copy_records_to_table(
        "effects",
        columns=["world_id", "global_seq", "effect", "checksum", "kind", "source_id", "sim_time"],
        records=[("w", 11, "{}", b"\0" * 32, "k", "s", 3.0)],
    )
    assert await world.fetchval("select count(*) from effects") == 20
    assert await world.fetchval("select version_num from alembic_version") == REVISIONS[-1]


SERVICE_MAY_NOT = {
    "create tables": "create table mine ()",
    "touch the revision": "update alembic_version set version_num = '0'",
    "write through a view": "insert into effect_verification (world_id) values ('x')",
    "switch triggers off": "alter table effects disable trigger all",
    "ask for triggers to be passed by": "set session_replication_role = replica",
}


async def test_service_may_not(admin: Connection, subtests: pytest.Subtests) -> None:
    """The service's role cannot take the guards away."""
    for action, statement in SERVICE_MAY_NOT.items():
        with subtests.test(action=action):
            async with undone(admin):
                # Under SET ROLE a superuser may still set what the session may; here the session is no superuser's.
                await admin.execute("set session authorization worldledger_service")
                with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.ObjectNotInPrerequisiteStateError)):
                    await admin.execute(statement)


async def test_readers_read_no_table(world: Connection, subtests: pytest.Subtests) -> None:
    """The reader and the guest can neither select from a table of the log nor insert into it."""
    for role, table in product(("worldledger_reader", "worldledger_guest"), (*HISTORY, "heads")):
        with subtests.test(role=role, table=table):
            await world.execute(f"set role {role}")
            for refused in (f"select from {table}", f"insert into {table} values ('w')"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    async with undone(world):
                        await world.execute(refused)


async def test_nobody_else(admin: Connection, subtests: pytest.Subtests) -> None:
    """A user who was given no role cannot even read."""
    name = f"wl_nobody_{uuid4().hex}"
    await admin.execute(f"create role {name}")
    await admin.execute(f"set role {name}")
    for table in (*HISTORY, "heads", "verification", "effect_verification", "alembic_version", *DERIVED):
        with subtests.test(table=table), pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with undone(admin):
                await admin.execute(f"select * from {table}")


BAD_ROWS = {
    "a seq twice": "insert into effects values ('w', 9, '{}', sha256(''), 'k', 's', 0)",
    "no JSON": "insert into effects values ('w', 10, '{', sha256(''), 'k', 's', 0)",
    "no time": "insert into heads values ('h', 0, null, 0, null)",
    "a world without name": "insert into worlds values ('', gen_random_uuid(), 'r', 1, '{}', null, 'wall')",
    "a request without effect": "insert into requests values ('w', 's', 'r', sha256(''), 2, 1)",
}


async def test_constraints(world: Connection, subtests: pytest.Subtests) -> None:
    """Rows that cannot be right are refused by the tables themselves."""
    for row, statement in BAD_ROWS.items():
        with (
            subtests.test(row=row),
            pytest.raises((asyncpg.IntegrityConstraintViolationError, asyncpg.InvalidTextRepresentationError)),
        ):
            async with undone(world):
                await world.execute(statement)
