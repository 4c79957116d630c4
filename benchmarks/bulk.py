"""Bulk import by COPY, against a bare COPY of the same text into a table with only the primary key."""

from __future__ import annotations

import asyncpg
from worldledger_service.store import Store

from benchmarks.harness import Report, draft, say
from worldledger.genesis import NewWorld

COUNT = 200_000

BARE_TABLE = """
create table bare_texts (world_id text collate "C", global_seq bigint, effect json not null,
                         primary key (world_id, global_seq))
"""


async def run(report: Report, url: str, store: Store) -> None:
    """Measure bulk import and note the goal."""
    say("bulk import")
    connection = await asyncpg.connect(url)
    await connection.execute(BARE_TABLE)
    drafts = [draft(index) for index in range(COUNT)]
    await store.create_world(NewWorld(world_id="bulk-probe"))
    await (await store.log("bulk-probe")).append(drafts[0])  # type: ignore[arg-type]
    text = (await store.reader.effect("bulk-probe", 2)).text.decode()
    worlds = 0
    bare_worlds = 0

    async def bare() -> int:
        nonlocal bare_worlds
        bare_worlds += 1
        name = f"bare-{bare_worlds}"
        records = ((name, seq, text) for seq in range(1, COUNT + 1))
        await connection.copy_records_to_table("bare_texts", records=records)
        return COUNT

    async def ours() -> int:
        nonlocal worlds
        worlds += 1
        await store.import_world(NewWorld(world_id=f"bulk-{worlds}"), drafts)  # type: ignore[arg-type]
        return COUNT

    await report.compare({"bare COPY of 200k texts": bare, "bulk import of 200k effects": ours})
    await connection.close()
    report.ratio("bulk import over a bare COPY", "bulk import of 200k effects", "bare COPY of 200k texts", 0.4)
