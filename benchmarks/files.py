"""A million rows of a file as the effects of a world, the whole command, against a plain COPY of the same CSV."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from pathlib import Path

import asyncpg
import pyarrow.csv
import pyarrow.parquet

from benchmarks.harness import Figure, Goal, Report, say
from benchmarks.million import LIMIT_MIB, command

COUNT = 1_000_000
ROUNDS = 3
COLUMNS = ("time", "agent", "event", "price", "amount", "note")
TABLE = """
create table bare_rows (time float8, agent text, event text, price float8, amount int, note text,
                        row bigserial primary key)
"""


async def run(report: Report, url: str, folder: Path) -> None:
    """Measure imports of the formats by the command, in turn with COPY, and what memory and processor they take."""
    say(f"files of {COUNT:,} rows")
    files = _write(folder)
    connection = await asyncpg.connect(url)
    await connection.execute(TABLE)
    bare = Figure(f"plain COPY of {COUNT:,} rows")
    figures = {kind: Figure(f"import {kind} of {COUNT:,} rows") for kind in files}
    report.figures |= {figure.name: figure for figure in (bare, *figures.values())}
    peaks: dict[str, float] = {}
    used: dict[str, float] = {}
    for turn in range(ROUNDS):
        await connection.execute("truncate bare_rows")
        await connection.execute("checkpoint")
        start = time.perf_counter()
        await connection.copy_to_table(
            "bare_rows", source=files["csv"], columns=COLUMNS, format="csv", header=True, timeout=600
        )
        bare.rates.append(COUNT / (time.perf_counter() - start))
        for kind, file in files.items():
            await connection.execute("checkpoint")
            arguments = ["import", kind, str(file), "--world", f"{kind}-{turn}", "--database-url", url]
            start, before = time.perf_counter(), _processor()
            peaks[kind] = await asyncio.to_thread(command, arguments)
            figures[kind].rates.append(COUNT / (time.perf_counter() - start))
            used[kind] = _processor() - before
    start = time.perf_counter()
    await asyncio.to_thread(command, ["import", "csv", str(files["csv"]), "--world", "csv-0", "--database-url", url])
    report.tell(f"import csv of {COUNT:,} rows that are there already", time.perf_counter() - start, "s")
    await connection.close()
    for figure in (bare, *figures.values()):
        say(f"  {figure.name}: {figure.rate:,.0f}/s")
    for kind, figure in figures.items():
        report.ratio(f"{figure.name}, the whole command, over a plain COPY", figure.name, bare.name, 0.04)
        report.note(Goal(f"{figure.name}: peak memory", peaks[kind], LIMIT_MIB, at_least=False, unit="MiB"))
        report.tell(f"{figure.name}: processor's seconds of the command", used[kind], "s")


def _processor() -> float:
    """Return the seconds of the processor that ended processes of this one have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write(folder: Path) -> dict[str, Path]:
    """Write the same rows in each format, about 60 bytes each as CSV."""
    files = {kind: folder / f"rows.{kind}" for kind in ("csv", "jsonl", "parquet")}
    with files["csv"].open("w") as csv, files["jsonl"].open("w") as lines:
        csv.write(",".join(COLUMNS) + "\n")
        for index in range(COUNT):
            row = (
                index / 10,
                f"agent-{index % 10}",
                "Sold" if index % 3 else "Bought",
                index % 97 / 4,
                index % 50,
                "n" * 20,
            )
            csv.write(",".join(map(str, row)) + "\n")
            lines.write(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n")
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(files["csv"]), files["parquet"])
    return files
