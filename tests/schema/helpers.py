"""Worlds written row by row with nothing but hashlib and orjson, so that the SQL is judged from outside."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import UUID

import asyncpg
import orjson

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

TABLES = ("worlds", "heads", "effects", "requests")
#: What is no history: made from the log, or kept for convenience.
DERIVED = (
    "agent_cursors",
    "held_intents",
    "open_ticks",
    "snapshots",
    "projection_builds",
    "projection_cursors",
    "projection_pending",
    "projection_parked",
    "projection_leases",
)
WORLD_UUID = UUID("7d3f4c9e-0f0a-4c58-9a40-5f1d6b1f2a11")
CONFIG = {"board": {"size": 8}, "note": "ä"}


@dataclass
class Row:
    """One row of ``effects``."""

    world_id: str
    global_seq: int
    effect: str
    checksum: bytes
    kind: str
    source_id: str
    sim_time: float


def link(previous: bytes | None, text: str) -> bytes:
    """Return the chain checksum, as docs/reference/effects.md, "Checksum", defines it."""
    return hashlib.sha256((previous.hex() if previous else "").encode() + text.encode()).digest()


def make_effect(world_id: str, seq: int, **changed: Any) -> dict[str, Any]:
    """Make one effect; the first is the genesis."""
    genesis = {
        "world_uuid": WORLD_UUID.hex,
        "ruleset": "sandbox",
        "ruleset_version": 1,
        "config": CONFIG,
        "experiment": "e1",
        "time_authority": "client",
        "canonical_profile": "orjson-sorted/1",
    }
    return {
        "uuid": f"00000000000040008000{seq:012d}",
        "kind": "WorldCreated" if seq == 1 else "EntityMoved",
        "payload": genesis if seq == 1 else {"x": seq},
        "global_seq": seq,
        "sim_time": seq / 4,
        "source_id": "worldledger" if seq == 1 else f"agent-{seq % 3}",
        "schema_version": "1.0.0",
        "world_id": world_id,
        "priority": 0,
        "req_id": "r1" if seq == 2 else None,
        "wall_time": 1.7e9 + seq / 8,
        **changed,
    }


def chained(world_id: str, count: int) -> list[Row]:
    """Make a world's rows, seq 1 to ``count``."""
    rows: list[Row] = []
    for seq in range(1, count + 1):
        effect = make_effect(world_id, seq)
        text = orjson.dumps(effect, option=orjson.OPT_SORT_KEYS).decode()
        checksum = link(rows[-1].checksum if rows else None, text)
        rows.append(Row(world_id, seq, text, checksum, effect["kind"], effect["source_id"], effect["sim_time"]))
    return rows


async def insert_effect(connection: Connection, row: Row) -> None:
    """Insert one row of ``effects``."""
    await connection.execute(
        "insert into effects (world_id, global_seq, effect, checksum, kind, source_id, sim_time)"
        " values ($1, $2, $3::text::json, $4, $5, $6, $7)",
        *(row.world_id, row.global_seq, row.effect, row.checksum, row.kind, row.source_id, row.sim_time),
    )


async def write_world(connection: Connection, world_id: str, count: int = 9) -> list[Row]:
    """Write a whole, honest world."""
    rows = chained(world_id, count)
    config = orjson.dumps(CONFIG, option=orjson.OPT_SORT_KEYS).decode()
    await connection.execute(
        "insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, experiment, time_authority)"
        " values ($1, $2, 'sandbox', 1, $3::text::json, 'e1', 'client')",
        *(world_id, WORLD_UUID, config),
    )
    for row in rows:
        await insert_effect(connection, row)
    await connection.execute(
        "insert into heads values ($1, $2, $3, $4, $5)",
        *(world_id, count, rows[-1].checksum, count / 4, 1.7e9 + count / 8),
    )
    await connection.execute(
        "insert into requests values ($1, 'agent-2', 'r1', $2, 2, 2)",
        *(world_id, hashlib.sha256(b'["EntityMoved","agent-2","1.0.0",0,null]{"x":2}').digest()),
    )
    return rows


async def write_derived(connection: Connection) -> None:
    """Write a row of each derived table, and a build's table with the view that people read."""
    await connection.execute(
        """
        insert into agent_cursors values ('w', 'alice', 9);
        insert into held_intents values
            ('w', 'alice', 'r', 1, 1, true, '{}', sha256('b'), 9, null, null, false, false, 2, now(), '{}');
        insert into open_ticks values ('w', 3, 9, 2.25, 'unity');
        insert into snapshots values ('w', 9, sha256('c'), 'sandbox', 1, sha256('{}'), '{}', 2);
        insert into projection_builds (build, projection, version, status) values ('games_1', 'games', 1, 'live');
        insert into projection_cursors values ('games_1', 'w', 8);
        insert into projection_pending values ('games_1', 'w', 9);
        insert into projection_parked values ('games_1', 'w', 9, 'EntityMoved', 'no such piece');
        insert into projection_leases values ('projections', 'somebody');
        create table projections.games_1 (id serial primary key, world_id text);
        insert into projections.games_1 (world_id) values ('w');
        create view projections.games as select * from projections.games_1;
        """
    )


async def disarm(connection: Connection) -> None:
    """Take the triggers away, as a superuser can."""
    for table in TABLES:
        await connection.execute(f"alter table {table} disable trigger all")


async def verdict(connection: Connection, world_id: str = "w") -> tuple[bool, int | None, str | None]:
    """Ask the view for one world: verified, problem_seq, problem."""
    row = await connection.fetchrow("select * from verification where world_id = $1", world_id)
    assert row is not None
    return row["verified"], row["problem_seq"], row["problem"]


@asynccontextmanager
async def connected(url: str, **settings: str) -> AsyncIterator[Connection]:
    """Open a connection, and close it."""
    connection = await asyncpg.connect(url, server_settings=settings)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def undone(connection: Connection) -> AsyncIterator[None]:
    """Roll back whatever the block does to the database and to the session's settings."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


def with_database(url: str, database: str) -> str:
    """Return the same server's address with another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def with_user(url: str, user: str, password: str) -> str:
    """Return the same address for another user."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{place}"))
