"""Appending: one caller, sixteen callers on one world and on sixteen, against a bare INSERT and a peer library."""

from __future__ import annotations

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
from worldledger_service.database.engine import connect_pool
from worldledger_service.store import EventLog, Store, statements

from benchmarks.apart import apart
from benchmarks.harness import Report, draft, say
from worldledger.genesis import NewWorld

CALLERS = 16
#: Effects that a lone caller appends before it is the peer's turn.
SLICE = 100

BARE_TABLE = """
create table bare_effects (like effects including defaults including constraints including indexes);
grant insert on bare_effects to worldledger_service;
"""
BARE_INSERT = """
insert into bare_effects (world_id, global_seq, effect, checksum, kind, source_id, sim_time)
values ($1, $2, $3, $4, $5, $6, $7)
"""


async def run(report: Report, url: str, store: Store) -> None:
    """Measure appends and note the goals."""
    say("appends")
    connection = await asyncpg.connect(url)
    await connection.execute(BARE_TABLE)
    for number in range(CALLERS + 1):
        await store.create_world(NewWorld(world_id=f"bench-{number}"))
    logs = [await store.log(f"bench-{number}") for number in range(CALLERS)]
    alone = await store.log(f"bench-{CALLERS}")
    await alone.append_all([draft(index) for index in range(1000)])  # type: ignore[misc]
    for table in ("heads", "effects", "bare_effects"):
        await connection.execute(f"vacuum analyze {table}")
    row = await store.reader.effect(alone.world_id, 2)
    # The peer works as the service does: under its role, with its limit on the time of a statement.
    plain = await connect_pool(url, min_size=1, max_size=1)
    service = await plain.acquire()
    text = row.text.decode()
    drafts = [draft(index) for index in range(SLICE)]
    seq = 0

    async def bare() -> int:
        nonlocal seq
        for _ in range(SLICE):
            seq += 1
            await service.execute(BARE_INSERT, "bench", seq, text, row.checksum, row.kind, row.source_id, row.sim_time)
        return SLICE

    async def one() -> int:
        for each in drafts:
            await alone.append(each)  # type: ignore[arg-type]
        return SLICE

    statement_head = await store.create_world(NewWorld(world_id="bench-statement"))
    at = statement_head.head_seq
    later = statement_head.wall_time

    async def statement() -> int:
        nonlocal at
        for _ in range(SLICE):
            await service.execute(
                statements.APPEND_ONE, "bench-statement", at, text, row.checksum, later, later, row.kind, row.source_id
            )
            at += 1
        return SLICE

    peer = Peer(url)
    # In short slices: the time of an fsync drifts, and a ratio must not.
    free = Report()
    await free.compare({"bare": bare, "one caller, processors shared with the server": one}, slices=20)
    async with apart(connection) as are_apart:
        await report.compare(
            {"bare INSERT with commit": bare, "append statement alone": statement, "one caller": one}, slices=20
        )
    await report.compare(
        {
            "16 callers, one world": lambda: callers([logs[0]] * CALLERS),
            "16 callers, 16 worlds": lambda: callers(logs),
            "eventsourcing 9.5, 16 threads": peer.run,
        }
    )
    peer.close()
    await plain.release(service)
    await plain.close()
    await connection.close()
    report.ratio(
        "the append statement alone: time over a bare INSERT",
        "append statement alone",
        "bare INSERT with commit",
        1.25,
        inverse=True,
    )
    report.ratio("one caller: time over a bare INSERT", "one caller", "bare INSERT with commit", 1.25, inverse=True)
    bare_rate, shared_rate = (figure.rate for figure in free.figures.values())
    if are_apart:
        report.tell(
            "one caller, processors shared with the server: time over a bare INSERT", bare_rate / shared_rate, ""
        )
    report.ratio("16 callers on one world over one caller", "16 callers, one world", "one caller", 6)
    report.ratio(
        "16 callers on one world over eventsourcing 9.5", "16 callers, one world", "eventsourcing 9.5, 16 threads", 8
    )
    report.ratio("16 callers on 16 worlds over on one", "16 callers, 16 worlds", "16 callers, one world", 0.5)


async def callers(logs: list[EventLog], each: int = 1000) -> int:
    """Append from as many tasks as there are logs, one effect a call."""

    async def caller(log: EventLog) -> None:
        for index in range(each):
            await log.append(draft(index))  # type: ignore[arg-type]

    await asyncio.gather(*(caller(log) for log in logs))
    return each * len(logs)


class Peer:
    """The PostgreSQL recorder of the `eventsourcing` library in its default mode, sixteen threads."""

    def __init__(self, url: str) -> None:
        from eventsourcing.persistence import StoredEvent  # noqa: PLC0415 - only this benchmark needs it
        from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore  # noqa: PLC0415

        address = urlsplit(url)
        options = parse_qs(address.query)
        self._event: Any = StoredEvent
        self._datastore = PostgresDatastore(
            dbname=address.path[1:],
            host=options.get("host", [address.hostname or ""])[0],
            port=options.get("port", [str(address.port or 5432)])[0],
            user=address.username or "",
            password=unquote(address.password or ""),
            pool_size=CALLERS,
        )
        self._recorder = PostgresApplicationRecorder(self._datastore)
        self._recorder.create_table()
        self._threads = ThreadPoolExecutor(CALLERS)
        import orjson  # noqa: PLC0415

        self._state = orjson.dumps(draft(1)["payload"])

    async def run(self) -> int:
        """Record one event a call from every thread."""

        def record(each: int) -> None:
            originator = uuid.uuid4()
            for version in range(each):
                self._recorder.insert_events([self._event(originator, version, "Move", self._state)])

        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._threads, record, 60) for _ in range(CALLERS)))
        return 60 * CALLERS

    def close(self) -> None:
        """Let go of threads and connections."""
        self._threads.shutdown()
        self._datastore.close()
