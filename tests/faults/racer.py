"""A program: one process that appends to worlds as fast as it can; see test_processes.

``python racer.py URL NAME COUNT`` appends COUNT effects to the world ``different`` under req_ids of its own, then to
the world ``same`` under those of every other racer, several at a time. Before each world it prints ``ready`` and waits
for a line on stdin; after it, it prints what it was told as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from worldledger_service.settings import Settings
from worldledger_service.store import EventLog, Store

from worldledger.effects import EffectDraft


def say(line: str) -> None:
    """Say a line to the test."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def main(url: str, name: str, count: int) -> None:
    """Race."""
    async with Store.open(url, Settings(pool_size=3)) as store:
        for world, who in (("different", name), ("same", "all")):
            log = await store.log(world)
            say("ready")
            await asyncio.to_thread(sys.stdin.readline)
            say(json.dumps(await race(log, who, count)))


async def race(log: EventLog, who: str, count: int) -> dict[str, Any]:
    """Append to a world; return what was told of each request."""
    told: dict[str, Any] = {}

    async def caller(numbers: range) -> None:
        for n in numbers:
            draft: EffectDraft = {
                "kind": "Said",
                "payload": {"by": who, "n": n},
                "source_id": "racer",
                "schema_version": "1.0.0",
                "req_id": f"{who}-{n}",
            }
            (receipt,) = await log.append_all([draft])
            told[f"{who}-{n}"] = receipt

    await asyncio.gather(*(caller(range(start, count, 4)) for start in range(4)))
    return told


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
