"""A million effects as Arrow: by the client over HTTP beside a bare ADBC read, and as Parquet, with the peak memory."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from shutil import rmtree

from adbc_driver_postgresql import dbapi
from worldledger_service.store import Store

from benchmarks.harness import Goal, Report, draft, say
from benchmarks.million import PEAK, command
from worldledger.client import Client, ServiceUnavailableError
from worldledger.genesis import NewWorld

#: How many effects; fewer for a look.
COUNT = int(os.environ.get("BENCH_EFFECTS", "1000000"))
LIMIT_MIB = 1024
_STORED = "world_id, global_seq, kind, source_id, sim_time, recorded_at, effect::text, checksum"
#: The columns of `worldledger.client.Client.effects`, as SQL gives them.
_COLUMNS = """
    e.world_id, w.experiment, e.global_seq, e.kind, e.source_id, e.sim_time as sim_time_s,
    to_timestamp((e.effect ->> 'wall_time')::float8) as recorded_at, e.recorded_at as stored_at,
    (e.effect ->> 'caused_by')::bigint as caused_by, e.effect ->> 'req_id' as req_id,
    (e.effect ->> 'priority')::int as priority, e.effect ->> 'schema_version' as schema_version,
    e.effect ->> 'uuid' as uuid, (e.effect -> 'payload')::text as payload,
    (e.effect -> 'source_metadata')::text as source_metadata, e.checksum
"""


async def run(report: Report, url: str, store: Store, folder: Path) -> None:
    """Fill two worlds, then read all of it in turn by each of the ways."""
    say("arrow")
    for name in ("one", "two"):
        await store.create_world(NewWorld(world_id=name, experiment="million"))
        await store.bulk_append(name, (draft(n) for n in range(COUNT // 2 - 1)))  # type: ignore[misc]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", PEAK, "serve", "--port", str(port), "--database-url", url],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "WORLDLEDGER_PROJECTIONS": "false"},
    )
    try:
        async with Client(f"http://127.0.0.1:{port}", patience=60) as client:
            await _compare(report, url, client)
    finally:
        server.terminate()
        _, errors = await asyncio.to_thread(server.communicate)
    peak = float(errors.strip().splitlines()[-1])
    report.tell(f"Arrow stream of {COUNT:,} effects: peak memory of the server", peak, "MiB")
    await asyncio.to_thread(_parquet, report, url, folder)


async def _compare(report: Report, url: str, client: Client) -> None:
    while True:  # until the service is there
        try:
            await client.effects(kind="none").to_arrow()
            break
        except ServiceUnavailableError:
            await asyncio.sleep(0.1)

    async def bare() -> int:
        return await asyncio.to_thread(_read, url, f"select {_STORED} from effects order by world_id, global_seq")

    async def arrow() -> int:
        return int((await client.effects(experiment="million").to_arrow()).num_rows)

    async def polars() -> int:
        return (await client.effects(experiment="million").to_polars()).height

    stored, whole, frame = (
        "bare ADBC read of the stored rows",
        "effects to Arrow over HTTP",
        "effects to polars over HTTP",
    )
    await report.compare({stored: bare, whole: arrow, frame: polars})
    statement = f"select {_COLUMNS} from effects e join worlds w using (world_id) order by e.world_id, e.global_seq"
    start = time.perf_counter()
    rate = await asyncio.to_thread(_read, url, statement) / (time.perf_counter() - start)
    report.tell("bare ADBC read of the same columns", rate, "effects a second")
    for name in (whole, frame):
        what = f"{name}: time over that of a bare ADBC read"
        report.note(Goal(f"{what} of the same columns", rate / report.figures[name].rate, 2, at_least=False))
        report.tell(
            f"{what} of the stored rows, uncut", report.figures[stored].rate / report.figures[name].rate, "times"
        )


def _read(url: str, statement: str) -> int:
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetch_arrow_table().num_rows)


def _parquet(report: Report, url: str, folder: Path) -> None:
    for name, more in (("effects", ["--effects-only"]), ("effects and views", [])):
        lake = folder / "lake"
        start = time.perf_counter()
        peak = command(["export", "parquet", "-o", str(lake), "--database-url", url, *more])
        report.tell(f"export parquet: {name}", COUNT / (time.perf_counter() - start), "effects a second")
        size = sum(path.stat().st_size for path in lake.rglob("*.parquet")) / COUNT
        report.tell(f"export parquet: {name}", size, "bytes an effect")
        what = f"export parquet of {COUNT:,} effects ({name}): peak memory"
        report.note(Goal(what, peak, LIMIT_MIB, at_least=False, unit="MiB"))
        start = time.perf_counter()
        command(["export", "parquet", "-o", str(lake), "--database-url", url])
        report.tell(f"export parquet: {name}, nothing new", time.perf_counter() - start, "s")
        rmtree(lake)
